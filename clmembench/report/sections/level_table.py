"""The levels of a latency curve as a section of a summary: what each costs, and with how many bytes of lines it ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from clmembench.analysis import plateaus
from clmembench.model import BenchmarkInfo, Record, Run, Value
from clmembench.report.frame import Row
from clmembench.report.table import Table, columns
from clmembench.units import count, format_bytes, format_params, format_value

WITH_TRANSLATION = "beyond a TLB's reach these latencies include address translation, which topology takes out"


def levels_section(run: Run, name: str, card: BenchmarkInfo, mine: Sequence[Row]) -> Table:
    """The plateaus of each curve. Only the first is called L1 and only a settled last one memory: what lies between may be a
    cache or the reach of a TLB, and one curve cannot tell. What a level holds is the lines that are touched: where nodes lie
    further apart, the array's extent stands beside them."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    records = [r for r in run.records if r.benchmark == name]
    line_bytes, sparse = run.header.device.line_bytes, False
    for others in _curves(records, card.growing):
        curve = plateaus.curve_points([r for r in records if _others(r, card.growing) == others], card.metrics[0], card.growing)
        label, stretch = format_params(dict(others)), plateaus.extent_per_line_byte(dict(others), line_bytes)
        settled = plateaus.has_settled(curve, plateaus.memory_floor_bytes(run.header.device))
        named = _named(plateaus.find_plateaus(curve), settled)
        for level, plateau in named:
            cycles, spread = cycles_cell(plateau.cycles), f"{format_value(plateau.low)} to {format_value(plateau.high)}"
            whole = plateau.last_bytes == curve[-1].array_bytes
            held, extent = _extents(plateau.last_bytes, plateau.next_bytes, whole, stretch)
            rows.append((label, level, held, extent, cycles, f"{format_value(plateau.ns)} ns", spread))
        if curve and not settled:
            top = curve[-1]
            sizes = [_held(top.array_bytes, stretch), format_bytes(top.array_bytes, 1)]
            spread = f"{format_value(top.low)} to {format_value(top.high)}"
            rows.append((label, "largest set", *sizes, cycles_cell(top.cycles), f"{format_value(top.ns)} ns", spread))
            notes.append(f"{label}: not settled at {format_bytes(top.array_bytes)}, so no plateau is called memory")
        notes += _overlaps(label, named)
        notes += [_sparse(label, line_bytes, stretch)] if stretch != 1 and curve else []
        sparse = sparse or (stretch != 1 and bool(curve))
    if len(rows) > 1:
        notes.append(WITH_TRANSLATION)
    bad = [row for row in mine if row.status not in ("ok",)]
    if bad:
        notes.append(f"{count(len(bad), 'point')} of {len(mine)} without a value: {bad[0].status}: {bad[0].reason}")
    ends = ("ends with lines of", "in an array of") if sparse else ("ends with lines of",)
    header = (name, "level", *ends, "cycles", "latency", "range over the level")
    return Table(card.summary, columns(header), tuple(row if sparse else row[:3] + row[4:] for row in rows), tuple(notes))


def _named(found: Sequence[plateaus.Plateau], settled: bool) -> list[tuple[str, plateaus.Plateau]]:
    """Each plateau with its name."""
    names = [f"plateau {index + 1}" for index in range(len(found))]
    if found and settled:
        names[-1] = "memory"
    if found and found[0].first_bytes <= plateaus.SURELY_NEAREST_BYTES:  # else a sweep may have left the first level out
        names[0] = "L1"
    return list(zip(names, found, strict=True))


def _overlaps(label: str, named: Sequence[tuple[str, plateaus.Plateau]]) -> list[str]:
    """A note on levels that may end beyond the last size of the next one, so that the ranges of both ends overlap."""
    pairs = [
        f"{level} and {later}"
        for (level, one), (later, other) in pairwise(named)
        if one.next_bytes is None or one.next_bytes > other.last_bytes
    ]
    if not pairs:
        return []
    times = 1 + plateaus.MAX_DISTURBANCE_RELATIVE_EXCESS
    return [
        f"{label}: the ends of {', of '.join(pairs)} overlap: points of this curve were disturbed, so that a level surely ends "
        f"only at a point {times:g} times as slow; the second is a level of its own because all its points together are slower"
    ]


def _extents(last: int, over: int | None, to_the_end: bool, stretch: float | None) -> tuple[str, str]:
    """Between which bytes of touched lines a level ends, and between which extents of the array."""
    if over is not None:
        held = f"{_held(last, stretch)} to {_held(over, stretch)}" if stretch else _held(last, stretch)
        return held, f"{format_bytes(last, 1)} to {format_bytes(over, 1)}"
    if to_the_end:
        return "–", "–"
    return f"from {_held(last, stretch)}" if stretch else _held(last, stretch), f"from {format_bytes(last, 1)}"


def _held(array_bytes: int, stretch: float | None) -> str:
    """The bytes of the lines that are touched in an array."""
    return "line not known" if stretch is None else format_bytes(array_bytes / stretch, 1)


def _sparse(label: str, line_bytes: int, stretch: float | None) -> str:
    """Note on the bytes of lines of a curve whose nodes lie further apart than one line."""
    if stretch is None:
        return f"{label}: the device reports no line, so how many bytes of lines a level ends with is not known"
    return (
        f"{label}: each node touches one line, of {format_bytes(line_bytes)} as the device reports; a level holds at least the "
        "lines that it ends with, and more where a cache finds sets by address bits that all nodes share"
    )


def _curves(records: Sequence[Record], growing: str) -> list[tuple[tuple[str, Value], ...]]:
    return list(dict.fromkeys(_others(r, growing) for r in records))


def _others(record: Record, growing: str) -> tuple[tuple[str, Value], ...]:
    units = record.place.compute_units
    placed: tuple[tuple[str, Value], ...] = (
        () if units is None else (("compute_units", units), ("placement", record.place.placement))
    )
    return (*sorted((k, v) for k, v in record.params.items() if k != growing), *placed)


def cycles_cell(cycles: float | None) -> str:
    """Cycles, or a dash where the clock is not known."""
    return "–" if cycles is None else format_value(cycles)
