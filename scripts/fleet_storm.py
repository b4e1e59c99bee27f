"""Kills a worker, the scheduler, the client or a host of a fleet at random times: which finished records are lost or doubled?

    python scripts/fleet_storm.py --rounds 30 [--seed N] [--pocl-every N] [--csv docs/tables/fleet-storm.csv]

Each round is a fleet of three hosts on this machine, with a device each: the fake runtime's, and in some rounds PoCL's. A host
is a worker of Dask with a name, locks and files of its own. The fleet is resumed until it is complete; a record counts as
finished where a host's file had its whole line at the moment of the kill, or, if the host's files are lost with it, where the
client's copy had it. Prints a table, and fails where a record is lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clmembench.host.processes import ROOT
from clmembench.results.record_lines import decode_record
from clmembench.studies.fleet import journal, store

HOSTS = ("node0", "node1", "node2")
VICTIMS = ("worker", "scheduler", "client", "host")
FAKE = ("-d", "fake:all", "-b", "barrier", "-b", "launch", "-b", "atomic")
POCL = ("-d", "all", "-b", "barrier", "--budget", "30s")
MAX_KILL_S = 5.0  # after the first record, or after the start of every fourth fleet: most have more to measure then
FIRST_RECORD_LIMIT_S = 60.0
MAX_RESUMES = 6
COLUMNS = ("round", "killed", "device", "after", "finished then", "lost", "doubled", "records in the store", "resumes")
COMMAND_LIMIT_S = 240.0


@dataclass(slots=True)
class Cluster:
    """A scheduler and a worker for each host, as processes."""

    folder: Path
    port: int = 0
    scheduler: subprocess.Popen[bytes] | None = None
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start what does not run."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.end()
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            own = "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"
            self.scheduler = self._process("distributed.cli.dask_scheduler", *own)
        for host in HOSTS:
            if host not in self.workers or self.workers[host].poll() is not None:
                arguments = self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"
                self.workers[host] = self._process("distributed.cli.dask_worker", *arguments, host=host)

    def _process(self, module: str, *arguments: str, host: str = "") -> subprocess.Popen[bytes]:
        with (self.folder / f"{host or 'scheduler'}.log").open("ab") as log:
            own = ("--local-directory", str(self.folder)) if host else ()
            command = [sys.executable, "-m", module, *arguments, *own]
            return subprocess.Popen(command, env=environment(self.folder, host), stdout=log, stderr=log)

    def end(self) -> None:
        for process in (*self.workers.values(), self.scheduler):
            if process is not None:
                kill(process)
        self.scheduler, self.workers = None, {}


def environment(folder: Path, host: str) -> dict[str, str]:
    """That of a host, or of the client where it has no name."""
    own = {
        "PYTHONPATH": ROOT, "CLMEMBENCH_NO_WAIT": "1", "CLMEMBENCH_FAKE_DEVICES": "1",
        "CLMEMBENCH_HOST_NAME": host, "CLMEMBENCH_FLEET": str(folder / f"files-{host}"), "CLMEMBENCH_LOCKS": str(folder / host),
    }  # fmt: skip
    if host:
        (folder / host).mkdir(exist_ok=True)
    return {**os.environ, **own}


@dataclass(frozen=True, slots=True)
class Round:
    """What became of the records that were finished at the moment of the kill."""

    victim: str
    device: str
    killed_s: float
    finished: int
    lost: int
    doubled: int
    total: int
    resumes: int
    problem: str = ""


def play(cluster: Cluster, number: int, rng: random.Random, victim: str, arguments: tuple[str, ...]) -> Round:
    """One fleet, one kill, and resumes until it is complete."""
    cluster.start()
    target = cluster.folder / f"store-{number}"
    killed_s, early = rng.uniform(0.0, MAX_KILL_S), rng.random() < 0.25
    device = "fake" if arguments is FAKE else "PoCL"
    with client(cluster, "run", "--scheduler", cluster.address, "-o", str(target), *arguments) as measuring:
        begun = time.monotonic()
        while not early and not records(cluster.folder, target) and time.monotonic() - begun < FIRST_RECORD_LIMIT_S:
            time.sleep(0.2)
        time.sleep(killed_s)
        killed_s = time.monotonic() - begun
        host = rng.choice(HOSTS)
        if victim == "client":
            kill(measuring)
        elif victim == "scheduler" and cluster.scheduler is not None:
            kill(cluster.scheduler)
        else:
            kill(cluster.workers[host])
        if victim == "host":
            shutil.rmtree(cluster.folder / f"files-{host}", ignore_errors=True)
        finished = records(cluster.folder, target)
        if victim in ("worker", "host"):
            cluster.start()
        measuring.wait(COMMAND_LIMIT_S)
    cluster.start()
    resumes = 0
    while not (state := newest(target)) or not state.ended:
        if resumes == MAX_RESUMES:
            return Round(victim, device, killed_s, len(finished), -1, -1, 0, resumes, "not complete")
        again = ("resume", str(target)) if state else ("run", "-o", str(target), *arguments)
        with client(cluster, *again, "--scheduler", cluster.address) as resuming:
            resuming.wait(COMMAND_LIMIT_S)
        resumes += 1
    stored = [line for part in store.parts(target) for run in part.runs for line in lines_of(store.export_run(target, run))]
    lost = [one for one in finished if one not in set(stored)]
    identities = Counter((run, *identity(text)) for run, text in stored)
    doubled = sum(count - 1 for count in identities.values())
    return Round(victim, device, killed_s, len(finished), len(lost), doubled, len(stored), resumes)


@contextmanager
def client(cluster: Cluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of the fleet, which is killed at the latest when the block ends."""
    with (cluster.folder / "client.log").open("ab") as log:
        log.write(f"--- {arguments}\n".encode())
        log.flush()
        command = [sys.executable, "-P", "-m", "clmembench", "fleet", *arguments]
        process = subprocess.Popen(command, env=environment(cluster.folder, ""), stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process without warning."""
    process.kill()
    process.wait()


def newest(target: Path) -> journal.State | None:
    """The state of the newest fleet in a store."""
    paths = sorted((target / journal.FOLDER).glob("*.jsonl"))
    return journal.read(paths[-1]) if paths else None


def records(folder: Path, target: Path) -> set[tuple[str, str]]:
    """The run and the content of each whole record in the files of hosts and in the client's copies."""
    fleets = {path.stem for path in (target / journal.FOLDER).glob("*.jsonl")}
    files = [path for path in folder.glob("files-*/*/*.jsonl") if path.parent.name in fleets]
    files += (target / "incoming").glob("*.jsonl")
    return {line for path in files for line in lines_of(path.read_text(encoding="utf-8", errors="replace"))}


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    """Run id and canonical content of each whole record of a results file."""
    header, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]
    for line in lines:
        yield json.loads(header)["run_id"], json.dumps(json.loads(line), sort_keys=True)


def identity(text: str) -> tuple[str, ...]:
    """The point and the process of a record."""
    record = decode_record(text.encode())
    params = json.dumps(dict(record.params), sort_keys=True)
    return record.benchmark, params, str(record.place), record.role, str(record.process)


def _print(cells: list[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Play the rounds and print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pocl-every", type=int, default=5, help="every so manyth round measures PoCL's device; 0: none")
    parser.add_argument("--csv", type=Path, help="file for the table")
    parser.add_argument("--keep", type=Path, help="folder for all files, which are kept")
    given = parser.parse_args()
    rng = random.Random(given.seed)  # noqa: S311 - times, no secrets
    folder = given.keep or Path(tempfile.mkdtemp(prefix="fleet-storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    cluster, played = Cluster(folder), list[Round]()
    rows = [list(COLUMNS)]
    _print(rows[0])
    _print(["---"] * len(COLUMNS))
    try:
        for number in range(1, given.rounds + 1):
            pocl = given.pocl_every and not number % given.pocl_every
            victim = VICTIMS[number % len(VICTIMS)]
            one = play(cluster, number, rng, victim, POCL if pocl else FAKE)
            played.append(one)
            counts = one.finished, one.lost, one.doubled, one.total, one.resumes
            rows.append([str(cell) for cell in (number, one.victim, one.device, f"{one.killed_s:.1f} s", *counts)])
            _print([*rows[-1], *([one.problem] if one.problem else [])])
    finally:
        cluster.end()
        if given.keep is None:
            shutil.rmtree(folder, True)
    if given.csv is not None:
        given.csv.write_text("".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")
    lost, doubled = (sum(getattr(one, name) for one in played) for name in ("lost", "doubled"))
    print(
        f"\n{len(played)} rounds: {sum(one.finished for one in played)} records were finished, {lost} lost, {doubled} doubled"
    )
    sys.exit(lost or doubled)


if __name__ == "__main__":
    main()
