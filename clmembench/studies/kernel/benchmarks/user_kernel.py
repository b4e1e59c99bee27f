"""Time of a kernel of the user's own, launched as it was traced."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Copy, Device, Launch, Metric, Skip, Work
from clmembench.studies.kernel.launch import KernelLaunch, LaunchError, argument

TIME = Metric("time", "ns", "ops", "cost", "lower")


def _any_text(value: object) -> bool:
    return isinstance(value, str)


TEXT = axis("", accepts=_any_text)


@benchmark(
    TIME,
    suite="kernel",
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
        launch = KernelLaunch.of_params(params)
        given = [argument(text, number) for number, text in enumerate(launch.arguments)]
        kernels = device.build(launch.source.read_text(), **launch.defines)
        kernel = kernels[launch.kernel]
    except (LaunchError, OSError, KeyError) as error:
        reason = f"no kernel {launch.kernel}, only {', '.join(kernels)}" if isinstance(error, KeyError) else str(error)
        raise Skip(reason) from error
    args, buffers = [], []
    for one in given:
        if isinstance(one, np.ndarray):
            buffer = device.alloc(one.nbytes)
            device.upload(buffer, one)
            buffers.append((buffer, one.reshape(-1).view(np.uint8)))
            args.append(buffer)
        else:
            args.append(one)
    command = Launch(kernel, tuple(args), launch.global_size, launch.local_size)
    device.run([command])
    before = []
    for buffer, content in buffers:
        if not np.array_equal(device.download(buffer, np.uint8, content.nbytes), content):
            first = device.alloc(content.nbytes)
            device.upload(first, content)
            before.append(Copy(buffer, first, content.nbytes))
    return Work(commands=(command,), ops=1, before=tuple(before), facts=device.compiled(kernel))
