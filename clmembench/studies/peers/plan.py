"""What `peers` measures: the points at which the host's libraries are strong, each with every reference there is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clmembench.benchmarks import MIB, discovered, headline_bytes
from clmembench.model import DeviceInfo, Value
from clmembench.plan import interleave
from clmembench.plan.selection import Selection, accepts_value, selected_benchmarks

Axes = Mapping[str, tuple[Value, ...]]

PRODUCT_N_BY_KIND = {"cpu": (512, 1024, 2048), "gpu": (1024, 4096, 8192), "accelerator": (1024, 4096)}  # n of dense products
SPMV_MATRICES = ("reservoir", "power_law")
STREAM_OPS = ("copy", "triad", "dot", "read")
SUM_ELEMENTS_BY_KIND = {"cpu": 1 << 25, "gpu": 1 << 28, "accelerator": 1 << 26}  # of a sum, where they fit
MAX_GPU_ARRAY_BYTES = 1024 * MIB  # of a GPU's streams at most: many times its caches, and programs check theirs on the host
LINK_COPY_BYTES = 256 * MIB
LAUNCH_GROUPS = (1, 1024)  # work-groups of a launch: the fewest, and about as many as clpeak's
UNIT_CACHE_SET_BYTES, SHARED_CACHE_SET_BYTES = (
    (16 << 10, 64 << 10),
    16 * MIB,
)  # sets of a GPU's compute units, and one that its shared cache holds


def _fp64(info: DeviceInfo) -> tuple[str, ...]:
    return ("double", "float") if "fp64" in info.features else ("float",)


def _points(info: DeviceInfo) -> Mapping[str, Axes]:
    """The values of each benchmark's axes; of an axis that is not named, all."""
    most = discovered()["reduction"].axes["n"].values(info)[-1]
    array = headline_bytes(info) if info.kind == "cpu" else min(MAX_GPU_ARRAY_BYTES, headline_bytes(info))
    link: Axes = {
        "direction": ("to_device", "from_device"),
        "memory": ("pinned",),
        "array_bytes": (min(LINK_COPY_BYTES, headline_bytes(info)),),
    }
    cached: Axes = (
        {}
        if info.has_cpu_cores
        else {"set_bytes": (*UNIT_CACHE_SET_BYTES, SHARED_CACHE_SET_BYTES), "path": ("plain",), "unit_items": (1024, 2048)}
    )
    return {
        "stream": {"op": STREAM_OPS, "dtype": _fp64(info)[:1], "array_bytes": (array,)},
        "reduction": {"n": (min(int(most), SUM_ELEMENTS_BY_KIND[info.kind]),)},
        "dgemm": {"dtype": _fp64(info), "n": PRODUCT_N_BY_KIND[info.kind]},
        **({"gemm": {"n": PRODUCT_N_BY_KIND["gpu"]}} if info.kind == "gpu" else {}),
        "spmv": {"matrix": SPMV_MATRICES},
        **({} if info.shares_host_memory else {"transfer": link}),
        "launch": {"groups": LAUNCH_GROUPS},
        "launch_wait": {"groups": LAUNCH_GROUPS},
        "launch_dispatch": {"groups": LAUNCH_GROUPS[:1]},
        "arithmetic": {},
        "local_read": {},
        "cache_read": cached,
    }


def selections(plain: Selection, info: DeviceInfo) -> tuple[Selection, ...]:
    """What is measured one after the other, with the limits of the user's selection."""
    known = discovered()
    chosen = []
    for name, axes in _points(info).items():
        # a value that an axis does not have, or an axis that a benchmark has no more, is left out
        kept = {
            axis: tuple(value for value in values if accepts_value(known[name].axes[axis], info, value))
            for axis, values in axes.items()
            if axis in known[name].axes
        }
        named = {axis: values for axis, values in kept.items() if values}
        chosen.append(replace(plain, suite="all", globs=(name,), axes=named, reference=True, leaders=True))
    return tuple(chosen)


def names(plain: Selection, info: DeviceInfo) -> tuple[str, ...]:
    """The benchmarks of all that is measured, and their references."""
    benchmark_names = []
    for selection in selections(plain, info):
        benchmark_names += [*(b.name for b in selected_benchmarks(selection)), *interleave.peer_names(selection, info)]
    return tuple(benchmark_names)
