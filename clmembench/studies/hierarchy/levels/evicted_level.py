"""Findings of a level whose sets no stride tells: ways, line, policy by eviction sets, size by reversed laps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clmembench.model import Experiment, Finding
from clmembench.model.address_patterns import pattern_offsets
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.reversed_laps import (
    MAX_KNOWN_POLICY_DIFFERENCE,
    MAX_RELATIVE_DIFFERENCE,
    Turning,
    number_of_sets,
    turn_round,
)
from clmembench.studies.hierarchy.curve.set_count import hides_another_level, number_of_steep_end, suits_bounds
from clmembench.studies.hierarchy.eviction.bulk_eviction import CrowdLevel, sets_by_crowds
from clmembench.studies.hierarchy.eviction.candidate_lines import find_dense_sets
from clmembench.studies.hierarchy.eviction.congruent_lines import count_sets
from clmembench.studies.hierarchy.eviction.eviction_sets import EvictionSets, find_another_line, find_eviction_sets
from clmembench.studies.hierarchy.eviction.linear_index import LinearIndex, find_linear_index
from clmembench.studies.hierarchy.eviction.set_units import line_of_sets, sector_of_sets
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import (
    LAP_NOISE_SIGMAS,
    LONGEST_LINE_BYTES,
    MAX_DISTURBED_LINE_SHARE,
    ChaseLayout,
    LevelProbe,
)
from clmembench.studies.hierarchy.replacement.policy_probe import probe_possible_policies
from clmembench.studies.hierarchy.replacement.policy_rates import DRAWN, policies_by_cyclic_laps, policy_from_rates
from clmembench.studies.hierarchy.replacement.set_lines import NearerSet, SetLines, SetOfLevel
from clmembench.studies.hierarchy.set_index import format_set_bits

WAYS_METHOD = "eviction sets by group testing, two or three of equal size"
LINE_METHOD = "members of eviction sets, moved"
SIZE_METHOD = "reversed laps over two working sets; sets x ways x line agrees"
RANDOM_METHOD = "share of hits that random victims leave over two working sets; sets x ways x line agrees"
CROWD_METHOD = "least numbers of lines after which one is evicted, of two lines"
LINE_OF_CROWD_METHOD = "lines of two sets, which crowds found, moved"
SECTOR_OF_SET_METHOD = "pairs of accesses to one line more than each of two sets holds"
LINEAR_METHOD = "differences of lines of one eviction set lead to lines of one set from any line: parities of address bits"
STEEP_METHOD = "largest working set without misses, most of which miss soon after; sets x ways x line agrees"
PAGES_METHOD = "share of lines that are of the set of an eviction set; a power of two"
PAGES_SIZE_METHOD = "sets x ways x line"
ONE_VISIT_ONLY = "laps that visit each line of a set once do not tell one policy from all others"
RECENCY_POLICIES = frozenset({"LRU", "FIFO", "tree-PLRU"})  # hold the last bytes used, to half a percent
MAX_SERVED_SHARE = 0.03  # of misses: as many lines as there are ways differ from hits by no more if no nearer cache serves some
CYCLIC_ORDERS = 16  # of laps behind a nearer cache, on whose misses the policies are compared
MIN_WAYS_WITHOUT_POLICY = 8  # from there on the last bytes used tell the capacity closely, whatever policy keeps them


@dataclass(frozen=True, slots=True)
class LevelBeyondStrides:
    """A level with what is known of it: how it is probed by laps and by lines, its step, its number from 0, bytes and latency
    of the level before (0: none), ways and bytes of a way of nearer levels, the largest working sets for eviction sets and for
    reversed laps, the unit that a miss brings in, whether what a miss costs is known, the share of misses over growing
    working sets, the set of the only nearer level, where its policy is known, the line, where a prefetcher of pairs would make
    another one of it (0: else), and whether a miss may bring in several lines."""

    probe: LevelProbe
    lines: LineProbe
    step: CurveStep
    number: int
    nearer: tuple[float, float]
    nearer_ways: int
    nearer_way_bytes: int
    most_bytes: int
    most_turning_bytes: int
    unit: int
    miss_is_known: bool = True
    misses: tuple[tuple[int, float], ...] = ()
    before: NearerSet | None = None
    line_bytes: int = 0
    may_be_pairs: bool = False


def findings_by_eviction(
    level: LevelBeyondStrides, chase: ChaseLayout, findings: dict[str, Finding]
) -> Experiment[tuple[dict[str, Finding], frozenset[str]]]:
    """The findings, with what eviction sets tell in place of what is undetermined; and the policies that are possible (none:
    all)."""
    asked = level.probe.asked
    asked.cited()
    sets = yield from find_eviction_sets(level.lines, level.nearer_ways, level.nearer_way_bytes, level.most_bytes)
    if isinstance(sets, str) and level.miss_is_known:
        lines = replace(level.lines, miss=level.step.miss)
        dense = yield from find_dense_sets(lines, level.nearer[0], level.most_bytes)
        sets = dense if isinstance(dense, EvictionSets) else f"{sets}; laps over many lines: {dense}"
    if isinstance(sets, str):
        return (yield from _with_crowds(level, chase, findings, sets)), frozenset()
    evidence = asked.cited()
    sets = replace(sets, line_bytes=level.line_bytes or sets.line_bytes)
    index = yield from find_linear_index(sets, findings["size_bytes"].low or 0.0)
    index_from = asked.cited()
    policy, possible = yield from _policy(level, sets, index)
    line = sets.line_bytes
    if line is None:
        return findings, frozenset()
    if index is not None:
        cited = tuple(dict.fromkeys((*evidence, *index_from)))
        return _with_linear_index({**findings, **policy}, sets, index, cited), possible
    low = findings["size_bytes"].low
    if asked.shared and low:
        asked.cited()
        counted = yield from count_sets(sets, line, low)
        if counted is not None and suits_bounds(findings["size_bytes"], counted * sets.ways * line):
            return _with_counted_pages({**findings, **policy}, sets, counted, evidence, asked.cited()), possible
    size, most, method, sized_from = yield from _capacity(level, chase, findings, sets, possible)
    if level.number == 0 and possible != {"NRU"}:
        most = min(most, size * (1 + MAX_RELATIVE_DIFFERENCE))  # sets of a first cache may be uneven, which looks like NRU
    slack = MAX_KNOWN_POLICY_DIFFERENCE if possible and possible <= RECENCY_POLICIES else MAX_RELATIVE_DIFFERENCE
    count = number_of_sets(size, sets.ways * line, slack, most) if size else None
    steep = number_of_steep_end(level.step, findings["size_bytes"], sets.ways * line, possible)
    if steep is not None and not size:
        count, method, sized_from = steep, STEEP_METHOD, findings["size_bytes"].evidence
        size = steep * sets.ways * line
    elif steep is not None and count != steep:
        count = None
    exact = findings["size_bytes"].status == "ok"
    if count is not None and not suits_bounds(findings["size_bytes"], count * sets.ways * line):
        count = None
    if count is not None and hides_another_level(level.misses, sets.ways, count * sets.ways * line):
        count = None
    # misses of two sets that bring in each other's lines look like those of one, but as no policy's
    is_of_two = level.may_be_pairs and policy["policy"].status != "ok"
    if count is None and (exact or level.number == 0 or is_of_two):
        return findings, frozenset()  # sets of a first cache may be uneven
    found = {**findings, **policy}
    found["ways"] = measured_finding("ways", sets.ways, WAYS_METHOD, evidence)
    found["line_bytes"] = measured_finding("line_bytes", line, LINE_METHOD, evidence)
    if count is not None:
        found["sets"] = measured_finding(
            "sets", count, f"{WAYS_METHOD}; {method}", tuple(dict.fromkeys((*evidence, *sized_from)))
        )
        if not exact:
            whole = count * sets.ways * line
            found["size_bytes"] = measured_finding("size_bytes", whole, method, sized_from, min(whole, size), max(whole, size))
    return found, possible


def _with_crowds(
    level: LevelBeyondStrides, chase: ChaseLayout, findings: dict[str, Finding], why: str
) -> Experiment[dict[str, Finding]]:
    """The findings of a level without eviction sets of few lines (`why`), with the ways that crowds tell."""
    told = {**findings, "ways": _with_reason(findings["ways"], why), "sets": _with_reason(findings["sets"], why)}
    if not level.number or not level.miss_is_known:
        return told
    middle = (level.step.hit + level.step.miss) / 2
    nearer = level.nearer[0] if level.lines.nearer else 0.0
    line = findings["line_bytes"].value
    apart = max(level.lines.node_bytes, int(line) if isinstance(line, int | float) else LONGEST_LINE_BYTES)
    crowd = CrowdLevel(
        level.probe.asked, chase.space, level.lines.node_bytes, middle, level.step.fits_bytes, nearer, level.most_bytes, apart
    )
    level.probe.asked.cited()
    sets = yield from sets_by_crowds(crowd)
    if isinstance(sets, str):
        return {**told, "ways": replace(told["ways"], reason=f"{told['ways'].reason}; crowds of lines: {sets}")}
    lines, ways = sets[-1], len(sets[-1]) - 1
    told["ways"] = measured_finding("ways", ways, CROWD_METHOD, level.probe.asked.cited())
    of_lines = SetLines(len(lines), own=lines, apart_bytes=apart)
    of_set = SetOfLevel(ways, of_lines, level.unit, level.lines.nearer, level.before, level.miss_is_known)
    policy = yield from probe_possible_policies(level.probe, of_set)
    if policy[0]["policy"].value not in DRAWN:  # repeats of crowds agree, which they do not where victims are drawn
        told |= policy[0]
    return told if level.lines.nearer else (yield from _with_units_of_sets(level, told, sets))


def _with_units_of_sets(
    level: LevelBeyondStrides, findings: dict[str, Finding], sets: Sequence[tuple[int, ...]]
) -> Experiment[dict[str, Finding]]:
    """The findings with line and sector by lines of some sets: the line where it is not known, the sector in any case, since
    laps of pairs over a whole large level mix hits of near slices, hits of far ones and misses."""
    asked, told = level.probe.asked, dict(findings)
    lines = replace(level.lines, miss=level.step.miss, filler=())
    line = told["line_bytes"].value
    if told["line_bytes"].status != "ok":
        asked.cited()
        line = yield from line_of_sets(lines, sets)
        if line is None:
            return told
        told["line_bytes"] = measured_finding("line_bytes", line, LINE_OF_CROWD_METHOD, asked.cited())
    if isinstance(line, int):
        asked.cited()
        sector = yield from sector_of_sets(lines, sets, line)
        if sector.nbytes is not None:
            told["sector_bytes"] = measured_finding("sector_bytes", sector.nbytes, SECTOR_OF_SET_METHOD, asked.cited())
    return told


def _with_linear_index(
    findings: Mapping[str, Finding], sets: EvictionSets, index: LinearIndex, evidence: tuple[str, ...]
) -> dict[str, Finding]:
    """The findings of a level whose sets parities of address bits choose. Where it has tags for more lines than fit, as where
    local memory takes a part of its storage, the size is what fits."""
    assert sets.line_bytes is not None
    held, size = sets.ways * sets.line_bytes * index.sets, findings["size_bytes"]
    slack = MAX_DISTURBED_LINE_SHARE if sets.probe.asked.shared else MAX_RELATIVE_DIFFERENCE
    found = {
        **findings,
        "ways": measured_finding("ways", sets.ways, WAYS_METHOD, evidence),
        "line_bytes": measured_finding("line_bytes", sets.line_bytes, LINE_METHOD, evidence),
        "sets": measured_finding("sets", index.sets, LINEAR_METHOD, evidence),
        "set_bits": measured_finding("set_bits", format_set_bits(index.bits), LINEAR_METHOD, evidence),
    }
    if size.status != "ok" and size.low and held * (1 - MAX_RELATIVE_DIFFERENCE) <= size.low:
        found["size_bytes"] = measured_finding("size_bytes", held, LINEAR_METHOD, evidence, size.low, held)
    if size.status == "ok" and isinstance(size.value, int | float) and size.value < held * (1 - slack):
        found["tagged_bytes"] = measured_finding("tagged_bytes", held, LINEAR_METHOD, evidence)
    elif size.status == "ok" and sets.probe.asked.shared and size.low and size.low < held:
        found["size_bytes"] = measured_finding("size_bytes", held, LINEAR_METHOD, evidence, size.low, held)  # others took lines
    return found


def _with_counted_pages(
    findings: Mapping[str, Finding], sets: EvictionSets, count: int, evidence: tuple[str, ...], counted_from: tuple[str, ...]
) -> dict[str, Finding]:
    """The findings of a level whose sets the share of congruent pages told. Others may take lines of it at any time: what
    surely fits is a lower bound."""
    assert sets.line_bytes is not None
    whole, size = count * sets.ways * sets.line_bytes, findings["size_bytes"]
    found = {
        **findings,
        "ways": measured_finding("ways", sets.ways, WAYS_METHOD, evidence),
        "line_bytes": measured_finding("line_bytes", sets.line_bytes, LINE_METHOD, evidence),
        "sets": measured_finding("sets", count, PAGES_METHOD, counted_from),
    }
    if size.status != "ok":
        cited = tuple(dict.fromkeys((*evidence, *counted_from)))
        found["size_bytes"] = measured_finding(
            "size_bytes", whole, PAGES_SIZE_METHOD, cited, min(whole, size.low or whole), whole
        )
    return found


def _with_reason(found: Finding, more: str) -> Finding:
    """A finding without a value, with what was tried besides."""
    return replace(found, reason=f"{found.reason}; eviction sets: {more}") if found.status == "undetermined" else found


def _policy(
    level: LevelBeyondStrides, sets: EvictionSets, index: LinearIndex | None
) -> Experiment[tuple[Mapping[str, Finding], frozenset[str]]]:
    """The policy by walks over one line more than an eviction set has, and the policies that are possible. Behind a nearer
    cache laps that it does not serve, with filler between the lines, leave some possible."""
    another = index.another_line(sets.lines[0]) if index is not None else None
    if another is not None:
        more = replace(sets, more=(*sets.lines[0], another))
    else:
        more = yield from find_another_line(sets, level.most_bytes)
    if not more.more:
        why = "no further line of an eviction set's set was found"
        return {"policy": undetermined_finding("policy", why)}, frozenset()
    probe, nearer = level.probe, level.lines.nearer
    if sets.fills_all:  # lines that are visited twice in a lap may be served nearer, since the filler is spread over all sets
        found, likely = {"policy": undetermined_finding("policy", ONE_VISIT_ONLY)}, frozenset[str]()
    else:
        of_lines = SetLines(len(more.more), own=more.more, filler=more.fillers[0])
        of_set = SetOfLevel(sets.ways, of_lines, level.unit, nearer, level.before, level.miss_is_known)
        found, likely = yield from probe_possible_policies(probe, of_set)
    if likely or not nearer or not level.miss_is_known:
        return found, likely
    lines = replace(more.probe, filler=more.fillers[0], miss=level.step.miss)
    missed = yield from lines.misses(more.more[: sets.ways], 0)
    if missed is None or abs(missed) > MAX_SERVED_SHARE * sets.ways + LAP_NOISE_SIGMAS * lines.deviation(
        sets.ways + len(lines.filler)
    ):
        return found, frozenset()  # the nearer cache serves some of them
    observations = []
    for seed in range(CYCLIC_ORDERS):
        misses = yield from lines.misses(more.more, seed)
        if misses is None:
            return found, frozenset()
        every = pattern_offsets(lines.lap([*more.more, *lines.filler], seed).pattern).tolist()
        rate, half = misses / len(more.more), 1.96 * lines.deviation(len(every)) / len(more.more)
        observations.append(([offset for offset in every if offset in more.more], rate, rate - half, rate + half))
    possible = policies_by_cyclic_laps(sets.ways, observations)
    if len(possible) == 1:
        found = {"policy": policy_from_rates(sets.ways, observations, level.probe.asked.cited())}
    return found, possible


def _capacity(
    level: LevelBeyondStrides, chase: ChaseLayout, findings: Mapping[str, Finding], sets: EvictionSets, possible: frozenset[str]
) -> Experiment[tuple[float, float, str, tuple[str, ...]]]:
    """The least and the most capacity in bytes (0: not known), how it was found, and the records."""
    size = findings["size_bytes"]
    if size.status == "ok" and isinstance(size.value, int | float):
        return float(size.value), float(size.value), size.method, size.evidence
    turned = yield from turn_round(
        level.probe.asked,
        chase,
        level.step,
        sets.line_bytes or level.lines.node_bytes,  # each line once: with some left out others would seem to be as large
        level.nearer,
        level.most_turning_bytes,
        possible == {"random"},
    )
    if turned is None:
        return 0.0, 0.0, "", ()
    method = RANDOM_METHOD if possible == {"random"} else SIZE_METHOD
    return *_capacity_by_policy(turned, sets.ways, possible), method, turned.evidence


def _capacity_by_policy(turned: Turning, ways: int, possible: frozenset[str]) -> tuple[float, float]:
    """The least and the most capacity that laps tell under the policies that are possible (0: not known); where none is known,
    as under LRU if no access hits, since random victims leave some. NRU keeps at least (w - 1) / w of the bytes used last; of
    two ways it keeps all, as LRU or FIFO."""
    if possible == {"random"}:
        found = turned.random_bytes(ways) or 0.0
        return found, found
    recent = turned.recent_bytes(bool(possible) and possible <= RECENCY_POLICIES)
    if recent is None or not turned.misses_all or not possible <= RECENCY_POLICIES | {"NRU"}:
        return 0.0, 0.0
    if not possible and (ways < MIN_WAYS_WITHOUT_POLICY or not turned.excludes_random()):
        return 0.0, 0.0
    is_sure = ways == 2 or (possible and possible <= RECENCY_POLICIES)
    return recent, recent if is_sure else recent * ways / (ways - 1)
