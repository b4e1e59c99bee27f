"""Global latency patterns P1 to P6: hit or miss in data cache, TLBs and page-table context, in one chase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Answer, Experiment, Finding, Probe, Space
from clmembench.studies.hierarchy.patterns.latency_experiment import (
    FAR_PAGE_SPACING_BYTES,
    HierarchyGeometry,
    PatternExperiment,
    lap_variants,
    pattern_laps,
    pattern_trace,
)
from clmembench.studies.hierarchy.probes.typical_latency import (
    MAX_INTERVAL_RELATIVE_HALF_WIDTH,
    MAX_TYPICAL_RELATIVE_DISTANCE,
    MIN_ACCESSES,
    NO_SUCH_ACCESS,
    TraceReader,
    TypicalLatency,
    clock_step,
    two_groups,
)

TRACE_METHOD, LAP_METHOD = "non-uniform strides, access by access", "a lap of its own"
# Thresholds and limits, each with its reason
MAX_TRACE_RELATIVE_DEFICIT, MAX_TRACE_EXCESS_CYCLES = (
    0.25,
    32.0,
)  # how much shorter hits may be in a trace than in a lap, as a fraction, and how much longer
MIN_CONTEXT_SWITCH_RATIO = 1.08  # an access to a far page that takes longer than most may be a change of page-table context
NO_TLB_FOUND = "no TLB was found on this device, so that it is unknown what first accesses to far pages miss besides the caches"
PATTERN_NAMES = ("P1", "P2", "P3", "P4", "P5", "P6")


def measure_patterns(
    known: HierarchyGeometry, ghz: float | None = None, space: Space = "global", most_bytes: int = 4 << 30
) -> Experiment[Mapping[str, PatternLatency]]:
    """Asks for one cold trace that meets all patterns there are, and reads it; where the clock inside the kernel is too coarse
    for a hit, or there is none, for laps that meet them one by one too.

    `most_bytes` is what an array may span; `ghz` the core's clock, to tell ns where latencies are in cycles, and the reverse.
    """
    asked = pattern_trace(known, space, most_bytes)
    wanted = pattern_laps(known, space, most_bytes)
    hits = wanted["P1"]
    assert isinstance(hits, Probe)
    answer, *again = yield [asked.probe, *lap_variants(hits)]
    lap = median_of_variants(again)
    found = read_trace(asked, answer, ghz, lap if lap.value is not None and answer.latencies is not None else None)
    if found["P1"].accesses:
        return found
    probes = {name: probe for name, probe in wanted.items() if isinstance(probe, Probe)}
    each = len(again)
    answers = yield [probe for lap_of in probes.values() for probe in lap_variants(lap_of)]
    laps_of = {name: median_of_variants(answers[n * each : (n + 1) * each]) for n, name in enumerate(probes)}
    instead = read_laps(laps_of, wanted, ghz)
    return {name: found[name] if found[name].accesses else instead[name] for name in PATTERN_NAMES}


def median_of_variants(answers: Sequence[Answer]) -> Answer:
    """The median of variants of one lap, which another must be within 5% of: else one without a value, and why. Where one of
    them is further off, the reason says so beside the value."""
    told = sorted((a for a in answers if a.value is not None), key=lambda a: a.value or 0.0)
    if not told:
        return answers[0]
    middle = told[len(told) // 2]
    values = [a.value or 0.0 for a in told]
    near = sum(abs(v - (middle.value or 0.0)) <= MAX_INTERVAL_RELATIVE_HALF_WIDTH * (middle.value or 0.0) for v in values)
    if near > 1 and (len(told) < 3 or near > len(told) // 2):
        others = ", ".join(
            f"{v:.4g}"
            for v in values
            if abs(v - (middle.value or 0.0)) > MAX_INTERVAL_RELATIVE_HALF_WIDTH * (middle.value or 0.0)
        )
        off = f"{len(told) - near} of {len(told)} laps that should be alike takes {others}" if others else ""
        return replace(middle, evidence=tuple(e for a in told for e in a.evidence), reason=off)
    why = f"laps that should be alike take {values[0]:.4g} to {values[-1]:.4g}"
    return replace(middle, value=None, low=None, high=None, reason=why)


def read_trace(
    asked: PatternExperiment, answer: Answer, ghz: float | None = None, lap: Answer | None = None
) -> Mapping[str, PatternLatency]:
    """Each pattern's latency, with 95% interval over its accesses, from a trace's latencies.

    `lap` is the answer to a lap of hits, as P1 of `pattern_laps`: it is P1's value, and what the trace's hits take longer is
    the clock's own cost, which is taken off all other accesses. A trace whose hits are over a tenth shorter than the lap's, or
    over 32 longer, is not believed.

    A pattern that the device does not have is undetermined with a reason that begins `not present`; so is one that could not
    be met, and one whose accesses do not agree.
    """
    if answer.latencies is None:
        why = answer.reason or "no latencies of single accesses"
        return {name: pattern_latency(TypicalLatency(why=why), name, answer, TRACE_METHOD, ghz) for name in PATTERN_NAMES}
    latencies = np.median(answer.latencies, axis=0)  # over repeats: what disturbs one is not in the others
    cut = TraceReader(latencies, clock_step(answer.latencies))
    near = _accesses_of_role(asked, "P1")
    hit = cut.of(near)
    if lap is not None and lap.value is not None and lap.low is not None and lap.high is not None:
        raw = cut.mean(near)
        if (
            not -MAX_TRACE_RELATIVE_DEFICIT * lap.value
            <= raw - lap.value
            <= max(MAX_TRACE_EXCESS_CYCLES, MAX_TRACE_RELATIVE_DEFICIT * lap.value)
        ):
            why = f"hits take {raw:.4g} on their own and {lap.value:.4g} in a lap: single accesses are not timed right"
            return {name: pattern_latency(TypicalLatency(why=why), name, answer, TRACE_METHOD, ghz) for name in PATTERN_NAMES}
        cut = replace(cut, latencies=latencies - (raw - lap.value), own_cost=lap.high - lap.low)
        hit = TypicalLatency(lap.value, lap.low, lap.high, near, said=lap.reason)
    far = _accesses_of_role(asked, "far")
    laps = [(s.pages, cut.of(s.counted)) for s in asked.stages if s.role == "lap"]
    second, third = _tlb_misses(asked, hit, laps, cut)
    miss = cut.of(_accesses_of_role(asked, "P4"))
    if miss.sure and hit.sure and miss.value < hit.value * (1 + MAX_TYPICAL_RELATIVE_DISTANCE):
        miss = TypicalLatency(why="lines that were not used before take no longer: the caches were not empty")
    walk, context = (
        _far_page_latencies(cut, far, asked)
        if far
        else (cut.of(_accesses_of_role(asked, "touch")), TypicalLatency(why="the array is too small"))
    )
    if not (asked.known.translates or second.sure or third.sure):
        walk, context = (_latency_without_tlb(f) for f in (walk, context))
    found = dict(zip(PATTERN_NAMES, (hit, second, third, miss, _beyond_cache_latency(miss, walk), context), strict=True))
    # the lap is P1's value, and what the clock costs by itself is known from it for all others
    whole = answer if lap is None else replace(answer, evidence=tuple(dict.fromkeys((*answer.evidence, *lap.evidence))))
    first = (answer, TRACE_METHOD) if lap is None else (replace(answer, evidence=lap.evidence, reason=lap.reason), LAP_METHOD)
    return {
        name: pattern_latency(f, name, *(first if name == "P1" else (whole, TRACE_METHOD)), ghz) for name, f in found.items()
    }


def read_laps(
    answers: Mapping[str, Answer], wanted: Mapping[str, Probe | str], ghz: float | None = None
) -> Mapping[str, PatternLatency]:
    """Each pattern's latency from the mean of a lap of its own, as `pattern_laps` requests them. Absent patterns are
    reported as by `read_trace`."""
    found: dict[str, TypicalLatency] = {}
    for name in PATTERN_NAMES:
        lap, answer = wanted[name], answers.get(name)
        if isinstance(lap, str):
            found[name] = TypicalLatency(why=lap)
        elif answer is None or answer.value is None or answer.low is None or answer.high is None:
            found[name] = TypicalLatency(why=(answer.reason if answer else "") or "its lap was not measured")
        else:
            found[name] = TypicalLatency(answer.value, answer.low, answer.high, said=answer.reason)
    found["P2"], found["P3"] = _beyond_tlb_latencies(found["P1"], found["P2"], found["P3"])
    found["P5"] = _beyond_cache_latency(found["P4"], found["P5"])
    nothing = next(iter(answers.values()))
    return {name: pattern_latency(found[name], name, answers.get(name, nothing), LAP_METHOD, ghz) for name in PATTERN_NAMES}


def _tlb_misses(
    asked: PatternExperiment, hit: TypicalLatency, laps: Sequence[tuple[int, TypicalLatency]], cut: TraceReader
) -> tuple[TypicalLatency, TypicalLatency]:
    """P2 and P3: laps over more pages than the L1 TLB holds, and over more than the L2 TLB holds as well."""
    known = asked.known
    if not hit.sure:
        return TypicalLatency(why="a hit's latency is not known"), TypicalLatency(why="a hit's latency is not known")
    if known.near_pages is None or known.all_pages is None:
        return _tlb_plateaus(asked, hit, laps)
    second = next((f for n, f in laps if n <= known.all_pages), TypicalLatency(why=asked.unmet.get("P2", NO_SUCH_ACCESS)))
    third = next((f for n, f in laps if n > known.all_pages), TypicalLatency(why=asked.unmet.get("P3", NO_SUCH_ACCESS)))
    lap = next((s.counted for s in asked.stages if s.role == "lap" and s.pages <= known.all_pages), ())
    return _beyond_tlb_latencies(hit, second if second.sure else _less_of_third(cut, lap, hit, second, third), third)


def _less_of_third(
    cut: TraceReader, lap: Sequence[int], hit: TypicalLatency, second: TypicalLatency, third: TypicalLatency
) -> TypicalLatency:
    """P2 where its accesses fall into two groups and the slower one takes as long as P3: those missed the L2 TLB as well, whose
    sets do not fill evenly, and P2 are the others."""
    parted = two_groups(cut.latencies[list(lap)], cut.clock_step)
    if parted is None or not third.sure:
        return second
    near, far = parted
    slow = TypicalLatency(float(np.median(far)))
    if not slow.like(third):
        return second
    found = cut.of([n for n in lap if cut.latencies[n] <= near[-1]])
    return replace(found, said=f"{far.size} of {len(lap)} accesses take as long as P3") if found.above(hit) else second


def _beyond_tlb_latencies(
    hit: TypicalLatency, second: TypicalLatency, third: TypicalLatency
) -> tuple[TypicalLatency, TypicalLatency]:
    """P2 and P3, each only where it takes longer than what lies before it."""
    found, below = [], hit
    for this, tlb in ((second, "L1"), (third, "L2")):
        if this.sure and below.sure and this.like(below) and not this.above(below):
            this = TypicalLatency(why=f"not present: a miss of the {tlb} TLB costs nothing while the data cache hits")
        elif this.sure and not this.above(below):
            this = TypicalLatency(why="its latency is not distinguishable from that of the pattern before it")
        below = this if this.sure else below
        found.append(this)
    return found[0], found[1]


def _tlb_plateaus(
    asked: PatternExperiment, hit: TypicalLatency, laps: Sequence[tuple[int, TypicalLatency]]
) -> tuple[TypicalLatency, TypicalLatency]:
    """P2 and P3 where a reach is not known: the plateaus of latency over growing numbers of pages."""
    pages = max((n for n, _ in laps), default=0)
    if not pages:
        why = asked.unmet.get("P2", NO_SUCH_ACCESS)
        return TypicalLatency(why=why), TypicalLatency(why=why)
    plateaus: list[list[TypicalLatency]] = [[]]
    for _, lap in laps:
        if not lap.sure:
            continue
        below = plateaus[-1][-1] if plateaus[-1] else hit
        if lap.like(below):
            plateaus[-1].append(lap)
        else:
            plateaus.append([lap])
    levels = [p for p in plateaus if p and p[0].above(hit)]
    if not levels:
        dearest = max((lap.high for _, lap in laps if lap.sure), default=hit.high)
        why = f"not present up to {pages} pages: going round them costs no more than a hit"
        if max(dearest, hit.high) > (1 + MAX_INTERVAL_RELATIVE_HALF_WIDTH) * hit.value:
            why = f"up to {pages} pages it may be {dearest:.4g}: the clock's steps are too coarse to distinguish it from a hit"
        return TypicalLatency(why=why), TypicalLatency(why=why)
    if len(levels) == 2 and len(levels[0]) > 1 and levels[1][0].above(levels[0][-1]):
        return levels[0][0], levels[1][-1]
    why = (
        f"the TLBs' reaches are not known, and up to {pages} pages latency does not climb to two plateaus that could be theirs"
    )
    return TypicalLatency(why=why), TypicalLatency(why=why)


def _far_page_latencies(
    cut: TraceReader, far: Sequence[int], asked: PatternExperiment
) -> tuple[TypicalLatency, TypicalLatency]:
    """P5 and P6 among first accesses to far pages: those that at regular distances take longer are P6 and the others P5. Where
    some take longer at no regular distance, nothing says which of them met what, and P5 rests on all."""
    values = cut.latencies[list(far)]
    longer = values > MIN_CONTEXT_SWITCH_RATIO * np.median(values)
    every = cut.of(far)
    spanned = len(far) * FAR_PAGE_SPACING_BYTES >> 20
    if not longer.any():
        return every, TypicalLatency(
            why=f"not present: of {len(far)} first accesses over {spanned} MiB none takes longer than the others"
        )
    places = np.flatnonzero(longer)
    gaps = np.diff(places)
    if len(places) < MIN_ACCESSES or gaps.min() < 2 or (gaps % gaps.min()).any():
        why = f"{len(places)} of {len(far)} first accesses over {spanned} MiB take longer, at no regular distance"
        return every, TypicalLatency(why=why)
    usual = cut.of([n for n, slow in zip(far, longer, strict=True) if not slow])
    return usual, cut.of([n for n, slow in zip(far, longer, strict=True) if slow])


def _beyond_cache_latency(miss: TypicalLatency, walk: TypicalLatency) -> TypicalLatency:
    """P5, only where it is no less than P4: both miss the caches, and one of them its translation too."""
    if not (walk.sure and miss.sure) or walk.high >= miss.low:
        return walk
    spans = f"{walk.low:.4g} to {walk.high:.4g} against {miss.low:.4g} to {miss.high:.4g}"
    return TypicalLatency(why=f"new pages take less time than new lines of used ones, {spans}")


def _latency_without_tlb(found: TypicalLatency) -> TypicalLatency:
    """A pattern that misses TLBs, where none was found: only that it is not there can be said, or what was seen instead."""
    if not found.sure:
        return found
    return TypicalLatency(
        why=f"{NO_TLB_FOUND}: {len(found.accesses)} of them take {found.value:.4g} ({found.low:.4g} to {found.high:.4g})"
    )


def _accesses_of_role(asked: PatternExperiment, role: str) -> tuple[int, ...]:
    return tuple(n for stage in asked.stages if stage.role == role for n in stage.counted)


@dataclass(frozen=True, slots=True)
class PatternLatency:
    """One pattern's latency in cycles and in ns, and the accesses of the trace (from 0) that met it."""

    cycles: Finding
    ns: Finding
    accesses: tuple[int, ...] = ()


def as_pattern_findings(found: Mapping[str, PatternLatency]) -> Mapping[str, Finding]:
    """As a Hierarchy keeps them: P1 to P6 in cycles, and P1_ns to P6_ns."""
    return {name: f.cycles for name, f in found.items()} | {f"{name}_ns": f.ns for name, f in found.items()}


def pattern_latency(found: TypicalLatency, name: str, answer: Answer, method: str, ghz: float | None) -> PatternLatency:
    """In cycles and in ns, from the records that the answer names."""
    method = f"{method}; {found.said}" if found.said else method
    ratio = ghz or (answer.value / answer.ns if answer.unit == "cycles" and answer.value and answer.ns else None)

    def ends(scale: float) -> tuple[float | None, float | None]:
        low, high = (scale * v if np.isfinite(v) else None for v in (found.low, found.high))
        return low if low is None or low > 0 else None, high  # a clock that steps coarsely gives negative latencies

    def finding(unit: str) -> Finding:
        own, label = answer.unit == unit, f"latency_{name}" + ("_ns" if unit == "ns" else "")
        if not found.sure or (not own and ratio is None):
            why = (
                found.why
                if not found.sure
                else f"the core's clock is not known, so {answer.unit} cannot be converted to {unit}"
            )
            low, high = ends(1.0) if own else (None, None)
            return Finding(label, None, low, high, unit, "undetermined", method, answer.evidence, why)
        scale = 1.0 if own or ratio is None else (1 / ratio if unit == "ns" else ratio)
        value, (low, high) = scale * found.value, ends(scale)
        return Finding(label, value, low, high, unit, "ok", method, answer.evidence)

    return PatternLatency(finding("cycles"), finding("ns"), found.accesses)
