"""infer.hierarchy.unsettled_levels: levels of which nothing is known are one, and numbers that are not known."""

import pytest

from clmembench.model import CacheLevel
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import WorkingSets, measure_curve
from clmembench.studies.hierarchy.curve.unsettled_levels import (
    POLICY_BEHIND_UNKNOWN,
    UNSETTLED,
    is_hidden_between_nodes,
    may_hide_a_level,
    numbered,
    with_unknown_number,
    with_unsettled_merged,
)
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, plain


def unsettled(name, low, high, **more):
    size = undetermined_finding("size_bytes", "not flat", "", (name,), low, high)
    return CacheLevel(
        name, "global", {"size_bytes": size, "latency_cycles": undetermined_finding("latency_cycles", "?"), **more}
    )


def settled(name):
    return CacheLevel(name, "global", {"size_bytes": measured_finding("size_bytes", 1024, "laps", ("chase:1",))})


def test_a_run_of_levels_of_which_nothing_is_known_is_one():
    found = with_unsettled_merged([settled("L1"), unsettled("L2", 10, 20), unsettled("L3", 30, None), unsettled("L4", 50, 70)])
    assert [level.name for level in found] == ["L1", "L2"] and found[0].findings["size_bytes"].value == 1024
    size = found[1].findings["size_bytes"]
    assert (size.low, size.high, size.reason) == (10, 70, UNSETTLED) and size.evidence == ("L2", "L3", "L4")
    assert found[1].findings["latency_cycles"].reason == UNSETTLED


def test_what_is_known_of_a_level_keeps_it():
    known = measured_finding("latency_cycles", 20.0, "laps", ("chase:1",))
    levels = [settled("L1"), unsettled("L2", 10, 20), unsettled("L3", 30, 40, latency_cycles=known), unsettled("L4", 50, 70)]
    assert with_unsettled_merged(levels) == levels
    assert with_unsettled_merged([]) == []


def test_behind_levels_that_may_be_several_no_number_is_known():
    levels = [settled("L1"), unsettled("L2", 10, 20), unsettled("L3", 30, None), settled("L4")]
    assert [level.name for level in with_unsettled_merged(levels)] == ["L1", "L2", "L3?"]
    doubtful = [settled("L1"), with_unknown_number(settled("L2")), settled("")]
    assert [level.name for level in numbered(doubtful)] == ["L1", "L2?", "L3?"]


def test_a_policy_behind_a_level_that_may_be_missing_is_not_told():
    level = settled("L2")
    level = CacheLevel("L2", "global", {**level.findings, "policy": measured_finding("policy", "FIFO", "laps", ("chase:1",))})
    found = with_unknown_number(level)
    assert found.name == "L2?" and found.findings["policy"].status == "undetermined"
    assert found.findings["policy"].reason == POLICY_BEHIND_UNKNOWN and found.findings["size_bytes"].value == 1024


@pytest.mark.parametrize(
    ("over", "gone", "flat", "first", "hides"),
    [
        (36, 172, True, True, True),  # random victims keep 2% of the lines of a lap over four times the size
        (36, 90, True, True, False),
        (36, 90, False, True, True),
        (10, 90, True, False, False),  # random page frames spread the lines of a cache of few ways
    ],
)
def test_a_long_rise_may_hide_a_level(over, gone, flat, first, hides):
    step = CurveStep(3.0, 1.5, 47.0, over - 6, over, gone, flat)
    assert may_hide_a_level(step, unsettled("L1", over - 6, None), first) is hides


def test_a_level_hides_none_where_its_size_explains_the_rise():
    step = CurveStep(3.0, 1.5, 47.0, 500, 600, 3900)
    assert not may_hide_a_level(step, settled("L2"), False)
    assert may_hide_a_level(CurveStep(3.0, 1.5, 47.0, 500, 600, 5000), settled("L2"), False)


@pytest.mark.parametrize(("size", "is_hidden"), [(32 * KIB, True), (4 * KIB, False)])
def test_a_level_whose_part_holds_no_more_far_nodes_than_the_nearer_one_is_missing(size, is_hidden):
    """Of nodes 512 B apart 64 fit the first cache, and no more the second, whose sets they use an eighth of: the third cache
    was told as the second."""
    second = (Cache(plain(size // 256, 4, 64), 64, 28.0),) if is_hidden else ()
    caches = Cache(plain(1, 64, 64), 64, 6.0), *second, Cache(plain(256, 24, 128), 128, 183.0)
    device = Machine("test", {"global": Path(caches, 1232.0)}, Noise(lap_relative=0.001), 3, one_arena=True)
    asked, chase = ProbeSession(), ChaseLayout(block_bytes=128 * KIB)

    def both():
        curve = yield from measure_curve(asked, chase, WorkingSets(512, 2 * KIB, 16 * MIB, 4 * MIB))
        return curve, (yield from is_hidden_between_nodes(asked, chase, curve, 512, 64))

    curve, found = replay(both(), lambda probes: [device.answer(probe) for probe in probes])
    assert len(curve.steps) == 2 and found == is_hidden
