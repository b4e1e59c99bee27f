"""The outcome of an interleaved A/B run: lines for people, an object for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clmembench.report import render
from clmembench.report.table import Column, Table
from clmembench.sanitize import MAX_LINE_CHARACTERS, printable
from clmembench.studies.ab.ab_decision import Outcome
from clmembench.units import format_in, format_params

COLUMNS = tuple(Column(name, max_cell=MAX_LINE_CHARACTERS) for name in ("", "value", "A", "B", "B / A", "rounds", "could see"))
ORDER = ("failed", "slower", "faster", "undecided", "same")


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of a run: its sides in words, margin, error and seed; its results files, rounds and seconds."""

    sides: tuple[str, str]
    margin: float
    error: float
    seed: int
    files: tuple[str, str]
    rounds: int
    seconds: float


def outcome_text(outcomes: Sequence[Outcome], setting: Setting, width: int | None = None) -> str:
    """Verdicts, the most urgent first, then the settings of the run; no wider than `width` columns."""
    rows: list[tuple[str, ...]] = []
    shown = [o for verdict in ORDER for o in outcomes if o.verdict == verdict]
    for o in shown:
        name = printable(f"{o.benchmark} {format_params(dict(o.params))}".strip())
        ratio, found = o.ratio, o.decision
        text = f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else "–"
        sees = f"{found.smallest:.1%} slower" if found.smallest is not None else "–"
        values = [format_in(v, o.unit, 4) if v is not None else "–" for v in (o.a, o.b)]
        rows.append((o.verdict, f"{name}: {o.metric}", *values, text, str(found.rounds), sees))
    lines = render.aligned(Table("", COLUMNS, tuple(rows)), indent="", width=width)
    notes = [
        f"note: {o.benchmark} {o.metric}: {text}" for o in shown for text in (o.failed, o.decision.reason, *o.notes) if text
    ]
    said_below = [
        *dict.fromkeys(notes),
        "",
        *(f"{name}: {text}" for name, text in zip("AB", setting.sides, strict=True)),
        f"{setting.rounds} rounds in {setting.seconds:.0f} s, margin {setting.margin:.1%}, "
        f"probability of a false verdict at most {setting.error:.0%}",
        f"Results: {setting.files[0]} {setting.files[1]}",
    ]
    return "\n".join([*lines, *render.wrapped(said_below, width)])


def outcome_object(outcomes: Sequence[Outcome], setting: Setting) -> dict[str, Any]:
    """Settings and a list of values, for JSON."""
    values = [
        {
            "benchmark": o.benchmark,
            "params": dict(o.params),
            "metric": o.metric,
            "unit": o.unit,
            "better": o.better,
            "verdict": o.verdict,
            "a": o.a,
            "b": o.b,
            "ratio": asdict(o.ratio) if o.ratio else None,
            "gain": asdict(o.decision.gain) if o.decision.gain else None,
            "rounds": o.decision.rounds,
            "smallest_slowdown": o.decision.smallest,
            "reason": o.failed or o.decision.reason,
            "notes": list(o.notes),
        }
        for o in outcomes
    ]
    return {**asdict(setting), "values": values}
