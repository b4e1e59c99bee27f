"""Shapes of what `peers`, `casestudy`, `devices` and `doctor` print under --json, as `json_outputs` has those of others."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from clmembench.model import Fact, Status, Value
from clmembench.report.json_outputs import Number


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
