"""Devices whose memories answer work-items side by side by known rules: values as a run of benchmarks subgroup and step_latency
would have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from clmembench.analysis.derive import Derived
from clmembench.benchmarks import discovered
from clmembench.model import DeviceInfo, Placement
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import walked

WIDE = 32


@dataclass(frozen=True, slots=True)
class Load:
    """What a point asks of a memory: distinct words of a sub-group, the lines they lie in, sub-groups of a group, groups."""

    distinct: int
    lines: int
    sub_groups: int
    groups: int


Rule = Callable[[Load], float]  # cycles of a load


def flat(latency: float) -> Rule:
    """All are served at once, wherever their words lie."""
    return lambda load: latency


def by_line(latency: float, a_line: float) -> Rule:
    """A line after the other, and sub-groups one after the other once the lines of the first fill the latency."""
    return lambda load: max(latency + a_line * (load.lines - 1), a_line * load.lines * load.sub_groups)


def serial(latency: float, a_word: float) -> Rule:
    """A word after the other: constant memory."""
    return lambda load: latency + a_word * (load.distinct - 1)


def in_turns(latency: float) -> Rule:
    """A processor that runs one work-item after the other, each for as long."""
    return lambda load: latency


# Fang et al. 2017, table 1 and figures 5 to 11: a K20c, in which scattered loads of global memory take twice as long
K20C: Mapping[str, Rule] = {
    "register": flat(9.0),
    "private": flat(203.75),
    "local": flat(47.69),
    "constant_array": serial(110.13, 46.0),
    "global": by_line(218.86, 7.0),
    # 12 cycles more where scattered, and with many groups 320 in place of 127
    "image": lambda load: (320.0 if load.lines > 1 else 127.0) if load.groups > 13 else 115.6 + 0.37 * (load.lines - 1),
}
CPU: Mapping[str, Rule] = {
    "register": in_turns(4.0),
    "image": in_turns(9.0),
    **dict.fromkeys(("private", "local", "constant", "constant_array", "global"), in_turns(5.0)),
}


def values(rules: Mapping[str, Rule], kind: str = "gpu", noise: float = 0.0, seed: int = 0, wide: int = WIDE) -> list[Derived]:
    """A value for each point that suite access asks of such a device; `noise` is the relative half-width of intervals, within
    which the medians wander too."""
    rng = np.random.default_rng(seed)
    info: DeviceInfo = replace(FAKE_DEVICE_INFO, kind=kind, compute_units=13 if kind == "gpu" else 2, sub_group_items=wide)
    found = []
    for benchmark in ("subgroup", "step_latency"):
        for point in walked(sweep.explore(discovered()[benchmark], info, Selection())):
            memory = str(point.params["memory"])
            if point.place == Placement() and memory in rules:
                cycles = _cycles(dict(point.params), rules[memory], kind, wide) * (1 + noise * rng.uniform(-0.5, 0.5))
                found.append(value(benchmark, dict(point.params), cycles, noise, len(found)))
    return found


def _cycles(params: dict[str, object], rule: Rule, kind: str, wide: int) -> float:
    if "step" in params:
        return rule(Load(1, 1, 1, 1))
    items, groups, degree = (int(str(params[name])) for name in ("items", "groups", "degree"))
    side = min(items, wide)
    scattered = params["pattern"] == "scattered"
    load = Load(max(1, side // degree), side if scattered else 1, -(-items // wide), groups)
    return rule(load) * (items if kind == "cpu" else 1)


def value(
    benchmark: str, params: Mapping[str, object], latency: float, noise: float, index: int = 0, **changes: object
) -> Derived:
    """One value of a benchmark, at 1 GHz."""
    low, high = latency * (1 - noise), latency * (1 + noise)
    plain = Derived(
        benchmark, params, {}, Placement(), "latency", "ns", "lower", None, "ok", "",  # type: ignore[arg-type]
        median=latency, ci_low=low, ci_high=high, cycles=latency, cycles_low=low, cycles_high=high,
        n=20, processes=1, evidence=(f"{benchmark}:{index}:0",),
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]
