"""Tables of local memory throughput: theoretical and achieved, over sub-groups and ILP, and the bound by Little's law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import derive
from clmembench.analysis.little import Estimate, allowed_sub_groups, needed_bytes, needed_sub_groups, reachable_gb_s
from clmembench.model import Run
from clmembench.report.frame import Row
from clmembench.report.table import Table, columns
from clmembench.report.views import interval, percent
from clmembench.studies.access.banks import BANKS_BENCHMARK, MAX_SUB_GROUP_WORK_ITEMS, bank_accesses, study_banks
from clmembench.units import format_bytes, format_in, format_value

BYTES_PER_COPIED_WORD = 8  # B that a copied word moves: 4 read, 4 written
WORD_BYTES = 4
SATURATED_SHARE = 0.95  # of the best throughput: counts as reaching it
TITLE = "Throughput of a compute unit's local memory, theoretical and achieved"


@dataclass(frozen=True, slots=True)
class Unit:
    """One compute unit's local memory: its theoretical throughput with its source, and its latency if banks were measured; None
    if unknown."""

    theoretical: float | None
    how: str
    latency_ns: Estimate | None


def copy_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Mei & Chu's table VII and figures 15 and 16, and the bound by Little's law."""
    good = _good(rows)
    if not good:
        return [_nothing("local_copy", rows)]
    unit, units = unit_of(run, rows), run.header.device.compute_units
    best = max(good, key=lambda row: row.value.median or 0.0)
    parts = [_theory("local_copy", run, best, unit), _over_items(good, unit, units), _over_ilp(good, units)]
    if unit.theoretical is not None and unit.latency_ns is not None:
        parts.append(_little(run, good, unit))
    return parts


def read_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Table VII for reads alone."""
    good = _good(rows)
    if not good:
        return [_nothing("local_read", rows)]
    unit = unit_of(run, rows)
    return [_theory("local_read", run, row, unit) for row in good]


def unit_of(run: Run, rows: Sequence[Row]) -> Unit:
    """Theoretical throughput of a compute unit's local memory: from the spec sheet, else from the inferred banks and the
    measured clock. On CPUs work-items run one after another, so the latency of a work-group does not give that of a
    work-item."""
    info = run.header.device
    if info.has_cpu_cores:
        return Unit(None, "a CPU's local memory is ordinary memory", None)
    values = derive(run, {BANKS_BENCHMARK})
    free = next(
        (
            a
            for a in bank_accesses(values, unit="ns")[0]
            if (a.stride, a.word_bytes, a.items) == (1, WORD_BYTES, MAX_SUB_GROUP_WORK_ITEMS)
        ),
        None,
    )
    latency = Estimate(free.latency, free.low, free.high) if free and 0 < free.low <= free.latency <= free.high else None
    peak = next((row.peak for row in rows if row.peak is not None), None)
    if peak is not None:
        return Unit(peak.value / max(1, info.compute_units), f"its sheet: {peak.source}", latency)
    each = study_banks(*bank_accesses(values)).banks
    clocks = sorted(row.value.ghz for row in rows if row.value.ghz)
    if each is None or not clocks:
        return Unit(None, "no spec sheet, and no banks inferred", latency)
    ghz = clocks[len(clocks) // 2]
    how = f"{each.count} inferred banks x {each.width_bytes} B a cycle x {ghz:.2f} GHz measured"
    return Unit(each.count * each.width_bytes * ghz, how, latency)


def _theory(name: str, run: Run, best: Row, unit: Unit) -> Table:
    units, value = run.header.device.compute_units, best.value
    assert value.median is not None
    shape = {**value.params, **value.tuning}
    theoretical = "–" if unit.theoretical is None else f"{format_value(unit.theoretical, 4)} GB/s"
    share = None if unit.theoretical is None else value.median / units / unit.theoretical
    row = (
        ", ".join(f"{k} {v}" for k, v in shape.items()),
        theoretical,
        f"{format_value(value.median / units, 4)} GB/s",
        percent(share),
        format_in(value.median, value.unit, 4),
        interval(value),
    )
    header = (f"{name}: best shape", "theoretical a unit", "achieved a unit", "efficiency", "all units", "95% interval")
    return Table(f"{TITLE} (Mei & Chu 2015, table VII): {name}.", columns(header), (row,), (f"theoretical: {unit.how}",))


def _over_items(good: Sequence[Row], unit: Unit, units: int) -> Table:
    """Figure 15: the best over active sub-groups."""
    rows = []
    for items, mine in sorted(_by_items(good).items()):
        best = max(mine, key=lambda row: row.value.median or 0.0)
        params = best.value.params
        shape = f"{params['groups_a_unit']} x {params['work_group']}, ILP {params['ilp']}"
        bound = _bound(unit, items, int(params["ilp"]))
        cells = (
            str(items),
            f"{items / MAX_SUB_GROUP_WORK_ITEMS:g}",
            f"{format_value((best.value.median or 0) / units, 4)} GB/s",
            shape,
        )
        rows.append((*cells, f"{format_value(bound, 4)} GB/s" if bound else "–"))
    header = ("local_copy: work-items a unit", "sub-groups of 32", "best throughput a unit", "shape", "Little's law allows")
    return Table("Peak throughput over active sub-groups (Mei & Chu 2015, figure 15).", columns(header), tuple(rows))


def _bound(unit: Unit, items: int, ilp: int) -> float | None:
    """Upper bound of copy throughput, in GB/s per unit: a work-item has `ilp` words in flight, and stores as much as it
    loads."""
    if unit.latency_ns is None:
        return None
    reach = reachable_gb_s(items * ilp * BYTES_PER_COPIED_WORD, unit.latency_ns).value
    return reach if unit.theoretical is None else min(reach, unit.theoretical)


def _over_ilp(good: Sequence[Row], units: int) -> Table:
    """Figure 16: throughput by ILP over active sub-groups, the best of each."""
    ilps = sorted({int(row.value.params["ilp"]) for row in good})
    rows = []
    for items, mine in sorted(_by_items(good).items()):
        cells = [str(items)]
        for ilp in ilps:
            values = [row.value.median or 0.0 for row in mine if row.value.params["ilp"] == ilp]
            cells.append(format_value(max(values) / units, 4) if values else "–")
        rows.append(tuple(cells))
    header = ("local_copy: work-items a unit", *(f"ILP {ilp}" for ilp in ilps))
    return Table("Throughput in GB/s per compute unit, by ILP (Mei & Chu 2015, figure 16).", columns(header), tuple(rows))


def _little(run: Run, good: Sequence[Row], unit: Unit) -> Table:
    """Sub-groups that must be active on a compute unit to reach the throughput of its local memory, and those that are. Each
    word is loaded and stored, so half of the throughput is loads that are waited for."""
    assert unit.theoretical is not None and unit.latency_ns is not None
    info = run.header.device
    needed = needed_bytes(unit.latency_ns, Estimate.exact(unit.theoretical))
    rows = []
    for ilp in sorted({int(row.value.params["ilp"]) for row in good}):
        mine = {items: max(r.value.median or 0.0 for r in alike) for items, alike in _by_items(good, ilp).items()}
        top = max(mine.values())
        reached = min(items for items, value in mine.items() if value >= SATURATED_SHARE * top)
        groups = needed_sub_groups(needed, 1, MAX_SUB_GROUP_WORK_ITEMS, BYTES_PER_COPIED_WORD, ilp)
        allowed = allowed_sub_groups(
            MAX_SUB_GROUP_WORK_ITEMS,
            MAX_SUB_GROUP_WORK_ITEMS,
            BYTES_PER_COPIED_WORD * ilp * MAX_SUB_GROUP_WORK_ITEMS,
            info.local_mem_bytes,
        )
        cells = (str(ilp), format_value(groups.value), f"{format_value(groups.low)} to {format_value(groups.high)}")
        share = top / max(1, info.compute_units) / unit.theoretical
        rows.append((*cells, str(allowed.sub_groups), f"{reached / MAX_SUB_GROUP_WORK_ITEMS:g}", f"{share:.0%}"))
    header = (
        "local_copy: ILP", "sub-groups needed", "95% interval", "local memory of one group allows", "best from", "of peak"
    )  # fmt: skip
    rate = f"{format_value(unit.latency_ns.value)} ns of latency x {format_value(unit.theoretical, 4)} GB/s"
    flying = f"{rate} are {format_bytes(needed.value)} in flight a unit"
    note = f"needed: {flying}, half of them loaded and half stored; a unit may hold several work-groups"
    return Table("Little's law for local memory (Mei & Chu 2015, section 6.1).", columns(header), tuple(rows), (note,))


def _by_items(good: Sequence[Row], ilp: int | None = None) -> Mapping[int, list[Row]]:
    """Rows by the requested number of active work-items on a compute unit."""
    rows_by_items: dict[int, list[Row]] = {}
    for row in good:
        params = row.value.params
        if ilp is None or params["ilp"] == ilp:
            rows_by_items.setdefault(int(params["work_group"]) * int(params["groups_a_unit"]), []).append(row)
    return rows_by_items


def _good(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.status == "ok" and row.value.median]


def _nothing(name: str, rows: Sequence[Row]) -> Table:
    reasons = dict.fromkeys(f"{row.status}: {row.reason}" for row in rows)
    return Table(f"{TITLE}: {name}.", columns((name, "why")), (("no throughput", "; ".join(reasons)),))
