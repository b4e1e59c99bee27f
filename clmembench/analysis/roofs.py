"""The roofs of a roofline, as a run measured them: arithmetic in registers, and bandwidth of each level of memory. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate
from clmembench.model import DeviceInfo
from clmembench.specs.sheets import Peak, SpecSheet
from clmembench.units import format_bytes

Measured = tuple[Derived, Peak | None]  # a value and the theoretical peak it is held against

ARITHMETIC, MEMORY, LOCAL = "arithmetic", "memory", "local memory"
MEMORY_PEAK = "memory_bandwidth_gb_s"
MIN_MEMORY_TO_CACHE_RATIO = 4  # times the cache: what lies in memory, by STREAM's rule
BYTES_IN_FLIGHT_PER_ITEM = 4 * 16  # bytes that a work-item of cache_read loads at once where it is no loop on a core
MAX_L1_SET_BYTES = 32 << 10  # a core's first cache holds half of that at least
ARITHMETIC_ROOFS = {  # by what arithmetic computes in: name, precision, whose roof it is
    "double": ("FP64 vector", "double"),
    "double_matrix": ("FP64 matrix", "double"),
    "float": ("FP32 vector", "float"),
    "int": ("int32", "int"),
    "half": ("FP16 vector", "half"),
    "half_matrix": ("FP16 matrix, mma", "half"),
    "half_wgmma": ("FP16 matrix, wgmma", "half"),
    "bfloat16_matrix": ("BF16 matrix, mma or AMX", "bfloat16"),
    "bfloat16_wgmma": ("BF16 matrix, wgmma", "bfloat16"),
    "tf32_matrix": ("TF32 matrix, mma", "tf32"),
    "tf32_wgmma": ("TF32 matrix, wgmma", "tf32"),
    "fp8_matrix": ("FP8 matrix, mma", "fp8"),
    "fp8_wgmma": ("FP8 matrix, wgmma", "fp8"),
    "char_matrix": ("INT8 matrix, mma or AMX", "char"),
    "char_wgmma": ("INT8 matrix, wgmma", "char"),
}


@dataclass(frozen=True, slots=True)
class Roof:
    """A measured limit, in GFLOP/s (of integers Gop/s) or GB/s, with its interval; `source` says by what, `peak` names the
    sheet's figure that it is held against, and `theoretical` is that, where it is known."""

    name: str
    unit: str
    rate: Estimate
    source: str
    precision: str = ""
    peak: str | None = None
    theoretical: Peak | None = None
    evidence: tuple[str, ...] = ()
    note: str = ""


def cache_bytes_of(info: DeviceInfo, sheet: SpecSheet | None) -> int:
    """The largest cache that the driver claims or the sheet states; of a virtual machine it may be that of a whole socket."""
    stated = [sheet.figures[name].value for name in ("l2_bytes", "l3_bytes") if sheet is not None and name in sheet.figures]
    return int(max(info.cache_bytes, *stated, 0))


def compute_roofs(values: Sequence[Measured]) -> list[Roof]:
    """Arithmetic by type, in the order of COMPUTE."""
    found = {str(v.params.get("dtype")): (v, peak) for v, peak in _good(values) if v.benchmark == ARITHMETIC}
    return [
        _roof(name, *found[dtype], "multiply-adds in registers (arithmetic)", precision)
        for dtype, (name, precision) in ARITHMETIC_ROOFS.items()
        if dtype in found
    ]


def level_roofs(values: Sequence[Measured], info: DeviceInfo, cache_bytes: int) -> list[Roof]:
    """Bandwidth of memory, of the caches and of local memory, from the outside inwards; what was not measured is left out."""
    good = list(_good(values))
    found = [_memory(good, cache_bytes)]
    found += _core_caches(good, cache_bytes) if info.has_cpu_cores else _device_caches(good, info, cache_bytes)
    found.append(_best(LOCAL, good, lambda v: v.benchmark == "local_read", lambda v: "local_read"))
    return [roof for roof in found if roof is not None]


def _memory(good: Sequence[Measured], cache_bytes: int) -> Roof | None:
    """The fastest of STREAM's operations over the largest arrays, of copies over the grid and of reads of the largest set."""
    largest = max((_int(v, "array_bytes") for v, _ in good if v.benchmark == "stream"), default=0)
    shared = [_int(v, "set_bytes") for v, _ in good if v.benchmark == "cache_read" and v.params.get("set") == "shared"]

    def far(v: Derived) -> bool:
        if v.benchmark == "stream":
            return _int(v, "array_bytes") == largest
        if v.benchmark == "cache_read":
            return v.params.get("set") == "shared" and MIN_MEMORY_TO_CACHE_RATIO * cache_bytes <= _int(v, "set_bytes") == max(
                shared
            )
        return v.benchmark in ("copy_grid", "datatypes") and v.unit == "GB/s"

    def how(v: Derived) -> str:
        if v.benchmark == "stream":
            return f"stream, {v.params.get('op')} in {v.params.get('dtype')}"
        return _set_of(v) if v.benchmark == "cache_read" else f"{v.benchmark}, copy"

    peak = next((peak for v, peak in good if v.peak == MEMORY_PEAK and peak is not None), None)
    size = max([largest, *shared])
    small = size and size < MIN_MEMORY_TO_CACHE_RATIO * cache_bytes
    note = (
        f"memory: sets of {format_bytes(size, 1)} are under {MIN_MEMORY_TO_CACHE_RATIO} times the cache as stated, "
        f"{format_bytes(cache_bytes, 1)}: this roof may be partly a cache's"
    )
    return _best(MEMORY, good, far, how, peak, note if small else "")


def _device_caches(good: Sequence[Measured], info: DeviceInfo, cache_bytes: int) -> list[Roof | None]:
    """Caches of a GPU: the second by the largest shared set that it holds twice, and that is larger than what all load at once,
    since work-groups that ask for one block together are answered together; the first by sets of each unit's own."""

    def held(v: Derived) -> bool:
        loaded = _int(v, "unit_items") * BYTES_IN_FLIGHT_PER_ITEM * info.compute_units
        return _is_set(v, "shared") and loaded <= _int(v, "set_bytes") <= cache_bytes // 2

    size = max((_int(v, "set_bytes") for v, _ in good if held(v)), default=0)
    second = _best("L2", good, lambda v: held(v) and _int(v, "set_bytes") == size, _set_of)
    first = _best("L1", good, lambda v: _is_set(v, "own") and v.params.get("path") == "plain", _set_of)
    return [second, first]


def _core_caches(good: Sequence[Measured], cache_bytes: int) -> list[Roof | None]:
    """Caches of a CPU, by the sets, since a cache's size as claimed is often a whole socket's. Only the smallest is called
    L1."""
    sets = {(str(v.params["set"]), _int(v, "set_bytes")) for v, _ in good if v.benchmark == "cache_read"}
    far = max((size for kind, size in sets if kind == "shared"), default=0)
    found = []
    for kind, size in sorted(sets - {("shared", far)}, key=lambda s: (s[0] == "own", -s[1])):
        whose = "shared" if kind == "shared" else "a core"
        name = "L1" if kind == "own" and size <= MAX_L1_SET_BYTES else f"cached {format_bytes(size)} {whose}"
        found.append(_best(name, good, _is(kind, size), _set_of))
    return found


def _is(kind: str, size: int) -> Callable[[Derived], bool]:
    return lambda v: _is_set(v, kind) and _int(v, "set_bytes") == size


def _is_set(v: Derived, kind: str) -> bool:
    return v.benchmark == "cache_read" and v.params.get("set") == kind


def _set_of(v: Derived) -> str:
    return f"cache_read, {v.params['set']} sets of {format_bytes(_int(v, 'set_bytes'))}"


def _good(values: Sequence[Measured]) -> Iterator[Measured]:
    for value, peak in values:
        if value.status == "ok" and value.median is not None and value.median > 0 and value.place.compute_units is None:
            yield value, peak


def _best(
    name: str,
    good: Sequence[Measured],
    among: Callable[[Derived], bool],
    how: Callable[[Derived], str],
    peak: Peak | None = None,
    note: str = "",
) -> Roof | None:
    mine = [(v, p) for v, p in good if v.unit == "GB/s" and among(v)]
    if not mine:
        return None
    value, own = max(mine, key=lambda pair: pair[0].median or 0.0)
    return _roof(name, value, peak or own, how(value), note=note)


def _roof(name: str, v: Derived, peak: Peak | None, source: str, precision: str = "", note: str = "") -> Roof:
    assert v.median is not None
    low, high = (v.median if end is None else end for end in (v.ci_low, v.ci_high))
    rate = Estimate(v.median, min(low, v.median), max(high, v.median))
    return Roof(name, v.unit, rate, source, precision, v.peak, peak, v.evidence, note)


def _int(v: Derived, name: str) -> int:
    found = v.params.get(name)
    return found if type(found) is int else 0
