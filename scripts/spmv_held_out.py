"""Matrices that spmv's rule for formats was not written after, for spmv_structures.py; the package does not have them.

`random_N` has 16 random columns per row, of which there are so many that x takes N KiB: where gathering leaves the caches.
`uneven_N` has near columns in rows whose lengths no core predicts, of N entries on average. `reach_N` has such rows of 16, with
columns within N of the diagonal: how many lines neighbours gather from while a unit's own cache keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clmembench.benchmarks.spmv.matrices import Csr, stencil_27

MEAN_ROWS = (4, 8, 16, 32, 64, 128)
REACHES = tuple(2**k for k in range(6, 16))
X_KIB = tuple(2**k for k in range(6, 18))  # 64 KiB to 128 MiB


def random_columns(rng: np.random.Generator, most: int, x_kib: int = 1024, width: int = 16) -> Csr:
    """Rows of `width` random columns, so many that x takes x_kib KiB: up to 10,000,000 entries."""
    rows, columns = min(10_000_000, most) // width, 128 * x_kib
    chosen = np.sort(rng.integers(0, columns - width + 1, (rows, width), dtype=np.int32), axis=1)
    return _of_rows(rng, columns, np.full(rows, width), (chosen + np.arange(width, dtype=np.int32)).ravel())


def gaussian_band(rng: np.random.Generator, most: int) -> Csr:
    """Rows of 1 to 30 entries whose distance from the diagonal is normal, of 30,000 columns: up to 800,000 rows."""
    rows = min(800_000, most // 16)
    lengths = rng.integers(1, 31, rows)
    row = np.repeat(np.arange(rows), lengths)
    return _of_rows(rng, rows, lengths, (row + np.rint(rng.normal(0, 30_000, len(row))).astype(np.int64)) % rows)


def uneven_rows(rng: np.random.Generator, most: int, mean: int = 16, reach: int = 2000) -> Csr:
    """Rows of 1 to 2 * mean - 1 entries, at random, within `reach` columns of the diagonal: up to 10,000,000 entries."""
    rows = min(10_000_000, most) // mean
    lengths = rng.integers(1, 2 * mean, rows)
    row = np.repeat(np.arange(rows), lengths)
    return _of_rows(rng, rows, lengths, (row + rng.integers(-reach, reach + 1, len(row))) % rows)


def small_world(rng: np.random.Generator, most: int) -> Csr:
    """A ring of up to 1,000,000 vertices with their 12 nearest, of which a tenth is rewired (Watts & Strogatz 1998)."""
    rows = min(1_000_000, most // 12)
    near = (np.arange(rows)[:, None] + np.array([*range(-6, 0), *range(1, 7)])) % rows
    rewired = rng.random(near.shape) < 0.1
    return _of_rows(rng, rows, np.full(rows, 12), np.where(rewired, rng.integers(0, rows, near.shape), near).ravel())


def words(rng: np.random.Generator, most: int) -> Csr:
    """Documents of 5 to 95 words out of 200,000, of which word k is used in proportion to 1/k: up to 300,000 documents."""
    rows, columns = min(300_000, most // 50), 200_000
    lengths = rng.integers(5, 96, rows)
    share = np.cumsum(1 / np.arange(1, columns + 1))
    word = np.searchsorted(share, rng.random(int(lengths.sum())) * share[-1])
    return _of_rows(rng, columns, lengths, rng.permutation(columns)[word])


def permutation(rng: np.random.Generator, most: int) -> Csr:
    """One entry in each row and each column, at random: up to 4,000,000 rows."""
    rows = min(4_000_000, most)
    return _of_rows(rng, rows, np.ones(rows, np.int64), rng.permutation(rows))


def shuffled_mesh(rng: np.random.Generator, most: int) -> Csr:
    """stencil_27 with its cells numbered at random."""
    a = stencil_27(rng, most)
    cells = rng.permutation(a.rows)
    lengths = np.zeros(a.rows, np.int64)
    lengths[cells] = a.row_lengths
    order = np.argsort(np.repeat(cells, a.row_lengths), kind="stable")
    return _of_rows(rng, a.rows, lengths, cells[a.indices[order]])


def saddle(rng: np.random.Generator, most: int) -> Csr:
    """A saddle-point system: up to 600,000 rows of 7 near the diagonal, a third as many that tie 9 random ones, and back."""
    first = min(600_000, most // 13)
    tied = first // 3
    near = np.clip(np.arange(first)[:, None] + np.array([-800, -40, -1, 0, 1, 40, 800]), 0, first - 1)
    ties = rng.integers(0, first, (tied, 9))
    row = np.concatenate([np.repeat(np.arange(first), 7), ties.ravel(), np.repeat(np.arange(tied) + first, 9)])
    column = np.concatenate([near.ravel(), np.repeat(np.arange(tied) + first, 9), ties.ravel()])
    order = np.argsort(row, kind="stable")
    return _of_rows(rng, first + tied, np.bincount(row, minlength=first + tied), column[order])


def dense_blocks(rng: np.random.Generator, most: int) -> Csr:
    """Dense blocks of 1 to 120 rows on the diagonal: up to 12,000,000 entries."""
    sizes = rng.integers(1, 121, max(1, min(12_000_000, most) // 4900))
    begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
    lengths = np.repeat(sizes, sizes)
    ends = np.cumsum(lengths)
    column = np.arange(ends[-1]) - np.repeat(ends - lengths - begins, lengths)
    return _of_rows(rng, len(lengths), lengths, column)


def offsets(rng: np.random.Generator, most: int) -> Csr:
    """The same 9 offsets, drawn at random, from each row, cyclically: up to 1,500,000 rows."""
    rows = min(1_500_000, most // 9)
    columns = (np.arange(rows)[:, None] + rng.choice(rows, 9, replace=False)) % rows
    return _of_rows(rng, rows, np.full(rows, 9), columns.ravel())


def hubs(rng: np.random.Generator, most: int) -> Csr:
    """2 to 14 entries in each row, of which three in ten are in one of 100 columns and the others within 60,000."""
    rows = min(1_500_000, most // 8)
    lengths = rng.integers(2, 15, rows)
    row = np.repeat(np.arange(rows), lengths)
    near = (row + rng.integers(-60_000, 60_001, len(row))) % rows
    return _of_rows(rng, rows, lengths, np.where(rng.random(len(row)) < 0.3, rng.integers(0, 100, len(row)), near))


def staircase(rng: np.random.Generator, most: int) -> Csr:
    """Rows of 1, 2, ... 60, 1, 2, ... consecutive columns from the diagonal on: up to 500,000 rows."""
    rows = min(500_000, most // 31)
    lengths = np.arange(rows) % 60 + 1
    ends = np.cumsum(lengths)
    return _of_rows(rng, rows + 60, lengths, np.arange(ends[-1]) + np.repeat(np.arange(rows) - ends + lengths, lengths))


def bipartite(rng: np.random.Generator, most: int) -> Csr:
    """Rows of some 20 random entries (Poisson) in four times as many columns: up to 700,000 rows."""
    rows = min(700_000, most // 21)
    lengths = rng.poisson(20, rows)
    return _of_rows(rng, 4 * rows, lengths, rng.integers(0, 4 * rows, lengths.sum()))


def clusters(rng: np.random.Generator, most: int) -> Csr:
    """Blocks of 64 x 64 on the diagonal, three in ten of whose entries are there: up to 12,000,000 entries."""
    rows = min(12_000_000, most) // 1229 * 64
    filled = rng.random((rows, 64)) < 0.3
    column = (np.arange(rows) // 64 * 64)[:, None] + np.arange(64)
    return _of_rows(rng, rows, filled.sum(axis=1), column[filled])


def _of_rows(rng: np.random.Generator, columns: int, lengths: npt.NDArray[Any], column: npt.NDArray[Any]) -> Csr:
    """Rows of these lengths and columns, row after row, which are sorted within rows; some may be there twice."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    keys = np.repeat(np.arange(len(lengths), dtype=np.int64) << 32, lengths) | column
    keys.sort()
    return Csr(len(lengths), columns, ends.astype(np.int32), keys.astype(np.int32), rng.uniform(0.5, 1.5, len(keys)))


STRUCTURES = (gaussian_band, small_world, words, permutation, shuffled_mesh, saddle, dense_blocks)
LATER = (offsets, hubs, staircase, bipartite, clusters)  # added when the rule stood; staircase changed it
HELD_OUT: Mapping[str, Callable[[np.random.Generator, int], Csr]] = {
    **{of.__name__: of for of in (*STRUCTURES, *LATER)},
    **{f"random_{kib}": partial(random_columns, x_kib=kib) for kib in X_KIB},
    **{f"uneven_{mean}": partial(uneven_rows, mean=mean) for mean in MEAN_ROWS},
    **{f"reach_{reach}": partial(uneven_rows, reach=reach) for reach in REACHES},
}
