"""Energy of each point as a table, and what sensors said over the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from clmembench.analysis.energy import NO_CONTEXT, Energy
from clmembench.model import Context, Fact, Run
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Column, Table, View
from clmembench.report.views import LabelledRow, labelled
from clmembench.units import count, format_value

TITLE = "Energy of each point's work, by the device's own counter."
# names of readings that are drawn over a run's time, with their units; the first that a run has of each kind
PLOTTED = (
    ("power", "W", ("power_w", "mean_power_w")),
    ("core clock", "MHz", ("sm_clock_mhz", "clock_mhz")),
    ("temperature", "°C", ("temperature_c",)),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A quantity over the time of a run: seconds since its first reading, and values."""

    name: str
    unit: str
    seconds: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(slots=True)
class _Line:
    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def has_context(run: Run) -> bool:
    """Whether sensors were looked for beside this run's points."""
    return any(record.context is not None for record in run.records)


@dataclass(frozen=True, slots=True)
class PointEnergy:
    """The energy of a point's work, under the label of the point and the first metric of that amount."""

    point: LabelledRow
    energy: Energy


def _if_known(of: Callable[[Energy], str]) -> Callable[[PointEnergy], str]:
    """What is shown of an energy; a dash where it is undetermined."""
    return lambda one: "–" if one.energy.value is None else of(one.energy)


ENERGY: View[PointEnergy] = View(
    names=(
        (Column("benchmark"), lambda one: one.point.row.value.benchmark),
        (Column("parameters"), lambda one: one.point.label),
        (Column("metric"), lambda one: one.point.row.value.metric),
    ),
    values=(
        (Column("energy", is_number=True), _if_known(lambda energy: f"{format_value(energy.value)} {energy.unit}")),
        (
            Column("by the counter's resolution"),
            _if_known(lambda energy: f"{format_value(energy.low)} to {format_value(energy.high)} {energy.unit}"),
        ),
        (Column("mean power", is_number=True), _if_known(lambda energy: f"{format_value(energy.watts)} W")),
        (Column("status"), lambda one: Cell(one.energy.status, reason=one.energy.reason)),
    ),
)
NO_SENSORS = replace(ENERGY.table((), title=TITLE), notes=(f"Energy is undetermined: {NO_CONTEXT}.",))  # as in older runs


def point_energies(run: Run, table: Sequence[Row]) -> list[PointEnergy]:
    """The energy of every point; none where no sensors were looked for. A point's metrics of one amount have one energy."""
    found: dict[tuple[object, ...], PointEnergy] = {}
    for point in labelled(table) if has_context(run) else ():
        energy = point.row.energy
        if energy is not None:
            found.setdefault((point.row.value.key, energy.unit), PointEnergy(point, energy))
    return list(found.values())


def section(run: Run, table: Sequence[Row]) -> Table | None:
    """The energy of every point, with the reasons of those that are undetermined; None where no sensors were looked for."""
    found = point_energies(run, table)
    if found and all(one.energy.value is None for one in found):  # no table of dashes
        reasons = dict.fromkeys(one.energy.reason for one in found)
        return replace(NO_SENSORS, notes=tuple(f"Energy is undetermined: {reason}." for reason in reasons))
    return _with_counters(found, ()) if found else None


def determined(run: Run, table: Sequence[Row]) -> Table | None:
    """The points whose energy could be told, and how many could not; None where there are none."""
    found = point_energies(run, table)
    known = [one for one in found if one.energy.value is not None]
    left = len(found) - len(known)
    others = (f"of {count(left, 'point')} it is undetermined: show --energy says why",) if left else ()
    return _with_counters(known, others) if known else None


def _with_counters(found: Sequence[PointEnergy], notes: Sequence[str]) -> Table:
    """The table of these energies, the counters that they were read from before its other notes."""
    made = ENERGY.table(found, title=TITLE)
    counters = sorted({one.energy.source for one in found if one.energy.value is not None})
    return replace(made, notes=(*(f"counter: {source}" for source in counters), *made.notes, *notes))


def conditions(run: Run) -> list[Condition]:
    """Readings of sensors over the time of a run, by kind; none of a kind that has fewer than two."""
    lines: dict[str, _Line] = {}
    begun: float | None = None
    for record in run.records:
        at_s = _moment(record.started)
        if record.context is None or at_s is None:
            continue
        begun = at_s if begun is None else begun
        for facts, after_s in ((record.context.before, 0.0), (_with_power(record.context), record.seconds)):
            for name, value in facts.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    line = lines.setdefault(name, _Line())
                    line.seconds.append(at_s - begun + after_s)
                    line.values.append(float(value))
    found = []
    for title, unit, names in PLOTTED:
        shown = next((lines[name] for name in names if name in lines and len(lines[name].values) > 1), None)
        if shown is not None:
            pairs = sorted(zip(shown.seconds, shown.values, strict=True))
            found.append(Condition(title, unit, tuple(s for s, _ in pairs), tuple(v for _, v in pairs)))
    return found


def _with_power(context: Context) -> Mapping[str, Fact]:
    """The readings after the samples, and the mean power by the counter, where there is one."""
    reading = context.energy
    if reading is None or reading.window_ns <= reading.update_ns:
        return context.after
    return {**context.after, "mean_power_w": reading.joules / reading.window_ns * 1e9}


def _moment(started: str) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None
