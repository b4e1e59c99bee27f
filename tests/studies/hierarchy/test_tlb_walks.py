"""Policies of second TLBs by walks that pass the nearer TLB: whole simulated devices, and sets that cannot be walked over."""

import pytest

from clmembench.model import TlbLevel
from clmembench.model.address_patterns import pattern_offsets
from clmembench.model.findings import measured_finding
from clmembench.studies.hierarchy.curve.latency_curve import WorkingSets, measure_curve
from clmembench.studies.hierarchy.levels import infer_hierarchy as dissect
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession
from clmembench.studies.hierarchy.tlb.tlb_level import infer_tlb_level, set_behind
from clmembench.studies.hierarchy.tlb.tlb_ramp import SetWays
from tests.cases import each
from tests.hierarchies import random_hierarchy
from tests.simulated import KIB, MIB

LINES = ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(512,))


def nearer(ways=16, sets=1, policy="LRU"):
    found = {"ways": ways, "sets": sets, "policy": policy}
    return TlbLevel("L1 TLB", {name: measured_finding(name, value, "", ("r",)) for name, value in found.items()})


@pytest.mark.slow
def test_the_second_tlbs_policy():
    machine = random_hierarchy(32083)
    path = machine.paths["global"]
    limits = ProbeLimits(1 << 30, 4 * max(cache.size_bytes for cache in path.caches), frozenset(machine.paths))

    def experiment():
        asked = ProbeSession()
        curve = yield from measure_curve(
            asked, ChaseLayout(block_bytes=dissect.BLOCK_BYTES), WorkingSets(64, KIB, 64 * MIB, 32 * MIB)
        )
        chase, found = yield from dissect._translation(asked, curve, 64, max(0.001, curve.steps[0].noise), limits)
        first = yield from infer_tlb_level(asked, chase, 0, found[0], curve.ghz)
        alone = yield from infer_tlb_level(asked, chase, 1, found[1], curve.ghz)
        return first, alone, (yield from infer_tlb_level(asked, chase, 1, found[1], curve.ghz, first))

    first, alone, second = replay(experiment(), lambda probes: [machine.answer(probe) for probe in probes])
    assert [first.findings["policy"].value, second.findings["policy"].value] == [tlb.policy for tlb in path.tlbs]
    assert alone.findings["policy"].status == "undetermined"  # the nearer level's sets are needed


@pytest.mark.parametrize(("ways", "sets"), [(16, 1), (4, 8), (40, 1)])
def test_all_pages_of_a_walk_pass_one_set_of_the_nearer_level_and_few_of_the_second(ways, sets):
    second = SetWays(64, 8, 8)
    of_set = set_behind(nearer(ways, sets), second, 4096, LINES)
    assert of_set is not None and of_set.before is not None and of_set.before.ways == ways
    every = [*of_set.lines.own, *of_set.lines.filler]
    pages = [place // 4096 for place in every]
    assert len(set(pages)) == len(pages) > ways and {page % sets for page in pages} == {0}
    held = [page % 64 for page in pages]
    assert held.count(0) == len(of_set.lines.own) == 10 and max((held.count(one) for one in set(held) - {0}), default=0) <= 7
    assert len({place % 4096 for place in every}) >= min(len(every), 32)  # lines of many sets of the first cache
    walk = of_set.lines.pattern("walk", 9, 2, 1)
    assert len(pattern_offsets(walk)) == 2 * (9 + len(of_set.lines.filler))


@each(
    ("before", "second", "chase"),
    [
        (nearer(policy="random"), SetWays(64, 8, 8), LINES),  # what it lets through is not known
        (nearer(100), SetWays(8, 4, 4), LINES),  # too many pages for the other sets
        (nearer(4, 12), SetWays(64, 8, 8), LINES),  # no set of the second is one of the nearer
        (nearer(), SetWays(64, 8, 17), LINES),  # uneven sets
        (nearer(), SetWays(64, 8, 8), ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(40,))),
        (nearer(), SetWays(64, 8, 8), ChaseLayout(shift_bytes=128, control_bytes=128, page_lines=2, lap_lines=4000)),
    ],
)
def test_sets_that_cannot_be_walked_over(before, second, chase):
    assert set_behind(before, second, 4096, chase) is None
