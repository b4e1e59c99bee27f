"""A last cache in two partitions, each in front of its own memory: what the far one holds, and what both memories take. Pure.

The near partition keeps all that its compute units load; the far one keeps lines of its own memory alone. So a line that the
near one evicted is at home there and costs an access to memory, or is at home in the far one and hits there until that evicts
it too. Laps of a chase mix both. Single lines of a scan tell them apart: at the end their latencies are two, as they are at
home here or there; the share of the slower ones grows to that end as the far partition evicts its lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.infer.hierarchy.residence import SIGMAS, Looks, Residence, ScannedLevel, look_back, mean_stay, shares_by_age
from clmembench.infer.hierarchy.typical_latency import format_groups, two_groups
from clmembench.model import Array, Inquiry

# Thresholds and limits, each with its reason
NEAR_GONE_RATIO, FAR_GONE_RATIO = 0.8, 6.0  # times what the near partition holds: how far timed lines lie back
END_SHARE = 0.8  # of that: lines from there on are of memory
MIN_HOME_SHARE = 0.25  # of all lines, at home in either partition
MAX_PROMPT_SHARE = 0.9  # of accesses to memory, the fastest of which fall into two groups; others are late
MAX_LATE_SHARE = 0.3  # of accesses, that are late by more than half of what parts both memories
MAX_NEAR_HITS_SHARE = 0.03  # of lines from which on the near partition holds none
MAX_FAR_MISSES_SHARE = 0.1  # of lines at home in the far partition, up to which it holds all
MIN_BETWEEN_LOOKS = 100  # between both, to tell the latency of a hit in the far partition
MAX_CAPACITY_RATIO = 1.4  # between both partitions, which are built alike
MAX_HOME_DIFFERENCE = 0.12  # between the share of lines that are at home in the far partition and that of faster hits


@dataclass(frozen=True, slots=True)
class FarPartition:
    """What the far partition holds, in bytes with an interval; the latencies, as (median, low, high) in the unit of the
    answers, of a hit in it and of both memories; the share of lines at home in it; and the records behind all."""

    nbytes: float
    low: float
    high: float
    hit: tuple[float, float, float]
    near_memory: tuple[float, float, float]
    far_memory: tuple[float, float, float]
    share: float
    evidence: tuple[str, ...]


def measure_far_partition(level: ScannedLevel, near: Residence) -> Inquiry[FarPartition | str]:
    """The far partition behind a near one that is known; or why there is none to be seen."""
    level.asked.cited()
    looks = yield from look_back(level, near.nbytes, (NEAR_GONE_RATIO * near.nbytes, FAR_GONE_RATIO * near.nbytes))
    return looks if isinstance(looks, str) else far_partition_of(level, near, looks, level.asked.cited())


def far_partition_of(
    level: ScannedLevel, near: Residence, looks: Sequence[Looks], evidence: tuple[str, ...]
) -> FarPartition | str:
    """The far partition from lines timed long after they were loaded; or why there is none to be seen."""
    pooled = _pooled(looks)
    since, cycles = pooled.since, pooled.latencies[0]
    end = cycles[since >= END_SHARE * since.max()]
    parted = two_groups(end[end <= np.quantile(end, MAX_PROMPT_SHARE)])
    if parted is None:
        return "the latencies of lines in memory are one group"
    limit = (float(parted[0].mean()) + float(parted[1].mean())) / 2
    home, away = end[end <= limit], end[end > limit]
    # of either memory the same share of accesses is late by as much as parts both: some of the nearer one count as slow ones
    late = float((end > 2 * np.median(away) - limit).mean()) / max(1e-9, float((end > limit).mean()))
    share = 1 - home.size / end.size / (1 - late) if late < MAX_LATE_SHARE else 0.0
    if not MIN_HOME_SHARE <= share <= 1 - MIN_HOME_SHARE:
        return f"two latencies of memory of uneven shares: {format_groups((np.sort(home), np.sort(away)))}"
    ends = (1 - share) * late, share + (1 - share) * late
    stays = np.array([_far_stay(one, limit, ends) for one in looks])
    far, deviation = share * float(stays.mean()), share * float(stays.std(ddof=1)) / np.sqrt(len(stays))
    if not near.nbytes / MAX_CAPACITY_RATIO <= far <= near.nbytes * MAX_CAPACITY_RATIO:
        return f"{far:.0f} B are not about the {near.nbytes:.0f} B of the near partition"
    places, slow = shares_by_age(pooled, pooled.latencies > limit)
    fast = shares_by_age(pooled, pooled.latencies <= level.missed_from)[1]
    evicted = (slow - ends[0]) / (ends[1] - ends[0])
    between = places[(fast <= MAX_NEAR_HITS_SHARE) & (evicted <= MAX_FAR_MISSES_SHARE)]
    chosen = cycles[np.isin(since, between) & (cycles <= limit) & (cycles > level.missed_from)]
    if chosen.size < MIN_BETWEEN_LOOKS:
        return "no number of bytes empties the near partition and leaves the far one full"
    below = float(np.quantile(home, 0.05))
    faster = float((chosen < below).mean())
    if abs(faster - share) > MAX_HOME_DIFFERENCE + 0.1 * share:
        return f"{faster:.0%} of lines hit faster than near memory, and {share:.0%} are at home further away"
    sampling = SIGMAS * far * float(np.sqrt((1 - share) / share / end.size))
    slack = float(np.hypot(SIGMAS * deviation, sampling))
    hit = _spread_without(chosen, home, 1 - share)
    return FarPartition(far, far - slack, far + slack, hit, _spread(home), _spread(away), share, evidence)


def _spread_without(mixed: Array, part: Array, share: float) -> tuple[float, float, float]:
    """The median and the middle 90% of what is left of values of which a share is distributed as `part`."""
    values = np.sort(mixed)
    of_part = np.searchsorted(np.sort(part), values, side="right") / part.size
    left = (np.arange(1, values.size + 1) / values.size - share * of_part) / (1 - share)
    left = np.maximum.accumulate(np.clip(left, 0.0, 1.0))
    low, middle, high = (float(values[min(int(np.searchsorted(left, q)), values.size - 1)]) for q in (0.05, 0.5, 0.95))
    return middle, low, high


def _pooled(looks: Sequence[Looks]) -> Looks:
    """All timed lines; each repeat timed others."""
    since = [np.tile(one.since, len(one.latencies)) for one in looks]
    return Looks(np.concatenate(since), np.concatenate([one.latencies.ravel() for one in looks])[None, :])


def _far_stay(looks: Looks, limit: float, ends: tuple[float, float]) -> float:
    """The mean number of bytes after which the far partition evicts a line that is at home there. `ends`: the shares of slow
    accesses while it holds all of them, and none."""
    places, slow = shares_by_age(looks, looks.latencies > limit)
    return mean_stay(places, 1 - (slow - ends[0]) / (ends[1] - ends[0]))


def _spread(values: Array) -> tuple[float, float, float]:
    """The median and the middle 90%."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return middle, low, high
