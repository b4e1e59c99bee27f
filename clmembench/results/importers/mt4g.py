"""MT4G's JSON (2025 on): sizes, lines, latencies and bandwidths of the memories of one GPU, with a confidence of each size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clmembench.model import Value
from clmembench.results.imported import SCHEMA, ImportedRun, ImportedValue
from clmembench.results.importers.foreign_text import parse, part, text_of

GIB = 2.0**30 / 1e9
MIN_CONFIDENCE = 0.5  # of a size or line: below, MT4G's own test says that it has not found one
# memories whose latency or size has the meaning of ours; the size of an L2 is the driver's claim, and a segment is a part of it
LATENCIES: Mapping[str, Mapping[str, Value]] = {
    "l1": {"of": "L1"}, "l2": {"of": "L2"}, "main": {"of": "memory"},
}  # fmt: skip
FOUND = {"size": "size", "lineSize": "line", "fetchGranularity": "sector", "segmentSize": "segment"}


def read(text: str) -> list[ImportedRun]:
    """The one GPU of a file. Latencies are in cycles of the GPU's counter; what the runtime only claims (bus width, size of an
    L2) is left out."""
    found = parse(text, "MT4G", ": give the file that it writes, or what it prints with -q")
    general, memory = part(found, "general", dict, "it"), part(found, "memory", dict, "it")
    meta = found.get("meta")
    values: list[ImportedValue] = []
    left_out: list[str] = []
    for name, level in _levels(memory):
        for key, entry in level.items():
            told = _told(name, key, entry)
            if isinstance(told, ImportedValue):
                values.append(told)
            elif told:
                left_out.append(told)
    driver = text_of(meta, "driver")
    device = part(general, "name", str, "general").strip()
    version, date = text_of(meta, "version"), text_of(meta, "timestamp")
    return [ImportedRun(SCHEMA, "MT4G", version, device, "HIP", driver, date, tuple(values), tuple(left_out))]


def _digits(entry: Mapping[str, Any], key: str) -> str:
    return f"{float(part(entry, key, (int, float), 'a latency')):.4g}"


def _levels(memory: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Memories by their names; those within another, such as the levels of constant memory, by both."""
    for name, level in memory.items():
        if isinstance(level, dict):
            yield name, level
            yield from ((f"{name} {inner}", of) for inner, of in level.items() if isinstance(of, dict) and "latency" in of)


def _told(name: str, key: str, entry: object) -> ImportedValue | str:
    """A value; or why it is left out; "" for what is no quantity."""
    if not isinstance(entry, dict) or "latency" in entry:
        return ""
    unit, what = text_of(entry, "unit"), f"{name}, {key}"
    if key == "latency":
        count, middle = part(entry, "measurements", int, what), part(entry, "p50", (int, float), what)
        statistic = f"median of {count} loads; mean {_digits(entry, 'mean')}, 95th percentile {_digits(entry, 'p95')}"
        ours = ("load", "latency", LATENCIES[name]) if name in LATENCIES and unit == "cycles" else ("", "", {})
        return ImportedValue(what, float(middle), unit, statistic, *ours)
    if key in FOUND and "confidence" in entry:
        confidence, size = float(part(entry, "confidence", (int, float), what)), float(part(entry, "size", (int, float), what))
        if confidence < MIN_CONFIDENCE:
            return f"{what}: {size:g} {unit} with a confidence of {confidence:g}"
        ours = ("geometry", "size", {"of": "L1"}) if (name, key) == ("l1", "size") else ("", "", {})
        return ImportedValue(what, size, "B" if unit == "bytes" else unit, f"its own confidence {confidence:.3f}", *ours)
    if key in ("readBandwidth", "writeBandwidth") and unit == "GiB/s":
        rate = GIB * float(part(entry, "value", (int, float), what))
        return ImportedValue(what, rate, "GB/s", "it does not say of how many repetitions", note="in GB/s, from GiB/s")
    if key == "missPenalty":
        return ImportedValue(what, float(part(entry, "value", (int, float), what)), unit, "difference of mean latencies")
    return f"{what}: a claim of the runtime" if "value" in entry else ""
