"""MNF as a whole: on a device with its eigenproblems on the host, and on the host alone by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from clmembench import mnf as numpy_mnf
from clmembench.benchmarks import axis, benchmark
from clmembench.benchmarks.mnf_kernels import COMPONENTS, COVARIANCES, FILTERS, TRANSFORMS, covarying, filtering, transforming
from clmembench.benchmarks.mnf_steps import SIZE, SOURCE, TIME, check_components, check_noise, cube_of, noise_of, sized, sums_of
from clmembench.cubes import Size
from clmembench.model import Array, Call, Device, Launch, Skip, Work

EXACT = 1e-8  # of eigenvalues and eigenspaces, where both sides have them from exact sums
DOUBLE = 1e-5  # of a pipeline in double on the host
# of one whose products a BLAS adds in float: rounding of the data, thousands of times the noise, is in the noise's eigenvalues
SINGLE = 5e-3
PATIENCE_S = 60.0
AS_ARRAY = {variant for variant, (place, _) in TRANSFORMS.items() if place == 2}
RUN_TIME = tuple(variant for variant in TRANSFORMS if variant not in AS_ARRAY)


@lru_cache(maxsize=2)
def covariances_of(size: Size, seed: int, kind: numpy_mnf.Filter) -> tuple[Array, Array]:
    """Covariance of the noise and of the data by NumPy, from exact sums."""
    return (
        numpy_mnf.covariance(*sums_of(size, seed, kind), size.pixels),
        numpy_mnf.covariance(*sums_of(size, seed, "data"), size.pixels),
    )


@lru_cache(maxsize=2)
def reference_of(size: Size, seed: int, kind: numpy_mnf.Filter) -> numpy_mnf.Rotation:
    """The rotation by NumPy and SciPy, as one generalised eigenproblem. Raises Skip where it is not defined."""
    noise, data = covariances_of(size, seed, kind)
    try:
        numpy_mnf.rotation(noise, data)
    except ValueError as error:
        raise Skip(str(error)) from error
    return numpy_mnf.reference(noise, data)


def check_rotation(found: numpy_mnf.Rotation, size: Size, seed: int, kind: numpy_mnf.Filter, most: float) -> None:
    """Compare eigenvalues and eigenspaces with those of NumPy in double."""
    values, spaces = numpy_mnf.deviation(found, reference_of(size, seed, kind), covariances_of(size, seed, kind)[0])
    assert values <= most, f"eigenvalues differ from NumPy's by {values:.2g} of them, over {most:g}"
    assert spaces <= most, f"eigenspaces differ from NumPy's by {spaces:.2g}, weighted by their gaps, over {most:g}"


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".3, table 8",
    planned=True,
    patience_s=PATIENCE_S,
    filter=axis(*FILTERS),
    covariance=axis(*COVARIANCES),
    transform=axis(*RUN_TIME),
    memory=axis("device", "host"),
    size=SIZE,
)
def mnf(device: Device, filter: str, covariance: str, transform: str, memory: str, size: str) -> Work:
    """Time of the whole of MNF by the host's clock: noise, two covariances, eigenproblems on the host, 32 components.

    The cube and its components lie in the device's memory; with memory=host in the host's, and their way there and back over
    pageable memory is timed, too. Programs are built before: T comes from the data, so that it cannot be an array of a program.
    The noise and all sums are compared exactly, eigenvalues and eigenspaces with those of a generalised eigenproblem, and the
    components within the bound of sums in float.
    """
    shape = sized(size)
    kind = FILTERS[filter].kind
    reference_of(shape, device.seed, kind)
    cube = cube_of(shape, device.seed)
    components = min(COMPONENTS, shape.bands)
    x, f, z = (device.alloc(n) for n in (cube.nbytes, 2 * cube.nbytes, 4 * components * shape.pixels))
    matrix = device.alloc(4 * shape.bands * components)
    device.upload(x, cube)
    noise = covarying(device, covariance, f, np.dtype(np.int16), shape)
    data = covarying(device, covariance, x, np.dtype(np.uint8), shape)
    first = (filtering(device, filter, x, f, shape), *noise.commands, *data.commands)
    blank = np.zeros((shape.bands, components), np.float32)
    last = transforming(device, transform, x, matrix, blank, z, shape)
    held: dict[str, Any] = {}

    def rotate() -> None:
        if memory == "host":
            device.upload(x, cube)
        device.run(first)
        sums = [part.read(device) for part in (noise, data)]
        found = numpy_mnf.rotation(*(numpy_mnf.covariance(*part, shape.pixels) for part in sums))
        held["rotation"], held["matrix"] = found, np.ascontiguousarray(found.vectors[:, :components], np.float32)
        device.upload(matrix, held["matrix"])
        device.run([last])
        if memory == "host":
            held["components"] = device.download(z, np.float32, components * shape.pixels)

    def check() -> None:
        check_noise(device, f, shape, device.seed, kind)
        for part, of in ((noise, kind), (data, "data")):
            wanted = sums_of(shape, device.seed, of)
            same = [np.array_equal(a, b) for a, b in zip(part.read(device), wanted, strict=True)]
            assert all(same), f"sums of the {of} are not those of NumPy"
        check_rotation(held["rotation"], shape, device.seed, kind, EXACT)
        check_components(device, z, held["matrix"], shape, device.seed)

    outputs = ((f, 2 * cube.nbytes), *noise.outputs, *data.outputs, (z, 4 * components * shape.pixels))
    return Work((Call(rotate),), ops=1, outputs=outputs, check=check, clock="host", notes=_notes(first))


def _notes(commands: tuple[Launch, ...]) -> tuple[str, ...]:
    return (f"{len(commands) + 1} launches, two waits, four read-backs of sums and one write of T, all within the time",)


# ---- on the host alone -------------------------------------------------------------------------------------------------


def _centred(bands: Array, dtype: type[np.floating[Any]]) -> Array:
    flat = bands.reshape(len(bands), -1)
    means = flat.mean(axis=1, dtype=np.float64).astype(dtype)
    return np.asarray(np.subtract(flat, means[:, None], dtype=dtype))


def _by_blas(bands: Array) -> Array:
    """NumPy sees that both factors are one matrix, and has the BLAS make half of the product (syrk)."""
    return (bands @ bands.T) / np.float32(bands.shape[1] - 1)


def _by_loop(bands: Array) -> Array:
    centred = _centred(bands, np.float64)
    return np.asarray(np.einsum("ik,jk->ij", centred, centred) / (centred.shape[1] - 1))


STEPS = ("whole", "filter", "convert", "covariance", "eigen", "transform")
LIBRARIES: Mapping[str, numpy_mnf.Filter] = {"blas": "mean", "serial": "median"}


class _Host:
    """The steps of MNF in NumPy, each of which takes what the ones before it left in `held`."""

    def __init__(self, cube: Array, library: str) -> None:
        self.library = library
        self.held: dict[str, Any] = {"cube": cube}

    def filter(self) -> None:
        self.held["noise"] = numpy_mnf.noise(self.held["cube"], LIBRARIES[self.library])

    def convert(self) -> None:
        """To float, less the mean: what a BLAS needs, which knows no integers."""
        if self.library == "blas":
            for name in ("cube", "noise"):
                self.held[f"{name} in float"] = _centred(self.held[name], np.float32)

    def covariance(self) -> None:
        blas, held = self.library == "blas", self.held
        held["C"] = [_by_blas(held[f"{n} in float"]) if blas else _by_loop(held[n]) for n in ("noise", "cube")]

    def eigen(self) -> None:
        self.held["rotation"] = numpy_mnf.rotation(*(c.astype(np.float64) for c in self.held["C"]))

    def transform(self) -> None:
        cube, vectors = self.held["cube"], self.held["rotation"].vectors[:, :COMPONENTS]
        flat = cube.reshape(len(cube), -1)
        if self.library == "blas":
            means = flat.mean(axis=1, dtype=np.float64)
            z = vectors.T.astype(np.float32) @ self.held["cube in float"]
            self.held["Z"] = z + (vectors.T @ means).astype(np.float32)[:, None]
        else:
            self.held["Z"] = np.einsum("kb,bp->kp", vectors.T, flat.astype(np.float64))

    def whole(self) -> None:
        for step in STEPS[1:]:
            getattr(self, step)()


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".1 and 8.4",
    planned=True,
    patience_s=PATIENCE_S,
    where=lambda info, library, step, size: (library, step) != ("serial", "convert"),
    library=axis(*LIBRARIES),
    step=axis(*STEPS),
    size=SIZE,
)
def mnf_host(device: Device, library: str, step: str, size: str) -> Work:
    """Time of MNF on the host alone, whole and by steps: by NumPy with its BLAS on all cores, and serially without one.

    blas: the mean filter by vector operations of NumPy, data and noise converted to float and centred (a step of its own),
    symmetric products and the transformation by the BLAS in float. serial: the median filter by vector operations on one
    thread, products and transformation by loops in double (einsum), as a program without a library has them. Both leave
    eigenproblems to SciPy. Eigenvalues and eigenspaces are compared with those from exact sums: within 1e-5 in double, 5e-3 in
    float.
    """
    shape = sized(size)
    kind = LIBRARIES[library]
    reference_of(shape, device.seed, kind)
    host = _Host(cube_of(shape, device.seed), library)
    host.whole()  # every step has what it takes
    run: Callable[[], None] = getattr(host, step)

    def check() -> None:
        wanted = noise_of(shape, device.seed, kind)
        assert np.array_equal(host.held["noise"], wanted), "the noise is not that of the reference"
        most = SINGLE if library == "blas" else DOUBLE
        check_rotation(host.held["rotation"], shape, device.seed, kind, most)
        vectors = host.held["rotation"].vectors[:, :COMPONENTS]
        flat = cube_of(shape, device.seed).reshape(shape.bands, -1)[:, : numpy_mnf.CHUNK]
        terms = np.max(np.abs(vectors).T @ flat, axis=1, keepdims=True)
        off = np.abs(host.held["Z"][:, : numpy_mnf.CHUNK] - vectors.T @ flat) > DOUBLE * 10 * terms
        assert not off.any(), f"{off.sum()} components differ from those in double"

    return Work((Call(run),), ops=1, check=check, clock="host")
