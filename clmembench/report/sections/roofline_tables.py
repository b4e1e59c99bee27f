"""The roofline of a run as tables and objects: its roofs, kernels, and values of the run that measure one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clmembench.analysis import roofline as model
from clmembench.analysis.roofline import COMPULSORY_BYTES, KernelPosition, Roofline
from clmembench.analysis.roofs import MEMORY, Roof
from clmembench.gates import agreement
from clmembench.gates.agreement import AgreementPair
from clmembench.model import Run
from clmembench.report.frame import RooflinePosition, Row
from clmembench.report.table import Cell, Column, Entry, Table, columns, noted
from clmembench.report.views import point_labels
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in, format_interval, format_value

SOURCE = "Williams, Waterman & Patterson 2009"
ROOFS = f"The roofs of kernels, as measured ({SOURCE})."
KERNELS = "Kernels under their roofs: the least of memory's bandwidth x FLOP/B and of arithmetic bounds each."

AGREEMENT_TITLE = "Agreement: values of this run that measure one thing, each beside the best of them."


def derive_roofline(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Roofline | None:
    """The roofline of a run's rows; None where it has no roof of arithmetic or none of memory."""
    return model.roofline([(row.value, row.peak) for row in table], run.header.benchmarks, run.header.device, sheet)


def sections(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> list[Table]:
    """The roofs, and the kernels under them; nothing where the run has no roofline."""
    roofline = derive_roofline(run, table, sheet)
    return tables(roofline, table) if roofline is not None else []


def tables(roofline: Roofline, table: Sequence[Row]) -> list[Table]:
    """Tables of a roofline; `table` has the rows that it was derived from."""
    header = ("roof", "measured", "95% interval", "theoretical", "of it", Column("measured by"))
    roofs = Table(ROOFS, columns(header), tuple(map(_roof_cells, roofline.roofs)), _roof_notes(roofline))
    named = {id(row.value): name for name, row in zip(point_labels(table), table, strict=True)}
    heading = ("kernel", "parameters", "FLOP/B", "GFLOP/s", "bound by", "roof there", "of roof", "95% interval")
    rows = tuple(_kernel_cells(p, named.get(id(p.value), "")) for p in roofline.placed)
    return [roofs, Table(KERNELS, columns((*heading, Column("remark")), left=2), rows, _kernel_notes(roofline))]


def _roof_cells(roof: Roof) -> tuple[str, ...]:
    rate, peak = roof.rate, roof.theoretical
    share = f"{rate.value / peak.value:.1%}" if peak else "–"
    theoretical = format_in(peak.value, peak.unit, 4) if peak else "–"
    measured = format_in(rate.value, roof.unit, 4)
    return roof.name, measured, format_interval(rate.low, rate.high, roof.unit, 4), theoretical, share, roof.source


def _roof_notes(roofline: Roofline) -> tuple[str, ...]:
    memory = next(roof for roof in roofline.levels if roof.name == MEMORY)
    turns = [
        f"{roof.name} above {format_value(roof.rate.value / memory.rate.value)} FLOP/B"
        for roof in roofline.roofs
        if roof.unit == "GFLOP/s"
    ]
    bounds = f"memory bounds what does fewer FLOP a byte, arithmetic the rest: {', '.join(turns)}"
    return (bounds, *(roof.note for roof in roofline.roofs if roof.note))


def _kernel_cells(p: KernelPosition, name: str) -> tuple[str, ...]:
    share = f"{p.share.low:.1%} to {p.share.high:.1%}"
    limit, rate = format_value(p.limit.value, 4), format_value(p.gflop_s.value, 4)
    bound = "a cache" if p.over and p.cached and p.bound.name == MEMORY else p.bound.name
    cells = (format_value(p.intensity), rate, bound, limit, f"{p.share.value:.1%}", share)
    return (p.value.benchmark, name, *cells, caveat(p))


def caveat(p: KernelPosition) -> str:
    """Caveat on the position of a kernel under its roofs; "" where there is none."""
    if p.over and p.bound.unit == "GFLOP/s":
        return f"over the {p.bound.name} roof: one of the two is off"
    if p.over and p.cached:
        return f"over the memory roof: its data, {format_bytes(p.memory_bytes, 1)}, fit a cache"
    if p.over:
        return f"over the memory roof, and its {format_bytes(p.memory_bytes, 1)} fit no cache as stated: one of them is off"
    return f"{format_bytes(p.memory_bytes, 1)} fit a cache as stated" if p.cached and p.bound.name == MEMORY else ""


def _kernel_notes(roofline: Roofline) -> tuple[str, ...]:
    notes = ["FLOP/B are of bytes of memory as each benchmark counts them; inner levels' traffic is not known, so no kernel is "
             "held against their roofs"]  # fmt: skip
    if any(p.counted == COMPULSORY_BYTES for p in roofline.placed):
        notes.append(f"for products of dense matrices the bytes are the compulsory ones: {COMPULSORY_BYTES.partition(': ')[2]}")
    if any(p.cached for p in roofline.placed):
        notes.append(f"the cache as stated: {format_bytes(roofline.cache_bytes, 1)}; memory need not bound what fits it")
    if roofline.left:
        count = sum(roofline.left.values())
        why = ", ".join(f"{n} {reason}" for reason, n in sorted(roofline.left.items()))
        notes.append(f"{count} point{'s have' if count > 1 else ' has'} no place: {why}")
    return tuple(notes)


def by_point(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Mapping[int, RooflinePosition]:
    """The position of each kernel under its roofs, by the index of its row."""
    roofline = derive_roofline(run, table, sheet)
    placed = {id(p.value): p for p in roofline.placed} if roofline is not None else {}
    return {index: _position(placed[id(row.value)]) for index, row in enumerate(table) if id(row.value) in placed}


def _position(p: KernelPosition) -> RooflinePosition:
    """One kernel under its roofs, as tidy columns."""
    return RooflinePosition(
        precision=p.precision,
        flop_per_byte=p.intensity,
        memory_bytes=p.memory_bytes,
        bytes_are=p.counted,
        gflop_s=p.gflop_s.value,
        bound_by=p.bound.name,
        roof_gflop_s=p.limit.value,
        fraction_of_roof=p.share.value,
        fraction_low=p.share.low,
        fraction_high=p.share.high,
        fits_a_cache=p.cached,
        over_its_roof=p.over,
        bound_measured=p.bound.rate.value,
        bound_unit=p.bound.unit,
        bound_by_records=p.bound.evidence,
    )


def agreement_section(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> Table | None:
    """A line for each pair, contradictions first; None where the run has no two values of one thing."""
    pairs = agreement.pairs([row.value for row in table], run, sheet)
    if not pairs:
        return None
    rows = tuple(map(_agreement_cells, sorted(pairs, key=lambda pair: not pair.contradicts)))
    header = ("quantity", "best", "other", "best value", "other value", "other / best", "95% interval", Column("why"))
    wrong = sum(pair.contradicts for pair in pairs)
    notes = (f"contradictions: {wrong} of {count(len(pairs), 'pair')}, whose values are suspect",) if wrong else ()
    return noted(Table(AGREEMENT_TITLE, columns(header, left=3), rows, notes))


def _agreement_cells(pair: AgreementPair) -> tuple[Entry, ...]:
    values = (format_in(v.median, v.unit, 4) for v in (pair.better, pair.other))
    why = Cell("CONTRADICTION" if pair.contradicts else "", reason=pair.why)
    interval = f"{pair.share_low:.3f} to {pair.share_high:.3f}"
    return (pair.name, pair.better_label, pair.other_label, *values, f"{pair.share:.3f}", interval, why)
