"""Replacement policies: named where hits and misses tell them, and only there."""

import numpy as np
import pytest

from clmembench.studies.hierarchy.replacement.cache_set import DETERMINISTIC_POLICIES, hits_of_accesses, policy_forms
from clmembench.studies.hierarchy.replacement.policies import decide_policy
from clmembench.studies.hierarchy.replacement.policy_rates import policies_by_cyclic_laps, policy_from_rates
from clmembench.studies.hierarchy.replacement.set_miss_rates import sampled_miss_rates, steady_miss_rate
from tests.cases import each

FERMI = (1 / 6, 1 / 2, 1 / 6, 1 / 6)  # Mei & Chu 2015, section 4.5


def drawn(weights, lines, seed):
    """A set whose victims are drawn, written apart from the package's own."""
    random = np.random.default_rng(seed)
    held, flags = [], []
    for line in lines:
        flags.append(line in held)
        if line in held:
            continue
        if len(held) < len(weights):
            held.append(line)
        else:
            held[int(random.choice(len(weights), p=weights))] = line
    return flags


def walk(lines, count, seed):
    return np.random.default_rng(seed).integers(0, lines, count).tolist()


IDS = ("chase:7", "chase:8")


def infer(ways, observations):
    return decide_policy(ways, observations, IDS).finding


def noisy(flags, seed, share=0.001):
    random = np.random.default_rng(seed)
    return [bool(f) and random.random() >= share for f in flags]  # outliers look like misses


@pytest.mark.parametrize("ways", [4, 8, pytest.param(16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DETERMINISTIC_POLICIES)
def test_a_deterministic_policy_is_named(name, ways):
    lines = walk(ways + 2, 1500, 7)
    assert infer(ways, [(lines, noisy(hits_of_accesses(DETERMINISTIC_POLICIES[name][0], ways, lines), 1))]).value == name


@pytest.mark.parametrize("form", range(4))
@pytest.mark.slow
def test_every_form_of_nru_is_nru(form):
    lines = walk(10, 2000, 3)
    assert infer(8, [(lines, hits_of_accesses(DETERMINISTIC_POLICIES["NRU"][form], 8, lines))]).value == "NRU"


@pytest.mark.parametrize("ways", [4, *(pytest.param(ways, marks=pytest.mark.slow) for ways in (6, 8))])
def test_random_is_named(ways):
    observations = []
    for seed in range(8):
        lines = walk(ways + 1, 300, seed)
        observations.append((lines, noisy(drawn([1 / ways] * ways, lines, seed), seed)))
    found = infer(ways, observations)
    assert found.value in ("random", None)
    assert found.status == ("ok" if found.value else "undetermined")
    assert ways > 4 or found.value == "random"


def test_fermis_victims_are_found_with_their_probabilities():
    lines = [line for _ in range(300) for line in range(5)]
    found = decide_policy(4, [(lines, noisy(drawn(FERMI, lines, seed), seed)) for seed in range(2)], IDS)
    assert found.finding.value == "way-weighted"
    assert found.victims == pytest.approx(FERMI, abs=0.06)


def test_a_lap_cannot_tell_lru_from_fifo():
    lines = list(range(5)) * 40
    found = infer(4, [(lines, hits_of_accesses(DETERMINISTIC_POLICIES["LRU"][0], 4, lines))])
    assert (found.status, found.value) == ("undetermined", None)
    assert "LRU" in found.reason
    assert "FIFO" in found.reason
    assert "random sequences" in found.reason


def test_two_ways_leave_lru_plru_and_nru_the_same():
    lines = walk(4, 800, 5)
    found = infer(2, [(lines, hits_of_accesses(DETERMINISTIC_POLICIES["LRU"][0], 2, lines))])
    assert found.status == "undetermined"


def test_what_no_policy_explains_is_not_named():
    lines = walk(6, 1000, 1)
    flags = (np.random.default_rng(2).random(1000) < 0.5).tolist()
    assert infer(4, [(lines, flags)]).status == "undetermined"


@pytest.mark.parametrize(("ways", "lines"), [(1, [0, 1, 0, 1]), (8, [0, 1, 2] * 9)])
def test_what_has_no_choice_says_so(ways, lines):
    found = infer(ways, [(lines, hits_of_accesses(DETERMINISTIC_POLICIES["LRU"][0], ways, lines))])
    assert (found.status, found.value) == ("undetermined", None)
    assert found.reason


def laps(ways, number, visits=12):
    found = []
    for seed in range(number):
        order = np.repeat(np.arange(ways + 2), visits)
        np.random.default_rng(seed).shuffle(order)
        found.append(order.tolist())
    return found


def counted(access, lap, repeats):
    """The share of misses over the second half of the laps, each of which is simulated."""
    misses = [sum(not access(line) for line in lap) for _ in range(repeats)]
    return sum(misses[repeats // 2 :]) / (len(lap) * (repeats - repeats // 2))


@pytest.mark.parametrize("name", DETERMINISTIC_POLICIES)
def test_rates_are_those_of_laps_that_are_all_simulated(name):
    random = np.random.default_rng(4)
    for ways in (1, 2, 3, 6, 8, 13):
        for repeats in (1, 2, 15, 64):
            lap = random.permutation(np.repeat(np.arange(ways + repeats % 3), 1 + ways % 4)).tolist()
            for maker in policy_forms(name, ways):
                assert steady_miss_rate(maker, ways, lap, repeats) == counted(maker(ways).access, lap, repeats), (ways, lap)


@each("ways", [1, 3, 8])
@each("likely", ["even", "any", "one never"])
def test_drawn_victims_are_those_of_sets_simulated_one_by_one(ways, likely):
    sets, repeats, random = 12, 9, np.random.default_rng(ways)
    weights = np.ones((sets, ways)) if likely == "even" else random.random((sets, ways)) + 0.01
    weights[:, 0] *= likely != "one never" or ways == 1
    lap = random.permutation(np.repeat(np.arange(ways + 2), 3)).tolist()
    limits = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1).tolist()
    held, draws, misses = [[] for _ in range(sets)], np.random.default_rng(9), np.zeros(sets)
    for number in range(repeats):
        for line in lap:
            missed = [one for one in range(sets) if line not in held[one]]
            for one, draw in zip(missed, draws.random(len(missed)).tolist(), strict=True):
                if len(held[one]) < ways:
                    held[one].append(line)
                else:
                    held[one][min(sum(limit < draw for limit in limits[one]), ways - 1)] = line
                misses[one] += number >= repeats // 2
    found = sampled_miss_rates(weights, lap, repeats, np.random.default_rng(9))
    assert found.tolist() == (misses / (len(lap) * (repeats - repeats // 2))).tolist()


@pytest.mark.parametrize("name", ["LRU", "FIFO", "tree-PLRU"])
def test_rates_of_random_laps_tell_a_policy(name):
    make = DETERMINISTIC_POLICIES[name][0]
    rates = [(lap, steady_miss_rate(make, 8, lap, 64)) for lap in [*laps(8, 12), list(range(9)), list(range(10))]]
    found = policy_from_rates(8, [(lap, rate + 0.002, rate - 0.01, rate + 0.01) for lap, rate in rates], IDS)
    assert found.value in (name, None)
    assert found.status == ("ok" if found.value else "undetermined")


def test_rates_tell_random_from_lru_by_a_lap():
    weights = np.full((200, 4), 0.25)
    random = np.random.default_rng(0)
    seen = [list(range(5)), list(range(6)), list(range(7)), list(range(8)), *laps(4, 10)]
    rates = [(lap, float(sampled_miss_rates(weights, lap, 60, random).mean())) for lap in seen]
    assert policy_from_rates(4, [(lap, r, r - 0.005, r + 0.005) for lap, r in rates], IDS).value in ("random", None)
    assert policy_from_rates(4, [(list(range(5)), 1.0, 0.99, 1.0)], IDS).status == "undetermined"


def test_of_two_ways_lru_is_named_for_those_that_give_up_the_same_line():
    make = DETERMINISTIC_POLICIES["LRU"][0]
    rates = [(lap, steady_miss_rate(make, 2, lap, 64)) for lap in [*laps(2, 12), [0, 1, 2], [0, 1, 2, 3]]]
    found = policy_from_rates(2, [(lap, rate, rate - 0.01, rate + 0.01) for lap, rate in rates], IDS)
    assert found.value == "LRU" and "tree-PLRU and NRU give up the same line" in found.method


def test_rates_that_nothing_explains_are_not_named():
    found = policy_from_rates(4, [(lap, 0.95 * (n % 2), 0.0, 0.01) for n, lap in enumerate(laps(4, 8))], IDS)
    assert found.status == "undetermined"


@pytest.mark.parametrize("fewer", [{1: 0.912, 7: 0.917, 9: 0.894}, {15: 0.666}])
def test_laps_of_which_a_nearer_cache_serves_some_are_not_those_of_fifo(fewer):
    """LRU, of whose cyclic laps over ten lines a prefetcher or a nearer cache had served a line, was told as FIFO."""
    laps = [np.random.default_rng(seed).permutation(10).tolist() for seed in range(16)]
    rates = [fewer.get(number, 1.0) for number in range(len(laps))]
    observations = [(lap, rate, rate - 0.005, rate + 0.005) for lap, rate in zip(laps, rates, strict=True)]
    assert policies_by_cyclic_laps(8, observations) >= {"LRU", "FIFO"}
