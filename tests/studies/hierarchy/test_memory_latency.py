"""Latency of memory behind prefetchers of neighbouring lines: simulated laps whose latency is known."""

from __future__ import annotations

import numpy as np
import pytest

from clmembench.model import Answer, Probe
from clmembench.studies.hierarchy.curve.curve_findings import LevelLatency
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.memory_latency import measure_memory, measure_plateau
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession
from tests.simulated import MIB

MEMORY, WALK, PAGE = 500.0, 200.0, 4096
LAST = CurveStep(14.0, 3.9, 500.0, 1 * MIB, 2 * MIB, 4 * MIB)


def found(latency, claimed=16 * MIB, most=512 * MIB) -> LevelLatency:
    """What is said of memory whose laps take `latency(stride, seed)` cycles."""

    def answer(probe: Probe) -> Answer:
        value = latency(probe.pattern.stride_bytes, probe.pattern.seed)
        return Answer(probe, value, ns=value and value / 3.6, evidence=(f"r{probe.pattern.stride_bytes}",))

    inquiry = measure_memory(ProbeSession(shared=True), ChaseLayout(block_bytes=256 << 10), 64, LAST, most, claimed)
    return replay(inquiry, lambda probes: [answer(probe) for probe in probes])


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


@pytest.mark.parametrize(
    ("latency", "claimed", "why", "least"),
    [
        (lambda stride, seed: None, 16 * MIB, "got no answer", None),
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

    inquiry = measure_plateau(ProbeSession(shared=True), ChaseLayout(block_bytes=256 << 10), 64, LAST, step)
    found = replay(inquiry, lambda probes: [answer(probe) for probe in probes])
    assert found.value == pytest.approx(100.0, rel=0.03) and within(found, 100.0)
    assert all(LAST.gone_bytes <= nbytes <= step.fits_bytes / 2 for nbytes in asked)


def plateau(latency) -> LevelLatency:
    step = CurveStep(52.0, 17.0, 300.0, 8 * MIB, 9 * MIB, 12 * MIB)

    def answer(probe: Probe) -> Answer:
        value = latency(probe.pattern)
        return Answer(probe, value, ns=value / 3.0, evidence=("r",))

    inquiry = measure_plateau(ProbeSession(shared=True), ChaseLayout(block_bytes=256 << 10), 64, LAST, step)
    return replay(inquiry, lambda probes: [answer(probe) for probe in probes])


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
