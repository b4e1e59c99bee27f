"""Shapes of what commands print under --json; docs/schemas is generated from them, and tests hold the outputs against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clmembench.gates.claims_audit import ClaimCheck
from clmembench.host.checks import Complaint
from clmembench.model import Fact

Number = float | int | None


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
