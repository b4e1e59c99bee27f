"""A memory hierarchy drawn for a terminal: boxes from the compute unit outwards to memory, with the findings in each."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from clmembench.model import DeviceInfo, Hierarchy
from clmembench.specs.claims import Claim
from clmembench.studies.hierarchy.views import sharing_text
from clmembench.studies.hierarchy.views.layout import Bar, Box, Fact, HierarchyLayout, lay_out

MIN_WIDTH = 60  # columns; narrower boxes would have one fact per line
TLB_COLUMN_WIDTHS = (28, 38)  # characters of the TLB column: minimum and maximum
MAX_BAR_WIDTH = 24
NO_BREAK_SPACE = "\u00a0"  # a non-breaking space
CONNECTOR_COLUMN = 2  # the column of the line that connects boxes


def draw_tree(
    hierarchy: Hierarchy, info: DeviceInfo | None = None, claims: Sequence[Claim] = (), width: int = 100, bold: bool = False
) -> str:
    """The hierarchy as lines of at most `width` columns (60 at least). `bold` marks names with terminal codes, which take no
    column. Text from files and devices is made harmless."""
    sketch, width = lay_out(hierarchy, info, claims), max(width, MIN_WIDTH)
    ink = _Ink(bold)
    lines = [ink.strong(part) for part in _wrapped(sketch.title, width)] + [""] * bool(sketch.title)
    lines += _unit(sketch, width, ink)
    beside = max(TLB_COLUMN_WIDTHS[0], min(TLB_COLUMN_WIDTHS[1], width * 2 // 5)) if sketch.tlb else 0
    path = list(_path(sketch.path, width - beside - 2 * bool(beside), ink))
    lines += _columns(path, ["", *_stacked(sketch.tlb, beside, ink)], width - beside) if beside else path
    if sketch.branches:
        lines += ["", ink.strong("Other paths, each from the compute unit")]
        lines += _branches(sketch, width, ink)
    if sketch.bars:
        lines += ["", ink.strong("Global latency patterns (Mei & Chu 2015, figure 14)"), *_bars(sketch.bars, width)]
    if sketch.bars_past:
        lines += [
            "",
            ink.strong("Global latency patterns of loads that bypass the first cache"),
            *_bars(sketch.bars_past, width),
        ]
    for title, notes in (
        (sharing_text.TITLE, sketch.sharing),
        ("Claims that are contradicted", sketch.surprises),
        ("Undetermined, and why", sketch.footnotes),
        ("Not measured", sketch.remarks),
    ):
        if notes:
            lines += ["", ink.strong(title), *(part for note in notes for part in _listed(note, width))]
    return "\n".join(part.rstrip().replace(NO_BREAK_SPACE, " ") for part in lines)


class _Ink:
    """Bold text, or plain."""

    def __init__(self, bold: bool) -> None:
        self._bold = bold

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._bold and text else text


def _unit(sketch: HierarchyLayout, width: int, ink: _Ink) -> list[str]:
    """The compute unit and the memory in it."""
    inside = []
    for box in sketch.near:
        facts = (*box.latency, *box.facts, *box.head)
        inside += _facts([Fact(f"{box.title} memory" if box.title == "local" else box.title), *facts], width - 4)
    return _box(sketch.unit, inside, width, ink, below=bool(sketch.path))


def _path(boxes: Sequence[Box], width: int, ink: _Ink) -> Iterator[str]:
    """The levels below each other, each connected to the next, with the ratio of latencies beside the line."""
    for index, box in enumerate(boxes):
        yield from _wrapped(" " * CONNECTOR_COLUMN + "│" + f"  {box.times}" * bool(box.times), width)
        yield from _box(box.title, _inside(box, width - 4), width, ink, above=True, below=index < len(boxes) - 1)


def _stacked(boxes: Sequence[Box], width: int, ink: _Ink) -> list[str]:
    return [line for box in boxes for line in _box(box.title, _inside(box, width - 4), width, ink)]


def _branches(sketch: HierarchyLayout, width: int, ink: _Ink) -> list[str]:
    """Each path as a separate tree under its heading, two side by side; a single one has the full width."""
    room = width if len(sketch.branches) == 1 else (width - 2) // 2
    trees = [[*map(ink.strong, _wrapped(heading, room)), *_path(boxes, room, ink)] for heading, boxes in sketch.branches]
    lines: list[str] = []
    for first in range(0, len(trees), 2):
        lines += ["", *_columns(trees[first], trees[first + 1] if first + 1 < len(trees) else (), room + 2)]
    return lines


def _columns(left: Sequence[str], right: Sequence[str], at: int) -> list[str]:
    """Lines side by side, the right ones from column `at` on."""
    return [f"{first}{' ' * (at - columns(first))}{second}" for first, second in zip_longest(left, right, fillvalue="")]


def _box(title: str, inside: Iterable[str], width: int, ink: _Ink, above: bool = False, below: bool = False) -> list[str]:
    """A frame around lines that fit it, with joints for the connecting lines."""
    name = _cut(title, width - 8)
    start = "┌─" + ("┴─ " if above else "─ ")
    top = start + ink.strong(name) + " " + "─" * (width - len(start) - columns(name) - 2) + "┐"
    middle = [f"│ {text}{' ' * (width - 4 - columns(text))} │" for text in inside]
    bottom = "└─" + ("┬" if below else "─") + "─" * (width - 4) + "┘"
    return [top, *middle, bottom]


def _inside(box: Box, width: int) -> list[str]:
    """Size and claims to the left and latency to the right of one line where there is room, then everything else."""
    head, latency = _facts(box.head, width), _facts(box.latency, width)
    if len(head) == len(latency) == 1 and columns(head[0]) + columns(latency[0]) + 3 <= width:
        together = [head[0] + " " * (width - columns(head[0]) - columns(latency[0])) + latency[0]]
    else:
        together = [*head, *latency]
    return [*together, *_facts(box.facts, width)]


def _facts(facts: Sequence[Fact], width: int) -> list[str]:
    """Facts separated by dots, in as few lines as possible; one that is too long is broken at its spaces."""
    lines: list[str] = []
    for fact in map(_glued, facts):
        if lines and columns(lines[-1]) + 3 + columns(fact) <= width:
            lines[-1] += f" · {fact}"
        else:
            lines += _wrapped(fact, width)
    return lines


def _glued(fact: Fact) -> str:
    """The words of a fact, with no line break within an interval or before the number of a footnote."""
    return re.sub(r"\([^()]{,30}\)| \[\d+\]", lambda found: found[0].replace(" ", NO_BREAK_SPACE), str(fact))


def _bars(bars: Sequence[Bar], width: int) -> Iterator[str]:
    """One line per pattern: its description, its latency, and a bar if there is room."""
    rows = [(f"{bar.name}  {bar.what}".rstrip(), str(bar.fact)) for bar in bars]
    names, values = (max(map(columns, cells)) for cells in zip(*rows, strict=True))
    room = min(MAX_BAR_WIDTH, width - names - values - 6)
    for bar, (name, value) in zip(bars, rows, strict=True):
        block = "▇" * max(1, round(bar.share * room)) if bar.share and room >= 8 else ""
        text = f"  {name}{' ' * (names - columns(name))}  {value}{' ' * (values - columns(value))}  {block}"
        yield from _wrapped(text.rstrip(), width, " " * 6)


def _listed(text: str, width: int) -> list[str]:
    return _wrapped(f"  {text}", width, "      " if text.startswith("[") else "    ")


def columns(text: str) -> int:
    """Width of a text in terminal columns: two for a wide character, none for an accent or a terminal code."""
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


def _cut(text: str, width: int) -> str:
    while columns(text) > width:
        text = text[:-2] + "…"
    return text


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most that many columns. Wide characters are rare, so every line reserves room for those of the whole text."""
    wide = columns(text) > len(text)
    return textwrap.wrap(text, width // 2 if wide else width, subsequent_indent=indent, break_on_hyphens=False)
