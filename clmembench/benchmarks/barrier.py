"""B4: barriers within a work-group, and across all concurrent work-groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark, work_group_sizes
from clmembench.model import Array, Buffer, Device, DeviceInfo, Fill, Headline, Launch, Local, Metric, Skip, Slope, Work
from clmembench.resources import kernel_source

BARRIERS_PER_BLOCK = 16  # as unrolled in barrier.cl
# reads of the counter before a group gives up: over 0.1 s, far above any scheduling delay; on GPUs below every watchdog's limit
MAX_POLLS, MAX_CPU_POLLS = 1 << 20, 1 << 25
TRIAL_ROUNDS = 100
ITEM_COUNTS = 32, 64, 128, 256, 512, 1024
NOTE_LOOPS = (
    "on CPUs compilers turn work-group barriers into loops over work-items, or remove them: no core waits for another core"
)
BARRIER_TIME = Metric("barrier", "ns", "ops", "slope", "lower", cycles=True)


def _group_counts(info: DeviceInfo) -> tuple[int, ...]:
    """2, 4, 8 ... and all compute units; empty for a single one."""
    units = info.compute_units
    return tuple(dict.fromkeys([2**k for k in range(1, 12) if 2**k < units] + ([units] if units > 1 else [2])))


def _item_counts(info: DeviceInfo) -> tuple[int, ...]:
    return tuple(dict.fromkeys((1, *work_group_sizes(info, *ITEM_COUNTS))))


@benchmark(
    BARRIER_TIME,
    suite="sync",
    source="Razzaq et al. 2016, section IV-B2 (B4), within one work-group",
    headlines=(
        Headline(
            "synchronisation",
            "work-group barrier, 256 work-items",
            "barrier",
            {"work_items": 256},
            on_cpu="on CPUs a loop over work-items ends on one core",
        ),
    ),
    quick={"work_items": axis_of(lambda info: work_group_sizes(info, 64, 256))},
    work_items=axis_of(_item_counts),
)
def barrier(device: Device, work_items: int) -> Slope:
    """Cost of barrier() within one work-group, by the size of the work-group.

    The cost is a slope over the number of barriers, which every work-item counts. An exchange through local memory verifies
    that these barriers separate its rounds. A compiler may merge barriers with nothing between them; barrier_exchange has a
    round that it cannot.
    """
    kernels = device.build(kernel_source("barrier"))
    out, rotated = device.alloc(4 * work_items), device.alloc(4 * work_items)
    shape = ((work_items,), (work_items,))

    def work(count: int) -> Work:
        blocks = -(-count // BARRIERS_PER_BLOCK)

        def check() -> None:
            counts = device.download(out, np.uint32, work_items)
            assert (counts == blocks * BARRIERS_PER_BLOCK).all(), f"a work-item passed {counts.min()} of {blocks * 16} barriers"
            rounds = 37
            device.run([Launch(kernels["exchange"], _exchange_arguments(rotated, rounds, 1, work_items), *shape)])
            _check_exchange(device.download(rotated, np.uint32, work_items), rounds, 1)

        return Work(
            commands=(Launch(kernels["group_barrier"], (out, np.uint32(blocks)), *shape),),
            ops=blocks * BARRIERS_PER_BLOCK,
            outputs=((out, 4 * work_items),),
            check=check,
            notes=(NOTE_LOOPS,) if device.info.has_cpu_cores else (),
        )

    # bounded, since no number suffices if a barrier costs nothing
    return Slope(work, start=BARRIERS_PER_BLOCK, most=1 << 28)


@benchmark(
    Metric("exchange", "ns", "ops", "slope", "lower", cycles=True),
    suite="sync",
    source="this project, after Razzaq et al. 2016, section IV-B2 (B4)",
    headlines=(
        Headline(
            "synchronisation",
            "exchange between work-items by a barrier, 256 work-items",
            "exchange",
            {"work_items": 256, "separated_by": "barrier"},
            on_cpu="a loop over work-items on one core",
        ),
    ),
    figure_axis="work_items",
    separated_by=axis("barrier", "nothing"),
    work_items=axis_of(lambda info: work_group_sizes(info, *ITEM_COUNTS)),
)
def barrier_exchange(device: Device, separated_by: str, work_items: int) -> Slope:
    """Cost of a round in which the work-items of a group exchange values: a store to local memory, a barrier, a load.

    Every work-item loads what its neighbour stored, so that no compiler can merge or remove these barriers; a round has one.
    The cost is a slope over rounds. separated_by nothing is the control: the same round without the barrier, in which every
    work-item loads what it has stored itself. Raises Skip if a group has one work-item.
    """
    if work_items < 2:
        raise Skip("work-groups of this device have one work-item, which has no neighbour")
    shift = 1 if separated_by == "barrier" else 0
    kernel = device.build(kernel_source("barrier"), NO_BARRIER=not shift)["exchange"]
    out = device.alloc(4 * work_items)

    def work(rounds: int) -> Work:
        return Work(
            commands=(Launch(kernel, _exchange_arguments(out, rounds, shift, work_items), (work_items,), (work_items,)),),
            ops=rounds,
            outputs=((out, 4 * work_items),),
            check=lambda: _check_exchange(device.download(out, np.uint32, work_items), rounds, shift),
            notes=(NOTE_LOOPS,) if device.info.has_cpu_cores and shift else (),
        )

    return Slope(work, most=1 << 28)


def _exchange_arguments(out: Buffer, rounds: int, shift: int, work_items: int) -> tuple[Any, ...]:
    return out, np.uint32(rounds), np.uint32(shift), Local(2 * 4 * work_items)


def _check_exchange(held: Array, rounds: int, shift: int) -> None:
    """Raises AssertionError unless every number went `shift` places further in each round and had 1 added."""
    wanted = (np.arange(held.size) + rounds * shift) % held.size + rounds
    assert np.array_equal(held, wanted), "a neighbour's value was read before it was written: barriers do not hold"


@benchmark(
    BARRIER_TIME,
    suite="sync",
    source="Razzaq et al. 2016, section IV-B2 (B4), across compute units",
    headlines=(Headline("synchronisation", "device barrier, most work-groups", "barrier", {}, {"groups": "largest"}),),
    quick={"groups": axis_of(lambda info: _group_counts(info)[-1:])},
    # on GPUs the axis `groups` already covers it
    scaling=lambda info: {"groups": info.compute_units} if info.kind == "cpu" else {},
    groups=axis_of(_group_counts),
)
def device_barrier(device: Device, groups: int) -> Slope:
    """Cost of a barrier across concurrent work-groups, through one atomic counter in global memory.

    Each work-group is one work-item; the memory fences of a barrier are included. On GPUs the cost depends on the placement of
    the groups, so that two values are possible for few groups. Each group counts the rounds in which all others had arrived
    before it continued. The wait of a group is bounded; raises Skip if groups do not run concurrently, at first or during the
    measurement.
    """
    if groups > device.info.compute_units:
        raise Skip(f"{groups} work-groups on {device.info.compute_units} compute units cannot wait for each other")
    kernel = device.build(kernel_source("barrier"))["device_barrier"]
    state, passed = device.alloc(8), device.alloc(4 * groups)
    reset = Fill(state, 4)  # only the arrivals; the check reads the other word: whether a group gave up

    most = MAX_CPU_POLLS if device.info.has_cpu_cores else MAX_POLLS

    def launch(rounds: int) -> Launch:
        return Launch(kernel, (state, passed, np.uint32(rounds), np.uint32(most)), (groups,), (1,))

    device.run([Fill(state, 8), launch(TRIAL_ROUNDS)])
    if device.download(state, np.uint32, 2)[1]:
        raise Skip(f"{groups} work-groups do not run at the same time here")

    def work(rounds: int) -> Work:
        def check() -> None:
            arrived, gave_up = device.download(state, np.uint32, 2)
            if gave_up:
                # caused by another program: neither the device nor the benchmark failed
                raise Skip(f"{groups} work-groups stopped running at the same time while it was measured: close other programs")
            assert arrived == rounds * groups, f"{arrived} arrivals, not {rounds * groups}"
            least = int(device.download(passed, np.uint32, groups).min())
            assert least == rounds, f"a group saw all others arrive in {least} of {rounds} rounds before it went on"

        together = groups if device.info.kind == "cpu" else 0
        return Work(
            commands=(launch(rounds),),
            ops=rounds,
            before=(reset,),
            outputs=((passed, 4 * groups),),
            check=check,
            concurrent_units=together,
        )

    return Slope(work, start=TRIAL_ROUNDS, most=(1 << 31) // groups)
