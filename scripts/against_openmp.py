"""Triad of clmembench against a C/OpenMP triad compiled here (gcc -O3 -march=native), in turn, on the first CPU device.

Prints both bandwidths of every round, CPU time over wall time of ours, and the ratio of medians.
Usage: python scripts/against_openmp.py [rounds]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from clmembench import derive, plan
from clmembench.benchmarks import discovered, headline_bytes
from clmembench.isolate import Child, Job
from clmembench.model import Point
from clmembench.runtimes import runtime
from clmembench.selection import FULL

SHAPES = {
    "portable": {"order": "item", "nontemporal": 0, "width": 1, "work_group": 256},
    "non-temporal": {"order": "item", "nontemporal": 1, "width": 4, "work_group": 256},
}


def main(rounds: int) -> None:
    """Alternate the peer and ours; each of ours is a fresh process, as the peer is."""
    info = next(d for d in runtime("opencl").devices() if d.kind == "cpu")
    found = plan.probe("opencl", info)
    info = replace(info, features=found.features)
    array_bytes = headline_bytes(info)
    bench = discovered()["stream"]
    job = Job("opencl", info, "stream", budget=FULL, features=found.features, quantum_ns=found.quantum_ns)
    ours: dict[str, list[float]] = {name: [] for name in SHAPES}
    peer: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "triad"
        source = Path(__file__).with_name("triad.c")
        subprocess.run(
            [shutil.which("gcc") or "gcc", "-O3", "-march=native", "-fopenmp", str(source), "-o", str(program)], check=True
        )
        print(f"{info.name}, {info.platform} {info.driver}, three arrays of {array_bytes >> 20} MiB, double; GB/s")
        for number in range(rounds):
            done = subprocess.run([str(program), str(array_bytes // 8), "20"], check=True, capture_output=True, text=True)
            threads, gb_s = done.stdout.split()
            peer.append(float(gb_s))
            line = f"round {number + 1}: C/OpenMP ({threads} threads) {peer[-1]:.1f}"
            for name, shape in SHAPES.items():
                if shape["nontemporal"] and "nontemporal" not in found.features:
                    continue
                with Child(job) as child:
                    params = {"op": "triad", "dtype": "double", "array_bytes": array_bytes, **shape}
                    record = child.measure(Point("stream", params), 120)
                summary = derive.summarise([record], bench.metrics[0])
                if record.status != "ok" or summary is None:
                    sys.exit(f"{name}: {record.status}: {record.reason}")
                series = record.series[0]
                ours[name].append(summary.median)
                line += f"; {name} {summary.median:.1f} (CPU/wall {sum(series.cpu_ns) / sum(series.host_ns):.2f})"
            print(line, flush=True)
    for name, values in ours.items():
        if values:
            ratios = [a / b for a, b in zip(values, peer, strict=True)]
            print(
                f"{name} / C/OpenMP: ratio of medians {statistics.median(values) / statistics.median(peer):.3f}, "
                f"rounds from {min(ratios):.3f} to {max(ratios):.3f}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
