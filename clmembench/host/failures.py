"""Failures that come from the host, in words: what it has no more of, and how a process ended."""

from __future__ import annotations

import errno
import os
import re
import signal

from clmembench.units import format_bytes

_MEMORY = "out of memory: free some, raise the limit (ulimit -v; in a container, its own), or work on less at once"
_TASKS = "no room for another process or thread: raise the limits (ulimit -u and -v; in a container, its own), or end others"
_FILES = "too many open files: raise the limit (ulimit -n)"
_NO_MEMORY = re.compile(  # the words of the loader, of Python, of C++ and of LLVM
    r"failed to map segment|cannot allocate memory|\bMemoryError\b|\bbad_alloc\b|out of memory|memory allocation .*failed",
    re.IGNORECASE,
)

# remarks that follow a cause: notes of compilers and drivers, and frames of a stack
_REMARK = re.compile(r"(note|hint|help|remark|info|warning|please|stack dump|aborted|#?\d+[.: ]|\W*$)", re.IGNORECASE)


def scarcity_text(error: BaseException) -> str | None:
    """What the host lacks, and the remedy; None for any other error, which is one of the program."""
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, ImportError):
        return scarcity_in(str(error)) or None
    if isinstance(error, RuntimeError):
        return _TASKS if "can't start new thread" in str(error) else None
    return _of_system(error) if isinstance(error, OSError) else None


def scarcity_in(text: str) -> str:
    """The same of what a library or an ended process said: only want of memory is known by words; "" for anything else."""
    return _MEMORY if _NO_MEMORY.search(text) else ""


def resource_limits() -> str:
    """The limits that are set on this process's memory and files, which drivers report as errors of another kind, to follow a
    message; "" where there are none."""
    try:
        import resource  # not on Windows
    except ImportError:
        return ""
    asked = (
        ("a process may have {} of memory here", "-v", resource.RLIMIT_AS),
        ("a file may have {} here", "-f", resource.RLIMIT_FSIZE),
    )
    found = [(words, option, resource.getrlimit(kind)[0]) for words, option, kind in asked]
    return "".join(
        f"; {words.format(format_bytes(limit))}, which may be why: raise the limit (ulimit {option})"
        for words, option, limit in found
        if limit != resource.RLIM_INFINITY
    )


def _of_system(error: OSError) -> str | None:
    if error.errno == errno.ENOMEM:
        return _MEMORY
    if error.errno == errno.EAGAIN:
        return _TASKS
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return _FILES
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        where = f"write {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else "write a temporary file"
        return f"cannot {where}: {error.strerror}: free space there (df -h), or set TMPDIR to a folder that can be written"
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):
        return f"{error.strerror}: set TMPDIR to a folder that can be written"
    if error.errno == errno.ENOENT and error.filename is None and not _current_folder_exists():
        return "the current folder has been deleted: change to one that exists"
    return None


def _current_folder_exists() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked of the system alone
    except OSError:
        return False
    return True


def not_started(error: OSError, purpose: str = "") -> str:
    """Why the system starts no process, and the remedy."""
    reason = scarcity_text(error) or f"{error.strerror}: free memory, or space for temporary files"
    return f"no process could be started{' ' if purpose else ''}{purpose}: {reason}"


def describe_end(code: int) -> str:
    """How a process with that return code of `subprocess` ended, to follow its name."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"died of {signal.Signals(-code).name}"
    except ValueError:
        return f"died of signal {-code}"


def last_words(log: str) -> str:
    """What a process printed last, but for remarks behind it, to be put behind a message; "" where it printed nothing."""
    lines = [line.strip() for line in log.strip().splitlines()]
    causes = [line for line in lines if not _REMARK.match(line)]
    return f"; it last said: {(causes or lines)[-1]}" if lines else ""
