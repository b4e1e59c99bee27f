"""Sets of second caches by bits of an address: told where bits choose them, and no number where something else does."""

import pytest

from clmembench.studies.hierarchy.geometry.cache_bits import with_sets_by_bits
from clmembench.studies.hierarchy.geometry.strides import SetGeometry, StrideLimits
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, plain

LINE, HIT, MISS = 128, 47.0, 200.0


def told(second, counts, told_bits=(7,), policy="LRU", nearer="LRU", most_bytes=512 * MIB, frame_bytes=0):
    """The sets inferred for a second cache with these sets, behind a first one of 24 KiB; strides gave some index bits."""
    first = Cache(plain(8, 24, LINE), LINE, 5.0, nearer)
    behind = Cache(second, LINE, HIT, policy, frame_bytes=frame_bytes)
    device = Machine("test", {"global": Path((first, behind), MISS)}, Noise(lap_relative=0.001), 3)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(HIT, MISS, 0.1))
    sets = SetGeometry((), told_bits, None, "a nearer level holds them")
    limits = StrideLimits(most_bytes, most_bytes, 1 << 20, 5.0)
    return replay(
        with_sets_by_bits(probe, LINE, counts, sets, limits), lambda probes: [device.answer(probe) for probe in probes]
    )


def masks(sets, ways, more):
    """Sets by plain bits from the line's on, the last `len(more)` of them each with one bit more, so many above."""
    bits = sets.bit_length() - 1
    found = [1 << (7 + i) for i in range(bits)]
    for i, above in enumerate(more):
        found[bits - 1 - i] |= 1 << (7 + bits - 1 - i + above)
    return Sets((ways,) * sets, masks=tuple(found))


@each(("policy", "nearer"), [("LRU", "random"), ("FIFO", "LRU"), ("tree-PLRU", "LRU"), ("random", "LRU")])
@each(("sets", "ways"), [(256, 8), (512, 4), (64, 16)])
def test_sets_that_bits_choose(sets, ways, policy, nearer):
    lines = sets * ways
    found = told(plain(sets, ways, LINE), (lines, lines + 6), policy=policy, nearer=nearer)
    # of drawn victims so many rows do not settle at once, so that nothing may be told
    assert (found.sets, found.ways) == (sets, ways) or (policy == "random" and found.ways is None)
    if policy != "random":
        assert found.bits == tuple(range(7, 7 + sets.bit_length() - 1)) and not found.reason


@pytest.mark.parametrize(
    "second",
    [
        Sets((8,) * 192),  # a modulus of three times a power of two
        Sets((1024,)),
        masks(256, 8, (4, 5)),
        masks(256, 8, (9,)),
        masks(128, 16, (8, 8, 8, 8, 8, 8, 8)),
    ],
)
def test_no_wrong_number_where_something_else_chooses_them(second):
    lines = sum(second.ways)
    for bits in ((), (7,)):
        found = told(second, (lines, lines + 4), bits, "LRU")
        assert found.ways is None or (found.sets, found.ways) == (len(second.ways), second.ways[0])


@each("policy", ["LRU", "random"])
@each(("frame", "sets", "counts", "bits"), [(4, 256, 3456, 3), (64, 1024, 5120, 9), (64, 96, 752, 4), (4, 64, 1000, 5)])
def test_frames_are_no_sets(frame, sets, counts, bits, policy):
    second = Sets((16,) * sets) if sets == 96 else plain(sets, 8 if frame == 64 else 16, LINE)
    found = told(second, (counts, counts + 8), tuple(range(7, 7 + bits)), policy, frame_bytes=frame * KIB)
    assert found.ways is None or (found.sets, found.ways) == (sets, second.ways[0])


def test_nothing_is_asked_that_was_told_or_has_no_room():
    asked = SetGeometry((), (7,), 8)
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(HIT, MISS, 0.1))
    limits = StrideLimits(512 * MIB, 512 * MIB, 1 << 20)
    assert replay(with_sets_by_bits(probe, LINE, (2048, 2050), asked, limits), lambda _: pytest.fail("asked")) == asked
    gap = SetGeometry((), (7, 9), None, "a gap")
    assert replay(with_sets_by_bits(probe, LINE, (2048, 2050), gap, limits), lambda _: pytest.fail("asked")) == gap
    assert told(plain(256, 8, LINE), (2048, 2050), most_bytes=384 * KIB).ways is None
