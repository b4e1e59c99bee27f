"""Environment of the host for the run header, with its CPU quota: the facts that a reader needs to believe a number."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from clmembench.host import cpu_topology
from clmembench.model import Fact

_ESCAPES = {"\\040": " ", "\\011": "\t", "\\134": "\\"}  # of mountinfo

_VARIABLES = re.compile(r"(POCL|OCL|CLMEMBENCH|OMP|GPU|SYCL|ONEAPI|DPCPP|UR|ZE)_\w+|CUDA_VISIBLE_DEVICES|CUDA_CACHE_\w+")
NAME_VARIABLE = "CLMEMBENCH_HOST_NAME"  # replaces the host's name; empty: the file has none
_UNHEARD = {"CLMEMBENCH_LOCKS", NAME_VARIABLE}  # which say where a lock lies, and what the header has elsewhere
_PACKAGES = (
    "pyopencl", "pocl-binary-distribution", "dpctl", "intel-sycl-rt", "intel-opencl-rt", "intel-cmplr-lib-rt", "numpy", "scipy",
    "nvidia-ml-py",
)  # fmt: skip


def cpu_limit(process: Path = Path("/proc/self")) -> float | None:
    """CPUs that the process may use in all; None where no group limits them, or the system has none. Limits of groups that a
    container hides from its processes cannot be read."""
    limits = [limit for folder in _groups(process) if (limit := _limit(folder)) is not None]
    return round(min(limits), 2) if limits else None


def _groups(process: Path) -> Iterator[Path]:
    """The folders of the process's groups for CPU time: its own, then those above it, in each hierarchy."""
    own: dict[str, str] = {}
    for line in _text_of(process / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") > 1 else ("", "none", "")
        if not controllers or "cpu" in controllers.split(","):
            own["cgroup" if controllers else "cgroup2"] = path
    for line in _text_of(process / "mountinfo").splitlines():
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
    words = _text_of(folder / "cpu.max").split() or [_text_of(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        allowed = int(words[0]) / int(words[1])
    except (ValueError, IndexError, ZeroDivisionError):
        return None
    return allowed if allowed > 0 else None


def _unescaped(path: str) -> str:
    for code, letter in _ESCAPES.items():
        path = path.replace(code, letter)
    return path


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def host() -> dict[str, Fact]:
    """Facts of this host; None where it does not say."""
    cpuinfo = _text("/proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "name": os.environ.get(NAME_VARIABLE, platform.node()) or None,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpu": model.group(1).strip() if model else (platform.processor() or None),
        **cpus(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "sockets": len(set(re.findall(r"^physical id\s*:\s*(\d+)$", cpuinfo, re.MULTILINE))) or None,
        "steal": _stolen(),
        "cores": len({(thread.socket, thread.core) for thread in cpu_topology.read()}),
        "virtual": bool(re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE)),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_1min": round(load, 2) if load is not None else None,
    }


def cpus() -> dict[str, Fact]:
    """How many CPUs the host has, and how many of them this process's CPU set and control groups leave it."""
    return {
        "logical_cpus": os.cpu_count(),
        "usable_cpus": len(cpu_topology.usable_cpus()),
        "cpu_limit": cpu_limit(),
    }


def _stolen() -> float | None:
    """Share of this host's CPU time that the hypervisor gave to others, over a moment; None where the system does not say."""

    def read() -> tuple[int, int] | None:
        fields = ((_text("/proc/stat") or "").splitlines() or [""])[0].split()[1:9]
        return (int(fields[7]), sum(map(int, fields))) if len(fields) == 8 else None

    before = read()
    time.sleep(0.2 if before else 0)
    after = read()
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 4)


def packages() -> dict[str, str]:
    """Versions of the packages that a result depends on, where installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def variables() -> dict[str, str]:
    """Environment variables that change what is measured; no others are kept."""
    return {name: value for name, value in sorted(os.environ.items()) if _VARIABLES.fullmatch(name) and name not in _UNHEARD}


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
