"""The worker process: a fresh interpreter that opens the device and answers points with their records.

It reads a Job and then points, one a line, and answers with one record a line on what was its standard output; anything that a
driver prints goes to standard error, which the parent (worker_process.py) keeps as the record's log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from clmembench.analysis import record_values
from clmembench.benchmarks import add_folders, named
from clmembench.benchmarks.plugins import external
from clmembench.benchmarks.plugins.foreign_code import ExternalError, described
from clmembench.gates.point import MIN_REPORTED_DRIFT, judged
from clmembench.host import cpu_load, cpu_topology
from clmembench.host.point_sensors import PointSensors, open_sensors
from clmembench.host.processes import detach, end_if_forked, end_with_parent, open_pipes, pin_threads, thread_ids
from clmembench.measure import probe, sampling
from clmembench.measure.core_clock import ChainTimes, CoreClock, clock_step_ns
from clmembench.measure.job import Job, Program, parse_job, placement_of
from clmembench.model import (
    Benchmark,
    BuildError,
    Call,
    Cause,
    ClockReading,
    DeclarationError,
    DeviceError,
    Metric,
    Overlap,
    Placement,
    Prepared,
    Record,
    Reported,
    Skip,
    Slope,
    Value,
    Work,
    declared,
)
from clmembench.plan.budget import Budget
from clmembench.results import limits
from clmembench.results.record_lines import encode_record
from clmembench.runtimes import runtime

MIN_REPEATED_POINTS = (
    3  # points of a process that are measured again at once after a drift of the core clock, and one more in AGAIN_OF
)
POINTS_PER_REPEATED_POINT = 5
MAX_KEPT_LOADS = 64  # readings of the system's accounting: points too short for it are held against earlier ones
MIN_GIVE_UP_NS = 5e6  # a first pass may be slow by itself: cold caches, an idle clock
OWN_CLOCK_READING_TRIES = 2  # after points whose launches tell the core's clock themselves


class Session:
    """An open device and the state that all points measured on it share. Raises DeviceError or BuildError where it cannot be
    opened."""

    def __init__(self, job: Job, own_process: bool = True) -> None:
        self._own_process = own_process
        self._loads = [cpu_load.read()]  # before the device is opened, then at the start of each point
        # probed features replace those that the driver claims
        self._claimed = dataclasses.replace(job.device, features=job.features or job.device.features)
        if "peers" not in named(job.benchmark).needs:  # a context of several devices may keep its buffers elsewhere
            self._claimed = dataclasses.replace(self._claimed, peers=0)
        info = job.place.seen(self._claimed)
        before = thread_ids()
        self._job, self._pid = job, os.getpid()
        self.device = runtime(job.runtime).open(info)
        self.device.seed = job.seed + job.process
        self.device.known_facts.update(job.facts)
        launches, _ = probe.build_alu_chain(self.device)
        usable = tuple(sorted(cpu_topology.usable_cpus())) if info.kind == "cpu" else ()
        pin_threads(job.place.cpus or usable, thread_ids() - before)
        self._clock = CoreClock(launches, probe.OPS_PER_STEP, job.cycles_per_op, job.origin)
        self._points = self._again = 0
        self._sensors = PointSensors(open_sensors(info))

    def move(self, benchmark: str, place: Placement, budget: Budget) -> None:
        """Measure the next points of another benchmark, or at a placement that is no property of the process: a number of
        work-groups."""
        if benchmark != self._job.benchmark:
            named(benchmark)  # its modules are imported before the clock settles
            self.device.release()
            if self._own_process:
                gc.collect()
                gc.freeze()  # what was imported since would cost each later point's collection 10 ms and more
            self.settle()
            self._points = self._again = 0
        self._job = dataclasses.replace(self._job, benchmark=benchmark, place=place, budget=budget)
        self.device.info = place.seen(self._claimed)

    def build(self, program: Program) -> Mapping[str, Mapping[str, Value]]:
        """Build a program for other processes; the facts of all kernels so far that are asked for."""
        with contextlib.suppress(BuildError, DeviceError, Skip, KeyError):
            build = self.device.assemble if program.is_ptx else self.device.build
            kernels = build(program.source, **dict(program.defines))
            for name in program.kernels:
                self.device.compiled(kernels[name])
        return self.device.known_facts

    def settle(self) -> None:
        """Keep the device busy until its clock has left the idle state."""
        self._clock.settle(self.device, 0.05)

    def record(self, params: Mapping[str, Any], role: Any, give_up_ns: float = 0.0) -> Record:
        """Prepare and measure one point; any failure becomes the record's status, cause and reason.

        A trial ends after its first pass where that takes longer than `give_up_ns` per unit of the headline metric's amount.
        """
        benchmark, job, begun = named(self._job.benchmark), self._job, time.monotonic()
        record = Record(
            benchmark=benchmark.name,
            version=benchmark.version,
            params=params,
            place=job.place,
            process=job.process,
            status="failed",
            cause=Cause.DEVICE_ERROR,
            role=role,
            started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        self.device.sources()
        build_s = self.device.build_s
        load, beside = cpu_load.read(), cpu_load.CpuUse()
        self._loads = [*self._loads[-MAX_KEPT_LOADS:], load]
        try:
            prepared = benchmark.prepare(self.device, **params)
            end_if_forked(self._pid)  # a copy that the benchmark left behind would measure beside this one
            _check_prepared(prepared, [metric for metric in benchmark.metrics if metric.applies(params)])
            # points of a plan that asks for hundreds are too short for sensors
            sensors = self._sensors if benchmark.peer_of or not benchmark.adaptive else None
            limit_ns = give_up_ns and _first_pass_limit_ns(record, prepared, benchmark, give_up_ns)
            measured, reading, why = self._steady(prepared, role, sensors, limit_ns)
            beside = measured.cpu
            record = dataclasses.replace(
                record,
                status="wrong" if measured.wrong else "ok",
                reason=measured.wrong,
                cause=Cause.WRONG_RESULT if measured.wrong else Cause.NONE,
                series=measured.series,
                core_clock=reading,
                stopped=f"{measured.stopped}{why}",
                checked=measured.checked,
                notes=measured.notes,
                facts=measured.facts,
                context=measured.context,
                parts_s=measured.parts_s,
            )
            record = judged(record, benchmark.metrics)
        except Skip as skip:
            record = dataclasses.replace(record, status="skipped", reason=str(skip), cause=Cause.UNSUPPORTED)
        except sampling.SlowConfiguration as error:
            record = dataclasses.replace(record, status="skipped", reason=str(error), cause=Cause.SLOW_CONFIGURATION)
        except BuildError as error:
            record = dataclasses.replace(record, reason=str(error), log=error.log, cause=Cause.BUILD)
        except DeviceError as error:
            record = dataclasses.replace(record, reason=str(error))
        except MemoryError as error:
            reason = str(error) or "the host is out of memory: lower --size (or -a)"
            record = dataclasses.replace(record, reason=reason, cause=Cause.OUT_OF_MEMORY)
        except AssertionError as error:
            record = dataclasses.replace(record, status="wrong", reason=str(error), cause=Cause.WRONG_RESULT)
        except BaseException as error:  # a bug in a benchmark must not cost the run
            if isinstance(error, KeyboardInterrupt) and not self._own_process:  # Ctrl-C, which a worker process never gets
                raise
            origin = f" ({benchmark.origin})" if benchmark.origin else ""
            reason = f"internal error in {benchmark.name}{origin}: {described(error)}"
            record = dataclasses.replace(record, reason=reason, log=traceback.format_exc(), cause=Cause.INTERNAL_ERROR)
        seconds = round(time.monotonic() - begun, 3)
        now, cpus = cpu_load.read(), os.cpu_count() or 0
        used = beside.load or cpu_load.between(load, now, cpus)
        if used is None and not benchmark.adaptive:  # a plan that asks for hundreds of short points repeats those that differ
            used = cpu_load.since(self._loads, now, cpus)
        record = dataclasses.replace(
            record,
            sources=self.device.sources(),
            seconds=seconds,
            parts_s={n: round(s, 4) for n, s in {**record.parts_s, "build": self.device.build_s - build_s}.items() if s > 5e-5},
            cpu_others=used.others if used else None,
            cpu_stolen=used.stolen_at_work if used else None,
            cpu_waited=beside.waited,
        )
        return _storable_record(record)

    def lost(self) -> bool:
        """Whether the device refuses even the chain that reads its clock: then no other point can succeed in this process."""
        try:
            self._clock.read(self.device, 1)
        except DeviceError:
            return True
        return False

    def _steady(
        self, prepared: Any, role: str, sensors: PointSensors | None, give_up_ns: float
    ) -> tuple[sampling.SampledPoint, ClockReading | None, str]:
        """Measure between two readings of the core clock, on CPUs with others between the samples. After a drift the point is
        measured once more, and the samples of the steadier clock count; on a host whose clock never settles that is done for
        some points only, since it doubles their time. Also returns a remark about it, to follow the reason why sampling
        stopped. The host's own work is not compared with the clock of another device, and times that another program reports
        are compared with none."""
        job = self._job
        budget = dataclasses.replace(job.trial, give_up_ns=give_up_ns) if role == "tune" else job.budget
        self._points += role == "measure"
        if isinstance(prepared, Reported) or (job.device.kind != "cpu" and _is_host_call(prepared)):
            return sampling.sample_point(self.device, prepared, budget, job.quantum_ns, sensors), None, ""
        measured, reading = self._between_readings(prepared, role, budget, sensors)
        if reading.moved <= MIN_REPORTED_DRIFT or role != "measure" or measured.wrong or measured.own_clock:
            return measured, reading, ""
        if self._again >= MIN_REPEATED_POINTS + self._points // POINTS_PER_REPEATED_POINT:
            return measured, reading, "; not taken again although the core clock moved: too many points here were"
        self._again += 1
        second, its_reading = self._between_readings(prepared, role, budget, sensors)
        if its_reading.moved <= reading.moved or second.wrong:
            return second, its_reading, f"; taken a second time, since the core clock moved by {reading.moved:.0%} the first"
        return measured, reading, f"; the first samples count: the core clock moved by {its_reading.moved:.0%} the second time"

    def _between_readings(
        self, prepared: Any, role: str, budget: Budget, sensors: PointSensors | None
    ) -> tuple[sampling.SampledPoint, ClockReading]:
        """The samples of a point, and the core clock before, beside and after them. A plan that asks for hundreds of points has
        no time for readings beside them, and repeats those that differ."""
        job, clock, before, beside = self._job, self._clock, self._clock.recent(self.device), list[ChainTimes]()
        is_watched = job.device.kind == "cpu" and role == "measure" and not named(job.benchmark).adaptive
        between = (lambda: beside.append(clock.read(self.device, 1))) if is_watched else None
        measured = sampling.sample_point(self.device, prepared, budget, job.quantum_ns, sensors, between)
        after = clock.confirmed(self.device, before, OWN_CLOCK_READING_TRIES if measured.own_clock else 0)
        return measured, clock.reading(before, after, beside)


def _storable_record(record: Record) -> Record:
    """The record, or a failed one where it is over a limit of results files: the parent would not accept it as a record."""
    try:
        limits.check_record(record)
    except ValueError as error:
        reason = f"what was measured cannot be stored: {error}"
        cut = dataclasses.replace(record, gate="", series=(), core_clock=None, facts={}, notes=(), log="", context=None)
        return dataclasses.replace(cut, status="failed", reason=reason, cause=Cause.NOT_STORABLE)
    return record


def _check_prepared(prepared: object, metrics: Sequence[Metric]) -> None:
    """Raises DeclarationError where a benchmark returns something that none of its metrics can be of."""
    declared.kind("what its function returns", prepared, Prepared)
    for metric in metrics:
        wanted = {"slope": Slope, "slope_rate": Slope, "overlap": Overlap}.get(metric.form, Work)
        if isinstance(prepared, wanted | Reported):
            return
    if metrics:
        forms, given = ", ".join(dict.fromkeys(metric.form for metric in metrics)), type(prepared).__name__
        raise DeclarationError(f"its function returns a {given}, of which a metric of form {forms} has no value")


def _first_pass_limit_ns(record: Record, prepared: Prepared, benchmark: Benchmark, give_up_ns: float) -> float:
    """The time after whose excess a trial ends with its first pass; passes that cost a search nothing are never too long."""
    metric = record_values.headline_metric(benchmark, record.params)
    if not isinstance(prepared, Work):
        return 0.0
    return max(MIN_GIVE_UP_NS, give_up_ns * record_values.amount_of(record, prepared, metric))


def _is_host_call(prepared: Prepared) -> bool:
    return isinstance(prepared, Work) and bool(prepared.commands) and all(isinstance(c, Call) for c in prepared.commands)


def probe_device(job: Job) -> dict[str, Any]:
    """Open and probe the device of a job; the result has the fields of ProbeResult, as JSON has them."""
    runtime(job.runtime).repair(job.device)
    device = runtime(job.runtime).open(dataclasses.replace(job.device, peers=0))
    probed = probe.probe(device)
    launches, _ = probe.build_alu_chain(device)
    step = clock_step_ns([device.time(launches(n), 1, "device") for n in range(20, 84)])
    return {**dataclasses.asdict(probed), "features": sorted(probed.features), "quantum_ns": step}


def serve() -> None:
    """Read the job, then points until the input ends; answer each with one line."""
    end_with_parent()
    questions, answers = open_pipes()
    job = parse_job(json.loads(questions.readline()))
    if job.place.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, job.place.cpus)  # before the driver makes its threads, which inherit it

    own_pid = os.getpid()
    os.register_at_fork(after_in_child=lambda: detach(questions, answers))

    def answer(text: str) -> None:
        end_if_forked(own_pid)
        answers.write(text + "\n")
        answers.flush()

    try:
        if not job.benchmark:
            answer(json.dumps(probe_device(job)))
            return
        external.trust(job.left_out)
        add_folders(job.folders)
        named(job.benchmark)  # its modules are imported before the first point is timed and before the clock settles
        session = Session(job)
    except (DeviceError, BuildError, ExternalError) as error:
        answer(json.dumps({"error": str(error), "log": getattr(error, "log", "")}))
        return
    session.settle()
    answer(json.dumps({"ready": True}))
    gc.disable()  # not within a sample; between points instead
    gc.collect()
    gc.freeze()  # objects that exist now stay, and need not be scanned after each point
    for line in questions:
        point = json.loads(line)
        if "build" in point:
            answer(json.dumps(session.build(Program(**point["build"]))))
            continue
        if "release" in point:
            session.device.release()
            gc.collect()
            answer("{}")
            continue
        if "place" in point:
            session.move(point["benchmark"], placement_of(point["place"]), Budget(**point["budget"]))
        number = f"{point['number']} " if "number" in point else ""  # a parent of an older version has none
        record = session.record(point["params"], point["role"], point.get("give_up_ns", 0.0))
        if record.status == "failed" and session.lost():
            answer(number + json.dumps({"lost": record.reason}))
            return
        answer(number + encode_record(record))
        del record
        gc.collect()


if __name__ == "__main__":
    ended = 1
    try:
        serve()
        ended = 0
    except BaseException:  # the parent keeps the output as the log
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(ended)  # everything is saved, and drivers may take long to unload
