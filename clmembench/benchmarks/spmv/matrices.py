"""Sparse matrices: generated ones of known structure, and Matrix Market files; pure, no device."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from clmembench import sanitize

SUFFIXES = (".mtx", ".mtx.gz", ".mm")
MOST = 2**31 - 1  # rows, columns and nonzeros that 32-bit indices can count
FEWEST = 1000  # that still show a generated matrix's structure
CELLS = (60, 220, 85)  # of SPE10's second model
BAND = 13  # on each side of the main diagonal
UNIFORM_ROW = 16
PARETO, SHORTEST, LONGEST = 1.2, 3, 1024  # lengths of power_law's rows: exponent, minimum, maximum
SHRINKS_MOST = 1032  # deflate's largest compression factor
HEADER_BYTES = 16 << 20  # with comments: collections have some hundred lines of them
ENTRY_BYTES = 256  # of an entry's line: two numbers of 10 digits and one of 25, with room


@dataclass(frozen=True, slots=True, eq=False)
class Csr:
    """A sparse matrix by rows: row r has values[indptr[r]:indptr[r+1]] in the columns indices[the same].

    indptr int32 (rows + 1,), indices int32 (nonzeros,), ascending within a row; values float64 (nonzeros,). Explicit zeros of a
    file are kept, so "nonzeros" are the stored entries.
    """

    rows: int
    columns: int
    indptr: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]

    @property
    def nonzeros(self) -> int:
        """Stored entries."""
        return len(self.values)

    @property
    def row_lengths(self) -> npt.NDArray[np.int32]:
        """Stored entries of each row, shape (rows,)."""
        return np.diff(self.indptr)


@dataclass(frozen=True, slots=True)
class Outline:
    """Claims of the header of a Matrix Market file; `nonzeros` is an upper bound."""

    rows: int
    columns: int
    nonzeros: int
    field: str = "real"  # real, integer or pattern


def product(matrix: Csr, x: npt.NDArray[np.float64], absolute: bool = False) -> npt.NDArray[np.float64]:
    """A x, shape (rows,), by SciPy; `absolute`: |A| |x|, the scale of its rounding errors."""
    from scipy.sparse import csr_array

    values, x = (np.abs(matrix.values), np.abs(x)) if absolute else (matrix.values, x)
    y: npt.NDArray[np.float64] = csr_array((values, matrix.indices, matrix.indptr), shape=(matrix.rows, matrix.columns)) @ x
    return y


# ---- generated ------------------------------------------------------------------------------------------------------


def generate(name: str, seed: int, most: int = MOST) -> Csr:
    """The generated matrix of that name (see GENERATORS), in its usual size or with at most `most` nonzeros.

    The same matrix for the same arguments. Raises ValueError where `most` leaves no matrix of that structure.
    """
    if most < FEWEST:
        raise ValueError(f"{most} nonzeros are too few for a matrix of this structure: raise --size")
    return GENERATED[name](np.random.default_rng(seed), most)


def reservoir(rng: np.random.Generator, most: int = MOST) -> Csr:
    """The pressure system of a reservoir: 7-point stencil on SPE10's 60 x 220 x 85 cells, log-normal permeabilities.

    1,122,000 rows, 7,780,000 nonzeros; symmetric, diagonally dominant. Neighbours exchange by the harmonic mean of their
    permeabilities, and the diagonal is the sum of what a row exchanges and a small compressibility. Source: Christie & Blunt
    2001 for the cells; Razzaq et al. 2016, section V-B, for its use.
    """
    scale = min(1.0, (most / (7 * np.prod(CELLS, dtype=float))) ** (1 / 3))
    nx, ny, nz = shape = tuple(max(2, int(n * scale)) for n in CELLS)
    rows = int(np.prod(shape))
    resistance = np.exp(-1.5 * rng.standard_normal((nz, ny, nx)))
    # one column for each neighbour in ascending order of its number, the row itself in the middle
    values = np.zeros((nz, ny, nx, 7))
    for axis, (lower, upper) in enumerate([(0, 6), (1, 5), (2, 4)]):
        near, far = (tuple(part if a == axis else slice(None) for a in range(3)) for part in (slice(1, None), slice(None, -1)))
        exchange = -2 / (resistance[near] + resistance[far])
        values[(*near, lower)] = exchange
        values[(*far, upper)] = exchange
    flat = values.reshape(rows, 7)
    exists = flat != 0
    flat[:, 3] = 1e-3 - flat.sum(axis=1)
    exists[:, 3] = True
    offsets = np.array([-nx * ny, -nx, -1, 0, 1, nx, nx * ny], dtype=np.int32)
    columns = np.arange(rows, dtype=np.int32)[:, None] + offsets
    return Csr(rows, rows, _ends(exists.sum(axis=1)), columns[exists], flat[exists])


def banded(rng: np.random.Generator, most: int = MOST) -> Csr:
    """A full band of 27 diagonals: 1,000,000 rows, 26,999,818 nonzeros; no row depends on a far one."""
    rows = min(1_000_000, most // (2 * BAND + 1))
    first = np.arange(rows) - BAND
    begins, ends = np.maximum(first, 0), np.minimum(first + 2 * BAND + 1, rows)
    lengths = ends - begins
    indptr = _ends(lengths)
    columns = np.arange(indptr[-1], dtype=np.int32)
    columns -= np.repeat((indptr[:-1] - begins).astype(np.int32), lengths)
    return Csr(rows, rows, indptr, columns, rng.uniform(0.5, 1.5, len(columns)))


def uniform(rng: np.random.Generator, most: int = MOST) -> Csr:
    """16 distinct random columns a row: 1,000,000 rows, 16,000,000 nonzeros; no locality in x beyond chance."""
    rows = min(1_000_000, most // UNIFORM_ROW)
    width = min(UNIFORM_ROW, rows)
    columns = rng.integers(0, rows - width + 1, (rows, width), dtype=np.int32)
    columns.sort(axis=1)
    columns += np.arange(width, dtype=np.int32)  # distinct numbers from ascending ones
    return Csr(rows, rows, _ends(np.full(rows, width)), columns.ravel(), rng.uniform(0.5, 1.5, columns.size))


def power_law(rng: np.random.Generator, most: int = MOST) -> Csr:
    """Rows whose lengths follow Pareto's law (exponent 1.2, 3 to 1024): 1,048,576 rows, about 13.5 million nonzeros.

    Columns are random, ascending within a row; the few that a long row meets twice are two stored entries.
    """
    rows = 1 << 20
    lengths = np.minimum(SHORTEST * (1 + rng.pareto(PARETO, rows)), LONGEST).astype(np.int64)
    rows = int(np.searchsorted(lengths.cumsum(), most, side="right"))
    lengths = np.minimum(lengths[:rows], rows)
    indptr = _ends(lengths)
    keys = np.repeat(np.arange(rows, dtype=np.int64) << 32, lengths)
    keys += rng.integers(0, rows, len(keys), dtype=np.int32)
    keys.sort()
    return Csr(rows, rows, indptr, keys.astype(np.int32), rng.uniform(0.5, 1.5, len(keys)))


GENERATED: Mapping[str, Callable[[np.random.Generator, int], Csr]] = {
    "reservoir": reservoir,
    "banded": banded,
    "uniform": uniform,
    "power_law": power_law,
}


def _ends(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """indptr of rows of these lengths. Raises ValueError over 2**31 - 1 nonzeros."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] > MOST:
        raise ValueError(f"{ends[-1]} nonzeros are over {MOST}, the most that 32-bit row pointers can count")
    return ends.astype(np.int32)


# ---- Matrix Market --------------------------------------------------------------------------------------------------


def is_file(value: object) -> bool:
    """Whether a value is the name of a Matrix Market file (.mtx, .mtx.gz, .mm). Raises ValueError as `outline` does."""
    if not isinstance(value, str) or not value.endswith(SUFFIXES):
        return False
    outline(value)
    return True


def outline(path: str) -> Outline:
    """The claims of a file's header; its body is not read.

    Raises ValueError, one line "FILE:LINE: reason" or "FILE: reason", where the file cannot be opened, its header is malformed,
    or it holds no entries, entries that are not real numbers, more entries than its size allows, or a dense matrix.
    """
    from scipy.io import mminfo

    rows, columns, entries, form, field, symmetry = _from_scipy(path, mminfo, HEADER_BYTES, "the header's sizes: ")
    size = Path(path).stat().st_size
    if form != "coordinate":
        raise _wrong(path, f"a dense matrix ({form} format): a sparse one has the coordinate format")
    if field == "complex":
        raise _wrong(path, "complex entries: only real, integer and pattern ones are multiplied here")
    if entries == 0 or rows == 0 or columns == 0:
        raise _wrong(path, "the matrix is empty: there is nothing to multiply")
    if symmetry != "general" and rows != columns:
        raise _wrong(path, f"a {symmetry} matrix is square, and this one is {rows} by {columns}")
    nonzeros = entries if symmetry == "general" else 2 * entries
    if max(rows, columns, nonzeros) > MOST:
        raise _wrong(path, f"{rows} by {columns} with up to {nonzeros} nonzeros is over {MOST}, the most that 32 bits count")
    # an entry has two digits, a blank and an end of line
    if 4 * entries > size * (SHRINKS_MOST if path.endswith(".gz") else 1) + 1:
        raise _wrong(path, f"the header promises {entries} entries, more than a file of {size} bytes can hold")
    return Outline(rows, columns, nonzeros, field)


def read(path: str) -> Csr:
    """The matrix of a Matrix Market file: real, integer or pattern (ones); symmetric ones in full; duplicates added up.

    Raises ValueError as `outline` does, and for a malformed body or numbers that are not finite.
    """
    from scipy.io import mmread

    promised = outline(path)
    most = HEADER_BYTES + ENTRY_BYTES * promised.nonzeros
    matrix = _from_scipy(path, mmread, most, field=promised.field).astype(np.float64).tocsr()
    matrix.sum_duplicates()
    infinite = np.flatnonzero(~np.isfinite(matrix.data))
    if len(infinite):
        first = infinite[0]
        place = f"row {np.searchsorted(matrix.indptr, first, side='right')}, column {matrix.indices[first] + 1}"
        raise _wrong(path, f"the entry of {place} is not finite: {matrix.data[first]}")
    rows, columns = matrix.shape
    return Csr(rows, columns, matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)


# Text that SciPy's reader accepts as a number by its beginning alone; text that it refuses is left to it.
_INDEX = rb"(?:\d++(?!\S)|[^\s\d]\S*+)"
_REAL = rb"(?:-?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?+(?!\S)|-?(?:nan|inf(?:inity)?+)(?!\S)|[^\s\d.ni-]\S*+)"
_WHOLE = rb"(?:-?\d++(?!\S)|[^\s\d-]\S*+)"
_VALUES = {"real": rb"(?:[ \t]++" + _REAL + rb")?+", "integer": rb"(?:[ \t]++" + _WHOLE + rb")?+", "pattern": b""}
_WANTED = {
    "real": "row, column and a number such as -1.5e3",
    "integer": "row, column and a whole number",
    "pattern": "row and column alone",
}


class _Checked:
    """The bytes of a file for SciPy's reader, with stricter checks of entries where a `field` is given. SciPy (1.17) reads 1,5
    as 1, 0x10 as 0 and ignores further columns, and crashes at a zero byte and at text after the last number of an unterminated
    last line. At most `most` unpacked bytes are read, since SciPy keeps comments, and searches for a line's end, without a
    limit."""

    def __init__(self, file: BinaryIO, most: int, field: str = "") -> None:
        self._file = file
        self._left = most
        self._lines = 0
        self._last = b"\n"
        self._field = field
        self._begun = b""  # a line whose end is not read yet
        self._sized = False  # whether the line with the sizes was read
        end = rb"[ \t]*+(?:" + _INDEX + rb"(?:[ \t]++" + _INDEX + _VALUES.get(field, b"") + rb")?+)?+[ \t\r]*+\n"
        self._entries = re.compile(rb"(?:" + end + rb")*+", re.IGNORECASE)

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(
                f"Line {self._lines + 1}: far more text than a header and entries need: take out comments and blanks"
            )
        if b"\0" in chunk:
            line = self._lines + chunk[: chunk.index(b"\0")].count(b"\n") + 1
            raise ValueError(f"Line {line}: a zero byte: this is no text")
        if not chunk and self._last != b"\n":
            chunk = b"\n"
        if self._field in _VALUES:
            self._check(chunk)
        self._lines += chunk.count(b"\n")
        self._last = chunk[-1:] or self._last
        return chunk

    def _check(self, chunk: bytes) -> None:
        """Raises ValueError for an entry of which SciPy would read only a part."""
        text = self._begun + chunk
        whole = text.rfind(b"\n") + 1
        self._begun = text[whole:]
        at, number = 0, self._lines + 1
        while not self._sized and at < whole:
            end = text.index(b"\n", at) + 1
            line = text[at:end].strip()
            self._sized = bool(line) and not line.startswith(b"%")
            at, number = end, number + 1
        found = self._entries.match(text, at, whole)
        if found is not None and self._sized and found.end() < whole:
            bad = text[found.end() : text.index(b"\n", found.end())].strip()[:60].decode(errors="replace")
            number += text.count(b"\n", at, found.end())
            raise ValueError(f"Line {number}: {bad!r} is no entry: write {_WANTED[self._field]}")


def _from_scipy(path: str, function: Callable[[Any], Any], most: int, subject: str = "", field: str = "") -> Any:
    """The result of a reader of SciPy's for the first `most` bytes; its errors become one line.

    An error names the file and, where SciPy does, the line. `subject` names the subject of an error without a line; with a
    `field` entries are read strictly.
    """
    opened: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise OSError("not a regular file")
        with opened(path, "rb") as file:
            return function(_Checked(file, most, field))
    except (OSError, EOFError, zlib.error) as error:
        raise _wrong(path, getattr(error, "strerror", None) or str(error)) from error
    except (ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        placed = re.match(r"Line (\d+): (.*)", reason)
        if placed:
            raise _wrong(path, placed[2], f":{placed[1]}") from error
        raise _wrong(path, subject + reason) from error


def _wrong(path: str, reason: str, line: str = "") -> ValueError:
    return ValueError(f"{sanitize.printable(path)}{line}: {sanitize.printable(reason)}")
