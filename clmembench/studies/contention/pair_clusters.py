"""Clusters of compute units, from the latency of a line handed between each two: cores, shared caches, sockets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from clmembench.analysis.derive import id_of
from clmembench.model import Array, Record

NO_UNIT = 0xFFFFFFFF
SYSFS = "sysfs "  # prefix of the facts that say which CPUs share something
# Thresholds, each with its reason
MIN_LATENCY_RATIO = 1.15  # between clusters over within: less is the place of units on one chip
MIN_GAP_DEVIATIONS = 4.0  # of latencies within and between, on the logarithm: what varies as much has no two levels
MIN_SEPARATED_SHARE = 0.95  # of pairs on the right side of the gap: the rest are disturbed
MIN_CLUSTERED_SHARE = 0.75  # of units in clusters of several: chance makes a few near pairs of many units
MIN_CLUSTERED_UNITS = 4  # units of which two clusters of two can be made
NORMAL_MAD = 1.4826  # standard deviations for each median absolute deviation


@dataclass(frozen=True, slots=True)
class PairMap:
    """One-way latency in ns between each two units, of a pair's nearest line: symmetric, NaN where there is none. `shared` has,
    by what units share according to the system, the number of each one's group."""

    ns: Array
    units: tuple[int, ...]
    called: str = "compute unit"
    evidence: tuple[str, ...] = ()
    shared: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterLevel:
    """A way to divide the units: the number of each unit's cluster, and the medians of latency within clusters and between."""

    of_unit: tuple[int, ...]
    within_ns: float
    between_ns: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each cluster, the largest first."""
        return tuple(sorted(np.bincount(self.of_unit).tolist(), reverse=True))


def measured_pairs(records: Sequence[Record]) -> PairMap | None:
    """The map that records of core_to_core hold, medians over samples and processes; None where they hold none.

    Ticks become ns by the slope of the time of all pairs over that of their ticks. Raises ValueError for damaged reads.
    """
    maps = [one for record in records if (one := _pairs_of(record)) is not None]
    if not maps:
        return None
    alike = [one for one in maps if one.units == maps[0].units]
    first, evidence = alike[0], tuple(e for one in alike for e in one.evidence)
    return PairMap(np.median([one.ns for one in alike], axis=0), first.units, first.called, evidence, first.shared)


def _pairs_of(record: Record) -> PairMap | None:
    if record.status not in ("ok", "suspect") or len(record.series) != 2 or any("ticks" not in s.reads for s in record.series):
        return None
    near, far = sorted(record.series, key=lambda s: s.ops)
    ran = [s.reads["unit"].unpack().reshape(s.reads["unit"].samples, -1, 2) for s in (near, far)]
    pairs = np.minimum(ran[0].min(axis=0), ran[1].min(axis=0))
    rows = len(pairs)
    ticks = [
        s.reads["ticks"].unpack().astype(np.int64).reshape(len(r), rows, -1) for s, r in zip((near, far), ran, strict=True)
    ]
    samples = min(len(r) for r in ran)
    extra = (ticks[1][:samples] - ticks[0][:samples]).reshape(samples, rows, -1)  # below 0 where the shorter one was disturbed
    there = np.all([(r[:samples] == pairs) & (pairs != NO_UNIT) for r in ran], axis=(0, 3))  # (samples, rows)
    whole = there.all(axis=1)
    times = np.array(far.times_ns()[:samples], float) - np.array(near.times_ns()[:samples], float)
    if not whole.any():
        return None
    total = float(np.median(extra[whole].sum(axis=(1, 2))))
    hops = (far.ops - near.ops) / (rows * extra.shape[2])
    lines = np.where(there[:, :, None], extra, np.nan)
    known = there.any(axis=0)
    fastest = np.nanmedian(lines[:, known], axis=0).min(axis=1)
    if min(total, fastest.min()) <= 0:
        return None
    best = fastest * float(np.median(times[whole])) / total / hops
    units = tuple(map(int, np.unique(pairs[known])))
    place = {unit: n for n, unit in enumerate(units)}
    found = np.full((len(units), len(units)), np.nan)
    for (a, b), latency in zip(pairs[known], best, strict=True):
        found[place[int(a)], place[int(b)]] = found[place[int(b)], place[int(a)]] = latency
    shared = {name.removeprefix(SYSFS): _numbers(str(text), units) for name, text in record.facts.items() if name[:6] == SYSFS}
    return PairMap(found, units, str(record.facts.get("unit", "compute unit")), (id_of(record),), shared)


def _numbers(text: str, units: Sequence[int]) -> tuple[int, ...]:
    """The group of each unit in a text such as "0,8;1,9"; -1 where it has none."""
    groups = {cpu: n for n, part in enumerate(text.split(";")) for cpu in part.split(",")}
    return tuple(groups.get(str(unit), -1) for unit in units)


def find_clusters(found: PairMap) -> tuple[list[ClusterLevel], str]:
    """The levels of clusters, the finest first, and why there are none, "" where there are some.

    Units are merged by average linkage; a level is a gap in the heights of merges that clearly exceeds how much latencies vary
    on either side of it, where nearly all pairs lie on the side of their clusters, and most units are in clusters of several.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    count = len(found.units)
    if count < MIN_CLUSTERED_UNITS:
        return [], f"{count} units: clusters need {MIN_CLUSTERED_UNITS}"
    pairs = np.triu_indices(count, 1)
    if not np.isfinite(found.ns[pairs]).all():
        return [], "some pairs have no latency"
    logs = np.log(found.ns)
    np.fill_diagonal(logs, 0.0)
    lowest = logs[pairs].min()
    tree = linkage(squareform(logs - lowest + 1.0, checks=False), "average")
    heights = tree[:, 2]
    levels = []
    for low, high in pairwise(heights):
        if high - low < np.log(MIN_LATENCY_RATIO):
            continue
        labels = fcluster(tree, (low + high) / 2, "distance") - 1
        same = (labels[:, None] == labels[None, :])[pairs]
        level = _level(labels, logs[pairs], same, (low + high) / 2 + lowest - 1.0)
        if level is not None:
            levels.append(level)
    return levels, "" if levels else "one cluster: latencies have no gap that exceeds how much they vary"


def _level(labels: Array, logs: Array, same: Array, limit: float) -> ClusterLevel | None:
    """The level of these labels; None where they are no clusters."""
    sizes = np.bincount(labels)
    if (sizes > 1).sum() < 2 or sizes[sizes > 1].sum() < MIN_CLUSTERED_SHARE * labels.size:
        return None
    within, between = logs[same], logs[~same]
    if min((within < limit).mean(), (between > limit).mean()) < MIN_SEPARATED_SHARE:
        return None
    low, high = float(np.median(within)), float(np.median(between))
    nearest = between[between <= high]  # farther clusters are a level of their own
    spread = NORMAL_MAD * max(float(np.median(abs(within - low))), float(np.median(abs(nearest - np.median(nearest)))))
    gap = float(np.quantile(between, 1 - MIN_SEPARATED_SHARE) - np.quantile(within, MIN_SEPARATED_SHARE))
    if gap < np.log(MIN_LATENCY_RATIO) or high - low < MIN_GAP_DEVIATIONS * spread:
        return None
    return ClusterLevel(tuple(map(int, labels)), float(np.exp(low)), float(np.exp(high)))


def same_division(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two numberings divide the units alike."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


def is_division(numbers: Sequence[int]) -> bool:
    """Whether a numbering has several groups, one of several units."""
    return 1 < len(set(numbers)) < len(numbers)
