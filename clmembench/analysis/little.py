"""Little's law: how many bytes must be in flight for a bandwidth at a latency, and how many a device's limits allow. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value above 0 with its 95% interval; an exact one has itself as both ends. Raises ValueError for what is none."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high < math.inf:
            raise ValueError(f"{self.value:g} ({self.low:g} to {self.high:g}) is no value above 0 within its interval")

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A figure without an uncertainty, as a data sheet states it."""
        return cls(value, value, value)

    def times(self, other: Estimate) -> Estimate:
        """The product; its ends are those of the independent factors, added in quadrature of their logarithms."""
        value = self.value * other.value
        down = math.hypot(math.log(self.value / self.low), math.log(other.value / other.low))
        up = math.hypot(math.log(self.high / self.value), math.log(other.high / other.value))
        return Estimate(value, value * math.exp(-down), value * math.exp(up))

    def inverse(self) -> Estimate:
        """One over it."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low)


def needed_bytes(latency_ns: Estimate, bandwidth_gb_s: Estimate) -> Estimate:
    """Bytes that must be in flight at any moment for that bandwidth where each is away for that latency.

    A GB/s is a byte a ns, so their product is bytes: of the whole device where the bandwidth is of the whole device. Of cycles
    and bytes a cycle it is the same. Source: Little 1961; Mei & Chu 2015, section 6.1.
    """
    return latency_ns.times(bandwidth_gb_s)


def reachable_gb_s(in_flight_bytes: float, latency_ns: Estimate) -> Estimate:
    """The most bandwidth that so many bytes in flight give at that latency: a bound, since loaded memory answers later."""
    return Estimate.exact(in_flight_bytes).times(latency_ns.inverse())


def needed_sub_groups(in_flight: Estimate, compute_units: int, sub_group: int, access_bytes: int, ilp: int) -> Estimate:
    """Sub-groups that each compute unit must keep active to have `in_flight` bytes of the whole device on their way.

    Each of a sub-group's work-items has `ilp` accesses of `access_bytes` in flight at once. It is a real number, to be rounded
    up by who launches; where it is under one, a part of a sub-group is enough. Raises ValueError for counts below 1.
    """
    if min(compute_units, sub_group, access_bytes, ilp) < 1:
        raise ValueError("compute units, sub-group, bytes and ILP are at least 1 each")
    return in_flight.times(Estimate.exact(1 / (compute_units * sub_group * access_bytes * ilp)))


@dataclass(frozen=True, slots=True)
class Allowed:
    """Occupancy: work-groups and their sub-groups active on a compute unit at once, and the binding limit."""

    work_groups: int
    sub_groups: int
    limit: str


def allowed_sub_groups(
    work_group: int,
    sub_group: int,
    local_bytes: int,
    unit_local_bytes: int,
    unit_work_items: int | None = None,
    unit_work_groups: int | None = None,
) -> Allowed:
    """Number of sub-groups that can be active on a compute unit with `unit_local_bytes` of local memory.

    Each work-group has `work_group` work-items and takes `local_bytes`. `unit_work_items` and `unit_work_groups` are the most
    that a compute unit holds; None where nobody knows, since OpenCL does not say. Work-groups are whole: the rest stays idle.
    Registers bind too, which only a compiler knows. Raises ValueError for counts below 1, or where nothing binds.
    """
    if min(work_group, sub_group, unit_local_bytes) < 1 or local_bytes < 0:
        raise ValueError("a work-group, a sub-group and local memory are at least 1 each")
    bounds: dict[str, int] = {}
    if local_bytes:
        bounds["local memory"] = unit_local_bytes // local_bytes
    if unit_work_items is not None:
        bounds["work-items per compute unit"] = unit_work_items // work_group
    if unit_work_groups is not None:
        bounds["work-groups per compute unit"] = unit_work_groups
    if not bounds:
        raise ValueError("without a known limit nothing says how many work-groups are active at once")
    limit = min(bounds, key=lambda name: bounds[name])
    return Allowed(bounds[limit], bounds[limit] * -(-work_group // sub_group), limit)
