"""The user's selection for a run: suites, benchmarks and values, with their checks and remedies for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from clmembench.benchmarks import discovered
from clmembench.host.cpu_topology import PLACEMENTS, HardwareThread, cpus, placements, sockets_in_order
from clmembench.model import NODE_PLACEMENT, Axis, Benchmark, DeviceInfo, Placement, Tuned, Value, alternatives
from clmembench.plan.budget import Budget
from clmembench.studies import SelectionError, studies

MAX_SUGGESTIONS = 3
MIN_SIMILARITY = 0.6  # difflib's default: allows a wrong, missing or swapped letter in a word of four

EVERYTHING = "everything"  # suite all, with the host's libraries and the memory hierarchy, in one run
OWN_SUITES = ("several", "roofline")  # not in suite all: they need several devices or NUMA nodes, or take half a minute
PLACE_AXES = ("compute_units", "placement")  # written like axes, but properties of the measuring process
WORK_GROUPS_PER_UNIT = (2, 4, 8)  # a GPU's compute unit hides latency with several work-groups
FURTHER_PROCESS_BUDGET_DIVISOR = 4  # divides a point's budget in every process but the first
QUICK_BUDGET = Budget(min_time_s=0.03, max_time_s=0.3, max_noise=0.02, slope_ns=3e5)
# what scatters by over 1% for 0.3 s does so for longer, too: its time differs, or the clock moves
FULL_BUDGET = Budget(min_time_s=0.03, max_time_s=0.3, max_noise=0.01, slope_ns=1e6)
CURVE_POINT_S = 0.15  # of a growing axis: a plateau of its curve has several points
# on GPUs, whose times scatter by 0.1%: 16 samples of a slope whose ends are so far apart take 15 ms
GPU_MIN_TIME_S, GPU_SLOPE_NS = 0.012, 5e5
# an adaptive plan has hundreds of points; a few of them are slow
ADAPTIVE_BUDGET = Budget(min_time_s=0.0, max_time_s=0.024, max_noise=0.003, slope_ns=4e5, patience=30)


def near(word: str, known: Iterable[str]) -> list[str]:
    """The known names most similar to a word, best first; if there are none, those that contain it."""
    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    similar = get_close_matches(folded, by_folded, MAX_SUGGESTIONS, MIN_SIMILARITY)
    inside = [name for name in by_folded if len(folded) > 1 and folded in name]
    return [by_folded[name] for name in similar or inside[:MAX_SUGGESTIONS]]


def or_all(word: str, known: Iterable[str], all_of_them: str = "") -> str:
    """`did you mean A or B?` where names are similar to a word, else every known name; `all_of_them` says where they are
    listed."""
    names = list(known)
    similar = near(word, names)
    if not similar:
        return f"choose from {', '.join(names)}"
    return f"did you mean {' or '.join(similar)}?{f' {all_of_them}' if all_of_them else ''}"


def benchmark_or_suite(word: str, suites: Iterable[str], command: str = "") -> str:
    """The option for a word that is, or resembles, the name of a suite or a benchmark, after the `command`; "" for other
    words."""
    known, kinds = [b.name for b in discovered().values() if not b.adaptive], list(suites)
    for names, option, kind in ((known, "-b", "benchmark"), (kinds, "-s", "suite")):
        if word in names:
            return f"it is a {kind}: write {command}{option} {word}"
    for names, option in ((known, "-b"), (kinds, "-s")):
        similar = near(word, names)
        if similar:
            return f"did you mean {command}{option} {similar[0]}?"
    return ""


def axis_of_others(name: str, chosen: Iterable[str]) -> str:
    """The other benchmarks that have an axis of this name, as a remedy; "" where none has."""
    mine = set(chosen)
    others = [b.name for b in discovered().values() if name in b.axes and not b.adaptive and b.name not in mine]
    return f"it is an axis of {', '.join(others)}: name one of them with -b" if others else ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The user's selection for a run: a suite, benchmark names (globs), values of axes, and time limits.

    The limits are for the run, for a point and for a benchmark. `topology` is the CPU topology of the host, by which threads
    are placed if the device is this host's CPU; otherwise it is empty. `processes` applies to every point; None leaves the
    number to the benchmarks. `tuning` has the stored configurations for this family of devices.
    """

    suite: str = "all"
    globs: tuple[str, ...] = ()
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    processes: int | None = None
    seed: int = 0
    budget_s: float | None = None
    timeout_s: float = 120.0
    benchmark_s: float | None = None
    isolated: bool = True
    topology: tuple[HardwareThread, ...] = ()
    tuning: tuple[Tuned, ...] = ()
    reference: bool = False  # also measure libraries and programs of this host at the same points
    energy: bool = False  # further passes follow the samples until energy counters have advanced far enough
    leaders: bool = False  # among points with the same peers, measure only the best ones in later processes

    def budget_of(self, benchmark: Benchmark, is_gpu: bool = False) -> Budget:
        """The sampling budget of each point of a benchmark."""
        if benchmark.adaptive and benchmark.peer_of is None:
            return replace(
                ADAPTIVE_BUDGET, patience=max(ADAPTIVE_BUDGET.patience, benchmark.max_time_s / ADAPTIVE_BUDGET.max_time_s)
            )
        budget = QUICK_BUDGET if self.suite == "quick" else FULL_BUDGET
        if is_gpu:
            budget = replace(budget, min_time_s=GPU_MIN_TIME_S, slope_ns=min(GPU_SLOPE_NS, budget.slope_ns))
        least_s = max(budget.min_time_s, benchmark.min_time_s)
        is_curve = any(axis.per_octave for axis in benchmark.axes.values())
        most_s = max(CURVE_POINT_S if is_curve else budget.max_time_s, least_s)
        patience = max(budget.patience, benchmark.max_time_s / most_s)
        return replace(budget, min_time_s=least_s, max_time_s=most_s, patience=patience, energy=self.energy)

    def budget_in(self, benchmark: Benchmark, process: int, share: float = 1.0, is_gpu: bool = False) -> Budget:
        """The sampling budget of a point in one of its processes.

        A further process gets less where the benchmark needs several: the variation between processes exceeds the noise within
        one. On a `share` of the device's compute units the same work takes proportionally longer, and `patience` grows with it.
        """
        budget = self.budget_of(benchmark, is_gpu)
        budget = replace(budget, patience=budget.patience / min(1.0, share))
        if process == 0 or self.processes is not None:
            return budget
        return replace(budget, max_time_s=max(budget.min_time_s, budget.max_time_s / FURTHER_PROCESS_BUDGET_DIVISOR))

    def processes_of(self, benchmark: Benchmark, info: DeviceInfo, params: Mapping[str, Value]) -> int:
        """The number of fresh processes for a point: the user's, else the benchmark's own (1 in suite quick, but for few)."""
        if self.processes is not None:
            return self.processes
        if not self.isolated:
            return 1
        if benchmark.processes is None or (self.suite == "quick" and not benchmark.quick_processes):
            return 1
        return benchmark.processes(info, **params)

    def places(self, info: DeviceInfo) -> list[Placement]:
        """The placements that the user chose for every point; one unrestricted Placement if there are none."""
        if not set(PLACE_AXES) & set(self.axes):
            return [Placement()]
        return self.sweep(info)

    def node_places(self, info: DeviceInfo) -> list[Placement]:
        """The CPUs of each NUMA node; an unrestricted Placement if the device is not this host's CPU."""
        if info.kind != "cpu" or len(self.topology) != info.compute_units:
            return [Placement()]
        found = []
        for node in sorted({thread.node for thread in self.topology}):
            mine = tuple(thread for thread in self.topology if thread.node == node)
            chosen, cores = tuple(thread.cpu for thread in mine), len({(thread.socket, thread.core) for thread in mine})
            found.append(Placement(len(mine), chosen, f"{NODE_PLACEMENT}{node}", cores))
        return found

    def sweep(self, info: DeviceInfo) -> list[Placement]:
        """Placements of a study over compute units: the user's numbers and placements, else a default choice.

        On CPUs each number is combined with every placement that uses a different set of CPUs, or the same set in an order that
        puts neighbouring threads on other sockets. Within a socket another order makes no difference: OpenCL does not control
        which thread runs which work-group.
        """
        counts = [int(n) for n in self.axes.get("compute_units", _compute_unit_counts(info, self.topology))]
        wanted = tuple(str(p) for p in self.axes.get("placement", PLACEMENTS))
        if info.kind != "cpu" or len(self.topology) != info.compute_units:
            return [Placement(n) for n in counts]
        by_cpus: dict[tuple[frozenset[int], tuple[int, ...]], Placement] = {}
        for count in counts:
            for placement in wanted if "placement" in self.axes else placements(self.topology, count):
                chosen = cpus(self.topology, count, placement)
                cores = len({(t.socket, t.core) for t in self.topology if t.cpu in chosen})
                key = frozenset(chosen), sockets_in_order(self.topology, chosen)
                by_cpus.setdefault(key, Placement(count, chosen, placement, cores))
        return list(by_cpus.values())


def _compute_unit_counts(info: DeviceInfo, topology: Sequence[HardwareThread]) -> list[int]:
    """The default numbers of compute units.

    CPUs: all numbers up to 8 (1, 2, 4 and 8 on larger CPUs), powers of two, a whole socket, one thread per core, and all. Other
    devices: 1, 4, 16 ..., all, and several work-groups per compute unit.
    """
    units = info.compute_units
    counts = {n for n in range(1, units + 1) if n <= 8 or n & (n - 1) == 0} | {units}
    if units > 8:
        counts -= {3, 5, 6, 7}
    if info.kind != "cpu":
        counts = {n for n in counts if n.bit_length() % 2 and n & (n - 1) == 0}  # every other power of two
        return sorted(counts | {n * units for n in (1, *WORK_GROUPS_PER_UNIT)})
    if len(topology) == units:
        counts |= {len({(t.socket, t.core) for t in topology}), sum(t.socket == topology[0].socket for t in topology)}
    return sorted(counts)


def suites() -> dict[str, tuple[str, ...]]:
    """The benchmarks of every suite: quick, all, everything, and one suite for each kind of benchmark."""
    known = {name: b for name, b in discovered().items() if not b.adaptive}
    kinds = dict.fromkeys(b.suite for b in known.values())
    every = tuple(b.name for b in known.values() if b.suite not in OWN_SUITES)
    measured = {
        name for study in studies() for name in study.measures
    }  # in suite everything by studies with plans of their own
    return {
        "quick": tuple(b.name for b in known.values() if b.quick is not None),
        **{kind: tuple(b.name for b in known.values() if b.suite == kind) for kind in kinds},
        "all": every,
        EVERYTHING: tuple(name for name in every if name not in measured),
    }


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of that name. Raises SelectionError where there is none."""
    known = discovered()
    if name not in known:
        raise SelectionError(f"no benchmark {name!r}: {or_all(name, known, '`clmembench suites` lists all')}")
    return known[name]


def measuring_order(selections: Sequence[Selection], is_hurried: bool) -> list[tuple[Selection, Benchmark]]:
    """The benchmarks of the selections, each with its own, in a run's order: with a budget those of headlines first, what one
    asks of a device that one has minutes for. Raises SelectionError as `selected_benchmarks` does."""
    chosen = [(selection, benchmark) for selection in selections for benchmark in selected_benchmarks(selection)]
    return sorted(chosen, key=lambda pair: is_hurried and pair[1].quick is None)


def selected_benchmarks(selection: Selection) -> list[Benchmark]:
    """The benchmarks of a selection. Raises SelectionError that lists the available names when nothing matches."""
    known, all_suites = discovered(), suites()
    runnable = [name for name, benchmark in known.items() if not benchmark.adaptive]
    if selection.suite not in all_suites:
        remedy = or_all(selection.suite, all_suites, f"Suites: {', '.join(all_suites)}")
        if selection.suite in runnable:
            remedy = f"it is a benchmark: write -b {selection.suite}"
        raise SelectionError(f"no suite {selection.suite!r}: {remedy}")
    for glob in selection.globs:
        if not any(fnmatchcase(name, glob) for name in known):
            remedy = or_all(glob, runnable, "`clmembench suites` lists all")
            if glob in all_suites:
                remedy = f"it is a suite: write -s {glob}"
            raise SelectionError(f"no benchmark matches {glob!r}: {remedy}")
        if all(b.adaptive for b in known.values() if fnmatchcase(b.name, glob)):
            raise SelectionError(f"{glob} has a plan of its own and is not run by itself: choose from {', '.join(runnable)}")
    chosen = [
        known[name]
        for name in (runnable if selection.globs and selection.suite == "all" else all_suites[selection.suite])
        if not selection.globs or any(fnmatchcase(name, glob) for glob in selection.globs)
    ]
    if not chosen:
        raise SelectionError(f"suite {selection.suite} has none of {', '.join(selection.globs)}: leave out --suite")
    axes = {name for benchmark in chosen for name in benchmark.axes}
    for name in selection.axes:
        if name not in axes and name not in PLACE_AXES:
            there = [*sorted(axes), *PLACE_AXES]
            elsewhere = axis_of_others(name, (benchmark.name for benchmark in chosen))
            remedy = elsewhere or or_all(name, there, f"Axes: {', '.join(there)}")
            raise SelectionError(f"no axis {name!r} here: {remedy}")
    return chosen


def accepts_value(axis: Axis, info: DeviceInfo, value: Value) -> bool:
    """Whether an axis can take a user's value.

    It takes its own words, numbers from 1 up (or from its own minimum, if that is lower) where it has numbers, and values that
    its `accepts` allows. Numbers may lie outside the defaults, since users explore there. Raises ValueError as `accepts` does.

    Features that need a probe are not known yet: a value that needs one is accepted, and skipped later if the feature is
    missing.
    """
    needed = {feature for need in axis.needs.get(value, ()) for feature in alternatives(need)}
    known = axis.values(replace(info, features=info.features | needed))
    numbers = [v for v in known if not isinstance(v, str)]
    fitting = isinstance(value, int) or any(isinstance(number, float) for number in numbers)
    if value in known or (numbers and fitting and not isinstance(value, str) and value >= min(1, *numbers)):
        return True
    return axis.accepts is not None and axis.accepts(value)


def check_axes(chosen: Sequence[Benchmark], info: DeviceInfo, selection: Selection) -> None:
    """Raises ValueError for a value that no chosen benchmark takes on its axis; the message lists valid ones."""
    _check_places(chosen, info, selection)
    for name, values in selection.axes.items():
        axes = [b.axes[name] for b in chosen if name in b.axes]
        for value in values:
            if name in PLACE_AXES or any(accepts_value(axis, info, value) for axis in axes):
                continue
            known = [v for axis in axes for v in axis.values(info)]
            numbers = [v for v in known if not isinstance(v, str)]
            words = ", ".join(dict.fromkeys(str(v) for v in known if isinstance(v, str)))
            number = f"a number from {min(1, *numbers)} up" if numbers else ""
            file = "a file that it reads (see describe)" if any(axis.accepts for axis in axes) else ""
            wanted = " or ".join(filter(None, [number, f"one of {words}" if words else "", file]))
            meant = near(value, words.split(", ")) if isinstance(value, str) and words else []
            raise ValueError(f"-a {name}: {value!r} is not {wanted}{f': did you mean {meant[0]}?' if meant else ''}")


def is_placeable(benchmark: Benchmark, info: DeviceInfo) -> bool:
    """Whether the points of a benchmark can be restricted to some compute units.

    On a CPU all can; on other devices those of benchmarks that loop over a fixed number of work-groups.
    """
    return info.kind == "cpu" or (benchmark.scaling is not None and bool(benchmark.scaling(info)))


def _check_places(chosen: Sequence[Benchmark], info: DeviceInfo, selection: Selection) -> None:
    """Raises ValueError for numbers of compute units and placements that are impossible on this device or without worker
    processes."""
    if not selection.isolated and (set(PLACE_AXES) & set(selection.axes) or (selection.processes or 1) > 1):
        raise ValueError("--no-isolate measures in one process: leave out --processes, compute_units and placement")
    for placement in selection.axes.get("placement", ()):
        if placement not in PLACEMENTS:
            raise ValueError(f"-a placement: {placement!r} is not one of {', '.join(PLACEMENTS)}")
        if info.kind != "cpu" or len(selection.topology) != info.compute_units:
            raise ValueError("-a placement: only threads of this host's CPUs can be placed: use -a compute_units alone")
    for count in selection.axes.get("compute_units", ()):
        if isinstance(count, str) or count < 1 or (info.kind == "cpu" and count > info.compute_units):
            limit = f" to {info.compute_units}" if info.kind == "cpu" else " up, of work-groups"
            raise ValueError(f"-a compute_units: {count!r} is not a number from 1{limit}")
    if "compute_units" in selection.axes and not any(is_placeable(b, info) for b in chosen):
        able = ", ".join(b.name for b in discovered().values() if is_placeable(b, info))
        raise ValueError(f"-a compute_units: on this device only {able} can be limited to a number of work-groups")
