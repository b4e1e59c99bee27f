"""The unit of a tag where what fits side by side was counted too low, as where the host's own programs take lines."""

import pytest

from clmembench.studies.hierarchy.geometry.level_geometry import LevelGeometry
from clmembench.studies.hierarchy.geometry.tag_unit import find_tag_unit, unit_of_share
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.simulated import MIB, Cache, Machine, Noise, Path, Sets, plain

HIT, MISS = 4.0, 12.0


def told(line, counted, shared):
    """The unit of a cache of 32 KiB in 8 ways with such lines, of which so many places 32 B apart were seen to fit."""
    cache = Cache(plain(32 * 1024 // line // 8, 8, line), line, HIT, "LRU")
    device = Machine("test", {"global": Path((cache,), MISS)}, Noise(lap_relative=0.001), 3)
    probe = LevelProbe(ProbeSession(shared=shared), ChaseLayout(), HitMissModel(HIT, MISS, 0.004))
    dense = CapacityBound(counted, counted + 3, 4.5, 2.0)
    return replay(find_tag_unit(probe, 32, dense, 64 * MIB), lambda probes: [device.answer(probe) for probe in probes])[
        0
    ].nbytes


@pytest.mark.parametrize("line", [32, 64])
def test_the_line_of_a_cache_that_is_counted_well(line):
    assert told(line, 1024, shared=False) == told(line, 1020, shared=True) == line


def test_lines_that_others_take_make_no_shorter_line():
    """An EPYC's L1 with lines of 64 B was once told to have lines of 32 B: 997 places 32 B apart seemed to fit, and 530 places
    96 B apart."""
    assert told(64, 970, shared=True) == 64
    assert told(64, 970, shared=False) is None
    assert told(32, 970, shared=True) == 32


def test_a_count_that_lacks_a_fifth_of_the_lines_makes_no_shorter_line():
    """On two busy cores 1,242 places 32 B apart seemed to fit an L1 of 48 KiB with lines of 64 B: 32 B were told."""
    assert told(64, 820, shared=True) is None
    assert told(32, 820, shared=True) == 32


def test_the_line_behind_a_cache_that_holds_few_lines_of_sets_that_three_divides():
    """Places 192 and 384 B apart use a third of 192 sets; the nearer cache holds those of the latter: 256 B."""
    first, second = Cache(plain(32, 4, 32), 32, 10.0), Cache(Sets((4,) * 192), 64, 40.0)
    device = Machine("test", {"global": Path((first, second), 120.0)}, Noise(lap_relative=0.001), 3)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(40.0, 120.0, 0.05))
    experiment = find_tag_unit(probe, 64, CapacityBound(768, 769, 4.5), 64 * MIB, nearer=10.0)
    assert replay(experiment, lambda probes: [device.answer(one) for one in probes])[0].nbytes == 64


@pytest.mark.parametrize(("filled", "gone", "line"), [(32, 821_248, None), (128, 821_248, 128), (32, 580_000, 128)])
def test_odd_strides_tell_a_line_where_sets_fill_evenly_or_a_miss_brings_as_much(filled, gone, line):
    """Frames filled the sets of a cache of 512 KiB with lines of 64 B, of which a miss brings 32, unevenly: 128 B were told."""
    dense = CapacityBound(458_624 // 32, 458_656 // 32, 20.0)
    known = LevelGeometry(UnitSize(filled), dense, 32, gone, False, UnitSize(128))
    assert known.line(("r",)).value == line


def test_more_tags_than_fit_side_by_side_are_of_shorter_lines():
    """Twice as many places 192 B apart fit as there are lines of 128 B in what fits side by side."""
    assert unit_of_share(64, 1.0).nbytes == unit_of_share(64, 0.8).nbytes == 128
    assert unit_of_share(64, 2.0).nbytes is None
