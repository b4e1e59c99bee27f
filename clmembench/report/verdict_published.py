"""What papers state of devices that were not measured, in sentences: accelerators and GPUs against the CPUs of their day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from clmembench.report.published_map import published_text
from clmembench.report.published_points import PublishedPoint, published_points
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_value

QUANTITIES = ("memory triad, double", "DGEMM")  # headlines that a sentence compares
KINDS = ("accelerator", "gpu", "cpu")  # in the order in which a sentence names devices

_Mention = tuple[str, str, str]  # kind of the device, its value as text, its name


def published_sentences(others: Sequence[SpecSheet]) -> list[str]:
    """One sentence for each quantity and paper that has values of a CPU and of an accelerator or a GPU. Values of one paper are
    comparable with each other; none is compared with what was measured here."""
    known = [(sheet, published_points(sheet)) for sheet in others if sheet.origin == "published"]
    papers = dict.fromkeys(point.paper for _, points in known for point in points)
    return [text for paper in papers for quantity in QUANTITIES for text in _sentence(known, paper, quantity)]


def _sentence(known: Sequence[tuple[SpecSheet, list[PublishedPoint]]], paper: str, quantity: str) -> Iterator[str]:
    mentions: list[_Mention] = []
    for sheet, points in known:
        mine = [point for point in points if point.paper == paper and quantity in point.headlines]
        if mine:
            mentions.append((sheet.kind, _value(mine[0]), sheet.name))
    kinds = {kind for kind, _, _ in mentions}
    if "cpu" not in kinds or len(kinds) < 2:
        return
    ordered = sorted(mentions, key=lambda one: (KINDS.index(one[0]), one[1]))
    told = [f"{text} on {_listed([n for *_, n in same])}" for text, same in groupby(ordered, key=lambda one: one[1])]
    yield printable(f"Published in {paper}, not measured here, {quantity}: {'; '.join(told)}.")


def _value(point: PublishedPoint) -> str:
    """A published value with its bounds, and how it was derived where no paper prints it."""
    ends = point.low is not None and point.high is not None
    bounds = f"{format_value(point.low)} to {format_value(point.high)}" if ends else ""
    details = "; ".join(filter(None, (bounds, point.result.derived)))
    return f"{published_text(point.result)}{f' ({details})' if details else ''}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
