"""The parts of a verdict: a cell for each quantity of each device, a line for each quantity, and the whole table."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.model import DeviceInfo

OLDER = "older version"  # status of a cell
BEST = "the best of those measured, and each whose median lies in its interval, or whose interval has its median"


class UnknownDevice(ValueError):
    """No device of the report has the name of the baseline; the message names those that there are."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One quantity of one device: the text of its value, or why there is none; `extra` stands below it (cycles, the
    fraction of the peak), `detail` has the interval and the point that it was read at. Only an ok cell has a value."""

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
    ratio: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One headline quantity across all devices."""

    group: str
    name: str
    better: str
    cells: tuple[Cell, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Headline quantities by group; a column a device."""

    labels: tuple[str, ...]
    lines: tuple[Line, ...]
    baseline: str = ""
    devices: tuple[DeviceInfo, ...] = ()  # of the measured columns, which come first
