"""The OpenCL drivers (ICDs) that the loader finds on this host, and reasons why one cannot be loaded.

The loader searches `OCL_ICD_VENDORS`, a folder of .icd files or one driver, else `OPENCL_VENDOR_PATH` or /etc/OpenCL/vendors.
The loader in pyopencl's wheel also searches the wheel, unless one driver is named; Khronos' loader also reads
`OCL_ICD_FILENAMES`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from clmembench.model import Driver
from clmembench.runtimes.opencl import pocl_cache

_SYSTEM = Path("/etc/OpenCL/vendors")
_NAMES, _FOLDERS = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"), ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")


def only(library: str) -> Mapping[str, str]:
    """The environment in which any loader loads this driver only.

    One kind of loader reads the first variable; the other reads the second and treats the first as a folder without drivers.
    """
    return dict.fromkeys(_NAMES, library)


def registered() -> Sequence[Driver]:
    """The drivers in the order in which the loader loads them, each library once."""
    drivers: dict[str, Driver] = {}
    for library, source in _libraries():
        drivers.setdefault(library, Driver(f"{Path(library).name} ({source})", library, only(library)))
    return list(drivers.values())


def pocl_without_cache() -> list[str]:
    """The reason why an installed PoCL has no device, if its cache is the reason."""
    reason = pocl_cache.unusable_reason()
    return [reason] if reason and any("pocl" in Path(driver.library).name for driver in registered()) else []


def unloadable() -> list[str]:
    """Defects of the variables that name drivers and of each driver, for a host without devices. It loads the drivers."""
    named = {name: value for name in _FOLDERS if (value := os.environ.get(name))}
    wrong = [f"{name}={value} {fault}" for name, value in named.items() if (fault := _fault(value))]
    broken = []
    for driver in () if wrong else registered():
        try:
            ctypes.CDLL(driver.library)
        except OSError as error:
            no_memory = "failed to map segment" in str(error)  # the loader's words
            remedy = "free memory" if no_memory else "install what is missing (in a container, start it with the host's driver)"
            broken.append(f"the driver {driver.name} does not load: {error}: {remedy}")
    if not wrong and not broken:
        wrong = [f"{name}={value} has no device" for name, value in named.items()]
    return broken + [f"{words}: name a folder of .icd files or a driver's library, or unset it" for words in wrong]


def _fault(vendors: str) -> str:
    """The reason why the folder or driver in a variable gives no device; empty if it looks sound."""
    path = Path(vendors)
    if path.is_dir():
        return "" if list(path.glob("*.icd")) else "is a folder without .icd files"
    if "/" in vendors and not path.exists():
        return "does not exist"
    return ""


def _libraries() -> Iterator[tuple[str, str]]:
    """Each driver's library and the place where it is registered."""
    wheel, named = _wheel(), os.environ.get("OCL_ICD_VENDORS", "")
    if named and not Path(named).is_dir():
        if not named.endswith(".icd"):
            yield named, f"named by OCL_ICD_VENDORS={named}"
        elif library := _named_in(path := Path(named) if Path(named).exists() else _SYSTEM / named):
            yield library, str(path)
        wheel = None
    else:
        folder = named or os.environ.get("OPENCL_VENDOR_PATH") or ""
        for path in _files(Path(folder) if folder else _SYSTEM):
            yield _named_in(path), str(path)
        if not folder and wheel is None:  # conda's loader has its own folder
            for path in _files(Path(sys.prefix) / "etc" / "OpenCL" / "vendors"):
                yield _named_in(path), str(path)
    for path in _files(wheel) if wheel else ():
        in_wheel = path.parent / _named_in(path)  # the wheel's loader finds the wheel's drivers
        yield str(in_wheel) if in_wheel.is_file() else _named_in(path), str(path)
    if _wheel() is None:
        for library in filter(None, os.environ.get("OCL_ICD_FILENAMES", "").split(os.pathsep)):
            yield library, f"named by OCL_ICD_FILENAMES={os.environ['OCL_ICD_FILENAMES']}"


def _wheel() -> Path | None:
    """The folder of drivers and loader in pyopencl's wheel; None where pyopencl uses the system's loader."""
    spec = find_spec("pyopencl")
    folder = Path(spec.origin).parent / ".libs" if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


def _files(folder: Path) -> list[Path]:
    """The .icd files of a folder that name a library."""
    return [path for path in sorted(folder.glob("*.icd")) if _named_in(path)]


def _named_in(path: Path) -> str:
    """The library that an .icd file names, as a path or as a name that the system resolves; empty if it names none."""
    try:
        return path.read_text(errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return ""
