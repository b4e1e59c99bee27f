"""infer.hierarchy.paired_lines: lines that a prefetcher brings in pairs are told from lines twice as long."""

from __future__ import annotations

import pytest

from clmembench.model import Answer
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.geometry import paired_lines
from clmembench.studies.hierarchy.geometry.paired_lines import (
    NOT_MEASURED,
    UNPAIRED,
    LineUnit,
    Paired,
    settle_line_unit,
    without_doubted_line,
    without_sets_of_pairs,
)
from clmembench.studies.hierarchy.geometry.strides import SetGeometry
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize, find_fill_unit
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.cases import each
from tests.hierarchy import PairPrefetch
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, plain
from tests.truths import hashed

L1 = Cache(plain(64, 8, 64), 64, 4.0)
SIZE, PAIR = 256 * KIB, UnitSize(128)
BUDDY, NEXT, HALF = PairPrefetch(1), PairPrefetch(1, ahead=1), PairPrefetch(1, 0.5)


def second(line, ways, policy, is_hashed=False, frame_bytes=0):
    sets = SIZE // line // ways
    return Cache(hashed(sets, ways, line) if is_hashed else plain(sets, ways, line), line, 14.0, policy, 0, frame_bytes)


def settled(cache, pairs, fits=1.0, nearer=UNPAIRED, filled=PAIR):
    device = Machine("test", {"global": Path((L1, cache), 200.0, pairs=pairs)}, Noise(lap_relative=0.002), 3, one_arena=True)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(14.0, 200.0, 0.03))
    experiment = settle_line_unit(probe, filled, int(fits * SIZE), 64 * MIB, nearer)
    return replay(experiment, lambda probes: [device.answer(probe) for probe in probes])


@each("policy", ["LRU", "tree-PLRU", "NRU", "random"])
@each(("is_hashed", "frame_bytes", "fits"), [(False, 0, 1.0), (True, 0, 1.0), (False, 4096, 0.6), (True, 4096, 0.6)])
@each("pairs", [BUDDY, NEXT, HALF])
def test_lines_that_are_evicted_each_by_itself_are_lines(policy, is_hashed, frame_bytes, fits, pairs):
    found = settled(second(64, 8, policy, is_hashed, frame_bytes), pairs, fits)
    assert (found.line_bytes, found.pair_bytes, found.filled.nbytes) == (64, 128, 64)


@each("policy", ["LRU", "tree-PLRU", "NRU", "random"])
@each(("is_hashed", "frame_bytes", "fits"), [(False, 0, 1.0), (True, 0, 1.0), (False, 4096, 0.6), (True, 4096, 0.6)])
def test_a_line_whose_halves_leave_together_is_one(policy, is_hashed, frame_bytes, fits):
    found = settled(second(128, 8, policy, is_hashed, frame_bytes), None, fits)
    assert (found.line_bytes, found.pair_bytes, found.filled.nbytes, found.doubt) == (0, 0, 128, "")


def test_pairs_at_some_misses_show_a_second_access_that_neither_hits_nor_misses():
    found = settled(second(64, 8, "LRU"), HALF, filled=UnitSize(None, "neither hits nor misses", 64))
    assert (found.line_bytes, found.pair_bytes) == (64, 128)


@each("policy", ["LRU", "tree-PLRU", "NRU"])
@each("pairs", [PairPrefetch(0), PairPrefetch(0, 0.5), PairPrefetch(0, ahead=1)])
def test_the_same_sector_of_the_other_line_tells_line_and_sector(policy, pairs):
    """A second access 32 B away misses and one 64 B away does not: a line of 128 B, or a sector of 64 B, was told."""
    cache = Cache(plain(64, 8, 64), 64, 4.0, policy, 32)
    device = Machine("test", {"global": Path((cache,), 60.0, pairs=pairs)}, Noise(lap_relative=0.002), 3, one_arena=True)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(4.0, 60.0, 0.02))
    filled = replay(find_fill_unit(probe, 36 * KIB), lambda probes: [device.answer(p) for p in probes])
    assert (filled.nbytes, filled.beside) == (32, 64)
    found = replay(settle_line_unit(probe, filled, 32 * KIB, 64 * MIB), lambda probes: [device.answer(p) for p in probes])
    assert (found.line_bytes, found.filled.nbytes, found.pair_bytes) == (64, 32, 128)


def test_behind_a_level_that_brings_pairs_both_halves_are_seen_each_time():
    found = settled(second(64, 8, "LRU"), None, nearer=Paired(128, 64))
    assert (found.line_bytes, found.filled.nbytes, found.doubted) == (0, None, (64, 512)) and "prefetcher" in found.doubt


def test_behind_a_level_that_brings_lines_at_some_misses_no_longer_line_is_believed():
    """Its prefetcher brought the two lines behind every second miss: lines of 128 B, as found by strides, looked like 256 B."""
    names = {"line_bytes": 256, "sector_bytes": 128, "sets": 64, "ways": 16, "policy": "LRU"}
    findings = {name: measured_finding(name, value, "test", ("r",)) for name, value in names.items()}
    found = without_doubted_line(findings, settled(second(128, 8, "LRU"), None, nearer=Paired(128, 64)))
    assert [(found[n].status, found[n].low, found[n].high) for n in ("line_bytes", "sets")] == [
        ("undetermined", None, 256),
        ("undetermined", 64, None),
    ]


def test_units_of_which_only_one_half_fits_are_two_lines():
    """36 places 256 B apart fit into 48 ways of 128 B whose victims are drawn, and a prefetcher brought the other halves."""
    cache = Cache(plain(1, 48, 128), 128, 4.0, "random")
    device = Machine("test", {"global": Path((cache,), 28.0, pairs=PairPrefetch(0))}, Noise(lap_relative=0.002), 3)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(4.0, 28.0, 0.01))
    experiment = settle_line_unit(probe, UnitSize(256), 36 * 256, 64 * MIB)
    found = replay(experiment, lambda probes: [device.answer(probe) for probe in probes])
    assert (found.filled.nbytes, found.doubted) == (None, (128, 256)) and found.doubt


def test_under_fifo_two_lines_that_come_together_go_together():
    """No access tells them from one line; the line of a policy that does is kept."""
    names = {"line_bytes": 128, "sector_bytes": 128, "sets": 64, "ways": 8}
    findings = {name: measured_finding(name, value, "test", ("r",)) for name, value in names.items()}
    for policy, left in (("FIFO", None), ("LRU", 128)):
        known = {**findings, "policy": measured_finding("policy", policy, "test", ("r",))}
        found = without_doubted_line(known, LineUnit(UnitSize(128), doubted=(64, 128)))
        assert found["line_bytes"].value == left and found["ways"].value == 8
    unknown = {**findings, "policy": undetermined_finding("policy", "no lap tells it")}
    for nearer, left in ((None, 128), (128, 128), (64, None), (0, None)):
        found = without_doubted_line(unknown, LineUnit(UnitSize(128), doubted=(64, 128)), nearer)
        assert found["line_bytes"].value == left
    bounds = without_doubted_line(
        {**findings, "policy": undetermined_finding("policy", "")}, LineUnit(UnitSize(128), doubted=(64, 128), doubt="why")
    )
    assert [(bounds[name].low, bounds[name].high) for name in ("line_bytes", "sets")] == [(None, 128), (64, None)]


def test_lines_of_one_set_that_may_be_pairs_bound_its_ways_too():
    """A fully associative cache of 128 lines under FIFO had 64 ways."""
    names = {"line_bytes": 256, "sector_bytes": 256, "sets": 1, "ways": 64, "policy": "FIFO"}
    findings = {name: measured_finding(name, value, "test", ("r",)) for name, value in names.items()}
    found = without_doubted_line(findings, LineUnit(UnitSize(256), doubted=(128, 256)))
    assert [(found[n].value, found[n].low, found[n].high) for n in ("sets", "ways")] == [(None, 1, None), (None, 64, None)]


def test_a_run_stored_before_keeps_its_line_and_says_what_it_lacks():
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(14.0, 200.0, 0.03))
    found = replay(
        settle_line_unit(probe, UnitSize(128), SIZE, 64 * MIB), lambda probes: [Answer(p, reason="no") for p in probes]
    )
    assert found.filled.nbytes == 128 and not found.doubt
    assert NOT_MEASURED in found.noted(measured_finding("line_bytes", 128, "strides", ("r",))).method
    assert found.noted(measured_finding("line_bytes", 64, "strides", ("r",))).method == "strides"


@pytest.mark.parametrize("shared", [False, True])
def test_a_second_level_with_a_prefetcher_of_pairs_has_its_lines_and_sets(shared):
    """Before, its line and sector were 128 B of 64, and its sets half as many."""
    caches = (Cache(plain(16, 4, 64), 64, 4.0), Cache(plain(128, 8, 64), 64, 14.0))
    device = Machine(
        "test", {"global": Path(caches, 80.0, pairs=BUDDY)}, Noise(lap_relative=0.001), 5, no_clock="none", one_arena=True
    )
    limits = ProbeLimits(8 * MIB, 256 * KIB, frozenset({"global"}), 64, shared)
    found = replay(infer_hierarchy(limits), lambda probes: [device.answer(probe) for probe in probes])
    told = {
        name: found.levels[1].findings[name].value
        for name in ("size_bytes", "line_bytes", "sector_bytes", "ways", "sets", "pair_bytes")
    }
    assert told == {"size_bytes": 64 * KIB, "line_bytes": 64, "sector_bytes": 64, "ways": 8, "sets": 128, "pair_bytes": 128}
    assert [found.levels[0].findings[name].value for name in ("line_bytes", "sector_bytes", "sets")] == [64, 64, 16]


def test_fewer_hits_of_a_nearer_cache_are_no_misses():
    """The first cache, a quarter as large, serves more of few lines than of many."""
    first = Cache(plain(128, 8, 64), 64, 3.0, "tree-PLRU")
    cache = Cache(hashed(256, 8, 128), 128, 11.0, "random", frame_bytes=4096)
    device = Machine("test", {"global": Path((first, cache), 42.0)}, Noise(lap_relative=0.002), 3, one_arena=True)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(11.0, 42.0, 0.02))
    found = replay(settle_line_unit(probe, PAIR, 180 * KIB, 64 * MIB), lambda probes: [device.answer(p) for p in probes])
    assert (found.line_bytes, found.filled.nbytes, found.doubt) == (0, 128, "")


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_lines_that_follow_four_by_four_make_neither_lines_nor_latencies_longer(share):
    """A prefetcher of four lines at each miss, which goes as far as any line might: memory took a fifth."""
    caches = (Cache(plain(16, 4, 64), 64, 4.0), Cache(plain(128, 8, 64), 64, 14.0))
    path = Path(caches, 120.0, pairs=PairPrefetch(1, share, 4))
    device = Machine("test", {"global": path}, Noise(lap_relative=0.001), 5, no_clock="none", one_arena=True)
    limits = ProbeLimits(64 * MIB, 256 * KIB, frozenset({"global"}), 64)
    found = replay(infer_hierarchy(limits), lambda probes: [device.answer(probe) for probe in probes])
    assert [level.name for level in found.levels] == ["L1", "L2", "DRAM"] and not found.tlb
    told = [level.findings["latency_cycles"].value for level in found.levels]
    assert told == pytest.approx([4.0, 14.0, 120.0], rel=0.02)
    assert [level.findings["line_bytes"].value for level in found.levels[:2]] == [64, 64]


def test_a_first_cache_smaller_than_sixteen_long_units_is_the_first():
    """Nodes of 512 B, as long as the second cache's lines, began at 8 KiB: the second cache was numbered first."""
    caches = (Cache(plain(16, 4, 64), 64, 4.0), Cache(plain(32, 8, 512), 512, 20.0))
    device = Machine("test", {"global": Path(caches, 120.0)}, Noise(lap_relative=0.001), 5, no_clock="none", one_arena=True)
    limits = ProbeLimits(64 * MIB, 512 * KIB, frozenset({"global"}), 64)
    found = replay(infer_hierarchy(limits), lambda probes: [device.answer(probe) for probe in probes])
    assert [level.findings["size_bytes"].value for level in found.levels[:2]] == pytest.approx([4 * KIB, 128 * KIB], rel=0.01)


@pytest.mark.parametrize(("laps", "line"), [
    ([(26.7, 30.4, 38.7), (28.2, 34.0, 58.8), (32.4, 65.4, 73.1)], None),
    ([(26.7, 37.0, 38.7), (28.2, 55.0, 58.8), (32.4, 65.4, 73.1)], 128),
    ([(26.7, 26.8, 27.9), (26.7, 38.0, 66.0)], 64),
])  # fmt: skip
def test_halves_that_more_lines_tell_otherwise_than_fewer_are_not_settled(monkeypatch, laps, line):
    """Lines of 64 B, two of which a prefetcher brought: where another level served the misses they cost so much later that
    the halves alone overflowed the cache, and seemed to be one."""

    def measured(_probe, unit, _count):
        yield from ()
        return paired_lines.HalvesLaps(*left.pop(0)) if unit == 128 else paired_lines.HalvesLaps(26.7, 66.0, 66.0)

    left = list(laps)
    monkeypatch.setattr(paired_lines, "_laps", measured)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(21.4, 497.0, 0.02))
    assert replay(paired_lines.shortest_line(probe, 128, 1200 * KIB, 1024 * MIB), lambda probes: []) == line


@each(("line", "nearer", "expected"), [
    (LineUnit(UnitSize(64), 64, 128), 64, True),
    (LineUnit(UnitSize(None), doubted=(64, 128), doubt="not settled"), None, True),
    (LineUnit(UnitSize(128), doubted=(64, 128), note="one"), 64, True),  # as under FIFO
    (LineUnit(UnitSize(128), doubted=(64, 128), note="one"), 128, False),
    (LineUnit(UnitSize(128), doubted=(64, 128), note="one"), None, False),
    (LineUnit(UnitSize(64)), 64, False),
])  # fmt: skip
def test_lines_that_may_come_in_pairs(line, nearer, expected):
    assert line.may_be_pairs(nearer) == expected


def test_lines_of_a_level_that_brings_several_are_in_doubt_under_fifo_alone():
    """A FIFO cache brought the next two lines of 64 B: lines of 128 B were told from pairs of 256 B."""
    device = Machine(
        "test", {"global": Path((Cache(plain(16, 12, 64), 64, 5.0, "FIFO"),), 12.0, pairs=PairPrefetch(0, ahead=2))},
        Noise(lap_relative=0.001), 3, one_arena=True,
    )  # fmt: skip
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(5.0, 12.0, 0.01))
    unit = replay(settle_line_unit(probe, UnitSize(256), 12 * KIB, 64 * MIB), lambda probes: [device.answer(p) for p in probes])
    names = {"line_bytes": unit.line_bytes, "sector_bytes": unit.line_bytes, "sets": 8, "ways": 12}
    findings = {name: measured_finding(name, value, "test", ("r",)) for name, value in names.items()}
    fifo = without_doubted_line({**findings, "policy": measured_finding("policy", "FIFO", "test", ("r",))}, unit)
    assert unit.line_bytes == 128 and unit.pair_bytes == 256
    assert [(fifo[name].value, fifo[name].high) for name in ("line_bytes", "sector_bytes")] == [(None, 128)] * 2
    for policy in (measured_finding("policy", "LRU", "test", ("r",)), undetermined_finding("policy", "no lap tells it")):
        assert without_doubted_line({**findings, "policy": policy}, unit, 32)["line_bytes"].value == 128


def test_half_as_many_lines_as_far_apart_as_pairs_tell_no_sets():
    """In a fully associative cache each line brought in its pair: 48 of 96 lines fit two lines apart, as of two sets."""
    two = SetGeometry(((64, 96), (128, 48), (256, 48), (512, 48)), (6,), 48)
    found = without_sets_of_pairs(two, 128)
    assert found.ways is None and "48 places 128 B apart" in found.reason
    assert without_sets_of_pairs(two, 0) is two
    several = SetGeometry(((64, 96), (128, 48), (256, 24), (512, 24)), (6, 7), 24)
    assert without_sets_of_pairs(several, 128) is several


def test_a_line_shorter_than_what_a_miss_brings_in_bounds_nothing():
    """Members of eviction sets told 64 B, and pairs 128 B, which the line was."""
    names = {"line_bytes": 64, "sector_bytes": 64, "sets": 64, "ways": 8, "policy": "LRU"}
    findings = {name: measured_finding(name, value, "test", ("r",)) for name, value in names.items()}
    unit = LineUnit(UnitSize(None), doubted=(32, 512), doubt="why", brought_bytes=128)
    found = without_doubted_line(findings, unit)
    assert [(found[n].value, found[n].low, found[n].high) for n in ("line_bytes", "sets")] == [(None, None, None)] * 2


def test_places_that_may_each_be_one_short_line_bound_the_size_by_that():
    """Of a cache of 4 KiB 48 lines fit that lie 128 B apart: 6 KiB was its lower bound."""
    unit = LineUnit(UnitSize(None), doubted=(64, 128), doubt="why")
    size = undetermined_finding("size_bytes", "uneven", "laps", ("r",), 6144, 9216)
    held = unit.with_surely_held(size, 128)
    assert (held.low, held.high) == (3072, 9216)
    assert unit.with_surely_held(size, 64) == size and LineUnit(UnitSize(128)).with_surely_held(size, 128) == size
    known = measured_finding("size_bytes", 6144, "laps", ("r",))
    assert unit.with_surely_held(known, 128) == known
