"""Options that several commands read alike: the values of axes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from clmembench import units

if TYPE_CHECKING:
    from clmembench.model import Value


def axes_of(given: list[str], matrices: list[Path]) -> Mapping[str, tuple[Value, ...]]:
    """name=value or name=[value,value], and files as values of axis matrix. Raises ValueError for anything else."""
    axes: dict[str, tuple[Value, ...]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        values = values.strip().removeprefix("[").removesuffix("]")
        if not equals or not name.strip() or not values.strip():
            raise ValueError(f"-a {text!r}: write name=value or name=[value,value]")
        axes[name.strip()] = tuple(_value(name.strip(), part.strip().strip("\"'")) for part in values.split(","))
    if matrices:
        axes["matrix"] = (*axes.get("matrix", ()), *map(str, matrices))
    return axes


def _value(name: str, text: str) -> Value:
    if re.fullmatch(r"-?[0-9]+", text):
        if len(text) > 19:
            raise ValueError(f"-a {name}: {text[:30]} is beyond 64 bits")
        return int(text)
    if name.endswith("_bytes") and text[:1].isdigit():
        return units.parse_bytes(text)
    return text
