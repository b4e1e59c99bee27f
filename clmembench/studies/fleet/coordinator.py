"""The client of a fleet's run: a task for each device, and copies of the files that the tasks write, as they grow."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clmembench import __version__
from clmembench.cli import exit_codes
from clmembench.cli.running.outlook import ProgressEstimate, Snapshot
from clmembench.cli.running.session import slug
from clmembench.measure.device_list import decode_device
from clmembench.results.record_lines import decode_record
from clmembench.sanitize import printable
from clmembench.studies.fleet import worker
from clmembench.units import count

if TYPE_CHECKING:
    from distributed import Client, Future

    from clmembench.model import DeviceInfo
    from clmembench.studies.fleet.journal import Journal, Plan

POLL_S = 1.0  # between two looks at the workers' files
HOSTS_AT_ONCE = 64  # that are asked together
NO_WORKER_S = 60.0  # without a worker, after which a device is given up
UNASSIGNED_S = 5.0  # after which a task that no worker has is submitted anew: the scheduler looks at new workers only
MAX_ATTEMPTS = 2  # of a device, where it is not the cause that the first one failed
SYNC_S = 5.0  # between two fsyncs of a copy
OF_THE_DEVICE = (exit_codes.USAGE, exit_codes.NO_DEVICE)  # exit codes of a `run` that would fail again

SCHEDULER_LOST = "the scheduler does not answer any more"

Status = Literal["waiting", "measuring", "complete", "failed"]


class SchedulerLostError(Exception):
    """The scheduler does not answer any more."""


@dataclass(slots=True)
class Target:
    """A device of the fleet, and how far it is. `selector` is that of `run`, "" while no worker of its host has been there;
    `unserved_since` is when there was no worker of its host, or none that had its task, 0 where there is one."""

    name: str
    host: str
    resource: str
    info: DeviceInfo
    estimate: ProgressEstimate
    attempt: int
    status: Status = "waiting"
    selector: str = ""
    begun: float = 0.0
    failures: int = 0
    future: Future | None = None
    worker: str = ""
    unserved_since: float = 0.0
    has_bad: bool = False

    @property
    def words(self) -> str:
        return printable(self.resource)

    @property
    def measured(self) -> str:
        """How much of it there is."""
        at = self.estimate.at(0.0)
        return f"{at.done} of {at.bound}{at.total} measurements" if at.total else count(at.done, "measurement")

    @property
    def is_active(self) -> bool:
        return self.status in ("waiting", "measuring")


class Copy:
    """The client's copy of a device's file: the beginning of it at any time. It is open only while it is written to, since a
    process may open fewer files than a fleet has devices."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.path, self.size = path, path.stat().st_size
        self._synced, self._line = time.monotonic(), b""

    def append(self, content: bytes) -> Sequence[bytes]:
        """Write more of it: the lines that it completes."""
        with self.path.open("ab") as file:
            file.write(content)
            file.flush()
            if time.monotonic() - self._synced >= SYNC_S:
                self._synced = time.monotonic()
                os.fsync(file.fileno())
        self.size += len(content)
        *lines, self._line = (self._line + content).split(b"\n")
        return lines


@dataclass(slots=True)
class Coordinator:
    """Measures the devices of a plan. `estimate` is that of a device's run, and raises ValueError where it has nothing to
    measure; `finish` takes a complete file. Missing workers are waited for until `expected_workers` have been there, for
    `patience_s` at most."""

    plan: Plan
    journal: Journal
    incoming: Path
    estimate: Callable[[DeviceInfo], ProgressEstimate]
    finish: Callable[[Path], None]
    expected_workers: int
    patience_s: float
    targets: dict[str, Target] = field(default_factory=dict)
    _copies: dict[str, Copy] = field(default_factory=dict)
    _hosts: dict[str, str] = field(default_factory=dict)  # of workers, by their addresses
    _left_out: set[str] = field(default_factory=set)  # devices that have nothing to measure
    _silent: set[str] = field(default_factory=set)  # addresses of workers that were no use when they were asked first
    _seen: int = 0
    _begun: float = 0.0
    _client: Client = field(init=False)

    def add(self, name: str, about: Mapping[str, Any], attempt: int = 1) -> None:
        """A device of the fleet. It is measured as soon as its host has a worker and measures no other device."""
        info = decode_device(about["info"])
        try:
            estimate = self.estimate(info)
        except ValueError as error:
            exit_codes.say(printable(f"left out: {about['resource']}: {error}"))
            self._left_out.add(name)
            return
        target = self.targets[name] = Target(name, about["host"], about["resource"], info, estimate, attempt)
        path = self._path(target)
        for line in path.read_bytes().splitlines() if path.is_file() else ():
            self._count(target, line)

    def measure(self, client: Client, show: Callable[[], None]) -> None:
        """Measure by a client's workers until each device is complete or given up; `show` is called after each look at them.
        Raises SchedulerLostError."""
        self._client, self._begun = client, time.monotonic()
        while True:
            self._look()
            show()
            missing = self._seen < self.expected_workers and time.monotonic() - self._begun < self.patience_s
            if not missing and not any(target.is_active for target in self.targets.values()):
                return
            time.sleep(POLL_S)

    def snapshot(self) -> Snapshot:
        """How far the fleet is. The devices of a host follow each other, and hosts measure at the same time."""
        now = time.monotonic()
        done, total, left_s = 0, 0, dict[str, float]()
        for target in self.targets.values():
            at = target.estimate.at(now - target.begun if target.begun else 0.0)
            done += at.done
            total += at.total or at.done if target.is_active else at.done
            if target.is_active:
                left_s[target.host] = left_s.get(target.host, 0.0) + (at.left_s or 0.0)
        return Snapshot(done, total, now - self._begun, max(left_s.values(), default=0.0))

    def _look(self) -> None:
        from distributed.comm.core import CommClosedError

        try:
            if self._client.status != "running":
                raise SchedulerLostError(SCHEDULER_LOST)
            self._meet_workers()
            self._copy_files()
            self._follow_tasks()
            self._submit()
        except CommClosedError as error:
            raise SchedulerLostError(SCHEDULER_LOST) from error
        except Exception as error:  # a client that has lost its scheduler may raise anything
            if self._client.status == "running" and not (isinstance(error, OSError) and error.filename is None):
                raise
            raise SchedulerLostError(SCHEDULER_LOST) from error

    def _meet_workers(self) -> None:
        """Forget workers that are gone, and prepare new ones."""
        here = self._client.scheduler_info(n_workers=-1)["workers"]
        for address in self._hosts.keys() - here.keys():
            exit_codes.say(f"a worker of {self._hosts.pop(address)} has ended")
        new = [address for address in here if address not in self._hosts]
        answers = self._ask(worker.prepare, new, self.plan.selector)
        for address in set(new) - answers.keys() - self._silent:
            self._silent.add(address)
            exit_codes.say(f"warning: the worker {address} cannot be used: install clmembench {__version__} there")
        for address, answer in answers.items():
            found: worker.HostDevices = json.loads(answer)
            host = found["host"]
            if host not in self._hosts.values():
                other = [f"{host} has clmembench {found['version']}"] if found["version"] != __version__ else []
                for text in (*other, *found["left_out"]):
                    exit_codes.say(f"warning: {text}")
            self._hosts[address] = host
            self._seen += 1
            for device, info in found["devices"].items():
                name = f"{self.plan.fleet}-{slug(host)}-{device}"
                if name not in self.targets.keys() | self._left_out:
                    about = {"host": host, "resource": worker.resource(host, device), "info": info}
                    self.add(name, about)
                    if name in self.targets:
                        self.journal.device(name, about)
                if name in self.targets:
                    self.targets[name].selector = found["selectors"][device]

    def _ask(self, function: Callable[..., Any], addresses: Sequence[str], *args: Any) -> dict[str, Any]:
        """What a function returns on each of these workers; nothing of those that are gone."""
        return dict(self._client.run(function, *args, workers=list(addresses), on_error="ignore")) if addresses else {}

    def _one_each(self) -> dict[str, str]:
        """The address of a worker of each host."""
        return {host: address for address, host in self._hosts.items()}

    def _path(self, target: Target) -> Path:
        return self.incoming / f"{target.name}.jsonl"

    def _copy_files(self) -> None:
        """Append to the copies what the workers' files have more."""
        answering = self._one_each()
        measuring = [one for one in self.targets.values() if one.status == "measuring" and one.host in answering]
        for at in range(0, len(measuring), HOSTS_AT_ONCE):
            group = measuring[at : at + HOSTS_AT_ONCE]
            offsets = {target.name: self._copies[target.name].size for target in group}
            answers = self._ask(worker.read_since, list({answering[one.host]: None for one in group}), self.plan.fleet, offsets)
            for target in group:
                content, is_all, ended = answers.get(answering[target.host], {}).get(target.name, (b"", False, ""))
                if content:
                    target.unserved_since = 0.0
                    for line in self._copies[target.name].append(content):
                        self._count(target, line)
                if ended and is_all:
                    self._end(target, json.loads(ended))

    def _count(self, target: Target, line: bytes) -> None:
        try:
            record = decode_record(line)
        except ValueError:  # the header
            return
        target.estimate.add(record, time.monotonic() - target.begun if target.begun else 0.0)

    def _end(self, target: Target, outcome: worker.Outcome) -> None:
        """What follows from a `run` that has ended."""
        code = outcome["exit"]
        if code in worker.MEASURED:
            self.finish(self._copies.pop(target.name).path)
            self.journal.complete(target.name, code)
            target.status, target.future, target.has_bad = "complete", None, bool(code)
            exit_codes.say(
                f"{target.words}: {count(target.estimate.at(0.0).done, 'measurement')}{', some of them bad' if code else ''}"
            )
        elif outcome["attempt"] >= target.attempt:
            self._retry(target, f"run ended with {code}: {outcome['said']}", code not in OF_THE_DEVICE)

    def _follow_tasks(self) -> None:
        """Notice tasks whose worker has died, and devices whose host has no worker."""
        where = {key: address for address, keys in self._client.processing().items() for key in keys}
        answering, now = self._one_each(), time.monotonic()
        for target in self.targets.values():
            if not target.is_active:
                continue
            address = where.get(_key(target)) if target.status == "measuring" else answering.get(target.host)
            if address:
                target.unserved_since = 0.0
                if target.status == "measuring":
                    died, target.worker = target.worker not in ("", address), address
                    if died:
                        self._died(target, False)
                continue
            target.unserved_since = target.unserved_since or now
            served = target.host in answering
            if served and now - target.unserved_since > UNASSIGNED_S:
                self._died(target, True)
            elif not served and now - target.unserved_since > NO_WORKER_S and self._seen >= self.expected_workers:
                self._fail(target, f"{target.host} has no worker any more: {target.measured}")

    def _died(self, target: Target, anew: bool) -> None:
        self._retry(target, f"its worker died after {target.measured}", True, anew)

    def _retry(self, target: Target, why: str, again: bool, anew: bool = True) -> None:
        """Try a device once more where it is not the cause of a failure: `anew`, or go on where the scheduler did so."""
        target.failures += 1
        if not again or target.failures >= MAX_ATTEMPTS:
            self._fail(target, why)
            return
        exit_codes.say(f"{target.words}: {why}: another worker goes on")
        if anew:
            target.attempt += 1
            target.status, target.worker, target.unserved_since = "waiting", "", 0.0

    def _fail(self, target: Target, why: str) -> None:
        if target.future is not None:
            target.future.cancel()
        self._copies.pop(target.name, None)
        target.status, target.future = "failed", None
        self.journal.failed(target.name, target.attempt, why)
        exit_codes.say(f"{target.words}: {why}")

    def _submit(self) -> None:
        """Begin with the next device of each host that measures none: devices of a host share what they are measured by."""
        from distributed import fire_and_forget

        busy = {target.host for target in self.targets.values() if target.status == "measuring"}
        answering = self._one_each()
        for target in self.targets.values():
            address = answering.get(target.host)
            if target.status != "waiting" or target.host in busy or not address or not target.selector:
                continue
            if target.name not in self._copies:
                self._copies[target.name] = Copy(self._path(target))
            copy = self._copies[target.name]
            if copy.size:
                args = self.plan.fleet, target.name, copy.path.read_bytes()
                if not self._ask(worker.restore, [address], *args).get(address):
                    self._fail(target, f"{target.host} has a file of that name with other content")
                    continue
            busy.add(target.host)
            job = worker.Job(
                fleet=self.plan.fleet, name=target.name, selector=target.selector, arguments=list(self.plan.arguments),
                resuming=list(self.plan.resuming), attempt=target.attempt,
            )  # fmt: skip
            target.future = self._client.submit(worker.measure, job, key=_key(target), resources={target.resource: 1})
            fire_and_forget(target.future)  # it goes on when this client ends
            target.status, target.worker, target.begun = "measuring", "", target.begun or time.monotonic()


def _key(target: Target) -> str:
    """The name of a device's task, by which a client that resumes the fleet finds one that has gone on."""
    return f"{target.name}-{target.attempt}"
