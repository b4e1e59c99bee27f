"""Elements of the matrices that `dgemm` multiplies, and Freivalds' check of the product in exact whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from clmembench.benchmarks.stream import input_value
from clmembench.model import Array, Buffer, Device

SEEDS = (0x51ED270B, 0xC2B2AE35)
MAX_ELEMENT = 4  # elements are -4 to 4: sums are exact in float up to n = 2**20, in double always
FREIVALDS_VECTORS = 4  # of Freivalds' check
MAX_WHOLE_CHECK_SIZE = 512  # up to this n the whole product is compared too
HOST_CHUNK_ELEMENTS = 1 << 22  # elements that the host processes at a time


def element(index: Array, seed: int) -> Array:
    """The element at each index (row * n + column), as dgemm_init.cl computes it: a whole number in float64. Shape of
    `index`."""
    return input_value(index, seed, 2 * MAX_ELEMENT + 1).astype(np.float64) - (MAX_ELEMENT + 1)


def _times_vectors(seed: int, n: int, vectors: Array) -> Array:
    """The exact product of the matrix of that seed, generated some rows at a time, and `vectors`, shape (n, any)."""
    step = max(1, HOST_CHUNK_ELEMENTS // n)

    def part(first: int) -> Array:
        return np.asarray(element(np.arange(first * n, min(first + step, n) * n), seed).reshape(-1, n) @ vectors)

    with ThreadPoolExecutor() as pool:  # one thread takes seconds for n = 8192
        return np.concatenate(list(pool.map(part, range(0, n, step))))


@lru_cache(maxsize=4)  # one size is prepared in several configurations
def expected_products(n: int, seeds: tuple[int, int]) -> tuple[Array, Array]:
    """Random vectors R of whole numbers from 1 to 16 (a 0 would hide an element), shape (n, FREIVALDS_VECTORS), and A (B R)."""
    vectors = np.random.default_rng(seeds).integers(1, 17, (n, FREIVALDS_VECTORS)).astype(np.float64)
    return vectors, _times_vectors(seeds[0], n, _times_vectors(seeds[1], n, vectors))


@lru_cache(maxsize=2)
def product(n: int, seeds: tuple[int, int]) -> Array:
    """The product A B, shape (n, n)."""
    return _times_vectors(seeds[0], n, element(np.arange(n * n), seeds[1]).reshape(n, n))


def check_product(
    device: Device, c: Buffer, scalar: np.dtype[np.generic], n: int, columns: int, seeds: tuple[int, int]
) -> Callable[[], None]:
    """Freivalds' check of C, whose rows have `columns` elements: C R = A (B R), in exact whole numbers, since |A (B R)| is at
    most 16 n * 16 n, far below 2**53."""

    def check() -> None:
        vectors, want = expected_products(n, seeds)
        step = max(1, HOST_CHUNK_ELEMENTS // columns)
        for first in range(0, n, step):
            count = min(step, n - first)
            stored = device.download(c, scalar, count * columns, first * columns * scalar.itemsize)
            found = stored.reshape(count, columns)[:, :n].astype(np.float64)
            with np.errstate(all="ignore"):  # memory that was never written may hold anything
                rows = np.flatnonzero((found @ vectors != want[first : first + count]).any(axis=1))
            assert rows.size == 0, f"{rows.size} rows of the product are wrong, the first one row {first + rows[:1].sum()}"
            if n <= MAX_WHOLE_CHECK_SIZE:
                assert np.array_equal(found, product(n, seeds)[first : first + count]), "elements of the product are wrong"

    return check
