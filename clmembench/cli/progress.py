"""Progress on standard error while a run measures, or many stored ones are read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from clmembench import units
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.model import Record


LINE_PERIOD_S = 10.0  # between lines of progress where there is no terminal
Item = TypeVar("Item")


class Progress(Protocol):
    """A display of records as they come."""

    def show(self, record: Record) -> None: ...


class _Lines:
    """A plain line for each benchmark, when it is done."""

    def __init__(self) -> None:
        self._name, self._count, self._since = "", 0, time.monotonic()

    def show(self, record: Record) -> None:
        if record.benchmark != self._name:
            self.close()
            self._name, self._count, self._since = record.benchmark, 0, time.monotonic() - record.seconds
        self._count += 1

    def close(self) -> None:
        if self._name:
            points = "1 point" if self._count == 1 else f"{self._count} points"
            with suppress(OSError):  # a closed standard error does not end the run
                print(f"{self._name}: {points}, {time.monotonic() - self._since:.1f} s", file=sys.stderr, flush=True)


class _Live:
    """A live line with the current point, below the plain lines."""

    def __init__(self, status: object) -> None:
        self._status, self._lines = status, _Lines()

    def show(self, record: Record) -> None:
        from rich.markup import escape  # a file's name may look like markup

        self._lines.show(record)
        text = f"{record.benchmark} {units.format_params(dict(record.params))}: {record.status}"
        self._status.update(escape(line(text)))  # type: ignore[attr-defined]

    def close(self) -> None:
        self._lines.close()


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress on standard error: live on a terminal, plain lines elsewhere."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console

        with Console(stderr=True).status("probing the device") as status:
            live = _Live(status)
            yield live
            live.close()
    else:
        lines = _Lines()
        yield lines
        lines.close()


def counted(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, `total` of them, with progress on standard error: a bar on a terminal, elsewhere a line every ten seconds."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console
        from rich.progress import track

        yield from track(items, what, total, transient=True, console=Console(stderr=True))
        return
    begun = said = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if (now := time.monotonic()) - said >= LINE_PERIOD_S:
            said = now
            with suppress(OSError):
                print(f"{what}: {number} of {total}, {now - begun:.0f} s", file=sys.stderr, flush=True)
