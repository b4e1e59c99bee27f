"""Caches and TLBs from traces of accesses of any program: which accesses missed, and which structure explains it. Pure.

After Mei & Chu 2015, section 4 (fine-grained pointer chase), with reading by eye replaced by simulation of candidate
structures. A property is determined only if all structures that explain the traces agree on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clmembench.model import Accesses, Array, CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.studies.hierarchy.replacement.cache_set import STOCHASTIC_POLICIES
from clmembench.studies.traces.deciding import LevelState
from clmembench.studies.traces.geometry import TraceSelection, likely_hypotheses, select_traces
from clmembench.studies.traces.hypothesis import CacheHypothesis
from clmembench.studies.traces.latency_modes import MIN_SECTOR_BYTES
from clmembench.studies.traces.level_names import level_names
from clmembench.studies.traces.properties import (
    CACHE_UNITS,
    cache_findings,
    largest_fitting_bytes,
    tlb_findings,
    undetermined_property,
    with_latency,
)
from clmembench.studies.traces.serving_level import MIN_PAGE_BYTES, ServingLevels, serving_levels
from clmembench.studies.traces.streams import (
    UNKNOWN_LEVEL,
    AccessStream,
    access_streams,
    fill_unit_bounds,
    hits_pay,
    is_attributed,
    next_level_stream,
    passed_to_next_level,
)

# Thresholds and limits, each with its reason
MAX_SECTOR_BYTES = 256  # bytes: longer fetches are prefetches
MIN_TRACE_STRIDE_BYTES = 4  # bytes: the finest unit at which accesses are distinguished
SMALLER_THAN_NEARER = (
    "arrays of up to {} B fit it, and arrays of {} B fit an earlier cache: its latency may be that of a nearer cache and a "
    "missing translation; missing are strides below a page at more sizes"
)
ONLY_FIRST_ACCESSES = (
    "only first accesses to a page are slow, as where a translation misses, or where a prefetcher stops at the ends of pages: "
    "missing are traces of more pages than the TLB holds"
)
NOTHING_KNOWN: dict[str, Any] = {"value": None, "low": None, "high": None, "status": "undetermined"}
LEVEL_UNITS = {**CACHE_UNITS, "latency_cycles": "as recorded", "latency_ns": "ns"}


def infer_from_traces(
    traces: Sequence[Accesses], states: list[LevelState] | None = None, last_cache_bytes: int | None = None
) -> Hierarchy:
    """The hierarchy inferred from the traces. Latencies are in the traces' own unit, under latency_cycles.

    The state of each level is appended to `states`. `last_cache_bytes`: the size of the device's last cache, without which no
    level is called DRAM."""
    states = [] if states is None else states
    seen = serving_levels(traces)
    if not seen.levels:
        return Hierarchy(notes=("no latency occurs often enough to be that of a level",))
    names = level_names(traces, seen.served, len(seen.levels), last_cache_bytes)
    notes: list[str] = []
    first, left_out = access_streams(traces, seen.served)
    if left_out:
        some = ", ".join(left_out[:5])
        notes.append(f"{len(left_out)} traces start in an unknown state and repeat no lap, and were left out: {some}")
    known = [n for n, t in enumerate(traces) if t.id not in set(left_out)]
    if not (seen.clear and seen.levels_known):
        notes.append(
            "some latencies may be of a level or of a missing translation, so that TLBs and caches are not distinguishable"
        )
        return Hierarchy(levels=tuple(_cache_levels(seen, names, first, traces, states)), notes=tuple(notes))
    if not seen.paged and len(seen.levels) > 1:
        return _page_strided_hierarchy(seen, first, tuple(notes), states)
    levels = _cache_levels(seen, names, first, traces, states)
    translated = [
        replace(stream, served=_streams_of_next_level(stream, seen.translated[n]))
        for stream, n in zip(first, known, strict=True)
    ]
    tlbs = _tlb_levels(seen, translated, first, states)
    if tlbs and any(one.reason == ONLY_FIRST_ACCESSES for one in tlbs[-1].findings.values()) and len(levels) > 1:
        levels[-1] = _doubted_memory(levels[-1], seen.penalties)
    return Hierarchy(levels=tuple(levels), tlb=tuple(tlbs), notes=tuple(notes))


def _doubted_memory(level: CacheLevel, penalties: Sequence[float]) -> CacheLevel:
    """Why the slowest level may not be memory: an apparent translation miss may have memory's latency, and the apparent memory
    may be a cache that a prefetcher fills."""
    own = level.findings["latency_cycles"]
    ends = (own.low, None if own.high is None else own.high + max(penalties, default=0.0))
    doubted = replace(own, **NOTHING_KNOWN, reason=ONLY_FIRST_ACCESSES)
    return replace(level, findings={**level.findings, "latency_cycles": replace(doubted, low=ends[0], high=ends[1])})


def _streams_of_next_level(stream: AccessStream, seen: Array) -> Array:
    """The recorded part of a stream, after the unrecorded one."""
    whole: Array = np.r_[np.full(stream.addresses.size - seen.size, UNKNOWN_LEVEL, np.int8), seen]
    return whole


def _cache_levels(
    seen: ServingLevels,
    names: Sequence[str],
    first: Sequence[AccessStream],
    traces: Sequence[Accesses],
    states: list[LevelState],
) -> list[CacheLevel]:
    levels = []
    streams = [stream for stream in first if seen.levels_known or is_attributed(stream)]
    fetched = 0  # bytes that the previous cache fills at once; 0: unknown
    fitting = 0  # bytes of the largest array that fits the previous caches
    doubted = ""  # why the next latency may be another level's
    for number, mode in enumerate(seen.levels):
        evidence = _traces_with_most(traces, seen.served, number)
        hidden = any(m.mixed for m in seen.levels[: number + 1]) or (number > 0 and not seen.levels_known)
        name, numbered = names[number], not any(m.mixed for m in seen.levels[:number])
        if number and number == len(seen.levels) - 1:
            levels.append(CacheLevel(name, "global", with_latency({}, replace(mode, mixed=hidden), evidence, numbered)))
            break
        if not hidden and not doubted:
            near, given, brought = _cache_hypotheses(streams, fetched)
            largest = largest_fitting_bytes(given)
            doubted = SMALLER_THAN_NEARER.format(largest, fitting) if 0 < largest <= fitting else ""
            fitting = max(fitting, largest)
        if hidden or doubted:
            findings = _hidden_level(doubted)
            states.append(LevelState(name, (), None, findings))
            whole = with_latency(findings, replace(mode, mixed=True), evidence, numbered and not doubted)
            levels.append(CacheLevel(name, "global", whole))
            continue
        found = _without_finer_lines(cache_findings(near, given, brought), fetched)
        states.append(LevelState(name, tuple(near), given, found, fetched))
        levels.append(CacheLevel(name, "global", with_latency(found, mode, evidence)))
        fetched = _fetched_bytes(near)
        streams = [next_level_stream(stream, fetched or given.unit_bytes) for stream in streams]
    return levels


def _hidden_level(doubt: str = "") -> dict[str, Finding]:
    reason = doubt or (
        "which latencies are of this level is not known: noise or the clock's step hide several in one, or they may be of "
        "missing translations; missing are a finer clock, or strides below a page"
    )
    return {name: undetermined_property(name, unit, reason) for name, unit in CACHE_UNITS.items()}


def _fetched_bytes(near: Sequence[CacheHypothesis]) -> int:
    """Bytes that this cache fetches from the next at once, by all hypotheses; 0 where they differ or there are none."""
    units = {h.unit_bytes for h in near}
    return units.pop() if len(units) == 1 else 0


def _without_finer_lines(found: dict[str, Finding], fetched: int) -> dict[str, Finding]:
    """A line or sector as small as the previous cache's requests may be smaller in truth: nothing finer reaches this one."""
    reason = (
        f"the previous cache requests {fetched} B at once, so that a smaller line would give the same misses; "
        "missing are traces that bypass it"
    )
    findings = dict(found)
    for name in ("line_bytes", "sector_bytes"):
        if fetched and found[name].status == "ok" and found[name].value == fetched:
            findings[name] = replace(found[name], value=None, low=None, status="undetermined", reason=reason)
            if name == "line_bytes":
                findings.pop("set_bits", None)
                findings["sets"] = replace(found["sets"], value=None, high=None, status="undetermined", reason=reason)
    return findings


def _cache_hypotheses(
    streams: Sequence[AccessStream], fetched: int
) -> tuple[list[CacheHypothesis], TraceSelection, tuple[int, int]]:
    """Hypotheses for one cache, with all sectors and lines that the bytes filled by misses allow. `fetched`: bytes that the
    previous cache requests at once, which this one has to hold whatever its lines are."""
    streams = [s for s in streams if s.addresses.size]
    low, high = fill_unit_bounds(streams)
    if low > MAX_SECTOR_BYTES:  # prefetched: no information on the sector
        low = 0
    low = max(low, fetched)
    high = max(high, low) if high else high
    strides = [s.stride_bytes for s in streams if s.stride_bytes > 0]
    finest = 1 << (min(strides, default=64).bit_length() - 1)
    unit = low if fetched or (low and low == high) else max(low, min(finest, high or finest), MIN_SECTOR_BYTES)
    sectors = [1 << k for k in range(4, 10) if max(low, MIN_SECTOR_BYTES) <= 1 << k <= (high or MAX_SECTOR_BYTES)] or [unit]
    lines = [1 << k for k in range(4, 11) if 1 << k >= sectors[0]]
    given = select_traces(streams, unit)
    return likely_hypotheses(given, sectors, lines, paged=False), given, (low, high)


def _tlb_levels(
    seen: ServingLevels, streams: Sequence[AccessStream], data: Sequence[AccessStream], states: list[LevelState]
) -> list[TlbLevel]:
    """TLBs, from the accesses that include a translation penalty. Either all accesses look up the TLB, or those that missed in
    the first cache. The assumption that explains the traces is used; if both do, only their common findings."""
    if not any((s.served > 0).any() for s in streams):
        return []
    levels: list[TlbLevel] = []
    whole = streams
    behind_l1 = []
    for stream, of in zip(streams, data, strict=True):
        kept = passed_to_next_level(of, MIN_TRACE_STRIDE_BYTES)
        behind_l1.append(replace(stream, addresses=stream.addresses[kept], served=stream.served[kept], lap=0))
    count = max([len(seen.penalties), 1, *(int(s.served.max(initial=0)) for s in streams)])
    least = MIN_PAGE_BYTES
    for number in range(count):
        found = _tlb_hypotheses(streams, least)
        if number == 0 and (late := _tlb_hypotheses(behind_l1, least)).near:
            exact, late_exact = ([h for h in f.near if h.policy not in STOCHASTIC_POLICIES] for f in (found, late))
            if not found.near or (late_exact and not exact):
                streams, found = behind_l1, late
            elif bool(exact) == bool(late_exact):
                found = replace(found, near=[*found.near, *late.near])
        elif number == 0 and not found.near and not hits_pay(streams, data):
            found = late
        findings = tlb_findings(found.near, found.given, found.filled)
        states.append(LevelState(f"L{number + 1} TLB", tuple(found.near), found.given, findings))
        least = found.filled[0] or least  # the next level cannot return less than a TLB stores
        paid = _traces_with_most(whole, [s.served for s in whole], number + 1)
        findings |= _penalty_findings(seen, number, paid)
        if number == count - 1 and not found.near and all(foot.fits for foot in found.given.footprints):
            findings = {name: replace(one, **NOTHING_KNOWN, reason=ONLY_FIRST_ACCESSES) for name, one in findings.items()}
        levels.append(TlbLevel(f"L{number + 1} TLB", findings))
        if found.given.unit_bytes:
            streams = [next_level_stream(stream, found.given.unit_bytes) for stream in streams]
    return levels


@dataclass(frozen=True, slots=True)
class _TlbHypotheses:
    near: list[CacheHypothesis]
    given: TraceSelection
    filled: tuple[int, int]


def _tlb_hypotheses(streams: Sequence[AccessStream], least: int) -> _TlbHypotheses:
    """Hypotheses for one TLB, with every page size of at least `least` bytes that the traces allow."""
    streams = [s for s in streams if s.addresses.size]
    low, high = fill_unit_bounds(streams)
    low = max(low, least)
    page = high or low
    given = select_traces(streams, page)
    pages = [p for p in (1 << k for k in range(12, 34)) if low <= p <= page]
    return _TlbHypotheses(likely_hypotheses(given, [page], pages, paged=True), given, (low if low == high else 0, high))


def _penalty_findings(seen: ServingLevels, number: int, evidence: tuple[str, ...]) -> dict[str, Finding]:
    """Latency that a miss in this TLB adds to a miss in the previous one; `evidence`: traces with such misses."""
    nanoseconds = undetermined_property("penalty_ns", "ns", "the unit of the latencies is not known to be ns")
    if number >= len(seen.penalties) or not evidence:
        reason = "the cost of translation differs with the level that serves the data, or several explanations fit"
        if number < len(seen.penalties):
            reason = "it shows only in traces that start in an unknown state"
        return {"penalty_cycles": undetermined_property("penalty_cycles", "as recorded", reason), "penalty_ns": nanoseconds}
    before = seen.penalties[number - 1] if number else 0.0
    value, error = seen.penalties[number] - before, seen.penalty_errors[number]
    method = "difference of the modes of latencies with and without translation at hand"
    found = Finding(
        "penalty_cycles",
        round(value, 4),
        round(value - error, 4),
        round(value + error, 4),
        "as recorded",
        "ok",
        method,
        evidence,
    )
    return {"penalty_cycles": found, "penalty_ns": nanoseconds}


def _page_strided_hierarchy(
    seen: ServingLevels, first: Sequence[AccessStream], notes: tuple[str, ...], states: list[LevelState]
) -> Hierarchy:
    """The hierarchy from traces without two consecutive accesses within a page: slower accesses are translation misses if a
    miss fills whole pages of at least 4 KiB; otherwise they can be either, and the structure is undetermined."""
    low, high = fill_unit_bounds([s for s in first if s.addresses.size])
    if low == high and low >= MIN_PAGE_BYTES:
        modes = seen.levels
        gaps = tuple(m.centre - modes[0].centre for m in modes[1:])
        errors = tuple(2 * (m.error + modes[0].error) for m in modes[1:])
        as_tlb = replace(seen, levels=modes[:1], penalties=gaps, penalty_errors=errors)
        unseen = [replace(s, served=np.full(s.served.size, -1, np.int8)) for s in first]
        return Hierarchy(tlb=tuple(_tlb_levels(as_tlb, first, unseen, states)), notes=notes)
    missing = (
        "no two accesses in a row were within 4 KiB, so that misses of caches and of TLBs are not distinguishable; missing are "
        "traces with strides below a page"
    )
    undetermined = {name: undetermined_property(name, unit, missing) for name, unit in LEVEL_UNITS.items()}
    states.append(LevelState("L1", (), None, undetermined))
    return Hierarchy(levels=(CacheLevel("L1", "global", undetermined),), notes=(*notes, missing))


def _traces_with_most(
    named: Sequence[Accesses] | Sequence[AccessStream], numbers: Sequence[Array], wanted: int
) -> tuple[str, ...]:
    """Ids of the three traces with the most accesses of a number, without those that have none."""
    counts = [int((n == wanted).sum()) for n in numbers]
    best = sorted(range(len(named)), key=lambda i: -counts[i])[:3]
    return tuple(named[i].id for i in best if counts[i])
