"""What a run is to measure: suites, benchmarks and values that a user named, checked before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from clmembench.benchmarks import discovered
from clmembench.measure import Budget
from clmembench.model import Benchmark, DeviceInfo, Value

QUICK = Budget(least_s=0.03, most_s=0.3, noise=0.02, slope_ns=3e5)
FULL = Budget(least_s=0.05, most_s=0.8, noise=0.01, slope_ns=1e6)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a run is to measure: a suite, benchmark names (globs), values for axes, and its limits in time."""

    suite: str = "all"
    globs: tuple[str, ...] = ()
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    processes: int = 1
    seed: int = 0
    budget_s: float | None = None
    timeout_s: float = 120.0

    def budget_of(self, benchmark: Benchmark) -> Budget:
        """How long each of its points may sample."""
        budget = QUICK if self.suite == "quick" else FULL
        least_s = max(budget.least_s, benchmark.least_s)
        return replace(budget, least_s=least_s, most_s=max(budget.most_s, least_s))


def suites() -> dict[str, tuple[str, ...]]:
    """Every suite's benchmarks: quick and all, and one suite for each kind of benchmark there is."""
    known = discovered()
    kinds = dict.fromkeys(b.suite for b in known.values())
    return {
        "quick": tuple(b.name for b in known.values() if b.quick is not None),
        **{kind: tuple(b.name for b in known.values() if b.suite == kind) for kind in kinds},
        "all": tuple(known),
    }


def selected(selection: Selection) -> list[Benchmark]:
    """The benchmarks of a selection. Raises ValueError naming what there is when nothing matches."""
    known, all_suites = discovered(), suites()
    if selection.suite not in all_suites:
        raise ValueError(f"no suite {selection.suite!r}: choose from {', '.join(all_suites)}")
    for glob in selection.globs:
        if not any(fnmatchcase(name, glob) for name in known):
            raise ValueError(f"no benchmark matches {glob!r}: choose from {', '.join(known)}")
    chosen = [
        known[name]
        for name in all_suites[selection.suite]
        if not selection.globs or any(fnmatchcase(name, glob) for glob in selection.globs)
    ]
    if not chosen:
        raise ValueError(f"suite {selection.suite} has none of {', '.join(selection.globs)}: leave out --suite")
    axes = {name for benchmark in chosen for name in benchmark.axes}
    for name in selection.axes:
        if name not in axes:
            raise ValueError(f"no axis {name!r} here: choose from {', '.join(sorted(axes))}")
    return chosen


def check_axes(chosen: Sequence[Benchmark], info: DeviceInfo, selection: Selection) -> None:
    """Raises ValueError for a value that no chosen benchmark can take on its axis: an unknown word, a number below 1 (where the
    axis itself goes no lower), or one for the other. Any number else is allowed: users look where the defaults do not."""
    for name, values in selection.axes.items():
        known = [v for b in chosen if name in b.axes for v in b.axes[name].values(info)]
        numbers = [v for v in known if not isinstance(v, str)]
        for value in values:
            if value in known or (numbers and not isinstance(value, str) and value >= min(1, *numbers)):
                continue
            words = ", ".join(dict.fromkeys(str(v) for v in known if isinstance(v, str)))
            number = f"a number from {min(1, *numbers)} up" if numbers else ""
            wanted = " or ".join(filter(None, [number, f"one of {words}" if words else ""]))
            raise ValueError(f"-a {name}: {value!r} is not {wanted}")
