"""Data of the figures that show all devices in one plot: points, lines, best values, and which of them have room. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import Omission, comparable
from clmembench.report.figures.paper_figures import PaperFigure
from clmembench.report.frame import LabelledRun
from clmembench.units import format_in


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A value with its 95% interval over its place on the axis; of a published value the interval is the value."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """The points of one device in order of x, and the device's number on the page, which decides its look. `given` are the
    parameters that all its points have and that the figure leaves open, as text."""

    label: str
    number: int
    points: tuple[PlotPoint, ...]
    is_published: bool = False
    given: str = ""

    @property
    def name(self) -> str:
        """The label, and that it was published where it was."""
        return f"{self.label}, published" if self.is_published else self.label

    @property
    def xs(self) -> list[float]:
        """Where the points lie on the axis."""
        return [point.x for point in self.points]

    @property
    def ys(self) -> list[float]:
        """The points' values."""
        return [point.y for point in self.points]


@dataclass(frozen=True, slots=True)
class BestValue:
    """The best value of one device in one variant, and the theoretical peak, None where that is not known; of a published one
    what qualifies it, such as "about" or "below"."""

    label: str
    variant: str
    number: int
    point: PlotPoint
    unit: str
    peak: float | None = None
    is_published: bool = False
    qualifier: str = ""

    @property
    def name(self) -> str:
        """The label, and that it was published where it was."""
        return f"{self.label}, published" if self.is_published else self.label

    @property
    def text(self) -> str:
        """The value with its unit; of a published one the digits that were published, and what qualifies it."""
        value = f"{self.point.y:,.4g} {self.unit}" if self.is_published else format_in(self.point.y, self.unit)
        return f"{self.qualifier} {value}".strip()


def eligible_devices(
    figure: PaperFigure, devices: Sequence[LabelledRun]
) -> tuple[list[LabelledRun], BenchmarkInfo | None, list[Omission]]:
    """The devices that a figure can show, the latest card of its benchmark, and why others cannot be shown."""
    linked = [d for d in devices if figure.only != "link" or not d.run.header.device.shares_host_memory]
    omitted = [(d.label, "host and device share memory, so there is no link") for d in devices if d not in linked]
    kind = [d for d in linked if figure.only != "cpu" or d.run.header.device.kind == "cpu"]
    measured = [d for d in kind if d.of(figure.benchmark).rows]
    cards = [d.run.header.benchmarks[figure.benchmark] for d in measured]
    card = max(cards, key=lambda one: one.version, default=None)
    if card is None:
        return [], None, omitted
    found, older = comparable(figure.benchmark, card, measured)
    return found, card, omitted + older


MAX_NAMED = 8  # devices of a plot that have a look of their own; further ones are grey
MAX_ROWS = 40  # of a plot of values


def named_series(series: Sequence[DrawnSeries]) -> list[DrawnSeries]:
    """The lines that have a look and a name: all, or of more than MAX_NAMED measured ones so many in equal steps of their rank
    at the place on the axis that most of them have, lowest and highest among them; published ones up to the same number."""
    measured, published = ([s for s in series if s.is_published == kind] for kind in (False, True))
    if len(measured) > MAX_NAMED:
        shared = Counter(x for one in measured for x in one.xs)
        place = max(shared, key=lambda x: (shared[x], x))
        with_place = [one for one in measured if place in one.xs]
        ranked = sorted(with_place, key=lambda one: one.ys[one.xs.index(place)])
        last = len(ranked) - 1
        ranks = {round(n * last / (MAX_NAMED - 1)) for n in range(MAX_NAMED)}
        chosen = [ranked[n] for n in ranks]
        measured = [one for one in measured if one in chosen]
    return [*measured, *published[:MAX_NAMED]]


def shown_rows(values: Sequence[BestValue]) -> list[BestValue]:
    """The rows of a plot of values, variant by variant, best first; of more than MAX_ROWS the best of each variant."""
    variants = list(dict.fromkeys(one.variant for one in values))
    room = max(1, MAX_ROWS // max(1, len(variants)))
    found = []
    for variant in variants:
        mine = sorted((one for one in values if one.variant == variant), key=lambda one: -one.point.y)
        found += mine[:room]
    return found


def value_ends(series: Sequence[DrawnSeries]) -> tuple[float, float]:
    """The lowest and highest value of lines; intervals that reach far below do not stretch the axis."""
    points = [point for one in series for point in one.points]
    return min(max(p.low, p.y / 2) for p in points), max(min(p.high, 2 * p.y) for p in points)
