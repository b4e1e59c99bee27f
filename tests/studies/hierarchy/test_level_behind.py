"""What is told of a level behind others: its unit, its policy by single accesses, its number of sets, and that it is there."""

from dataclasses import replace

import pytest

from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_findings import LapTranslation, LevelLatency, without_translation
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep, find_steps
from clmembench.studies.hierarchy.curve.reversed_laps import number_of_sets
from clmembench.studies.hierarchy.curve.set_count import hides_another_level, number_of_steep_end, with_sets_between_bounds
from clmembench.studies.hierarchy.eviction.eviction_sets import EvictionSets, find_eviction_sets
from clmembench.studies.hierarchy.eviction.pool_reduction import _members
from clmembench.studies.hierarchy.levels.evicted_level import LevelBeyondStrides, findings_by_eviction
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import find_fill_unit, longest_unit
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

QUIET = Noise(lap_relative=0.001)
NAMES = ("size_bytes", "line_bytes", "ways", "sets", "policy")


def machine(*caches, memory=300.0, tlbs=()):
    return Machine("test", {"global": Path(tuple(caches), memory, tuple(tlbs))}, QUIET, 7, one_arena=True)


def answers(device):
    return lambda probes: [device.answer(probe) for probe in probes]


def hashed(sets, ways, line):
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    masks = [1 << (low + i) | 1 << (low + bits + i) | 1 << (low + bits + (i + 3) % bits) for i in range(bits)]
    return Sets((ways,) * sets, masks=tuple(masks))


def level_of(device, number, fits, node=64, entries=0, page=0):
    caches = device.paths["global"].caches
    cycles = [*(cache.hit_cycles for cache in caches), device.paths["global"].memory_cycles]
    hit, miss, before = cycles[number], cycles[number + 1], cycles[number - 1] if number else 0.0
    held = caches[0].size_bytes // node * 4 // 5
    line = caches[0].line_bytes if number else 0
    lines = LineProbe(
        ProbeSession(), "global", hit, miss, before, 0.001, node, cycles[0], held, entries, page, nearer_line=line
    )
    laps = LevelProbe(lines.asked, ChaseLayout(), HitMissModel(hit, miss, 0.001 * hit))
    step = CurveStep(hit, hit, miss, fits, 2 * fits, 3 * fits, True, 0.001)
    nearer = (caches[0].size_bytes, before) if number else (0.0, 0.0)
    way_bytes = caches[0].size_bytes // max(caches[0].sets.ways) if number else 0
    return LevelBeyondStrides(
        laps, lines, step, number, nearer, max(caches[0].sets.ways), way_bytes, 64 * MIB, 64 * MIB, node, True
    )


def told(device, level, size=None):
    before = {name: undetermined_finding(name, "not known") for name in NAMES}
    if size is not None:
        before["size_bytes"] = undetermined_finding("size_bytes", "not known", low=size)
    return replay(findings_by_eviction(level, ChaseLayout(block_bytes=128 * KIB), before), answers(device))[0]


@pytest.mark.parametrize("policy", ["LRU", "FIFO"])
def test_the_policy_behind_a_first_cache_is_told_by_single_accesses_that_miss_it(policy):
    """Whole laps that the first cache does not serve visit each line once, in which LRU and FIFO are alike."""
    device = machine(
        Cache(plain(32, 4, 64), 64, 5.0), Cache(plain(512, 8, 64), 64, 25.0, policy, frame_bytes=4096), memory=100.0
    )
    found = told(device, level_of(device, 1, 128 * KIB))
    assert [found[name].value for name in NAMES] == [256 * KIB, 64, 8, 512, policy]


@pytest.mark.slow
def test_a_first_cache_with_lines_of_two_sectors_is_told_by_lines():
    cache = Cache(hashed(64, 8, 128), 128, 28.0, "NRU", sector_bytes=64)
    device = machine(cache, memory=60.0, tlbs=(Tlb(Sets((36,)), 4096, 10.0),))
    found = told(device, level_of(device, 0, 60 * KIB, 64, 36, 4096), 63 * KIB)
    assert [found[name].value for name in NAMES] == [64 * KIB, 128, 8, 64, "NRU"]


def test_no_product_is_less_than_what_surely_fits():
    device = machine(Cache(hashed(64, 8, 64), 64, 28.0), memory=60.0)
    found = told(device, level_of(device, 0, 60 * KIB), 40 * KIB)
    assert found["size_bytes"].status != "ok"  # 32 KiB are said by laps, but 40 KiB fit


def test_a_capacity_is_not_taken_from_a_level_behind_that_the_curve_does_not_show():
    """Of 8 ways half a cache's lines in random sets miss at 5%; a third says that another cache of that size stands behind."""
    assert hides_another_level([(1 * MIB, 0.0), (4 * MIB, 0.2), (8 * MIB, 0.31)], 8, 16 * MIB)
    assert not hides_another_level([(4 * MIB, 0.01), (8 * MIB, 0.1), (12 * MIB, 0.5)], 8, 16 * MIB)


def test_sixteen_ways_behind_a_first_cache_are_found_in_few_probes():
    device = machine(
        Cache(plain(64, 8, 64), 64, 4.0, "tree-PLRU"), Cache(plain(512, 16, 64), 64, 8.0, "tree-PLRU", frame_bytes=4096),
        memory=30.0,
    )  # fmt: skip
    level = level_of(device, 1, 400 * KIB)
    found = replay(find_eviction_sets(level.lines, 8, 4096, 64 * MIB), answers(device))
    assert isinstance(found, EvictionSets), found
    assert found.ways == 16
    assert len(level.lines.asked.answers) < 900


def test_lines_that_overflow_a_tlb_are_no_eviction_set():
    """Of 48 lines more than 36 entries a control over half of them would cost nothing."""
    device = machine(
        Cache(plain(32, 2, 128), 128, 5.0), Cache(hashed(64, 8, 128), 128, 32.0, "tree-PLRU", frame_bytes=4096),
        memory=208.0, tlbs=(Tlb(Sets((36,)), 4096, 6.0), Tlb(plain(32, 8, 4096), 4096, 35.0)),
    )  # fmt: skip
    level = level_of(device, 1, 30 * KIB, 128, 36, 4096)
    found = replay(find_eviction_sets(level.lines, 2, 4096, 64 * MIB), answers(device))
    assert isinstance(found, str) or found.ways == 8


@each("miss", [560.0, 1500.0])
@each(("first", "second"), [(32, 64), (64, 128), (128, 128)])
def test_a_longer_unit_than_the_nearer_levels_is_found_where_a_hit_costs_much_itself(first, second, miss):
    """The first cache serves the second access of a pair in one of its lines, and this level that in one of its own."""
    device = machine(Cache(plain(16, 4, first), first, 30.0), Cache(plain(256, 8, second), second, 460.0), memory=miss)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(460.0, miss, 0.5))
    found = replay(find_fill_unit(probe, 512 * KIB, second, [30.0]), answers(device))
    assert found.nbytes == second, found.reason


def test_short_lines_that_a_hash_spreads_are_not_taken_for_long_ones():
    """Of too few pairs all lines would fit into a cache of 96 KiB, whatever their distance."""
    device = machine(Cache(plain(32, 16, 32), 32, 90.0, "random"), Cache(hashed(256, 12, 32), 32, 196.0, "FIFO"), memory=1393.0)
    assert replay(longest_unit(ProbeSession(), "global", 384 * KIB, 64), answers(device)) == 64


def test_a_level_that_random_victims_approach_slowly_is_one():
    sizes = [int(2 * KIB * 2 ** (i / 4)) for i in range(40)]
    slow = [18.7, 20.7, 25.1, 29.1, 31.0, 33.0, 34.2, 35.2, 35.5, 36.0]
    values = [5.0] * 6 + [16.0] * 8 + [17.6, *slow, 56.8, 82.3, 94.7, 123.1, 143.9, 160.2] + [168.3] * 9
    assert [(step.hit, step.flat) for step in find_steps(sizes, values, values, 0.002)] == [
        (5.0, True),
        (16.0, True),
        (pytest.approx(36.0, rel=0.02), True),
    ]


def test_misses_that_begin_where_a_number_of_sets_is_full_tell_that_number():
    step = CurveStep(20.0, 20.0, 100.0, 100 * KIB, 130 * KIB, 160 * KIB)
    size = undetermined_finding("size_bytes", "only a lower bound", low=127 * KIB)
    assert number_of_steep_end(step, size, 8 * 64) == 256
    assert number_of_steep_end(replace(step, gone_bytes=200 * KIB), size, 8 * 64) is None
    assert number_of_steep_end(step, replace(size, low=115.0 * KIB), 8 * 64) is None
    slow, at_end = replace(step, gone_bytes=480 * KIB), replace(size, low=128.0 * KIB - 64)
    assert number_of_steep_end(slow, at_end, 8 * 64, frozenset({"way-weighted"})) == 256
    assert number_of_steep_end(slow, at_end, 8 * 64, frozenset({"random"})) is None


def test_lines_that_are_needed_one_and_all_are_no_set():
    """257 pages of a TLB of 256 entries, in a cache that holds their lines."""
    device = machine(
        Cache(plain(64, 16, 64), 64, 5.0), Cache(plain(4096, 8, 64), 64, 15.0, frame_bytes=64 * KIB), memory=117.0,
        tlbs=(Tlb(plain(32, 8, 64 * KIB), 64 * KIB, 50.0),),
    )  # fmt: skip
    probe = replace(level_of(device, 0, 48 * KIB).lines, hit=5.0, miss=15.0)
    pages = [page * 64 * KIB + page % 16 * 4096 + page % 64 * 64 for page in range(264)]
    assert replay(_members(probe, pages, 10_000), answers(device)) is None
    assert len(probe.asked.answers) < 200


def test_four_even_points_between_two_small_rises_are_no_level():
    """A few pages of 4 KiB lie in a cache of 128 KiB by chance as well up to 144 KiB as they do at 84 KiB."""
    sizes = [int(2 * KIB * 2 ** (i / 4)) for i in range(40)]
    chance = [28.8, 28.2, 28.3, 28.1, 37.8, 38.3]
    values = [5.0] * 11 + [6.5, 10.6, 13.7, 15.9, 17.5, 18.5, 19.1, 19.5, 19.8, 19.8, 19.9, *chance, *[41.0] * 12]
    steps = find_steps(sizes, values, values, 0.003)
    assert [(step.hit, step.miss) for step in steps] == [
        (5.0, pytest.approx(19.9, rel=0.01)),
        (pytest.approx(19.9, rel=0.01), 41.0),
    ]


def test_the_line_of_a_second_level_may_be_longer_than_the_first_ones():
    """A line that is moved by less falls into another set of the first cache, which then serves it."""
    device = machine(
        Cache(plain(256, 6, 64), 64, 21.0, "NRU"), Cache(plain(2048, 6, 128), 128, 97.0, sector_bytes=64), memory=350.0
    )
    found = replay(find_eviction_sets(level_of(device, 1, 1400 * KIB).lines, 6, 16 * KIB, 256 * MIB), answers(device))
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (6, 128)


def test_a_capacity_between_two_tells_the_sets_only_where_one_number_suits():
    way = 8 * 64
    assert number_of_sets(0.87 * 1024 * way, way, most=0.87 * 8 / 7 * 1024 * way) == 1024
    assert number_of_sets(0.95 * 1024 * way, way, most=0.95 * 4 / 3 * 1024 * way) is None  # 1024 and 1280 do


def test_the_line_of_a_second_level_is_not_taken_for_shorter_where_the_first_serves_the_filler_again():
    """Moved by half a line, the filler is visited twice, and its second visits hit the first cache and hide a miss."""
    device = machine(
        Cache(plain(64, 16, 64), 64, 3.0), Cache(plain(1024, 8, 64), 64, 7.0, "random", frame_bytes=4096), memory=34.0
    )
    found = replay(find_eviction_sets(level_of(device, 1, 300 * KIB).lines, 16, 4096, 256 * MIB), answers(device))
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (8, 64)


def test_bounds_between_which_one_number_of_sets_lies_tell_it():
    def known(low, high):
        size = undetermined_finding("size_bytes", "a soft end", low=low, high=high)
        ways, line = (measured_finding(name, value, "test", ("chase:1",)) for name, value in (("ways", 16), ("line_bytes", 64)))
        return {"size_bytes": size, "ways": ways, "line_bytes": line, "sets": undetermined_finding("sets", "not known")}

    told = with_sets_between_bounds(known(240 * KIB, 284 * KIB))
    assert (told["sets"].value, told["size_bytes"].value) == (256, 256 * KIB)
    assert with_sets_between_bounds(known(240 * KIB, 330 * KIB))["sets"].status == "undetermined"  # 320 sets too
    assert with_sets_between_bounds(known(240 * KIB, None))["sets"].status == "undetermined"
    assert with_sets_between_bounds(known(29 * MIB, 34 * MIB))["sets"].status == "undetermined"  # 15 slices of 2 MiB too
    assert with_sets_between_bounds(known(31 * MIB, 33 * MIB))["sets"].value == 32 * KIB


def test_a_halt_within_a_rise_is_no_level():
    """Few page frames fall unevenly: a quarter of an octave is even, before the next level's plateau."""
    sizes = [int(64 * KIB * 2 ** (i / 4)) for i in range(40)]
    sizes[9:9] = [int(sizes[8] * 2 ** (i / 16)) for i in (1, 2, 3)]
    values = [121.0] * 7 + [382.0, 470.0, 470.0, 470.0, 470.0, 528.0, *[535.0] * 14, 875.0, *[1120.0] * 15]
    steps = find_steps(sizes, values, values, 0.002)
    assert [step.hit for step in steps] == [121.0, 535.0]
    assert [step.miss for step in steps] == [535.0, 1120.0]


def test_translation_is_no_part_of_a_latency():
    translation = LapTranslation(((256 * KIB, 14.0), (1 * MIB, 50.0)), 4 * KIB)
    assert translation.cost(200 * KIB, 128) == 0.0
    assert translation.cost(512 * KIB, 128) == 14.0 / 32
    assert translation.cost(64 * MIB, 128) == 50.0 / 32
    told = without_translation(LevelLatency("test", (), 21.56, 10.78), 50.0 / 32)
    assert (told.value, told.ns) == (pytest.approx(20.0, abs=0.01), pytest.approx(10.0, abs=0.01))
