"""Tables of local memory banks: findings, latency by ways of conflict, and the effect of padding a tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.model import Run
from clmembench.report.finding_tables import finding_cell, interval_text, property_label, value_text
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.scorecard_cells import Line
from clmembench.report.table import Column, Table, columns
from clmembench.studies.access.banks import MAX_SUB_GROUP_WORK_ITEMS, BankAccess, BankStudy, bank_accesses, study_banks
from clmembench.units import format_value

COLUMN_STRIDE = 32  # stride of a column of a [32][32] tile
TILES = (
    (1, "row of a tile"),
    (COLUMN_STRIDE, "column of a [32][32] tile"),
    (COLUMN_STRIDE + 1, "column of a [32][33] tile, padded"),
)
MAX_STRIDES_SHOWN = 6


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Tables of the study of banks."""
    measured, unit = bank_accesses([row.value for row in rows if row.status == "ok"])
    if not measured:
        reasons = dict.fromkeys(f"{row.status}: {row.reason}" for row in rows)
        return [Table("Banks of local memory.", columns(("banks", "why")), (("no latency", "; ".join(reasons)),))]
    study = study_banks(measured, unit)
    bad = [row for row in rows if row.status != "ok"]
    notes = (f"{len(bad)} of {len(rows)} points have no value: {bad[0].status}: {bad[0].reason}",) if bad else ()
    return [
        _findings(study, unit, notes),
        *([_ways(measured, study, unit)] if study.banks is not None else []),
        *([_padding(measured, unit)] if any(a.stride == COLUMN_STRIDE for a in measured) else []),
    ]


def _findings(found: BankStudy, unit: str, notes: tuple[str, ...]) -> Table:
    called = {
        "free": "latency without a conflict",
        "way": "each further way of a conflict adds",
        "growth": "latency over ways",
        "together_4": "work-items whose 4-byte words are served at a time",
        "together_8": "work-items whose 8-byte words are served at a time",
    }
    rows = tuple(
        (
            called.get(name, property_label(name)),
            value_text(finding, interval=False),
            interval_text(finding) or "–",
            finding.reason,
        )
        for name, finding in found.findings.items()
    )
    return Table("Banks of local memory, inferred.", columns(("banks", "found", "95% interval", "why")), rows, notes)


def _ways(measured: Sequence[BankAccess], found: BankStudy, unit: str) -> Table:
    """Mei & Chu's table VIII: latency by the ways of a conflict."""
    rows = []
    free: dict[int, float] = {}
    for word_bytes in sorted({a.word_bytes for a in measured}):
        levels: dict[int, list[BankAccess]] = {}
        for a in measured:
            ways = (
                found.ways(a.stride, word_bytes, a.items)
                if a.items == MAX_SUB_GROUP_WORK_ITEMS and a.word_bytes == word_bytes
                else None
            )
            if ways is not None:
                levels.setdefault(ways, []).append(a)
        for ways, alike in sorted(levels.items()):
            values = sorted(a.latency for a in alike)
            median = values[len(values) // 2]
            first = free.setdefault(word_bytes, median)
            strides = [str(a.stride) for a in sorted(alike, key=lambda a: a.stride)]
            shown = ", ".join(strides[:MAX_STRIDES_SHOWN]) + (", ..." if len(strides) > MAX_STRIDES_SHOWN else "")
            span = f"{format_value(values[0])} to {format_value(values[-1])}" if len(values) > 1 else "–"
            rows.append((str(word_bytes), str(ways), shown, format_value(median), span, f"{median / first:.2f}"))
    title = "Latency by ways of bank conflict (Mei & Chu 2015, table VIII)."
    latency = Column("latency", is_number=True, unit=unit)
    header = ("banks: word in B", "ways", "at strides", latency, "range", "times the least")
    note = "ways: passes that the inferred banks need for the loads of 32 work-items"
    return Table(title, columns(header, left=3), tuple(rows), (note,))


def _padding(measured: Sequence[BankAccess], unit: str) -> Table:
    """Effect of padding each row of a tile by one word (Fang et al. 2017, section 6.2)."""
    rows = []
    for word_bytes in sorted({a.word_bytes for a in measured}):
        mine = {a.stride: a for a in measured if a.word_bytes == word_bytes and a.items == MAX_SUB_GROUP_WORK_ITEMS}
        for stride, what in TILES:
            if stride in mine and 1 in mine:
                a = mine[stride]
                span = f"{format_value(a.low)} to {format_value(a.high)}"
                rows.append((what, str(word_bytes), format_value(a.latency), span, f"{a.latency / mine[1].latency:.2f}"))
    latency = Column("latency", is_number=True, unit=unit)
    header = ("banks: 32 work-items read", "word in B", latency, "95% interval", "times a row's")
    return Table("Padding a tile in local memory by one word per row.", columns(header, left=2), tuple(rows))


def headlines(parts: Sequence[LabelledRun]) -> Iterator[Line]:
    """Banks of local memory, from the latencies of conflicts."""
    cells = []
    for part in parts:
        measured, unit = bank_accesses([row.value for row in part.rows if row.status == "ok"])
        findings = study_banks(measured, unit).findings if measured else {}
        finding = findings.get("banks", findings.get("memory"))  # ordinary memory has none
        cells.append(finding_cell(finding, "not measured: clmembench advise, benchmark banks"))
    if any(cell.status != "missing" for cell in cells):
        yield Line("capacity", "banks of local memory", "", tuple(cells))
