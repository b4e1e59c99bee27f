"""Lines of JSON for headers and records: written within the limits of a line, and read strictly."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from clmembench.model import Cause, Record
from clmembench.results import limits, line_limits

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_CUT_LOG_LETTERS = 20_000  # letters of the log of a record that is otherwise too long for a line


def encode(value: object) -> str:
    """One line of JSON for a dataclass such as Header or Record, without its newline. Bytes that are no Unicode, as in a file
    name or a log, become ?."""
    line = json.dumps(value, default=_json_value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return line.encode("utf-8", errors="replace").decode()


def encode_record(record: Record) -> str:
    """As `encode`, within the limit of a line: the log of a longer record is cut, and a record that is still too long becomes a
    failed one without samples."""
    line = encode(record)
    if _fits_line(line):
        return line
    record = dataclasses.replace(record, log=record.log[-MAX_CUT_LOG_LETTERS:])
    if _fits_line(cut := encode(record)):
        return cut
    size, most = len(line) >> 20, line_limits.MAX_LINE_BYTES >> 20
    reason = f"its record takes {size} MiB, over the {most} MiB of a line: measure a smaller point"
    empty = dataclasses.replace(record, series=(), notes=(), log="", stopped="", checked=False)
    return encode(dataclasses.replace(empty, status="failed", reason=reason, cause=Cause.NOT_STORABLE))


def _fits_line(line: str) -> bool:
    return (
        len(line) < line_limits.MAX_LINE_BYTES // 4 or len(line.encode()) < line_limits.MAX_LINE_BYTES
    )  # a letter takes up to four bytes


def decode_record(line: str | bytes) -> Record:
    """The record on a line. Unknown fields are ignored. Raises ValueError where the line is no record, or is over a limit."""
    record: Record = decode(Record, line if isinstance(line, bytes) else line.encode())
    limits.check_record(record)
    return record


def decode(kind: type, line: bytes) -> Any:
    """The dataclass of that kind on a line, parsed once. Raises ValueError where it is none."""
    from pydantic import ValidationError

    line_limits.check_line(line)  # before anything is made of it
    try:
        return _adapter(kind).validate_json(line, strict=True)
    except ValidationError as error:
        if error.errors(include_input=False, include_url=False)[0]["type"] == "json_invalid":
            raise ValueError("this is no JSON") from error
        raise


def first_problem(error: ValueError) -> str:
    """The place and message of pydantic's first error."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)[:200]
    first = errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part)[:40] for part in first['loc']) or 'line'}: {first['msg'][:200]}"


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _json_value(value: object) -> object:
    """The JSON form of a value; for a dataclass its fields, without the deep copy that asdict would make."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    if hasattr(value, "keys"):
        return dict(value)  # type: ignore[call-overload]
    raise TypeError(f"{type(value).__name__} does not go into a results file")
