"""Makes many short runs of the command line, each with one random fault, and checks that nothing finished is lost or left over.

Every run is a real `clmembench run` of a few points, with real worker processes, on a device that fails on request or on PoCL.
A harmed run is resumed by --resume. Prints a table of faults. The exit code is 1 when a record was lost, a command did not end
in time, printed "Traceback", left a process, a lock or a temporary file, or ended with a wrong exit code or file.
Usage: python scripts/fault_storm.py [--runs 500] [--pocl 60] [--seed 1] [--jobs 1] [--only N] [--fault REGEX]
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.results import jsonl
from scripts.storm_faults import RUN_FAULTS
from scripts.storm_process_faults import PROCESS_FAULTS, report_args, report_environment
from scripts.storm_surroundings import POCL_ONLY, SURROUNDINGS, impatient
from scripts.storm_trial import COLUMNS, OK, Stage, Trial
from tests.faulty import BAD_LAUNCH, mountable, tree

FAULTS: Mapping[str, Callable[[Trial], None]] = {**RUN_FAULTS, **PROCESS_FAULTS, **SURROUNDINGS}
# faults that PoCL cannot be made to have, or that do not concern it
FAKE_ONLY = {"refusal", "device out of memory", "device lost", "deaf to TERM", "report or its worker killed"}
REPORT_RUNS = 14  # above 12 runs, processes read them


def stages(folder: Path, pocl: bool) -> list[Stage]:
    """The stages of runs, each tried by a run without a fault."""
    fake = _try_stage(Stage("fake", impatient(tree(folder / "fake")), "3s", 60.0, {}), folder)
    made = [_report_stage(fake, folder)]
    if pocl:
        bad = impatient(tree(folder / "pocl", fake=False, kernels={"launch": BAD_LAUNCH}))
        cache = folder / "cache"
        cache.mkdir()
        made.append(_try_stage(Stage("PoCL", bad, "10s", 120.0, {"POCL_CACHE_DIR": str(cache)}), folder))
    return made


def _try_stage(stage: Stage, folder: Path) -> Stage:
    """The stage with the time and the bytes of a whole run, which is the folder's try-NAME-1."""
    whole_s = whole_bytes = 0.0
    for attempt in range(2):  # the first one compiles
        trial = _plain_trial(stage, folder / f"try-{stage.name}-{attempt}")
        started = time.monotonic()
        with trial.running() as command:
            pass
        whole_s, whole_bytes = time.monotonic() - started, trial.file.stat().st_size
        if command.process.returncode != OK or trial.found:
            sys.exit(f"a run without a fault fails on {stage.name}: {command.said()}{dict(trial.found)}")
    return dataclasses.replace(stage, whole_s=whole_s, whole_bytes=int(whole_bytes))


def _report_stage(stage: Stage, folder: Path) -> Stage:
    """The stage with the runs for a report, which are copies of the run that was tried, and the time of that report."""
    tried = folder / f"try-{stage.name}-1" / "r.jsonl"
    run_id = jsonl.read(tried).header.run_id
    runs = []
    for number in range(REPORT_RUNS):
        runs.append(folder / f"run-of-a-report-{number}.jsonl")
        runs[-1].write_text(tried.read_text().replace(run_id, f"RUN{number:023d}", 1))
    trial = _plain_trial(dataclasses.replace(stage, report_s=stage.limit_s), folder / "try-report")  # this may take long
    started = time.monotonic()
    with trial.ending(report_args(trial, runs), environment=report_environment(trial)) as command:
        pass
    if command.process.returncode != OK or trial.found:
        sys.exit(f"a report without a fault fails: {command.said()}{dict(trial.found)}")
    return dataclasses.replace(stage, runs=tuple(runs), report_s=time.monotonic() - started)


def _plain_trial(stage: Stage, folder: Path) -> Trial:
    return Trial(-1, stage, folder, random.Random(0), [1, 2, 4, 8])  # noqa: S311


def trial_of(number: int, seed: int, stage: Stage, folder: Path, faults: list[str]) -> tuple[str, Trial]:
    """One trial, determined by seed and number but for the moments, which the host's load shifts."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311
    fault = rng.choice([name for name in faults if name not in (FAKE_ONLY if stage.on_pocl else POCL_ONLY)])
    groups = rng.sample([1, 2, 4, 6, 8, 9, 10], rng.randint(2, 4))
    trial = Trial(number, stage, folder / f"run-{number}", rng, groups, rng.choice([1, 1, 2]), compressed=rng.random() < 0.5)
    try:
        FAULTS[fault](trial)
        trial.finish()
    except Exception as error:  # a defect of the storm itself is one, too
        trial.found["other"].append(f"{type(error).__name__}: {error}")
    if not trial.found:
        shutil.rmtree(trial.folder)
    return fault, trial


def table(done: list[tuple[str, Trial]]) -> str:
    """One line for each fault, and one for all of them."""
    lines = ["| fault | runs | of them on PoCL | exit codes | " + " | ".join(COLUMNS) + " |", "|---|--:|--:|---|" + "--:|" * 6]
    for name in [*FAULTS, "all"]:
        trials = [trial for fault, trial in done if name in (fault, "all")]
        if not trials:
            continue
        codes = collections.Counter(str(code) for trial in trials for code in trial.codes)
        said = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items())) if name != "all" else ""
        counts = [str(sum(len(trial.found.get(column, ())) for trial in trials)) for column in COLUMNS]
        on_pocl = sum(trial.stage.on_pocl for trial in trials)
        lines.append(f"| {name} | {len(trials)} | {on_pocl} | {said} | {' | '.join(counts)} |")
    return "\n".join(lines)


def main() -> int:
    """Runs the storm; returns 1 where a defect was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--pocl", type=int, default=60, help="how many of the runs are on PoCL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--only", type=int, help="this run alone, as of the same seed and --pocl")
    parser.add_argument("--fault", default="", help="only faults with this regular expression in their names")
    asked = parser.parse_args()
    faults = [name for name in FAULTS if re.search(asked.fault, name) and (name != "no temporary folder" or mountable())]
    if set(faults) <= FAKE_ONLY:
        asked.pocl = 0
    if set(faults) <= POCL_ONLY:
        asked.pocl = asked.runs
    again = f" --fault '{asked.fault}'" if asked.fault else ""
    print(f"seed {asked.seed}; to repeat run N: --seed {asked.seed} --pocl {asked.pocl}{again} --only N", flush=True)
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
