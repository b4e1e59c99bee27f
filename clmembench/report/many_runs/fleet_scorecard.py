"""The verdict of a report over many runs: a column a device, whose cells are medians over its runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clmembench.analysis import decision
from clmembench.analysis.decision import NoisyValue, Side
from clmembench.benchmarks import discovered
from clmembench.report.many_runs.fleet import MIN_RUNS_FOR_PERCENTILES, DeviceGroup, spread
from clmembench.report.scorecard.device_pairs import device_pairs
from clmembench.report.scorecard.scorecard import assembled, headline_lines, note_names
from clmembench.report.scorecard_cells import Line, Scorecard, ScorecardCell
from clmembench.results.imported import ImportedRun
from clmembench.specs import sheets as specs
from clmembench.units import count, format_in, format_interval


def fleet_verdict(groups: Sequence[DeviceGroup], baseline: str = "", others: Sequence[ImportedRun] = ()) -> Scorecard:
    """Headline quantities of all devices, as `verdict` has them, without levels of a memory hierarchy, which digests do
    not have. Raises UnknownDevice where no device has the label of the baseline, and SpecError."""
    names, known = note_names([group.label for group in groups], others), specs.all_sheets()
    lines: list[Line] = []
    for benchmark in discovered().values():
        versions = [max((run.versions.get(benchmark.name, 0) for run in group.runs), default=0) for group in groups]
        units = {metric.name: metric.unit for metric in benchmark.metrics}
        for headline in benchmark.headlines:
            each = zip(groups, versions, strict=True)
            cells = [_cell(group, benchmark.name, headline.name, version, units[headline.metric]) for group, version in each]
            lines += headline_lines(benchmark, headline, names, cells, versions)
    devices = [(group.label, group.runs[0].device, specs.match_sheet(group.runs[0].device, known)) for group in groups]
    return assembled(devices, lines, device_pairs([_side(group) for group in groups], lines), baseline, others)


def _side(group: DeviceGroup) -> Side:
    """A device of many runs as a side of `compare`; its cells have their noise from the runs' digests."""
    return decision.side_of((), group.runs[0].device, {})


def _cell(group: DeviceGroup, benchmark: str, headline: str, version: int, unit: str) -> ScorecardCell:
    """The median over the device's runs by its latest version of the benchmark, where most of them lie as its interval; the
    latest run's cell where none has a value or one alone."""
    latest = sorted((run for run in group.runs if run.versions.get(benchmark) == version), key=lambda run: run.started)
    cells = [run.headlines[headline] for run in latest if headline in run.headlines]
    good = [cell for cell in cells if cell.value is not None]
    values = sorted(cell.value for cell in good if cell.value is not None)
    if len(values) < 2:
        return next(reversed(good or cells), ScorecardCell("–"))
    low, high = spread(values)
    median = statistics.median(values)
    points = {cell.point for cell in good}
    ends = "their range" if len(values) < MIN_RUNS_FOR_PERCENTILES else "5th to 95th percentile"
    detail = f"median of {count(len(values), 'run')}; {ends}: {format_interval(low, high, unit)}"
    point = points.pop() if len(points) == 1 else ""
    sizes = {cell.size for cell in good}
    return ScorecardCell(
        format_in(median, unit), detail=detail, status="ok", value=median, low=low, high=high, point=point,
        size=sizes.pop() if len(sizes) == 1 else ", ".join(sorted(sizes)),
        noisy=_over_runs(good),
        meaning=good[-1].meaning,
    )  # fmt: skip


def _over_runs(cells: Sequence[ScorecardCell]) -> NoisyValue | None:
    """The values of several runs as one that varies as much as they do."""
    known = [cell.noisy for cell in cells if cell.noisy is not None]
    if not known:
        return None
    return NoisyValue(tuple(one.value for one in known), known[-1].noise, statistics.median(one.slack for one in known))
