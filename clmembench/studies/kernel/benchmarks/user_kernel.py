"""Time of a kernel of the user's own, launched as it was traced."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Copy, Device, Metric, Skip, Work
from clmembench.studies.kernel.launch import KernelLaunch, LaunchError, prepared

TIME = Metric("time", "ns", "ops", "cost", "lower")


def _any_text(value: object) -> bool:
    return isinstance(value, str)


TEXT = axis("", accepts=_any_text)


@benchmark(
    TIME,
    suite="compute",
    source="this project",
    adaptive=True,  # `kernel --measure` plans its one point
    figure_axis="kernel",
    file=TEXT,
    kernel=TEXT,
    global_size=TEXT,
    local_size=TEXT,
    arguments=TEXT,
    defines=TEXT,
)
def user_kernel(device: Device, **params: str) -> Work:
    """Time of one launch of a user's kernel, by the device's clock.

    Buffers that the kernel changes have their first content again before every pass, so that each pass does what was traced.
    These copies are not timed. Results are not verified. Raises Skip for a launch that this device does not allow.
    """
    try:
        launch = prepared(device, KernelLaunch.of_params(params))
    except LaunchError as error:
        raise Skip(str(error)) from error
    device.run([launch.command])
    before = []
    for buffer, content in launch.buffers:
        if not np.array_equal(device.download(buffer, np.uint8, content.nbytes), content):
            first = device.alloc(content.nbytes)
            device.upload(first, content)
            before.append(Copy(buffer, first, content.nbytes))
    return Work(commands=(launch.command,), ops=1, before=tuple(before), facts=device.compiled(launch.command.kernel))
