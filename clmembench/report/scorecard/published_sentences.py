"""What papers state of devices that were not measured, in sentences: accelerators and GPUs against the CPUs of their day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.report.imported.published_map import published_text
from clmembench.report.imported.published_points import PublishedPoint, published_points
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_value

QUANTITIES = ("memory triad, double", "DGEMM")  # headlines that a sentence compares
ACCELERATORS = ("accelerator", "gpu")  # kinds that CPUs are compared with: GPUs where a paper has no accelerator

_Known = tuple[SpecSheet, list[PublishedPoint]]


def published_sentences(others: Sequence[SpecSheet]) -> list[str]:
    """One sentence for each quantity and paper that has values of a CPU and of an accelerator or a GPU. Values of one paper are
    comparable with each other; none is compared with what was measured here, and no ratio is drawn."""
    known = [(sheet, published_points(sheet)) for sheet in others if sheet.origin == "published"]
    papers = dict.fromkeys(point.paper for _, points in known for point in points)
    return [text for paper in papers for quantity in QUANTITIES for text in _sentence(known, paper, quantity)]


def _sentence(known: Sequence[_Known], paper: str, quantity: str) -> Iterator[str]:
    having = [
        (sheet, next((p for p in points if p.paper == paper and quantity in p.headlines), None)) for sheet, points in known
    ]
    mine = [(sheet, point) for sheet, point in having if point is not None]
    cpus = [one for one in mine if one[0].kind == "cpu"]
    first = next((found for kind in ACCELERATORS if (found := [one for one in mine if one[0].kind == kind])), [])
    if not cpus or not first:
        return
    told = [f"{text} on {_listed(names)}" for group in (first, cpus) for text, names in _by_value(group).items()]
    caveats = dict.fromkeys(point.caveat for _, point in (*first, *cpus) if point.caveat)
    about = f"{quantity} ({'; '.join(caveats)})" if caveats else quantity
    yield printable(f"Published in {paper}, not measured here, {about}: {'; '.join(told)}.")


def _by_value(mine: Sequence[tuple[SpecSheet, PublishedPoint]]) -> dict[str, list[str]]:
    """The names of the devices of each value, which has its bounds, how it was derived, and what the sheet notes of it."""
    found: dict[str, list[str]] = {}
    for sheet, point in mine:
        ends = point.low is not None and point.high is not None
        bounds = f"{format_value(point.low)} to {format_value(point.high)}" if ends else ""
        details = "; ".join(filter(None, (bounds, point.result.derived, point.result.note)))
        found.setdefault(f"{published_text(point.result)}{f' ({details})' if details else ''}", []).append(sheet.name)
    return found


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
