"""Energy of each point as a table, and what sensors said over the time of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from clmembench.analysis.energy import NO_CONTEXT, Energy
from clmembench.model import Context, Fact, Run
from clmembench.report.frame import Row
from clmembench.report.table import Column, Reasons, Table
from clmembench.report.views import point_labels
from clmembench.units import count, format_value

TITLE = "Energy of each point's work, by the device's own counter."
COUNTER = "counter: "  # begins the note that names a counter
COLUMNS = (
    *map(Column, ("benchmark", "parameters", "metric")),
    Column("energy", is_number=True),
    Column("by the counter's resolution"),
    Column("mean power", is_number=True),
    Column("status"),
)
NO_SENSORS = Table(TITLE, COLUMNS, (), (f"Energy is undetermined: {NO_CONTEXT}.",))  # as in runs of older versions
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


def section(run: Run, table: Sequence[Row]) -> Table | None:
    """The energy of every point, with the reasons of those that are undetermined; None where no sensors were looked for. A
    point's metrics of one amount have one energy, which has one line."""
    if not has_context(run):
        return None
    reasons, cells, seen = Reasons(), [], set()
    sources: set[str] = set()
    for label, row in zip(point_labels(table), table, strict=True):
        found = row.energy
        if found is None or (key := (row.value.key, found.unit)) in seen:
            continue
        seen.add(key)
        sources |= {found.source} if found.value is not None else set()
        cells.append((row.value.benchmark, label, row.value.metric, *_cells(found, reasons)))
    if cells and all(row[-1] != "ok" for row in cells):  # no table of dashes
        reasons_of_all = (note.partition("] ")[2] for note in reasons.notes())
        return Table(TITLE, COLUMNS, (), tuple(f"Energy is undetermined: {reason}." for reason in reasons_of_all))
    counters = tuple(f"{COUNTER}{source}" for source in sorted(sources))
    return Table(TITLE, COLUMNS, tuple(cells), (*counters, *reasons.notes())) if cells else None


def determined(run: Run, table: Sequence[Row]) -> Table | None:
    """The points of `section` whose energy could be told, and how many could not; None where there are none."""
    found = section(run, table)
    told = tuple(row for row in found.rows if row[-1] == "ok") if found is not None else ()
    if found is None or not told:
        return None
    left = len(found.rows) - len(told)
    sources = tuple(note for note in found.notes if note.startswith(COUNTER))
    others = (f"of {count(left, 'point')} it is undetermined: show --energy says why",) if left else ()
    return replace(found, rows=told, notes=(*sources, *others))


def _cells(found: Energy, reasons: Reasons) -> tuple[str, ...]:
    if found.value is None or found.low is None or found.high is None or found.watts is None:
        return "–", "–", "–", f"{found.status} {reasons.number(found.reason)}"
    ends = f"{format_value(found.low)} to {format_value(found.high)} {found.unit}"
    return f"{format_value(found.value)} {found.unit}", ends, f"{format_value(found.watts)} W", found.status


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
