"""How often intervals cover the truth, and how often runs of one device are called different: docs/calibration.md's figures.

python scripts/calibrate.py coverage                      # simulated processes and samples with known truth
python scripts/calibrate.py measure FOLDER [RUNS] [DEVICE]  # runs of one small suite, one after the other
python scripts/calibrate.py pairs FOLDER                  # each run against the next one: verdicts where nothing changed
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from clmembench import compare, results, stats
from clmembench.derive import derive
from clmembench.gates.whole import judged_run
from clmembench.model import Run
from clmembench.report import rows

TRIALS = 2000
PROCESSES = (0.0, 0.02, 0.1)  # standard deviation of the logarithm between processes
SAMPLES = 0.02  # and within one
PLANTED = (1.05, 1.1, 1.2, 1.5, 2.0)

MICRO = (
    *("-b", "pchase", "-b", "stream", "-a", "array_bytes=[16KiB,256KiB,4MiB,64MiB]", "-a", "spacing_bytes=line"),
    *("-a", "op=[triad,copy]", "-a", "dtype=float", "-a", "order=item", "-a", "width=4", "-a", "nontemporal=0"),
    *("-a", "work_group=64", "-b", "launch*", "-a", "groups=1", "--processes", "6"),
)


def coverage() -> None:
    """Intervals of medians, differences and ratios over simulated runs whose truth is known."""
    print("| spread between processes | processes | median | difference | ratio |\n|--:|--:|--:|--:|--:|")
    for spread in PROCESSES:
        for processes in (1, 3, 6, 12):
            rng = np.random.default_rng(2026)
            hits = Counter[str]()
            for trial in range(TRIALS):
                first, second = (_simulated(rng, processes, spread, 100.0) for _ in range(2))
                pooled = stats.pool(first, seed=trial, rounds=400)
                hits["median"] += pooled.low <= 100.0 <= pooled.high
                ends = [(near, [300.0 / 100.0 * f for f in far]) for near, far in zip(first, second, strict=True)]
                apart = stats.pool_differences(ends, seed=trial, rounds=400)
                hits["difference"] += apart.low <= 200.0 <= apart.high
                medians = [[statistics.median(p) for p in run] for run in (first, second)]
                ratio = stats.ratio(*medians, prior=max(spread, 0.005), between_runs=0.0)
                hits["ratio"] += ratio.low <= 1.0 <= ratio.high
            shares = " | ".join(f"{hits[what] / TRIALS:.1%}" for what in ("median", "difference", "ratio"))
            print(f"| {spread:.0%} | {processes} | {shares} |", flush=True)


def _simulated(rng: np.random.Generator, processes: int, spread: float, truth: float) -> list[list[float]]:
    """Samples of each process: its own luck, noise, and now and then a disturbance, which only adds."""
    found = []
    for luck in np.exp(rng.normal(0.0, spread, processes)):
        samples = truth * luck * np.exp(rng.normal(0.0, SAMPLES, 32))
        samples[rng.random(32) < 0.05] *= 1.5
        found.append([float(s) for s in samples])
    return found


def measure(folder: Path, runs: int, device: str) -> None:
    """That many runs of the same small suite; those that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(runs):
        path = folder / f"{index:03}.jsonl"
        if not path.exists():
            command = ["clmembench", "run", "-d", device, *MICRO, "--seed", str(index), "-o", str(path)]
            done = subprocess.run([sys.executable, "-P", "-m", *command], capture_output=True, text=True)
            print(f"{path}: exit code {done.returncode}", flush=True)


def pairs(folder: Path) -> None:
    """Verdicts on pairs of runs between which nothing was changed, and on the same with a change planted."""
    runs = [_judged(path) for path in sorted(folder.glob("*.jsonl"))]
    print(f"{len(runs)} runs of {runs[0].header.device.name}; standard deviations of the logarithm, the median over points:")
    print("between processes {:.2%}, between runs beyond that {:.2%}\n".format(*_spreads(runs)))
    print("| processes a run | pairs | values | called different | rate | its 95% upper bound | undecided |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for label, chosen in (("6", runs), ("3", [_first(run, 3) for run in runs]), ("1", [_first(run, 1) for run in runs])):
        couples = list(zip(chosen[::2], chosen[1::2], strict=False))
        said = Counter(change.verdict for a, b in couples for change in compare.compare(a, b).changes if change.ratio)
        total, wrong = sum(said.values()), said["faster"] + said["slower"]
        bound = _upper(wrong, total)
        share = said["undecided"] / total
        print(f"| {label} | {len(couples)} | {total} | {wrong} | {wrong / total:.2%} | {bound:.2%} | {share:.0%} |")
        for a, b in couples:
            for change in compare.compare(a, b).changes:
                if change.verdict in ("faster", "slower") and change.ratio:
                    print(f"  {a.path} {change.benchmark} {dict(change.params)} {change.ratio}", file=sys.stderr)
    print("\n| planted | found with 6 processes | with 1 |\n|--:|--:|--:|")
    for factor in PLANTED:
        shares = []
        for count in (6, 1):
            chosen = [_first(run, count) for run in runs]
            found = [
                c
                for a, b in zip(chosen[::2], chosen[1::2], strict=False)
                for c in compare.compare(a, _slowed(b, factor)).changes
            ]
            shares.append(sum(c.verdict == "slower" for c in found if c.ratio) / len(found))
        print(f"| {factor:.2f} times as slow | {shares[0]:.0%} | {shares[1]:.0%} |")


def _judged(path: Path) -> Run:
    run = results.read(path)
    return judged_run(run, rows.sheet_of(run))


def _first(run: Run, processes: int) -> Run:
    return replace(run, records=tuple(r for r in run.records if r.process < processes))


def _slowed(run: Run, factor: float) -> Run:
    """The run with every time that much longer."""

    def longer(times: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return tuple(round(factor * t) for t in times) if times is not None else None

    records = []
    for record in run.records:
        clocks = ("host_ns", "device_ns", "queue_ns")
        changes = [{clock: longer(getattr(s, clock)) for clock in clocks} for s in record.series]
        series = tuple(replace(s, **c) for s, c in zip(record.series, changes, strict=True))  # type: ignore[arg-type]
        records.append(replace(record, series=series))
    return replace(run, records=tuple(records))


def _spreads(runs: Sequence[Run]) -> tuple[float, float]:
    """Between processes, and between runs beyond what that explains; the median over points."""
    logs: dict[object, list[list[float]]] = {}
    for run in runs:
        for value in derive(run):
            if value.status == "ok" and len(value.medians) > 2 and min(value.medians) > 0:
                logs.setdefault((value.benchmark, value.metric, str(value.params)), []).append(
                    [math.log(m) for m in value.medians]
                )
    return tuple(statistics.median(column) for column in zip(*_each(logs.values()), strict=True))  # type: ignore[return-value]


def _each(points: object) -> Iterator[tuple[float, float]]:
    for of_runs in points:  # type: ignore[attr-defined]
        if len(of_runs) > 2:
            within = statistics.mean(statistics.variance(logs) for logs in of_runs)
            between = statistics.variance([statistics.mean(logs) for logs in of_runs]) - within / len(of_runs[0])
            yield math.sqrt(within), math.sqrt(max(0.0, between))


def _upper(wrong: int, total: int) -> float:
    """The upper end of Clopper and Pearson's 95% interval of a rate."""
    from scipy.stats import beta

    return float(beta.ppf(0.975, wrong + 1, total - wrong)) if wrong < total else 1.0


def main(argv: Sequence[str]) -> None:
    """What the first word says."""
    if argv[:1] == ["coverage"]:
        coverage()
    elif argv[:1] == ["measure"] and len(argv) > 1:
        measure(Path(argv[1]), int(argv[2]) if len(argv) > 2 else 34, argv[3] if len(argv) > 3 else "0")
    elif argv[:1] == ["pairs"] and len(argv) > 1:
        pairs(Path(argv[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
