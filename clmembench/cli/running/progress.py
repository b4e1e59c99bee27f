"""Progress on standard error while a run measures, or many stored ones are read."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from clmembench import units
from clmembench.cli.running.outlook import ProgressEstimate, Snapshot, Tally
from clmembench.sanitize import line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clmembench.model import Record

LINE_PERIOD_S = 10.0  # between lines of progress where there is no terminal
REFRESHES_PER_S = 1  # of a terminal: more would take CPU time from what is measured
BAR_COLUMNS = 20
MAX_POINT_CHARACTERS = 120  # of a point's name: the hierarchy's laps list up to hundreds of places
MAX_EXACT_RATIO = 1.6  # of the ends of the range of the time left: a wider one is shown as a range
Item = TypeVar("Item")


class Progress(Protocol):
    """A display of records as they come."""

    def show(self, record: Record) -> None: ...


def point_text(record: Record) -> str:
    """A record on one line: its point, and its value with its noise, or its status."""
    from clmembench.analysis import derive
    from clmembench.benchmarks import discovered

    name = line(f"{record.benchmark} {units.format_params(dict(record.params))}".strip(), MAX_POINT_CHARACTERS)
    known = discovered().get(record.benchmark)
    metric = next((m for m in known.metrics if m.applies(record.params)), None) if known is not None else None
    found = derive.summarise([record], metric) if metric is not None and record.status in ("ok", "suspect") else None
    said = "" if record.status == "ok" else f" ({record.status})"
    if found is None or metric is None:
        return line(f"{name}: {record.status}")
    if not found.median > 0:
        return line(f"{name}: not above its noise{said}")
    noise = (found.high - found.low) / 2 / found.median
    reach = f"+-{noise:.1%}" if math.isfinite(noise) else "(too few samples for an interval)"
    return line(f"{name}: {units.format_in(found.median, metric.unit)} {reach}{said}")


def snapshot_text(at: Snapshot) -> str:
    """How far a run is, in words: "14 of 62 measurements (23%), 31 s, about 1 min 40 s left", or a range of the time left while
    nobody knows better."""
    of = "" if at.total is None else f" of {at.bound}{at.total}"
    parts = [f"{at.done}{of} measurements" + ("" if at.share is None else f" ({at.share:.0%})")]
    parts.append(units.format_duration(at.elapsed_s))
    if at.range_s is not None and 0 == at.range_s[0] < at.range_s[1]:
        parts.append(f"at most {units.format_duration(at.range_s[1])} left")
    elif at.range_s is not None and at.range_s[1] > MAX_EXACT_RATIO * at.range_s[0]:
        parts.append(f"{' to '.join(map(units.format_duration, at.range_s))} left")
    elif at.left_s is not None:
        parts.append(f"about {units.format_duration(at.left_s)} left")
    return ", ".join(parts)


def counts_text(points: int, repeats: int, trials: int, most: str = "", most_trials: str = "") -> str:
    """Points, their repeats in further processes and tuning trials, with words before what is a bound."""
    parts = [f"{most}{units.count(points, 'point')}"] if points or not repeats else []
    parts += [f"{most}{units.count(repeats, 'repeat')} in further processes"] if repeats else []
    parts += [f"{most_trials}{units.count(trials, 'tuning trial')}"] if trials else []
    return ", ".join(parts)


def conclusion(outlook: ProgressEstimate, interrupted: bool) -> str:
    """What was measured of what was planned, in words; "" where nobody knew what was planned."""
    if not outlook.parts:
        return ""
    from clmembench.plan.estimate import RunEstimate

    tallies = [part.tally for part in outlook.parts]
    found = counts_text(*(sum(n) for n in zip(*((len(t.points), t.repeats, t.trials) for t in tallies), strict=True)))
    planned = RunEstimate(tuple(part.expected for part in outlook.parts))
    if any(part.expected.is_open for part in outlook.parts):
        return f"measured {found}; the estimate was about {planned.all_records}"
    text = f"measured {found}: {sum(t.measured for t in tallies)} of {planned.bound}{planned.all_records} measurements planned"
    other = [
        f"{one.name} {part.tally.measured} of at most {one.all_records}"
        for part in outlook.parts
        if part.tally.measured != (one := part.expected).all_records
    ]
    return text if interrupted or not other else f"{text} ({', '.join(other)})"


class _Lines:
    """A plain line for each benchmark, when it is done, and one every LINE_PERIOD_S seconds."""

    def __init__(self, outlook: ProgressEstimate, periodic: bool = True) -> None:
        self._outlook, self._periodic = outlook, periodic
        self._tally, self._since = Tally(""), time.monotonic()
        self._begun = self._said = self._since

    def show(self, record: Record) -> None:
        now = time.monotonic()
        name = self._outlook.group_of(record)
        if name != self._tally.name:
            self.close()
            self._tally, self._since = Tally(name), now - record.seconds
        self._tally.add(record)
        if self._periodic:
            at = self._outlook.add(record, now - self._begun)
            if now - self._said >= LINE_PERIOD_S:
                self._said = now
                _print(f"{snapshot_text(at)}; {point_text(record)}")

    def close(self) -> None:
        one = self._tally
        if one.name:
            counts = counts_text(len(one.points), one.repeats, one.trials)
            took = f"{counts}, {time.monotonic() - self._since:.1f} s"
            _print(f"{one.name}: {took if one.measured else 'not measured, the time was spent'}")


def _print(text: str) -> None:
    with suppress(OSError):  # a closed standard error does not end the run
        print(text, file=sys.stderr, flush=True)


class _Live:
    """A bar with counts and times, and below it the last point, under the plain lines of benchmarks that are done."""

    def __init__(self, outlook: ProgressEstimate) -> None:
        self._outlook, self._lines = outlook, _Lines(outlook, periodic=False)
        self._begun, self._point = time.monotonic(), "the first point is measured"

    def show(self, record: Record) -> None:
        self._lines.show(record)
        self._outlook.add(record, time.monotonic() - self._begun)
        self._point = point_text(record)

    def close(self) -> None:
        self._lines.close()

    def rendered(self) -> RenderableType:
        """The bar and the last point as they are now, each on one line of the terminal."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        at = self._outlook.at(time.monotonic() - self._begun)
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=None if at.total is None else max(1, at.total), completed=at.done, width=BAR_COLUMNS)
        grid.add_row(bar, Text(snapshot_text(at), no_wrap=True, overflow="ellipsis"))
        return Group(grid, Text(self._point, style="dim", no_wrap=True, overflow="ellipsis"))


def is_live() -> bool:
    """Whether standard error is a terminal on which lines can be drawn anew. NO_COLOR takes the colour, not the progress."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def progress(outlook: ProgressEstimate | None = None) -> Iterator[Progress]:
    """Progress on standard error: a bar on a terminal, plain lines elsewhere."""
    outlook = outlook or ProgressEstimate()
    if not is_live():
        lines = _Lines(outlook)
        yield lines
        lines.close()
        return
    from rich.console import Console
    from rich.live import Live

    shown = _Live(outlook)
    with Live(
        console=Console(stderr=True),
        get_renderable=shown.rendered,
        refresh_per_second=REFRESHES_PER_S,
        transient=True,
        redirect_stdout=False,
    ):
        yield shown
        shown.close()


def counted(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, `total` of them, with progress on standard error: a bar on a terminal, elsewhere a line every ten seconds."""
    if is_live():
        from rich.console import Console
        from rich.progress import track

        yield from track(items, what, total, transient=True, console=Console(stderr=True))
        return
    begun = said = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if (now := time.monotonic()) - said >= LINE_PERIOD_S:
            said = now
            _print(f"{what}: {number} of {total}, {now - begun:.0f} s")
