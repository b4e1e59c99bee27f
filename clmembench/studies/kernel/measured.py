"""The measured time of a launch on a device: a point of `user_kernel`, or of another benchmark, in a worker process."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.analysis import derive
from clmembench.analysis.little import Estimate
from clmembench.gates import cpu_share, point
from clmembench.host import device_lock
from clmembench.measure import worker_process
from clmembench.measure.job import Job
from clmembench.model import DeviceInfo, Point, Record
from clmembench.plan.selection import FULL_BUDGET
from clmembench.studies.kernel.benchmarks.user_kernel import TIME, user_kernel
from clmembench.studies.kernel.launch import KernelLaunch


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """The time of a launch in ns with its 95% interval, or the reason why there is none; and the operations that its benchmark
    counts in it."""

    ns: Estimate | None
    reason: str = ""
    ops: int = 1


def point_of(launch: KernelLaunch) -> Point:
    """The point of `user_kernel` that measures a launch."""
    return Point(user_kernel.name, launch.params())


def measure(info: DeviceInfo, points: Sequence[Point], timeout_s: float) -> list[MeasuredTime]:
    """The time of the launch of each point on a device, of slopes of the shorter one, each in a worker process of its own: a
    crash ends none but its launch. Raises device_lock.HeldError and WorkerError where the device cannot be used."""
    with device_lock.held(info):
        found = worker_process.probed(Job(info.runtime, info))
        job = Job(
            info.runtime,
            replace(info, features=found.features),
            budget=FULL_BUDGET,
            features=found.features,
            cycles_per_op=found.cycles_per_op,
            origin=found.origin,
            quantum_ns=found.quantum_ns,
        )
        return [_measured(replace(job, benchmark=one.benchmark), one, timeout_s) for one in points]


def _measured(job: Job, wanted: Point, timeout_s: float) -> MeasuredTime:
    try:
        with worker_process.WorkerProcess(job) as worker:
            record = worker.measure(wanted, timeout_s)
    except worker_process.WorkerError as error:
        return MeasuredTime(None, str(error))
    return time_of(record, job.device)


def time_of(record: Record, info: DeviceInfo) -> MeasuredTime:
    """The time of a launch by its record, of a slope of the shorter one."""
    ops = record.series[0].ops if record.series else 1
    record = replace(record, series=tuple(replace(one, ops=1) for one in record.series[:1]))
    record = point.judged(record, (TIME,))
    summary = derive.summarise([record], TIME)
    if record.status != "ok" or summary is None:
        return MeasuredTime(None, f"{record.status}: {record.reason}")
    if cpu_share.is_disturbed(record, info.kind == "cpu", os.cpu_count() or 1):
        return MeasuredTime(None, f"suspect: other programs took the CPUs: {cpu_share.QUIETEN}")
    known = math.isfinite(summary.low)  # fewer samples have no interval
    low, high = (summary.low, summary.high) if known else (summary.median, summary.median)
    return MeasuredTime(Estimate(summary.median, low, high), ops=ops)
