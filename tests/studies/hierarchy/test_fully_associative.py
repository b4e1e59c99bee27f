"""Full associativity of simulated caches and TLBs: random lines and random pages hit, of set-associative ones some miss."""

import pytest

from clmembench.studies.hierarchy.geometry.strides import is_fully_associative
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.page_probe import PageCost, PageCountLimits, PageProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.tlb.fully_associative_tlb import is_fully_associative_tlb
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

QUIET = Noise(lap_relative=0.001)


def answers(device):
    return lambda probes: [device.answer(probe) for probe in probes]


def hashed(sets, ways, line):
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    masks = tuple(1 << (low + i) | 1 << (low + bits + i) | 1 << (low + bits + (i + 2) % bits) for i in range(bits))
    return Sets((ways,) * sets, masks=masks)


@each("policy", ["LRU", "FIFO", "random"])
@each(("sets", "one"), [(Sets((96,)), True), (plain(2, 48, 64), False), (hashed(4, 24, 64), False)])
def test_random_lines_all_hit_in_a_fully_associative_cache_alone(sets, one, policy):
    device = Machine("test", {"global": Path((Cache(sets, 64, 5.0, policy),), 90.0)}, QUIET, 3)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(5.0, 90.0, 0.005))
    assert replay(is_fully_associative(probe, 64, 96, MIB), answers(device)) is one


def test_a_span_too_short_for_random_lines_decides_nothing():
    device = Machine("test", {"global": Path((Cache(Sets((96,)), 64, 5.0),), 90.0)}, QUIET, 3)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(5.0, 90.0, 0.005))
    assert replay(is_fully_associative(probe, 64, 96, 2 * 96 * 64), answers(device)) is False


@each("policy", ["LRU", "random"])
@each(("ways", "sets"), [(40, 1), (20, 2), (10, 4)])
def test_random_pages_all_hit_in_a_fully_associative_tlb_alone(ways, sets, policy):
    page = 64 * KIB
    tlb = Tlb(plain(sets, ways, page), page, 30.0, policy)
    device = Machine("test", {"global": Path((Cache(plain(64, 8, 64), 64, 5.0),), 90.0, (tlb,))}, QUIET, 3)
    chase = ChaseLayout("global", shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(256,))
    pages = PageProbe(ProbeSession(), chase, PageCountLimits(4096 * MIB, 0.001))
    told = replay(is_fully_associative_tlb(pages, PageCost(0.0, 30.0), page, 40), answers(device))
    assert told is (sets == 1)


def test_few_pages_decide_nothing():
    pages = PageProbe(ProbeSession(), ChaseLayout(control_bytes=128, page_lines=2), PageCountLimits(4096 * MIB, 0.001))
    assert replay(is_fully_associative_tlb(pages, PageCost(0.0, 30.0), 64 * KIB, 8), answers(None)) is False


@pytest.mark.parametrize(("count", "all_fit"), [(27, False), (52, True)])
def test_fewer_pages_than_fit_are_not_all_that_do(count, all_fit):
    """Of 52 entries any 27 hold 27 random pages, but 31 too."""
    page = 64 * KIB
    path = Path((Cache(plain(64, 8, 64), 64, 5.0),), 90.0, (Tlb(Sets((52,)), page, 30.0),))
    device = Machine("test", {"global": path}, QUIET, 3)
    chase = ChaseLayout("global", shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(256,))
    pages = PageProbe(ProbeSession(), chase, PageCountLimits(4096 * MIB, 0.001))
    assert replay(is_fully_associative_tlb(pages, PageCost(0.0, 30.0), page, count), answers(device)) is all_fit
