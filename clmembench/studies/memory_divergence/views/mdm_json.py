"""A validation of the memory divergence model as `model validate --json` gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from clmembench.studies.memory_divergence.mdm_published import published_errors
from clmembench.studies.memory_divergence.model.errors import model_errors
from clmembench.studies.memory_divergence.views.mdm_held_out import HeldOut
from clmembench.studies.memory_divergence.views.mdm_outputs import ComparedObject, ModelErrorObject, ValidationObject
from clmembench.studies.memory_divergence.views.mdm_validation import Validation


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
