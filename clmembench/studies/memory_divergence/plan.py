"""What `model` measures: the inputs of the memory divergence model, then kernels that it predicts, with their profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from clmembench.benchmarks import MIB, discovered
from clmembench.model import DeviceInfo, Plan, Point, Value
from clmembench.plan.selection import Selection
from clmembench.studies.memory_divergence.benchmarks.memory_divergence import (
    DEPENDENT_PER_INTERVAL,
    INTERVAL_INSTRUCTIONS,
    LINE_BYTES,
    LOAD_INSTRUCTIONS,
    STORE_INSTRUCTIONS,
)
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, Profile, ProfileInterval, Range, check_profile
from clmembench.studies.memory_divergence.model.measured_memory import miss_ratio

VALIDATED, MLP = "memory_divergence", "mlp"
INPUTS = ("pchase", "cache_read", "arithmetic", MLP)  # measured before predictions are frozen
VARIANTS_EACH = 4  # of fmas, loads and stores, for each choice of lines, sub-groups and footprint
LATENCY_SETS = tuple(n * MIB for n in (2, 4, 8, 16, 24, 32, 48, 64, 96, 128))  # of pchase, beside the largest ones
MIN_SECTOR_BYTES = 32
DEFAULT_DEPENDENT_CYCLES = 4.0  # of NVIDIA's GPUs since Volta; used if the run has no calibrated clock
NO_MODEL_OF_CORES = (
    "is a CPU: its cores run the work-items of a sub-group one after the other, so the model, which predicts loads that "
    "touch several lines at once and wait for MSHRs, does not apply: choose a GPU by -d, see clmembench devices"
)


def input_selections(plain: Selection, info: DeviceInfo) -> tuple[Selection, ...]:
    """What is measured by grids, with the limits of the user's selection: latencies, bandwidths and the issue width."""
    known = discovered()
    sets = [v for v in known["cache_read"].axes["set_bytes"].values(info) if isinstance(v, int)]
    shared = tuple(v for v in sets if v in (16 * MIB, 32 * MIB) or v == max(sets))
    last = known["pchase"].axes["array_bytes"].values(info)[-1]
    assert isinstance(last, int)
    arrays: tuple[Value, ...] = (*(n for n in LATENCY_SETS if n < last), last // 2, last)
    units = tuple(n for n in (1024, 2048) if n <= 2 * info.max_work_group)
    axes: Mapping[str, Mapping[str, tuple[Value, ...]]] = {
        "pchase": {"array_bytes": arrays, "spacing_bytes": ("line",)},
        "cache_read": {"set": ("shared",), "set_bytes": shared, "path": ("plain",), "unit_items": units},
        "arithmetic": {"dtype": ("float",)},
    }
    return tuple(replace(plain, suite="all", globs=(name,), axes=chosen, processes=1) for name, chosen in axes.items())


def mlp_plan(info: DeviceInfo) -> Plan:
    """Rounds of every number of lines, of one sector and of four."""
    axes = discovered()[MLP].axes
    chosen = product(*(axes[name].values(info) for name in ("sectors", "footprint_bytes", "lines")))
    yield [
        Point(MLP, {"lines": lines, "sectors": sectors, "footprint_bytes": footprint})
        for sectors, footprint, lines in chosen
        if isinstance(lines, int) and isinstance(sectors, int) and lines * sectors <= 4 * info.max_work_group
    ]


def validation_points(info: DeviceInfo) -> list[Mapping[str, Value]]:
    """The configurations that predictions are compared with: every choice of lines, sub-groups and footprint, each with a few
    choices of fmas, loads and stores in rotation, so that all combinations of two values are equally frequent."""
    axes = {name: axis.values(info) for name, axis in discovered()[VALIDATED].axes.items()}
    variants = list(product(axes["fmas"], axes["loads"], axes["stores"]))
    step = 7  # coprime to the number of variants, so that all are used
    points: list[Mapping[str, Value]] = []
    for lines, sub_groups, footprint in product(axes["lines"], axes["sub_groups"], axes["footprint_bytes"]):
        for _ in range(VARIANTS_EACH):
            fmas, loads, stores = variants[len(points) * step % len(variants)]
            points.append(
                {"lines": lines, "fmas": fmas, "loads": loads, "sub_groups": sub_groups, "footprint_bytes": footprint,
                 "stores": stores}
            )  # fmt: skip
    return points


def validation_plan(info: DeviceInfo, note: str) -> Plan:
    """The configurations, each with the note on the predictions frozen before."""
    yield [Point(VALIDATED, params, note=note) for params in validation_points(info)]


def profile_of(params: Mapping[str, Value], sheet: HardwareSheet) -> Profile:
    """The interval profile of a point of memory_divergence, from its kernel's declaration and from measured latencies.

    One interval: its loads stall until the last-level cache or memory has answered, and each of its dependent operations until
    the one before has ended; instructions are counted in the kernel's source. Each load misses the first cache; the miss ratio
    of the last one is that of random accesses to the footprint."""
    lines, fmas, loads, warps, footprint, stores = (
        _whole(params, name) for name in ("lines", "fmas", "loads", "sub_groups", "footprint_bytes", "stores")
    )
    q = sheet.quantities
    low, middle, high = miss_ratio(footprint, q.llc_bytes)
    near, far = q.llc_latency_cycles, q.dram_latency_cycles
    wait = (q.dependent_cycles.value if q.dependent_cycles is not None else DEFAULT_DEPENDENT_CYCLES) - 1
    chain = max(0.0, wait) * (DEPENDENT_PER_INTERVAL + loads - 1 + fmas)
    stall = Range(
        chain + near.value + middle * far.value,
        chain + near.ends[0] + low * far.ends[0],
        chain + near.ends[1] + high * far.ends[1],
    )
    instructions = LOAD_INSTRUCTIONS * loads + INTERVAL_INSTRUCTIONS + fmas + STORE_INSTRUCTIONS * stores
    one = ProfileInterval(
        instructions=float(instructions),
        stall_cycles=stall,
        read_misses=float(lines * loads),
        write_misses=float(stores),
        llc_miss_ratio=Range(middle, low, high),
        request_bytes=float(max(MIN_SECTOR_BYTES, LINE_BYTES // lines)),
    )
    profile = Profile(warps, (one,), f"{VALIDATED}", "declared beside its kernel")
    check_profile(profile)
    return profile


def _whole(params: Mapping[str, Value], name: str) -> int:
    value = params[name]
    if not isinstance(value, int):
        raise ValueError(f"{VALIDATED}: {name} is {value!r} and no whole number")
    return value
