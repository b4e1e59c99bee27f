"""Compares copies, launches and overlap of clmembench with torch, CuPy, clpeak and OpenCL in C, interleaved, on one GPU.

Prints a JSON object for each round and, at the end, medians and ratios over the rounds. Peers that are not installed are left
out.
Usage: python scripts/against_link.py [ROUNDS] [DEVICE] [LAUNCH]
       LAUNCH is the program built from launch.c
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

NBYTES = 256 << 20
COPIES = 8  # back to back, as in transfer
SMALL_COPY_BYTES = (4, 1 << 10, 16 << 10, 64 << 10)
Results = dict[str, float]


def main(rounds: int, device: str, launch_c: str) -> None:
    """Measures every peer and clmembench in every round."""
    peers: dict[str, Callable[[], Results]] = {
        "c": lambda: json.loads(output_of([launch_c])) if launch_c else {},
        "clpeak": clpeak,
        "torch": torch_copies,
        "cupy": cupy_small,
    }
    every: list[Results] = []
    measures: dict[str, Callable[[], Results]]
    for number in range(rounds):
        found: Results = {}
        measures = {**peers, "ours": partial(measure_clmembench, device, number == 0)}
        for name, measure in measures.items():
            try:
                found |= {f"{name} {k}": v for k, v in measure().items()}
            except Exception as error:  # a missing peer costs only its own figures
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        every.append(found)
        print(json.dumps({k: round(v, 3) for k, v in found.items()}), flush=True)
    for key in dict.fromkeys(k for found in every for k in found):
        values = [found[key] for found in every if key in found]
        print(f"{key}: {statistics.median(values):.5g} ({min(values):.5g} to {max(values):.5g})")


def output_of(command: list[str]) -> str:
    """The output of a program."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def measure_clmembench(device: str, overlap: bool) -> Results:
    """Results of the command line: one run of launches and large pinned copies, and one of small copies."""
    more = ["-b", "transfer_overlap"] if overlap else []
    runs = [
        [
            "-b",
            "launch*",
            "-b",
            "transfer",
            *more,
            "-a",
            "memory=pinned",
            "-a",
            f"array_bytes={NBYTES}",
            "-a",
            "groups=[1,132]",
        ],
        ["-b", "transfer_latency", "-a", "memory=pinned"],
    ]
    found: Results = {}
    for axes in runs:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "r.jsonl")
            command = ["-P", "-m", "clmembench", "run", "-d", device, *axes, "--no-isolate", "--json", "-o", path]
            done = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True, timeout=90)
        if done.returncode:
            print(f"ours: {done.stderr.strip()[-500:]}", flush=True)
            continue
        rows = json.loads(done.stdout)
        for row in rows:
            if row["status"] == "ok":
                at = " ".join(str(v) for k, v in row["params"].items() if k != "memory" and v != NBYTES)
                found[f"{row['benchmark']} {row['metric']} {at}".strip()] = row["median"]
            else:
                print(f"ours: {row['benchmark']} {row['params']} {row['status']}: {row['reason']}", flush=True)
    return found


def clpeak() -> Results:
    """clpeak's dispatch (queue-to-start delay from event profiling) and round trip, in us."""
    path = shutil.which("clpeak")
    if path is None:
        return {}
    text = output_of([path, "--opencl", "--kernel-launch-latency"])
    return {name: float(value) for name, value in re.findall(r"(dispatch|roundtrip)\s*:\s*([0-9.]+)", text)}


def torch_copies() -> Results:
    """GB/s of back-to-back copies by device events (by the host's clock for both directions at once), and the overlap of one in
    %."""
    import torch

    there, back = (torch.empty(NBYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    here, result = (torch.ones(NBYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2))
    ways = {"to_device": (there, here), "from_device": (result, back)}
    streams = [torch.cuda.Stream() for _ in range(2)]

    def copies(way: str, stream: torch.cuda.Stream, count: int) -> None:
        with torch.cuda.stream(stream):
            for _ in range(count):
                ways[way][0].copy_(ways[way][1], non_blocking=True)

    def host_ns(work: Callable[[], None]) -> float:
        took = []
        for _ in range(8):
            torch.cuda.synchronize()
            started = time.perf_counter_ns()
            work()
            torch.cuda.synchronize()
            took.append(time.perf_counter_ns() - started)
        return statistics.median(took[1:])

    found: Results = {}
    for way in ways:
        rates = []
        for _ in range(8):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.cuda.stream(streams[0]):
                begin.record()
                copies(way, streams[0], COPIES)
                end.record()
            end.synchronize()
            rates.append(COPIES * NBYTES / begin.elapsed_time(end) / 1e6)
        found[way] = statistics.median(rates[1:])
        found[f"{way} by the host"] = COPIES * NBYTES / host_ns(partial(copies, way, streams[0], COPIES))

    def both() -> None:
        for _ in range(COPIES):
            copies("to_device", streams[0], 1)
            copies("from_device", streams[1], 1)

    found["both"] = 2 * COPIES * NBYTES / host_ns(both)

    def kernel(times: int) -> None:
        with torch.cuda.stream(streams[1]):
            torch.cuda._sleep(times)

    def hidden_percent(one: Callable[[], None], other: Callable[[], None]) -> float:
        def at_once() -> None:
            one()
            other()

        alone = host_ns(one), host_ns(other)
        return 100 * (sum(alone) - host_ns(at_once)) / min(alone)

    for way in ways:
        copy = partial(copies, way, streams[0], 1)
        times = int(1.1 * 10**7 * host_ns(copy) / host_ns(partial(kernel, 10**7)))
        found[f"{way} hidden"] = hidden_percent(copy, partial(kernel, times))
    copy_back = partial(copies, "from_device", streams[1], 1)
    found["to_device hidden copy_back"] = hidden_percent(partial(copies, "to_device", streams[0], 1), copy_back)
    return found


def cupy_small() -> Results:
    """Time in us of one small pinned copy by the runtime's blocking copy, and of launching an empty kernel and waiting for
    it."""
    import cupy

    runtime = cupy.cuda.runtime
    here, there = cupy.cuda.alloc_pinned_memory(SMALL_COPY_BYTES[-1]), cupy.cuda.alloc(SMALL_COPY_BYTES[-1])
    kernel = cupy.RawKernel('extern "C" __global__ void mark(unsigned *d) { if (threadIdx.x == 0) d[0] = 1; }', "mark")
    out, stream = cupy.zeros(1, cupy.uint32), cupy.cuda.get_current_stream()

    def us(call: Callable[[], object]) -> float:
        took = []
        for _ in range(501):
            started = time.perf_counter_ns()
            call()
            took.append(time.perf_counter_ns() - started)
        return statistics.median(took) / 1e3

    found: Results = {}
    for n in SMALL_COPY_BYTES:
        found[f"to_device {n}"] = us(partial(runtime.memcpy, there.ptr, here.ptr, n, runtime.memcpyHostToDevice))
        found[f"from_device {n}"] = us(partial(runtime.memcpy, here.ptr, there.ptr, n, runtime.memcpyDeviceToHost))
    found["launch and wait"] = us(lambda: (kernel((1,), (64,), (out,)), stream.synchronize()))
    return found


if __name__ == "__main__":
    main(*(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2] if len(sys.argv) > 2 else "0", (sys.argv[3:] or [""])[0]))
