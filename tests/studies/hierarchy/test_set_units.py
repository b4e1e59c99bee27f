"""infer.hierarchy.set_units: line and sector of a set whose lines lie in near and far slices, as those of an H200's L2 do."""

from collections import OrderedDict

import pytest

from clmembench.model import Answer
from clmembench.model.address_patterns import pattern_offsets
from clmembench.studies.hierarchy.eviction.set_units import line_of_sets, sector_of_set, sector_of_sets
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import ProbeSession

NEAR, FAR, MORE_OF_MISS, LINE = 260.0, 480.0, 255.0, 128
PLACES = [number * 37 * LINE for number in range(1, 18)]  # one line more than 16 ways


def sliced(sector, far=lambda line: line % 5 == 0):
    """Answers of an L2 of one set of these places, in which other lines always hit and lines of far slices cost more."""
    held = {place // LINE for place in PLACES}

    def answer(probe):
        offsets = pattern_offsets(probe.pattern).tolist()
        lru, costs = OrderedDict(), []
        for _ in range(2):  # the first lap warms
            costs = []
            for offset in offsets:
                line, part = offset // LINE, offset // sector
                hit = FAR if far(line) else NEAR
                if line not in held:
                    costs.append(hit)
                    continue
                parts = lru.pop(line, set())
                costs.append(hit if part in parts else hit + MORE_OF_MISS)
                lru[line] = parts | {part}
                if len(lru) > 16:
                    lru.popitem(last=False)
        return Answer(probe, sum(costs) / len(costs))

    return lambda probes: [answer(probe) for probe in probes]


def probe():
    """Of a level whose mean hit is less than the hits of this set, as an H200's is."""
    return LineProbe(ProbeSession(), "global_cg", 265.0, 517.0, 0.0, 0.002, 128, 265.0, 1 << 10)


@pytest.mark.parametrize("far", [lambda line: False, lambda line: line % 5 == 0, lambda line: line % 2 == 1])
def test_lines_of_far_slices_are_no_misses(far):
    assert replay(line_of_sets(probe(), [tuple(PLACES)]), sliced(64, far)) == LINE


@pytest.mark.parametrize("sector", [32, 64, 128])
def test_what_a_miss_brings_in_of_a_line(sector):
    assert replay(sector_of_set(probe(), PLACES, LINE), sliced(sector)).nbytes == sector


def test_a_set_that_fits_tells_no_line():
    assert replay(line_of_sets(probe(), [tuple(PLACES[1:])]), sliced(64)) is None


def test_sets_that_disagree_tell_no_line():
    others = tuple(place + 20 * LINE for place in PLACES)  # all of other sets
    assert replay(line_of_sets(probe(), [tuple(PLACES), others]), sliced(64)) is None


def test_sets_that_tell_two_units_tell_none():
    assert replay(sector_of_sets(probe(), [tuple(PLACES)] * 2, LINE), sliced(64)).nbytes == 64
    fits = tuple(PLACES[1:])
    assert "not all miss" in replay(sector_of_sets(probe(), [tuple(PLACES), fits], LINE), sliced(64)).reason
