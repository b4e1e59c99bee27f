"""Where the last cache sits: its partitions, seen from each compute unit, joined with the levels that a chase found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.infer import partitions
from clmembench.model import Array, CacheLevel, Hierarchy, Record

AMONG = 0.2  # relative: a plateau that is that close to what far lines cost is the cache's far part
MOST_REGIONS = 48  # lines that a figure shows


@dataclass(frozen=True, slots=True)
class Placed:
    """A hierarchy with what is known of its last cache's place, and latency in cycles by (compute unit, region), or None."""

    hierarchy: Hierarchy
    regions: Array | None = None


def placed(hierarchy: Hierarchy, records: Sequence[Record]) -> Placed:
    """The hierarchy with the partitions that records of `l2_map` tell; as it is where there are none."""
    maps = {}
    for record in records:
        found = partitions.measured(record) if record.benchmark == "l2_map" else None
        if found is not None:
            maps[record.params.get("access")] = found
    # an atomic goes to where the line is at home; a load may find a copy nearer by
    chosen = maps.get("atomic") or maps.get("load")
    if chosen is None:
        return Placed(hierarchy)
    told = partitions.partitions(chosen)
    shown = chosen.cycles[:, _ordered(told.of_line)][:, :: max(1, chosen.cycles.shape[1] // MOST_REGIONS)]
    return Placed(replace(hierarchy, levels=_joined(hierarchy.levels, told)), shown)


def _ordered(of_line: Sequence[int]) -> list[int]:
    """Lines by their partition, so that a figure shows each as one stretch."""
    return sorted(range(len(of_line)), key=lambda line: of_line[line])


def _joined(levels: Sequence[CacheLevel], told: partitions.Partitions) -> tuple[CacheLevel, ...]:
    """The levels, the second with the partitions' findings; a third whose latency is that of far lines is its far part."""
    caches = [level for level in levels if level.name != "DRAM" and level.space.startswith("global")]
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
        and abs(latency.value - far.value) <= AMONG * far.value
    ):
        # a unit's own partition holds copies of what it reads, until it is full; then what is at home in the far one is fetched
        found["near_bytes"] = replace(second.findings["size_bytes"], name="near_bytes")
        found["size_bytes"] = third.findings["size_bytes"]
        found["latency_far_cycles"] = replace(latency, name="latency_far_cycles")
        levels = [level for level in levels if level is not third]
    return tuple(replace(second, findings=found) if level is second else level for level in levels)
