"""Content of a results file, plain or compressed by its name: read within limits, and mended where a run was interrupted.

A file whose name ends with .gz is compressed: each line is flushed with Z_SYNC_FLUSH, so that all of it can be read back after
a kill. That takes 1% more space than compressing the whole file at once; a gzip member per line would take 27% more.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from clmembench.results import limits, line_limits
from clmembench.results.record_lines import decode_record
from clmembench.sanitize import open_input

SUFFIXES = (".jsonl", ".jsonl.gz")
GZIP = b"\x1f\x8b"  # the first bytes of a gzip member
GZIP_WINDOW_BITS = 31  # zlib's word for its largest window and the gzip format; such a header has no time and no name
FLUSHED = b"\x00\x00\xff\xff"  # the last bytes of what Z_SYNC_FLUSH writes
FINAL_BLOCK = b"\x03\x00"  # an empty block that ends deflate data, where a block begins on a whole byte
CHUNK_BYTES = 1 << 16
ENDS_EARLY = "its compressed data end early: its last record may be missing"


class ResultsError(Exception):
    """A results file cannot be written or read; the message says which, where and what to do."""


def is_compressed(path: Path) -> bool:
    """Whether a file of that name is written and read compressed."""
    return path.suffix.lower() == ".gz"


def split_suffix(path: Path) -> tuple[Path, str]:
    """A results file's path without its suffix, and that suffix; the path as it is and .jsonl where it has none of SUFFIXES."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix) and path.name != suffix:
            return path.with_name(path.name.removesuffix(suffix)), suffix
    return path, SUFFIXES[0]


def files_of(folder: Path) -> list[Path]:
    """The results files of a folder, by their names."""
    return sorted(path for suffix in SUFFIXES for path in folder.glob(f"*{suffix}"))


def compress(content: bytes) -> bytes:
    """One gzip member of that content; equal for equal content."""
    deflate = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
    return deflate.compress(content) + deflate.flush()


def open_content(path: Path, pipe: bool = True) -> io.BufferedReader:
    """The content of a results file, decompressed by its name, as `sanitize.open_input` opens it. Raises ResultsError for one
    over the limit, and OSError where it cannot be read, or is not compressed as its name says."""
    file = open_input(path, pipe)
    try:
        if os.fstat(file.fileno()).st_size > limits.MAX_FILE_BYTES:
            raise ResultsError(over_limit(path, f"{limits.MAX_FILE_BYTES} bytes"))
        return io.BufferedReader(_Content(path, file), CHUNK_BYTES) if is_compressed(path) else file
    except BaseException:
        file.close()
        raise


def read_regular(path: Path, most: int) -> bytes:
    """The whole content of a file that is no pipe, decompressed by its name. Raises OSError as `open_content`, and ValueError
    where it has over `most` bytes, or is damaged."""
    try:
        with open_content(path, pipe=False) as file:
            content = file.read(most + 1)
            problem = (
                f"it has over {most} bytes, which no file of this kind needs" if len(content) > most else content_problem(file)
            )
    except ResultsError as error:
        raise ValueError(str(error)) from error
    if problem:
        raise ValueError(problem)
    return content


def content_problem(file: io.BufferedReader) -> str:
    """Why the content of a compressed file ended where it did; "" where it is whole, or was killed between two lines."""
    return file.raw.problem if isinstance(file.raw, _Content) else ""


class _Content(io.RawIOBase):
    """The content of a gzip file of one or more members, up to the first problem. Raises OSError where it does not begin as
    gzip does, and where a checksum does not match: any value of that member may be wrong."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__()
        self._path, self._file = path, file
        self._data = file.read(CHUNK_BYTES)  # read and not yet decompressed
        self._end = self._data  # the last bytes that were read
        self._stream: zlib._Decompress | None = zlib.decompressobj(GZIP_WINDOW_BITS) if self._data else None
        self._members = 1
        self.problem = ""
        if self._data[:2] != GZIP[: len(self._data)]:
            name = path.with_suffix("").name
            raise OSError(errno.EINVAL, f"it is not compressed by gzip, as its name says: rename it, such as to {name}")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while self._stream is not None:
            data = self._data or self._more()
            content, problem = _inflated(self._stream, data, len(buffer))
            self._data = self._stream.unconsumed_tail
            if problem:
                self._stop(f"its compressed data are damaged here or before ({problem}), and what follows was not read")
            elif self._stream.eof:
                self._next_member(self._stream.unused_data)
            elif not data and not content:
                self._stop("" if self._end == FLUSHED else ENDS_EARLY)
            if content:
                buffer[: len(content)] = content
                return len(content)
        return 0

    def _more(self) -> bytes:
        data = self._file.read(CHUNK_BYTES)
        self._end = (self._end + data)[-len(FLUSHED) :]
        return data

    def _stop(self, problem: str) -> None:
        self._stream, self.problem = None, problem

    def _next_member(self, data: bytes) -> None:
        """Go on behind the end of a member, where zeros may be."""
        data = data.lstrip(b"\0")
        while len(data) < len(GZIP) and (more := self._more()):
            data = (data + more).lstrip(b"\0")
        if not data or data[:2] != GZIP[: len(data)]:
            self._stop("what stands behind its compressed data is no gzip, and was left out" if data else "")
            return
        self._members += 1
        if self._members > limits.MAX_FILE_LINES:
            raise ResultsError(over_limit(self._path, f"{limits.MAX_FILE_LINES} gzip members"))
        self._stream, self._data = zlib.decompressobj(GZIP_WINDOW_BITS), data


def _inflated(stream: zlib._Decompress, data: bytes, most: int = 0) -> tuple[bytes, str]:
    """What comes of compressed data, of which the stream keeps the rest beyond `most` bytes; where they are damaged, what comes
    before, and the problem. Raises OSError where the checksum does not match."""
    before = stream.copy()
    try:
        return stream.decompress(data, most), ""
    except zlib.error as error:
        problem = str(error).rpartition(": ")[2]
    if problem in ("incorrect data check", "incorrect length check"):
        why = f"its gzip checksum does not match ({problem}), so that any value may be wrong"
        raise OSError(errno.EINVAL, f"{why}: restore it from a copy")
    content = bytearray()
    with contextlib.suppress(zlib.error):
        for place in range(len(data)):
            content += before.decompress(data[place : place + 1])
    return bytes(content), problem


def mend_lines(file: BinaryIO) -> None:
    """Remove a torn last record of an interrupted run, or add the newline that it lacks."""
    size = file.seek(0, os.SEEK_END)
    before = file.seek(max(0, size - line_limits.MAX_LINE_BYTES - 1))
    content = file.read()
    last = content[content.rfind(b"\n") + 1 :]
    if last and len(last) < len(content) and not is_record(last):  # a line that stands alone is a header
        file.truncate(before + len(content) - len(last))
    elif last:
        file.write(b"\n")


def mend_members(file: BinaryIO) -> None:
    """As `mend_lines`, of a compressed file: it is cut behind the last line that was flushed, and its member is ended there.
    A header and records in data that were not flushed are written again."""
    end, ending, rest = _last_flush(file)
    lines = [line for number, line in enumerate(rest.split(b"\n")) if is_record(line) or (not end and not number)]
    file.seek(end)
    file.write(ending + (compress(b"\n".join([*lines, b""])) if lines else b""))
    file.truncate()


def _last_flush(file: BinaryIO) -> tuple[int, bytes, bytes]:
    """Where the last line that was flushed ends in a compressed file, the bytes that end its member there, and the content
    behind it. The place is 0 where no line was flushed."""
    stream, fresh = zlib.decompressobj(GZIP_WINDOW_BITS), True
    place = end = checksum = size = 0
    ending, rest, problem = b"", bytearray(), ""
    for data in _flushes(file):
        while data and not problem:
            if fresh and (zeros := len(data) - len(data.lstrip(b"\0"))):  # behind a member
                place, data = place + zeros, data[zeros:]
                continue
            content, problem = _inflated(stream, data)
            place, data, fresh = place + len(data) - len(stream.unused_data), stream.unused_data, False
            checksum, size = zlib.crc32(content, checksum), size + len(content)
            rest += content
            if stream.eof:
                if rest.endswith(b"\n") or (end and not rest):
                    end, ending, rest = place, b"", bytearray()
                stream, fresh, checksum, size = zlib.decompressobj(GZIP_WINDOW_BITS), True, 0, 0
        if problem:
            break
        close = FINAL_BLOCK + checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
        if rest.endswith(b"\n") and _is_ended_by(stream, close):
            end, ending, rest = place, close, bytearray()
    return end, ending, bytes(rest)


def _is_ended_by(stream: zlib._Decompress, close: bytes) -> bool:
    """Whether a member may end there with these bytes, as it may where a flush ended."""
    trial = stream.copy()
    try:
        return not trial.decompress(close) and trial.eof
    except zlib.error:
        return False


def _flushes(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file in pieces, of which one ends wherever a flush may have ended."""
    rest = b""
    while data := file.read(CHUNK_BYTES):
        *flushed, rest = (rest + data).split(FLUSHED)
        yield from (piece + FLUSHED for piece in flushed)
        if len(rest) > CHUNK_BYTES:
            yield rest[: 1 - len(FLUSHED)]
            rest = rest[1 - len(FLUSHED) :]
    yield rest


def lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Every line; only the beginning of a line over its limit. Raises ResultsError over the limits of the file: the size of a
    file that is not regular, or grows, is known only here."""
    read = 0
    for _ in range(limits.MAX_FILE_LINES):
        line = rest = file.readline(line_limits.MAX_LINE_BYTES + 1)
        read += len(line)
        while len(line) > line_limits.MAX_LINE_BYTES and rest and not rest.endswith(b"\n"):
            rest = file.readline(line_limits.MAX_LINE_BYTES)
            read += len(rest)
            if read > limits.MAX_FILE_BYTES:
                break
        if read > limits.MAX_FILE_BYTES:
            raise ResultsError(over_limit(path, f"{limits.MAX_FILE_BYTES} bytes"))
        if not line:
            return
        yield line
    if file.read(1):
        raise ResultsError(over_limit(path, f"{limits.MAX_FILE_LINES} lines"))


def over_limit(path: Path, limit: str) -> str:
    """The message on a file that is over a limit of all runs."""
    return f"{path} is over {limit}, which no run needs: is it a results file?"


def is_record(line: bytes) -> bool:
    """Whether a line is a whole record."""
    try:
        decode_record(line)
    except ValueError:
        return False
    return True
