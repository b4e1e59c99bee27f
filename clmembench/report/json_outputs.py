"""Shapes of what commands print under --json; docs/schemas is generated from them, and tests hold the outputs against it."""

from __future__ import annotations

from typing import Literal

# pydantic brings it, and refuses typing's own TypedDict before Python 3.12
from typing_extensions import NotRequired, TypedDict  # noqa: UP035

from clmembench.analysis.compare import Change
from clmembench.analysis.stats import Ratio
from clmembench.model import Fact, Status, Value

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
    """One metric of one measured point; values are in `unit`, and null where there is none."""

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
    cpus: list[int]
    verified: bool
    stopped: str
    notes: list[str]
    facts: dict[str, Value]
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
    notes: list[str]
    classic: NotRequired[list[ClassicObject]]


class ComparisonObject(TypedDict):
    """A run compared with the first one."""

    first: str
    second: str
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


class PeerObject(TypedDict):
    """A peer on the same problem."""

    benchmark: str
    status: Status | Literal["undetermined"]
    reason: str
    metric: str
    unit: str
    median: Number
    ci_low: Number
    ci_high: Number
    interval: str | None
    process_medians: list[float]
    facts: dict[str, Value]
    verified: bool
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    peer_reason: str
    other_processes_cpu: float | bool | str | None


class PeerLineObject(TypedDict):
    """A problem: our value, the theoretical limit and every peer's."""

    benchmark: str
    what: dict[str, Value]
    choice: str
    status: Status | Literal["undetermined"]
    reason: str
    metric: str
    unit: str
    median: Number
    ci_low: Number
    ci_high: Number
    interval: str | None
    process_medians: list[float]
    params: dict[str, Value]
    tuning: dict[str, Value]
    clock: str
    limit: Number
    limit_source: str | None
    fraction_of_limit: Number
    peers: list[PeerObject]


class PeersObject(TypedDict):
    """Ours and the host's libraries and programs on the same problems."""

    started: str
    device: str
    platform: str
    driver: str
    host: Fact
    versions: dict[str, str]
    lines: list[PeerLineObject]


class StepObject(TypedDict):
    """A version of a step of the case study, and what it is compared with."""

    step: str
    of: str
    variant: str
    over: str | None
    change: str | None
    guideline: str | None
    status: str
    time_ms: Number
    time_low_ms: Number
    time_high_ms: Number
    gain: Number
    gain_low: Number
    gain_high: Number
    over_first: Number
    over_first_low: Number
    over_first_high: Number
    verdict: str | None
    verified: bool
    reason: str
    evidence: list[str]


class WholeObject(TypedDict):
    """A way to the whole of the case study."""

    how: Literal["kernels", "numpy"]
    filter: str | None
    covariance: str | None
    transform: str | None
    memory: str
    status: str
    time_ms: Number
    time_low_ms: Number
    time_high_ms: Number
    verified: bool
    reason: str
    kernels_ms: Number
    over_first: Number
    over_first_low: Number
    over_first_high: Number
    over_numpy: Number
    over_numpy_low: Number
    over_numpy_high: Number


class HostStepObject(TypedDict):
    """A step of the case study by a library of the host."""

    library: str
    step: str
    size: Value
    status: str
    time_ms: Number
    time_low_ms: Number
    time_high_ms: Number
    verified: bool
    reason: str
    cores: Number
    share: Number
    scaled_share: Number


class CaseStudyObject(TypedDict):
    """The case study on one device."""

    device: str
    size: Value | None
    steps: list[StepObject]
    whole: list[WholeObject]
    host: list[HostStepObject]


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
    """An OpenCL device of this host."""

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


class ComplaintObject(TypedDict):
    """What disturbs measurements, and its remedy."""

    what: str
    remedy: str


class ExaminedObject(TypedDict):
    """A device and what disturbs measurements on it."""

    index: int
    device: str
    complaints: list[ComplaintObject]


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
