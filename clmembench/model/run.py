"""Runs as files hold them: the header, what it keeps of benchmarks and tuned configurations, and the records."""

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

    `device` and `platform` are the family: the stem of the spec sheet that matches (else a CPU's identity, else the device's
    name), and the OpenCL platform's name, since each compiles in its own way. `compute_units`, `driver`, `tool_version` and
    `date` (ISO) say on what, with what and when it was found. `gain` is how many times the device's first choice it is, with
    its 95% interval; 1 without an interval where nothing beat the first choice, None where the first choice had no value.
    `origin` says whose file it is from.
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
    """Properties of a benchmark that a run file keeps, so that its records can be read without its code."""

    version: int
    suite: str
    summary: str
    source: str
    metrics: tuple[Metric, ...]
    tuning: tuple[str, ...] = ()
    growing: str = ""
    x: str = ""
    peer_of: str = ""  # the benchmark whose points this one measures with another library
    origin: str = ""  # the package or file that it comes from, where it is none of clmembench's own
    quantities: tuple[Quantity, ...] = ()  # that other benchmarks measure too; files that are older than this field name none


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a run file: what ran, on what, with which tool."""

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
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # values that the user named
    processes: int | None = None  # for every point; None: each benchmark decides
    isolated: bool = True
    budget_s: float | None = None
    timeout_s: float = 120.0
    benchmark_s: float | None = None
    clock_step_ns: float | None = None  # resolution of the device's event clock, as measured
    claimed: tuple[str, ...] = ()  # features that the driver claims
    tuning: tuple[Tuned, ...] = ()  # stored configurations that the run uses or begins its searches with
    source_revision: str = ""  # a hash of the program's own files; "" in files that are older than this field
    inputs: Mapping[str, str] = field(default_factory=dict)  # the user's files that are measured with, and hashes of them
    label: str = ""  # the user's name for the device or the run
    tags: Mapping[str, str] = field(default_factory=dict)  # what the user wants to be kept with the run


@dataclass(frozen=True, slots=True)
class Run:
    """A run as read from a file: header, records in file order, and the reader's notes about the file."""

    path: str
    header: Header
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    judged: bool = False  # whether records that fail a gate are marked suspect
