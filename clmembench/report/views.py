"""The tables of a report that are declared: points of one run and over devices, the scorecard, and facts of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from clmembench.analysis.decision import DEFAULT_MARGIN
from clmembench.analysis.derive import Derived
from clmembench.gates.whole import MEMORY_PEAK
from clmembench.report.device_runs import short_names
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.imported.imported_values import FP32_PEAK, FP64_PEAK, peak_text
from clmembench.report.scorecard_cells import BOUND, MARKS, OLDER, Line, LineCell, Scorecard, ScorecardCell
from clmembench.report.table import Cell, Column, Entry, Table, View
from clmembench.sanitize import printable
from clmembench.units import count, format_bytes, format_in, format_interval, format_params, format_value


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A row under the label of its point; `device` is the place of its run among those of the report."""

    row: Row
    label: str
    device: int = 0


def interval(value: Derived, digits: int = 4) -> str:
    """The 95% interval of the median in the metric's unit, or a dash."""
    return format_interval(value.ci_low, value.ci_high, value.unit, digits)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if fraction is None else f"{fraction:.1%}"


def point_labels(table: Sequence[Row]) -> list[str]:
    """Label that distinguishes each row's point: its parameters, and tuning and place where those alone differ."""
    plain = [format_params(row.value.params) for row in table]
    repeated = Counter((name, row.value.benchmark, row.value.metric) for name, row in zip(plain, table, strict=True))
    full = []
    for name, row in zip(plain, table, strict=True):
        if repeated[(name, row.value.benchmark, row.value.metric)] > 1:
            cpus = row.value.place.cpus
            name = f"{name} {format_params({**row.value.tuning, **({'cpus': cpus} if cpus else {})})}".strip()
        full.append(name)
    return full


def labelled(table: Sequence[Row], device: int = 0) -> list[LabelledRow]:
    """Rows under the labels of their points."""
    return [LabelledRow(row, label, device) for label, row in zip(point_labels(table), table, strict=True)]


def _good_or_dash(of: Callable[[Row], str]) -> Callable[[LabelledRow], str]:
    """What a good row shows; a dash for any other."""
    return lambda one: of(one.row) if one.row.is_good else "–"


def _point_cell(one: LabelledRow) -> Cell:
    """The value of a point on one of several devices, its interval on demand; or its status, the reason as a note."""
    row, value = one.row, one.row.value
    if not row.is_good:
        reason = ": ".join(filter(None, (value.gate, printable(row.reason))))
        return Cell(row.status, reason=reason, kind="" if row.status == "skipped" else "bad")
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    several = f" in {count(value.processes, 'process', 'processes')}" if value.processes > 1 else ""
    return Cell(f"{format_in(value.median, value.unit, 4)}{share}", detail=f"{interval(value)}, n {value.n}{several}")


PARAMETERS, METRIC = Column("parameters"), Column("metric")
POINTS: View[LabelledRow] = View(
    names=(
        (Column("benchmark"), lambda one: one.row.value.benchmark),
        (PARAMETERS, lambda one: one.label),
        (METRIC, lambda one: one.row.value.metric),
    ),
    values=(
        (Column("value", is_number=True), _good_or_dash(lambda row: format_in(row.value.median, row.value.unit, 4))),
        (Column("95% interval"), _good_or_dash(lambda row: interval(row.value))),
        (Column("of peak", is_number=True), _good_or_dash(lambda row: percent(row.fraction))),
        (Column("n", is_number=True), lambda one: str(one.row.value.n)),
        (Column("status"), lambda one: ": ".join(filter(None, (one.row.status, one.row.value.gate, one.row.reason)))),
    ),
)
POINTS_OVER_DEVICES: View[LabelledRow] = View(
    names=((PARAMETERS, lambda one: one.label), (METRIC, lambda one: one.row.value.metric)),
    values=((Column("value", is_number=True), _point_cell),),
    across=lambda one: one.device,
)


def point_table(table: Sequence[Row]) -> Table:
    """One line for each row, for people."""
    return POINTS.table(labelled(table))


def points_over_devices(rows: Sequence[Sequence[Row]], labels: Sequence[str]) -> Table:
    """One line for each point and metric, from the rows of each device, a column a device."""
    entries = (one for device, table in enumerate(rows) for one in labelled(table, device))
    return POINTS_OVER_DEVICES.table(entries, labels)


GROUP = (Column("group", is_group=True), lambda one: one.line.group)
QUANTITY = (Column("quantity"), lambda one: Cell(one.line.name, reason=one.line.note))
MAX_COLUMNS = 8  # devices that a screen shows side by side: of more, columns name the best, the median and the worst
MAX_OPEN_ROWS = 30  # of a page's table of devices, until others are asked for
MAX_NAMED_BEST = 2
SHADES = {
    1 / 1.1: "within 10%",
    1 / 2: "to 2 times",
    1 / 5: "to 5 times",
    1 / 20: "to 20 times",
}  # by the least share of the best
PLAIN = ("ok", "missing", "published", "imported", "theoretical", "claimed", OLDER)  # statuses that need no reason as a note
KINDS = {
    **dict.fromkeys(("published", "imported", "theoretical", "claimed", OLDER), "published"),
    **dict.fromkeys(("missing", "ok", "skipped"), ""),
    **dict.fromkeys(("undetermined", BOUND), "muted"),
}


def scorecard_table(found: Scorecard) -> Table:
    """Devices side by side under short names: a line for each quantity, the best of each marked; where there are many devices,
    named beside the median and the worst. The full names are the last notes."""
    names = short_names(found.labels)
    differing = {
        (line.group, line.name) for line in found.lines if len({c.size for c in line.cells if c.value is not None}) > 1
    }
    view: View[LineCell] = View(
        names=(GROUP, QUANTITY, *(_summary_columns(found, names) if is_wide(found) else ())),
        values=((Column("value", is_number=True), lambda one: scorecard_cell(one.cell, _key(one.line) in differing)),),
        across=lambda one: one.device,
    )
    table = view.table(found.cells(), names, "Devices compared")
    legend = (f"{name}: {label}" for name, label in zip(names, found.labels, strict=True) if name != label)
    return replace(table, notes=(*table.notes, *legend))


def scorecard_cell(found: ScorecardCell, has_size: bool = False) -> Cell:
    """A judged quantity as a cell: its interval and where it was read on demand, the reason why there is none as a note. With
    `has_size` the size that it was read at stands below it."""
    has_reason = found.status not in PLAIN
    more = (found.extra, OLDER if found.status == OLDER else "", found.size if has_size else "")
    kinds = ["best" if found.is_best else KINDS.get(found.status, "bad")]
    share = found.of_best or 0.0
    kinds += [f"shade-{at}" for at, least in enumerate(SHADES) if share >= least][:1]
    worse = f"the best is {format_value(1 / share)} times as good" if 0 < share < 1 else ""
    return Cell(
        found.text,
        mark=found.mark,
        more=tuple(filter(None, (*more, found.ratio and f"({found.ratio})"))),
        detail="" if has_reason else "; ".join(filter(None, (found.detail, worse))),
        reason=found.detail if has_reason else "",
        kind=" ".join(filter(None, kinds)),
        value=found.value,
    )


def scorecard_keys(found: Scorecard) -> tuple[str, ...]:
    """What the marks and brackets of a scorecard are, for its foot."""
    marks = {one.cell.mark for one in found.cells()}
    keys = tuple(f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in marks)
    if not found.baseline:
        return keys
    decided = f"where compare decides that; same: within {DEFAULT_MARGIN:.0%}"
    return (*keys, f"In brackets: how many times as good as {found.baseline}, {decided}")


def is_wide(found: Scorecard) -> bool:
    """Whether so many devices have values that one does not see the best at a glance; published values are not ranked."""
    return len({one.device for one in found.cells() if one.cell.value is not None}) > MAX_COLUMNS


def _key(line: Line) -> tuple[str, str]:
    return line.group, line.name


def _summary_columns(found: Scorecard, names: Sequence[str]) -> list[tuple[Column, Callable[[LineCell], Entry]]]:
    """The columns of the best, the median and the worst value of each line, of those that are compared."""
    known = {_key(line): _summary(line, names) for line in found.lines}

    def column(at: int) -> Callable[[LineCell], Entry]:
        return lambda one: known[_key(one.line)][at]

    return [(Column(name, is_number=True), column(at)) for at, name in enumerate(("best", "median", "worst"))]


def _summary(line: Line, names: Sequence[str]) -> tuple[Cell, Cell, Cell]:
    """The best, the median and the worst value of a line; the first with all devices that compare calls the best, the last with
    its own."""
    ranked = [(name, cell) for name, cell in zip(names, line.cells, strict=True) if cell.of_best is not None]
    ranked.sort(key=lambda one: -(one[1].of_best or 0.0))
    if not ranked:
        return Cell("–"), Cell("–"), Cell("–")
    best = [name for name, cell in ranked if cell.is_best] or [ranked[0][0]]
    more = len(best) - MAX_NAMED_BEST
    named = ", ".join(best[:MAX_NAMED_BEST]) + (f" and {more} more" if more > 0 else "")
    values = [cell for _, cell in ranked]
    middle, worst = values[(len(values) - 1) // 2], values[-1]
    return (
        Cell(values[0].text, more=(named,), kind="best shade-0", value=values[0].value),
        Cell(middle.text, kind=scorecard_cell(middle).kind, value=middle.value),
        Cell(worst.text, more=(ranked[-1][0],), kind=scorecard_cell(worst).kind, value=worst.value),
    )


@dataclass(frozen=True, slots=True)
class DeviceColumn:
    """A column of a page's table of devices: its heading, the full name, and the classes of its cells."""

    name: str
    label: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one group, each from its quantity on; `folded`, where they are too many to show all at once."""

    name: str
    rows: tuple[tuple[Entry, ...], ...]
    folded: bool


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The table of devices of a page: groups of rows, columns with values, how many of them are seen at once, and what stands
    below."""

    columns: tuple[DeviceColumn, ...]
    groups: tuple[RowGroup, ...]
    shown: int
    extra: int  # published devices that are shown on demand
    notes: tuple[str, ...]
    legend: tuple[DeviceColumn, ...]
    keys: tuple[str, ...]
    shades: tuple[str, ...] = tuple(SHADES.values())


def device_table(found: Scorecard) -> DeviceTable:
    """The scorecard as a page shows it: published devices after the measured ones, as many as a screen has room for, and groups
    of rows folded from the one on that would make the table longer than a screen or two."""
    table, measured, names = scorecard_table(found), len(found.devices), short_names(found.labels)
    room = max(0, MAX_COLUMNS - measured)
    columns = [DeviceColumn(column.name, "", "summary") for column in table.columns[2 : -len(names)]]
    for place, (name, label) in enumerate(zip(names, found.labels, strict=True)):
        kinds = (
            "other" if place >= measured else "",
            "rule" if place == measured else "",
            "extra" if place - measured >= room else "",
        )
        columns.append(DeviceColumn(name, label, " ".join(filter(None, kinds))))
    groups, count_of_rows = [], 0
    for name, rows in table.groups:
        count_of_rows += len(rows)
        groups.append(RowGroup(name, tuple(rows), folded=count_of_rows > MAX_OPEN_ROWS))
    extra = max(0, len(names) - measured - room)
    legend = tuple(column for column in columns if column.label and column.label != column.name)
    notes = table.notes[: len(table.notes) - len(legend)]
    return DeviceTable(tuple(columns), tuple(groups), len(columns) - extra, extra, notes, legend, scorecard_keys(found))


@dataclass(frozen=True, slots=True)
class DeviceFact:
    """What is known of one device of a report."""

    name: str
    device: int
    text: str


# by name; a fact that no device has, such as tags, is left out
FACTS: Mapping[str, Callable[[LabelledRun], object]] = {
    "kind": lambda part: part.run.header.device.kind,
    "platform and driver": lambda part: f"{part.run.header.device.platform} {part.run.header.device.driver}",
    "compute units": lambda part: part.run.header.device.compute_units,
    "memory": lambda part: format_bytes(part.run.header.device.global_mem_bytes),
    "host CPU": lambda part: part.run.header.host.get("cpu") or "not known",
    "virtual machine": lambda part: "yes" if part.run.header.host.get("virtual") else "no",
    "spec sheet": lambda part: part.sheet.name if part.sheet else "none matches",
    "theoretical bandwidth": lambda part: peak_text(part.sheet, MEMORY_PEAK),
    "theoretical peak, FP64 vector": lambda part: peak_text(part.sheet, FP64_PEAK),
    "theoretical peak, FP32 vector": lambda part: peak_text(part.sheet, FP32_PEAK),
    "run": lambda part: f"{part.run.header.run_id}, {part.run.header.started}, suite {part.run.header.suite}",
    "clmembench": lambda part: part.run.header.tool_version,
    "host name": lambda part: part.run.header.host.get("name"),
    "tags": lambda part: ", ".join(f"{key}={value}" for key, value in part.run.header.tags.items()),
}
FACTS_OF_DEVICES: View[DeviceFact] = View(
    names=((Column("device"), lambda fact: fact.name),),
    values=((Column("value"), lambda fact: printable(fact.text)),),
    across=lambda fact: fact.device,
)


def facts_table(parts: Sequence[LabelledRun]) -> Table:
    """A line for each fact, a column a device."""
    known = {name: [of(part) for part in parts] for name, of in FACTS.items()}
    entries = (
        DeviceFact(name, device, str(value or "–"))
        for name, values in known.items()
        if any(values)
        for device, value in enumerate(values)
    )
    return FACTS_OF_DEVICES.table(entries, [part.label for part in parts])
