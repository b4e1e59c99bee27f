"""Quantities of a device that several benchmarks measure: what each declares, so that a run can be held against itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clmembench.model.work import Value

Devices = Literal["all", "cores", "others"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of the device that points of a benchmark measure; benchmarks that name the same one are compared in each run.

    Its points are those of `metric` on the whole device whose parameters have the values in `params`, at the largest value of
    the parameter `largest`; the best of them is what the benchmark says of the quantity. With `beyond_caches` it proves others
    wrong only where its data, `largest` in bytes or else what a pass moves, are four times the cache or as many as the other's.
    `limit` says why it may be worse than the quantity, as of a kernel that does more than what is measured, and `least_share`
    down to which share of it this is an explanation; without a limit the benchmark claims to reach the quantity. `devices`:
    where local memory is a core's cache, its reads and those of the cache are one quantity, on cores alone.
    """

    name: str
    metric: str
    params: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    largest: str = ""
    beyond_caches: bool = False
    limit: str = ""
    least_share: float = 0.0
    devices: Devices = "all"
