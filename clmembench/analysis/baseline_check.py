"""Outcome of a check against a baseline: PASS, FAIL or CANNOT DECIDE, and the smallest slowdown it could see. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clmembench.analysis.compare import MIN_SPEED_TO_PASS, Change, Comparison
from clmembench.analysis.matching import Uncompared
from clmembench.units import count

Outcome = Literal["PASS", "FAIL", "CANNOT DECIDE"]
MAX_NAMED = 3  # values that a sentence names


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome, why, the smallest slowdown that would have been called (a factor; median and largest over the values; None
    where no value has a ratio), how many values of the baseline were not compared, and how many of all are open: undecided, or
    not compared."""

    outcome: Outcome
    reason: str
    smallest: float | None
    largest: float | None
    left_out: int
    open: int


def judge(found: Comparison, margin: float, allow_left_out: bool = False) -> Judgement:
    """FAIL where a value is slower or its point broke. CANNOT DECIDE where no value was decided, an undecided one looks less
    than MIN_SPEED_TO_PASS times as fast as the baseline, or values of the baseline were not compared, unless
    `allow_left_out`. PASS otherwise."""
    slower = [c for c in found.changes if c.verdict == "slower"]
    every: list[Change | Uncompared] = [*found.changes, *found.uncompared]
    broken = [c for c in every if c.broken]
    decided = found.count("same") + found.count("faster")
    undecided = [c for c in found.changes if c.verdict == "undecided" and c.ratio is not None]
    suspicious = [
        c for c in found.changes if c.verdict == "undecided" and c.estimate is not None and c.estimate < MIN_SPEED_TO_PASS
    ]
    seen = [c.smallest for c in found.changes if c.smallest is not None]
    lost = [c for c in every if (isinstance(c, Uncompared) or c.left_out) and not c.broken]
    values = decided + len(slower) + len(undecided) + len({id(c) for c in (*broken, *lost)})
    total = count(values, "value")
    not_compared = f"{len(lost)} of {total} of the baseline were not compared ({_reasons(lost)})" if lost else ""
    outcome: Outcome = "CANNOT DECIDE"
    if slower or broken:
        outcome = "FAIL"
        parts = [f"{len(slower)} of {total} slower"] if slower else []
        parts += [f"{len(broken)} failed ({_named(broken)})"] if broken else []
        reason = ", and ".join(parts)
    elif suspicious:
        worst = min(c.estimate or 1.0 for c in suspicious)
        reason = (
            f"{len(suspicious)} of {total} look up to {1 / worst:.3g} times slower, but are not decided: {_named(suspicious)}"
        )
    elif not decided:
        unclear = f"none of {total} can be told from a change by {margin:.0%}"
        reason = unclear if found.changes else "the two have no value in common"
    else:
        outcome = "PASS" if allow_left_out or not lost else "CANNOT DECIDE"
        reason = f"{decided} of {total} are the same or faster, within {margin:.0%}"
        reason += f"; {len(undecided)} undecided" if undecided else ""
    reason = "; ".join(filter(None, (reason, not_compared)))
    still_open = len(undecided) + len(lost)
    return Judgement(outcome, reason, statistics.median(seen) if seen else None, max(seen, default=None), len(lost), still_open)


def advice(judgement: Judgement) -> str:
    """Advice where nothing was decided, or values of the baseline were not compared."""
    if judgement.smallest is None and not judgement.left_out:
        return "run the benchmarks of the baseline, with the same axes"
    if judgement.left_out:
        return (
            "measure what is missing, create a baseline of what changed (--force compares changed kernels), choose values by "
            "-b, -s or -a, or pass without the others by --allow-left-out"
        )
    wide = f", a --margin over {judgement.smallest - 1:.0%}" if judgement.smallest and judgement.smallest < 2 else ""
    return f"use more --processes on a quiet host{wide}, or decide by an interleaved run: compare --live"


def _reasons(lost: Sequence[Change | Uncompared]) -> str:
    """Why values were not compared, the most frequent reason first, each with the number of its values or their names."""
    groups: dict[str, list[Change | Uncompared]] = {}
    for one in lost:
        groups.setdefault(one.reason, []).append(one)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    told = [f"{len(of)}: {reason}{'' if of[0].benchmark in reason else f': {_named(of)}'}" for reason, of in ordered]
    more = f"; and {len(told) - MAX_NAMED} more reasons" if len(told) > MAX_NAMED else ""
    return "; ".join(told[:MAX_NAMED]) + more


def _named(changes: Sequence[Change | Uncompared]) -> str:
    names = list(dict.fromkeys(" ".join([c.benchmark, *(f"{k}={v}" for k, v in c.params.items())]) for c in changes))
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
