"""Limits of results files: sizes, counts and numbers, so that values can be derived from every file that is accepted."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from clmembench.model import (
    MAX_TIME_NS,
    BenchmarkInfo,
    ClockReading,
    Context,
    Header,
    Placement,
    Record,
    Series,
    Trace,
    Tuned,
    Value,
)

MAX_FILE_BYTES = 1 << 30  # a full suite on a large device is 4 MB
MAX_FILE_LINES = 1_000_000  # a full suite has some thousand points; each costs the reader a kilobyte and more
MAX_NAME_LETTERS = 8192  # letters of a name, which may be a file's: Linux has 4096 bytes for one
MAX_TEXT_LETTERS = 1 << 20  # letters of a reason, a note or an argument of the command line, which has 128 KiB on Linux
MAX_LOG_LETTERS = 2 << 20  # letters that a compiler said: as bytes of UTF-8, and escaped, they still go on one line
MAX_SERIES = 256  # Works of a point: the ends of a slope are 2
MAX_SAMPLES = 1_000_000  # of a series: sampling ends after seconds
MAX_TRACES = 64  # traces of a series
MAX_TRACE_BYTES = 1 << 28  # of a record's traces, unpacked
MAX_HEADER_ENTRIES = 10_000  # of what a header lists: benchmarks, axes, packages, variables, CPUs of a Place
MAX_AXIS_VALUES = 100_000  # of an axis, and arguments: a shell gives thousands of files for a *
MAX_METRICS = 100
MAX_PROCESSES = 10_000
MAX_NUMBER = MAX_TIME_NS  # of an amount too
MAX_CYCLES_PER_OP = 1e9  # that one operation takes
MAX_CORE_CLOCK_GHZ = 1e3  # of a core clock: beyond, one of the numbers that give it is made up
MAX_JOULES = 1e9  # of a point: a kilowatt for ten days
MAX_METRIC_SCALE = 1e18  # from a unit to another: SI's prefixes in common use


def check_record(record: Record) -> None:
    """Raises ValueError, which names the field, for a record with more or larger values than any honest one has."""
    _check_texts("a name", (record.benchmark, record.stopped, record.sources, record.started), MAX_NAME_LETTERS)
    _check_texts("reason or notes", (record.reason, *record.notes))
    _check_texts("log", (record.log,), MAX_LOG_LETTERS)
    _check_count("notes", record.notes, MAX_AXIS_VALUES)
    check_params("params", record.params)
    check_params("facts", record.facts)
    _check_place(record.place)
    _check_numbers("version or seconds", (record.version, record.seconds))
    check_params("parts_s", record.parts_s)
    _check_numbers("parts_s", record.parts_s.values())
    _check_numbers("process", (record.process,), most=MAX_PROCESSES)
    _check_numbers("index", (record.index,))
    _check_texts("gate", (record.gate,), MAX_NAME_LETTERS)
    shares = (record.cpu_others or 0.0, record.cpu_stolen or 0.0, record.cpu_waited or 0.0)
    _check_numbers("cpu_others, cpu_stolen or cpu_waited", shares, most=1)
    _check_count("series", record.series, MAX_SERIES)
    for series in record.series:
        _check_series("series", series, record.status == "ok")
    if any(series.reads for series in record.series):
        _check_reads(record)
    if record.core_clock is not None:
        _check_clock(record.core_clock)
    if record.context is not None:
        _check_context(record.context)


def check_header(header: Header) -> None:
    """As `check_record`, for a run's header."""
    device = header.device
    names = [header.tool_version, header.run_id, header.started, header.suite, header.runtime, header.label]
    _check_texts("a text", names, MAX_NAME_LETTERS)
    _check_texts("argv", header.argv)
    _check_count("argv", header.argv, MAX_AXIS_VALUES)
    _check_numbers("seed or processes", [header.seed, header.processes or 0])
    limits = (header.budget_s, header.timeout_s, header.benchmark_s, header.clock_step_ns)
    _check_numbers("a time", [value for value in limits if value is not None])
    _check_count("claimed", header.claimed, MAX_HEADER_ENTRIES)
    _check_texts("claimed", header.claimed, MAX_NAME_LETTERS)
    _check_texts(
        "device", (getattr(device, n) for n in ("id", "name", "platform", "vendor", "driver", "version")), MAX_NAME_LETTERS
    )
    _check_texts("device", [device.selector, device.uuid, device.pci, device.cpu_id], MAX_NAME_LETTERS)
    numbers = [value for name in device.__slots__ if type(value := getattr(device, name)) is int]
    _check_numbers("device", numbers, most=2 * MAX_NUMBER + 1)  # drivers' own limits are unsigned
    for name, texts in (("features", header.features), ("device.features", device.features)):
        _check_count(name, texts, MAX_HEADER_ENTRIES)
        _check_texts(name, texts, MAX_NAME_LETTERS)
    for name, facts in (("host", header.host), ("sensors", header.sensors)):
        check_params(name, {key: value for key, value in facts.items() if value is not None})
    _check_texts("source_revision", [header.source_revision], MAX_NAME_LETTERS)
    for name, words in (("packages", header.packages), ("environment", header.environment), ("inputs", header.inputs)):
        check_params(name, words)
    _check_count("tags", header.tags, MAX_HEADER_ENTRIES)
    check_params("tags", header.tags)
    _check_count("axes", header.axes, MAX_HEADER_ENTRIES)
    for name, values in header.axes.items():
        _check_count(f"axes.{name[:40]}", values, MAX_AXIS_VALUES)
        for value in values:
            check_params("axes", {name: value})
    _check_count("tuning", header.tuning, MAX_HEADER_ENTRIES)
    for tuned in header.tuning:
        check_tuned(tuned)
    _check_count("benchmarks", header.benchmarks, MAX_HEADER_ENTRIES)
    for name, card in header.benchmarks.items():
        _check_texts("benchmarks", [name], MAX_NAME_LETTERS)
        _check_card(f"benchmarks.{name[:40]}", card)


def check_tuned(tuned: Tuned) -> None:
    """As `check_record`, for a stored configuration; its date is one of ISO 8601, without a time."""
    texts = (tuned.device, tuned.platform, tuned.benchmark, tuned.date, tuned.tool_version, tuned.driver, tuned.origin)
    _check_texts("a name", texts, MAX_NAME_LETTERS)
    check_params("params", tuned.params)
    check_params("tuning", tuned.tuning)
    _check_numbers("version or compute_units", (tuned.version, tuned.compute_units))
    gains = [gain for gain in (tuned.gain, tuned.gain_low, tuned.gain_high) if gain is not None]
    _check_numbers("gain", gains, 1 / MAX_METRIC_SCALE, MAX_METRIC_SCALE)
    if len(tuned.date) != 10:
        raise ValueError(f"date: {tuned.date[:40]!r} is no date such as 2026-01-31")
    date.fromisoformat(tuned.date)


def _check_card(where: str, card: BenchmarkInfo) -> None:
    _check_numbers(f"{where}.version", [card.version])
    _check_texts(where, [card.suite, card.growing, card.x, card.peer_of], MAX_NAME_LETTERS)
    _check_texts(where, [card.summary, card.source])
    _check_texts(where, card.tuning, MAX_NAME_LETTERS)
    _check_count(f"{where}.tuning", card.tuning, MAX_METRICS)
    _check_count(f"{where}.metrics", card.metrics, MAX_METRICS)
    if not card.metrics:
        raise ValueError(f"{where}.metrics: there is none")
    _check_count(f"{where}.quantities", card.quantities, MAX_METRICS)
    for quantity in card.quantities:
        _check_texts(f"{where}.quantities", [quantity.name, quantity.metric, quantity.largest], MAX_NAME_LETTERS)
        _check_texts(f"{where}.quantities", [quantity.limit])
        _check_numbers(f"{where}.quantities.least_share", [quantity.least_share], most=1)
        _check_values(f"{where}.quantities.params", quantity.params)
    for metric in card.metrics:
        _check_texts(f"{where}.metrics", [metric.name, metric.unit, metric.times, metric.peak or ""], MAX_NAME_LETTERS)
        _check_numbers(f"{where}.metrics.scale", [metric.scale], 1 / MAX_METRIC_SCALE, MAX_METRIC_SCALE)
        _check_values(f"{where}.metrics.only", metric.only)


def _check_values(where: str, chosen: Mapping[str, Sequence[Value]]) -> None:
    _check_count(where, chosen, MAX_METRICS)
    for name, values in chosen.items():
        _check_count(where, values, MAX_HEADER_ENTRIES)
        for value in values:
            check_params(where, {name: value})


def _check_place(place: Placement) -> None:
    _check_count("place.cpus", place.cpus, MAX_HEADER_ENTRIES)
    _check_numbers("place.cpus", place.cpus)
    for number in (place.compute_units, place.cores):
        if number is not None:
            _check_numbers("place", (number,), least=1)
    _check_texts("place.placement", (place.placement,), MAX_NAME_LETTERS)


def _check_series(where: str, series: Series, ok: bool) -> None:
    _check_numbers(
        where, (series.nbytes, series.flops, series.ops, series.busy, series.together, series.passes - 1, series.averaged)
    )
    samples = len(series.host_ns)
    if max(samples, len(series.warmups_ns)) > MAX_SAMPLES:
        raise ValueError(f"{where}: over {MAX_SAMPLES} samples")
    for times in (series.host_ns, series.cpu_ns):
        _check_times(where, times)
    _check_numbers(where, series.warmups_ns, -MAX_NUMBER)
    for clock, stamps in (("device", series.device_ns), ("queue", series.queue_ns)):
        if stamps and clock == series.clock and ok:
            _check_times(where, stamps)
        elif stamps:
            _check_numbers(where, stamps, -MAX_NUMBER)  # a driver's stamps may be in no order: such a point is suspect
    if series.submit_ns:
        _check_numbers(where, series.submit_ns, -MAX_NUMBER)
    every = (series.device_ns, series.queue_ns, series.submit_ns, series.cpu_ns)
    if any(times is not None and len(times) != samples for times in every):
        raise ValueError(f"{where}: not as many samples by each clock")


def _check_reads(record: Record) -> None:
    left = MAX_TRACE_BYTES
    for series in record.series:
        _check_count("reads", series.reads, MAX_TRACES)
        for name, trace in series.reads.items():
            _check_texts("reads", (name, trace.unit), MAX_NAME_LETTERS)
            _check_trace(f"reads.{name[:40]}", trace, left)
            left -= trace.nbytes


def _check_trace(where: str, trace: Trace, most: int) -> None:
    """Raises ValueError where a trace does not unpack to the size it states; it is unpacked a piece at a time."""
    try:
        if trace.item_bytes() * trace.samples * trace.count != trace.nbytes or min(trace.samples, trace.count) < 0:
            raise ValueError("it is not of the size it states")
        _check_numbers("its size", (trace.nbytes,), most=most)
        stream, packed, size = zlib.decompressobj(), base64.b64decode(trace.data, validate=True), 0
        while not stream.eof and size <= trace.nbytes:
            piece = stream.decompress(packed, 1 << 20)
            if not piece and not stream.unconsumed_tail:
                break
            packed, size = stream.unconsumed_tail, size + len(piece)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise ValueError(f"{where}: {error}") from error
    if size != trace.nbytes or not stream.eof:
        raise ValueError(f"{where}: it does not unpack to the size it states")


def _check_clock(clock: ClockReading) -> None:
    _check_numbers("core_clock.ops", [clock.ops])
    _check_numbers("core_clock", [clock.before_ns, clock.after_ns], -MAX_NUMBER)  # by stamps that may leap
    _check_numbers("core_clock.cycles_per_op", [clock.cycles_per_op or 0.0], most=MAX_CYCLES_PER_OP)
    _check_texts("core_clock.origin", [clock.origin], MAX_NAME_LETTERS)
    if clock.ghz is not None and clock.ghz > MAX_CORE_CLOCK_GHZ:
        raise ValueError(f"core_clock: over {MAX_CORE_CLOCK_GHZ:g} GHz")


def _check_context(context: Context) -> None:
    for facts in (context.before, context.after):
        check_params("context", {name: value for name, value in facts.items() if value is not None})
    _check_texts("context.no_energy", (context.no_energy,))
    energy = context.energy
    if energy is not None:
        _check_texts("context.energy", (energy.source,), MAX_NAME_LETTERS)
        _check_numbers("context.energy", (energy.joules,), most=MAX_JOULES)
        times = (energy.window_ns, energy.update_ns, energy.busy_ns)
        _check_numbers("context.energy", (*times, energy.nbytes, energy.flops, energy.ops))


def check_params(where: str, values: Mapping[str, object]) -> None:
    """Raises ValueError for values other than texts, whole numbers of 64 bits, signed or unsigned, and finite numbers."""
    _check_count(where, values, MAX_HEADER_ENTRIES)
    _check_texts(where, values, MAX_NAME_LETTERS)
    for value in values.values():
        if isinstance(value, str):
            _check_texts(where, (value,))
        elif isinstance(value, int):
            _check_numbers(where, (value,), -MAX_NUMBER - 1, 2 * MAX_NUMBER + 1)
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{where}: a number is not finite")


def _check_numbers(where: str, numbers: Collection[float], least: float = 0, most: float = MAX_NUMBER) -> None:
    """Raises ValueError unless all are from `least` to `most`. Values that are no numbers were refused with their line."""
    if numbers and not (least <= min(numbers) and max(numbers) <= most):
        raise ValueError(f"{where}: a number is not from {least:g} to {most:g}")


def _check_times(where: str, times: Collection[int]) -> None:
    """Raises ValueError for a time below 0, or where the sum is over the limit of one, which is faster than checking each."""
    if times and (min(times) < 0 or sum(times) > MAX_NUMBER):
        raise ValueError(f"{where}: a time is below 0, or all are over {MAX_NUMBER}")


def _check_texts(where: str, texts: Iterable[str], most: int = MAX_TEXT_LETTERS) -> None:
    for text in texts:
        if len(text) > most:
            raise ValueError(f"{where}: a text is over {most} letters")


def _check_count(where: str, things: Collection[object], most: int) -> None:
    if len(things) > most:
        raise ValueError(f"{where}: {len(things)} are over {most}")
