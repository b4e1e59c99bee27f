"""Records, one for each point and process: raw series, readings of clock and sensors, and why a record is not ok."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np

from clmembench.model.benchmark import Point, Role
from clmembench.model.device import Placement
from clmembench.model.metrics import Part
from clmembench.model.work import Array, Clock, Fact, Value

_NUMBERS = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)) - {"float8"}

Status = Literal["ok", "suspect", "wrong", "skipped", "failed", "timeout"]


class Cause(StrEnum):
    """Why a record is not ok, for programs to decide by; its reason tells the same to people, in words that may change."""

    NONE = ""  # of a record that is ok
    BUDGET = "budget"  # --budget was spent before the point
    BENCHMARK_BUDGET = "benchmark_budget"  # --benchmark-timeout was spent before the point
    UNSUPPORTED = "unsupported"  # the benchmark cannot measure this point here
    MISSING_FEATURE = "missing_feature"  # the device lacks a feature that the point needs
    TIMEOUT = "timeout"  # no answer in time; the worker process was ended
    PROCESS_DIED = "process_died"
    INVALID_ANSWER = "invalid_answer"  # the worker process answered with something that is no record
    DEVICE_LOST = "device_lost"  # the device answers nothing any more
    QUARANTINE = "quarantine"  # not tried, since it ended its worker process before
    PROCESS_NOT_STARTED = "process_not_started"
    DEVICE_UNAVAILABLE = "device_unavailable"  # the worker process cannot open the device
    ISOLATION_OFF = "isolation_off"  # the point needs a process of its own, and --no-isolate forbids one
    BUILD = "build"  # a kernel did not compile
    DEVICE_ERROR = "device_error"  # the driver refused a call
    OUT_OF_MEMORY = "out_of_memory"  # of the host
    INTERNAL_ERROR = "internal_error"  # an exception in a benchmark
    NOT_STORABLE = "not_storable"  # the record is over a limit of results files
    WRONG_RESULT = "wrong_result"  # a check of the results failed
    GATE = "gate"  # the record failed the gate that `gate` names
    UNKNOWN = "unknown"  # a word that a newer version wrote

    @classmethod
    def _missing_(cls, value: object) -> Cause:
        """A newer version may distinguish more causes, and its records are still records."""
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Trace:
    """Data that a Read downloaded: `samples` rows of `count` values in `unit`, compressed; `nbytes` is their size unpacked."""

    unit: str
    dtype: str
    samples: int
    count: int
    nbytes: int
    data: str  # base64 of zlib

    @classmethod
    def pack(cls, unit: str, rows: Sequence[Array]) -> Trace:
        """Pack one array for each sample; all have the same shape (count,) and dtype."""
        raw = b"".join(row.tobytes() for row in rows)
        packed = base64.b64encode(zlib.compress(raw)).decode()
        return cls(unit, str(rows[0].dtype), len(rows), len(rows[0]), len(raw), packed)

    def item_bytes(self) -> int:
        """Bytes of one value. Raises ValueError for a type that is not numeric."""
        if self.dtype not in _NUMBERS:  # NumPy would read structures and objects from such a text
            raise ValueError(f"the trace's type {self.dtype[:40]!r} is not numeric")
        return np.dtype(self.dtype).itemsize

    def unpack(self, most: int = 1 << 28) -> Array:
        """The values, shape (samples, count). Raises ValueError where the stated size is over `most` bytes or wrong."""
        if min(self.samples, self.count) < 0 or self.nbytes != self.samples * self.count * self.item_bytes():
            raise ValueError("a trace is not of the size it states")
        if self.nbytes > most:
            raise ValueError(f"a trace of {self.nbytes} bytes is over the limit of {most}")
        stream = zlib.decompressobj()
        try:
            # one byte more than stated would show a longer one
            raw = stream.decompress(base64.b64decode(self.data, validate=True), self.nbytes + 1)
        except zlib.error as error:
            raise ValueError("a trace does not unpack") from error
        if len(raw) != self.nbytes or not stream.eof:
            raise ValueError("a trace does not unpack to the size it states")
        return np.frombuffer(raw, dtype=self.dtype).reshape(self.samples, self.count)


@dataclass(frozen=True, slots=True)
class Series:
    """The raw samples of one Work: all lists have one entry a sample, in ns for `passes` passes."""

    nbytes: int
    flops: int
    ops: int
    clock: Clock
    passes: int
    warmups_ns: tuple[int, ...]
    host_ns: tuple[int, ...]
    device_ns: tuple[int, ...] | None
    queue_ns: tuple[int, ...] | None
    cpu_ns: tuple[int, ...]
    busy: int = 0
    together: int = 0
    reads: Mapping[str, Trace] = field(default_factory=dict)
    averaged: int = 1  # a sample is the mean of that many, as another program reports it; 0: the program does not say how many
    submit_ns: tuple[int, ...] | None = None

    def times_ns(self) -> tuple[int, ...]:
        """The samples of this series by its own clock."""
        chosen = {"device": self.device_ns, "queue": self.queue_ns, "host": self.host_ns}[self.clock]
        return chosen if chosen is not None else ()

    def part_ns(self, part: Part) -> tuple[int, ...]:
        """The part of each sample's time that the event stamps tell apart; empty where they do not."""
        if part == "run" or self.submit_ns is None or self.queue_ns is None:
            return self.device_ns or () if part == "run" else ()
        if part == "submit":
            return self.submit_ns
        return tuple(a - b for a, b in zip(self.queue_ns, self.submit_ns, strict=True))


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A dependent-ALU chain that was timed before and after the samples: ns for `ops` operations.

    `cycles_per_op` turns the times into a clock frequency; `origin` says where it came from.
    """

    ops: int
    before_ns: float
    after_ns: float
    cycles_per_op: float | None
    origin: str

    @property
    def ghz(self) -> float | None:
        """Core clock in cycles per ns, over both readings; None where cycles per operation are not known."""
        if not self.cycles_per_op or min(self.before_ns, self.after_ns) <= 0:
            return None
        return self.ops * self.cycles_per_op / ((self.before_ns + self.after_ns) / 2)

    @property
    def moved(self) -> float:
        """Drift of the core clock between the readings, as a fraction. A reading that was disturbed so much that it is not
        above 0 counts as a drift of 100%; the largest drift given is a thousandfold."""
        least = min(self.before_ns, self.after_ns)
        return min(1000.0, abs(self.after_ns - self.before_ns) / least) if least > 0 else 1.0


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """Energy of a device over a stretch of passes by a counter of its own: joules from `window_ns`, of which it was at work on
    passes for `busy_ns`. The counter is updated every `update_ns` at the latest. The amounts are those of all passes in it. A
    `shared` counter has the energy of other processes' work too."""

    source: str
    joules: float
    window_ns: int
    update_ns: int
    busy_ns: int
    nbytes: int = 0
    flops: int = 0
    ops: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """Readings of sensors right before and right after the samples of a point; empty where there are none, or the last ones are
    a moment old. `no_energy` says why there is no energy, where there is none."""

    before: Mapping[str, Fact] = field(default_factory=dict)
    after: Mapping[str, Fact] = field(default_factory=dict)
    energy: EnergyReading | None = None
    no_energy: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One point in one process: everything needed to derive its values later.

    `index` is its place in the order of the plan; `cause` is why it is not ok, for decisions, and `reason` says so to people;
    `gate` is the gate that it failed where it is suspect. `cpu_others` is the share of all of the host's CPUs that
    other processes used during the measurement, `cpu_stolen` the largest share of its time that a hypervisor took from a CPU at
    work (in older records: from all CPUs), `cpu_waited` that for which a thread of the process was ready to run and had no CPU;
    None where the system does not say. `facts`
    are what the compiler said of its kernel, `context` what sensors said beside its samples; None in records of older versions,
    and of a point that was not sampled.
    """

    benchmark: str
    version: int
    params: Mapping[str, Value]
    place: Placement
    process: int
    status: Status
    reason: str = ""
    role: Role = "measure"
    series: tuple[Series, ...] = ()
    core_clock: ClockReading | None = None
    stopped: str = ""
    checked: bool = False
    notes: tuple[str, ...] = ()
    log: str = ""
    sources: str = ""
    started: str = ""
    seconds: float = 0.0
    index: int = 0
    gate: str = ""
    cpu_others: float | None = None
    cpu_stolen: float | None = None
    cpu_waited: float | None = None
    facts: Mapping[str, Value] = field(default_factory=dict)
    cause: Cause = Cause.NONE
    context: Context | None = None


Plan = Generator[Sequence[Point], list[Record], None]
