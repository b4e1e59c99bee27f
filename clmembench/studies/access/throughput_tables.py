"""Tables of global memory throughput: over a grid of launch configurations, by data type, by cache; and Little's law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmembench.analysis.derive import Derived
from clmembench.analysis.plateaus import CurvePoint
from clmembench.benchmarks.instruction import OTHER_KIND, operation_of
from clmembench.gates.whole import latency_curve, memory_latency
from clmembench.model import Finding, Run
from clmembench.model.findings import undetermined_finding
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.report.views import interval, percent
from clmembench.studies.access import saturation
from clmembench.studies.access.saturation import saturating_element, saturation_findings
from clmembench.units import count, format_bytes, format_in, format_interval, format_value

READ_SHARE_OF_COPY = 0.5  # of a copy's bytes
ELEMENT_BYTES = {"char": 1, "short": 2, "int": 4, "float": 4, "double": 8}
DEVICE_COPY = "device_copy"
BYTES_IN_FLIGHT_PER_ITEM = 4 * 16  # bytes that a work-item of cache_read loads at once, except on CPUs
INSTRUCTIONS = "Instructions: latency by one chain, and rate of one compute unit by independent chains (Fog; uops.info)."
INSTRUCTION_NOTES = (
    "beside: another operation that keeps the compiler from merging two of this one; latency and rate are of both. "
    "What is left is a range: what is subtracted may take another pipeline than in its own chain, and then a cycle "
    "more or less",
    "lanes: work-items of a unit, each with four chains (pairs of halves: eight); on CPUs elements of a vector, in eight "
    "chains (functions: four)",
)
NAMES = {
    "best_gb_s": "best of the grid",
    "saturating_bytes": "bytes in flight that saturate",
    "saturating_work_group": "smallest work-group",
    "saturating_ilp": "smallest ILP",
    "saturating_groups_per_unit": "fewest work-groups per compute unit",
    "shown_bytes": "lower bound of bytes in flight",
    "latency_ns": "latency of memory",
    "needed_bytes": "bytes in flight by Little's law",
    "found_over_needed": "saturating / Little's law",
    "saturating_element_bytes": "fewest bytes per work-item",
}


def grid(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Tables of copy_grid: table VI and figure 12 of Mei & Chu 2015, and the concurrency that saturates the device."""
    return [_achieved(run, rows), _figure12(run, rows), _saturating(run, rows)]


def _achieved(run: Run, rows: Sequence[Row]) -> Table:
    """Theoretical, achieved and efficiency, as in table VI."""
    header = ("copy_grid: device", "theoretical", "achieved", "95% interval", "efficiency", "work-group x ILP x groups")
    title = "Global memory: theoretical bandwidth and the best copy (Mei & Chu 2015, table VI)."
    best = max((row for row in rows if row.is_good), key=lambda row: row.value.median or 0.0, default=None)
    if best is None:
        return Table(title, columns(header), ((run.header.device.name, "–", "–", "–", "–", "–"),), _bad(rows))
    value, peak = best.value, best.peak
    shape = " x ".join(str(value.params[name]) for name in ("work_group", "ilp", "groups"))
    theoretical = format_in(peak.value, peak.unit, 4) if peak else "no spec sheet"
    achieved = format_in(value.median, value.unit, 4)
    cells = (run.header.device.name, theoretical, achieved, interval(value), percent(best.fraction), shape)
    return Table(title, columns(header), (cells,), (f"theoretical: {peak.source}",) if peak else ())


def _figure12(run: Run, rows: Sequence[Row]) -> Table:
    """One row for each work-group size and ILP, one column for each number of work-groups."""
    units = run.header.device.compute_units
    counts = sorted({int(row.value.params["groups"]) for row in rows})
    lines: dict[tuple[int, int], dict[int, str]] = {}
    for row in rows:
        p = row.value.params
        shown = format_value(row.value.median) if row.is_good else row.status
        lines.setdefault((int(p["work_group"]), int(p["ilp"])), {})[int(p["groups"])] = shown
    header = ("copy_grid: work-group", "ILP", *(f"{n} groups" for n in counts))
    cells = tuple((str(g), str(i), *(found.get(n, "") for n in counts)) for (g, i), found in sorted(lines.items()))
    title = f"Throughput in GB/s over the number of work-groups ({count(units, 'compute unit')}; Mei & Chu 2015, figure 12)."
    notes = dict.fromkeys(note for row in rows for note in row.value.notes)
    return Table(title, columns(header, left=2), cells, (*_bad(rows), *notes))


def _bad(rows: Sequence[Row]) -> tuple[str, ...]:
    bad = [row for row in rows if not row.is_good]
    return (f"{len(bad)} of {len(rows)} points have no value: {bad[0].status}: {bad[0].reason}",) if bad else ()


def concurrent(run: Run, rows: Sequence[Row]) -> dict[str, Finding]:
    """Concurrency that saturates the device by the rows of copy_grid, and by Little's law: Findings by name."""
    latency = memory_latency(run)
    findings = saturation_findings([row.value for row in rows], run.header.device)
    nothing = undetermined_finding("best_gb_s", "copy_grid has too few values")
    need = saturation.needed(latency, findings.get("best_gb_s", nothing), READ_SHARE_OF_COPY)
    return findings | {
        "latency_ns": latency,
        "needed_bytes": need,
        "found_over_needed": saturation.against(need, findings["saturating_bytes"]),
    }


def _saturating(run: Run, rows: Sequence[Row]) -> Table:
    title = "Saturation of the copy in global memory, and Little's law."
    findings = concurrent(run, rows)
    notes = (
        f"saturated: 95% of the best rate; bytes in flight are loads over all {run.header.device.compute_units} compute units",
        saturation.LITTLE_METHOD,
    )
    cells = tuple(_finding_cells(name, finding) for name, finding in findings.items())
    return noted(Table(title, columns(("copy_grid: property", "value", "interval")), cells, notes))


def _finding_cells(name: str, finding: Finding) -> tuple[str, Entry, str]:
    label = NAMES.get(name, name)
    if isinstance(finding.value, int | float):
        low, high = finding.low, finding.high
        tried = name.startswith("saturating")  # values of an axis: nothing between them was tried
        same = "of those tried" if tried else "exact"
        if finding.unit == "B":
            whole = [format_bytes(round(b), 1) for b in (low, high) if b is not None]
            bounds = " to ".join(whole) if high is not None else f"at least {whole[0]}"
            return label, format_bytes(round(finding.value), 1), same if low == high else bounds
        bounds = same if low == high else format_interval(low, high, finding.unit)
        value = f"{finding.value:g} {finding.unit}" if tried else format_in(finding.value, finding.unit).strip()
        return label, value, bounds
    more = "" if finding.low is None or finding.unit != "B" else f"more than {format_bytes(round(finding.low), 1)}"
    return label, Cell(finding.status, reason=finding.reason), more


def types(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Table of datatypes: table 4 of Fang et al. 2017, each type against the device's own copy, and the smallest that
    suffices."""
    copy = next((row for row in rows if row.is_good and row.value.params["dtype"] == DEVICE_COPY), None)
    cells: list[tuple[Entry, ...]] = []
    for row in rows:
        value, name = row.value, str(row.value.params["dtype"])
        size = str(element_bytes(name)) if name != DEVICE_COPY else "–"
        if not row.is_good:
            cells.append((name, size, Cell(row.status, reason=row.reason), "–", "–", "–", "–"))
            continue
        shape = "–" if name == DEVICE_COPY else " x ".join(str(value.tuning.get(n, "–")) for n in ("work_group", "elements"))
        ratio, bounds = _ratio(row, copy)
        cells.append((name, size, format_in(value.median, value.unit, 4), interval(value), ratio, bounds, shape))
    header = (
        "datatypes: type",
        "bytes",
        "throughput",
        "95% interval",
        "of device copy",
        "interval",
        "best work-group x elements",
    )
    title = "Copy in global memory by data type, each in its best configuration (Fang et al. 2017, table 4)."
    least = smallest_element(run, rows)
    name, found, bounds = _finding_cells(least.name, least)
    why = least.reason if isinstance(found, Cell) else ""
    details = "; ".join(filter(None, (why, bounds if bounds != "of those tried" else "")))
    note = f"{name} with 95% of the best type's rate: {found}" + (f" ({details})" if details else "")
    return [noted(Table(title, columns(header), tuple(cells), (note,)))]


def smallest_element(run: Run, rows: Sequence[Row]) -> Finding:
    """The smallest element that a work-item must copy for the best type's rate, by datatypes' rows."""
    sizes = {str(row.value.params["dtype"]): element_bytes(str(row.value.params["dtype"])) for row in rows}
    sizes.pop(DEVICE_COPY, None)
    return saturating_element([row.value for row in rows], sizes)


def element_bytes(name: str) -> int:
    """Size in bytes of an OpenCL C type such as char4; 0 for any other name."""
    scalar = name.rstrip("0123456789")
    return ELEMENT_BYTES.get(scalar, 0) * int(name[len(scalar) :] or 1)


def _ratio(row: Row, copy: Row | None) -> tuple[str, str]:
    """A row's rate over that of the device's copy; its bounds hold wherever both medians lie within their intervals."""
    if copy is None or not copy.value.median or row is copy:
        return "–", "–"
    a, b = row.value, copy.value
    assert a.median is not None and b.median is not None
    if a.ci_low is None or a.ci_high is None or not b.ci_low or not b.ci_high:
        return percent(a.median / b.median), "–"
    return percent(a.median / b.median), f"{a.ci_low / b.ci_high:.1%} to {a.ci_high / b.ci_low:.1%}"


def best_of_sets(rows: Sequence[Row]) -> list[Row]:
    """Fastest point of cache_read for each set, path and size, in order."""
    fastest: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        p = row.value.params
        key = (str(p["set"]), str(p["path"]), int(p["set_bytes"]))
        if row.is_good and (key not in fastest or (row.value.median or 0) > (fastest[key].value.median or 0)):
            fastest[key] = row
    return [fastest[key] for key in sorted(fastest)]


def caches(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Tables of cache_read: bandwidth of each set, in B/clock of a compute unit too; and Little's law for each."""
    units, cpu_cores = run.header.device.compute_units, run.header.device.has_cpu_cores
    best, curve = best_of_sets(rows), {s.array_bytes: s for s in latency_curve(run)}
    cells, law = [], []
    for row in best:
        value, p = row.value, row.value.params
        assert value.median is not None
        size, name = int(p["set_bytes"]), (str(p["set"]), str(p["path"]))
        clocked = format_value(value.median / units / value.ghz) if value.ghz else "–"
        rate = (format_in(value.median, value.unit, 4), interval(value))
        cells.append((*name, format_bytes(size), *rate, clocked, str(p["unit_items"])))
        need = saturation.needed(_latency(curve, size, name[1]), _rate(row))
        given = format_bytes(int(p["unit_items"]) * BYTES_IN_FLIGHT_PER_ITEM * units, 1) if not cpu_cores else "set by the core"
        if need.value is not None:
            law.append((*name, format_bytes(size), *_finding_cells(need.name, need)[1:], given))
    header = ("cache_read: set", "path", "size", "bandwidth", "95% interval", "B/clock/unit", "work-items per unit")
    title = "Read bandwidth of all compute units together, by size and kind of set."
    notes = (
        "own: each compute unit rereads its own set of that size; shared: all reread one set, starting at different "
        "places; path plain: through all caches; cg: bypassing the first (PTX ld.global.cg)",
        *_bad(rows),
    )
    sections = [Table(title, columns(header, left=2), tuple(cells), notes)]
    if law:
        law_header = ("cache_read: set", "path", "size", "needed", "interval", "loaded at once")
        title = "Bytes in flight that these bandwidths require by Little's law, and bytes that work-items loaded at once."
        sections.append(Table(title, columns(law_header, left=2), tuple(law), (saturation.LITTLE_METHOD,)))
    return sections


def _rate(row: Row) -> Finding:
    v = row.value
    return Finding("bandwidth_gb_s", v.median, v.ci_low, v.ci_high, "GB/s", "ok", "slope of time over bytes", v.evidence)


def _latency(curve: Mapping[int, CurvePoint], set_bytes: int, path: str) -> Finding:
    """Latency of a pointer chase over a set of that size. The chase uses all caches, so small sets have none on a path that
    bypasses the first."""
    name, method = "latency_ns", "pointer chase over a set of the same size"
    if set_bytes not in curve or (path == "cg" and set_bytes < 1 << 20):
        return replace(undetermined_finding(name, "no latency of such a set in this run", method), unit="ns")
    s = curve[set_bytes]
    return Finding(name, s.ns, s.low, s.high, "ns", "ok", method, s.evidence)


def instructions(run: Run, rows: Sequence[Row]) -> list[Table]:
    """A line for each operation and type: cycles of one, and results a cycle of one unit, at the best number of lanes."""
    named: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        named.setdefault((str(row.value.params["op"]), str(row.value.params["dtype"])), []).append(row)
    latency = {name: row.value for name, mine in named.items() for row in mine if row.is_good and row.value.cycles is not None}
    lines = tuple((*name, *_instruction_cells(name, mine, latency)) for name, mine in named.items())
    header: tuple[str, ...] = ("instruction", "type", "latency, cycles", "95% interval", "beside", "less that, cycles")
    header += ("results a cycle and unit", "at lanes", "results a ns")
    return [noted(Table(INSTRUCTIONS, columns(header, left=2), lines, INSTRUCTION_NOTES))]


def _instruction_cells(
    name: tuple[str, str], rows: Sequence[Row], latency: Mapping[tuple[str, str], Derived]
) -> tuple[Entry, ...]:
    operation, alone = operation_of(*name), latency.get(name)
    carrier = operation.carrier if operation is not None else ""
    bad = next((Cell(row.status, reason=row.reason) for row in rows if not row.is_good), Cell("–"))
    cells: tuple[Entry, ...] = (bad, "–", carrier or "–", "–")
    if alone is not None and alone.cycles is not None:
        span = alone.cycles_low is not None and alone.cycles_high is not None
        ends = f"{format_value(alone.cycles_low)} to {format_value(alone.cycles_high)}" if span else "–"
        own = _own_cycles(name, latency) if carrier else None
        left = "–" if own is None else f"{format_value(max(0.0, own[0]))} to {format_value(own[1])}"
        cells = (format_value(alone.cycles), ends, carrier or "–", left)
    rates = [row.value for row in rows if row.is_good and row.value.unit == "Gop/s"]
    if not rates:
        return (*cells, "–", "–", "–")
    best = max(rates, key=lambda value: value.median or 0.0)
    cycle = format_value(best.median / best.ghz) if best.median is not None and best.ghz else "–"
    return (*cells, cycle, str(best.params["lanes"]), format_value(best.median))


def _own_cycles(name: tuple[str, str], latency: Mapping[tuple[str, str], Derived]) -> tuple[float, float] | None:
    """Latency of an operation less that of its carrier, which may have one, too, as a range: a cycle to either side for each
    that is subtracted. None where one of them is not known."""
    operation, found = operation_of(*name), latency.get(name)
    if operation is None or found is None or found.cycles is None:
        return None
    if not operation.carrier:
        return found.cycles, found.cycles
    carrier = _own_cycles((operation.carrier, OTHER_KIND[name[1]] if name[0] == "convert" else name[1]), latency)
    return None if carrier is None else (found.cycles - carrier[1] - 1, found.cycles - carrier[0] + 1)
