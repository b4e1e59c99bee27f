"""Published results as cells of the verdict: which of the papers' benchmarks, metrics and parameters are which headline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clmembench.model import Value
from clmembench.report.verdict_cells import Cell
from clmembench.sanitize import printable
from clmembench.specs.sheets import Published, SpecSheet
from clmembench.units import format_bytes, format_in, format_params

GLOBAL = {"memory": "global", "l1_tlb": "hit"}


@dataclass(frozen=True, slots=True)
class Join:
    """Published results of a benchmark and metric, in that unit and with at least these parameters, are that headline."""

    headline: str
    benchmark: str
    metric: str
    unit: str
    params: Mapping[str, Value]


# Mei & Chu 2015 copy words of 4 bytes; their pattern P1 is a hit with translation, P4 a miss of the last cache with it
JOINS = (
    Join("nearest cache", "pchase", "latency", "cycles", {**GLOBAL, "pattern": "P1", "data_cache_level": "L1"}),
    Join("memory", "pchase", "latency", "cycles", {**GLOBAL, "pattern": "P4", "data_cache_level": "L2"}),
    Join("memory copy, float", "stream", "bandwidth", "GB/s", {"level": "memory", "op": "copy"}),
    Join("device to host", "transfer", "bandwidth", "GB/s", {"direction": "from_device"}),
    Join("DGEMM", "dgemm", "rate", "GFLOP/s", {"threads": "all"}),
    Join("size of L1, by topology", "geometry", "size", "B", {"of": "L1"}),
    Join("size of L2, by topology", "geometry", "size", "B", {"of": "L2"}),
)


def published_cells(sheet: SpecSheet) -> dict[str, Cell]:
    """The published results of a device by headline. They take no part in ranks or ratios: their methods differ from ours."""
    found = {}
    for join in JOINS:
        here = [result for result in sheet.published if _is(result, join)]
        if here:
            found[join.headline] = _cell(here[0])
    return found


def _is(result: Published, join: Join) -> bool:
    same = (result.benchmark, result.metric) == (join.benchmark, join.metric)
    unit = "B" if join.unit == "B" and result.unit in _BYTES else result.unit
    return same and unit == join.unit and all(result.params.get(name) == value for name, value in join.params.items())


_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _cell(result: Published) -> Cell:
    scale = _BYTES.get(result.unit)
    text = format_in(result.value, result.unit) if scale is None else format_bytes(result.value * scale)
    where = f"{result.source} ({result.read_from}); {format_params(result.params)}"
    detail = printable(f"published: {where}{'; ' if result.note else ''}{result.note}")
    return Cell(printable(text), detail=detail, status="published")
