"""The parts of a verdict: a cell for each quantity of each device, a line for each quantity, and the whole table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from clmembench.analysis import decision
from clmembench.analysis.decision import DEFAULT_MARGIN, NoisyValue, Pair
from clmembench.analysis.stats import Ratio
from clmembench.model import DeviceInfo

OLDER = "older version"  # status of a cell
BOUND = "bound"  # status of a cell: its quantity is at least or at most this
BoundKind = Literal["at least", "at most"]
SIGNS: dict[BoundKind, str] = {"at least": "≥", "at most": "≤"}
MARKS = {
    "*": "the best of those measured, and each that compare calls the same",
    "?": "compare does not decide whether it is worse than the best",
}
OTHER_SIZE, OTHER_UNITS, NOT_GOOD = "at another size", "another share of the same CPU", "no interval"


class UnknownDevice(ValueError):
    """No device of the report has the name of the baseline; the message names those that there are."""


@dataclass(frozen=True, slots=True)
class ScorecardCell:
    """One quantity of one device: the text of its value, or why there is none; `extra` stands below it (cycles, the
    fraction of the peak), `detail` has the interval and the point that it was read at. Only an ok cell has a value; of a bound,
    and of a value by an older version, `limit` is the number."""

    text: str
    extra: str = ""
    detail: str = ""
    status: str = "missing"
    value: float | None = None
    low: float | None = None
    high: float | None = None
    point: str = ""
    size: str = ""  # the extremes of axes that it was read at, where a quantity depends on them
    fraction: float | None = None  # of the theoretical peak
    is_best: bool = False
    is_open: bool = False  # undecided against the best
    ratio: str = ""
    noisy: NoisyValue | None = None  # the value as compare sees it
    limit: float | None = None
    side: BoundKind | None = None  # of a bound
    meaning: str = ""  # what else it is on such a device: it is compared with values that are the same
    peak_name: str = "peak"  # that the fraction is of
    of_best: float | None = None  # how good it is as a share of the best that it is compared with

    @property
    def mark(self) -> str:
        """A star of the best, a question mark where that is undecided, or nothing."""
        return "*" if self.is_best else "?" if self.is_open else ""

    @property
    def signed_text(self) -> str:
        """The text with a sign in place of the words of a bound."""
        return (
            f"{SIGNS[self.side]} {self.text.removeprefix(f'{self.side} ')}"
            if self.side and self.limit is not None
            else self.text
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One headline quantity across all devices."""

    group: str
    name: str
    better: str
    cells: tuple[ScorecardCell, ...]
    note: str = ""
    benchmark: str = ""  # "" where it was inferred from several
    unit: str = ""  # of the cells' values; "" where they are numbers alone, or have none


@dataclass(frozen=True, slots=True)
class LineCell:
    """The cell of one device in a line of a scorecard."""

    line: Line
    device: int
    cell: ScorecardCell


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the second of two devices is faster (better), slower (worse), the same or undecided, and how many times as good
    it is with its 95% interval."""

    verdict: decision.Verdict
    gain: Ratio


@dataclass(frozen=True, slots=True)
class KnownPair:
    """Two devices, the level that compare calls at, the benchmarks whose kernels are not the same, and why nothing of the two
    is compared, where that is so."""

    pair: Pair
    level: float
    other_kernels: frozenset[str] = frozenset()
    objection: str = ""


@dataclass(frozen=True, slots=True)
class DevicePairs:
    """Every two devices of a report, by their places, and the margin within which values are the same."""

    pairs: Mapping[tuple[int, int], KnownPair]
    margin: float = DEFAULT_MARGIN

    def decide(self, line: Line, first: int, second: int) -> Decision | None:
        """The second device of a line against the first; None where the two are not comparable there: `objection` says why."""
        if self.objection(line, first, second):
            return None
        a, b = (line.cells[place].noisy for place in (first, second))
        return self.decide_values(first, second, a, b, line.better) if a is not None and b is not None else None

    def decide_values(self, first: int, second: int, a: NoisyValue, b: NoisyValue, better: str) -> Decision:
        """A value of the second device against one of the first."""
        known = self.pairs[min(first, second), max(first, second)]
        gain = known.pair.gain(*((a, b) if first < second else (b, a)), better)
        ratio, verdict = gain.ratio(), decision.decision(gain, known.level, self.margin)
        if first < second:
            return Decision(verdict, ratio)
        turned: dict[decision.Verdict, decision.Verdict] = {"faster": "slower", "slower": "faster"}
        return Decision(turned.get(verdict, verdict), Ratio(1 / ratio.value, 1 / ratio.high, 1 / ratio.low))

    def are_other_kernels(self, first: int, second: int, benchmarks: Iterable[str]) -> bool:
        """Whether one of these benchmarks was measured by kernels that are not the same on two devices."""
        return not self.pairs[min(first, second), max(first, second)].other_kernels.isdisjoint(benchmarks)

    def objection(self, line: Line, first: int, second: int) -> str:
        """Why two devices are not compared in a line; "" where they are."""
        cells = line.cells[first], line.cells[second]
        if any(cell.noisy is None or cell.value is None for cell in cells):
            return NOT_GOOD
        if cells[0].meaning != cells[1].meaning:
            return cells[1].meaning or cells[0].meaning
        if cells[0].size != cells[1].size:
            return OTHER_SIZE
        known = self.pairs.get((min(first, second), max(first, second)))
        return NOT_GOOD if known is None else known.objection


@dataclass(frozen=True, slots=True)
class Scorecard:
    """Headline quantities by group; a column a device."""

    labels: tuple[str, ...]
    lines: tuple[Line, ...]
    baseline: str = ""
    devices: tuple[DeviceInfo, ...] = ()  # of the measured columns, which come first
    pairs: DevicePairs = DevicePairs({})  # of those

    def cells(self) -> Iterator[LineCell]:
        """Every cell, line by line."""
        return (LineCell(line, device, cell) for line in self.lines for device, cell in enumerate(line.cells))
