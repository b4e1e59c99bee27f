"""Verifies every configuration of dgemm, gemm and spmv at odd sizes: a Markdown table, exit code 1 where one is wrong.

Nothing is timed. Products are of n = 67, 333, 777 and 1001, by every candidate of the benchmark's search, tuned ones among
them; matrices of spmv are small ones of every structure, by every format, hint and length of work-group.
Usage: python scripts/verify_variants.py DEVICE [--processes N] [--seconds N]
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.benchmarks import discovered
from clmembench.benchmarks.spmv import matrices
from clmembench.cli.devices import select
from clmembench.measure import sampling
from clmembench.measure.job import Job
from clmembench.measure.worker_process import probed
from clmembench.model import Device, DeviceError, DeviceInfo, Skip, Value, Work
from clmembench.runtimes import runtime

ODD_N = (67, 333, 777, 1001)
MATRIX_BYTES = 1_000_003  # of the values of a matrix, which leaves rows that fill no work-group
NO_LIMIT_NS = 1e12  # of a configuration's first launch
NAMED: Mapping[str, Mapping[str, tuple[Value, ...]]] = {
    "dgemm": {"n": ODD_N},
    "gemm": {"n": ODD_N},
    "spmv": {"matrix": tuple(matrices.GENERATORS)},
}
OUTCOMES = ("verified", "skipped", "wrong", "left")


def points(info: DeviceInfo, benchmark: str) -> Iterator[Mapping[str, Value]]:
    """Every configuration that the benchmark would try on this device at these sizes."""
    known = discovered()[benchmark]
    where = known.where or (lambda *_, **__: True)
    axes = {name: NAMED[benchmark].get(name, axis.values(info)) for name, axis in known.axes.items()}
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        if where(info, **point):
            yield point


def verify(device: Device, benchmark: str, point: Mapping[str, Value]) -> tuple[str, str]:
    """The outcome of a configuration, and what is wrong."""
    try:
        work = discovered()[benchmark].prepare(device, **point)
        assert isinstance(work, Work)
        wrong = sampling.check_outputs(device, work, NO_LIMIT_NS)
    except Skip:
        return "skipped", ""
    except (DeviceError, AssertionError, sampling.SlowConfiguration) as reason:
        wrong = f"{type(reason).__name__}: {reason}"
    return ("wrong", f"{benchmark} {point}: {wrong}") if wrong else ("verified", "")


def verify_share(info: DeviceInfo, number: int, processes: int, seconds: float) -> tuple[Counter[tuple[str, ...]], list[str]]:
    """Every `processes`-th configuration from `number` on, in a process of its own: counts by benchmark, kind and outcome, and
    what is wrong."""
    end = time.monotonic() + seconds
    device = runtime("opencl").open(info)
    counts: Counter[tuple[str, ...]] = Counter()
    wrong: list[str] = []
    for benchmark in NAMED:
        for point in itertools.islice(points(info, benchmark), number, None, processes):
            outcome, what = verify(device, benchmark, point) if time.monotonic() < end else ("left", "")
            kind = " ".join(str(point[name]) for name in ("dtype", "variant", "format") if name in point)
            counts[benchmark, kind, outcome] += 1
            wrong += filter(None, [what])
    return counts, wrong


def main() -> int:
    """The table; 1 where a configuration is wrong or none was verified."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    info = select(runtime("opencl").devices(), given.device)
    info = replace(info, features=probed(Job("opencl", info)).features, array_bytes=MATRIX_BYTES)
    counts: Counter[tuple[str, ...]] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(verify_share, info, k, given.processes, given.seconds) for k in range(given.processes)]
        for share in shares:
            counts += share.result()[0]
            wrong += share.result()[1]
    print("| benchmark | variant | " + " | ".join(OUTCOMES) + " |\n| --- | --- |" + " --: |" * len(OUTCOMES))
    for benchmark, kind in dict.fromkeys(key[:2] for key in counts):
        cells = (counts[benchmark, kind, outcome] for outcome in OUTCOMES)
        print(f"| {benchmark} | {kind} | " + " | ".join(map(str, cells)) + " |")
    print(*wrong, sep="\n")
    return int(bool(wrong) or not any(key[2] == "verified" for key in counts))


if __name__ == "__main__":
    sys.exit(main())
