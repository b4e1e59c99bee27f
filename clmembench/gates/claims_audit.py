"""A device's claims against what a run measured and what its sheet says. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from clmembench.analysis import plateaus
from clmembench.gates.thresholds import RUN
from clmembench.gates.whole import latency_curve
from clmembench.model import Run
from clmembench.specs.claims import MAX_SIZE_RATIO, Verdict, unit_cache_bytes
from clmembench.specs.sheets import SpecSheet
from clmembench.units import format_bytes, format_value


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """A claim of a driver, the value found or stated elsewhere, and the verdict; `found` names the source."""

    what: str
    claimed: str
    found: str
    verdict: Verdict


def check_claims(run: Run, sheet: SpecSheet | None) -> list[ClaimCheck]:
    """Every claim that this run, judged before (gates), or the sheet can say something of."""
    return [*_cache(run, sheet), *_local_memory(run, sheet), *_clock(run), *_timer(run), *_features(run)]


def _cache(run: Run, sheet: SpecSheet | None) -> Iterator[ClaimCheck]:
    """The largest cache, against the last knee of a latency curve that settled behind it."""
    claimed, each = run.header.device.cache_bytes, unit_cache_bytes(run.header.device)
    said = format_bytes(claimed, 1) if claimed else "none"
    said += f", or {format_bytes(each)} in each of {run.header.device.compute_units} compute units" if each else ""
    # what may be the sum of all units' first caches says nothing sure of the largest cache
    otherwise: Verdict = "not confirmed" if each else "contradicted"
    figures = sheet.figures if sheet is not None else {}
    last_level = figures.get("l3_bytes") or (figures.get("l2_bytes") if not run.header.device.has_cpu_cores else None)
    if last_level is not None:
        agrees = last_level.value / MAX_SIZE_RATIO <= claimed <= last_level.value * MAX_SIZE_RATIO
        found = f"{format_bytes(int(last_level.value), 1)} by the sheet"
        yield ClaimCheck("largest cache", said, found, "agrees" if agrees else otherwise)
    curve = latency_curve(run)
    if not plateaus.has_settled(curve, plateaus.memory_floor_bytes(run.header.device)):
        return
    last = plateaus.find_plateaus(curve)[-2]
    fits, off = last.last_bytes, last.next_bytes or last.last_bytes
    until = f"latency leaves its last plateau before memory between {format_bytes(fits, 1)} and {format_bytes(off, 1)}"
    if claimed < fits / MAX_SIZE_RATIO:
        yield ClaimCheck("largest cache", said, until, otherwise)
    elif claimed > off * MAX_SIZE_RATIO:
        # the reach of a TLB, a share of a cache, or neighbours end a plateau before a cache does
        yield ClaimCheck("largest cache", said, until, "not confirmed")
    else:
        yield ClaimCheck("largest cache", said, until, "agrees")


def _local_memory(run: Run, sheet: SpecSheet | None) -> Iterator[ClaimCheck]:
    figure = sheet.figures.get("local_memory_bytes") if sheet is not None else None
    claimed = run.header.device.local_mem_bytes
    if figure is not None:
        agrees = claimed >= figure.value / MAX_SIZE_RATIO
        found = f"{format_bytes(int(figure.value), 1)} a work-group by the sheet; OpenCL gives a kernel no more than the claim"
        yield ClaimCheck("local memory", format_bytes(claimed, 1), found, "agrees" if agrees else "contradicted")


def _clock(run: Run) -> Iterator[ClaimCheck]:
    claimed = run.header.device.max_clock_mhz / 1000
    clocks = [ghz for r in run.records if r.core_clock is not None and (ghz := r.core_clock.ghz) is not None]
    if clocks:
        seen = statistics.median(clocks)
        found = f"{format_value(seen)} GHz, the median over {len(clocks)} readings of a chain of dependent operations"
        if claimed <= 0:
            yield ClaimCheck("core clock", "none", found, "contradicted")
            return
        if claimed / MAX_SIZE_RATIO <= seen <= claimed * MAX_SIZE_RATIO:
            verdict: Verdict = "agrees"
        else:  # a boost goes beyond what some drivers claim, and an idle or capped clock stays below it
            possible = RUN.min_clock_ratio * claimed <= seen <= RUN.max_clock_ratio * claimed
            verdict = "not confirmed" if possible else "contradicted"
        yield ClaimCheck("core clock", f"{format_value(claimed)} GHz", found, verdict)


def _timer(run: Run) -> Iterator[ClaimCheck]:
    claimed, seen = run.header.device.timer_resolution_ns, run.header.clock_step_ns
    if seen is not None:
        agrees = seen / 2 <= claimed <= 2 * seen
        found = f"{format_value(seen)} ns, the step of the durations measured"
        yield ClaimCheck("step of the event clock", f"{claimed} ns", found, "agrees" if agrees else "contradicted")


def _features(run: Run) -> Iterator[ClaimCheck]:
    """Features that a driver names and that did not work when they were tried."""
    for name in sorted(set(run.header.claimed) - set(run.header.features)):
        yield ClaimCheck(name, "yes", "it did not work when it was tried", "contradicted")
