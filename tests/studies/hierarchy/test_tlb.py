"""Address translation by two orders of the same lines: levels, pages, entries and sets of simulated TLBs."""

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import Answer, Pattern
from clmembench.model.address_patterns import pattern_bytes, pattern_offsets
from clmembench.studies.hierarchy.geometry.strides import SetGeometry
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_probe import PageCost, PageCountLimits, PageMean, PageProbe, mean_of_orders
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.replacement.cache_set import policy_forms
from clmembench.studies.hierarchy.replacement.policy_probe import probe_policy
from clmembench.studies.hierarchy.replacement.set_lines import SetLines, SetOfLevel
from clmembench.studies.hierarchy.replacement.set_miss_rates import (
    SIMULATED_LAPS,
    cyclic_misses,
    sampled_miss_rates,
    steady_miss_rate,
)
from clmembench.studies.hierarchy.tlb import tlb
from clmembench.studies.hierarchy.tlb.tlb import measure_tlbs, measure_translation
from clmembench.studies.hierarchy.tlb.tlb_confirmation import APART_BYTES, shorter_page
from clmembench.studies.hierarchy.tlb.tlb_cost import _of_the_most, miss_penalties
from clmembench.studies.hierarchy.tlb.tlb_geometry import TlbEvidence, TlbGeometry
from clmembench.studies.hierarchy.tlb.tlb_level import (
    PAIRS_STOOD,
    _entry_count,
    _entry_findings,
    entries_of_halves,
    infer_tlb_level,
    penalty_findings,
)
from clmembench.studies.hierarchy.tlb.tlb_ramp import RampFit, RampPoint, SetWays, fit_ramp_of_sets, with_plain_bits
from clmembench.studies.hierarchy.tlb.unequal_tlb import sets_page_by_page
from tests.cases import each
from tests.hierarchies import random_hierarchy, uneven
from tests.hierarchy import PairPrefetch
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain
from tests.truths import mei_tlbs

GIB = 1 << 30
SOURCES = TlbEvidence(("r",), ("r",), ("r",), ("r",))


class SlicedCache:
    """As an H200 past its L1: every line in reach of L2, whose slices differ by up to 30 cycles; one TLB of 16 entries of
    16 MiB, fully associative, LRU, whose misses add 10 cycles; laps with noise of 0.4 cycles."""

    entries, page_bytes, penalty = 16, 16 * MIB, 10.0

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def answer(self, probe):
        lap = pattern_offsets(probe.pattern)
        slices = (lap >> 7) * 0x9E3779B1 % (1 << 32) >> 20 & 63
        latency = 252 + slices.mean() * 60 / 63 + self.penalty * self.misses(lap) / lap.size
        value = float(latency + self.rng.normal(0, 0.4))
        return Answer(probe, value, value, value, "cycles", value, evidence=("sliced",))

    def misses(self, lap):
        """Misses of the second lap."""
        held, count = OrderedDict(), 0
        pages = (lap // self.page_bytes).tolist()
        for number, page in enumerate(pages * 2):
            count += page not in held and number >= len(pages)
            held[page] = None
            held.move_to_end(page)
            if len(held) > self.entries:
                held.popitem(last=False)
        return count


@pytest.mark.slow
def test_a_tlb_whose_penalty_is_less_than_lines_differ_by_is_found():
    device = SlicedCache()
    chase = ChaseLayout("global_cg", shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(400_000,))
    asked = ProbeSession()

    def ask():
        found = yield from measure_tlbs(asked, chase, PageCountLimits(30 * GIB, 0.0015))
        (tlb,) = found
        return (yield from infer_tlb_level(asked, chase, 0, tlb, 1.98))

    findings = replay(ask(), lambda probes: [device.answer(probe) for probe in probes]).findings
    assert findings["page_bytes"].value == 16 * MIB
    assert findings["entries"].value == 16
    assert findings["reach_bytes"].value == 256 * MIB
    assert findings["penalty_cycles"].value == pytest.approx(10, rel=0.05)


def points(sets, counts, cost=100.0, hit=0.0):
    return [RampPoint(n, hit + cost * sets.misses(n) / n, 0.1) for n in counts]


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        (SetWays(7, 8, 17), "17+6x8"),
        (SetWays(8, 7, 16), "16+7x7"),
        (SetWays(16, 4, 4), 4),
        (SetWays(1, 16, 16), 16),
        (SetWays(128, 12, 12), 12),
    ],
)
def test_misses_beyond_the_pages_that_fit_tell_sets_and_ways(sets, text):
    entries = sets.entries
    counts = [entries, *(entries + n for n in (1, 2, 3, 4, 6, 8)), *(entries + entries * n // 16 for n in (2, 4, 8, 16))]
    fit = fit_ramp_of_sets(points(sets, counts), 0.0, 100.0, entries, entries)
    assert fit.entries == entries
    assert (fit.sets.text, fit.sets.sets) == (text, sets.sets)


@each(("ways", "lines"), [(8, 10), (8, 24), (12, 17), (16, 32), (64, 66), (100, 151)])
def test_misses_of_drawn_victims_in_turns_are_those_of_a_simulation(ways, lines):
    rates = sampled_miss_rates(np.full((500, ways), 1 / ways), range(lines), 48, np.random.default_rng(1))
    assert cyclic_misses("random", 0, ways, lines) == pytest.approx(lines * rates.mean(), abs=0.004 * lines)


@each("policy", ["tree-PLRU", "NRU"])
def test_of_twice_as_many_lines_as_ways_all_miss(policy: str) -> None:
    for ways in (3, 4, 5, 7, 8, 11, 16, 24, 33, 64):
        for form, maker in enumerate(policy_forms(policy, ways)):
            for lines in (2 * ways, 2 * ways + 1, 3 * ways + 2):
                assert steady_miss_rate(maker, ways, range(lines), SIMULATED_LAPS) == 1.0
                assert cyclic_misses(policy, form, ways, lines) == lines


def test_random_victims_are_not_taken_for_small_sets():
    alone = SetWays(1, 32, 32, "random")
    counts = (32, 33, 34, 35, 36, 38, 40, 44, 48, 56, 64)
    fit = fit_ramp_of_sets(points(alone, counts), 0.0, 100.0, 31, 33)
    assert all(one.policy == "random" for one in fit.likely)
    assert alone in fit.likely


def test_two_numbers_of_entries_that_explain_the_misses_are_no_answer():
    noisy = [RampPoint(p.count, p.value, 40.0) for p in points(SetWays(8, 4, 4), (32, 33, 34, 36, 40, 48, 64))]
    fit = fit_ramp_of_sets(noisy, 0.0, 100.0, 30, 34)
    assert fit.entries is None and fit.sets is None


def test_ways_that_no_tlb_has_are_no_answer_where_victims_are_drawn():
    """Of uneven sets only LRU and FIFO are reckoned with: 16 sets of 25 would be what is left of 9+97x4."""
    counts = (400, 401, 402, 404, 408, 416, 432, 464, 528)
    odd = fit_ramp_of_sets(points(SetWays(16, 25, 25, "random"), counts), 0.0, 100.0, 398, 402)
    assert odd is None or all(one.policy != "random" or one.ways != 25 for one in odd.likely)
    usual = fit_ramp_of_sets(points(SetWays(16, 24, 24, "random"), [n - 16 for n in counts]), 0.0, 100.0, 384, 384)
    assert usual is not None and (16, 24) in {(one.sets, one.ways) for one in usual.likely}


def test_disturbed_orders_are_left_out_and_disagreement_is_noise():
    calm = mean_of_orders([10.0, 10.1, 2.0, 9.9, 10.0], 0.1)
    assert calm.value == pytest.approx(10.0, abs=0.1) and calm.noise < 0.1
    assert mean_of_orders([2.0, 10.0, 6.0], 0.1).noise > 1


def test_lines_of_listed_pages_lie_within_the_buffer():
    pattern = Pattern("by_round", 6, 0, 0, 4096, 2, "0:65536:3:1;512:65664:3:1", 1)
    assert pattern_offsets(pattern).max() + 8 <= pattern_bytes(pattern)


def tlbs_of_machine(*tlbs, caches, memory=600.0, l1_virtual=False, seed=3, noise=0.002):
    """What is said of the TLBs of a simulated device, whose arrays begin at any 2 MiB."""
    path = Path(tuple(caches), memory, tuple(tlbs), l1_virtual=l1_virtual)
    machine = Machine("test", {"global": path}, Noise(lap_relative=noise), seed, one_arena=True)
    limits = ProbeLimits(GIB, 4 * caches[-1].size_bytes)
    found = replay(infer_hierarchy(limits), lambda probes: [machine.answer(probe) for probe in probes]).tlb
    return [{name: finding.value for name, finding in level.findings.items()} for level in found]


@pytest.mark.slow
def test_a_tlb_behind_the_first_cache_and_an_uneven_second_one_are_found():
    first, second = Tlb(plain(8, 4, 64 * KIB), 64 * KIB, 20.0), Tlb(uneven([12, *[6] * 17]), 64 * KIB, 60.0)
    caches = (Cache(plain(64, 4, 128), 128, 30.0), Cache(plain(1024, 8, 128), 128, 150.0))
    said = tlbs_of_machine(first, second, caches=caches, l1_virtual=True, noise=0.001)
    assert [(one["entries"], one["ways"], one["sets"], one["page_bytes"]) for one in said] == [
        (32, 4, 8, 64 * KIB),
        (114, "12+17x6", 18, 64 * KIB),
    ]
    assert [one["penalty_cycles"] for one in said] == [pytest.approx(20, rel=0.05), pytest.approx(60, rel=0.05)]


def tlb_levels(sets, seed, *, nearer, policy="LRU", noise=0.002, page=2 * MIB, nearer_page=2 * MIB, lacks=lambda probe: False):
    """The findings of a device of two large caches whose last TLB has these sets; only its TLBs are looked at. Arrays begin at
    any page of 2 MiB."""
    own = (Tlb(plain(1, 16, nearer_page), nearer_page, 20.0),) if nearer else ()
    caches = (Cache(plain(64, 16, 128), 128, 30.0), Cache(plain(2048, 16, 128), 128, 150.0))
    path = Path(caches, 500.0, (*own, Tlb(sets, page, 60.0, policy)))
    machine = Machine("test", {"global": path}, Noise(lap_relative=noise), seed, one_arena=True)
    chase = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(1024, 32768))
    asked = ProbeSession()

    def ask():
        levels = []
        layout, found = yield from measure_translation(asked, chase, PageCountLimits(GIB, noise))
        for number, one in enumerate(found):
            before = levels[-1] if levels else None
            levels.append((yield from infer_tlb_level(asked, layout, number, one, 1.5, before)))
        return levels

    def answers(probes):
        return [
            Answer(one, reason="this run has no answer to this probe") if lacks(one) else machine.answer(one) for one in probes
        ]

    return [level.findings for level in replay(ask(), answers)]


def by_turns(ways):
    """Sets of unequal ways that pages in a row fill in proportion, as many as there are entries, and so on."""
    turns = sorted(((turn + 0.5) / own, number) for number, own in enumerate(ways) for turn in range(own))
    return Sets(tuple(ways), listed=tuple(number for _, number in turns))


@each(("sets", "seed", "noise", "nearer"), [(Sets((9,) * 5), 111, 0.0028, False), (Sets((4,) * 13), 122, 0.0048, True),
    (uneven([8] * 4 + [7] + [8] * 3), 118, 0.0015, True)])  # fmt: skip
def test_sets_whose_victims_are_drawn_are_not_told_as_one(sets, seed, noise, nearer):
    """They miss as evenly as a single set does where pages in a row overflow; random pages overflow some of them earlier."""
    *before, last = tlb_levels(sets, seed, nearer=nearer, policy="random", noise=noise)
    assert len(before) == nearer and last["sets"].value in (None, len(sets.ways))
    assert last["entries"].value in (None, sum(sets.ways))


@each(("sets", "nearer"), [(plain(1, 48, 2 * MIB), False), (plain(1, 40, 2 * MIB), True), (Sets((4,) * 12), False),
    (plain(4, 12, 2 * MIB), True), (Sets((9,) * 6), False)])  # fmt: skip
def test_sets_whose_victims_are_drawn_are_told_by_their_pages(sets, nearer):
    *_, last = tlb_levels(sets, 5, nearer=nearer, policy="random")
    assert [last[name].value for name in ("ways", "sets", "entries")] == [sets.ways[0], len(sets.ways), sum(sets.ways)]


def test_pairs_of_pages_of_one_set_are_not_told_as_more_sets():
    (only,) = tlb_levels(Sets((8,) * 8, bits=(22, 23, 24)), 1, nearer=False, policy="random", noise=0.0008)
    assert only["sets"].value is None and only["entries"].value in (None, 64)


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        (mei_tlbs(0, 0)[1].sets, "17+6x8"),
        (uneven([17, *[8] * 6]), "17+6x8"),
        (uneven([8] * 3 + [16] + [8] * 4), "16+7x8"),
        (uneven([9, *[8] * 7]), "9+7x8"),
        (uneven([8] * 5 + [4, 8, 8]), "7x8+4"),
        (by_turns([17, *[8] * 6]), "17+6x8"),
        (Sets((17, *[8] * 6)), "17+6x8"),
        (plain(8, 8, 2 * MIB), 8),
        (Sets((5,) * 13), 5),
    ],
)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed != 1 else []) for seed in range(6)])
@pytest.mark.slow
def test_unequal_sets_are_found_wherever_arrays_begin(sets, text, seed):
    found = tlb_levels(sets, seed, nearer=seed % 2 == 1, noise=0.001)[-1]
    assert [found[name].value for name in ("ways", "sets", "entries")] == [text, len(sets.ways), sum(sets.ways)]


@pytest.mark.parametrize("nearer_page", [64 * KIB, pytest.param(512 * KIB, marks=pytest.mark.slow)])
def test_a_second_tlb_of_larger_pages_has_its_own(nearer_page):
    found = tlb_levels(plain(8, 4, 2 * MIB), 1, nearer=True, policy="FIFO", page=2 * MIB, nearer_page=nearer_page)
    assert [level["page_bytes"].value for level in found] == [nearer_page, 2 * MIB]
    assert [level["entries"].value for level in found] == [16, 32] and found[1]["ways"].value == 4


def pairs_begin_anywhere(probe):
    return (
        probe.pattern.order in ("by_page", "by_round")
        and ":0:1:1" in probe.pattern.segments
        and probe.pattern.block_bytes > 128
    )


def pages_are_listed(probe):
    return (
        probe.pattern.order in ("by_page", "by_round")
        and ":0:1:1" in probe.pattern.segments
        and probe.pattern.block_bytes <= 128
    )


@pytest.mark.parametrize(
    "lacks", [pairs_begin_anywhere, pages_are_listed, lambda probe: probe.pattern.block_bytes == APART_BYTES]
)
def test_a_stored_run_without_newer_points_keeps_what_it_told_of_a_second_tlb(lacks):
    first, second = tlb_levels(plain(8, 8, 2 * MIB), 1, nearer=True, lacks=lacks)
    assert [level["page_bytes"].value for level in (first, second)] == [2 * MIB, 2 * MIB]
    assert [second[name].value for name in ("entries", "ways", "sets")] == [64, 8, 8]
    assert (PAIRS_STOOD in second["page_bytes"].method) == (lacks is pairs_begin_anywhere)


def test_fewer_entries_than_pages_that_fit_are_no_answer():
    fits = CapacityBound(16, 17, 17.0, 0.3)
    odd = SetGeometry(((2 * MIB, 15),), (), 15)
    model = HitMissModel(0.0, 20.0, 0.1)
    tlb = TlbGeometry(model, fits, 2 * MIB, (20.0, 20.0), UnitSize(2 * MIB), CapacityBound(15, 16, 16.0, 0.3), odd)
    found = _entry_count(tlb, 0)
    assert found.entries is None and "16 places" in found.reason


@pytest.mark.parametrize("sets", [uneven([17, *[8] * 6]), pytest.param(by_turns([12, 12, *[8] * 5]), marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["random", "NRU"])
@pytest.mark.slow
def test_unequal_sets_whose_pages_do_not_all_miss_are_not_told_as_equal(sets, policy):
    found = tlb_levels(sets, 1, nearer=True, policy=policy)[-1]
    assert found["ways"].value is None and found["entries"].value in (None, sum(sets.ways))


@each(
    ("fitting", "entries"),
    [
        ([512, 256, 128, 64, 32, 28], 512),  # the nearer level holds 28 pages itself
        ([516, 257, 128, 64, 36], 512),  # noise hides single pages of many
        ([384, 192, 96], 384),
        ([512, 256], None),  # one doubling may be chance
        ([512, 257, 129, 65, 40], None),  # 520: the last count is off by one
        ([503, 573, 256], None),
        ([0, 0, 0], None),
    ],
)
def test_entries_by_halves_at_doubled_strides(fitting, entries):
    page = 4 << 10
    assert entries_of_halves([(page << number, count) for number, count in enumerate(fitting)], page) == entries


def test_plain_bits_choose_sets_whatever_their_policies():
    likely = (SetWays(128, 4, 4), SetWays(128, 4, 4, "NRU"), SetWays(125, 4, 20), SetWays(128, 4, 6))
    assert with_plain_bits(RampFit(likely, 1.0), 4).sets == likely[0]
    several = with_plain_bits(RampFit((*likely, SetWays(64, 8, 8)), 1.0), 4)
    assert several.sets is None and several.entries == 512  # sets differ, entries do not
    odd = RampFit((SetWays(28, 18, 26), SetWays(27, 18, 45)), 1.0)
    assert with_plain_bits(odd, 3) is None and with_plain_bits(odd, 2) == odd


@pytest.mark.slow
def test_an_end_whose_misses_cost_nothing_is_no_level_before_the_first():
    machine = random_hierarchy(47120)  # of one cache and two TLBs; noise shows an end at 15 pages
    limits = ProbeLimits(
        1 << 30, 4 * machine.paths["global"].caches[0].size_bytes, frozenset(machine.paths), 64, machine.is_cpu
    )
    found = replay(infer_hierarchy(limits), lambda probes: [machine.answer(one) for one in probes])
    assert [tlb.findings["entries"].value for tlb in found.tlb] == [32, 256]
    assert [tlb.findings["ways"].value for tlb in found.tlb] == [8, 8]


def translation_of(tlbs, *, pairs, lap_lines=0, page_lines=2, seed=1):
    """The TLBs that are found of a device whose prefetcher brings lines of a page with others."""
    caches = (Cache(plain(16, 8, 128), 128, 6.0), Cache(plain(128, 12, 128), 128, 16.0, frame_bytes=4 * KIB))
    caches = (*caches, Cache(plain(512, 16, 128), 128, 79.0))
    path = Path(caches, 361.0, tlbs, pairs=pairs)
    machine = Machine("test", {"global": path}, Noise(lap_relative=0.002), seed, one_arena=True)
    near = tuple(int(0.95 * cache.size_bytes) // 128 for cache in caches)
    chase = ChaseLayout(
        shift_bytes=128, control_bytes=128, page_lines=page_lines, near_lines=near[: 4 - page_lines], lap_lines=lap_lines
    )
    asked = ProbeSession(shared=page_lines == 1)

    def ask():
        layout, found = yield from measure_translation(asked, chase, PageCountLimits(64 * MIB, 0.002))
        levels = []
        for number, one in enumerate(found):
            levels.append((yield from infer_tlb_level(asked, layout, number, one, None)).findings)
        return levels

    return replay(ask(), lambda probes: [machine.answer(probe) for probe in probes])


@pytest.mark.parametrize("pairs", [PairPrefetch(1, 0.5, 4), pytest.param(PairPrefetch(1, 1.0), marks=pytest.mark.slow)])
def test_lines_that_a_prefetcher_brings_are_no_tlb(pairs):
    assert translation_of((), pairs=pairs, lap_lines=1136) == []


@pytest.mark.slow
def test_a_tlb_is_measured_without_what_a_prefetcher_brings():
    (found,) = translation_of((Tlb(plain(1, 84, 4 * KIB), 4 * KIB, 12.0),), pairs=PairPrefetch(1, 0.5, 4), lap_lines=1136)
    assert (found["entries"].value, found["page_bytes"].value, found["ways"].value) == (84, 4 * KIB, 84)
    assert found["penalty_ns"].value == pytest.approx(12, rel=0.05)


@pytest.mark.parametrize("pairs", [PairPrefetch(1, 0.5), pytest.param(PairPrefetch(0, 1.0), marks=pytest.mark.slow)])
def test_single_lines_beside_lines_that_a_prefetcher_brings_show_no_tlb(pairs):
    assert translation_of((), pairs=pairs, page_lines=1) == []


def test_one_disturbed_lap_over_other_lines_decides_no_policy():
    """Of the walks over 40 pages, those over lines side by side are subtracted: the first of each kind takes 3 half as long
    again."""
    path = Path((Cache(plain(32, 6, 128), 128, 3.0),), 68.0, (Tlb(plain(1, 40, 4 * KIB), 4 * KIB, 8.0, "FIFO"),))
    machine = Machine("test", {"global": path}, Noise(lap_relative=0.0014), 1)
    chase, disturbed = ChaseLayout(control_bytes=256, shift_bytes=256, page_lines=2), set()

    def answer(probe):
        found = machine.answer(probe)
        kind = probe.pattern.order, probe.pattern.visits
        if probe.pattern.stride_bytes != 256 or probe.pattern.visits < 2 or kind in disturbed:
            return found
        disturbed.add(kind)
        return replace(found, value=1.49 * found.value, low=1.48 * found.value, high=1.5 * found.value)

    of_set = SetOfLevel(40, SetLines(42, 4 * KIB, 256), 64, policies=frozenset({"LRU", "FIFO", "NRU"}))
    probe = LevelProbe(ProbeSession(), chase, HitMissModel(0.0, 8.0, 0.02))
    found = replay(probe_policy(probe, of_set), lambda probes: [answer(probe) for probe in probes])
    assert disturbed and found["policy"].value == "FIFO"


@pytest.mark.parametrize("page", [128 * KIB, pytest.param(256 * KIB, marks=pytest.mark.slow)])
def test_pages_that_pairs_tell_too_large_are_counted_at_half_of_them(page, monkeypatch):
    """As pairs do that overflow a further level of larger pages, whose misses cost more."""
    monkeypatch.setattr(tlb, "page_size", told(UnitSize(page)))
    path = Path((Cache(plain(64, 16, 128), 128, 30.0),), 500.0, (Tlb(plain(4, 6, 64 * KIB), 64 * KIB, 14.0),))
    machine = Machine("test", {"global": path}, Noise(lap_relative=0.002), 1, one_arena=True)
    chase = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(1024,))
    asking = measure_tlbs(ProbeSession(), chase, PageCountLimits(GIB, 0.002))
    (found,) = replay(asking, lambda probes: [machine.answer(probe) for probe in probes])
    assert (found.page.nbytes, found.pages.fits) == (64 * KIB, 24)


@pytest.mark.parametrize(("true", "fits", "shorter"), [(64 * KIB, 32, 0), (64 * KIB, 59, 0), (32 * KIB, 32, 32 * KIB)])
def test_a_page_is_halved_only_where_its_count_is_sure(true, fits, shorter):
    """Places half a page apart overflow a level that was taken for larger than it is, whatever its page."""
    path = Path((Cache(plain(64, 16, 128), 128, 30.0),), 500.0, (Tlb(plain(1, 32, true), true, 60.0),))
    machine = Machine("test", {"global": path}, Noise(lap_relative=0.0005), 1, one_arena=True)
    chase = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(1024,), page_bytes=64 * KIB)
    pages = PageProbe(ProbeSession(), chase, PageCountLimits(GIB, 0.0005))
    counted = CapacityBound(fits, fits + 1, 40.0, 1.0)
    level = TlbGeometry(HitMissModel(0.0, 60.0, 0.1), counted, 64 * KIB, (60.0, 60.0), UnitSize(64 * KIB), None, None)
    assert replay(shorter_page(pages, level), lambda probes: [machine.answer(probe) for probe in probes]) == shorter


def test_more_misses_than_pages_tell_no_sets():
    """Single misses cost 1.07 times as much as is expected of them: sets of 16 ways seem to have 17, and 15 to be all."""
    path = Path((Cache(plain(64, 16, 128), 128, 30.0),), 500.0, (Tlb(plain(16, 16, 64 * KIB), 64 * KIB, 60.0),))
    machine = Machine("test", {"global": path}, Noise(lap_relative=0.0005), 1, one_arena=True)
    chase = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(1024,), page_bytes=64 * KIB)
    pages = PageProbe(ProbeSession(), chase, PageCountLimits(GIB, 0.0005))
    asking = sets_page_by_page(pages, 64 * KIB, PageCost(0.0, 60.0 / 1.07), 0, 256)
    assert replay(asking, lambda probes: [machine.answer(probe) for probe in probes]) is None


def test_sets_that_are_alike_from_every_first_page_are_equal(monkeypatch):
    monkeypatch.setattr(tlb, "is_alike_from_other_pages", told(True))
    monkeypatch.setattr(tlb, "sets_page_by_page", told(SetWays(15, 17, 18)))
    held, page = CapacityBound(256, 257, 17.6, 1.0), 4 * KIB
    level = TlbGeometry(HitMissModel(8.0, 42.0, 0.1), held, page, (34.0, 34.0), UnitSize(page), None, None)
    pages = PageProbe(ProbeSession(), ChaseLayout(page_lines=2), PageCountLimits(GIB, 0.002))
    found = replay(tlb._compared_with_other_pages(pages, PageCost(8.0, 42.0), page, level), lambda _: [])
    assert found.by_pages is None and found.alike


@pytest.mark.parametrize(("hidden", "is_told"), [(0.4, False), (1.4, True)])
def test_bits_tell_no_fewer_entries_than_pages_that_surely_fit(hidden, is_told, monkeypatch):
    """Sets of 9 + 7 x 8 ways: 65 pages in a row fit, and no bit tells the ninth way."""
    monkeypatch.setattr(tlb, "sets_by_bits", told(SetWays(8, 8, 8)))
    held, page = CapacityBound(65, 66, 9.0, hidden), 4 * KIB
    level = TlbGeometry(HitMissModel(8.0, 42.0, 0.1), held, page, (34.0, 34.0), UnitSize(page), None, None, sources=SOURCES)
    pages = PageProbe(ProbeSession(), ChaseLayout(page_lines=2), PageCountLimits(GIB, 0.002))
    assert (replay(tlb._with_bits(pages, level), lambda _: []).by_rows is not None) == is_told


def told(answer):
    """An experiment that asks nothing."""

    def asking(*_):
        yield from ()
        return answer

    return asking


@pytest.mark.parametrize(("hidden", "least"), [(2.0, 120.0), (27.0, None)])
def test_a_level_among_whose_hits_a_nearer_ones_misses_may_hide_has_no_bounds(hidden, least):
    """As 36 entries whose misses cost 13, before 256 of 92, at a noise of 2."""
    held, page = CapacityBound(122, 139, 24.0, hidden), 2 * MIB
    level = TlbGeometry(HitMissModel(0.0, 96.0, 2.0), held, page, (96.2, 95.7), UnitSize(page), None, None, noise=2.0)
    entries = _entry_findings(level, _entry_count(level, 0))
    assert [one.low for one in entries.values()] == [least, None if least is None else least * page]
    assert (penalty_findings(level, 1.5)["penalty_cycles"].low is None) == (least is None)


def test_a_miss_costs_as_much_as_the_most_pages_say_where_memory_has_room_for_no_more():
    """Under NRU a third of the accesses hit in a TLB of 256 entries that gets 320 or 384 pages: 107 of 160 cycles were told."""
    costs = [PageMean(106.8, 0.7), PageMean(107.5, 0.7), PageMean(160.7, 0.9), PageMean(160.5, 0.9)]
    assert [one.value for one in _of_the_most(costs)] == [160.7, 160.5]
    assert _of_the_most(costs[:2]) == costs[:2] and _of_the_most([]) == []
    path = Path((Cache(plain(64, 16, 128), 128, 30.0),), 500.0, (Tlb(plain(64, 4, 2 * MIB), 2 * MIB, 160.0, "NRU"),))
    machine = Machine("test", {"global": path}, Noise(lap_relative=0.0005), 1, one_arena=True)
    chase = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(1024,), page_bytes=2 * MIB)
    pages = PageProbe(ProbeSession(), chase, PageCountLimits(GIB, 0.0005))
    costs, _ = replay(miss_penalties(pages, 2 * MIB, 256, 0.0), lambda probes: [machine.answer(probe) for probe in probes])
    assert costs == pytest.approx([160.0] * len(costs), rel=0.01)


@pytest.mark.parametrize(("doubt", "told"), [(0.5, 23.3), (3.1, None)])
def test_a_penalty_behind_one_that_is_not_known_is_not_known(doubt, told):
    """A first TLB's misses cost 5.9 to 9 cycles at different numbers of pages, of 5: 23.3 of 26 were left for the second."""
    held, page = CapacityBound(208, 209, 11.0, 1.0), 4 * KIB
    level = TlbGeometry(
        HitMissModel(7.6, 30.9, 0.1), held, page, (23.3, 23.3), UnitSize(page), None, None, 0.0, 0.1, SOURCES, hit_doubt=doubt
    )
    assert penalty_findings(level, None)["penalty_ns"].value == (told and pytest.approx(told))


@pytest.mark.parametrize(("lap_lines", "least"), [(0, 23.5), (6416, None)])
def test_pages_whose_lines_the_nearest_cache_may_hold_bound_no_entries(lap_lines, least):
    """A virtually addressed L1 of 3072 lines held 128 lines of each of 24 pages; the TLB behind it has 16 entries."""
    held, page = CapacityBound(24, 25, 9.2, 0.5), 64 * KIB
    level = TlbGeometry(
        HitMissModel(0.0, 79.8, 0.8), held, page, (79.4, 80.2), UnitSize(page), None, None, 0.0, 0.5, SOURCES, alike=False
    )
    chase = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, lap_lines=lap_lines, near_lines=(674,))
    found = replay(infer_tlb_level(ProbeSession(), chase, 0, level, None), lambda _: [])
    assert found.findings["entries"].low == (least and pytest.approx(least))
