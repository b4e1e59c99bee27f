"""A run as a frame: every value judged and derived once, held against its theoretical peak.

Tables and figures are made of its rows; JSON, CSV, Parquet and DataFrames of their tidy columns (`PointValue`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clmembench.analysis.derive import Derived
from clmembench.analysis.energy import Energy, energy_of
from clmembench.gates.whole import judged_values, peak_of
from clmembench.model import Run, Status, Value
from clmembench.report.table import Table, columns
from clmembench.results import jsonl
from clmembench.sanitize import printable
from clmembench.specs import sheets as specs
from clmembench.specs.sheets import Peak, SpecSheet

if TYPE_CHECKING:
    import pandas as pd

    from clmembench.report.device_runs import Findings

Number = float | int | None
Paths = str | Path | Iterable[str | Path]


@dataclass(frozen=True, slots=True)
class Row:
    """A derived value and the peak it is held against."""

    value: Derived
    peak: Peak | None

    @property
    def status(self) -> str:
        """Status of the value, after the gates."""
        return self.value.status

    @property
    def reason(self) -> str:
        """Why the value has that status; "" where it is ok."""
        return self.value.reason

    @property
    def is_good(self) -> bool:
        """Whether it has a value that is shown as a result."""
        return self.value.status == "ok" and self.value.median is not None

    @property
    def fraction(self) -> float | None:
        """Achieved over theoretical; None where either is not known."""
        if self.peak is None or self.value.median is None:
            return None
        return self.value.median / self.peak.value

    @property
    def energy(self) -> Energy | None:
        """Energy of the point's work; None where it has no samples."""
        metric, records = self.value.sampled or (None, ())
        return energy_of(records, metric) if metric is not None else None


@dataclass(frozen=True, slots=True)
class RooflinePosition:
    """A kernel under its roofs."""

    precision: str
    flop_per_byte: float
    memory_bytes: float
    bytes_are: str
    gflop_s: float
    bound_by: str
    roof_gflop_s: float
    fraction_of_roof: float
    fraction_low: Number
    fraction_high: Number
    fits_a_cache: bool
    over_its_roof: bool
    bound_measured: float
    bound_unit: str
    bound_by_records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PointValue:
    """One metric of one measured point; values are in `unit`, and null where there is none. Energy is that of its work, between
    low and high by the counter's resolution; `roofline` is null where the point is no kernel under the run's roofs."""

    benchmark: str
    params: Mapping[str, Value]
    tuning: Mapping[str, Value]
    status: Status | Literal["undetermined"]
    reason: str
    gate: str
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    median: Number
    ci_low: Number
    ci_high: Number
    q1: Number
    q3: Number
    min: Number
    n: int
    processes: int
    process_medians: tuple[float, ...]
    evidence: tuple[str, ...]
    outliers: int
    peak: Number
    peak_source: str | None
    fraction_of_peak: Number
    cycles: Number
    cycles_low: Number
    cycles_high: Number
    core_clock_ghz: Number
    core_clock_origin: str
    cpu_over_wall: Number
    cpu_waited: Number
    cpu_others: float
    cpu_stolen: float
    cpus: tuple[int, ...]
    verified: bool
    stopped: str
    notes: tuple[str, ...]
    facts: Mapping[str, Value]
    energy_status: Literal["ok", "undetermined"] | None
    energy: Number
    energy_low: Number
    energy_high: Number
    energy_unit: str | None
    energy_reason: str
    mean_power_w: Number
    roofline: RooflinePosition | None


# columns that a derived value has under the same name, and those of numbers alone
_OF_VALUE = tuple(one.name for one in fields(PointValue) if hasattr(Derived, one.name))
NUMBERS = tuple(one.name for one in fields(PointValue) if one.type in ("Number", "float"))
_EXPANDED = {"params": "param", "tuning": "tuning", "facts": "fact"}  # columns that CSV has as one for each of their names
_FLAT = (*(one.name for one in fields(PointValue) if one.name not in ("facts", "roofline")), "facts")


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """A run with what was derived from it, under the name the report gives it; `number` is its place in the report, counted
    from 0, which decides its look in figures."""

    label: str
    run: Run
    sheet: SpecSheet | None
    rows: tuple[Row, ...]
    findings: Findings = field(default_factory=dict)
    number: int = 0

    def of(self, benchmark: str) -> LabelledRun:
        """The same run with the rows of one benchmark alone."""
        return replace(self, rows=tuple(row for row in self.rows if row.value.benchmark == benchmark))


def rows(run: Run, sheet: SpecSheet | None) -> list[Row]:
    """Every row of a run, in the order of its plans, after its points were held against the gates."""
    return judged_rows(run, sheet)[1]


def judged_rows(run: Run, sheet: SpecSheet | None) -> tuple[Run, list[Row]]:
    """The judged run and every row of it."""
    run, values = judged_values(run, sheet)
    return run, [Row(value, peak_of(value, run, sheet)) for value in values]


def sheet_of(run: Run, sheets: Sequence[SpecSheet] | None = None) -> SpecSheet | None:
    """The spec sheet that matches a run's device, of all or of `sheets`. Raises SpecError when two do."""
    return specs.match_sheet(run.header.device, sheets)


def parts(runs: Sequence[Run], labels: Sequence[str] = (), findings: Sequence[Findings] = ()) -> list[LabelledRun]:
    """Runs with these labels, or else the device's name, and a number where two runs have the same one; and with the findings
    of the studies, for as many runs as there are any. Raises SpecError."""
    names = [printable(name) for name in labels or [run.header.device.name for run in runs]]
    found, sheets = [], specs.all_sheets()
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        label = name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        sheet = sheet_of(run, sheets)
        judged, table = judged_rows(run, sheet)
        own = findings[index] if index < len(findings) else {}
        found.append(LabelledRun(label, judged, sheet, tuple(table), own, index))
    return found


def by_point(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one point together, its headline metric first."""
    points: dict[str, list[Row]] = {}
    for row in rows:
        value = row.value
        points.setdefault(repr((value.benchmark, value.params, value.tuning, value.place)), []).append(row)
    return list(points.values())


def point_values(table: Sequence[Row], roofline: Mapping[int, RooflinePosition] | None = None) -> list[PointValue]:
    """Every row as its tidy columns, for programs; `roofline` has, by the row's number, its place under the run's roofs."""
    return [_point_value(row, (roofline or {}).get(index)) for index, row in enumerate(table)]


def _point_value(row: Row, roofline: RooflinePosition | None) -> PointValue:
    value, peak = row.value, row.peak
    known = value.sampled is not None and any(record.context is not None for record in value.sampled[1])
    energy = row.energy if known else None  # None where no sensors were looked for beside the point
    return PointValue(
        **{name: getattr(value, name) for name in _OF_VALUE}
        | {
            "min": value.least,
            "process_medians": value.medians,
            "peak": peak.value if peak else None,
            "peak_source": peak.source if peak else None,
            "fraction_of_peak": row.fraction,
            "core_clock_ghz": value.ghz,
            "core_clock_origin": value.clock_origin,
            "cpu_waited": value.waited,
            "cpu_others": value.others,
            "cpu_stolen": value.stolen,
            "cpus": value.place.cpus,
            "verified": value.checked,
            "energy_status": energy.status if energy else None,
            "energy": energy.value if energy else None,
            "energy_low": energy.low if energy else None,
            "energy_high": energy.high if energy else None,
            "energy_unit": energy.unit if energy else None,
            "energy_reason": energy.reason if energy else "",
            "mean_power_w": energy.watts if energy else None,
            "roofline": roofline,
        }
    )


def point_fields(table: Sequence[Row]) -> Table:
    """One line for each row, for CSV; parameters, tuning and facts are columns of their own: param.x, tuning.x and fact.x."""
    flat = [_flat(point) for point in point_values(table)]
    names = list(dict.fromkeys(name for one in flat for name in one))
    return Table("", columns(names), tuple(tuple(one.get(name) for name in names) for one in flat))


def _flat(point: PointValue) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _FLAT:
        value = getattr(point, name)
        if name in _EXPANDED:
            found |= {f"{_EXPANDED[name]}.{key}": one for key, one in value.items()}
        else:
            found[name] = ("; " if name == "notes" else " ").join(map(str, value)) if isinstance(value, tuple) else value
    return found


def read(paths: Paths) -> pd.DataFrame:
    """Every point and metric of stored runs, a row each: columns device, run, file, benchmark, `param.*` for each parameter,
    `tuning.*`, status, reason, metric, unit, median, ci_low, ci_high, n, processes, peak, fraction_of_peak, cycles and the
    others of `show --csv`. `paths` are results files, or patterns such as "runs/*.jsonl". Raises ResultsError for a file
    that is none, FileNotFoundError where there is none at all."""
    import pandas as pd

    return pd.concat([run_frame(jsonl.read(path)) for path in results_files(paths)], ignore_index=True)


def run_frame(run: Run) -> pd.DataFrame:
    """The rows of one stored run, as `read` has them. Raises SpecError where two spec sheets match its device."""
    import pandas as pd

    from clmembench.report.device_runs import merged_runs

    (device,) = merged_runs([run])
    section = point_fields(rows(run, sheet_of(run)))
    frame = pd.DataFrame(list(section.rows), columns=list(section.header))
    for name in NUMBERS:  # of a run that has none of them a column would hold objects
        frame[name] = pd.to_numeric(frame[name]) if name in frame else math.nan
    frame.insert(0, "device", device.label)
    frame.insert(1, "run", run.header.run_id)
    frame.insert(2, "file", run.path.encode(errors="replace").decode())  # a name may hold bytes that are no text
    return frame


def parquet(frame: pd.DataFrame) -> bytes:
    """A frame as a Parquet file. A column of Parquet has one type: one that holds texts and numbers, or whole numbers beyond 64
    bits with a sign, has all of them as text. Raises ImportError where pyarrow is missing."""
    import pandas as pd

    kinds = {name: pd.api.types.infer_dtype(frame[name], skipna=True) for name in frame if frame[name].dtype == object}
    mixed = [name for name, kind in kinds.items() if kind.startswith("mixed") or kind == "integer"]
    whole = frame.copy()
    for name in mixed:
        whole[name] = frame[name].map(str, na_action="ignore")
    out = io.BytesIO()
    whole.to_parquet(out, engine="pyarrow", index=False)
    return out.getvalue()


def results_files(paths: Paths) -> list[Path]:
    """The files that paths and patterns name, each once, in order. Raises FileNotFoundError where there are none."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: dict[Path, None] = {}
    for one in given:
        path = Path(one)
        try:
            matches = [path] if path.exists() else sorted(path.parent.glob(path.name))
        except OSError:  # no file can be called so
            matches = []
        if not matches:
            raise FileNotFoundError(f"{one}: no results file of this name or pattern")
        found.update(dict.fromkeys(matches))
    if not found:
        raise FileNotFoundError("no results files: an empty list of paths names none")
    return list(found)
