"""benchmarks.subgroup: chains on PoCL end where they should in every memory and pattern, and one that does not is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks.subgroup import MEMORIES, TABLE_WORDS, make_chains, position_after, step_latency, subgroup
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip
from clmembench.runtimes.opencl.device import RUNTIME

PLAIN = {"pattern": "consecutive", "degree": 1, "shift_bytes": 0, "items": 32, "groups": 2}


@pytest.fixture(scope="module")
def device():
    return RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))


@pytest.mark.parametrize("memory", [name for name in MEMORIES if name != "global_cg"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"items": 1, "groups": 1}, {"degree": 8}, {"pattern": "shifted", "shift_bytes": 4}, {"pattern": "permuted"},
     {"pattern": "scattered"}, {"pattern": "scattered", "items": 256, "groups": 3}],
    ids=str,
)  # fmt: skip
def test_every_chain_ends_where_it_should(device, memory, changes):
    prepared = subgroup.prepare(device, memory=memory, **{**PLAIN, **changes})
    for blocks in (1, 7, 100):
        assert check_outputs(device, prepared.work(blocks)) == ""


@pytest.mark.parametrize("step", [1, 16, 1024])
def test_equal_steps_end_where_they_should(device, step):
    assert check_outputs(device, step_latency.prepare(device, memory="global", step=step).work(5)) == ""


@pytest.mark.parametrize("changes", [{"pattern": "scattered"}, {"pattern": "permuted"}])
def test_a_load_too_few_is_seen(device, changes):
    prepared = subgroup.prepare(device, memory="global", **{**PLAIN, **changes})
    device.run(prepared.work(9).commands)
    with pytest.raises(AssertionError, match="160 steps"):
        prepared.work(10).check()


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
    assert np.array_equal(table, np.arange(TABLE_WORDS)) and np.array_equal(start, np.arange(32) // 4 * 4)
    assert make_chains("global", "shifted", 1, 124, 32, 32, 0)[1][0] == 31
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
