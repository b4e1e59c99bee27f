"""From hypotheses that explain the data to findings: a property on which they disagree is undetermined. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from clmembench.model import Finding
from clmembench.studies.hierarchy.replacement.policies import PolicyDecision, decide_policy
from clmembench.studies.hierarchy.replacement.random_victims import SetObservation
from clmembench.studies.hierarchy.replacement.victim_states import MAX_STATES
from clmembench.studies.traces.geometry import TraceSelection
from clmembench.studies.traces.hypothesis import CacheHypothesis, overfull_set_observations
from clmembench.studies.traces.latency_modes import LatencyMode
from clmembench.studies.traces.unequal_sets import find_unequal_sets

MAX_CITED_TRACES = 5  # traces that a finding cites
MAPPING_METHOD = "simulation of plain, uneven and fully associative mappings against which accesses missed"
CACHE_UNITS = {"size_bytes": "B", "line_bytes": "B", "sector_bytes": "B", "ways": "", "sets": "", "policy": ""}
PropertyValue = float | str
OVERFLOWING_ARRAYS = "arrays a little larger than the cache"


def undetermined_property(name: str, unit: str, reason: str, low: float | None = None, high: float | None = None) -> Finding:
    """An undetermined finding with the missing evidence as its reason; the value may still be bounded."""
    return Finding(name, None, low, high, unit, "undetermined", MAPPING_METHOD, reason=reason)


def cache_findings(
    near: Sequence[CacheHypothesis], given: TraceSelection, filled: tuple[int, int], paged: bool = False
) -> dict[str, Finding]:
    """Findings of a cache level by name. `filled`: least and greatest bytes that a miss fills; in a TLB (`paged`) they are also
    the tagged unit."""
    evidence = evidence_of_traces(given)
    if not near:
        return _unequal_sets_findings(given, filled, paged) or _unexplained_findings(given, filled)
    say = _HypothesisAgreement(near, evidence)
    found = {
        "size_bytes": say("size_bytes", "B", lambda h: h.size_bytes, "arrays of more sizes around the capacity"),
        "line_bytes": say(
            "line_bytes", "B", lambda h: h.mapping.line_bytes, "strides below a line at sizes above the capacity"
        ),
        "sector_bytes": say("sector_bytes", "B", lambda h: h.unit_bytes, "first accesses at strides below and above it"),
        "ways": say("ways", "", lambda h: h.ways, "strides that fill single sets, or arrays of a few lines more than fit"),
        "sets": say(
            "sets", "", lambda h: h.mapping.sets, "strides that fill single sets, or arrays of a few lines more than fit"
        ),
    }
    decision = _policy_finding(near, given, evidence)
    if not decision.explained:
        return _unexplained_findings(given, filled)
    found["policy"], victims = decision.finding, decision.victims
    bits = {h.mapping.bits for h in near}
    if len(bits) == 1 and (text := bits.pop()):
        found["set_bits"] = Finding("set_bits", text, None, None, "", "ok", MAPPING_METHOD, evidence)
    hashes = sorted({h.mapping.hash for h in near})
    if all(hashes):
        status: Literal["ok", "undetermined"] = "ok" if len(hashes) == 1 else "undetermined"
        reason = f"{' or '.join(hashes[:4])} explain the traces equally well" if len(hashes) > 1 else ""
        value = hashes[0] if len(hashes) == 1 else None
        found["set_hash"] = Finding("set_hash", value, None, None, "", status, MAPPING_METHOD, evidence, reason)
    if victims:
        text = ", ".join(f"{v:.2f}" for v in victims)
        found["victim_probabilities"] = Finding(
            "victim_probabilities",
            text,
            None,
            None,
            "",
            "ok",
            "expectation maximisation over possible contents of the sets",
            evidence,
        )
    return found


def tlb_findings(near: Sequence[CacheHypothesis], given: TraceSelection, filled: tuple[int, int]) -> dict[str, Finding]:
    """Findings of a TLB level by name."""
    as_cache = cache_findings(near, given, filled, paged=True)
    evidence = evidence_of_traces(given)
    page = sector_finding(
        filled, evidence, "page_bytes", "accesses in a row within a page at strides below its size, from an empty TLB on"
    )
    found: dict[str, Finding] = {"page_bytes": page, **{name: as_cache[name] for name in ("ways", "sets", "policy")}}
    if near:
        say = _HypothesisAgreement(near, evidence)
        found["entries"] = say(
            "entries", "", lambda h: h.ways * h.mapping.sets, "traces of a few pages more and fewer than it holds"
        )
        found["reach_bytes"] = say(
            "reach_bytes", "B", lambda h: h.size_bytes, "traces of a few pages more and fewer than it holds"
        )
    elif as_cache["size_bytes"].status == "ok" and page.status == "ok":
        size = as_cache["size_bytes"]
        found["reach_bytes"] = replace(size, name="reach_bytes")
        count = float(size.value or 0) // given.unit_bytes
        found["entries"] = replace(size, name="entries", value=count, low=count, high=count, unit="")
    else:
        size = as_cache["size_bytes"]
        found["reach_bytes"] = undetermined_property("reach_bytes", "B", size.reason, size.low, size.high)
        found["entries"] = undetermined_property("entries", "", size.reason)
    return found


def evidence_of_traces(given: TraceSelection) -> tuple[str, ...]:
    """Ids of the traces around the knee: the largest that fit and the smallest that do not."""
    numbers = range(len(given.visits))
    fit = sorted((n for n in numbers if given.footprints[n].fits), key=lambda n: -given.footprints[n].units.size)
    over = sorted((n for n in numbers if not given.footprints[n].fits), key=lambda n: given.footprints[n].units.size)
    return tuple(dict.fromkeys(given.visits[n].id for n in [*fit[:2], *over[:3]]))[:MAX_CITED_TRACES]


def sector_finding(filled: tuple[int, int], evidence: Sequence[str], name: str = "sector_bytes", missing: str = "") -> Finding:
    """The bytes that a miss fills, if least and greatest are equal."""
    low, high = filled
    method = "accesses within 2^k bytes after a miss hit or miss"
    if low and low == high and evidence:
        return Finding(name, low, low, high, "B", "ok", method, tuple(evidence))
    missing = missing or "first accesses at strides below and above it, one after the other"
    return Finding(
        name, None, low or None, high or None, "B", "undetermined", method, tuple(evidence), f"missing are {missing}"
    )


def largest_fitting_bytes(given: TraceSelection) -> int:
    """Bytes of the largest array whose repeated accesses to this level hit; 0: there is none."""
    return max((foot.units.size * given.unit_bytes for foot in given.footprints if foot.fits), default=0)


def latency_finding(name: str, mode: LatencyMode, evidence: Sequence[str], bounded: bool = True) -> Finding:
    """The centre of a mode, in the unit of the trace. `bounded`: a mode that merges several latencies includes this level's."""
    low, high = mode.centre - 2 * mode.error, mode.centre + 2 * mode.error
    method = "mean of the mode of latencies, without outliers"
    if mode.mixed or not evidence:
        reason = "this mode may merge several latencies, or belong to another level; missing is a finer clock, or less noise"
        ends: tuple[float | None, float | None] = (max(0.0, mode.low), mode.high) if bounded else (None, None)
        return Finding(name, None, ends[0], ends[1], "as recorded", "undetermined", method, tuple(evidence), reason)
    return Finding(name, round(mode.centre, 4), round(low, 4), round(high, 4), "as recorded", "ok", method, tuple(evidence))


class _HypothesisAgreement:
    """Agreement of hypotheses on a property: one value, or the remaining values and the missing traces."""

    def __init__(self, near: Sequence[CacheHypothesis], evidence: Sequence[str]) -> None:
        self.near = near
        self.evidence = tuple(evidence)

    def __call__(self, name: str, unit: str, value: Callable[[CacheHypothesis], int], missing: str) -> Finding:
        values = sorted({value(h) for h in self.near})
        if len(values) == 1:
            return Finding(name, values[0], values[0], values[0], unit, "ok", MAPPING_METHOD, self.evidence)
        some = ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "")
        reason = f"{some} explain the traces equally well; missing are {missing}"
        return Finding(name, None, values[0], values[-1], unit, "undetermined", MAPPING_METHOD, self.evidence, reason)


def _policy_finding(near: Sequence[CacheHypothesis], given: TraceSelection, evidence: Sequence[str]) -> PolicyDecision:
    def undecided(reason: str) -> PolicyDecision:
        return PolicyDecision(undetermined_property("policy", "", reason))

    names = sorted({h.policy for h in near})
    ways = {h.ways for h in near}
    if max(ways) == 1:
        return undecided("a set of one way has no choice of a victim")
    if "random" in names or len(names) == 1:
        if len({(h.mapping.line_bytes, h.mapping.sets, h.ways) for h in near}) > 1 and "random" in names:
            return undecided("victims are random, but several numbers of sets and ways explain the traces")
        best = max(near, key=lambda h: h.loglik)
        sectored = best.mapping.line_bytes > best.unit_bytes
        observations = _traceable([o for s in given.visits for o in overfull_set_observations(best.shape, s)[0]], best.ways)
        if "random" in names:
            if sectored and any(s.stride_bytes < best.mapping.line_bytes for s in given.visits):
                return undecided("victims are random, and in sectored lines the traces do not show which line was replaced")
            return decide_policy(best.ways, observations, evidence)
        return PolicyDecision(Finding("policy", names[0], None, None, "", "ok", MAPPING_METHOD, tuple(evidence)))
    return undecided(
        f"{' or '.join(names)} explain the traces equally well; missing are random sequences over ways + 2 lines of one set"
    )


def _traceable(observations: Sequence[SetObservation], ways: int) -> list[SetObservation]:
    """The sets with so few lines that all their possible contents can be tracked; all sets if there are none.

    With more states the filter keeps only the likeliest, which makes true flags look unlikely."""
    few = [o for o in observations if math.comb(max(len(set(o[0])), ways), ways) <= MAX_STATES]
    return few if any(len(set(lines)) > ways for lines, _ in few) else list(observations)


def _unequal_sets_findings(given: TraceSelection, filled: tuple[int, int], paged: bool) -> dict[str, Finding]:
    """Findings if sets of unequal ways were observed to overflow one after another; else none."""
    sets = find_unequal_sets(given.visits, given.footprints, given.unit_bytes)
    if sets is None or not filled[0] or filled[0] != filled[1]:
        return {}
    method = "which lines miss in laps of one line more each: ways + 1 of every set that overflows"
    size, count = float(sum(sets.ways) * given.unit_bytes), float(len(sets.ways))

    def ok(name: str, value: PropertyValue, unit: str = "") -> Finding:
        number = value if isinstance(value, float) else None
        return Finding(name, value, number, number, unit, "ok", method, sets.evidence)

    reason = "laps alone do not distinguish LRU from FIFO; missing are random sequences over ways + 2 lines of one set"
    ways: PropertyValue = sets.text if len(set(sets.ways)) > 1 else float(sets.ways[0])
    tagged = paged or len(sets.ways) > 1  # the next unit is in another set, so it is in another line
    line = "the tagged unit may be larger than the filled one; missing are strides below a line at sizes above the capacity"
    undetermined = {
        "line_bytes": undetermined_property("line_bytes", "B", line, given.unit_bytes),
        "ways": undetermined_property("ways", "", line, None, float(max(sets.ways))),
    }
    return {
        "size_bytes": ok("size_bytes", size, "B"),
        "sector_bytes": sector_finding(filled, sets.evidence),
        **(
            {"line_bytes": ok("line_bytes", float(given.unit_bytes), "B"), "ways": ok("ways", ways)} if tagged else undetermined
        ),
        "sets": ok("sets", count),
        "policy": undetermined_property("policy", "", reason),
    }


def _unexplained_findings(given: TraceSelection, filled: tuple[int, int]) -> dict[str, Finding]:
    """Bounds alone: nothing overflowed, or no hypothesis explains the overflow."""
    # if only part of a lap was visited again, only that part certainly fits: a prefetcher may have filled the rest
    fitting = [int(((foot.visited > 0) & (foot.missed == 0)).sum()) for foot in given.footprints if foot.fits]
    low = float(max(fitting, default=0) * given.unit_bytes) or None
    over = any(not foot.fits for foot in given.footprints)
    if over:
        reason = (
            "no mapping of plain bits, uneven sets or one set with a known policy explains which lines miss: the sets may be "
            "hashed, or the addresses not those that index them; missing is the mapping"
        )
    else:
        reason = f"nothing that was visited again missed; missing are {OVERFLOWING_ARRAYS}"
    found = {name: undetermined_property(name, unit, reason) for name, unit in CACHE_UNITS.items()}
    found["size_bytes"] = undetermined_property("size_bytes", "B", reason, low)
    found["sector_bytes"] = sector_finding(filled, evidence_of_traces(given))
    return found


def with_latency(
    found: Mapping[str, Finding], mode: LatencyMode, evidence: Sequence[str], bounded: bool = True
) -> dict[str, Finding]:
    """The findings with the level's latency (`latency_finding`)."""
    nanoseconds = undetermined_property("latency_ns", "ns", "the unit of the latencies is not known to be ns")
    return {**found, "latency_cycles": latency_finding("latency_cycles", mode, evidence, bounded), "latency_ns": nanoseconds}
