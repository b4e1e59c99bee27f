"""Parse sizes such as "64 MiB" and durations such as "10m"; format values for people: SI for rates, IEC for sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)(b?)\s*", re.IGNORECASE)
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)?\s*")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
THOUSAND = 999.5  # what three digits show as 1,000
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def parse_bytes(text: str, option: str = "") -> int:
    """Bytes in "4096", "64 KiB", "64K", "1.5 GB". KiB and a bare K are binary, KB decimal.

    Raises ValueError, which names the option, for anything else, and where the result is no whole number of bytes.
    """
    match, given = _SIZE.fullmatch(text), f"{option} {text!r}".strip()
    if match is None:
        raise ValueError(f"{given} is no size: write bytes or a size such as 64KiB, 1.5GiB, 256MB")
    number, prefix, binary, byte = match.groups()
    decimal = bool(byte) and not binary and bool(prefix)
    value = float(number) * (1000 if decimal else 1024) ** _POWERS[prefix.lower()]
    if not 0 < value < 2**63 or value != int(value):
        raise ValueError(f"{given} is no positive whole number of bytes: write one such as 64KiB")
    return int(value)


def parse_seconds(text: str, option: str = "") -> float:
    """Seconds in "90", "10m", "1.5h", "300ms". Raises ValueError, which names the option, for anything else."""
    match = _DURATION.fullmatch(text)
    seconds = float(match.group(1)) * _SECONDS[match.group(2)] if match else 0.0
    if not 0 < seconds < math.inf:
        given = f"{option} {text!r}".strip()
        raise ValueError(f"{given} is no duration above 0: write seconds or a duration such as 90s, 10m, 1h")
    return seconds


def format_duration(seconds: float) -> str:
    """A duration for people, in its two largest units: "31 s", "1 min 40 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_bytes(nbytes: float, decimals: int = 3) -> str:
    """A size in IEC units with at most that many digits after the point: 4096 -> "4 KiB"."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if nbytes >= 1024**power:
            return f"{_plain(nbytes / 1024**power, decimals)} {unit}"
    return f"{_plain(nbytes, 0)} B"


def format_value(value: float | None, digits: int = 3) -> str:
    """A value to `digits` significant digits without an exponent where it can be read without one; None is a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1e7 or abs(value) < 1e-3:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def format_in(value: float | None, unit: str, digits: int = 3) -> str:
    """A value with its unit; ns and us from 1,000 on in a larger one, so that every time has one to three digits before its
    point."""
    factor, larger = scaled(value, unit)
    return f"{format_value(value if value is None else value / factor, digits)} {larger}"


def format_interval(low: float | None, high: float | None, unit: str, digits: int = 3) -> str:
    """An interval with its unit once; a dash where either end is not known."""
    if low is None or high is None:
        return "–"
    factor, larger = scaled(high, unit)
    return f"{format_value(low / factor, digits)} to {format_value(high / factor, digits)} {larger}"


def scaled(value: float | None, unit: str) -> tuple[float, str]:
    """The divisor of a value in this unit and the unit after division, as `format_in` has it."""
    ns = {"ns": 1.0, "us": 1e3}.get(unit)
    if value is None or ns is None or abs(value) < THOUSAND:
        return 1.0, unit
    larger = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
    return next((factor / ns, name) for factor, name in larger if abs(value) * ns >= THOUSAND / 1000 * factor)


def count(number: int, noun: str, nouns: str = "") -> str:
    """A number of things: "1 run", "2 runs"; `nouns` is a plural that is not the noun with an s."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def is_byte_size(name: str) -> bool:
    """True if a parameter of that name is a number of bytes: a name declares its unit, as in array_bytes."""
    return name == "bytes" or name.endswith("_bytes")


def format_param(name: str, value: object) -> str:
    """A parameter's value by the unit that its name declares: a size in IEC units, all else as it is, however large."""
    return format_bytes(value) if is_byte_size(name) and type(value) is int else str(value)


def format_params(params: Mapping[str, object]) -> str:
    """Parameters on one line, sizes with units: "op=triad array_bytes=256 MiB"."""
    return " ".join(f"{name}={format_param(name, value)}" for name, value in params.items())


def _plain(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
