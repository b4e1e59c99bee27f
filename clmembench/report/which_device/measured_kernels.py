"""Predicted times of kernels against those that were measured in the same run: how far predictions are off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from clmembench.analysis import kernel_time, plateaus
from clmembench.analysis.derive import Derived
from clmembench.analysis.device_rates import is_usable
from clmembench.analysis.kernel_time import COMPUTE, LATENCY, MEMORY, DeviceRates, Prediction, Workload
from clmembench.model import Run
from clmembench.report.frame import LabelledRun
from clmembench.report.table import Cell, Column, Table, columns, noted
from clmembench.units import count, format_bytes, format_in

PART_NAMES = {"launch": "launch", "link": "host link", "compute": "compute", "memory": "memory", "latency": "latency"}
IS_INPUT = "the prediction was made from this point"
CHECK_HEADER = ("kernel", "measured", "predicted", "predicted / measured", Column("bound by"))
MIN_DECILE_ERRORS = 10  # errors, from which on nine of ten are not all of them
MAX_WORK = 1e18  # bytes, FLOP or ns of a pass: more is an error, or a file that means harm
MIN_COPY_BYTES = 1 << 20  # of many copies in a row: smaller ones are about their starts


@dataclass(frozen=True, slots=True)
class PredictedDevice:
    """A device of a report under its short name, with its rates and the values that they were chosen from."""

    part: LabelledRun
    short: str
    rates: DeviceRates
    values: tuple[Derived, ...]


@dataclass(frozen=True, slots=True)
class ComparedKernel:
    """A kernel of a run: its measured time in ns, and the predicted one; one that `is_input` has a prediction that was made
    from it, so that it says nothing of the formula."""

    name: str
    measured_ns: float
    predicted_ns: float
    bound: str
    is_input: bool

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted_ns / self.measured_ns

    @property
    def error(self) -> float:
        """By which factor the two differ, at least 1."""
        return max(self.ratio, 1 / self.ratio)


def chase_curve(run: Run) -> list[plateaus.CurvePoint]:
    """The latency of a pointer chase over working sets, with a node per line; empty where it was not measured."""
    card = run.header.benchmarks.get("pchase")
    if card is None:
        return []
    records = [
        record
        for record in run.records
        if record.benchmark == "pchase" and record.params.get("spacing_bytes") == "line" and record.place.compute_units is None
    ]
    return plateaus.curve_points(records, card.metrics[0], "array_bytes")


def bound_text(found: Prediction) -> str:
    """What takes most of a predicted time."""
    if found.bound == MEMORY:
        return found.by
    name = PART_NAMES.get(found.bound, "")
    return f"{name} ({found.by})" if found.bound in (COMPUTE, LATENCY) and found.by else name


def compared_kernels(device: PredictedDevice) -> list[ComparedKernel]:
    """The kernels of a run that a prediction can be held against, each in its fastest variant. Kernels timed by the device's
    clock are predicted without their launch and with the time of an empty kernel; without that time they are left out."""
    best: dict[str, ComparedKernel] = {}
    for one in _compared(device):
        if one.name not in best or one.measured_ns < best[one.name].measured_ns:
            best[one.name] = one
    return list(best.values())


def _compared(device: PredictedDevice) -> Iterator[ComparedKernel]:
    rates = device.rates
    for v in sorted(device.values, key=lambda v: (v.benchmark, max(v.nbytes, v.flops))):
        is_plain = is_usable(v) and v.pass_ns > 0 and max(v.nbytes, v.flops, v.pass_ns) < MAX_WORK
        name, work = _measured_work(v) if is_plain else ("", None)
        found = kernel_time.predict(rates, work) if work is not None else None
        if found is None or found.ns is None or (v.clock == "device" and rates.empty_ns is None):
            continue
        extra = rates.empty_ns or 0.0 if v.clock == "device" else 0.0
        yield ComparedKernel(name, v.pass_ns, found.ns.value + extra, bound_text(found), v.key in rates.inputs)
    for point in chase_curve(device.part.run):
        if point.array_bytes.bit_count() == 1 and point.array_bytes.bit_length() % 4 == 1 and rates.latencies:
            ns, level = kernel_time.latency(rates.latencies, point.array_bytes)
            name = f"dependent load in {format_bytes(point.array_bytes)}"
            yield ComparedKernel(name, point.ns, ns.value, f"{PART_NAMES[LATENCY]} ({level})", is_input=True)


def _measured_work(v: Derived) -> tuple[str, Workload | None]:
    """What a measured pass did, and under which name; None of what no prediction is for."""
    params, n, size = v.params, v.params.get("n"), v.params.get("array_bytes")
    streaming = Workload(v.flops / v.nbytes, v.nbytes, v.nbytes, 0) if v.nbytes else None
    if v.benchmark == "stream" and (params.get("op"), params.get("dtype")) == ("triad", "double"):
        return f"triad, arrays of {format_bytes(v.nbytes / 3)}", streaming
    if v.benchmark == "reduction" and v.metric == "time" and isinstance(n, int):
        return f"sum of {n:,} doubles", streaming
    if v.benchmark == "spmv" and v.metric == "time":
        return f"SpMV, {params.get('matrix')}", streaming
    if v.benchmark == "dgemm" and params.get("dtype") == "double" and isinstance(n, int) and 0 < n < MAX_WORK**0.5:
        return f"DGEMM, n = {n}", Workload(v.flops / (24 * n * n), 24 * n * n, 24 * n * n, 0, product=True)
    if (params.get("direction"), params.get("memory")) == ("to_device", "pinned") and isinstance(size, int):
        if v.benchmark == "transfer_latency":
            return f"copy of {format_bytes(size)} to the device", Workload(launches=0, link_bytes=size)
        if v.benchmark == "transfer" and size >= MIN_COPY_BYTES:
            name = f"{count(v.nbytes // size, 'copy', 'copies')} of {format_bytes(size)} to the device"
            return name, Workload(launches=0, link_bytes=v.nbytes)
    return "", None


def check_table(name: str, found: Sequence[ComparedKernel]) -> Table:
    """Predicted and measured times of one device."""
    rows = tuple(
        (
            one.name,
            format_in(one.measured_ns, "ns"),
            format_in(one.predicted_ns, "ns"),
            Cell(f"{one.ratio:.2f}", reason=IS_INPUT if one.is_input else "", kind="muted" if one.is_input else ""),
            one.bound,
        )
        for one in found
    )
    return noted(Table(f"Predicted and measured on {name}", columns(CHECK_HEADER), rows))


def check_summary(checks: Sequence[tuple[str, Sequence[ComparedKernel]]]) -> str:
    """The median and the worst error of all kernels that were no inputs; "" where there are none."""
    told = [(one.error, one, name) for name, found in checks for one in found if not one.is_input]
    if not told:
        return ""
    errors = sorted(error for error, _, _ in told)
    worst, kernel, name = max(told, key=lambda one: one[0])
    most = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    side = "longer" if kernel.ratio > 1 else "shorter"
    nine = f", in nine of ten cases by at most {most:.2f}" if len(errors) >= MIN_DECILE_ERRORS else ""
    return (
        f"Predictions of {count(len(told), 'measured kernel')} that they were not made from differ by a factor of "
        f"{median(errors):.2f} in the median{nine} and by {worst:.2f} in the worst case "
        f"({kernel.name} on {name}, predicted {side} than measured)."
    )
