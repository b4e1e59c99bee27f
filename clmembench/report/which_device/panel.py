"""The panel "Which device for my code?": predicted times of kernels on each device, and how far predictions are off.

Without scripts it has a table of typical kernels; which_device.js predicts what is set by the formula of
analysis.kernel_time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clmembench.analysis import kernel_time
from clmembench.analysis.device_rates import device_rates
from clmembench.analysis.kernel_time import BEYOND, HINTS, REMARKS, DeviceRates, Prediction, Workload
from clmembench.analysis.little import Estimate
from clmembench.report.device_runs import short_names
from clmembench.report.frame import LabelledRun
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.report.which_device.measured_kernels import (
    PART_NAMES,
    PredictedDevice,
    bound_text,
    chase_curve,
    check_summary,
    check_table,
    compared_kernels,
)
from clmembench.units import format_bytes, format_in, format_interval, format_value

N = 1 << 24  # doubles of the vectors of typical kernels
MATRIX, GRID = 2048, 256  # rows of the matrices of a product; cells along an edge of a grid
ROWS, NONZEROS = 1_122_000, 7_780_000  # of the matrix reservoir
SPMV_BYTES = 12 * NONZEROS + 4 * (ROWS + 1) + 8 * ROWS + 8 * ROWS  # CSR, x and y, as benchmark spmv counts them


@dataclass(frozen=True, slots=True)
class TypicalKernel:
    """A kernel whose time people know, and what it does."""

    title: str
    work: Workload


def _streaming(flops: float, nbytes: float, link_bytes: float = 0.0, product: bool = False) -> Workload:
    return Workload(flops / nbytes, nbytes, nbytes, link_bytes=link_bytes, product=product)


KERNELS = (
    TypicalKernel("triad of 16.8 M doubles, resident", _streaming(2 * N, 24 * N)),
    TypicalKernel("sum of 16.8 M doubles, with their copy to the device", _streaming(N, 8 * N, link_bytes=8 * N)),
    TypicalKernel("DGEMM, n = 2048", _streaming(2 * MATRIX**3, 24 * MATRIX**2, product=True)),
    TypicalKernel("SpMV, matrix reservoir", _streaming(2 * NONZEROS, SPMV_BYTES)),
    TypicalKernel("7-point stencil, 256³ doubles", _streaming(8 * GRID**3, 16 * GRID**3)),
    TypicalKernel("walk of 10⁶ dependent loads in 1 GiB", Workload(set_bytes=1 << 30, loads=1e6)),
)
TITLE = "Predicted times of typical kernels"
# of the drawn roofs: the box in the picture's units, and the decades of intensity
WIDTH, HEIGHT = 900, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 770, 14, 312
INTENSITIES = (-2.0, 3.0)  # log10 of FLOP/B
MAX_LABELLED_ROOFS = 20
LABEL_GAP = 14.0


@dataclass(frozen=True, slots=True)
class Control:
    """A slider for one field of a workload: powers of two from `low` to `high`; one that `has_zero` has 0 below `low`."""

    field: str
    label: str
    low: int
    high: int
    has_zero: bool = True

    def text(self, value: float) -> str:
        """A value as the slider states it."""
        if self.field == "flop_per_byte":
            return f"{format_value(value)} FLOP/B"
        return format_bytes(value, 1) if self.field.endswith("bytes") else f"{value:,.0f}"


CONTROLS = (
    Control("flop_per_byte", "Arithmetic intensity", -6, 10),
    Control("nbytes", "Bytes that the kernels move", 10, 40),
    Control("set_bytes", "Working set", 12, 36, has_zero=False),
    Control("launches", "Launches", 0, 20, has_zero=False),
    Control("link_bytes", "Bytes over the host link", 10, 38),
    Control("loads", "Dependent loads", 0, 30),
)


def panel(parts: Sequence[LabelledRun]) -> dict[str, Any] | None:
    """Values for the panel's template; None where no typical kernel can be predicted on any device."""
    devices = _devices(parts)
    if all(kernel_time.predict(one.rates, kernel.work).ns is None for one in devices for kernel in KERNELS):
        return None
    first = KERNELS[0]
    checks = [(one.short, compared_kernels(one)) for one in devices]
    rates, names = [one.rates for one in devices], [one.short for one in devices]
    return {
        "kernels": [one.title for one in KERNELS],
        "first": first.title,
        "table": kernel_table(devices),
        "chart": chart_values(rates, names, first.work),
        "results": results(devices, first.work),
        "controls": [_control(one, getattr(first.work, one.field)) for one in CONTROLS],
        "product": first.work.product,
        "checks": [check_table(name, found) for name, found in checks if found],
        "summary": check_summary(checks),
        "data": json.dumps(script_data(rates, names), separators=(",", ":"), allow_nan=False),
    }


def _devices(parts: Sequence[LabelledRun]) -> list[PredictedDevice]:
    """The devices with their rates, of the latest version of each benchmark that the report has."""
    latest: dict[str, int] = {}
    for part in parts:
        for name, card in part.run.header.benchmarks.items():
            latest[name] = max(latest.get(name, 0), card.version)
    names = short_names([part.label for part in parts])
    found = []
    for part, short in zip(parts, names, strict=True):
        cards = part.run.header.benchmarks
        own = tuple(row.value for row in part.rows if cards[row.value.benchmark].version == latest[row.value.benchmark])
        rates = device_rates(own, chase_curve(part.run), part.run.header.device)
        found.append(PredictedDevice(part, short, rates, own))
    return found


def kernel_table(devices: Sequence[PredictedDevice]) -> Table:
    """The typical kernels, a column for each device; the shortest time is marked, and each whose interval overlaps with its."""
    rows: list[tuple[Entry, ...]] = []
    for kernel in KERNELS:
        found = [kernel_time.predict(one.rates, kernel.work) for one in devices]
        times = [ns for one in found if (ns := one.ns) is not None and one.remark != BEYOND]
        reach = min(times, key=lambda ns: ns.value).high if len(times) > 1 else 0.0
        cells = [_time_cell(one, (ns := one.ns) is not None and one.remark != BEYOND and ns.low <= reach) for one in found]
        rows.append((kernel.title, *cells))
    return noted(Table(TITLE, columns(("kernel", *(one.short for one in devices))), tuple(rows)))


def _time_cell(found: Prediction, is_best: bool) -> Cell:
    ns = found.ns
    if ns is None:
        suites = list(dict.fromkeys(HINTS[name][0] for name in found.missing))
        return Cell(
            "–", more=(f"suite{'s' * (len(suites) > 1)} {', '.join(suites)}",), reason=missing_text(found), kind="muted"
        )
    return Cell(
        format_in(ns.value, "ns"),
        mark="*" if is_best else "",
        more=(bound_text(found),),
        detail=format_interval(ns.low, ns.high, "ns"),
        reason=REMARKS.get(found.remark, ""),
        kind="best" if is_best else "",
        value=ns.value,
    )


def missing_text(found: Prediction) -> str:
    """The suites and benchmarks that measure what a prediction lacks."""
    needed = "; ".join(f"suite {suite}, benchmark {names}" for suite, names in (HINTS[name] for name in found.missing))
    return f"not measured, or by an older version: {needed}"


def results(devices: Sequence[PredictedDevice], work: Workload) -> list[dict[str, Any]]:
    """The list of devices for one workload, the shortest time first; which_device.js writes the same lines."""
    found = [(number, kernel_time.predict(one.rates, work)) for number, one in enumerate(devices)]
    times = {number: ns for number, one in found if (ns := one.ns) is not None}
    ends = [ns.value for ns in times.values()]
    extremes = (min(ends, default=1.0), max(ends, default=1.0))
    found.sort(key=lambda one: times[one[0]].value if one[0] in times else math.inf)
    return [_result(devices[number], number, one, times.get(number), extremes) for number, one in found]


def _result(
    device: PredictedDevice, number: int, found: Prediction, ns: Estimate | None, extremes: tuple[float, float]
) -> dict[str, Any]:
    shortest, longest = extremes
    return {
        "name": device.short,
        "number": number,
        "time": format_in(ns.value, "ns") if ns is not None else "",
        "detail": detail_text(found, shortest),
        "bar": [(name, f"{100 * one.value / longest:.3f}") for name, one in found.parts.items()] if ns is not None else [],
    }


def detail_text(found: Prediction, shortest: float) -> str:
    """What stands below a device's time: how many times the shortest it is, what bounds it, its interval and parts, and what
    the kernel attains; or what was not measured."""
    ns = found.ns
    if ns is None:
        return missing_text(found)
    ratio = f"{format_value(ns.value / shortest)} times the shortest" if ns.value > shortest else ""
    parts = ", ".join(f"{PART_NAMES[name]} {format_in(one.value, 'ns')}" for name, one in found.parts.items())
    rates = ((found.gflop_s, "GFLOP/s"), (found.gb_s, "GB/s"))
    attained = ", ".join(f"{format_value(rate)} {unit}" for rate, unit in rates if rate)
    interval = format_interval(ns.low, ns.high, "ns")
    every = (ratio, f"bound by {bound_text(found)}", interval, parts if len(found.parts) > 1 else "", attained)
    return "; ".join(filter(None, (*every, REMARKS.get(found.remark))))


def chart_values(rates: Sequence[DeviceRates], names: Sequence[str], work: Workload) -> dict[str, Any]:
    """The roofs of all devices at a working set, as points of a picture: the box and its decades, ticks, and for each device
    its line, the height of its label, and the mark at the workload's intensity; a device without a roof has no points."""
    box = picture_box(rates)
    low, high = box["y"]
    lines = [roof_line(one, work, box) for one in rates]
    ends = spread_labels([line[-1][1] if line else None for line in lines], len(lines) <= MAX_LABELLED_ROOFS)
    at = work.flop_per_byte
    return {
        "box": box,
        "width": WIDTH,
        "height": HEIGHT,
        "x_ticks": [
            (_x(10.0**power, box), f"{10.0**power:,g}") for power in range(int(INTENSITIES[0]), int(INTENSITIES[1]) + 1)
        ],
        "y_ticks": [(_y(10.0**power, box), f"{10.0**power:,g}") for power in range(low, high + 1)],
        "at": _x(at, box) if at > 0 else None,
        "roofs": [
            {
                "name": name,
                "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in line),
                "label_y": end,
                "mark_y": _y(roof, box) if at > 0 and (roof := attainable(one, work, at)) is not None else None,
            }
            for name, one, line, end in zip(names, rates, lines, ends, strict=True)
        ],
    }


def picture_box(rates: Sequence[DeviceRates]) -> dict[str, Any]:
    """The box of the picture in its units, and the decades of intensity and of GFLOP/s from the lowest roof to the highest."""
    tops = [top for one in rates for top in (one.vector_gflop_s, one.product_gflop_s) if top is not None]
    floors = [10 ** INTENSITIES[0] * one.bandwidths[-1].gb_s.value for one in rates if one.bandwidths]
    low = math.floor(math.log10(min(floors, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max((top.value for top in tops), default=1.0))))
    return {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "x": INTENSITIES, "y": (low, high)}


def attainable(rates: DeviceRates, work: Workload, intensity: float) -> float | None:
    """GFLOP/s under a device's roofs at an intensity, of data of the workload's size; None where one roof was not measured."""
    top = rates.product_gflop_s if work.product else rates.vector_gflop_s
    found = kernel_time.bandwidth(rates, work.set_bytes)
    return None if top is None or isinstance(found, str) else min(top.value, intensity * found[0].value)


def roof_line(rates: DeviceRates, work: Workload, box: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The corners of a device's roof in the picture."""
    ends = [10.0**power for power in INTENSITIES]
    top = attainable(rates, work, math.inf)
    if top is None:
        return []
    ridge = ends[0] * top / (attainable(rates, work, ends[0]) or top)
    inner = [ridge] if ends[0] < ridge < ends[1] else []
    return [(_x(at, box), _y(attainable(rates, work, at) or top, box)) for at in (ends[0], *inner, ends[1])]


def spread_labels(ends: Sequence[float | None], is_drawn: bool) -> list[float | None]:
    """Heights of labels beside the ends of lines, as near to them as a line of text leaves room, from the lowest up."""
    found: list[float | None] = [None] * len(ends)
    last = BOTTOM + LABEL_GAP
    for number in sorted((n for n, end in enumerate(ends) if end is not None and is_drawn), key=lambda n: -(ends[n] or 0.0)):
        last = min(ends[number] or 0.0, last - LABEL_GAP)
        found[number] = round(last, 1)
    return found


def _x(intensity: float, box: Mapping[str, Any]) -> float:
    low, high = box["x"]
    share = float((min(max(math.log10(intensity), low), high) - low) / (high - low))
    return round(LEFT + share * (RIGHT - LEFT), 1)


def _y(gflop_s: float, box: Mapping[str, Any]) -> float:
    low, high = box["y"]
    share = float((max(math.log10(gflop_s), low) - low) / (high - low))
    return round(BOTTOM - share * (BOTTOM - TOP), 1)


def _control(control: Control, value: float) -> dict[str, Any]:
    lowest = control.low - control.has_zero
    place = round(2 * math.log2(value)) / 2 if value > 0 else lowest
    return {"control": control, "lowest": lowest, "place": place, "text": control.text(value)}


def script_data(rates: Sequence[DeviceRates], names: Sequence[str]) -> dict[str, Any]:
    """What which_device.js predicts from: the rates of each device, and the typical kernels."""
    return {
        "devices": [{"name": name, **_rates_data(one)} for name, one in zip(names, rates, strict=True)],
        "kernels": [asdict(one.work) for one in KERNELS],
        "controls": {one.field: [one.low, one.high, one.has_zero] for one in CONTROLS},
        "names": PART_NAMES,
        "hints": HINTS,
        "remarks": REMARKS,
        "box": picture_box(rates),
        "label_gap": LABEL_GAP,
        "are_labelled": len(rates) <= MAX_LABELLED_ROOFS,
    }


def _rates_data(rates: DeviceRates) -> dict[str, Any]:
    """The rates of a device as JSON has them: each with its interval; memory's size is null."""
    return {
        "round_trip": _ends(rates.round_trip_ns),
        "dispatch": _ends(rates.dispatch_ns),
        "has_link": rates.has_link,
        "link_ns": _ends(rates.link_ns),
        "link_gb_s": _ends(rates.link_gb_s),
        "vector": _ends(rates.vector_gflop_s),
        "product": _ends(rates.product_gflop_s),
        "bandwidths": [
            [one.name, one.nbytes if math.isfinite(one.nbytes) else None, _ends(one.gb_s)] for one in rates.bandwidths
        ],
        "memory_from": rates.memory_from,
        "latencies": [[one.name, one.first_bytes, one.last_bytes, _ends(one.ns)] for one in rates.latencies],
        "sources": dict(rates.sources),
    }


def _ends(one: Estimate | None) -> list[float] | None:
    return None if one is None else [float(f"{end:.7g}") for end in (one.value, one.low, one.high)]
