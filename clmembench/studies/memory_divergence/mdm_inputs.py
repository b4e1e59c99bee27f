"""Inputs of the memory divergence model as strictly validated TOML: hardware, interval profiles, published errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clmembench.resources import mdm_hardware_paths, mdm_published_errors_path
from clmembench.sanitize import exists, parse_toml, read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter


MAX_FILE_BYTES = 1 << 20  # a profile of 10,000 intervals takes half of that
MAX_INTERVALS = 10_000
# of any input: a value beyond is a mistake, and products of such values would leave the range of doubles
MAX_VALUE, MIN_VALUE = 1e15, 1e-9


class InputError(Exception):
    """A file of inputs is damaged, or a name is not that of a shipped file; the message names the file and the fault."""


@dataclass(frozen=True, slots=True)
class InputQuantity:
    """One input: its value, the interval that it lies in (without `low` and `high`: exactly the value), and its source.

    `bound` marks a lower bound: the method could not measure more, so the true value may lie above the interval."""

    value: float
    unit: str
    source: str
    low: float | None = None
    high: float | None = None
    bound: Literal["", "lower"] = ""

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        return (self.value if self.low is None else self.low, self.value if self.high is None else self.high)


@dataclass(frozen=True, slots=True)
class HardwareQuantities:
    """The hardware parameters of the model (Wang et al. 2019, table 1). Bandwidths are those of the whole device, in 10^9 B/s;
    `dram_latency_cycles` is the latency of an access to memory beyond that of a hit in the last-level cache."""

    compute_units: InputQuantity
    clock_ghz: InputQuantity
    mshrs: InputQuantity
    noc_gb_s: InputQuantity
    dram_gb_s: InputQuantity
    llc_latency_cycles: InputQuantity
    dram_latency_cycles: InputQuantity
    schedulers: InputQuantity
    issue_per_scheduler: InputQuantity
    max_sub_groups: InputQuantity
    block_bytes: InputQuantity
    sector_bytes: InputQuantity
    llc_bytes: InputQuantity | None = None  # capacity of the last-level cache: for miss ratios of our own kernels
    dependent_cycles: InputQuantity | None = None  # latency of an operation: for their stalls


UNITS: Mapping[str, str] = {
    "compute_units": "compute units", "clock_ghz": "GHz", "mshrs": "misses a compute unit", "noc_gb_s": "GB/s",
    "dram_gb_s": "GB/s", "llc_latency_cycles": "cycles", "dram_latency_cycles": "cycles", "schedulers": "a compute unit",
    "issue_per_scheduler": "instructions a cycle", "max_sub_groups": "a compute unit", "block_bytes": "B", "sector_bytes": "B",
    "llc_bytes": "B", "dependent_cycles": "cycles",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HardwareSheet:
    """The inputs of one device or simulator, by name; `origin` is their source."""

    name: str
    origin: str
    quantities: HardwareQuantities


@dataclass(frozen=True, slots=True)
class Range:
    """A number of a profile that is known only within a range."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ProfileInterval:
    """One interval of the representative sub-group: its instructions, and either `cycles` (C_i, contention-free cycles of all
    resident sub-groups) or `stall_cycles` (of this sub-group alone, from which GPUMech's multithreading model computes C_i);
    its misses in the first cache a sub-group, and the share of them that miss the last cache too. There are `repeats` equal
    intervals in a row. `request_bytes` is the size of a miss if requests are sectors; None: one sector."""

    instructions: float
    cycles: float | Range | None = None
    stall_cycles: float | Range | None = None
    read_misses: float | Range = 0.0
    write_misses: float | Range = 0.0
    llc_miss_ratio: float | Range = 0.0
    repeats: int = 1
    request_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """The interval profile of a kernel: `warps` sub-groups that are resident on a compute unit, and the intervals of one."""

    warps: int
    interval: tuple[ProfileInterval, ...]
    name: str = ""
    source: str = ""


def load_hardware(text: str) -> HardwareSheet:
    """The hardware of a file, or the shipped one of that name (as `wang2019-table1`). Raises InputError."""
    shipped = {path.stem: path for path in mdm_hardware_paths()}
    path = shipped.get(text, Path(text))
    if path not in shipped.values() and not exists(path):
        raise InputError(
            f"{text}: no such file, and no hardware of this name: choose from {', '.join(shipped)}, or name a file"
        )
    sheet: HardwareSheet = load_toml(path, HardwareSheet, "hardware of the memory divergence model")
    return sheet


def load_profile(path: Path) -> Profile:
    """The interval profile in a file. Raises InputError."""
    profile: Profile = load_toml(path, Profile, "interval profile")
    return profile


def load_toml(path: Path, kind: Any, what: str) -> Any:
    """A file parsed into that dataclass; messages call it `what`. Raises InputError."""
    try:
        raw = parse_toml(read_regular(path, MAX_FILE_BYTES))
        _refuse_unknown(raw, kind)
        # via JSON, in which a list may stand for a tuple, and no other type is converted
        found = _adapter(kind).validate_json(json.dumps(raw, allow_nan=False), strict=True)
        if isinstance(found, HardwareSheet):
            _check_hardware(found)
        elif isinstance(found, Profile):
            check_profile(found)
        return found
    except (OSError, ValueError, TypeError, RecursionError) as error:  # TOMLDecodeError and pydantic's error are ValueErrors
        first = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{path}: no {what}: {' '.join(line.strip() for line in first[:3])[:300]}") from error


def _refuse_unknown(raw: Mapping[str, Any], kind: Any) -> None:
    """Raises ValueError for a key that the type lacks, at any depth: a misspelt input must not be treated as a missing one."""
    holders: dict[Any, dict[str, Any]] = {
        HardwareSheet: {"quantities": HardwareQuantities},
        Profile: {"interval": ProfileInterval},
    }
    nested = holders.get(kind, {})
    known = [one.name for one in fields(kind)]
    for key, value in raw.items():
        if key not in known:
            raise ValueError(f"unknown key {key!r}: choose from {', '.join(known)}")
        inner = nested.get(key, InputQuantity if kind is HardwareQuantities else Range if kind is ProfileInterval else None)
        for one in value if isinstance(value, list) else [value]:
            if inner is not None and isinstance(one, dict):
                _refuse_unknown(one, inner)


def _check_hardware(sheet: HardwareSheet) -> None:
    for name, unit in UNITS.items():
        quantity: InputQuantity | None = getattr(sheet.quantities, name)
        if quantity is None:
            continue
        low, high = quantity.ends
        if quantity.unit != unit:
            raise ValueError(f"quantities.{name}: its unit is {unit!r}, not {quantity.unit!r}")
        least = 0 if name == "dram_latency_cycles" else MIN_VALUE
        if not least <= low <= quantity.value <= high <= MAX_VALUE:
            raise ValueError(f"quantities.{name}: {quantity.value:g} ({low:g} to {high:g}) is no value above 0 in its interval")


def check_profile(profile: Profile) -> None:
    """Raises ValueError for a profile that describes no kernel."""
    if not 1 <= profile.warps <= 1 << 16:
        raise ValueError(f"warps: {profile.warps} is no number of resident sub-groups (1 to 65536)")
    if not 1 <= len(profile.interval) <= MAX_INTERVALS:
        raise ValueError(f"{len(profile.interval)} intervals: write 1 to {MAX_INTERVALS} [[interval]] tables")
    if len({one.cycles is None for one in profile.interval}) > 1:
        raise ValueError("some intervals have cycles and some stall_cycles: C_i follows from the stalls of all, so give either")
    for n, one in enumerate(profile.interval):
        if (one.cycles is None) == (one.stall_cycles is None):
            raise ValueError(f"interval.{n}: give cycles (C_i) or stall_cycles, one of them")
        if not MIN_VALUE <= one.instructions <= MAX_VALUE or not 1 <= one.repeats <= 1 << 31:
            raise ValueError(f"interval.{n}: instructions and repeats are above 0")
        if one.request_bytes is not None and not MIN_VALUE <= one.request_bytes <= MAX_VALUE:
            raise ValueError(f"interval.{n}.request_bytes: {one.request_bytes:g} is not above 0")
        for name in ("cycles", "stall_cycles", "read_misses", "write_misses", "llc_miss_ratio"):
            low, value, high = range_of(getattr(one, name))
            most = 1.0 if name == "llc_miss_ratio" else MAX_VALUE
            least = MIN_VALUE if name == "cycles" and one.cycles is not None else 0
            if not least <= low <= value <= high <= most:
                raise ValueError(f"interval.{n}.{name}: {value:g} ({low:g} to {high:g}) is not within {least:g} to {most:g}")


def range_of(number: float | Range | None) -> tuple[float, float, float]:
    """The lowest, the middle and the highest value of a number; zeros for None."""
    if isinstance(number, Range):
        return number.low, number.value, number.high
    return (number or 0.0,) * 3


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@dataclass(frozen=True, slots=True)
class PublishedError:
    """An average error of predicted IPC that was published; classes are MD (memory-divergent), NMD (not) and all."""

    model: str
    kind: Literal["MD", "NMD", "all"]
    error_percent: float
    source: str
    read_from: Literal["text", "table", "figure"]
    quote: str


@dataclass(frozen=True, slots=True)
class PublishedBenchmark:
    """A benchmark that the published errors are averages over."""

    name: str
    suite: str
    kind: Literal["MD", "NMD"]
    source: str


@dataclass(frozen=True, slots=True)
class PublishedErrors:
    """The errors of these models that a paper published."""

    error: tuple[PublishedError, ...]
    benchmark: tuple[PublishedBenchmark, ...]


@cache
def published_errors() -> PublishedErrors:
    """The errors that Wang et al. published. Raises InputError."""
    found: PublishedErrors = load_toml(mdm_published_errors_path(), PublishedErrors, "list of published errors")
    return found
