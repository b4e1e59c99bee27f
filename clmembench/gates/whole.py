"""Gates on a run: values against theoretical peaks, CPU time and clocks, and points against each other. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from clmembench.analysis import derive, plateaus
from clmembench.analysis.derive import Derived
from clmembench.gates import agreement, cpu_share, point
from clmembench.gates.cpu_share import QUIETEN
from clmembench.gates.impossible import impossible
from clmembench.gates.lines import Key, at_size, by_size, interval, inversions, relative_half_width, size_on, with_value
from clmembench.gates.thresholds import RUN
from clmembench.model import Cause, DeviceInfo, Finding, Record, Run
from clmembench.specs import sheets
from clmembench.specs.sheets import Peak, SpecSheet

MEMORY_PEAK = "memory_bandwidth_gb_s"

CACHE_READ = "cache_read"
CORES_GATE = "cores"

Found = Iterator[tuple[Derived, str]]


def judged_run(run: Run, sheet: SpecSheet | None) -> Run:
    """The run with every record judged: what fails a gate is `suspect`, with the gate's name. Again changes nothing."""
    return run if run.judged else judged_values(run, sheet)[0]


def judged_values(run: Run, sheet: SpecSheet | None) -> tuple[Run, list[Derived]]:
    """The judged run and its values, which judging needs: deriving them again would double the time."""
    if run.judged:
        return run, derive.derive(run)
    cards = run.header.benchmarks
    records = tuple(
        point.judged(r, cards[r.benchmark].metrics) if r.benchmark in cards and r.role == "measure" else r for r in run.records
    )
    run = replace(run, records=records, judged=True)
    values = derive.derive(run)
    for gates in (SINGLE_VALUE_GATES, CROSS_POINT_GATES):  # what fails alone is no evidence against others
        failed: dict[Key, tuple[str, str]] = {}
        for gate, find in gates.items():
            for value, reason in find(values, run, sheet):
                failed.setdefault(value.key, (gate, reason))
        if failed:
            run = replace(run, records=tuple(_marked(r, failed.get(derive.key_of(r))) for r in run.records))
            values = _again(values, run, failed)
    return run, values


def _again(values: Sequence[Derived], run: Run, keys: Collection[Key]) -> list[Derived]:
    """The values of a run of which the records of those points have changed, in the same order."""
    records = tuple(r for r in run.records if derive.key_of(r) in keys)
    changed: dict[Key, list[Derived]] = defaultdict(list)
    for value in derive.derive(replace(run, records=records)):
        changed[value.key].append(value)
    found: list[Derived] = []
    for value in values:
        found += [value] if value.key not in keys else changed.pop(value.key, [])
    return found


def _marked(record: Record, failed: tuple[str, str] | None) -> Record:
    if failed is None or record.status != "ok" or record.role != "measure":
        return record
    return replace(record, status="suspect", gate=failed[0], reason=failed[1], cause=Cause.GATE)


def peak_of(value: Derived, run: Run, sheet: SpecSheet | None) -> Peak | None:
    """The theoretical peak that a value is to be held against; None where there is none, or it is not known."""
    host, device = run.header.host, run.header.device
    if _cached(value, device, sheet):
        return None
    sockets, known = host.get("sockets"), host.get("cores")
    whole = int(sockets) if isinstance(sockets, int) and not host.get("virtual") else None
    cores = value.place.cores or (known if isinstance(known, int) else None)
    return sheets.peak(sheet, value.peak, _used(value, device), value.ghz, whole, cores)


def _used(value: Derived, device: DeviceInfo) -> DeviceInfo:
    """The device with as many compute units as were used: the peak of some cores is not that of all."""
    units = value.place.compute_units
    return replace(device, compute_units=units) if units is not None and device.kind == "cpu" else device


def _cached(value: Derived, device: DeviceInfo, sheet: SpecSheet | None) -> bool:
    """True where the arrays, or all that a pass moves, may fit a cache by STREAM's rule: the peak of memory does not apply."""
    size = value.params.get("array_bytes", value.nbytes)
    known = [sheet.figures[name].value for name in ("l2_bytes", "l3_bytes") if sheet is not None and name in sheet.figures]
    return value.peak == MEMORY_PEAK and isinstance(size, int) and size < 4 * max(device.cache_bytes, *known, 0)


# ---- one value against what is known of the device --------------------------------------------------------------------


def _peak(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Found:
    """No rate exceeds its theoretical peak. However slow one is, that contradicts nothing: one long row can hold up a whole
    product. A clock that makes all look slow counts more time than the host saw pass, which the gate on stamps says."""
    for value in with_value(values):
        peak = peak_of(value, run, sheet)
        if peak is None or value.median is None:
            continue
        if value.median > RUN.max_peak_share * peak.value:
            yield value, f"{value.median:.4g} {value.unit} is over the theoretical peak of {peak.value:.4g}: {peak.source}"


def _cores(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Found:
    """Waits for CPUs, and CPU time over the kernels' time: on a CPU it says on how many compute units a point ran."""
    on_cpu, trials = run.header.device.kind == "cpu", cpu_share.disturbed_trials(run)
    for value in with_value(values):
        units, used = value.place.compute_units, value.cpu_over_wall
        short = cpu_share.shortage(value, run.header) or cpu_share.better_configuration(value, trials, run.header)
        if short:
            yield value, short
        elif not on_cpu or used is None:
            continue
        elif units is not None and value.busy == units and used > RUN.max_units_used * units and value.clock == "device":
            yield (
                value,
                f"{units} compute unit{'s were' if units != 1 else ' was'} asked for and {used:.2f} were used: {QUIETEN}",
            )
        elif units is not None and value.busy == units and cpu_share.few_units(value):
            yield value, f"{cpu_share.few_units(value)}: {QUIETEN}"
        elif used < RUN.min_units_used * value.together:
            together = f"{value.together} work-groups were to run at the same time"
            yield value, f"{together}, and {used:.2f} compute units were used: {QUIETEN}"


def _clock(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Found:
    """ns against cycles: the core clock that the chain of dependent operations gives lies near what the driver claims."""
    claimed = run.header.device.max_clock_mhz / 1000
    for value in with_value(values) if claimed > 0 else ():
        if value.ghz is not None and not RUN.min_clock_ratio * claimed <= value.ghz <= RUN.max_clock_ratio * claimed:
            yield (
                value,
                f"{value.ghz:.3g} GHz by the chain of dependent operations and {claimed:.3g} GHz by the driver: "
                "the clock that times it, or the count of cycles, is wrong",
            )


# ---- points against each other ----------------------------------------------------------------------------------------


def _levels(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Found:
    """Latency over the working set: what fits where a larger set does is as fast as that."""
    for name, curve in by_size(values, lambda v: run.header.benchmarks[v.benchmark].growing):
        for index, other in inversions([interval(v) for v in curve], RUN.max_smaller_over_larger):
            here, there = curve[index], curve[other]
            times = (here.median or 0.0) / (there.median or 1.0)
            against = f"a larger set, {at_size(there, name)}" if other > index else f"a smaller set, {at_size(there, name)}"
            yield here, f"{times:.2g} times the latency of {against}, which cannot be: what disturbed it may be gone next time"


def _sizes(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Found:
    """Time over amounts: at least twice the work does not take far less time, by the same kernel. A library has several: cuBLAS
    takes 8.4 us for rows of 333 halves and 4.2 for 512."""

    def axis(value: Derived) -> str:
        card = run.header.benchmarks[value.benchmark]
        form = next((m.form for m in card.metrics if m.name == value.metric), "")
        # mapping memory costs the same however much of it there is
        grows = (
            form in ("rate", "cost") and not card.growing and not card.peer_of and card.suite != "link" and value.pass_ns > 0
        )
        return card.x if grows else ""

    for name, line in by_size(values, axis):
        times = [(v.pass_ns / (1 + relative_half_width(v)), v.pass_ns * (1 + relative_half_width(v))) for v in line]
        for index, other in inversions(times, 1 / RUN.min_time_ratio, [v.work for v in line]):
            here, there = line[index], line[other]
            way = "longer than more work" if other > index else "shorter than less work"
            took = f"{here.pass_ns / 1e3:.3g} us, far {way} took, {there.pass_ns / 1e3:.3g} us {at_size(there, name)}"
            yield here, f"a pass took {took}"


def _knee(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Found:
    """Bandwidth against latency: where one says that a footprint has left a cache, so does the other."""
    curve = latency_curve(run)
    if not curve:
        return
    settled = plateaus.has_settled(curve, plateaus.memory_floor_bytes(run.header.device))
    units = max(1, run.header.device.compute_units)  # a file may say anything
    cards = run.header.benchmarks
    rates = [v for v in values if v.unit == "GB/s" and v.place.compute_units is None and cards[v.benchmark].suite != "link"]
    for name, line in by_size(rates, _footprint_axis):
        for small, large in pairwise(line):
            # a compute unit's share of the small footprint is what its own caches may hold
            share, whole = size_on(small, name), units * size_on(large, name)
            if name == "array_bytes":
                share, whole = small.nbytes // units, large.nbytes
            near = [s.ns for s in curve if s.array_bytes <= share] or [curve[0].ns]
            far = [s.ns for s in curve if s.array_bytes >= whole] or ([curve[-1].ns] if settled else [])
            low, high = interval(small), interval(large)
            if far and low[0] > RUN.min_bandwidth_fall * high[1] and far[0] < RUN.min_latency_rise * near[-1]:
                yield (
                    small,
                    f"{small.median:.4g} GB/s, and {large.median:.4g} {at_size(large, name)}: "
                    "latency says that both lie in the same level",
                )


def _footprint_axis(value: Derived) -> str:
    """The parameter that a footprint grows with: of cache_read the set that each compute unit reads for itself, through all
    caches, as the chase does."""
    if value.benchmark != CACHE_READ:
        return "array_bytes"
    return "set_bytes" if (value.params.get("set"), value.params.get("path")) == ("own", "plain") else ""


def latency_curve(run: Run) -> list[plateaus.CurvePoint]:
    """The first latency curve there is."""
    name = _chase(run)
    records = _chase_records(run, name)
    if not records:
        return []
    card = run.header.benchmarks[name]
    others = [{k: v for k, v in r.params.items() if k != card.growing} for r in records]
    first = [r for r, other in zip(records, others, strict=True) if other == others[0]]
    return plateaus.curve_points(first, card.metrics[0], card.growing)


def memory_latency(run: Run) -> Finding:
    """Load-to-use latency of memory in ns, by the first latency curve; where no point of it has a value, the reason of one."""
    name = _chase(run)
    lost = next((r for r in _chase_records(run, name) if r.status != "ok"), None)
    why = f"no point of {name} has a value: {lost.status}: {lost.reason}" if lost is not None else plateaus.NO_LATENCY
    return plateaus.memory_latency(latency_curve(run), run.header.device, why)


def _chase(run: Run) -> str:
    """The first benchmark whose latency grows with the working set; "" where the run has none."""
    return next((n for n, card in run.header.benchmarks.items() if card.growing and card.metrics[0].form == "slope"), "")


def _chase_records(run: Run, name: str) -> list[Record]:
    return [r for r in run.records if r.benchmark == name and r.place.compute_units is None]


SINGLE_VALUE_GATES: Mapping[str, Callable[[Sequence[Derived], Run, SpecSheet | None], Found]] = {
    "peak": _peak,
    "clock": _clock,
    "impossible": lambda values, run, sheet: impossible(values, run),
    CORES_GATE: _cores,  # last: what cannot be is no matter of who else used the host
}
CROSS_POINT_GATES: Mapping[str, Callable[[Sequence[Derived], Run, SpecSheet | None], Found]] = {
    "levels": _levels,
    "sizes": _sizes,
    "knee": _knee,
    agreement.GATE: agreement.contradictions,
}
