"""What records of `cache_sharing` hold, as numbers: sets that stay in a cache, and laps after others used it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.analysis import derive, stats
from clmembench.model import Array, Record
from clmembench.studies.hierarchy.benchmarks.cache_sharing import BRACKETS, FIT_LAPS, SAME_WALKS, SHARING_BENCHMARK, WALKS

# Thresholds and limits, each with its reason
MAX_MISS_SHARE = 0.05  # of the rise to the slowest set: a lap of a set that stays is slower by noise alone
MIN_JUDGED_STEPS = 32  # in a shorter lap the cost of reading the counter, a few cycles off, counts as a miss
MIN_TIMED_STEPS = 16  # in a shorter lap that cost is a tenth of a hit
SAME_LATENCY = 0.1  # relative: constants that take as long as global loads are global loads
MIN_END_RISE = 1.15  # slowest over fastest set: with less, no set left the cache


@dataclass(frozen=True, slots=True)
class Fit:
    """Laps over sets of growing size on a path while the work-group takes `local_bytes` of local memory: `ticks` a step by
    size, those of a hit, the largest set that stays in the nearest cache, and the first that does not (None: none was met)."""

    path: str
    local_bytes: int
    sizes: tuple[int, ...]
    ticks: tuple[float, ...]
    hit_ticks: float
    low_bytes: int
    high_bytes: int | None
    evidence: tuple[str, ...]

    def miss_share(self, nbytes: int) -> float:
        """How far the set of that size is from one that hits to the slowest."""
        return (self.ticks[self.sizes.index(nbytes)] - self.hit_ticks) / max(1e-9, max(self.ticks) - self.hit_ticks)


@dataclass(frozen=True, slots=True)
class LapInterval:
    """A median with its 95% interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Eviction:
    """What laps over a set on the path `owner` cost more a step, by sample, in ticks: after as many bytes were visited on its
    own path as on `other` (`own`), after that (`other_path`), after a wait (`idle`), and at the beginning of a launch (`cold`);
    `same` after it was evicted and visited on the other path, None where that is another memory. `warm` is a lap that hits."""

    owner: str
    other: str
    warm: Array
    cold: Array
    own: Array
    other_path: Array
    idle: Array
    same: Array | None
    evidence: tuple[str, ...]

    @property
    def samples(self) -> int:
        return int(self.own.size)


def as_global_loads(what: str, ticks: float, plain: Fit) -> str:
    """The reason why constants that take so long a step tell nothing, where that is as long as global loads, else ""."""
    if abs(ticks - plain.hit_ticks) > SAME_LATENCY * plain.hit_ticks:
        return ""
    return (
        f"loads from {what} take as long as global loads ({ticks:.4g} and {plain.hit_ticks:.4g} ticks): the compiler made them "
        "global loads, which tell nothing of a cache for constants"
    )


def question_records(records: Sequence[Record], question: str) -> list[Record]:
    """The records of one question, the last one of each point."""
    asked = [r for r in records if r.benchmark == SHARING_BENCHMARK and r.params.get("question") == question]
    return list({tuple(sorted(record.params.items())): record for record in asked}.values())


def fit_of(record: Record) -> Fit | None:
    """The sets of a record of question fit; None where it holds none, or damaged ones."""
    found = stored_reads(record, ("ticks", "steps", "bytes"))
    if found is None:
        return None
    ticks, steps, sizes = found["ticks"], found["steps"][0], found["bytes"][0]
    count = BRACKETS + FIT_LAPS * sizes.size
    if ticks.shape[1] != count or steps.size != count or sizes.size < 2 or (np.diff(sizes) <= 0).any():
        return None
    last = np.arange(BRACKETS + FIT_LAPS - 1, count, FIT_LAPS)
    if (steps[last] <= 0).any():
        return None
    laps = np.median((ticks[:, last] - _bracket(ticks)[:, None]) / steps[last], axis=0)
    judged, timed = steps[last] >= MIN_JUDGED_STEPS, steps[last] >= MIN_TIMED_STEPS
    if not judged.any() or not np.isfinite(laps).all() or laps[timed].min() <= 0:
        return None
    hit, miss = float(laps[timed].min()), float(laps[judged].max())
    left = judged & (laps - hit > MAX_MISS_SHARE * (miss - hit)) if miss >= MIN_END_RISE * hit else np.zeros(laps.size, bool)
    first = int(np.argmax(left)) if left.any() else sizes.size
    if first == 0:  # not even the smallest set stays
        return None
    whole = tuple(int(n) for n in sizes)
    high = whole[first] if first < len(whole) else None
    local = record.params.get("local_bytes", 0)
    path = str(record.params.get("owner", "global"))
    names = (derive.id_of(record),)
    return Fit(path, int(local), whole, tuple(map(float, laps)), hit, whole[first - 1], high, names)


def eviction_of(record: Record) -> Eviction | None:
    """The laps of a record of question paths; None where it holds none, or damaged ones."""
    found = stored_reads(record, ("ticks", "steps"))
    if found is None:
        return None
    names = (*WALKS, *SAME_WALKS)
    ticks, steps = found["ticks"], found["steps"][0]
    if ticks.shape[1] not in (len(WALKS), len(names)) or steps.size != ticks.shape[1] or steps[names.index("first")] <= 0:
        return None
    per_step = (ticks - _bracket(ticks)[:, None]) / steps[names.index("first")]

    def lap(name: str) -> Array:
        column: Array = per_step[:, names.index(name)]
        return column

    same = lap("after_same") - lap("warm_same") if ticks.shape[1] == len(names) else None
    return Eviction(
        str(record.params.get("owner", "global")),
        str(record.params.get("other", "")),
        warm=lap("warm_own"),
        cold=lap("first") - lap("warm_own"),
        own=lap("after_own") - lap("warm_own"),
        other_path=lap("after_other") - lap("warm_other"),
        idle=lap("after_idle") - lap("warm_idle"),
        same=same,
        evidence=(derive.id_of(record),),
    )


def interval(values: Array) -> LapInterval:
    """The median of samples and its interval, which is infinite where they are too few or not finite."""
    ordered = np.sort(np.asarray(values, np.float64))
    ranks = stats.median_ranks(ordered.size)
    if ranks is None or not np.isfinite(ordered).all():
        return LapInterval(float(np.median(ordered)) if ordered.size else np.nan, -np.inf, np.inf)
    return LapInterval(float(np.median(ordered)), float(ordered[ranks[0]]), float(ordered[ranks[1]]))


def stored_reads(record: Record, names: Sequence[str]) -> Mapping[str, Array] | None:
    """The data of these names by sample, as floating-point numbers of shape (samples, count); None where one is missing,
    damaged or not of as many samples."""
    if record.status not in ("ok", "suspect") or len(record.series) != 1:
        return None
    reads = record.series[0].reads
    if any(name not in reads for name in names):
        return None
    try:
        found = {name: np.atleast_2d(reads[name].unpack()).astype(np.float64) for name in names}
    except ValueError:
        return None
    samples = {array.shape[0] for array in found.values()}
    return found if len(samples) == 1 and all(array.size for array in found.values()) else None


def _bracket(ticks: Array) -> Array:
    """The cost of reading the counter, by sample: the less of the walks of no step."""
    least: Array = ticks[:, :BRACKETS].min(axis=1)
    return least
