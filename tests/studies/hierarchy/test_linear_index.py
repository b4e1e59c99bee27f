"""infer.hierarchy.linear_index: parities of address bits that choose a first cache's sets, from its eviction sets."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.eviction.eviction_sets import EvictionSets, find_another_line, find_eviction_sets
from clmembench.studies.hierarchy.eviction.linear_index import LinearIndex, find_linear_index
from clmembench.studies.hierarchy.levels.evicted_level import LevelBeyondStrides, findings_by_eviction
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.line_probe import HELD_LINES_SHARE, LineProbe
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.set_index import difference_basis, format_set_bits, free_parities, set_number
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

LINE = 128


def folded(sets, ways, line=LINE, distance=None):
    """Sets whose number has each bit XORed with one as far above as the number is long: strides of powers of two fall as evenly
    into them as neighbours, as on an H200."""
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    masks = [1 << (low + i) | 1 << (low + bits + i) | 1 << (low + 2 * bits + i) for i in range(bits)]
    return Sets((ways,) * sets, masks=tuple(masks))


def modulo(sets, ways):
    return Sets((ways,) * sets)


def machine(sets, policy="LRU", noise=0.001, tlbs=(), line=LINE):
    cache = Cache(sets, line, 32.0, policy, sector_bytes=32)
    return Machine("test", {"global": Path((cache,), 282.0, tlbs)}, Noise(lap_relative=noise), 7, one_arena=True)


def line_probe(device, fitting, noise=0.001, node=LINE, reach=64 * MIB):
    return LineProbe(
        ProbeSession(), "global", 32.0, 282.0, 0.0, noise, node, 32.0, int(HELD_LINES_SHARE * fitting / node), reach_bytes=reach
    )  # fmt: skip


def answers(device):
    return lambda probes: [device.answer(probe) for probe in probes]


@pytest.mark.parametrize(("sets", "ways", "policy"), [(512, 4, "LRU"), (512, 4, "random"), (64, 6, "random"), (256, 8, "LRU")])
@pytest.mark.slow
def test_the_number_of_sets_and_their_bits_follow_from_differences(sets, ways, policy):
    device = machine(folded(sets, ways), policy)
    whole = sets * ways * LINE
    found = replay(find_eviction_sets(line_probe(device, whole), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, EvictionSets), found
    assert (found.ways, found.line_bytes) == (ways, LINE)
    index = replay(find_linear_index(found, whole), answers(device))
    assert index is not None and index.sets == sets
    for lines in found.lines:
        assert len({set_number(line, index.bits) for line in lines}) == 1
    base = device.arenas["global"][2]
    masks = device.paths["global"].caches[0].sets.masks
    other = index.another_line(found.lines[0])
    assert other not in found.lines[0]
    first = found.lines[0][0]
    assert [(base + other & mask).bit_count() & 1 for mask in masks] == [(base + first & m).bit_count() & 1 for m in masks]


def test_another_line_of_a_set_is_another_line_whatever_sectors_stand_for_the_known_ones():
    """Of 64 sets whose bits are 7 to 12, lines that differ by 8 KiB are of one set; 0 stands in its third sector."""
    index = LinearIndex(64, tuple((bit,) for bit in range(7, 13)), (8 * KIB, 16 * KIB, 32 * KIB), LINE)
    known = (64, 8 * KIB + 32, 16 * KIB, 24 * KIB + 96, 32 * KIB)
    assert index.another_line(known) == 40 * KIB + 64
    everything = tuple(8 * KIB * number + 32 * (number % 4) for number in range(8))
    assert index.another_line(everything) is None


@pytest.mark.parametrize(("sets", "policy"), [(folded(64, 4), "LRU"), (folded(64, 4), "FIFO"), (modulo(96, 4), "LRU")])
def test_the_policy_of_a_sectored_cache_is_that_of_its_lines(sets, policy):
    """Places lie a sector apart, so that another one may be of a line that the set has already."""
    device = machine(sets, policy)
    whole = len(sets.ways) * 4 * LINE
    probe = line_probe(device, whole, node=32)
    step = CurveStep(32.0, 32.0, 282.0, whole, whole + LINE, 2 * whole, True, 0.001)
    laps = LevelProbe(probe.asked, ChaseLayout(), HitMissModel(32.0, 282.0, 0.03))
    level = LevelBeyondStrides(laps, probe, step, 0, (0.0, 0.0), 16, 0, 64 * MIB, 16 * MIB, 32)
    before = {
        name: undetermined_finding(name, "not known") for name in ("line_bytes", "sector_bytes", "ways", "sets", "policy")
    }
    before["size_bytes"] = measured_finding("size_bytes", whole, "as measured", ("a",))
    found = replay(findings_by_eviction(level, ChaseLayout(), before), answers(device))[0]
    assert (found["line_bytes"].value, found["ways"].value) == (LINE, 4)
    assert found["policy"].value in (policy, None)
    for lines in replay(find_eviction_sets(probe, 0, 0, 64 * MIB), answers(device)).lines:
        sets_of = replay(find_another_line(EvictionSets(probe, (lines,), ((),), 32, LINE), 8 * MIB), answers(device)).more
        assert len({line // LINE for line in sets_of}) == len(sets_of)


def test_a_cache_that_holds_fewer_lines_than_it_has_tags_for_keeps_its_size():
    """As on an H200: tags of 512 sets and 4 ways for 256 KiB, of which local memory leaves 217 KiB."""
    device = machine(folded(512, 4))
    probe = line_probe(device, 217 * KIB)
    step = CurveStep(32.0, 32.0, 282.0, 216 * KIB, 220 * KIB, 264 * KIB, True, 0.001)
    laps = LevelProbe(probe.asked, ChaseLayout(), HitMissModel(32.0, 282.0, 0.03))
    level = LevelBeyondStrides(laps, probe, step, 0, (0.0, 0.0), 16, 0, 64 * MIB, 16 * MIB, 32)
    before = {name: undetermined_finding(name, "not known") for name in ("line_bytes", "ways", "sets", "policy")}
    before["size_bytes"] = measured_finding("size_bytes", 217 * KIB, "as measured", ("a",), 216 * KIB, 217 * KIB)
    found = replay(findings_by_eviction(level, ChaseLayout(block_bytes=128 * KIB), before), answers(device))[0]
    assert {name: found[name].value for name in ("size_bytes", "ways", "sets", "line_bytes", "policy", "tagged_bytes")} == {
        "size_bytes": 217 * KIB, "ways": 4, "sets": 512, "line_bytes": LINE, "policy": "LRU", "tagged_bytes": 256 * KIB,
    }  # fmt: skip


def test_a_number_of_sets_by_which_addresses_are_divided_is_no_parity():
    device = machine(modulo(3 * 64, 4))
    found = replay(find_eviction_sets(line_probe(device, 3 * 64 * 4 * LINE), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, EvictionSets) and found.ways == 4
    assert replay(find_linear_index(found, 3 * 64 * 4 * LINE), answers(device)) is None


def test_a_size_that_the_sets_do_not_hold_settles_nothing():
    device = machine(folded(64, 4))
    found = replay(find_eviction_sets(line_probe(device, 32 * KIB), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, EvictionSets)
    assert replay(find_linear_index(found, 32 * KIB), answers(device)) is not None
    assert replay(find_linear_index(found, 40 * KIB), answers(device)) is None
    assert replay(find_linear_index(found, 12 * KIB), answers(device)) is None  # half as many sets would do
    elsewhere = replace(found, window_bytes=0)
    assert replay(find_linear_index(elsewhere, 32 * KIB), answers(device)) is None


def test_a_tlb_in_front_does_not_pass_for_sets():
    device = machine(folded(128, 4), tlbs=(Tlb(plain(8, 4, 4096), 4096, 20.0),))
    found = replay(find_eviction_sets(line_probe(device, 64 * KIB, reach=32 * KIB), 0, 0, 64 * MIB), answers(device))
    assert isinstance(found, str) or found.ways == 4


@settings(max_examples=80)
@given(st.data())
def test_the_lines_of_one_set_tell_its_bits(data):
    """Any choice of parities: what shares a set with line 0 tells them, and no more sets than there are."""
    width = 8
    own = data.draw(st.sets(st.integers(0, width - 1), min_size=1, max_size=4))
    others = st.lists(st.sampled_from([b for b in range(width) if b not in own]), unique=True, max_size=2)
    bits = [(bit, *sorted(data.draw(others))) for bit in sorted(own)]
    members = [n for n in range(1 << width) if set_number(n, bits) == set_number(0, bits)]
    again = free_parities(difference_basis(members), width)
    assert len(again) == len(bits)
    assert {n for n in range(1 << width) if set_number(n, again) == 0} == set(members)


def test_bits_are_told_as_a_reader_writes_them():
    cases = ([(7,), (8,)], "7-8"), ([(7,), (9,)], "7, 9"), ([(7, 13), (9,), (10,)], "9-10, 7^13"), ([], "")
    for bits, text in cases:
        assert format_set_bits(bits) == text
