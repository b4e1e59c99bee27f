"""infer.hierarchy.strides: sets and ways by doubled strides, where others take some places, or a TLB overflows too."""

import pytest

from clmembench.studies.hierarchy.geometry import strides
from clmembench.studies.hierarchy.geometry.strides import StrideLimits, sets_and_ways
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.simulated import Cache, Machine, Noise, Path, Sets

MIB = 1 << 20


def sets_of(counts, unit, tags, shared=True, odd=None, tlb_stride=1 << 40):
    """The sets where so many places fit at each stride, `odd` at strides that are no power of two, and a TLB overflows from
    `tlb_stride` on."""

    def counting(stride, most, guesses):
        yield from ()
        fits = counts.get(stride, 0) if not stride & (stride - 1) else (odd or min(counts.values()))
        return CapacityBound(fits, fits + 1, fits + 1.0)

    def overflows_tlb(probe, stride, count, unit):
        yield from ()
        return stride >= tlb_stride

    probe = LevelProbe(ProbeSession(shared=shared), ChaseLayout(), HitMissModel(5.0, 16.0, 0.01), counting)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strides, "_overflows_tlb", overflows_tlb)
        return replay(sets_and_ways(probe, unit, tags, StrideLimits(64 * MIB, 1 << 40, 1 << 20)), lambda probes: [])


# what a Sapphire Rapids core beside other programs answered: 48 KiB of 12 ways, and 96 entries of 6 ways
LINES = {64: 772, 128: 384, 256: 192, 512: 96, 1024: 48, 2048: 24, 4096: 12, 8192: 12, 16384: 12, 32768: 12}
PAGES = {4096: 96, 8192: 48, 16384: 24, 32768: 12, 65536: 6, 131072: 5, 262144: 5, 524288: 6}


def test_sets_are_told_before_longer_strides_overflow_a_tlb():
    found = sets_of(LINES | {65536: 6}, 64, 772, odd=12, tlb_stride=65536)
    assert (found.ways, found.sets, found.bits) == (12, 64, (6, 7, 8, 9, 10, 11))


def test_a_page_of_the_kernel_itself_takes_one_way_of_its_set():
    found = sets_of(PAGES, 4096, 96, odd=6)
    assert (found.ways, found.sets) == (6, 16)
    alone = sets_of(PAGES, 4096, 96, shared=False, odd=6)  # where nothing else runs, nothing takes one
    assert alone.ways is None and "no address bit" in alone.reason


@pytest.mark.parametrize("tags", [900, 1024])
def test_sets_whose_product_is_not_the_capacity_are_not_told_early(tags):
    """A further bit may be hashed in, which longer strides would show."""
    found = sets_of(LINES | {65536: 6}, 64, tags, odd=12, tlb_stride=65536)
    assert found.ways is None and found.reason


def test_odd_strides_that_hold_another_number_are_a_hash():
    found = sets_of(LINES | {65536: 6}, 64, 772, odd=20, tlb_stride=65536)
    assert found.ways is None and "hash" in found.reason


HASHED = (0x1020, 0x8040, 0x80, 0x90100, 0x200, 0xC00)


@pytest.mark.parametrize(("masks", "ways"), [(HASHED, None), (tuple(1 << bit for bit in range(5, 11)), 8)])
def test_two_sets_over_which_a_hash_lays_lines_at_each_stride_are_not_one(masks, ways):
    """Bits 8, 16 and 19 choose between two sets: sixteen lines fit at strides of 64 to 512 KiB, and at odd multiples."""
    device = Machine(
        "test", {"global": Path((Cache(Sets((8,) * 64, masks=masks), 32, 30.0),), 120.0)}, Noise(lap_relative=0.001), 3
    )
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(30.0, 120.0, 0.03))
    limits = StrideLimits(64 * MIB, 64 * MIB, 64 * MIB)
    found = replay(sets_and_ways(probe, 32, 512, limits), lambda probes: [device.answer(one) for one in probes])
    assert found.ways == ways and ("several sets" in found.reason) == (ways is None)
