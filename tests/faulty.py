"""Runs of the command line as processes that can be harmed and looked for: for tests of faults and the storm."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("clmembench", "cl_kernels", "platforms")
BUSY = re.compile(r"clmembench: warning: other (?:programs|virtual machines) (?:use|take) [0-9]+% of the CPU")
# FAULTY_MEANWHILE=FILE,RUN: by the time that a command has the device's lock, another run has made RUN what FILE is
MEANWHILE = """

if "FAULTY_MEANWHILE" in os.environ:
    import shutil

    _held_at_once = held

    def held(*infos: DeviceInfo) -> object:
        shutil.copy(*os.environ["FAULTY_MEANWHILE"].split(","))
        return _held_at_once(*infos)
"""
MARK = "FAULT_MARK"  # an environment variable that all processes of one run have in common, and no others

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells leave it in background jobs, and what they start inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def tree(folder: Path, *, fake: bool = True, kernels: Mapping[str, str] | None = None) -> Path:
    """A copy of the package in a folder: with a device that fails when told to for OpenCL, or
    with other kernels."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part)
    if fake:
        shutil.copy(ROOT / "tests" / "faulty_device.py", folder / "clmembench" / "runtimes" / "opencl" / "__init__.py")
        with (folder / "clmembench" / "host" / "device_lock.py").open("a") as lock:
            lock.write(MEANWHILE)
    for name, text in (kernels or {}).items():
        (folder / "cl_kernels" / f"{name}.cl").write_text(text)
    return folder


@dataclass
class Command:
    """`clmembench ...` of a tree, in a process group of its own with temporary files of its own. Use it as a context manager:
    whatever is left of it when the block ends is killed."""

    tree: Path
    args: tuple[str, ...]
    folder: Path  # made, for its temporary files
    environment: Mapping[str, str] = field(default_factory=dict)  # besides this process's own
    before: tuple[str, ...] = ()  # a program that starts it, such as unshare
    stdout: int | None = None
    cwd: Path | None = None
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __enter__(self) -> Command:
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "PYTHONPATH": str(self.tree), MARK: self.mark}
        env |= dict.fromkeys(("TMPDIR", "CLMEMBENCH_LOCKS"), str(self.folder / "tmp"))
        self.errors = self.folder / f"stderr-{self.mark}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*self.before, sys.executable, "-m", "clmembench", *self.args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if self.stdout is None else self.stdout,
                stderr=errors,
                env={**env, **self.environment},
                cwd=self.cwd or self.folder,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.alive():
            kill(pid, signal.SIGKILL)
        self.process.wait()

    def wait(self, limit_s: float = 60.0) -> int | None:
        """Its exit code, negative for a signal; None where it did not end in time."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def said(self) -> str:
        """What is on its standard error so far, without warnings of programs beside it, which a busy host gives and a quiet one
        does not."""
        lines = self.errors.read_text(errors="replace").splitlines(keepends=True)
        return "".join(line for line in lines if not BUSY.match(line))

    def interrupt(self) -> None:
        """Ctrl-C: as a terminal does, to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def alive(self) -> list[int]:
        """Every living process of this run: the command's, its children's and theirs."""
        return sorted(marked(self.mark))

    def workers(self) -> list[int]:
        return [pid for pid in self.alive() if pid != self.process.pid]

    def gone(self, limit_s: float = 60.0) -> bool:
        """Whether no process of it is left within a limit."""
        return within(limit_s, lambda: not self.alive())


def marked(mark: str) -> Iterator[int]:
    """Processes whose environment has the mark; a dead one that nobody has waited for has none."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
            except OSError:
                continue


def within(limit_s: float, condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


# a launch of 3 work-groups writes where nothing is, of 5 meets an instruction that none is, of 7 never ends
BAD_LAUNCH = """
kernel void mark(global uint* restrict done, const uint token) {
    if (get_global_id(0) == 0) done[0] = token;
    if (get_num_groups(0) == 3) *(volatile global uint*)(ulong)(token & 0xf) = token;
    if (get_num_groups(0) == 5) __builtin_trap();
    if (get_num_groups(0) == 7) for (volatile uint i = 1; i; i |= 1) {}
}
"""
NO_TEMPORARY = """
for folder in /tmp /var/tmp; do mount --bind $folder $folder && mount -o remount,ro,bind $folder || exit 99; done
exec "$@"
"""
WITHOUT_TEMPORARY = (
    "unshare",
    "-rm",
    "sh",
    "-c",
    NO_TEMPORARY,
    "sh",
)  # a command in it finds no folder to write to, with cwd /proc


def mountable() -> bool:
    """Whether this user may mount in a namespace of their own."""
    try:
        return subprocess.run([*WITHOUT_TEMPORARY, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _decompressed(data: bytes) -> bytes:
    """The content of gzip members, of which the last may be torn or damaged."""
    content = bytearray()
    while data:
        stream = zlib.decompressobj(31)
        try:
            content += stream.decompress(data)
        except zlib.error:
            break
        data = stream.unused_data
    return bytes(content)


def whole_lines(path: Path) -> bytes:
    """The complete lines of a file, decompressed by its name; nothing of one that is not there."""
    try:
        content = path.read_bytes()
    except OSError:
        return b""
    if path.suffix == ".gz":
        content = _decompressed(content)
    return content[: content.rfind(b"\n") + 1]
