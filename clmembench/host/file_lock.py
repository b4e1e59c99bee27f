"""Locks on open files, which the system frees when their process ends, however it ends."""

from __future__ import annotations

from typing import Literal


def attempt(descriptor: int, shared: bool = False) -> Literal["taken", "busy", "unavailable"]:
    """Try to take the lock of an open file, alone or together with others who share it, without waiting. It is unavailable on
    another system, or a file system without locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return "busy"
    except (ImportError, OSError):
        return "unavailable"
    return "taken"


def take(descriptor: int) -> bool:
    """True where this process now holds the lock, or where locks are not available."""
    return attempt(descriptor) != "busy"
