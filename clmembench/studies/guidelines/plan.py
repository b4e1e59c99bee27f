"""What `advise` measures: the benchmarks that guidelines are derived from, each as fully as its guideline needs."""

from __future__ import annotations

from dataclasses import replace

from clmembench.plan.selection import Selection, selected_benchmarks

ACCESS_SUITE = "access"  # in full: most guidelines need it
QUICK_BENCHMARKS = ("pchase", "launch*")  # latency of memory and cost of a launch, as in suite quick
ATOMIC_AXES = {"op": ("add",), "dtype": ("int",), "memory": ("global", "local"), "address": ("same",), "result": ("used",)}


def selections(plain: Selection) -> tuple[Selection, ...]:
    """Selections to measure in this order, with the limits of the user's selection."""
    return (
        replace(plain, suite=ACCESS_SUITE, globs=()),
        replace(plain, suite="quick", globs=QUICK_BENCHMARKS),
        replace(plain, suite="all", globs=("atomic",), axes=ATOMIC_AXES),
    )


def names(plain: Selection) -> tuple[str, ...]:
    """The benchmarks of all that is measured."""
    return tuple(b.name for selection in selections(plain) for b in selected_benchmarks(selection))
