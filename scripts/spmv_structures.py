"""Prints a Markdown table of spmv by structure: the format by rule, the best of a search, and the best library of the host.

Ours and the libraries are timed as `peers` times them, in one process and interleaved in rounds; ratios are medians and
quartiles over rounds. Results are verified. All candidates go to standard error. Matrices for which the time does not suffice
have no line. With MKL, set KMP_BLOCKTIME=0: its threads would spin for 200 ms after each product, beside ours. Matrices are
also those of spmv_held_out.py, by name; the best two of ours are of two formats. With --cpu-time, times are this process's
CPU time over the compute units, for a CPU that others use: it leaves out waiting for threads that they keep from running.
Usage: python scripts/spmv_structures.py DEVICE [--seconds N] [--size BYTES] [--seed N] [--cpu-time] [--matrix NAME]...
    [--format NAME]...
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.benchmarks import discovered
from clmembench.benchmarks.spmv import matrices, spmv_problem
from clmembench.benchmarks.spmv.spmv import FORMATS_WITHOUT_HINT
from clmembench.cli.devices import select
from clmembench.measure import sampling, timed_work
from clmembench.measure.job import Job
from clmembench.measure.worker_process import probed
from clmembench.model import Device, DeviceError, DeviceInfo, Skip, Value, Work
from clmembench.plan.selection import FULL_BUDGET
from clmembench.runtimes import runtime
from scripts.spmv_held_out import HELD_OUT

ROUNDS = 25  # so that quartiles mean something on a busy host
TRIAL_SAMPLES = 3
GIVE_UP_RATIO = 8.0  # to the best so far, after one pass, which finds cold caches
FINALISTS = 2  # candidates and libraries that are measured in rounds, besides the rule's choice
BENCHMARK = discovered()["spmv"]
WHERE = BENCHMARK.where or (lambda *_, **__: True)
matrices.GENERATORS.update(HELD_OUT)
FORMATS = ("csr_row", "csr_shares", "csr_adaptive", "csr_team", "ell", "sell", "slab")
COLUMNS = (
    "matrix",
    "rows",
    "nonzeros",
    "longest",
    "by rule",
    "best found",
    "rule / best",
    "library",
    "best / library",
    "next library",
    "best / next",
)


@dataclass(slots=True)
class Candidate:
    """One of ours or a library, prepared and verified, with the times of a pass."""

    name: str
    timed: timed_work.TimedWork
    ns: list[float]
    by_cpu_time: ClassVar[bool] = False

    def sample(self, device: Device) -> None:
        timing = self.timed.sample(device)
        ns = timing.cpu_ns / device.info.compute_units if self.by_cpu_time else self.timed.ns(timing)
        self.ns.append(ns / self.timed.passes)

    @property
    def median(self) -> float:
        return statistics.median(self.ns)


def points(info: DeviceInfo, matrix: str, seed: int, formats: Collection[str]) -> Iterator[Mapping[str, Value]]:
    """The rule's choice, and then every configuration with the device's best hint, teams no longer than a row's mean."""
    a = spmv_problem.problem_of_point(matrix, seed, info).matrix
    hint = BENCHMARK.axes["hints"].values(info)[-1]
    names = [name for name in BENCHMARK.axes if name != "matrix"]
    for values in itertools.product(*(BENCHMARK.axes[name].values(info) for name in names)):
        point = dict(zip(names, values, strict=True))
        without = point["format"] in FORMATS_WITHOUT_HINT[str(hint)]
        near = point["format"] != "csr_team" or a.nonzeros <= 4 * int(str(point["team"])) * a.rows <= 8 * a.nonzeros
        near = near and (not formats or point["format"] in ("auto", *formats))
        if near and point["hints"] == ("none" if without else hint) and WHERE(info, matrix=matrix, **point):
            yield point


def candidate(
    device: Device, name: str, benchmark: str, quantum_ns: float, best_ns: float, **params: Value
) -> Candidate | None:
    """A candidate after its trial, or None if it is hopeless or does not suit; raises AssertionError for a wrong result."""
    try:
        work = discovered()[benchmark].prepare(device, **params)
        assert isinstance(work, Work)
        wrong = sampling.check_outputs(device, work, GIVE_UP_RATIO * best_ns)
        assert not wrong, f"{name}: {wrong}"
        made = Candidate(name, timed_work.rate_work(device, work, FULL_BUDGET, quantum_ns), [])
    except (Skip, DeviceError, sampling.SlowConfiguration) as reason:
        print(f"    {name}: {reason}", file=sys.stderr)
        return None
    for _ in range(TRIAL_SAMPLES):
        made.sample(device)
    print(f"    {made.median / 1e3:9.1f} us {name}", file=sys.stderr, flush=True)
    return made


def line(device: Device, matrix: str, formats: Collection[str], quantum_ns: float, end: float) -> str:
    """The table's line of a matrix."""
    info = device.info
    a = spmv_problem.problem_of_point(matrix, device.seed, info).matrix
    print(matrix, file=sys.stderr, flush=True)
    ours: list[Candidate] = []
    for point in points(info, matrix, device.seed, formats):
        if ours and time.monotonic() > end:
            break
        best_ns = min((c.median for c in ours), default=0.0)
        name = " ".join(str(point[key]) for key in ("format", "hints", "order", "work_group", "per", "team", "sigma"))
        ours += filter(None, [candidate(device, name, "spmv", quantum_ns, best_ns, matrix=matrix, **point)])
        ours = ours[:1] + best_by_format(ours[1:])[:FINALISTS]
    libraries = [
        candidate(device, b.name, b.name, quantum_ns, 0, matrix=matrix)
        for b in discovered().values()
        if b.peer_of == "spmv" and b.is_available is not None and b.is_available(info)
    ]
    others = sorted(filter(None, libraries), key=lambda c: c.median)[:FINALISTS]
    finalists = [*ours, *others]
    for one in finalists:
        one.ns.clear()
    for _, one in itertools.product(range(ROUNDS), finalists):
        one.sample(device)
    for one in finalists:
        print(f"    in rounds {one.median / 1e3:9.1f} us {one.name}", file=sys.stderr, flush=True)
    rule, best = ours[0], min(ours, key=lambda c: c.median)
    choice = rule.timed.work.facts["chosen_format"]
    format = choice if best is rule else best.name.split()[0]
    cells = [f"`{matrix}`", a.rows, a.nonzeros, a.row_lengths.max()]
    cells += [f"{choice} {rule.median / 1e3:.4g} us", f"{format} {best.median / 1e3:.4g} us", ratio(rule, best)]
    for library in sorted(others, key=lambda c: c.median):
        cells += [f"{library.name} {library.median / 1e3:.4g} us", ratio(best, library)]
    cells += [""] * (len(COLUMNS) - len(cells))
    return "| " + " | ".join(map(str, cells)) + " |"


def best_by_format(candidates: Collection[Candidate]) -> list[Candidate]:
    """The best candidate of each format, the best format first."""
    best: dict[str, Candidate] = {}
    for one in sorted(candidates, key=lambda c: c.median):
        best.setdefault(one.name.split()[0], one)
    return [*best.values()]


def ratio(one: Candidate, other: Candidate) -> str:
    """Speed of one over the other's, by rounds: the median and the quartiles."""
    low, middle, high = statistics.quantiles((theirs / mine for mine, theirs in zip(one.ns, other.ns, strict=True)), n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def generated(matrix: str, seed: int, most: int) -> spmv_problem.Problem:
    """The problem, made in another process."""
    return spmv_problem.make_problem(matrix, seed, most)


def main() -> None:
    """One line for each matrix; those to come are generated meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--size", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--matrix", action="append", choices=matrices.GENERATORS)
    parser.add_argument("--format", action="append", default=[], choices=FORMATS)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    info = select(runtime("opencl").devices(), given.device)
    found = probed(Job("opencl", info))
    device = runtime("opencl").open(replace(info, features=found.features, array_bytes=given.size))
    most = given.size // 8 if given.size else matrices.MAX_INDEX
    device.seed, Candidate.by_cpu_time = given.seed, given.cpu_time
    names = given.matrix or [name for name in matrices.GENERATORS if name not in HELD_OUT]
    with ProcessPoolExecutor(max(1, (multiprocessing.cpu_count() - 1) // 3), multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(generated, name, given.seed, most) for name in names]
        print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
        for number, name in enumerate(names):
            spmv_problem.PROBLEMS.get((name, given.seed, most), waiting.pop(0).result)
            share = (end - time.monotonic()) / (len(names) - number)
            if share <= 0:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            print(line(device, name, given.format, found.quantum_ns, time.monotonic() + share), flush=True)


if __name__ == "__main__":
    main()
