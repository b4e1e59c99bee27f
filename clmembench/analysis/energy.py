"""Energy of a point's work: records to joules a GB, GFLOP/s a watt or nJ an operation, with what the counter can tell. Pure.

A counter of the device's own is read before and after a stretch of passes, and its difference is divided by the work that they
did. Two things widen the interval: the counter is updated now and then, so that each end of the stretch may lie one update's
energy off; and the device also takes energy while it waits between passes, so that the work alone took at least the share of
the time that it lasted. What the sensor itself is off by is not in it: its maker says that, or nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clmembench.model import EnergyReading, Metric, Record

MAX_RESOLUTION = 0.05  # the share of a stretch's energy that one update of the counter may be
MIN_BUSY = 0.9  # the share of a stretch in which passes were at work: the rest would count as theirs
MAX_OTHERS = 0.05  # of the CPUs' time in other processes, whose energy a CPU's counter has too
MAX_WATTS = 20_000.0  # of one device: more is a counter's fault
UNITS = {"nbytes": "J/GB", "flops": "GFLOP/s/W", "ops": "nJ/op"}
NO_CONTEXT = "no energy counter was read beside the points"


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of the work that a metric is of, in `unit`, between `low` and `high`; None where it is undetermined for that
    reason. `watts` is the mean power over the stretch."""

    status: Literal["ok", "undetermined"]
    unit: str
    better: Literal["higher", "lower"]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    watts: float | None = None
    source: str = ""
    reason: str = ""


def energy_of(records: Sequence[Record], metric: Metric) -> Energy:
    """The energy of a point from its records, one a process: the median of their values, between the least low and the greatest
    high end; undetermined for the first record's reason where none has a value."""
    found = [_of_record(record, metric) for record in records]
    good = sorted((one for one in found if one.value is not None), key=lambda one: one.value or 0.0)
    if not good:
        return found[0] if found else _undetermined(metric, NO_CONTEXT)
    middle = good[len(good) // 2]
    lows, highs = ([end for one in good if (end := getattr(one, name)) is not None] for name in ("low", "high"))
    return Energy("ok", middle.unit, middle.better, middle.value, min(lows), max(highs), middle.watts, middle.source)


def _of_record(record: Record, metric: Metric) -> Energy:
    context = record.context
    if context is None:
        return _undetermined(metric, NO_CONTEXT)
    reading = context.energy
    if reading is None:
        return _undetermined(metric, context.no_energy)
    work = _work(reading, record, metric)
    reason = _why_not(reading, record, work)
    if reason:
        return _undetermined(metric, reason, reading.source)
    update_j = reading.joules * reading.update_ns / reading.window_ns
    busy = reading.busy_ns / reading.window_ns
    joules = (reading.joules, max(0.0, reading.joules - update_j) * busy, reading.joules + update_j)
    value, low, high = (_in_unit(one, work, metric.amount) for one in joules)
    watts = reading.joules / reading.window_ns * 1e9
    return Energy("ok", UNITS[metric.amount], _better(metric), value, min(low, high), max(low, high), watts, reading.source)


def _why_not(reading: EnergyReading, record: Record, work: int) -> str:
    """Why a reading says nothing of the work; "" where it does."""
    seconds = reading.window_ns / 1e9
    if record.status != "ok":
        return f"the point is {record.status}"
    if work <= 0:
        return "the work states none of this amount"
    if reading.window_ns <= 0 or reading.joules <= 0:
        return "the energy counter did not move"
    if reading.joules / seconds > MAX_WATTS:
        return f"the energy counter claims {reading.joules / seconds:.3g} W, which no device takes"
    if reading.update_ns > MAX_RESOLUTION * reading.window_ns:
        return too_short(reading.update_ns)
    busy = reading.busy_ns / reading.window_ns
    if busy < MIN_BUSY:
        return f"the device worked for {busy:.0%} of the time, and the rest would count as work: run --energy keeps it busy"
    if reading.shared and (record.cpu_others or 0.0) > MAX_OTHERS:
        return f"other processes used {record.cpu_others:.0%} of the CPUs, whose energy is in the counter: stop them"
    return ""


def too_short(update_ns: int) -> str:
    """Why samples that take less time than a counter's updates ask for have no energy."""
    return (
        f"the samples took less than the {update_ns / MAX_RESOLUTION / 1e9:.2g} s that the counter, updated every "
        f"{update_ns / 1e6:g} ms, needs for {MAX_RESOLUTION:.0%}: run --energy goes on for that long"
    )


def _work(reading: EnergyReading, record: Record, metric: Metric) -> int:
    times = record.params.get(metric.times, 0) if metric.times else 1
    return int(getattr(reading, metric.amount)) * (times if isinstance(times, int) else 0)


def _in_unit(joules: float, work: int, amount: str) -> float:
    if amount == "nbytes":
        return joules / work * 1e9
    return work / max(joules, 1e-12) / 1e9 if amount == "flops" else joules / work * 1e9


def _better(metric: Metric) -> Literal["higher", "lower"]:
    return "higher" if metric.amount == "flops" else "lower"


def _undetermined(metric: Metric, reason: str, source: str = "") -> Energy:
    return Energy("undetermined", UNITS[metric.amount], _better(metric), source=source, reason=reason)
