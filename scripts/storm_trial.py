"""One run of the fault storm: the commands of a trial, the checks while they run, and the checks at its end.

Part of fault_storm.py: python scripts/fault_storm.py --only N
"""

from __future__ import annotations

import collections
import fcntl
import os
import random
import re
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clmembench.model import Value
from clmembench.results import jsonl, run_files
from tests.faulty import Command, whole_lines

OK, INTERNAL, USAGE, NO_DEVICE, FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130
EXIT_LIMIT_S = 10.0  # until the processes of an ended run are gone
REPORT_TIME_FACTOR = 10  # times the time of a report are its limit
NO_REASON = re.compile(r"^clmembench: warning: |: (?:the last line is torn and was dropped|.* its last record may be missing)$")
COLUMNS = ("lost", "hang", "traceback", "orphan", "left", "other")


@dataclass(frozen=True, slots=True)
class Stage:
    """The environment of runs: a copied tree of the package, the time of a whole run there, and the bytes that it writes."""

    name: str
    tree: Path
    timeout: str  # of a point
    limit_s: float  # of a command: timeouts of all points, and slack
    environment: Mapping[str, str]
    whole_s: float = 2.0
    whole_bytes: int = 8000
    runs: tuple[Path, ...] = ()  # results files for a report
    report_s: float = 0.0

    @property
    def on_pocl(self) -> bool:
        return self.name == "PoCL"

    @property
    def timeout_s(self) -> float:
        return float(self.timeout.removesuffix("s"))


@dataclass(slots=True)
class Trial:
    """One run: its random choices, its file, and the defects that were seen."""

    number: int
    stage: Stage
    folder: Path
    rng: random.Random
    groups: list[int] = field(default_factory=list)
    processes: int = 1
    reference: str = ""  # a peer program that is measured on the points of 1024 groups
    plug_in: tuple[str, ...] = ()  # options that name it
    theirs: bool = False  # whether its benchmark is measured, too
    environment: dict[str, str] = field(default_factory=dict)  # of all its commands, in addition to the stage's
    compressed: bool = False  # whether its results file is
    overwritten: bool = False  # whether another run may replace the file of one that has ended
    to_finish: bool = True  # whether there is a run to resume
    seen: bytes = b""  # every complete line that the file ever had
    codes: list[int | None] = field(default_factory=list)  # of the commands that were harmed
    found: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))

    @property
    def file(self) -> Path:
        return self.folder / ("r.jsonl.gz" if self.compressed else "r.jsonl")

    def args(self, *more: str) -> tuple[str, ...]:
        groups = ",".join(map(str, self.groups))
        plan = ("-b", "launch", "-a", f"groups=[{groups}]", "--processes", str(self.processes), "--timeout", self.stage.timeout)
        if "--resume" in more:
            return ("run", *more, str(self.file), *self.plug_in)
        beside = (*self.plug_in, *(("-b", "theirs") if self.theirs else ()), *(("--reference",) if self.reference else ()))
        return ("run", "-d", "0", *plan, *beside, "-o", str(self.file), *more)

    def command(self, *args: str, environment: Mapping[str, str] | None = None, **rest: object) -> Command:
        """A command of this trial's stage, to be entered."""
        env = {**self.stage.environment, **self.environment, **(environment or {})}
        return Command(self.stage.tree, args, self.folder, env, **rest)  # type: ignore[arg-type]

    @contextmanager
    def running(self, *more: str, **rest: object) -> Iterator[Command]:
        """A run of these points while it goes on. Its end is waited for, and what it leaves looked at."""
        with self.watched(), self.ending(self.args(*more), **rest) as command:
            yield command

    @contextmanager
    def ending(self, args: tuple[str, ...], **rest: object) -> Iterator[Command]:
        """A command whose end is waited for, and whose processes and words are looked at."""
        with self.command(*args, **rest) as command:  # type: ignore[arg-type]
            yield command
            limit_s = max(self.stage.limit_s, REPORT_TIME_FACTOR * self.stage.report_s)  # for a host that may be busier since
            if command.wait(limit_s) is None:
                self.found["hang"].append(f"{shlex.join(args)} did not end within {limit_s:g} s")
            elif not command.gone(EXIT_LIMIT_S):
                left = "; ".join(_described(pid) for pid in command.alive())
                code = command.process.returncode
                self.found["orphan"].append(f"of {command.process.pid}, which ended with {code}, are left: {left}")
            if "Traceback" in command.said():
                self.found["traceback"].append(command.said()[-3000:])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While the block runs, the results file is read again and again; after it, what is left is looked for."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,))
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        self._look()
        self._left()

    def harmed(self, command: Command, *allowed: int) -> None:
        """Note the exit code of a command that has ended."""
        code = command.process.returncode
        self.codes.append(code)
        if code not in allowed and code is not None:
            self.found["other"].append(f"exit code {code}, not of {allowed}: {command.said()[-600:]}")

    def check_reasons(self, command: Command) -> None:
        """One line says why nothing was measured; each record that failed has a reason of one line."""
        code = command.process.returncode
        said = [line for line in command.said().splitlines() if line and not NO_REASON.search(line)]
        if code not in (OK, FAILED) and len(said) != 1:
            self.found["other"].append(f"exit code {code} is not said in one line: {command.said()[-2000:]}")
        for record in jsonl.read(self.file).records if whole_lines(self.file) else ():
            if record.status not in ("ok", "suspect") and (not record.reason or "\n" in record.reason):
                self.found["other"].append(f"{record.status}, and the reason is {record.reason!r}")

    def moment(self, part: float = 1.0) -> None:
        """Let a random part of the time pass that a run takes."""
        time.sleep(self.rng.uniform(0.1, part * self.stage.whole_s))

    def tear(self, header: bool = True) -> None:
        """Cut the file at a random byte, behind its header or anywhere; the lines before stay to be kept."""
        content, end = self.file.read_bytes(), run_files.FLUSHED if self.compressed else b"\n"
        least = content.index(end) + len(end) if header else 0
        os.truncate(self.file, self.rng.randrange(least, len(content) + 1))
        self.seen = whole_lines(self.file)

    def finish(self) -> None:
        """Go on to the end, and compare what is then there with what should be."""
        if not self.to_finish:
            return
        if not self.seen:
            if self.file.exists():
                with self.running("--resume") as command:
                    pass
                if command.process.returncode != USAGE or "Traceback" in command.said():
                    self.found["other"].append(f"resumed without a header: {command.process.returncode} {command.said()}")
            more: tuple[str, ...] = ("--overwrite",)
        else:
            more = ("--resume",)
        with self.running(*more) as command:
            pass
        if command.process.returncode not in (OK, FAILED):
            self.found["other"].append(f"the end of it: exit code {command.process.returncode}: {command.said()[-600:]}")
            return
        try:
            run = jsonl.read(self.file)
        except jsonl.ResultsError as error:
            self.found["other"].append(str(error))
            return
        points = collections.Counter((r.benchmark, r.params.get("groups"), r.process) for r in run.records)
        wanted = self.wanted()
        if points != wanted or run.notes:
            self.found["other"].append(f"{wanted - points} are missing, {points - wanted} too many; notes {run.notes}")

    def wanted(self) -> collections.Counter[tuple[str, Value | None, int]]:
        """Every point of the plan, which a whole run has once."""
        points: list[tuple[str, Value | None]] = [("launch", groups) for groups in self.groups]
        points += [(f"{self.reference}_launch", 1024)] if self.reference else []
        points += [("theirs", None)] if self.theirs else []
        return collections.Counter((name, groups, p) for name, groups in points for p in range(self.processes))

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(0.01):
            self._look()

    def _look(self) -> None:
        content = whole_lines(self.file)
        ended = self.seen.count(b"\n") > self.wanted().total()  # a header and all records
        if content.startswith(self.seen) or (self.overwritten and ended):
            self.seen = content
        else:
            was, now = self.seen.splitlines(), content.splitlines()
            gone = [n for n, line in enumerate(was, start=1) if now[n - 1 : n] != [line]]
            self.found["lost"].append(f"of {len(was)} lines {gone} changed or went")
            self.seen = content

    def _left(self) -> None:
        for path in self.folder.glob("tmp*/*"):
            if not path.name.endswith(".lock"):
                self.found["left"].append(f"temporary file {path.name}")
                continue
            with path.open("r+b") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.found["left"].append(f"lock {path.name} is held")


def _described(pid: int) -> str:
    """A process: its number, parent, group, state and command line."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        wait = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return f"{pid}, which has ended since"
    state, parent, group = status[:3]
    return f"{pid} (parent {parent}, group {group}, state {state}, waits in {wait or 'nothing'}): {command[-300:]}"
