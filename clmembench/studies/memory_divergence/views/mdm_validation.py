"""The memory divergence model compared with a stored run: its inputs, frozen predictions, and measurements."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate
from clmembench.gates.whole import judged_values
from clmembench.model import CHASE_BENCHMARK, Record, Run
from clmembench.sanitize import read_regular
from clmembench.specs.sheets import SpecSheet
from clmembench.studies.hierarchy import plan as hierarchy
from clmembench.studies.memory_divergence import mdm_frozen
from clmembench.studies.memory_divergence import plan as mdm
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, HardwareSheet, InputQuantity, published_errors
from clmembench.studies.memory_divergence.model.errors import Compared, ModelError, model_errors
from clmembench.studies.memory_divergence.model.measured import MeasuredInputs, measured_inputs
from clmembench.studies.memory_divergence.model.measured_memory import Evidence

INTERVAL_METRIC = "interval"
INSTRUCTION, MULTIPLY_ADD = "instruction", {"op": "fma", "dtype": "float", "lanes": 1}
MAX_CLOCK_RATIO = 1.05  # allowed deviation of in-kernel cycles from those of events: beyond it the two measure different things

State = Literal["frozen", "remade", "changed", "none"]


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of `model validate` for a run: inputs, configurations with measurement and predictions by reading, the hash of
    the predictions, and their state. States: "frozen": the file beside the run has the hash in its records; "remade":
    predictions recomputed from the run's inputs have it; "changed": another hash; "none": records name no hash. `left` counts
    points without a value by reason; `clock_ratio` is in-kernel cycles over those of events, the median and the extremes."""

    hardware: HardwareSheet
    compared: Mapping[str, tuple[Compared, ...]]
    sha256: str
    state: State
    left: Mapping[str, int]
    clock_ratio: tuple[float, float, float] | None


def errors_by_reading(found: Validation) -> list[ModelError]:
    """The errors of every model and class, and the paper's, for each reading of the equations."""
    published: dict[tuple[str, str], float] = {(one.model, one.kind): one.error_percent for one in published_errors().error}
    return [one for reading, compared in found.compared.items() for one in model_errors(compared, reading, published)]


def inputs_of(runs: Sequence[Run], sheet: SpecSheet | None) -> MeasuredInputs:
    """The inputs that runs of one device provide; records of the predicted kernels are not used."""
    values, hierarchies, cycles = [], [], []
    for run in runs:
        own = replace(run, records=tuple(r for r in run.records if r.benchmark != mdm.VALIDATED))
        values += judged_values(own, sheet)[1]
        if own.has(CHASE_BENCHMARK):
            hierarchies.append(hierarchy.infer_stored(own).hierarchy)
        cycles += [r.core_clock.cycles_per_op for r in own.records if r.core_clock is not None and r.core_clock.cycles_per_op]
    source = "dependent-ALU chain, calibrated by the in-kernel counter"
    dependent = None
    if cycles:
        ends = min(cycles), max(cycles)
        dependent = InputQuantity(statistics.median(cycles), UNITS["dependent_cycles"], source, *ends)
    measured = next((v for v in values if v.benchmark == INSTRUCTION and v.params == MULTIPLY_ADD and v.status == "ok"), None)
    if measured is not None and measured.cycles is not None:  # of the operation that the kernels repeat
        low, high = measured.cycles_low or measured.cycles, measured.cycles_high or measured.cycles
        source = "instruction: dependent multiply-adds in float"
        dependent = InputQuantity(measured.cycles, UNITS["dependent_cycles"], source, low, high)
    origin = f"measured: {', '.join(run.path.rpartition('/')[2] or run.header.run_id for run in runs)}"
    return measured_inputs(Evidence(runs[0].header.device, values, hierarchies, sheet, origin, dependent))


def has_evidence(run: Run) -> bool:
    """Whether a run has measurements of kernels that the model predicts."""
    return run.has(mdm.VALIDATED)


def text_beside(run: Run) -> str | None:
    """The frozen predictions that a run's records name, from the file beside it; None where there is none. Raises OSError if it
    cannot be read, and FrozenError if it is not text or records name several."""
    named = _named(run)
    if len(named) > 1:
        raise mdm_frozen.FrozenError(f"{run.path}: its records name {len(named)} sets of frozen predictions: measure again")
    for sha256 in named:
        path = Path(run.path).with_name(mdm_frozen.file_name(sha256))
        if path.exists():
            try:
                return read_regular(path, mdm_frozen.MAX_FROZEN_BYTES).decode()
            except ValueError as error:
                raise mdm_frozen.FrozenError(f"{path}: {error}: restore the file, or remove it") from error
    return None


def _named(run: Run) -> set[str]:
    """The hashes of predictions that records of kernels name."""
    return mdm_frozen.named_digests([r.notes for r in run.records if r.benchmark == mdm.VALIDATED])


def validation(run: Run, sheet: SpecSheet | None, text: str | None = None) -> Validation:
    """The model compared with a run. `text` has the predictions frozen beside it; without it they are recomputed from the run's
    inputs. Raises FrozenError for a text that is damaged or not the one that records name, and ValueError if inputs are
    missing."""
    named = _named(run)
    state: State = "frozen"
    if text is None:
        inputs = replace(inputs_of([run], sheet), origin=mdm_frozen.OWN_RUN)
        text = mdm_frozen.freeze(inputs.sheet(), run.header.device)
        state = "none" if not named else "remade" if named == {mdm_frozen.digest(text)} else "changed"
    elif named != {mdm_frozen.digest(text)}:
        raise mdm_frozen.FrozenError(
            f"{run.path}: the predictions beside it are not those that its records name: remove them to make them again"
        )
    frozen = mdm_frozen.thaw(text)
    measured, left = _measured(run, sheet)
    compared: dict[str, tuple[Compared, ...]] = {}
    for reading in mdm_frozen.READINGS:
        compared[reading] = tuple(
            Compared(point.params, point.divergent, _ipc(value, point, frozen.hardware), point.predictions[reading])
            for point in frozen.points
            if (value := measured.get(_key(point.params))) is not None
        )
    return Validation(frozen.hardware, compared, mdm_frozen.digest(text), state, left, _clock_ratio(run))


def without_points(hardware: HardwareSheet) -> Validation:
    """The validation of a run without these kernels: its inputs alone."""
    return Validation(hardware, dict.fromkeys(mdm_frozen.READINGS, ()), "", "none", {}, None)


def _measured(run: Run, sheet: SpecSheet | None) -> tuple[dict[object, Derived], dict[str, int]]:
    """The time of an interval by point, and how many points have none, by reason."""
    found, left = {}, Counter[str]()
    for value in judged_values(run, sheet)[1]:
        if value.benchmark != mdm.VALIDATED or value.metric != INTERVAL_METRIC:
            continue
        if value.status == "ok" and value.cycles and value.cycles > 0:
            found[_key(value.params)] = value
        else:
            left[value.reason or "it has no cycles: the device has no in-kernel counter"] += 1
    return found, dict(left)


def _key(params: Mapping[str, object]) -> object:
    return tuple(sorted((name, value) for name, value in params.items()))


def _ipc(value: Derived, point: mdm_frozen.FrozenPoint, hardware: HardwareSheet) -> Estimate:
    """Instructions of all resident sub-groups a cycle: as declared, over the measured time of an interval."""
    profile = mdm.profile_of(point.params, hardware)
    work = profile.warps * sum(one.instructions * one.repeats for one in profile.interval)
    assert value.cycles
    low, high = value.cycles_low or value.cycles, value.cycles_high or value.cycles
    middle = work / value.cycles
    return Estimate(middle, min(work / high, middle), max(work / low, middle) if low > 0 else middle)


def _clock_ratio(run: Run) -> tuple[float, float, float] | None:
    """In-kernel cycles of an interval over those from events and the core clock: minimum, median and maximum of all points."""
    ratios = []
    for record in run.records:
        ticks = _ticks_per_interval(record) if record.benchmark == mdm.VALIDATED and record.status == "ok" else None
        if ticks is not None and record.core_clock is not None and record.core_clock.ghz:
            near, far = record.series
            spent = statistics.median(far.times_ns()) / far.passes - statistics.median(near.times_ns()) / near.passes
            if spent > 0:
                ratios.append(ticks / (spent / (far.ops - near.ops) * record.core_clock.ghz))
    return (min(ratios), statistics.median(ratios), max(ratios)) if ratios else None


def _ticks_per_interval(record: Record) -> float | None:
    """In-kernel cycles of one more interval: the mean over work-groups, the median over samples; None without such a clock."""
    if len(record.series) != 2 or any("ticks" not in one.reads for one in record.series):
        return None
    near, far = (float(np.median(one.reads["ticks"].unpack().mean(axis=1))) for one in record.series)
    operations = record.series[1].ops - record.series[0].ops
    return (far - near) / operations if operations > 0 and far > near else None
