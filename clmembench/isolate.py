"""The child process: a fresh interpreter opens the device and measures points; a crash or a hang costs one point.

The parent half (Child) starts it, hands it points one a line and turns its death or silence into records. The child half
(`python -m clmembench.isolate`) answers with one record a line on what was its standard output; anything that a driver prints
goes to standard error, which the parent keeps for the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clmembench import measure, probe, topology
from clmembench.benchmarks import discovered
from clmembench.model import BuildError, Device, DeviceError, DeviceInfo, Place, Point, Record, Skip
from clmembench.results import decode_record, encode
from clmembench.runtimes import runtime
from clmembench.stats import MIN_SAMPLES

STAMPS = 1.05  # event time over host time: more is no rounding
GRACE_S = 2.0  # between TERM and KILL
START_S = 60.0  # for a child to open its device and say so
LOST = b'{"lost":'  # how a child's last answer begins where its device answers nothing any more


@dataclass(frozen=True, slots=True)
class Job:
    """What a child needs to know before its first point. A job without a benchmark probes the device and ends."""

    runtime: str
    device: DeviceInfo
    benchmark: str = ""
    place: Place = Place()
    process: int = 0
    seed: int = 0
    budget: measure.Budget = measure.Budget()
    trial: measure.Budget = measure.Budget(0.0, 0.25, 0.05, 3e5, trial=True)
    features: frozenset[str] = frozenset()
    cycles_per_op: float | None = None
    origin: str = ""
    quantum_ns: float = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """What probing a device gave: features by behaviour, the chain's cycles per operation, the step of its clocks in ns."""

    features: frozenset[str]
    cycles_per_op: float | None
    origin: str
    quantum_ns: float


class ChildError(Exception):
    """The child died, or said nothing in time; the message is a reason for people."""

    def __init__(self, reason: str, timed_out: bool, log: str) -> None:
        super().__init__(reason)
        self.timed_out = timed_out
        self.log = log


# ---- the parent's half ----------------------------------------------------------------------------------------------


class Child:
    """One child process serving one job. Use as a context manager: leaving it ends the process."""

    def __init__(self, job: Job) -> None:
        """Raises ChildError when no process can be started."""
        self.job = job
        try:
            self._start(job)
        except OSError as error:
            reason = f"no process could be started: {error.strerror}: free memory, or space for temporary files"
            raise ChildError(reason, False, "") from error
        self._buffer = b""
        self._send(json.dumps(dataclasses.asdict(job), default=sorted))

    def _start(self, job: Job) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        environment = {**os.environ, **runtime(job.runtime).environment(job.device, job.place)}
        environment.pop("PYTHONOPTIMIZE", None)  # checks are assertions, and none may be left out
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clmembench.isolate"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def probe(self) -> Found:
        """Raises ChildError when the device cannot even be opened and probed."""
        answer = json.loads(self._answer(START_S))
        if "error" in answer:
            raise ChildError(answer["error"], False, answer.get("log", ""))
        return Found(**{**answer, "features": frozenset(answer["features"])})

    def measure(self, point: Point, timeout_s: float) -> Record:
        """The record of one point. Raises ChildError when there will be none; the child is then gone."""
        self._send(json.dumps({"params": dict(point.params), "role": point.role}))
        line = self._answer(timeout_s)
        if line.startswith(LOST):
            log = self._log()
            self.end()
            raise ChildError(f"the device was lost: {json.loads(line)['lost']}", False, log)
        try:
            return decode_record(line)
        except ValueError as error:
            self.end()
            raise ChildError("its process answered with something that is no record", False, repr(line[:2000])) from error

    def end(self) -> None:
        """Close its input, which ends it; TERM and then KILL where that is not enough."""
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        for stop in (None, signal.SIGTERM, signal.SIGKILL):
            if stop is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, stop)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
                break
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def kill(self) -> None:
        """TERM, and KILL after a grace: an endless kernel ignores Ctrl-C but not these."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
                return
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _send(self, line: str) -> None:
        # a child that is gone is noticed when it does not answer
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _answer(self, timeout_s: float) -> bytes:
        """The next line. Raises ChildError when the child dies first or the time passes."""
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self.kill()
                    raise ChildError(f"no answer within {timeout_s:g} s; its process was ended", True, self._log())
                chunk = os.read(descriptor, 1 << 20)
                if not chunk:
                    raise ChildError(self._death(), False, self._log())
                self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _death(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"its process ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
            # what Linux does to a process when memory runs out
            why = ": killed from outside, perhaps because the host ran out of memory: lower --size" if name == "SIGKILL" else ""
            return f"its process died of {name}{why}"
        except ValueError:
            return f"its process died of signal {-code}"

    def _log(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 20_000))
        return self._errors.read().decode(errors="replace")


# ---- the child's half -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Session:
    """An open device and what every point measured on it shares."""

    job: Job
    device: Device
    clock: measure.CoreClock

    def record(self, params: Mapping[str, Any], role: Any) -> Record:
        """Prepare and measure one point; whatever goes wrong becomes the record's status and reason."""
        benchmark, job, begun = discovered()[self.job.benchmark], self.job, time.monotonic()
        record = Record(
            benchmark=benchmark.name,
            version=benchmark.version,
            params=params,
            place=job.place,
            process=job.process,
            status="failed",
            role=role,
            started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        self.device.sources()
        try:
            prepared = benchmark.prepare(self.device, **params)
            before_ns = self.clock.read(self.device)
            budget = job.trial if role == "tune" else job.budget
            measured = measure.measure(self.device, prepared, budget, job.quantum_ns)
            reading = self.clock.reading(before_ns, self.clock.read(self.device))
            record = dataclasses.replace(
                record,
                **_judged(measured, role),
                series=measured.series,
                core_clock=reading,
                stopped=measured.stopped,
                checked=measured.checked,
                notes=measured.notes,
            )
        except Skip as skip:
            record = dataclasses.replace(record, status="skipped", reason=str(skip))
        except BuildError as error:
            record = dataclasses.replace(record, reason=str(error), log=error.log)
        except (DeviceError, MemoryError) as error:
            record = dataclasses.replace(record, reason=str(error) or "the host is out of memory: lower --size")
        except AssertionError as error:
            record = dataclasses.replace(record, status="wrong", reason=str(error))
        except Exception as error:  # a bug in a benchmark must not cost the run
            reason = f"internal error in {benchmark.name}: {type(error).__name__}: {error}"
            record = dataclasses.replace(record, reason=reason, log=traceback.format_exc())
        seconds = round(time.monotonic() - begun, 3)
        return dataclasses.replace(record, sources=self.device.sources(), seconds=seconds)

    def lost(self) -> bool:
        """Whether the device refuses even the chain that gave its clock: then no other point can succeed in this process."""
        try:
            self.clock.read(self.device, times=1)
        except DeviceError:
            return True
        return False


def _judged(measured: measure.Measured, role: str) -> dict[str, Any]:
    """Status and reason of what sampling gave."""
    if measured.wrong:
        return {"status": "wrong", "reason": measured.wrong}
    stamped = [s for s in measured.series if s.device_ns is not None]
    if any(sum(s.device_ns or ()) > STAMPS * sum(s.host_ns) for s in stamped):
        return {"status": "suspect", "reason": "the driver's event stamps span more time than the host saw pass"}
    if any(min(s.device_ns or (0,)) < 0 for s in stamped):
        return {"status": "suspect", "reason": "the driver's event stamps say that a kernel ended before it started"}
    if any(s.clock == "queue" and min(s.times_ns(), default=0) <= 0 for s in measured.series):
        return {"status": "suspect", "reason": "the driver's event stamps say that a kernel started before it was queued"}
    samples = min((len(s.host_ns) for s in measured.series), default=0)
    if samples < MIN_SAMPLES and role == "measure":
        return {"status": "suspect", "reason": f"only {samples} samples: {measured.stopped}; lower --size"}
    return {"status": "ok", "reason": ""}


def _find(device: Device) -> dict[str, Any]:
    """Probe an open device; the dict is Found's, as JSON."""
    probed = probe.probe(device)
    launches, _ = probe.chain(device)
    step = measure.clock_step_ns([device.time(launches(n), 1, "device") for n in range(20, 84)])
    return {**dataclasses.asdict(probed), "features": sorted(probed.features), "quantum_ns": step}


def _serve() -> None:
    """Read the job, then points until the input ends; answer each with one line."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # drivers print to standard output: keep that out of the answers
    _end_with_parent()
    raw = json.loads(sys.stdin.readline())
    claims = raw.pop("device")
    # once probed, what the device was seen to do replaces what its driver says
    info = DeviceInfo(**{**claims, "features": frozenset(raw.pop("features") or claims["features"])})
    place = Place(raw["place"]["compute_units"], tuple(raw["place"]["cpus"]), raw["place"]["placement"], raw["place"]["cores"])
    if place.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, place.cpus)  # before the driver makes its threads, which inherit it
    info = place.seen(info)
    job = Job(
        device=info,
        place=place,
        budget=measure.Budget(**raw.pop("budget")),
        trial=measure.Budget(**raw.pop("trial")),
        features=info.features,
        **{k: v for k, v in raw.items() if k != "place"},
    )

    def answer(text: str) -> None:
        answers.write(text + "\n")
        answers.flush()

    before = _threads()
    try:
        device = runtime(job.runtime).open(info)
        if not job.benchmark:
            answer(json.dumps(_find(device)))
            return
        device.seed = job.seed + job.process
        launches, _ = probe.chain(device)
    except (DeviceError, BuildError) as error:
        if job.benchmark:
            sys.exit(f"cannot open the device: {error}")
        answer(json.dumps({"error": str(error), "log": getattr(error, "log", "")}))
        return
    _pin(place.cpus or (tuple(sorted(topology.usable_cpus())) if info.kind == "cpu" else ()), _threads() - before)
    clock = measure.CoreClock(launches, probe.OPS_PER_STEP, job.cycles_per_op, job.origin)
    clock.settle(device, 0.05)
    session = _Session(job, device, clock)
    gc.disable()  # not within a sample; between points instead
    for line in sys.stdin:
        point = json.loads(line)
        record = session.record(point["params"], point["role"])
        if record.status == "failed" and session.lost():
            answer(json.dumps({"lost": record.reason}))
            return
        answer(encode(record))
        del record
        gc.collect()


def _threads() -> set[int]:
    """The ids of this process's threads; empty where the system does not say."""
    try:
        return {int(path.name) for path in Path("/proc/self/task").iterdir()}
    except OSError:
        return set()


def _pin(cpus: tuple[int, ...], workers: set[int]) -> None:
    """Hold the driver's threads to one CPU each, in the order they were made: left alone, two of them have been seen to share
    one CPU for a whole process. Where the driver's threads are not as many as the CPUs, they stay free."""
    if len(workers) == len(cpus) and hasattr(os, "sched_setaffinity"):
        for thread, cpu in zip(sorted(workers), cpus, strict=True):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, {cpu})


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent dies; only Linux can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        # a parent that died before this call sends nothing any more, but nobody holds the other end of standard input
        other_end = select.poll()
        other_end.register(0, 0)
        if other_end.poll(0):
            sys.exit("the parent has ended")


if __name__ == "__main__":
    _serve()
