"""The reference of JSON: every field of a results file and of what commands print, from the schemas that the code gives."""

from __future__ import annotations

import json
from typing import Any

from scripts.site_markdown import code, plain, table


def page() -> str:
    """A section for each schema, with a table for each of its objects."""
    from clmembench.report.schemas import schemas

    parts = [
        "# JSON schemas",
        "Generated from the types of this version that read and write the data. Each schema is JSON Schema, draft 2020-12. "
        "Readers of a results file ignore fields that they do not know; an output has no others than these. "
        "[Reading results](../reading.md) says what the values mean.",
    ]
    for name, schema in schemas().items():
        parts += [f"## {name}", f"{plain(_upper(schema['title']))}. Schema: [{name}.json](../schemas/{name}.json)."]
        if schema.get("type") == "array":
            parts.append(f"A list of {_type(schema['items'])}.")
        if "properties" in schema:
            parts.append(_fields(schema))
        for inner, one in schema.get("$defs", {}).items():
            parts += [f"### {inner} ({name})", plain(one.get("description", "")), _fields(one) or f"{_upper(_type(one))}."]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (code(name), _type(one), "always" if name in required else _default(one), plain(one.get("description", "")))
        for name, one in schema.get("properties", {}).items()
    ]
    columns = ("field", "type", "given", "meaning")
    return table(columns, rows) if any(row[3] for row in rows) else table(columns[:3], [row[:3] for row in rows])


def _default(schema: dict[str, Any]) -> str:
    return f"default {code(json.dumps(schema['default']))}" if "default" in schema else "where known"


def _type(schema: dict[str, Any]) -> str:
    """A type in words, as Markdown."""
    if "$ref" in schema:
        reference: str = schema["$ref"]
        return reference.rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(code(json.dumps(value)) for value in schema["enum"])
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    kind: str = schema.get("type", "any value")
    if kind == "array":
        items = schema.get("prefixItems")
        return f"list of ({', '.join(map(_type, items))})" if items else f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, dict) else "object"
    return kind


def _upper(text: str) -> str:
    return text if text.startswith("clmembench") else text[:1].upper() + text[1:]
