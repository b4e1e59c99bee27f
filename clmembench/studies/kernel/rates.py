"""What a run says about the cost of a kernel's instructions, requests and atomics on its device. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.analysis.device_rates import MIN_LEVEL_SHARE, device_rates, is_usable
from clmembench.analysis.kernel_time import DeviceRates
from clmembench.analysis.little import Estimate
from clmembench.analysis.plateaus import CurvePoint
from clmembench.model import DeviceInfo

GPU_LINE_BYTES, CPU_LINE_BYTES = 128, 64  # of a request to the first cache
ASSUMED_SUB_GROUP_ITEMS = 32  # if the driver reports no width
MAX_UNIT_ITEMS, MAX_UNIT_GROUPS = 2048, 32  # resident on a GPU's compute unit; OpenCL does not report them
NEEDED = {  # a rate that a prediction may lack -> the benchmark that measures it
    "issue_g_s": "arithmetic",
    "first_cache": "cache_read",
    "local_gb_s": "local_read",
    "atomic_same": "atomic",
    "atomic_spread": "atomic",
    "local_atomic": "atomic",
    "launch_ns": "launch_wait",
}


@dataclass(frozen=True, slots=True)
class FirstCache:
    """The cache of a compute unit: the largest set that it was seen to hold, and the read bandwidth of all units' caches."""

    nbytes: int
    gb_s: Estimate


@dataclass(frozen=True, slots=True)
class KernelRates:
    """The rates that the time of a kernel is predicted from; None for those that the run does not have.

    `width` is the number of work-items that execute an instruction together: a sub-group's, on CPUs a vector's lanes at most.
    `issue_g_s` counts instructions of work-items per ns on the whole device at that width; `float_gflop_s` is multiply-adds of
    floats. Atomics are per ns on the whole device: to one address (`atomic_same`), to many (`atomic_spread`), and in local
    memory. `launch_ns` is the time of an empty kernel by the device's clock, and `group_ns` that of each further
    work-group on a CPU.
    """

    info: DeviceInfo
    device: DeviceRates
    width: int
    line_bytes: int
    issue_g_s: Estimate | None = None
    float_gflop_s: Estimate | None = None
    first_cache: FirstCache | None = None
    local_gb_s: Estimate | None = None
    atomic_same: Estimate | None = None
    atomic_spread: Estimate | None = None
    local_atomic_same: Estimate | None = None
    local_atomic: Estimate | None = None
    barrier_ns: Estimate | None = None
    launch_ns: Estimate | None = None
    group_ns: float = 0.0

    @property
    def is_parallel(self) -> bool:
        """Whether work-items of a sub-group run in lockstep, as on GPUs."""
        return not self.info.has_cpu_cores


def kernel_rates(values: Iterable[Derived], curve: Sequence[CurvePoint], info: DeviceInfo) -> KernelRates:
    """What a run's good values on the whole device say about kernels; `curve` is its pointer chase over working sets."""
    good = [v for v in values if is_usable(v)]
    device = device_rates(good, curve, info)
    lanes = max((_number(v, "width") for v in _of(good, "arithmetic", dtype="float")), default=1)
    width = lanes if info.has_cpu_cores else info.sub_group_items or ASSUMED_SUB_GROUP_ITEMS
    floats = _best(_of(good, "arithmetic", dtype="float"))
    issued = [one.inverse().times(Estimate.exact(2)).inverse() for one in (floats,) if one is not None]  # a multiply-add is 2
    issued += [one for one in (_best(_of(good, "arithmetic", dtype="int")),) if one is not None]
    empty = sorted((_number(v, "groups"), v.median or 0.0) for v in _of(good, "launch_wait", "start_to_end"))
    return KernelRates(
        info,
        device,
        width,
        CPU_LINE_BYTES if info.has_cpu_cores else GPU_LINE_BYTES,
        issue_g_s=max(issued, key=lambda one: one.value, default=None),
        float_gflop_s=floats,
        first_cache=_first_cache(good),
        local_gb_s=_best([*_of(good, "local_read", "bandwidth"), *_of(good, "local_copy")]),
        atomic_same=_atomic(good, "global", "same", dtype="long") or _atomic(good, "global", "same", dtype="int"),
        atomic_spread=_atomic(good, "global", "spread", result="unused") or _atomic(good, "global", "spread", result="used"),
        local_atomic_same=_atomic(good, "local", "same", result="used"),
        local_atomic=_atomic(good, "local", "spread", result="used"),
        barrier_ns=_estimate(next(iter(_of(good, "barrier", work_items=256)), None)),
        launch_ns=Estimate.exact(empty[0][1]) if empty else None,
        group_ns=_group_ns(empty) if info.has_cpu_cores else 0.0,
    )


def _group_ns(empty: Sequence[tuple[int, float]]) -> float:
    """Time of each further work-group of an empty kernel. On GPUs they run at once, and wait for the word that all of them
    write."""
    (few, first), (many, last) = empty[0] if empty else (0, 0.0), empty[-1] if empty else (0, 0.0)
    return max(0.0, last - first) / (many - few) if many > few else 0.0


def _of(good: Sequence[Derived], benchmark: str, metric: str = "", **params: object) -> list[Derived]:
    return [
        v
        for v in good
        if v.benchmark == benchmark and metric in ("", v.metric) and all(v.params.get(k) == one for k, one in params.items())
    ]


def _number(v: Derived, name: str) -> int:
    found = v.params.get(name, v.tuning.get(name))
    return found if isinstance(found, int) else 1


def _estimate(v: Derived | None) -> Estimate | None:
    if v is None or v.median is None:
        return None
    low, high = (v.median if end is None or not 0 < end < math.inf else end for end in (v.ci_low, v.ci_high))
    return Estimate(v.median, min(low, v.median), max(high, v.median))


def _best(found: Sequence[Derived]) -> Estimate | None:
    return _estimate(max(found, key=lambda v: v.median or 0.0, default=None))


def _atomic(good: Sequence[Derived], memory: str, address: str, **params: object) -> Estimate | None:
    """The throughput of atomic additions at the largest number of work-items."""
    wanted: Mapping[str, object] = {"op": "add", "dtype": "int", "memory": memory, "address": address, **params}
    found = _of(good, "atomic", "throughput", **wanted)
    return _estimate(max(found, key=lambda v: _number(v, "items"), default=None))


def _first_cache(good: Sequence[Derived]) -> FirstCache | None:
    """The nearest cache, by sets that each compute unit reads for itself: the largest that is read as fast as the best."""
    own = [v for v in _of(good, "cache_read", set="own", path="plain") if isinstance(v.params.get("set_bytes"), int)]
    best = max((v.median or 0.0 for v in own), default=0.0)
    held = [v for v in own if (v.median or 0.0) >= MIN_LEVEL_SHARE * best]
    if not held:
        return None
    rate = _best(held)
    assert rate is not None
    return FirstCache(max(_number(v, "set_bytes") for v in held), rate)
