"""Benchmark programs of others on PATH: runs of BabelStream and clpeak, and strict parsing of their output."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from clmembench.host import processes
from clmembench.model import DeviceInfo, Skip

RUN_LIMIT_S = 100.0  # of one run of a program; a point's own limit may end it sooner
MAX_OUTPUT_BYTES = 1 << 20  # bytes that are parsed
CSV_COLUMNS = ("function", "num_times", "n_elements", "sizeof", "max_rate", "min_runtime", "max_runtime", "avg_runtime")
COUNTED_ARRAYS = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2}  # that an operation counts
CLPEAK_MS = 150  # for each of clpeak's kernels, a third of its default
IDENTITY_RUN_ELEMENTS = 1 << 18  # elements of a run that only identifies the program
MAX_RELATIVE_DISAGREEMENT = 0.01  # between a line's rate and its time
# devices of a build
DEVICE_KINDS = {"OpenCL": ("cpu", "gpu", "accelerator"), "OpenMP": ("cpu",), "CUDA": ("gpu",), "HIP": ("gpu",)}
OFFLOAD_WORDS = ("gpu", "offload", "target")  # of an OpenMP that offloads


class OutputError(Exception):
    """The output of a program is not as expected; the message says in what."""


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """BabelStream's times of one operation, in seconds: minimum, maximum and mean of `count` runs after the first."""

    count: int
    least_s: float
    most_s: float
    mean_s: float


@dataclass(frozen=True, slots=True)
class StreamResult:
    """A BabelStream's version and implementation, and its result of each operation."""

    version: str
    implementation: str
    lines: Mapping[str, StreamTimes]


def find_program(name: str) -> str | None:
    """The path of a program; None where PATH has none of that name. Folders of PATH that are relative to the current folder are
    ignored: programs there may be there by accident, or a trap."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(folder for folder in folders if Path(folder).is_absolute()))


def run_program(program: str, *arguments: str, files: Sequence[int] = ()) -> str:
    """The output of a program that inherits these descriptors. Raises OutputError where it cannot be run, fails or reports
    wrong results."""
    try:
        code, text, errors = _run_to_end(program, *arguments, files=files)
    except TimeoutError as error:
        raise OutputError(f"it did not end within {RUN_LIMIT_S:g} s") from error
    except OSError as error:
        raise OutputError(f"it did not run: {type(error).__name__}") from error
    if re.search(r"validation failed|failed validation", text + errors, re.IGNORECASE):
        raise AssertionError("its own check says that its results are wrong")
    if code:
        last = [line.strip() for line in errors.splitlines() if line.strip()][-1:]
        raise OutputError(f"it ended with exit code {code}{': ' + last[0][:200] if last else ''}")
    return text


def _run_to_end(program: str, *arguments: str, files: Sequence[int]) -> tuple[int, str, str]:
    """Exit code, output and errors of a program. No process of it survives, however it or this process ends: it would disturb
    the next measurement. Raises OSError, a TimeoutError among them after RUN_LIMIT_S."""
    ours, guards = socket.socketpair()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, ours, guards:
        process = subprocess.Popen(
            [*processes.python_command("clmembench.host.processes"), program, *arguments],
            stdin=guards.fileno(),
            stdout=out,
            stderr=errors,
            env=processes.python_environment(os.environ),
            pass_fds=files,
            start_new_session=True,  # its own process group, which child processes join
        )
        guards.close()
        try:
            code = _exit_code(ours)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return code, _read_output(out), _read_output(errors)


def _exit_code(guard: socket.socket) -> int:
    """The exit code that the guard writes when the program has ended; that of a killed process where it ends without. Raises
    TimeoutError after RUN_LIMIT_S."""
    deadline, status_text = time.monotonic() + RUN_LIMIT_S, b""
    while True:
        guard.settimeout(max(deadline - time.monotonic(), 0.001))
        part = guard.recv(16)
        if not part:
            return int(status_text) if status_text else 128 + signal.SIGKILL
        status_text += part


def _read_output(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES).decode(errors="replace")


# ---- BabelStream ------------------------------------------------------------------------------------------------------


def run_babelstream(program: str, info: DeviceInfo, elements: int, single: bool, times: int) -> StreamResult:
    """One run of a BabelStream over arrays of that many elements on that device, each operation `times` times.

    Raises Skip where the program is for other devices or does not find this one, OutputError for output that is not
    BabelStream's, and AssertionError where its own check fails.
    """
    device = _device_option(program, info)
    about = run_program(program, *device, "-s", str(IDENTITY_RUN_ELEMENTS), "-n", "2")
    version, implementation = stream_identity(about)
    if not _suits_device(implementation, info):
        raise Skip(f"this BabelStream is for {implementation}, not for this device")
    if implementation == "OpenCL" and not device:
        raise Skip("this BabelStream does not list the OpenCL devices it sees")
    kind = ("--float",) if single else ()
    text = run_program(program, *device, "-s", str(elements), "-n", str(times), "--csv", *kind)
    return StreamResult(version, implementation, parse_stream_csv(text, elements, 4 if single else 8, times))


def _suits_device(implementation: str, info: DeviceInfo) -> bool:
    word = implementation.partition(" ")[0]
    if word == "OpenMP" and any(part in implementation.lower() for part in OFFLOAD_WORDS):
        return info.kind == "gpu"
    return info.kind in DEVICE_KINDS.get(word, ("cpu",))  # threads, TBB, the language's own parallelism


def stream_identity(text: str) -> tuple[str, str]:
    """Version and implementation from BabelStream's human-readable output. Raises OutputError where they are missing."""
    version = re.search(r"^Version: (\S.*)$", text, re.MULTILINE)
    implementation = re.search(r"^Implementation: (\S.*)$", text, re.MULTILINE)
    if not text.lstrip().startswith("BabelStream") or version is None or implementation is None:
        raise OutputError("it does not say that it is BabelStream, and which")
    return version[1].strip()[:50], implementation[1].strip()[:50]


def _device_option(program: str, info: DeviceInfo) -> tuple[str, ...]:
    """The option that selects the device, by its name; none where the program lists no devices by name, as with OpenMP. Raises
    Skip where the name is missing or ambiguous."""
    listed = re.findall(r"^\s*(\d+): (.+)$", run_program(program, "--list"), re.MULTILINE)
    if not listed:
        return ()
    mine = [number for number, name in listed if _plain_text(name) == _plain_text(info.name)]
    if len(mine) != 1:
        if info.kind == "cpu" and len(listed) == 1:
            return ()  # the host, under any name
        raise Skip(f"BabelStream lists {len(mine)} devices of this name" if mine else "BabelStream does not see this device")
    return ("--device", mine[0])


def _plain_text(name: str) -> str:
    return re.sub(r"\s+", " ", name).strip()


def parse_stream_csv(text: str, elements: int, item_bytes: int, times: int) -> Mapping[str, StreamTimes]:
    """The operations in BabelStream's CSV. Raises OutputError where a line is missing, malformed, inconsistent, or contradicts
    the request."""
    rows = [line.strip() for line in text.splitlines()]
    heads = [number for number, row in enumerate(rows) if row.startswith("function,")]
    if len(heads) != 1:
        raise OutputError("it printed no table of operations")
    names = re.sub(r"max_(mbytes|MB)_per_sec", "max_rate", rows[heads[0]]).split(",")
    if tuple(names) != CSV_COLUMNS:
        raise OutputError(f"its table has other columns: {rows[heads[0]][:100]}")
    lines = {}
    for row in filter(None, rows[heads[0] + 1 :]):
        cells = row.split(",")
        if len(cells) != len(CSV_COLUMNS) or cells[0] in lines:
            raise OutputError(f"a line of its table is malformed: {row[:100]}")
        lines[cells[0]] = _parse_stream_line(cells, elements, item_bytes, times)
    missing = [name for name in COUNTED_ARRAYS if name not in lines]
    if missing:
        raise OutputError(f"its table lacks {', '.join(missing)}")
    return {name: lines[name] for name in COUNTED_ARRAYS}


def _parse_stream_line(cells: Sequence[str], elements: int, item_bytes: int, times: int) -> StreamTimes:
    try:
        settings = [int(cell) for cell in cells[1:4]]
        rate, least, most, mean = (float(cell) for cell in cells[4:])
    except ValueError as error:
        raise OutputError(f"a line of its table has no numbers: {','.join(cells)[:100]}") from error
    if settings != [times, elements, item_bytes]:
        raise OutputError(f"its table is of another run: {','.join(cells)[:100]}")
    if not all(map(math.isfinite, (rate, least, most, mean))) or not 0 < least <= mean <= most <= RUN_LIMIT_S:
        raise OutputError(f"its times are invalid: {','.join(cells)[:100]}")
    nbytes = COUNTED_ARRAYS.get(cells[0], 0) * elements * item_bytes
    if nbytes and abs(rate * 1e6 * least - nbytes) > MAX_RELATIVE_DISAGREEMENT * nbytes:
        raise OutputError(f"its rate does not match its time: {','.join(cells)[:100]}")
    return StreamTimes(times - 1, least, most, mean)


# ---- clpeak -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClpeakResult:
    """The version of clpeak, and its results of one test by clpeak's names, in its unit."""

    version: str
    unit: str
    figures: Mapping[str, float]


def run_clpeak(program: str, info: DeviceInfo, test: str) -> ClpeakResult:
    """One test of clpeak 2 on its OpenCL back end. Raises Skip where it does not find the device or has no result of that test,
    OutputError for output that is not clpeak's."""
    with tempfile.TemporaryFile() as file:  # without a name, so that nothing remains where this process is killed
        chosen, path = f"--{test.replace('_', '-')}", f"/dev/fd/{file.fileno()}"
        run_program(program, "--opencl", chosen, "--max-time", str(CLPEAK_MS), "--json-file", path, files=(file.fileno(),))
        file.seek(0)
        text = file.read(MAX_OUTPUT_BYTES)
    if not text:
        raise OutputError("it wrote no results: version 2 or later is needed")
    return parse_clpeak_json(text, info, test)


def parse_clpeak_json(text: bytes, info: DeviceInfo, test: str) -> ClpeakResult:
    """The results of one test on one device in clpeak's JSON. Raises as `run_clpeak`."""
    try:
        document: Any = json.loads(text)
        version, entries = str(document["clpeak_version"])[:50], list(document["entries"])
        mine = [
            e
            for e in entries
            if (e["backend"], e["test"]) == ("OpenCL", test)
            and _plain_text(e["device"]) == _plain_text(info.name)
            and _plain_text(e["platform"]) == _plain_text(info.platform)
        ]
        good = [(str(e["metric"]), float(e["value"]), str(e["unit"])) for e in mine if "value" in e]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise OutputError("its results are not clpeak's JSON") from error
    figures = {metric: value for metric, value, _ in good}
    if not figures:
        raise Skip(f"clpeak has no figure of {test} for this device")
    units = {unit for _, _, unit in good}
    if len(figures) != len(good):
        raise Skip("clpeak sees several devices of this name")
    if len(units) != 1 or not all(math.isfinite(value) and value > 0 for value in figures.values()):
        raise OutputError("its figures are no positive numbers in one unit")
    return ClpeakResult(version, units.pop(), figures)
