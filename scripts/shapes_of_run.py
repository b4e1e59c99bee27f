"""Writes the configurations by which a run's searches gained more than noise, as a file for platforms/tuning.

The first configuration has its trial only. The best one has the values of its measurements in other processes if the run has
them, since the best of several trials is biased, else its trial. It is written if the lower end of its interval exceeds the
upper end of the first one's by more than processes differ; of others, the search of a run finds as much.
Usage: python scripts/shapes_of_run.py RUN FILE
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.analysis import derive, stats
from clmembench.analysis.record_values import headline_metric
from clmembench.benchmarks import discovered
from clmembench.model import Benchmark, Record, Run, Tuned, Value
from clmembench.model.metrics import more_is_better
from clmembench.results import jsonl, tuned
from clmembench.tune.candidates import MAX_PROCESS_RELATIVE_DIFFERENCE

Params = Mapping[str, Value]


def shapes(run: Run) -> list[Tuned]:
    """What the run's searches found to be better than the first configuration of each point, by benchmark and point."""
    info = run.header.device
    found: list[Tuned] = []
    family = tuned.device_family(info)
    for benchmark in discovered().values():
        known = run.header.benchmarks.get(benchmark.name)
        if known is None or known.version != benchmark.version:
            continue
        for params, records in _by_point(run, benchmark).items():
            better = _better(benchmark, records)
            if better is not None:
                best, low, middle, high = better
                found.append(
                    Tuned(
                        *family,
                        compute_units=info.compute_units,
                        benchmark=benchmark.name,
                        version=benchmark.version,
                        params=dict(params),
                        tuning=best,
                        date=run.header.started[:10],
                        tool_version=run.header.tool_version,
                        driver=info.driver,
                        gain=round(middle, 3),
                        gain_low=round(low, 3),
                        gain_high=round(high, 3),
                    )
                )
    return found


def _by_point(run: Run, benchmark: Benchmark) -> dict[tuple[tuple[str, Value], ...], list[Record]]:
    """The records of each point that was searched, in the order of the run."""
    points: dict[tuple[tuple[str, Value], ...], list[Record]] = {}
    for record in run.records:
        if record.benchmark == benchmark.name and not record.place.placement and record.place.compute_units is None:
            key = tuple((n, v) for n, v in record.params.items() if n not in _tuning(benchmark, record.params))
            points.setdefault(key, []).append(record)
    return {key: records for key, records in points.items() if any(r.role == "tune" for r in records)}


def _better(benchmark: Benchmark, records: Sequence[Record]) -> tuple[Params, float, float, float] | None:
    """The best configuration, if it is surely better than the first, with the ends and the middle of the gain."""
    trials = [r for r in records if r.role == "tune"]
    values = [_summary(benchmark, [trial]) for trial in trials]
    scored = [(value.median, n) for n, value in enumerate(values) if value is not None]
    first = values[0]
    if first is None or not scored:
        return None
    best = _tuning(benchmark, trials[max(scored)[1]].params)
    again = [r for r in records if r.role == "measure" and _tuning(benchmark, r.params) == best]
    winner = _summary(benchmark, again or [trials[max(scored)[1]]])
    if winner is None or winner.low <= (1 + MAX_PROCESS_RELATIVE_DIFFERENCE) * first.high:
        return None
    return best, winner.low / first.high, winner.median / first.median, winner.high / first.low


def _summary(benchmark: Benchmark, records: Sequence[Record]) -> stats.Summary | None:
    """The headline metric over these records, as a number of which more is better."""
    metric = headline_metric(benchmark, records[0].params)
    value = derive.summarise([r for r in records if r.status == "ok"], metric)
    if value is None or not 0 < value.low <= value.high < math.inf:
        return None
    if more_is_better(metric.better):
        return value
    return replace(value, median=1 / value.median, low=1 / value.high, high=1 / value.low)


def _tuning(benchmark: Benchmark, params: Params) -> dict[str, Value]:
    return {name: value for name, value in params.items() if name in benchmark.axes and benchmark.axes[name].tuning}


if __name__ == "__main__":
    run_path, target = map(Path, sys.argv[1:])
    found = shapes(jsonl.read(run_path))
    for one in found:
        print(f"{one.gain:6.3f} ({one.gain_low} to {one.gain_high}) {one.benchmark} {dict(one.params)}: {dict(one.tuning)}")
    tuned.save(target, found)
