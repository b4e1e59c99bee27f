"""B4 without a device-wide barrier: the cost of launching a kernel and waiting for its end."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import ROUND_TRIPS, axis, axis_of, benchmark, handover_processes
from clmembench.model import Clock, Device, DeviceInfo, Headline, HostPart, Launch, Metric, Prepared, Quantity, Slope, Work
from clmembench.resources import kernel_source

GROUP_SIZE = 64
TOKEN = 0x5EED
ROUND_TRIP = Metric("round_trip", "ns", "ops", "cost", "lower")
QUEUED_TO_START = Metric("queued_to_start", "ns", "ops", "cost", "lower")
QUEUED_TO_SUBMITTED = Metric("queued_to_submitted", "ns", "ops", "cost", "lower", part="submit")
SUBMITTED_TO_START = Metric("submitted_to_start", "ns", "ops", "cost", "lower", part="wait")
START_TO_END = Metric("start_to_end", "ns", "ops", "cost", "lower", part="run")
DISPATCH = Metric("dispatch", "ns", "ops", "slope", "lower")
HOST_CALL = Metric("host_call", "ns", "ops", "slope", "lower", only={"of": ("one_more",)})
HOST_SAMPLE = Metric("host_sample", "ns", "ops", "cost", "lower", only={"of": ("alone",)})


def _group_counts(info: DeviceInfo) -> tuple[int, ...]:
    return tuple(dict.fromkeys((1, info.compute_units, 1024)))


def _prepare_launches(device: Device, groups: int, clock: Clock, many: bool = False) -> Prepared:
    """Launches of a kernel with the least verifiable work: one, or many back to back for the dispatch slope."""
    done = device.alloc(4)
    group = min(GROUP_SIZE, device.info.max_work_group)
    mark = device.build(kernel_source("launch"))["mark"]
    launch = Launch(mark, (done, np.uint32(TOKEN)), (groups * group,), (group,))

    def check() -> None:
        left = int(device.download(done, np.uint32, 1)[0])
        assert left == TOKEN, f"the kernel wrote {left:#x} instead of {TOKEN:#x}: it did not run"

    def work(count: int) -> Work:
        return Work((launch,) * count, ops=count, outputs=((done, 4),), check=check, clock=clock)

    return Slope(work, start=16, most=30_000) if many else work(1)


_SOURCE = "Razzaq et al. 2016, section IV-B2 (B4): kernel launch with completion"
_QUICK_AXES = {"groups": axis(1)}


@benchmark(
    ROUND_TRIP,
    suite="sync",
    source=_SOURCE,
    version=3,
    quick=_QUICK_AXES,
    processes=handover_processes,
    quick_processes=True,
    quantities=[Quantity(ROUND_TRIPS, "round_trip", {"groups": (1,)})],
    headlines=(Headline("synchronisation", "launch, round trip", "round_trip", {"groups": 1}),),
    groups=axis_of(_group_counts),
)
def launch(device: Device, groups: int) -> Prepared:
    """Round trip of a nearly empty kernel, from its launch until the host knows that it ended, by the host's clock.

    Arguments are set beforehand, and no event is requested. launch_call measures the remaining host-side overhead.
    """
    return _prepare_launches(device, groups, "host")


@benchmark(
    DISPATCH,
    suite="sync",
    source=_SOURCE,
    version=2,
    quick=_QUICK_AXES,
    processes=handover_processes,
    headlines=(Headline("synchronisation", "back-to-back launch", "dispatch", {"groups": 1}),),
    groups=axis_of(_group_counts),
)
def launch_dispatch(device: Device, groups: int) -> Prepared:
    """Incremental cost of a back-to-back launch: many are enqueued and waited for once, by the host's clock.

    It is the slower of the host's enqueueing and the device's dispatch. The metric host_call of launch_call is the host-side
    overhead in the former.
    """
    return _prepare_launches(device, groups, "host", many=True)


@benchmark(
    QUEUED_TO_START,
    QUEUED_TO_SUBMITTED,
    SUBMITTED_TO_START,
    START_TO_END,
    suite="sync",
    source=_SOURCE,
    version=3,
    quick=_QUICK_AXES,
    processes=handover_processes,
    groups=axis_of(_group_counts),
)
def launch_wait(device: Device, groups: int) -> Prepared:
    """Queue-to-start delay of a kernel from event profiling, and its parts.

    The library stamps a command as queued within the call that enqueues it, so that earlier work of the host is excluded. Work
    between that call and the one that waits is included if the driver submits only in the latter.
    """
    return _prepare_launches(device, groups, "queue")


# after others in one process a call took 0.5 to 0.9 us on an H200's host, first in one 0.9 to 1.2 us
@benchmark(
    HOST_CALL,
    HOST_SAMPLE,
    suite="sync",
    source=_SOURCE,
    fresh=True,
    quick={"of": axis("one_more")},
    of=axis("one_more", "alone"),
)
def launch_call(device: Device, of: str) -> Prepared:
    """Host-side overhead of this program in a launch: the same call with the same arguments to a function that does nothing.

    one_more: for each of many launches in a row, as in launch_dispatch. alone: for one launch and the wait on an empty queue,
    as in launch; the driver's own work on such a queue is included.
    """
    kernel = device.build(kernel_source("launch"))["mark"]
    done, group = device.alloc(4), min(GROUP_SIZE, device.info.max_work_group)
    part = HostPart(Launch(kernel, (done, np.uint32(TOKEN)), (group,), (group,)))

    def check() -> None:
        left = int(device.download(done, np.uint32, 1)[0])
        assert left != TOKEN, "the kernel ran, although only the host's part should be called"

    def work(count: int) -> Work:
        return Work((part,) * count, ops=count, outputs=((done, 4),), check=check, clock="host")

    return Slope(work, start=16, most=30_000) if of == "one_more" else work(1)
