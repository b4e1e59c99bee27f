"""Markdown of generated pages: text that means itself, code, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def plain(text: str) -> str:
    """Text whose letters mean themselves; what stands in backticks stays code, and paragraphs stay paragraphs."""
    parts = re.split(r"(``[^\n]+?``|`[^`\n]+`)", text)
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def code(text: str) -> str:
    """Text as code; "" stays empty."""
    return f"`{text}`" if text else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; "" where it has no row."""
    header, *lines = (" | ".join(map(_cell, row)) for row in (columns, *rows))
    if not lines:
        return ""
    return "\n".join(f"| {line} |" for line in (header, " | ".join("---" for _ in columns), *lines))


def _cell(text: str) -> str:
    return re.sub(r"\\?\|", r"\\|", " ".join(text.split()))


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]{}])", r"\\\1", text).replace("<", "&lt;")
