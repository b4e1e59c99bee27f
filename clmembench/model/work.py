"""Commands, Work and Slope, which benchmarks return: the work of a point and its amounts; errors of points that cannot run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast, get_args

import numpy.typing as npt

from clmembench.model import declared
from clmembench.model.declared import DeclarationError

Value = str | int | float | bool
Fact = Value | None  # a fact about a host or from a sensor; None: not reported
Array = npt.NDArray[Any]
Buffer = Any  # a runtime's handle of device memory
Clock = Literal["device", "host", "queue"]
TimingMethod = Literal[Clock, "batch"]


def fact_number(facts: Mapping[str, Fact], name: str) -> float | None:
    """The fact of that name as a number; None where it is not reported or is no number."""
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


BACK_TO_BACK_NOTE = "back-to-back passes behind a blocking kernel, timed by events"


class Skip(Exception):
    """A point cannot be measured on this device; the message is the record's reason."""


class BuildError(Exception):
    """A kernel did not compile; `log` is the compiler's whole output."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.log = log


class DeviceError(Exception):
    """A call of the device failed; the message names the cause and the remedy."""


class Kernel(Protocol):
    """One compiled kernel. A runtime returns kernels by name and accepts them in a Launch."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Local:
    """A kernel argument: `nbytes` of local memory for each work-group."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel over an NDRange. Arguments are buffers, NumPy scalars or Local.

    `queue` is 0 or 1; on a device that was opened with its peers also 2n or 2n + 1, those of the n-th peer. `after` is the
    number of an earlier command of the same pass that must have ended, for commands on different queues.

    `method` is the way to launch it: "" is the driver's call with arguments converted beforehand, out_of_order the same call on
    an out-of-order queue; other values are methods of the runtime's library.
    """

    kernel: Kernel
    args: tuple[Any, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    queue: int = 0
    method: Literal["", "out_of_order", "enqueue", "submit_async", "submit"] = ""
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """`nbytes` from `src` to `dst`; each is a buffer, of which they begin at an offset, or a host array.

    A blocking copy returns when the host array may be used again; drivers have a faster path for blocking copies of pageable
    memory.
    """

    dst: Any
    src: Any
    nbytes: int
    queue: int = 0
    blocking: bool = False
    src_offset: int = 0
    dst_offset: int = 0
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move a buffer to the memory of the device of a queue; with `discard` its contents may be lost."""

    buffer: Buffer
    queue: int = 0
    discard: bool = False
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """Set the first `nbytes` of a buffer to one byte value."""

    buffer: Buffer
    nbytes: int
    byte: int = 0
    queue: int = 0


@dataclass(frozen=True, slots=True)
class Map:
    """Map the first `nbytes` of a buffer for the host and unmap it again.

    Mode "read" makes the device's bytes visible to the host. Mode "write" promises to overwrite them, so data move at the
    unmap.
    """

    buffer: Buffer
    nbytes: int
    mode: Literal["read", "write"]
    queue: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """The work of a peer library: the function synchronises by itself, and the host's clock times it."""

    function: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Batch:
    """The work of a peer library on a device, timed by the library's clock of that device; the only command of its Work.

    `function` takes a number of passes, at most `most`, runs them back to back and waits for them. It returns the ns of all
    passes, and the ns for which it kept the device busy before them on purpose, so that the host's own work is not part of
    their time.
    """

    function: Callable[[int], tuple[int, int]]
    most: int = 100


@dataclass(frozen=True, slots=True)
class HostPart:
    """Host-side overhead of a launch: a call with the same arguments to a function that does nothing."""

    launch: Launch
    queue: int = 0


Command = Launch | Copy | Migrate | Fill | Map | Call | Batch | HostPart


@dataclass(frozen=True, slots=True)
class Read:
    """Output that is data, not a duration: in-kernel ticks, latencies of single accesses, offsets."""

    buffer: Buffer
    dtype: str
    count: int
    unit: str

    def __post_init__(self) -> None:
        _set(self, count=declared.whole("Read.count", self.count, least=1))
        declared.text("Read.dtype", self.dtype)
        declared.text("Read.unit", self.unit)


@dataclass(frozen=True, slots=True)
class Work:
    """The commands of one pass and their amounts. A benchmark returns this and never times anything.

    nbytes, flops and ops are the amounts of one pass by the benchmark's documented counting rule. `before` runs untimed before
    every pass. `expected_units` is the number of a CPU's compute units that the work keeps busy; 0 if unknown, as where
    work-groups have unequal work; None: as many as there are work-groups for. `concurrent_units` is the number that must run
    concurrently for the metric to be valid.

    `back_to_back`: the passes of a sample are timed together, behind a blocking kernel that holds the queue until all are
    enqueued, as those of a Batch, and the fact `timed` says so; on runtimes that cannot, each on its own.

    `outputs` are poisoned before `check`, which raises AssertionError if a result is wrong, returns None, and holds after any
    number of passes. `reads` are downloaded after each sampled pass and stored with it; `own_clock` says that they also measure
    the core clock of each sample, so that drift between samples does no harm. `notes` are facts about the execution of this
    point that readers of the number must know; `facts` are the compiler's facts about the timed kernel (Device.compiled), or
    the cost of its data.
    """

    commands: tuple[Command, ...]
    nbytes: int = 0
    flops: int = 0
    ops: int = 0
    before: tuple[Command, ...] = ()
    reads: Mapping[str, Read] = field(default_factory=dict)
    own_clock: bool = False
    outputs: tuple[tuple[Buffer, int], ...] = ()  # (buffer, bytes to poison)
    check: Callable[[], None] | None = None
    clock: Clock = "device"
    back_to_back: bool = False
    expected_units: int | None = None
    concurrent_units: int = 0
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert NumPy's numbers to Python's and lists to tuples. Raises DeclarationError for an invalid Work."""
        units = self.expected_units
        _set(
            self,
            **_amounts("Work", self),
            commands=declared.several("Work.commands", self.commands, get_args(Command)),
            before=declared.several("Work.before", self.before, get_args(Command)),
            expected_units=None if units is None else declared.whole("Work.expected_units", units),
            concurrent_units=declared.whole("Work.concurrent_units", self.concurrent_units),
            outputs=tuple(_output(output) for output in declared.several("Work.outputs", self.outputs)),
        )
        if self.back_to_back:
            _set(self, facts={**self.facts, "timed": BACK_TO_BACK_NOTE})
        for name, read in declared.by_name("Work.reads", self.reads).items():
            declared.kind(f"Work.reads[{name!r}]", read, Read)
        declared.function_or_none("Work.check", self.check)
        declared.one_of("Work.clock", self.clock, get_args(Clock))

    def amount(self, name: str) -> int:
        """The `nbytes`, `flops` or `ops` of one pass."""
        return int(getattr(self, name))

    def verify(self) -> None:
        """Check the outputs of the last pass. Raises AssertionError where they are wrong.

        It also raises where `check` returns a value: `return np.array_equal(...)` in place of an assertion would accept every
        result.
        """
        returned = None if self.check is None else cast(Callable[[], object], self.check)()
        if returned is not None:
            raise AssertionError(
                f"its check returned {repr(returned)[:40]}, which has no effect: use assert, so that a wrong result raises"
            )


@dataclass(frozen=True, slots=True)
class Slope:
    """A Work with any amount: the runner chooses two amounts, three to five times apart and large enough for the timer, and
    stores both ends.

    The metric is the extra time of the extra amount, so that the costs of launch and read-out cancel. `start` is the least
    amount, and `most` bounds the larger one.
    """

    work: Callable[[int], Work]
    start: int = 64
    most: int = 1 << 40

    def __post_init__(self) -> None:
        declared.function("Slope.work", self.work)
        _set(
            self,
            start=declared.whole("Slope.start", self.start, least=1),
            most=declared.whole("Slope.most", self.most, least=1),
        )

    def at(self, n: int) -> Work:
        """The Work of n operations. Raises DeclarationError where the function returns anything else."""
        work_of_n = self.work(n)
        declared.kind(f"Slope.work({n})", work_of_n, Work)
        return work_of_n


@dataclass(frozen=True, slots=True)
class Reported:
    """Times that another program reported of its own run, stored as they are: ns of a pass, once or several times.

    Each is the mean of `averaged` passes; 0: of several passes, whose number the program does not report. Amounts are those of
    one pass. `checked`: whether the program verified its results.
    """

    samples_ns: tuple[int, ...]
    averaged: int
    nbytes: int = 0
    flops: int = 0
    ops: int = 0
    checked: bool = False
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = declared.several("Reported.samples_ns", self.samples_ns)
        _set(
            self,
            **_amounts("Reported", self),
            samples_ns=tuple(declared.whole(f"Reported.samples_ns[{n}]", ns) for n, ns in enumerate(times)),
            averaged=declared.whole("Reported.averaged", self.averaged),
        )


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two Works on separate queues, timed alone and concurrently, interleaved: the share of the shorter that the longer hides.

    The runner chooses an n, at most `most`, at which `other(n)` lasts about as long as `one`. The host's clock times both.
    """

    one: Work
    other: Callable[[int], Work]
    most: int = 1 << 14

    def __post_init__(self) -> None:
        declared.kind("Overlap.one", self.one, Work)
        declared.function("Overlap.other", self.other)
        _set(self, most=declared.whole("Overlap.most", self.most, least=1))

    def works(self, n: int) -> tuple[Work, Work, Work]:
        """The one, the other, and both. What was enqueued first may delay the other, which is then part of the time of both.

        Raises DeclarationError where the other is not a Work.
        """
        one, other = self.one, self.other(n)
        declared.kind(f"Overlap.other({n})", other, Work)

        def check() -> None:
            for work in (one, other):
                work.verify()

        commands, outputs = (*one.commands, *other.commands), (*one.outputs, *other.outputs)
        return one, other, replace(one, commands=commands, outputs=outputs, check=check)


Prepared = Work | Slope | Overlap | Reported


def _set(value: object, **fields: Any) -> None:
    """Set fields of a frozen dataclass during its construction."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)


def _amounts(of: str, given: Work | Reported) -> dict[str, Any]:
    """The checked fields that a Work and reported times have in common."""
    notes = declared.several(f"{of}.notes", given.notes)
    return {
        **{name: declared.whole(f"{of}.{name}", getattr(given, name)) for name in ("nbytes", "flops", "ops")},
        "notes": tuple(declared.text(f"{of}.notes[{n}]", note) for n, note in enumerate(notes)),
        "facts": declared.scalars(f"{of}.facts", given.facts),
    }


def _output(output: object) -> tuple[Buffer, int]:
    if not isinstance(output, tuple | list) or len(output) != 2:
        raise DeclarationError("Work.outputs has pairs: a buffer, and the bytes of it to poison")
    return output[0], declared.whole("Work.outputs: bytes", output[1])
