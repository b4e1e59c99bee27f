"""clpeak's JSON: `--json-file` of version 2 (a list of entries) and `-o` of version 3 (devices, tests, metrics)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from clmembench.results.imported import MAX_MEASUREMENT, SCHEMA, ImportedRun, ImportedValue, ImportFault, with_distinct_devices
from clmembench.results.importers.foreign_text import parse, part, text_of

# to our units: factors of version 2's units, and of version 3's SI quantities
UNITS = {
    "gflops": ("GFLOP/s", 1.0), "tflops": ("GFLOP/s", 1e3), "gops": ("Gop/s", 1.0), "tops": ("Gop/s", 1e3),
    "gbps": ("GB/s", 1.0), "us": ("us", 1.0),
}  # fmt: skip
QUANTITIES = {
    "flops": ("GFLOP/s", 1e-9), "ops": ("Gop/s", 1e-9), "bytes_per_second": ("GB/s", 1e-9), "seconds": ("us", 1e6),
}  # fmt: skip
ARITHMETIC = {  # the best of a test's kernels is ours
    "double_precision_compute": "double",
    "single_precision_compute": "float",
    "half_precision_compute": "half",
}
NOTES = {
    "global_memory_bandwidth": "vectors of float are read, or on CPUs copied too; ours reads single doubles",
    "kernel_launch_latency": "the kernel is another: as many of the largest work-groups as there are compute units",
    "local_memory_bandwidth": "clpeak writes and reads",
    "transfer_bandwidth": "from the host's ordinary memory; ours is the best of ordinary, pinned and mapped",
}
STATISTIC = "mean of repetitions, of which it does not say the number"


class ResultEntry(NamedTuple):
    """A reading: the device, the test's and the metric's name, and the value in a unit of ours, or why there is none."""

    device: tuple[str, str, str, int]  # name, backend with platform, driver, and which of those that are equal
    test: str
    metric: str
    unit: str
    value: float | None
    reason: str


def read(text: str) -> list[ImportedRun]:
    """A run for each device and backend. The best multiply-add kernel of a precision is our `arithmetic`; other tests have no
    benchmark of ours with the same meaning, which the note says."""
    found = parse(text, "clpeak", ": give what it writes with --json-file (2) or -o (3)")
    version = text_of(found, "clpeak_version")
    if not version:
        raise ImportFault("it is no JSON of clpeak: it has no clpeak_version")
    entries = list(_tree(found) if found.get("format_version") == 3 else _table(found))
    devices = dict.fromkeys(entry.device for entry in entries)
    if not devices:
        raise ImportFault("it holds no reading")
    date = text_of(found, "generated_at")
    return with_distinct_devices(
        [_run(version, date, device, [entry for entry in entries if entry.device == device]) for device in devices]
    )


def _run(version: str, date: str, device: tuple[str, str, str, int], entries: list[ResultEntry]) -> ImportedRun:
    values, left_out = [], []
    best = {test: _best(entries, test) for test in ARITHMETIC}
    for entry in entries:
        name = f"{entry.test}, {entry.metric}"
        if entry.value is None:
            left_out.append(f"{name}: {entry.reason}")
            continue
        note = NOTES.get(entry.test, "")
        value = ImportedValue(name, entry.value, entry.unit, STATISTIC, note=note)
        if entry is best.get(entry.test):
            params = {"dtype": ARITHMETIC[entry.test]}
            value = ImportedValue(name, entry.value, entry.unit, STATISTIC, "arithmetic", "flop_rate", params)
        values.append(value)
    name, backend, driver, _ = device
    return ImportedRun(SCHEMA, "clpeak", version, name, backend, driver, date, tuple(values), tuple(left_out))


def _best(entries: list[ResultEntry], test: str) -> ResultEntry | None:
    """The fastest kernel of a test, of the test's own type; clpeak lists mixed and half precision as float too."""
    dtype = ARITHMETIC[test]
    mine = [e for e in entries if e.test == test and e.metric.rstrip("0123456789") == dtype]
    return max((e for e in mine if e.value and 0 < e.value <= MAX_MEASUREMENT), key=lambda e: e.value or 0.0, default=None)


def _table(found: dict[str, Any]) -> Iterator[ResultEntry]:
    """Version 2."""
    if found.get("format_version") not in (None, 2):
        raise ImportFault(f"its format_version is {found.get('format_version')!r}: 2 and 3 are read")
    seen: Counter[tuple[str, ...]] = Counter()
    for one in part(found, "entries", list, "it"):
        test, metric, unit = (part(one, key, str, "an entry") for key in ("test", "metric", "unit"))
        backend = ", ".join(dict.fromkeys(filter(None, (text_of(one, "backend"), text_of(one, "platform")))))
        device = (part(one, "device", str, "an entry").strip(), backend, text_of(one, "driver"))
        # equal devices have equal entries, one device after the other
        seen[*device, test, metric] += 1
        yield _entry((*device, seen[*device, test, metric]), test, metric, one, UNITS.get(unit), unit)


def _tree(found: dict[str, Any]) -> Iterator[ResultEntry]:
    """Version 3, whose values are in SI units."""
    for number, of in enumerate(part(found, "devices", list, "it")):
        backend = ", ".join(dict.fromkeys(filter(None, (text_of(of, "backend"), text_of(of, "platform")))))
        device = (part(of, "name", str, "a device").strip(), backend, text_of(of, "driver"), number)
        for test in part(of, "tests", list, "a device"):
            for one in part(test, "metrics", list, "a test"):
                quantity = text_of(one, "quantity") or text_of(test, "quantity")
                ours, shown = QUANTITIES.get(quantity), text_of(one, "unit") or text_of(test, "unit")
                yield _entry(device, part(test, "id", str, "a test"), part(one, "id", str, "a metric"), one, ours, shown)


def _entry(
    device: tuple[str, str, str, int], test: str, metric: str, one: dict[str, Any], ours: tuple[str, float] | None, shown: str
) -> ResultEntry:
    unit, factor = ours or (shown, 1.0)
    status = text_of(one, "status")
    if one.get("value") is None or status not in ("", "ok"):
        reason = f"{status if status not in ('', 'ok') else 'no value'}: {text_of(one, 'reason')}".rstrip(": ")
        return ResultEntry(device, test, metric, unit, None, reason)
    return ResultEntry(device, test, metric, unit, factor * float(part(one, "value", (int, float), f"{test}, {metric}")), "")
