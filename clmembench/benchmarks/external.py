"""Benchmarks from outside this package: of folders that the user names, and of installed packages that offer them.

Nothing else is ever imported: neither the current folder, unless it is named, nor what a results file says. Of a folder those
files are imported that import `benchmark` from clmembench.benchmarks; each as a module of a package that stands for the folder,
so that `from . import other` works and no file hides a module of that name.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from clmembench import sanitize
from clmembench.model import Benchmark

GROUP = "clmembench.benchmarks"  # the group of entry points: each names a module, or a benchmark in one
MAX_SOURCE_BYTES = 16 << 20  # of a module
PACKAGE = "clmembench_path"  # begins the names of the packages that stand for folders


class ExternalError(Exception):
    """What the user named has no benchmarks, or they cannot be used; the message says why, in one line."""


@dataclass(slots=True)
class _Loaded:
    """What has been loaded in this process."""

    folders: list[Path] = field(default_factory=list)
    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


_loaded = _Loaded()


def add(folders: Iterable[Path | str], known: Callable[[], Mapping[str, Benchmark]]) -> list[str]:
    """Load the benchmarks of folders, or of single files: their names. A folder that was loaded before is not loaded again.
    `known` gives those of this package. Raises ExternalError."""
    names = []
    for given in folders:
        path = Path(given).absolute()
        if path not in _loaded.folders:
            for benchmark, file in _read(path, len(_loaded.folders)):
                if _loaded.files.get(benchmark.name) == file:  # the folder and a file of it were named
                    continue
                _check_name(benchmark.name, file, known())
                _loaded.benchmarks[benchmark.name] = replace(benchmark, origin=f"--path {file.name}")
                _loaded.files[benchmark.name] = file
            _loaded.folders.append(path)
        names += [name for name, file in _loaded.files.items() if path in (file, file.parent)]
    return names


def folders() -> tuple[str, ...]:
    """The folders that were loaded, for a worker process to load them too."""
    return tuple(map(str, _loaded.folders))


def of_folders() -> Mapping[str, Benchmark]:
    """The benchmarks of all folders that were loaded."""
    return _loaded.benchmarks


def files_of(names: Iterable[str]) -> list[Path]:
    """The files that benchmarks of folders are made of, since they may change: their modules, and all kernels beside them."""
    modules = {_loaded.files[name] for name in names if name in _loaded.files}
    kernels = {kernel for module in modules for kernel in module.parent.glob("*.cl")}
    return sorted(modules | kernels)


def of_packages(known: Mapping[str, Benchmark]) -> tuple[dict[str, Benchmark], list[str]]:
    """Benchmarks that installed packages offer, and what was wrong with others: one fault costs no other benchmark."""
    found: dict[str, Benchmark] = {}
    problems = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
        try:
            loaded = entry.load()
        except Exception as error:  # whatever its code raises
            problems.append(f"benchmarks of {origin} cannot be loaded: {type(error).__name__}: {error}")
            continue
        for benchmark in [loaded] if isinstance(loaded, Benchmark) else _defined_in(loaded):
            if benchmark.name in known or benchmark.name in found:
                problems.append(f"benchmark {benchmark.name} of {origin} is left out: there is one of that name")
            else:
                found[benchmark.name] = replace(benchmark, origin=origin)
    return found, problems


def _read(path: Path, number: int) -> list[tuple[Benchmark, Path]]:
    """The benchmarks of a folder or file, and the file of each."""
    if not sanitize.exists(path):
        raise ExternalError(f"--path {path}: there is no such folder: `clmembench new NAME -o DIR` makes a benchmark")
    folder = path if path.is_dir() else path.parent
    try:
        files = sorted(file for file in path.glob("*.py") if file.is_file()) if path.is_dir() else [path]
        chosen = [file for file in files if _defines_benchmarks(file)]
    except OSError as error:
        raise ExternalError(f"--path {path}: cannot read {error.filename}: {error.strerror}") from error
    package = ModuleType(f"{PACKAGE}_{number}")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    found = [(benchmark, file) for file in chosen for benchmark in _defined_in(_import(file, package.__name__))]
    if not found:
        raise ExternalError(f"--path {path} has no benchmark: `clmembench new NAME -o {folder}` makes one there")
    return found


def _defines_benchmarks(file: Path) -> bool:
    """Whether a file imports what makes benchmarks. Tests and scripts that lie beside are not run."""
    try:
        tree = ast.parse(sanitize.read_regular(file, MAX_SOURCE_BYTES), str(file))
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ExternalError(f"{file}{line}: this is no Python: {getattr(error, 'msg', error)}") from error
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "clmembench.benchmarks"
        and any(name.name in ("benchmark", "*") for name in node.names)
        for node in ast.walk(tree)
    )


def _import(file: Path, package: str) -> ModuleType:
    name = f"{package}.{file.stem}"
    if name in sys.modules:  # another file of the folder has imported it
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ExternalError(f"{file} is no Python module: give it a name that ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ExternalError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _defined_in(module: Any) -> list[Benchmark]:
    """The benchmarks that a module defines; not those that it imports from another."""
    mine = (value for value in vars(module).values() if isinstance(value, Benchmark))
    return [benchmark for benchmark in mine if benchmark.prepare.__module__ == module.__name__]


def _check_name(name: str, file: Path, known: Mapping[str, Benchmark]) -> None:
    if name in known:
        raise ExternalError(f"{file} defines {name}, which clmembench has: give your benchmark another name")
    other = _loaded.files.get(name)
    if other is not None:
        raise ExternalError(f"{file} defines {name}, and so does {other}: give one of them another name")
