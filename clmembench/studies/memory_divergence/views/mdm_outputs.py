"""What `model` prints for programs: a validation as JSON, measured inputs as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.model import Value
from clmembench.report.json_outputs import Number
from clmembench.sanitize import printable
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, HardwareSheet, InputQuantity
from clmembench.studies.memory_divergence.model.errors import ModelError
from clmembench.studies.memory_divergence.model.measured import MeasuredInputs
from clmembench.studies.memory_divergence.views.mdm_held_out import HeldOut
from clmembench.studies.memory_divergence.views.mdm_validation import Validation, errors_by_reading

TOML_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """A configuration: measured IPC of a compute unit with its interval, and every model's prediction by reading."""

    params: Mapping[str, Value]
    divergent: bool
    ipc_sm: float
    ipc_sm_low: float
    ipc_sm_high: float
    predicted: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class HeldOutObject:
    """A held-out kernel: measured time of a pass, and predicted ones by reading and model."""

    kernel: str
    measured_us: float
    predicted_us: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class ValidationObject:
    """The model compared with a run: inputs, the state and hash of the frozen predictions, errors, every configuration, and
    held-out kernels."""

    hardware: HardwareSheet
    state: str
    sha256: str
    clock_ratio: Number
    left: Mapping[str, int]
    errors: list[ModelError]
    points: list[ComparedObject]
    held_out: list[HeldOutObject]


def validation_object(found: Validation, kernels: Sequence[HeldOut] = ()) -> ValidationObject:
    """The contents of all tables."""
    points = [
        ComparedObject(
            params=several[0].params,
            divergent=several[0].divergent,
            ipc_sm=several[0].measured.value,
            ipc_sm_low=several[0].measured.low,
            ipc_sm_high=several[0].measured.high,
            predicted={
                reading: {model: prediction.ipc_sm for model, prediction in one.predicted.items()}
                for reading, one in zip(found.compared, several, strict=True)
            },
        )
        for several in zip(*found.compared.values(), strict=True)
    ]
    held_out = [
        HeldOutObject(
            kernel=one.name,
            measured_us=one.measured_us,
            predicted_us={
                reading: {model: time[0] for (of, model), time in one.predicted_us.items() if of == reading}
                for reading in found.compared
            },
        )
        for one in kernels
    ]
    clock_ratio = found.clock_ratio[1] if found.clock_ratio is not None else None
    return ValidationObject(
        found.hardware, found.state, found.sha256, clock_ratio, found.left, errors_by_reading(found), points, held_out
    )


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
