"""Table of intensity: bandwidth, plateau and knee of each type and level, beside the roofs of the same run."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.analysis.derive import derive
from clmembench.analysis.roofs import MEMORY, Roof, cache_bytes_of, compute_roofs, level_roofs
from clmembench.model import Run
from clmembench.report.finding_tables import interval_text
from clmembench.report.frame import Row, sheet_of
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.report.views import percent
from clmembench.studies.access.intensity_knee import PLATEAU_SHARE, IntensityCurve, intensity_curves, knee
from clmembench.units import format_value

SHARED_CACHES = ("L2", "cached")  # roofs that bound a set which all units share, by how their names begin
ROOF_BENCHMARKS = ("arithmetic", "stream", "cache_read", "copy_grid", "datatypes")
TITLE = "Rate over arithmetic intensity: where it stops growing (Williams, Waterman & Patterson 2009)."
NOTES = (
    f"knee: {PLATEAU_SHARE:.0%} of the plateau is reached, between the points of the interval; peak / bandwidth: that of "
    "arithmetic over that of memory, or of the cache, by other benchmarks of this run",
    "least of roof: this kernel's roof is bandwidth x intensity up to the plateau; about the knee both limits bind at once",
)


def sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """One line for each type and level."""
    curves = intensity_curves([row.value for row in rows])
    roofs = run_roofs(run)
    header = ["intensity: type", "from", "bandwidth, GB/s", "plateau, Gop/s", "knee, FLOP/B", "interval"]
    header += ["peak / bandwidth", "least of roof", "at FLOP/B"]
    bad = [row for row in rows if not row.is_good]
    notes = (f"{len(bad)} of {len(rows)} points have no value: {bad[0].status}: {bad[0].reason}",) if bad else ()
    cells = tuple(_cells(curve, roofs) for curve in curves)
    return [noted(Table(TITLE, columns(header, left=2), cells, (*notes, *NOTES)))]


def run_roofs(run: Run) -> list[Roof]:
    """The roofs that other benchmarks of the run measured."""
    values = [(value, None) for value in derive(run, ROOF_BENCHMARKS)]
    levels = level_roofs(values, run.header.device, cache_bytes_of(run.header.device, sheet_of(run)))
    return [*compute_roofs(values), *levels]


def ratio_of_roofs(curve: IntensityCurve, roofs: Sequence[Roof]) -> float | None:
    """Peak over bandwidth by the roofs of the run; None where it has not both."""
    top = next((roof.rate.value for roof in roofs if roof.precision == curve.dtype and roof.unit != "GB/s"), None)
    slope = next((roof.rate.value for roof in roofs if roof.unit == "GB/s" and _is_level(roof.name, curve.level)), None)
    return None if top is None or slope is None else top / slope


def _is_level(name: str, level: str) -> bool:
    return name == MEMORY if level == "memory" else name.startswith(SHARED_CACHES)


def _cells(curve: IntensityCurve, roofs: Sequence[Roof]) -> tuple[Entry, ...]:
    found, (share, at) = knee(curve), curve.least_share()
    value: Entry = Cell(found.status, reason=found.reason)
    if isinstance(found.value, int | float):
        value = format_value(float(found.value))
    rates = (format_value(curve.bandwidth.value, 4), format_value(curve.best.value, 4))
    ratio = format_value(ratio_of_roofs(curve, roofs))
    span = interval_text(found).removesuffix(f" {found.unit}") or "–"
    return (curve.dtype, curve.level, *rates, value, span, ratio, percent(share), f"{at:g}")
