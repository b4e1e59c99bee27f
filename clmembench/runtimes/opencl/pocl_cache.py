"""PoCL's cache of compiled programs: repairs damage after a power failure, and explains other defects.

PoCL uses an empty file as a compiled program: it then has no kernels, or its kernel ends the process. Without a writable folder
PoCL has no devices. A kernel's library that cannot be loaded ends the process (seen with 3.0).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

_LONG_AGO_S = 30.0  # another process may still be writing a newer file
_PROGRAM, _KERNEL = "program.bc", ".so"
_LOADED = re.compile(r"dl(?:open|sym)\(\"([^\"]+)\"")  # PoCL's message about a library that does not load


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder of PoCL's compiled programs, existing or not, in this process's environment or another one."""
    known = os.environ if environment is None else environment
    if own := known.get("POCL_CACHE_DIR"):
        return Path(own)
    base = known.get("XDG_CACHE_HOME") or Path(known.get("HOME", ""), ".cache")
    return Path(base, "pocl", "kcache")


def unusable_reason(environment: Mapping[str, str] | None = None) -> str:
    """The reason why PoCL cannot use its cache folder, with the remedy.

    Empty if the folder, or the one in which PoCL would create it, is writable and libraries in it can be loaded.
    """
    folder = cache_folder(environment)
    fault, there = "", next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        fault = f"cannot be created: {there} is not a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        fault = (
            f"cannot be {'written' if there == folder else f'created in {there}'}: no permission, or a read-only file system"
        )
    else:
        system = os.statvfs(there)
        if system.f_flag & getattr(os, "ST_NOEXEC", 0):
            fault = "is on a file system that is mounted noexec, from which no compiled kernel can be loaded"
        elif (system.f_blocks and not system.f_bavail) or (system.f_files and not system.f_favail):
            fault = "is on a file system that is full"
        else:
            try:  # as root every folder passes for writable, those of /proc too
                with tempfile.TemporaryFile(dir=there):
                    pass
            except OSError as error:
                fault = f"cannot be {'written' if there == folder else f'created in {there}'}: {error.strerror}"
    return f"PoCL's cache folder {folder} {fault}: set POCL_CACHE_DIR to a folder that can be used" if fault else ""


def damage(log: str, environment: Mapping[str, str]) -> str:
    """The damage of the cache that is visible in the log of a dead process, or in an incomplete kernel library; empty if there
    is none."""
    folder = cache_folder(environment)
    named = [path for path in _LOADED.findall(log) if path.startswith(f"{folder.absolute()}{os.sep}")]
    if not named:
        named = [str(path) for path in _files(folder) if path.suffix == _KERNEL and _is_cut_short(path)]
    if not named:
        return ""
    remedy = f"remove the folder {folder}, which PoCL fills again"
    return unusable_reason(environment) or f"PoCL's cache holds a kernel that cannot be loaded, {named[-1]}: {remedy}"


def _is_cut_short(path: Path) -> bool:
    """Whether a file is not a complete ELF library, by its header, which has the end of its last table."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head, size = file.read(64), os.fstat(file.fileno()).st_size
        if head[:5] != b"\x7fELF\x02":  # 64 bits
            return head[:4] != b"\x7fELF"
        order: Literal["little", "big"] = "little" if head[5:6] == b"\x01" else "big"
        start, entry, count = (int.from_bytes(head[a:b], order) for a, b in ((40, 48), (58, 60), (60, 62)))
        return len(head) < 64 or start + entry * count > size
    return False


def remove_empty_programs() -> int:
    """Remove broken entries, which PoCL then compiles again; returns their number.

    These are programs whose intermediate code is an empty file, with their kernels, and kernels that are empty files. Entries
    that cannot be removed are left alone.
    """
    removed = 0
    for file in list(_empty_files(cache_folder())):
        if file.name == _PROGRAM:
            shutil.rmtree(file.parent, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)
        removed += not file.exists()
    return removed


def _empty_files(folder: Path) -> Iterator[Path]:
    now = time.time()
    for path in _files(folder):
        with contextlib.suppress(OSError):
            state = path.stat()
            if not state.st_size and now - state.st_mtime > _LONG_AGO_S:
                yield path


def _files(folder: Path) -> Iterator[Path]:
    """Programs and kernels. By scandir, since the cache may have thousands of folders."""
    folders = [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # another process removed it
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.name == _PROGRAM or entry.name.endswith(_KERNEL):
                yield Path(entry.path)
