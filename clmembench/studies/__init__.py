"""Discovery of studies: folders here, and objects that installed packages offer as entry points `clmembench.studies`."""

from __future__ import annotations

import importlib.metadata
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from clmembench.model.study import NO_FIGURE, Study

GROUP = "clmembench.studies"  # the group of entry points: each names an object of type Study


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
        except Exception as error:  # foreign code, which raises anything
            problems.append(f"study {entry.name} ({entry.value}) cannot be imported: {type(error).__name__}: {error}")
            continue
        words = {study.name, *study.commands} if isinstance(study, Study) else set()
        if not isinstance(study, Study):
            problems.append(f"study {entry.name} ({entry.value}) is a {type(study).__name__}: name an object of type Study")
        elif words & taken:
            problems.append(f"study {entry.name} ({entry.value}) has the name {min(words & taken)}, which is taken: rename it")
        else:
            found.append(study)
            taken |= words
    return tuple(found), tuple(problems)


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
