"""Many short runs of the command line, each with one fault at random; nothing finished may be lost, and nothing left behind.

Every run is a real `clmembench run` of a few points, with real child processes, on a device that fails when told to or on PoCL.
Once harmed it goes on with --resume. Prints a table of faults; exit code 1 when a record was lost, a command did not end in
time, said "Traceback", left a process, a lock or a temporary file, or ended in a code or a file that it should not.
Usage: python scripts/fault_storm.py [--runs 500] [--pocl 60] [--seed 1] [--jobs 1] [--only N]
"""

from __future__ import annotations

import argparse
import collections
import fcntl
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench import results
from tests.faulty import BAD_LAUNCH, WITHOUT_TEMPORARY, Command, kill, mountable, tree, whole_lines, within

OK, INTERNAL, USAGE, NO_DEVICE, FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130
GONE_S = 10.0  # for the processes of a run that ended


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs happen on: a tree of the package, how long a whole run takes there, and how many bytes it writes."""

    name: str
    tree: Path
    timeout: str  # of a point
    limit_s: float  # of a command: every point timed out, and grace
    environment: Mapping[str, str]
    whole_s: float = 2.0
    whole_bytes: int = 8000


@dataclass(slots=True)
class Trial:
    """One run: its random choices, its file, and what was seen to go wrong."""

    number: int
    stage: Stage
    folder: Path
    rng: random.Random
    groups: list[int] = field(default_factory=list)
    processes: int = 1
    seen: bytes = b""  # every complete line that was ever in the file
    codes: list[int | None] = field(default_factory=list)  # of the commands that were harmed
    found: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))
    commands: int = 0

    @property
    def file(self) -> Path:
        return self.folder / "r.jsonl"

    def args(self, *more: str) -> tuple[str, ...]:
        groups = ",".join(map(str, self.groups))
        plan = ("-b", "launch", "-a", f"groups=[{groups}]", "--processes", str(self.processes), "--timeout", self.stage.timeout)
        if "--resume" in more:
            return ("run", *more, str(self.file))
        return ("run", "-d", "0", *plan, "-o", str(self.file), *more)

    @contextmanager
    def running(self, *more: str, environment: Mapping[str, str] | None = None, **rest: object) -> Iterator[Command]:
        """The command while it runs. Its end is waited for, and what it leaves looked at."""
        self.commands += 1
        env = {**self.stage.environment, **(environment or {})}
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,))
        watcher.start()
        try:
            with Command(self.stage.tree, self.args(*more), self.folder, env, **rest) as command:  # type: ignore[arg-type]
                yield command
                if command.wait(self.stage.limit_s) is None:
                    self.found["hang"].append(f"{more} did not end within {self.stage.limit_s:g} s")
                elif not command.gone(GONE_S):
                    self.found["orphan"].append(f"processes {command.alive()} are left of {command.process.pid}")
                if "Traceback" in command.said():
                    self.found["traceback"].append(command.said()[-3000:])
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

    def moment(self, part: float = 1.0) -> None:
        """Let a random part of the time pass that a run takes."""
        time.sleep(self.rng.uniform(0.1, part * self.stage.whole_s))

    def cut(self, byte: int) -> None:
        """Tear the file there; what is before stays to be kept."""
        os.truncate(self.file, byte)
        self.seen = whole_lines(self.file)

    def finish(self) -> None:
        """Go on to the end, and compare what is then there with what should be."""
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
            run = results.read(self.file)
        except results.ResultsError as error:
            self.found["other"].append(str(error))
            return
        points = collections.Counter((r.params["groups"], r.process) for r in run.records)
        wanted = collections.Counter((g, p) for g in self.groups for p in range(self.processes))
        if points != wanted or run.notes:
            self.found["other"].append(f"{wanted - points} are missing, {points - wanted} too many; notes {run.notes}")

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(0.01):
            self._look()

    def _look(self) -> None:
        content = whole_lines(self.file)
        if content.startswith(self.seen):
            self.seen = content
        else:
            was, now = self.seen.splitlines(), content.splitlines()
            gone = [n for n, line in enumerate(was, start=1) if now[n - 1 : n] != [line]]
            self.found["lost"].append(f"of {len(was)} lines {gone} changed or went")
            self.seen = content

    def _left(self) -> None:
        for path in (self.folder / "tmp").iterdir():
            if not path.name.endswith(".lock"):
                self.found["left"].append(f"temporary file {path.name}")
                continue
            with path.open("r+b") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.found["left"].append(f"lock {path.name} is held")


# ---- the faults -----------------------------------------------------------------------------------------------------


def _child_killed(trial: Trial) -> None:
    with trial.running() as command:
        trial.moment()
        within(10, lambda: command.workers() or command.process.poll() is not None)
        for pid in command.workers()[:1]:
            kill(pid, signal.SIGKILL)
    trial.harmed(command, OK, FAILED, NO_DEVICE)


def _signalled(trial: Trial, send: Callable[[Command], None], *allowed: int) -> None:
    with trial.running() as command:
        trial.moment()
        if command.process.poll() is None:
            send(command)
    trial.harmed(command, OK, *allowed)


def _parent_killed(trial: Trial) -> None:
    _signalled(trial, lambda c: c.process.kill(), -signal.SIGKILL)


def _parent_terminated(trial: Trial) -> None:
    _signalled(trial, lambda c: c.process.terminate(), -signal.SIGTERM)


def _ctrl_c(trial: Trial) -> None:
    _signalled(trial, lambda c: c.interrupt(), INTERRUPTED, -signal.SIGINT)  # what Python is before it looks for signals


def _ctrl_c_in_a_hang(trial: Trial) -> None:
    if trial.stage.name == "PoCL":
        trial.groups.insert(0, 7)
    environment = {"FAULTY_DEVICE": f"hang:{trial.groups[0]}"}
    with trial.running(environment=environment) as command:
        trial.moment()
        within(20, lambda: trial.file.exists() or command.process.poll() is not None)
        time.sleep(trial.rng.uniform(0.5, 1.5))  # for its first child to start, whose first kernel is the endless one
        command.interrupt()
    trial.harmed(command, INTERRUPTED, FAILED)


def _bad_kernel(kind: str, groups: int) -> Callable[[Trial], None]:
    """A kernel fault of the fake device, or of PoCL where launches of that many groups have one."""

    def fault(trial: Trial) -> None:
        if trial.stage.name == "PoCL":
            trial.groups.insert(trial.rng.randrange(len(trial.groups)), groups)
        with trial.running(environment={"FAULTY_DEVICE": f"{kind}:{trial.rng.choice(trial.groups)}"}) as command:
            pass
        trial.harmed(command, FAILED)

    return fault


def _file_torn(trial: Trial) -> None:
    with trial.running() as command:
        pass
    trial.harmed(command, OK)
    trial.cut(trial.rng.randrange(trial.file.stat().st_size + 1))


def _disk_full(trial: Trial) -> None:
    most = trial.rng.randrange(trial.stage.whole_bytes)
    with trial.running() as command:
        if trial.stage.name == "PoCL":  # which without space for its cache cannot be used at all: let it compile first
            within(60, lambda: whole_lines(trial.file).count(b"\n") > 1 or command.process.poll() is not None)
            most = max(most, len(whole_lines(trial.file)))
        if command.process.poll() is None:
            resource.prlimit(command.process.pid, resource.RLIMIT_FSIZE, (most, most))
    # its cache meets the limit too, and then a kernel may not be compiled
    trial.harmed(command, OK, INTERNAL, NO_DEVICE, *((FAILED,) if trial.stage.name == "PoCL" else ()))


def _second_run(trial: Trial) -> None:
    with trial.running() as first:
        trial.moment(0.5)
        args = [str(trial.folder / "second.jsonl") if a == str(trial.file) else a for a in trial.args()]
        with Command(trial.stage.tree, tuple(args), trial.folder, trial.stage.environment) as second:
            second.wait(trial.stage.limit_s)
            if "Traceback" in second.said():
                trial.found["traceback"].append(second.said()[-3000:])
    trial.harmed(first, OK, NO_DEVICE)
    trial.harmed(second, OK, NO_DEVICE)


def _no_temporary_folder(trial: Trial) -> None:
    with trial.running(environment={"TMPDIR": "/proc"}, before=WITHOUT_TEMPORARY, cwd=Path("/proc")) as command:
        pass
    trial.harmed(command, NO_DEVICE)


def _torn_pipe(trial: Trial) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with trial.running(stdout=writer) as command:
            pass
    finally:
        os.close(writer)
    trial.harmed(command, OK)


def _full_output(trial: Trial) -> None:
    with Path("/dev/full").open("wb") as full, trial.running(stdout=full.fileno()) as command:
        pass
    trial.harmed(command, INTERNAL)


FAULTS: Mapping[str, Callable[[Trial], None]] = {
    "child killed": _child_killed,
    "run killed": _parent_killed,
    "run terminated": _parent_terminated,
    "Ctrl-C": _ctrl_c,
    "Ctrl-C in an endless kernel": _ctrl_c_in_a_hang,
    "a kernel's bad access": _bad_kernel("segfault", 3),
    "abort, a trap": _bad_kernel("abort", 5),
    "endless kernel": _bad_kernel("hang", 7),
    "refusal": _bad_kernel("refuse", 3),
    "device out of memory": _bad_kernel("memory", 3),
    "device lost": _bad_kernel("lost", 3),
    "deaf to TERM": _bad_kernel("deaf", 7),
    "file torn": _file_torn,
    "disk full": _disk_full,
    "second run": _second_run,
    "no temporary folder": _no_temporary_folder,
    "torn pipe": _torn_pipe,
    "output on a full disk": _full_output,
}
FAKE_ONLY = {"refusal", "device out of memory", "device lost", "deaf to TERM"}  # which PoCL cannot be made to do
COLUMNS = ("lost", "hang", "traceback", "orphan", "left", "other")


# ---- the storm ------------------------------------------------------------------------------------------------------


def stages(folder: Path, pocl: bool) -> list[Stage]:
    """Where runs happen, each tried by a run without a fault."""
    made = [Stage("fake", tree(folder / "fake"), "3s", 60.0, {})]
    if pocl:
        bad = tree(folder / "pocl", fake=False, kernels={"launch": BAD_LAUNCH})
        cache = folder / "cache"
        cache.mkdir()
        made.append(Stage("PoCL", bad, "10s", 120.0, {"POCL_CACHE_DIR": str(cache)}))
    return [_tried(stage, folder) for stage in made]


def _tried(stage: Stage, folder: Path) -> Stage:
    whole_s = whole_bytes = 0.0
    for attempt in range(2):  # the first one compiles
        trial = Trial(-1, stage, folder / f"try-{stage.name}-{attempt}", random.Random(0), [1, 2, 4, 8])  # noqa: S311
        started = time.monotonic()
        with trial.running() as command:
            pass
        whole_s, whole_bytes = time.monotonic() - started, trial.file.stat().st_size
        if command.process.returncode != OK or trial.found:
            sys.exit(f"a run without a fault fails on {stage.name}: {command.said()}{dict(trial.found)}")
    return Stage(stage.name, stage.tree, stage.timeout, stage.limit_s, stage.environment, whole_s, int(whole_bytes))


def trial_of(number: int, seed: int, stage: Stage, folder: Path, faults: list[str]) -> tuple[str, Trial]:
    """One trial, the same for the same seed and number but for the moments that the host's load shifts."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311
    fault = rng.choice([name for name in faults if stage.name == "fake" or name not in FAKE_ONLY])
    groups = rng.sample([1, 2, 4, 6, 8, 9, 10], rng.randint(2, 4))
    trial = Trial(number, stage, folder / f"run-{number}", rng, groups, rng.choice([1, 1, 2]))
    try:
        FAULTS[fault](trial)
        trial.finish()
    except Exception as error:  # a fault of the storm's own is one, too
        trial.found["other"].append(f"{type(error).__name__}: {error}")
    if not trial.found:
        shutil.rmtree(trial.folder)
    return fault, trial


def table(done: list[tuple[str, Trial]]) -> str:
    """A line a fault, and one for all of them."""
    lines = ["| fault | runs | of them on PoCL | exit codes | " + " | ".join(COLUMNS) + " |", "|---|--:|--:|---|" + "--:|" * 6]
    for name in [*FAULTS, "all"]:
        trials = [trial for fault, trial in done if name in (fault, "all")]
        if not trials:
            continue
        codes = collections.Counter(str(code) for trial in trials for code in trial.codes)
        said = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items())) if name != "all" else ""
        counts = [str(sum(len(trial.found.get(column, ())) for trial in trials)) for column in COLUMNS]
        on_pocl = sum(trial.stage.name == "PoCL" for trial in trials)
        lines.append(f"| {name} | {len(trials)} | {on_pocl} | {said} | {' | '.join(counts)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the storm; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--pocl", type=int, default=60, help="how many of the runs are on PoCL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--only", type=int, help="this run alone, as of the same seed and --pocl")
    asked = parser.parse_args()
    faults = [name for name in FAULTS if name != "no temporary folder" or mountable()]
    print(f"seed {asked.seed}; to repeat run N: --seed {asked.seed} --pocl {asked.pocl} --only N", flush=True)
    numbers = range(asked.runs) if asked.only is None else [asked.only]
    folder = Path(tempfile.mkdtemp(prefix="fault-storm-"))
    on = stages(folder, any(n < asked.pocl for n in numbers))
    done: list[tuple[str, Trial]] = []

    def one(number: int) -> None:
        fault, trial = trial_of(number, asked.seed, on[-1] if number < asked.pocl else on[0], folder, faults)
        done.append((fault, trial))
        for kind, texts in trial.found.items():
            print(f"run {number}, {fault}, on {trial.stage.name}: {kind}: " + "; ".join(texts), flush=True)
        if len(done) % 50 == 0:
            print(f"{len(done)} runs", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, numbers))
    print(table(done))
    bad = any(trial.found for _, trial in done)
    if not bad:
        shutil.rmtree(folder)
    else:
        print(f"what is left of these runs is in {folder}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
