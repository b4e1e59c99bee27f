import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench.analysis import stats
from clmembench.analysis.stats import (
    MIN_SAMPLES,
    difference,
    median_ranks,
    medians_agree,
    outliers,
    pool,
    pool_differences,
    summarise,
)
from tests.cases import each

finite = st.floats(-1e12, 1e12)


def brute_ranks(n, level):
    """The narrowest symmetric pair of order statistics whose coverage 1 - 2 P(Binomial(n, 1/2) <= rank) is at least `level`."""
    best, tail = None, 0
    for rank in range(n // 2):
        tail += math.comb(n, rank)
        if 1 - 2 * Fraction(tail, 2**n) >= level:
            best = (rank, n - 1 - rank)
    return best


@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(99, 100)])
def test_median_ranks_are_the_binomial_ones(level):
    sizes = [*range(120), 200, 999, 1000]
    assert {n: median_ranks(n, float(level)) for n in sizes} == {n: brute_ranks(n, level) for n in sizes}


def test_fewer_than_six_samples_have_no_interval():
    assert [median_ranks(n) for n in range(MIN_SAMPLES)] == [None] * MIN_SAMPLES
    assert median_ranks(MIN_SAMPLES) == (0, MIN_SAMPLES - 1)
    few = summarise([3.0, 1.0, 2.0])
    assert (few.median, few.low, few.high, few.noise) == (2.0, -math.inf, math.inf, math.inf)


def test_median_ranks_of_many_samples_follow_the_normal_approximation():
    low, high = median_ranks(100_000)
    assert low == pytest.approx(50_000 - 1.96 * math.sqrt(100_000) / 2, abs=3)
    assert high == 99_999 - low


DRAWS = {
    "normal": (lambda rng, shape: rng.normal(100, 5, shape), 100.0),
    "exponential": (lambda rng, shape: rng.exponential(1, shape), math.log(2)),
    "lognormal": (lambda rng, shape: rng.lognormal(0, 1.5, shape), 1.0),
    "cauchy": (lambda rng, shape: rng.standard_cauchy(shape), 0.0),
    "quantised": (lambda rng, shape: np.round(rng.normal(100, 2, shape)), 100.0),
}


@each("n", [6, 7, 12, 31])
@each("name", DRAWS)
def test_the_interval_covers_the_true_median_95_times_in_100(name, n):
    draw, truth = DRAWS[name]
    trials = 3000
    found = [summarise(list(row)) for row in draw(np.random.default_rng(n), (trials, n))]
    covered = sum(s.low <= truth <= s.high for s in found) / trials
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)
    assert any(s.low > truth or s.high < truth for s in found)  # it is an interval, not everything


def test_summary_by_hand():
    s = summarise([9, 1, 2, 3, 4, 5, 6, 7])  # sorted 1 2 3 4 5 6 7 9; ranks (0, 7) since P(X <= 1) = 9/256 > 0.025
    assert (s.median, s.q1, s.q3, s.low, s.high, s.least, s.n, s.processes) == (4.5, 2.75, 6.25, 1, 9, 1, 8, 1)
    assert s.noise == pytest.approx((9 - 1) / 2 / 4.5)


@given(st.lists(finite, min_size=1, max_size=60))
def test_a_summary_is_in_order_and_blind_to_the_order_of_samples(samples):
    s = summarise(samples)
    assert s.least <= s.q1 <= s.median <= s.q3
    assert s.low <= s.median <= s.high
    assert s == summarise(samples[::-1])


def test_no_samples_is_an_error():
    for nothing in ([], [[]], [[], []]):
        with pytest.raises(ValueError, match="no samples"):
            pool(nothing)
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_a_median_of_zero_has_infinite_noise():
    assert summarise([0.0] * 10).noise == math.inf


def test_one_process_pools_to_its_own_summary():
    samples = list(np.random.default_rng(1).normal(10, 1, 20))
    assert pool([samples]) == summarise(samples) == pool([[], samples])


@pytest.mark.parametrize("processes", [2, 3, 5, 10])
def test_a_process_effect_widens_the_pooled_interval(processes):
    rng = np.random.default_rng(7)
    groups = [list(rng.normal(100 + effect, 0.1, 50)) for effect in rng.normal(0, 10, processes)]
    medians = [float(np.median(g)) for g in groups]
    pooled, single = pool(groups), summarise(groups[0])
    assert pooled.high - pooled.low > 10 * (single.high - single.low)
    assert (pooled.n, pooled.processes) == (50 * processes, processes)
    assert pooled.median == float(np.median(medians))
    if processes < 5:
        assert pooled.low <= min(medians) and pooled.high >= max(medians)


def test_without_a_process_effect_pooling_narrows_the_interval():
    rng = np.random.default_rng(8)
    groups = [list(rng.normal(100, 5, 30)) for _ in range(12)]
    pooled, single = pool(groups), summarise(groups[0])
    assert pooled.low <= 100 <= pooled.high
    assert pooled.high - pooled.low < single.high - single.low


def test_each_process_weighs_the_same_however_many_samples_it_has():
    pooled = pool([[1.0] * 1000, [2.0] * 10, [3.0] * 10])
    assert (pooled.median, pooled.low, pooled.high) == (2.0, 1.0, 3.0)


@pytest.mark.parametrize("processes", [2, 4, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 12))])
def test_the_pooled_interval_covers_a_random_process_effect(processes):
    # with k processes no interval inside their range can promise more than 1 - 2 / 2**k
    rng, trials = np.random.default_rng(processes), 1500
    covered = 0
    for _ in range(trials):
        groups = [list(rng.normal(100 + effect, 1, 10)) for effect in rng.normal(0, 5, processes)]
        found = pool(groups, rounds=400)
        covered += found.low <= 100 <= found.high
    promised = min(0.95, 1 - 2 / 2**processes)
    assert covered / trials >= promised - 3 * math.sqrt(promised * (1 - promised) / trials)


def test_pooling_is_repeatable():
    groups = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [5.0, 5.0, 9.0]]
    assert pool(groups) == pool(groups)
    assert pool(groups, seed=1).median == pool(groups, seed=2).median


def test_the_difference_of_two_medians_by_hand():
    # medians 10 and 40; intervals of 7 are the ranges, 7 to 14 and 35 to 52: 30 - hypot(5, 4) to 30 + hypot(12, 3)
    s = difference([10, 7, 9, 10, 11, 14, 10], [40, 35, 40, 40, 52, 40, 39])
    assert (s.median, s.low, s.high) == (30, pytest.approx(30 - math.sqrt(41)), pytest.approx(30 + math.sqrt(153)))
    assert (s.least, s.n, s.processes) == (26, 7, 1)


@each("n", [6, 12, 31])
@each("name", DRAWS)
def test_the_interval_of_a_difference_covers_it_95_times_in_100(name, n):
    draw, truth = DRAWS[name]
    rng, trials = np.random.default_rng(n), 1500
    near, far = draw(rng, (trials, n)), 3 * draw(rng, (trials, n))
    found = [difference(list(a), list(b)) for a, b in zip(near, far, strict=True)]
    covered = sum(s.low <= 2 * truth <= s.high for s in found) / trials
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)


def test_a_difference_of_too_few_samples_has_no_interval():
    few = difference([1.0] * 5, [2.0] * 5)
    assert (few.median, few.low, few.high) == (1.0, -math.inf, math.inf)
    for nothing in (([], []), ([], [1.0]), ([1.0], [])):
        with pytest.raises(ValueError, match="no samples"):
            difference(*nothing)


def test_differences_pool_as_values_do():
    rng = np.random.default_rng(11)
    pairs = [(list(rng.normal(10, 1, 20)), list(rng.normal(60 + effect, 1, 20))) for effect in rng.normal(0, 10, 4)]
    medians = [float(np.median(b) - np.median(a)) for a, b in pairs]
    pooled = pool_differences(pairs)
    assert pooled.median == pytest.approx(float(np.median(medians)))
    assert pooled.low <= min(medians) and pooled.high >= max(medians)
    assert (pooled.n, pooled.processes) == (80, 4)
    assert pool_differences(pairs[:1]) == difference(*pairs[0]) == pool_differences([([], []), pairs[0]])


def test_outliers_are_flagged_by_index():
    samples = [10.0, 10.1, 9.9, 10.05, 50.0, 9.95, 10.0, 1.0]
    assert outliers(samples) == [4, 7]
    assert outliers(samples, limit=1e6) == []
    assert outliers([]) == []
    assert outliers([5.0]) == []


def test_ordinary_noise_is_no_outlier():
    assert outliers(list(np.random.default_rng(3).normal(100, 5, 1000))) == []


def test_samples_that_are_all_equal_have_no_outlier():
    assert outliers([7.0] * 20) == []


def test_a_spike_over_a_quantised_clock_is_an_outlier():
    assert outliers([1000.0] * 20 + [90_000.0]) == [20]


def test_agreement_of_blocks():
    assert medians_agree([100, 101, 99], [102, 102, 102], 0.02)
    assert not medians_agree([100, 101, 99], [103, 103, 103], 0.02)
    assert medians_agree([0, 0], [0, 0], 0.01)
    assert medians_agree([103, 103, 103], [100, 101, 99], 0.03)  # a fraction of the larger, whichever comes first
    assert medians_agree([100, 101, 99], [103, 103, 103], 0.03)


def test_a_ratio_covers_the_truth_as_often_as_it_says():
    """6 processes a run whose logarithms have one standard deviation: 95% intervals of the ratio, over 4000 pairs."""
    rng = np.random.default_rng(11)
    truth, covered = 1.3, 0
    for _ in range(4000):
        a, b = np.exp(rng.normal(0.0, 0.1, 6)), truth * np.exp(rng.normal(0.0, 0.1, 6))
        found = stats.ratio(list(a), list(b), prior=0.1, between_runs=0.0)
        covered += found.low <= truth <= found.high
    assert 0.94 <= covered / 4000 <= 0.98


def test_a_ratio_of_single_processes_is_as_wide_as_its_prior_and_runs_add_to_it():
    narrow, wide = (stats.ratio([1.0], [1.0], prior, 0.0) for prior in (0.01, 0.1))
    assert wide.high > narrow.high > 1.0 > narrow.low > wide.low
    assert stats.ratio([1.0], [1.0], 0.01, 0.1).high > narrow.high
    many = stats.ratio([1.0, 1.001, 0.999] * 4, [1.0, 1.001, 0.999] * 4, 0.1, 0.0)
    assert many.high < wide.high


def test_a_ratio_of_numbers_that_nobody_measured_is_still_a_number():
    found = stats.ratio([1e-74, 1e-74, 1e74], [1e74, 1e74, 1e-74], 250.0, 0.05)
    assert 0 < found.low < found.high < math.inf and 1 / found.low < math.inf


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_a_ratio_of_what_is_not_above_0_is_an_error(a, b):
    with pytest.raises(ValueError, match="above 0"):
        stats.ratio(a, b, 0.1, 0.0)


@each(
    ("low", "high", "verdict"),
    [
        (1.06, 1.2, "more"),
        (0.8, 0.94, "less"),
        (0.97, 1.03, "same"),
        (0.9, 1.1, "undecided"),
        (1.01, 1.04, "same"),
        (1.04, 1.2, "undecided"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low, high, verdict):
    assert stats.Ratio(1.0, low, high).verdict(0.05) == verdict


@pytest.mark.parametrize("n", [1, 2, 7, 16, 101])
def test_medians_of_resamples_are_distributed_as_those_of_real_ones(n):
    rng = np.random.default_rng(5)
    samples = rng.lognormal(0.0, 1.0, n)
    real = np.median(rng.choice(samples, size=(20_000, n)), axis=1)
    drawn = stats._resampled_medians(samples, rng, 20_000)
    # Kolmogorov's distance of two samples of 20,000 from one distribution is below this in all but one of 10,000 cases
    grid = np.sort(samples)
    distance = max(abs(np.mean(real <= x) - np.mean(drawn <= x)) for x in (*grid, *((grid[1:] + grid[:-1]) / 2)))
    assert distance < 2.22 * math.sqrt(2 / 20_000)


@each("noisier", [0.3, 1.0, 3.0, 10.0])
@each("pairs", [2, 3, 4, 6])
def test_a_ratio_of_pairs_covers_the_truth_where_they_are_noisier_than_expected(pairs, noisier):
    rng, trials = np.random.default_rng([pairs, int(10 * noisier)]), 1500
    covered, widths = 0, []
    for logs in rng.normal(math.log(1.3), 0.01 * noisier, (trials, pairs)):
        found = stats.paired_ratio([1.0] * pairs, list(np.exp(logs)), 0.01)
        covered += found.low <= 1.3 <= found.high
        widths.append(math.log(found.high / found.low) / 2)
    assert covered / trials >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)
    # and quiet pairs are no narrower than what is expected of any, a normal distribution's 1.96 with it
    assert np.median(widths) >= 1.96 * math.sqrt(math.pi / 2 / pairs) * 0.01 * (0.8 if pairs > 2 else 0.6)
