"""JSON of strangers, as objects: within the limits of a line of ours, and with messages that name the missing key."""

from __future__ import annotations

import json
from typing import Any

from clmembench.results import line_limits
from clmembench.results.imported import ImportFault

MAX_WHOLE_DIGITS = 19  # of a whole number with its sign, which 64 bits hold


def parse(text: str, program: str, remedy: str = "") -> dict[str, Any]:
    """The object in a text. Raises ImportFault, which ends with the remedy, where it is none, or over a limit."""
    try:
        line_limits.check_line(text.encode())
        found = json.loads(text, parse_int=_whole)
    except ValueError as error:
        raise ImportFault(f"it is no JSON of {program}: {str(error)[:200]}{remedy}") from error
    if not isinstance(found, dict):
        raise ImportFault(f"it is no JSON of {program}: it holds no object")
    return found


def _whole(digits: str) -> int | float:
    """A whole number; one that no 64 bits hold as a float, which may be infinite: it is no measurement."""
    return int(digits) if len(digits) < MAX_WHOLE_DIGITS else float(digits)


def part(found: object, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """The value of a key, of that type. Raises ImportFault where there is none."""
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ImportFault(f"{where} has no {key}{'' if value is None else f' that can be used: {str(value)[:40]!r}'}")
    return value


def text_of(found: object, key: str) -> str:
    """A text, or a number as text; "" where there is none."""
    value = found.get(key) if isinstance(found, dict) else None
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
