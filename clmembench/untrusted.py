"""Files named by users or found in their folders: opened so that none blocks, of limited size, and TOML of limited depth."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO, TextIO

PARTS = 16  # of a dotted key in TOML: a sheet's have three, and a reader's time grows with the square of their number

# texts and comments, in which dots are no parts; one without an end is the parser's to refuse
_TEXTS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?|' + r"'''(?:[^']++|'(?!''))*+(?:''')?|"
    r'"(?:[^"\\\n]++|\\.)*+"?|' + r"'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_DOTTED = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{PARTS}}}")


def open_regular(path: Path) -> BinaryIO:
    """A regular file to read. Raises OSError where it cannot be read or is a pipe or a device, on which a reader would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        _check_regular(descriptor)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a regular file. Raises OSError as `open_regular`, and ValueError where it has over `most` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"over {most} bytes")
    return content


def open_new(path: Path, overwrite: bool = False, pipe: bool = True, truncate: bool = True) -> TextIO:
    """A file to write UTF-8 into. Raises OSError: FileExistsError where there is one and it is not to be overwritten; for a
    pipe that nobody reads, on which a writer would wait; without `pipe` for any, which cannot be read again. Without `truncate`
    what stands in an overwritten file is still there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | (os.O_EXCL if not overwrite else os.O_TRUNC if truncate else 0), 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe that nobody reads", str(path)) from error
        raise
    try:
        if not pipe and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe", str(path))
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "w", encoding="utf-8")
    except BaseException:
        os.close(descriptor)
        raise


def write_whole(path: Path, text: str, overwrite: bool = False) -> None:
    """Write UTF-8 so that the file has all of it or is as it was before, whatever ends this process. To a pipe or a device, and
    in a folder that knows no files without a name, it is written as it comes. Raises OSError as `open_new`."""
    replaced = overwrite and path.is_file()
    path = path.resolve() if replaced else path  # the file is replaced, and not a link to it
    descriptor = _open_nameless(path.parent) if replaced or not path.exists() else None
    if descriptor is None:
        with open_new(path, overwrite) as file:
            file.write(text)
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if replaced:
            open_new(path, overwrite, truncate=False).close()  # whether it may be written
            os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
        file.write(text)
        file.flush()
        named = path.with_name(f".{path.name}.{os.getpid()}.part") if replaced else path
        os.link(f"/proc/self/fd/{descriptor}", named, src_dir_fd=descriptor)  # without a folder it would link the link
        if replaced:
            named.replace(path)


def _open_nameless(folder: Path) -> int | None:
    """A new file of that folder without a name, of which nothing is left unless it gets one; None where there are none."""
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666)
    except (OSError, AttributeError):
        return None


def _check_regular(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def sync(path: Path) -> None:
    """Have the system write a folder's entries to its disk, so that a new file's name outlives a power cut. No error where a
    file system cannot."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def parse_toml(content: bytes) -> dict[str, Any]:
    """What a TOML file says. Raises ValueError for what is none, and for a dotted key of over PARTS parts; RecursionError for
    one that is nested too deeply."""
    text = content.decode()
    long = _DOTTED.search(_TEXTS.sub("s", text))
    if long is not None:
        raise ValueError(f"a key of over {PARTS} parts, {long[0][:40]}...")
    return tomllib.loads(text)
