"""Banks of local memory from latencies over the stride between work-items: how many, how wide, what a conflict costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.analysis.derive import Derived
from clmembench.infer.access.bank_mappings import SERVED, Banks, candidates
from clmembench.infer.access.conflict_fit import NORMAL, SURE, Line, line
from clmembench.infer.findings import measured, undetermined
from clmembench.model import Finding

NAME = "banks"
# Thresholds and limits, each with its reason
# times: a bank serves one row a cycle at most, so that 32 loads of one bank take longer than that at any latency under 60
# cycles
SLOWER = 1.5
ODD = 1.3  # times: a larger slowdown is not what ordinary memory shows at any stride
MARGIN = 10.0  # of log-likelihood over any other mapping: odds of 22,000
TOGETHER = 32  # in more work-items several sub-groups may wait for each other
LEAST_POINTS = 8  # strides above 0: fewer fit too many mappings
NARROW, DOUBLE = 4, 8  # bytes of a word
# relative to a way: error of a latency predicted by others of as many passes, and by the fitted line alone
LEVEL, LINE = 0.1, 0.3
BENDS = 0.1  # of a latency: larger deviations from the fitted line mean that cost does not grow linearly
METHOD = "latency over the stride between work-items, against banked memories"


@dataclass(frozen=True, slots=True)
class Access:
    """A measured latency of loads by `items` work-items whose words of `word_bytes` lie `stride` words apart, with its
    interval, in cycles or ns; `evidence` is the record's id."""

    stride: int
    word_bytes: int
    items: int
    latency: float
    low: float
    high: float
    evidence: str = ""


def accesses(values: Sequence[Derived], unit: str = "") -> tuple[list[Access], str]:
    """Good latencies of benchmark banks among values, and their unit: that one, else cycles where all have them, else ns."""
    good = [v for v in values if v.benchmark == NAME and v.status == "ok" and v.median is not None and v.ci_low is not None]
    cycles = unit == "cycles" or (not unit and all(v.cycles is not None and v.cycles_low is not None for v in good))
    found = []
    for v in good:
        numbers = (v.cycles, v.cycles_low, v.cycles_high) if cycles else (v.median, v.ci_low, v.ci_high)
        median, low, high = (math.nan if n is None else n for n in numbers)
        stride, word_bytes, items = (int(v.params[name]) for name in ("stride", "word_bytes", "items"))
        found.append(Access(stride, word_bytes, items, median, low, high, v.evidence[0] if v.evidence else NAME))
    return found, "cycles" if cycles else "ns"


@dataclass(frozen=True, slots=True)
class BankStudy:
    """Findings on local memory: `memory` is "banked" or "ordinary"; of a banked one `banks`, `bank_width_bytes`, `mapping`
    (how words lie in them), `free` (the latency without a conflict), `way` (what each further way adds), `growth`, and
    `together_4` and `together_8`, how many work-items have words of 4 and of 8 B served at a time, which are `served` too.
    `banks` is None where none explain it."""

    findings: Mapping[str, Finding]
    banks: Banks | None = None
    served: Mapping[int, int] = field(default_factory=dict)

    def ways(self, stride: int, word_bytes: int, items: int) -> int | None:
        """In how many passes an access is served by what was found; None where that is not known."""
        if self.banks is None or word_bytes not in self.served:
            return None
        return replace(self.banks, served=self.served[word_bytes]).passes(stride, word_bytes, items)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Banked memories that serve all points in the same passes, but for a factor, and their line."""

    alike: tuple[Banks, ...]
    line: Line


def study(accesses: Sequence[Access], unit: str) -> BankStudy:
    """Banks of local memory, from latencies; `unit`, of the latencies, is cycles or ns.

    A mapping is determined by words of 4 B alone, at all strides but 0: of banked memories of 4 to 128 banks of 4, 8 or 16 B,
    among them Kepler's in both modes, the one whose passes latency grows with, where it explains every point and is better than
    any other by a clear margin; else it is undetermined. One that would have to make loads less than 1.5 times slower where
    all want one bank is none: local memory is then ordinary memory. Words of 8 B are analysed under the mapping found.
    """
    narrow = [a for a in accesses if a.word_bytes == NARROW and a.items <= TOGETHER]
    fitted = [a for a in narrow if a.stride > 0]
    evidence = tuple(a.evidence for a in fitted)
    if len(fitted) < LEAST_POINTS:
        reason = f"{len(fitted)} latencies at strides above 0 are too few: {LEAST_POINTS} are needed"
        return BankStudy({"memory": undetermined("memory", reason, METHOD, evidence)})
    fits = _fits(fitted, NARROW)
    best = max(fits, key=lambda fit: fit.line.loglik)
    likely = [fit for fit in fits if fit.line.loglik > best.line.loglik - MARGIN]
    if all(fit.line.slowed[2] < SLOWER for fit in likely):
        return BankStudy({"memory": _ordinary(likely, fitted, evidence)})
    reason = _doubt(fits, best, fitted)
    if reason:
        return BankStudy({"memory": undetermined("memory", reason, METHOD, evidence)})
    banks = best.alike[0]
    found = {
        "memory": measured("memory", "banked", METHOD, evidence),
        "banks": measured("banks", banks.count, METHOD, evidence),
        "bank_width_bytes": measured("bank_width_bytes", banks.width_bytes, METHOD, evidence, unit="B"),
        "mapping": measured("mapping", banks.name, METHOD, evidence),
        **_costs(best.line, evidence, unit),
    }
    served: dict[int, int] = {}
    for word_bytes in (NARROW, DOUBLE):
        finding = _together(accesses, word_bytes, banks)
        found[finding.name] = finding
        if isinstance(finding.value, int):
            served[word_bytes] = finding.value
    return BankStudy(found, banks, served)


def _fits(points: Sequence[Access], word_bytes: int) -> list[_Fit]:
    """A fit for each set of banked memories that these points cannot tell apart."""
    alike: dict[tuple[float, ...], list[Banks]] = {}
    for banks in candidates():
        passes = np.array([banks.passes(a.stride, word_bytes, a.items) for a in points], dtype=np.float64)
        reach = np.ptp(passes)
        if reach > 0:
            alike.setdefault(tuple(np.round((passes - passes.min()) / reach, 9)), []).append(banks)
    return [_Fit(tuple(group), _line(points, group[0])) for group in alike.values()]


def _line(points: Sequence[Access], banks: Banks) -> Line:
    passes = np.array([banks.passes(a.stride, a.word_bytes, a.items) for a in points])
    noise = np.array([(a.high - a.low) / (2 * NORMAL) for a in points])
    return line(passes, np.array([a.latency for a in points]), noise)


def _ordinary(fits: Sequence[_Fit], points: Sequence[Access], evidence: tuple[str, ...]) -> Finding:
    """Memory that no banks make slow: undetermined where some stride is slow all the same."""
    usual = float(np.median([a.latency for a in points]))
    slow = max(points, key=lambda a: a.low)
    if slow.low > ODD * usual:
        times = slow.latency / usual
        reason = f"stride {slow.stride} is {times:.2f} times slower than most, as no banked memory that is known has it"
        return undetermined("memory", reason, METHOD, evidence)
    best = max(fits, key=lambda fit: fit.line.loglik).line
    if not best.unexplained and best.slowed[1] > ODD:
        reason = f"{best.slowed[0]:.2f} times slower where banks would make it so, too little to be sure of them and no chance"
        return undetermined("memory", reason, METHOD, evidence)
    high = max(fit.line.slowed[2] for fit in fits)
    reason = f"loads that would want one bank are at most {high:.2f} times slower than others: no bank conflict was observed"
    return replace(measured("memory", "ordinary", METHOD, evidence), reason=reason)


def _doubt(fits: Sequence[_Fit], best: _Fit, points: Sequence[Access]) -> str:
    """Why the best mapping is not to be believed; "" where it is."""
    slowed, low, _ = best.line.slowed
    if low < SLOWER:
        return f"loads that want one bank seem {slowed:.2f} times slower than others, too little to be sure of banks"
    if best.line.unexplained:
        odd = points[best.line.unexplained[0]]
        of = f"stride {odd.stride} of {odd.items} work-items"
        return f"no banked memory that is known explains it: {best.alike[0].count} banks come nearest, but not to {of}"
    shapes = {(b.count, b.width_bytes, b.interleave_bytes) for b in best.alike}
    others = [f for f in fits if f is not best and f.line.loglik > best.line.loglik - MARGIN]
    shapes |= {(b.count, b.width_bytes, b.interleave_bytes) for f in others for b in f.alike}
    if len(shapes) > 1:
        named = ", ".join(f"{n} of {w} B" + (f" in their {i}-byte mode" if i != w else "") for n, w, i in sorted(shapes))
        return f"several banked memories explain it: {named}"
    return ""


def _costs(found: Line, evidence: tuple[str, ...], unit: str) -> dict[str, Finding]:
    """Latency without a conflict, what each further way adds, and whether that is the same for all."""
    reach, around = NORMAL * found.way_error, NORMAL * found.free_error
    off, sure = found.off, NORMAL * found.off_error
    method = f"a line over {found.least} to {found.most} passes"
    if off - sure <= BENDS < off + sure:
        growth = undetermined("growth", f"off a line by {max(0.0, off - sure):.1%} to {off + sure:.1%}", method, evidence)
    else:
        word = "linear" if off < BENDS else "not linear"
        growth = replace(measured("growth", word, method, evidence), reason=f"off a line by {off:.1%} at most")
    free = found.free
    return {
        "free": measured("free", free, method, evidence, free - around, free + around, unit),
        "way": measured("way", found.way, method, evidence, max(0.0, found.way - reach), found.way + reach, unit),
        "growth": growth,
    }


def _together(accesses: Sequence[Access], word_bytes: int, banks: Banks) -> Finding:
    """How many work-items have their words served at a time: all of them where one word that all want takes one pass, half
    where it takes two. Strides above 0 do not tell: halves that follow each other take as many passes as the whole."""
    name = f"together_{word_bytes}"
    method = f"latency of one word of {word_bytes} B that all load, beside other strides"
    mine = [a for a in accesses if a.word_bytes == word_bytes and a.items <= TOGETHER]
    same = next((a for a in mine if a.stride == 0 and a.items == TOGETHER), None)
    points = [a for a in mine if a.stride > 0]
    evidence = tuple(a.evidence for a in mine)
    if same is None or len(points) < LEAST_POINTS:
        return undetermined(name, "not measured at enough strides", method, evidence)
    tried: list[tuple[float, int]] = []
    for served in SERVED:
        group = replace(banks, served=served)
        found = _line(points, group)
        passes = group.passes(0, word_bytes, TOGETHER)
        off = abs(same.latency - found.at(passes))
        bend = (LEVEL if passes in found.levels else LINE) * found.way
        noise = math.hypot((same.high - same.low) / (2 * NORMAL), float(np.median(found.sd)), bend)
        explained = not found.unexplained and found.way > 0 and off <= max(found.way / 2, SURE * noise)
        tried.append((found.loglik - (off / noise) ** 2 / 2 if explained else -math.inf, served))
    (best, served), (second, _), *_ = sorted(tried, reverse=True)
    if not math.isfinite(best):
        return undetermined(name, "no number of them that is known explains what words of this size take", method, evidence)
    if best - second < SURE**2 / 2:
        return undetermined(name, "a pass costs too little beside the noise to be counted", method, evidence)
    return measured(name, served, method, evidence)
