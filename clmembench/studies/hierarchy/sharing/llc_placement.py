"""Levels that a chase found from one compute unit, joined with what all of them see: partitions and latencies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.analysis import derive
from clmembench.model import Array, CacheLevel, Hierarchy, Record
from clmembench.model.findings import undetermined_finding
from clmembench.studies.hierarchy.sharing import partitions
from clmembench.studies.hierarchy.sharing.sharing_records import question_records
from clmembench.studies.hierarchy.sharing.unit_groups import unit_laps

# Thresholds and limits, each with its reason
MAX_FAR_RELATIVE_DIFFERENCE = 0.2  # relative: a plateau this close to the latency of far lines, or of all units, is the same
MAX_NEAR_SHARE = 0.25  # of the way from near to far: half of the lines are far where a unit has no copies of them
NO_FAR_PLATEAU = "it has partitions of which only the near one has a plateau in the latency curve"
MAX_SHOWN_REGIONS = 48  # a figure shows no more lines legibly


@dataclass(frozen=True, slots=True)
class PlacedHierarchy:
    """A hierarchy with what is known of its last cache's place, and latency in cycles by (compute unit, region), or None."""

    hierarchy: Hierarchy
    regions: Array | None = None


def place_last_cache(hierarchy: Hierarchy, records: Sequence[Record]) -> PlacedHierarchy:
    """The hierarchy with the partitions that records of `l2_map` tell, and with intervals of latency that hold for all compute
    units; as it is where there are no records of several units."""
    hierarchy, maps = _with_unit_intervals_of_constants(hierarchy, records), {}
    for record in records:
        found = partitions.measured_map(record) if record.benchmark == "l2_map" else None
        if found is not None:
            maps[record.params.get("access")] = found
    # an atomic goes to where the line is at home; a load may find a copy nearer by
    chosen = maps.get("atomic") or maps.get("load")
    if chosen is None:
        return PlacedHierarchy(hierarchy)
    told = partitions.find_partitions(chosen)
    shown = chosen.cycles[:, _lines_by_partition(told.of_line)][:, :: max(1, chosen.cycles.shape[1] // MAX_SHOWN_REGIONS)]
    whole = replace(hierarchy, levels=_levels_with_partitions(hierarchy.levels, told))
    return PlacedHierarchy(_with_unit_intervals(whole, maps.get("load")), shown)


def _with_unit_intervals(hierarchy: Hierarchy, loads: partitions.LatencyMap | None) -> Hierarchy:
    """The hierarchy with the intervals of the second level and all slower ones as wide as the differences between compute
    units: a chase runs on one of them, and a launch does not choose which."""
    second = next((level for level in _global_caches(hierarchy.levels)[1:]), None)
    own = second.findings["latency_cycles"].value if second is not None else None
    if loads is None or not isinstance(own, int | float) or not loads.cycles.size:
        return hierarchy
    means = loads.cycles.mean(axis=1)
    below, above = min(0.0, float(means.min()) - own), max(0.0, float(means.max()) - own)
    if not above - below < MAX_FAR_RELATIVE_DIFFERENCE * own:  # not what the chase measured
        return hierarchy
    least = (1 - MAX_FAR_RELATIVE_DIFFERENCE) * own

    def wider(levels: Sequence[CacheLevel]) -> tuple[CacheLevel, ...]:
        return tuple(_with_wider_interval(level, below, above, least, loads.evidence) for level in levels)

    return replace(hierarchy, levels=wider(hierarchy.levels), image=wider(hierarchy.image), constant=wider(hierarchy.constant))


def _with_unit_intervals_of_constants(hierarchy: Hierarchy, records: Sequence[Record]) -> Hierarchy:
    """The hierarchy with the interval of the second cache of constant arrays as wide as the differences between the compute
    units that `cache_sharing` timed on it."""
    arrays = [level for level in hierarchy.constant if level.space == "constant_array"]
    own = arrays[1].findings["latency_cycles"].value if len(arrays) > 1 else None
    asked = question_records(records, "units")
    laps = unit_laps(asked[-1]) if asked else None
    if laps is None or not isinstance(own, int | float) or not np.isfinite(laps).any():
        return hierarchy
    if abs(float(np.nanmedian(laps)) - own) > MAX_FAR_RELATIVE_DIFFERENCE * own:  # not what the chase measured
        return hierarchy
    below, above = min(0.0, float(np.nanmin(laps)) - own), max(0.0, float(np.nanmax(laps)) - own)
    second = _with_wider_interval(arrays[1], below, above, own, (derive.id_of(asked[-1]),))
    return replace(hierarchy, constant=tuple(second if level is arrays[1] else level for level in hierarchy.constant))


def _with_wider_interval(level: CacheLevel, below: float, above: float, least: float, evidence: tuple[str, ...]) -> CacheLevel:
    """The level with its interval of latency wider by `below` and `above` cycles, by the records `evidence`, if its latency is
    at least `least`."""
    cycles = level.findings.get("latency_cycles")
    if cycles is None or not isinstance(cycles.value, int | float) or cycles.value < least:
        return level
    found = dict(level.findings)
    for name in ("latency_cycles", "latency_ns"):
        old = found.get(name)
        if old is not None and isinstance(old.value, int | float) and old.low is not None and old.high is not None:
            scale = old.value / cycles.value
            method = f"{old.method}; interval: all compute units"
            ids = tuple(dict.fromkeys((*old.evidence, *evidence)))
            ends = old.low + scale * below, old.high + scale * above
            found[name] = replace(old, low=ends[0], high=ends[1], method=method, evidence=ids)
    return replace(level, findings=found)


def _global_caches(levels: Sequence[CacheLevel]) -> list[CacheLevel]:
    return [level for level in levels if level.name != "DRAM" and level.space.startswith("global")]


def _lines_by_partition(of_line: Sequence[int]) -> list[int]:
    """Lines by their partition, so that a figure shows each as one stretch."""
    return sorted(range(len(of_line)), key=lambda line: of_line[line])


def _levels_with_partitions(levels: Sequence[CacheLevel], told: partitions.Partitions) -> tuple[CacheLevel, ...]:
    """The levels, the second with the partitions' findings; a third whose latency is that of far lines is its far part. Without
    one, a second level whose latency is that of near lines is the near partition, and the whole is larger."""
    caches = _global_caches(levels)
    if len(caches) < 2:
        return tuple(levels)
    second = caches[1]
    found = {**second.findings, **told.findings}
    far = told.findings.get("far_cycles")
    third = caches[2] if len(caches) > 2 else None
    latency = third.findings.get("latency_cycles") if third is not None else None
    if (
        third is not None
        and latency is not None
        and far is not None
        and isinstance(latency.value, int | float)
        and isinstance(far.value, int | float)
        and abs(latency.value - far.value) <= MAX_FAR_RELATIVE_DIFFERENCE * far.value
    ):
        # a unit's own partition holds copies of what it reads, until it is full; then what is at home in the far one is fetched
        found["near_bytes"] = replace(second.findings["size_bytes"], name="near_bytes")
        found["size_bytes"] = third.findings["size_bytes"]
        found["latency_far_cycles"] = replace(latency, name="latency_far_cycles")
        levels = [level for level in levels if level is not third]
    elif _is_near_part(second, told):
        size = second.findings["size_bytes"]
        found["near_bytes"] = replace(size, name="near_bytes")
        found["size_bytes"] = undetermined_finding("size_bytes", NO_FAR_PLATEAU, size.method, size.evidence, size.low)
    return tuple(replace(second, findings=found) if level is second else level for level in levels)


def _is_near_part(level: CacheLevel, told: partitions.Partitions) -> bool:
    """True if a level's latency is that of the near lines of a partitioned cache, and not between near and far."""
    near, far = (told.findings[name].value for name in ("near_cycles", "far_cycles"))
    cycles = level.findings["latency_cycles"].value
    if not (isinstance(near, int | float) and isinstance(far, int | float) and isinstance(cycles, int | float)):
        return False
    return cycles - near < MAX_NEAR_SHARE * (far - near)
