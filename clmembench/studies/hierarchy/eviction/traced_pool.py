"""A pool of lines reduced to those that overflow a set by the latencies of single accesses of a lap. Pure.

A lap's mean says that something missed, the trace of a lap which lines: those of the sets that overflow. Where the fewest
lines of which some miss are few more than one set has ways, one trace takes the place of some hundred laps. The core's counter
is read around each access, and what is recorded takes lines too, so that a trace only proposes: laps decide what is one set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clmembench.model import Experiment, Probe
from clmembench.model.address_patterns import pattern_offsets
from clmembench.studies.hierarchy.eviction.pool_reduction import MAX_WAYS, confirmed_set, set_without_filler
from clmembench.studies.hierarchy.probes.line_probe import LineProbe

WARM_LAPS = 2  # before the traced one
MIN_MISSING = 3  # lines, of a set that overflows: fewer may be others' doing
MIN_MISS_SHARE = 0.15  # of the traces: a line of a set that overflows misses that often at least under any policy
MIN_MISS_TRACES = 2  # in one alone something else may have taken the time
MIN_BACKGROUND_RATIO = 4  # times the share of the usual line, which others evict now and then,
ENOUGH_MISS_SHARE = 0.5  # or so many at least, where the usual line is of such a set
GROWTH = 1.04  # of the pool where too few of a set's lines were seen to miss
MAX_GROWN = 6  # times
MAX_PROPOSED = 4 * (MAX_WAYS + 1)  # lines: with more, as many sets overflow as laps cannot tell apart in time


def reduce_by_trace(
    probe: LineProbe, pool: Sequence[int], counts: Sequence[int], last: int
) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """As `reduce_pool`; "" where no trace shows which lines miss."""
    low, missing = 0, list[int]()
    for count in counts:
        if count > len(pool):
            return ""
        missing = yield from missing_lines(probe, pool[:count])
        if len(missing) >= MIN_MISSING:
            break
        low = count
    else:
        return ""
    high = count
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        fewer = yield from missing_lines(probe, pool[:middle])
        if len(fewer) >= MIN_MISSING:
            high, missing = middle, fewer
        else:
            low = middle
    for _ in range(MAX_GROWN):
        if len(missing) > MAX_PROPOSED or len(probe.asked.answers) > last:
            break
        # a line of the filler that misses is of such a set too
        alone = replace(probe, filler=tuple(line for line in probe.filler if line not in missing))
        lines = yield from _one_set(alone, missing)
        if lines:
            return (yield from _confirmed_without_filler(alone, lines, [line for line in pool[:high] if line not in missing]))
        high = min(len(pool), max(high + 1, int(high * GROWTH)))
        missing = yield from missing_lines(probe, pool[:high])
    return ""


def _confirmed_without_filler(
    probe: LineProbe, lines: tuple[int, ...], others: Sequence[int]
) -> Experiment[tuple[tuple[int, ...], tuple[int, ...]] | str]:
    """As `confirmed_set`, of lines that overflow a set though the filler is another one, of `others`: else some of the filler
    are of the set too."""
    found = yield from confirmed_set(probe, lines)
    if isinstance(found, str) or not probe.filler:
        return found
    other = replace(probe, filler=tuple(others[: len(probe.filler)]))
    if len(other.filler) == len(probe.filler) and (yield from other.overflows(lines)):
        return found
    return (yield from set_without_filler(probe, lines))


def _one_set(probe: LineProbe, missing: Sequence[int]) -> Experiment[tuple[int, ...]]:
    """Lines that overflow one set, of these which overflow one or some: without one of them no other of its set misses, if
    there was one too many. Empty where laps do not agree."""
    lines = list(missing)
    while len(lines) > 2:
        first, *others = lines
        left = yield from missing_lines(probe, others)
        gone = [line for line in others if line not in left]
        found = (first, *gone)
        if MIN_MISSING <= len(found) <= MAX_WAYS + 1 and (yield from probe.overflows(found)):
            return found
        lines = left
    return ()


def missing_lines(probe: LineProbe, lines: Sequence[int]) -> Experiment[list[int]]:
    """The lines, of these and of the filler, that miss in a share of the traces of a lap over all of them; none where there is
    no trace."""
    pattern = probe.lap([*lines, *probe.filler]).pattern
    count = pattern.count
    answer = yield from probe.asked.one(Probe(pattern, probe.space, "trace", skip=WARM_LAPS * count, record=count))
    if answer.latencies is None:
        return []
    beyond = (np.asarray(answer.latencies) > (probe.hit + probe.miss) / 2).mean(axis=0)
    traces = len(answer.latencies)
    least = max(
        MIN_MISS_SHARE, MIN_MISS_TRACES / traces, min(ENOUGH_MISS_SHARE, MIN_BACKGROUND_RATIO * float(np.median(beyond)))
    )
    return sorted(at for at, share in zip(pattern_offsets(pattern).tolist(), beyond, strict=True) if share >= least)
