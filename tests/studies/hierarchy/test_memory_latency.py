"""Latency of memory behind prefetchers of neighbouring lines: simulated laps whose latency is known."""

from __future__ import annotations

import numpy as np
import pytest

from clmembench.model import Answer, Probe
from clmembench.studies.hierarchy.curve.curve_findings import LevelLatency
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve, WorkingSets, measure_curve
from clmembench.studies.hierarchy.curve.memory_latency import measure_memory, measure_memory_apart, measure_plateau
from clmembench.studies.hierarchy.levels.infer_hierarchy import _suitable_block
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel, ProbeSession
from clmembench.studies.hierarchy.tlb.tlb_geometry import TlbGeometry
from tests.cases import each
from tests.hierarchy import PairPrefetch
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Tlb, plain

MEMORY, WALK, PAGE = 500.0, 200.0, 4096
LAST = CurveStep(14.0, 3.9, 500.0, 1 * MIB, 2 * MIB, 4 * MIB)


def found(latency, claimed=16 * MIB, most=512 * MIB) -> LevelLatency:
    """What is said of memory whose laps take `latency(stride, seed)` cycles."""

    def answer(probe: Probe) -> Answer:
        value = latency(probe.pattern.stride_bytes, probe.pattern.seed)
        reason = "" if value else "the budget was spent"
        return Answer(probe, value, ns=value and value / 3.6, evidence=(f"r{probe.pattern.stride_bytes}",), reason=reason)

    experiment = measure_memory(ProbeSession(shared=True), ChaseLayout(block_bytes=256 << 10), 64, LAST, most, claimed)
    return replay(experiment, lambda probes: [answer(probe) for probe in probes])


def walked(stride: float) -> float:
    """A page's walk, paid once for all lines of the page that are visited in a row."""
    return MEMORY + WALK * stride / PAGE


def within(value: LevelLatency, true: float) -> bool:
    assert value.value is not None and value.ends is not None
    return value.ends[0] * value.value <= true <= value.ends[1] * value.value


@pytest.mark.parametrize("paired_share", [0.3, 0.5, 1.0])
def test_lines_that_a_prefetcher_pairs_do_not_count(paired_share):
    memory = found(lambda stride, seed: walked(stride) * (paired_share if stride == 64 else 1.0))
    assert memory.value == pytest.approx(MEMORY, rel=0.03) and within(memory, MEMORY)
    assert memory.ns == pytest.approx(memory.value / 3.6)
    assert memory.evidence == ("r128", "r128", "r256", "r256")


def test_a_prefetcher_of_four_lines_needs_lines_further_apart():
    memory = found(lambda stride, seed: walked(stride) * (0.6 if stride <= 128 else 1.0))
    assert memory.value == pytest.approx(MEMORY, rel=0.03) and within(memory, MEMORY)


def test_pages_of_which_a_tlb_holds_half_as_many_cost_the_nearer_lines_nothing():
    memory = found(lambda stride, seed: MEMORY if stride <= 128 else MEMORY + 30.0)
    assert memory.value == pytest.approx(MEMORY, rel=0.035) and within(memory, MEMORY)


def test_what_caches_could_hold_is_in_the_interval():
    alone, held = found(lambda stride, seed: walked(stride)), found(lambda stride, seed: walked(stride), most=128 * MIB)
    assert alone.ends is not None and held.ends is not None and held.ends[1] > alone.ends[1] > 1.0


@each(
    ("latency", "claimed", "why", "least"),
    [
        (lambda stride, seed: None, 16 * MIB, "laps over every second line got no answer: the budget was spent", None),
        (lambda stride, seed: walked(stride), 256 * MIB, "could hold 100%", MEMORY),
        (lambda stride, seed: walked(stride) * (1 + 0.3 * seed), 16 * MIB, "differ by 30%", MEMORY),
        (lambda stride, seed: MEMORY * stride / 512, 16 * MIB, "take +100% of the time", None),
        (lambda stride, seed: None if stride == 256 else walked(stride), 16 * MIB, "twice as far apart got no answer", MEMORY),
        (lambda stride, seed: None if stride > 128 else walked(stride), 16 * MIB, "twice as far apart got no answer", None),
    ],
)
def test_what_does_not_show_memory_is_said(latency, claimed, why, least):
    memory = found(latency, claimed)
    assert memory.value is None and why in memory.why
    assert memory.least == (least and pytest.approx(least))


def test_a_far_caches_latency_is_that_of_lines_that_no_prefetcher_pairs():
    """Laps over all lines, half of which a prefetcher had brought into L2, took 52 cycles; a hit of L3 takes 100."""
    step, asked = CurveStep(52.0, 17.0, 300.0, 8 * MIB, 9 * MIB, 12 * MIB), []

    def answer(probe: Probe) -> Answer:
        asked.append(probe.pattern.count * 64)
        value = 100.0 + 10.0 * probe.pattern.stride_bytes / PAGE
        return Answer(probe, value, ns=value / 3.0, evidence=("r",))

    experiment = measure_plateau(ProbeSession(shared=True), ChaseLayout(block_bytes=256 << 10), 64, LAST, step)
    found = replay(experiment, lambda probes: [answer(probe) for probe in probes])
    assert found.value == pytest.approx(100.0, rel=0.03) and within(found, 100.0)
    assert all(LAST.gone_bytes <= nbytes <= step.fits_bytes / 2 for nbytes in asked)


def plateau(latency) -> LevelLatency:
    step = CurveStep(52.0, 17.0, 300.0, 8 * MIB, 9 * MIB, 12 * MIB)

    def answer(probe: Probe) -> Answer:
        value = latency(probe.pattern)
        return Answer(probe, value, ns=value / 3.0, evidence=("r",))

    experiment = measure_plateau(ProbeSession(shared=True), ChaseLayout(block_bytes=256 << 10), 64, LAST, step)
    return replay(experiment, lambda probes: [answer(probe) for probe in probes])


def test_lines_of_a_far_cache_use_all_of_its_sets():
    """Lines that an even number of lines lie apart are of a part of 8,192 sets that address bits choose, which holds a part."""

    def latency(pattern) -> float:
        number = np.arange(pattern.count) * (pattern.stride_bytes // 64) % 8192
        return 52.0 if np.bincount(number, minlength=8192).max() <= 16 else 180.0

    found = plateau(latency)
    assert found.value == pytest.approx(52.0) and within(found, 52.0)


@pytest.mark.parametrize("cycles", [180.0, 300.0])
def test_what_takes_far_longer_than_the_plateau_is_no_hit_of_its_level(cycles):
    found = plateau(lambda pattern: cycles)
    assert (found.value is None and "the plateau" in found.why) or "over all lines" in found.why
    assert found.least == 52.0


def told_by_lines_apart(pairs=None, tlbs=(), translated=0.0, memory=66.0, policy="LRU"):
    """The curve of memory behind two caches, and what laps over lines far apart say of it."""
    caches = Cache(plain(64, 8, 64), 64, 5.0), Cache(plain(512, 4, 64), 64, 32.0, policy)
    device = Machine("test", {"global": Path(caches, memory, tlbs, pairs=pairs)}, Noise(lap_relative=0.001), 3, one_arena=True)
    asked, chase = ProbeSession(), ChaseLayout(block_bytes=128 << 10)

    def both():
        curve = yield from measure_curve(asked, chase, WorkingSets(64, 2048, 2 * MIB, MIB // 2))
        return curve, (yield from measure_memory_apart(asked, chase, 64, curve, 64 * MIB, translated))

    return replay(both(), lambda probes: [device.answer(probe) for probe in probes])


def test_lines_that_come_with_half_of_all_misses_in_blocks_of_any_size_are_left_out():
    """An L2 of a simulated CPU brought the next four lines: 59 of 66 cycles were told as memory's."""
    curve, apart = told_by_lines_apart(PairPrefetch(1, 0.5, 4))
    assert curve.memory < 62.0
    assert isinstance(apart, LevelLatency) and apart.value == pytest.approx(66.0, rel=0.01)


def test_lines_far_apart_confirm_the_curve_where_nothing_is_brought():
    assert told_by_lines_apart()[1] is True
    tlbs = (Tlb(plain(1, 40, 4096), 4096, 40.0),)
    assert told_by_lines_apart(tlbs=tlbs, translated=40.0)[1] in (True, None)


def test_translation_that_nothing_accounts_for_is_no_part_of_memory():
    """Of a TLB whose page was not known each access missed: 7% of the latency of memory were its penalty."""
    curve, apart = told_by_lines_apart(tlbs=(Tlb(plain(1, 8, 4096), 4096, 300.0),))
    assert curve.memory > 1.05 * 66.0 and apart is not True


def test_blocks_are_no_larger_where_the_reach_of_a_tlb_is_not_known():
    """Of a TLB without a page 4421 places seemed to fit: laps in blocks of 8 MiB missed it at each access."""
    held = CapacityBound(4421, 4500, 300.0, 100.0)
    level = TlbGeometry(HitMissModel(0.0, 3.0, 0.1), held, 4096, (2.1, 2.9), UnitSize(None, "shorter"), None, None)
    silent = LatencyCurve((64 * KIB, 16 * MIB), (5.0, 60.0), (5.0, 60.0), (LAST,), 60.0, 60.0, 0.001)
    experiment = _suitable_block(ProbeSession(), silent, 64, [level])
    assert (
        replay(experiment, lambda probes: [Answer(probe, 60.0 + probe.pattern.block_bytes / MIB) for probe in probes])
        == 128 * KIB
    )
