"""Commands, Work and Slope, as benchmarks return them: the work of a point and its cost; and why a point could not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast, get_args

import numpy.typing as npt

from clmembench.model import declared
from clmembench.model.declared import DeclarationError

Value = str | int | float | bool
Fact = Value | None  # what a host or a sensor says of itself; None: it does not
Array = npt.NDArray[Any]
Buffer = Any  # a runtime's own handle on device memory
Clock = Literal["device", "host", "queue"]


class Skip(Exception):
    """A benchmark cannot run here; the message says why and becomes the record's reason."""


class BuildError(Exception):
    """A kernel did not compile; `log` is the compiler's whole output."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.log = log


class DeviceError(Exception):
    """The device refused something; the message says what and names the remedy."""


class Kernel(Protocol):
    """One compiled kernel. Runtimes hand these out by name and take them back in a Launch."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Local:
    """A kernel argument: that many bytes of local memory for each work-group."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel over an NDRange. Arguments are buffers, NumPy scalars or Local. `method` is how it is launched: "" by
    the driver's call with arguments that were converted beforehand, out_of_order by the same call on such a queue, or by a
    method of the runtime's own library."""

    kernel: Kernel
    args: tuple[Any, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    queue: int = 0
    method: Literal["", "out_of_order", "enqueue", "submit_async", "submit"] = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """`nbytes` from `src` to `dst`; each is a buffer or a host array.

    A blocking copy returns when the host array may be used again: for pageable memory drivers have a faster way for these.
    """

    dst: Any
    src: Any
    nbytes: int
    queue: int = 0
    blocking: bool = False


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

    `mode` "read" brings the device's bytes to the host; "write" promises to overwrite them, so data move at the unmap.
    """

    buffer: Buffer
    nbytes: int
    mode: Literal["read", "write"]
    queue: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A peer library's work: the function synchronises itself and is timed by the host's clock."""

    function: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Batch:
    """A peer library's work on a device, timed by the library's own clock of that device; the only command of its Work.

    `function` takes a number of passes, at most `most`, does them back to back, waits for them and returns ns of all of them,
    and ns that it kept the device busy before them on purpose, so that the host's own work is not in their time.
    """

    function: Callable[[int], tuple[int, int]]
    most: int = 100


@dataclass(frozen=True, slots=True)
class HostPart:
    """Host-side overhead of a launch: a call with the same arguments, of a function that does nothing."""

    launch: Launch
    queue: int = 0


Command = Launch | Copy | Fill | Map | Call | Batch | HostPart


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
    """The commands of one pass, and what they cost. A benchmark returns this and never times anything.

    nbytes, flops and ops are the amounts of one pass by the benchmark's documented counting rule. `before` runs untimed
    before every pass. `expected_units`: compute units of a CPU that this keeps busy, 0 where that is unknown, as where
    work-groups have unequal work; None: all that its work-groups can share. `concurrent_units`: those that must be at work at
    once for the number to be what it is called. `outputs` are poisoned before `check`, which raises AssertionError when a
    result is wrong, returns None, and holds after any number of passes. `reads` are downloaded after each sampled pass and
    stored with it; `own_clock` says that they tell the core's clock beside each, so that one that moves between samples spoils
    nothing. `notes` are facts about how this point was run that a reader of the
    number must know; `facts` are what the compiler said of the kernel that is timed (Device.compiled), or what its data cost.
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
    expected_units: int | None = None
    concurrent_units: int = 0
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take NumPy's numbers as Python's, and lists as tuples. Raises DeclarationError for what no Work can be."""
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
        for name, read in declared.by_name("Work.reads", self.reads).items():
            declared.kind(f"Work.reads[{name!r}]", read, Read)
        declared.function_or_none("Work.check", self.check)
        declared.one_of("Work.clock", self.clock, get_args(Clock))

    def amount(self, name: str) -> int:
        """One pass's `nbytes`, `flops` or `ops`."""
        return int(getattr(self, name))

    def verify(self) -> None:
        """Check the outputs of the last pass. Raises AssertionError where they are wrong, and where `check` returns anything:
        `return np.array_equal(...)` in place of an assertion would let every result pass."""
        returned = None if self.check is None else cast(Callable[[], object], self.check)()
        if returned is not None:
            raise AssertionError(
                f"its check returned {repr(returned)[:40]}, which says nothing: use assert, so that a wrong result raises"
            )


@dataclass(frozen=True, slots=True)
class Slope:
    """A Work at any amount: the runner picks amounts n and 3n, large enough for the timer, and keeps both ends.

    The metric is the extra time of the extra amount, so launch and read-out costs cancel. `most` bounds 3n.
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
        found = self.work(n)
        declared.kind(f"Slope.work({n})", found, Work)
        return found


@dataclass(frozen=True, slots=True)
class Reported:
    """Times that another program reported of its own run, kept as they are: ns of a pass, once or several times.

    Each is the mean of `averaged` passes; 0: of several, of which the program does not say the number. Amounts are those of one
    pass. `checked`: whether the program has verified its results.
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
    """Two Works on queues of their own, timed alone and at once in turn: how much of the shorter hides behind the longer.

    The runner picks an n, at most `most`, with which `other(n)` lasts about as long as `one`. Both are by the host's clock.
    """

    one: Work
    other: Callable[[int], Work]
    most: int = 1 << 14

    def __post_init__(self) -> None:
        declared.kind("Overlap.one", self.one, Work)
        declared.function("Overlap.other", self.other)
        _set(self, most=declared.whole("Overlap.most", self.most, least=1))

    def works(self, n: int) -> tuple[Work, Work, Work]:
        """The one, the other, and both: what was enqueued first may keep the other waiting, and is then in the time of both.
        Raises DeclarationError where the other is no Work."""
        one, other = self.one, self.other(n)
        declared.kind(f"Overlap.other({n})", other, Work)

        def check() -> None:
            for work in (one, other):
                work.verify()

        commands, outputs = (*one.commands, *other.commands), (*one.outputs, *other.outputs)
        return one, other, replace(one, commands=commands, outputs=outputs, check=check)


Prepared = Work | Slope | Overlap | Reported


def _set(value: object, **fields: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)


def _amounts(of: str, given: Work | Reported) -> dict[str, Any]:
    """The fields that a Work and reported times have in common, checked."""
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
