"""Latency curves over page frames, laps in blocks of several sizes, and sizes that reversed laps confirm."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from clmembench.model import Answer, Probe
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep, find_steps
from clmembench.studies.hierarchy.curve.latency_curve import WorkingSets, measure_curve
from clmembench.studies.hierarchy.geometry.level_geometry import confirmed_size, without_contradiction
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.prefetch_control import BlockTranslation, PlateauPoint, free_of_prefetching
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, plain
from tests.truths import hashed

BLOCK = 128 * KIB


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_frames_that_collide_by_chance_are_no_level(seed: int) -> None:
    """Few pages in the random frames of a cache of 4 ways: at one place of the buffer its end has steps that are no levels."""
    caches = (Cache(plain(64, 8, 64), 64, 3), Cache(hashed(4096, 4, 64), 64, 21, frame_bytes=4 * KIB))
    device = Machine("frames", {"global": Path(caches, 115)}, Noise(lap_relative=0.003), seed, one_arena=True)
    sets = WorkingSets(64, KIB, 64 * MIB, 16 * MIB)
    found = replay(
        measure_curve(ProbeSession(), ChaseLayout(block_bytes=BLOCK), sets), lambda ps: [device.answer(p) for p in ps]
    )
    assert found is not None
    assert [step.hit for step in found.steps] == [pytest.approx(3, rel=0.03), pytest.approx(21, rel=0.03)]
    assert all(step.flat for step in found.steps)
    assert found.memory == pytest.approx(115, rel=0.03)


def test_a_latency_that_random_victims_let_a_plateau_only_approach() -> None:
    """A cache of 64 KiB whose random victims leave hits, before one of 100 cycles that ends before all are gone."""
    sizes = [int(4 * KIB * 2 ** (i / 8)) for i in range(72)]
    values = []
    for size in sizes:
        hits = 1.0
        for _ in range(200):  # the share h of hits solves h = exp(-(1 - h) * size / capacity)
            hits = math.exp(-(1 - hits) * size / (64 * KIB)) if size > 64 * KIB else 1.0
            hits = min(hits, 0.999) if size > 64 * KIB else hits
        values.append(10 * hits + 100 * (1 - hits) if size < 250 * KIB else 400.0)
    first, second = find_steps(sizes, values, values, 0.002)
    assert first.hit == pytest.approx(10)
    assert second.flat
    assert max(value for value in values if value < 200) < 0.98 * 100  # what the curve itself shows
    assert second.hit == pytest.approx(100, rel=0.015)
    assert first.miss == second.hit


def blocks_answer(cycles: Callable[[int, int], float]) -> Callable[[list[Probe]], list[Answer]]:
    """Answers by the size of blocks (0: none) and the order's seed."""

    def answers(probes: list[Probe]) -> list[Answer]:
        values = [cycles(probe.pattern.block_bytes, probe.pattern.seed) for probe in probes]
        return [Answer(probe, value, value, value) for probe, value in zip(probes, values, strict=True)]

    return answers


@each(
    ("cycles", "penalty", "free"),
    [
        (lambda block, seed: 100.0, 0.0, True),
        (lambda block, seed: 130.0 if block > BLOCK and seed == 0 else 100.0, 0.0, True),
        (lambda block, seed: 110.0 if block > BLOCK else 100.0, 0.0, False),
        (lambda block, seed: 110.0 if block > BLOCK else 100.0, 15.0, True),
        (lambda block, seed: {4 * BLOCK: 110.0, BLOCK: 100.0}.get(block, 60.0), 15.0, False),
        (lambda block, seed: 90.0 if block > BLOCK else 100.0, 15.0, False),
    ],
)
def test_a_prefetcher_shows_in_blocks_of_other_sizes(cycles: Callable[[int, int], float], penalty: float, free: bool) -> None:
    asked = free_of_prefetching(
        ProbeSession(), ChaseLayout(block_bytes=BLOCK), PlateauPoint(4 * MIB, 64), BlockTranslation(256 * KIB, penalty)
    )
    assert replay(asked, blocks_answer(cycles)) is free


@each(
    ("size", "rise", "small", "free"),
    [
        (BLOCK, 0.01, 60.0, True),
        (BLOCK, 0.1, 60.0, False),  # of half as many lines twice as many were fetched in time
        (BLOCK, -0.1, 60.0, False),
        (BLOCK, None, 60.0, False),
        (BLOCK, 0.0, 130.0, False),  # laps in small blocks are slower: that is no prefetcher
        (2 * BLOCK, 0.0, 60.0, False),  # of twice as many lines in blocks as many are fetched in time
    ],
)
def test_laps_in_one_cycle_are_free_of_a_prefetcher_that_small_blocks_show(
    size: int, rise: float | None, small: float, free: bool
) -> None:
    point = PlateauPoint(size, 64, rise=rise)
    asked = free_of_prefetching(ProbeSession(), ChaseLayout(block_bytes=BLOCK), point)
    assert replay(asked, blocks_answer(lambda block, seed: small if 0 < block < BLOCK else 100.0)) is free


@pytest.mark.parametrize(
    ("sparse", "shared", "free"), [(100.0, False, True), (150.0, False, False), (150.0, True, True), (None, False, True)]
)
def test_a_prefetcher_whose_gain_a_translation_would_explain_shows_in_sparse_laps(
    sparse: float | None, shared: bool, free: bool
) -> None:
    """It fetches the next lines, which smaller blocks have too; larger blocks are a little slower, as by translation."""

    def answers(probes: list[Probe]) -> list[Answer]:
        values = [sparse if p.pattern.stride_bytes > 64 else 110.0 if p.pattern.block_bytes > BLOCK else 100.0 for p in probes]
        return [Answer(probe, value, value, value) for probe, value in zip(probes, values, strict=True)]

    point, translation = PlateauPoint(4 * MIB, 64), BlockTranslation(256 * KIB, 15.0)
    asked = free_of_prefetching(ProbeSession(shared=shared), ChaseLayout(block_bytes=BLOCK), point, translation)
    assert replay(asked, answers) is free


@each(
    ("policy", "sets", "low", "status"),
    [
        ("LRU", 192, 1.0, "ok"),
        ("FIFO", 192, 1.0, "ok"),
        ("tree-PLRU", 192, 1.0, "ok"),
        ("LRU", 256, 0.6, "ok"),
        ("LRU", 192, 0.8, "undetermined"),
        ("NRU", 192, 1.0, "undetermined"),
        ("NRU", 256, 1.0, "undetermined"),
        ("random", 256, 1.0, "undetermined"),
    ],
)
def test_two_lower_bounds_that_agree_are_the_size(policy: str, sets: int, low: float, status: str) -> None:
    """Reversed laps hold as much as fits, or a power of two: of a policy that keeps what was used last."""
    device = Machine("turning", {"global": Path((Cache(Sets((8,) * sets), 64, 10.0, policy),), 100.0)}, Noise(), 5)
    true = sets * 8 * 64
    step = CurveStep(10.0, 10.0, 100.0, 4 * true // 5, 11 * true // 10, 5 * true // 4, noise=0.001)
    size = undetermined_finding("size_bytes", "only a lower bound", low=low * true)
    asked = confirmed_size(ProbeSession(), ChaseLayout(), step, 64, (0.0, 0.0), 8 * MIB, size)
    found = replay(asked, lambda probes: [device.answer(probe) for probe in probes])
    assert found.status == status
    if status == "ok":
        assert found.value == pytest.approx(true, rel=0.01)


def test_lines_that_others_take_from_both_bounds_are_within_the_interval() -> None:
    """What fits and what reversed laps hold lack the same lines on a host that others use, as 10 of 512 on an EPYC's core."""
    held = Machine("turning", {"global": Path((Cache(Sets((8,) * 63), 64, 10.0, "LRU"),), 100.0)}, Noise(), 5)
    seen, true = 63 * 8 * 64, 64 * 8 * 64
    step = CurveStep(10.0, 10.0, 100.0, 4 * seen // 5, 11 * seen // 10, 5 * seen // 4, noise=0.001)
    size = undetermined_finding("size_bytes", "only a lower bound", low=seen)
    for shared in (False, True):
        asked = confirmed_size(ProbeSession(shared=shared), ChaseLayout(), step, 64, (0.0, 0.0), 8 * MIB, size)
        found = replay(asked, lambda probes: [held.answer(probe) for probe in probes])
        assert found.status == "ok" and (found.high >= true) is shared


def test_no_line_is_shorter_than_what_a_miss_brings_in() -> None:
    def findings(line: int) -> dict:
        named = {"line_bytes": line, "sector_bytes": 128, "sets": 64, "ways": 32, "policy": "LRU"}
        return {name: measured_finding(name, value, "method", ("r",)) for name, value in named.items()}

    assert without_contradiction(findings(128)) == findings(128)
    found = without_contradiction(findings(64))
    assert {name for name, own in found.items() if own.status == "ok"} == {"sector_bytes"}
