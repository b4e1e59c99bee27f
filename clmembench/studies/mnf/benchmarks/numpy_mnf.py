"""The maximum noise fraction rotation in NumPy and SciPy: the expected result of each step, and the comparison of results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
FilterName = Literal["median", "mean"]
Result = TypeVar("Result")

CHUNK_PIXELS = 1 << 12  # pixels of all bands that a thread processes in double at a time: megabytes that fit its cache
TASKS_PER_THREAD = 4  # so that threads end together where CPUs differ in speed
MIN_RELATIVE_EIGENVALUE = 1e-9  # of the noise, over the largest: smaller ones count as zero
FLOAT_ROUNDING_UNIT = 2.0**-24  # half the distance between neighbouring floats at 1


@dataclass(frozen=True, slots=True)
class Rotation:
    """Eigenvalues, shape (bands,), largest first, and the transformation T, shape (bands, bands), one column for each.

    An eigenvalue is the variance of a component over that of its noise: 1 + the signal-to-noise ratio, if the noise estimate
    holds. T^T C_N T is the identity.
    """

    values: Doubles
    vectors: Doubles


def filter_noise(cube: Array, kind: FilterName, out: npt.NDArray[np.int16] | None = None) -> npt.NDArray[np.int16]:
    """Step S1: each value minus the median or the mean, rounded to the nearest integer, of the 3 x 3 pixels around it.

    `cube` is uint8 of shape (bands, height, width). Beyond an edge lies the nearest pixel of the image. The result, stored in
    `out` if given, has the same shape and is exact: differences of 8-bit values need 9 bits.
    """
    found = np.empty(cube.shape, np.int16) if out is None else out
    for band in range(len(cube)):
        filter_band(cube[band], kind, found[band])
    return found


def filter_band(values: Array, kind: FilterName, out: npt.NDArray[np.int16]) -> None:
    """`filter_noise` of one band, shape (height, width)."""
    out[...] = values.astype(np.int16) - (_median(values) if kind == "median" else _mean(values))


def _mean(values: Array) -> Array:
    padded = np.pad(values.astype(np.uint16), 1, mode="edge")
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return np.asarray((rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] + 4) // 9).view(np.int16)  # at most 255


# exchanges that move the median of nine to element 4 (Smith 1996; Devillard 1998)
MEDIAN_NETWORK = (
    (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3),
    (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2),
)  # fmt: skip


def _median(values: Array) -> Array:
    padded = np.pad(values, 1, mode="edge")
    height, width = values.shape
    near = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    for a, b in MEDIAN_NETWORK:
        near[a], near[b] = np.minimum(near[a], near[b]), np.maximum(near[a], near[b])
    return near[4]


def exact_sums(bands: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sums of each band, shape (bands,), and of the products of each two, shape (bands, bands), of 8- or 16-bit integers of
    shape (bands, pixels). They are exact: all partial sums are whole numbers below 2**53, in any order of addition."""
    flat = bands.reshape(len(bands), -1)

    def part(pixels: slice) -> tuple[Doubles, Doubles]:
        totals, products = np.zeros(len(flat)), np.zeros((len(flat), len(flat)))
        for doubles, _ in chunks_in_double(flat, pixels):
            totals += doubles.sum(axis=1)
            products += doubles @ doubles.T
        return totals, products

    totals, products = (np.rint(sum(each)).astype(np.int64) for each in zip(*by_pixels(part, flat.shape[1]), strict=True))
    return totals, products


def chunks_in_double(flat: Array, pixels: slice) -> Iterator[tuple[Doubles, slice]]:
    """Chunks of these pixels of all bands in double, shape (bands, pixels), and which they are; all chunks use one array."""
    doubles = np.empty((len(flat), min(CHUNK_PIXELS, pixels.stop - pixels.start)))
    for first in range(pixels.start, pixels.stop, CHUNK_PIXELS):
        chunk = slice(first, min(first + CHUNK_PIXELS, pixels.stop))
        part = doubles[:, : chunk.stop - first]
        np.copyto(part, flat[:, chunk])
        yield part, chunk


def on_all_cpus(work: Callable[..., Result], *items: Iterable[Any]) -> list[Result]:
    """`work` for each item, as `map`, by a thread for each CPU: NumPy's operations and its BLAS release the interpreter's lock.
    The threads end with it, and none spins."""
    with ThreadPoolExecutor(available_cpus()) as pool:
        return list(pool.map(work, *items))


def by_pixels(work: Callable[[slice], Result], pixels: int) -> list[Result]:
    """The results of `work` for consecutive ranges of pixels, on all CPUs."""
    each = max(CHUNK_PIXELS, -(-pixels // (TASKS_PER_THREAD * available_cpus())))
    return on_all_cpus(work, [slice(first, min(first + each, pixels)) for first in range(0, pixels, each)])


def covariance(totals: Array, products: Array, pixels: int) -> Doubles:
    """Equations (1) and (4) from exact sums: (pixels * products - totals totals^T) / (pixels * (pixels - 1)).

    The numerator is exact in 64 bits for up to 2**23 pixels, so that each element has only the two roundings of one division.
    """
    exact = pixels * products.astype(np.int64) - np.outer(totals.astype(np.int64), totals.astype(np.int64))
    return np.asarray(exact / (float(pixels) * (pixels - 1)), np.float64)


@cache
def _blas_pools() -> ThreadpoolController:
    """The thread pools of this process's BLAS, cached, since finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401 - brings one of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def use_one_blas_thread() -> None:
    """Makes the BLAS use one thread a call in this process from now on.

    Idle BLAS threads spin for a while after each call, which disturbs the kernels of a CPU device and the next step; and on 16
    cores matrices of some hundred rows sometimes took ten times as long.
    """
    _blas_pools().limit(limits=1)


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def solve_rotation(noise_covariance: Doubles, data_covariance: Doubles) -> Rotation:
    """Steps S3 and S5 to S7, equations (2), (3) and (5) to (7): whitens the noise, then diagonalises the whitened covariance.

    Raises ValueError where some combination of bands has no noise, so that its noise fraction is undefined.
    """
    from scipy.linalg import eigh

    values, vectors = eigh(noise_covariance)
    if not values[0] > MIN_RELATIVE_EIGENVALUE * values[-1]:
        raise ValueError("a combination of bands has no noise, so that it has no noise fraction")
    whitening = vectors / np.sqrt(values)
    adjusted = whitening.T @ data_covariance @ whitening
    values, vectors = eigh((adjusted + adjusted.T) / 2)
    return Rotation(values[::-1].copy(), (whitening @ vectors)[:, ::-1].copy())


def reference_solution(noise_covariance: Doubles, data_covariance: Doubles) -> Rotation:
    """The rotation by another method, one generalised eigenproblem C_D v = value C_N v (by Cholesky's factorisation, not
    whitening)."""
    from scipy.linalg import eigh

    values, vectors = eigh(data_covariance, noise_covariance)
    return Rotation(values[::-1].copy(), vectors[:, ::-1].copy())


def deviation(found: Rotation, wanted: Rotation, noise_covariance: Doubles) -> tuple[float, float]:
    """The distance of two rotations: the largest relative difference of eigenvalues, and of eigenspaces.

    Vectors are not compared: their signs are free, and those of equal eigenvalues may be any basis of one space. Both are
    orthonormal with respect to the noise's covariance, so element (i, j) of wanted^T C_N found is the cosine between two of
    them. For i and j apart it is the part of one eigenspace that leaked into another, and it is weighted by the gap between
    their eigenvalues over the larger of these: a relative error e of a matrix turns spaces by about e over it (Davis & Kahan
    1970).
    """
    values = float(np.max(np.abs(found.values - wanted.values) / np.abs(wanted.values)))
    cosines = wanted.vectors.T @ noise_covariance @ found.vectors
    larger = np.maximum.outer(np.abs(wanted.values), np.abs(wanted.values))
    gaps = np.abs(np.subtract.outer(wanted.values, wanted.values)) / larger
    leaked = float(np.max(np.abs(cosines) * gaps))
    # the rest of each vector, which lies in other eigenspaces: found is orthonormal too
    kept = float(np.max(np.abs(np.sum(cosines**2, axis=0) - 1)))
    return values, max(leaked, kept)


def float_bound(bands: int, unit: float = FLOAT_ROUNDING_UNIT) -> float:
    """The bound of the relative error of a sum of `n` products in float, relative to the sum of their absolute values, in any
    order, with products rounded or not (Higham 2002, section 3.1): n u / (1 - n u) with u = 2**-24, or `unit` for another
    format."""
    return bands * unit / (1 - bands * unit)
