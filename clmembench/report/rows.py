"""One row for each measured point and metric, with its fraction of the theoretical peak: as a table, fields and objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clmembench.analysis.derive import Derived
from clmembench.analysis.energy import Energy, energy_of
from clmembench.gates.whole import judged_values, peak_of
from clmembench.model import Run
from clmembench.report.table import Column, Table, columns
from clmembench.specs import sheets as specs
from clmembench.specs.sheets import Peak, SpecSheet
from clmembench.units import format_in, format_interval, format_params

if TYPE_CHECKING:
    from clmembench.report.json_outputs import PointObject, RooflineObject

COLUMNS = (
    *map(Column, ("benchmark", "parameters", "metric")),
    Column("value", is_number=True),
    Column("95% interval"),
    Column("of peak", is_number=True),
    Column("n", is_number=True),
    Column("status"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A derived value and the peak it is held against."""

    value: Derived
    peak: Peak | None
    status: str
    reason: str

    @property
    def fraction(self) -> float | None:
        """Achieved over theoretical; None where either is not known."""
        if self.peak is None or self.value.median is None:
            return None
        return self.value.median / self.peak.value


def rows(run: Run, sheet: SpecSheet | None) -> list[Row]:
    """Every row of a run, in the order of its plans, after its points were held against the gates."""
    return judged_rows(run, sheet)[1]


def judged_rows(run: Run, sheet: SpecSheet | None) -> tuple[Run, list[Row]]:
    """The judged run and every row of it."""
    run, values = judged_values(run, sheet)
    return run, [Row(value, peak_of(value, run, sheet), value.status, value.reason) for value in values]


def sheet_of(run: Run, sheets: Sequence[SpecSheet] | None = None) -> SpecSheet | None:
    """The spec sheet that matches a run's device, of all or of `sheets`. Raises SpecError when two do."""
    return specs.match_sheet(run.header.device, sheets)


def row_object(row: Row) -> PointObject:
    """A row as `show --json` gives it."""
    value, energy = row.value, _energy(row)
    return {
        "benchmark": value.benchmark,
        "params": dict(value.params),
        "tuning": dict(value.tuning),
        "status": row.status,  # type: ignore[typeddict-item]
        "reason": row.reason,
        "gate": value.gate,
        "metric": value.metric,
        "unit": value.unit,
        "better": value.better,  # type: ignore[typeddict-item]
        "median": value.median,
        "ci_low": value.ci_low,
        "ci_high": value.ci_high,
        "q1": value.q1,
        "q3": value.q3,
        "min": value.least,
        "n": value.n,
        "processes": value.processes,
        "process_medians": list(value.medians),
        "evidence": list(value.evidence),
        "outliers": value.outliers,
        "peak": row.peak.value if row.peak else None,
        "peak_source": row.peak.source if row.peak else None,
        "fraction_of_peak": row.fraction,
        "cycles": value.cycles,
        "cycles_low": value.cycles_low,
        "cycles_high": value.cycles_high,
        "core_clock_ghz": value.ghz,
        "core_clock_origin": value.clock_origin,
        "cpu_over_wall": value.cpu_over_wall,
        "cpu_waited": value.waited,
        "cpu_others": value.others,
        "cpu_stolen": value.stolen,
        "cpus": list(value.place.cpus),
        "verified": value.checked,
        "stopped": value.stopped,
        "notes": list(value.notes),
        "facts": dict(value.facts),
        "energy_status": energy.status if energy else None,
        "energy": energy.value if energy else None,
        "energy_low": energy.low if energy else None,
        "energy_high": energy.high if energy else None,
        "energy_unit": energy.unit if energy else None,
        "energy_reason": energy.reason if energy else "",
        "mean_power_w": energy.watts if energy else None,
    }


def _energy(row: Row) -> Energy | None:
    """The energy of a row's point, where sensors were looked for beside it."""
    metric, records = row.value.sampled or (None, ())
    known = any(record.context is not None for record in records)
    return energy_of(records, metric) if known and metric is not None else None


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


def by_point(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one point together, its headline metric first."""
    points: dict[str, list[Row]] = {}
    for row in rows:
        value = row.value
        points.setdefault(repr((value.benchmark, value.params, value.tuning, value.place)), []).append(row)
    return list(points.values())


def point_objects(table: Sequence[Row], roofline: Mapping[int, RooflineObject] | None = None) -> list[dict[str, Any]]:
    """One object for each row, for JSON, `evidence` the ids of its records; `roofline` has, by the row's number, its place
    under the run's roofs, where it has some."""
    return [{**row_object(row)} | ({"roofline": roofline.get(index)} if roofline else {}) for index, row in enumerate(table)]


def point_fields(table: Sequence[Row]) -> Table:
    """One line for each row, for CSV; parameters, tuning and facts are columns of their own: param.x, tuning.x and fact.x."""
    flat = []
    for row in table:
        fields: dict[str, Any] = dict(row_object(row))
        params, tuning, facts = fields.pop("params"), fields.pop("tuning"), fields.pop("facts")
        fields["notes"] = "; ".join(fields["notes"])
        for several in ("cpus", "process_medians", "evidence"):
            fields[several] = " ".join(map(str, fields[several]))
        named = {f"param.{k}": v for k, v in params.items()} | {f"tuning.{k}": v for k, v in tuning.items()}
        known = {f"fact.{k}": v for k, v in facts.items()}
        flat.append({"benchmark": fields.pop("benchmark"), **named, **fields, **known})
    names = list(dict.fromkeys(name for fields in flat for name in fields))
    return Table("", columns(names), tuple(tuple(fields.get(name) for name in names) for fields in flat))


def point_table(table: Sequence[Row]) -> Table:
    """One line for each row, for people."""
    return Table("", COLUMNS, tuple(_cells(table)))


def _cells(table: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """The cells of each row, by COLUMNS."""
    for label, row in zip(point_labels(table), table, strict=True):
        value, good = row.value, row.status == "ok" and row.value.median is not None
        status = ": ".join(filter(None, (row.status, value.gate, row.reason)))
        yield (
            value.benchmark,
            label,
            value.metric,
            format_in(value.median, value.unit, 4) if good else "–",
            interval(value) if good else "–",
            percent(row.fraction) if good else "–",
            str(value.n),
            status,
        )


def interval(value: Derived, digits: int = 4) -> str:
    """The 95% interval of the median in the metric's unit, or a dash."""
    return format_interval(value.ci_low, value.ci_high, value.unit, digits)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if fraction is None else f"{fraction:.1%}"
