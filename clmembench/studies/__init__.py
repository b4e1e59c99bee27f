"""What a study declares, and the studies there are: folders here, and what installed packages offer as `clmembench.studies`."""

from __future__ import annotations

import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

GROUP = "clmembench.studies"  # the group of entry points: each names an object of type Study
NO_FIGURE = "none"


class StudyError(ValueError):
    """A study of another package fails; the message names both."""


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """What commands print under --json: its type, or that of each item of a list; `further`: objects that may have further
    properties, and the type of these."""

    commands: tuple[str, ...]
    type: str
    is_list: bool = False
    further: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Study:
    """A question and everything that answers it, in the folder of the module that defines it as STUDY.

    Each reference is "module:object", the module as seen from the study's package (`package`), and is imported when it is used:
    a command that prints text imports no figures. A study leaves out what it does not need.

    `commands`: the word of a command, and its function or the typer.Typer of a group; `group` is the heading of these commands
    in `clmembench --help`. `replaces`: commands of the core, and the class of typer's commands that takes their place.
    `after_summary`: (Run) prints what the study has to say after the summary of a run, if anything.
    `measures`: benchmarks that `part`, (Selection, known records, Deadline | None) -> Measurement, measures in a run of suite
    everything, by a plan of its own.
    `tables`: benchmark -> (Run, rows) -> list of Sections in place of the general table; `figures`: benchmark ->
    (Card, devices) -> SVG, NO_FIGURE for none. `summary`: (Run, rows) -> Section | None at the end of a run's summary.
    `findings`: (runs) -> (runs, findings of each or None); they are under the study's name in `Part.findings`, from which
    `headlines`: (parts) -> lines of the comparison of devices; `markdown`: (part) -> text; `device_page`: (id, part) -> HTML
    and `page`: (parts) -> HTML of all devices make parts of a report, the last under `page_title`.
    `json`: the name of a JSON Schema, and what it is of.
    """

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
    json: Mapping[str, JsonOutput] = field(default_factory=dict)
    origin: str = ""  # the package that brings it, "" for this one

    def load(self, reference: str) -> Any:
        """The object of a reference. Raises ImportError, AttributeError and ValueError where there is none, and StudyError
        where another package's module cannot be imported."""
        try:
            return pkgutil.resolve_name(f"{self.package}.{reference}")
        except (Exception, SystemExit) as error:
            if not self.origin:
                raise
            raise StudyError(f"{self.origin}: study {self.name}: {reference}: {type(error).__name__}: {error}") from error

    def call(self, reference: str, *args: Any) -> Any:
        """What the function of a reference returns, of a generator all it yields. Raises StudyError where that of another
        package raises anything."""
        function = self.load(reference)
        try:
            found = function(*args)
            return list(found) if isinstance(found, Iterator) else found
        except (Exception, SystemExit) as error:
            if not self.origin:
                raise
            raise StudyError(f"{self.origin}: study {self.name}: {reference}: {type(error).__name__}: {error}") from error


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
    """Why studies that installed packages offer are left out, a line each."""
    return _installed()[1]


@cache
def _installed() -> tuple[tuple[Study, ...], tuple[str, ...]]:
    """The studies of installed packages, and why others are left out."""
    found, problems = [], []
    taken = {study.name for study in packaged()} | {word for study in packaged() for word in study.commands}
    try:
        entries = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    except Exception:  # damaged metadata of any package on the path, whichever
        return (), ()
    for entry in entries:
        try:
            study = entry.load()
        except (Exception, SystemExit) as error:  # foreign code, which raises anything
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
    return next((study.load(study.tables[benchmark]) for study in studies() if benchmark in study.tables), None)


def figure(benchmark: str) -> Callable[..., str] | str:
    """The function (Card, devices) -> SVG that a study has for a benchmark; NO_FIGURE, or "" where no study has one."""
    for study in studies():
        if benchmark in study.figures:
            name = study.figures[benchmark]
            return NO_FIGURE if name == NO_FIGURE else study.load(name)
    return ""
