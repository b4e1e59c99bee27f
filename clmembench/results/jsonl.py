"""The results file: JSON Lines, a header and then one record for each point and process; append-only, read strictly.

A file whose name ends with .gz is compressed: each line is flushed with Z_SYNC_FLUSH, so that all of it can be read back after
a kill. That takes 1% more space than compressing the whole file at once; a gzip member per line would take 27% more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from clmembench.host import file_lock
from clmembench.model import Header, Record, Run
from clmembench.model.device_identity import is_same_device, is_same_platform
from clmembench.results import limits, line_limits
from clmembench.results.record_lines import decode, decode_record, encode, encode_record, first_problem
from clmembench.sanitize import input_problem, open_input, open_new, sync

SCHEMA = 1
SYNC_S = 5.0  # between two fsyncs, each of which takes some milliseconds
SUFFIXES = (".jsonl", ".jsonl.gz")
GZIP = b"\x1f\x8b"  # the first bytes of a gzip member
GZIP_WINDOW_BITS = 31  # zlib's word for its largest window and the gzip format; such a header has no time and no name
FLUSHED = b"\x00\x00\xff\xff"  # the last bytes of what Z_SYNC_FLUSH writes
FINAL_BLOCK = b"\x03\x00"  # an empty block that ends deflate data, where a block begins on a whole byte
CHUNK_BYTES = 1 << 16
ENDS_EARLY = "its compressed data end early: its last record may be missing"
MAX_BAD_LINE_NOTES = 20  # about bad lines: a file of another kind would have as many as lines


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


class Writer:
    """Writes one run. Each record is flushed, so a kill costs at most the line being written. The file is synchronised with the
    disk between points, outside measured time, so that a power cut costs at most SYNC_S of measuring."""

    _member: zlib._Compress | None = None  # the gzip member that is being written, of a compressed file

    def __init__(self, path: Path, header: Header, overwrite: bool = False) -> None:
        """Raises ResultsError when the file exists (unless `overwrite`) or cannot be made."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # the file keeps its content until the lock is held
            self._file = open_new(path, overwrite, pipe=False, truncate=False).detach()
            self._take()
            if overwrite and path.is_file():
                self._file.truncate(0)
        except OSError as error:
            if isinstance(error, FileExistsError) and path.is_file():
                raise ResultsError(f"{path} exists: choose another -o, or say --overwrite") from error
            why = "it is a folder" if path.is_dir() else "it is no file" if path.exists() else error.strerror
            raise ResultsError(f"cannot write {path}: {why}: choose another place with -o") from error
        self._synced = -SYNC_S
        try:
            self._line(encode(header))
            sync(path.parent)
        except ResultsError:
            if path.is_file():  # it holds no run, and blocks the next one
                path.unlink()
            raise

    @classmethod
    def going_on(cls, path: Path) -> Writer:
        """A writer that appends to an interrupted run; a torn last record is removed, and one that lacks only its newline gets
        it.

        Raises ResultsError where that is impossible, and for a file that `read` refuses.
        """
        writer = cls.__new__(cls)
        writer.path = path
        try:
            if path.exists() and not path.is_file():  # on a pipe a reader would wait
                raise ResultsError(f"cannot go on with {path}: it is no regular file")
            read(path)
            writer._file = path.open("ab")
            writer._take()
            with path.open("r+b") as file:
                (_mend_members if is_compressed(path) else _mend_lines)(file)
            writer._synced = -SYNC_S
        except OSError as error:
            raise ResultsError(f"cannot go on with {path}: {error.strerror}") from error
        return writer

    def _take(self) -> None:
        """Hold the file until it is closed. Raises ResultsError where another process writes it."""
        if not file_lock.take(self._file.fileno()):
            self._file.close()
            raise ResultsError(f"{self.path} is being written by another run: wait for it, or choose another -o")

    def write(self, record: Record) -> None:
        """Append one record. Raises ResultsError when the disk is full or gone; earlier records stay whole."""
        self._line(encode_record(record))

    def _line(self, text: str) -> None:
        data = f"{text}\n".encode()
        if is_compressed(self.path):
            self._member = self._member or zlib.compressobj(wbits=GZIP_WINDOW_BITS)
            data = self._member.compress(data) + self._member.flush(zlib.Z_SYNC_FLUSH)
        try:
            self._file.write(data)
            self._file.flush()
            if time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            self._member = None  # what ends it does not fit behind a part of a record
            raise ResultsError(
                f"cannot write {self.path}: {error.strerror}: records before this one are kept; free space and run again"
            ) from error

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._member is not None:
                self._file.write(self._member.flush())
                self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            if kind is None:
                raise ResultsError(f"cannot finish {self.path}: {error.strerror}") from error


def read(path: Path, strict: bool = False) -> Run:
    """The run in a file. A torn last line is dropped, and a bad line elsewhere skipped; the first MAX_BAD_LINE_NOTES of them
    have a note each, and so has the place where compressed data are damaged, behind which nothing is read.

    Raises ResultsError when there is no file, no header, or a header of a newer schema; for a file over a limit; and with
    `strict` for the first bad line.
    """
    records: list[Record] = []
    notes: list[str] = []
    bad, number, torn = 0, 1, False
    try:
        with open_content(path) as file:
            lines = _lines(path, file)
            first = next(lines, b"")
            if not first and (problem := content_problem(file)):
                raise ResultsError(f"{path} is no results file of clmembench: {problem}")
            header = _header(path, first)
            for number, line in enumerate(lines, start=2):
                try:
                    records.append(decode_record(line))
                except ValueError as error:
                    torn = not line.endswith(b"\n") and len(line) <= line_limits.MAX_LINE_BYTES
                    why = "the last line is torn" if torn else f"no record: {first_problem(error)}"
                    if strict:
                        raise ResultsError(f"{path}:{number}: {why}: leave out --strict to read the rest") from error
                    bad += 1
                    if bad <= MAX_BAD_LINE_NOTES:
                        notes.append(f"{path}:{number}: {why}{' and was dropped' if torn else ''}")
            problem = content_problem(file)
            if problem and not (torn and problem == ENDS_EARLY):
                if strict:
                    raise ResultsError(f"{path}:{number}: {problem}: leave out --strict to read what is before")
                notes.append(f"{path}:{number}: {problem}")
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {input_problem(error)}") from error
    if bad > MAX_BAD_LINE_NOTES:
        notes.append(f"{path}: and {bad - MAX_BAD_LINE_NOTES} more bad lines")
    return Run(str(path), header, tuple(records), tuple(notes))


def open_content(path: Path, pipe: bool = True) -> io.BufferedReader:
    """The content of a results file, decompressed by its name, as `sanitize.open_input` opens it. Raises ResultsError for one
    over the limit, and OSError where it cannot be read, or is not compressed as its name says."""
    file = open_input(path, pipe)
    try:
        if os.fstat(file.fileno()).st_size > limits.MAX_FILE_BYTES:
            raise ResultsError(_over_limit(path, f"{limits.MAX_FILE_BYTES} bytes"))
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
            raise ResultsError(_over_limit(self._path, f"{limits.MAX_FILE_LINES} gzip members"))
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


def _mend_lines(file: BinaryIO) -> None:
    """Remove a torn last record of an interrupted run, or add the newline that it lacks."""
    size = file.seek(0, os.SEEK_END)
    before = file.seek(max(0, size - line_limits.MAX_LINE_BYTES - 1))
    content = file.read()
    last = content[content.rfind(b"\n") + 1 :]
    if last and len(last) < len(content) and not _is_record(last):  # a line that stands alone is a header
        file.truncate(before + len(content) - len(last))
    elif last:
        file.write(b"\n")


def _mend_members(file: BinaryIO) -> None:
    """As `_mend_lines`, of a compressed file: it is cut behind the last line that was flushed, and its member is ended there.
    A header and records in data that were not flushed are written again."""
    end, ending, rest = _last_flush(file)
    lines = [line for number, line in enumerate(rest.split(b"\n")) if _is_record(line) or (not end and not number)]
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


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
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
            raise ResultsError(_over_limit(path, f"{limits.MAX_FILE_BYTES} bytes"))
        if not line:
            return
        yield line
    if file.read(1):
        raise ResultsError(_over_limit(path, f"{limits.MAX_FILE_LINES} lines"))


def _over_limit(path: Path, limit: str) -> str:
    return f"{path} is over {limit}, which no run needs: is it a results file?"


def mismatch(then: Header, now: Header) -> tuple[str, object, object] | None:
    """The first property in which two headers differ that headers of one run share: its name, its value in the first and in the
    second; None where there is none.

    Memory sizes that a driver reports are left out, since some drivers report another one each time, and so are properties that
    an older file lacks (`unsaid`).
    """
    left = missing_identity(then)
    if is_same_device(then.device, now.device) and is_same_platform(then.device, now.device):
        left = ("device", *left)  # however its driver names it now
    for what, take in _IDENTITY.items():
        if what not in left and take(then) != take(now):
            return what, take(then), take(now)
    return None


def missing_identity(then: Header) -> tuple[str, ...]:
    """Properties of a run's identity that its header lacks, since an older version wrote it."""
    if then.source_revision:
        return ()
    return (REVISION, INPUTS) if then.axes.get("matrix") else (REVISION,)


REVISION, INPUTS = "revision of clmembench", "content of the input files"
_HOST_IDENTITY = ("cpu", "logical_cpus", "usable_cpus", "memory_bytes")
# variables by which no value changes: our own set options, which the header has in fields of their own; and where compiled
# kernels are kept, since another place is the remedy for one that fails during a run
_OF_NO_VALUE = re.compile(r"CLMEMBENCH_\w+|POCL_CACHE_DIR|CUDA_CACHE_PATH")
_IDENTITY: Mapping[str, Callable[[Header], object]] = {
    "version": lambda h: h.tool_version,
    "device": lambda h: f"{h.device.name} ({', '.join(filter(None, (h.device.platform, h.device.id, h.device.pci)))})",
    "driver": lambda h: h.device.driver,
    "number of compute units": lambda h: h.device.compute_units,
    "host": lambda h: ", ".join(str(h.host.get(name)) for name in _HOST_IDENTITY),
    "environment": lambda h: {name: value for name, value in h.environment.items() if not _OF_NO_VALUE.fullmatch(name)},
    REVISION: lambda h: h.source_revision,
    "set of package versions": lambda h: ", ".join(f"{name} {version}" for name, version in sorted(h.packages.items())),
    "suite": lambda h: h.suite,
    "benchmarks": lambda h: ", ".join(h.benchmarks),
    "choice of values": lambda h: dict(h.axes),
    "number of processes": lambda h: h.processes,
    "seed": lambda h: h.seed,
    "size": lambda h: h.device.array_bytes,
    INPUTS: lambda h: ", ".join(f"{name} {hashed}" for name, hashed in sorted(h.inputs.items())),
}


def _is_record(line: bytes) -> bool:
    try:
        decode_record(line)
    except ValueError:
        return False
    return True


@dataclasses.dataclass(frozen=True, slots=True)
class _Versioned:
    """The field that a header of any schema has."""

    schema: object


def _header(path: Path, line: bytes) -> Header:
    try:
        header: Header = decode(Header, line)
        schema: object = header.schema
        limits.check_header(header)
        problem = ""
    except ValueError as error:
        schema, problem = _schema(path, line), first_problem(error)
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        shown = json.dumps(schema)[:20]
        raise ResultsError(f"{path} has schema {shown}, and this version reads 1 to {SCHEMA}: upgrade clmembench")
    if problem:
        raise ResultsError(f"{path}:1: the header is damaged: {problem}")
    return header


def _schema(path: Path, line: bytes) -> object:
    """The schema number of a first line that this version cannot read as a header; SCHEMA where the line is over a limit.
    Raises ResultsError where it is no header."""
    if not line:
        raise ResultsError(f"{path} is no results file of clmembench: it is empty, or a pipe that was read before")
    if line.startswith(GZIP):
        raise ResultsError(f"{path} is compressed by gzip: rename it so that it ends with .gz, or unpack it with gunzip")
    try:
        line_limits.check_line(line)
    except ValueError:
        if b'"schema"' in line:
            return SCHEMA
    try:
        found: object = decode(_Versioned, line).schema
    except ValueError as error:
        raise ResultsError(f"{path} is no results file of clmembench: its first line is no header") from error
    return found
