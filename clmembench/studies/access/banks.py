"""Banks of local memory from latencies over the stride between work-items: how many, how wide, what a conflict costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import numpy as np

from clmembench.analysis.derive import Derived
from clmembench.model import Finding
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.access.conflict_fit import CERTAIN_SIGMAS, NORMAL_95_PERCENT_SIGMAS, ConflictLine, fit_conflict_line

BANKS_BENCHMARK = "banks"
# Thresholds and limits, each with its reason slowdown: a bank serves at most one row per cycle, so 32 loads from one bank
# exceed it at any latency under 60 cycles
MIN_ONE_BANK_SLOWDOWN = 1.5
MAX_ORDINARY_MEMORY_SLOWDOWN = 1.3  # slowdown: ordinary memory shows no larger one at any stride
MIN_BANKS_LOG_LIKELIHOOD_MARGIN = 10.0  # margin in log-likelihood over every other mapping: odds of 22,000
MAX_SUB_GROUP_WORK_ITEMS = 32  # with more work-items, several sub-groups may wait for each other
MIN_BANK_POINTS = 8  # strides above 0: fewer fit too many mappings
BANK_WORD_BYTES, DOUBLE_WORD_BYTES = 4, 8  # bytes of a word
# in units of a way: error of a latency predicted from others with as many passes, and from the fitted line alone
SAME_PASSES_RELATIVE_ERROR, FITTED_LINE_RELATIVE_ERROR = 0.1, 0.3
MAX_LINEAR_RELATIVE_DEVIATION = 0.1  # relative: larger deviations from the fitted line mean that cost does not grow linearly
BANK_METHOD = "latency over the stride between work-items, compared with bank layouts"
BANK_COUNTS = (4, 8, 16, 32, 64, 128)  # numbers of banks that are tried
INTERLEAVE_AND_WIDTH_BYTES = ((4, 4), (8, 8), (16, 16), (4, 8))  # (interleave, width) in bytes
WORK_ITEMS_PER_PASS = (32, 16, 8)  # work-items of a sub-group whose loads one pass may serve


@dataclass(frozen=True, slots=True)
class BankAccess:
    """A measured latency of loads by `items` work-items whose words of `word_bytes` lie `stride` words apart, with its
    interval, in cycles or ns; `evidence` is the record's id."""

    stride: int
    word_bytes: int
    items: int
    latency: float
    low: float
    high: float
    evidence: str = ""


def bank_accesses(values: Sequence[Derived], unit: str = "") -> tuple[list[BankAccess], str]:
    """The ok latencies of benchmark banks, and their unit: `unit` if given, else cycles if all have them, else ns."""
    good = [
        v
        for v in values
        if v.benchmark == BANKS_BENCHMARK and v.status == "ok" and v.median is not None and v.ci_low is not None
    ]
    cycles = unit == "cycles" or (not unit and all(v.cycles is not None and v.cycles_low is not None for v in good))
    accesses = []
    for v in good:
        numbers = (v.cycles, v.cycles_low, v.cycles_high) if cycles else (v.median, v.ci_low, v.ci_high)
        median, low, high = (math.nan if n is None else n for n in numbers)
        stride, word_bytes, items = (int(v.params[name]) for name in ("stride", "word_bytes", "items"))
        accesses.append(
            BankAccess(stride, word_bytes, items, median, low, high, v.evidence[0] if v.evidence else BANKS_BENCHMARK)
        )
    return accesses, "cycles" if cycles else "ns"


@dataclass(frozen=True, slots=True)
class BankStudy:
    """Findings on local memory: `memory` is "banked" or "ordinary"; for banked memory also `banks`, `bank_width_bytes`,
    `mapping` (layout of words), `free` (latency without a conflict), `way` (cost of each further way), `growth`, `together_4`
    and `together_8` (work-items served together with words of 4 and of 8 B). `served` has the latter by word size. `banks` is
    None if no layout explains the latencies."""

    findings: Mapping[str, Finding]
    banks: BankMapping | None = None
    served: Mapping[int, int] = field(default_factory=dict)

    def ways(self, stride: int, word_bytes: int, items: int) -> int | None:
        """Number of passes of an access under the inferred banks; None if unknown."""
        if self.banks is None or word_bytes not in self.served:
            return None
        return replace(self.banks, served=self.served[word_bytes]).passes(stride, word_bytes, items)


@dataclass(frozen=True, slots=True)
class _BankFit:
    """Bank layouts that predict the same passes for all points, up to a factor, and their fitted line."""

    alike: tuple[BankMapping, ...]
    line: ConflictLine


def study_banks(accesses: Sequence[BankAccess], unit: str) -> BankStudy:
    """Banks of local memory, from latencies in `unit`, cycles or ns.

    The mapping comes from 4-byte words at all strides but 0. Candidates have 4 to 128 banks of 4, 8 or 16 B, and include both
    modes of Kepler. The mapping is the candidate in whose passes latency is linear, if it explains every point and is better
    than every other one by a clear margin; otherwise it is undetermined. If loads that share one bank would be less than 1.5
    times slower, local memory is ordinary memory. 8-byte words are analysed under that mapping."""
    return _studied(tuple(accesses), unit)


@lru_cache(maxsize=8)  # several tables and findings ask for the banks of one run
def _studied(accesses: tuple[BankAccess, ...], unit: str) -> BankStudy:
    narrow = [a for a in accesses if a.word_bytes == BANK_WORD_BYTES and a.items <= MAX_SUB_GROUP_WORK_ITEMS]
    fitted = [a for a in narrow if a.stride > 0]
    evidence = tuple(a.evidence for a in fitted)
    if len(fitted) < MIN_BANK_POINTS:
        reason = f"{len(fitted)} latencies at strides above 0 are too few: {MIN_BANK_POINTS} are needed"
        return BankStudy({"memory": undetermined_finding("memory", reason, BANK_METHOD, evidence)})
    fits = _bank_fits(fitted, BANK_WORD_BYTES)
    best = max(fits, key=lambda fit: fit.line.loglik)
    likely = [fit for fit in fits if fit.line.loglik > best.line.loglik - MIN_BANKS_LOG_LIKELIHOOD_MARGIN]
    if all(fit.line.slowed[2] < MIN_ONE_BANK_SLOWDOWN for fit in likely):
        return BankStudy({"memory": _ordinary_memory_finding(likely, fitted, evidence)})
    reason = _why_not_believed(fits, best, fitted)
    if reason:
        return BankStudy({"memory": undetermined_finding("memory", reason, BANK_METHOD, evidence)})
    banks = best.alike[0]
    found = {
        "memory": measured_finding("memory", "banked", BANK_METHOD, evidence),
        "banks": measured_finding("banks", banks.count, BANK_METHOD, evidence),
        "bank_width_bytes": measured_finding("bank_width_bytes", banks.width_bytes, BANK_METHOD, evidence, unit="B"),
        "mapping": measured_finding("mapping", banks.name, BANK_METHOD, evidence),
        **_conflict_cost_findings(best.line, evidence, unit),
    }
    served: dict[int, int] = {}
    for word_bytes in (BANK_WORD_BYTES, DOUBLE_WORD_BYTES):
        finding = _work_items_per_pass_finding(accesses, word_bytes, banks)
        found[finding.name] = finding
        if isinstance(finding.value, int):
            served[word_bytes] = finding.value
    return BankStudy(found, banks, served)


def _bank_fits(points: Sequence[BankAccess], word_bytes: int) -> list[_BankFit]:
    """One fit for each set of bank layouts that these points cannot distinguish."""
    alike: dict[tuple[float, ...], list[BankMapping]] = {}
    for banks in candidate_banks():
        passes = np.array([banks.passes(a.stride, word_bytes, a.items) for a in points], dtype=np.float64)
        reach = np.ptp(passes)
        if reach > 0:
            alike.setdefault(tuple(np.round((passes - passes.min()) / reach, 9)), []).append(banks)
    return [_BankFit(tuple(group), _fit_line_of_banks(points, group[0])) for group in alike.values()]


def _fit_line_of_banks(points: Sequence[BankAccess], banks: BankMapping) -> ConflictLine:
    passes = np.array([banks.passes(a.stride, a.word_bytes, a.items) for a in points])
    noise = np.array([(a.high - a.low) / (2 * NORMAL_95_PERCENT_SIGMAS) for a in points])
    return fit_conflict_line(passes, np.array([a.latency for a in points]), noise)


def _ordinary_memory_finding(fits: Sequence[_BankFit], points: Sequence[BankAccess], evidence: tuple[str, ...]) -> Finding:
    """The finding that local memory is ordinary memory; undetermined if some stride is slow nevertheless."""
    usual = float(np.median([a.latency for a in points]))
    slow = max(points, key=lambda a: a.low)
    if slow.low > MAX_ORDINARY_MEMORY_SLOWDOWN * usual:
        times = slow.latency / usual
        reason = f"stride {slow.stride} is {times:.2f} times slower than most, which no known bank layout explains"
        return undetermined_finding("memory", reason, BANK_METHOD, evidence)
    best = max(fits, key=lambda fit: fit.line.loglik).line
    if not best.unexplained and best.slowed[1] > MAX_ORDINARY_MEMORY_SLOWDOWN:
        reason = (
            f"{best.slowed[0]:.2f} times slower at the strides that would conflict: more than noise, too little to prove banks"
        )
        return undetermined_finding("memory", reason, BANK_METHOD, evidence)
    high = max(fit.line.slowed[2] for fit in fits)
    reason = f"loads that would share one bank are at most {high:.2f} times slower than others: no bank conflict was observed"
    return replace(measured_finding("memory", "ordinary", BANK_METHOD, evidence), reason=reason)


def _why_not_believed(fits: Sequence[_BankFit], best: _BankFit, points: Sequence[BankAccess]) -> str:
    """Why the best mapping is rejected; "" if it is accepted."""
    slowed, low, _ = best.line.slowed
    if low < MIN_ONE_BANK_SLOWDOWN:
        return f"loads that share one bank seem {slowed:.2f} times slower than others, too little to prove banks"
    if best.line.unexplained:
        odd = points[best.line.unexplained[0]]
        of = f"stride {odd.stride} of {odd.items} work-items"
        return f"no known bank layout explains it: {best.alike[0].count} banks come closest, but miss {of}"
    shapes = {(b.count, b.width_bytes, b.interleave_bytes) for b in best.alike}
    others = [f for f in fits if f is not best and f.line.loglik > best.line.loglik - MIN_BANKS_LOG_LIKELIHOOD_MARGIN]
    shapes |= {(b.count, b.width_bytes, b.interleave_bytes) for f in others for b in f.alike}
    if len(shapes) > 1:
        named = ", ".join(f"{n} of {w} B" + (f" in their {i}-byte mode" if i != w else "") for n, w, i in sorted(shapes))
        return f"several bank layouts explain it: {named}"
    return ""


def _conflict_cost_findings(found: ConflictLine, evidence: tuple[str, ...], unit: str) -> dict[str, Finding]:
    """Findings: latency without a conflict, cost of each further way, and whether that cost is constant."""
    reach, around = NORMAL_95_PERCENT_SIGMAS * found.way_error, NORMAL_95_PERCENT_SIGMAS * found.free_error
    off, sure = found.off, NORMAL_95_PERCENT_SIGMAS * found.off_error
    method = f"a line over {found.least} to {found.most} passes"
    if off - sure <= MAX_LINEAR_RELATIVE_DEVIATION < off + sure:
        growth = undetermined_finding(
            "growth", f"off a line by {max(0.0, off - sure):.1%} to {off + sure:.1%}", method, evidence
        )
    else:
        word = "linear" if off < MAX_LINEAR_RELATIVE_DEVIATION else "not linear"
        growth = replace(measured_finding("growth", word, method, evidence), reason=f"off a line by {off:.1%} at most")
    free = found.free
    return {
        "free": measured_finding("free", free, method, evidence, free - around, free + around, unit),
        "way": measured_finding("way", found.way, method, evidence, max(0.0, found.way - reach), found.way + reach, unit),
        "growth": growth,
    }


def _work_items_per_pass_finding(accesses: Sequence[BankAccess], word_bytes: int, banks: BankMapping) -> Finding:
    """Number of work-items served together: all if one word that all load takes one pass, half if it takes two. Strides above 0
    cannot tell: two halves in turn take as many passes as the whole."""
    name = f"together_{word_bytes}"
    method = f"latency of one word of {word_bytes} B that all load, compared with other strides"
    mine = [a for a in accesses if a.word_bytes == word_bytes and a.items <= MAX_SUB_GROUP_WORK_ITEMS]
    same = next((a for a in mine if a.stride == 0 and a.items == MAX_SUB_GROUP_WORK_ITEMS), None)
    points = [a for a in mine if a.stride > 0]
    evidence = tuple(a.evidence for a in mine)
    if same is None or len(points) < MIN_BANK_POINTS:
        return undetermined_finding(name, "not measured at enough strides", method, evidence)
    tried: list[tuple[float, int]] = []
    for served in WORK_ITEMS_PER_PASS:
        group = replace(banks, served=served)
        found = _fit_line_of_banks(points, group)
        passes = group.passes(0, word_bytes, MAX_SUB_GROUP_WORK_ITEMS)
        off = abs(same.latency - found.at(passes))
        bend = (SAME_PASSES_RELATIVE_ERROR if passes in found.levels else FITTED_LINE_RELATIVE_ERROR) * found.way
        noise = math.hypot((same.high - same.low) / (2 * NORMAL_95_PERCENT_SIGMAS), float(np.median(found.sd)), bend)
        explained = not found.unexplained and found.way > 0 and off <= max(found.way / 2, CERTAIN_SIGMAS * noise)
        tried.append((found.loglik - (off / noise) ** 2 / 2 if explained else -math.inf, served))
    (best, served), (second, _), *_ = sorted(tried, reverse=True)
    if not math.isfinite(best):
        return undetermined_finding(name, "no possible number explains the latency of words of this size", method, evidence)
    if best - second < CERTAIN_SIGMAS**2 / 2:
        return undetermined_finding(name, "the cost of a pass is within the noise", method, evidence)
    return measured_finding(name, served, method, evidence)


@dataclass(frozen=True, slots=True)
class BankMapping:
    """`count` banks, each of which delivers `width_bytes` of one of its rows per pass. Successive pieces of `interleave_bytes`
    lie in successive banks. Kepler's 8-byte banks interleave by 8 B in one mode and by 4 B in the other, in which the two words
    of a row lie 32 words apart (Mei & Chu 2015, section 6.2). The loads of `served` work-items share passes."""

    count: int
    width_bytes: int
    interleave_bytes: int
    served: int = 32

    def passes(self, stride: int, word_bytes: int, items: int) -> int:
        """Number of passes in which work-items 0 to `items` - 1 load words that lie `stride` words apart: for each group served
        together, the largest number of distinct rows requested from one bank. Requests for the same row share a pass."""
        return _passes_of_load(self, stride, word_bytes, items)

    @property
    def name(self) -> str:
        """Description of the layout."""
        pieces = f"successive words of {self.interleave_bytes} B in successive banks"
        if self.interleave_bytes == self.width_bytes:
            return pieces
        return f"{pieces} of {self.width_bytes} B ({self.interleave_bytes}-byte mode)"


@cache
def _passes_of_load(banks: BankMapping, stride: int, word_bytes: int, items: int) -> int:
    pieces = np.arange(max(1, word_bytes // banks.interleave_bytes)) * banks.interleave_bytes
    total = 0
    for first in range(0, items, banks.served):
        together = np.arange(first, min(first + banks.served, items))
        addresses = (together[:, None] * stride * word_bytes + pieces).ravel()
        row = addresses // (banks.count * banks.width_bytes)
        requested_rows = np.unique(row * banks.count + addresses // banks.interleave_bytes % banks.count)
        total += int(np.bincount(requested_rows % banks.count).max())
    return total


def candidate_banks() -> Iterator[BankMapping]:
    """Every bank layout that is tried."""
    for count in BANK_COUNTS:
        for interleave, width in INTERLEAVE_AND_WIDTH_BYTES:
            for served in WORK_ITEMS_PER_PASS:
                yield BankMapping(count, width, interleave, served)
