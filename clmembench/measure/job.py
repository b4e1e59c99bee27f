"""What a worker process is asked for, its job, as a line of JSON; and what a probe of a device answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clmembench.benchmarks.plugins import external
from clmembench.model import DeviceInfo, Placement, Value
from clmembench.plan.budget import Budget


@dataclass(frozen=True, slots=True)
class Job:
    """The settings of a worker process. A job without a benchmark probes the device and ends."""

    runtime: str
    device: DeviceInfo
    benchmark: str = ""
    place: Placement = Placement()
    process: int = 0
    seed: int = 0
    budget: Budget = Budget()
    trial: Budget = Budget(0.0, 0.25, 0.05, 3e5, trial=True)
    features: frozenset[str] = frozenset()
    cycles_per_op: float | None = None
    origin: str = ""
    quantum_ns: float = 1.0
    folders: tuple[str, ...] = field(default_factory=external.folders)  # of benchmarks of the user's own
    left_out: tuple[str, ...] = field(default_factory=external.left_out)  # packages' entry points that cannot be imported
    facts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # of kernels that builders have built


@dataclass(frozen=True, slots=True)
class Program:
    """A program in OpenCL C with its macros, or in PTX, and the names of its kernels whose facts are asked for."""

    source: str
    defines: tuple[tuple[str, Value], ...] = ()
    is_ptx: bool = False
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Results of probing a device: features by behaviour, the chain's cycles per operation, the resolution of its clocks in
    ns."""

    features: frozenset[str]
    cycles_per_op: float | None
    origin: str
    quantum_ns: float


def job_line(job: Job) -> str:
    """A job as the line of JSON that a worker process reads.

    Claims at their defaults are left out: a worker of an older version (`compare --live`) does not know those that were added
    since, and it listed the device without them. So are folders and facts where there are none, and energy that
    nobody asked for.
    """
    raw = dataclasses.asdict(job)
    for name in ("folders", "left_out", "facts"):
        if not raw[name]:
            del raw[name]
    for budget in (raw["budget"], raw["trial"]):
        for name in ("energy", "give_up_ns"):
            if not budget[name]:
                del budget[name]
    defaults = {field.name: field.default for field in dataclasses.fields(DeviceInfo)}
    claims = {name: value for name, value in raw["device"].items() if value != defaults[name]}
    return json.dumps({**raw, "device": claims}, default=sorted)


def placement_of(raw: Mapping[str, Any]) -> Placement:
    """The placement of its fields, as JSON has them."""
    return Placement(raw["compute_units"], tuple(raw["cpus"]), raw["placement"], raw["cores"])


def parse_job(raw: dict[str, Any]) -> Job:
    """The job of such a line, which is taken apart. Raises KeyError and TypeError for what is none."""
    claims, place = raw.pop("device"), raw.pop("place")
    return Job(
        device=DeviceInfo(**{**claims, "features": frozenset(claims["features"])}),
        place=placement_of(place),
        budget=Budget(**raw.pop("budget")),
        trial=Budget(**raw.pop("trial")),
        features=frozenset(raw.pop("features")),
        folders=tuple(raw.pop("folders", ())),
        left_out=tuple(raw.pop("left_out", ())),
        **raw,
    )
