"""Records, one for each point and process: raw series, readings of clock and sensors, and the reason if a record is not ok."""

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
    """The cause if a record is not ok, for decisions in programs; its reason is for people, in words that may change."""

    NONE = ""  # the record is ok
    BUDGET = "budget"  # --budget was spent before the point
    BENCHMARK_BUDGET = "benchmark_budget"  # --benchmark-timeout was spent before the point
    SLOW_CONFIGURATION = "slow_configuration"  # a tuning trial given up after a pass: others are several times faster
    UNSUPPORTED = "unsupported"  # the benchmark cannot measure this point on this device
    MISSING_FEATURE = "missing_feature"  # the device lacks a feature that the point needs
    TIMEOUT = "timeout"  # no record in time; the worker process was ended
    PROCESS_DIED = "process_died"
    INVALID_ANSWER = "invalid_answer"  # the worker process sent something other than a record
    DEVICE_LOST = "device_lost"  # the device no longer responds
    QUARANTINE = "quarantine"  # not tried: an earlier attempt ended its worker process
    PROCESS_NOT_STARTED = "process_not_started"
    DEVICE_UNAVAILABLE = "device_unavailable"  # the worker process cannot open the device
    ISOLATION_OFF = "isolation_off"  # the point needs a worker process, which --no-isolate forbids
    BUILD = "build"  # a kernel did not compile
    DEVICE_ERROR = "device_error"  # a call of the driver failed
    OUT_OF_MEMORY = "out_of_memory"  # the host's
    INTERNAL_ERROR = "internal_error"  # an exception in a benchmark
    NOT_STORABLE = "not_storable"  # the record is over a limit of results files
    WRONG_RESULT = "wrong_result"  # the check of the results failed
    GATE = "gate"  # the record failed the gate that `gate` names
    UNKNOWN = "unknown"  # a cause that only a newer version knows

    @classmethod
    def _missing_(cls, value: object) -> Cause:
        """UNKNOWN for any other word: a newer version may distinguish more causes, and its records remain readable."""
        return cls.UNKNOWN


TIME_SPENT_CAUSES = frozenset({Cause.BUDGET, Cause.BENCHMARK_BUDGET})  # of what more time would measure, as a resumed run does


@dataclass(frozen=True, slots=True)
class Trace:
    """Data that a Read downloaded: `samples` rows of `count` values in `unit`, compressed; `nbytes` is their uncompressed
    size."""

    unit: str
    dtype: str
    samples: int
    count: int
    nbytes: int
    data: str  # base64 of zlib

    @classmethod
    def pack(cls, unit: str, rows: Sequence[Array]) -> Trace:
        """Pack one array per sample; all have the same shape (count,) and dtype."""
        raw = b"".join(row.tobytes() for row in rows)
        packed = base64.b64encode(zlib.compress(raw)).decode()
        return cls(unit, str(rows[0].dtype), len(rows), len(rows[0]), len(raw), packed)

    def item_bytes(self) -> int:
        """Bytes of one value. Raises ValueError for a type that is not numeric."""
        if self.dtype not in _NUMBERS:  # NumPy would also accept structures and objects
            raise ValueError(f"the trace's type {self.dtype[:40]!r} is not numeric")
        return np.dtype(self.dtype).itemsize

    def unpack(self, most: int = 1 << 28) -> Array:
        """The values, shape (samples, count). Raises ValueError where the stated size is over `most` bytes or wrong."""
        if min(self.samples, self.count) < 0 or self.nbytes != self.samples * self.count * self.item_bytes():
            raise ValueError("a trace does not have its stated size")
        if self.nbytes > most:
            raise ValueError(f"a trace of {self.nbytes} bytes is over the limit of {most}")
        stream = zlib.decompressobj()
        try:
            # one byte more than stated, so that longer data are noticed
            raw = stream.decompress(base64.b64decode(self.data, validate=True), self.nbytes + 1)
        except zlib.error as error:
            raise ValueError("a trace does not unpack") from error
        if len(raw) != self.nbytes or not stream.eof:
            raise ValueError("a trace does not unpack to the size it states")
        return np.frombuffer(raw, dtype=self.dtype).reshape(self.samples, self.count)


@dataclass(frozen=True, slots=True)
class Series:
    """The raw samples of one Work: all lists have one entry per sample, in ns for `passes` passes."""

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
    averaged: int = 1  # a sample is the mean of so many passes of another program; 0: the program does not report how many
    submit_ns: tuple[int, ...] | None = None

    def times_ns(self) -> tuple[int, ...]:
        """The samples of this series by the clock of its Work."""
        chosen = {"device": self.device_ns, "queue": self.queue_ns, "host": self.host_ns}[self.clock]
        return chosen if chosen is not None else ()

    def part_ns(self, part: Part) -> tuple[int, ...]:
        """The part of each sample's time that event stamps delimit; empty without stamps."""
        if part == "run" or self.submit_ns is None or self.queue_ns is None:
            return self.device_ns or () if part == "run" else ()
        if part == "submit":
            return self.submit_ns
        return tuple(a - b for a, b in zip(self.queue_ns, self.submit_ns, strict=True))


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A dependent-ALU chain timed before and after the samples, or in their first and second half: ns for `ops` operations.

    `cycles_per_op` converts the times to a clock frequency; `origin` is the source of `cycles_per_op`.
    """

    ops: int
    before_ns: float
    after_ns: float
    cycles_per_op: float | None
    origin: str

    @property
    def ghz(self) -> float | None:
        """Core clock in cycles per ns, over both readings; None where cycles per operation are unknown."""
        if not self.cycles_per_op or min(self.before_ns, self.after_ns) <= 0:
            return None
        return self.ops * self.cycles_per_op / ((self.before_ns + self.after_ns) / 2)

    @property
    def moved(self) -> float:
        """Drift of the core clock between the readings, as a fraction, at most 1000.

        A reading that noise pushed to 0 or below counts as a drift of 100%.
        """
        least = min(self.before_ns, self.after_ns)
        return min(1000.0, abs(self.after_ns - self.before_ns) / least) if least > 0 else 1.0


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """Energy of a device over consecutive passes, by the device's energy counter.

    The joules are those of `window_ns`, in which passes ran for `busy_ns`; the amounts are those of all these passes. The
    counter is updated at least every `update_ns`. A `shared` counter includes the energy of other processes' work.
    """

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
    """Sensor readings right before and right after the samples of a point.

    They are empty where sensors are missing or their last readings are outdated. `no_energy` is the reason if there is no
    energy.
    """

    before: Mapping[str, Fact] = field(default_factory=dict)
    after: Mapping[str, Fact] = field(default_factory=dict)
    energy: EnergyReading | None = None
    no_energy: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One point in one process: everything needed to derive its values later.

    `index` is its position in the plan. `cause` is why it is not ok, for programs, and `reason` the same for people; `gate` is
    the gate that a suspect record failed. `cpu_others` is the share of all CPUs of the host that other processes used during
    the measurement; `cpu_stolen` the largest share of its time that a hypervisor took from one of the busy CPUs (in older
    records: from all CPUs); `cpu_waited` the share for which a thread of the process was ready to run and had no CPU. They are
    None where the system does not report them. `facts` are the compiler's facts about the kernel, `context` the sensor readings
    around the samples; these are None in records of older versions and of points that were not sampled. `parts_s` are seconds
    of its time: to `build` programs, to `check` results (on PoCL with their compilation), to warm up and `sample`; and besides
    its `seconds`, to `start` its process, and to `repeat` it after others disturbed it.
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
    parts_s: Mapping[str, float] = field(default_factory=dict)


Plan = Generator[Sequence[Point], list[Record], None]
