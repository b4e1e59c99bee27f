"""What a run says about the cost of a kernel's instructions, requests and atomics on its device. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clmembench.analysis.derive import Derived
from clmembench.analysis.device_rates import MIN_LEVEL_SHARE, device_rates, is_usable
from clmembench.analysis.kernel_time import DeviceRates
from clmembench.analysis.little import Estimate
from clmembench.analysis.plateaus import CurvePoint
from clmembench.benchmarks.atomic import NEAR_CELLS, SPREAD_CELLS
from clmembench.model import DeviceInfo

SECTOR = 32  # bytes that GPUs' caches fill
MIN_SCATTERED_LINES = 8  # of a load of memory_divergence whose lines hold a sector of it at most
GPU_LINE_BYTES, CPU_LINE_BYTES = 128, 64  # of a request to the first cache
ASSUMED_SUB_GROUP_ITEMS = 32  # if the driver reports no width
MAX_UNIT_ITEMS, MAX_UNIT_GROUPS = 2048, 32  # resident on a GPU's compute unit; OpenCL does not report them
NEEDED = {  # a rate that a prediction may lack -> the benchmark that measures it
    "issue_g_s": "arithmetic",
    "first_cache": "cache_read",
    "local_gb_s": "local_read",
    "atomics": "atomic",
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
    floats, `function_g_s` native functions of work-items, `operation_ns` the latency of an operation, by its name and type.
    `lines_memory` and `lines_shared` are lines that sub-groups touch in part, from memory and from the shared cache;
    `stored_lines` those of stores. `atomics` are passes over the blocks of global memory per ns by the number of blocks, from
    the fewest on, `local_atomic` those over banks of local memory, on CPUs operations. `launch_ns` is the time of an empty
    kernel by the device's clock, and `group_ns` that of each further work-group on a CPU.
    """

    info: DeviceInfo
    device: DeviceRates
    width: int
    line_bytes: int
    issue_g_s: Estimate | None = None
    float_gflop_s: Estimate | None = None
    first_cache: FirstCache | None = None
    function_g_s: Estimate | None = None
    operation_ns: Mapping[str, Estimate] = field(default_factory=dict)
    lines_memory: Estimate | None = None
    lines_shared: Estimate | None = None
    stored_lines: Estimate | None = None
    local_gb_s: Estimate | None = None
    atomics: tuple[tuple[float, Estimate], ...] = ()
    local_atomic: Estimate | None = None
    barrier_ns: Estimate | None = None
    launch_ns: Estimate | None = None
    group_ns: float = 0.0

    @property
    def vectorises_functions(self) -> bool:
        """Whether the compiler of a CPU's driver vectorises whole kernels over work-items, as Intel's does."""
        return self.info.platform.startswith("Intel")

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
        function_g_s=_unit_rate(good, "native_exp", info),
        operation_ns={
            f"{v.params['op']} {v.params['dtype']}": one
            for v in _of(good, "instruction", "instruction_latency", lanes=1)
            if (one := _estimate(v)) is not None
        },
        lines_memory=_lines(good, far=True),
        lines_shared=_lines(good, far=False),
        stored_lines=_stored_lines(good) if not info.has_cpu_cores else None,
        atomics=tuple(_atomics(good, width if not info.has_cpu_cores else 1, CPU_LINE_BYTES if info.has_cpu_cores else SECTOR)),
        local_atomic=_local_atomic(good, info.has_cpu_cores),
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
    """The throughput of atomic additions at the largest number of work-items; of one alone it is a latency's inverse."""
    wanted: Mapping[str, object] = {"op": "add", "dtype": "int", "memory": memory, "address": address, **params}
    found = [v for v in _of(good, "atomic", "throughput", **wanted) if _number(v, "items") > 1]
    return _estimate(max(found, key=lambda v: _number(v, "items"), default=None))


def _random_atomic(good: Sequence[Derived], memory: str, address: str) -> Estimate | None:
    """That of random addresses, whose results no work-item waits for where that was measured."""
    return _atomic(good, memory, address, result="unused") or _atomic(good, memory, address, result="used")


def _local_atomic(good: Sequence[Derived], on_cores: bool) -> Estimate | None:
    """Additions to one word of local memory, each of which is a pass; on CPUs to any."""
    same = _atomic(good, "local", "same", result="used")
    return (_random_atomic(good, "local", "near") or _random_atomic(good, "local", "spread") or same) if on_cores else same


def _atomics(good: Sequence[Derived], width: int, block_bytes: int) -> Iterator[tuple[float, Estimate]]:
    """Passes of atomics over blocks per ns, by the number of blocks that they are over."""
    same = _atomic(good, "global", "same", dtype="long") or _atomic(good, "global", "same", dtype="int")
    if same is not None:
        yield 1.0, same
    for address, cells in (("near", NEAR_CELLS), ("spread", SPREAD_CELLS)):
        rate, blocks = _random_atomic(good, "global", address), cells * 4 / block_bytes
        if rate is not None:  # of work-items, some of which share a pass
            again = width - cells * (1 - (1 - 1 / cells) ** width)
            passes = blocks * (1 - (1 - 1 / blocks) ** width) + again
            yield blocks, rate.times(Estimate.exact(passes / width))


def _unit_rate(good: Sequence[Derived], op: str, info: DeviceInfo) -> Estimate | None:
    """Operations of all compute units per ns, at the most lanes that were measured."""
    found = _of(good, "instruction", "unit_rate", op=op, dtype="float")
    rate = _estimate(max(found, key=lambda v: _number(v, "lanes"), default=None))
    return rate.times(Estimate.exact(info.compute_units)) if rate is not None else None


def _lines(good: Sequence[Derived], far: bool) -> Estimate | None:
    """Lines per ns of which a load touches a sector, from the largest footprint or the smallest."""
    found = [
        v for v in _of(good, "memory_divergence", "line_bandwidth", stores=0) if _number(v, "lines") >= MIN_SCATTERED_LINES
    ]
    sizes = [_number(v, "footprint_bytes") for v in found]
    if len(set(sizes)) < 2:
        return None
    wanted = max(sizes) if far else min(sizes)
    rate = _best([v for v in found if _number(v, "footprint_bytes") == wanted])
    return rate.times(Estimate.exact(1 / GPU_LINE_BYTES)) if rate is not None else None


def _stored_lines(good: Sequence[Derived]) -> Estimate | None:
    """Lines per ns of which a store touches a word: those of a transposition without a tile."""
    found = _of(good, "transpose", "throughput", way="direct")
    rate = _estimate(max(found, key=lambda v: _number(v, "n"), default=None))
    return rate.times(Estimate.exact(1 / 8)) if rate is not None else None  # 4 B are loaded and stored


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
