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

GainVerdict = Literal["paid off", "no difference", "cost", "no gain", "undecided"]
VERDICT_OF_COMPARISON: Mapping[str, GainVerdict] = {"more": "paid off", "less": "cost", "same": "no difference"}
# Thresholds and limits, each with its reason
MIN_VERSION_PAIRS = 6  # pairs of versions: from fewer no common deviation is estimated
MIN_LOG_RATIO_DEVIATION = 0.003  # standard deviation of a log ratio: clocks and temperatures alone cause that much
MIN_COMMON_PROCESSES = 3  # processes that measured both: from fewer no deviation of their ratio is estimated
GAIN_METHOD = "ratio of medians within each process, with the variation between processes; with fewer than 3, of all samples"


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version, the one that it changes, what is changed, and the guidelines of Fang et al. (section 7) that recommend it
    according to section 8; "" if it names none."""

    variant: str
    over: str
    what: str
    guideline: str


VERSION_CHANGES: Mapping[str, tuple[VersionChange, ...]] = {
    "mnf_filter": (
        VersionChange("V0n", "V0", "the median by exchanges, no array", "L3"),
        VersionChange("V1", "V0n", "mean for median: another filter", ""),
        VersionChange("V2", "V1", "pieces of three rows in local memory", "S5"),
        VersionChange("V3", "V2", "tiles with their rims in local memory", "S6"),
    ),
    "mnf_covariance": (
        VersionChange("V1", "V0", "tree of partial sums in local memory", "S5"),
        VersionChange("V2", "V1", "running sum named a register", ""),
        VersionChange("V3", "V2", "an item a pair, tiles in local memory", "S5, S6"),
        VersionChange("V4", "V3", "rows of tiles padded to other banks", "S1"),
        VersionChange("V4", "V2", "padded tiles in place of sums a pair", "S5, S6, S1"),
    ),
    "mnf_transform": (
        VersionChange("V1", "V0", "T in constant memory, in the program", "C2"),
        VersionChange("V2", "V1", "X in local memory", "S5, S6"),
        VersionChange("V1p", "V0", "T in constant memory, by a pointer", "C2"),
        VersionChange("V2p", "V1p", "X in local memory", "S5, S6"),
    ),
}


@dataclass(frozen=True, slots=True)
class VersionGain:
    """A version of a step against the previous one and against V0; `of` distinguishes the covariances. The first version has
    neither ratio. Values that cannot be compared have a reason instead of a ratio."""

    benchmark: str
    variant: str
    of: str
    value: Derived
    change: VersionChange | None
    over_previous: stats.Ratio | None
    over_first: stats.Ratio | None
    verdict: GainVerdict | None
    reason: str
    evidence: tuple[str, ...]

    def finding(self) -> Finding:
        """The gain over the version before as a finding."""
        name = " ".join(
            filter(None, (self.benchmark, self.of, self.variant, f"over {self.change.over}" if self.change else ""))
        )
        ratio = self.over_previous
        if ratio is None:
            return Finding(name, None, None, None, "", "undetermined", GAIN_METHOD, self.evidence, self.reason)
        status: Literal["ok", "undetermined"] = "undetermined" if self.verdict == "undecided" else "ok"
        return Finding(name, ratio.value, ratio.low, ratio.high, "", status, GAIN_METHOD, self.evidence, self.reason)


def version_gains(run: Run, prior: float, margin: float) -> list[VersionGain]:
    """Every version of every step of a run, from its records; a version that changes two others appears twice.

    `prior` is the usual standard deviation of log values between processes on such devices (stats.ratio), `margin` that of
    `gain_verdict`. The variation between processes of ratios within a process is estimated from the run itself."""
    values = derive(run, VERSION_CHANGES)
    pairs = log_ratio_deviation(_version_pairs(values), prior)
    gains = []
    for benchmark, changes in VERSION_CHANGES.items():
        mine = [value for value in values if value.benchmark == benchmark]
        for of in dict.fromkeys(_covariance_kind(value) for value in mine):
            by_variant = {str(value.params["variant"]): value for value in mine if _covariance_kind(value) == of}
            compared: list[tuple[str, VersionChange | None]] = [("V0", None), *((change.variant, change) for change in changes)]
            gains += [
                _version_gain(run, by_variant, of, variant, change, (prior, pairs), margin)
                for variant, change in compared
                if variant in by_variant
            ]
    return gains


def gain_verdict(gain: stats.Ratio, margin: float) -> GainVerdict:
    """Verdict by the whole interval of a gain: it paid off (over 1 + margin), was a cost (below the inverse of that), made no
    difference (within both), or was no gain, be it a cost or nothing (not over 1 + margin); else nothing is decided."""
    return VERDICT_OF_COMPARISON.get(gain.verdict(margin)) or ("no gain" if gain.high <= 1 + margin else "undecided")


def _covariance_kind(value: Derived) -> str:
    return str(value.params.get("of", ""))


def _version_pairs(values: Sequence[Derived]) -> list[tuple[Derived, Derived]]:
    """Each version's value with that of the one before it."""
    of = {(value.benchmark, _covariance_kind(value), value.params["variant"]): value for value in values}
    candidates = [
        (of.get((b, k, c.over)), of.get((b, k, c.variant))) for b, k in {key[:2]: 0 for key in of} for c in VERSION_CHANGES[b]
    ]
    return [(slow, quick) for slow, quick in candidates if slow is not None and quick is not None]


def log_ratio_deviation(pairs: Sequence[tuple[Derived, Derived]], prior: float) -> float:
    """The standard deviation, between processes, of the logarithm of a ratio within a process: the median over the pairs that
    three processes or more measured, if these are at least six; else that of two independent values of `prior`."""
    deviations = []
    for slow, quick in pairs:
        both = common_process_medians(slow, quick)
        if is_usable(slow) and is_usable(quick) and len(both) >= MIN_COMMON_PROCESSES:
            logs = [math.log(a / b) for a, b in both]
            # the median of deviations of few is below the deviation (chi-squared; Wilson & Hilferty 1931)
            deviations.append(statistics.stdev(logs) / (1 - 2 / (9 * (len(both) - 1))) ** 1.5)
    return (
        max(MIN_LOG_RATIO_DEVIATION, statistics.median(deviations))
        if len(deviations) >= MIN_VERSION_PAIRS
        else math.sqrt(2) * prior
    )


def _version_gain(
    run: Run,
    values: Mapping[str, Derived],
    of: str,
    variant: str,
    change: VersionChange | None,
    priors: tuple[float, float],
    margin: float,
) -> VersionGain:
    this = values[variant]
    previous = values.get(change.over) if change else None
    first = values.get("V0") if change else None
    ratio, whole = (speed_up_ratio(other, this, *priors) if other is not None else None for other in (previous, first))
    reason = "" if change is None else why_not_comparable([(change.over, previous), (variant, this)])
    evidence = _evidence_of_values(run, [value for value in (previous, this) if value is not None])
    verdict = gain_verdict(ratio, margin) if ratio is not None else None
    if verdict == "undecided":
        reason = f"the interval reaches over {1 + margin:g}, and below: measure in more processes on a quiet host"
    return VersionGain(this.benchmark, variant, of, this, change, ratio, whole, verdict, reason, evidence)


def why_not_comparable(values: Sequence[tuple[str, Derived | None]]) -> str:
    """Why values cannot be compared: the first that has no number; "" where all have."""
    for name, value in values:
        if value is None:
            return f"{name} was not measured"
        if not is_usable(value):
            return f"{name} is {value.status}" + (f": {value.reason}" if value.reason else "")
    return ""


def is_usable(value: Derived) -> bool:
    """True if a value may be compared."""
    return value.status == "ok" and bool(value.medians) and min(value.medians) > 0


def common_process_medians(slow: Derived, quick: Derived) -> list[tuple[float, float]]:
    """Both medians for each process that measured both. Different benchmarks never share a process."""
    if slow.benchmark != quick.benchmark:
        return []
    of = dict(zip(quick.measured_in, quick.medians, strict=True))
    return [(a, of[n]) for n, a in zip(slow.measured_in, slow.medians, strict=True) if n in of]


def speed_up_ratio(slow: Derived, quick: Derived, prior: float, pairs: float | None = None) -> stats.Ratio | None:
    """Time of `slow` over that of `quick`, with its 95% interval; None if either has no value.

    If three processes or more measured both, it is computed from the ratios within each process, in which the slowdown of a
    whole process cancels. Otherwise it is computed from the medians of their processes (stats.ratio; both are of one run), with
    an interval no narrower than those of both medians combined on the logarithm (method of variance estimates recovery, Zou &
    Donner 2008). `prior` is that of stats.ratio, `pairs` the result of `log_ratio_deviation`."""
    if not is_usable(slow) or not is_usable(quick):
        return None
    both = common_process_medians(slow, quick)
    if len(both) >= MIN_COMMON_PROCESSES:
        return stats.paired_ratio([b for _, b in both], [a for a, _ in both], math.sqrt(2) * prior if pairs is None else pairs)
    ratio = stats.ratio(quick.medians, slow.medians, prior, 0.0)
    below = math.hypot(_log_distance(slow.ci_low, slow.median), _log_distance(quick.median, quick.ci_high))
    above = math.hypot(_log_distance(slow.median, slow.ci_high), _log_distance(quick.ci_low, quick.median))
    low, high = ratio.value * math.exp(-below), ratio.value * math.exp(min(above, stats.MAX_LOG_RATIO))
    return stats.Ratio(ratio.value, min(ratio.low, low), max(ratio.high, high))


def _log_distance(low: float | None, high: float | None) -> float:
    """Distance of two times on the logarithm; infinite if either is unknown or not positive."""
    if low is None or high is None or low <= 0:
        return math.inf
    return math.log(high / low)


def _evidence_of_values(run: Run, values: Sequence[Derived]) -> tuple[str, ...]:
    keys = [value.key for value in values]
    return tuple(
        f"{record.benchmark}:{record.index}" + (f"/{record.process}" if record.process else "")
        for record in run.records
        if record.role == "measure" and key_of(record) in keys
    )
