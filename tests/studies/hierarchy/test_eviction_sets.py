"""infer.hierarchy beyond strides: eviction sets, reversed laps, and TLBs by two orders, on simulated memories."""

import math
from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import Answer, Pattern
from clmembench.model.address_patterns import listed, pattern_offsets
from clmembench.model.findings import undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.reversed_laps import MAX_KNOWN_POLICY_DIFFERENCE, Turning, number_of_sets, turn_round
from clmembench.studies.hierarchy.eviction.eviction_sets import (
    EvictionSets,
    find_another_line,
    find_eviction_sets,
    find_line_of_sets,
)
from clmembench.studies.hierarchy.eviction.pool_reduction import reduce_pool
from clmembench.studies.hierarchy.levels.evicted_level import LevelBeyondStrides, findings_by_eviction
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.page_probe import PageCountLimits
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.tlb.tlb import PAGE_LINES, measure_tlbs
from tests.hierarchies import uneven
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

QUIET = Noise(lap_relative=0.001)


def machine(*caches, memory=300.0, tlbs=(), noise=QUIET):
    return Machine("test", {"global": Path(tuple(caches), memory, tuple(tlbs))}, noise, 7, one_arena=True)


def answers(device):
    return lambda probes: [device.answer(probe) for probe in probes]


def line_probe(device, level=0, noise=0.001):
    caches = device.paths["global"].caches
    cycles = [*(cache.hit_cycles for cache in caches), device.paths["global"].memory_cycles]
    held = caches[0].size_bytes // caches[0].line_bytes * 4 // 5
    before = cycles[level - 1] if level else 0.0
    line = caches[0].line_bytes if level else 0
    return LineProbe(
        ProbeSession(), "global", cycles[level], cycles[level + 1], before, noise, 64, cycles[0], held, nearer_line=line
    )


def hashed(sets, ways, low=6):
    bits = sets.bit_length() - 1
    return Sets((ways,) * sets, masks=tuple(1 << (low + i) | 1 << (16 + i) | 1 << (16 + (i + 3) % bits) for i in range(bits)))


def conflicting(device, lines, level=0):
    """Lines by the set that each falls into, as the simulation maps them."""
    cache = device.paths["global"].caches[level]
    base = device.arenas["global"][2]
    return [sum(((base + at & mask).bit_count() & 1) << i for i, mask in enumerate(cache.sets.masks)) for at in lines]


@pytest.mark.parametrize("policy", ["LRU", "tree-PLRU", "random"])
def test_lines_of_one_hashed_set_are_found_whatever_the_policy(policy):
    device = machine(Cache(hashed(32, 4), 64, 20.0, policy), memory=120.0)
    found = replay(find_eviction_sets(line_probe(device), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (4, 64)
    for lines in found.lines:
        assert len(set(conflicting(device, lines))) == 1
    more = replay(find_another_line(found, 64 * MIB), answers(device)).more
    assert len(set(more)) == 6 and len(set(conflicting(device, more))) == 1


def test_a_second_level_of_pages_in_random_frames_is_found_behind_the_first():
    device = machine(
        Cache(plain(32, 4, 64), 64, 5.0), Cache(plain(1024, 8, 64), 64, 25.0, "tree-PLRU", frame_bytes=4096), memory=100.0
    )
    found = replay(find_eviction_sets(line_probe(device, 1), 4, 2048, 64 * MIB), answers(device))
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (8, 64)


def test_a_moved_line_that_the_nearer_cache_serves_is_no_shorter_line():
    """Eight lines of filler, moved, fit a set of the nearer cache, which then had the moved one: half a line was told."""
    first, second = Cache(plain(32, 8, 32), 32, 4.0, "random"), Cache(hashed(32, 24), 64, 14.0)
    device = machine(first, second, memory=42.0)
    probe = line_probe(device, 1)
    pool = [4096 * i for i in range(3000)]
    device.answer(probe.lap([0, pool[-1]]))  # which allocates them
    of_set = np.array(conflicting(device, pool, 1))
    chosen = list(dict.fromkeys(of_set.tolist()))[:2]
    sets = tuple(tuple(np.array(pool)[of_set == i][:25].tolist()) for i in chosen)
    fillers = tuple(tuple(np.array(pool)[~np.isin(of_set, chosen)][:8].tolist()) for _ in chosen)
    found = EvictionSets(probe, sets, fillers, 4096)
    assert replay(find_line_of_sets(found), answers(device)) == 64


@pytest.mark.parametrize(("ways", "line"), [(8, 128), (4, None)])
def test_the_line_of_a_set_that_empties_the_nearer_cache_itself(ways, line):
    """A place of another line of the nearer cache, and alone in its set there, would hit; where as many ways as the level's own
    keep it there it is undetermined."""
    first, second = Cache(plain(32, 4, 32), 32, 5.0), Cache(hashed(32, ways, 7), 128, 25.0)
    device = machine(first, second, memory=100.0)
    probe = line_probe(device, 1)
    pool = [4096 * i for i in range(2000)]
    device.answer(probe.lap([0, pool[-1]]))  # which allocates them
    of_set = np.array(conflicting(device, pool, 1))
    sets = tuple(tuple(np.array(pool)[of_set == i][: ways + 1].tolist()) for i in of_set[:2])
    found = EvictionSets(probe, sets, ((), ()), 4096)
    assert replay(find_line_of_sets(found), answers(device)) == line


def test_the_size_and_the_policy_behind_a_first_cache_are_told_without_a_clock():
    """Laps that visit each line once end in several cycles under NRU, one of which each lap meets."""
    caches = Cache(plain(32, 4, 64), 64, 5.0), Cache(plain(512, 8, 64), 64, 25.0, "NRU", frame_bytes=4096)
    device = replace(machine(*caches, memory=100.0), no_clock="no clock can be read inside a kernel")
    probe = replace(line_probe(device, 1), held_lines=100)
    step = CurveStep(25.0, 25.0, 100.0, 128 * KIB, 256 * KIB, 384 * KIB, True, 0.001)
    laps = LevelProbe(probe.asked, ChaseLayout(), HitMissModel(25.0, 100.0, 0.025))
    level = LevelBeyondStrides(laps, probe, step, 1, (8 * KIB, 5.0), 4, 2048, 64 * MIB, 512 * MIB, 64)
    names = ("size_bytes", "line_bytes", "ways", "sets", "policy")
    before = {name: undetermined_finding(name, "not known") for name in names}
    found = replay(findings_by_eviction(level, ChaseLayout(block_bytes=128 * KIB), before), answers(device))[0]
    assert [found[name].value for name in names[:-1]] == [256 * KIB, 64, 8, 512]
    assert (found["policy"].status, found["policy"].value) == ("ok", "NRU")


def test_sets_of_unequal_ways_are_no_answer():
    sets = uneven([5 if number % 4 == 0 else 4 for number in range(16)])
    device = machine(Cache(sets, 64, 20.0), memory=120.0)
    found = replay(find_eviction_sets(line_probe(device), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, str) or found.ways in (4, 5)  # a first cache is held against its size as well


def test_a_tlb_that_overflows_is_no_eviction_set():
    device = machine(Cache(hashed(32, 4), 64, 20.0), memory=120.0, tlbs=(Tlb(plain(8, 2, 4096), 4096, 50.0),))
    found = replay(find_eviction_sets(line_probe(device), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, str) or found.ways == 4


def test_lines_are_listed_in_runs():
    lines = [0, 4096, 8192, 12288, 40960, 45056, 100 * 4096]
    assert sorted(pattern_offsets(Pattern("segments", segments=listed(lines))).tolist()) == lines
    assert listed(lines).count(";") == 3


@pytest.mark.parametrize(("policy", "share"), [("LRU", 1.0), ("FIFO", 1.0), ("tree-PLRU", 1.0), ("NRU", 7 / 8)])
def test_laps_that_turn_round_tell_the_capacity_behind_random_frames(policy, share):
    device = machine(Cache(plain(512, 8, 64), 64, 20.0, policy, frame_bytes=4096), memory=120.0)
    step = CurveStep(20.0, 20.0, 120.0, 128 * KIB, 256 * KIB, 384 * KIB, True, 0.001)
    turned = replay(
        turn_round(ProbeSession(), ChaseLayout(block_bytes=128 * KIB), step, 64, (0.0, 0.0), 512 * MIB), answers(device)
    )
    assert turned.misses_all
    assert turned.recent_bytes() == pytest.approx(share * 256 * KIB, rel=0.02)


def test_random_victims_leave_a_share_of_hits_that_tells_the_capacity():
    device = machine(Cache(plain(512, 8, 64), 64, 20.0, "random", frame_bytes=4096), memory=120.0)
    step = CurveStep(20.0, 20.0, 120.0, 128 * KIB, 256 * KIB, 384 * KIB, True, 0.001)
    turned = replay(
        turn_round(ProbeSession(), ChaseLayout(block_bytes=128 * KIB), step, 64, (0.0, 0.0), 512 * MIB, True), answers(device)
    )
    assert not turned.misses_all
    assert turned.random_bytes(8) == pytest.approx(256 * KIB, rel=0.09)


def test_only_numbers_of_sets_that_caches_have_are_believed():
    assert number_of_sets(1.01 * 8 * 64 * 1024, 8 * 64) == 1024
    assert number_of_sets(0.99 * 8 * 64 * 768, 8 * 64) == 768
    assert number_of_sets(7 / 8 * 8 * 64 * 1024, 8 * 64) is None
    assert number_of_sets(8 * 64 * 15 * 1024, 8 * 64, MAX_KNOWN_POLICY_DIFFERENCE) is None


@pytest.mark.parametrize("policy", ["LRU", "FIFO", "random"])
@pytest.mark.slow
def test_a_tlb_is_told_by_two_orders_of_the_same_lines_where_their_caches_overflow(policy):
    device = machine(
        Cache(plain(16, 4, 64), 64, 5.0, "tree-PLRU"), Cache(plain(1024, 8, 64), 64, 30.0), memory=100.0,
        tlbs=(Tlb(Sets((40,)), 64 * KIB, 12.0, policy),),
    )  # fmt: skip
    chase = ChaseLayout(shift_bytes=64, control_bytes=64, page_lines=PAGE_LINES)
    (tlb,) = replay(measure_tlbs(ProbeSession(), chase, PageCountLimits(512 * MIB, 0.001)), answers(device))
    assert (tlb.page.nbytes, tlb.tags.fits) == (64 * KIB, 40)
    assert math.fsum(tlb.penalties) / len(tlb.penalties) == pytest.approx(12.0, rel=0.05)


def test_caches_without_a_tlb_show_none():
    device = machine(
        Cache(plain(16, 4, 64), 64, 5.0, "random"), Cache(hashed(1024, 8), 64, 30.0, "NRU"), memory=100.0,
        noise=Noise(lap_relative=0.004),
    )  # fmt: skip
    chase = ChaseLayout(shift_bytes=64, control_bytes=64, page_lines=PAGE_LINES)
    assert replay(measure_tlbs(ProbeSession(), chase, PageCountLimits(256 * MIB, 0.004)), answers(device)) == []


def test_lines_of_far_slices_are_no_eviction_set():
    """As past the L1 of an H200: no set overflows, and what a line costs depends on where its slice is."""

    def slices(lines):
        return lines // 128 * 0x9E3779B1 % (1 << 32) >> 26

    def answered(probe):
        value = float(252 + slices(pattern_offsets(probe.pattern)).mean() * 60 / 63)
        return Answer(probe, value, value, value, "cycles", value)

    every = np.arange(4096) * 65536
    far = every[slices(every) >= 60].tolist()
    probe = LineProbe(ProbeSession(), "global_cg", 282.0, 516.0, 0.0, 0.0013, 128, 32.0, 1400, 16, 16 * MIB)
    found = replay(reduce_pool(probe, far, (6, 12, 24), 1000), lambda probes: [answered(one) for one in probes])
    assert isinstance(found, str)


@pytest.mark.parametrize(
    ("ways", "apart", "entries", "reach", "doubted"),
    [
        (32, 4 * KIB, 0, 128 * KIB, True),  # of a TLB whose sets are not known
        (16, 64 * KIB, 16, 64 * KIB, True),
        (16, 64, 16, 64 * KIB, False),  # 17 lines in one page
        (8, 64 * KIB, 16, 64 * KIB, False),
    ],
)
def test_as_many_lines_as_a_tlb_has_entries_may_overflow_that(ways, apart, entries, reach, doubted):
    probe = LineProbe(ProbeSession(), "global", 35.0, 111.0, 0.0, 0.003, 64, 35.0, 64, entries, 4 * KIB, reach_bytes=reach)
    lines = tuple(apart * number for number in range(ways + 1))
    assert EvictionSets(probe, (lines,), ((),), apart).may_overflow_tlb is doubted


def test_two_allocations_may_differ_more_where_the_policy_is_known_to_keep_what_was_used_last():
    turned = Turning((134.4 * KIB, 127.5 * KIB), (600 * KIB, 900 * KIB), (0.0, 0.0), (0.006, 0.008), 0.0015, ())
    assert turned.recent_bytes() is None
    assert turned.recent_bytes(is_known=True) == pytest.approx(131 * KIB, rel=0.01)
    assert (
        Turning((134.4 * KIB, 120.0 * KIB), (600 * KIB, 900 * KIB), (0.0, 0.0), (0.0, 0.0), 0.0, ()).recent_bytes(True) is None
    )


def test_pages_that_saturate_a_tlb():
    probe = line_probe(machine(Cache(plain(32, 4, 64), 64, 5.0)))
    assert probe.saturating_pages == 0
    assert replace(probe, entries=40, page_bytes=4096, reach_bytes=40 * 4096).saturating_pages == 52
    assert replace(probe, page_bytes=4096, reach_bytes=64 * 4096).saturating_pages == 128


def test_laps_that_are_too_long_do_not_exclude_drawn_victims():
    """Random victims leave a hundredth of hits in laps over four and a half times the capacity, a fourth of that over six."""
    short = Turning((100.0 * KIB, 101.0 * KIB), (300 * KIB, 400 * KIB), (0.001, 0.0), (0.005, 0.005), 0.002, ())
    assert short.misses_all and short.excludes_random()
    long = replace(short, sizes=(850 * KIB, 1200 * KIB))
    assert long.misses_all and not long.excludes_random()
    assert not replace(short, hits=(0.12, 0.05)).excludes_random()
