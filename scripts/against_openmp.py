"""Compares copy, triad, dot and sum of clmembench with C and OpenMP (gcc -O3 -march=native), interleaved, on the first CPU.

Prints the bandwidths of every round, CPU time over wall time of clmembench, and the ratio of medians. The peer of a sum is the
dot product: both only read.
Usage: python scripts/against_openmp.py [ROUNDS]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clmembench.analysis import derive
from clmembench.benchmarks import BANDWIDTH, headline_bytes
from clmembench.measure.job import Job
from clmembench.measure.worker_process import WorkerProcess, probed
from clmembench.model import Point, Value
from clmembench.plan.selection import FULL_BUDGET
from clmembench.runtimes import runtime

PEERS = ("copy", "triad", "dot")  # in the order of openmp_stream.c
PORTABLE_CONFIGURATION: Mapping[str, Value] = {"order": "item", "nontemporal": 0, "width": 1, "work_group": 256}
TUNED_CONFIGURATION: Mapping[str, Value] = {"order": "item", "nontemporal": 1, "width": 8, "work_group": 256}
BLOCKED_CONFIGURATION: Mapping[str, Value] = {"order": "blocked", "nontemporal": 0, "width": 8, "work_group": 256}


@dataclass(frozen=True)
class Case:
    """One of our measurements: its name here, its benchmark and point except for the size, and the peer's operation."""

    name: str
    bench: str
    params: Mapping[str, Value]
    peer: str

    def of(self, array_bytes: int) -> Mapping[str, Value]:
        if self.bench == "reduction":
            return {**self.params, "n": array_bytes // 8}
        return {**self.params, "dtype": "double", "array_bytes": array_bytes}


CASES = (
    Case("copy, portable", "stream", {"op": "copy", **PORTABLE_CONFIGURATION}, "copy"),
    Case("copy, non-temporal", "stream", {"op": "copy", **TUNED_CONFIGURATION}, "copy"),
    Case("triad, portable", "stream", {"op": "triad", **PORTABLE_CONFIGURATION}, "triad"),
    Case("triad, non-temporal", "stream", {"op": "triad", **TUNED_CONFIGURATION}, "triad"),
    Case("dot", "stream", {"op": "dot", **BLOCKED_CONFIGURATION}, "dot"),
    Case("sum", "reduction", {"method": "loop", "groups_a_unit": 4, "width": 8, "work_group": 1}, "dot"),
)


def main(rounds: int) -> None:
    """Alternates the peer and clmembench; each of our measurements is a fresh process, as the peer is."""
    info = next(d for d in runtime("opencl").devices() if d.kind == "cpu")
    found = probed(Job("opencl", info))
    info = replace(info, features=found.features)
    array_bytes = headline_bytes(info)
    ours: dict[str, list[float]] = {}
    peer: dict[str, list[float]] = {name: [] for name in PEERS}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "openmp_stream"
        source = Path(__file__).with_name("openmp_stream.c")
        subprocess.run(
            [shutil.which("gcc") or "gcc", "-O3", "-march=native", "-fopenmp", str(source), "-o", str(program)], check=True
        )
        print(f"{info.name}, {info.platform} {info.driver}, arrays of {array_bytes >> 20} MiB, double; GB/s")
        for number in range(rounds):
            done = subprocess.run([str(program), str(array_bytes // 8), "12"], check=True, capture_output=True, text=True)
            threads, *rates = done.stdout.split()
            for name, gb_s in zip(PEERS, rates, strict=True):
                peer[name].append(float(gb_s))
            line = f"round {number + 1}: C/OpenMP ({threads} threads) " + ", ".join(f"{n} {r[-1]:.1f}" for n, r in peer.items())
            for case in CASES:
                if case.params.get("nontemporal") and "nontemporal" not in found.features:
                    continue
                job = Job("opencl", info, case.bench, budget=FULL_BUDGET, features=found.features, quantum_ns=found.quantum_ns)
                with WorkerProcess(job) as child:
                    record = child.measure(Point(case.bench, case.of(array_bytes)), 120)
                summary = derive.summarise([record], BANDWIDTH)
                if record.status != "ok" or summary is None:
                    sys.exit(f"{case.name}: {record.status}: {record.reason}")
                series = record.series[0]
                ours.setdefault(case.name, []).append(summary.median)
                line += f"; {case.name} {summary.median:.1f} (CPU/wall {sum(series.cpu_ns) / sum(series.host_ns):.2f})"
            print(line, flush=True)
    for case in CASES:
        if case.name in ours:
            ratios = [a / b for a, b in zip(ours[case.name], peer[case.peer], strict=True)]
            print(
                f"{case.name} / C/OpenMP {case.peer}: ratio of medians "
                f"{statistics.median(ours[case.name]) / statistics.median(peer[case.peer]):.3f}, "
                f"rounds from {min(ratios):.3f} to {max(ratios):.3f}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
