"""benchmarks.barrier: what a host that stops work-groups in the middle costs."""

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import Budget, measure
from clmembench.model import Skip
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
        measure(device, discovered()["device_barrier"].prepare(device, groups=2), Budget(0.0, 0.01), 1.0)
