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

from clmembench.model import Array, Experiment
from clmembench.studies.hierarchy.levels.lifetime import (
    SIGMAS,
    Looks,
    Residence,
    ScannedLevel,
    look_back,
    mean_stay,
    shares_by_age,
)
from clmembench.studies.hierarchy.probes.typical_latency import format_groups, two_groups

# Thresholds and limits, each with its reason
NEAR_GONE_RATIO, FAR_GONE_RATIO = 0.8, 6.0  # times what the near partition holds: how far timed lines lie back
END_SHARE = 0.8  # of that: lines from there on are of memory
MIN_HOME_SHARE = 0.25  # of all lines, at home in either partition
MAX_PROMPT_SHARE = 0.9  # of accesses to memory, the fastest of which fall into two groups; others are late
MAX_LATE_SHARE = 0.3  # of accesses, that are late by more than half of what parts both memories
MAX_NEAR_HITS_SHARE = 0.03  # of lines from which on the near partition holds none
MAX_FAR_MISSES_SHARE = 0.1  # of lines at home in the far partition, up to which it holds all
ROUNDS = 20  # of both shares, each by the other
FASTEST_SHARE = 0.05  # of accesses to near memory
MIN_BETWEEN_LOOKS = 100  # between both, to tell the latency of a hit in the far partition
MAX_CAPACITY_RATIO = 1.4  # between both partitions, which are built alike
MAX_HOME_DIFFERENCE = 0.1  # between the share of lines that are at home in the far partition and that of faster hits


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


def measure_far_partition(level: ScannedLevel, near: Residence) -> Experiment[FarPartition | str]:
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
    memories = _memories_of(cycles[since >= END_SHARE * since.max()])
    if isinstance(memories, str):
        return memories
    places, slow = shares_by_age(pooled, pooled.latencies > memories.limit)
    fast = shares_by_age(pooled, pooled.latencies <= level.missed_from)[1]
    between = places[(fast <= MAX_NEAR_HITS_SHARE) & (memories.evicted(slow, fast) <= MAX_FAR_MISSES_SHARE)]
    asked = cycles[np.isin(since, between) & (cycles > level.missed_from)]
    chosen = asked[asked <= memories.limit]
    if chosen.size < MIN_BETWEEN_LOOKS:
        return "no number of bytes empties the near partition and leaves the far one full"
    # hits are not late: those that no line of near memory is as fast as are of all lines at home in the far partition
    below = float(np.quantile(memories.near, FASTEST_SHARE))
    faster, slower = float((asked < below).mean()) - FASTEST_SHARE * memories.prompt, memories.share
    if abs(faster - slower) > MAX_HOME_DIFFERENCE:
        return f"{faster:.0%} of lines hit faster than near memory, and {slower:.0%} are at home further away"
    stays = np.array([_far_stay(one, memories, level.missed_from) for one in looks])
    stay, share = float(stays.mean()), (faster + slower) / 2
    far = share * stay
    if not near.nbytes / MAX_CAPACITY_RATIO <= far <= near.nbytes * MAX_CAPACITY_RATIO:
        return f"{far:.0f} B are not about the {near.nbytes:.0f} B of the near partition"
    sampling = np.hypot(stays.std(ddof=1) / np.sqrt(stays.size) / stay, np.sqrt((1 - share) / share / memories.size))
    slack = far * SIGMAS * float(sampling) + stay * abs(faster - slower) / 2
    hit = _spread_without(chosen, memories.near, memories.prompt / (slower + memories.prompt))
    return FarPartition(far, far - slack, far + slack, hit, _spread(memories.near), _spread(memories.far), share, evidence)


@dataclass(frozen=True, slots=True)
class _Memories:
    """Accesses to either memory: those up to `limit`, midway between both, and those beyond it; the share of lines at home in
    the far partition; and that of accesses which are late, so that near memory takes longer than `limit`."""

    near: Array
    far: Array
    limit: float
    share: float
    late: float

    @property
    def size(self) -> int:
        """All accesses."""
        return int(self.near.size + self.far.size)

    @property
    def prompt(self) -> float:
        """The share of accesses that are to near memory, and not late."""
        return (1 - self.share) * (1 - self.late)

    def evicted(self, slow: Array, fast: Array) -> Array:
        """The share of the lines at home in the far partition which that has evicted, where so many accesses are slow, and so
        many hit in the near one, which are not late."""
        return np.asarray((slow - (1 - fast) * (1 - self.share) * self.late) / self.share)


def _memories_of(end: Array) -> _Memories | str:
    """Both memories from latencies of lines that no partition holds; or why they are not told apart."""
    parted = two_groups(end[end <= np.quantile(end, MAX_PROMPT_SHARE)])
    if parted is None:
        return "the latencies of lines in memory are one group"
    limit = (float(parted[0].mean()) + float(parted[1].mean())) / 2
    near, far = end[end <= limit], end[end > limit]
    shares = _share_and_late(end, limit, float(np.median(far)) - limit)
    if shares is None:
        return f"two latencies of memory of uneven shares: {format_groups((np.sort(near), np.sort(far)))}"
    return _Memories(near, far, limit, *shares)


def _share_and_late(end: Array, limit: float, apart: float) -> tuple[float, float] | None:
    """The share of lines at home in the far partition, and that of accesses to memory that are late by more than `apart`, from
    latencies of memory alone; None where either is no usual one. `limit` lies midway between both memories, so `apart` from the
    median of either: slow accesses are those of far memory and late ones of near memory, and those beyond far memory by
    `apart` are late by that, or by three times that."""
    slow, late_far, later = (float((end > limit + far * apart).mean()) for far in (0, 2, 4))
    if late_far == 0.0:
        return (slow, 0.0) if MIN_HOME_SHARE <= slow <= 1 - MIN_HOME_SHARE else None
    # each further step leaves the same part of them, as of a queue
    share, left = slow, later / late_far
    for _ in range(ROUNDS):
        late = late_far / (share + (1 - share) * left)
        share = 1 - (1 - slow) / (1 - min(late, MAX_LATE_SHARE))
    return (share, late) if late < MAX_LATE_SHARE and MIN_HOME_SHARE <= share <= 1 - MIN_HOME_SHARE else None


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


def _far_stay(looks: Looks, memories: _Memories, missed_from: float) -> float:
    """The mean number of bytes after which the far partition evicts a line that is at home there."""
    places, slow = shares_by_age(looks, looks.latencies > memories.limit)
    fast = shares_by_age(looks, looks.latencies <= missed_from)[1]
    return mean_stay(places, 1 - memories.evicted(slow, fast))


def _spread(values: Array) -> tuple[float, float, float]:
    """The median and the middle 90%."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return middle, low, high
