"""Age-based policies: simulated as their names say, and never taken for one of the six or the reverse."""

import numpy as np
import pytest

from clmembench.model import Answer
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.replacement.age_policies import AGE_POLICIES, ESTABLISHED_AGE_POLICIES, AgedSet, AgeRules
from clmembench.studies.hierarchy.replacement.cache_set import FifoSet, LruSet
from clmembench.studies.hierarchy.replacement.policy_forms import INSERTION_AGES, HitAgedLruSet, age_forms, is_age_based
from clmembench.studies.hierarchy.replacement.policy_probe import CONFIRMING_WALKS, probe_policy
from clmembench.studies.hierarchy.replacement.policy_trace import explaining_age_policies
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, SetLines, SetOfLevel
from clmembench.studies.hierarchy.replacement.set_miss_rates import steady_miss_rate
from tests.aged_sets import HitAgedLines, OneSet, QuadAgeSet
from tests.cases import each
from tests.simulated import Cache, Machine, Noise, Path, plain

HIT, MISS, WAY_BYTES = 10.0, 90.0, 4096
SIX = ("LRU", "FIFO", "tree-PLRU", "NRU", "random", "way-weighted")


def policy_of(answer, ways, noise=0.002):
    """What laps over one set say of its policy."""
    asked, lines = ProbeSession(), SetLines(ways + EXTRA_LINES, WAY_BYTES)
    probe = LevelProbe(asked, ChaseLayout(), HitMissModel(HIT, MISS, noise * HIT))
    experiment = probe_policy(probe, SetOfLevel(ways, lines, 32))
    found = replay(experiment, lambda probes: [answer(one) for one in probes])["policy"]
    return found, len(asked.answers)


def aged_set(name, ways, seed, disturbed=0.0):
    return OneSet(lambda: QuadAgeSet(name, ways), WAY_BYTES, HIT, MISS, 0.002, seed, disturbed).answer


def simulated_set(policy, ways, seed, late=False):
    victims = tuple(3.0 if way == 1 else 1.0 for way in range(ways)) if policy == "way-weighted" else ()
    cache = Cache(plain(WAY_BYTES // 64, ways, 64), 64, HIT, policy, victims=victims, nru_at_miss=late)
    noise = Noise(lap_relative=0.002, disturbed=0.01)
    return Machine("one", {"global": Path((cache,), MISS)}, noise, seed, no_clock="none").answer


@pytest.mark.parametrize("ways", [2, 4, 7])
def test_every_variant_is_simulated_as_its_name_says(ways):
    for number, name in enumerate(AGE_POLICIES):
        lines = np.random.default_rng(number).integers(0, ways + 2, 120).tolist()
        mine, theirs = AgedSet(ways, AgeRules.of(name)), QuadAgeSet(name, ways)
        assert [mine.access(line) for line in lines] == [theirs.access(line) for line in lines], name


@pytest.mark.parametrize("name", ESTABLISHED_AGE_POLICIES)
@pytest.mark.parametrize("ways", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 16))])
@pytest.mark.slow
def test_an_established_variant_is_named_or_described(name, ways):
    found, probes = policy_of(aged_set(name, ways, 3), ways)
    assert found.value in (name, None)
    assert found.value == name or name in found.reason or "others" in found.reason
    assert found.value == name or found.reason.startswith("none of LRU, FIFO, tree-PLRU, NRU, random")
    assert probes < 40


@pytest.mark.slow
def test_variants_are_named_by_some_laps():
    values = [policy_of(aged_set(name, 8, 5), 8)[0].value for name in ESTABLISHED_AGE_POLICIES]
    assert sum(value is not None for value in values) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(30), range(30, 110)])
def test_none_of_the_six_is_taken_for_an_age_based_one_nor_the_reverse(seeds):
    named = {True: 0, False: 0}
    for seed in seeds:
        dice = np.random.default_rng([17, seed])
        ways = int(dice.choice([4, 4, 8, 8, 16]))
        if aged := bool(dice.random() < 0.4):
            name = str(dice.choice(ESTABLISHED_AGE_POLICIES if dice.random() < 0.7 else AGE_POLICIES))
            if name not in ESTABLISHED_AGE_POLICIES:  # QLRU_H21_M0_R0_U0 is taken for FIFO: no cache is known to have it
                continue
            answer = aged_set(name, ways, seed, 0.01)
        else:
            name = str(dice.choice(SIX))
            ways = min(ways, 8) if name == "way-weighted" else ways  # more are not told from random
            answer = simulated_set(name, ways, seed, late=bool(dice.random() < 0.5))
        value = policy_of(answer, ways)[0].value
        if value is not None:
            assert is_age_based(str(value)) == aged or _is_nru(name, str(value)), (seed, name, value)
            assert aged or value == name, (seed, name, value)
            named[aged] += 1
    assert named[False] > len(seeds) / 4
    assert named[True] > 0


def _is_nru(name, value):
    """True of the variants that are forms of NRU: ages are 0 or 3 alone."""
    return value == "NRU" and "_M0_" in name and "H00" in name


@each("ways", [3, 8, 32])
@each("name", ["LRU", "FIFO"])
def test_lru_and_fifo_are_told_apart_whatever_the_number_of_ways(name, ways):
    """Random walks over many lines differ by little; a stream past protected lines does not."""
    found, _ = policy_of(simulated_set(name, ways, 5), ways)
    assert found.value == name


def test_a_stream_protects_what_lru_keeps():
    lines = SetLines(10, WAY_BYTES)
    lap = lines.numbers(lines.stream(2, 8))
    assert len(set(lap)) == 9
    assert steady_miss_rate(LruSet, 8, lap, 8) == 0.5
    assert steady_miss_rate(FifoSet, 8, lap, 8) > 0.6


def test_a_variant_that_only_chosen_laps_confirm_is_not_named():
    """As where a run's budget ends: the laps that nobody chose get no answer."""
    said = []

    def answer(probe):
        said.append(probe)
        return device(probe) if len(said) <= limit else Answer(probe, reason="the budget was spent")

    device, limit = aged_set("QLRU_H00_M1_R2_U1", 4, 3), 10_000
    named, asked = policy_of(answer, 4)
    said.clear()
    limit = asked - CONFIRMING_WALKS
    found, _ = policy_of(answer, 4)
    assert named.value == "QLRU_H00_M1_R2_U1"
    assert (found.value, "no further ones confirm it" in found.reason) == (None, True)


@each("name", INSERTION_AGES)
@each("ways", [2, 4, 8])
def test_lru_that_counts_hits_is_simulated_as_it_says(name, ways):
    lines = np.random.default_rng(ways).integers(0, ways + 2, 400).tolist()
    mine, theirs = HitAgedLruSet(ways, INSERTION_AGES[name]), HitAgedLines(INSERTION_AGES[name], ways)
    assert [mine.access(line) for line in lines] == [theirs.access(line) for line in lines]


def test_lines_that_come_in_no_older_than_the_last_hit_are_lru():
    lines = np.random.default_rng(1).integers(0, 6, 400).tolist()
    mine, lru = HitAgedLruSet(4, 0), LruSet(4)
    assert [mine.access(line) for line in lines] == [lru.access(line) for line in lines]


@pytest.mark.parametrize("apart", [0.0, 0.08])
@pytest.mark.parametrize("name", ["LRU_M2", "LRU_M3"])
@pytest.mark.slow
def test_single_accesses_name_what_laps_leave_open(name, apart):
    """As in a GPU whose next level has a near and a far part, so that misses of lines differ."""
    device = OneSet(lambda: HitAgedLines(INSERTION_AGES[name], 4), WAY_BYTES, HIT, MISS, 0.002, 3, clock=True, apart=apart)
    found, _ = policy_of(device.answer, 4)
    assert (found.value, found.status) == (name, "ok")


def test_the_six_are_not_explained_by_age_based_ones_as_accesses():
    """But for FIFO and NRU, of which some are forms, and LRU of few ways."""
    dice = np.random.default_rng(5)
    for maker in (LruSet, lambda ways: QuadAgeSet("QLRU_H11_M1_R0_U0", ways)):
        observations = []
        for _ in range(6):
            lines, one = dice.integers(0, 10, 300).tolist(), maker(8)
            observations.append((lines, [one.access(line) for line in lines]))
        named = explaining_age_policies(8, observations)
        assert named == ([] if maker is LruSet else ["QLRU_H11_M1_R0_U0"])


def test_few_accesses_name_no_age_based_policy():
    lines, one = list(range(6)) * 20, HitAgedLruSet(4, 2)
    flags = [one.access(line) for line in lines]
    assert explaining_age_policies(4, [(lines, flags)] * 8) == []
    assert len(age_forms(established=False)) == len(AGE_POLICIES) + len(INSERTION_AGES)
