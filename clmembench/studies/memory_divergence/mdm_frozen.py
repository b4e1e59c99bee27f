"""Predictions frozen before their kernels are measured: a JSON text, and its hash, which the records contain."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

from clmembench.model import DeviceInfo, Value
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet
from clmembench.studies.memory_divergence.model.equations import Model, ModelOptions
from clmembench.studies.memory_divergence.model.errors import FrozenPrediction
from clmembench.studies.memory_divergence.model.predict import predictions
from clmembench.studies.memory_divergence.plan import profile_of, validation_points

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = "clmembench frozen predictions 1"
OWN_RUN = "measured in the same run, before the kernels"  # origin of the inputs
READINGS: Mapping[str, ModelOptions] = {  # named variants of the model, all of which are frozen
    "block": ModelOptions(),
    "sector": ModelOptions(request="sector"),
}
DIGITS = 9  # digits of a number: they are the same on every processor
NOTE = "predictions frozen before this was measured: sha256 {}"
_NOTE = re.compile(re.escape(NOTE).replace(r"\{\}", "([0-9a-f]{64})"))
MAX_FROZEN_BYTES = 64 << 20


class FrozenError(Exception):
    """A file of frozen predictions is damaged, or its hash is not that in the records; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class FrozenPoint:
    """The predictions of one configuration, by reading and model."""

    params: Mapping[str, str | int | float | bool]
    divergent: bool
    predictions: Mapping[str, Mapping[Model, FrozenPrediction]]


@dataclass(frozen=True, slots=True)
class Frozen:
    """The frozen content: the format, the inputs, and every configuration's predictions."""

    format: str
    hardware: HardwareSheet
    points: tuple[FrozenPoint, ...]


def freeze(sheet: HardwareSheet, info: DeviceInfo) -> str:
    """The predictions of all configurations that `model validate` measures on a device, as text."""
    points = tuple(_point(sheet, params) for params in validation_points(info))
    return json.dumps(_rounded(asdict(Frozen(FORMAT, sheet, points))), indent=1, sort_keys=True) + "\n"


def _point(sheet: HardwareSheet, params: Mapping[str, Value]) -> FrozenPoint:
    profile = profile_of(params, sheet)
    by_reading: dict[str, dict[Model, FrozenPrediction]] = {}
    divergent = False
    for reading, options in READINGS.items():
        made = predictions(sheet, profile, options)
        divergent = divergent or any(terms.divergent for one in made for terms in one.intervals)
        by_reading[reading] = {
            one.model: FrozenPrediction(one.ipc_sm, one.ipc_sm_low, one.ipc_sm_high, one.stack) for one in made
        }
    return FrozenPoint(params, divergent, by_reading)


def digest(text: str) -> str:
    """The hash of a text of predictions."""
    return hashlib.sha256(text.encode()).hexdigest()


def file_name(sha256: str) -> str:
    """The name of the file of predictions with that hash, in the folder of the results file."""
    return f"predictions-{sha256[:16]}.json"


def thaw(text: str) -> Frozen:
    """The predictions in a text. Raises FrozenError."""
    try:
        frozen = _adapter().validate_json(text, strict=True)
    except ValueError as error:
        first = " ".join(str(error).split())[:200]
        raise FrozenError(f"no frozen predictions: {first}") from error
    if frozen.format != FORMAT:
        raise FrozenError(f"its format is {frozen.format[:40]!r} and not {FORMAT!r}: use the version that wrote it")
    return frozen


def named_digests(notes: Sequence[Sequence[str]]) -> set[str]:
    """The hashes that notes of records name."""
    return {found[1] for several in notes for note in several if (found := _NOTE.search(note))}


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


@cache
def _adapter() -> TypeAdapter[Frozen]:
    from pydantic import TypeAdapter

    return TypeAdapter(Frozen)
