"""Benchmarks from outside this package: from folders that the user names, and from installed packages.

Nothing else is ever imported: neither the current folder, unless the user names it, nor names in a results file. In a folder
the files that import `benchmark` from clmembench.benchmarks are imported, each as a module of a package that stands for the
folder. `from . import other` then works, and no file hides a module with the same name.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from clmembench.benchmarks.plugins.foreign_code import ExternalError, foreign_code, guarded
from clmembench.benchmarks.plugins.import_trial import problem_of_import
from clmembench.model import Benchmark, DeclarationError
from clmembench.sanitize import read_regular

GROUP = "clmembench.benchmarks"  # the group of entry points: each names a module, or a benchmark in a module
MAX_SOURCE_BYTES = 16 << 20  # per module
PACKAGE = "clmembench_path"  # prefix of the packages that stand for folders


MAX_SOURCE_BYTES = 1 << 24
RESERVED = frozenset({"quick", "all", "everything"})  # suites that no benchmark may join


@dataclass(slots=True)
class _Loaded:
    """The benchmarks that this process has loaded."""

    folders: list[Path] = field(default_factory=list)
    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    # entry points that failed in a trial import, with reasons; None: no trial was made
    left_out: dict[str, str] | None = None
    needs_trial: bool = True
    withdrawn: set[str] = field(default_factory=set)


_loaded = _Loaded()


def add(folders: Iterable[Path | str], known: Callable[[], Mapping[str, Benchmark]]) -> list[str]:
    """Load the benchmarks of folders, or of single files; returns their names. Raises ExternalError.

    A folder that was loaded before is not loaded again. `known` returns the benchmarks of this package.
    """
    names = []
    for given in folders:
        path = Path(given).absolute()
        if path not in _loaded.folders:
            for benchmark, file in _read(path, len(_loaded.folders)):
                if _loaded.files.get(benchmark.name) == file:  # the user named the folder and also a file in it
                    continue
                _check_name(benchmark, file, known())
                _loaded.benchmarks[benchmark.name] = guarded(benchmark, f"--path {file.name}")
                _loaded.files[benchmark.name] = file
            _loaded.folders.append(path)
        names += [name for name, file in _loaded.files.items() if path in (file, file.parent)]
    return names


def folders() -> tuple[str, ...]:
    """The loaded folders, which a worker process loads too."""
    return tuple(map(str, _loaded.folders))


def of_folders() -> Mapping[str, Benchmark]:
    """The benchmarks of all loaded folders."""
    return _loaded.benchmarks


def files_of(names: Iterable[str]) -> list[Path]:
    """The source files of benchmarks from folders, since they may change: their modules, and all kernels in the same
    folders."""
    modules = {_loaded.files[name] for name in names if name in _loaded.files}
    kernels = {kernel for module in modules for kernel in module.parent.glob("*.cl")}
    return sorted(modules | kernels)


def trust(left_out: Iterable[str]) -> None:
    """Accept the trial imports of the process that started this worker process: these entry points fail."""
    _loaded.left_out, _loaded.needs_trial = dict.fromkeys(left_out, ""), False


def left_out() -> tuple[str, ...]:
    """Entry points that failed in a trial import; a worker process leaves them out, too."""
    return tuple(_loaded.left_out or ())


def withdraw(name: str) -> None:
    """Leave a benchmark out from now on."""
    _loaded.withdrawn.add(name)


def withdrawn() -> frozenset[str]:
    """The benchmarks that are left out."""
    return frozenset(_loaded.withdrawn)


def of_packages(known: Mapping[str, Benchmark]) -> tuple[dict[str, Benchmark], list[str]]:
    """Benchmarks of installed packages, and problems with others: a defect in one affects no other benchmark."""
    accepted: dict[str, Benchmark] = {}
    problems = []
    entries = _entries()
    failing = _failing_entries(entries)
    for name, entry in entries.items():
        origin = _origin(entry)
        if name in failing:
            problems.append(f"benchmarks of {origin} are left out: {failing[name]}")
            continue
        try:
            with foreign_code(f"benchmarks of {origin} cannot be loaded"):
                loaded = entry.load()
                offered = [loaded] if isinstance(loaded, Benchmark) else _defined_in(loaded)
        except ExternalError as error:
            problems.append(str(error))
            continue
        for benchmark in offered:
            if benchmark.name in known or benchmark.name in accepted:
                problems.append(f"benchmark {benchmark.name} of {origin} is left out: its name is taken")
            elif benchmark.suite in RESERVED:
                problems.append(f"benchmark {benchmark.name} of {origin} is left out: {_reserved(benchmark)}")
            else:
                accepted[benchmark.name] = guarded(benchmark, origin)
    return accepted, problems


def imports(path: Path | None, names: Iterable[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """The imports of a folder or file, or else of packages' entry points with these names, for a trial: label and import
    function."""
    if path is not None:
        package = _package_of(path, 0)
        yield from ((str(file), partial(_import, file, package)) for file in _chosen_files(path))
    else:
        entries = _entries()
        yield from ((name, entries[name].load) for name in names if name in entries)


def _entries() -> dict[str, importlib.metadata.EntryPoint]:
    """The entry points of installed packages, by unique names."""
    try:
        offered = importlib.metadata.entry_points(group=GROUP)
    except Exception:  # damaged metadata of any package on the path
        return {}
    return {f"{entry.name}={entry.value}": entry for entry in sorted(offered, key=lambda entry: (entry.name, entry.value))}


def _origin(entry: importlib.metadata.EntryPoint) -> str:
    try:
        return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
    except Exception:  # a package without a name or a version
        return entry.value


def _failing_entries(names: Iterable[str]) -> Mapping[str, str]:
    """Entry points whose import would end or block this process, with reasons."""
    if _loaded.left_out is None:
        _loaded.left_out = {}
        while rest := [name for name in names if name not in _loaded.left_out]:
            problem = problem_of_import(None, rest)
            if problem is None or problem[0] not in rest:
                break
            _loaded.left_out[problem[0]] = problem[1]
    return _loaded.left_out


def _read(path: Path, number: int) -> list[tuple[Benchmark, Path]]:
    """The benchmarks of a folder or file, each with its file."""
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for names that are too long
        raise ExternalError(f"--path {path}: there is no such folder: `clmembench new NAME -o DIR` makes a benchmark")
    chosen = _chosen_files(path)
    problem = problem_of_import(path, ()) if chosen and _loaded.needs_trial else None
    if problem is not None:
        raise ExternalError(f"{problem[0]}: {problem[1]}")
    package = _package_of(path, number)
    benchmarks = [(benchmark, file) for file in chosen for benchmark in _defined_in(_import(file, package))]
    if not benchmarks:
        folder = path if path.is_dir() else path.parent
        raise ExternalError(f"--path {path} has no benchmark: `clmembench new NAME -o {folder}` makes one there")
    return benchmarks


def _chosen_files(path: Path) -> list[Path]:
    """The files of a folder that define benchmarks, or the one that the user named."""
    try:
        files = sorted(file for file in path.glob("*.py") if file.is_file()) if path.is_dir() else [path]
        return [file for file in files if _defines_benchmarks(file)]
    except OSError as error:
        raise ExternalError(f"--path {path}: cannot read {error.filename or path}: {error.strerror}") from error


def _package_of(path: Path, number: int) -> str:
    """The package that stands for a folder, or for the folder of a file."""
    package = ModuleType(f"{PACKAGE}_{number}")
    package.__path__ = [str(path if path.is_dir() else path.parent)]
    sys.modules[package.__name__] = package
    return package.__name__


def _defines_benchmarks(file: Path) -> bool:
    """Whether a file imports `benchmark`. Tests and scripts in the same folder are not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about escapes in strings are for the author
            tree = ast.parse(read_regular(file, MAX_SOURCE_BYTES), str(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ExternalError(f"{file}{line}: this is not Python: {getattr(error, 'msg', error)}") from error
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
        raise ExternalError(f"{file} is not a Python module: give it a name that ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with foreign_code(f"{file} cannot be imported"):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _defined_in(module: Any) -> list[Benchmark]:
    """The benchmarks that a module defines, without those that it imports from another."""
    if not isinstance(module, ModuleType):
        raise DeclarationError(f"its entry point names a {type(module).__name__}: name a module, or a benchmark in one")
    mine = (value for value in list(vars(module).values()) if isinstance(value, Benchmark))
    return [benchmark for benchmark in mine if getattr(benchmark.prepare, "__module__", None) == module.__name__]


def _reserved(benchmark: Benchmark) -> str:
    return f"its suite cannot be called {benchmark.suite}, which combines other suites: choose another name"


def _check_name(benchmark: Benchmark, file: Path, known: Mapping[str, Benchmark]) -> None:
    name = benchmark.name
    if benchmark.suite in RESERVED:
        raise ExternalError(f"{file}: {name}: {_reserved(benchmark)}")
    if name in known:
        raise ExternalError(f"{file} defines {name}, which clmembench has: give your benchmark another name")
    other = _loaded.files.get(name)
    if other is not None:
        raise ExternalError(f"{file} defines {name}, and so does {other}: give one of them another name")
