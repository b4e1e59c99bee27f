"""Both classic methods on one memory space, and the traces that decide between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.model import Answer, Array, Experiment, Finding, Pattern, Probe, Space
from clmembench.model.address_patterns import NODE_BYTES
from clmembench.studies.hierarchy.classic.chase_answers import CLASSIC_ASSUMPTIONS, CLASSIC_UNITS, PROPERTY_NAMES
from clmembench.studies.hierarchy.classic.saavedra import SAAVEDRA, read_saavedra, saavedra_chases
from clmembench.studies.hierarchy.classic.wong import WONG, read_wong, wong_chases
from clmembench.studies.hierarchy.set_index import difference_basis, format_set_bits, free_parities, set_number

MAX_WONG_SIZES = 256  # of Wong's sweep between the last array that fits and the first that misses throughout
PropertyFindings = Mapping[str, Finding]

FINE_GRAINED_TRACE = "fine-grained trace"
# Thresholds and limits, each with its reason
LINE_SIZES_BYTES = tuple(1 << k for k in range(3, 10))  # line sizes that are distinguished, 8 to 512 B
TRACE_LAPS = 4  # recorded for each array
MIN_HIT_MISS_GAP_RATIO = 1.25  # the gap between hits and misses, as a ratio


@dataclass(frozen=True, slots=True)
class ClassicReadings:
    """Answers to the chases of the classic methods in one memory space, and the conclusions of each method.

    `strides` and `sizes` are the answers to Saavedra's and Wong's chases, `by_strides` and `by_sizes` their conclusions, each
    under its assumptions; `fine` are the findings from single accesses at the capacity (Mei & Chu 2015, section 4.2), None if
    no capacity was determined."""

    space: str
    strides: tuple[Answer, ...]
    sizes: tuple[Answer, ...]
    by_strides: Mapping[str, Finding] = field(default_factory=dict)
    by_sizes: Mapping[str, Finding] = field(default_factory=dict)
    fine: Mapping[str, Finding] | None = None

    def resolved(self) -> Mapping[str, Finding]:
        """Each property once: if the methods disagree, the trace decides, and the reason says why they are wrong."""
        return resolve_contradictions(self.by_strides, self.by_sizes, self.fine or {})


def classic_experiment(space: Space = "global") -> Experiment[ClassicReadings]:
    """Requests Saavedra's and Wong's chases, and the latencies of single accesses at the capacity that these give."""
    strides = yield from saavedra_chases(space)
    by_strides = read_saavedra(strides)
    sizes = yield from wong_chases(space=space, most_sizes=MAX_WONG_SIZES)
    by_sizes = read_wong(sizes)
    tried_capacities = [found["size_bytes"].value for found in (by_sizes, by_strides)]
    capacity = next((int(value) for value in tried_capacities if isinstance(value, int | float)), None)
    if capacity is None:
        return ClassicReadings(space, strides, sizes, by_strides, by_sizes)
    traces = yield from overflow_traces(capacity, space)
    return ClassicReadings(space, strides, sizes, by_strides, by_sizes, read_overflow_traces(traces, capacity))


def overflow_traces(capacity_bytes: int, space: Space = "global") -> Experiment[tuple[Answer, ...]]:
    """Requests the latency of every access, 8 B by 8 B in the steady state, to arrays slightly larger than a cache.

    The arrays exceed it by one node, and by one node more than each possible line size: when a second line overflows, new
    places miss (Mei & Chu 2015, section 4.2, steps 2 and 3). Returns the answers."""
    probes = []
    for beyond in (0, *LINE_SIZES_BYTES):
        count = (capacity_bytes + beyond) // NODE_BYTES + 1
        probes.append(Probe(Pattern("sequential", count, NODE_BYTES), space, "trace", 2 * count, TRACE_LAPS * count))
    return tuple((yield probes))


def read_overflow_traces(answers: Sequence[Answer], capacity_bytes: int) -> PropertyFindings:
    """Findings from single accesses: line_bytes, sets, ways, set_bits, and run_bytes (consecutive bytes in one set).

    The line size is the overflow at which new places begin to miss. The lines that miss together are those of one set (under
    LRU always all of them), and the address bits in which they agree are its index. For `ways`, their number must be the ways
    plus one, and sets of that size must add up to the capacity; otherwise all is undetermined."""
    evidence = tuple(dict.fromkeys(e for a in answers for e in a.evidence))

    def finding(name: str, value: float | str | None, why: str = "") -> Finding:
        number = float(value) if isinstance(value, int | float) else None
        unit = "B" if name.endswith("_bytes") else ""
        return Finding(
            name, value, number, number, unit, "undetermined" if value is None else "ok", FINE_GRAINED_TRACE, evidence, why
        )

    names = ("line_bytes", "sets", "ways", "set_bits", "run_bytes")
    silent = next((a.reason or "no latencies of single accesses" for a in answers if a.latencies is None), "")
    if silent or not answers:
        return {name: finding(name, None, silent or "no trace was measured") for name in names}
    places = [missing_places(a) for a in answers]
    # the additional node is the first of a new line, which misses
    line = next(
        (size for size, found in zip(LINE_SIZES_BYTES, places[1:], strict=False) if capacity_bytes + size in found), None
    )
    if not places[0] or line is None:
        why = "no place misses" if not places[0] else f"no new place misses up to {LINE_SIZES_BYTES[-1]} B beyond the capacity"
        return {name: finding(name, None, why) for name in names}
    lines = sorted({place // line for place in places[0]})
    total = -(-(capacity_bytes + NODE_BYTES) // line)
    bits = free_parities(difference_basis(lines), (total - 1).bit_length())
    address_bits = [tuple(b + line.bit_length() - 1 for b in group) for group in bits]
    sets, ways = 1 << len(bits), len(lines) - 1
    in_set = [n for n in range(total) if set_number(n, bits) == set_number(lines[0], bits)]
    if sets * ways * line != capacity_bytes or in_set != lines:
        why = (
            f"{len(lines)} lines of {line} B miss together, which {sets} equal sets of {capacity_bytes} B in all do not explain"
        )
        return {name: finding(name, None, why) for name in names}
    run = line << next((k for k in range(20) if any(k in group for group in bits)), 0)
    values: tuple[float | str, ...] = (
        line,
        sets,
        ways,
        format_set_bits(address_bits) or "none: every line may be anywhere",
        run,
    )
    return {name: finding(name, value) for name, value in zip(names, values, strict=True)}


def missing_places(answer: Answer) -> set[int]:
    """Byte offsets of the places of a sequential trace that miss, by the median over laps and repeats."""
    assert answer.latencies is not None
    pattern, skip = answer.probe.pattern, answer.probe.skip
    visits = [(n - skip) % pattern.count for n in range(pattern.count)]  # the first visit of each place
    medians = np.array([np.median(answer.latencies[:, first :: pattern.count]) for first in visits])
    return {int(p) * pattern.stride_bytes for p in np.flatnonzero(is_miss(medians))}


def is_miss(latencies: Array) -> Array:
    """Which latencies are misses: all above the lowest gap of at least a quarter. Shape of `latencies`."""
    ordered = np.sort(np.maximum(latencies, 1.0).ravel())
    gaps = np.flatnonzero(ordered[1:] >= MIN_HIT_MISS_GAP_RATIO * ordered[:-1])
    limit = (ordered[gaps[0]] + ordered[gaps[0] + 1]) / 2 if gaps.size else np.inf
    return np.asarray(latencies > limit)


def resolve_contradictions(
    by_stride: Mapping[str, Finding], by_size: Mapping[str, Finding], fine: PropertyFindings
) -> PropertyFindings:
    """Each property once, from Saavedra's, Wong's and the trace's findings.

    If the methods agree, the property is ok. If not, the trace decides, and the reason says why the others are wrong; without a
    trace the property is `inconsistent`, and its reason names both."""
    return {name: _resolved_property(name, by_stride.get(name), by_size.get(name), fine) for name in PROPERTY_NAMES}


def _resolved_property(name: str, by_stride: Finding | None, by_size: Finding | None, fine: PropertyFindings) -> Finding:
    findings = [f for f in (by_stride, by_size, fine.get(name)) if f is not None and f.value is not None]
    evidence = tuple(dict.fromkeys(e for f in findings for e in f.evidence))
    methods = " and ".join(dict.fromkeys(f.method for f in findings))
    if not findings:
        reasons = "; ".join(f"{f.method}: {f.reason}" for f in (by_stride, by_size) if f is not None)
        return Finding(
            name, None, None, None, CLASSIC_UNITS.get(name, ""), "undetermined", f"{SAAVEDRA} and {WONG}", evidence, reasons
        )
    low, high = max(f.low or 0 for f in findings), min(f.high or 0 for f in findings)
    if len(findings) == 1 and findings[0].method != FINE_GRAINED_TRACE:
        why = f"{methods} alone gives {_table_cell(findings[0])}, {CLASSIC_ASSUMPTIONS}"
        return replace(findings[0], value=None, status="undetermined", reason=why)
    if low <= high:
        narrowest = min(findings, key=lambda f: (f.high or 0) - (f.low or 0))
        reason = "" if narrowest.method == FINE_GRAINED_TRACE else CLASSIC_ASSUMPTIONS
        return replace(narrowest, method=methods, evidence=evidence, reason=reason)
    values_by_method = ", ".join(
        f"{f.method} gives {f.value:g} {f.unit}".strip() for f in findings if isinstance(f.value, int | float)
    )
    trace = fine.get(name)
    if trace is not None and trace.value is not None:
        return replace(trace, evidence=evidence, reason=f"{values_by_method}: {_why_classic_methods_err(fine)}")
    ends = min(f.low or 0 for f in findings), max(f.high or 0 for f in findings)
    return Finding(name, None, *ends, findings[0].unit, "inconsistent", methods, evidence, values_by_method)


def _why_classic_methods_err(fine: PropertyFindings) -> str:
    """Why the others are wrong, from the mapping of addresses to sets in the trace."""
    line, run, bits = (fine[n].value if n in fine else None for n in ("line_bytes", "run_bytes", "set_bits"))
    if isinstance(line, int | float) and isinstance(run, int | float) and run > line:
        return (
            f"the bits next to the line's are not the set's: {run:g} consecutive bytes, {run / line:g} lines, lie in one set, "
            f"which address bits {bits} choose, so that a step of latency over size is that wide, and a stride up to that "
            f"leaves out lines but no set"
        )
    return f"the sets are not equal sets chosen by the bits next to the line's under LRU: bits {bits} choose the set"


def _table_cell(finding: Finding | None) -> str:
    if finding is None:
        return ""
    if finding.value is None:
        return finding.status if finding.low is None or finding.status != "inconsistent" else "inconsistent"
    text = f"{finding.value:g}" if isinstance(finding.value, int | float) else finding.value
    return f"{text} {finding.unit}".strip()
