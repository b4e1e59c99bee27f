"""Line, ways, sets and policy together: every hypothesis is simulated and compared with the hits and misses of traces. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.studies.hierarchy.replacement.policies import MIN_LOG_LIKELIHOOD_MARGIN
from clmembench.studies.traces.footprints import StreamFootprint, stream_footprint, uneven_miss_cost
from clmembench.studies.traces.hypothesis import (
    CacheHypothesis,
    CacheShape,
    SimulationBudget,
    deterministic_hypotheses,
    overfull_visits,
    stochastic_hypothesis,
)
from clmembench.studies.traces.plausible_mappings import PossibleMappings, rank_mappings
from clmembench.studies.traces.set_mappings import hashed_mappings, plain_mappings
from clmembench.studies.traces.streams import AccessStream

# Thresholds and limits, each with its reason
MAX_VISITS_PER_TRACE = 20_000  # accesses of a trace that are simulated, to limit time
MAX_VISITS = 120_000  # of all traces together, to limit time
MAX_FILTERED_VISITS_PER_TRACE = 400  # accesses of a trace that are filtered for random victims, which is slower
MAX_FILTERED_VISITS = 1_500  # of all traces together, filtered at first
MAX_MAPPINGS = 32  # the cheapest mappings that are simulated at all
MAX_SIMULATED_VISITS = (
    1_200_000  # visits simulated for one cache: mappings not tried by then are not excluded, so the result is undetermined
)
MAX_FILTERED_VISITS_IN_ALL = 16_000  # visits filtered for one cache in all
MAX_TRACES = 64  # the most telling traces, for time
MAX_UNITS = 60_000  # of all traces together
MAX_TRIED_WAYS = 16  # of a mapping, evenly spread


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """Data that hypotheses are tested on: streams of visits to units, and their footprints."""

    unit_bytes: int
    visits: tuple[AccessStream, ...]
    footprints: tuple[StreamFootprint, ...]


def select_traces(found: Sequence[AccessStream], unit_bytes: int) -> TraceSelection:
    """Streams in units of `unit_bytes`, the most informative ones: for each stride those around the largest that fits."""
    visits = [s.visits(unit_bytes) for s in found]
    feet = [stream_footprint(s) for s in visits]
    by_stride: dict[int, list[int]] = {}
    for number, (stream, foot) in enumerate(zip(visits, feet, strict=True)):
        if foot.visited.sum() > 0:
            by_stride.setdefault(stream.stride_bytes, []).append(number)
    ranked: list[tuple[int, int, int]] = []
    for numbers in by_stride.values():
        fitting = sorted((n for n in numbers if feet[n].fits), key=lambda n: -feet[n].units.size)
        over = sorted((n for n in numbers if not feet[n].fits), key=lambda n: feet[n].units.size)
        ranked += [(rank, feet[n].units.size, n) for rank, n in enumerate(fitting)]
        ranked += [(rank // 2, feet[n].units.size, n) for rank, n in enumerate(over)]
    chosen: list[int] = []
    left = MAX_UNITS
    for _, size, n in sorted(ranked):
        if len(chosen) < MAX_TRACES and (size <= left or not chosen):
            chosen.append(n)
            left -= size
    return TraceSelection(unit_bytes, tuple(visits[n] for n in chosen), tuple(feet[n] for n in chosen))


def likely_hypotheses(
    given: TraceSelection, sectors: Sequence[int], lines: Sequence[int], paged: bool
) -> list[CacheHypothesis]:
    """All hypotheses that explain the data about as well as the best one; empty if none explains it. `sectors` and `lines` are
    the sizes in bytes that are tried."""
    if not given.visits or all(foot.fits for foot in given.footprints):
        return []
    span = max(int(foot.units[-1]) + given.unit_bytes for foot in given.footprints)
    order = sorted(given.footprints, key=lambda foot: foot.units.size)
    for tried in (plain_mappings(lines, span, paged), () if paged else hashed_mappings(lines, span)):
        possible = rank_mappings(list(tried), order, max(sectors), MAX_MAPPINGS)
        for search in (_likely_deterministic, _likely_stochastic):
            near = search(given, sectors, possible)
            if near is None:
                return []
            if near and all(h.explains for h in near):
                return near
    return []


def _likely_deterministic(
    given: TraceSelection, sectors: Sequence[int], possible: Sequence[PossibleMappings]
) -> list[CacheHypothesis] | None:
    """The likeliest hypotheses with a deterministic policy, and those about as likely; None if not all could be tried."""
    cut = _cut_streams(given.visits, [MAX_VISITS_PER_TRACE] * len(given.visits), MAX_VISITS)
    best = -math.inf
    pairs: list[tuple[PossibleMappings, CacheHypothesis]] = []
    spent = SimulationBudget(MAX_SIMULATED_VISITS)
    for one, ways, sector in _mappings_with_ways_and_sectors(possible, sectors):
        for h in deterministic_hypotheses(
            CacheShape(sector, one.mappings[0], ways), cut, best - MIN_LOG_LIKELIHOOD_MARGIN, spent
        ):
            best = max(best, h.loglik)
            pairs.append((one, h))
        if spent.left < 0:
            return None
    return _one_per_mapping(pairs, best - MIN_LOG_LIKELIHOOD_MARGIN)


def _mappings_with_ways_and_sectors(
    possible: Sequence[PossibleMappings], sectors: Sequence[int]
) -> list[tuple[PossibleMappings, int, int]]:
    """Mappings with each number of ways and each sector that divides the line of any of them."""
    return [
        (one, ways, sector)
        for one in possible
        for ways in _tried_ways(one)
        for sector in sectors
        if any(sector <= mapping.line_bytes for mapping in one.mappings)
    ]


def _likely_stochastic(
    given: TraceSelection, sectors: Sequence[int], possible: Sequence[PossibleMappings]
) -> list[CacheHypothesis] | None:
    """The likeliest hypotheses with random victims: first all on few accesses, then the remaining ones on as many as the budget
    allows."""
    tried = _mappings_with_ways_and_sectors(possible, sectors)
    whole, given = given, _recorded_from_early_on(given)
    if not given.visits:
        return []
    lengths = [MAX_FILTERED_VISITS_PER_TRACE] * len(given.visits)
    pairs: list[tuple[PossibleMappings, CacheHypothesis]] = []
    best = -math.inf
    spent = SimulationBudget(MAX_FILTERED_VISITS_IN_ALL)
    for together in (MAX_FILTERED_VISITS, 3 * MAX_FILTERED_VISITS):
        cut = _cut_streams(given.visits, lengths, together if together == MAX_FILTERED_VISITS else MAX_VISITS)
        pairs, best = [], -math.inf
        for one, ways, sector in tried:
            uneven = uneven_miss_cost(one.mappings[0], ways, whole.footprints)
            h = stochastic_hypothesis(
                CacheShape(sector, one.mappings[0], ways), cut, best - 2 * MIN_LOG_LIKELIHOOD_MARGIN, spent, -uneven
            )
            if spent.left < 0:
                return None
            if h is not None:
                best = max(best, h.loglik)
                pairs.append((one, h))
        left = [(one, h.ways, h.unit_bytes) for one, h in pairs if h.loglik >= best - 2 * MIN_LOG_LIKELIHOOD_MARGIN]
        if len(left) <= 1 or not any(h.explains for _, h in pairs):
            break
        tried, before = left, lengths
        lengths = _stream_lengths(given, tried, 3 * together)
        if sum(lengths) <= sum(min(length, s.served.size) for length, s in zip(before, given.visits, strict=True)):
            break
    return _one_per_mapping(pairs, best - MIN_LOG_LIKELIHOOD_MARGIN)


def _recorded_from_early_on(given: TraceSelection) -> TraceSelection:
    """The traces recorded from early on: with random victims the contents of a set are unknown after a long unrecorded time."""
    early = [n for n, s in enumerate(given.visits) if int(np.argmax(s.served >= 0)) <= 0.2 * s.served.size]
    return replace(given, visits=tuple(given.visits[n] for n in early), footprints=tuple(given.footprints[n] for n in early))


def _stream_lengths(given: TraceSelection, tried: Sequence[tuple[PossibleMappings, int, int]], most: int) -> list[int]:
    """Length of each stream such that over-full sets of any hypothesis get at most `most` visits in all."""
    shapes = [CacheShape(sector, one.mappings[0], ways) for one, ways, sector in tried]
    counts = [max(overfull_visits(shape, stream)[0].size for shape in shapes) for stream in given.visits]
    lengths = [0] * len(counts)
    waiting = len(counts)
    for number in sorted(range(len(counts)), key=lambda n: counts[n]):  # the unused budget of short ones goes to long ones
        part = min(counts[number], most // waiting)
        lengths[number] = (
            int(given.visits[number].addresses.size * part / max(counts[number], 1)) if counts[number] else MAX_VISITS_PER_TRACE
        )
        most, waiting = most - part, waiting - 1
    return lengths


def _one_per_mapping(found: Sequence[tuple[PossibleMappings, CacheHypothesis]], least: float) -> list[CacheHypothesis] | None:
    """The sufficiently likely hypotheses, one for each group of mappings with the same sets; None if some between their ways
    were left out."""
    near = [(one, h) for one, h in found if h.loglik >= least]
    if any(one.most_ways - one.least_ways >= MAX_TRIED_WAYS for one, _ in near):
        return None
    return [replace(h, mapping=m) for one, h in near for m in one.mappings if h.unit_bytes <= m.line_bytes]


def _tried_ways(one: PossibleMappings) -> list[int]:
    low, high = one.least_ways, one.most_ways
    return sorted({round(float(w)) for w in np.linspace(low, high, min(MAX_TRIED_WAYS, high - low + 1))})


def _cut_streams(visits: Sequence[AccessStream], most: Sequence[int], together: int) -> list[AccessStream]:
    """The starts of streams, with all unrecorded accesses before them."""
    cut, left = [], together
    for stream, length in zip(visits, most, strict=True):
        unseen = int(np.argmax(stream.served >= 0))
        part = stream.cut(unseen + min(length, left))
        left -= part.addresses.size - unseen // 2  # those are simulated too
        cut.append(part)
        if left <= 0:
            break
    return cut
