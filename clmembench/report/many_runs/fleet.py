"""Many runs in one report: the runs of each device, and how their values are spread."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from clmembench.benchmarks import discovered
from clmembench.model import DeviceInfo, Header
from clmembench.model.device_identity import device_groups
from clmembench.report.device_runs import BANDWIDTH_BENCHMARK, device_order
from clmembench.report.many_runs.digests import Digest, Key
from clmembench.report.table import Cell, Column, Table, View
from clmembench.report.views import METRIC, PARAMETERS
from clmembench.sanitize import printable
from clmembench.units import count, format_in, format_value

MAX_RUNS_WITH_COLUMNS = 12  # runs: so many still have a column each, and plots of their own
MAX_REPEATED_RUNS = 5  # runs of one benchmark on one device, from which on their spread says more than the latest
MAX_SHOWN_RUNS = 9  # runs that speak for all in figures and summaries
MIN_RUNS_FOR_PERCENTILES = 20  # runs from which on the ends of a spread are its 5th and 95th percentile


@dataclass(slots=True)
class DeviceGroup:
    """The runs of one device; `values` has for each point the good medians, each with the number of its run."""

    label: str
    runs: list[Digest] = field(default_factory=list)
    values: dict[Key, list[tuple[int, float]]] = field(default_factory=dict)
    units: dict[Key, str] = field(default_factory=dict)
    bad: dict[Key, Counter[str]] = field(default_factory=dict)

    def add(self, digest: Digest) -> None:
        """One run more."""
        for key, unit, status, median in digest.values:
            if status == "ok" and median is not None:
                self.values.setdefault(key, []).append((len(self.runs), median))
                self.units[key] = unit
            else:
                self.bad.setdefault(key, Counter())[status] += 1
        self.runs.append(replace(digest, values=()))

    def take(self, other: DeviceGroup) -> None:
        """All runs of another group behind the own ones."""
        for key, values in other.values.items():
            self.values.setdefault(key, []).extend((len(self.runs) + number, value) for number, value in values)
        for key, bad in other.bad.items():
            self.bad.setdefault(key, Counter()).update(bad)
        self.units |= other.units
        self.runs += other.runs


@dataclass(frozen=True, slots=True)
class GroupPoint:
    """A point and metric of a benchmark on one device, whose place among the devices of the report it has."""

    group: DeviceGroup
    place: int
    key: Key


def grouped(found: Iterable[Digest]) -> list[DeviceGroup]:
    """Runs by model of device and driver, as `device_order` has them; of one model the device with most runs first."""
    claimed: dict[DeviceInfo, DeviceGroup] = {}
    known: dict[Key, Key] = {}
    for one in found:
        values = tuple((known.setdefault(v[0], v[0]), *v[1:]) for v in one.values)  # what runs share is kept once
        claimed.setdefault(one.device, DeviceGroup(one.label)).add(replace(one, values=values))
    groups: dict[tuple[int, str], DeviceGroup] = {}
    for number, (info, group) in zip(device_groups(list(claimed)), claimed.items(), strict=True):
        groups.setdefault((number, info.driver), DeviceGroup(group.label)).take(group)
    ordered = sorted(groups.values(), key=lambda group: -len(group.runs))
    names = Counter(group.label for group in ordered)
    for group in ordered:
        if names[group.label] > 1:
            device = group.runs[0].device
            group.label += f" ({printable(device.driver)}, {count(device.compute_units, 'compute unit')})"
    return [ordered[n] for n in device_order([(_device(group), _memory_bandwidth(group)) for group in ordered])]


def _memory_bandwidth(group: DeviceGroup) -> float:
    """The best of a device's headlines of memory bandwidth; 0 where none has a value."""
    names = {headline.name for headline in discovered()[BANDWIDTH_BENCHMARK].headlines}
    cells = (run.headlines[name] for run in group.runs for name in names & run.headlines.keys())
    return max((cell.value for cell in cells if cell.value is not None), default=0.0)


def may_be_fleet(headers: Sequence[Header]) -> bool:
    """Whether runs of these headers may be a fleet, which their values decide: a header names what a run has values of, or more
    than that."""
    devices = list(dict.fromkeys(header.device for header in headers))
    numbers = dict(zip(devices, device_groups(devices), strict=True))
    groups = [(numbers[header.device], header.device.driver) for header in headers]
    repeated = Counter((group, name) for group, header in zip(groups, headers, strict=True) for name in header.benchmarks)
    return len(set(groups)) > MAX_RUNS_WITH_COLUMNS or max(repeated.values(), default=0) > MAX_REPEATED_RUNS


def is_fleet(groups: Sequence[DeviceGroup]) -> bool:
    """Whether spreads over runs are what to show: over 12 devices, or a device on which a benchmark was measured over five
    times. Else runs complete each other, each with other benchmarks."""
    if len(groups) > MAX_RUNS_WITH_COLUMNS:
        return True
    return any(
        max(Counter(name for run in group.runs for name in run.versions).values(), default=0) > MAX_REPEATED_RUNS
        for group in groups
    )


def representative_runs(groups: Sequence[DeviceGroup]) -> list[Path]:
    """The runs that speak for all in figures: of each group the latest, and then the latest that has a benchmark which those do
    not have; groups in turn, that with most runs first, SHOWN at most."""
    turns = [_covering(group) for group in sorted(groups, key=lambda group: -len(group.runs))]
    in_turn = chain.from_iterable(zip(*(turn + [None] * (MAX_SHOWN_RUNS - len(turn)) for turn in turns), strict=True))
    return [Path(one.path) for one in in_turn if one is not None][:MAX_SHOWN_RUNS]


def _covering(group: DeviceGroup) -> list[Digest | None]:
    seen: set[str] = set()
    found: list[Digest | None] = []
    for one in sorted(group.runs, key=lambda run: (run.started, run.run_id), reverse=True):
        if not one.versions.keys() <= seen and len(found) < MAX_SHOWN_RUNS:
            found.append(one)
            seen |= one.versions.keys()
    return found


def versions(groups: Sequence[DeviceGroup]) -> dict[str, list[int]]:
    """The versions of each benchmark that runs used."""
    found: dict[str, set[int]] = {}
    for group in groups:
        for run in group.runs:
            for name, version in run.versions.items():
                found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in found.items()}


GROUPS: View[DeviceGroup] = View(
    names=((Column("device"), lambda group: group.label),),
    values=(
        (Column("runs", is_number=True), lambda group: str(len(group.runs))),
        (Column("platform and driver"), lambda group: printable(f"{_device(group).platform} {_device(group).driver}")),
        (Column("compute units", is_number=True), lambda group: str(_device(group).compute_units)),
        (Column("host CPUs"), lambda group: _listed(run.host_cpu for run in group.runs)),
        (Column("from, to"), lambda group: _first_and_last_day(group.runs)),
        (Column("suites"), lambda group: _listed(run.suite for run in group.runs)),
        (Column("clmembench"), lambda group: _listed(run.tool_version for run in group.runs)),
    ),
)
POINTS: View[GroupPoint] = View(
    names=((PARAMETERS, lambda point: point.key[1]), (METRIC, lambda point: point.key[2])),
    values=((Column("value", is_number=True), lambda point: _cell(point.group, point.key)),),
    across=lambda point: point.place,
)


def _device(group: DeviceGroup) -> DeviceInfo:
    return group.runs[0].device


def _listed(texts: Iterable[str]) -> str:
    return printable(", ".join(sorted(set(texts))))


def _first_and_last_day(runs: Sequence[Digest]) -> str:
    started = sorted(run.started for run in runs)
    return f"{started[0][:10]} to {started[-1][:10]}"


def group_table(groups: Sequence[DeviceGroup]) -> Table:
    """One line for each device: its runs, its driver and host, and what measured it."""
    return GROUPS.table(groups)


def points(groups: Sequence[DeviceGroup], benchmark: str) -> Table:
    """One line for each point and metric of a benchmark, a column a group: the median run, and where most runs lie."""
    entries = (
        GroupPoint(group, place, key)
        for place, group in enumerate(groups)
        for key in dict.fromkeys((*group.values, *group.bad))
        if key[0] == benchmark
    )
    return POINTS.table(entries, [group.label for group in groups])


def _cell(group: DeviceGroup, key: Key) -> Cell:
    """The median of a group's runs and where most of them lie, the runs at both ends on demand; how many gave no value."""
    good, bad = group.values.get(key, []), group.bad.get(key, Counter())
    left = ", ".join(f"{count} {status}" for status, count in sorted(bad.items()))
    if not good:
        return Cell(left, kind="bad" if any(status != "skipped" for status in bad) else "")
    values, unit = sorted(value for _, value in good), group.units[key]
    least, most = (group.runs[end(good, key=lambda pair: pair[1])[0]].run_id for end in (min, max))
    low, high = spread(values)
    text = format_in(statistics.median(values), unit, 4)
    if len(values) > 1:
        text += f" ({format_value(low, 4)} to {format_value(high, 4)} in {len(values)})"
    return Cell(text + (f", {left}" if left else ""), detail=printable(f"least: run {least}, most: run {most}"))


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Where most of these values lie, which are in order: their range, or the 5th and 95th percentile where they are many."""
    cut = round(0.05 * (len(values) - 1)) if len(values) >= MIN_RUNS_FOR_PERCENTILES else 0
    return values[cut], values[-1 - cut]
