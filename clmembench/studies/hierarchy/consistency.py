"""Gate between commands: results of topology, pchase and cache_read on one device must not contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from clmembench.analysis import derive
from clmembench.analysis.derive import Derived
from clmembench.analysis.plateaus import MIN_SETTLED_KNEE_RATIO, CurvePoint
from clmembench.gates.thresholds import COMMANDS, RUN
from clmembench.gates.whole import CACHE_READ, latency_curve
from clmembench.model import CacheLevel, Cause, DeviceInfo, Finding, Hierarchy, Record, Run
from clmembench.model.device_identity import is_same_device

GATE = "consistency"
KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Findings of a level of a hierarchy, by the level's number and the findings' names, that contradict the records of another
    command; `reason` names both."""

    level: int
    names: tuple[str, ...]
    records: tuple[str, ...]
    reason: str


def across(runs: Sequence[Run], hierarchies: Sequence[Hierarchy | None]) -> tuple[list[Run], list[Hierarchy | None]]:
    """Runs and the hierarchies inferred from them (None: nothing), each checked against itself and all others of the same
    device. Contradicting values become `suspect` in the runs and `inconsistent` in the hierarchies. Runs have passed the other
    gates before."""
    found, suspects = list(hierarchies), [dict[str, str]() for _ in runs]
    for number, hierarchy in enumerate(hierarchies):
        for other, run in enumerate(runs):
            if hierarchy is None or not same_device(runs[number].header.device, run.header.device):
                continue
            against = conflicts(hierarchy, latency_curve(run), derive.derive(_reads(run)))
            found[number] = inconsistent(found[number] or hierarchy, against)
            for conflict in against:
                suspects[other] |= dict.fromkeys(conflict.records, conflict.reason)
    return [_suspected(run, reasons) for run, reasons in zip(runs, suspects, strict=True)], found


def same_device(first: DeviceInfo, second: DeviceInfo) -> bool:
    """True where two runs are of one device under one driver, with as many compute units and as much cache."""
    claims = [(d.runtime, d.platform, d.driver, d.compute_units, d.cache_bytes) for d in (first, second)]
    return claims[0] == claims[1] and is_same_device(first, second)


def conflicts(hierarchy: Hierarchy, curve: Sequence[CurvePoint], reads: Sequence[Derived] = ()) -> list[Contradiction]:
    """Contradictions between a hierarchy's levels and a latency curve (of random chases, which include translation) or
    bandwidths of cache_read."""
    levels = [(n, level) for n, level in enumerate(hierarchy.levels) if level.space.startswith("global")]
    return [*_too_fast(levels, curve), *_too_slow(levels, hierarchy, curve), *_falls(levels, reads)]


def inconsistent(hierarchy: Hierarchy, found: Sequence[Contradiction]) -> Hierarchy:
    """The hierarchy with the contradicting findings marked `inconsistent`."""
    levels = list(hierarchy.levels)
    for conflict in found:
        level = levels[conflict.level]
        marked = {n: _marked(f, conflict) for n in conflict.names if (f := level.findings.get(n)) is not None}
        levels[conflict.level] = replace(level, findings={**level.findings, **marked})
    return replace(hierarchy, levels=tuple(levels))


def _marked(finding: Finding, conflict: Contradiction) -> Finding:
    if finding.status != "ok":
        return finding
    evidence = tuple(dict.fromkeys((*finding.evidence, *conflict.records)))
    return replace(finding, value=None, status="inconsistent", reason=conflict.reason, evidence=evidence)


def _too_fast(levels: Sequence[tuple[int, CacheLevel]], curve: Sequence[CurvePoint]) -> Iterator[Contradiction]:
    """For sets several times the maximum size of a level, most accesses take at least the latency of the next level."""
    for (number, level), (after, further) in pairwise(levels):
        size, near, far = level.findings.get("size_bytes"), _latency(level), _latency(further)
        if size is None or size.high is None or near is None or far is None or size.status != "ok":
            continue
        for s in curve:
            share = size.high / s.array_bytes
            least = share * (near.low or 0.0) + (1 - share) * (far.low or 0.0)
            if s.array_bytes >= MIN_SETTLED_KNEE_RATIO * size.high and RUN.max_smaller_over_larger * s.high < least:
                reason = (
                    f"topology says that {level.name} holds {size.high / KIB:.4g} KiB and that {further.name} takes "
                    f"{far.low:.4g} ns or more, and pchase takes {s.ns:.4g} ns over {s.array_bytes / KIB:.4g} KiB: not both"
                )
                yield Contradiction(number, ("size_bytes",), s.evidence, reason)
                yield Contradiction(after, ("latency_ns", "latency_cycles"), s.evidence, reason)


def _too_slow(
    levels: Sequence[tuple[int, CacheLevel]], hierarchy: Hierarchy, curve: Sequence[CurvePoint]
) -> Iterator[Contradiction]:
    """For sets that fit a level, an access takes at most the latency of the level and of its translation."""
    for s in curve:
        held = next((found for found in levels if _holds(found[1], s.array_bytes)), None)
        most = _most(held[1], hierarchy, s.array_bytes) if held is not None else None
        if held is not None and most is not None and s.low > most:
            reason = (
                f"topology says that {held[1].name} answers {s.array_bytes / KIB:.4g} KiB in {most:.4g} ns at most, "
                f"translation included, and pchase takes {s.ns:.4g} ns: not both"
            )
            names = (
                ("latency_ns", "latency_cycles") if held[1].name == "DRAM" else ("size_bytes", "latency_ns", "latency_cycles")
            )
            yield Contradiction(held[0], names, s.evidence, reason)


def _holds(level: CacheLevel, array_bytes: int) -> bool:
    size = level.findings.get("size_bytes")
    return level.name == "DRAM" or (
        size is not None and size.low is not None and array_bytes <= COMMANDS.max_held_share * size.low
    )


def _most(level: CacheLevel, hierarchy: Hierarchy, array_bytes: int) -> float | None:
    """Upper bound of an access in ns by the topology, including a quarter for noise; None if unknown."""
    own = _latency(level)
    if own is None or own.high is None:
        return None
    if array_bytes <= COMMANDS.untranslated_bytes:
        return RUN.max_smaller_over_larger * own.high
    penalties = [tlb.findings.get("penalty_ns") for tlb in hierarchy.tlb]
    known = [f.high for f in penalties if f is not None and f.status == "ok" and f.high is not None]
    walk = hierarchy.patterns.get("P5_ns")
    if level.name == "DRAM":
        seen = walk.high if walk is not None and walk.status == "ok" and walk.high is not None else 0.0
        return max(COMMANDS.max_walks * (own.high + sum(known)), RUN.max_smaller_over_larger * seen)
    # without a TLB of known cost there is no bound on what translation adds
    return RUN.max_smaller_over_larger * (own.high + sum(known)) if penalties and len(known) == len(penalties) else None


def _falls(levels: Sequence[tuple[int, CacheLevel]], reads: Sequence[Derived]) -> Iterator[Contradiction]:
    """Of two sets per compute unit that both fit the first level, the larger one must not have less bandwidth."""
    sizes = [level.findings.get("near_bytes", level.findings.get("size_bytes")) for _, level in levels]
    if not sizes or sizes[0] is None or sizes[0].low is None or sizes[0].status != "ok":
        return
    number, level, low = *levels[0], sizes[0].low
    for small, large in combinations(sorted(_own(reads), key=_set_bytes), 2):
        alike = small.params.get("unit_items") == large.params.get("unit_items")
        if not alike or _set_bytes(large) > COMMANDS.max_held_share * low or small.ci_low is None or large.ci_high is None:
            continue
        if small.ci_low > RUN.min_bandwidth_fall * large.ci_high:
            reason = (
                f"topology says that {level.name} holds {low / KIB:.4g} KiB, and {CACHE_READ} falls from "
                f"{small.median:.4g} GB/s at "
                f"{_set_bytes(small) / KIB:.4g} KiB to {large.median:.4g} at {_set_bytes(large) / KIB:.4g} KiB: not both"
            )
            yield Contradiction(number, ("size_bytes",), large.evidence, reason)


def _own(reads: Sequence[Derived]) -> list[Derived]:
    plain = [v for v in reads if v.benchmark == CACHE_READ and v.params.get("set") == "own" and v.params.get("path") == "plain"]
    return [v for v in plain if v.status == "ok" and v.median is not None and isinstance(v.params.get("set_bytes"), int)]


def _set_bytes(value: Derived) -> int:
    return int(value.params["set_bytes"])


def _latency(level: CacheLevel) -> Finding | None:
    latency = level.findings.get("latency_ns")
    usable = latency is not None and latency.status == "ok" and latency.low is not None and latency.high is not None
    return latency if usable else None


def _reads(run: Run) -> Run:
    """The run with its records of cache_read alone."""
    return replace(run, records=tuple(r for r in run.records if r.benchmark == CACHE_READ))


def _suspected(run: Run, reasons: Mapping[str, str]) -> Run:
    if not reasons:
        return run

    def marked(record: Record) -> Record:
        reason = reasons.get(derive.id_of(record)) if record.status == "ok" else None
        return replace(record, status="suspect", gate=GATE, reason=reason, cause=Cause.GATE) if reason else record

    return replace(run, records=tuple(map(marked, run.records)))
