"""Warnings of a run: what makes its numbers weaker than they look, each with advice."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from clmembench.benchmarks import discovered
from clmembench.gates.point import MIN_REPORTED_DRIFT
from clmembench.host import checks
from clmembench.host.checks import Complaint
from clmembench.model import Cause, DeviceInfo, Record, Run
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
    "failed": "show --status failed has their reasons",
    "timeout": "raise --timeout, or look for what hangs",
    "wrong": "the device computed a wrong result: suspect its driver; no number is shown for these",
    "suspect": "not counted as results; show --status suspect has their gates and reasons",
    "undetermined": "the effect, if there is one, is smaller than the noise",
}


def warnings(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> list[str]:
    """Warnings on the numbers of this run, each with advice; what is the same in every run of this host is one of them."""
    found = [*_without_value(peer_values.without_peers(run, table)), *complaints(run, table, sheet)]
    lasting = "; ".join(str(one) for one in found if one.lasts)
    return [*(str(one) for one in found if not one.lasts), *([f"the whole run: {lasting}"] if lasting else [])]


def complaints(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> list[Complaint]:
    """What makes the numbers of this run weaker than they look, but for those that have no value."""
    device, host = run.header.device, run.header.host
    table = peer_values.without_peers(run, table)  # what is odd about a peer stands below its values
    return [
        *map(Complaint, run.notes),
        *_failed_trials(run),
        *_clock_drift(run),
        *_crowded(run),
        *_throttled(run),
        *_wide_intervals(table, device.kind == "cpu"),
        *(_cores(run, table) if device.kind == "cpu" else []),
        *_small_arrays(run, table),
        *(
            one if one.lasts else replace(one, what=f"at the start {one.what}")
            for one in checks.complaints(device, host, run.header.sensors)
        ),
        *([] if sheet else [_no_sheet(device)]),
        *_few_processes(table, run.header.isolated),
    ]


def _no_sheet(device: DeviceInfo) -> Complaint:
    return Complaint("no spec sheet", "no fraction of peak; add one to platforms/", f"none matches {device.name}", lasts=True)


def without_value(table: Sequence[Row]) -> dict[str, list[Row]]:
    """Points without a result, each by its headline metric, by their status."""
    found = {status: by_point([row for row in table if row.status == status]) for status in STATUS_ADVICE}
    return {status: [point[0] for point in points] for status, points in found.items() if points}


def _without_value(table: Sequence[Row]) -> list[Complaint]:
    """Points without a result, by their status, with the first of each."""
    found = []
    for status, hit in without_value(table).items():
        points = f"{count(len(hit), 'point')} {'is' if len(hit) == 1 else 'are'}"
        where = f"{hit[0].value.benchmark} {format_params(dict(hit[0].value.params))}"
        why = ": ".join(filter(None, (hit[0].value.gate, hit[0].reason)))
        found.append(Complaint(f"{points} {status}", STATUS_ADVICE[status], f"first: {where}: {why}"))
    return found


def _failed_trials(run: Run) -> list[Complaint]:
    trials = [r for r in run.records if r.role == "tune" and r.status in ("wrong", "failed", "timeout")]
    if not trials:
        return []
    where = f"{trials[0].benchmark} {format_params(dict(trials[0].params))}: {trials[0].status}: {trials[0].reason}"
    what = f"{count(len(trials), 'tuning trial')} gave no value"
    return [Complaint(what, "those configurations were not considered", f"first: {where}")]


def _clock_drift(run: Run) -> list[Complaint]:
    moves = [r.core_clock.moved for r in run.records if r.core_clock is not None and r.core_clock.moved > MIN_REPORTED_DRIFT]
    if not moves:
        return []
    what = f"the core clock drifted by over {MIN_REPORTED_DRIFT:.0%} during {count(len(moves), 'measurement')}"
    remedy = "fix the clock or quieten the host; intervals there are as much wider"
    return [Complaint(what, remedy, f"at most {max(moves):.0%}")]


def _wide_intervals(table: Sequence[Row], on_cpu: bool) -> list[Complaint]:
    wide = [
        row
        for row in table
        if row.status == "ok" and row.value.ci_high is not None and _half_width(row) > MAX_RELATIVE_HALF_WIDTH
    ]
    if not wide:
        return []
    points = count(len(by_point(wide)), "point")
    widest = max(wide, key=_half_width).value
    where = f"the widest: {widest.benchmark} {format_params(dict(widest.params))}".rstrip()
    what = f"{points} with a 95% interval wider than +-{MAX_RELATIVE_HALF_WIDTH:.0%}"
    on_host = on_cpu or any(row.value.clock != "device" for row in wide)
    remedies = ["quieten the host"] if on_host else []
    if not on_cpu and any(row.value.clock == "device" for row in wide):
        remedies.append("times by the GPU's clock vary on the GPU itself, so measure more processes")
    return [Complaint(what, "; ".join(remedies), where)]


def _small_arrays(run: Run, table: Sequence[Row]) -> list[Complaint]:
    """Bandwidth over arrays that a cache may hold part of, by STREAM's rule. Larger ones are advised where this device can
    measure them: it holds them, and none of this run's was too large."""
    device = run.header.device
    sizes = [row.value.params.get("array_bytes") for row in table if row.value.unit == "GB/s" and row.value.median is not None]
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
    what = f"bandwidth may be partly the claimed {format_bytes(device.cache_bytes)} cache's"
    return [Complaint(what, remedy, f"the largest arrays, {format_bytes(max(arrays))}, are under four times as large")]


def _was_too_large(record: Record) -> bool:
    """Whether less of the same could be measured, as far as its record tells."""
    return record.cause in TOO_LARGE_CAUSES or record.gate == "samples"


def _few_processes(table: Sequence[Row], isolated: bool) -> list[Complaint]:
    few = min((row.value.processes for row in table if row.value.processes > 1), default=MIN_PROCESSES)
    found = []
    if few < MIN_PROCESSES:
        what = f"intervals over {few} processes are their range, which covers {1 - 2 / 2**few:.0%}"
        found.append(Complaint(what, "use --processes 6 for 95%"))
    own = {name for name, known in discovered().items() if known.quick_processes}
    others = [row.value.processes for row in table if row.value.benchmark not in own]
    if others and max(others) <= 1:
        remedy = "use --processes 6" if isolated else "leave out --no-isolate, and use --processes 6"
        why = "fresh processes often differ by more where caches matter"
        found.append(Complaint("intervals are from one process", remedy, why, lasts=True))
    return found


def _cores(run: Run, table: Sequence[Row]) -> list[Complaint]:
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
    what = f"{count(len(slow), 'point')} over large arrays used less than {MIN_CORES_SHARE:.0%} of {units} compute units"
    where = f"the least {least.cpu_over_wall:.2f} of {units}: {least.benchmark} {format_params(dict(least.params))}"
    return [Complaint(what, "other programs took the CPU, or the runtime did not use all threads", where)]


def _crowded(run: Run) -> list[Complaint]:
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
        Complaint(
            f"{who[name]} up to {max(of.values()):.0%} of the CPU",
            advice[name],
            ", ".join(f"{share:.0%} during {b}" for b, share in of.items()),
        )
        for name, of in busy.items()
        if of
    ]


def _throttled(run: Run) -> list[Complaint]:
    """Points during which a device's clock was lowered, by the reasons that its sensors gave right after their samples."""
    found: dict[str, int] = {}
    for record in run.records:
        reasons = record.context.after.get("throttle_reasons") if record.context is not None else None
        if isinstance(reasons, int):
            for bit, why in checks.THROTTLES.items():
                found[why] = found.get(why, 0) + bool(reasons & bit)
    remedy = "cool it, raise the limit, or fix a lower clock"
    return [
        Complaint(f"the device's clock was lowered by {why} at {count(points, 'point')}", remedy)
        for why, points in found.items()
        if points
    ]


def _half_width(row: Row) -> float:
    value = row.value
    assert value.median is not None and value.ci_low is not None and value.ci_high is not None
    return (value.ci_high - value.ci_low) / 2 / abs(value.median)
