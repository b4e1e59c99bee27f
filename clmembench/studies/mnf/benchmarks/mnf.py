"""The whole MNF rotation on a device, with its eigenproblems on the host."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Array, Call, Device, Launch, Skip, Work
from clmembench.studies.mnf.benchmarks import numpy_mnf
from clmembench.studies.mnf.benchmarks.cubes import CubeSize
from clmembench.studies.mnf.benchmarks.mnf_kernels import (
    COMPONENTS,
    COVARIANCES,
    FILTERS,
    TRANSFORMS,
    covariance_launches,
    filter_launch,
    transform_launch,
)
from clmembench.studies.mnf.benchmarks.mnf_steps import (
    SIZE_AXIS,
    SOURCE,
    TIME,
    check_components,
    check_noise,
    check_sums,
    cube_of,
    require_size,
    sums_of,
)

MAX_EXACT_DEVIATION = 1e-8  # of eigenvalues and eigenspaces, both from exact sums
POINT_LIMIT_S = 60.0
ARRAY_TRANSFORMS = {variant for variant, (place, _) in TRANSFORMS.items() if place == 2}
RUN_TIME_TRANSFORMS = tuple(variant for variant in TRANSFORMS if variant not in ARRAY_TRANSFORMS)


@lru_cache(maxsize=2)
def reference_covariances(size: CubeSize, seed: int, kind: numpy_mnf.FilterName) -> tuple[Array, Array]:
    """Covariances of the noise and of the data by NumPy, from exact sums."""
    return (
        numpy_mnf.covariance(*sums_of(size, seed, kind), size.pixels),
        numpy_mnf.covariance(*sums_of(size, seed, "data"), size.pixels),
    )


@lru_cache(maxsize=2)
def reference_rotation(size: CubeSize, seed: int, kind: numpy_mnf.FilterName) -> numpy_mnf.Rotation:
    """The rotation by NumPy and SciPy, as one generalised eigenproblem. Raises Skip where it is not defined."""
    noise, data = reference_covariances(size, seed, kind)
    try:
        numpy_mnf.solve_rotation(noise, data)
    except ValueError as error:
        raise Skip(str(error)) from error
    return numpy_mnf.reference_solution(noise, data)


def check_rotation(found: numpy_mnf.Rotation, size: CubeSize, seed: int, kind: numpy_mnf.FilterName, most: float) -> None:
    """Compares eigenvalues and eigenspaces with those of NumPy in double."""
    values, spaces = numpy_mnf.deviation(
        found, reference_rotation(size, seed, kind), reference_covariances(size, seed, kind)[0]
    )
    assert values <= most, f"eigenvalues differ from NumPy's by a relative {values:.2g}, over {most:g}"
    assert spaces <= most, f"eigenspaces differ from NumPy's by {spaces:.2g}, weighted by their gaps, over {most:g}"


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".3, table 8",
    adaptive=True,
    max_time_s=POINT_LIMIT_S,
    filter=axis(*FILTERS),
    covariance=axis(*COVARIANCES),
    transform=axis(*RUN_TIME_TRANSFORMS),
    memory=axis("device", "host"),
    size=SIZE_AXIS,
)
def mnf(device: Device, filter: str, covariance: str, transform: str, memory: str, size: str) -> Work:
    """Time of the whole MNF rotation by the host's clock: noise, two covariances, eigenproblems on the host, 32 components.

    The cube and its components lie in the device's memory; with memory=host in the host's, and transfers over pageable memory
    are included. Programs are built beforehand: T depends on the data, so it cannot be an array of program scope. The noise and
    all sums are compared exactly, eigenvalues and eigenspaces with those of a generalised eigenproblem, and the components
    within the error bound of sums in float.
    """
    numpy_mnf.use_one_blas_thread()
    shape = require_size(size)
    kind = FILTERS[filter].kind
    reference_rotation(shape, device.seed, kind)
    cube = cube_of(shape, device.seed)
    components = min(COMPONENTS, shape.bands)
    x, f, z = (device.alloc(n) for n in (cube.nbytes, 2 * cube.nbytes, 4 * components * shape.pixels))
    matrix = device.alloc(4 * shape.bands * components)
    device.upload(x, cube)
    noise = covariance_launches(device, covariance, f, np.dtype(np.int16), shape)
    data = covariance_launches(device, covariance, x, np.dtype(np.uint8), shape)
    first = (filter_launch(device, filter, x, f, shape), *noise.commands, *data.commands)
    blank = np.zeros((components, shape.bands), np.float32)
    last = transform_launch(device, transform, x, matrix, blank, z, shape)
    held: dict[str, Any] = {}

    def rotate() -> None:
        held.clear()
        if memory == "host":
            device.upload(x, cube)
        device.run(first)
        sums = [part.read(device) for part in (noise, data)]
        try:
            found = numpy_mnf.solve_rotation(*(numpy_mnf.covariance(*part, shape.pixels) for part in sums))
        except ValueError as error:  # NumPy's sums have a solution
            raise AssertionError(f"the sums are not those of NumPy: {error}") from error
        held["rotation"], held["matrix"] = found, np.ascontiguousarray(found.vectors[:, :components].T, np.float32)
        device.upload(matrix, held["matrix"])
        device.run([last])
        if memory == "host":
            held["components"] = device.download(z, np.float32, components * shape.pixels)

    def check() -> None:
        check_noise(device, f, shape, device.seed, kind)
        for part, of in ((noise, kind), (data, "data")):
            check_sums(device, part, shape, device.seed, of)
        check_rotation(held["rotation"], shape, device.seed, kind, MAX_EXACT_DEVIATION)
        brought = held["components"] if memory == "host" else device.download(z, np.float32, components * shape.pixels)
        check_components(brought, held["matrix"].T, shape, device.seed)

    outputs = ((f, 2 * cube.nbytes), *noise.outputs, *data.outputs, (z, 4 * components * shape.pixels))
    outputs += ((x, cube.nbytes),) if memory == "host" else ()  # its transfer is part of the pass
    return Work((Call(rotate),), ops=1, outputs=outputs, check=check, clock="host", notes=_notes(first))


def _notes(commands: tuple[Launch, ...]) -> tuple[str, ...]:
    return (f"{len(commands) + 1} launches, four read-backs of sums and one write of T, all within the time",)
