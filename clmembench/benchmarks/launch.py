"""B4's stand-in where no device-wide barrier exists: launching a kernel and knowing that it ended."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark
from clmembench.data import kernel_source
from clmembench.model import Clock, Device, DeviceInfo, Launch, Metric, Prepared, Slope, Work

GROUP = 64
TOKEN = 0x5EED
ROUND_TRIP = Metric("round_trip", "ns", "ops", "cost", "lower")
QUEUED_TO_START = Metric("queued_to_start", "ns", "ops", "cost", "lower")
DISPATCH = Metric("dispatch", "ns", "ops", "slope", "lower")


def _groups(info: DeviceInfo) -> tuple[int, ...]:
    return tuple(dict.fromkeys((1, info.compute_units, 1024)))


def _prepare(device: Device, groups: int, clock: Clock, many: bool = False) -> Prepared:
    """One launch of the emptiest verifiable kernel; many of them, back to back, for the dispatch slope."""
    done = device.alloc(4)
    group = min(GROUP, device.info.max_work_group)
    mark = device.build(kernel_source("launch"))["mark"]
    launch = Launch(mark, (done, np.uint32(TOKEN)), (groups * group,), (group,))

    def check() -> None:
        left = int(device.download(done, np.uint32, 1)[0])
        assert left == TOKEN, f"the kernel left {left:#x} behind, not {TOKEN:#x}: it did not run"

    def work(count: int) -> Work:
        return Work((launch,) * count, ops=count, outputs=((done, 4),), check=check, clock=clock)

    return Slope(work, start=16, most=30_000) if many else work(1)


_SOURCE = "Razzaq et al. 2016, section IV-B2 (B4): kernel launch with completion"
_QUICK = {"groups": axis(1)}


@benchmark(ROUND_TRIP, suite="sync", source=_SOURCE, version=2, quick=_QUICK, groups=axis_of(_groups))
def launch(device: Device, groups: int) -> Prepared:
    """Launch of a nearly empty kernel until the host knows that it ended, by the host's clock.

    Arguments are set beforehand; what remains of Python in it is one enqueue and one finish call, 1 to 2 us.
    """
    return _prepare(device, groups, "host")


@benchmark(DISPATCH, suite="sync", source=_SOURCE, quick=_QUICK, groups=axis_of(_groups))
def launch_dispatch(device: Device, groups: int) -> Prepared:
    """Cost of one more launch among many enqueued back to back and waited for once, by the host's clock.

    The slower of the host's enqueueing and the device's starting; one Python call a launch, under 2 us, is in it.
    """
    return _prepare(device, groups, "host", many=True)


@benchmark(QUEUED_TO_START, suite="sync", source=_SOURCE, version=2, quick=_QUICK, groups=axis_of(_groups))
def launch_wait(device: Device, groups: int) -> Prepared:
    """Time from a kernel's being queued to its start, by the driver's own event stamps: no Python in it."""
    return _prepare(device, groups, "queue")
