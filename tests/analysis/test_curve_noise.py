"""The two detectors of levels: plateaus for curves with disturbed points, steps where fewest capacities may be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clmembench.analysis.plateaus import CurvePoint, find_plateaus
from clmembench.analysis.stats import noise_of_deviations, undisturbed_values
from clmembench.studies.hierarchy.curve.curve_steps import find_steps, pooled_rising, relative_noise
from clmembench.studies.hierarchy.curve.latency_curve import ends_flat
from tests.analysis.test_plateaus import MACHINES, ramp, random_replacement, simulated

Level = tuple[float, int, float]  # latency, last size on it, first size off it


def by_plateaus(sizes: list[int], values: list[float]) -> list[Level]:
    found = find_plateaus([CurvePoint(size, value, value, value) for size, value in zip(sizes, values, strict=True)])
    return [(p.ns, p.last_bytes, p.next_bytes or math.inf) for p in found]


def by_steps(sizes: list[int], values: list[float]) -> list[Level]:
    found = [s for s in find_steps(sizes, values, values, min(relative_noise(values), 1.0)) if s.flat]
    levels: list[Level] = [(s.hit, s.fits_bytes, s.over_bytes) for s in found]
    return levels + ([(pooled_rising(values)[-1], sizes[-1], math.inf)] if ends_flat(sizes, values, 0) else [])


def judged(found: list[Level], machine: tuple[tuple[float, float], ...]) -> np.ndarray:
    """How many levels are right, and how many have a capacity outside their bracket."""
    right = wrong = 0
    for capacity, ns in machine:
        near = [level for level in found if level[0] == pytest.approx(ns, rel=0.05)]
        if near:
            _, last, over = min(near, key=lambda level: abs(level[0] - ns))
            bracketed = last <= 1.02 * capacity and capacity <= over
            right, wrong = right + bracketed, wrong + (not bracketed)
    return np.array([right, wrong])


def rates(detector, latency, disturbed: bool) -> tuple[int, int, int]:
    """Levels right, levels with a wrong capacity, and levels there are, of 20 curves of each machine."""
    total, count = np.zeros(2, dtype=int), 0
    for machine in MACHINES.values():
        for seed in range(20):
            rng = np.random.default_rng(seed)
            samples = simulated(machine, 4, seed, noise=0.005, latency=latency)
            values = [s.ns * (1 + disturbed * (rng.random() < 0.125) * rng.uniform(0.05, 0.4)) for s in samples]
            total += judged(detector([s.array_bytes for s in samples], values), machine)
            count += len(machine)
    return int(total[0]), int(total[1]), count


def test_disturbed_points_that_nobody_measures_again_are_for_plateaus():
    right, wrong, count = rates(by_plateaus, ramp, disturbed=True)
    assert (right, wrong) == (count, 0)
    worse, misplaced, _ = rates(by_steps, ramp, disturbed=True)
    assert worse < 0.9 * count and misplaced > 0.05 * count


def test_soft_ends_of_levels_are_for_steps():
    right, wrong, count = rates(by_steps, random_replacement, disturbed=False)
    assert right > 0.65 * count and wrong <= 0.01 * count
    _, misplaced, _ = rates(by_plateaus, random_replacement, disturbed=False)
    assert wrong < misplaced < 0.04 * count


def test_both_find_every_level_of_a_curve_without_either():
    for detector in (by_plateaus, by_steps):
        right, wrong, count = rates(detector, ramp, disturbed=False)
        assert (right, wrong) == (count, 0)


def test_a_point_is_no_slower_than_any_larger_set():
    assert undisturbed_values([4.0, 9.0, 4.1, 12.0, 11.0]) == [4.0, 4.1, 4.1, 11.0, 11.0]
    assert undisturbed_values([]) == []


def test_the_noise_of_points_is_told_from_their_distance_to_the_midpoint_of_their_neighbours():
    values = np.random.default_rng(1).normal(0.0, 0.02, size=5000)
    deviations = np.abs(values[1:-1] - (values[:-2] + values[2:]) / 2)
    assert noise_of_deviations(deviations.tolist(), 0.0) == pytest.approx(0.02, rel=0.05)
    assert noise_of_deviations([], 0.0) == 0.0 and noise_of_deviations([], math.inf) == math.inf
