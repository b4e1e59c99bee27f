"""Programs of a run's points, built by several processes before anything is measured.

NVIDIA's driver compiles one program at a time within a process, and keeps each in a cache on disk that all processes share. A
worker process finds there what other processes have built; only facts from a build log are sent back to it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from threading import Event
from typing import Any, NamedTuple

from clmembench.host.cpu_topology import usable_cpus
from clmembench.measure.job import Job, Program
from clmembench.measure.worker_process import WorkerError, WorkerProcess
from clmembench.model import Benchmark, DeviceInfo, Kernel, Placement, Point, Value
from clmembench.plan.measurements import walked_points
from clmembench.plan.selection import Selection
from clmembench.plan.sweep import explore

MIN_POINTS = 100  # of a run whose programs take longer to build than builders to start
MIN_CPUS, MAX_BUILDERS = 4, 15
CONTEXT_BYTES = 1 << 30  # of the device's memory for each builder, several times what its context takes
MAX_COLLECTING_S = 0.2  # for one benchmark: some make their data before their programs
MAX_BUILD_S = 20.0  # of one program
MAX_BUILDS_S = 20.0  # then no further build begins
MIN_LEFT_RATIO = 6.0  # of a run's budget to their longest time: programs of points that it leaves out must not spend it

Facts = Mapping[str, Mapping[str, Value]]


def build_programs(job: Job, chosen: Sequence[tuple[Selection, Benchmark]], left_s: float) -> Facts:
    """Build the programs of these benchmarks where the run has many points and `left_s` seconds, and the driver's cache keeps
    them. Returns the facts of kernels that benchmarks ask for. A program that cannot be built is left to its point."""
    builders = _builders(job.device) if left_s >= MIN_LEFT_RATIO * MAX_BUILDS_S else 0
    mine = [(selection, b) for selection, b in chosen if builders and not b.origin and not b.peer_of]
    points = [(b, walked_points(explore(b, job.device, selection), b, job.device)) for selection, b in mine]
    if sum(len(one) for _, one in points) < MIN_POINTS:
        return {}
    programs, ended, end_s = SimpleQueue[Program | None](), Event(), time.monotonic() + MAX_BUILDS_S
    with ThreadPoolExecutor(builders) as pool:
        running = [pool.submit(_build, job, programs, ended, end_s) for _ in range(builders)]
        try:
            for program in collect_programs(points, job.device, job.seed):  # while the builders open the device
                programs.put(program)
            for _ in running:
                programs.put(None)
            return {key: facts for builder in running for key, facts in builder.result().items()}
        finally:
            ended.set()
            for _ in running:
                programs.put(None)


def _builders(info: DeviceInfo) -> int:
    """The number of processes that build, 0 where one process builds as fast."""
    cpus = len(usable_cpus())
    fitting = min(MAX_BUILDERS, cpus - 1, info.global_mem_bytes // CONTEXT_BYTES)
    return fitting if info.kind == "gpu" and "nvidia" in info.features and cpus >= MIN_CPUS else 0


def _build(job: Job, programs: SimpleQueue[Program | None], ended: Event, end_s: float) -> Facts:
    """Build one program after the other in a process of its own, until there are no more or the time is over."""
    facts: dict[str, Mapping[str, Value]] = {}
    with contextlib.suppress(WorkerError), WorkerProcess(job) as builder:
        while (program := programs.get()) is not None and not ended.is_set() and time.monotonic() < end_s:
            facts |= builder.build(program, MAX_BUILD_S)
    return facts


def collect_programs(points: Sequence[tuple[Benchmark, Sequence[Point]]], info: DeviceInfo, seed: int) -> Iterator[Program]:
    """The programs that these points build before they need a result of the device, each once."""
    found: set[Program] = set()
    for benchmark, mine in points:
        end_s = time.monotonic() + MAX_COLLECTING_S
        for point in mine:
            collector: Any = ProgramCollector(info if point.place == Placement() else point.place.seen(info), seed)
            with contextlib.suppress(Exception):  # the point itself reports what its preparation raises
                benchmark.prepare(collector, **point.params)
            programs = [replace(program, kernels=tuple(sorted(names))) for program, names in collector.found.items()]
            yield from (program for program in programs if program not in found)
            found.update(programs)
            if time.monotonic() > end_s:
                break


class _Kernel(NamedTuple):
    name: str
    program: Program


class _Kernels(dict[str, Kernel]):
    """A mapping in which every name is a kernel of the program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __missing__(self, name: str) -> Kernel:
        return _Kernel(name, self.program)


class _NotPrepared(Exception):
    """Ends the preparation of a point."""


class ProgramCollector:
    """A device that collects programs, with the names of kernels whose facts are asked for, and runs nothing. A preparation
    that needs memory of the host or a result ends there."""

    def __init__(self, info: DeviceInfo, seed: int) -> None:
        self.info, self.seed = info, seed
        self.found: dict[Program, set[str]] = {}

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        return self._kernels(Program(source, tuple(sorted(defines.items()))))

    def assemble(self, program: str) -> Mapping[str, Kernel]:
        return self._kernels(Program(program, is_ptx=True))

    def _kernels(self, program: Program) -> Mapping[str, Kernel]:
        self.found.setdefault(program, set())
        return _Kernels(program)

    def compiled(self, kernel: _Kernel) -> Mapping[str, Value]:
        self.found[kernel.program].add(kernel.name)
        return {}

    def alloc(self, *_: object) -> object:
        return object()

    kept = image = upload = run = alloc

    def __getattr__(self, name: str) -> object:
        raise _NotPrepared(name)
