"""Intervals on simulated samples whose true median is known: how often they cover it, for kinds of noise that timings have."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from clmembench.analysis.stats import difference, summarise
from tests.cases import each

TRIALS = 1000  # their share is within 0.02 of its expectation, by over 2.9 standard errors


def two_modes(rng, shape):
    """Mostly one clock or place, at times another, and two in a hundred samples interrupted."""
    mode = np.where(rng.random(shape) < 0.7, rng.normal(100, 1, shape), rng.normal(130, 3, shape))
    return np.where(rng.random(shape) < 0.02, 50 * mode, mode)


NOISE = {
    "normal": (lambda rng, shape: rng.normal(100, 5, shape), 100.0),
    "lognormal": (lambda rng, shape: rng.lognormal(0, 1, shape), 1.0),
    "two modes with outliers": (two_modes, 100 + NormalDist().inv_cdf(0.5 / (0.7 * 0.98))),  # all else lies above it
    "quantised": (lambda rng, shape: np.round(rng.normal(1000, 3, shape)), 1000.0),
}


@each("n", [16, 32, 64])
@each("kind", NOISE)
def test_an_interval_covers_the_true_median_as_often_as_it_says(kind, n):
    draw, truth = NOISE[kind]
    found = [summarise(row) for row in draw(np.random.default_rng(n), (TRIALS, n)).tolist()]
    covered = sum(s.low <= truth <= s.high for s in found) / TRIALS
    assert covered >= 0.93
    # ranks come in steps, and whole numbers tie: both only ever cover more
    assert kind == "quantised" or covered <= 0.995


@each("n", [16, 32, 64])
@each("kind", NOISE)
def test_an_interval_of_a_slope_covers_the_true_difference_as_often_as_it_says(kind, n):
    draw, truth = NOISE[kind]
    rng = np.random.default_rng(n)
    near, far = draw(rng, (TRIALS, n)).tolist(), (3 * draw(rng, (TRIALS, n))).tolist()
    found = [difference(a, b) for a, b in zip(near, far, strict=True)]
    covered = sum(s.low <= 2 * truth <= s.high for s in found) / TRIALS
    assert 0.93 <= covered <= 0.995
