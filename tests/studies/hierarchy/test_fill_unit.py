"""The unit that a miss brings in, from means of pairs: told where they grow with distance, not where laps differ by chance."""

import pytest

from clmembench.model import Answer
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import PAIR_DISTANCES_BYTES, find_fill_unit
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession

HIT, MISS = 280.0, 510.0


def found(second):
    """The unit by what the second access of a pair costs at each distance."""
    costs = dict(zip((*PAIR_DISTANCES_BYTES, 512), second, strict=True))

    def answer(probe):
        mean = (MISS + costs[probe.pattern.block_bytes]) / 2
        return Answer(probe, mean, mean, mean, evidence=("a",))

    probe = LevelProbe(ProbeSession(), ChaseLayout(space="global_cg"), HitMissModel(HIT, MISS, 0.5))
    return replay(find_fill_unit(probe, 30 << 20), lambda probes: [answer(one) for one in probes])


@pytest.mark.parametrize("unit", [32, 64, 128])
def test_a_unit_ends_where_second_accesses_miss(unit):
    assert found([HIT if d < unit else MISS for d in (*PAIR_DISTANCES_BYTES, 512)]).nbytes == unit


def test_laps_that_differ_by_chance_tell_no_unit():
    """As a noisy run of an H200 had them: pairs of 16 B took less than pairs of 8 B by as much as the unit would explain."""
    shares = [1.45, 0.54, 1.13, 1.36, 2.66, 2.31, 2.75]
    told = found([HIT + (MISS - HIT) * (share - 0.54) for share in shares][: len(PAIR_DISTANCES_BYTES) + 1])
    assert (told.nbytes, "by chance" in told.reason) == (None, True)


def test_laps_of_one_order_that_fall_by_a_quarter_tell_no_unit():
    """As a run of an H200 had them, which took 128 B for what a miss brings in, where pairs within one set show 64 B."""
    means = [400.5, 322.6, 392.0, 351.4, 598.9, 591.4, 557.7]
    told = found([2 * mean - MISS for mean in means])
    assert (told.nbytes, "by chance" in told.reason) == (None, True)


def test_a_level_in_between_that_costs_little_beside_a_miss_is_no_hit():
    """An L2 that the curve lost: hits of 14 cycles are 3% of the way from 4 to memory's 300, but three times a hit."""
    costs = dict(zip((*PAIR_DISTANCES_BYTES, 512), [4.0, 4.0, 4.0, 14.0, 300.0, 300.0, 300.0], strict=True))

    def answer(probe):
        mean = (300.0 + costs[probe.pattern.block_bytes]) / 2
        return Answer(probe, mean, mean, mean, evidence=("a",))

    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(4.0, 300.0, 0.004))
    told = replay(find_fill_unit(probe, 32 << 10), lambda probes: [answer(one) for one in probes])
    assert (told.nbytes, told.least) == (None, 64)


def test_two_orders_of_pairs_that_were_both_disturbed_are_not_believed():
    """Hits in one line took 1.4 and 1.5 times as long in two orders, of half a percent of laps that are disturbed."""
    costs = dict(zip((*PAIR_DISTANCES_BYTES, 512), [5.0, 5.0, 5.0, 12.0, 12.0, 12.0, 12.0], strict=True))

    def answer(probe):
        mean = (12.0 + costs[probe.pattern.block_bytes]) / 2
        mean *= {1: 1.37, 2: 1.49}.get(probe.pattern.seed, 1.0) if probe.pattern.block_bytes == 32 else 1.0
        return Answer(probe, mean, mean, mean, evidence=("a",))

    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(5.0, 12.0, 0.01))
    assert replay(find_fill_unit(probe, 9 << 10), lambda probes: [answer(one) for one in probes]).nbytes == 64


def test_a_prefetcher_at_some_misses_is_not_taken_for_a_unit_where_more_pairs_miss_a_further_level():
    """Half of the second accesses 64 B away miss: 9.5 beside 3 and 16, but 44.5 once pairs miss a further level too."""
    few = dict(zip((*PAIR_DISTANCES_BYTES, 512), [3.0, 3.0, 3.0, 9.5, 9.5, 16.0, 16.0], strict=True))
    many = dict(zip((*PAIR_DISTANCES_BYTES, 512), [3.0, 3.0, 3.0, 44.5, 44.5, 86.0, 86.0], strict=True))

    def answer(probe):
        first, second = (16.0, few) if probe.pattern.count < 500 else (86.0, many)
        mean = (first + second[probe.pattern.block_bytes]) / 2
        return Answer(probe, mean, mean, mean, evidence=("a",))

    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(3.0, 16.0, 0.003))
    told = replay(find_fill_unit(probe, 10752, 256), lambda probes: [answer(one) for one in probes])
    assert (told.nbytes, told.least) == (None, 64)
