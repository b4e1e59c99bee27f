"""Latency of a line that two compute units hand to each other, for pairs of units."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from clmembench.benchmarks import MIB, benchmark
from clmembench.host import cpu_topology, processes
from clmembench.model import (
    Array,
    BuildError,
    Device,
    DeviceInfo,
    Fill,
    Headline,
    Kernel,
    Launch,
    Metric,
    Read,
    Skip,
    Slope,
    Value,
    Work,
)
from clmembench.resources import kernel_source

LINES = 8  # of a pair, since each has a home in one part of a shared cache
WARM_ROUNDS = 4  # before the clock starts
SPREAD_BYTES, LINE_SPACING_BYTES = 16 * MIB, 256  # lines at random places, no two in neighbouring ones
MAX_UNITS = 24  # whose pairs are all measured; of more units as many, spread evenly
# Of the near end. On GPUs a launch costs as much as some of them. CPUs that wait longer sleep deeper, and wake up later: on a
# virtual Xeon launches of 0.07 and 0.2 ms differed by 90 us of that, so that both ends must be longer.
GPU_ROUNDS, CPU_ROUNDS = 16, 400
MAX_ROUNDS = 1 << 16
GROUPS_PER_UNIT = 8  # on GPUs: enough that each unit gets one, few enough that all run at once
MAX_ARRIVAL_POLLS, MAX_CPU_ARRIVAL_POLLS = 20_000, 1 << 25
MAX_POLLS, MAX_CPU_POLLS = 1 << 16, 1 << 23  # of one hand-over
LAUNCHES_TO_SEE_UNITS = 8
UNKNOWN, GPU_UNITS, CPUS = 0, 1, 2  # UNIT in core_to_core.cl
UNIT_NAMES = {UNKNOWN: "work-group", GPU_UNITS: "compute unit", CPUS: "CPU"}
TICKS = {"ptx": 1, "tsc": 2}
NO_UNIT = 0xFFFFFFFF
SEED = 20261128
SOME_UNKNOWN = "the compiler gives no number of a CPU: pairs of work-groups, on whichever cores"


@benchmark(
    Metric("hand_over", "ns", "ops", "slope", "lower"),
    suite="sync",
    source="Chips and Cheese, Microbenchmarks (CoherencyLatency); N. Viennot, core-to-core-latency",
    headlines=(Headline("synchronisation", "line handed to another compute unit, mean of pairs", "hand_over"),),
)
def core_to_core(device: Device) -> Slope:
    """One-way latency of a line that two compute units hand to each other by compare-and-swap, for all pairs of up to 24 units.

    One launch for each pair has work-groups on all units; those on the two units hand each of 8 lines to and fro. Compute units
    know their numbers by NVIDIA's %smid or x86's rdtscp; elsewhere pairs are of work-groups on unknown units. `ticks` has the
    ticks of each line of each pair and `unit` where its two sides ran; the metric is the mean of all hand-overs. Each side
    counts its turns, and the numbers in the lines prove them. Where no counter works in kernels, there is the mean alone.
    Raises Skip where work-groups do not run at the same time.
    """
    info = device.info
    if info.compute_units < 2:
        raise Skip("one compute unit: no other one takes the line")
    ticks_by = next((code for name, code in TICKS.items() if name in info.features), 0)
    cpu = info.has_cpu_cores
    kernels, kind, numbers = _units(device, ticks_by)
    if numbers.size < 2:
        raise Skip("work-groups do not run at the same time here: only one compute unit was seen")
    chosen = numbers[np.linspace(0, numbers.size - 1, min(numbers.size, MAX_UNITS)).round().astype(int)]
    pairs = list(combinations(map(int, chosen), 2))
    rows, groups = len(pairs), _groups(info)
    memory, offset = device.alloc(SPREAD_BYTES), device.alloc(4 * LINES)
    arrived, claimed = device.alloc(4 * rows), device.alloc(8 * rows)
    unit, wrong, ticks = device.alloc(8 * rows), device.alloc(8 * rows), device.alloc(4 * rows * LINES)
    places = np.random.default_rng(SEED + device.seed).choice(SPREAD_BYTES // LINE_SPACING_BYTES, LINES, replace=False)
    offsets = (np.sort(places) * LINE_SPACING_BYTES).astype(np.uint32)
    device.upload(offset, offsets)
    reset = Fill(arrived, 4 * rows), Fill(claimed, 8 * rows), Fill(unit, 8 * rows, 0xFF), Fill(memory, SPREAD_BYTES)

    def launch(row: int, rounds: int) -> Launch:
        patience = MAX_CPU_POLLS if cpu else MAX_POLLS
        args = (memory, offset, arrived, claimed, unit, ticks, wrong)
        return Launch(kernels["hand_over"], (*args, *map(np.uint32, (row, *pairs[row], rounds, patience))), (groups,), (1,))

    device.run([*reset, launch(0, 1)])
    if (device.download(unit, np.uint32, 2) == NO_UNIT).any():
        raise Skip(f"{UNIT_NAMES[kind]}s {pairs[0][0]} and {pairs[0][1]} do not run work-groups at the same time here")

    reads = {"ticks": Read(ticks, "uint32", rows * LINES, "ticks"), "unit": Read(unit, "uint32", 2 * rows, "")}
    reads = reads if ticks_by else {}

    def work(rounds: int) -> Work:
        def check() -> None:
            ran = device.download(unit, np.uint32, 2 * rows).reshape(rows, 2)
            lost = device.download(wrong, np.uint32, 2 * rows).reshape(rows, 2)
            measured = (ran == np.array(pairs)).all(axis=1)
            if not measured.mean() > 0.5:
                raise Skip(f"only {measured.sum()} of {rows} pairs ran at the same time: close other programs")
            assert not lost[measured].any(), f"{lost[measured].sum()} lines did not go to and fro {rounds} times"
            if measured[-1]:
                words = device.download(memory, np.uint32, SPREAD_BYTES // 4)[offsets // 4]
                turns, wanted = words.astype(np.int64) - (rows << 20), 2 * (rounds + WARM_ROUNDS)
                assert (turns == wanted).all(), f"a line was handed over {turns[turns != wanted][0]} times, not {wanted}"

        return Work(
            commands=tuple(launch(row, rounds) for row in range(rows)),
            ops=rows * LINES * 2 * rounds,
            before=reset,
            reads=reads,
            check=check,
            expected_units=0,
            concurrent_units=2 if info.kind == "cpu" else 0,
            notes=(SOME_UNKNOWN,) if cpu and kind == UNKNOWN else (),
            facts={"unit": UNIT_NAMES[kind], "lines": LINES, "units": numbers.size, **(_sysfs(chosen) if kind == CPUS else {})},
        )

    return Slope(work, start=CPU_ROUNDS if cpu else GPU_ROUNDS, most=MAX_ROUNDS)


def _groups(info: DeviceInfo) -> int:
    return info.compute_units * (1 if info.has_cpu_cores else GROUPS_PER_UNIT)


def _units(device: Device, ticks_by: int) -> tuple[Mapping[str, Kernel], int, Array]:
    """The kernels, how they know their units, and the numbers of the units that work-groups ran on, sorted."""
    info, cpu = device.info, device.info.has_cpu_cores
    defines: dict[str, Value] = {"TICKS": ticks_by, "LINES": LINES, "WARM_ROUNDS": WARM_ROUNDS}
    defines["PATIENCE"] = MAX_CPU_ARRIVAL_POLLS if cpu else MAX_ARRIVAL_POLLS
    kind = CPUS if cpu else GPU_UNITS
    try:
        kernels = device.build(kernel_source("core_to_core"), UNIT=kind, **defines)
    except BuildError:
        kind, kernels = UNKNOWN, device.build(kernel_source("core_to_core"), UNIT=UNKNOWN, **defines)
    usable = cpu_topology.usable_cpus()
    if info.kind == "cpu" and kind == CPUS:
        # systems run two of a driver's threads on one CPU while they wait for each other, unless each is held on its own
        cpus = tuple(sorted(usable))[: info.compute_units]
        processes.pin_threads(cpus, processes.busiest_threads(lambda: _seen(device, kernels), len(cpus)))
    numbers = _seen(device, kernels)
    if kind == CPUS and not set(map(int, numbers)) <= usable:
        kind, kernels = UNKNOWN, device.build(kernel_source("core_to_core"), UNIT=UNKNOWN, **defines)
        numbers = _seen(device, kernels)
    return kernels, kind, numbers[: info.compute_units] if kind == UNKNOWN else numbers


def _seen(device: Device, kernels: Mapping[str, Kernel]) -> Array:
    """The numbers of the units that work-groups of some launches ran on, sorted."""
    groups = _groups(device.info)
    unit, arrived = device.alloc(4 * groups), device.alloc(4)
    found: Array = np.empty(0, np.uint32)
    for _ in range(LAUNCHES_TO_SEE_UNITS):
        device.run([Fill(arrived, 4), Launch(kernels["units"], (unit, arrived), (groups,), (1,))])
        found = np.union1d(found, device.download(unit, np.uint32, groups))
    return found


def _sysfs(cpus: Array) -> dict[str, str]:
    """The CPUs that share a core, a last-level cache and a socket by sysfs, as "0,8;1,9", of those that have pairs."""
    threads = {t.cpu: t for t in cpu_topology.read()}
    known = [int(cpu) for cpu in cpus if int(cpu) in threads]
    if len(known) < len(cpus):
        return {}
    by: Mapping[str, Mapping[int, object]] = {
        "core": {cpu: (threads[cpu].socket, threads[cpu].core) for cpu in known},
        "last cache": cpu_topology.last_caches(known),
        "socket": {cpu: threads[cpu].socket for cpu in known},
    }
    return {f"sysfs {name}": _listed(of) for name, of in by.items() if len(of) == len(known)}


def _listed(of: Mapping[int, object]) -> str:
    groups: dict[object, list[int]] = {}
    for cpu, place in sorted(of.items()):
        groups.setdefault(place, []).append(cpu)
    return ";".join(",".join(map(str, cpus)) for cpus in groups.values())
