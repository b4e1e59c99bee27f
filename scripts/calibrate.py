"""Measures how often intervals cover the truth and how often unchanged devices are called different: docs/measuring.md.

Usage: python scripts/calibrate.py coverage                  # simulated processes and samples with known ground truth
       python scripts/calibrate.py measure FOLDER RUNS DEVICE cpu|gpu [SECONDS [PROCESSES [PART...]]]  # runs of a small suite
       python scripts/calibrate.py digest OUT.csv FOLDER...  # medians of the runs' processes; a folder is a device of one model
       python scripts/calibrate.py fit KIND-HOST.csv...      # the contents of clmembench/analysis/noise.toml
       python scripts/calibrate.py pairs KIND-HOST.csv...    # verdicts on runs between which nothing changed, and the power
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from clmembench.analysis import compare, decision, noise, stats
from clmembench.analysis.derive import Derived, derive
from clmembench.gates.whole import judged_run
from clmembench.model import BenchmarkInfo, Placement, Run
from clmembench.report import frame
from clmembench.results import jsonl

TRIALS = 2000
PROCESS_SPREADS = (0.0, 0.02, 0.1)  # standard deviation of the logarithm between processes
SAMPLE_SPREAD = 0.02  # and within a process
PLANTED_SLOWDOWNS = (1.05, 1.1, 1.2, 1.5, 2.0)

# One small suite in four parts, a results file for each, since an axis has one meaning in a run. Results of searches are fixed
# here, so that a run measures and does not search; every point uses PROCESSES_PER_RUN fresh processes.
SUITES: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "memory": "-s quick -b pchase -b stream "
        "-a array_bytes=[16KiB,256KiB,4MiB,64MiB] -a spacing_bytes=line -a op=[triad,copy] "
        "-a dtype=float -a order=item -a width=4 -a nontemporal=0 -a work_group=64",
        "sync": "-s quick "
        "-b launch* -b barrier -b device_barrier -b atomic -a groups=2 -a work_items=64 -a op=add -a dtype=int "
        "-a memory=global -a address=same -a result=used",
        "compute": "-s quick -b reduction -b dgemm -b transfer -b transfer_latency -a n=[512,65536,4194304] -a method=loop "
        "-a groups_a_unit=1 -a width=8 -a work_group=[1,64] -a dtype=double -a tile=6x16 -a depth=512 -a variant=portable "
        "-a direction=to_device -a memory=[pinned,pageable] -a array_bytes=[16KiB,64MiB]",
        "more": "-b spmv -b arithmetic -b cache_read -a matrix=banded -a format=csr_row -a hints=none -a order=blocked "
        "-a work_group=64 -a per=1 -a dtype=double -a width=8 -a chains=8 -a set=own -a set_bytes=[16KiB,256KiB]",
    },
    "gpu": {
        "memory": "-s quick -b pchase -b stream "
        "-a array_bytes=[64KiB,4MiB,64MiB,2GiB] -a spacing_bytes=line -a op=[triad,copy] "
        "-a dtype=double -a order=item -a width=2 -a nontemporal=0 -a work_group=256",
        "sync": "-s quick "
        "-b launch* -b barrier -b device_barrier -b atomic -a groups=128 -a work_items=256 -a op=add -a dtype=int "
        "-a memory=global -a address=same -a result=used -a items=[1,256]",
        "compute": "-s quick -b reduction -b dgemm -b transfer -b transfer_latency -a n=[4096,268435456] -a method=tree "
        "-a groups_a_unit=4 -a width=4 -a work_group=256 -a dtype=double -a tile=8x8 -a depth=8 -a variant=portable "
        "-a direction=[to_device,from_device] -a memory=[pinned,pageable] -a array_bytes=[64KiB,256MiB]",
        "more": "-b spmv -b arithmetic -b cache_read -b local_read -a matrix=reservoir -a format=csr_team -a hints=none "
        "-a order=strided -a team=16 -a work_group=128 -a per=4 -a sigma=1 -a dtype=double -a width=1 -a chains=8 "
        "-a set=[own,shared] "
        "-a set_bytes=[64KiB,16MiB] -a path=[plain,portable] -a unit_items=1024",
    },
}
PROCESSES_PER_RUN = 6
MIN_VARIANCE = 1e-9  # of a logarithm: a coarse clock may show none
MIN_RUN_SHARE = 0.1  # of the variance between processes: few runs may not show it
FREEDOM_RANGE = (0.5, 30.0)
RUN_FREEDOM, DEVICE_FREEDOM = 4.0, 3.0
HEAD = f"""# How much values differ where nothing was changed, made by scripts/calibrate.py fit from reports/calibration.
# Standard deviations are of logarithms; docs/measuring.md says what they mean.
run_freedom = {RUN_FREEDOM}
device_freedom = {DEVICE_FREEDOM}
"""


def coverage() -> None:
    """Prints the coverage of intervals of medians, differences and ratios over simulated runs with known ground truth."""
    print("| spread between processes | processes | median | difference | ratio |\n|--:|--:|--:|--:|--:|")
    for spread in PROCESS_SPREADS:
        for processes in (1, 3, 6, 12):
            rng = np.random.default_rng(2026)
            hits = Counter[str]()
            for trial in range(TRIALS):
                first, second = (_simulate(rng, processes, spread, 100.0) for _ in range(2))
                pooled = stats.pool(first, seed=trial, rounds=400)
                hits["median"] += pooled.low <= 100.0 <= pooled.high
                ends = [(near, [300.0 / 100.0 * f for f in far]) for near, far in zip(first, second, strict=True)]
                apart = stats.pool_differences(ends, seed=trial, rounds=400)
                hits["difference"] += apart.low <= 200.0 <= apart.high
                a, b = ([statistics.median(p) for p in run] for run in (first, second))
                ratio = stats.ratio(a, b, prior=max(spread, 0.005), between_runs=0.0)
                hits["ratio"] += ratio.low <= 1.0 <= ratio.high
            shares = " | ".join(f"{hits[what] / TRIALS:.1%}" for what in ("median", "difference", "ratio"))
            print(f"| {spread:.0%} | {processes} | {shares} |", flush=True)


def _simulate(rng: np.random.Generator, processes: int, spread: float, truth: float) -> list[list[float]]:
    """Samples of each process: a factor of its own, noise, and occasional disturbances, which only add time."""
    found = []
    for luck in np.exp(rng.normal(0.0, spread, processes)):
        samples = truth * luck * np.exp(rng.normal(0.0, SAMPLE_SPREAD, 32))
        samples[rng.random(32) < 0.05] *= 1.5
        found.append([float(s) for s in samples])
    return found


def measure(folder: Path, runs: int, device: str, kind: str, seconds: float, processes: int, parts: Sequence[str]) -> None:
    """Makes that many runs of the suite of that kind of device, one after the other; none starts after the given seconds.
    Existing parts are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for index in range(runs):
        for part, options in SUITES[kind].items():
            path = folder / f"{part}-{index:02}.jsonl"
            if part not in (parts or SUITES[kind]) or path.exists() or time.monotonic() - began > seconds:
                continue
            command = [sys.executable, "-P", "-m", "clmembench", "run", "-d", device, *options.split()]
            command += ["--processes", str(processes), "--seed", str(index), "-o", str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
            said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
            print(f"{path}: exit code {done.returncode}, {time.monotonic() - began:.0f} s", *said, flush=True)


FIELDS = (
    "run",
    "device",
    "kind",
    "benchmark",
    "suite",
    "params",
    "metric",
    "unit",
    "better",
    "clock",
    "pass_ns",
    "nbytes",
    "others",
    "medians",
)


def digest(folders: Sequence[Path], output: Path) -> None:
    """Writes the part of calibration runs that is committed: one line for each value and run, with the median of each process;
    a folder is a device. Devices that the file already has are kept, unless they are among the folders."""
    kept: list[dict[str, str]] = []
    if output.exists():
        with output.open(encoding="utf-8", newline="") as file:
            kept = [row for row in csv.DictReader(file) if row["device"] not in {folder.name for folder in folders}]
    with output.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(FIELDS)
        table.writerows([row[name] for name in FIELDS] for row in kept)
        for folder in folders:
            for path in sorted(folder.glob("*-*.jsonl")):
                run = _judge(path)
                kind = noise.kind_of(run.header.device, run.header.host)
                for value in derive(run):
                    if value.status == "ok" and value.medians and min(value.medians) > 0:
                        text = json.dumps(dict(value.params), sort_keys=True)
                        medians = " ".join(f"{m:.6g}" for m in value.medians)
                        plain = (value.benchmark, run.header.benchmarks[value.benchmark].suite, text, value.metric, value.unit)
                        times = (value.better, value.clock, f"{value.pass_ns:.6g}", value.nbytes, value.others, medians)
                        table.writerow((int(path.stem.rpartition("-")[2]), folder.name, kind, *plain, *times))


def read_digest(path: Path) -> dict[tuple[str, int], list[Derived]]:
    """The values of a digest by device, named with its model (the digest's own name), and run."""
    found: dict[tuple[str, int], list[Derived]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            medians = tuple(map(float, row["medians"].split()))
            value = Derived(
                benchmark=row["benchmark"], params=json.loads(row["params"]), tuning={}, place=Placement(),
                metric=row["metric"], unit=row["unit"], better=row["better"], peak=None, status="ok", reason="",
                median=statistics.median(medians),
                clock=row["clock"], pass_ns=float(row["pass_ns"]), nbytes=int(row["nbytes"]), others=float(row["others"]),
                medians=medians, measured_in=tuple(range(len(medians))), processes=len(medians),
            )  # fmt: skip
            found.setdefault((f"{path.stem} {row['device']}", int(row["run"])), []).append(value)
    return found


# ---- fitting ------------------------------------------------------------------------------------------------------------

Runs = Mapping[tuple[str, int], Sequence[Derived]]


def fit_noise(runs: Runs) -> dict[str, noise.Noise]:
    """The noise of every class of one kind of device: of each benchmark and duration, of each duration, and of all."""
    points: dict[tuple[str, str, str], dict[tuple[str, int], Derived]] = {}
    for run, values in runs.items():
        for value in values:
            points.setdefault((value.benchmark, json.dumps(dict(value.params)), value.metric), {})[run] = value
    classes: dict[str, list[Mapping[tuple[str, int], Derived]]] = {}
    for point in points.values():
        value = next(iter(point.values()))
        for name in (f"{value.benchmark}/{noise.duration_of(value)}", f"*/{noise.duration_of(value)}", "*"):
            classes.setdefault(name, []).append(point)
    return {name: found for name, of_class in sorted(classes.items()) if (found := _class_noise(of_class)) is not None}


def _class_noise(points: Sequence[Mapping[tuple[str, int], Derived]]) -> noise.Noise | None:
    """The noise of one class. Variances between processes are assumed to be drawn around a common one (Smyth 2004, section
    6.2)."""
    variances, runs, devices = [], [], []
    for point in points:
        by_device: dict[str, list[list[float]]] = {}
        for (device, _), value in point.items():
            logs = [math.log(m) for m in value.medians]
            if len(logs) >= noise.MIN_PROCESSES:
                variances.append((max(statistics.variance(logs), MIN_VARIANCE), len(logs) - 1))
                by_device.setdefault(device, []).append(logs)
        for of_device in by_device.values():
            if len(of_device) > 1:
                between = statistics.variance([statistics.median(logs) for logs in of_device])
                within = statistics.mean(statistics.variance(logs) for logs in of_device)
                runs.append((between - within * math.pi / 2 / len(of_device[0]), len(of_device) - 1))
        of_model: dict[str, list[float]] = {}  # by model: a difference between models is not noise
        for device, of_device in by_device.items():
            middle = statistics.mean(statistics.median(logs) for logs in of_device)
            of_model.setdefault(device.partition(" ")[0], []).append(middle)
        devices += [statistics.variance(middles) for middles in of_model.values() if len(middles) > 1]
    if len(variances) < 2:
        return None
    middle, freedom = _fit_variance(variances)
    weight = sum(n for _, n in runs)
    between = sum(variance * n for variance, n in runs) / weight if weight else middle
    run_sd = math.sqrt(max(between, MIN_RUN_SHARE * middle))
    device_sd = _round(math.sqrt(statistics.mean(devices))) if devices else None
    return noise.Noise(_round(math.sqrt(middle)), round(freedom, 1), _round(run_sd), device_sd)


def _round(deviation: float) -> float:
    return float(f"{deviation:.3g}")


def _fit_variance(variances: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """The common variance, and the degrees of freedom with which variances scatter around it, from the moments of their
    logarithms (Smyth)."""
    from scipy.special import digamma, polygamma

    logs = [math.log(v) - stats.mean_log_chi2(n) for v, n in variances]
    excess = statistics.variance(logs) - statistics.mean(float(polygamma(1, n / 2)) for _, n in variances)
    low, high = FREEDOM_RANGE
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if float(polygamma(1, middle / 2)) > excess else (low, middle)
    freedom = math.sqrt(low * high)
    return math.exp(statistics.mean(logs) + float(digamma(freedom / 2)) - math.log(freedom / 2)), freedom


def fit(paths: Sequence[Path]) -> None:
    """Prints noise.toml, fitted to the digests of several hosts."""
    print(HEAD, end="")
    for kind, runs in _kinds(paths).items():
        for name, entry in fit_noise(runs).items():
            print(f'\n[kinds.{kind}."{name}"]')
            for key in ("process_sd", "process_freedom", "run_sd", "device_sd"):
                if (value := getattr(entry, key)) is not None:
                    print(f"{key} = {value}")


def _kinds(paths: Sequence[Path]) -> dict[str, dict[tuple[str, int], list[Derived]]]:
    """The stored runs by kind of device, which is the start of a file's name: kind-....csv."""
    kinds: dict[str, dict[tuple[str, int], list[Derived]]] = {}
    for path in paths:
        kinds.setdefault(path.stem.partition("-")[0], {}).update(read_digest(path))
    return kinds


# ---- validation: pairs of runs between which nothing was changed, and pairs with a planted change ----------------------------


def pairs(paths: Sequence[Path]) -> None:
    """Prints false alarms and power, host by host. Each pair of runs is judged with the noise that was fitted to all other
    runs."""
    print("| host | processes a run | values | called different | rate | its 95% upper bound | same | undecided |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    kinds = _kinds(paths)
    hosts = {
        path.stem.partition("-")[2]: leave_pairs_out(kinds[path.stem.partition("-")[0]], read_digest(path)) for path in paths
    }
    for host, of_host in hosts.items():
        for count in (6, 3, 1):
            said = Counter(change.verdict for change in null_changes(of_host, count))
            total, wrong = sum(said.values()), said["faster"] + said["slower"]
            print(f"| {host} | {count} | {total} | {wrong} | {wrong / total:.2%} | {_upper(wrong, total):.2%} ", end="")
            print(f"| {said['same'] / total:.0%} | {said['undecided'] / total:.0%} |")
    print(
        "\nSmallest slowdown of one value alone that is called in 80% of cases, by processes a run; the median over values:\n"
    )
    print("| benchmark, duration of a pass | " + " | ".join(f"{host}, {n}" for host in hosts for n in (1, 3, 6)) + " |")
    print("|---" + "|--:" * 3 * len(hosts) + "|")
    powers = [_power(of_host, count) for of_host in hosts.values() for count in (1, 3, 6)]
    for name in sorted({name for of in powers for name in of}):
        cells = [f"{of[name]:.3g}x" if name in of else "–" for of in powers]
        print(f"| {name} | " + " | ".join(cells) + " |")


Pair = tuple[noise.NoiseTable, str, Sequence[Derived], Sequence[Derived]]


def leave_pairs_out(kind: Runs, host: Runs, step: int = 1) -> list[Pair]:
    """Each pair of runs of one device of a host (or every `step`-th pair), with the noise that all other runs of the kind
    give."""
    same = [(a, b) for a, b in combinations(sorted(host), 2) if a[0] == b[0]]
    found = []
    for pair in same[::step]:
        others = fit_noise({key: values for key, values in kind.items() if key not in pair})
        table = noise.NoiseTable({"cpu": others}, RUN_FREEDOM, DEVICE_FREEDOM)
        found.append((table, pair[0][0], host[pair[0]], host[pair[1]]))
    return found


def null_changes(of_host: Sequence[Pair], processes: int) -> Iterator[compare.Change]:
    """The changes between two runs each between which nothing was changed."""
    for table, device, a, b in of_host:
        sides = [decision.Side([_first(v, processes) for v in values], "cpu", device) for values in (a, b)]
        yield from compare.compare_sides(sides[0], sides[1], _cards(a), decision.DEFAULT_MARGIN, table).changes


def _power(of_host: Sequence[Pair], processes: int) -> dict[str, float]:
    """The smallest slowdown, by benchmark and duration, that is detected where a single value is compared."""
    found: dict[str, list[float]] = {}
    for table, _, a, b in of_host:
        sides = [[_first(v, processes) for v in values] for values in (a, b)]
        factors = [noise.host_factor(table, "cpu", side) or 1.0 for side in sides]
        others = {(v.benchmark, str(v.params), v.metric): v for v in sides[1]}
        for x in sides[0]:
            y = others.get((x.benchmark, str(x.params), x.metric))
            if y is not None:
                typical = table.of("cpu", x), table.of("cpu", y)
                ratio = noise.log_ratio(x.medians, y.medians, typical, table, False, (factors[0], factors[1]))
                smallest = ratio.smallest_change(decision.DEFAULT_MARGIN, decision.FALSE_DISCOVERY_RATE / 2)
                found.setdefault(f"{x.benchmark}, {noise.duration_of(x)}", []).append(smallest)
    return {name: statistics.median(values) for name, values in sorted(found.items())}


def _cards(values: Sequence[Derived]) -> dict[str, BenchmarkInfo]:
    """The part of each benchmark's card that comparing its values needs."""
    return {v.benchmark: BenchmarkInfo(1, "calibration", "", "", ()) for v in values}


def _judge(path: Path) -> Run:
    run = jsonl.read(path)
    return judged_run(run, frame.sheet_of(run))


def _first(value: Derived, processes: int) -> Derived:
    medians = value.medians[:processes]
    return replace(value, medians=medians, measured_in=value.measured_in[:processes], median=statistics.median(medians))


def _upper(wrong: int, total: int) -> float:
    """The upper end of Clopper and Pearson's 95% interval of a rate."""
    from scipy.stats import beta

    return float(beta.ppf(0.975, wrong + 1, total - wrong)) if wrong < total else 1.0


def main(argv: Sequence[str]) -> None:
    """Runs the command that the first argument names."""
    if argv[:1] == ["coverage"]:
        coverage()
    elif argv[:1] == ["measure"] and len(argv) > 4:
        seconds, processes = (
            (float(argv[5]) if len(argv) > 5 else math.inf),
            int(argv[6]) if len(argv) > 6 else PROCESSES_PER_RUN,
        )
        measure(Path(argv[1]), int(argv[2]), argv[3], argv[4], seconds, processes, argv[7:])
    elif argv[:1] == ["digest"] and len(argv) > 2:
        digest([Path(name) for name in argv[2:]], Path(argv[1]))
    elif argv[:1] == ["fit"] and len(argv) > 1:
        fit([Path(name) for name in argv[1:]])
    elif argv[:1] == ["pairs"] and len(argv) > 1:
        pairs([Path(name) for name in argv[1:]])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
