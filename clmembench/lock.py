"""One run on a device at a time: two would measure each other. The lock names who holds it and ends with its process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from clmembench import shown
from clmembench.model import DeviceInfo

MOST_BYTES = 4096  # that are read of a file which anybody may have written


class HeldError(Exception):
    """Another run holds the device; the message says which."""


def path_of(info: DeviceInfo) -> Path:
    """The device's lock file, the same for all users of this host."""
    return Path(tempfile.gettempdir()) / f"clmembench-{''.join(c for c in info.id if c.isalnum())}.lock"


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
        if not _taken(descriptor):
            raise HeldError(
                f"{info.name} is in use by another run: {_holder(descriptor)}: wait for it, or choose another device"
            )
        said = {"pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds"), "argv": sys.argv[1:]}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(said).encode()[:MOST_BYTES], 0)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)  # and with it the lock; the file stays: to remove it would let two runs lock two files


def _opened(info: DeviceInfo) -> int | None:
    """A descriptor that no child inherits, or None. Links are not followed: the folder is anybody's."""
    flags = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    try:
        path = path_of(info)  # there may be no folder for temporary files at all
        try:
            return os.open(path, flags)  # some systems let nobody create a file anew that another user made
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o666)  # whatever the umask: the next run may be another user's
    return descriptor


def _taken(descriptor: int) -> bool:
    """Whether the lock is now ours; True, too, where there are no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # no such module, or a file system without locks
        return True
    return True


def _holder(descriptor: int) -> str:
    """Who says in the file that it holds the lock, as harmless text."""
    try:
        said = json.loads(os.pread(descriptor, MOST_BYTES, 0))
        text = f"process {int(said['pid'])} since {said['started']}, clmembench {' '.join(map(str, said['argv']))}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it does not say which"
    return shown.line(text, 300)
