"""Global latency patterns through the first cache and past it, and whether that cache asks a TLB before it hits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Answer, Array, Experiment, Finding, Hierarchy, Pattern, Probe, Space
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.patterns.latency_experiment import (
    MAX_CACHE_FILL_SHARE,
    MISS_ENTRIES_RATIO,
    PAGE_OFFSET_LINES,
    SWEPT_PAGE_COUNTS,
    HierarchyGeometry,
    known_geometry,
    side_by_side_bytes,
    visits_of,
)
from clmembench.studies.hierarchy.patterns.latency_patterns import (
    MAX_TRACE_EXCESS_CYCLES,
    MAX_TRACE_RELATIVE_DEFICIT,
    as_pattern_findings,
    measure_patterns,
)
from clmembench.studies.hierarchy.probes.typical_latency import (
    MAX_CLOCK_STEP_SHARE,
    MAX_SAME_LATENCY_RELATIVE_DIFFERENCE,
    MIN_TYPICAL_SHARE,
    clock_step,
    two_groups,
)

NAME = "translation"
# Thresholds and limits, each with its reason
MIN_OVERFLOW_RATIO = 1.25  # times a TLB's entries: going round fewer pages may leave most of them in it


@dataclass(frozen=True, slots=True)
class PatternLimits:
    """What an array may span, the core's clock, the space that passes by the first cache ("global": none does), and how the
    TLBs were found: `overflowed` where that took more lines than the first cache holds; `shows_memory`: no larger cache may lie
    beyond all measured sets; `translates_first`: the method itself took the first cache to ask a TLB, as those of CPUs do."""

    most_bytes: int
    ghz: float | None
    through: Space
    overflowed: bool
    shows_memory: bool
    translates_first: bool


@dataclass(frozen=True, slots=True)
class PathCost:
    """Latencies of one path, each access's own: going round lines side by side, and a line of each page. Of the latter some may
    miss a further TLB as well. `why` there are none."""

    near: Array
    far: Array
    unit: str = "cycles"
    step: float = 0.0
    why: str = ""

    @property
    def hit(self) -> float:
        return float(np.median(self.near))

    @property
    def added(self) -> str:
        """What pages add to lines side by side: of two groups of them, both."""
        parted = two_groups(self.far, self.step)
        groups = [self.far] if parted is None else list(parted)
        return " to ".join(f"{float(np.median(group)) - self.hit:.3g}" for group in groups) + f" {self.unit}"

    @property
    def asks(self) -> bool | None:
        """True if most of the pages take longer than most lines side by side, False if both are alike; None where neither is
        sure."""
        most, same = 100 * MIN_TYPICAL_SHARE, self.hit * MAX_SAME_LATENCY_RELATIVE_DIFFERENCE
        least, late = np.percentile(self.far, 100 - most), np.percentile(self.near, most)
        if least > max(late, self.hit + same) + self.step:
            return True
        alike = abs(float(np.median(self.far)) - self.hit) <= same + self.step
        return False if alike and np.percentile(self.far, most) <= late + same + self.step else None


def with_patterns(whole: Hierarchy, limits: PatternLimits) -> Experiment[Hierarchy]:
    """The hierarchy with P1 to P6 through global memory and, where loads can pass by the first cache, past it; its first TLB
    with whether that cache asks it. Of a run stored before there was a path past it, nothing is said of that."""
    known = _geometry(whole, "global", limits)
    met = yield from measure_patterns(known, limits.ghz, "global", limits.most_bytes)
    whole = replace(whole, patterns=as_pattern_findings(met))
    if limits.through != "global":
        past = _geometry(whole, limits.through, limits)
        met = yield from measure_patterns(past, limits.ghz, limits.through, limits.most_bytes)
        if any(latency.cycles.evidence for latency in met.values()):
            whole = replace(whole, patterns_past=as_pattern_findings(met))
    if limits.translates_first or not whole.tlb:
        return whole
    found = yield from measure_translation(whole, known, limits)
    if found is None:
        return whole
    first = replace(whole.tlb[0], findings={**whole.tlb[0].findings, NAME: found})
    return replace(whole, tlb=(first, *whole.tlb[1:]))


def measure_translation(whole: Hierarchy, known: HierarchyGeometry, limits: PatternLimits) -> Experiment[Finding | None]:
    """Whether the first cache asks a TLB: "before L1" where pages that the TLB cannot hold take longer although their lines
    stay in that cache, "behind L1" where they do not and past that cache they do. None of a run that was not asked."""
    first = next((level for level in whole.levels if level.space == "global" and level.name != "DRAM"), None)
    if first is None:
        return None
    pattern = translation_pattern(known, limits.most_bytes)
    if isinstance(pattern, str):
        return undetermined_finding(NAME, pattern)
    pages, lap = pattern
    spaces: list[Space] = ["global", *([limits.through] if limits.through != "global" else [])]
    record = 2 * pages * (1 + visits_of(known))
    answers = yield [Probe(lap, space, "trace", 0, record, cold=True) for space in spaces]
    if not all(answer.evidence for answer in answers):
        return None
    costs = [read_path(answer, pages, visits_of(known)) for answer in answers]
    evidence = tuple(dict.fromkeys(e for answer in answers for e in answer.evidence))
    value, said = place(costs, first.findings.get("latency_cycles"), first.name, limits.overflowed)
    method = f"going round {pages} pages, a line of each, and as many lines side by side"
    if value is None:
        return undetermined_finding(NAME, said, method, evidence)
    return measured_finding(NAME, f"{value} {first.name}", f"{method}: {said}", evidence)


def translation_pattern(known: HierarchyGeometry, most_bytes: int) -> tuple[int, Pattern] | str:
    """How many pages to go round, and the lap: a line of each, then as many lines side by side; or why there is none."""
    page, line, near = known.page_bytes, known.line_bytes, known.near_pages
    if page is None or near is None or known.cache_bytes is None:
        return "the first TLB's page and entries and the first cache's size must be known"
    held = int(MAX_CACHE_FILL_SHARE * known.cache_bytes / line)
    fitting = most_bytes // (page + PAGE_OFFSET_LINES * line) - 1
    pages = min(MISS_ENTRIES_RATIO * near, held, fitting, SWEPT_PAGE_COUNTS[-1])
    if pages < MIN_OVERFLOW_RATIO * near:
        return f"more pages than {near} entries hold have more lines than the first cache, or span more than {most_bytes} B"
    offset = side_by_side_bytes(known, pages)
    if not offset:
        return f"{pages} lines side by side span more pages than {near} entries surely hold"
    again, rounds = -(-pages * (page + offset) // page) * page, 1 + visits_of(known)
    segments = f"0:{page + offset}:{pages}:{rounds};{again}:{offset}:{pages}:{rounds}"
    return pages, Pattern("segments", segments=segments)


def read_path(answer: Answer, pages: int, visits: int) -> PathCost:
    """Both latencies from the trace of `translation_pattern`; the first round of each stretch only brings its lines in."""
    if answer.latencies is None:
        return PathCost(np.empty(0), np.empty(0), answer.unit, why=answer.reason or "no latencies of single accesses")
    latencies, each = np.median(answer.latencies, axis=0), pages * (1 + visits)
    step = clock_step(answer.latencies)
    far, near = (latencies[start + pages : start + each] for start in (0, each))
    coarse = step > MAX_CLOCK_STEP_SHARE * float(np.median(near))
    why = f"the clock inside the kernel steps by {step:g}, too coarsely to resolve a latency" if coarse else ""
    return PathCost(near, far, answer.unit, step, why)


def place(costs: Sequence[PathCost], hit: Finding | None, name: str, overflowed: bool) -> tuple[str | None, str]:
    """ "before" or "behind" the cache `name`, and what shows it; None, and why. `costs`: through that cache, and past it where
    loads can. `overflowed`: a TLB was seen only where that cache was overflowed."""
    through, *past = costs
    unheld = next(_not_held(costs, hit, name), "")
    if through.why or unheld:
        return None, f"through {name}: {through.why or unheld}"
    if through.asks is None:
        return None, f"through {name}, pages that no TLB holds take {through.added} more, which is not sure"
    beyond = f"{past[0].added} past it" if past and not past[0].why and past[0].asks else ""
    if through.asks:
        return "before", f"a miss of the TLB adds {through.added} where {name} hits" + (f", {beyond}" if beyond else "")
    if beyond:
        return "behind", f"a miss of the TLB adds nothing where {name} hits, {beyond}"
    if past:
        return None, f"pages that no TLB holds take no longer where {name} hits, and past it {_unseen(past[0])}"
    if overflowed:
        return "behind", f"a miss of the TLB adds nothing where {name} hits, and is seen where {name} is overflowed"
    return None, f"pages that no TLB holds take no longer where {name} hits, and no load passes by it"


def _not_held(costs: Sequence[PathCost], hit: Finding | None, name: str) -> Iterator[str]:
    """Why lines side by side may not be those of the first cache."""
    near = costs[0].hit if not costs[0].why else 0.0
    most = 1 + MAX_SAME_LATENCY_RELATIVE_DIFFERENCE
    if len(costs) > 1 and not costs[1].why and costs[1].hit <= near * most:
        yield f"as many lines take no less than past {name}, so that they may not stay in it"
    longest = hit.high if hit is not None and hit.status == "ok" and costs[0].unit == hit.unit else None
    if longest is not None and near - longest > max(MAX_TRACE_EXCESS_CYCLES, MAX_TRACE_RELATIVE_DEFICIT * longest):
        yield f"as many lines take {near:.4g}, longer than its hits, {longest:.4g}: they do not stay in it"


def _unseen(past: PathCost) -> str:
    return past.why or "they are not seen for certain to take longer"


def _geometry(whole: Hierarchy, space: Space, limits: PatternLimits) -> HierarchyGeometry:
    known: HierarchyGeometry = known_geometry(whole, space)
    return known if limits.shows_memory else replace(known, last_bytes=None)
