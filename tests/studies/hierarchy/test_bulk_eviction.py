"""infer.hierarchy.crowd_sets: ways by the number of lines after which one is evicted, in simulated memories and on PoCL."""

from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import Pattern, Probe
from clmembench.model.address_patterns import crowd_counts, crowd_offsets
from clmembench.studies.hierarchy.eviction.bulk_eviction import CrowdLevel, sets_by_crowds
from clmembench.studies.hierarchy.eviction.set_units import line_of_sets, sector_of_set
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.replacement.policy_probe import probe_policy
from clmembench.studies.hierarchy.replacement.set_lines import SetLines, SetOfLevel
from tests.simulated import KIB, Cache, Machine, Noise, Path, Sets, plain

LINE = 64


def hashed(sets, ways, line=LINE):
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    masks = [1 << (low + i) | 1 << (low + bits + i) | 1 << (low + bits + (i + 3) % bits) for i in range(bits)]
    return Sets((ways,) * sets, masks=tuple(masks))


def machine(sets, ways, policy="LRU"):
    first, second = Cache(plain(32, 8, LINE), LINE, 5.0), Cache(hashed(sets, ways), LINE, 25.0, policy, frame_bytes=4096)
    noise = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.001)
    return Machine("test", {"global": Path((first, second), 100.0)}, noise, 7, one_arena=True)


def level(sets, ways):
    return CrowdLevel(ProbeSession(), "global", LINE, 62.0, 0.6 * sets * ways * LINE, 16 * KIB, 1 << 30, LINE)


def answers(device):
    return lambda probes: [device.answer(probe) for probe in probes]


@pytest.mark.parametrize(
    ("sets", "ways", "policy"),
    [
        pytest.param(256, 16, "LRU", marks=pytest.mark.slow),
        (512, 8, "LRU"),
        (256, 6, "LRU"),
        pytest.param(512, 8, "FIFO", marks=pytest.mark.slow),
    ],
)
def test_ways_of_a_level_of_physical_and_hashed_sets(sets, ways, policy):
    found = replay(sets_by_crowds(level(sets, ways)), answers(machine(sets, ways, policy)))
    assert len(found) == 2 and len({line for lines in found for line in lines}) == 2 * (ways + 1)
    for lines in found:
        assert len(lines) == ways + 1 and all(line % LINE == 0 for line in lines)


def test_two_places_of_one_line_are_not_two_lines_of_a_set():
    """Lines of 128 B, of which misses bring in 64: places 64 B apart told 3 ways of 4."""
    cache = Cache(hashed(512, 4, 128), 128, 25.0, "LRU", sector_bytes=64)
    noise = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.001)
    paths = {"global": Path((Cache(plain(32, 8, LINE), LINE, 5.0), cache), 100.0)}
    device = Machine("test", paths, noise, 7, one_arena=True)
    tested = CrowdLevel(ProbeSession(), "global", LINE, 62.0, 0.6 * cache.size_bytes, 16 * KIB, 1 << 30, 128)
    found = replay(sets_by_crowds(tested), answers(device))
    assert [len({line // 128 for line in lines}) for lines in found] == [5, 5] == [len(lines) for lines in found]


@pytest.mark.parametrize("policy", ["random", "NRU", "tree-PLRU"])
def test_nothing_is_concluded_where_other_lines_go_first(policy):
    reason = replay(sets_by_crowds(level(256, 16)), answers(machine(256, 16, policy)))
    assert isinstance(reason, str)
    assert "some repeats" in reason or "differ" in reason


def test_without_a_clock_the_reason_says_so():
    device = replace(machine(256, 16), no_clock="no clock can be read inside a kernel")
    assert replay(sets_by_crowds(level(256, 16)), answers(device)) == "no clock can be read inside a kernel"


def test_a_level_of_too_many_lines_is_not_tried():
    assert "too long" in replay(sets_by_crowds(level(1 << 15, 16)), answers(machine(256, 16)))


def test_numbers_and_places_of_a_crowd():
    probe = Probe(
        Pattern("segments", segments="0:1:1:1"), "global", "evict", 3, 5, until=11, crowd=16, crowd_bytes=64, rounds=2
    )
    assert crowd_counts(probe) == [3, 5, 7, 9, 11]
    assert crowd_counts(replace(probe, record=1)) == [3]
    every = crowd_offsets(probe, 16)
    assert sorted(every.tolist()) == [64 * i for i in range(16)]
    assert np.array_equal(crowd_offsets(probe, 16, 9), every[9:])


def bare(policy="LRU", line=LINE, sector=LINE):
    """A level that loads reach past the L1, as the L2 of a GPU, and how crowds test it."""
    cache = Cache(hashed(256, 16, line), line, 25.0, policy, sector, frame_bytes=4096)
    noise = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.001, lap_relative=0.001)
    device = Machine("test", {"global": Path((cache,), 100.0)}, noise, 7, one_arena=True)
    return device, CrowdLevel(ProbeSession(), "global", line, 62.0, 0.6 * cache.size_bytes, 0.0, 1 << 30, line)


@pytest.mark.parametrize("policy", ["LRU", "FIFO"])
@pytest.mark.slow
def test_walks_over_the_lines_of_a_crowds_set_tell_its_policy(policy):
    device, crowd = bare(policy)
    lines = replay(sets_by_crowds(crowd), answers(device))[-1]
    assert len(lines) == 17
    probe = LevelProbe(crowd.asked, ChaseLayout(), HitMissModel(25.0, 100.0, 0.03))
    of_set = SetOfLevel(16, SetLines(17, own=lines, apart_bytes=LINE), LINE)
    assert replay(probe_policy(probe, of_set), answers(device))["policy"].value == policy


@pytest.mark.parametrize(
    ("line", "sector"), [(128, 32), (64, 64), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((128, 128), (256, 64)))]
)
@pytest.mark.slow
def test_lines_of_a_crowds_sets_tell_line_and_sector(line, sector):
    device, crowd = bare(line=line, sector=sector)
    sets = replay(sets_by_crowds(crowd), answers(device))
    probe = LineProbe(crowd.asked, "global", 25.0, 100.0, 0.0, 0.002, LINE, 25.0, 1 << 10)
    assert replay(line_of_sets(probe, sets), answers(device)) == line
    assert replay(sector_of_set(probe, sets[-1], line), answers(device)).nbytes == sector


def test_lines_that_all_hit_tell_no_sector():
    device, crowd = bare()
    lines = replay(sets_by_crowds(crowd), answers(device))[-1]
    probe = LineProbe(crowd.asked, "global", 25.0, 100.0, 0.0, 0.002, LINE, 25.0, 1 << 10)
    found = replay(sector_of_set(probe, lines[:-1], LINE), answers(device))
    assert found.nbytes is None and "not all miss" in found.reason
