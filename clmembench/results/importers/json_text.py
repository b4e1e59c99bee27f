"""JSON of strangers, as objects: within the limits of a line of ours, and with messages that name the missing key."""

from __future__ import annotations

import json
from typing import Any

from clmembench.results import line_limits
from clmembench.results.imported import ImportFault


def parse(text: str, program: str) -> dict[str, Any]:
    """The object in a text. Raises ImportFault where it is none, or over a limit."""
    try:
        line_limits.check_line(text.encode())
        found = json.loads(text)
    except ValueError as error:
        raise ImportFault(f"it is no JSON of {program}: {str(error)[:200]}") from error
    if not isinstance(found, dict):
        raise ImportFault(f"it is no JSON of {program}: it holds no object")
    return found


def part(found: object, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """The value of a key, of that type. Raises ImportFault where there is none."""
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ImportFault(f"{where} has no {key}")
    return value


def text_of(found: object, key: str) -> str:
    """A text, or a number as text; "" where there is none."""
    value = found.get(key) if isinstance(found, dict) else None
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
