"""`--label` and `--tag`: what the user calls a run, and facts that are kept with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_TAG_LETTERS = 200  # of a tag's name or value, and of a label: they are headings


class RunNames(NamedTuple):
    """What the user calls a run: a label for its device, and tags."""

    label: str = ""
    tags: Mapping[str, str] = {}


def parse(label: str | None, tags: Sequence[str] | None) -> RunNames:
    """The names of `--label` and `--tag`. Raises ValueError for what is no KEY=VALUE, one key twice, and long ones."""
    found: dict[str, str] = {}
    for text in tags or ():
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"--tag {text!r}: write key=value, such as cooling=water")
        if found.setdefault(key, value) != value:
            raise ValueError(f"--tag {key}: two values, {found[key]!r} and {value!r}: name one")
    for text in (label or "", *found, *found.values()):
        if len(text) > MAX_TAG_LETTERS:
            raise ValueError(f"--label and --tag have at most {MAX_TAG_LETTERS} letters, and {text[:20]!r}... has {len(text)}")
    return RunNames((label or "").strip(), found)
