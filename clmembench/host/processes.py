"""Processes that this program starts: safe interpreters, guarded programs, and their end with their parent.

A guarded program is started in a process group of its own with one end of a socket pair as its standard input. Nobody writes
to the other end, which the process that asks holds: its end is that process's end. When the program has ended, this process
writes its exit code there, or 128 and the signal that ended it, and kills its own group: what the program has left running
ends with it even if the process that asked is killed at that moment.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

ROOT = str(Path(__file__).resolve().parent.parent.parent)  # what the package lies in
# this very package, whichever else is installed; and nothing else of what may lie beside it
_RUN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import clmembench
del sys.path[0]
import runpy
runpy.run_module(sys.argv.pop(1), None, "__main__", True)
"""

ASKER = 0  # the descriptor of the socket
INTERRUPT_AGAIN_S = 0.01  # after which the callback that lost an interrupt has returned


def python_command(module: str) -> list[str]:
    """Command line that runs a module of this package; start it in `environment`."""
    return [sys.executable, "-P", "-c", _RUN, ROOT, module]


def python_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Environment of a Python that imports nothing from the current folder.

    PYTHONPATH keeps the folders that it names, absolute as of now; an empty entry, which a path that was put together from
    nothing begins or ends with, would be the current folder and goes.
    """
    named = [str(Path(entry).absolute()) for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = {name: value for name, value in given.items() if name != "PYTHONPATH"}
    return {**kept, "PYTHONSAFEPATH": "1", **({"PYTHONPATH": os.pathsep.join(named)} if named else {})}


def interrupt_again(lost: UnraisableHookArgs) -> None:
    """As `sys.unraisablehook`: Ctrl-C once more where CPython has lost one. What a callback of a weak reference raises ends
    there, and each import of a module runs such a callback."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    again = threading.Timer(INTERRUPT_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def die_with_parent() -> None:
    """Have the system end this process when its parent dies; only Linux can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextmanager
def inherited_environment() -> Iterator[None]:
    """While the block runs, this process's own environment is such a one: for processes that the standard library starts."""
    names = ("PYTHONPATH", "PYTHONSAFEPATH")
    before, safe = {name: os.environ.get(name) for name in names}, python_environment(os.environ)
    _set({name: safe.get(name) for name in names})
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def thread_ids() -> set[int]:
    """The ids of this process's threads; empty where the system does not say."""
    try:
        return {int(path.name) for path in Path("/proc/self/task").iterdir()}
    except OSError:
        return set()


def pin_threads(cpus: tuple[int, ...], workers: set[int]) -> None:
    """Pin each of the driver's threads to one CPU, in the order of their creation: unpinned, two of them have been observed to
    share one CPU for a whole process. Where there are more or fewer threads than CPUs, none is pinned."""
    if len(workers) == len(cpus) and hasattr(os, "sched_setaffinity"):
        for thread, cpu in zip(sorted(workers), cpus, strict=True):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, {cpu})


def busiest_threads(work: Callable[[], object], count: int) -> set[int]:
    """The threads of this process, besides its first one, that ran longest during the work: a driver's that execute kernels.

    Fewer than `count` where not so many ran, or the system does not say.
    """

    def ran_ns() -> dict[int, int]:
        found = {}
        for thread in thread_ids() - {os.getpid()}:
            with contextlib.suppress(OSError, ValueError):
                text = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii")
                found[thread] = int(text.split()[0])
        return found

    before = ran_ns()
    work()
    extra = {thread: ns - before.get(thread, 0) for thread, ns in ran_ns().items()}
    ran = sorted((thread for thread, ns in extra.items() if ns > 0), key=lambda thread: -extra[thread])
    return set(ran[:count])


def end_with_parent() -> None:
    """Have the system end this process when its parent dies; only Linux can."""
    if sys.platform == "linux":
        die_with_parent()
        # a parent that died before this call sends nothing any more, but nobody holds the other end of standard input
        other_end = select.poll()
        other_end.register(0, 0)
        if other_end.poll(0):
            sys.exit("the parent has ended")


def open_pipes() -> tuple[TextIO, TextIO]:
    """The questions and the answers of this process, which were its standard input and output: there it has nothing to read
    and standard error, since drivers print, and a benchmark may read."""
    questions, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    _redirect(os.devnull, 0)
    os.dup2(2, 1)
    return questions, answers


def detach(*pipes: TextIO) -> None:
    """In a copy of this process that a benchmark forked: it reads no more questions and gives no answers, which are the first
    one's, and keeps no pipe open by which the parent would see that one end."""
    _redirect(os.devnull, *(pipe.fileno() for pipe in pipes))


def _redirect(path: str, *descriptors: int) -> None:
    opened = os.open(path, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(opened, descriptor)
    os.close(opened)


def end_if_forked(pid: int) -> None:
    """End this process where it is not the one of that id, but a copy that a benchmark forked and let run on."""
    if os.getpid() != pid:
        os._exit(0)


def guard_program(command: list[str]) -> None:
    """Run the command, say its exit code, or 127 where it cannot be run, and end with everything that it started."""
    threading.Thread(target=_end_with_asker, daemon=True).start()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)  # what was passed to this one is for it
        code = process.wait()
    except OSError as error:
        print(f"{type(error).__name__}: {error.strerror}", file=sys.stderr, flush=True)
        code = 127
    with contextlib.suppress(OSError):  # the process that asked may have ended just now
        os.write(ASKER, str(code if code >= 0 else 128 - code).encode())
    os.killpg(0, signal.SIGKILL)


def _end_with_asker() -> None:
    with contextlib.suppress(OSError):
        while os.read(ASKER, 1):
            pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    guard_program(sys.argv[1:])
