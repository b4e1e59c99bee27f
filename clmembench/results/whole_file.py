"""Files as wholes: written so that they are all new or as they were before, and hashes of their contents.

The content goes to a part beside the file, which is locked while it is written and then gets the file's name. A part that a
killed writer left is not locked any more, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from clmembench import resources
from clmembench.host import device_lock
from clmembench.sanitize import open_new, open_regular, sync

PART = ".part"
MAX_STEM = 40  # letters of the file's name that a part's name repeats: a name may have 255 bytes, a letter up to 4
FILE_MODE = 0o666  # of a new file, less what the process's mask forbids
_DESCRIPTORS = Path("/proc/self/fd")

READ_CHUNK_BYTES = 1 << 20


def write_whole(path: Path, content: str | bytes, overwrite: bool = False) -> None:
    """Write a file, text as UTF-8, whole or not at all.

    A file that is replaced keeps its permissions, and a link to it stays one; a new one has FILE_MODE. The content
    outlives a power cut. To a pipe or a device it is written as it comes. Raises OSError: FileExistsError where
    there is something and it is not to be overwritten, else as `sanitize.open_new` and the system do.
    """
    data = content.encode() if isinstance(content, str) else content
    replaced = overwrite and path.is_file()
    if not replaced and path.exists():  # and so it is no regular file, or must not be overwritten
        with open_new(path, overwrite) as file:
            file.buffer.write(data)
        return
    target = path.resolve() if replaced else path
    if replaced:
        open_new(target, overwrite, truncate=False).close()  # raises where it may not be written
    remove_if_abandoned(_part_paths(target)[0])
    descriptor = _open_nameless(target.parent)
    part: Path | None = None
    if descriptor is None:
        descriptor, part = _open_part(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if replaced:
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            os.fsync(descriptor)
            if part is None:
                part = _link(descriptor, target, replaced)
            if part is not None:
                _rename(part, target, replaced)
    except BaseException:
        if part is not None:
            part.unlink(missing_ok=True)
        raise
    sync(target.parent)


def remove_if_abandoned(part: Path) -> None:
    """Remove a part that nobody writes any more. No error where there is none, or it stays."""
    with contextlib.suppress(OSError):
        # a link is not followed, and a pipe not waited for
        descriptor = os.open(part, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_unlocked(descriptor):
                part.unlink()
        finally:
            os.close(descriptor)


def _is_unlocked(descriptor: int) -> bool:
    """Whether no process holds the lock of an open file; False where that is not known."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _part_paths(target: Path) -> tuple[Path, Path]:
    """The names of a part: the usual one, and one for a second writer of the same file."""
    stem = f".{target.name[:MAX_STEM]}"
    return target.with_name(stem + PART), target.with_name(f"{stem}.{secrets.token_hex(4)}{PART}")


def _open_nameless(folder: Path) -> int | None:
    """A new file of that folder without a name, of which nothing is left unless it gets one; None where there are none."""
    if not _DESCRIPTORS.is_dir():  # it could not be given a name
        return None
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, FILE_MODE)
    except (OSError, AttributeError):
        return None


def _open_part(target: Path) -> tuple[int, Path]:
    """A new part beside the file, locked."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        usual, second = _part_paths(target)
        try:
            part, descriptor = usual, os.open(usual, flags, FILE_MODE)
        except FileExistsError:
            part, descriptor = second, os.open(second, flags, FILE_MODE)
        if device_lock.take(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor, part
        os.close(descriptor)  # another writer took it for abandoned before it was locked


def _link(descriptor: int, target: Path, replaced: bool) -> Path | None:
    """Give a nameless file its name; where that is another file's still, that of a part, which is returned."""
    device_lock.take(descriptor)
    nameless = f"{_DESCRIPTORS}/{descriptor}"
    if not replaced:
        os.link(nameless, target, src_dir_fd=descriptor)  # without a folder the link itself would be linked
        return None
    usual, second = _part_paths(target)
    try:
        os.link(nameless, usual, src_dir_fd=descriptor)
    except FileExistsError:
        os.link(nameless, second, src_dir_fd=descriptor)
        return second
    return usual


def _rename(part: Path, target: Path, replaced: bool) -> None:
    """Give a part the file's name. Raises FileExistsError where a file appeared meanwhile that is not to be replaced."""
    if not replaced:
        try:
            os.link(part, target)
        except FileExistsError:
            raise
        except OSError as error:  # a file system without hard links
            if target.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        else:
            part.unlink()
            return
    part.replace(target)


def hash_file(path: Path) -> str:
    """The SHA-256 of a regular file. Raises OSError where it cannot be read, or is not regular."""
    found = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(READ_CHUNK_BYTES):
            found.update(chunk)
    return f"sha256:{found.hexdigest()}"


@cache
def hash_sources() -> str:
    """The revision of this program: a hash of its modules and templates, kernels, spec sheets and stored configurations, by
    names and contents. It is the same in a wheel as in the checkout that the wheel was built from, on any host."""
    return hash_package(resources.package_folder(), *resources.folders())


def hash_package(package: Path, *folders: Path) -> str:
    """As `of_sources`, of a package in that folder and of these folders in it or beside it, which go by their last name."""
    found = hashlib.sha256()
    for name, path in sorted([*_files(package, (".py", ".j2"), ""), *(f for folder in folders for f in _data(folder))]):
        content = path.read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"sha256:{found.hexdigest()}"


def _data(folder: Path) -> Iterator[tuple[str, Path]]:
    return _files(folder, (".cl", ".toml"), f"{folder.name}/")


def _files(folder: Path, suffixes: tuple[str, ...], prefix: str) -> Iterator[tuple[str, Path]]:
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            if path.suffix in suffixes:
                yield prefix + path.relative_to(folder).as_posix(), path
