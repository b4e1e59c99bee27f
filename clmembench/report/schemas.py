"""JSON Schemas of a results file's lines and of what commands print under --json, generated from the code's types."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any

from clmembench.model import Header, Record
from clmembench.report import json_outputs as shapes
from clmembench.report.comparison import ComparisonObject
from clmembench.report.frame import PointValue
from clmembench.report.many_runs.history import DeviceHistory
from clmembench.results.imported import ImportedRun
from clmembench.studies import JsonOutput, Study, studies

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# by the schema's file name: what it is of, and the type
LINES: dict[str, tuple[str, Any]] = {
    "run-header": ("first line of a results file", Header),
    "run-record": ("every further line of a results file", Record),
    "import-line": ("line of an import file", ImportedRun),
}
# and the commands of the core, by their words, that print it under --json
OUTPUTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "compare": (("compare",), list[ComparisonObject]),
    "devices": (("devices",), list[shapes.DeviceObject]),
    "doctor": (("doctor",), shapes.DoctorObject),
    "history": (("history",), list[DeviceHistory]),
    "import": (("import",), list[ImportedRun]),
    "points": (("show", "run"), list[PointValue]),
}


def outputs() -> dict[str, tuple[tuple[str, ...], Any, Mapping[str, str]]]:
    """What commands print: their words, the type of it, and the types of further properties of its objects."""
    core: dict[str, tuple[tuple[str, ...], Any, Mapping[str, str]]] = {n: (*output, {}) for n, output in OUTPUTS.items()}
    own = ((name, study, one) for study in studies() for name, one in study.json.items())
    return dict(sorted((core | {name: (one.commands, _type(study, one), one.further) for name, study, one in own}).items()))


def _type(study: Study, output: JsonOutput) -> Any:
    kind: Any = study.load(output.type)
    return GenericAlias(list, (kind,)) if output.is_list else kind


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its file name. Lines of a file may have fields that this version does not know, as a reader ignores
    them; an output has no others than its schema's."""
    lines = {name: _schema(what, kind) for name, (what, kind) in LINES.items()}
    printed = {
        name: _closed(_schema(", ".join(f"clmembench {words} --json" for words in commands), kind), further)
        for name, (commands, kind, further) in outputs().items()
    }
    return {**lines, **printed}


def _schema(what: str, kind: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    return {"$schema": DIALECT, "title": what, **_untitled(TypeAdapter(kind).json_schema())}


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names, and with each description on one line."""
    if isinstance(schema, list):
        return [_untitled(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = {
        key: {name: _untitled(one) for name, one in schema[key].items()} for key in ("properties", "$defs") if key in schema
    }
    rest = {key: _untitled(value) for key, value in schema.items() if key not in named and key != "title"}
    if isinstance(text := rest.get("description"), str):
        rest["description"] = " ".join(text.split())
    return {**rest, **named}


def _closed(schema: dict[str, Any], further: Mapping[str, str]) -> dict[str, Any]:
    """A schema whose objects have no further keys, and those of dataclasses every key: it is of what we write."""
    named = schema.get("$defs", {})
    for name, kind in further.items():
        named[name]["additionalProperties"] = {"$ref": f"#/$defs/{kind}"}
    for one in (schema, *named.values()):
        if one.get("type") == "object":
            properties = one.setdefault("properties", {})
            one.setdefault("additionalProperties", False)
            if any("default" in of for of in properties.values()):
                one["required"] = list(properties)
    return schema
