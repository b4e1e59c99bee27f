"""clpeak's JSON: `--json-file` of version 2 (a list of entries) and `-o` of version 3 (devices, tests, metrics)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
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
    """Version 2, whose entries name their device, but not which of equal ones it is."""
    if found.get("format_version") not in (None, 2):
        raise ImportFault(f"its format_version is {found.get('format_version')!r}: 2 and 3 are read")
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in part(found, "entries", list, "it"):
        part(one, "device", str, "an entry")
        groups.setdefault(_described(one), []).append(one)
    for described, entries in groups.items():
        names = [tuple(part(one, key, str, "an entry") for key in ("test", "metric", "unit")) for one in entries]
        places = _equal_devices([name[:2] for name in names])
        for one, (test, metric, unit), device in zip(entries, names, places, strict=True):
            if device is not None:
                yield _entry((*described, device), test, metric, one, UNITS.get(unit), unit)
            else:
                yield ResultEntry((*described, 0), test, metric, unit, None, "it does not say which of equal devices has it")


def _described(one: dict[str, Any]) -> tuple[str, str, str]:
    """Name, backend with platform, and driver of a device, or of the device of an entry."""
    backend = ", ".join(dict.fromkeys(filter(None, (text_of(one, "backend"), text_of(one, "platform")))))
    return text_of(one, "device").strip(), backend, text_of(one, "driver")


def _equal_devices(names: Sequence[tuple[str, ...]]) -> list[int | None]:
    """Which of equal devices, which the file lists as one, each entry is of: they follow each other. What each device has says
    where it begins and ends; what some lack is of a device only if the entries before and after it are."""
    every = Counter(names)
    devices = max(every.values())
    seen: Counter[tuple[str, ...]] = Counter()
    known: list[int | None] = []
    for name in names:
        seen[name] += 1
        known.append(seen[name] - 1 if every[name] == devices else None)
    before = list(accumulate(known, lambda last, one: last if one is None else one, initial=0))[1:]
    after = list(accumulate(reversed(known), lambda last, one: last if one is None else one, initial=devices - 1))[:0:-1]
    return [first if first == last else None for first, last in zip(before, after, strict=True)]


def _tree(found: dict[str, Any]) -> Iterator[ResultEntry]:
    """Version 3, whose values are in SI units."""
    for number, of in enumerate(part(found, "devices", list, "it")):
        device = (part(of, "name", str, "a device").strip(), *_described(of)[1:], number)
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
