"""Locks on open files, which the system frees when their process ends, however it ends."""

from __future__ import annotations


def take(descriptor: int) -> bool:
    """True where this process now holds the lock, or where locks are not available: another system, or a file system
    without."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True
