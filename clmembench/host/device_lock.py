"""One run on a device at a time: two would measure each other. The lock names who holds it and ends with its process.

It lies where every process of this host looks, not in the folder for temporary files, which a batch system gives each job for
itself; CLMEMBENCH_LOCKS names another folder where that place itself is each job's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from clmembench import sanitize
from clmembench.host import file_lock
from clmembench.model import DeviceInfo

MAX_LOCK_FILE_BYTES = 4096  # that are read of a file which anybody may have written
DEFAULT_LOCK_FOLDER = "/tmp"  # noqa: S108 - the same for all users, who may all write there; links are not followed
LOCK_FOLDER_VARIABLE = "CLMEMBENCH_LOCKS"  # names another folder


class HeldError(Exception):
    """Another run holds the device, or the file in place of its lock is no lock; the message says which."""


class NoLockError(HeldError):
    """The file in place of the lock is none: nobody will free it."""


def path_of(info: DeviceInfo) -> Path:
    """The device's lock file, the same for all users of this host."""
    return (
        Path(os.environ.get(LOCK_FOLDER_VARIABLE) or DEFAULT_LOCK_FOLDER)
        / f"clmembench-{''.join(c for c in info.id if c.isalnum())}.lock"
    )


@contextmanager
def held(info: DeviceInfo) -> Iterator[None]:
    """Hold the device while the block runs. Raises HeldError where another run does.

    The system frees the lock when its process ends, however it ends. Where none can be kept, on a system without such locks or
    in a folder that cannot be written, the block runs without.
    """
    descriptor = _opened(info)
    if descriptor is None:
        yield
        return
    try:
        _check(descriptor, path_of(info))
        if not file_lock.take(descriptor):
            remedy = "wait for it, or choose another device"
            raise HeldError(f"{info.name} is in use by another run: {_holder(descriptor)}: {remedy}")
        said = {"pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds"), "argv": sys.argv[1:]}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(said).encode()[:MAX_LOCK_FILE_BYTES], 0)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)  # and with it the lock; the file stays: to remove it would let two runs lock two files


def _opened(info: DeviceInfo) -> int | None:
    """A descriptor that no child inherits, or None. Links are not followed: the folder is anybody's."""
    flags = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    path = path_of(info)
    try:
        try:
            return os.open(path, flags)  # some systems let nobody create a file anew that another user made
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o666)  # whatever the umask: the next run may be another user's
    return descriptor


def _check(descriptor: int, path: Path) -> None:
    """Raises NoLockError for what is no lock: a FIFO cannot be locked, and a file with another name is somebody's, whose
    content would be lost."""
    about = os.fstat(descriptor)
    what = "no ordinary file" if not stat.S_ISREG(about.st_mode) else "a file with several names" if about.st_nlink > 1 else ""
    if what:
        raise NoLockError(sanitize.line(f"{path}, where the device's lock should be, is {what}: remove it", 300))


def _holder(descriptor: int) -> str:
    """Holder of the lock as the file names it, as harmless text."""
    try:
        said = json.loads(os.pread(descriptor, MAX_LOCK_FILE_BYTES, 0))
        text = f"process {int(said['pid'])} since {said['started']}, clmembench {' '.join(map(str, said['argv']))}"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "it does not say which"
    return sanitize.line(text, 300)
