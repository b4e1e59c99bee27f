"""The outcome of an interleaved A/B run: lines for people, and the object that JSON has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clmembench.report import render
from clmembench.report.table import Column, Table
from clmembench.sanitize import MAX_LINE_CHARACTERS, printable
from clmembench.studies.ab.ab_decision import Outcome
from clmembench.units import format_in, format_params

COLUMNS = tuple(Column(name, max_cell=MAX_LINE_CHARACTERS) for name in ("", "value", "A", "B", "B / A", "rounds", "could see"))
ORDER = ("failed", "slower", "faster", "undecided", "same")


@dataclass(frozen=True, slots=True)
class LiveComparison:
    """An interleaved A/B run: its settings and values."""

    sides: Sequence[str]
    margin: float
    error: float
    seed: int
    files: Sequence[str]
    rounds: int
    seconds: float
    values: Sequence[Outcome]


@dataclass(frozen=True, slots=True)
class LayerComparison(LiveComparison):
    """An interleaved A/B run: its settings and values; `layer`, of run --runtime opencl,sycl: sentences on what the layer
    costs."""

    layer: Sequence[str] = field(default_factory=list)


def comparison_text(found: LiveComparison, width: int | None = None) -> str:
    """Verdicts, the most urgent first, then the settings of the run; no wider than `width` columns."""
    rows: list[tuple[str, ...]] = []
    shown = [o for verdict in ORDER for o in found.values if o.verdict == verdict]
    for o in shown:
        name = printable(f"{o.benchmark} {format_params(dict(o.params))}".strip())
        text = f"{o.ratio.value:.3f} ({o.ratio.low:.3f} to {o.ratio.high:.3f})" if o.ratio else "–"
        sees = f"{o.smallest_slowdown:.1%} slower" if o.smallest_slowdown is not None else "–"
        values = [format_in(v, o.unit, 4) if v is not None else "–" for v in (o.a, o.b)]
        rows.append((o.verdict, f"{name}: {o.metric}", *values, text, str(o.rounds), sees))
    lines = render.aligned(Table("", COLUMNS, tuple(rows)), indent="", width=width)
    notes = [f"note: {o.benchmark} {o.metric}: {text}" for o in shown for text in (o.reason, *o.notes) if text]
    said_below = [
        *dict.fromkeys(notes),
        "",
        *(f"{name}: {text}" for name, text in zip("AB", found.sides, strict=True)),
        f"{found.rounds} rounds in {found.seconds:.0f} s, margin {found.margin:.1%}, "
        f"probability of a false verdict at most {found.error:.0%}",
        f"Results: {found.files[0]} {found.files[1]}",
    ]
    return "\n".join([*lines, *render.wrapped(said_below, width)])
