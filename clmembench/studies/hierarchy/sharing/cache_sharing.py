"""What shares storage within a compute unit: its paths with each other, and local memory with its first cache. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from clmembench.analysis.stats import MIN_SAMPLES
from clmembench.model import Finding, Record
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.benchmarks.cache_sharing import PATH_CODES
from clmembench.studies.hierarchy.sharing.sharing_records import (
    Eviction,
    Fit,
    LapInterval,
    as_global_loads,
    eviction_of,
    fit_of,
    interval,
    question_records,
)
from clmembench.studies.hierarchy.sharing.unit_groups import unit_findings

KIB = 1 << 10
CONSTANTS = ("constant", "constant_array")
LOCAL_NAME = "local_with_first_cache"
EVICTION_METHOD = (
    "lines that one path loses to another one over those it loses to as many bytes on its own (the interval), without those "
    "that it loses in an idle wait"
)
LOCAL_METHOD = (
    "the largest set of global loads of one-item work-groups whose last lap hits, and the next one of the grid; the cache may "
    "be larger, since some set of a hash overflows before"
)
# Thresholds and limits, each with its reason
MIN_CONTROL_RISE = 0.1  # of a warm lap: a control that evicts less than this is not told from noise
MAX_IDLE_SHARE = 0.25  # of the control: a wait that evicts more leaves nothing to attribute to a path
MIN_SHARED_RATIO = (
    0.5  # of the control: in one storage as many bytes evict as much, whatever the path; half allows for a policy
)
MAX_SEPARATE_RATIO = 0.1  # of the control: the path's few lines on the stack, a schedule or the like, no set of its own
MAX_SAME_RATIO = 0.25  # of the control: lines that were loaded on one path and hit on the other are in one storage
MIN_EVICTED_SHARE = 0.25  # of the cost of a cold lap, where the control is too small to evict: many lines, not a few sets
MIN_LOST_SHARE = 0.2  # of the lines that stay without local memory: a disturbance evicts fewer


@dataclass(frozen=True, slots=True)
class _Direction:
    """What one path does to the lines of another: shared, separate, or "" with the reason; the ratio to the control."""

    verdict: str
    ratio: LapInterval
    reason: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PairToTry:
    """A measurement of question paths: a set that stays in the owner's cache, and bytes that overflow both caches."""

    owner: str
    other: str
    array_bytes: int
    other_bytes: int


def sharing_findings(records: Sequence[Record]) -> Mapping[str, Finding]:
    """All that records of `cache_sharing` tell, by name; empty where there are none. Names: stays_at_local_N_kib_bytes,
    local_with_first_cache, A_with_B for paths, units_of_a_constant_cache."""
    fits = stored_fits(records)
    return {
        **_local_findings(fits),
        **_path_findings(records, fits),
        **unit_findings(records, void_reason("constant_array", fits), fits),
    }


def stored_fits(records: Sequence[Record]) -> dict[tuple[str, int], Fit]:
    """The sets that stay, by path and bytes of local memory."""
    found = (fit_of(record) for record in question_records(records, "fit"))
    return {(fit.path, fit.local_bytes): fit for fit in found if fit is not None}


def pairs_to_try(records: Sequence[Record]) -> list[PairToTry]:
    """Pairs of paths whose sharing laps could tell, both ways, by the sets that stay on each."""
    fits = stored_fits(records)
    paths = [path for path in PATH_CODES if (path, 0) in fits and not void_reason(path, fits)]
    pairs = []
    for owner, other in ((a, b) for a in paths for b in paths if a != b and {a, b} != set(CONSTANTS)):
        ends = [fits[path, 0].high_bytes or fits[path, 0].sizes[-1] for path in (owner, other)]
        pairs.append(PairToTry(owner, other, fits[owner, 0].low_bytes, 3 * max(ends) // 2))
    return pairs


def void_reason(path: str, fits: Mapping[tuple[str, int], Fit]) -> str:
    """Why loads of constants tell nothing of a cache for constants; "" where they do, and for other paths."""
    if path not in CONSTANTS:
        return ""
    own, plain = fits.get((path, 0)), fits.get(("global", 0))
    if own is None or plain is None:
        return f"the latency of {_words(path)} or of global loads is not known, so that they are not told apart"
    return as_global_loads(_words(path), own.hit_ticks, plain)


def _local_findings(fits: Mapping[tuple[str, int], Fit]) -> dict[str, Finding]:
    """The first cache beside each amount of local memory, and whether local memory takes from it."""
    through = {local: fit for (path, local), fit in sorted(fits.items()) if path == "global"}
    found = {}
    for local, fit in through.items():
        name, low = f"stays_at_local_{local / KIB:g}_kib_bytes", fit.low_bytes
        if fit.high_bytes is None:
            found[name] = undetermined_finding(name, "the largest set stays too", LOCAL_METHOD, fit.evidence, low)
        else:
            found[name] = measured_finding(name, low, LOCAL_METHOD, fit.evidence, low, fit.high_bytes, "B")
    if 0 not in through or len(through) < 2:
        return found
    whole, rest = through[0], [fit for local, fit in through.items() if local]
    names = tuple(dict.fromkeys(name for fit in through.values() for name in fit.evidence))
    less = [
        fit
        for fit in rest
        if whole.low_bytes in fit.sizes
        and fit.high_bytes is not None
        and fit.high_bytes <= whole.low_bytes
        and fit.miss_share(whole.low_bytes) >= MIN_LOST_SHARE
    ]
    if less:
        method = "the first cache holds less beside local memory; the driver divides by the work-groups that it expects to run"
        found[LOCAL_NAME] = measured_finding(LOCAL_NAME, "shared", method, names)
    else:
        why = "the first cache holds as much beside any local memory; so it does where shared storage is divided in a fixed way"
        found[LOCAL_NAME] = undetermined_finding(LOCAL_NAME, why, LOCAL_METHOD, names)
    return found


def _path_findings(records: Sequence[Record], fits: Mapping[tuple[str, int], Fit]) -> dict[str, Finding]:
    """Whether two paths share storage, for each two whose sets were looked at."""
    asked = {
        (str(r.params.get("owner", "global")), str(r.params.get("other", ""))): r for r in question_records(records, "paths")
    }
    looked = {str(r.params.get("owner", "global")) for r in question_records(records, "fit") if r.status != "skipped"}
    found = {}
    for first, second in combinations(PATH_CODES, 2):
        if {first, second} <= looked and {first, second} != set(CONSTANTS):
            name = f"{first}_with_{second}"
            void = void_reason(first, fits) or void_reason(second, fits)
            ways = [_direction(asked.get(way), way, fits) for way in ((first, second), (second, first))]
            names = tuple(id_ for way in ways for id_ in way.evidence)
            found[name] = undetermined_finding(name, void, EVICTION_METHOD, names) if void else _pair(name, ways, names)
    return found


def _pair(name: str, ways: Sequence[_Direction], names: tuple[str, ...]) -> Finding:
    """The finding of two paths from what each does to the other. Each must leave the other's lines alone to be separate."""
    verdicts = {way.verdict for way in ways}
    void = next((way.reason for way in ways if way.verdict == "void"), "")
    deciding = [way for way in ways if way.verdict == "shared"] if verdicts in ({"shared"}, {"shared", ""}) else ways
    finite = [way.ratio for way in deciding if np.isfinite([way.ratio.low, way.ratio.high]).all()]
    low, high = (min(r.low for r in finite), max(r.high for r in finite)) if finite else (None, None)
    if void:
        return undetermined_finding(name, void, EVICTION_METHOD, names)
    if verdicts == {"shared", "separate"}:
        why = "one of the two evicts the other's lines, and not the reverse"
        return undetermined_finding(name, why, EVICTION_METHOD, names, low, high)
    if "shared" in verdicts or verdicts == {"separate"}:
        value = "shared" if "shared" in verdicts else "separate"
        return Finding(name, value, low, high, "", "ok", EVICTION_METHOD, names)
    why = "; ".join(dict.fromkeys(way.reason for way in ways if way.reason))
    return undetermined_finding(name, why, EVICTION_METHOD, names, low, high)


def sharing_notes(records: Sequence[Record]) -> tuple[str, ...]:
    """Why nothing was looked at, where records say so."""
    asked = question_records(records, "fit")
    reasons = dict.fromkeys(r.reason for r in asked if r.status == "skipped" and r.params.get("owner", "global") == "global")
    return () if stored_fits(records) else tuple(f"shared storage: {reason}" for reason in reasons)


def _direction(record: Record | None, way: tuple[str, str], fits: Mapping[tuple[str, int], Fit]) -> _Direction:
    """What the second path does to lines of the first."""
    nothing = LapInterval(np.nan, -np.inf, np.inf)
    owner, other = map(_words, way)
    found = None if record is None else eviction_of(record)
    if found is None:
        why = record.reason if record is not None and record.reason else f"no record has laps over {owner} after {other}"
        # without these laps nothing shows that the program loads constants as such
        return _Direction("void" if way[0] in CONSTANTS else "", nothing, why, ())
    if way[0] in CONSTANTS:
        plain = fits.get(("global", 0))
        void = as_global_loads(owner, float(np.median(found.warm)), plain) if plain is not None else ""
        if void:
            return _Direction("void", nothing, void, found.evidence)
    if found.samples < MIN_SAMPLES:
        return _Direction("", nothing, f"{owner} after {other}: fewer than {MIN_SAMPLES} samples", found.evidence)
    return _judge(found, owner, other)


def _judge(found: Eviction, owner: str, other: str) -> _Direction:
    """The verdict on one direction, by its control and its idle wait."""
    own, idle, warm = interval(found.own), interval(found.idle), float(np.median(found.warm))
    cold = float(np.median(found.cold))
    nothing = LapInterval(np.nan, -np.inf, np.inf)
    if not (warm > 0 and own.low >= MIN_CONTROL_RISE * warm):
        caused = interval(found.other_path - found.idle)
        if cold >= MIN_CONTROL_RISE * warm > 0 and caused.low >= MIN_EVICTED_SHARE * cold:
            return _Direction("shared", nothing, "", found.evidence)
        why = f"{owner} after {other}: as many other bytes on the same path evict too little to compare with"
        return _Direction("", nothing, why, found.evidence)
    ratio = interval((found.other_path - found.idle) / found.own)
    plain = interval(found.other_path / found.own)
    if idle.high >= MAX_IDLE_SHARE * own.low:
        return _Direction("", ratio, f"{owner} after {other}: lines are lost in an idle wait too", found.evidence)
    same = interval(found.same / found.own) if found.same is not None else nothing
    crossed = same.high <= MAX_SAME_RATIO
    if plain.low >= -MAX_IDLE_SHARE and plain.high <= MAX_SEPARATE_RATIO:
        if crossed:
            why = f"{other} evict nothing of {owner}, and yet what they load hits there"
            return _Direction("", ratio, why, found.evidence)
        return _Direction("separate", ratio, "", found.evidence)
    if ratio.low >= MIN_SHARED_RATIO or (crossed and ratio.low > MAX_SEPARATE_RATIO):
        return _Direction("shared", ratio, "", found.evidence)
    why = f"{owner} after {other}: {ratio.low:.2f} to {ratio.high:.2f} of what the control evicts, neither none nor as much"
    return _Direction("", ratio, why, found.evidence)


def _words(path: str) -> str:
    """Loads on a path, in words."""
    return {
        "global": "global loads",
        "readonly": "read-only loads",
        "image1d_buffer": "images of a buffer",
        "constant": "constant pointers",
        "constant_array": "constant arrays",
    }.get(path, path)
