"""Tables of plain text as Markdown and LaTeX; whatever a cell holds stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clmembench import sanitize


def markdown(header: Sequence[str], columns: str, rows: Iterable[Sequence[str]]) -> str:
    """One line a row under its header; `columns` has l or r for each."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join("--:" if c == "r" else "---" for c in columns) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(sanitize.markdown, row)) + " |" for row in rows)])


def latex(header: Sequence[str], columns: str, rows: Iterable[Sequence[str]]) -> str:
    """The same for LaTeX with the package booktabs, without a float around it."""
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(map(sanitize.latex, header)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(sanitize.latex, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])
