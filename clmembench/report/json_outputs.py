"""Shapes of what commands print under --json; docs/schemas is generated from them, and tests hold the outputs against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import NotRequired, TypedDict  # noqa: UP035

from clmembench.gates.claims_audit import ClaimCheck
from clmembench.host.checks import Complaint
from clmembench.model import Fact, Status, Value

Number = float | int | None
FindingStatus = Literal["ok", "undetermined", "inconsistent"]


class RooflineObject(TypedDict):
    """A kernel under its roofs."""

    precision: str
    flop_per_byte: float
    memory_bytes: float
    bytes_are: str
    gflop_s: float
    bound_by: str
    roof_gflop_s: float
    fraction_of_roof: float
    fraction_low: Number
    fraction_high: Number
    fits_a_cache: bool
    over_its_roof: bool
    bound_measured: float
    bound_unit: str
    bound_by_records: list[str]


class PointObject(TypedDict):
    """One metric of one measured point; values are in `unit`, and null where there is none. Energy is that of its work, between
    low and high by the counter's resolution."""

    benchmark: str
    params: dict[str, Value]
    tuning: dict[str, Value]
    status: Status | Literal["undetermined"]
    reason: str
    gate: str
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    median: Number
    ci_low: Number
    ci_high: Number
    q1: Number
    q3: Number
    min: Number
    n: int
    processes: int
    process_medians: list[float]
    evidence: list[str]
    outliers: int
    peak: Number
    peak_source: str | None
    fraction_of_peak: Number
    cycles: Number
    cycles_low: Number
    cycles_high: Number
    core_clock_ghz: Number
    core_clock_origin: str
    cpu_over_wall: Number
    cpu_waited: Number
    cpu_others: float
    cpu_stolen: float
    cpus: list[int]
    verified: bool
    stopped: str
    notes: list[str]
    facts: dict[str, Value]
    energy_status: Literal["ok", "undetermined"] | None
    energy: Number
    energy_low: Number
    energy_high: Number
    energy_unit: str | None
    energy_reason: str
    mean_power_w: Number
    roofline: NotRequired[RooflineObject | None]


@dataclass(frozen=True, slots=True)
class DeviceObject:
    """A device of this host under one runtime; `same_hardware` are those that are the same piece of hardware."""

    index: int
    id: str
    name: str
    platform: str
    vendor: str
    type: Literal["gpu", "cpu", "accelerator"]
    driver: str
    version: str
    compute_units: int
    global_mem_bytes: int
    max_alloc_bytes: int
    local_mem_bytes: int
    max_work_group: int
    fp64: bool
    features: list[str]
    selector: str
    uuid: str
    pci: str
    runtime: str
    same_hardware: list[str]


@dataclass(frozen=True, slots=True)
class ExaminedObject:
    """A device and what disturbs measurements on it."""

    index: int
    device: str
    complaints: list[Complaint]
    energy: str
    clock_locking: list[str]


@dataclass(frozen=True, slots=True)
class DoctorObject:
    """This host, its devices, and the claims of a stored run's driver."""

    host: Mapping[str, Fact]
    devices: list[ExaminedObject]
    claims: list[ClaimCheck]
