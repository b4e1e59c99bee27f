"""Which line a full set gives up: random walks over two lines more than it holds, as whole laps or access by access. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clmembench.infer.findings import undetermined_finding
from clmembench.infer.hierarchy.probing import HitMissModel, LevelProbe
from clmembench.infer.replacement.policies import policy_and_victims
from clmembench.infer.replacement.policy_rates import policy_from_rates
from clmembench.model import Answer, Finding, Inquiry, Pattern, Probe
from clmembench.model.address_patterns import pattern_offsets

# Thresholds and limits, each with its reason
WALK_COUNT = 16  # random walks, on whose miss rates the policies are compared
EXTRA_LINES = 2  # lines beyond the ways: laps over one line more do not distinguish LRU from FIFO
MAX_MISS_RELATIVE_EXCESS = 0.04  # relative: a slower lap means that the cost of a miss is not the one taken for it
TRACED_LAPS = 12  # of a walk that are recorded access by access
MAX_WAYS = 128  # sets of more ways are not probed
MAX_WAYS_OF_UNEVEN_VICTIMS = 4  # up to that many ways unequal victim probabilities are distinguishable from equal ones
TRACED_WALKS = 4  # that are recorded access by access
MAX_TRACE_RELATIVE_DIFFERENCE = (
    0.25  # relative difference between a trace's mean and the same lap's: beyond, the trace is not believed
)
NEARER_CACHE_ANSWERS = (
    "a nearer cache serves some accesses of a lap: only latencies of single accesses would decide, which need a clock in the "
    "kernel"
)


@dataclass(frozen=True, slots=True)
class SetLines:
    """Lines of one set, EXTRA_LINES more than it has ways: at multiples of `way_bytes`, or those `listed`, as segments of a
    pattern. `filler`: lines of other sets, visited among them so that no nearer cache holds them."""

    count: int
    way_bytes: int = 0
    listed: str = ""
    filler: tuple[int, ...] = ()

    def pattern(self, order: Literal["walk", "random"], shift_bytes: int, visits: int = 1, seed: int = 0) -> Pattern:
        """A lap over them."""
        more = [f"{line}:0:1:1" for line in self.filler]
        segments = ";".join([self.listed, *more]) if more else self.listed
        return Pattern(order, self.count + len(more), self.way_bytes, shift_bytes, 0, visits, segments, seed)

    def numbers(self, walk: Pattern) -> list[int]:
        """The lines that a walk visits, by number; those of the filler have numbers below 0."""
        offsets = pattern_offsets(walk)
        if not self.listed:
            return [int(offset) // self.way_bytes for offset in offsets]
        own = pattern_offsets(Pattern("segments", segments=self.listed))
        places = np.sort([*own, *self.filler])
        visited = places[np.searchsorted(places, offsets, side="right") - 1]
        number = {int(place): i for i, place in enumerate(np.sort(own))}
        return [number.get(int(place), -1) for place in visited]


def probe_policy(
    probe: LevelProbe,
    ways: int,
    way_bytes: int,
    unit: int,
    nearer: float = 0.0,
    listed: str = "",
    filler: tuple[int, ...] = (),
    possible: frozenset[str] = frozenset(),
) -> Inquiry[dict[str, Finding]]:
    """The policy of a set of `ways` ways, all of whose lines are multiples of `way_bytes` apart, or `listed`, and its victims'
    probabilities. `filler`: see SetLines.

    `unit`: bytes that a miss brings in, within which a line can be visited again. `nearer`: a hit's latency in a level that
    stands before this one and answers some accesses itself: then only single accesses can tell. `possible`: policies that other
    evidence leaves (none: all).
    """
    asked, chase, contrast = probe.asked, probe.chase, probe.contrast
    if ways < 2 or ways > MAX_WAYS:
        reason = "a set of one way has no choice" if ways < 2 else f"sets of over {MAX_WAYS} ways are not probed"
        return {"policy": undetermined_finding("policy", reason)}
    asked.cited()
    visits = max(1, min(8, unit // 8))
    of_set = SetLines(ways + EXTRA_LINES, way_bytes, listed, filler)
    walks = [of_set.pattern("walk", chase.shift_bytes, visits, seed) for seed in range(1, 1 + WALK_COUNT)]
    laps = [of_set.numbers(walk) for walk in walks]
    answers = yield from asked.all([Probe(walk, chase.space) for walk in walks])
    base = [0.0] * WALK_COUNT
    if chase.control_bytes:  # the same walks where this level cannot matter
        controls = [replace(walk, stride_bytes=chase.control_bytes, shift_bytes=0) for walk in walks]
        base = [a.value or 0.0 for a in (yield from asked.all([Probe(walk, chase.space) for walk in controls]))]
    crowd = yield from asked.one(Probe(of_set.pattern("random", chase.shift_bytes), chase.space))
    apart = 0.0
    if chase.control_bytes:
        apart = (yield from asked.one(Probe(Pattern("random", of_set.count, chase.control_bytes), chase.space))).value or 0.0
    missing = next((a.reason for a in answers if a.value is None), "")
    if missing:
        return {"policy": undetermined_finding("policy", missing)}
    if crowd.value is None or crowd.value - apart > (1 + MAX_MISS_RELATIVE_EXCESS) * contrast.miss:
        reason = (
            f"{ways + EXTRA_LINES} lines of one set take {crowd.value:.4g} on average, more than the "
            f"{contrast.miss:.4g} of a miss"
        )
        return {"policy": undetermined_finding("policy", reason)}
    rates = [_miss_rate(lap, answer, less, contrast) for lap, answer, less in zip(laps, answers, base, strict=True)]
    evidence = asked.cited()
    found = (
        undetermined_finding("policy", NEARER_CACHE_ANSWERS, evidence=evidence)
        if nearer
        else policy_from_rates(ways, rates, evidence, possible)
    )
    recorded = [_SetWalk(walk, lap, answer.value) for walk, lap, answer in zip(walks, laps, answers, strict=True)]
    traced = yield from _policy_by_trace(probe, ways, recorded[:TRACED_WALKS], nearer)
    return {"policy": found} if traced is None else _combined_policy(found, *traced, ways)


def _combined_policy(found: Finding, named: Finding, victims: tuple[float, ...], empty: bool, ways: int) -> dict[str, Finding]:
    """The policy by whole laps (`found`) and by single accesses (`named`), whose traces began in an empty cache or did not."""
    if found.status == "ok" and named.status == "ok" and found.value != named.value:
        reason = f"whole laps say {found.value}, single accesses say {named.value}"
        ids = tuple(dict.fromkeys((*found.evidence, *named.evidence)))
        return {"policy": Finding("policy", None, None, None, "", "inconsistent", found.method, ids, reason)}
    if named.value == "random" and ways > MAX_WAYS_OF_UNEVEN_VICTIMS:
        named = _without_value(named, f"equally and unequally likely victims are not distinguishable for {ways} ways")
    if named.value == "random" and not empty:
        named = _without_value(named, "equally and unequally likely victims are distinguishable only from an empty cache on")
    if named.status != "ok":
        return {"policy": found}
    chances = ", ".join(f"{v:.3f}" for v in victims)
    more = {"victim_probabilities": replace(named, name="victim_probabilities", value=chances)}
    return {"policy": named, **(more if victims else {})}


def _without_value(named: Finding, reason: str) -> Finding:
    """The finding without its value, for a reason."""
    return replace(named, value=None, status="undetermined", reason=reason)


def _miss_rate(lap: list[int], answer: Answer, less: float, contrast: HitMissModel) -> tuple[list[int], float, float, float]:
    """A lap's miss rate with its interval, from its mean latency less the control's."""

    def rate(latency: float) -> float:
        return (latency - less - contrast.hit) / (contrast.miss - contrast.hit)

    assert answer.value is not None
    ends = (answer.low if answer.low is not None else answer.value, answer.high if answer.high is not None else answer.value)
    return lap, rate(answer.value), rate(ends[0]), rate(ends[1])


@dataclass(frozen=True, slots=True)
class _SetWalk:
    """A random walk over a set's lines, the lines of one lap, and the lap's mean latency."""

    pattern: Pattern
    lap: list[int]
    mean: float | None


def _policy_by_trace(
    probe: LevelProbe, ways: int, walks: Sequence[_SetWalk], nearer: float
) -> Inquiry[tuple[Finding, tuple[float, ...], bool] | None]:
    """The policy and its victims from the latency of each access, and whether the traces began in an empty cache; None where
    there is no clock, or where it does not agree with the whole laps."""
    contrast, record = probe.contrast, TRACED_LAPS * len(walks[0].lap)
    answers = yield from probe.asked.all([Probe(w.pattern, probe.chase.space, "trace", 0, record) for w in walks])
    observations = []
    middle = (contrast.hit + contrast.miss) / 2
    for walk, answer in zip(walks, answers, strict=True):
        if answer.latencies is None or walk.mean is None:
            return None
        steady = float(answer.latencies[:, record // 2 :].mean())
        if abs(steady - walk.mean) > MAX_TRACE_RELATIVE_DIFFERENCE * walk.mean:
            return None
        for row in answer.latencies[:1]:
            reached = [
                (line, bool(v < middle))
                for line, v in zip(walk.lap * TRACED_LAPS, row, strict=True)
                if line >= 0 and v > (nearer + contrast.hit) / 2 * bool(nearer)
            ]
            observations.append(([line for line, _ in reached], [hit for _, hit in reached]))
    empty = not any(flags[lines.index(line)] for lines, flags in observations for line in set(lines))
    return *policy_and_victims(ways, observations, probe.asked.cited()), empty
