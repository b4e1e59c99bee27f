"""infer.hierarchy.policy_trace: the policy by single accesses, of sets that are empty at first and of sets that are not."""

import numpy as np
import pytest

from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.replacement.cache_set import hits_of_accesses, policy_forms
from clmembench.studies.hierarchy.replacement.policy_trace import favoured_policy, leave_as_they_came, policy_by_trace
from clmembench.studies.hierarchy.replacement.set_lines import SetLines, SetOfLevel
from tests.simulated import Cache, Machine, Noise, Path, plain

LINE, WAYS, SETS = 128, 8, 64


def traced(policy: str, emptied: bool, extra: int):
    """The policy of a set by walks over its ways and so many lines more; `emptied`: each launch begins with an empty cache."""
    cache = Cache(plain(SETS, WAYS, LINE), LINE, 30.0, policy)
    path = Path((cache,), 200.0, launch_empties=None if emptied else ())
    device = Machine("test", {"global": path}, Noise(1.0, quantum_cycles=1.0), 7, one_arena=True)
    lines = tuple(SETS * LINE * i for i in range(WAYS + extra))
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(30.0, 200.0, 0.1))
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


def behind_drawn(policy: str, seed: int):
    """As `traced`, of a second level behind a first one of four ways whose victims are drawn."""
    nearer = Cache(plain(SETS, 4, LINE), LINE, 4.0, "random")
    cache = Cache(plain(4 * SETS, 4, LINE), LINE, 30.0, policy)
    device = Machine("test", {"global": Path((nearer, cache), 200.0)}, Noise(2.0, quantum_cycles=1.0), seed, one_arena=True)
    way = 4 * SETS * LINE
    lines, filler = tuple(way * i for i in range(6)), tuple(SETS * LINE * (1 + 4 * i) for i in range(6))
    probe = LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(30.0, 200.0, 0.1))
    own = SetLines(len(lines), own=lines, filler=filler, apart_bytes=LINE)
    found = policy_by_trace(probe, SetOfLevel(4, own, LINE, nearer=4.0))
    return replay(found, lambda probes: [device.answer(probe) for probe in probes])


def test_a_policy_without_chance_is_not_taken_for_a_random_one_behind_drawn_victims():
    told = {seed: behind_drawn("FIFO", seed) for seed in range(4)}
    assert all(one is None or one.finding.value in ("FIFO", None) for one in told.values())
    drawn = [behind_drawn("random", seed) for seed in range(4)]
    assert any(one is not None and one.finding.value == "random" for one in drawn)


@pytest.mark.parametrize(("wrong", "policy"), [(0.2, "FIFO"), (0.1, "LRU"), (0.0, "tree-PLRU")])
def test_what_one_policy_mostly_explains_is_told_from_what_none_explains(wrong, policy):
    rng = np.random.default_rng(3)
    seen, drawn = [], []
    for _ in range(4):
        lines = rng.permutation(np.repeat(np.arange(6), 4)).tolist() * 12
        hits = hits_of_accesses(policy_forms(policy, 4)[0], 4, lines)
        seen.append((lines, [bool(hit) ^ bool(rng.random() < wrong) for hit in hits]))
        held, flags = list(range(4)), []
        for line in lines:
            flags.append(line in held)
            if line not in held:
                held[int(rng.integers(4))] = line
        drawn.append((lines, flags))
    assert favoured_policy(4, seen) == policy
    assert favoured_policy(4, drawn) == ""


def flags_of(policy: str, ways: int, rng) -> list:
    """What reaches sets, full at first of lines that nobody knows, where a nearer cache lets through what chance decides."""
    seen = []
    for _ in range(4):
        lines = [int(line) for line in rng.integers(ways + 2, size=700)]
        before = [int(line) for line in rng.permutation(ways + 2)]
        hits = hits_of_accesses(policy_forms(policy, ways)[0], ways, [*before, *lines])[len(before) :]
        seen.append((lines, [bool(hit) for hit in hits]))
    return seen


@pytest.mark.parametrize("ways", [4, 8, 16])
def test_lines_that_leave_as_they_came_are_fifo_whatever_was_there_before(ways):
    rng = np.random.default_rng(5)
    assert leave_as_they_came(ways, flags_of("FIFO", ways, rng))
    assert not any(leave_as_they_came(ways, flags_of(policy, ways, rng)) for policy in ("LRU", "tree-PLRU", "NRU"))
    few = [(lines[: 2 * ways], flags[: 2 * ways]) for lines, flags in flags_of("FIFO", ways, rng)]
    assert not leave_as_they_came(ways, few)


def test_drawn_victims_leave_in_no_order():
    rng = np.random.default_rng(5)
    held, seen = list(range(8)), []
    lines = [int(line) for line in rng.integers(10, size=700)]
    for line in lines:
        seen.append(line in held)
        if not seen[-1]:
            held[rng.integers(8)] = line
    assert not leave_as_they_came(8, [(lines, seen)])
