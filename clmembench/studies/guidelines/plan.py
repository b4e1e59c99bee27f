"""What `advise` measures: the benchmarks that guidelines are derived from, each as fully as its guideline needs."""

from __future__ import annotations

from dataclasses import replace

from clmembench.plan.selection import Selection, selected_benchmarks

ACCESS_SUITE = "access"  # in full: most guidelines are of it
QUICK_BENCHMARKS = ("pchase", "launch*")  # a latency of memory, and what a launch costs: as suite quick has them
ATOMIC_AXES = {"op": ("add",), "dtype": ("int",), "memory": ("global", "local"), "address": ("same",), "result": ("used",)}


def selections(plain: Selection) -> tuple[Selection, ...]:
    """What is measured one after the other, with the limits of the user's selection."""
    return (
        replace(plain, suite=ACCESS_SUITE, globs=()),
        replace(plain, suite="quick", globs=QUICK_BENCHMARKS),
        replace(plain, suite="all", globs=("atomic",), axes=ATOMIC_AXES),
    )


def names(plain: Selection) -> tuple[str, ...]:
    """The benchmarks of all that is measured."""
    return tuple(b.name for selection in selections(plain) for b in selected_benchmarks(selection))
