"""Whether a prefetcher lowers the latency of laps in blocks: the same lines in blocks of other sizes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession

# Thresholds
BLOCK_SIZE_FACTOR = 4  # between the two block sizes of which laps are compared
MIN_BLOCK_BYTES = 16 << 10  # in smaller blocks prefetchers of single lines begin to guess right
MAX_BLOCK_RELATIVE_DIFFERENCE = 0.035  # between laps in blocks of two sizes where no prefetcher helps
MAX_BLOCK_REACH_SHARE = 0.9  # of the first TLB's reach: with more some of its sets may overflow
SPARSE_FACTOR = 4  # times as far apart are the lines of a sparse lap: pairs of lines, and what comes next, are not among them
MIN_PAGE_BYTES = 4 << 10  # a translation serves at least that
MAX_COMPARED_ORDERS = 3  # of each size of blocks: a disturbance lengthens one lap, seldom two


@dataclass(frozen=True, slots=True)
class PlateauPoint:
    """A working set on a plateau, its nodes `stride_bytes` apart, the relative noise of a lap over it, and the latency there
    (0: not known), which counts where a run stored before has no lap in usual blocks along the path in question. `rise`: by how
    much, relative, laps in one random cycle on the plateau take longer than laps over half as many lines (None: not known)."""

    array_bytes: int
    stride_bytes: int
    noise: float = 0.0
    latency: float = 0.0
    rise: float | None = None


@dataclass(frozen=True, slots=True)
class BlockTranslation:
    """What translation adds to laps in larger blocks: reach in bytes of the first TLB (0: not known), and the cost at most of a
    missing translation."""

    reach_bytes: int = 0
    penalty: float = 0.0


def free_of_prefetching(
    asked: ProbeSession, chase: ChaseLayout, point: PlateauPoint, translation: BlockTranslation | None = None
) -> Experiment[bool | None]:
    """True if laps in blocks of another size take as long; None: no answer.

    In larger blocks, or in none at all where a TLB's reach allows it, a prefetcher that looks at neighbours finds fewer lines
    to fetch. Where those laps are slower by no more than a missing translation, sparser lines of the same blocks must not be:
    as many translations serve them. Then smaller blocks decide, in which a prefetcher finds more and no more translations miss;
    so they do where there are no larger ones. Where a prefetcher helps in these, laps in one random cycle may still be free of
    it: of twice as many lines half as many are asked for before what was fetched is gone, so that these laps would differ.
    """
    size, known = point.array_bytes, translation or BlockTranslation()
    if not chase.block_bytes:
        return True
    larger = 0 if chase.block_bytes < size <= known.reach_bytes else BLOCK_SIZE_FACTOR * chase.block_bytes
    smaller = max(MIN_BLOCK_BYTES, 1 << (min(chase.block_bytes, size) // BLOCK_SIZE_FACTOR).bit_length() - 1)
    if not larger or size >= 2 * larger:
        slower = yield from _excess(asked, chase, point, larger)
        if slower is None or slower == 0.0:
            return None if slower is None else True
        beyond = known.penalty if (larger or size) > MAX_BLOCK_REACH_SHARE * known.reach_bytes else 0.0
        if not 0 < slower <= beyond:
            return False
        if not asked.shared:  # latencies of CPUs are those of sparse laps anyway
            sparse = yield from _excess(asked, chase, point, chase.block_bytes, SPARSE_FACTOR)
            # in a run stored before there is no such lap
            if sparse is not None and sparse > known.penalty * SPARSE_FACTOR * point.stride_bytes / MIN_PAGE_BYTES:
                return False
    if size < BLOCK_SIZE_FACTOR * smaller:
        return True
    slower = yield from _excess(asked, chase, point, smaller)
    if slower is not None and slower < 0 and size <= chase.block_bytes and point.rise is not None:
        return abs(point.rise) <= max(MAX_BLOCK_RELATIVE_DIFFERENCE, 2 * point.noise)
    return None if slower is None else slower == 0.0


def _excess(
    asked: ProbeSession, chase: ChaseLayout, point: PlateauPoint, block_bytes: int, factor: int = 1
) -> Experiment[float | None]:
    """By how much laps in blocks of this size, of lines `factor` times as far apart, take longer than those of the chase: 0
    within the noise. Of both the fastest of some orders counts, since disturbances only add; None: no answer."""
    layouts, best = (chase, replace(chase, block_bytes=block_bytes)), [float("inf")] * 2
    excess, count = 0.0, point.array_bytes // point.stride_bytes
    for seed in range(MAX_COMPARED_ORDERS):
        laps = zip(layouts, (1, factor), strict=True)
        answers = yield from asked.all([one.lap(count // apart, apart * point.stride_bytes, seed) for one, apart in laps])
        values = [answers[0].value or point.latency, answers[1].value]
        if not all(values):
            return excess if seed else None
        best = [min(old, value or old) for old, value in zip(best, values, strict=True)]
        own = [(a.high - a.low) / 2 if a.high is not None and a.low is not None else 0.0 for a in answers]
        excess = best[1] - best[0]
        if abs(excess) <= max(MAX_BLOCK_RELATIVE_DIFFERENCE * best[0], 2 * point.noise * best[0], own[1]):
            return 0.0
    return excess
