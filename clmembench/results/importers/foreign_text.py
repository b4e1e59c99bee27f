"""Text of strangers: decoded, numbers read whole or not at all, and JSON as objects with messages that name a missing key."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from clmembench.results import line_limits
from clmembench.results.imported import ImportFault

MAX_NUMBER_LETTERS = 40  # of a number: a double has 25
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?", re.ASCII)
_AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}", re.ASCII)  # a thousand and more, or a fraction
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as PowerShell writes what a program prints

MAX_WHOLE_DIGITS = 19  # of a whole number with its sign, which 64 bits hold


def decoded(content: bytes) -> str:
    """The text of a file, whichever Unicode its first bytes announce, with the line ends of Unix; what is no letter becomes a
    sign that no number has."""
    text = content.decode("utf-16" if content.startswith(_UTF16) else "utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def number(text: str) -> float:
    """A decimal number, with a point or one comma. Raises ValueError for other text, also where Python would take it as a
    number (1_000, nan, digits of other scripts), and for 1,234, which is one of two numbers."""
    plain = text.strip()
    if _AMBIGUOUS.fullmatch(plain):
        raise ValueError(f"{plain!r} may be a thousand or a fraction")
    plain = plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain
    if len(plain) > MAX_NUMBER_LETTERS or _NUMBER.fullmatch(plain) is None:
        raise ValueError(f"{text.strip()[:40]!r} is no number")
    return float(plain)


def whole_number(text: str, most: int) -> int:
    """A whole number from 1 on. Raises ValueError for other text and for a larger one."""
    plain = text.strip()
    if not (plain.isascii() and plain.isdecimal() and len(plain) <= MAX_NUMBER_LETTERS and 1 <= int(plain) <= most):
        raise ValueError(f"{plain[:40]!r} is no whole number from 1 to {most}")
    return int(plain)


def decimal_step(text: str) -> float:
    """What a number's last digit counts: 1e-05 of 0.00031."""
    digits, _, exponent = text.strip().lower().replace(",", ".").partition("e")
    return float(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))


def first_line(text: str, pattern: str) -> str:
    """The text of the pattern's group in the first line that it matches whole; "" where there is none."""
    found = re.search(f"^{pattern}[ \\t]*$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def refuse_wrong(found: list[str], program: str) -> None:
    """Raises ImportFault where a program itself says that its results are wrong: in the first of these lines."""
    if found:
        raise ImportFault(f"{program} itself calls its results wrong: {found[0].strip()[:150]}")


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
