"""infer.hierarchy.policy_trace: the policy by single accesses, of sets that are empty at first and of sets that are not."""

import pytest

from clmembench.infer.hierarchy.policy_trace import policy_by_trace
from clmembench.infer.hierarchy.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeCache
from clmembench.infer.hierarchy.set_lines import SetLines, SetOfLevel
from clmembench.plan.hierarchy import replay
from tests.simulated import Cache, Machine, Noise, Path, plain

LINE, WAYS, SETS = 128, 8, 64


def traced(policy: str, emptied: bool, extra: int):
    """The policy of a set by walks over its ways and so many lines more; `emptied`: each launch begins with an empty cache."""
    cache = Cache(plain(SETS, WAYS, LINE), LINE, 30.0, policy)
    path = Path((cache,), 200.0, launch_empties=None if emptied else ())
    device = Machine("test", {"global": path}, Noise(1.0, quantum_cycles=1.0), 7, one_arena=True)
    lines = tuple(SETS * LINE * i for i in range(WAYS + extra))
    probe = LevelProbe(ProbeCache(), ChaseLayout(), HitMissModel(30.0, 200.0, 0.1))
    found = policy_by_trace(probe, SetOfLevel(WAYS, SetLines(len(lines), own=lines, apart_bytes=LINE), LINE))
    return replay(found, lambda probes: [device.answer(probe) for probe in probes])


@pytest.mark.parametrize("emptied", [True, False], ids=["empty", "full"])
@pytest.mark.parametrize("policy", ["LRU"])
def test_policy_of_a_set_whether_it_is_empty_at_first_or_not(policy, emptied):
    assert traced(policy, emptied, 2).finding.value == policy


def test_one_line_more_than_a_set_holds_is_enough_for_lru():
    assert traced("LRU", False, 1).finding.value == "LRU"


def test_drawn_victims_of_a_full_set_are_no_policy_of_ages():
    assert traced("random", False, 2).finding.value in ("random", None)
