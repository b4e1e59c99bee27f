"""Outcome of a check against a baseline: PASS, FAIL or CANNOT DECIDE, and the smallest slowdown it could see. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clmembench.analysis.compare import MIN_SPEED_TO_PASS, Change, Comparison
from clmembench.units import count

Outcome = Literal["PASS", "FAIL", "CANNOT DECIDE"]
MAX_NAMED = 3  # values that a sentence names


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome, why, the smallest slowdown that would have been called (a factor; median and largest over the values; None
    where no value has a ratio), and how many values are open: undecided, or missing from the run."""

    outcome: Outcome
    reason: str
    smallest: float | None
    largest: float | None
    open: int


def judge(found: Comparison, margin: float) -> Judgement:
    """FAIL where a value is slower or its point broke. CANNOT DECIDE where no value was decided, or an undecided one looks less
    than SUSPICIOUS times as fast as the baseline: such a run is no ground to pass. PASS otherwise."""
    slower = [c for c in found.changes if c.verdict == "slower"]
    broken = [c for c in found.changes if c.broken]
    decided = found.count("same") + found.count("faster")
    suspicious = [
        c for c in found.changes if c.verdict == "undecided" and c.estimate is not None and c.estimate < MIN_SPEED_TO_PASS
    ]
    seen = [c.smallest for c in found.changes if c.smallest is not None]
    still_open = found.count("undecided") + len(found.only_first)
    total = count(len(found.changes), "value")
    if slower or broken:
        parts = [f"{len(slower)} of {total} slower"] if slower else []
        parts += [f"{len(broken)} failed ({_named(broken)})"] if broken else []
        outcome: Outcome = "FAIL"
        reason = ", and ".join(parts)
    elif suspicious:
        outcome = "CANNOT DECIDE"
        worst = min(c.estimate or 1.0 for c in suspicious)
        reason = (
            f"{len(suspicious)} of {total} look up to {1 / worst:.3g} times slower, but are not decided: {_named(suspicious)}"
        )
    elif not decided:
        outcome = "CANNOT DECIDE"
        reason = (
            f"none of {total} can be told from a change by {margin:.0%}" if found.changes else "the two have no value in common"
        )
    else:
        outcome = "PASS"
        reason = f"{decided} of {total} are the same or faster, within {margin:.0%}"
        if found.count("undecided"):
            reason += f"; {found.count('undecided')} undecided"
    return Judgement(outcome, reason, statistics.median(seen) if seen else None, max(seen) if seen else None, still_open)


def advice(judgement: Judgement) -> str:
    """Advice where nothing was decided."""
    if judgement.smallest is None:
        return "run the benchmarks of the baseline, with the same axes"
    wide = f", a --margin over {judgement.smallest - 1:.0%}" if judgement.smallest < 2 else ""
    return f"use more --processes on a quiet host{wide}, or decide by an interleaved run: compare --live"


def _named(changes: Sequence[Change]) -> str:
    names = [" ".join([c.benchmark, *(f"{k}={v}" for k, v in c.params.items())]) for c in changes]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
