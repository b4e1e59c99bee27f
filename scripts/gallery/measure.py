"""Makes the runs of reports/ on one kind of machine, as runs.toml lists them: python scripts/gallery/measure.py KIND.

Each run is a process of the project's own command with a time limit. Its file gets its name when it is complete. A run is not
made again where the output folder or reports/ has its file, by the same command and by today's versions of its benchmarks; an
interrupted one is resumed where its command can. A run that fails is reported, and the others go on; then the exit code is 1.
--part N makes those of the N-th call of a machine that is lent for ten minutes a call; --list shows the parts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clmembench.benchmarks import packaged
from clmembench.cli import devices, exit_codes
from clmembench.host.environment import NAME_VARIABLE
from clmembench.model import Cause
from clmembench.model.record import Trace
from clmembench.results import jsonl, run_files

ROOT = Path(__file__).resolve().parents[2]
CALL_S = 570  # of the 600 s of a call, the rest for its start and for copying files
STOP_S = 15  # from a run's limit until it is interrupted, and from then until it is killed
COMPLETE = {exit_codes.OK, exit_codes.FAILED, exit_codes.INCONCLUSIVE}  # a failed benchmark is a record of the run


@dataclass(frozen=True, slots=True)
class GalleryRun:
    """A run of a kind: its file's name, the arguments of Python that make it but for the output, and its limit."""

    name: str
    arguments: tuple[str, ...]
    is_script: bool
    suffix: str
    limit_s: int
    reads: int | None = None  # samples whose in-kernel readings are kept (None: all)

    def made(self, folder: Path) -> bool:
        """Whether the folder has its complete file, by the same command and today's versions of the benchmarks."""
        path = folder / (self.name + self.suffix)
        if self.is_script or not path.exists():
            return path.exists()
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                header = json.loads(file.readline())
        except (OSError, EOFError, ValueError, zlib.error):
            return False
        now = packaged()
        known = [(card["version"], now[name].version if name in now else None) for name, card in header["benchmarks"].items()]
        return header["argv"][: len(self.arguments) - 2] == [*self.arguments[2:]] and all(a == b for a, b in known)

    def statuses(self, folder: Path) -> str:
        """How many points of its file have each status; a limit leaves points skipped. "" of a script."""
        if self.is_script:
            return ""
        run = jsonl.read(folder / (self.name + self.suffix))
        counts = Counter(f"{one.status}{' by the limit' if one.cause is Cause.BUDGET else ''}" for one in run.records)
        return ": " + ", ".join(f"{count} {status}" for status, count in counts.most_common())


def runs_of(kind: str, given: Mapping[str, Any]) -> list[GalleryRun]:
    """The runs of a kind, in their order."""
    device = given["kinds"][kind]["device"]
    found = []
    for name, run in given["runs"][given["kinds"][kind]["runs"]].items():
        words = shlex.split(run.get("script", "").replace("{device}", device))
        limit = run["limit_s"]
        command = ["-m", "clmembench", *shlex.split(run.get("command", "")), "-d", device, "--budget", f"{limit}s"]
        found.append(
            GalleryRun(
                f"{kind}-{name}", tuple(words or command), bool(words), run.get("suffix", ".jsonl.gz"), limit, run.get("reads")
            )
        )
    return found


def parts(runs: Sequence[GalleryRun]) -> list[list[GalleryRun]]:
    """The runs divided into calls, each run into the first that has time for it."""
    found: list[list[GalleryRun]] = []
    for run in runs:
        fitting = [part for part in found if sum(one.limit_s + STOP_S for one in [*part, run]) <= CALL_S]
        if fitting:
            fitting[0].append(run)
        else:
            found.append([run])
    return found


def measure(run: GalleryRun, folder: Path, environment: Mapping[str, str]) -> str:
    """Make a run; "" where it is complete, or else why it is not."""
    unfinished = folder / f"{run.name}.part{run.suffix}"
    arguments = [word.replace("{output}", str(unfinished)) for word in run.arguments]
    if not run.is_script:
        resumed = run.arguments[2] == "run" and unfinished.exists()
        arguments = (
            ["-m", "clmembench", "run", "--resume", str(unfinished), *arguments[-2:]]
            if resumed
            else [*arguments, "--overwrite", "-o", str(unfinished)]
        )
    with (folder / f"{run.name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log)
        code = _ended(process, run.limit_s)
    if code in COMPLETE and unfinished.exists():
        if run.reads is not None:
            keep_reads(unfinished, run.reads)
        unfinished.replace(folder / (run.name + run.suffix))
        (folder / f"{run.name}.log").unlink()
        return ""
    return f"exit code {code}, see {run.name}.log"


def keep_reads(path: Path, samples: int) -> None:
    """Leave of the readings that each series has by the kernel's own clock those of the first samples; times stay."""
    lines = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            for series in record.get("series", ()):
                for name, one in series.get("reads", {}).items():
                    rows = list(Trace(**one).unpack()[:samples])
                    series["reads"][name] = asdict(Trace.pack(one["unit"], rows))
            lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
    path.write_bytes(run_files.compress("".join(lines).encode()))


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> int:
    for wait_s, end in ((limit_s + STOP_S, signal.SIGINT), (STOP_S, signal.SIGKILL)):
        try:
            return process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(end)
    return process.wait()


def main() -> int:
    """Make the runs that are missing; 1 where one failed."""
    given = tomllib.loads(Path(__file__).with_name("runs.toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("kind", choices=given["kinds"])
    parser.add_argument("--only", action="append", metavar="NAME", help="only this run, made anew; repeatable")
    parser.add_argument("--part", type=int, metavar="N", help="only the runs of the N-th call, from 1")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="start no run whose limit would end later")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "reports", help="folder of the results files")
    parser.add_argument("--list", action="store_true", help="show the runs of each part, and measure nothing")
    options = parser.parse_args()
    kind, began = given["kinds"][options.kind], time.monotonic()
    divided = parts(runs_of(options.kind, given))
    if options.list:
        for number, part in enumerate(divided, 1):
            print(f"part {number}: " + ", ".join(f"{run.name} ({run.limit_s} s)" for run in part))
        return 0
    wanted = [run for number, part in enumerate(divided, 1) if options.part in (None, number) for run in part]
    if options.only:
        wanted = [run for run in wanted if run.name.removeprefix(f"{options.kind}-") in options.only]
        if len(wanted) < len(options.only):
            parser.error(f"--only {' '.join(options.only)}: not all are runs of this kind and part; see --list")
    added = {name: text.replace("{prefix}", sys.prefix) for name, text in kind.get("environment", {}).items()}
    os.environ.update(added)
    names = [device.name for device in devices.listed()]
    if not any(kind["name"] in name for name in names):
        parser.error(f"no device of kind {options.kind} here: {'; '.join(names)}")
    environment = {**os.environ, NAME_VARIABLE: kind["host"]}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    options.output.mkdir(parents=True, exist_ok=True)
    failed = False
    for run in wanted:
        start = time.monotonic()
        if not options.only and any(run.made(folder) for folder in (options.output, ROOT / "reports")):
            print(f"{run.name}: complete", flush=True)
        elif options.budget is not None and start - began + run.limit_s + STOP_S > options.budget:
            print(f"{run.name}: left out, no time", flush=True)
        else:
            reason = measure(run, options.output, environment)
            took = f"{time.monotonic() - start:.0f} s"
            print(f"{run.name}: {reason or 'measured'} in {took}{'' if reason else run.statuses(options.output)}", flush=True)
            failed |= bool(reason)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
