"""Tables of the memory divergence model against a run: errors beside the paper's, bias by axis, largest errors, inputs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from clmembench.model import Run
from clmembench.report.frame import Row, sheet_of
from clmembench.report.table import Column, Entry, Table, columns
from clmembench.studies.memory_divergence.mdm_frozen import FrozenError
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, HardwareSheet
from clmembench.studies.memory_divergence.model.equations import Model
from clmembench.studies.memory_divergence.model.errors import Compared
from clmembench.studies.memory_divergence.views.mdm_held_out import HeldOut
from clmembench.studies.memory_divergence.views.mdm_validation import (
    MAX_CLOCK_RATIO,
    Validation,
    errors_by_reading,
    text_beside,
    validation,
)
from clmembench.units import format_params, format_value

AXES = ("lines", "fmas", "loads", "sub_groups", "footprint_bytes", "stores")
MAX_MISSES = 10  # of the largest errors, shown
READING_NAMES = {"block": "", "sector": ", sectors of 32 B"}
FEWEST_MSHRS = (
    "Only a lower bound of the number of MSHRs is known: ratios use that bound, which gives the most batches, and are no "
    "test of MDM until mlp is measured. Its range covers more MSHRs."
)
HELD_OUT_MODELS: tuple[Model, ...] = ("MDM", "GPUMech", "MDM-overlap", "bound")
STATES = {
    "frozen": "Predictions were frozen before the measurement: the file beside the run has the sha256 that its records "
    "name, {}.",
    "remade": "Predictions were frozen before the measurement: recomputed from the run's inputs, they have the sha256 "
    "that its records name, {}.",
    "changed": "These predictions (sha256 {}) were NOT frozen before the measurement: its records name another hash. The "
    "frozen predictions are in the file beside the run.",
    "none": "These predictions (sha256 {}) were NOT frozen before the measurement: its records name none.",
}


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """The tables of a report's section on memory_divergence."""
    try:
        return validation_sections(validation(run, sheet_of(run), text_beside(run)))
    except (FrozenError, OSError, ValueError) as error:
        header = columns(("memory divergence model", "status"))
        return [Table("The memory divergence model.", header, (("inputs", f"undetermined: {error}"),))]


def validation_sections(found: Validation, kernels: Sequence[HeldOut] = ()) -> list[Table]:
    """Every table of a validation, and of held-out kernels of the same run; if nothing was measured, the reason."""
    held = [held_out_section(kernels, found.hardware)] if kernels else []
    inputs = inputs_section(found.hardware, "Inputs of the model.")
    block = found.compared["block"]
    if block:
        return [_errors(found), _bias(block), _misses(block), *held, inputs]
    if held and not found.left:
        return [*held, inputs]
    rows = tuple((reason, count) for reason, count in found.left.items()) or (("no point was measured", 0),)
    return [Table("No configuration has a measured time of an interval.", columns(("reason", "points")), rows), *held]


def held_out_section(kernels: Sequence[HeldOut], hardware: HardwareSheet) -> Table:
    """Predicted over measured performance of every kernel, and the mean |ln ratio| of each model."""
    pairs = [(reading, model) for model in HELD_OUT_MODELS for reading in READING_NAMES]
    rows: list[tuple[Entry, ...]] = []
    for one in kernels:
        ratios = (f"{math.exp(one.log_ratio(*pair)):.2f}x" for pair in pairs)
        _, low, high = one.predicted_us["block", "MDM"]
        rows.append((one.name, format_value(one.measured_us), f"{format_value(low)} to {format_value(high)}", *ratios))
    means = (statistics.fmean(abs(one.log_ratio(*pair)) for one in kernels) for pair in pairs)
    rows.append(("mean |ln ratio|", "", "", *(f"{mean:.2f}" for mean in means)))
    header: tuple[str | Column, ...] = (
        "kernel", Column("measured us", is_number=True), Column("MDM: us"),
        *(Column(f"{model}{', sectors' if reading == 'sector' else ''}", is_number=True) for reading, model in pairs),
    )  # fmt: skip
    notes = (
        "Ratios are predicted over measured performance: above 1 the model overpredicts. MDM: us is the range from the "
        "intervals of the inputs.",
        "Profiles are declared from the kernels' source. Staging in local memory, bank conflicts and "
        "the bandwidth of the first cache are not modelled, so kernels that depend on them are predicted badly.",
        "The form of MDM-overlap was chosen after such ratios of an H200 had been seen: they are no evidence for it.",
        *([FEWEST_MSHRS] if hardware.quantities.mshrs.bound else []),
    )
    return Table("Held-out kernels.", columns(header), tuple(rows), notes)


def _errors(found: Validation) -> Table:
    rows = []
    for one in errors_by_reading(found):
        paper = f"{one.paper_percent:g}%" if one.paper_percent is not None and one.reading == "block" else ""
        rows.append(
            (
                f"{one.model}{READING_NAMES[one.reading]}", one.kind, one.count, f"{one.mean_error_percent:.0f}%", paper,
                format_value(one.mean_log_ratio), f"{one.bias:.2f}x", f"{math.exp(one.worst_log_ratio):.1f}x",
                f"{one.covered:.0%}",
            )
        )  # fmt: skip
    header = (
        "model", Column("class"), Column("n", is_number=True), Column("|error| of IPC", is_number=True),
        Column("in the paper", is_number=True), Column("|ln ratio|", is_number=True), Column("bias", is_number=True),
        Column("worst", is_number=True), Column("inputs explain", is_number=True),
    )  # fmt: skip
    notes = [
        STATES[found.state].format(found.sha256),
        "MD: misses of the resident sub-groups exceed the MSHRs; NMD: they do not. Bias: geometric mean of predicted over "
        "measured IPC. Inputs explain: share of configurations whose error is within the intervals of the inputs.",
        "In the paper: Wang et al. 2019, section 5, averages over 7 MD and 8 NMD programs, compared with a simulator.",
    ]
    if found.hardware.quantities.mshrs.bound:
        notes.append("The number of MSHRs is a lower bound: some configurations classified as MD may not be.")
    if found.clock_ratio is not None:
        low, middle, high = found.clock_ratio
        agree = 1 / MAX_CLOCK_RATIO <= middle <= MAX_CLOCK_RATIO
        notes.append(
            f"In-kernel cycles are {middle:.3f} times those of events (points: {low:.2f} to {high:.2f})"
            + ("." if agree else ": the two clocks disagree, so neither is certain.")
        )
    notes += [f"{count} points have no value: {reason}" for reason, count in found.left.items()]
    return Table("Errors of predicted IPC.", columns(header), tuple(rows), tuple(notes))


def _bias(compared: Sequence[Compared]) -> Table:
    """Bias of MDM and its variant: geometric mean of predicted over measured for each value of each axis."""
    rows: list[tuple[Entry, ...]] = []
    for axis in AXES:
        for value in sorted({one.params[axis] for one in compared}, key=float):
            mine = [one for one in compared if one.params[axis] == value]
            cells = [math.exp(statistics.fmean(one.log_ratio(m) for one in mine)) for m in ("MDM", "MDM-overlap", "bound")]
            rows.append((format_params({axis: value}), len(mine), *(f"{cell:.2f}x" for cell in cells)))
    header = columns(("configurations with", "n", "MDM", "MDM-overlap (ours)", "bound (ours)"))
    note = "Above 1: the model overpredicts performance. A factor that grows along an axis indicates which assumption fails."
    return Table("Predicted over measured IPC, by axis.", header, tuple(rows), (note,))


def _misses(compared: Sequence[Compared]) -> Table:
    worst = sorted(compared, key=lambda one: -abs(one.log_ratio("MDM")))[:MAX_MISSES]
    rows = tuple(
        (
            format_params(one.params), "MD" if one.divergent else "NMD", format_value(one.measured.value),
            format_value(one.predicted["MDM"].ipc_sm),
            f"{format_value(one.predicted['MDM'].ipc_sm_low)} to {format_value(one.predicted['MDM'].ipc_sm_high)}",
            f"{math.exp(one.log_ratio('MDM')):.2f}x",
        )
        for one in worst
    )  # fmt: skip
    header = (
        Column("configuration", max_cell=100), Column("class"), Column("measured", is_number=True),
        Column("MDM", is_number=True), Column("range"), Column("ratio", is_number=True),
    )  # fmt: skip
    return Table("The largest errors of MDM, IPC of a compute unit.", columns(header), rows)


def inputs_section(hardware: HardwareSheet, title: str) -> Table:
    """Every input with its interval and source."""
    rows = []
    for name in UNITS:
        one = getattr(hardware.quantities, name)
        if one is not None:
            low, high = one.ends
            interval = "" if low == high else f"{format_value(low)} to {format_value(high)}"
            bound = " (a lower bound)" if one.bound else ""
            rows.append((name, format_value(one.value), one.unit, interval, f"{one.source}{bound}"))
    header = (
        "input", Column("value", is_number=True), Column("unit"), Column("interval"), Column("source", max_cell=90)
    )  # fmt: skip
    return Table(title, columns(header), tuple(rows))
