"""Headlines that results of other programs join: those that `import` marked with a benchmark and a metric of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clmembench.model import Value
from clmembench.report.imported.published_map import BYTES
from clmembench.report.scorecard_cells import Cell
from clmembench.results.imported import ImportedRun, ImportedValue
from clmembench.sanitize import printable
from clmembench.specs.sheets import Match, Published, SpecSheet
from clmembench.units import format_bytes, format_in, format_params


@dataclass(frozen=True, slots=True)
class HeadlineJoin:
    """Imported values of a benchmark and metric, in that unit and with at least these parameters, are that headline."""

    headline: str
    benchmark: str
    metric: str
    unit: str
    params: Mapping[str, Value]


# what `import` marks as ours: parameters of ours
IMPORTED_JOINS = (
    *(
        HeadlineJoin(f"memory {op}, {dtype}", "stream", "bandwidth", "GB/s", {"op": op, "dtype": dtype})
        for op, dtype in (("copy", "double"), ("triad", "double"), ("copy", "float"))
    ),
    HeadlineJoin("FP64 multiply-adds in registers", "arithmetic", "flop_rate", "GFLOP/s", {"dtype": "double"}),
    HeadlineJoin("FP32 multiply-adds in registers", "arithmetic", "flop_rate", "GFLOP/s", {"dtype": "float"}),
    HeadlineJoin("host to device", "transfer", "link_bandwidth", "GB/s", {"direction": "to_device"}),
    HeadlineJoin("device to host", "transfer", "link_bandwidth", "GB/s", {"direction": "from_device"}),
    HeadlineJoin("nearest cache", "load", "latency", "cycles", {"of": "L1"}),
    HeadlineJoin("load from L1, by topology", "load", "latency", "cycles", {"of": "L1"}),
    HeadlineJoin("load from L2, by topology", "load", "latency", "cycles", {"of": "L2"}),
    HeadlineJoin("memory", "load", "latency", "cycles", {"of": "memory"}),
    HeadlineJoin("load from DRAM, by topology", "load", "latency", "cycles", {"of": "memory"}),
    HeadlineJoin("size of L1, by topology", "geometry", "size", "B", {"of": "L1"}),
)


def imported_sheet(run: ImportedRun) -> SpecSheet:
    """An imported run as a sheet of published results: it has values and sources, and neither samples nor intervals."""
    results = []
    for value in run.values:
        ends = (value.least, value.most)
        extremes = f"; from {ends[0]:.4g} to {ends[1]:.4g} {value.unit}" if ends[0] is not None and ends[1] is not None else ""
        note = f"{value.name}: {value.statistic}{extremes}{'; ' if value.note else ''}{value.note}"
        names = (value.benchmark or run.program, value.metric or value.name)
        results.append(Published(*names, value.value, value.unit, run.file, "file", dict(value.params), note))
    kind: Literal["accelerator"] = "accelerator"  # the files do not say; nothing is decided by it
    return SpecSheet(run.device, kind, Match(), {}, tuple(results), run.origin)


def imported_cells(sheet: SpecSheet) -> dict[str, Cell]:
    """The imported values of a device by headline, of several that of the largest arrays. They have no interval, and take no
    part in ranks or ratios."""
    found = {}
    for join in IMPORTED_JOINS:
        here = [result for result in sheet.published if _is(result, join)]
        if here:
            found[join.headline] = _cell(max(here, key=_array_bytes), sheet.origin)
    return found


def _array_bytes(result: Published) -> float:
    """The size of the arrays, of which the largest counts, as with ours; 0 where there are none, and the first one counts."""
    size = result.params.get("array_bytes", 0)
    return size if isinstance(size, int | float) else 0


def joined_headlines(value: ImportedValue) -> list[str]:
    """The headlines in whose rows an imported value is shown."""
    result = Published(value.benchmark, value.metric, value.value, value.unit, "", "file", value.params)
    return [join.headline for join in IMPORTED_JOINS if _is(result, join)]


def _is(result: Published, join: HeadlineJoin) -> bool:
    same = (result.benchmark, result.metric) == (join.benchmark, join.metric)
    unit = "B" if join.unit == "B" and result.unit in BYTES else result.unit
    return same and unit == join.unit and all(result.params.get(name) == value for name, value in join.params.items())


def _cell(result: Published, origin: str) -> Cell:
    scale = BYTES.get(result.unit)
    text = format_in(result.value, result.unit) if scale is None else format_bytes(result.value * scale)
    where = f"{result.source} ({result.read_from}); {format_params(result.params)}"
    detail = printable(f"{origin}: {where}{'; ' if result.note else ''}{result.note}")
    size = _array_bytes(result)
    extra = f"arrays of {format_bytes(size)}" if size else ""
    return Cell(printable(text), extra, detail, "imported")
