"""Finds kernels (cl_kernels/, or a folder of the user's), spec sheets and stored shapes (platforms/), in wheel or checkout."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

KERNELS_VARIABLE = "CLMEMBENCH_KERNELS"  # names a folder whose kernels take the place of those of the same name here
_PACKAGE = Path(__file__).resolve().parent
_INCLUSION = re.compile(r'^#include "(?P<name>\w+)\.cl"\n', re.MULTILINE)


def _folder(name: str) -> Path:
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"no folder {name}/ beside or inside {_PACKAGE}: reinstall clmembench")


def package_folder() -> Path:
    """Where the program's modules are."""
    return _PACKAGE


def folders() -> tuple[Path, ...]:
    """The kernels' folder, and that of spec sheets and stored shapes."""
    return _folder("cl_kernels"), _folder("platforms")


@cache
def kernel_source(name: str, module: str = "") -> str:
    """The OpenCL C text of <name>.cl, from the folder that CLMEMBENCH_KERNELS names if it is there, else from that of the
    benchmark's `module` (its __file__) if it is there, else from cl_kernels/.

    A line `#include "other.cl"` is replaced by the text of other.cl, found in the same way, so that drivers need no search path
    and a hash of the text covers what is included. Raises FileNotFoundError where a file is missing, and ValueError where files
    include each other.
    """
    return _with_inclusions(name, module, ())


def _with_inclusions(name: str, module: str, including: tuple[str, ...]) -> str:
    if name in including:
        raise ValueError(f"kernel files include each other: {' -> '.join((*including, name))}")
    chain = (*including, name)
    return _INCLUSION.sub(lambda line: _with_inclusions(line["name"], module, chain), _kernel_text(name, module))


def _kernel_text(name: str, module: str) -> str:
    own = os.environ.get(KERNELS_VARIABLE)
    for folder in (Path(own) if own else None, Path(module).parent if module else None):
        if folder is not None and (folder / f"{name}.cl").is_file():
            return (folder / f"{name}.cl").read_text(encoding="utf-8")
    return (_folder("cl_kernels") / f"{name}.cl").read_text(encoding="utf-8")


def noise_text() -> str:
    """The TOML text of noise.toml: how much values differ where nothing was changed."""
    return (_PACKAGE / "analysis" / "noise.toml").read_text(encoding="utf-8")


def kernel_names() -> list[str]:
    """The names of every kernel file, sorted."""
    return sorted(path.stem for path in _folder("cl_kernels").glob("*.cl"))


def sheet_paths() -> list[Path]:
    """Every spec sheet, in order of name."""
    return sorted(_folder("platforms").glob("*.toml"))


def tuning_paths() -> list[Path]:
    """Every file of stored shapes that is shipped, in order of name."""
    return sorted((_folder("platforms") / "tuning").glob("*.toml"))


def mdm_hardware_paths() -> list[Path]:
    """Every shipped file of hardware of the memory divergence model, in order of name."""
    return sorted((_folder("platforms") / "mdm" / "hardware").glob("*.toml"))


def mdm_published_errors_path() -> Path:
    """The errors of the memory divergence model that its authors published."""
    return _folder("platforms") / "mdm" / "published-errors.toml"
