"""The worker process itself: the CPUs that its driver's threads run on, its end when its parent ends, and of copies of it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from pathlib import Path
from typing import TextIO

from clmembench.host.fresh_interpreter import die_with_parent


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
