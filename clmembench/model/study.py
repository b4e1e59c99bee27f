"""What a study declares: a question with its commands, benchmarks, tables, figures and findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

NO_FIGURE = "none"


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

    def load(self, reference: str) -> Any:
        """The object of a reference. Raises ImportError, AttributeError and ValueError where there is none."""
        return resolve_name(f"{self.package}.{reference}")
