"""Shapes of what commands print under --json; docs/schemas is generated from them, and tests hold the outputs against it."""

from __future__ import annotations

from typing import Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import NotRequired, TypedDict  # noqa: UP035

from clmembench.analysis.compare import Change
from clmembench.analysis.stats import Ratio
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


class ComparedDevice(TypedDict):
    """The device of one of two runs that are compared."""

    name: str
    platform: str
    driver: str
    runtime: str


class ComparisonObject(TypedDict):
    """A run compared with the first one; `same_device`: the devices of both are one, as far as drivers say."""

    first: str
    second: str
    first_device: ComparedDevice
    second_device: ComparedDevice
    same_device: bool
    geometric_means: dict[str, Ratio]
    changes: list[Change]
    only_first: list[str]
    only_second: list[str]
    left_out: dict[str, str]


class HistoryRunObject(TypedDict):
    """A run of a device; `changed` says what is not as it was in the run before."""

    run: int
    run_id: str
    started: str
    driver: str
    tool_version: str
    file: str
    changed: str


class MomentObject(TypedDict):
    """A quantity in one run; null where it is not ok."""

    run: int
    status: str
    value: Number
    low: Number
    high: Number


class ChangePointObject(TypedDict):
    """The first run of a new level, its ratio to the level before, and what else changed there."""

    run: int
    ratio: float
    low: float
    high: float
    changed: str


class QuantityObject(TypedDict):
    """A quantity over the runs that have it; `reason` says why no change points were looked for."""

    group: str
    quantity: str
    point: str
    version: int
    unit: str
    better: str
    values: list[MomentObject]
    change_points: list[ChangePointObject]
    reason: str


class HistoryObject(TypedDict):
    """The runs of one device in the order of their start, counted from 1."""

    device: str
    runs: list[HistoryRunObject]
    quantities: list[QuantityObject]
    rule: str
    notes: list[str]


class DeviceObject(TypedDict):
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


class ComplaintObject(TypedDict):
    """What disturbs measurements, and its remedy."""

    what: str
    remedy: str


class ExaminedObject(TypedDict):
    """A device and what disturbs measurements on it."""

    index: int
    device: str
    complaints: list[ComplaintObject]
    energy: str
    clock_locking: list[str]


class ClaimObject(TypedDict):
    """A claim of a driver, held against what was measured."""

    what: str
    claimed: str
    found: str
    verdict: str


class DoctorObject(TypedDict):
    """This host, its devices, and the claims of a stored run's driver."""

    host: dict[str, Fact]
    devices: list[ExaminedObject]
    claims: list[ClaimObject]
