"""Conversion of CSR on the host to the formats of spmv, and its time: ELL, SELL-C-sigma, blocks and shares of CSR, slabs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clmembench.benchmarks.spmv import matrices
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.model import Array, Value

ELL_ALIGNMENT_ROWS = 32  # so that entries of ELL start at whole lines
MAX_PADDING_RATIO = 3.0  # stored entries of ELL and SELL over nonzeros
RUN_ENTRIES = 256  # entries of a slab that share a base column
LANES_SHIFT = 28  # as in spmv_adaptive.cl
BARRIER_COST_STEPS = 12  # a barrier per round takes as long as this many steps of a sum
MIN_PARTED_TILES = 8  # longer rows are divided among work-groups
MIN_PARTED_SHARES = 2  # longer rows are divided among work-items
MIN_RUN_ENTRIES = 8  # of a mean row of consecutive columns: a vector
RUN_FLAG = 1 << 31  # as in spmv_shares.cl
SLAB_TOLERANCE = 0.01  # of the entries of the largest slab, over the mean
BLOCK_ENTRIES = 1 << 16  # converted at a time: a core's second cache holds them
SUM_ENTRIES = 64  # entries of a row per sum, in a slab that many work-items share

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedMatrix:
    """A matrix in the format of a kernel.

    It has the arrays in the order of the kernel's arguments, definitions of its build, the number of stored entries (including
    padding), the number of items that the kernel loops over, and the host's seconds for the conversion.
    """

    arrays: tuple[Array, ...]
    defines: Mapping[str, Value]
    entries: int
    items: int
    seconds: float = 0.0
    parts: int = 0  # number of parts of rows that several work-groups share
    implied: int = 0  # columns that the kernel need not read, since they follow others
    # row, first part, number of parts of each such row
    parted: Array = field(default_factory=lambda: np.zeros((0, 4), np.uint32))


class UnsuitedFormat(Exception):
    """A matrix that a format cannot store; the message gives the reason."""


CONVERSIONS = matrices.Kept[ConvertedMatrix](lambda one: sum(array.nbytes for array in one.arrays))


def _convert_once(convert: Callable[..., ConvertedMatrix]) -> Callable[..., ConvertedMatrix]:
    """Keeps conversions for further points, with their times, which are notes and not measurements."""

    def timed(*args: Any) -> ConvertedMatrix:
        def make() -> ConvertedMatrix:
            started = time.perf_counter()
            stored = convert(*args)
            return replace(stored, seconds=time.perf_counter() - started)

        return CONVERSIONS.get((convert.__name__, *args), make)

    return timed


@_convert_once
def ell(a: Csr) -> ConvertedMatrix:
    """Padded rows (Bell & Garland 2009): entry k of row r at [k, r] of (width, pitch); padding is 0 times x[0]."""
    lengths, position = a.row_lengths, np.arange(a.row_lengths.max())[:, None]
    shape = len(position), -(-a.rows // ELL_ALIGNMENT_ROWS) * ELL_ALIGNMENT_ROWS
    indices, values = np.zeros(shape, np.int32), np.zeros(shape)
    for rows in _slices(a.rows, len(position)):
        values[:, rows], indices[:, rows] = _entries(a, a.indptr[:-1][rows] + position, lengths[rows] > position)
    return ConvertedMatrix((values, indices), {"WIDTH": shape[0], "PITCH": shape[1]}, values.size, a.rows)


@_convert_once
def sell(a: Csr, chunk: int, sigma: int) -> ConvertedMatrix:
    """SELL-C-sigma (Kreutzer et al. 2014): rows sorted by length within windows of `sigma`, in chunks of `chunk` rows.

    Each chunk is padded to its longest row. Raises UnsuitedFormat if the padding is excessive. Arrays: values and indices, with
    entry k of slot s at (begins[s // chunk] + k) * chunk + s % chunk; begins (chunks + 1,); order (slots,), the row of each
    slot, where numbers from `rows` on are no rows.
    """
    slots = -(-a.rows // chunk) * chunk
    lengths, begins_of = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    lengths[: a.rows], begins_of[: a.rows] = a.row_lengths, a.indptr[:-1]
    order = np.arange(slots)
    if sigma > 1:
        longest = int(lengths.max())
        order = np.argsort(order // sigma * (longest + 1) + longest - lengths, kind="stable")
        lengths, begins_of = lengths[order], begins_of[order]
    begins = _row_pointers(lengths.reshape(-1, chunk).max(axis=1))
    # a single chunk is exempt: padding of few rows is negligible
    refuse_padded("SELL", int(begins[-1] - lengths.max()) * chunk, a)
    indices, values = np.empty((begins[-1], chunk), np.int32), np.empty((begins[-1], chunk))
    of = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    position = np.arange(len(of)) - begins[of]
    for lines in _slices(len(of), chunk):
        at = begins_of.reshape(-1, chunk)[of[lines]] + position[lines, None]
        exists = lengths.reshape(-1, chunk)[of[lines]] > position[lines, None]
        values[lines], indices[lines] = _entries(a, at, exists)
    arrays = (values.ravel(), indices.ravel(), begins.astype(np.int32), order.astype(np.int32))
    return ConvertedMatrix(arrays, {"CHUNK": chunk, "SORTED": sigma > 1}, values.size, slots)


@_convert_once
def blocks(a: Csr, work_group: int, per: int) -> ConvertedMatrix:
    """CSR and its blocks (Greathouse & Daga 2014; Daga & Greathouse 2015).

    A block has whole rows of up to work_group * per entries; a longer row is a block by itself, and a much longer one is
    divided into parts. Blocks are (blocks, 4) of uint32: see spmv_adaptive.cl. The number of lanes per row minimises the steps
    of a block, given its longest row.
    """
    tile = work_group * per
    ends, begins, row = a.indptr.astype(np.int64), [0], np.arange(a.rows)
    fits = np.searchsorted(ends, ends[:-1] + tile, side="right") - 1
    following = np.minimum(np.maximum(fits, row + 1), row + 4 * work_group).tolist()  # where a block that begins at a row ends
    while begins[-1] < a.rows:
        begins.append(following[begins[-1]])
    first, rows = np.array(begins[:-1]), np.diff(begins)
    entries, longest = ends[first + rows] - ends[first], np.maximum.reduceat(a.row_lengths, first)
    steps = []
    for shift in range(min(6, work_group.bit_length())):
        rounds = -(-rows * (1 << shift) // work_group)
        steps.append(
            rounds * (BARRIER_COST_STEPS if shift else 2)
            + (longest + (rounds - 1) * entries / rows) / (1 << shift)
            + rounds * shift
        )
    shift = np.argmin(steps, axis=0)
    table = np.stack([first, rows, ends[first], entries | shift << LANES_SHIFT], axis=1)
    most = MIN_PARTED_TILES * tile
    return _with_parts(a, table, np.flatnonzero(entries > most), most, {"PER": per})


@_convert_once
def shares(a: Csr, count: int) -> ConvertedMatrix:
    """CSR and its shares: about `count` of equally many rows and entries together, as on the merge path of Merrill & Garland
    2016; a row longer than MIN_PARTED_SHARES of them is divided into parts. Shares are (shares, 4) of uint32: see
    spmv_shares.cl. A share whose rows have consecutive columns, and enough of them, is marked by RUN_FLAG."""
    ends, path = a.indptr.astype(np.int64), a.indptr + np.arange(a.rows + 1, dtype=np.int64)
    share = max(1, -(-int(path[-1]) // count))
    long = np.flatnonzero(a.row_lengths > MIN_PARTED_SHARES * share)
    even = np.searchsorted(path, np.arange(0, path[-1], share))
    begins = np.unique(np.concatenate([even, long, long + 1, [0, a.rows]]))
    first, rows = begins[:-1], np.diff(begins)
    table = np.stack([first, rows, ends[first], ends[first + rows] - ends[first]], axis=1)
    stored = _with_parts(a, table, np.searchsorted(first, long), share, {})
    *arrays, table = stored.arrays
    begin, entries = table[:, 2].astype(np.int64), table[:, 3].astype(np.int64)
    begins_row = np.zeros(a.nonzeros, bool)
    begins_row[ends[:-1][a.row_lengths > 0]] = True
    row_begins = _row_pointers(begins_row)
    breaks = _row_pointers((np.diff(a.indices, prepend=0) != 1) & ~begins_row)
    # rows with entries; a part need not begin with one
    rows = np.maximum(row_begins[begin + entries] - row_begins[begin], 1)
    consecutive = breaks[begin + entries] == breaks[np.minimum(begin + 1, begin + entries)]
    runs = consecutive & (entries >= MIN_RUN_ENTRIES * rows)
    table[runs, 3] |= np.uint32(RUN_FLAG)
    # side by side, since the columns of long rows are far apart, where no prefetcher looks for them
    first_columns = _nonempty(a.indices)[np.minimum(ends[:-1], max(0, a.nonzeros - 1))]
    return replace(stored, arrays=(*arrays, first_columns, table), implied=int((entries - rows)[runs].sum()))


def _with_parts(a: Csr, table: Ints, long: Ints, most: int, defines: Mapping[str, Value]) -> ConvertedMatrix:
    """CSR with this table of blocks, of which those at `long`, each of one row, are replaced by parts of at most `most`
    entries."""
    ends, first = a.indptr.astype(np.int64), table[:, 0]
    counts = -(-(ends[first[long] + 1] - ends[first[long]]) // most)
    parted = np.stack([first[long], np.cumsum(counts) - counts, counts, counts], axis=1)
    parts = np.repeat(long, counts)
    number = np.arange(len(parts)) - np.repeat(parted[:, 1], counts)
    pieces = np.zeros((len(parts), 4), np.int64)
    pieces[:, 0], pieces[:, 2] = np.arange(len(parts)), ends[first[parts]] + number * most
    pieces[:, 3] = np.minimum(ends[first[parts] + 1] - pieces[:, 2], most)
    table = np.concatenate([pieces, np.delete(table, long, axis=0)]).astype(np.uint32)
    arrays = (a.values, a.indices, a.indptr, table)
    return ConvertedMatrix(arrays, defines, a.nonzeros, len(table), parts=len(parts), parted=parted.astype(np.uint32))


@_convert_once
def slabs(a: Csr, least: int, most_sums: int, shared: bool) -> ConvertedMatrix:
    """Slabs of rows with about equally many entries, sorted by column: the blocks of Buluç et al. 2009 as wide as the matrix.

    The number of slabs is a multiple of `least` if there are enough rows. A slab has at most `most_sums` sums: one per row, and
    further ones for rows with over SUM_ENTRIES entries if a work-group shares the sums. Arrays: values; words, with a sum in
    the bits above a column within its run; the base column of each run; the first run, row and further sum of each slab (slabs
    + 1,); the row of each further sum within its slab. Raises UnsuitedFormat if 32 bits cannot hold a word.
    """
    lengths = a.row_lengths.astype(np.int64)
    sums = np.maximum(1, -(-lengths // SUM_ENTRIES)) if shared else np.ones(a.rows, np.int64)
    before = _row_pointers(sums)
    begins = _slab_begins(a.indptr, before, least, most_sums)
    rows, room = np.diff(begins), np.diff(before[begins])
    bits = 32 - max(1, int(room.max() - 1).bit_length())
    counts = np.diff(a.indptr[begins])
    runs = _row_pointers(-(-counts // RUN_ENTRIES))
    values, words = np.zeros(runs[-1] * RUN_ENTRIES), np.zeros(runs[-1] * RUN_ENTRIES, np.uint32)
    bases = np.zeros(runs[-1], np.int32)
    for slab, (first, end) in enumerate(itertools.pairwise(begins)):  # one at a time keeps to the caches
        entries = slice(a.indptr[first], a.indptr[end])
        column, position = _sort_by_column(a.indices[entries])
        row = np.repeat(np.arange(end - first), lengths[first:end])[position]
        # a row's entries alternate between its sums; the first sum has the row's index, the others follow those of all rows
        place = row.astype(np.uint32)
        several = np.flatnonzero((sums[first:end] > 1)[row])
        of = row[several] + first
        turn = (position[several] + entries.start - a.indptr[of]) % sums[of]
        further = end - first + before[of] - before[first] - row[several] - 1 + turn
        place[several] = np.where(turn == 0, row[several], further)
        bases[runs[slab] : runs[slab + 1]] = column[::RUN_ENTRIES]  # a run's first entry is never padding
        column -= np.repeat(column[::RUN_ENTRIES], RUN_ENTRIES)[: len(column)]
        if column.max(initial=0) >> bits:
            raise UnsuitedFormat(
                f"{RUN_ENTRIES} entries of a slab span {column.max()} columns, more than the {bits} bits beside a row's hold"
            )
        to = slice(runs[slab] * RUN_ENTRIES, runs[slab] * RUN_ENTRIES + len(column))
        values[to] = a.values[entries][position]
        words[to] = place << np.uint32(bits) | column.astype(np.uint32)
    extras = np.repeat(np.arange(a.rows), sums - 1) - np.repeat(begins[:-1], room - rows)
    small: list[Array] = [bases, runs, begins, _row_pointers(room - rows), extras]
    arrays = (values, words, *(_nonempty(array.astype(np.int32)) for array in small))
    return ConvertedMatrix(arrays, {"COLUMN_BITS": bits, "RUN": RUN_ENTRIES, "SUMS": int(room.max())}, values.size, len(rows))


def refuse_padded(format: str, stored: int, a: Csr) -> None:
    """Raises UnsuitedFormat if a format would store far more than the nonzeros: its result would describe its padding."""
    if stored > MAX_PADDING_RATIO * a.nonzeros or stored >= 2**31:
        rows = f"the longest row has {a.row_lengths.max()}, the mean {a.nonzeros / a.rows:.3g}"
        raise UnsuitedFormat(f"{format} would store {stored / max(1, a.nonzeros):.3g} times the nonzeros: {rows}")


def _slab_begins(indptr: npt.NDArray[np.int32], before: Ints, least: int, most_sums: int) -> Ints:
    """The first row of each slab, and one past the last: a multiple of `least` slabs, or less where rows are few.

    The multiple is the smallest with which no slab has more than `most_sums` sums. Of the largest slab, for which the others
    wait, the entries are nearly as few as whole rows allow. Raises UnsuitedFormat if a row has too many sums.
    """
    if most_sums < 1:
        raise UnsuitedFormat("there is no local memory for a slab's sums")
    if np.diff(before).max() > most_sums:
        raise UnsuitedFormat(f"a slab would have over {most_sums} sums, the most that local memory holds")
    ends, longest = indptr.astype(np.int64), int(np.diff(indptr).max(initial=1))
    for slabs in itertools.count(least * max(1, -(-int(before[-1]) // (least * most_sums))), least):
        mean = -(-int(ends[-1]) // slabs)
        low, high = max(mean, longest), mean + longest
        if _filled_slabs(ends, before, 1, high, most_sums).size - 1 <= slabs:
            break
    while high - low > max(1, mean * SLAB_TOLERANCE):
        middle = (low + high) // 2
        if _filled_slabs(ends, before, 1, middle, most_sums).size - 1 <= slabs:
            high = middle
        else:
            low = middle
    even = _filled_slabs(ends, before, slabs, high, most_sums)
    return even if even.size - 1 <= slabs else _filled_slabs(ends, before, 1, high, most_sums)


def _filled_slabs(ends: Ints, before: Ints, shares: int, most_entries: int, most_sums: int) -> Ints:
    """The first row of each slab, and one past the last. Each slab takes its share of the entries that are left, and those
    after the last share all, in whole rows within the two limits."""
    begins, rows = [0], len(ends) - 1
    while begins[-1] < rows:
        first, left = begins[-1], shares - len(begins) + 1
        share = np.searchsorted(ends, ends[first] + -(-(ends[-1] - ends[first]) // left)) if left > 1 else rows
        fits = np.searchsorted(ends, ends[first] + most_entries, side="right") - 1
        close = np.searchsorted(before, before[first] + most_sums, side="right") - 1
        begins.append(int(min(max(share, first + 1), fits, close)))
    return np.array(begins)


def _sort_by_column(indices: npt.NDArray[np.int32]) -> tuple[Ints, Ints]:
    """The columns of a slab's entries in ascending order, and the place of each in CSR, ascending in a column."""
    keys = indices.astype(np.int64) << 32
    keys += np.arange(len(keys))
    keys.sort()
    return keys >> 32, keys & 0xFFFFFFFF


def _slices(count: int, entries_each: int) -> Iterator[slice]:
    """Consecutive slices of `count` rows or lines; those of a slice have about BLOCK_ENTRIES entries."""
    step = max(1, BLOCK_ENTRIES // max(1, entries_each))
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


def _entries(a: Csr, at: npt.NDArray[Any], exists: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Values and columns of the entries with these indices in CSR; 0 where there is none."""
    values, indices = a.values.take(at, mode="clip"), a.indices.take(at, mode="clip")
    return (values, indices) if exists.all() else (np.where(exists, values, 0), np.where(exists, indices, 0))


def _row_pointers(counts: npt.NDArray[Any]) -> Ints:
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends


def _nonempty(array: Array) -> Array:
    """The array, or one element if it is empty: a device's buffer cannot be empty."""
    return array if len(array) else np.zeros(1, array.dtype)
