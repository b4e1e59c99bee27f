"""Drift of each device against its own history: change points, or the latest run against few earlier ones. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clmembench.analysis import decision, noise, stats
from clmembench.model.metrics import more_is_better, sign


@dataclass(frozen=True, slots=True)
class History:
    """A headline quantity of a device over its runs in the order of their start, with the noise of each value."""

    device: str
    name: str
    model: str
    host: str | None
    quantity: str
    unit: str
    better: str
    medians: tuple[float, ...]
    sds: tuple[float | None, ...]
    freedoms: tuple[float | None, ...]
    slacks: tuple[float | None, ...]
    started: tuple[str, ...]
    drivers: tuple[str, ...]
    revisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """A headline quantity of a device that changed: since which run, from what to what, by which ratio, turned so that below 1
    is slower, with a 95% interval; `changed` says what else changed with it, and `values` has every run's."""

    device: str
    name: str
    model: str
    host: str | None
    quantity: str
    unit: str
    since: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    changed: str
    values: tuple[float, ...]


def drifts(histories: Sequence[History], margin: float) -> list[Drift]:
    """The changes, the largest slowdown first: a change point of ten runs or more (noise.RULE), else a latest run that is
    slower or faster than the median of the earlier ones, by the rule of `compare` for all devices."""
    found: list[Drift] = []
    latest: list[tuple[History, noise.LogRatio]] = []
    for one in histories:
        changes = _change_points(one)
        if changes is None:
            latest.append((one, _latest(one)))
            continue
        for change in changes[-1:]:
            turned = change.ratio if more_is_better(one.better) else _inverse(change.ratio)
            if max(turned.low, 1 / turned.high) > 1 + margin:
                found.append(_drift(one, change.index, turned))
    level = decision.decision_level([gain for _, gain in latest], margin)
    for one, gain in latest:
        if decision.decision(gain, level, margin) in ("slower", "faster"):
            found.append(_drift(one, len(one.medians) - 1, gain.ratio()))
    return sorted(found, key=lambda one: one.ratio)


def _change_points(one: History) -> list[noise.ChangePoint] | None:
    """None where there are too few runs, or no library to look for them."""
    if len(one.medians) < noise.MIN_RUNS:
        return None
    try:
        return noise.change_points(one.medians)
    except ImportError:
        return None


def _latest(one: History) -> noise.LogRatio:
    """The latest value over the median of the earlier ones, turned so that more is better."""
    earlier, last = one.medians[:-1], len(one.medians) - 1
    known = [(sd, freedom) for sd, freedom in zip(one.sds, one.freedoms, strict=True) if sd and freedom]
    sd, freedom = known[-1] if known else (noise.DEFAULT_NOISE.run_sd, 1.0)
    own = statistics.median(sd for sd, _ in known) if known else sd
    several = (math.pi / 2 if len(earlier) > 2 else 1.0) / len(earlier)
    error, freedom = noise.summed([(sd**2, freedom), (own**2 * several, freedom)])
    log = sign(one.better) * (math.log(one.medians[last]) - math.log(statistics.median(earlier)))
    return noise.LogRatio(log, error, freedom, max(_known(one.slacks[:-1])), max(_known(one.slacks[last:])))


def _known(slacks: Sequence[float | None]) -> Iterator[float]:
    return (slack or 0.0 for slack in slacks)


def _inverse(ratio: stats.Ratio) -> stats.Ratio:
    return stats.Ratio(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def _drift(one: History, index: int, ratio: stats.Ratio) -> Drift:
    before, after = one.drivers[index - 1], one.drivers[index]
    changes = [f"driver {before} -> {after}"] if before != after else []
    changes += ["clmembench"] if one.revisions[index - 1] != one.revisions[index] else []
    identity = (one.device, one.name, one.model, one.host, one.quantity, one.unit, one.started[index])
    levels = statistics.median(one.medians[:index]), statistics.median(one.medians[index:])
    return Drift(*identity, *levels, ratio.value, ratio.low, ratio.high, ", ".join(changes), one.medians)
