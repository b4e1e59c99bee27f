"""Gate on rates that no hardware reaches, known or not: bytes, FLOP and operations a cycle and compute unit. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.analysis.derive import Derived
from clmembench.gates.thresholds import IMPOSSIBLE
from clmembench.model import DeviceInfo, Metric, Run

AMOUNTS = {"nbytes": "bytes", "flops": "FLOP", "ops": "operations"}
SERIAL_METRICS = frozenset(
    {"barrier", "latency", "access_latency", "instruction_latency", "interval", "round", "time"}
)  # slopes over dependent steps
WRONG = "the amount of work or the time is wrong"


def impossible(values: Sequence[Derived], run: Run) -> Iterator[tuple[Derived, str]]:
    """Values that no device reaches, each with the reason."""
    device = run.header.device
    for value in values:
        if value.status != "ok" or value.median is None or value.sampled is None or value.sampled[0].scale <= 0:
            continue
        metric, suite = value.sampled[0], run.header.benchmarks[value.benchmark].suite
        reason = _too_fast(value, metric, device) or _too_short(value, metric, device, suite) or _link(value, metric, suite)
        if reason:
            yield value, f"{reason}: {WRONG}"


def _rate(value: Derived, metric: Metric) -> float:
    """The metric's amount per ns; infinite where that takes no time."""
    assert value.median is not None
    if metric.form in ("rate", "slope_rate"):
        return value.median / metric.scale
    return metric.scale / value.median if value.median > 0 else float("inf")


def _clock_ghz(value: Derived, device: DeviceInfo) -> float:
    """A clock that the device surely does not exceed: twice what was measured or is claimed, where either is plausible."""
    known = max(value.ghz or 0.0, device.max_clock_mhz / 1000)
    return min(IMPOSSIBLE.max_clock_ghz, 2 * known) if known >= IMPOSSIBLE.min_claimed_ghz else IMPOSSIBLE.max_clock_ghz


def _too_fast(value: Derived, metric: Metric, device: DeviceInfo) -> str:
    """Of the metric's own amount, and of all that a pass is said to move and to compute, since rooflines are of these."""
    rates = {"nbytes": value.nbytes / value.pass_ns, "flops": value.flops / value.pass_ns} if value.pass_ns > 0 else {}
    if metric.form != "overlap" and metric.part is None:
        rates[metric.amount] = max(rates.get(metric.amount, 0.0), _rate(value, metric))
    # a device that is neither may be one unit of any width
    units = device.compute_units if device.kind in ("cpu", "gpu") else 0
    for amount, rate in rates.items():
        if rate > IMPOSSIBLE.max_a_ns[amount]:
            return f"{rate:.3g} {AMOUNTS[amount]} a ns are more than any device does"
        most = IMPOSSIBLE.max_a_cycle[amount] * units * _clock_ghz(value, device)
        if units > 0 and rate > most:
            clock_ghz = _clock_ghz(value, device)
            return (
                f"{rate / units / clock_ghz:.3g} {AMOUNTS[amount]} a cycle and compute unit at {clock_ghz:.3g} GHz are more "
                f"than any hardware does ({IMPOSSIBLE.max_a_cycle[amount]} at most)"
            )
    return ""


def _too_short(value: Derived, metric: Metric, device: DeviceInfo, suite: str) -> str:
    """Steps that wait for each other take a cycle each, and a call of a driver some ns."""
    if metric.amount != "ops" or metric.part is not None or metric.form not in ("cost", "slope"):
        return ""
    took_ns = 1 / _rate(value, metric)
    clock_ghz = _clock_ghz(value, device)
    if metric.form == "slope" and metric.name in SERIAL_METRICS and took_ns * clock_ghz < IMPOSSIBLE.min_cycles:
        return f"{took_ns:.2g} ns are less than a cycle at {clock_ghz:.3g} GHz, which each of these steps takes"
    if suite == "sync" and value.clock != "device" and took_ns < IMPOSSIBLE.min_call_ns:
        return f"{took_ns:.2g} ns are less than a call takes ({IMPOSSIBLE.min_call_ns:g} ns at least)"
    return ""


def _link(value: Derived, metric: Metric, suite: str) -> str:
    if suite != "link" or metric.amount != "nbytes" or metric.form == "overlap" or metric.part is not None:
        return ""
    rate = _rate(value, metric)
    return f"{rate:.3g} GB/s are more than any link carries" if rate > IMPOSSIBLE.max_link_gb_s else ""
