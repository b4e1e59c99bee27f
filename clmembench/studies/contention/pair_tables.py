"""Tables of core_to_core: the latency of pairs of compute units, and clusters beside what the system says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clmembench.model import Run
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.report.views import interval
from clmembench.studies.contention.pair_clusters import (
    ClusterLevel,
    PairMap,
    find_clusters,
    is_division,
    measured_pairs,
    same_division,
)
from clmembench.units import count, format_in, format_value

PAIR_NOTE = "pairs: of 8 lines, the one that the pair hands over fastest; mean: of all lines of all pairs"
NO_PAIRS = "pairs have no value: no counter works in kernels here, or what it read was disturbed"
CLUSTER_NOTE = "clusters by average linkage of latencies; within and between are medians of pairs"


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Latencies of the mean, nearest and farthest pair, and the clusters that they form."""
    tables = []
    for row in rows:
        found = pair_map(row)
        lines: list[tuple[Entry, ...]] = [("mean of all pairs", *_mean(row), "–")]
        if found is not None:
            lines += [(name, *cells, pair) for name, *cells, pair in _extremes(found)]
        header = ("core_to_core: one way", "latency", "95% interval", "pair")
        called = found.called if found is not None else "compute unit"
        title = f"A line handed by compare-and-swap from one {called} to another."
        tables.append(
            noted(Table(title, columns(header), tuple(lines), (PAIR_NOTE if found is not None else NO_PAIRS, *row.value.notes)))
        )
        if found is not None:
            tables.append(_clusters(found))
    return tables


def pair_map(row: Row) -> PairMap | None:
    """The map of a row of core_to_core that has a value; None where it has none or its reads are damaged."""
    if not row.is_good or row.value.sampled is None:
        return None
    try:
        return measured_pairs(row.value.sampled[1])
    except ValueError:
        return None


def _mean(row: Row) -> tuple[Entry, Entry]:
    if not row.is_good:
        return Cell(row.status, reason=row.reason), "–"
    return format_in(row.value.median, row.value.unit), interval(row.value)


def _extremes(found: PairMap) -> Iterator[tuple[str, str, str, str]]:
    for name, of in (("nearest pair", np.nanargmin), ("farthest pair", np.nanargmax)):
        a, b = divmod(int(of(found.ns)), len(found.units))
        yield name, format_in(float(found.ns[a, b]), "ns"), "–", f"{found.units[a]} and {found.units[b]}"


def _clusters(found: PairMap) -> Table:
    levels, why = find_clusters(found)
    divisions = {name: numbers for name, numbers in found.shared.items() if is_division(numbers)}
    header = ["core_to_core: level", "clusters", "units of each", "within, ns", "between, ns"]
    header += ["by sysfs"] if found.shared else []
    lines = []
    for number, level in enumerate(levels, 1):
        same = [name for name, numbers in divisions.items() if same_division(level.of_unit, numbers)]
        values = (_sizes(level), format_value(level.within_ns), format_value(level.between_ns))
        told = (" and ".join(f"same {name}" for name in same) or "no such groups",) if found.shared else ()
        lines.append((str(number), str(len(level.sizes)), *values, *told))
    if not levels:
        lines.append(("none", "1", count(len(found.units), found.called), "–", "–", *("–",) * bool(found.shared)))
    seen = {name for name, numbers in divisions.items() if any(same_division(level.of_unit, numbers) for level in levels)}
    unseen = [
        f"sysfs: {count(len(set(numbers)), 'group')} of one {name}, which latencies do not show"
        for name, numbers in divisions.items()
        if name not in seen
    ]
    title = f"Clusters of {found.called}s by the latency between them."
    return Table(title, columns(header), tuple(lines), (*([why] if why else []), *unseen, CLUSTER_NOTE))


def _sizes(level: ClusterLevel) -> str:
    sizes = level.sizes
    return str(sizes[0]) if len(set(sizes)) == 1 else " + ".join(map(str, sizes[:8])) + (" + ..." if len(sizes) > 8 else "")
