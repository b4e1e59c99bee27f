"""Caches and TLBs from traces of accesses that anyone took: which missed, and what structure explains that. Pure.

After Mei & Chu 2015, section 4 (fine-grained pointer chase), with reading by eye replaced by simulation of every structure that
is tried, and an answer only where all that explain the traces agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.infer.replacement.cache_set import STOCHASTIC
from clmembench.infer.trace.geometry import Setting, hypotheses, setting
from clmembench.infer.trace.hypothesis import Hypothesis
from clmembench.infer.trace.properties import CACHE_UNITS, cache, tlb, undetermined, with_latency
from clmembench.infer.trace.serving_level import SMALLEST_PAGE, Stages, stages
from clmembench.infer.trace.streams import UNKNOWN, Stream, behind, filled, passed, streams
from clmembench.model import Accesses, Array, CacheLevel, Finding, Hierarchy, TlbLevel

# Thresholds and limits, each with its reason
LEAST_SECTOR = 16  # bytes: the smallest sector that is tried
MOST_SECTOR = 256  # bytes: longer fetches are prefetches
SMALLEST_STRIDE = 4  # bytes: the finest unit at which accesses are distinguished
LEVEL_UNITS = {**CACHE_UNITS, "latency_cycles": "as recorded", "latency_ns": "ns"}


def infer(traces: Sequence[Accesses]) -> Hierarchy:
    """The hierarchy that the traces show. Latencies are in the traces' own unit, under latency_cycles."""
    seen = stages(traces)
    if not seen.levels:
        return Hierarchy(notes=("no latency occurs often enough to be that of a level",))
    notes: list[str] = []
    first, left_out = streams(traces, seen.served)
    if left_out:
        some = ", ".join(left_out[:5])
        notes.append(f"{len(left_out)} traces start in an unknown state and repeat no lap, and were left out: {some}")
    known = [n for n, t in enumerate(traces) if t.id not in set(left_out)]
    if not (seen.clear and seen.told):
        notes.append(
            "some latencies may be of a level or of a missing translation, so that TLBs and caches are not distinguishable"
        )
        return Hierarchy(levels=tuple(_levels(seen, first, traces)), notes=tuple(notes))
    if not seen.paged and len(seen.levels) > 1:
        return _strided(seen, first, tuple(notes))
    levels = _levels(seen, first, traces)
    translated = [replace(stream, served=_after(stream, seen.translated[n])) for stream, n in zip(first, known, strict=True)]
    tlbs = _tlbs(seen, translated, first)
    return Hierarchy(levels=tuple(levels), tlb=tuple(tlbs), notes=tuple(notes))


def _after(stream: Stream, seen: Array) -> Array:
    """The recorded part of a stream, behind the unrecorded one."""
    whole: Array = np.r_[np.full(stream.addresses.size - seen.size, UNKNOWN, np.int8), seen]
    return whole


def _levels(seen: Stages, first: Sequence[Stream], traces: Sequence[Accesses]) -> list[CacheLevel]:
    levels = []
    asked = list(first)
    fetched = 0  # bytes that the cache before brings in at once; 0: not known
    for number, mode in enumerate(seen.levels):
        evidence = _most(traces, seen.served, number)
        hidden = any(m.mixed for m in seen.levels[: number + 1]) or (number > 0 and not seen.told)
        if number and number == len(seen.levels) - 1:
            levels.append(CacheLevel("DRAM", "global", with_latency({}, replace(mode, mixed=hidden), evidence)))
            break
        if hidden:
            levels.append(CacheLevel(f"L{number + 1}", "global", with_latency(_hidden(), replace(mode, mixed=True), evidence)))
            continue
        near, given, brought = _structure(asked, fetched)
        found = cache(near, given, brought)
        levels.append(CacheLevel(f"L{number + 1}", "global", with_latency(_no_finer(found, fetched), mode, evidence)))
        fetched = _fetched(near)
        asked = [behind(stream, fetched or given.unit_bytes) for stream in asked]
    return levels


def _hidden() -> dict[str, Finding]:
    reason = (
        "which latencies are of this level is not known: noise or the clock's step hide several in one, or they may be of "
        "missing translations; missing are a finer clock, or strides below a page"
    )
    return {name: undetermined(name, unit, reason) for name, unit in CACHE_UNITS.items()}


def _fetched(near: Sequence[Hypothesis]) -> int:
    """Bytes that this cache fetches from the next at once, by all hypotheses; 0 where they differ or there are none."""
    units = {h.unit_bytes for h in near}
    return units.pop() if len(units) == 1 else 0


def _no_finer(found: dict[str, Finding], fetched: int) -> dict[str, Finding]:
    """A line or sector as small as what the cache before asks for may as well be smaller: nothing finer comes to this one."""
    reason = (
        f"the cache before this one asks for {fetched} B at once, so that a smaller line would give the same misses; "
        "missing are traces that bypass it"
    )
    told = dict(found)
    for name in ("line_bytes", "sector_bytes"):
        if fetched and found[name].status == "ok" and found[name].value == fetched:
            told[name] = replace(found[name], value=None, low=None, status="undetermined", reason=reason)
            if name == "line_bytes":
                told.pop("set_bits", None)
                told["sets"] = replace(found["sets"], value=None, high=None, status="undetermined", reason=reason)
    return told


def _structure(asked: Sequence[Stream], fetched: int) -> tuple[list[Hypothesis], Setting, tuple[int, int]]:
    """Hypotheses for one cache, of all sectors and lines that what misses bring in leaves possible. `fetched`: what the cache
    before brings in at once, which this one has to hold whatever its lines are."""
    asked = [s for s in asked if s.addresses.size]
    low, high = filled(asked)
    if low > MOST_SECTOR:  # prefetched: this says nothing about the sector
        low = 0
    low = max(low, fetched)
    high = max(high, low) if high else high
    strides = [s.stride_bytes for s in asked if s.stride_bytes > 0]
    finest = 1 << (min(strides, default=64).bit_length() - 1)
    unit = low if fetched or (low and low == high) else max(low, min(finest, high or finest), LEAST_SECTOR)
    sectors = [1 << k for k in range(4, 10) if max(low, LEAST_SECTOR) <= 1 << k <= (high or MOST_SECTOR)] or [unit]
    lines = [1 << k for k in range(4, 11) if 1 << k >= sectors[0]]
    given = setting(asked, unit)
    return hypotheses(given, sectors, lines, paged=False), given, (low, high)


def _tlbs(seen: Stages, asked: Sequence[Stream], data: Sequence[Stream]) -> list[TlbLevel]:
    """TLBs by which accesses paid for translation. They are asked by all accesses, or by those that missed in the first cache:
    what explains the traces is taken, and where both do, only what they agree on."""
    if not any((s.served > 0).any() for s in asked):
        return []
    levels: list[TlbLevel] = []
    whole = asked
    behind_l1 = []
    for stream, of in zip(asked, data, strict=True):
        kept = passed(of, SMALLEST_STRIDE)
        behind_l1.append(replace(stream, addresses=stream.addresses[kept], served=stream.served[kept], lap=0))
    count = max(len(seen.penalties), 1)
    least = SMALLEST_PAGE
    for number in range(count):
        found = _tlb(asked, least)
        if number == 0 and (late := _tlb(behind_l1, least)).near:
            exact, late_exact = ([h for h in f.near if h.policy not in STOCHASTIC] for f in (found, late))
            if not found.near or (late_exact and not exact):
                asked, found = behind_l1, late
            elif bool(exact) == bool(late_exact):
                found = replace(found, near=[*found.near, *late.near])
        findings = tlb(found.near, found.given, found.filled)
        least = found.filled[0] or least  # what is behind a TLB cannot give it less than it keeps
        paid = _most(whole, [s.served for s in whole], number + 1)
        levels.append(TlbLevel(f"L{number + 1} TLB", {**findings, **_penalty(seen, number, paid)}))
        if found.given.unit_bytes:
            asked = [behind(stream, found.given.unit_bytes) for stream in asked]
    return levels


@dataclass(frozen=True, slots=True)
class _Found:
    near: list[Hypothesis]
    given: Setting
    filled: tuple[int, int]


def _tlb(asked: Sequence[Stream], least: int) -> _Found:
    """Hypotheses for one TLB: pages of whatever size the traces leave possible, of at least `least` bytes."""
    asked = [s for s in asked if s.addresses.size]
    low, high = filled(asked)
    low = max(low, least)
    page = high or low
    given = setting(asked, page)
    pages = [p for p in (1 << k for k in range(12, 34)) if low <= p <= page]
    return _Found(hypotheses(given, [page], pages, paged=True), given, (low if low == high else 0, high))


def _penalty(seen: Stages, number: int, evidence: tuple[str, ...]) -> dict[str, Finding]:
    """Latency that a miss in this TLB adds to a miss in the one before; `evidence`: traces with such misses."""
    nanoseconds = undetermined("penalty_ns", "ns", "the unit of the latencies is not known to be ns")
    if number >= len(seen.penalties) or not evidence:
        reason = "the cost of translation differs with the level that serves the data, or several explanations fit"
        if number < len(seen.penalties):
            reason = "it shows only in traces that start in an unknown state"
        return {"penalty_cycles": undetermined("penalty_cycles", "as recorded", reason), "penalty_ns": nanoseconds}
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


def _strided(seen: Stages, first: Sequence[Stream], notes: tuple[str, ...]) -> Hierarchy:
    """Traces without two accesses in a row within a page: what is slower is translation where whole pages of at least 4 KiB are
    brought in; else it can be either, and no structure is said."""
    low, high = filled([s for s in first if s.addresses.size])
    if low == high and low >= SMALLEST_PAGE:
        modes = seen.levels
        gaps = tuple(m.centre - modes[0].centre for m in modes[1:])
        errors = tuple(2 * (m.error + modes[0].error) for m in modes[1:])
        as_tlb = replace(seen, levels=modes[:1], penalties=gaps, penalty_errors=errors)
        return Hierarchy(
            tlb=tuple(_tlbs(as_tlb, first, [replace(s, served=np.full(s.served.size, -1, np.int8)) for s in first])),
            notes=notes,
        )
    missing = (
        "no two accesses in a row were within 4 KiB, so that misses of caches and of TLBs are not distinguishable; missing are "
        "traces with strides below a page"
    )
    levels = tuple(
        CacheLevel(f"L{n + 1}", "global", {name: undetermined(name, unit, missing) for name, unit in LEVEL_UNITS.items()})
        for n in range(1)
    )
    return Hierarchy(levels=levels, notes=(*notes, missing))


def _most(named: Sequence[Accesses] | Sequence[Stream], numbers: Sequence[Array], wanted: int) -> tuple[str, ...]:
    """Ids of the three traces that have most accesses of a number, without those that have none."""
    counts = [int((n == wanted).sum()) for n in numbers]
    best = sorted(range(len(named)), key=lambda i: -counts[i])[:3]
    return tuple(named[i].id for i in best if counts[i])
