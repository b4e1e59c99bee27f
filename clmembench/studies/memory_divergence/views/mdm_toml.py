"""Measured inputs of the memory divergence model as TOML, which `model predict` reads."""

from __future__ import annotations

import json

from clmembench.sanitize import printable
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, InputQuantity
from clmembench.studies.memory_divergence.model.measured import MeasuredInputs

DIGITS = 6


def inputs_toml(inputs: MeasuredInputs) -> str:
    """The text of a hardware file; a missing input is a comment with the reason."""
    parts = [f"name = {_text(inputs.name)}\norigin = {_text(inputs.origin)}\n"]
    for name in UNITS:
        if name in inputs.found:
            parts.append(f"[quantities.{name}]\n{_quantity(inputs.found[name])}")
        elif name in inputs.missing:
            parts.append(f"# {name} is missing: {printable(inputs.missing[name])}\n")
    return "\n".join(parts)


def _quantity(one: InputQuantity) -> str:
    low, high = one.ends
    value = _number(one.value)
    lines = [f"value = {value}"]
    if low != high:
        lines += [f"low = {min(_number(low), value)}", f"high = {max(_number(high), value)}"]
    if one.bound:
        lines.append(f"bound = {_text(one.bound)}")
    return "\n".join([*lines, f"unit = {_text(one.unit)}", f"source = {_text(one.source)}\n"])


def _number(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _text(text: str) -> str:
    """A TOML basic string; all JSON escapes are valid in it."""
    return json.dumps(printable(text), ensure_ascii=False)
