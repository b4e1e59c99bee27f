"""The results file: JSON Lines, a header and then one record for each point and process; append-only, read strictly."""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from clmembench.host import device_lock
from clmembench.model import Header, Record, Run
from clmembench.model.device_identity import is_same_device, is_same_platform
from clmembench.results import limits, line_limits, run_files
from clmembench.results.record_lines import decode, decode_record, encode, encode_record, first_problem
from clmembench.results.run_files import ResultsError as ResultsError
from clmembench.sanitize import argument, input_problem, open_new, sync

SCHEMA = 1
SYNC_S = 5.0  # between two fsyncs, each of which takes some milliseconds
MAX_BAD_LINE_NOTES = 20  # about bad lines: a file of another kind would have as many as lines


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
        except OSError as error:
            if path.is_file():  # it holds no run, and blocks the next one
                path.unlink()
            raise ResultsError(
                f"cannot write {path}: {error.strerror}: nothing was measured: free space, or choose another place with -o"
            ) from error
        sync(path.parent)

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
                (run_files.mend_members if run_files.is_compressed(path) else run_files.mend_lines)(file)
            writer._synced = -SYNC_S
        except OSError as error:
            raise ResultsError(f"cannot go on with {path}: {error.strerror}") from error
        return writer

    def _take(self) -> None:
        """Hold the file until it is closed. Raises ResultsError where another process writes it."""
        if not device_lock.take(self._file.fileno()):
            self._file.close()
            raise ResultsError(f"{self.path} is being written by another run: wait for it, or choose another -o")

    def write(self, record: Record) -> None:
        """Append one record. Raises ResultsError when the disk is full or gone; earlier records stay whole."""
        try:
            self._line(encode_record(record))
        except OSError as error:
            raise ResultsError(
                f"cannot write {self.path}: {error.strerror}: records before this one are kept; free space, "
                f"and resume a run with clmembench run --resume {argument(self.path)}"
            ) from error

    def _line(self, text: str) -> None:
        data = f"{text}\n".encode()
        if run_files.is_compressed(self.path):
            self._member = self._member or zlib.compressobj(wbits=run_files.GZIP_WINDOW_BITS)
            data = self._member.compress(data) + self._member.flush(zlib.Z_SYNC_FLUSH)
        try:
            self._file.write(data)
            self._file.flush()
            if time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError:
            self._member = None  # what ends it does not fit behind a part of a record
            raise

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
        with run_files.open_content(path) as file:
            lines = run_files.lines(path, file)
            first = next(lines, b"")
            if not first and (problem := run_files.content_problem(file)):
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
            problem = run_files.content_problem(file)
            if problem and not (torn and problem == run_files.ENDS_EARLY):
                if strict:
                    raise ResultsError(f"{path}:{number}: {problem}: leave out --strict to read what is before")
                notes.append(f"{path}:{number}: {problem}")
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {input_problem(error)}") from error
    if bad > MAX_BAD_LINE_NOTES:
        notes.append(f"{path}: and {bad - MAX_BAD_LINE_NOTES} more bad lines")
    return Run(str(path), header, tuple(records), tuple(notes))


def read_header(path: Path) -> Header:
    """The header of the run in a file, whatever follows. Raises ResultsError as `read` does."""
    try:
        with run_files.open_content(path) as file:
            return _header(path, next(run_files.lines(path, file), b""))
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {input_problem(error)}") from error


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


@dataclasses.dataclass(frozen=True, slots=True)
class _Versioned:
    """The field that a header of any schema has."""

    schema: object


def _header(path: Path, line: bytes) -> Header:
    line = line.removeprefix(codecs.BOM_UTF8)  # which some editors write
    try:
        header: Header = decode(Header, line)
        schema: object = header.schema
        limits.check_header(header)
        problem = ""
    except ValueError as error:
        schema, problem = _schema(path, line), first_problem(error)
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        shown = json.dumps(schema)[:20]
        raise ResultsError(f"{path} has schema {shown}, and this version reads up to {SCHEMA}: upgrade clmembench")
    if problem:
        raise ResultsError(f"{path}:1: the header is damaged: {problem}")
    return header


def _schema(path: Path, line: bytes) -> object:
    """The schema number of a first line that this version cannot read as a header; SCHEMA where the line is over a limit.
    Raises ResultsError where it is no header."""
    if not line:
        raise ResultsError(f"{path} is no results file of clmembench: it is empty, or a pipe that was read before")
    if line.startswith(run_files.GZIP):
        raise ResultsError(f"{path} is compressed by gzip: rename it so that it ends with .gz, or unpack it with gunzip")
    try:
        line_limits.check_line(line)
    except ValueError:
        if b'"schema"' in line:
            return SCHEMA
    try:
        found: object = decode(_Versioned, line).schema
    except ValueError as error:
        remedy = "name a file that clmembench run wrote; clmembench import reads other programs' files"
        raise ResultsError(f"{path} is no results file of clmembench: its first line is no header: {remedy}") from error
    return found
