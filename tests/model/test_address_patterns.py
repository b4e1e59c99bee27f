"""patterns: laps written out, every node once, in the order that the name says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.model import Pattern, Probe
from clmembench.model.address_patterns import pattern_bytes, pattern_offsets
from tests.cases import each


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["sequential", "random", "blocks", "pairs", "walk"]),
    st.integers(3, 300),
    st.integers(9, 700),
    st.integers(1, 8),
    st.integers(0, 9),
)
def test_every_node_is_met_once_a_lap_and_lies_within_the_footprint(order, count, eights, visits, seed):
    pattern = Pattern(
        order, count, 8 * eights, block_bytes=8 * (eights // 2), visits=visits if order == "walk" else 1, seed=seed
    )
    lap = pattern_offsets(pattern)
    assert np.unique(lap).size == lap.size == count * {"pairs": 2, "walk": visits}.get(order, 1)
    assert lap.min() >= 0 and lap.max() + 8 <= pattern_bytes(pattern)
    assert np.array_equal(lap, pattern_offsets(pattern))


def test_a_walk_visits_each_place_equally_often_and_none_twice_in_a_row():
    places = pattern_offsets(Pattern("walk", 10, 4096, visits=8, seed=1)) // 4096
    assert np.array_equal(np.bincount(places), [8] * 10)
    assert not (places == np.roll(places, 1)).any()


def test_pairs_are_a_distance_apart():
    lap = pattern_offsets(Pattern("pairs", 50, 4096, shift_bytes=64, block_bytes=32)).reshape(-1, 2)
    assert (lap[:, 1] - lap[:, 0] == 32).all()


def test_blocks_are_finished_before_the_next_begins():
    blocks = pattern_offsets(Pattern("blocks", 256, 64, block_bytes=1024)) // 1024
    assert (np.diff(blocks) != 0).sum() == 256 // 16 - 1
    assert not np.array_equal(blocks, np.sort(blocks))


def test_one_line_a_page_does_not_fall_into_one_set():
    lap = pattern_offsets(Pattern("sequential", 200, 1 << 21, shift_bytes=64))
    assert np.unique(lap % 4096).size == 64 and np.array_equal(lap >> 21, np.arange(200))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.sampled_from([4096, 3 * 4096, 65536]), st.integers(2, 9), st.integers(0, 5))
def test_both_orders_visit_the_same_lines_page_by_page_and_from_page_to_page(pages, stride, lines, seed):
    by_page, by_round = (
        pattern_offsets(Pattern(order, pages, stride, lines * 64, 64, lines, seed=seed)) for order in ("by_page", "by_round")
    )
    assert np.array_equal(np.sort(by_page), np.sort(by_round)) and by_page.size == pages * lines
    assert (by_page.reshape(pages, lines) // stride == by_page[::lines, None] // stride).all()
    assert by_round.max() + 8 <= pattern_bytes(Pattern("by_round", pages, stride, lines * 64, 64, lines))
    for one_round in by_round.reshape(lines, pages):  # each page once, in one order
        assert np.array_equal(one_round // stride, by_page[::lines] // stride)
    assert (by_page % stride < 4096).all()  # within the shortest page


def test_a_zigzag_goes_back_the_way_that_it_came_beside_the_first_nodes():
    for block in (0, 1024):
        lap = pattern_offsets(Pattern("zigzag", 100, 64, block_bytes=block, seed=3))
        assert np.array_equal(lap[:100], lap[:99:-1] - 8) and np.unique(lap).size == 200
        assert lap.max() + 8 <= pattern_bytes(Pattern("zigzag", 100, 64, block_bytes=block))


@pytest.mark.parametrize("order", ["random", "walk", "zigzag"])
def test_listed_places_are_visited_in_the_order_that_is_asked(order):
    places = [0, 4096, 8192, 40960, 65536]
    pattern = Pattern(order, 5, visits=4 if order == "walk" else 1, segments="0:4096:3:1;40960:0:1:1;65536:0:1:1", seed=2)
    lap = pattern_offsets(pattern)
    assert sorted(set((lap // 64 * 64).tolist())) == places and np.unique(lap).size == lap.size
    assert lap.max() + 8 <= pattern_bytes(pattern)


def test_segments_are_run_through_in_order_and_a_place_met_again_lies_8_bytes_further_on():
    lap = pattern_offsets(Pattern("segments", segments="0:128:3:2;64:128:2:1;0:128:1:1"))
    assert lap.tolist() == [0, 128, 256, 8, 136, 264, 64, 192, 16]


@each(
    ("pattern", "says"),
    [
        (Pattern("random", 4, 4), "multiples of 8"),
        (Pattern("random", 0, 64), "a lap has 1 to"),
        (Pattern("random", 1 << 27, 64), "a lap has 1 to"),
        (Pattern("walk", 5, 16, visits=4), "overlap"),
        (Pattern("pairs", 5, 64, block_bytes=64), "overlap"),
        (Pattern("segments", segments="0:64:4"), "write start"),
        (Pattern("segments", segments="0:64:0:1"), "empty"),
        (Pattern("segments", segments="-8:64:1:1"), "negative"),
    ],
)
def test_what_is_no_lap_is_refused(pattern, says):
    with pytest.raises(ValueError, match=says):
        pattern_offsets(pattern)


@pytest.mark.parametrize(
    "probe",
    [
        Probe(Pattern("walk", 10, 4096, visits=8, seed=3), mode="trace", skip=10, record=100, cold=True),
        Probe(Pattern("segments", segments="0:64:4:1"), space="image2d"),
    ],
)
def test_a_probe_is_told_by_its_parameters(probe):
    assert Probe.of(probe.params()) == probe
