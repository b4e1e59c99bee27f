"""Finds the kernels (cl_kernels/), spec sheets and stored shapes (platforms/), in a wheel or in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


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
def kernel_source(name: str) -> str:
    """The OpenCL C text of cl_kernels/<name>.cl. Raises FileNotFoundError when there is none."""
    return (_folder("cl_kernels") / f"{name}.cl").read_text(encoding="utf-8")


def sheet_paths() -> list[Path]:
    """Every spec sheet, in order of name."""
    return sorted(_folder("platforms").glob("*.toml"))


def tuning_paths() -> list[Path]:
    """Every file of stored shapes that is shipped, in order of name."""
    return sorted((_folder("platforms") / "tuning").glob("*.toml"))
