"""Runs as stored in files: the header, its descriptions of benchmarks and tuned configurations, and the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model.device import DeviceInfo
from clmembench.model.metrics import Metric, Quantity
from clmembench.model.record import Record
from clmembench.model.work import Fact, Value


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best `tuning` parameters of every point of a benchmark that has these `params` (all of its plain ones, or some).

    `device` and `platform` are the family: the stem of the matching spec sheet (else a CPU's identity, else the device's name),
    and the name of the OpenCL platform, since each platform has its own compiler. `compute_units`, `driver`, `tool_version` and
    `date` (ISO) are those of the search. `gain` is the value over that of the device's first choice, as a ratio above 1 where
    it is better, with its 95% interval; it is 1 without an interval where no configuration beat the first choice, None where
    the first choice had no value. `origin` says whose file it is from.
    """

    device: str
    platform: str
    compute_units: int
    benchmark: str
    version: int
    params: Mapping[str, Value]
    tuning: Mapping[str, Value]
    date: str
    tool_version: str
    driver: str
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    """Properties of a benchmark that a run file stores, so that its records can be read without its code."""

    version: int
    suite: str
    summary: str
    source: str
    metrics: tuple[Metric, ...]
    tuning: tuple[str, ...] = ()
    growing: str = ""
    x: str = ""
    peer_of: str = ""  # the benchmark whose points this one measures with another library
    origin: str = ""  # the package or file of a benchmark from outside clmembench
    quantities: tuple[Quantity, ...] = ()  # also measured by other benchmarks; empty in older files


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a run file: what ran, on which device, with which version of the tool."""

    schema: int
    tool_version: str
    run_id: str
    started: str
    argv: tuple[str, ...]
    suite: str
    seed: int
    runtime: str
    device: DeviceInfo
    features: tuple[str, ...]
    host: Mapping[str, Fact]
    benchmarks: Mapping[str, BenchmarkInfo]
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    sensors: Mapping[str, Fact] = field(default_factory=dict)
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # the user's values
    processes: int | None = None  # per point; None: each benchmark decides
    isolated: bool = True
    budget_s: float | None = None
    timeout_s: float = 120.0
    benchmark_s: float | None = None
    clock_step_ns: float | None = None  # resolution of the device's event clock, as measured
    claimed: tuple[str, ...] = ()  # features that the driver claims
    tuning: tuple[Tuned, ...] = ()  # stored configurations that the run uses, or with which it begins searches
    source_revision: str = ""  # a hash of the program's own files; "" in older files
    inputs: Mapping[str, str] = field(default_factory=dict)  # the user's input files, and their hashes
    label: str = ""  # the user's name for the device or the run
    tags: Mapping[str, str] = field(default_factory=dict)  # the user's notes about the run, by name


@dataclass(frozen=True, slots=True)
class Run:
    """A run as read from a file: header, records in file order, and the reader's notes about the file."""

    path: str
    header: Header
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    judged: bool = False  # whether the gates were applied: records that fail one are suspect

    def has(self, benchmark: str) -> bool:
        """Whether any record is of this benchmark."""
        return any(record.benchmark == benchmark for record in self.records)
