"""Sets of TLBs by bits of a page's number, or its remainder: told where these choose them, and no number where something else
does."""

import pytest

from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.page_probe import PageCost, PageCountLimits, PageProbe
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, ProbeSession
from clmembench.studies.hierarchy.tlb.tlb_bits import sets_by_bits, sets_by_remainders
from clmembench.studies.hierarchy.tlb.tlb_ramp import SetWays
from tests.cases import each
from tests.hierarchies import uneven
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain
from tests.truths import mei_tlbs

PAGE, NEARER, COST = 4 * KIB, 24, PageCost(7.0, 30.0)


def told(second, held, policy="LRU", most_bytes=512 * MIB, nearer="LRU", relative_noise=0.001, cost=COST):
    """The sets inferred for a second-level TLB with these sets, behind a first level of 24 entries. `held`: pages in a row that
    fit, or the number of entries."""
    first = Tlb(Sets((NEARER,)), PAGE, COST.hit, nearer)
    path = Path((Cache(plain(64, 8, 64), 64, 5.0),), 90.0, (first, Tlb(second, PAGE, COST.miss, policy)))
    device = Machine("test", {"global": path}, Noise(lap_relative=relative_noise), 3)
    chase = ChaseLayout("global", shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(256,), page_bytes=PAGE)
    pages = PageProbe(ProbeSession(), chase, PageCountLimits(most_bytes, relative_noise))
    infer = sets_by_remainders if isinstance(held, int) else sets_by_bits
    return replay(infer(pages, cost, PAGE, held), lambda probes: [device.answer(probe) for probe in probes])


def hashed(sets, ways, *pairs):
    """Sets of which some bits are the exclusive or of two bits of a page's number, the others plain."""
    low, bits = PAGE.bit_length() - 1, sets.bit_length() - 1
    other = dict(pairs)
    return Sets((ways,) * sets, masks=tuple(1 << (low + i) | (1 << (low + other[i]) if i in other else 0) for i in range(bits)))


@each("policy", ["LRU", "FIFO", "tree-PLRU", "NRU"])
@each(("sets", "ways"), [(64, 4), (128, 2), (16, 8)])
def test_sets_that_bits_choose(sets, ways, policy):
    entries = sets * ways
    for held in (CapacityBound(entries, entries + 1), CapacityBound(entries - 2, entries + 9, 40.0, sets / 2)):
        assert told(plain(sets, ways, PAGE), held, policy) == SetWays(sets, ways, ways)


def test_a_count_that_noise_leaves_open_is_settled_by_whole_rows():
    assert told(plain(64, 6, PAGE), CapacityBound(380, 470, 90.0, 130.0)) == SetWays(64, 6, 6)


def test_a_number_that_a_disturbance_ended_is_not_taken_for_the_ways():
    """162 pages of 192 seem to be all that fit, between which 10 ways of 16 sets are the only number."""
    assert told(plain(16, 12, PAGE), CapacityBound(162, 163, 1.1, 1.7)) == SetWays(16, 12, 12)


def test_sets_behind_drawn_victims():
    assert told(plain(128, 4, PAGE), CapacityBound(510, 520, 30.0, 8.0), nearer="random") == SetWays(128, 4, 4)
    assert told(plain(64, 4, PAGE), CapacityBound(250, 258, 30.0, 8.0), "random") in (None, SetWays(64, 4, 4))


@pytest.mark.parametrize(
    ("second", "entries"),
    [
        (Sets((4,) * 96), 384),  # a modulus of three times a power of two
        (Sets((256,)), 256),
        (hashed(64, 4, (4, 7), (5, 8)), 256),  # plain bits, and others that are hashed
        (hashed(64, 4, (0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11)), 256),
        (mei_tlbs(COST.hit, COST.miss, (17, 8, 30))[1].sets, 257),  # a large set and equal ones
    ],
)
def test_no_wrong_number_where_something_else_chooses_them(second, entries):
    for policy in ("LRU", "NRU"):
        found = told(second, CapacityBound(entries, entries + 1), policy)
        assert found is None or (found.sets, found.ways) == (len(second.ways), second.ways[0])


def test_nothing_is_told_where_memory_has_no_room_or_the_nearer_tlb_answers():
    held = CapacityBound(256, 257)
    assert told(plain(64, 4, PAGE), held, most_bytes=256 * PAGE) is None
    assert told(plain(4, 8, PAGE), CapacityBound(32, 33)) is None  # of 24 pages the nearer TLB holds all
    assert told(plain(64, 4, PAGE), held, relative_noise=0.2) is None
    assert told(plain(64, 4, PAGE), held, cost=PageCost(30.0, 30.0)) is None  # a miss that costs nothing
    assert told(plain(6, 8, PAGE), 48, most_bytes=3 * 48 * PAGE // 2) is None
    assert told(plain(6, 8, PAGE), 48, relative_noise=0.2) is None
    assert told(plain(6, 8, PAGE), 48, cost=PageCost(30.0, 30.0)) is None


@each("policy", ["random", "NRU", "LRU"])
@each(("sets", "ways"), [(12, 5), (5, 12), (16, 6), (2, 50), (7, 9), (3, 25), (40, 3)])
def test_sets_of_any_number_by_remainders_whatever_the_policy(sets, ways, policy):
    assert told(plain(sets, ways, PAGE), sets * ways, policy) == SetWays(sets, ways, ways)


@each(
    ("second", "entries"),
    [
        (plain(1, 60, PAGE), 60),
        (plain(8, 6, PAGE), 40),  # entries that a disturbance ended early
        (plain(8, 6, PAGE), 56),
        (plain(6, 8, PAGE), 47),
        (uneven([9, *[8] * 7]), 65),
        (uneven([25, 23, 24]), 72),
        (hashed(8, 6, (0, 5), (1, 6), (2, 8)), 48),
        (hashed(16, 4, (2, 6), (3, 7)), 64),
        (Sets((8,) * 8, bits=(13, 14, 15)), 64),  # two pages in a row are of one set, as of 16 sets of 4 ways
        (Sets((6,) * 8, listed=(5, 0, 3, 7, 3, 1, 6, 2, 0, 4, 7, 5, 2, 6, 4, 1)), 48),
    ],
)
def test_no_sets_by_remainders_where_these_do_not_choose_equal_ones(second, entries):
    for policy in ("random", "NRU"):
        assert told(second, entries, policy) is None
