"""Mends PoCL's cache of compiled programs, in which a host that lost power or a full disk leaves empty files.

PoCL takes an empty file for a compiled program: one without kernels, or one whose kernel stops the process (seen with 3.0).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

_LONG_AGO_S = 30.0  # another process may be writing a younger file
_PROGRAM, _KERNEL = "program.bc", ".so"


def cache_folder() -> Path:
    """Where PoCL keeps what it compiled, whether it exists or not."""
    if own := os.environ.get("POCL_CACHE_DIR"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", ""), ".cache")
    return Path(base, "pocl", "kcache")


def remove_empty_programs() -> int:
    """Remove what PoCL must compile again, and say how many: programs whose intermediate code is an empty file, with their
    kernels, and kernels that are empty files. What cannot be removed is left alone."""
    removed = 0
    for found in list(_empty_files(cache_folder())):
        if found.name == _PROGRAM:
            shutil.rmtree(found.parent, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)
        removed += not found.exists()
    return removed


def _empty_files(folder: Path) -> Iterator[Path]:
    """By scandir, since each worker process looks and a cache that has seen many runs has thousands of folders."""
    now, folders = time.time(), [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # another process removed it
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.name == _PROGRAM or entry.name.endswith(_KERNEL):
                with contextlib.suppress(OSError):
                    state = entry.stat()
                    if not state.st_size and now - state.st_mtime > _LONG_AGO_S:
                        yield Path(entry.path)
