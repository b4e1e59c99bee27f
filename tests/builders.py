"""Builders of synthetic records, headers and runs, with plain defaults, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clmembench.model import (
    BenchmarkInfo,
    ClockReading,
    Device,
    DeviceInfo,
    Header,
    Metric,
    Placement,
    Plan,
    Point,
    Record,
    Run,
    Series,
    Value,
)
from clmembench.results import jsonl
from clmembench.runtimes import runtime
from clmembench.studies.hierarchy.views.section import HierarchyFindings

BANDWIDTH = Metric("bandwidth", "GB/s", "nbytes", "rate", "higher", peak="memory_bandwidth_gb_s")
LATENCY = Metric("latency", "ns", "ops", "slope", "lower", cycles=True)
COST = Metric("cost", "us", "ops", "cost", "lower", scale=1e-3)

STREAM = BenchmarkInfo(1, "memory", "Bandwidth of global memory.", "McCalpin 1995", (BANDWIDTH,), x="array_bytes")
CHASE = BenchmarkInfo(
    1, "latency", "Latency of global memory.", "Mei & Chu 2015", (LATENCY,), growing="array_bytes", x="array_bytes"
)


def device(name: str = "Synthetic GPU", **changes: Any) -> DeviceInfo:
    plain = DeviceInfo(
        id="0", name=name, platform="Test Platform", vendor="Test", kind="gpu", driver="1.0", version="OpenCL 3.0",
        compute_units=4, global_mem_bytes=8 << 30, max_alloc_bytes=2 << 30, local_mem_bytes=32 << 10, max_work_group=1024,
        line_bytes=64, cache_bytes=64 << 10, max_clock_mhz=2000, timer_resolution_ns=1, shares_host_memory=False,
        host_mem_bytes=16 << 30, features=frozenset({"fp64"}),
    )  # fmt: skip
    return replace(plain, **changes)


def open_cpu(**changes: Any) -> Device:
    """This host's CPU by OpenCL, opened, with these changes of what is known of it."""
    found = [info for info in runtime("opencl").devices() if info.kind == "cpu"]
    assert found, "no OpenCL CPU device: pip install 'clmembench[test]' brings PoCL"
    return runtime("opencl").open(replace(found[0], **changes))


def header(info: DeviceInfo | None = None, cards: Mapping[str, BenchmarkInfo] | None = None, **changes: Any) -> Header:
    plain = Header(
        schema=1, tool_version="0.0", run_id="01J0000000000000000000TEST", started="2024-01-01T00:00:00+00:00",
        argv=("run",), suite="all", seed=1, runtime="fake", device=info or device(), features=("fp64",),
        host={"cpu": "Test CPU", "virtual": False}, benchmarks=cards if cards is not None else {"stream": STREAM},
    )  # fmt: skip
    return replace(plain, **changes)


def series(times_ns: Sequence[int], nbytes: int = 0, ops: int = 0, **changes: Any) -> Series:
    """By the device's clock, with host and CPU time of the same length, unless told otherwise."""
    times = tuple(times_ns)
    plain = Series(nbytes, 0, ops, "device", 1, (), times, times, None, times)
    return replace(plain, **changes)


def record(benchmark: str = "stream", params: Mapping[str, Value] | None = None, *works: Series, **changes: Any) -> Record:
    chosen = params if params is not None else {"op": "copy"}
    plain = Record(benchmark, 1, chosen, Placement(), 0, "ok", series=works, stopped="noise", checked=True)
    return replace(plain, **changes)


def slope(params: Mapping[str, Value], ns_per_op: Sequence[float], overhead_ns: int = 5000, **changes: Any) -> Record:
    """A chase of 1000 and 3000 steps that reads these latencies."""
    near = [overhead_ns + round(1000 * v) for v in ns_per_op]
    far = [overhead_ns + round(3000 * v) for v in ns_per_op]
    return record("pchase", params, series(near, ops=1000), series(far, ops=3000), **changes)


def clock(ghz: float, cycles_per_op: float | None = 4.0) -> ClockReading:
    """A chain of 1000 dependent operations on a core of that clock."""
    ns = 1000 * (cycles_per_op or 4.0) / ghz
    return ClockReading(1000, ns, ns, cycles_per_op, "test")


def run(records: Sequence[Record], head: Header | None = None, **changes: Any) -> Run:
    return replace(Run("run.jsonl", head or header(), tuple(records)), **changes)


def write_run(path: Path, records: Iterable[Record], head: Header | None = None) -> Path:
    """The results file of a run."""
    with jsonl.Writer(path, head or header()) as writer:
        for one in records:
            writer.write(one)
    return path


def walked(plan: Plan, answer: Callable[[Point], Record] | None = None) -> list[Point]:
    """Every point that a plan asks for, trials among them. Without `answer` it is told nothing: no trial beats the first."""
    asked: list[Point] = []
    answers: list[Record] | None = None
    while True:
        try:
            points = next(plan) if answers is None else plan.send(answers)
        except StopIteration:
            return asked
        asked += points
        answers = [answer(point) for point in points] if answer else []


def found_of(*hierarchies):
    """Findings of runs as a report takes them: of each a hierarchy, or what a report shows of one; None for a run without."""
    found = [one if one is None or isinstance(one, HierarchyFindings) else HierarchyFindings(one) for one in hierarchies]
    return [{} if one is None else {"hierarchy": one} for one in found]
