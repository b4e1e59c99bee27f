"""Partitions of a last-level cache, from the latency of each compute unit to each line: who is near to what. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from clmembench.analysis import derive
from clmembench.model import Array, Finding, Record

PARTITION_METHOD = "latency of {access} of each line from each compute unit, lines and units grouped by what is near"
INTERVAL_METHOD = "median; interval: the middle 95% of latencies"
# Thresholds and limits, each with its reason
MIN_FAR_TO_NEAR_RATIO = 1.15  # far over near: lines of one partition differ by less, by their place on the chip
MAX_MIDDLE_THIRD_SHARE = 0.05  # of all latencies, in the middle third between near and far: with more there is no gap
MAX_DIFFERING_UNIT_SHARE = 0.25  # of units that see two lines of one partition differently
MAX_FAR_LINE_SHARE = 0.2  # of a partition's lines that look far from a unit near it
MIN_PARTITION_LINE_SHARE = 0.03  # of all lines: a smaller group is outliers, not a partition


@dataclass(frozen=True, slots=True)
class LatencyMap:
    """Latency in cycles, shape (units, lines), NaN where none was measured; the number of each unit; where it is from; the
    access: "load" or "atomic"."""

    cycles: Array
    units: tuple[int, ...]
    evidence: tuple[str, ...] = ()
    access: str = "load"

    @property
    def method(self) -> str:
        """How partitions are found from it."""
        return PARTITION_METHOD.format(access="an atomic" if self.access == "atomic" else "a load")


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions read from a map: `findings` has partitions, near_cycles and far_cycles, units_each and lines_each (counts, as
    66 + 66); and the partition of each unit and each line, numbered from 0, -1 for none."""

    findings: Mapping[str, Finding]
    of_unit: tuple[int, ...]
    of_line: tuple[int, ...]


def measured_map(record: Record) -> LatencyMap | None:
    """The map that a record of `l2_map` holds: ticks a further access, medians over samples; None where it holds none.

    The longer series less the shorter, over the accesses that it has more, so that reading the clock cancels. Rows that no
    work-group was there to measure are left out. Raises ValueError where the kept reads are damaged.
    """
    if record.status not in ("ok", "suspect") or len(record.series) != 2 or any("ticks" not in s.reads for s in record.series):
        return None
    near, far = sorted(record.series, key=lambda s: s.ops)
    rows = near.reads["unit"].count
    times, seen = [], []
    for series in (near, far):
        seen.append(series.reads["unit"].unpack())
        ticks = series.reads["ticks"].unpack().astype(np.float64)
        times.append(ticks.reshape(len(ticks), rows, -1))
    lines = times[0].shape[2]
    more = (far.ops - near.ops) / (rows * lines)
    numbers = np.minimum(seen[0].min(axis=0), seen[1].min(axis=0))
    medians = []
    for ticks, ran in zip(times, seen, strict=True):
        there = np.broadcast_to((ran == numbers)[:, :, None], ticks.shape)
        medians.append(np.nanmedian(np.where(there, ticks, np.nan), axis=0) if len(ticks) else np.full((rows, lines), np.nan))
    cycles = (medians[1] - medians[0]) / more
    known = (numbers != np.iinfo(np.uint32).max) & np.isfinite(cycles).all(axis=1)
    name = derive.id_of(record)
    return LatencyMap(cycles[known], tuple(int(n) for n in numbers[known]), (name,), str(record.params.get("access")))


def find_partitions(found: LatencyMap) -> Partitions:
    """Near and far plateaus and the partitions behind them; undetermined where all latencies are of one group.

    Two groups of lines are two partitions only where some units are near the one and far from the other and other units the
    reverse: lines that are far from all units are just slow, and units that are far from all lines just distant.
    """
    cycles = found.cycles
    if cycles.ndim != 2 or min(cycles.shape) < 2:
        return _no_partitions(found, "a map needs two compute units and two lines")
    if not np.isfinite(cycles).all():
        return _no_partitions(found, "some latencies of the map are missing")
    near, far, between = _near_and_far(cycles)
    if far <= MIN_FAR_TO_NEAR_RATIO * near or between > MAX_MIDDLE_THIRD_SHARE:
        middle = f"all latencies lie around {np.nanmedian(cycles):.4g} cycles"
        why = (
            f"{between:.0%} of them lie between {near:.4g} and {far:.4g}"
            if far > MIN_FAR_TO_NEAR_RATIO * near
            else "no second plateau"
        )
        return _no_partitions(found, f"one group: {middle}, {why}")
    distant = cycles > np.sqrt(near * far)
    labels = _group_labels(distant.T)
    groups = [labels == n for n in range(labels.max() + 1) if (labels == n).mean() >= MIN_PARTITION_LINE_SHARE]
    shares = np.array([distant[:, group].mean(axis=1) for group in groups])  # (groups, units)
    homes = [g for g, share in enumerate(shares) if (share <= MAX_FAR_LINE_SHARE).any()]
    if len(homes) < 2:
        return _no_partitions(
            found, "one group of lines is near to compute units: others are far from all of them, which is no partition"
        )
    if not _is_two_sided(shares[homes]):
        return _no_partitions(found, "one-sided: some lines are slower, but for no compute unit are they the nearer ones")
    of_line = np.full(cycles.shape[1], -1)
    for number, group in enumerate(homes):
        of_line[groups[group]] = number
    close = shares[homes] <= MAX_FAR_LINE_SHARE
    of_unit = np.where(close.sum(axis=0) == 1, close.argmax(axis=0), -1)
    return _partition_findings(found, of_unit, of_line, len(homes))


def _near_and_far(cycles: Array) -> tuple[float, float, float]:
    """Medians of the lower and the upper group of latencies, split where the variance within both is least (Otsu 1979), and
    the share of latencies in the middle third between them."""
    values = np.sort(cycles[np.isfinite(cycles)])
    inner = values[int(0.005 * values.size) : values.size - int(0.005 * values.size)]
    below = np.arange(1, inner.size)
    sums = np.cumsum(inner)[:-1]
    apart = sums / below - (inner.sum() - sums) / (inner.size - below)
    split = int(np.argmax(below * (inner.size - below) * apart**2)) + 1
    near, far = float(np.median(inner[:split])), float(np.median(inner[split:]))
    third = (far - near) / 3
    return near, far, float(((values > near + third) & (values < far - third)).mean())


def _group_labels(rows: Array) -> Array:
    """Group rows of truth values that differ in at most a quarter of their columns: the number of each row's group.

    Rows join the nearest group's majority or found one; then once more, so that the first row of a group does not decide.
    """
    centres: list[Array] = []
    for row in rows:
        if all((row != centre).mean() > MAX_DIFFERING_UNIT_SHARE for centre in centres):
            centres.append(row)
    labels = np.zeros(len(rows), dtype=int)
    for _ in range(3):
        labels = np.array([int(np.argmin([(row != centre).mean() for centre in centres])) for row in rows])
        centres = [rows[labels == n].mean(axis=0) > 0.5 for n in range(len(centres)) if (labels == n).any()]
        labels = np.array([int(np.argmin([(row != centre).mean() for centre in centres])) for row in rows])
    return labels


def _is_two_sided(shares: Array) -> bool:
    """True if each group is, for some unit, near where each other one is far."""
    near, far = shares <= MAX_FAR_LINE_SHARE, shares >= 1 - MAX_FAR_LINE_SHARE
    pairs = [(a, b) for a in range(len(shares)) for b in range(len(shares)) if a != b]
    return all((near[a] & far[b]).any() for a, b in pairs)


def _partition_findings(found: LatencyMap, of_unit: Array, of_line: Array, count: int) -> Partitions:
    own = of_unit[:, None] == of_line[None, :]
    told = (of_unit >= 0)[:, None] & (of_line >= 0)[None, :]

    def finding(name: str, value: float | str, unit: str = "", values: Array | None = None) -> Finding:
        low, high = np.percentile(values, (2.5, 97.5)).tolist() if values is not None else (None, None)
        method = found.method if values is None else f"{found.method}; {INTERVAL_METHOD}"
        return Finding(name, value, low, high, unit, "ok", method, found.evidence)

    near, far = found.cycles[own & told], found.cycles[~own & told]
    each = {name: [int((of == n).sum()) for n in range(count)] for name, of in (("units", of_unit), ("lines", of_line))}
    findings = {
        "partitions": replace(finding("partitions", count), low=count, high=count),
        "near_cycles": finding("near_cycles", float(np.median(near)), "cycles", near),
        "far_cycles": finding("far_cycles", float(np.median(far)), "cycles", far),
        **{f"{name}_each": finding(f"{name}_each", " + ".join(map(str, counts))) for name, counts in each.items()},
    }
    return Partitions(findings, tuple(map(int, of_unit)), tuple(map(int, of_line)))


def _no_partitions(found: LatencyMap, why: str) -> Partitions:
    units = {"near_cycles": "cycles", "far_cycles": "cycles"}
    names = ("partitions", "near_cycles", "far_cycles", "units_each", "lines_each")
    findings = {
        name: Finding(name, None, None, None, units.get(name, ""), "undetermined", found.method, found.evidence, why)
        for name in names
    }
    nothing = found.cycles.shape if found.cycles.ndim == 2 else (0, 0)
    return Partitions(findings, (-1,) * nothing[0], (-1,) * nothing[1])
