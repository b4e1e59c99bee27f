"""The runs of each device over time: its headline quantities run by run, what changed between runs, and change points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from clmembench.analysis import noise as changes
from clmembench.analysis.noise import ChangePoint, calibrated
from clmembench.benchmarks import discovered
from clmembench.model import Run
from clmembench.model.device_identity import device_groups, number_of_devices
from clmembench.report.device_runs import LabelledRun, device_label, parts
from clmembench.report.scorecard.device_pairs import side_of
from clmembench.report.scorecard.headline_cells import headline_cell
from clmembench.sanitize import printable
from clmembench.units import count, format_params

NO_LIBRARY = "no change points were looked for, since ruptures is missing: pip install 'clmembench[history]'"


@dataclass(frozen=True, slots=True)
class Moment:
    """A quantity in one run, by the run's place among the device's: its median with a 95% interval where it is ok. `disturbed`
    where other programs used the CPU meanwhile, which compare takes for a reason of a slower value, and a change point too."""

    run: int
    status: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    disturbed: bool = False


@dataclass(frozen=True, slots=True)
class HistoryQuantity:
    """One quantity at one point, by one version of its benchmark, over the runs that have it; `reason` says why no change
    points were looked for, where that is so."""

    group: str
    name: str
    point: str
    version: int
    unit: str
    better: str
    moments: tuple[Moment, ...]
    changes: tuple[ChangePoint, ...] = ()
    reason: str = ""

    def good(self) -> list[Moment]:
        """The moments with a value; the places of change points are among these."""
        return [moment for moment in self.moments if moment.value is not None]


@dataclass(frozen=True, slots=True)
class RunStamp:
    """A run's id, time of start (ISO 8601), driver, version of clmembench and file; `changed` says what is not as it was in the
    run before."""

    run_id: str
    started: str
    driver: str
    tool_version: str
    path: str
    changed: str = ""


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """The runs of one device in the order of their start, and the quantities that two or more of them have."""

    label: str
    runs: tuple[RunStamp, ...]
    quantities: tuple[HistoryQuantity, ...]
    notes: tuple[str, ...] = ()


def histories(runs: Sequence[Run], benches: Sequence[str] = ()) -> list[DeviceHistory]:
    """The history of each device, by its model, platform and compute units: of its headline quantities, or of every point of
    the benchmarks that match one of `benches`. Raises SpecError where two spec sheets match a device."""
    groups: dict[int, list[Run]] = {}
    ordered = sorted(runs, key=lambda run: (run.header.started, run.header.run_id))
    for run, number in zip(ordered, device_groups([run.header.device for run in ordered]), strict=True):
        groups.setdefault(number, []).append(run)
    return [_history(of, benches) for of in groups.values()]


def _history(runs: Sequence[Run], benches: Sequence[str]) -> DeviceHistory:
    told: list[HistoryQuantity] = []
    for place, run in enumerate(runs):
        (part,) = parts([run])
        told += _of_points(part, place, benches) if benches else _headlines(part, place)
    found = _joined(told)
    several = [quantity for quantity in found if len(quantity.good()) > 1]
    quantities = tuple(map(_with_changes, several))
    notes = []
    if len(found) > len(several):
        left = count(len(found) - len(several), "quantity", "quantities")
        notes.append(f"left out: {left} with a value in fewer than two runs")
    pieces = number_of_devices([run.header.device for run in runs])
    if pieces > 1:
        notes.append(f"these are {pieces} devices of one name: a change may be that of the device")
    if quantities and all(quantity.reason for quantity in quantities):
        lacking = any(quantity.reason == NO_LIBRARY for quantity in quantities)
        notes.append(NO_LIBRARY if lacking else f"no change points were looked for: {changes.RULE}")
    elif quantities:
        notes.append(changes.RULE)
    disturbed = sum(moment.disturbed for quantity in quantities for moment in quantity.good())
    if disturbed:
        values = count(disturbed, "value")
        notes.append(f"{values} measured while other programs used the CPU: no change point is sought among such values")
    return DeviceHistory(device_label(runs[-1].header), tuple(_stamps(runs)), quantities, tuple(notes))


def _joined(told: Sequence[HistoryQuantity]) -> list[HistoryQuantity]:
    """Quantities with the moments of all runs. A headline that is not ok in a run has no point there: it is one of each point
    that the headline has in others."""
    found: dict[tuple[str, str, str, int], list[Moment]] = {}
    first: dict[tuple[str, str, str, int], HistoryQuantity] = {}
    pointless: list[HistoryQuantity] = []
    for one in told:
        key, (moment,) = (one.group, one.name, one.point, one.version), one.moments
        if moment.value is None and not one.point:
            pointless.append(one)
            continue
        first.setdefault(key, one)
        if all(known.run != moment.run for known in found.setdefault(key, [])):
            found[key].append(moment)
    for one in pointless:
        for key, moments in found.items():
            if (key[0], key[1], key[3]) == (one.group, one.name, one.version):
                moments.extend(one.moments)
    return [replace(first[key], moments=tuple(sorted(of, key=lambda m: m.run))) for key, of in found.items()]


def _headlines(part: LabelledRun, place: int) -> Iterator[HistoryQuantity]:
    """Every headline quantity of one run that was measured, with its moment alone."""
    for benchmark in discovered().values():
        card = part.run.header.benchmarks.get(benchmark.name)
        for headline in benchmark.headlines if card is not None else ():
            cell = headline_cell(part, benchmark.name, headline)
            metric = next(metric for metric in benchmark.metrics if metric.name == headline.metric)
            if card is not None and cell.status != "missing":
                disturbed = cell.noisy is not None and cell.noisy.slack > 0
                moment = Moment(place, cell.status, cell.value, cell.low, cell.high, disturbed)
                yield HistoryQuantity(
                    headline.group, headline.name, cell.point, card.version, metric.unit, metric.better, (moment,)
                )


def _of_points(part: LabelledRun, place: int, benches: Sequence[str]) -> Iterator[HistoryQuantity]:
    """Every metric of every point of the benchmarks that match."""
    side, table = side_of(part), calibrated()
    for row in part.rows:
        value = row.value
        if any(fnmatchcase(value.benchmark, pattern) for pattern in benches):
            good = row.status == "ok" and value.median is not None
            numbers = (value.median, value.ci_low, value.ci_high) if good else (None, None, None)
            version, point = part.run.header.benchmarks[value.benchmark].version, format_params(value.params)
            noisy = side.noisy(value, table)
            moment = Moment(place, row.status, *numbers, noisy is not None and noisy.slack > 0)
            yield HistoryQuantity(value.benchmark, value.metric, point, version, value.unit, value.better, (moment,))


def _with_changes(quantity: HistoryQuantity) -> HistoryQuantity:
    steady = [(at, m.value) for at, m in enumerate(quantity.good()) if m.value is not None and not m.disturbed]
    values = [value for _, value in steady]
    if len(values) < changes.MIN_RUNS:
        reason = f"{count(len(values), 'run')} with a value are fewer than the {changes.MIN_RUNS} that a change point needs"
        return replace(quantity, reason=reason)
    if min(values) <= 0:
        return replace(quantity, reason="a value is not above 0")
    try:
        found = changes.change_points(values)
    except ImportError:
        return replace(quantity, reason=NO_LIBRARY)
    return replace(quantity, changes=tuple(replace(change, index=steady[change.index][0]) for change in found))


def _stamps(runs: Sequence[Run]) -> Iterator[RunStamp]:
    before: dict[str, str] = {}
    for run in runs:
        header = run.header
        now = {
            "device": header.device.name,
            "driver": header.device.driver,
            "platform version": header.device.version,
            "clmembench": header.tool_version,
            "host": str(header.host.get("cpu", "")),
        }
        changed = ", ".join(f"{name} {before[name]} -> {now[name]}" for name in before if before[name] != now[name])
        before = now
        yield RunStamp(
            printable(header.run_id),
            printable(header.started),
            printable(header.device.driver),
            printable(header.tool_version),
            printable(run.path),
            printable(changed),
        )


def changed_at(history: DeviceHistory, quantity: HistoryQuantity, change: ChangePoint) -> tuple[int, str]:
    """The place of the run at which a quantity changed, and what else changed since the last run that has its value."""
    good = quantity.good()
    first, last = good[change.index - 1].run, good[change.index].run
    return last, "; ".join(_told(history.runs[first + 1 : last + 1]))


def _told(stamps: Iterable[RunStamp]) -> list[str]:
    return [stamp.changed for stamp in stamps if stamp.changed]
