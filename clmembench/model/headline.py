"""Headline quantities: what a benchmark says of a device in one number, so that devices of different sizes compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from clmembench.model.work import Value

HeadlineGroup = Literal[
    "latency", "bandwidth", "atomics", "synchronisation", "host link", "compute", "sparse", "reduction", "capacity"
]
HEADLINE_GROUPS: tuple[HeadlineGroup, ...] = get_args(HeadlineGroup)
Extreme = Literal["largest", "smallest"]


@dataclass(frozen=True, slots=True)
class Headline:
    """A quantity of one benchmark that is compared across devices, matched by meaning and not by exact parameters.

    `metric` is read at the points whose parameters have the values in `params`; of those, at the extreme value of each axis in
    `extremes`; and where several are left, at the best of them. What then differs between devices is a footnote. Of a growing
    axis an extreme is a plateau of its curve: the first one, or memory where the curve has settled there. `beyond_caches` names
    an axis in bytes: a value of it that a cache may hold makes the quantity undetermined. `note` says what else the value
    depends on, for a reader who compares devices. `on_cpu` says what else the value is on the cores of a CPU, `in_host_memory`
    what it is on a device that shares the host's memory: there it is not compared with what it is elsewhere.
    """

    group: HeadlineGroup
    name: str
    metric: str
    params: Mapping[str, Value] = field(default_factory=dict)
    extremes: Mapping[str, Extreme] = field(default_factory=dict)
    beyond_caches: str = ""
    note: str = ""
    on_cpu: str = ""
    in_host_memory: str = ""

    def meaning(self, has_cpu_cores: bool, shares_host_memory: bool) -> str:
        """What else the value is on such a device; "" where it is what its name says."""
        return (self.on_cpu if has_cpu_cores else "") or (self.in_host_memory if shares_host_memory else "")
