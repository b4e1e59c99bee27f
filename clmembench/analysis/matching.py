"""Which points of runs are meant: those that a user names, those that two runs share, and several runs as one baseline.

What is chosen is judged and derived before: a filter says which values are shown, and changes none of them.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import combinations

from clmembench.analysis.derive import Derived, derive, key_of
from clmembench.model import BenchmarkInfo, Record, Run, Value
from clmembench.model.device_identity import is_same_model, is_same_platform

Key = tuple[str, str, str]  # benchmark, parameters, metric
NO_VALUE = ("skipped", "undetermined")  # statuses of points that a run rightly has no value of
BROKEN = ("failed", "wrong", "timeout")

WORK_GROUPS = "work_groups"  # what a number of compute units is called where the device is no CPU


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A value of the first run that the second has nothing to compare with, and why; `broken` where its point failed there."""

    benchmark: str
    params: Mapping[str, Value]
    metric: str
    reason: str
    broken: bool = False


def uncompared(first: Sequence[Derived], second: Sequence[Derived], left_out: Mapping[str, str]) -> tuple[Uncompared, ...]:
    """The first run's values, suspect and failed ones among them, whose benchmark is left out or whose point is missing from
    the second run."""
    there = by_point(second)
    found = []
    for key, value in by_point(first).items():
        reason = left_out.get(value.benchmark, "missing from the second" if key not in there else "")
        if reason and value.status not in NO_VALUE:
            broken = value.status == "ok" and key in there and there[key].status in BROKEN
            found.append(Uncompared(value.benchmark, value.params, value.metric, reason, broken))
    return tuple(found)


def own_values(run: Run) -> list[Derived]:
    """A run's values; what other libraries gave on the same problems is none of its own."""
    return [v for v in derive(run) if not run.header.benchmarks[v.benchmark].peer_of]


def incomparable(first: Run, second: Run) -> dict[str, str]:
    """The common benchmarks that cannot be compared, each with the reason: another version, or other kernels."""
    found = {}
    for name in common(first, second):
        versions = [run.header.benchmarks[name].version for run in (first, second)]
        if versions[0] != versions[1]:
            found[name] = f"{name} is of version {versions[0]} in the first and {versions[1]} in the second"
    hashes = [_sources(run) for run in (first, second)]
    for name, point in hashes[0]:
        if (name, point) in hashes[1] and not hashes[0][name, point] & hashes[1][name, point]:
            found.setdefault(name, f"the kernels of {name} are not the same")
    return found


def on_other_units(first: Run, second: Run) -> dict[str, str]:
    """All common benchmarks, with the reason, where the driver had another number of compute units of one CPU in each run, as a
    CPU set or its settings leave it: a part of a CPU is not the CPU become slower."""
    a, b = first.header, second.header
    same = all(a.host.get(name) is not None and a.host.get(name) == b.host.get(name) for name in ("cpu", "logical_cpus"))
    units = [header.device.compute_units for header in (a, b)]
    if a.device.kind != "cpu" or not is_same_model(a.device, b.device) or not same or units[0] == units[1]:
        return {}
    why = f"the driver had {units[0]} compute units of this CPU in the first and {units[1]} in the second"
    return dict.fromkeys(common(first, second), why)


def objections(first: Run, second: Run) -> list[str]:
    """Why benchmarks are not to be compared: another version, other kernels, no parameters in common; or none is common."""
    found = [*dict.fromkeys(on_other_units(first, second).values()), *incomparable(first, second).values()]
    keys = [{key[:2] for key in by_point(own_values(run))} for run in (first, second)]
    for name in common(first, second):
        points = [{point for benchmark, point in of if benchmark == name} for of in keys]
        if points[0] and points[1] and not points[0] & points[1]:
            found.append(f"{name} has no parameters in common: {min(points[0])} in the first, {min(points[1])} in the second")
    if not common(first, second):
        found.append("they have no benchmark in common")
    return found


def common(first: Run, second: Run) -> list[str]:
    """The benchmarks of both runs, in the order of the first."""
    cards = second.header.benchmarks
    return [name for name in first.header.benchmarks if name in cards and not cards[name].peer_of]


def is_one_run(one: Run, other: Run) -> bool:
    """Whether two files hold one run, such as a file and its copy: two runs never have the same samples."""
    return bool(one.records) and one.records == other.records


def pooled(runs: Sequence[Run], argv: Sequence[str]) -> Run:
    """One run of all runs' measured points, each run's processes counted on from those before, so that what changes between
    runs is in its intervals; `argv` takes the place of the command. Raises ValueError where they are of several devices or
    drivers, or one run is given twice: it would count as another that agrees."""
    first = runs[0]
    for one, other in combinations(runs, 2):
        if is_one_run(one, other):
            raise ValueError(f"{one.path} and {other.path} are one run, which is counted once")
    records: list[Record] = []
    offset = 0
    for run in runs:
        device = run.header.device
        of = first.header.device
        if not is_same_model(device, of) or not is_same_platform(device, of) or device.driver != of.driver:
            said = f"{run.path} is of {device.name}, {device.platform} {device.driver}, and {first.path} is not"
            raise ValueError(f"{said}: create a baseline of each")
        measured = [r for r in run.records if r.role == "measure"]
        records += [replace(r, process=r.process + offset) for r in measured]
        offset += 1 + max((r.process for r in measured), default=0)
    cards = {name: card for run in reversed(runs) for name, card in run.header.benchmarks.items()}
    header = replace(first.header, benchmarks=cards, argv=tuple(argv), processes=None)
    return Run(first.path, header, tuple(records))


def by_point(values: Sequence[Derived], told_apart: frozenset[Key] = frozenset()) -> dict[Key, Derived]:
    """Values by point. The tuned configuration is no part of a point: where processes, as of the runs of a baseline, took
    different ones, they are pooled. Where one process measured several, or `told_apart` says so, the configuration tells points
    apart."""
    groups: dict[Key, list[Derived]] = defaultdict(list)
    for value in values:
        groups[_key(value)].append(value)
    found: dict[Key, Derived] = {}
    for key, group in groups.items():
        if key in told_apart or _overlap(group):
            for value in group:
                found[key[0], key[1] + json.dumps(value.tuning, sort_keys=True), key[2]] = value
        else:
            found[key] = _one(group)
    return found


def several_configurations(values: Sequence[Derived]) -> frozenset[Key]:
    """The points of which one process measured several configurations."""
    groups: dict[Key, list[Derived]] = defaultdict(list)
    for value in values:
        groups[_key(value)].append(value)
    return frozenset(key for key, group in groups.items() if _overlap(group))


def _overlap(group: Sequence[Derived]) -> bool:
    """True where one process measured two of them; values without a result may be of any process."""
    seen = [process for value in group for process in (value.measured_in or (None,))]
    return len(group) > 1 and len(set(seen)) < len(seen)


def _one(group: Sequence[Derived]) -> Derived:
    """The values of one point in several configurations as one, over all their processes; the good ones where there are any."""
    good = [v for v in group if v.status == "ok"] or list(group)
    if len(good) == 1:
        return good[0]
    medians = tuple(m for v in good for m in v.medians)
    return replace(
        good[0],
        median=statistics.median(medians) if medians else good[0].median,
        medians=medians,
        measured_in=tuple(p for v in good for p in v.measured_in),
        processes=sum(v.processes for v in good),
        n=sum(v.n for v in good),
        others=max(v.others for v in good),
        pass_ns=statistics.median(v.pass_ns for v in good),
        evidence=tuple(e for v in good for e in v.evidence),
        notes=(*good[0].notes, f"pooled over {len(good)} tuned configurations"),
    )


def _key(value: Derived) -> Key:
    return value.benchmark, json.dumps(dict(value.params), sort_keys=True), value.metric


def _sources(run: Run) -> Mapping[tuple[str, str], set[str]]:
    """The hashes of each point's sources, without build options: those differ by device and configuration."""
    found: dict[tuple[str, str], set[str]] = {}
    for record in run.records:
        alone, dash, _ = record.sources.partition("-")
        if dash and record.benchmark in run.header.benchmarks:  # older files have one hash for sources and options together
            tuning = run.header.benchmarks[record.benchmark].tuning
            params = {k: v for k, v in record.params.items() if k not in tuning}
            found.setdefault((record.benchmark, json.dumps(params, sort_keys=True)), set()).add(alone)
    return found


@dataclass(frozen=True, slots=True)
class PointFilter:
    """Names of benchmarks (globs), a suite (with `suite_members`, those that this version has in it), values of axes, and
    statuses; each that is empty takes all. `words` are the options as the user wrote them."""

    globs: tuple[str, ...] = ()
    suite: str = ""
    suite_members: Set[str] = frozenset()
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    statuses: Set[str] = frozenset()
    words: str = ""

    @property
    def takes_all(self) -> bool:
        """Whether nothing is left out."""
        return not (self.globs or self.suite or self.axes or self.statuses)

    def takes_benchmark(self, name: str, card: BenchmarkInfo) -> bool:
        """Whether a benchmark is wanted; a peer is where the benchmark is whose problems it solves."""
        names = [name, *([card.peer_of] if card.peer_of else [])]
        if self.globs and not any(fnmatchcase(one, glob) for one in names for glob in self.globs):
            return False
        return not self.suite or self.suite in ("all", "everything", card.suite) or not self.suite_members.isdisjoint(names)

    def takes_params(self, params: Mapping[str, Value]) -> bool:
        """Whether a point has wanted values on all axes that the user named; one without such an axis has not."""
        return all(str(params.get(name)) in map(str, values) and name in params for name, values in self.axes.items())

    def takes_value(self, value: Derived) -> bool:
        """Whether a value has wanted parameters, tuned ones too, and a wanted status."""
        return self.takes_params({**value.tuning, **value.params}) and (not self.statuses or value.status in self.statuses)


def filtered_run(run: Run, values: Sequence[Derived], wanted: PointFilter) -> Run:
    """The part of a judged run that is wanted, with a note that says so; `values` are all its values. Of other records than
    those of points, such as a search's, those with wanted parameters."""
    cards = {name: card for name, card in run.header.benchmarks.items() if wanted.takes_benchmark(name, card)}
    chosen = [value for value in values if value.benchmark in cards and wanted.takes_value(value)]
    keys = {value.key for value in chosen}
    records = tuple(record for record in run.records if record.benchmark in cards and _is_wanted(record, keys, wanted))
    cards = {name: card for name, card in cards.items() if any(value.benchmark == name for value in chosen)}
    note = f"{len(chosen)} of {len(values)} values are shown: {wanted.words}"
    return replace(run, header=replace(run.header, benchmarks=cards), records=records, notes=(*run.notes, note))


def _is_wanted(record: Record, keys: Set[tuple[object, ...]], wanted: PointFilter) -> bool:
    if record.role == "measure":
        return key_of(record) in keys
    units = record.place.compute_units
    places: dict[str, Value] = {} if units is None else {"compute_units": units, WORK_GROUPS: units}
    return wanted.takes_params({**record.params, **places, "placement": record.place.placement})
