"""Isolation: points are measured in worker processes, whose death or silence costs one point."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from clmembench.benchmarks import named
from clmembench.host import failures, processes
from clmembench.host.failures import describe_end, last_words, not_started
from clmembench.measure.job import Job, ProbeResult, Program, job_line
from clmembench.measure.worker import Session, probe_device
from clmembench.model import BuildError, Cause, DeviceError, Placement, Point, Record, Value
from clmembench.results.line_limits import MAX_LINE_BYTES, check_line
from clmembench.results.record_lines import decode_record
from clmembench.runtimes import runtime

TERMINATION_GRACE_S = 2.0  # between TERM and KILL
START_S = 60.0  # for a worker process to open its device and report that it is ready
BLAS_THREADS_SLEEP = ("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles after their work, not 2^28 (0.1 s)
REST_S = 20.0  # for a worker process to give back what it holds of the device
STOP_CHECK_INTERVAL_S = 0.25  # between two checks whether a starting worker process is stopped
DEVICE_LOST_ANSWER = b'{"lost":'  # how the last answer of a worker process begins whose device answers nothing any more


class WorkerError(Exception):
    """The worker process gives no record: `cause` says why, the message says so to people, `log` is what it printed."""

    def __init__(self, reason: str, cause: Cause, log: str = "") -> None:
        super().__init__(reason)
        self.cause = cause
        self.log = log

    @property
    def status(self) -> Literal["timeout", "failed"]:
        """The status of a record of the point that was to be measured."""
        return "timeout" if self.cause is Cause.TIMEOUT else "failed"

    def last_words(self) -> str:
        """What the process printed last, to be put behind the message; "" where it printed nothing."""
        return last_words(self.log)


@dataclass(frozen=True, slots=True)
class Start:
    """How a worker process is started: with another interpreter than this one, and additional environment variables."""

    python: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, module: str) -> list[str]:
        """The command that runs a module of this package, or of another interpreter's packages; never of the current folder."""
        return [self.python, "-P", "-m", module] if self.python else processes.python_command(module)

    def variables(self) -> dict[str, str]:
        """The whole environment, without PYTHONPATH for another interpreter, which would find this one's packages by it."""
        inherited = {name: value for name, value in os.environ.items() if not (self.python and name == "PYTHONPATH")}
        return {**inherited, **self.environment}


class Worker(Protocol):
    """Measures the points of one job."""

    @property
    def job(self) -> Job: ...
    def move(self, job: Job) -> None: ...
    def rest(self) -> None: ...
    def measure(self, point: Point, timeout_s: float) -> Record: ...
    def end(self) -> None: ...


def _is_peer(benchmark: str) -> bool:
    """Whether a library is measured; not by a benchmark that only the worker process finds."""
    try:
        return bool(benchmark and named(benchmark).peer_of)
    except KeyError:
        return False


class WorkerProcess:
    """A process that measures the points of one job. Use it as a context manager: leaving it ends the process."""

    def __init__(self, job: Job, start: Start = Start()) -> None:
        """Raises WorkerError when no process can be started."""
        self.job, self.start = job, start
        try:
            self._start(job)
        except OSError as error:
            raise WorkerError(not_started(error), Cause.PROCESS_NOT_STARTED) from error
        self._buffer = b""
        self._ready = False
        self._started_s = time.monotonic()
        self._asked = 0  # points so far
        self._moved = False  # since the last point
        self._send(job_line(job))

    def _start(self, job: Job) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker process
        variables = {**self.start.variables(), **runtime(job.runtime).environment(job.device, job.place)}
        self._variables = environment = processes.python_environment(variables)
        environment.pop("PYTHONOPTIMIZE", None)  # checks are assertions, which must all be executed
        if not _is_peer(job.benchmark):  # a check's threads would spin beside the samples after it
            environment.setdefault(*BLAS_THREADS_SLEEP)
        self._process = subprocess.Popen(
            self.start.command("clmembench.measure.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def probe(self, stopped_s: float = START_S) -> ProbeResult:
        """Features and clocks of the device. Raises WorkerError when it cannot be opened and probed, or the process is stopped
        for `stopped_s`."""
        answer = self._reply(self._answer(START_S, stopped_s))
        if "error" in answer:
            raise WorkerError(str(answer["error"]), Cause.DEVICE_UNAVAILABLE, str(answer.get("log", "")))
        try:
            return ProbeResult(**_probe_fields(answer))
        except (KeyError, TypeError) as error:
            raise self._no_answer(repr(answer)) from error

    def move(self, job: Job) -> None:
        """Measure the next points of a job with another benchmark, or another placement that is no property of the process."""
        self.job, self._moved = job, True

    def rest(self) -> None:
        """Give back what it holds of the device until its next point. Raises WorkerError where it has ended."""
        self._send('{"release": true}')
        self._reply(self._answer(REST_S))

    def measure(self, point: Point, timeout_s: float) -> Record:
        """The record of one point, whose time begins when the process is ready; a process that is stopped while it starts has
        the same limit. Raises WorkerError when there will be no record; the process has then ended."""
        start_s = self._await_ready(timeout_s)
        self._asked += 1
        more: dict[str, object] = {"give_up_ns": point.give_up_ns} if point.give_up_ns else {}  # an older worker knows none
        if self._moved:
            more |= {name: dataclasses.asdict(getattr(self.job, name)) for name in ("place", "budget")}
            more["benchmark"] = self.job.benchmark
            self._moved = False
        self._send(json.dumps({"params": dict(point.params), "role": point.role, "number": self._asked, **more}))
        line = self._matched(self._answer(timeout_s))
        if line.startswith(DEVICE_LOST_ANSWER):
            log = self._log()
            self.end()
            raise WorkerError(f"the device was lost: {self._reply(line)['lost']}", Cause.DEVICE_LOST, log)
        try:
            record = decode_record(line)
        except ValueError as error:
            raise self._no_answer(repr(line[:2000]), "record") from error
        return dataclasses.replace(record, parts_s={**record.parts_s, "start": start_s}) if start_s else record

    def build(self, program: Program, timeout_s: float) -> Mapping[str, Mapping[str, Value]]:
        """Build a program, so that the driver's cache has it; the facts of all kernels so far that are asked for. Raises
        WorkerError where the process has ended."""
        self._await_ready(timeout_s)
        self._send(json.dumps({"build": dataclasses.asdict(program)}))
        return self._reply(self._answer(timeout_s))

    def _await_ready(self, timeout_s: float) -> float:
        """Seconds that the process took to open its device; 0 where it was ready before."""
        if self._ready:
            return 0.0
        answer = self._reply(self._answer(START_S, timeout_s))
        if "error" in answer:
            reason = f"the device cannot be opened: {answer['error']}"
            raise WorkerError(reason, Cause.DEVICE_UNAVAILABLE, str(answer.get("log", "")))
        self._ready = True
        return round(time.monotonic() - self._started_s, 3)

    def _matched(self, line: bytes) -> bytes:
        """An answer without the number of the question, which it must repeat: what another process wrote into the pipe, or an
        answer to another point, is refused. Workers of older versions, by another interpreter, number no answers."""
        number, _, answer = line.partition(b" ")
        if number == b"%d" % self._asked:
            return answer
        if self.start.python and line.startswith(b"{"):
            return line
        raise self._no_answer(repr(line[:2000]), "answer to this point")

    def _reply(self, line: bytes) -> dict[str, Any]:
        """An answer other than a record. Raises WorkerError for anything but a JSON object."""
        try:
            check_line(line)
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
        except (ValueError, RecursionError):
            pass
        raise self._no_answer(repr(line[:2000]))

    def _no_answer(self, text: str, wanted: str = "answer") -> WorkerError:
        self.end()
        return WorkerError(f"its process answered with something that is no {wanted}", Cause.INVALID_ANSWER, text)

    def end(self) -> None:
        """Close the input of the process, which ends it; send TERM and then KILL where that is not enough."""
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        for stop in (None, signal.SIGTERM, signal.SIGKILL):
            if stop is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, stop)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(TERMINATION_GRACE_S)
                break
        self._end_group()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def kill(self) -> None:
        """Send TERM, and KILL after a grace period: an endless kernel ignores Ctrl-C but not these."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(TERMINATION_GRACE_S)
        self._end_group()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver's call may hold even a killed process
            self._process.wait(TERMINATION_GRACE_S)

    def _end_group(self) -> None:
        """Kill every process that the worker process started, which would disturb the next measurement."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, line: str) -> None:
        # a process that has ended is noticed when it does not answer
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _answer(self, timeout_s: float, stopped_s: float | None = None) -> bytes:
        """The next line. A line that is already in the pipe counts however late it is read: this process itself may have been
        stopped. Raises WorkerError when the process dies first, the time passes, or it is stopped for `stopped_s`."""
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if self._buffer:  # the rest of a long answer arrives as the pipe is read
                    deadline = max(deadline, time.monotonic() + TERMINATION_GRACE_S)
                if not self._readable(selector, deadline, stopped_s):
                    self.kill()
                    reason = f"no answer within {timeout_s:g} s; its process was ended"
                    raise WorkerError(reason, Cause.TIMEOUT, self._log())
                chunk = os.read(descriptor, 1 << 20)
                if not chunk:
                    death, log = self._death(), self._log()
                    raise WorkerError(f"{death}{self._death_cause(log)}", Cause.PROCESS_DIED, log)
                self._buffer += chunk
                if len(self._buffer) > MAX_LINE_BYTES + 1 and b"\n" not in self._buffer[: MAX_LINE_BYTES + 1]:
                    raise self._no_answer(f"over {MAX_LINE_BYTES} bytes in one line")
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _readable(self, selector: selectors.BaseSelector, deadline: float, stopped_s: float | None) -> bool:
        """Whether there is something to read by the deadline, or when this process, stopped meanwhile, next looks. Only with
        `stopped_s`, while the worker process starts, is it checked whether that is stopped: during a measurement this process
        sleeps."""
        since: float | None = None
        while True:
            left = deadline - time.monotonic()
            if selector.select(max(0.0, left if stopped_s is None else min(left, STOP_CHECK_INTERVAL_S))):
                return True
            if (
                left <= 0
            ):  # a wait during which this process was stopped ends without an event even if there is data: look once more
                return False
            if stopped_s is None:
                continue
            since = (since or time.monotonic()) if self._stopped() else None
            if since is not None and time.monotonic() - since > stopped_s:
                self.kill()
                reason = f"no answer within {stopped_s:g} s: its process was stopped by a signal, and was ended"
                raise WorkerError(reason, Cause.TIMEOUT, self._log())

    def _stopped(self) -> bool:
        """Whether the process is stopped, as by SIGSTOP, rather than slow."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except (ChildProcessError, AttributeError):  # the process has ended, or the system has no waitid
            return False

    def _death(self) -> str:
        try:
            code = self._process.wait(TERMINATION_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "its process closed its answers and did not end"
        self._end_group()
        # Linux kills processes so when memory runs out
        killed = ": killed from outside, perhaps because the host ran out of memory: lower --size (or -a)"
        why = killed if code == -signal.SIGKILL else ""
        return f"its process {describe_end(code)}{why}"

    def _death_cause(self, log: str) -> str:
        cause = runtime(self.job.runtime).death_cause(self.job.device, log, self._variables) or failures.scarcity_in(log)
        return f": {cause}" if cause else ""

    def _log(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 20_000))
        return self._errors.read().decode(errors="replace")


def probed(job: Job, isolated: bool = True, stopped_s: float = START_S) -> ProbeResult:
    """Features and clocks of a device, probed in a worker process if `isolated`. Raises WorkerError when it cannot be
    opened, or the process is stopped for `stopped_s`."""
    if isolated:
        with WorkerProcess(job) as child:
            return child.probe(stopped_s)
    try:
        return ProbeResult(**_probe_fields(probe_device(job)))
    except (DeviceError, BuildError) as error:
        raise WorkerError(str(error), Cause.DEVICE_UNAVAILABLE, getattr(error, "log", "")) from error


def _probe_fields(answer: dict[str, object]) -> dict[str, Any]:
    return {**answer, "features": frozenset(answer["features"])}  # type: ignore[call-overload]


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

    def move(self, job: Job) -> None:
        """Measure the next points of another job."""
        self.job = job
        self._session.move(job.benchmark, job.place, job.budget)

    def rest(self) -> None:
        """Give back what it holds of the device until its next point."""
        self._session.device.release()

    def measure(self, point: Point, timeout_s: float) -> Record:
        """The record of one point; there is no time limit."""
        with contextlib.redirect_stdout(sys.stderr):  # what a benchmark prints is no output of the command
            return self._session.record(point.params, point.role, point.give_up_ns)

    def end(self) -> None:
        """There is nothing to end: the session frees what the device holds."""
