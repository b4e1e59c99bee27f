"""DGEMM, SpMV and sums of clmembench against the libraries people use, in turn, on one device; prints ratios, over 1: ours is
faster.

On a CPU: NumPy (its BLAS) and SciPy, whose SpMV and sum use one thread; on an NVIDIA GPU: cuBLAS, cuSPARSE, CUB through CuPy.
Ours is `clmembench run` in a fresh process each round, in the shape that its first round found best.
Usage: python scripts/against_libraries.py [rounds] [device]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clmembench import matrices
from clmembench.runtimes import runtime

LEAST_S = 0.5  # of a library's calls in a round
QUEUED = 100  # calls behind a long kernel, so that no launch from Python is within the interval


@dataclass(frozen=True)
class Case:
    """One thing to measure: ours by the command line, the peer by a function that gives ns of one call; work of one call."""

    name: str
    bench: str
    axes: dict[str, object]
    metric: str
    unit: str
    work: float  # per call, so that work / ns is in the unit
    peer: str
    prepare: Callable[[bool], Callable[[], float]]


def main(rounds: int, device: str) -> None:
    """Every case in every round, ours and the peer's in turn."""
    info = next(d for n, d in enumerate(runtime("opencl").devices()) if str(n) == device)
    on_gpu = info.kind == "gpu"
    print(f"{info.name}, {info.platform} {info.driver}; {rounds} rounds; ratio above 1: ours is faster", flush=True)
    for case in cases(on_gpu):
        peer, shape = case.prepare(on_gpu), {}
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(case.work / peer())
            value, shape = measured(device, case, shape)
            ours.append(value)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        print(
            f"{case.name}: {statistics.median(ours):.4g} against {statistics.median(theirs):.4g} {case.unit} of {case.peer}: "
            f"ratio {statistics.median(ours) / statistics.median(theirs):.3f}, rounds {min(ratios):.3f} to {max(ratios):.3f}; "
            + " ".join(f"{k}={v}" for k, v in shape.items()),
            flush=True,
        )


def measured(device: str, case: Case, shape: dict[str, object]) -> tuple[float, dict[str, object]]:
    """The best of our values of the case's metric, and the shape that gave it."""
    axes = [text for name, value in {**case.axes, **shape}.items() for text in ("-a", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "clmembench", "run", "-d", device, "-b", case.bench, *axes, "--json"]
        done = subprocess.run([*command, "-o", str(Path(folder) / "r.jsonl")], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{case.name}: {done.stderr.strip()}")
    found = [row for row in json.loads(done.stdout) if row["metric"] == case.metric and row["status"] == "ok"]
    if not found:
        sys.exit(f"{case.name}: no value: {done.stdout[:500]}")
    best = max(found, key=lambda row: row["median"])
    return best["median"], {**{k: v for k, v in best["params"].items() if k not in case.axes}, **best["tuning"]}


def cases(on_gpu: bool) -> list[Case]:
    """What both kinds of device are compared by; larger on a GPU."""
    blas, sparse, total = ("cuBLAS", "cuSPARSE", "CUB") if on_gpu else ("NumPy", "SciPy, 1 thread", "NumPy, 1 thread")
    found = [
        Case(f"dgemm n={n}", "dgemm", {"dtype": "double", "n": n}, "performance", "GFLOP/s", 2.0 * n**3, blas, gemm(n))
        for n in ((1024, 4096, 8192) if on_gpu else (512, 1024, 2048))
    ]
    for name in ("reservoir", "power_law"):
        matrix = matrices.generate(name, 0)
        nonzeros, rows = len(matrix.values), len(matrix.indptr) - 1
        met = len(np.unique(matrix.indices))
        traffic = 12.0 * nonzeros + 4 * (rows + 1) + 8 * met + 8 * rows
        found.append(Case(f"spmv {name}", "spmv", {"matrix": name}, "bandwidth", "GB/s", traffic, sparse, product(matrix)))
    n = 1 << (28 if on_gpu else 25)
    return [
        *found,
        Case(f"sum of 2^{n.bit_length() - 1}", "reduction", {"n": n}, "bandwidth", "GB/s", 8.0 * n, total, summed(n)),
    ]


def gemm(n: int) -> Callable[[bool], Callable[[], float]]:
    """A matrix product of doubles: whole numbers from -4 to 4, as ours."""

    def prepare(on_gpu: bool) -> Callable[[], float]:
        if on_gpu:
            import cupy

            a, b, c = (cupy.random.randint(-4, 5, (n, n)).astype(cupy.float64) for _ in range(3))
            return lambda: on_device(lambda: cupy.matmul(a, b, out=c), max(3, min(QUEUED, int(2e12 / n**3))))
        x, y, z = (np.random.default_rng(0).integers(-4, 5, (n, n)).astype(np.float64) for _ in range(3))
        return lambda: on_host(lambda: np.dot(x, y, out=z))

    return prepare


def product(matrix: matrices.Csr) -> Callable[[bool], Callable[[], float]]:
    """A sparse matrix times a vector."""

    def prepare(on_gpu: bool) -> Callable[[], float]:
        parts = (matrix.values, matrix.indices, matrix.indptr)
        shape = (len(matrix.indptr) - 1, matrix.columns)
        if on_gpu:
            import cupy
            import cupyx.scipy.sparse
            from cupyx import cusparse

            a = cupyx.scipy.sparse.csr_matrix(tuple(map(cupy.asarray, parts)), shape=shape)
            a.sum_duplicates()  # which it insists on; a random matrix has a few
            x, y = cupy.ones(shape[1]), cupy.zeros(shape[0])
            return lambda: on_device(lambda: cusparse.spmv(a, x, y, alpha=1.0, beta=0.0), QUEUED)
        import scipy.sparse

        host, v = scipy.sparse.csr_matrix(parts, shape=shape), np.ones(shape[1])
        return lambda: on_host(lambda: host @ v)

    return prepare


def summed(n: int) -> Callable[[bool], Callable[[], float]]:
    """A sum of doubles."""

    def prepare(on_gpu: bool) -> Callable[[], float]:
        if on_gpu:
            import cupy

            cupy._core.set_reduction_accelerators(["cub"])
            a, s = cupy.ones(n), cupy.zeros(())
            return lambda: on_device(lambda: cupy.sum(a, out=s), 20)
        x = np.ones(n)
        return lambda: on_host(lambda: x.sum())

    return prepare


def on_host(call: Callable[[], object]) -> float:
    """Median ns of a call that returns when it is done."""
    call()
    times, started = [], time.perf_counter()
    while time.perf_counter() - started < LEAST_S or len(times) < 5:
        begun = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begun)
    return statistics.median(times)


def on_device(call: Callable[[], object], count: int) -> float:
    """Median ns of a call among `count` back to back, enqueued while the device is busy with something longer."""
    import cupy

    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n); }', "spin"
    )
    times = []
    for _ in range(7):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        call()
        spin((1,), (1,), (np.int64(4e7),))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        times.append(1e6 * cupy.cuda.get_elapsed_time(begin, end) / count)
    return statistics.median(times)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else "0")
