"""infer.hierarchy.dense_pool: eviction sets of a hashed level behind any first cache, on simulated memories."""

import pytest

from clmembench.studies.hierarchy.eviction.candidate_lines import find_dense_sets
from clmembench.studies.hierarchy.eviction.eviction_sets import EvictionSets, find_another_line
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.line_probe import LineProbe
from clmembench.studies.hierarchy.probes.probing import ProbeSession
from tests.hierarchies import uneven
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

PAGE, LINE = 4096, 64
NEARER = plain(32, 4, LINE)
HASHED_NEARER = Sets((4,) * 32, masks=tuple(1 << (6 + i) | 1 << (11 + i) | 1 << (16 + i) for i in range(5)))
MASKS = tuple(1 << (6 + i) | 1 << (13 + i) | 1 << (17 + (i + 3) % 7) for i in range(7))
HASHED = Sets((8,) * 128, masks=MASKS)


def behind(policy="LRU", nearer=NEARER, sets=HASHED, frame_bytes=0, tlbs=(), noise=0.001):
    """A second level behind a first one of 8 KiB."""
    second = Cache(sets, LINE, 25.0, policy, frame_bytes=frame_bytes)
    path = Path((Cache(nearer, LINE, 5.0), second), 100.0, tuple(tlbs))
    return Machine("test", {"global": path}, Noise(lap_relative=noise), 7, one_arena=True)


def found_in(device, noise=0.001, reach=1 << 30, page=0, miss=100.0):
    probe = LineProbe(ProbeSession(), "global", 25.0, miss, 5.0, noise, LINE, 5.0, 102, 0, page, reach_bytes=reach)
    return replay(find_dense_sets(probe, 8 * KIB, 64 * MIB), answers(device))


def answers(device):
    return lambda probes: [device.answer(probe) for probe in probes]


def sets_of(device, lines):
    """The sets of lines, as the simulation maps them where there are no frames."""
    base = device.arenas["global"][2]
    return {sum(((base + at & mask).bit_count() & 1) << i for i, mask in enumerate(MASKS)) for at in lines}


@pytest.mark.parametrize("policy", ["LRU", "tree-PLRU", "random"])
@pytest.mark.parametrize("nearer", [NEARER, HASHED_NEARER], ids=["plain", "hashed"])
@pytest.mark.slow
def test_lines_of_one_set_are_found_behind_any_first_cache(policy, nearer):
    device = behind(policy, nearer)
    found = found_in(device)
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (8, LINE)
    assert all(len(sets_of(device, lines)) == 1 for lines in found.lines)
    more = replay(find_another_line(found, 64 * MIB), answers(device)).more
    assert len(set(more)) in (0, 10) and len(sets_of(device, more)) <= 1


def test_pages_in_random_frames_do_not_matter():
    found = found_in(behind(frame_bytes=PAGE, tlbs=(Tlb(plain(1, 64, PAGE), PAGE, 10.0),)), reach=64 * PAGE, page=PAGE)
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (8, LINE)
    spans = [(max(lines) - min(lines)) / PAGE for lines in found.lines]
    assert max(spans) < 64  # all of them within the reach of the TLB


def test_nothing_is_said_where_no_set_can_be_overflowed():
    nothing = found_in(behind(sets=plain(4096, 8, LINE)))  # more lines than are tried fit
    assert nothing == "no set overflows with as many lines as can be tried"
    assert "too long" in found_in(behind(), noise=0.1)
    assert "reach of a TLB" in found_in(behind(), reach=2 * PAGE, page=PAGE)


def test_sets_of_unequal_ways_are_no_answer():
    sets = uneven([9 if number % 2 else 6 for number in range(64)])
    found = found_in(behind(sets=sets))
    assert isinstance(found, str) or found.ways in (6, 9)


@pytest.mark.slow
def test_laps_that_are_noisier_than_said_lead_to_no_wrong_number():
    found = [found_in(behind(policy, noise=0.006), noise=0.003) for policy in ("LRU", "random", "NRU")]
    assert all(isinstance(one, str) or one.ways == 8 for one in found), found
