"""One row for each measured point and metric, with its fraction of the theoretical peak; as JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clmembench import shown, specs
from clmembench.derive import Derived, derive
from clmembench.model import DeviceInfo, Run
from clmembench.specs import Peak, SpecSheet
from clmembench.units import format_in, format_interval, format_params

COLUMNS = ("benchmark", "parameters", "metric", "value", "95% interval", "of peak", "n", "status")  # for people
MEMORY_PEAK = "memory_bandwidth_gb_s"
USED = (0.75, 1.15)  # of the compute units asked for: what work that is not quite even and a launch's idle ends explain
IMPOSSIBLE = 1.02  # of a theoretical peak: beyond what rounding of the sheet's figures explains


@dataclass(frozen=True, slots=True)
class Row:
    """A derived value and the peak it is held against. `status` is "suspect" where it exceeds that peak."""

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
    """Every row of a run, in file order."""
    return [_row(value, run, sheet) for value in derive(run)]


def sheet_of(run: Run) -> SpecSheet | None:
    """The spec sheet that matches a run's device. Raises SpecError when two do."""
    return specs.find(run.header.device)


def _row(value: Derived, run: Run, sheet: SpecSheet | None) -> Row:
    host, device = run.header.host, run.header.device
    sockets = host.get("sockets")
    whole = int(sockets) if isinstance(sockets, int) and not host.get("virtual") else None
    known = host.get("cores")
    cores = value.place.cores or (known if isinstance(known, int) else None)
    used = _used(value, device)
    peak = None if _cached(value, device, sheet) else specs.peak(sheet, value.peak, used, value.ghz, whole, cores)
    if value.status == "ok" and device.kind == "cpu" and (reason := _elsewhere(value)):
        return Row(value, peak, "suspect", reason)
    if peak is not None and value.median is not None and value.median > IMPOSSIBLE * peak.value:
        reason = f"{value.median:.4g} {value.unit} is over the theoretical peak of {peak.value:.4g}: {peak.source}"
        return Row(value, peak, "suspect", reason)
    return Row(value, peak, value.status, value.reason)


def _used(value: Derived, device: DeviceInfo) -> DeviceInfo:
    """The device with as many compute units as were used: the peak of some cores is not that of all."""
    units = value.place.compute_units
    return replace(device, compute_units=units) if units is not None and device.kind == "cpu" else device


def _elsewhere(value: Derived) -> str:
    """Why a point was not measured on as many compute units as it speaks of, by its kernels' CPU time; "" where it was."""
    units, used = value.place.compute_units, value.cpu_over_wall
    if used is None:
        return ""
    if units is not None and value.busy == units and not USED[0] * units <= used <= USED[1] * units:
        return f"{units} compute units were asked for and {used:.2f} were used: quieten the host, and measure it again"
    if used < USED[0] * value.together:
        together = f"{value.together} work-groups were to run at the same time"
        return f"{together}, and {used:.2f} compute units were used: quieten the host, and measure it again"
    return ""


def _cached(value: Derived, device: DeviceInfo, sheet: SpecSheet | None) -> bool:
    """Whether arrays, or all that a pass moves, are small enough for a cache, by STREAM's rule: memory's peak is not theirs."""
    size = value.params.get("array_bytes", value.nbytes)
    known = [sheet.figures[name].value for name in ("l2_bytes", "l3_bytes") if sheet is not None and name in sheet.figures]
    return value.peak == MEMORY_PEAK and isinstance(size, int) and size < 4 * max(device.cache_bytes, *known, 0)


def as_dict(row: Row) -> dict[str, Any]:
    """A row as `show --json` gives it."""
    value = row.value
    return {
        "benchmark": value.benchmark,
        "params": dict(value.params),
        "tuning": dict(value.tuning),
        "status": row.status,
        "reason": row.reason,
        "metric": value.metric,
        "unit": value.unit,
        "better": value.better,
        "median": value.median,
        "ci_low": value.ci_low,
        "ci_high": value.ci_high,
        "q1": value.q1,
        "q3": value.q3,
        "min": value.least,
        "n": value.n,
        "processes": value.processes,
        "peak": row.peak.value if row.peak else None,
        "peak_source": row.peak.source if row.peak else None,
        "fraction_of_peak": row.fraction,
        "cycles": value.cycles,
        "cycles_low": value.cycles_low,
        "cycles_high": value.cycles_high,
        "core_clock_ghz": value.ghz,
        "core_clock_origin": value.clock_origin,
        "cpu_over_wall": value.cpu_over_wall,
        "cpus": list(value.place.cpus),
        "verified": value.checked,
        "stopped": value.stopped,
        "notes": list(value.notes),
    }


def labels(table: Sequence[Row]) -> list[str]:
    """What tells each row's point from the others: its parameters, and tuning and place where those alone differ."""
    plain = [format_params(row.value.params) for row in table]
    repeated = Counter((name, row.value.benchmark, row.value.metric) for name, row in zip(plain, table, strict=True))
    full = []
    for name, row in zip(plain, table, strict=True):
        if repeated[(name, row.value.benchmark, row.value.metric)] > 1:
            cpus = row.value.place.cpus
            name = f"{name} {format_params({**row.value.tuning, **({'cpus': cpus} if cpus else {})})}".strip()
        full.append(name)
    return full


def to_json(table: Sequence[Row]) -> str:
    """A list with one object a row."""
    return json.dumps([as_dict(row) for row in table], indent=1, allow_nan=False)


def to_csv(table: Sequence[Row]) -> str:
    """One line a row; parameters and tuning become columns of their own, named param.x and tuning.x."""
    flat = []
    for row in table:
        fields = as_dict(row)
        params, tuning = fields.pop("params"), fields.pop("tuning")
        fields["notes"] = "; ".join(fields["notes"])
        fields["cpus"] = " ".join(map(str, fields["cpus"]))
        named = {f"param.{k}": v for k, v in params.items()} | {f"tuning.{k}": v for k, v in tuning.items()}
        flat.append({"benchmark": fields.pop("benchmark"), **named, **fields})
    columns = list(dict.fromkeys(name for fields in flat for name in fields))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writerow({name: shown.csv_cell(name) for name in columns})
    writer.writerows({k: shown.csv_cell(v) for k, v in fields.items()} for fields in flat)
    return out.getvalue()


def to_markdown(table: Sequence[Row]) -> str:
    """A table with one line a row."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|---|--:|---|--:|--:|---|"]
    lines += ["| " + " | ".join(map(shown.markdown, cells)) + " |" for cells in _cells(table)]
    return "\n".join(lines)


def to_latex(table: Sequence[Row]) -> str:
    """The same table for LaTeX with the package booktabs, without a float around it."""
    lines = [r"\begin{tabular}{lllrlrrl}", r"\toprule", " & ".join(map(shown.latex, COLUMNS)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(shown.latex, cells)) + r" \\" for cells in _cells(table)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _cells(table: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """What a table for people has of each row, by COLUMNS."""
    for label, row in zip(labels(table), table, strict=True):
        value, good = row.value, row.status == "ok" and row.value.median is not None
        yield (
            value.benchmark,
            label,
            value.metric,
            format_in(value.median, value.unit, 4) if good else "–",
            interval(value) if good else "–",
            percent(row.fraction) if good else "–",
            str(value.n),
            row.status if not row.reason else f"{row.status}: {row.reason}",
        )


def interval(value: Derived, digits: int = 4) -> str:
    """The 95% interval of the median in the metric's unit, or a dash."""
    return format_interval(value.ci_low, value.ci_high, value.unit, digits)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if fraction is None else f"{fraction:.1%}"
