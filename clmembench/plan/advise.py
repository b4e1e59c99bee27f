"""What `advise` measures: the benchmarks that guidelines are derived from, each as fully as its guideline needs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from clmembench.measure.runner import drive
from clmembench.measure.worker import Found
from clmembench.model import DeviceInfo, Record
from clmembench.plan.selection import Selection, selected

SUITE = "access"  # in full: most guidelines are of it
QUICK = ("pchase", "launch*")  # a latency of memory, and what a launch costs: as suite quick has them
ATOMICS = {"op": ("add",), "dtype": ("int",), "memory": ("global", "local"), "address": ("same",), "result": ("used",)}


def selections(plain: Selection) -> tuple[Selection, ...]:
    """What is measured one after the other, with the limits of the user's selection."""
    return (
        replace(plain, suite=SUITE, globs=()),
        replace(plain, suite="quick", globs=QUICK),
        replace(plain, suite="all", globs=("atomic",), axes=ATOMICS),
    )


def names(plain: Selection) -> tuple[str, ...]:
    """The benchmarks of all that is measured."""
    return tuple(b.name for selection in selections(plain) for b in selected(selection))


def measured(runtime: str, info: DeviceInfo, found: Found, plain: Selection) -> Iterator[Record]:
    """Every record, as it is measured. Its time is the user's --budget for all of it."""
    began = time.monotonic()
    for selection in selections(plain):
        left = None if plain.budget_s is None else max(0.001, plain.budget_s - (time.monotonic() - began))
        yield from drive(runtime, info, found, replace(selection, budget_s=left))
