"""Limits of one line of JSON, checked before a parser makes anything of it: a parser may take a hundred times its bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

MAX_LINE_BYTES = 8 << 20  # a record with traces is 1.1 MB; a parser takes up to a hundred times as much memory
MAX_LINE_BRACKETS = 50_000  # lists and objects of a line: a record has some hundred, a header with stored shapes some thousand
MAX_LINE_TEXTS = 250_000  # of a line, keys among them: the notes, arguments or names of a list are up to 100,000
MAX_LINE_VALUES = 1_500_000  # of a line, counted by its commas: a second's samples by five clocks are some hundred thousand
MAX_REMEMBERED_BYTES = 1 << 16  # of a line whose structure is remembered: a record has some ten thousand
MAX_NESTING_DEPTH = 32  # a record is nested 6 deep

_COLON, _QUOTE, _BRACE = b':"{'
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"(?:\s*+:)?)?'  # to the end of a line where it has no end; a key with its colon
_TEXTS = re.compile(_TEXT, re.DOTALL)
_TOKENS = re.compile(_TEXT + rb"|\[|\{|\]|\}|NaN|Infinity", re.DOTALL)  # other words are the parser's to refuse


def check_line(line: bytes) -> None:
    """Raises ValueError for a line of JSON that is too long, is nested too deeply, holds too many values, names one key twice,
    or has a number that JSON has not.

    Only the texts of the line are extracted, so that a parser gets no more than it can hold. The parser reports a line that is
    no JSON.
    """
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"over {MAX_LINE_BYTES} bytes")
    commas = line.count(b",")
    if commas > MAX_LINE_VALUES and commas - sum(text[0].count(b",") for text in _TEXTS.finditer(line)) > MAX_LINE_VALUES:
        raise ValueError(f"over {MAX_LINE_VALUES} values")
    if sum(map(line.count, (b'"', b"[", b"{"))) <= MAX_LINE_BRACKETS:
        tokens = _TOKENS.findall(line)
        if len(line) > MAX_REMEMBERED_BYTES:
            _check_tokens(tokens)
        else:  # so few texts are within their limit: what is wrong, keys and brackets alone tell
            _check_structure(tuple([token for token in tokens if token[-1] != _QUOTE]))
    else:
        _check_tokens(token[0] for token in _TOKENS.finditer(line))  # one at a time: there may be millions


@lru_cache(maxsize=256)
def _check_structure(tokens: tuple[bytes, ...]) -> None:
    """As `_check_tokens`, for each structure of a line once: most records of a run share a few."""
    _check_tokens(tokens)


def _check_tokens(tokens: Iterable[bytes]) -> None:
    objects: list[set[bytes] | None] = []  # the keys of each object that is open, None for a list
    brackets = texts = 0
    for token in tokens:
        last = token[-1]
        if last == _COLON:
            texts += 1
            if texts > MAX_LINE_TEXTS:
                raise ValueError(f"over {MAX_LINE_TEXTS} texts")
            if objects and (keys := objects[-1]) is not None:
                key = token if token[-2] == _QUOTE and b"\\" not in token else _plain_key(token)
                if key in keys:
                    raise ValueError(f"{key[1:-2].decode(errors='replace')[:40]!r} is there twice")
                keys.add(key)
        elif token == b"{" or token == b"[":
            brackets += 1
            if brackets > MAX_LINE_BRACKETS:
                raise ValueError(f"over {MAX_LINE_BRACKETS} lists and objects")
            objects.append(set() if last == _BRACE else None)
            if len(objects) > MAX_NESTING_DEPTH:
                raise ValueError(f"nested more than {MAX_NESTING_DEPTH} deep")
        elif token == b"]" or token == b"}":
            if objects:
                objects.pop()
        elif last == _QUOTE:
            texts += 1
            if texts > MAX_LINE_TEXTS:
                raise ValueError(f"over {MAX_LINE_TEXTS} texts")
        elif token == b"NaN" or token == b"Infinity":
            raise ValueError("NaN and Infinity are no numbers of JSON")


def _plain_key(token: bytes) -> bytes:
    """A key with its colon, without escapes. Raises ValueError for an escape that JSON does not have."""
    text = token[: token.rindex(b'"') + 1]
    if b"\\" in text:
        try:
            text = b'"%b"' % str(json.loads(text)).encode("utf-8", "surrogatepass")
        except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are such
            raise ValueError("this is no JSON") from error
    return text + b":"
