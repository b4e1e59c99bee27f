"""Spec sheets: loads platforms/*.toml, matches a sheet to a device, and gives theoretical peaks with their sources."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clmembench.model import DeviceInfo
from clmembench.model.device_identity import model_name
from clmembench.resources import sheet_paths
from clmembench.sanitize import parse_toml, read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter


MAX_SHEET_BYTES = 1 << 20  # our largest sheet, most of it published results, has 31 KB
RATES = {"FLOP/cycle": "GFLOP/s", "op/cycle": "Gop/s"}  # of units a cycle, with a clock in GHz
MAX_FIGURES = 1000  # also the limit for published results


class SpecError(Exception):
    """A spec sheet is damaged, or two sheets match one device; the message names the file or both sheets."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One theoretical figure and its source.

    A figure of scope `core` holds for each core or compute unit, and needs its clock if the unit is FLOP/cycle or op/cycle. A
    figure of scope `socket` holds for a whole socket and is not the peak of a virtual machine's share of it. `quote` and
    `formula` are as in Published.
    """

    value: float
    unit: str
    source: str
    scope: Literal["device", "socket", "core"] = "device"
    note: str = ""
    quote: str = ""
    formula: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """Conditions on a device: it has one of these names (versions of drivers in them are ignored) or one of these CPU
    identities (vendor-family-model)."""

    device_names: tuple[str, ...] = ()
    cpu_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """A result that others measured and published for this hardware. Methods differ from ours, so it is compared by hand.

    `source` is the paper and the place in it ("Mei and Chu 2015, table V"); if there are several, the first one is quoted
    first. `read_from` is where the value stands: in the text, a table or a figure of the paper. `quote`
    is the short passage with the number, its parts separated by [...]; from a table it is the row up to the number.
    `qualifier` marks a value that the paper gives as an approximation or as a bound. A value computed from printed numbers has
    their `formula`; if this is more than a change of unit, `derived` says what the value stands for. `low` and `high` are
    bounds from the rounding of the printed numbers or from other statements of the paper.
    """

    benchmark: str
    metric: str
    value: float
    unit: str
    source: str
    read_from: Literal["text", "table", "figure"]
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    note: str = ""
    quote: str = ""
    qualifier: Literal["", "about", "above", "below"] = ""
    low: float | None = None
    high: float | None = None
    formula: str = ""
    derived: str = ""


@dataclass(frozen=True, slots=True)
class SpecSheet:
    """One piece of hardware: its name, its match conditions, its theoretical figures by name, and results published for it."""

    name: str
    kind: Literal["gpu", "cpu", "accelerator"]
    match: Match
    figures: Mapping[str, Figure]
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True)
class Peak:
    """A theoretical peak on one device, in its unit; `derived` says how it was computed where it is not a figure of the sheet
    itself."""

    value: float
    unit: str
    source: str
    derived: str = ""


def load(path: Path) -> SpecSheet:
    """The sheet in a file. Raises SpecError if the file is not TOML, is too large, or a field is missing or has another
    type."""
    try:
        raw = parse_toml(read_regular(path, MAX_SHEET_BYTES))
        # strict JSON: only a list may stand for another type, a tuple; sheets have no dates
        sheet = _adapter().validate_json(json.dumps(raw, allow_nan=False), strict=True)
        _check(sheet)
        return sheet
    except (OSError, ValueError, TypeError, RecursionError) as error:  # TOMLDecodeError and pydantic's error are ValueErrors
        first = str(error).splitlines() or [type(error).__name__]
        message = " ".join(line.strip() for line in first[:3])
        raise SpecError(f"{path}: no spec sheet: {message[:300]}") from error


def _check(sheet: SpecSheet) -> None:
    """Raises ValueError for figures that are not positive and finite, for over MAX_FIGURES of them, and for published results
    that are negative, infinite or outside their bounds."""
    if max(len(sheet.figures), len(sheet.published)) > MAX_FIGURES:
        raise ValueError(f"over {MAX_FIGURES} figures or published results")
    for name, figure in sheet.figures.items():
        if not 0 < figure.value < math.inf:
            raise ValueError(f"{name}: {figure.value} is not a positive number")
    for n, result in enumerate(sheet.published):
        low, high = (result.value if end is None else end for end in (result.low, result.high))
        if not 0 <= low <= result.value <= high < math.inf:
            raise ValueError(f"published.{n}: {result.value} is not positive, or not within {low} to {high}")


def published_sheets(names: Sequence[str]) -> list[SpecSheet]:
    """The sheets of these file names (without .toml) that have published results; "all" stands for every one.

    Raises SpecError that lists the available names where a name is unknown.
    """
    known = {path.stem: sheet for path in sheet_paths() if (sheet := load_once(path)).published}
    for name in names:
        if name not in known and name != "all":
            raise SpecError(f"no sheet {name!r} with published results: choose from all, {', '.join(known)}")
    return [sheet for stem, sheet in known.items() if stem in names or "all" in names]


def all_sheets() -> list[SpecSheet]:
    """All available sheets. Raises SpecError."""
    return [load_once(path) for path in sheet_paths()]


def load_once(path: Path) -> SpecSheet:
    """As `load`, but a file that has not changed since it was last read is not read again."""
    try:
        state = path.stat()
    except OSError:
        return load(path)
    return _loaded(path, state.st_mtime_ns, state.st_size)


@cache
def _loaded(path: Path, mtime_ns: int, nbytes: int) -> SpecSheet:
    return load(path)


def match_sheet(info: DeviceInfo, sheets: Sequence[SpecSheet] | None = None) -> SpecSheet | None:
    """The sheet of a device, or None. Raises SpecError with both names when two sheets match."""
    known, name = sheets if sheets is not None else all_sheets(), model_name(info.name)
    matching = [
        sheet
        for sheet in known
        if sheet.kind == info.kind
        and (name in map(model_name, sheet.match.device_names) or (bool(info.cpu_id) and info.cpu_id in sheet.match.cpu_ids))
    ]
    if len(matching) > 1:
        raise SpecError(f"two spec sheets match {info.name}: {matching[0].name} and {matching[1].name}: narrow their [match]")
    return matching[0] if matching else None


def peak(
    sheet: SpecSheet | None,
    name: str | None,
    info: DeviceInfo,
    ghz: float | None,
    sockets: int | None,
    cores: int | None = None,
) -> Peak | None:
    """The theoretical peak of this name on this device; None rather than a guess.

    `ghz` is the core clock measured in the same process. `sockets` is the number of whole sockets of the device, None where it
    is unknown or the device has a share of one, as in a virtual machine. `cores` is the number of cores, since compute units
    may be hardware threads that share one; where it is unknown, each compute unit counts as a core, and the Peak says so.
    """
    figure = sheet.figures.get(name) if sheet is not None and name is not None else None
    if figure is None:
        return None
    if figure.scope == "socket":
        how = f"{figure.value:g} {figure.unit} x {sockets} sockets" if sockets and sockets > 1 else ""
        return Peak(figure.value * sockets, figure.unit, figure.source, how) if sockets else None
    if figure.scope != "core":
        return Peak(figure.value, figure.unit, figure.source)
    if figure.unit == "GB/s":  # the bandwidth of each compute unit's memory
        how = f"{figure.value:g} {figure.unit} x {info.compute_units} compute units"
        return Peak(figure.value * info.compute_units, figure.unit, figure.source, how)
    if ghz is None or figure.unit not in RATES:
        return None
    number = min(cores or info.compute_units, info.compute_units)
    counted = "cores" if cores else "compute units, each taken for a core"
    how = f"{figure.value:g} {figure.unit} x {number} {counted} x {ghz:.2f} GHz measured"
    return Peak(figure.value * number * ghz, RATES[figure.unit], figure.source, how)


@cache
def _adapter() -> TypeAdapter[SpecSheet]:
    from pydantic import TypeAdapter

    return TypeAdapter(SpecSheet)
