"""CPU quota of the control groups that this process is in, of both versions: the least from its own group up to the root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ESCAPES = {"\\040": " ", "\\011": "\t", "\\134": "\\"}  # of mountinfo


def cpu_limit(process: Path = Path("/proc/self")) -> float | None:
    """CPUs that the process may use in all; None where no group limits them, or the system has none. Limits of groups that a
    container hides from its processes cannot be read."""
    limits = [limit for folder in _groups(process) if (limit := _limit(folder)) is not None]
    return round(min(limits), 2) if limits else None


def _groups(process: Path) -> Iterator[Path]:
    """The folders of the process's groups for CPU time: its own, then those above it, in each hierarchy."""
    own: dict[str, str] = {}
    for line in _text(process / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") > 1 else ("", "none", "")
        if not controllers or "cpu" in controllers.split(","):
            own["cgroup" if controllers else "cgroup2"] = path
    for line in _text(process / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, *options) = before.split(), after.split() or [""]
        if kind not in own or len(fields) < 5 or (kind == "cgroup" and "cpu" not in options[-1].split(",")):
            continue
        root, mount = map(_unescaped, fields[3:5])
        # in a container the path may be the host's, which begins with what is mounted, or lie outside of its own view
        group = PurePosixPath(own[kind])
        below = group.relative_to(root) if group.is_relative_to(root) else PurePosixPath()
        inner = Path(mount, *(below.parts if ".." not in below.parts else ()))
        yield inner
        yield from (folder for folder in inner.parents if folder.is_relative_to(mount))


def _limit(folder: Path) -> float | None:
    """CPUs by the quota of one group; None for "max", -1 and what is no number."""
    words = _text(folder / "cpu.max").split() or [_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        allowed = int(words[0]) / int(words[1])
    except (ValueError, IndexError, ZeroDivisionError):
        return None
    return allowed if allowed > 0 else None


def _unescaped(path: str) -> str:
    for code, letter in _ESCAPES.items():
        path = path.replace(code, letter)
    return path


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
