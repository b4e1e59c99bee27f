"""Warnings of a run: what makes its numbers weaker than they look, each with advice."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clmembench.gates.point import MIN_REPORTED_DRIFT
from clmembench.host import checks
from clmembench.model import Cause, Record, Run
from clmembench.plan.estimate import most_array_bytes
from clmembench.report.frame import Row, by_point
from clmembench.report.sections import peer_values
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_params

MAX_OTHERS_SHARE = 0.05  # of all CPUs: what a host's own services take
MAX_RELATIVE_HALF_WIDTH = 0.05  # of a 95% interval: wider ones hide what most changes of a kernel are worth
MIN_CORES_SHARE = 0.9  # of the compute units that bandwidth over large arrays needs
LARGE_PASS_BYTES = 64 << 20  # beside a pass that moves so much a launch's idle ends are nothing
MIN_PROCESSES = 6  # fewer have no 95% interval of their median
TOO_LARGE_CAUSES = (Cause.OUT_OF_MEMORY, Cause.DEVICE_ERROR, Cause.PROCESS_DIED, Cause.TIMEOUT)
STATUS_ADVICE = {
    "failed": "see show --json for each reason",
    "timeout": "raise --timeout, or look for what hangs",
    "wrong": "the device computed a wrong result: suspect its driver; no number is shown for these",
    "suspect": "not counted as results; show --json has each one's gate and reason",
    "undetermined": "the effect, if there is one, is smaller than the noise",
}


def warnings(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> list[str]:
    """Warnings on the numbers of this run, each with advice."""
    device, host = run.header.device, run.header.host
    table = peer_values.without_peers(run, table)  # what is odd about a peer stands below its values
    return [
        *run.notes,
        *_without_value(table),
        *_failed_trials(run),
        *_clock_drift(run),
        *_crowded(run),
        *_throttled(run),
        *_wide_intervals(table),
        *(_cores(run, table) if device.kind == "cpu" else []),
        *_small_arrays(run, table),
        *(f"at the start: {complaint}" for complaint in checks.complaints(device, host, run.header.sensors)),
        *([] if sheet else [f"no spec sheet matches {device.name}: no fraction of peak; add one to platforms/"]),
        *_few_processes(table, run.header.isolated),
    ]


def _without_value(table: Sequence[Row]) -> list[str]:
    """Points without a result, by their status, with the first of each."""
    found = []
    for status, advice in STATUS_ADVICE.items():
        hit = [point[0] for point in by_point([row for row in table if row.status == status])]
        if hit:
            points = f"{count(len(hit), 'point')} {'is' if len(hit) == 1 else 'are'}"
            where = f"{hit[0].value.benchmark} {format_params(dict(hit[0].value.params))}"
            why = ": ".join(filter(None, (hit[0].value.gate, hit[0].reason)))
            found.append(f"{points} {status} (first: {where}: {why}): {advice}")
    return found


def _failed_trials(run: Run) -> list[str]:
    trials = [r for r in run.records if r.role == "tune" and r.status in ("wrong", "failed", "timeout")]
    if not trials:
        return []
    where = f"{trials[0].benchmark} {format_params(dict(trials[0].params))}: {trials[0].status}: {trials[0].reason}"
    return [f"{count(len(trials), 'tuning trial')} gave no value (first: {where}): those configurations were not considered"]


def _clock_drift(run: Run) -> list[str]:
    moves = [r.core_clock.moved for r in run.records if r.core_clock is not None and r.core_clock.moved > MIN_REPORTED_DRIFT]
    if not moves:
        return []
    return [
        f"the core clock drifted by over {MIN_REPORTED_DRIFT:.0%} during {count(len(moves), 'measurement')} "
        f"(at most {max(moves):.0%}): fix the clock or quieten the host; intervals there are as much wider"
    ]


def _wide_intervals(table: Sequence[Row]) -> list[str]:
    wide = [
        row
        for row in table
        if row.status == "ok" and row.value.ci_high is not None and _half_width(row) > MAX_RELATIVE_HALF_WIDTH
    ]
    if not wide:
        return []
    points = count(len(by_point(wide)), "point")
    widest = max(wide, key=_half_width).value
    what = f"the widest: {widest.benchmark} {format_params(dict(widest.params))}".rstrip()
    return [f"{points} with a 95% interval wider than +-{MAX_RELATIVE_HALF_WIDTH:.0%} ({what}): quieten the host"]


def _small_arrays(run: Run, table: Sequence[Row]) -> list[str]:
    """Bandwidth over arrays that a cache may hold part of, by STREAM's rule. Larger ones are advised where this device can
    measure them: it holds them, and none of this run's was too large."""
    device = run.header.device
    sizes = [row.value.params.get("array_bytes") for row in table if row.value.unit == "GB/s"]
    arrays = [size for size in sizes if isinstance(size, int)]
    needed = -(-4 * device.cache_bytes >> 20)
    if not device.cache_bytes or not arrays or max(arrays) >= 4 * device.cache_bytes:
        return []
    if needed << 20 > most_array_bytes(device):
        remedy = "this device's memory holds no larger ones"
    elif any(record.params.get("array_bytes") == max(arrays) and _was_too_large(record) for record in run.records):
        remedy = "larger ones are out of reach here: some of this size were too large to measure"
    else:
        remedy = f"raise --size to {needed}MiB"
    return [
        f"the largest arrays, {format_bytes(max(arrays))}, are under four times the claimed cache of "
        f"{format_bytes(device.cache_bytes)}, so that bandwidth may be partly the cache's: {remedy}"
    ]


def _was_too_large(record: Record) -> bool:
    """Whether less of the same could be measured, as far as its record tells."""
    return record.cause in TOO_LARGE_CAUSES or record.gate == "samples"


def _few_processes(table: Sequence[Row], isolated: bool) -> list[str]:
    few = min((row.value.processes for row in table if row.value.processes > 1), default=MIN_PROCESSES)
    found = []
    if few < MIN_PROCESSES:
        found.append(
            f"intervals over {few} processes are their range, which covers {1 - 2 / 2**few:.0%}: use --processes 6 for 95%"
        )
    if table and all(row.value.processes <= 1 for row in table):
        remedy = "use --processes 6" if isolated else "leave out --no-isolate, and use --processes 6"
        found.append(f"intervals are from one process; fresh processes often differ by more where caches matter: {remedy}")
    return found


def _cores(run: Run, table: Sequence[Row]) -> list[str]:
    """Points over much memory that did not get all cores: their bandwidth is of fewer cores than it says."""
    units, suites = run.header.device.compute_units, {name: card.suite for name, card in run.header.benchmarks.items()}
    slow = [
        point[0].value
        for point in by_point([row for row in table if row.value.place.compute_units is None])
        if suites[point[0].value.benchmark] != "link" and point[0].value.nbytes >= LARGE_PASS_BYTES
    ]
    slow = [value for value in slow if value.cpu_over_wall and value.cpu_over_wall < MIN_CORES_SHARE * units]
    if not slow:
        return []
    least = min(slow, key=lambda value: value.cpu_over_wall or 0)
    return [
        f"{count(len(slow), 'point')} over large arrays used less than {MIN_CORES_SHARE:.0%} of {units} compute units "
        f"(the least {least.cpu_over_wall:.2f} of {units}: {least.benchmark} {format_params(dict(least.params))}): "
        "other programs took the CPU, or the runtime did not use all threads"
    ]


def _crowded(run: Run) -> list[str]:
    """CPU time of other processes and guests during each benchmark, where it was much: the mean over its records."""
    shares: dict[str, dict[str, list[float]]] = {"others": {}, "stolen": {}}
    for record in run.records:
        for name, share in (("others", record.cpu_others), ("stolen", record.cpu_stolen)):
            if share is not None:
                shares[name].setdefault(record.benchmark, []).append(share)
    means = {name: {b: statistics.fmean(found) for b, found in of.items()} for name, of in shares.items()}
    busy = {name: {b: share for b, share in of.items() if share > MAX_OTHERS_SHARE} for name, of in means.items()}
    who = {"others": "other processes used", "stolen": "the hypervisor's other guests took"}
    advice = {"others": "stop them, or measure again later", "stolen": "measure on a host of your own"}
    return [
        f"{who[name]} {', '.join(f'{share:.0%} of the CPU during {b}' for b, share in of.items())}: {advice[name]}"
        for name, of in busy.items()
        if of
    ]


def _throttled(run: Run) -> list[str]:
    """Points during which a device's clock was lowered, by the reasons that its sensors gave right after their samples."""
    found: dict[str, int] = {}
    for record in run.records:
        reasons = record.context.after.get("throttle_reasons") if record.context is not None else None
        if isinstance(reasons, int):
            for bit, why in checks.THROTTLES.items():
                found[why] = found.get(why, 0) + bool(reasons & bit)
    return [
        f"the device's clock was lowered by {why} at {count(points, 'point')}: cool it, raise the limit, or fix a lower clock"
        for why, points in found.items()
        if points
    ]


def _half_width(row: Row) -> float:
    value = row.value
    assert value.median is not None and value.ci_low is not None and value.ci_high is not None
    return (value.ci_high - value.ci_low) / 2 / abs(value.median)
