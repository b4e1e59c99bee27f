"""MNF on the host alone by NumPy: on all cores with its BLAS, and serially without a BLAS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clmembench.benchmarks import axis, benchmark
from clmembench.model import Array, Call, Device, Work
from clmembench.studies.mnf.benchmarks import numpy_mnf
from clmembench.studies.mnf.benchmarks.cubes import CubeSize
from clmembench.studies.mnf.benchmarks.mnf import POINT_LIMIT_S, check_rotation, reference_rotation
from clmembench.studies.mnf.benchmarks.mnf_kernels import COMPONENTS
from clmembench.studies.mnf.benchmarks.mnf_steps import (
    SIZE_AXIS,
    SOURCE,
    TIME,
    check_components,
    cube_of,
    noise_of,
    require_size,
)

HOST_STEPS = ("whole", "filter", "convert", "covariance", "eigen", "transform")
LIBRARY_FILTERS: Mapping[str, numpy_mnf.FilterName] = {"blas": "mean", "serial": "median"}
MAX_DOUBLE_DEVIATION = 1e-5  # of eigenvalues and eigenspaces of a pipeline in double
# with products summed in float: rounding of data, thousands of times the noise, enters the noise's eigenvalues
MAX_SINGLE_DEVIATION = 1e-3
CHUNK_PIXELS = 4096  # pixels of all bands that a thread takes at a time: megabytes that fit its cache
MIN_BLOCK_VALUES = 1 << 22  # values of whole bands at a time: threads wait for the interpreter after each operation


class HostPipeline:
    """The steps of MNF, each of which uses the results of earlier ones. All arrays that they fill are allocated beforehand."""

    def __init__(self, cube: Array) -> None:
        self.cube, self.flat = cube, cube.reshape(len(cube), -1)
        self.noise = np.empty(cube.shape, np.int16)
        self.covariances: list[npt.NDArray[np.float64]] = []
        self.components = min(COMPONENTS, len(cube))

    def eigen(self) -> None:
        self.rotation = numpy_mnf.solve_rotation(*self.covariances)

    @property
    def vectors(self) -> Array:
        """The transformation T, shape (bands, components)."""
        return self.rotation.vectors[:, : self.components]


class SerialPipeline(HostPipeline):
    """The median by vector operations and loops in double, all on one thread."""

    def __init__(self, cube: Array) -> None:
        super().__init__(cube)
        self.doubles = np.empty(self.flat.shape)
        self.z = np.empty((self.components, self.flat.shape[1]))

    def filter(self) -> None:
        numpy_mnf.filter_noise(self.cube, "median", self.noise)

    def covariance(self) -> None:
        self.covariances = [self._products(values) for values in (self.noise.reshape(self.flat.shape), self.flat)]

    def _products(self, values: Array) -> npt.NDArray[np.float64]:
        """Products of each two bands i <= j, as in the kernels."""
        np.subtract(values, values.mean(axis=1)[:, None], out=self.doubles)
        found = np.zeros((len(values), len(values)))
        for band, own in enumerate(self.doubles):
            found[band, band:] = np.einsum("p,jp->j", own, self.doubles[band:])
        return np.asarray((found + np.triu(found, 1).T) / (values.shape[1] - 1))

    def transform(self) -> None:
        np.copyto(self.doubles, self.flat)
        np.einsum("kb,bp->kp", self.vectors.T, self.doubles, out=self.z)


@dataclass(frozen=True, slots=True)
class ThreadScratch:
    """Arrays of one thread: padded bands, sums of three values, sums of nine, and products of all bands."""

    rim: npt.NDArray[np.int16]
    rows: npt.NDArray[np.int16]
    usual: npt.NDArray[np.int16]
    product: npt.NDArray[np.float32]
    sums: npt.NDArray[np.float64]


class ParallelPipeline(HostPipeline):
    """The mean filter, and the BLAS in float: a thread on each core takes bands or pixels, and BLAS calls use one thread.

    A BLAS uses one thread for a product of so few rows, however many pixels they have.
    """

    def __init__(self, cube: Array) -> None:
        super().__init__(cube)
        bands, height, width = cube.shape
        pixels, threads = self.flat.shape[1], numpy_mnf.available_cpus()
        self.floats = [np.empty(self.flat.shape, np.float32) for _ in range(2)]  # of the noise and of the data
        self.means = np.zeros((2, bands))
        self.z = np.empty((self.components, pixels), np.float32)
        self.group = min(-(-MIN_BLOCK_VALUES // pixels), -(-bands // threads))
        self.chunk = min(CHUNK_PIXELS, -(-pixels // threads))
        self.chunks = -(-pixels // self.chunk)
        self.scratch = [
            ThreadScratch(
                np.empty((self.group, height + 2, width + 2), np.int16),
                np.empty((self.group, height, width + 2), np.int16),
                np.empty((self.group, height, width), np.int16),
                np.empty((bands, bands), np.float32),
                np.empty((2, bands, bands)),
            )
            for _ in range(threads)
        ]
        self.pool = ThreadPoolExecutor(threads)

    def share(self, work: Callable[[int, ThreadScratch], None], tasks: int) -> None:
        """Runs numbered tasks on all threads, each of which takes the next task that is left."""
        left = iter(range(tasks))  # a step under the interpreter's lock, so that each number is taken once

        def take(scratch: ThreadScratch) -> None:
            for task in left:
                work(task, scratch)

        list(self.pool.map(take, self.scratch))

    def by_bands(self, work: Callable[[slice, ThreadScratch], None]) -> None:
        group = self.group
        self.share(lambda task, scratch: work(slice(task * group, (task + 1) * group), scratch), -(-len(self.flat) // group))

    def filter(self) -> None:
        self.by_bands(self._filter)

    def _filter(self, bands: slice, scratch: ThreadScratch) -> None:
        values = self.cube[bands]
        rim, rows, usual = (part[: len(values)] for part in (scratch.rim, scratch.rows, scratch.usual))
        rim[:, 1:-1, 1:-1] = values
        rim[:, 0], rim[:, -1] = rim[:, 1], rim[:, -2]  # edges and corners repeat
        rim[:, :, 0], rim[:, :, -1] = rim[:, :, 1], rim[:, :, -2]
        np.add(rim[:, :-2], rim[:, 1:-1], out=rows)
        np.add(rows, rim[:, 2:], out=rows)
        np.add(rows[:, :, :-2], rows[:, :, 1:-1], out=usual)
        np.add(usual, rows[:, :, 2:], out=usual)
        np.add(usual, np.int16(4), out=usual)
        whole = usual.view(np.uint16)  # no value is negative, and NumPy divides unsigned numbers faster
        np.floor_divide(whole, np.uint16(9), out=whole)
        np.subtract(rim[:, 1:-1, 1:-1], usual, out=self.noise[bands])

    def convert(self) -> None:
        """Converts to float and subtracts the mean: a BLAS has no integers."""
        self.by_bands(self._convert)

    def _convert(self, bands: slice, scratch: ThreadScratch) -> None:
        for made, means, values in zip(self.floats, self.means, (self.noise, self.cube), strict=True):
            floats = made.reshape(values.shape)[bands]
            np.copyto(floats, values[bands])
            lines = floats.sum(axis=2)  # exact in float up to 65,793 pixels
            mean = (lines.sum(axis=1, dtype=np.float64) / self.flat.shape[1]).astype(np.float32)
            np.subtract(floats, mean[:, None, None], out=floats)
            means[bands] = mean

    def covariance(self) -> None:
        for scratch in self.scratch:
            scratch.sums[:] = 0
        self.share(self._products, 2 * self.chunks)
        sums = sum(scratch.sums for scratch in self.scratch)
        self.covariances = list(np.asarray(sums) / (self.flat.shape[1] - 1))

    def _products(self, task: int, scratch: ThreadScratch) -> None:
        """The product of a matrix and its transpose; NumPy recognises it and has the BLAS compute half of it (syrk)."""
        chunk, of = divmod(task, 2)
        part = self.floats[of][:, chunk * self.chunk : (chunk + 1) * self.chunk]
        np.matmul(part, part.T, out=scratch.product)
        np.add(scratch.sums[of], scratch.product, out=scratch.sums[of])

    def transform(self) -> None:
        """Transforms the centred data and their means."""
        rotation = np.ascontiguousarray(self.vectors.T, np.float32)
        offset = (self.vectors.T @ self.means[1]).astype(np.float32)

        def part(task: int, scratch: ThreadScratch) -> None:
            pixels = slice(task * self.chunk, (task + 1) * self.chunk)
            np.matmul(rotation, self.floats[1][:, pixels], out=self.z[:, pixels])
            np.add(self.z[:, pixels], offset[:, None], out=self.z[:, pixels])

        self.share(part, self.chunks)


@lru_cache(maxsize=len(LIBRARY_FILTERS))
def host_pipeline(library: str, size: CubeSize, seed: int) -> HostPipeline:
    """The program after its first pass, which makes the inputs of every step. All points in a process use its arrays: gigabytes
    of a large cube."""
    host = (ParallelPipeline if library == "blas" else SerialPipeline)(cube_of(size, seed))
    for name in steps_of(library):
        getattr(host, name)()
    return host


def steps_of(library: str) -> tuple[str, ...]:
    """The steps of a program, in order."""
    return tuple(step for step in HOST_STEPS[1:] if (library, step) != ("serial", "convert"))


@benchmark(
    TIME,
    suite="compute",
    source=SOURCE + ".1 and 8.4",
    adaptive=True,
    max_time_s=POINT_LIMIT_S,
    where=lambda info, library, step, size: step == "whole" or step in steps_of(library),
    library=axis(*LIBRARY_FILTERS),
    step=axis(*HOST_STEPS),
    size=SIZE_AXIS,
)
def mnf_host(device: Device, library: str, step: str, size: str) -> Work:
    """Time of MNF on the host alone, whole and by steps, by NumPy: with its BLAS on all cores, and serially without it.

    blas: the mean filter by vector operations of NumPy, data and noise converted to float and centred (a separate step),
    symmetric products and the transformation by the BLAS in float; one thread a core, each with its own bands or pixels.
    serial: the median filter by vector operations on one thread, products i <= j and the transformation by loops in double
    (einsum), as in a program without a library. Both leave eigenproblems to SciPy on one thread, and allocate no large arrays.
    Eigenvalues and eigenspaces are compared with those from exact sums, within 1e-5 in double and 1e-3 in float; all components
    are compared with those in double from the same T, within the error bound of their sums.
    """
    numpy_mnf.use_one_blas_thread()
    shape = require_size(size)
    kind = LIBRARY_FILTERS[library]
    reference_rotation(shape, device.seed, kind)
    host: Any = host_pipeline(library, shape, device.seed)
    steps = [getattr(host, name) for name in steps_of(library)]

    def whole() -> None:
        for each in steps:
            each()

    def check() -> None:
        wanted = noise_of(shape, device.seed, kind)
        assert all(numpy_mnf.on_all_cpus(np.array_equal, host.noise, wanted)), "the noise is not that of the reference"
        check_rotation(
            host.rotation, shape, device.seed, kind, MAX_SINGLE_DEVIATION if library == "blas" else MAX_DOUBLE_DEVIATION
        )
        if library == "blas":  # besides the products, T and the centred data are rounded, and the part of the means is added
            bound, beside = numpy_mnf.float_bound(shape.bands + 4), np.abs(host.vectors).T @ host.means[1]
        else:  # in double, like the expected result
            bound, beside = 2 * numpy_mnf.float_bound(shape.bands + 1, 2.0**-53), None
        check_components(host.z, host.vectors, shape, device.seed, bound, beside)

    return Work((Call(whole if step == "whole" else getattr(host, step)),), ops=1, check=check, clock="host")
