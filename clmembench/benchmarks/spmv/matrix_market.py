"""Matrix Market files: their header and their matrix, read more strictly than by SciPy; pure, without a device."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clmembench import sanitize
from clmembench.benchmarks.spmv.matrices import MAX_INDEX, Csr

FILE_SUFFIXES = (".mtx", ".mtx.gz", ".mtx.bz2", ".mm")
UNPACK = {  # commands for files of collections with several members, or in formats that Python cannot always read
    ".tar.gz": "tar -xzf", ".tgz": "tar -xzf", ".tar.bz2": "tar -xjf", ".tar": "tar -xf", ".mtx.zip": "unzip",
    ".mtx.xz": "unxz", ".mtx.zst": "unzstd", ".mtx.z": "uncompress",
}  # fmt: skip
# the largest compression ratios: deflate's limit, and one far beyond what bzip2 reaches for numbers
MAX_COMPRESSION = {".gz": 1032, ".bz2": 10_000}
MAX_HEADER_BYTES = 16 << 20  # including comments: files of collections have some hundred lines of them
MAX_ENTRY_BYTES = 256  # of an entry's line: two numbers of 10 digits and one of 25, with a margin


@dataclass(frozen=True, slots=True)
class MatrixHeader:
    """The sizes in the header of a Matrix Market file; `nonzeros` is an upper bound."""

    rows: int
    columns: int
    nonzeros: int
    field: str = "real"  # real, integer or pattern
    symmetry: str = "general"  # or symmetric, skew-symmetric


def is_file(value: object) -> bool:
    """Whether a value is the name of a Matrix Market file (.mtx, .mtx.gz, .mtx.bz2, .mm, in any case).

    Raises ValueError as `read_header` does, and for a file that has to be unpacked first.
    """
    if not isinstance(value, str) or not value.lower().endswith((*FILE_SUFFIXES, *UNPACK)):
        return False
    for ending, command in UNPACK.items():
        if value.lower().endswith(ending):
            raise _file_error(value, f"unpack it first: {command} {value}")
    read_header(value)
    return True


def read_header(path: str) -> MatrixHeader:
    """The sizes in a file's header; its body is not read.

    Raises ValueError, one line "FILE:LINE: reason" or "FILE: reason", if the file cannot be opened, its header is malformed, or
    it has no entries, entries that are not real numbers, more entries than its size allows, or a dense matrix.
    """
    from scipy.io import mminfo

    rows, columns, entries, form, field, symmetry = _from_scipy(path, mminfo, MAX_HEADER_BYTES, "the header's sizes: ")
    size = Path(path).stat().st_size
    if form != "coordinate":
        raise _file_error(path, f"a dense matrix ({form} format): a sparse one has the coordinate format")
    if field == "complex":
        raise _file_error(path, "complex entries: only real, integer and pattern ones are multiplied here")
    if entries == 0 or rows == 0 or columns == 0:
        raise _file_error(path, "the matrix is empty: there is nothing to multiply")
    if symmetry != "general" and rows != columns:
        raise _file_error(path, f"a {symmetry} matrix is square, and this one is {rows} by {columns}")
    nonzeros = entries if symmetry == "general" else 2 * entries
    if max(rows, columns, nonzeros) > MAX_INDEX:
        raise _file_error(
            path, f"{rows} by {columns} with up to {nonzeros} nonzeros is over {MAX_INDEX}, the most that 32 bits count"
        )
    # an entry has at least two digits, a blank and an end of line
    if 4 * entries > size * MAX_COMPRESSION.get(Path(path).suffix.lower(), 1) + 1:
        raise _file_error(path, f"the header promises {entries} entries, more than a file of {size} bytes can hold")
    return MatrixHeader(rows, columns, nonzeros, field, symmetry)


def read_matrix(path: str) -> Csr:
    """The matrix of a Matrix Market file: real, integer or pattern (ones); symmetric ones in full; duplicates added up.

    Raises ValueError as `read_header` does, for a malformed body or numbers that are not finite, and for a symmetric matrix
    with both triangles in the file.
    """
    from scipy.io import mmread

    header = read_header(path)
    most = MAX_HEADER_BYTES + MAX_ENTRY_BYTES * header.nonzeros
    matrix = _from_scipy(path, mmread, most, field=header.field).astype(np.float64)
    if header.symmetry != "general":
        matrix = _in_full(path, matrix, header.symmetry)
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    infinite = np.flatnonzero(~np.isfinite(matrix.data))
    if len(infinite):
        first = infinite[0]
        place = f"row {np.searchsorted(matrix.indptr, first, side='right')}, column {matrix.indices[first] + 1}"
        raise _file_error(path, f"the entry of {place} is not finite: {matrix.data[first]}")
    rows, columns = matrix.shape
    return Csr(rows, columns, matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)


def _in_full(path: str, stored: Any, symmetry: str) -> Any:
    """A symmetric matrix from the entries of one triangle. SciPy would mirror both triangles if both are in the file.

    Raises ValueError if both are, and for a skew-symmetric matrix with a diagonal.
    """
    from scipy.sparse import coo_array

    above = stored.col > stored.row
    both = above.any() and (stored.col < stored.row).any()
    bad = above if both else (stored.col == stored.row) & (symmetry == "skew-symmetric")
    if both or bad.any():
        first = int(np.flatnonzero(bad)[0])
        why = "above the diagonal, and other entries are below: write one triangle" if both else "on the diagonal: leave it out"
        place = f"row {stored.row[first] + 1}, column {stored.col[first] + 1}"
        raise _file_error(path, f"the entry of {place} of a {symmetry} matrix is {why}")
    mirrored = stored.col != stored.row
    sign = -1.0 if symmetry == "skew-symmetric" else 1.0
    values = np.concatenate([stored.data, sign * stored.data[mirrored]])
    rows, columns = (np.concatenate([a, b[mirrored]]) for a, b in ((stored.row, stored.col), (stored.col, stored.row)))
    return coo_array((values, (rows, columns)), shape=stored.shape)


_SYMMETRY = re.compile(rb"^(%%MatrixMarket(?:\s+\w+){3}\s+)(?:skew-)?symmetric", re.IGNORECASE)

# SciPy's reader accepts some texts whose beginning is a number: these patterns do not. Other invalid text is left to SciPy.
_INDEX = rb"(?:\d++(?!\S)|[^\s\d]\S*+)"
_REAL_NUMBER = rb"(?:-?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?+(?!\S)|-?(?:nan|inf(?:inity)?+)(?!\S)|[^\s\d.ni-]\S*+)"
_WHOLE_NUMBER = rb"(?:-?\d++(?!\S)|[^\s\d-]\S*+)"
_VALUE_PATTERNS = {
    "real": rb"(?:[ \t]++" + _REAL_NUMBER + rb")?+",
    "integer": rb"(?:[ \t]++" + _WHOLE_NUMBER + rb")?+",
    "pattern": b"",
}
_ENTRY_FORMS = {
    "real": "row, column and a number such as -1.5e3",
    "integer": "row, column and a whole number",
    "pattern": "row and column alone",
}


class _CheckedFile:
    """The bytes of a file for SciPy's reader, with stricter checks of entries if a `field` is given.

    SciPy (1.17) reads 1,5 as 1 and 0x10 as 0, ignores further columns, and crashes at a zero byte and at text after the last
    number of an unterminated last line. At most `most` unpacked bytes are read, since SciPy has no limit for comments and for
    the length of a line.
    """

    def __init__(self, file: BinaryIO, most: int, field: str = "") -> None:
        self._file = file
        self._left = most
        self._lines = 0
        self._last = b"\n"
        self._field = field
        self._begun = b""  # a line whose end has not been read yet
        self._sized = False  # whether the line with the sizes was read
        end = rb"[ \t]*+(?:" + _INDEX + rb"(?:[ \t]++" + _INDEX + _VALUE_PATTERNS.get(field, b"") + rb")?+)?+[ \t\r]*+\n"
        self._entries = re.compile(rb"(?:" + end + rb")*+", re.IGNORECASE)

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(chunk)
        if self._field and not self._begun and not self._lines:
            chunk = _SYMMETRY.sub(rb"\1general", chunk)  # as a general matrix, since SciPy would mirror the entries
        if self._left < 0:
            raise ValueError(
                f"Line {self._lines + 1}: far more text than a header and entries need: take out comments and blanks"
            )
        if b"\0" in chunk:
            line = self._lines + chunk[: chunk.index(b"\0")].count(b"\n") + 1
            raise ValueError(f"Line {line}: a zero byte: this is not text")
        if not chunk and self._last != b"\n":
            chunk = b"\n"
        if self._field in _VALUE_PATTERNS:
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
        valid = self._entries.match(text, at, whole)
        if valid is not None and self._sized and valid.end() < whole:
            bad = text[valid.end() : text.index(b"\n", valid.end())].strip()[:60].decode(errors="replace")
            number += text.count(b"\n", at, valid.end())
            raise ValueError(f"Line {number}: {bad!r} is not an entry: write {_ENTRY_FORMS[self._field]}")


def _from_scipy(path: str, function: Callable[[Any], Any], most: int, subject: str = "", field: str = "") -> Any:
    """The result of a SciPy reader for the first `most` bytes; its errors become one line.

    An error names the file and, if SciPy does, the line. `subject` is put before an error without a line; with a `field`
    entries are read strictly.
    """
    openers: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    unpacked = openers.get(Path(path).suffix.lower(), contextlib.nullcontext)
    try:
        with sanitize.open_regular(Path(path)) as packed, unpacked(packed) as file:
            return function(_CheckedFile(file, most, field))
    except IsADirectoryError as error:
        raise _file_error(path, "not a regular file: a folder") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _file_error(path, getattr(error, "strerror", None) or str(error)) from error
    except (ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        placed = re.match(r"Line (\d+): (.*)", reason)
        if placed:
            raise _file_error(path, placed[2], f":{placed[1]}") from error
        raise _file_error(path, subject + reason) from error


def _file_error(path: str, reason: str, line: str = "") -> ValueError:
    return ValueError(f"{sanitize.printable(path)}{line}: {sanitize.printable(reason)}")
