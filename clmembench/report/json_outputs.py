"""Shapes of what commands print under --json; docs/schemas is generated from them, and tests hold the outputs against it."""

from __future__ import annotations

from typing import Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import NotRequired, TypedDict  # noqa: UP035

from clmembench.analysis.compare import Change
from clmembench.analysis.stats import Ratio
from clmembench.model import Status, Value

Number = float | int | None
OPEN = ("CacheLevelObject", "TlbLevelObject")  # they may have further properties, each a FindingObject
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


class FindingObject(TypedDict):
    """An inferred property; only an ok one is a result."""

    value: float | int | str | None
    low: Number
    high: Number
    unit: str
    status: FindingStatus
    method: str
    evidence: list[str]
    reason: str


class CacheLevelObject(TypedDict):
    """A level of a memory hierarchy: its name, its space, and properties, each a finding; it may have further ones."""

    name: str
    space: str
    size_bytes: FindingObject
    line_bytes: FindingObject
    sector_bytes: FindingObject
    ways: FindingObject
    sets: FindingObject
    policy: FindingObject
    latency_cycles: FindingObject
    latency_ns: FindingObject


class TlbLevelObject(TypedDict):
    """A level of address translation; it may have further properties."""

    name: str
    entries: FindingObject
    page_bytes: FindingObject
    reach_bytes: FindingObject
    ways: FindingObject
    sets: FindingObject
    policy: FindingObject
    penalty_cycles: FindingObject
    penalty_ns: FindingObject


class ClassicObject(TypedDict):
    """Readings of the classic methods in one memory space."""

    space: str
    saavedra: dict[str, FindingObject]
    wong: dict[str, FindingObject]
    trace: dict[str, FindingObject]
    resolved: dict[str, FindingObject]


class NoLevel(TypedDict):
    """In place of local memory where there is none."""


class HierarchyObject(TypedDict):
    """A memory hierarchy."""

    levels: list[CacheLevelObject]
    tlb: list[TlbLevelObject]
    local: CacheLevelObject | NoLevel
    constant: list[CacheLevelObject]
    image: list[CacheLevelObject]
    patterns: dict[str, FindingObject]
    patterns_past: dict[str, FindingObject]
    sharing: dict[str, FindingObject]
    notes: list[str]
    classic: NotRequired[list[ClassicObject]]


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


class LiveValueObject(TypedDict):
    """One value of an interleaved A/B run."""

    benchmark: str
    params: dict[str, Value]
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    verdict: Literal["faster", "slower", "same", "undecided", "failed"]
    a: Number
    b: Number
    ratio: Ratio | None
    gain: Ratio | None
    rounds: int
    smallest_slowdown: Number
    reason: str
    notes: list[str]


class LiveComparisonObject(TypedDict):
    """An interleaved A/B run: its settings and values."""

    sides: list[str]
    margin: float
    error: float
    seed: int
    files: list[str]
    rounds: int
    seconds: float
    values: list[LiveValueObject]
    layer: NotRequired[list[str]]  # of run --runtime opencl,sycl: sentences on what the layer costs


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
