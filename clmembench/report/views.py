"""The tables of a report that are declared: points of one run and over devices, the scorecard, and facts of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.decision import DEFAULT_MARGIN
from clmembench.analysis.derive import Derived
from clmembench.gates.whole import MEMORY_PEAK
from clmembench.model.metrics import score
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.imported.imported_values import FP32_PEAK, FP64_PEAK, peak_text
from clmembench.report.scorecard_cells import BOUND, MARKS, OLDER, Line, LineCell, Scorecard, ScorecardCell
from clmembench.report.table import Cell, Column, Table, View
from clmembench.sanitize import printable
from clmembench.units import count, format_bytes, format_in, format_interval, format_params


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
MAX_DEVICES_WITHOUT_BEST = 12  # devices that a screen shows side by side: of more a column names the best
MAX_NAMED_BEST = 3
PLAIN = ("ok", "missing", "published", "imported", "theoretical", "claimed", OLDER)  # statuses that need no reason as a note
KINDS = {
    **dict.fromkeys(("published", "imported", "theoretical", "claimed", OLDER), "published"),
    **dict.fromkeys(("missing", "ok", "skipped"), ""),
    **dict.fromkeys(("undetermined", BOUND), "muted"),
}


def scorecard_table(found: Scorecard) -> Table:
    """Devices side by side: a line for each quantity, the best of each marked, and named where there are many devices."""
    best = [(Column("the best"), lambda one: Cell(_best(one.line, found.labels), kind="top"))] if is_wide(found) else []
    view: View[LineCell] = View(
        names=(GROUP, QUANTITY, *best),
        values=((Column("value", is_number=True), lambda one: scorecard_cell(one.cell)),),
        across=lambda one: one.device,
    )
    return view.table(found.cells(), found.labels, "Devices compared")


def scorecard_cell(found: ScorecardCell) -> Cell:
    """A judged quantity as a cell: its interval and where it was read on demand, the reason why there is none as a note."""
    has_reason = found.status not in PLAIN
    more = (found.extra, f"by an {OLDER}" if found.status == OLDER else "", found.ratio and f"({found.ratio})")
    return Cell(
        found.text,
        mark=found.mark,
        more=tuple(filter(None, more)),
        detail="" if has_reason else found.detail,
        reason=found.detail if has_reason else "",
        kind="best" if found.is_best else KINDS.get(found.status, "bad"),
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
    return len({one.device for one in found.cells() if one.cell.value is not None}) > MAX_DEVICES_WITHOUT_BEST


def _best(line: Line, labels: Sequence[str]) -> str:
    """The devices that are the best of a line, the highest value first."""
    best = [(label, cell) for label, cell in zip(labels, line.cells, strict=False) if cell.is_best]
    best.sort(key=lambda one: -score(one[1].value or 0.0, line.better))
    more = len(best) - MAX_NAMED_BEST
    named = "; ".join(f"{label}: {cell.text}" for label, cell in best[:MAX_NAMED_BEST])
    return named + (f" and {more} more" if more > 0 else "")


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
