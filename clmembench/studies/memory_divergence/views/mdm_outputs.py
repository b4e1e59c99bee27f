"""What `model` prints for programs: predictions and errors against a run as JSON, measured inputs as TOML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from typing_extensions import TypedDict

from clmembench.model import Value
from clmembench.sanitize import printable
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, HardwareSheet, InputQuantity, published_errors
from clmembench.studies.memory_divergence.model.equations import Model
from clmembench.studies.memory_divergence.model.errors import model_errors
from clmembench.studies.memory_divergence.model.measured import MeasuredInputs
from clmembench.studies.memory_divergence.model.predict import Prediction
from clmembench.studies.memory_divergence.views.mdm_held_out import HeldOut
from clmembench.studies.memory_divergence.views.mdm_validation import Validation

Number = float | int | None

INTERVAL_FIELDS = (
    "divergent", "concurrent_misses", "latency_cycles", "noc_service_cycles", "dram_service_cycles", "noc_queue_cycles",
    "dram_queue_cycles", "memory_cycles", "mshr_cycles", "contention_free_cycles", "cycles",
)  # fmt: skip
TOML_DIGITS = 6


class IntervalObject(TypedDict):
    """Every intermediate of the equations for one interval of the profile, in cycles unless noted otherwise."""

    divergent: bool
    concurrent_misses: float
    latency_cycles: float
    noc_service_cycles: float
    dram_service_cycles: float
    noc_queue_cycles: float
    dram_queue_cycles: float
    memory_cycles: float
    mshr_cycles: float
    contention_free_cycles: float
    cycles: float


class PredictionObject(TypedDict):
    """The prediction of one model: IPC of a compute unit and of the device, and cycles of the profile, with their ranges.

    `ours` marks models that are not the paper's; `stack` has cycles by cause, of which `dominant` is the largest; `intervals`
    is empty for the bound, which has no intermediates except its stack."""

    model: Model
    ours: bool
    ipc_sm: float
    ipc_sm_low: float
    ipc_sm_high: float
    ipc: float
    cycles: float
    cycles_low: float
    cycles_high: float
    capped: bool
    dominant: str
    stack: dict[str, float]
    intervals: list[IntervalObject]


class ModelErrorObject(TypedDict):
    """Errors of a model over a class of configurations; `paper_percent` is the published one, null where there is none."""

    reading: str
    model: Model
    kind: str
    count: int
    mean_error_percent: float
    paper_percent: Number
    mean_log_ratio: float
    bias: float
    worst_log_ratio: float
    covered: float


class ComparedObject(TypedDict):
    """A configuration: measured IPC of a compute unit with its interval, and every model's prediction by reading."""

    params: dict[str, Value]
    divergent: bool
    ipc_sm: float
    ipc_sm_low: float
    ipc_sm_high: float
    predicted: dict[str, dict[str, float]]


class HeldOutObject(TypedDict):
    """A held-out kernel: measured time of a pass, and predicted ones by reading and model."""

    kernel: str
    measured_us: float
    predicted_us: dict[str, dict[str, float]]


class ValidationObject(TypedDict):
    """The model compared with a run: inputs, the state and hash of the frozen predictions, errors, every configuration, and
    held-out kernels."""

    hardware: HardwareSheet
    state: str
    sha256: str
    clock_ratio: Number
    left: dict[str, int]
    errors: list[ModelErrorObject]
    points: list[ComparedObject]
    held_out: list[HeldOutObject]


def prediction_object(found: Prediction, ours: bool) -> PredictionObject:
    """One prediction as `model predict --json` gives it."""
    terms = found.terms[0] if found.terms else None
    intervals: list[IntervalObject] = []
    if terms is not None:
        for n in range(len(terms.cycles)):  # type: ignore[arg-type]  # of a profile it is an array
            fields = {name: _number(getattr(terms, name), n) for name in INTERVAL_FIELDS}
            intervals.append({**fields, "divergent": bool(fields["divergent"])})  # type: ignore[typeddict-item]
    return {
        "model": found.model,
        "ours": ours,
        "ipc_sm": found.ipc_sm,
        "ipc_sm_low": found.ipc_sm_low,
        "ipc_sm_high": found.ipc_sm_high,
        "ipc": found.ipc,
        "cycles": found.cycles,
        "cycles_low": found.cycles_low,
        "cycles_high": found.cycles_high,
        "capped": found.capped,
        "dominant": found.dominant,
        "stack": dict(found.stack),
        "intervals": intervals,
    }


def _number(values: object, n: int) -> float:
    """The n-th of several values, or the value that all share."""
    import numpy as np

    flat = np.atleast_1d(np.asarray(values, dtype=float))
    return float(flat[n] if flat.size > 1 else flat[0])


def validation_object(found: Validation, kernels: Sequence[HeldOut] = ()) -> ValidationObject:
    """The contents of all tables."""
    published_percent: dict[tuple[str, str], float] = {
        (one.model, one.kind): one.error_percent for one in published_errors().error
    }
    errors: list[ModelErrorObject] = [
        {
            "reading": reading,
            "model": one.model,
            "kind": one.kind,
            "count": one.count,
            "mean_error_percent": one.mean_error_percent,
            "paper_percent": published_percent.get((one.model, one.kind)),
            "mean_log_ratio": one.mean_log_ratio,
            "bias": one.bias,
            "worst_log_ratio": one.worst_log_ratio,
            "covered": one.covered,
        }
        for reading, compared in found.compared.items()
        for one in model_errors(compared)
    ]
    readings = list(found.compared)
    points: list[ComparedObject] = [
        {
            "params": dict(several[0].params),
            "divergent": several[0].divergent,
            "ipc_sm": several[0].measured.value,
            "ipc_sm_low": several[0].measured.low,
            "ipc_sm_high": several[0].measured.high,
            "predicted": {
                reading: {model: prediction.ipc_sm for model, prediction in one.predicted.items()}
                for reading, one in zip(readings, several, strict=True)
            },
        }
        for several in zip(*found.compared.values(), strict=True)
    ]
    return {
        "hardware": asdict(found.hardware),  # type: ignore[typeddict-item]
        "state": found.state,
        "sha256": found.sha256,
        "clock_ratio": found.clock_ratio[1] if found.clock_ratio is not None else None,
        "left": dict(found.left),
        "errors": errors,
        "points": points,
        "held_out": [
            {
                "kernel": one.name,
                "measured_us": one.measured_us,
                "predicted_us": {
                    reading: {model: time[0] for (of, model), time in one.predicted_us.items() if of == reading}
                    for reading in readings
                },
            }
            for one in kernels
        ],
    }


def inputs_toml(inputs: MeasuredInputs) -> str:
    """The text of a hardware file; a missing input is a comment with the reason."""
    parts = [f"name = {_toml_text(inputs.name)}\norigin = {_toml_text(inputs.origin)}\n"]
    for name in UNITS:
        if name in inputs.found:
            parts.append(f"[quantities.{name}]\n{_toml_quantity(inputs.found[name])}")
        elif name in inputs.missing:
            parts.append(f"# {name} is missing: {printable(inputs.missing[name])}\n")
    return "\n".join(parts)


def _toml_quantity(one: InputQuantity) -> str:
    low, high = one.ends
    value = _rounded(one.value)
    lines = [f"value = {value}"]
    if low != high:
        lines += [f"low = {min(_rounded(low), value)}", f"high = {max(_rounded(high), value)}"]
    if one.bound:
        lines.append(f"bound = {_toml_text(one.bound)}")
    return "\n".join([*lines, f"unit = {_toml_text(one.unit)}", f"source = {_toml_text(one.source)}\n"])


def _rounded(value: float) -> float:
    return float(f"{value:.{TOML_DIGITS}g}")


def _toml_text(text: str) -> str:
    """A TOML basic string; all JSON escapes are valid in it."""
    return json.dumps(printable(text), ensure_ascii=False)
