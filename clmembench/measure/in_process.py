"""Points measured in this very process, for debugging: a crash ends the run, and nothing ends an endless kernel."""

from __future__ import annotations

import contextlib
import sys

from clmembench.measure.job import Job
from clmembench.measure.worker import Session
from clmembench.measure.worker_process import WorkerError
from clmembench.model import BuildError, Cause, DeviceError, Placement, Point, Record


class InProcessWorker:
    """Measures the points of one job in this process. Raises WorkerError where the device cannot be opened, or the job needs a
    process of its own."""

    def __init__(self, job: Job) -> None:
        self.job = job
        if job.place != Placement() or job.process > 0:
            raise WorkerError("it needs a process of its own: leave out --no-isolate", Cause.ISOLATION_OFF)
        try:
            self._session = Session(job, own_process=False)
        except (DeviceError, BuildError) as error:
            reason = f"the device cannot be opened: {error}"
            raise WorkerError(reason, Cause.DEVICE_UNAVAILABLE, getattr(error, "log", "")) from error
        self._session.settle()

    def measure(self, point: Point, timeout_s: float) -> Record:
        """The record of one point; there is no time limit."""
        with contextlib.redirect_stdout(sys.stderr):  # what a benchmark prints is no output of the command
            return self._session.record(point.params, point.role)

    def end(self) -> None:
        """There is nothing to end: the session frees what the device holds."""
