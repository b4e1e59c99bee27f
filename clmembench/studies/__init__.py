"""Declaration of a study, and all studies: folders here, and entry points `clmembench.studies` of installed packages."""

from __future__ import annotations

import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from typing import Any

GROUP = "clmembench.studies"  # the group of entry points: each names an object of type Study
NO_FIGURE = "none"


class StudyError(ValueError):
    """A study failed; the message names it and its package."""


class SelectionError(ValueError):
    """A suite, benchmark or axis that does not exist; the message says which there are."""


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """Output of commands under --json: its type, or that of each item of a list; `further`: objects that may have further
    properties, and their type."""

    commands: tuple[str, ...]
    type: str
    is_list: bool = False
    further: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Study:
    """A question and everything needed to answer it, in the folder of the module that defines it as STUDY.

    Each reference is "module:object", the module relative to the study's package (`package`), and is imported on use: a command
    that prints text imports no figures. All but the first three fields are optional.

    `commands`: name of a command -> its function, or the typer.Typer of a group; `group` is the heading of these commands in
    `clmembench --help`. `replaces`: command of the core -> class of typer commands that replaces it. `after_summary`: (Run)
    prints the study's output after the summary of a run, if any. `measures`: benchmarks that `part`, (Selection, known records,
    Deadline | None) -> Measurement, measures by its own plan in a run of suite everything. `tables`: benchmark -> (Run, rows)
    -> list of Sections in place of the general table; `figures`: benchmark -> (Card, devices) -> SVG, NO_FIGURE for none; the
    devices are LabelledRuns that have the rows of that benchmark alone.
    `summary`: (Run, rows) -> Section | None at the end of a run's summary. `findings`: (runs) -> (runs, findings of each or
    None); they are stored under the study's name in `LabelledRun.findings`, from which `headlines`: (parts) -> lines of the
    comparison of devices; `markdown`: (part) -> text; `device_page`: (id, part) -> HTML and `page`: (parts) -> HTML of all
    devices render sections of a report, the last under `page_title`, as `file_page` does: (Path) -> HTML of a file that a
    command of the study wrote, None for any other. `json`: name of a JSON Schema -> the output that it
    describes."""

    name: str
    title: str
    package: str
    source: str = ""
    group: str = "Understand"
    commands: Mapping[str, str] = field(default_factory=dict)
    replaces: Mapping[str, str] = field(default_factory=dict)
    after_summary: str = ""
    measures: tuple[str, ...] = ()
    part: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    findings: str = ""
    headlines: str = ""
    markdown: str = ""
    device_page: str = ""
    page: str = ""
    page_title: str = ""
    file_page: str = ""
    json: Mapping[str, JsonOutput] = field(default_factory=dict)
    origin: str = ""  # the package that brings it, "" for this one

    def load(self, reference: str) -> Any:
        """The object of a reference. Raises ImportError, AttributeError or ValueError if there is none, and StudyError if
        another package's module cannot be imported."""
        with self.errors(reference):
            return pkgutil.resolve_name(f"{self.package}.{reference}")

    def call(self, reference: str, *args: Any) -> Any:
        """The result of the function of a reference, as a list if it is a generator. Raises StudyError if a function of another
        package raises anything."""
        function = self.load(reference)
        with self.errors(reference):
            found = function(*args)
            return list(found) if isinstance(found, Iterator) else found

    @contextmanager
    def errors(self, where: str, *passed: type[BaseException]) -> Iterator[None]:
        """Raise StudyError, which says `where`, for what the block raises: anything but the types `passed` in a study of
        another package; in one of this package SelectionError alone, since all else is an error of the program."""
        try:
            yield
        except (Exception, SystemExit) as error:
            unknown_name = isinstance(error, SelectionError)
            if isinstance(error, (StudyError, *passed)) or not (self.origin or unknown_name):
                raise
            why = str(error) if unknown_name else f"{type(error).__name__}: {error}"
            raise StudyError(f"{self.origin or 'clmembench'}: study {self.name}: {where}: {why}") from error


@cache
def studies() -> tuple[Study, ...]:
    """Every study: those of this package by name, then those of installed packages."""
    own = packaged()
    return (*own, *_installed()[0])


@cache
def packaged() -> tuple[Study, ...]:
    """The studies of this package by name."""
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    return tuple(import_module(f"{__name__}.{name}.study").STUDY for name in folders)


def problems_of_packages() -> tuple[str, ...]:
    """Why studies of installed packages are left out, one line each."""
    return _installed()[1]


@cache
def _installed() -> tuple[tuple[Study, ...], tuple[str, ...]]:
    """The studies of installed packages, and why others are left out."""
    found, problems = [], []
    taken = {study.name for study in packaged()} | {word for study in packaged() for word in study.commands}
    try:
        entries = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    except Exception:  # damaged metadata of any package on the path
        return (), ()
    for entry in entries:
        try:
            study = entry.load()
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            problems.append(f"study {entry.name} ({entry.value}) cannot be imported: {type(error).__name__}: {error}")
            continue
        words = {study.name, *study.commands} if isinstance(study, Study) else set()
        if not isinstance(study, Study):
            problems.append(f"study {entry.name} ({entry.value}) is a {type(study).__name__}: name an object of type Study")
        elif words & taken:
            problems.append(f"study {entry.name} ({entry.value}) has the name {min(words & taken)}, which is taken: rename it")
        else:
            found.append(replace(study, origin=_package_of(entry)))
            taken |= words
    return tuple(found), tuple(problems)


def _package_of(entry: importlib.metadata.EntryPoint) -> str:
    try:
        return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
    except Exception:  # a package without a name or a version
        return entry.value


def tables(benchmark: str) -> Callable[..., Any] | None:
    """The function (Run, rows) -> list of Sections that a study has for a benchmark; None where no study has one."""
    return next((partial(study.call, study.tables[benchmark]) for study in studies() if benchmark in study.tables), None)


def figure(benchmark: str) -> Callable[..., str] | str:
    """The function (Card, devices) -> SVG that a study has for a benchmark; NO_FIGURE, or "" where no study has one."""
    for study in studies():
        if benchmark in study.figures:
            name = study.figures[benchmark]
            return NO_FIGURE if name == NO_FIGURE else partial(study.call, name)
    return ""
