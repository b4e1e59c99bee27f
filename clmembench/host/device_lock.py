"""Locks: of an open file, and of a piece of hardware, so that no two runs measure each other.

They lie where every process of this host looks, not in the folder for temporary files, which a batch system gives each job for
itself; CLMEMBENCH_LOCKS names another folder where that place itself is each job's own.

Drivers and runtimes know more or less of one GPU: its PCI address, its UUID, or its name alone. A run holds the lock of the
surest that it knows alone, and shares the others with runs that know a surer one. So it excludes whoever knows its hardware by
any of them, and no run on another GPU of the model.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clmembench import sanitize

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo

MAX_LOCK_FILE_BYTES = 4096  # that are read of a file which anybody may have written
MAX_NAME_LETTERS = 80  # of what a lock's file is named after
DEFAULT_LOCK_FOLDER = "/tmp"  # noqa: S108 - the same for all users, who may all write there; links are not followed
LOCK_FOLDER_VARIABLE = "CLMEMBENCH_LOCKS"  # names another folder
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # one for a host and all its containers


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


class HeldError(Exception):
    """Another run holds the device, or the file in place of its lock is no lock; the message says which, and `use` without what
    to do about it."""

    def __init__(self, use: str, remedy: str = "") -> None:
        super().__init__(f"{use}: {remedy}" if remedy else use)
        self.use = use


class NoLockError(HeldError):
    """The file in place of the lock is none: nobody will free it."""


def hardware_names(info: DeviceInfo) -> list[str]:
    """What the hardware of a device is known by on its host, the surest first. A host's CPU is one under every driver; a part
    of a GPU has the PCI address of the whole, but for the function."""
    if info.kind == "cpu" or (info.has_cpu_cores and info.shares_host_memory):
        return ["cpu"]
    from clmembench.model.device_identity import driver_uuid, name_key, pci_address  # with numpy, which start-up does without

    address, uuid, model = pci_address(info.pci), driver_uuid(info), name_key(info.name)
    return [
        *(["pci-{:x}-{:x}-{:x}".format(*address)] if address else []),
        *([f"uuid-{uuid}"] if uuid else []),
        *([f"model-{model}-number-{info.instance}"] if info.instance else []),
        f"model-{model}",
    ]


def path_of(info: DeviceInfo) -> Path:
    """The lock file that a run on this device holds alone, the same for all users of this host."""
    return _path(hardware_names(info)[0])


def _path(name: str) -> Path:
    """Hosts that share a folder have files of their own in it."""
    folder = Path(os.environ.get(LOCK_FOLDER_VARIABLE) or DEFAULT_LOCK_FOLDER)
    words = "".join(c if c.isalnum() and c.isascii() else "-" for c in f"{_host()}-{name}")
    return folder / f"clmembench-{words[:MAX_NAME_LETTERS]}.lock"


@cache
def _host() -> str:
    try:
        return BOOT_ID.read_text(encoding="utf-8")[:8]
    except (OSError, ValueError):
        return platform.node()


@contextmanager
def held(*infos: DeviceInfo) -> Iterator[str]:
    """Hold the hardware of these devices while the block runs. Raises HeldError where another run does.

    The system frees the locks when their process ends, however it ends. Where one cannot be kept, on a system without locks or
    in a folder that cannot be written, the block runs without and is given the reason with a remedy; else an empty text.
    """
    wanted: dict[Path, tuple[DeviceInfo, bool]] = {}
    for info in infos:
        for place, path in enumerate(map(_path, hardware_names(info))):
            shared = place > 0 and wanted.get(path, (info, True))[1]
            wanted[path] = info, shared
    with ExitStack() as stack:
        ordered = sorted(wanted.items(), key=lambda one: one[1][1])  # two runs on one device meet at a lock of one alone first
        reasons = [stack.enter_context(_held(path, info, shared)) for path, (info, shared) in ordered]
        yield next(filter(None, reasons), "")


@contextmanager
def _held(path: Path, info: DeviceInfo, shared: bool) -> Iterator[str]:
    try:
        descriptor, is_writable = _opened(path)
    except OSError as error:
        yield _without(path, info, error)
        return
    try:
        _check(descriptor, path)
        got = attempt(descriptor, shared)
        if got == "busy":
            use = f"{info.name} is in use by another run: {_holder(descriptor, path, info)}"
            raise HeldError(use, "wait for it, or choose another device")
        content = _content(info) if is_writable else b""
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
            if content:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, content, 0)
        try:
            yield "" if got == "taken" else _remark(info, f"locks are not available in {path.parent}")
        finally:
            with contextlib.suppress(OSError):
                if content and os.pread(descriptor, MAX_LOCK_FILE_BYTES, 0) == content:  # not that of one who shares it
                    os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)  # and with it the lock; the file stays: to remove it would let two runs lock two files


def _content(info: DeviceInfo) -> bytes:
    said = {
        "pid": os.getpid(),
        "uid": os.getuid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": _words(info),
        "argv": sys.argv[1:],
    }
    return json.dumps(said).encode()[:MAX_LOCK_FILE_BYTES]


def _words(info: DeviceInfo) -> str:
    return f"{info.name} ({info.platform})"


def _opened(path: Path) -> tuple[int, bool]:
    """A descriptor that no child inherits, and whether it can be written: another user's file may be locked all the same. Links
    are not followed: the folder is anybody's."""
    flags = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, flags | os.O_RDWR), True  # some systems let nobody create a file anew that another user made
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR):
            raise
        return os.open(path, flags | os.O_RDONLY), False
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o666)  # whatever the umask: the next run may be another user's
    return descriptor, True


def _without(path: Path, info: DeviceInfo, error: OSError) -> str:
    """Why there is no lock."""
    why = os.strerror(error.errno or 0)
    if error.errno == errno.ELOOP:
        return _remark(info, f"{path} is a link, which is not followed", "remove it")
    try:
        owner = path.lstat().st_uid
    except OSError:
        return _remark(info, f"{path.parent}: {why}")
    return _remark(info, f"{path}: {why}", f"let its owner, user {_user(owner)}, remove it")


def _remark(info: DeviceInfo, why: str, remedy: str = "") -> str:
    usual = f"set {LOCK_FOLDER_VARIABLE} to a folder that all users of this host can write"
    return sanitize.line(f"no lock keeps other runs off {info.name}: {why}: {remedy or usual}", 500)


def _check(descriptor: int, path: Path) -> None:
    """Raises NoLockError for what is no lock: a FIFO cannot be locked, and a file with another name is somebody's, whose
    content would be lost."""
    about = os.fstat(descriptor)
    what = "no ordinary file" if not stat.S_ISREG(about.st_mode) else "a file with several names" if about.st_nlink > 1 else ""
    if what:
        raise NoLockError(sanitize.line(f"{path}, where the device's lock should be, is {what}: remove it", 300))


def _holder(descriptor: int, path: Path, info: DeviceInfo) -> str:
    """Holder of the lock as the file names it, as harmless text."""
    try:
        said = json.loads(os.pread(descriptor, MAX_LOCK_FILE_BYTES, 0))
        pid, uid, device = int(said["pid"]), int(said.get("uid", os.getuid())), str(said.get("device", ""))
        user = f" of user {_user(uid)}" if uid != os.getuid() else ""
        other = f" on {device}" if device and device != _words(info) else ""
        text = f"process {pid}{user} since {said['started']}{other}, clmembench {' '.join(map(str, said['argv']))}"
        gone = not _is_alive(pid)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return sanitize.line(f"its lock {path} does not say which", 300)
    where = "it runs in another container, or it ended and a process that it started holds the lock"
    return sanitize.line(text, 300) + (sanitize.line(f", which is not seen here: {where} (fuser {path})", 500) if gone else "")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0) if pid > 0 else None
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def _user(uid: int) -> str:
    """The name of a user, or the number where it has none here."""
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError, OverflowError):
        return str(uid)
