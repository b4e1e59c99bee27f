"""The steps of MNF as kernels, in the versions of Fang et al.: noise filter, covariance, transformation."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Array, Axis, Device, DeviceInfo, Metric, Skip, Value, Work
from clmembench.studies.mnf.benchmarks import cubes, numpy_mnf
from clmembench.studies.mnf.benchmarks.cubes import CubeSize
from clmembench.studies.mnf.benchmarks.mnf_kernels import (
    COMPONENTS,
    COVARIANCES,
    FILTERS,
    TRANSFORMS,
    CovarianceSums,
    covariance_launches,
    filter_launch,
    transform_launch,
)

TIME = Metric("time", "ms", "ops", "cost", "lower", scale=1e-6)
SOURCE = "Fang et al. 2017, section 8"
PAPER_SIZE = CubeSize(614, 1087, 224)  # image 1 of the paper
POINT_LIMIT_S = 20.0
LINES_PER_CORE = 2  # of a cube on a CPU
MIN_LINES = 4
SMALL_CUBE_BANDS = 17  # bands of a cube that is too small for 224


def default_size(info: DeviceInfo) -> CubeSize:
    """The default cube: image 1 of the paper; on CPUs only as many of its lines as take some tenths of a second; fewer lines if
    its noise exceeds half of the device's largest buffer; with --size, a cube of that many bytes."""
    if info.array_bytes is not None:
        bands = PAPER_SIZE.bands if info.array_bytes >= PAPER_SIZE.bands << 10 else SMALL_CUBE_BANDS
        pixels = max(2 * bands + 30, info.array_bytes // bands)
        width = max(3, int((pixels * 9 / 16) ** 0.5))
        return CubeSize(width, pixels // width, bands)
    lines = min(PAPER_SIZE.height, LINES_PER_CORE * info.compute_units) if info.has_cpu_cores else PAPER_SIZE.height
    most = info.max_alloc_bytes // 2 // (2 * PAPER_SIZE.bands * PAPER_SIZE.width)
    return CubeSize(PAPER_SIZE.width, max(MIN_LINES, min(lines, most)), PAPER_SIZE.bands)


def _sizes(info: DeviceInfo) -> tuple[str, ...]:
    return (str(default_size(info)),)


def is_size(value: Value) -> bool:
    """Whether a value is a cube's size. Raises ValueError as cubes.parse_cube_size does."""
    return isinstance(value, str) and bool(cubes.parse_cube_size(value))


def require_size(text: str) -> CubeSize:
    """The parsed size. Raises Skip for other text."""
    try:
        return cubes.parse_cube_size(text)
    except ValueError as error:
        raise Skip(str(error)) from error


@lru_cache(maxsize=2)  # the serial program on the host has a smaller one
def cube_of(size: CubeSize, seed: int) -> Array:
    """The cube of a size, made once in a process."""
    return cubes.make_cube(size, seed)


@lru_cache(maxsize=2)
def noise_of(size: CubeSize, seed: int, kind: numpy_mnf.FilterName) -> Array:
    """The noise of the cube by NumPy."""
    cube = cube_of(size, seed)
    noise = np.empty(cube.shape, np.int16)
    numpy_mnf.on_all_cpus(lambda band: numpy_mnf.filter_band(cube[band], kind, noise[band]), range(size.bands))
    return noise


@lru_cache(maxsize=3)
def sums_of(size: CubeSize, seed: int, of: str) -> tuple[Array, Array]:
    """Exact sums of the cube ("data"), or of its noise by "median" or "mean"."""
    return numpy_mnf.exact_sums(
        cube_of(size, seed) if of == "data" else noise_of(size, seed, "median" if of == "median" else "mean")
    )


def check_noise(device: Device, noise: object, size: CubeSize, seed: int, kind: numpy_mnf.FilterName) -> None:
    """Compares all of the device's noise with NumPy's, exactly."""
    wanted = noise_of(size, seed, kind)

    def count_wrong(found: Array, band: Array) -> int:
        return int(np.count_nonzero(found != band.ravel()))

    # one thread compares a band while the next one is downloaded
    parts = (device.download(noise, np.int16, size.pixels, 2 * size.pixels * band) for band in range(size.bands))
    for band, wrong in enumerate(numpy_mnf.on_all_cpus(count_wrong, parts, wanted)):
        assert wrong == 0, f"{wrong} of {size.pixels} values of band {band} are not those of the {kind} filter in NumPy"


def check_sums(device: Device, sums: CovarianceSums, size: CubeSize, seed: int, of: str) -> None:
    """Compares all sums of the data, or of the noise by "median" or "mean", with NumPy's, exactly."""
    for found, wanted, what in zip(sums.read(device), sums_of(size, seed, of), ("bands", "products"), strict=True):
        wrong = int(np.count_nonzero(found != wanted))
        assert wrong == 0, f"{wrong} sums of {what} of the {of} are not those of NumPy"


def check_components(
    found: Array, rotation: Array, size: CubeSize, seed: int, bound: float | None = None, beside: Array | None = None
) -> None:
    """Compares all components, shape (components, pixels), with those in double from the same T, shape (bands, components).

    They may differ by `bound` times the sum of their terms' absolute values, plus `beside`, shape (components,); the default
    bound is that of sums in float.
    """
    flat = cube_of(size, seed).reshape(size.bands, -1)
    bound = numpy_mnf.float_bound(size.bands + 1) if bound is None else bound
    found = found.reshape(rotation.shape[1], -1)
    more = 0.0 if beside is None else beside[:, None]
    both = np.concatenate([rotation, np.abs(rotation)], axis=1).T.astype(np.float64)

    def count_off(pixels: slice) -> int:
        off = 0
        for doubles, chunk in numpy_mnf.chunks_in_double(flat, pixels):
            wanted, most = np.split(both @ doubles, 2)
            off += int(np.count_nonzero(~(np.abs(found[:, chunk] - wanted) <= bound * (most + more))))  # NaN counts as wrong
        return off

    off = sum(numpy_mnf.by_pixels(count_off, size.pixels))
    assert not off, f"{off} components differ from those in double by over {bound:.2g} of their terms' sum"


SIZE_AXIS = Axis(_sizes, accepts=is_size)


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".2.1, table 5",
    adaptive=True,
    max_time_s=POINT_LIMIT_S,
    variant=axis(*FILTERS),
    size=SIZE_AXIS,
)
def mnf_filter(device: Device, variant: str, size: str) -> Work:
    """Time of the noise filter of MNF, by version.

    V0 computes the median in a private array that is sorted; V0n by exchanges with constant indices, so that the array can lie
    in registers (L3). V1 computes the mean, another filter. V2 stages pieces of rows in local memory (S5); V3 stages tiles with
    their border, so that each staged value is used up to nine times (S6). The noise, of 16 bits, is compared exactly.
    """
    numpy_mnf.use_one_blas_thread()
    shape = require_size(size)
    cube = cube_of(shape, device.seed)
    kind = FILTERS[variant].kind
    source, noise = device.alloc(cube.nbytes), device.alloc(2 * cube.nbytes)
    device.upload(source, cube)
    launch = filter_launch(device, variant, source, noise, shape)
    return Work(
        commands=(launch,),
        ops=1,
        nbytes=3 * cube.nbytes,
        outputs=((noise, 2 * cube.nbytes),),
        check=lambda: check_noise(device, noise, shape, device.seed, kind),
        facts=device.compiled(launch.kernel),
    )


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".2.2, table 6",
    adaptive=True,
    max_time_s=POINT_LIMIT_S,
    variant=axis(*COVARIANCES),
    of=axis("noise", "data"),
    size=SIZE_AXIS,
)
def mnf_covariance(device: Device, variant: str, of: str, size: str) -> Work:
    """Time of the sums of a covariance matrix, by version, of the noise (16 bits) and of the data (8 bits).

    V0 has one work-group for each pair of bands, with a tree of partial sums in global memory; V1 has the tree in local memory
    (S5); V2 keeps the running sum in a variable, as compilers do for V0 and V1 by themselves; V3 has one work-item for each
    pair, and tiles of both bands in local memory (S5, S6); V4 pads their rows against bank conflicts (S1). All sums are 64-bit
    integers and are compared exactly. The sums of single bands are included, in every version alike."""
    numpy_mnf.use_one_blas_thread()
    shape = require_size(size)
    rows = cube_of(shape, device.seed) if of == "data" else noise_of(shape, device.seed, "mean")
    source = device.alloc(rows.nbytes)
    device.upload(source, rows)
    sums = covariance_launches(device, variant, source, rows.dtype, shape)
    kind = "data" if of == "data" else "mean"
    return Work(
        commands=sums.commands,
        ops=1,
        outputs=sums.outputs,
        check=lambda: check_sums(device, sums, shape, device.seed, kind),
    )


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".2.3, table 7",
    adaptive=True,
    max_time_s=POINT_LIMIT_S,
    variant=axis(*TRANSFORMS),
    size=SIZE_AXIS,
)
def mnf_transform(device: Device, variant: str, size: str) -> Work:
    """Time of the transformation of MNF into 32 components, by version.

    V0 reads T from global memory; V1 from constant memory (C2), as an array of program scope with its values in the text; V2
    also stages X in local memory (S5, S6). V1p and V2p access constant memory through a pointer, as a program that is built
    once must. Sums are in float, and are compared with those in double within n u / (1 - n u) of the sum of their terms'
    absolute values.
    """
    numpy_mnf.use_one_blas_thread()
    shape = require_size(size)
    cube = cube_of(shape, device.seed)
    components = min(COMPONENTS, shape.bands)
    values = components * shape.pixels
    rotation = np.random.default_rng([device.seed, 1]).standard_normal((components, shape.bands)).astype(np.float32)
    source, matrix, z = device.alloc(cube.nbytes), device.alloc(rotation.nbytes), device.alloc(4 * values)
    device.upload(source, cube)
    device.upload(matrix, rotation)
    return Work(
        commands=(transform_launch(device, variant, source, matrix, rotation, z, shape),),
        ops=1,
        flops=2 * shape.bands * values,
        outputs=((z, 4 * values),),
        check=lambda: check_components(device.download(z, np.float32, values), rotation.T, shape, device.seed),
    )
