"""Shapes of what `model` prints under --json: predictions of the memory divergence model, and their errors against a run."""

from __future__ import annotations

from typing_extensions import TypedDict

from clmembench.model import Value
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet
from clmembench.studies.memory_divergence.model.equations import Model
from clmembench.studies.memory_divergence.model.predict import Prediction

Number = float | int | None

INTERVAL_FIELDS = (
    "divergent", "concurrent_misses", "latency_cycles", "noc_service_cycles", "dram_service_cycles", "noc_queue_cycles",
    "dram_queue_cycles", "memory_cycles", "mshr_cycles", "contention_free_cycles", "cycles",
)  # fmt: skip


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
