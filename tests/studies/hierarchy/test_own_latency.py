"""infer.hierarchy: costs that levels are judged by, along the probes' own path and with controls that may be disturbed."""

from __future__ import annotations

import pytest

from clmembench.model import Answer
from clmembench.model.findings import undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.curve.own_latency import with_hits_of_path
from clmembench.studies.hierarchy.eviction.eviction_sets import EvictionSets
from clmembench.studies.hierarchy.geometry.strides import StrideLimits
from clmembench.studies.hierarchy.levels import cache_level, evicted_level
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.line_probe import MIN_MISSES, LineProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets

STEP = CurveStep(187.6, 125.0, 530.0, 30 * KIB, 36 * KIB, 43 * KIB, noise=0.001)


def curve(step: CurveStep) -> LatencyCurve:
    values = step.hit, step.miss
    return LatencyCurve((4 * KIB, MIB), values, values, (step,), step.miss, step.miss, 0.001)


@pytest.mark.parametrize(("cost", "hit"), [(189.1, 189.1), (187.0, 187.6), (230.0, 187.6), (None, 187.6)])
def test_hits_cost_what_they_do_along_the_path_of_the_probes(cost, hit):
    """The nearer cache drew victims and served some accesses of the curve: misses seemed to begin at 239 of 256 lines."""

    def answered(probes):
        return [Answer(probe, cost, cost, cost, "cycles", cost) for probe in probes]

    found = replay(with_hits_of_path(ProbeSession(), ChaseLayout("global_cg"), curve(STEP), 0, 128), answered)
    assert found.steps[0].hit == hit and found.steps[0].fits_bytes == STEP.fits_bytes


@pytest.mark.parametrize(("controls", "is_miss"), [((5.0, 3.0), True), ((6.0, 6.0), False), ((3.0,), True)])
def test_a_disturbed_control_hides_no_miss(controls, is_miss):
    """A lap over six lines whose mean is a sixth of a miss above a hit; the control, of other lines of the same pages, is slow
    in one order, or by translation in all."""
    lines, left = [64 * KIB * number for number in range(6)], list(controls)
    probe = LineProbe(ProbeSession(), "global", 12.0, 28.0, 3.0, 0.001, 64, 3.0, 150)
    own = probe.lap(lines)

    def answered(probes):
        values = [12.0 + 16 / 6 if one == own else left.pop(0) for one in probes]
        return [Answer(one, value, value, value, "cycles", value) for one, value in zip(probes, values, strict=True)]

    assert (replay(probe.misses(lines, 0), answered) > MIN_MISSES) == is_miss and not left


@pytest.mark.parametrize(("filled", "value"), [(UnitSize(32), 16 * KIB), (UnitSize(None), None)])
def test_laps_that_turn_round_visit_every_short_line(filled, value):
    """A hash spreads lines of 32 B, 128 B apart, over all sets: four times the size seemed to be held."""
    masks = tuple(1 << (5 + bit) | 1 << (10 + bit) | 1 << (16 + bit) for bit in range(5))
    cache = Cache(Sets((16,) * 32, masks=masks), 32, 10.0)
    device = Machine("test", {"global": Path((cache,), 100.0)}, Noise(lap_relative=0.001), 5)
    step = CurveStep(10.0, 10.0, 100.0, 15 * KIB, 18 * KIB, 20 * KIB, noise=0.001)
    around = cache_level.LevelContext(0, 0.001, 128, StrideLimits(MIB, MIB, MIB))
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(10.0, 100.0, 0.01))
    size = undetermined_finding("size_bytes", "only a lower bound", low=16 * KIB + 32)
    asked = cache_level._confirmed_size(probe, curve(step), around, size, filled)
    found = replay(asked, lambda probes: [device.answer(one) for one in probes])
    assert found.value is None or found.value == pytest.approx(16 * KIB, rel=0.01)
    assert (found.value is None) == (value is None)


@pytest.mark.parametrize(("may_be_pairs", "ways"), [(True, None), (False, 5)])
def test_lines_of_two_sets_that_bring_in_each_others_neighbours_tell_no_ways(monkeypatch, may_be_pairs, ways):
    """Three lines of each of two sets of four ways: each miss brings the other line of its pair into the other set."""
    lines = tuple(128 * KIB * number for number in range(6))

    def returns(value):
        def experiment(*_):
            yield from ()
            probe.asked.evidence.append("chase:1")
            return value

        return experiment

    probe = LineProbe(ProbeSession(), "global", 20.0, 47.0, 4.0, 0.001, 128, 4.0, 50)
    found = EvictionSets(probe, (lines, lines), ((), ()), 4096, 128, fills_all=True)
    unknown = {"policy": undetermined_finding("policy", "none explains them")}, frozenset()
    for name, value in (("find_eviction_sets", found), ("find_linear_index", None), ("_policy", unknown)):
        monkeypatch.setattr(evicted_level, name, returns(value))
    monkeypatch.setattr(evicted_level, "_capacity", returns((0.0, 0.0, "", ())))
    step = CurveStep(20.0, 10.0, 47.0, 30 * KIB, 60 * KIB, 90 * KIB)
    level_probe = LevelProbe(probe.asked, ChaseLayout(), HitMissModel(20.0, 47.0, 0.02))
    level = evicted_level.LevelBeyondStrides(
        level_probe, probe, step, 1, (4096.0, 4.0), 64, 4096, MIB, MIB, 64, may_be_pairs=may_be_pairs
    )
    names = ("size_bytes", "line_bytes", "sector_bytes", "ways", "sets", "policy")
    before = {name: undetermined_finding(name, "no stride tells") for name in names}
    told, _ = replay(evicted_level.findings_by_eviction(level, ChaseLayout(), before), lambda probes: [])
    assert told["ways"].value == ways
