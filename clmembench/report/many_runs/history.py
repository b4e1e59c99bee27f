"""The runs of each device over time: its headline quantities run by run, what changed between runs, and change points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from clmembench.analysis import noise as changes
from clmembench.analysis.noise import calibrated
from clmembench.benchmarks import discovered
from clmembench.model import Run
from clmembench.model.device_identity import device_groups, number_of_devices
from clmembench.report.device_runs import device_label
from clmembench.report.frame import LabelledRun, parts
from clmembench.report.scorecard.device_pairs import side_of
from clmembench.report.scorecard.headline_cells import headline_cell
from clmembench.sanitize import printable
from clmembench.units import count, format_params

NO_LIBRARY = "no change points were looked for, since ruptures is missing: pip install 'clmembench[history]'"


@dataclass(frozen=True, slots=True)
class Moment:
    """A quantity in one run: its median with a 95% interval; null where it is not ok."""

    run: int
    status: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class LevelChange:
    """The first run of a new level, its ratio to the level before, and what else changed since the last run that has a
    value."""

    run: int
    ratio: float
    low: float
    high: float
    changed: str


@dataclass(frozen=True, slots=True)
class HistoryQuantity:
    """A quantity at one point, by one version of its benchmark, over the runs that have it; `reason` says why no change points
    were looked for."""

    group: str
    quantity: str
    point: str
    version: int
    unit: str
    better: str
    values: tuple[Moment, ...]
    change_points: tuple[LevelChange, ...] = ()
    reason: str = ""

    def good(self) -> list[Moment]:
        """The moments with a value."""
        return [moment for moment in self.values if moment.value is not None]


@dataclass(frozen=True, slots=True)
class RunStamp:
    """A run of a device; `changed` says what is not as it was in the run before."""

    run: int
    run_id: str
    started: str
    driver: str
    tool_version: str
    file: str
    changed: str


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """The runs of one device in the order of their start, counted from 1, and the quantities that two or more of them have, as
    `history --json` prints them."""

    device: str
    runs: tuple[RunStamp, ...]
    quantities: tuple[HistoryQuantity, ...]
    rule: str
    notes: tuple[str, ...]


# a quantity with its moment in one run, and whether other programs used the CPU meanwhile, which compare takes for a reason of
# a slower value, and a change point too
Observation = tuple[HistoryQuantity, bool]


def histories(runs: Sequence[Run], benches: Sequence[str] = ()) -> list[DeviceHistory]:
    """The history of each device, by its model, platform and compute units: of its headline quantities, or of every point of
    the benchmarks that match one of `benches`. Raises SpecError where two spec sheets match a device."""
    groups: dict[int, list[Run]] = {}
    ordered = sorted(runs, key=lambda run: (run.header.started, run.header.run_id))
    for run, number in zip(ordered, device_groups([run.header.device for run in ordered]), strict=True):
        groups.setdefault(number, []).append(run)
    return [_history(of, benches) for of in groups.values()]


def _history(runs: Sequence[Run], benches: Sequence[str]) -> DeviceHistory:
    observed: list[Observation] = []
    for number, run in enumerate(runs, 1):
        (part,) = parts([run])
        observed += _of_points(part, number, benches) if benches else _headlines(part, number)
    found, stamps = _joined(observed), tuple(_stamps(runs))
    several = [(quantity, disturbed) for quantity, disturbed in found if len(quantity.good()) > 1]
    quantities = tuple(_with_changes(quantity, disturbed, stamps) for quantity, disturbed in several)
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
    if number := sum(len(disturbed) for _, disturbed in several):
        values = count(number, "value")
        notes.append(f"{values} measured while other programs used the CPU: no change point is sought among such values")
    return DeviceHistory(device_label(runs[-1].header), stamps, quantities, changes.RULE, tuple(notes))


def _joined(observed: Sequence[Observation]) -> list[tuple[HistoryQuantity, frozenset[int]]]:
    """Quantities with the moments of all runs, and the runs of those that are disturbed. A headline that is not ok in a run has
    no point there: it is one of each point that the headline has in others."""
    found: dict[tuple[str, str, str, int], list[Moment]] = {}
    first: dict[tuple[str, str, str, int], HistoryQuantity] = {}
    pointless: list[HistoryQuantity] = []
    busy = set()
    for one, disturbed in observed:
        key, (moment,) = (one.group, one.quantity, one.point, one.version), one.values
        if moment.value is None and not one.point:
            pointless.append(one)
            continue
        first.setdefault(key, one)
        if all(known.run != moment.run for known in found.setdefault(key, [])):
            found[key].append(moment)
            busy |= {(key, moment.run)} if disturbed and moment.value is not None else set()
    for one in pointless:
        for key, moments in found.items():
            if (key[0], key[1], key[3]) == (one.group, one.quantity, one.version):
                moments.extend(one.values)
    return [
        (
            replace(first[key], values=tuple(sorted(of, key=lambda m: m.run))),
            frozenset(run for of_key, run in busy if of_key == key),
        )
        for key, of in found.items()
    ]


def _headlines(part: LabelledRun, number: int) -> Iterator[Observation]:
    """Every headline quantity of one run that was measured."""
    for benchmark in discovered().values():
        card = part.run.header.benchmarks.get(benchmark.name)
        for headline in benchmark.headlines if card is not None else ():
            cell = headline_cell(part, benchmark.name, headline)
            metric = next(metric for metric in benchmark.metrics if metric.name == headline.metric)
            if card is not None and cell.status != "missing":
                disturbed = cell.noisy is not None and cell.noisy.slack > 0
                moment = Moment(number, cell.status, cell.value, cell.low, cell.high)
                where = (headline.group, headline.name, cell.point, card.version)
                yield HistoryQuantity(*where, metric.unit, metric.better, (moment,)), disturbed


def _of_points(part: LabelledRun, number: int, benches: Sequence[str]) -> Iterator[Observation]:
    """Every metric of every point of the benchmarks that match."""
    side, table = side_of(part), calibrated()
    for row in part.rows:
        value = row.value
        if any(fnmatchcase(value.benchmark, pattern) for pattern in benches):
            numbers = (value.median, value.ci_low, value.ci_high) if row.is_good else (None, None, None)
            version, point = part.run.header.benchmarks[value.benchmark].version, format_params(value.params)
            noisy = side.noisy(value, table)
            where = (value.benchmark, value.metric, point, version, value.unit, value.better)
            yield HistoryQuantity(*where, (Moment(number, row.status, *numbers),)), noisy is not None and noisy.slack > 0


def _with_changes(quantity: HistoryQuantity, disturbed: Set[int], stamps: Sequence[RunStamp]) -> HistoryQuantity:
    runs = [moment.run for moment in quantity.good()]
    steady = [(m.run, m.value) for m in quantity.good() if m.value is not None and m.run not in disturbed]
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
    points = []
    for change in found:
        run, ratio = steady[change.index][0], change.ratio
        since = stamps[runs[runs.index(run) - 1] : run]  # the runs after the last one that has a value
        words = "; ".join(stamp.changed for stamp in since if stamp.changed)
        points.append(LevelChange(run, ratio.value, ratio.low, ratio.high, words))
    return replace(quantity, change_points=tuple(points))


def _stamps(runs: Sequence[Run]) -> Iterator[RunStamp]:
    before: dict[str, str] = {}
    for number, run in enumerate(runs, 1):
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
        texts = (header.run_id, header.started, header.device.driver, header.tool_version, run.path, changed)
        yield RunStamp(number, *map(printable, texts))
