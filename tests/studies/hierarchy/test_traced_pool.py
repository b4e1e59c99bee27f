"""Eviction sets by traces, and the number of sets by congruent pages, on simulated CPUs whose frames lie anywhere."""

from dataclasses import replace

import pytest

from clmembench.studies.hierarchy.eviction.congruent_lines import count_sets
from clmembench.studies.hierarchy.eviction.eviction_sets import RESTLESS, EvictionSets, find_eviction_sets
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession
from tests.published import PUBLISHED
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

PAGE, LINE = 4 * KIB, 64
NOISE = Noise(2.0, 20.0, 2.0, 0.002, lap_relative=0.001)
FIRST = Cache(plain(64, 8, LINE), LINE, 5.0)
TLBS = (Tlb(plain(1, 64, PAGE), PAGE, 7.0),)


def cpu(sets, policy="LRU", no_clock="", seed=7):
    caches = FIRST, Cache(sets, LINE, 16.0, policy, frame_bytes=PAGE)
    return Machine("test", {"global": Path(caches, 90.0, TLBS)}, NOISE, seed, no_clock=no_clock, one_arena=True, repeats=10)


def asked_by(device, restless=False, most_bytes=64 * MIB):
    """The eviction sets found on a device, and how many probes that took."""
    asked = ProbeSession(shared=True)
    replay(asked.one(ChaseLayout().lap(most_bytes // PAGE, PAGE)), lambda probes: [device.answer(one) for one in probes])
    if restless:
        asked.laps = asked.disturbed = 100_000
    probe = LineProbe(
        asked, "global", 16.0, 90.0, 5.0, 0.002, LINE, 5.0, 400, 64, PAGE, reach_bytes=64 * PAGE, nearer_line=LINE
    )
    found = replay(find_eviction_sets(probe, 8, PAGE, most_bytes), lambda probes: [device.answer(one) for one in probes])
    return found, len(asked.answers)


def mixed(bits, together=False):
    """512 sets: some bits of the offset in a page each with a bit of the frame's number, or all of these with the same one."""
    frame = {i: 16 + (0 if together else i) for i in bits}
    return Sets((8,) * 512, masks=tuple(1 << 6 + i | (1 << frame[i] if i in bits else 0) for i in range(9)))


@pytest.mark.parametrize("policy", ["LRU", "tree-PLRU", "NRU"])
@pytest.mark.parametrize("ways, sets", [(8, 512), (16, 1024)])
def test_a_trace_shows_the_lines_of_a_set_whatever_the_policy(policy, ways, sets):
    found, probes = asked_by(cpu(plain(sets, ways, LINE), policy))
    assert isinstance(found, EvictionSets), found
    assert found.ways == ways and found.line_bytes == LINE
    assert probes < 750


def test_a_core_that_others_use_has_eviction_sets_where_it_has_a_clock():
    found, probes = asked_by(cpu(plain(512, 8, LINE)), restless=True)
    assert isinstance(found, EvictionSets) and found.ways == 8 and probes < 250
    assert asked_by(cpu(plain(512, 8, LINE), no_clock="none"), restless=True)[0].startswith(RESTLESS)


def sets_of(device, most_bytes=64 * MIB):
    found, _ = asked_by(device, most_bytes=most_bytes)
    assert isinstance(found, EvictionSets), found
    held = device.paths["global"].caches[1].size_bytes
    answers = lambda probes: [device.answer(one) for one in probes]  # noqa: E731
    return replay(count_sets(found, LINE, 0.8 * held), answers)


@pytest.mark.parametrize("ways, sets", [(8, 512), *(pytest.param(16, sets, marks=pytest.mark.slow) for sets in (1024, 2048))])
def test_the_share_of_congruent_pages_tells_the_sets(ways, sets):
    """Of 6 devices none gets another number; page frames that lie unevenly by chance leave at most one open."""
    found = [sets_of(cpu(plain(sets, ways, LINE), seed=seed)) for seed in range(6)]
    assert set(found) <= {sets, None} and found.count(None) <= 1


@pytest.mark.slow
def test_pages_are_not_counted_where_a_coarse_clock_shows_few_of_the_misses():
    machine = PUBLISHED["Zen 1"]()  # steps of 26 cycles: of a hit of 17 and a miss of 38 many read the same
    largest = max(cache.size_bytes for cache in machine.paths["global"].caches)
    limits = ProbeLimits(1 << 30, 4 * largest, frozenset(machine.paths), 64, machine.is_cpu)
    found = replay(infer_hierarchy(limits), lambda probes: [machine.answer(one) for one in probes])
    assert found.levels[1].findings["size_bytes"].value in (None, 512 * KIB)
    assert found.levels[1].findings["sets"].value in (None, 1024)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(4)])
def test_no_power_of_two_is_told_where_there_are_half_as_many_more_sets(seed):
    assert sets_of(cpu(Sets.of((8,) * 768, lambda unit: unit % 768, 768 * 64), seed=seed)) in (None,)


MIXED = [((0,), False), ((5,), False), ((1, 3), False), ((1, 3), True)]


@pytest.mark.parametrize("bits, together", [*(pytest.param(*one, marks=pytest.mark.slow) for one in MIXED), ((0, 2, 5), True)])
@pytest.mark.slow
def test_sets_are_counted_where_frames_choose_what_the_offset_chooses_too(bits, together):
    assert sets_of(cpu(mixed(bits, together))) == 512


@pytest.mark.slow
def test_nothing_is_told_of_too_few_pages():
    assert sets_of(cpu(plain(1024, 16, LINE)), most_bytes=3 * MIB) is None


def test_a_set_of_which_others_take_a_way_tells_as_much():
    device = cpu(plain(512, 8, LINE))
    found, _ = asked_by(device)
    assert isinstance(found, EvictionSets)
    full = replace(found, lines=((*found.lines[0], found.lines[0][0] + 64 * PAGE), *found.lines[1:]))
    answers = lambda probes: [device.answer(one) for one in probes]  # noqa: E731
    assert full.ways == 9 and replay(count_sets(full, LINE, 230.0 * KIB), answers) == 512
