"""Checks of a benchmark's declaration, made when it is declared: errors are known before anything is measured."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

MAX_WHOLE = 2**63 - 1  # signed 64 bits: a results file holds no larger amount
MAX_UNSIGNED = 2**64 - 1
MAX_SHOWN_LETTERS = 40  # of a value, in a message


class DeclarationError(ValueError):
    """A benchmark's declaration is invalid; the message names the field, its value and what is valid."""


def whole(field: str, value: Any, least: int = 0, most: int = MAX_WHOLE) -> int:
    """The field's whole number, from Python or NumPy. Raises DeclarationError for anything else, including True and 8.0."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or type(value).__name__.startswith("bool"):
        raise _error(field, value, "a whole number")
    if not least <= number <= most:
        bound = f"from {least} up" if number < least else "that fits into 64 bits"
        raise _error(field, value, f"a number {bound}")
    return number


def number(field: str, value: Any) -> float:
    """The field's finite number. Raises DeclarationError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise _error(field, value, "a finite number")
    return value


def text(field: str, value: Any, may_be_empty: bool = True) -> str:
    """The field's text. Raises DeclarationError."""
    if not isinstance(value, str) or not (value or may_be_empty):
        raise _error(field, value, "a text" if may_be_empty else "a text that is not empty")
    return str(value)


def scalar(field: str, value: Any) -> str | int | float | bool:
    """The value of an axis or of a fact: a text, a finite number of at most 64 bits, or a truth value.

    NumPy's types become Python's. Raises DeclarationError.
    """
    plain = value.item() if hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "shape", ()) else value
    if isinstance(plain, bool):
        return plain
    if isinstance(plain, int) and -MAX_WHOLE - 1 <= plain <= MAX_UNSIGNED:
        return int(plain)
    if isinstance(plain, float) and math.isfinite(plain):
        return float(plain)
    if isinstance(plain, str):
        return str(plain)
    raise _error(field, value, "a text, a truth value or a finite number of at most 64 bits")


def scalars(field: str, values: Any) -> dict[str, str | int | float | bool]:
    """Values by name. Raises DeclarationError."""
    return {name: scalar(f"{field}[{name!r}]", value) for name, value in by_name(field, values).items()}


def choices(field: str, values: Any) -> dict[str, tuple[str | int | float | bool, ...]]:
    """Several values for each name. Raises DeclarationError."""
    return {
        name: tuple(scalar(f"{field}[{name!r}]", v) for v in several(field, of)) for name, of in by_name(field, values).items()
    }


def by_name(field: str, values: Any) -> Mapping[str, Any]:
    """A mapping whose keys are texts. Raises DeclarationError."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise _error(field, values, "a dict by names")
    return values


def axis_values(name: str, values: Any, grows: bool) -> tuple[str | int | float | bool, ...]:
    """The values of an axis, or the first and last size of one that grows. Raises DeclarationError."""
    checked = tuple(scalar(f"a value of axis {name}", value) for value in several(f"axis {name}", values))
    if not checked:
        raise DeclarationError(f"axis {name} has no value on this device")
    if grows and not (len(checked) == 2 and all(type(value) is int and value > 0 for value in checked)):
        raise DeclarationError(f"axis {name} grows from {checked[0]!r} to {checked[-1]!r}, which are not sizes in bytes")
    return tuple(dict.fromkeys(checked))


def several(field: str, values: Any, kinds: tuple[type, ...] = ()) -> tuple[Any, ...]:
    """The items of a field, all of these kinds. A text is refused, since its items would be letters. Raises
    DeclarationError."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise _error(field, values, "a tuple")
    items = tuple(values)
    for number, value in enumerate(items):
        if kinds and not isinstance(value, kinds):
            raise _error(f"{field}[{number}]", value, f"a {' or '.join(kind.__name__ for kind in kinds)}")
    return items


def one_of(field: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises DeclarationError for a value that is not allowed."""
    if not any(type(value) is type(one) and value == one for one in allowed):
        raise _error(field, value, f"one of {', '.join(map(repr, allowed))}")


def function(field: str, value: Any) -> None:
    """Raises DeclarationError for a value that is not callable."""
    if not callable(value):
        raise _error(field, value, "a function")


def function_or_none(field: str, value: Any) -> None:
    """As `function`, but None is valid too."""
    if value is not None:
        function(field, value)


def kind(field: str, value: Any, kinds: Any) -> None:
    """Raises DeclarationError for a value of another type; `kinds` is a type or a union of types."""
    known = get_args(kinds) or (kinds,)
    if not isinstance(value, known):
        raise _error(field, value, f"a {' or '.join(one.__name__ for one in known)}")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer over the range of floats
        return False


def _error(field: str, value: Any, wanted: str) -> DeclarationError:
    try:
        shown = repr(value)
    except Exception:
        shown = ""
    if len(shown) > MAX_SHOWN_LETTERS:
        shown = f"{shown[:MAX_SHOWN_LETTERS]}..."
    return DeclarationError(f"{field} is {shown} ({type(value).__name__}), not {wanted}")
