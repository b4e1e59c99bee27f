"""benchmarks.subgroup: chains on PoCL end where they should in every memory and pattern, and one that does not is seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from clmembench.benchmarks.subgroup import MEMORIES, TABLE_WORDS, make_chains, position_after, step_latency, subgroup
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip
from clmembench.runtimes.opencl import RUNTIME
from tests.cases import each

PLAIN = {"pattern": "consecutive", "degree": 1, "shift_bytes": 0, "items": 32, "groups": 2}


@pytest.fixture(scope="module")
def device():
    return RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))


@each("memory", [name for name in MEMORIES if name != "global_cg"])
@each(
    "changes",
    [{}, {"items": 1, "groups": 1}, {"degree": 8}, {"pattern": "shifted", "shift_bytes": 4}, {"pattern": "permuted"},
     {"pattern": "scattered"}, {"pattern": "scattered", "items": 256, "groups": 3}],
)  # fmt: skip
def test_every_chain_ends_where_it_should(device, memory, changes):
    prepared = subgroup.prepare(device, memory=memory, **{**PLAIN, **changes})
    for blocks in (1, 7, 100):
        assert check_outputs(device, prepared.work(blocks)) == ""


@pytest.mark.parametrize("step", [1, 2, 8, 16, 1024])
def test_equal_steps_end_where_they_should(device, step):
    slope = step_latency.prepare(device, memory="global", step=step)
    assert check_outputs(device, slope.work(5)) == ""
    work = slope.work(128)
    place, seen = 0, []
    words = device.download(work.commands[0].args[0], np.uint32, TABLE_WORDS) // 4
    for _ in range(work.ops // 2 + 1):
        seen.append(place)
        place = int(words[place])
    assert len(set(seen)) >= 16 and seen[-1] != seen[0], "half of the loads end elsewhere"
    assert all((after - before) % TABLE_WORDS in (step, step + 1, step - 7) for before, after in pairwise(seen))


@each(
    "changes",
    [{"pattern": "scattered"}, {"pattern": "permuted"}, {}, {"items": 1, "groups": 1}, {"degree": 32},
     {"pattern": "shifted", "shift_bytes": 124}, {"memory": "register"}],
)  # fmt: skip
@each("times", [1, 2, 4])
def test_a_load_too_few_is_seen_in_the_count_and_in_the_place(device, changes, times):
    """As many blocks as half of the work, a quarter of it, or one less; the count alone may come from a kernel that skips
    loads, and the place alone from a lap more."""
    prepared = subgroup.prepare(device, **{**PLAIN, "memory": "global", **changes})
    work = prepared.work(64)
    (launch,) = work.commands
    blocks = work.ops // 17
    fewer = replace(launch, args=(*launch.args[:-1], np.uint32(blocks // times - (times == 1))))
    device.run([fewer])
    with pytest.raises(AssertionError, match=f"steps, not {work.ops}"):
        work.check()
    ((ends, nbytes),) = work.outputs
    words = device.download(ends, np.uint32, nbytes // 4)
    words[words.size // 2 :] = work.ops
    device.upload(ends, words)
    with pytest.raises(AssertionError, match="end at a wrong word"):
        work.check()


def test_a_work_group_over_the_devices_largest_is_skipped(device):
    with pytest.raises(Skip, match="over this device's 64 work-items"):
        small = device
        kept, small.info = small.info, replace(small.info, max_work_group=64)
        try:
            subgroup.prepare(small, memory="global", **{**PLAIN, "items": 128})
        finally:
            small.info = kept


def test_patterns_are_what_they_are_called():
    table, start = make_chains("global", "consecutive", 4, 0, 32, 32, 0)
    assert np.array_equal(start, np.arange(32) // 4 * 4)
    for n in (1, 5, 32, 77):
        assert np.array_equal(position_after(table, start, n), (start + n) % 32), "all go on together"
    table, start = make_chains("global", "shifted", 1, 124, 64, 32, 0)
    assert start[0] == 31
    for n in (1, 31, 100):
        assert set(position_after(table, start[:32], n)) == set(range(31, 63)), "the same words, from the shift on"
    assert len({int(make_chains("global", "consecutive", 1, 0, 1, 1, 0)[0][n]) for n in range(TABLE_WORDS)}) == TABLE_WORDS
    table, start = make_chains("global", "permuted", 1, 0, 64, 32, 0)
    seen = {tuple(sorted(position_after(table, start[:32], n))) for n in range(32)}
    assert seen == {tuple(range(32))}, "each load is of the same segment"
    assert len({int(position_after(table, start[:1], n)[0]) for n in range(32)}) == 32
    table, start = make_chains("global", "scattered", 1, 0, 32, 32, 0)
    for n in (0, 1, 50):
        place = position_after(table, start, n)
        assert np.array_equal(place % 32, np.arange(32)), "each stays in its column"
    assert len(set(start // 32)) == 32, "each begins in a line of its own"


def test_where_chains_lead_is_what_following_them_gives():
    table, place = make_chains("global", "scattered", 1, 0, 32, 32, 1)
    start = place
    for _ in range(77):
        place = table[place]
    assert np.array_equal(position_after(table, start, 77), place)
