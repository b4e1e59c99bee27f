"""Hashes of contents: of an input file, and of the program's own sources, which identify its revision."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from clmembench import resources
from clmembench.sanitize import open_regular

READ_CHUNK_BYTES = 1 << 20


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
