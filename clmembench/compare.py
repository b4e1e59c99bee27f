"""Two runs, point by point: ratios with intervals, verdicts, and what keeps runs from being compared. Pure."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clmembench import stats
from clmembench.derive import Derived, derive
from clmembench.model import Record, Run, Value

Verdict = Literal["faster", "slower", "same", "undecided"]

MARGIN = 0.05  # what a user would not care about, and hosts do by themselves
# Standard deviations of the logarithm, as docs/calibration.md measured them: of processes of one run, which is what is believed
# where too few processes say it themselves, and of runs beyond that.
# What the host's clock times, and kernels as short as a launch, depend on the host too, whatever the device.
PROCESSES: Mapping[str, float] = {"cpu": 0.08, "gpu": 0.02, "accelerator": 0.05, "host": 0.1}
RUNS: Mapping[str, float] = {"cpu": 0.03, "gpu": 0.01, "accelerator": 0.02, "host": 0.05}
SHARED: Mapping[str, float] = {"cpu": 0.15, "host": 0.2}  # of runs on a CPU of a virtual machine, which has neighbours
BUSY = 0.2  # of a CPU, that other processes used while it was measured
NEIGHBOURS = 6  # processes of a run there that tell a change from what neighbours do
WORK = 0.01  # of what a pass moves: tuned shapes round sizes by less
SHORT_NS = 5e4  # of a pass: below, a launch's own jitter is much of it
SEVERAL = 3  # processes of a point that say how much processes differ


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of one point in two runs. `ratio` is second over first, `gain` the same turned so that more is better; both
    are None where either has no value. `reason` says which has none, or why a ratio does not tell a change."""

    benchmark: str
    suite: str
    params: Mapping[str, Value]
    metric: str
    unit: str
    headline: bool
    verdict: Verdict
    first: float | None
    second: float | None
    ratio: stats.Ratio | None = None
    gain: stats.Ratio | None = None
    reason: str = ""
    broken: bool = False  # the first run has a value, and the second failed or computed wrongly


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every common point of two runs, the points that only one has, and the geometric mean of the gains of each suite."""

    changes: tuple[Change, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    means: Mapping[str, stats.Ratio]

    def count(self, verdict: Verdict) -> int:
        """How many changes have that verdict."""
        return sum(change.verdict == verdict for change in self.changes)


def objections(first: Run, second: Run) -> list[str]:
    """Why the runs' common benchmarks are not to be compared: another version, another kernel, no point in common."""
    found = []
    cards = second.header.benchmarks
    common = [name for name in first.header.benchmarks if name in cards and not cards[name].peer_of]
    for name in common:
        versions = [run.header.benchmarks[name].version for run in (first, second)]
        if versions[0] != versions[1]:
            found.append(f"{name} is of version {versions[0]} in the first and {versions[1]} in the second")
    hashes = [_sources(run) for run in (first, second)]
    changed = [point for point in hashes[0] if point in hashes[1] and not hashes[0][point] & hashes[1][point]]
    found += [f"the kernels of {name} are not the same" for name in dict.fromkeys(name for name, _ in changed)]
    keys = [{key[:2] for key in _keyed(derive(run), frozenset())} for run in (first, second)]
    for name in common:
        points = [{point for benchmark, point in of if benchmark == name} for of in keys]
        if points[0] and points[1] and not points[0] & points[1]:
            found.append(f"{name} has no parameters in common: {min(points[0])} in the first, {min(points[1])} in the second")
    if not common:
        found.append("they have no benchmark in common")
    return found


def pooled(runs: Sequence[Run], said: Sequence[str]) -> Run:
    """One run of all runs' measured points, each run's processes counted on from those before, so that what changes between
    runs is in its intervals; `said` takes the place of the command. Raises ValueError where they are of several devices."""
    first = runs[0]
    records: list[Record] = []
    offset = 0
    for run in runs:
        device = run.header.device
        if (device.name, device.driver) != (first.header.device.name, first.header.device.driver):
            raise ValueError(f"{run.path} is of {device.name}, driver {device.driver}, and {first.path} is not")
        measured = [r for r in run.records if r.role == "measure"]
        records += [replace(r, process=r.process + offset) for r in measured]
        offset += 1 + max((r.process for r in measured), default=0)
    cards = {name: card for run in reversed(runs) for name, card in run.header.benchmarks.items()}
    header = replace(first.header, benchmarks=cards, argv=tuple(said), processes=None)
    return Run(first.path, header, tuple(records))


def compare(first: Run, second: Run, margin: float = MARGIN) -> Comparison:
    """Both runs' values, judged before (gates). What one of them lacks is listed, not compared; other libraries' values, which
    stand in a run beside ours, are none of either."""
    values = [[v for v in derive(run) if not run.header.benchmarks[v.benchmark].peer_of] for run in (first, second)]
    ambiguous = frozenset().union(*(_ambiguous(v) for v in values))
    of = [_keyed(v, ambiguous) for v in values]
    spreads = {group: _spread(first, second, values, group) for group in ("host", "device")}
    cards, shared = second.header.benchmarks, _shared(first, second)
    changes = []
    for key, a in of[0].items():
        b = of[1].get(key)
        if b is not None and b.benchmark in cards:
            card = cards[b.benchmark]
            applying = [m.name for m in card.metrics if m.applies({**b.params, **b.tuning})]
            change = _change(a, b, spreads["host" if "host" in (_group(a), _group(b)) else "device"], shared, margin)
            changes.append(replace(change, suite=card.suite, headline=applying[:1] == [b.metric]))
    only = [tuple(dict.fromkeys(_label(v) for k, v in of[i].items() if k not in of[1 - i])) for i in (0, 1)]
    return Comparison(tuple(changes), only[0], only[1], _means(changes))


def _change(a: Derived, b: Derived, spread: tuple[float, float], shared: bool | None, margin: float) -> Change:
    known = [v.median if v.status == "ok" else None for v in (a, b)]
    plain = Change(a.benchmark, "", a.params, a.metric, a.unit, True, "undecided", known[0], known[1])
    for value, which in ((a, "first"), (b, "second")):
        if value.status != "ok" or not value.medians or min(value.medians) <= 0:
            reason = f"{value.status} in the {which}{': ' + value.reason if value.reason else ''}"
            broken = which == "second" and value.status in ("failed", "wrong", "timeout")
            return replace(plain, reason=reason, broken=broken)
    if abs(a.nbytes - b.nbytes) > WORK * max(a.nbytes, b.nbytes) and min(a.pass_ns, b.pass_ns) > 0:
        return replace(
            plain, reason=f"not the same work: a pass moves {a.nbytes} B in the first and {b.nbytes} B in the second"
        )
    ratio = stats.ratio(a.medians, b.medians, *spread)
    gain = ratio if a.better == "higher" else stats.Ratio(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)
    said = gain.verdict(margin)
    if shared is not None and max(a.others, b.others) > BUSY and said in ("more", "less"):
        reason = f"other processes used {max(a.others, b.others):.0%} of the CPU: measure again when they do not"
        return replace(plain, ratio=ratio, gain=gain, reason=reason)
    if shared and said in ("more", "less") and min(len(a.medians), len(b.medians)) < NEIGHBOURS:
        few = f"fewer than {NEIGHBOURS} processes do not tell a change from a virtual machine's neighbours"
        reason = f"{few}: use --processes {NEIGHBOURS}"
        return replace(plain, ratio=ratio, gain=gain, reason=reason)
    verdict: Verdict = "faster" if said == "more" else "slower" if said == "less" else said
    return replace(plain, verdict=verdict, ratio=ratio, gain=gain)


def _group(value: Derived) -> str:
    """Whose jitter a value has: of the host, or of the device alone."""
    return "host" if value.clock != "device" or 0 < value.pass_ns < SHORT_NS else "device"


def _spread(first: Run, second: Run, values: Sequence[Sequence[Derived]], group: str) -> tuple[float, float]:
    """How much processes are expected to differ in values of a group, and runs beyond that: what points with several processes
    say, the median over them, else what was seen on such devices."""
    kinds = ["host"] if group == "host" else [run.header.device.kind for run in (first, second)]
    seen = [
        statistics.stdev(math.log(m) for m in v.medians)
        for of in values
        for v in of
        if _group(v) == group and len(v.medians) >= SEVERAL and min(v.medians) > 0
    ]
    prior = statistics.median(seen) if len(seen) >= SEVERAL else max(PROCESSES[kind] for kind in kinds)
    shared = _shared(first, second)
    return prior, max((SHARED if shared else RUNS).get(kind, RUNS[kind]) for kind in kinds)


def _shared(first: Run, second: Run) -> bool | None:
    """Whether either ran on a CPU of a virtual machine; None where neither is of a CPU."""
    hosts = [run.header.host for run in (first, second) if run.header.device.kind == "cpu"]
    return any(host.get("virtual") for host in hosts) if hosts else None


def _means(changes: Sequence[Change]) -> dict[str, stats.Ratio]:
    """Geometric means of the headline gains. Points of one run share what changed between runs, so their intervals are taken to
    err together: the mean of the ends, not narrower for more points."""
    gains: dict[str, list[stats.Ratio]] = {}
    for change in changes:
        if change.gain is not None and change.headline:
            gains.setdefault(change.suite, []).append(change.gain)
    return {
        suite: stats.Ratio(*(statistics.geometric_mean(getattr(g, end) for g in found) for end in ("value", "low", "high")))
        for suite, found in gains.items()
    }


def _keyed(values: Sequence[Derived], ambiguous: frozenset[tuple[str, str, str]]) -> dict[tuple[str, str, str], Derived]:
    """Values by benchmark, point and metric. The tuned shape is no part of a point, unless it alone tells points apart."""
    found = {}
    for value in values:
        key = _key(value)
        if key in ambiguous:
            key = (key[0], key[1] + json.dumps(value.tuning, sort_keys=True), key[2])
        found[key] = value
    return found


def _key(value: Derived) -> tuple[str, str, str]:
    return value.benchmark, json.dumps(dict(value.params), sort_keys=True), value.metric


def _ambiguous(values: Sequence[Derived]) -> set[tuple[str, str, str]]:
    return {key for key, count in Counter(map(_key, values)).items() if count > 1}


def _label(value: Derived) -> str:
    return " ".join([value.benchmark, *(f"{k}={v}" for k, v in value.params.items())])


def _sources(run: Run) -> dict[tuple[str, str], set[str]]:
    """The hashes of each point's sources, without build options: those differ by device and shape."""
    found: dict[tuple[str, str], set[str]] = {}
    for record in run.records:
        alone, dash, _ = record.sources.partition("-")
        if dash and record.benchmark in run.header.benchmarks:  # older files have one hash for sources and options together
            tuning = run.header.benchmarks[record.benchmark].tuning
            params = {k: v for k, v in record.params.items() if k not in tuning}
            found.setdefault((record.benchmark, json.dumps(params, sort_keys=True)), set()).add(alone)
    return found
