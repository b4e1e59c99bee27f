"""Discovery of benchmarks in this folder and its families, and what they are written with: axes, metrics and common sizes."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from clmembench.benchmarks.plugins import external
from clmembench.model import Array, Axis, Benchmark, DeviceInfo, Headline, Metric, Prepared, Quantity, Value

MIB = 1 << 20
SUITES = ("memory", "access", "sync", "link", "compute")  # order of suites in a report; others come after these

MISSED_SHARES = (2, 3, 4, 5, 8, 16)  # a faulty loop or block would execute every k-th step of a chain only
MAX_TELLING_TRIES = 64
MIN_PROCESSES_FOR_INTERVAL = 6  # for results that depend on physical pages: fewer give no 95% interval

MEMORY_READS, MEMORY_WRITES, MEMORY_COPIES = "memory reads", "memory writes", "copies in memory"
VECTOR_FLOPS = {"double": "FP64 vector arithmetic", "float": "FP32 vector arithmetic"}
MATRIX_FLOPS = "FP64 matrix arithmetic"
LOCAL_READS, CORE_CACHE_READS = "local memory reads", "reads of a core's first cache"
LOCAL_LATENCY, NEAREST_LATENCY, ROUND_TRIPS = (
    "latency of local memory",
    "latency of the nearest cache",
    "round trip of a launch",
)

BANDWIDTH = Metric("bandwidth", "GB/s", "nbytes", "rate", "higher", peak="memory_bandwidth_gb_s")
LATENCY = Metric("latency", "ns", "ops", "slope", "lower", cycles=True)


def axis(
    *values: Value,
    needs: Mapping[Value, Iterable[str]] | None = None,
    tuning: bool = False,
    accepts: Callable[[Value], bool] | None = None,
) -> Axis:
    """An axis of fixed values; `needs` names the features for a value, `accepts` allows further values (see Axis)."""
    return replace(axis_of(lambda info: values, needs, tuning), accepts=accepts)


def axis_of(
    values: Callable[[DeviceInfo], Sequence[Value]], needs: Mapping[Value, Iterable[str]] | None = None, tuning: bool = False
) -> Axis:
    """An axis whose values depend on the device."""
    return Axis(values, {value: frozenset(features) for value, features in (needs or {}).items()}, tuning)


def growing(first: int, last: Callable[[DeviceInfo], int], per_octave: int) -> Axis:
    """An axis from `first` on, with `per_octave` points per octave, until the metric is flat or `last` is reached."""
    return Axis(lambda info: (first, last(info)), per_octave=per_octave)


def handover_processes(info: DeviceInfo, **_: Value) -> int:
    """Processes of a point whose time is that of handing work to a driver's threads. On a CPU the system places them anew in
    each process: on two cores a round trip took 20 us in one and 34 us in the next, each within 1%."""
    return MIN_PROCESSES_FOR_INTERVAL if info.kind == "cpu" else 1


def benchmark(
    *metrics: Metric,
    suite: str,
    source: str,
    quick: Mapping[str, Axis] | None = None,
    needs: Iterable[str] = (),
    where: Callable[..., bool] | None = None,
    default_subset: Callable[..., bool] | None = None,
    figure_axis: str = "",
    scaling: Callable[[DeviceInfo], Mapping[str, Value]] | None = None,
    scaling_also: Callable[[DeviceInfo], Sequence[Mapping[str, Value]]] | None = None,
    single_unit: Callable[[DeviceInfo], Sequence[Mapping[str, Value]]] | None = None,
    processes: Callable[..., int] | None = None,
    quick_processes: bool = False,
    fresh: bool = False,
    min_time_s: float = 0.0,
    max_time_s: float = 0.0,
    on_nodes: bool = False,
    adaptive: bool = False,
    peer_of: str | None = None,
    is_available: Callable[[DeviceInfo], bool] | None = None,
    headlines: Iterable[Headline] = (),
    quantities: Iterable[Quantity] = (),
    version: int = 1,
    **axes: Axis,
) -> Callable[[Callable[..., Prepared]], Benchmark]:
    """Create a Benchmark from the function that prepares a point; `describe` shows the first line of its docstring."""

    def decorate(prepare: Callable[..., Prepared]) -> Benchmark:
        summary = (inspect.getdoc(prepare) or "").split("\n\n")[0].replace("\n", " ")
        return Benchmark(
            name=prepare.__name__,
            metrics=metrics,
            axes=axes,
            prepare=prepare,
            suite=suite,
            needs=frozenset(needs),
            where=where,
            default_subset=default_subset,
            quick=quick,
            figure_axis=figure_axis or next(iter(axes), ""),
            scaling=scaling,
            scaling_also=scaling_also,
            single_unit=single_unit,
            processes=processes,
            quick_processes=quick_processes,
            fresh=fresh,
            min_time_s=min_time_s,
            max_time_s=max_time_s,
            on_nodes=on_nodes,
            adaptive=adaptive or peer_of is not None,  # --reference selects the points of peers, not a suite
            peer_of=peer_of,
            is_available=is_available,
            headlines=tuple(headlines),
            quantities=tuple(quantities),
            summary=summary,
            source=source,
            version=version,
        )

    return decorate


def discovered() -> Mapping[str, Benchmark]:
    """Every benchmark by name, ordered by suite, then by module and definition.

    These are the benchmarks of this package, of added folders (see `add_folders`), and of installed packages.
    """
    return _ordered(external.folders(), external.withdrawn())


@cache
def _ordered(folders: Sequence[str], withdrawn: frozenset[str]) -> Mapping[str, Benchmark]:
    """Every benchmark except the withdrawn ones, with these folders loaded."""
    mine = {**packaged(), **external.of_folders()}
    order = {suite: place for place, suite in enumerate(SUITES)}
    known = {**mine, **_installed()[0]} | mine
    usable = [benchmark for name, benchmark in known.items() if name not in withdrawn]
    return {b.name: b for b in sorted(usable, key=lambda b: (order.get(b.suite, len(order)), b.suite))}


@cache
def packaged() -> Mapping[str, Benchmark]:
    """Every benchmark of this package by name."""
    modules = (import_module(module) for _, module in sorted(_module_names().items()))
    return {value.name: value for module in modules for value in vars(module).values() if isinstance(value, Benchmark)}


@cache
def _installed() -> tuple[Mapping[str, Benchmark], Sequence[str]]:
    return external.of_packages(packaged())


def add_folders(folders: Iterable[Path | str]) -> list[str]:
    """Load the benchmarks of folders or files that the user named, and return their names. Raises ExternalError."""
    return external.add(folders, packaged)


def problems_of_packages() -> Sequence[str]:
    """Defects of benchmarks in installed packages."""
    return _installed()[1]


def named(name: str) -> Benchmark:
    """The benchmark with this name. Raises KeyError.

    Where a module has the name, only that module is imported, since a worker process measures one benchmark and needs no
    others.
    """
    module = _module_names().get(name)
    if module is not None:
        attribute = getattr(import_module(module), name, None)
        if isinstance(attribute, Benchmark):
            return attribute
    mine = {**packaged(), **external.of_folders()}  # so that code of other packages is not loaded
    return mine[name] if name in mine else discovered()[name]


@cache
def _module_names() -> Mapping[str, str]:
    """Dotted names of all modules here, in families' folders and in the studies' folders `benchmarks`, by their last part.

    Imports nothing.
    """
    root = Path(__path__[0]).parent
    studies = [
        folder
        for study in pkgutil.iter_modules([str(root / "studies")])
        if (folder := root / "studies" / study.name / "benchmarks").is_dir()
    ]
    families = [Path(__path__[0]) / module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    return {
        module.name: ".".join((root.name, *folder.relative_to(root).parts, module.name))
        for folder in (Path(__path__[0]), *families, *studies)
        for module in pkgutil.iter_modules([str(folder)])
        if not module.ispkg
    }


def headline_bytes(info: DeviceInfo) -> int:
    """Bytes of one array that exceeds every cache, or the user's --size.

    GPUs and accelerators: 2 GiB. CPUs: at least four times the last-level cache (STREAM's rule) and 256 MiB, in multiples of
    256 MiB. If that exceeds 2 GiB, the device's largest allocation, an eighth of its memory or a 32nd of a CPU host's memory:
    the largest power of two within these limits.
    """
    if info.array_bytes is not None:
        return info.array_bytes
    wanted = 2048 * MIB if info.kind != "cpu" else max(256 * MIB, 4 * info.cache_bytes)
    limit = min(info.max_alloc_bytes, info.global_mem_bytes // 8)
    if info.kind == "cpu":
        limit = min(limit, max(256 * MIB, info.host_mem_bytes // 32))
    size = -(-wanted // (256 * MIB)) * 256 * MIB
    limit = min(limit, 2048 * MIB)
    return size if size <= limit else 1 << (max(1, limit).bit_length() - 1)


def is_timed_in_batches(info: DeviceInfo) -> bool:
    """Whether the passes of what has GPU libraries for peers are timed as theirs are; runtimes other than OpenCL cannot."""
    return info.kind == "gpu" and info.runtime == "opencl"


def work_group_sizes(info: DeviceInfo, *sizes: int) -> tuple[int, ...]:
    """Those of the sizes, in their order, that the device allows for a work-group; if it allows none, its largest power of
    two."""
    allowed = max(1, info.max_work_group)
    return tuple(size for size in sizes if size <= allowed) or (1 << (allowed.bit_length() - 1),)


def line_bytes(info: DeviceInfo) -> int:
    """The device's claimed cache line in bytes if it is plausible, else 64."""
    claimed = info.line_bytes
    return claimed if 16 <= claimed <= 1024 and claimed & (claimed - 1) == 0 else 64


def iterate_multiply_add(start: Array, factor: int, addend: int, steps: int, bits: int = 32) -> Array:
    """The result of `steps` operations x := x * factor + addend modulo 2^bits from each start: uint64, shape of `start`."""
    modulus = 1 << bits
    total, offset, factor, addend = 1, 0, factor % modulus, addend % modulus
    while steps:
        if steps & 1:
            total, offset = total * factor % modulus, (offset * factor + addend) % modulus
        factor, addend, steps = factor * factor % modulus, (addend * factor + addend) % modulus, steps >> 1
    return np.asarray(start.astype(np.uint64) * np.uint64(total) + np.uint64(offset) & np.uint64(modulus - 1))


def telling_count(least: int, period: int, each: int = 1) -> int:
    """The first count from `least` on after which the position on a cycle proves that all steps were made.

    The cycle has `period` positions, and each count makes `each` steps. If only every second, third ... sixteenth step or count
    was made, or all others, or all but one, the position differs. On short cycles this holds for steps only; on even shorter
    ones the result is `least`.
    """
    for sizes in ((1, each), (1,)):
        for count in range(least, least + MAX_TELLING_TRIES):
            if all(missed % period for size in sizes for missed in _missed(count * each // size, size)):
                return count
    return least


def _missed(made: int, size: int) -> set[int]:
    """Numbers of missing steps if only some of `made` parts, of `size` steps each, were executed."""
    shares = {share for k in MISSED_SHARES for share in (made // k, -(-made // k))}
    return {size * missed for share in shares for missed in (share, made - share, 1) if missed}
