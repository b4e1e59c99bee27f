"""Gain of each optimisation of a case study over the version before it, and the verdict on whether it paid off."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived, derive, key_of
from clmembench.model import Finding, Run

Verdict = Literal["paid off", "no difference", "cost", "no gain", "undecided"]
WORDS: Mapping[str, Verdict] = {"more": "paid off", "less": "cost", "same": "no difference"}
# Thresholds and limits, each with its reason
SEVERAL = 6  # pairs of versions: from fewer no common deviation is estimated
LEAST = 0.003  # standard deviation of a log ratio: clocks and temperatures alone cause that much
PAIRED = 3  # processes that measured both: from fewer no deviation of their ratio is estimated
METHOD = "ratio of medians within each process, with how much processes differ; of fewer than 3, of all samples"


@dataclass(frozen=True, slots=True)
class Change:
    """A version, the one that it changes, what is changed, and the guidelines of Fang et al. (section 7) that ask for it, as
    section 8 names them; "" where it names none."""

    variant: str
    over: str
    what: str
    guideline: str


CHANGES: Mapping[str, tuple[Change, ...]] = {
    "mnf_filter": (
        Change("V0n", "V0", "the median by exchanges, no array", "L3"),
        Change("V1", "V0n", "mean for median: another filter", ""),
        Change("V2", "V1", "pieces of three rows in local memory", "S5"),
        Change("V3", "V2", "tiles with their rims in local memory", "S6"),
    ),
    "mnf_covariance": (
        Change("V1", "V0", "tree of partial sums in local memory", "S5"),
        Change("V2", "V1", "running sum named a register", ""),
        Change("V3", "V2", "an item a pair, tiles in local memory", "S5, S6"),
        Change("V4", "V3", "rows of tiles padded to other banks", "S1"),
        Change("V4", "V2", "padded tiles in place of sums a pair", "S5, S6, S1"),
    ),
    "mnf_transform": (
        Change("V1", "V0", "T in constant memory, in the program", "C2"),
        Change("V2", "V1", "X in local memory", "S5, S6"),
        Change("V1p", "V0", "T in constant memory, by a pointer", "C2"),
        Change("V2p", "V1p", "X in local memory", "S5, S6"),
    ),
}


@dataclass(frozen=True, slots=True)
class Gain:
    """A version of a step against the one before it and against V0; `of` distinguishes the covariances. The first version has
    neither. What cannot be compared has no ratio, and a reason."""

    benchmark: str
    variant: str
    of: str
    value: Derived
    change: Change | None
    over_previous: stats.Ratio | None
    over_first: stats.Ratio | None
    verdict: Verdict | None
    reason: str
    evidence: tuple[str, ...]

    def finding(self) -> Finding:
        """The gain over the version before as a finding."""
        name = " ".join(
            filter(None, (self.benchmark, self.of, self.variant, f"over {self.change.over}" if self.change else ""))
        )
        ratio = self.over_previous
        if ratio is None:
            return Finding(name, None, None, None, "", "undetermined", METHOD, self.evidence, self.reason)
        status: Literal["ok", "undetermined"] = "undetermined" if self.verdict == "undecided" else "ok"
        return Finding(name, ratio.value, ratio.low, ratio.high, "", status, METHOD, self.evidence, self.reason)


def gains(run: Run, prior: float, margin: float) -> list[Gain]:
    """Every version of every step of a run, as its records stand; one that changes two others is there twice.

    `prior` is the standard deviation of the logarithm that processes on such devices have anyway (stats.ratio), `margin` what
    `gain_verdict` takes. How much ratios within a process differ from one process to the next is what the run itself says.
    """
    values = [value for value in derive(run) if value.benchmark in CHANGES]
    pairs = spread(_pairs(values), prior)
    found = []
    for benchmark, changes in CHANGES.items():
        mine = [value for value in values if value.benchmark == benchmark]
        for of in dict.fromkeys(_of(value) for value in mine):
            by_variant = {str(value.params["variant"]): value for value in mine if _of(value) == of}
            compared: list[tuple[str, Change | None]] = [("V0", None), *((change.variant, change) for change in changes)]
            found += [
                _gain(run, by_variant, of, variant, change, (prior, pairs), margin)
                for variant, change in compared
                if variant in by_variant
            ]
    return found


def decided(gain: stats.Ratio, margin: float) -> Verdict:
    """Verdict by the whole interval of a gain: it paid off (over 1 + margin), was a cost (below the inverse of that), made no
    difference (within both), or was no gain, be it a cost or nothing (not over 1 + margin); else nothing is decided."""
    return WORDS.get(gain.verdict(margin)) or ("no gain" if gain.high <= 1 + margin else "undecided")


def _of(value: Derived) -> str:
    return str(value.params.get("of", ""))


def _pairs(values: Sequence[Derived]) -> list[tuple[Derived, Derived]]:
    """Each version's value with that of the one before it."""
    of = {(value.benchmark, _of(value), value.params["variant"]): value for value in values}
    asked = [(of.get((b, k, c.over)), of.get((b, k, c.variant))) for b, k in {key[:2]: 0 for key in of} for c in CHANGES[b]]
    return [(slow, quick) for slow, quick in asked if slow is not None and quick is not None]


def spread(pairs: Sequence[tuple[Derived, Derived]], prior: float) -> float:
    """The standard deviation that the logarithm of a ratio within one process has from one process to the next: the median over
    six pairs at least that were measured in three processes or more; else that of two independent values of `prior`."""
    found = []
    for slow, quick in pairs:
        both = shared(slow, quick)
        if usable(slow) and usable(quick) and len(both) >= PAIRED:
            logs = [math.log(a / b) for a, b in both]
            # the median of deviations of few is below the deviation (chi-squared; Wilson & Hilferty 1931)
            found.append(statistics.stdev(logs) / (1 - 2 / (9 * (len(both) - 1))) ** 1.5)
    return max(LEAST, statistics.median(found)) if len(found) >= SEVERAL else math.sqrt(2) * prior


def _gain(
    run: Run,
    values: Mapping[str, Derived],
    of: str,
    variant: str,
    change: Change | None,
    priors: tuple[float, float],
    margin: float,
) -> Gain:
    this = values[variant]
    previous = values.get(change.over) if change else None
    first = values.get("V0") if change else None
    ratio, whole = (speed_up(other, this, *priors) if other is not None else None for other in (previous, first))
    reason = "" if change is None else why_not([(change.over, previous), (variant, this)])
    evidence = _evidence(run, [value for value in (previous, this) if value is not None])
    verdict = decided(ratio, margin) if ratio is not None else None
    if verdict == "undecided":
        reason = f"the interval reaches over {1 + margin:g}, and below: measure in more processes on a quiet host"
    return Gain(this.benchmark, variant, of, this, change, ratio, whole, verdict, reason, evidence)


def why_not(values: Sequence[tuple[str, Derived | None]]) -> str:
    """Why values cannot be compared: the first that has no number; "" where all have."""
    for name, value in values:
        if value is None:
            return f"{name} was not measured"
        if not usable(value):
            return f"{name} is {value.status}" + (f": {value.reason}" if value.reason else "")
    return ""


def usable(value: Derived) -> bool:
    """True if a value may be compared."""
    return value.status == "ok" and bool(value.medians) and min(value.medians) > 0


def shared(slow: Derived, quick: Derived) -> list[tuple[float, float]]:
    """Both medians of each process that both were measured in. Each benchmark has processes of its own: others share none."""
    if slow.benchmark != quick.benchmark:
        return []
    of = dict(zip(quick.measured_in, quick.medians, strict=True))
    return [(a, of[n]) for n, a in zip(slow.measured_in, slow.medians, strict=True) if n in of]


def speed_up(slow: Derived, quick: Derived, prior: float, pairs: float | None = None) -> stats.Ratio | None:
    """How many times the time of `quick` that of `slow` is, with its 95% interval; None where either has no value.

    Where three processes or more measured both, it is of the ratios within each of these: what slows a whole process is in
    both. Else it is of the medians of their processes (stats.ratio; both are of one run), no narrower than the intervals
    of both medians allow, combined on the logarithm (method of variance estimates recovery, Zou & Donner 2008).
    `prior` is as stats.ratio takes it, `pairs` as `log_ratio_deviation` gives it.
    """
    if not usable(slow) or not usable(quick):
        return None
    both = shared(slow, quick)
    if len(both) >= PAIRED:
        return stats.paired_ratio([b for _, b in both], [a for a, _ in both], math.sqrt(2) * prior if pairs is None else pairs)
    found = stats.ratio(quick.medians, slow.medians, prior, 0.0)
    below = math.hypot(_reach(slow.ci_low, slow.median), _reach(quick.median, quick.ci_high))
    above = math.hypot(_reach(slow.median, slow.ci_high), _reach(quick.ci_low, quick.median))
    low, high = found.value * math.exp(-below), found.value * math.exp(min(above, stats.MOST_LOG))
    return stats.Ratio(found.value, min(found.low, low), max(found.high, high))


def _reach(low: float | None, high: float | None) -> float:
    """How far two times are apart on the logarithm; without bound where one is not known, or is none."""
    if low is None or high is None or low <= 0:
        return math.inf
    return math.log(high / low)


def _evidence(run: Run, values: Sequence[Derived]) -> tuple[str, ...]:
    keys = [value.key for value in values]
    return tuple(
        f"{record.benchmark}:{record.index}" + (f"/{record.process}" if record.process else "")
        for record in run.records
        if record.role == "measure" and key_of(record) in keys
    )
