"""benchmarks.barrier: how many barriers are timed, and what a host that stops work-groups in the middle costs."""

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure.sampling import sample_point
from clmembench.model import Skip
from clmembench.plan.budget import Budget
from clmembench.resources import kernel_source
from clmembench.runtimes.fake import FakeDevice
from tests.cases import each


class Stops(FakeDevice):
    """Work-groups run at the same time in the trial, and not afterwards."""

    downloads = 0

    def download(self, buffer, dtype, count, offset_bytes=0):
        self.downloads += 1
        return np.array([0, self.downloads > 1], np.uint32)


def test_work_groups_that_stop_running_together_are_skipped_and_no_failure_of_the_run():
    device = Stops()
    with pytest.raises(Skip, match="stopped running at the same time while it was measured: close other programs"):
        sample_point(device, discovered()["device_barrier"].prepare(device, groups=2), Budget(0.0, 0.01), 1.0)


def test_a_round_that_a_group_did_not_wait_for_is_seen():
    device = FakeDevice()
    work = discovered()["device_barrier"].prepare(device, groups=2).work(100)
    device.upload(work.commands[0].args[0], np.array([200, 0], np.uint32))
    ((passed, _),) = work.outputs
    device.upload(passed, np.array([100, 100], np.uint32))
    work.check()
    device.upload(passed, np.array([100, 25], np.uint32))
    with pytest.raises(AssertionError, match="in 25 of 100 rounds"):
        work.check()


def test_barriers_that_are_timed_are_the_text_that_is_verified():
    text = kernel_source("barrier")
    counts = {use: text.count(use) for use in ("barrier(CLK_LOCAL_MEM_FENCE)", "PASS_BARRIER\n", "(PASS_BARRIER)")}
    assert set(counts.values()) == {1}, counts
    assert text.count("met++") == 1


@each(("separated_by", "shift"), [("barrier", 1), ("nothing", 0)])
def test_an_exchange_whose_numbers_stopped_on_their_way_is_seen(separated_by, shift):
    device = FakeDevice()
    work = discovered()["barrier_exchange"].prepare(device, separated_by=separated_by, work_items=64).work(100)
    ((out, _),) = work.outputs
    device.upload(out, ((np.arange(64) + 100 * shift) % 64 + 100).astype(np.uint32))
    work.check()
    device.upload(out, ((np.arange(64) + 100 * shift) % 64 + 99).astype(np.uint32))
    with pytest.raises(AssertionError, match="barriers do not hold"):
        work.check()
