"""benchmarks.barrier: how many barriers are timed, and what a host that stops work-groups in the middle costs."""

import re

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.benchmarks.barrier import BARRIERS_PER_BLOCK
from clmembench.measure.sampling import sample_point
from clmembench.model import Skip
from clmembench.plan.budget import Budget
from clmembench.resources import kernel_source
from clmembench.runtimes.fake import FakeDevice


class Stops(FakeDevice):
    """Work-groups run at the same time in the trial, and not afterwards."""

    downloads = 0

    def download(self, buffer, dtype, count, offset_bytes=0):
        self.downloads += 1
        return np.array([0, self.downloads > 1, 0], np.uint32)


def test_work_groups_that_stop_running_together_are_skipped_and_no_failure_of_the_run():
    device = Stops()
    with pytest.raises(Skip, match="stopped running at the same time while it was measured: close other programs"):
        sample_point(device, discovered()["device_barrier"].prepare(device, groups=2), Budget(0.0, 0.01), 1.0)


def test_a_block_of_the_kernel_has_as_many_barriers_as_its_time_is_divided_by():
    # no result depends on them, so that one too few would only be a barrier that seems cheaper
    text = kernel_source("barrier")
    block = re.search(r"kernel void group_barrier\(.*?\n    for (.*?)\n    }", text, re.DOTALL)[1]
    assert f"REPEAT_{BARRIERS_PER_BLOCK}(barrier(CLK_LOCAL_MEM_FENCE);)" in block and block.count("barrier(") == 1
    assert f"met += {BARRIERS_PER_BLOCK};" in block
