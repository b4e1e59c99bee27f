"""TLBs of CPUs by single lines of pages, and what a core that others use adds: published CPUs with noise and prefetchers."""

from dataclasses import replace

import pytest

from clmembench.model import Answer
from clmembench.model.findings import measured_finding
from clmembench.studies.hierarchy.curve.curve_findings import memory_level
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep, find_steps
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve, WorkingSets, measure_curve
from clmembench.studies.hierarchy.geometry.level_geometry import LevelGeometry
from clmembench.studies.hierarchy.geometry.strides import SetGeometry
from clmembench.studies.hierarchy.levels import infer_hierarchy as dissect
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_probe import PageCountLimits, PageProbe
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel, ProbeSession
from clmembench.studies.hierarchy.tlb.tlb import measure_tlbs
from clmembench.studies.hierarchy.tlb.tlb_geometry import TlbGeometry
from clmembench.studies.hierarchy.tlb.tlb_level import _unless_growth_differs, infer_tlb_level
from tests.published import PUBLISHED
from tests.simulated import KIB, MIB

SINGLE = ChaseLayout(shift_bytes=64, control_bytes=64, page_lines=1, near_lines=(512,))
NAMES = ("entries", "page_bytes", "ways", "sets")


def tlbs_of(machine):
    """The levels of translation that are inferred of a simulated CPU."""
    limits = ProbeLimits(1 << 30, 64 * MIB, translates_first=True)

    def experiment():
        asked = ProbeSession(shared=True)
        sets = WorkingSets(64, KIB, 512 * KIB, 512 * KIB, may_wander=True)
        curve = yield from measure_curve(asked, ChaseLayout(block_bytes=dissect.BLOCK_BYTES), sets)
        chase, found = yield from dissect._translation(asked, curve, 64, max(0.001, curve.steps[0].noise), limits)
        assert chase.page_lines == 1
        levels = []
        for number, one in enumerate(found):
            before = levels[-1] if levels else None
            levels.append((yield from infer_tlb_level(asked, chase, number, one, curve.ghz, before)))
        return levels

    return replay(experiment(), lambda probes: [machine.answer(probe) for probe in probes])


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        pytest.param("Golden Cove", (96, 4096, 6, 16), (2048, 4096, 16, 128), marks=pytest.mark.slow),
        ("Haswell", (64, 4096, 4, 16), None),
        ("Zen 4", (72, 4096, 72, 1), None),
        ("Apple M1, P core", (160, 16384, 160, 1), (3072, 16384, 12, 256)),
    ],
)
@pytest.mark.slow
def test_a_cpus_tlbs(name, first, second):
    levels = tlbs_of(PUBLISHED[name]())
    assert tuple(levels[0].findings[one].value for one in NAMES) == first
    true = PUBLISHED[name]().paths["global"].tlbs[0].penalty_cycles
    assert levels[0].findings["penalty_cycles"].value == pytest.approx(true, rel=0.03)
    if second is not None:
        assert tuple(levels[1].findings[one].value for one in NAMES) == second
    for level in levels[1:]:  # nothing is claimed of the second that is not true
        true = PUBLISHED[name]().paths["global"].tlbs[1]
        assert level.findings["entries"].value in (None, true.entries)
        assert (level.findings["entries"].low or 0) <= true.entries


def test_two_orders_are_not_asked_of_a_cpu():
    """They differ by what prefetchers do: of a real core with a TLB of 72 entries they once told 18."""
    machine, asked = PUBLISHED["Zen 4"](), []

    class Recording:
        def answer(self, probe):
            asked.append(probe.pattern)
            return machine.answer(probe)

    tlbs_of(Recording())
    assert all(p.visits == 2 for p in asked if p.order in ("by_page", "by_round") and p.segments)
    assert {p.count for p in asked if p.order in ("by_page", "by_round") and not p.segments} <= {dissect.tlb.FIRST_PAGES}


def test_numbers_of_lines_that_a_cache_may_hold_in_part_are_left_out():
    assert SINGLE.most_in_first() == 230 and SINGLE.least_beyond_first() == 641
    assert all(SINGLE.has_enough_lines(count, 4096) for count in (4, 230, 641, 4096))
    assert not any(SINGLE.has_enough_lines(count, 4096) for count in (231, 512, 639))
    pages = PageProbe(ProbeSession(), SINGLE, PageCountLimits(1 << 30, 0.001))
    assert pages.middle(200, 700, 4096) == 230 and pages.middle(231, 600, 4096) is None


class Disturbed:
    """A core that others use two laps of three: each then takes up to twice as long; a TLB of 24 entries, 9 cycles a miss."""

    def __init__(self):
        self.count = 0

    def answer(self, probe):
        self.count += 1
        pattern = probe.pattern
        pages = pattern.count if pattern.stride_bytes >= 4096 else 1
        value = (4.0 + 9.0 * (pages > 24)) * (1.0 if self.count % 3 == 0 else 1.2 + 0.1 * (self.count % 7))
        return Answer(probe, value, value, value, "cycles", value / 3, evidence=("disturbed",))


def test_the_fastest_laps_count_on_a_disturbed_core():
    pages = PageProbe(ProbeSession(), SINGLE, PageCountLimits(1 << 30, 0.001))
    core = Disturbed()
    for count, cost in ((24, 0.0), (25, 9.0)):
        mean = replay(pages.until(count, 4096, lambda m: True, 12), lambda ps: [core.answer(p) for p in ps])
        assert mean is not None and mean.value == pytest.approx(cost, abs=0.1)


@pytest.mark.parametrize(
    ("policy", "misses", "status"),
    [
        ("NRU", 55.4, "undetermined"),
        ("NRU", 40.5, "ok"),
        ("NRU", 72.0, "ok"),
        ("LRU", 73.1, "ok"),
        ("FIFO", 40.0, "undetermined"),
    ],
)
def test_a_policy_that_the_growth_of_misses_denies_is_not_named(policy, misses, status):
    """A Zen 4 core's TLB of 72 entries: walks suit NRU best, but 73 pages in turns miss 7 or 55 times a lap, by their order."""
    held = CapacityBound(72, 73, misses)
    tlb = TlbGeometry(HitMissModel(0.0, 7.0, 0.05), held, 4096, (7.0, 7.0), UnitSize(4096), held, None)
    told = {"policy": measured_finding("policy", policy, "walks", ("r",))}
    assert _unless_growth_differs(told, tlb, 72)["policy"].status == status
    other = replace(tlb, pages=CapacityBound(72, 73, 40.5 if misses > 60 else 73.0))
    assert policy != "NRU" or _unless_growth_differs(told, other, 72, [misses])["policy"].status == "undetermined"
    unseen = replace(tlb, pages=CapacityBound(72, 75, misses))
    assert _unless_growth_differs(told, unseen, 72, [misses])["policy"].status == status


def test_without_an_answer_there_is_no_tlb():
    silent = replay(
        measure_tlbs(ProbeSession(), SINGLE, PageCountLimits(1 << 30, 0.001)), lambda ps: [Answer(p, reason="busy") for p in ps]
    )
    assert silent == []


def test_a_cache_whose_lines_others_take_is_as_large_as_its_sets():
    """497 of 512 lines fit since others use 15: sets, ways and line say 32 KiB."""
    sets = SetGeometry(((64, 497), (128, 256)), tuple(range(6, 12)), 8)
    known = LevelGeometry(
        UnitSize(64), CapacityBound(497, 498, 1.0), 64, 40 * KIB, True, UnitSize(64), CapacityBound(512, 513, 1.0), sets
    )
    assert known.size(("r",)).status == "inconsistent"
    shared = replace(known, shared=True)
    found = shared.size(("r",))
    assert (found.status, found.value) == ("ok", 32 * KIB) and found.low == 497 * 64


def test_what_hid_in_the_noise_may_be_over_the_size_of_a_shared_cache():
    known = LevelGeometry(UnitSize(64), CapacityBound(777, 778, 780.0, 100.0), 64, 60 * KIB, True, shared=True)
    assert known.bounds_bytes()[0] == 677 * 64 and replace(known, shared=False).bounds_bytes()[0] == 777 * 64


def test_a_plateau_that_frames_and_neighbours_move_is_one_of_a_shared_cache_alone():
    sizes = [int(64 * KIB * 2 ** (i / 4)) for i in range(33)]
    wander = [39.0, 40.5, 39.5, 41.0, 40.0, 41.5]
    values = [4.0] * 3 + [14.0] * 8 + [18, 25, 33, 37] + wander + [60, 120, 240] + [330.0] * 9
    spreads = [0.0] * 11 + [0.05] * 4 + [0.02] * 6 + [0.3] * 3 + [0.0] * 9
    ns = [value / 3.7 for value in values]
    strict = find_steps(sizes, values, ns, 0.002, spreads)
    loose = find_steps(sizes, values, ns, 0.002, spreads, may_wander=True)
    assert [step.flat for step in strict][2] is False
    third = loose[2]
    assert third.flat and third.hit == pytest.approx(40.5, rel=0.05) and third.noise >= 0.009


@pytest.mark.parametrize(("noise", "laps", "expected"), [(0.01, 12, 0.01), (0.16, 16, 0.04), (0.03, 16, 0.02)])
def test_memory_that_others_load_is_known_better_than_one_of_its_laps(noise, laps, expected):
    sizes = (KIB, *(16 * MIB + i * MIB for i in range(laps)))
    step = CurveStep(4.0, 1.0, 300.0, 32 * KIB, 40 * KIB, 64 * KIB)
    values = (4.0,) + (300.0,) * laps
    curve = LatencyCurve(sizes, values, values, (step,), 300.0, 80.0, 0.001, memory_noise=noise, shared=True)
    assert curve.noise_of_memory() == pytest.approx(expected)
    assert replace(curve, shared=False).noise_of_memory() == noise  # as of partitions, whose laps differ by where lines lie
    (level,) = memory_level(replace(curve, records=(("r",),) * len(sizes)), True, 8 * MIB)
    finding = level.findings["latency_cycles"]
    assert finding.low is not None and finding.low == pytest.approx(300 * (1 - 4 * expected), rel=0.01)
