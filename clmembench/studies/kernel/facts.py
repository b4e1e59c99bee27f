"""Facts of a kernel, by the trace of a launch; amounts are of the whole launch, scaled where only a part was traced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Space = Literal["global", "constant", "local", "private"]
Operation = Literal["load", "store", "atomic"]
Pattern = Literal["single", "broadcast", "unit stride", "stride", "permuted", "scattered", "none"]
WIDTHS = (8, 16, 32, 64)  # of sub-groups
LINE_BYTES = (32, 64, 128)
Number = float | None
BANKS = (16, 32, 64)  # of local memory, 4 bytes each


@dataclass(frozen=True, slots=True)
class TracedLaunch:
    """The launch: file of the source, sizes in work-items, arguments and definitions as they were given."""

    source: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    arguments: tuple[str, ...]
    defines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """How much of the launch was traced: so many work-items, in `groups` of `all_groups` work-groups and a part of a further
    one, with so many accesses outside private memory. `factor` is what amounts of the trace were multiplied by."""

    work_items: int
    groups: int
    all_groups: int
    accesses: int
    factor: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Amounts of the whole launch, over all work-items.

    `instructions` are those of LLVM's optimised program, a vector operation once; `flops` count each element, a multiply-add
    twice, a division and a function once; `double_flops` are those of doubles. `unique_bytes`, by space, are of what was
    traced, as are those of an instruction; local memory is each work-group's own (of an instruction, offsets in it). Of the
    whole launch they are at least `global_unique_bytes` and at most `global_unique_bytes_high`. `barriers` are those that
    work-groups reached.
    """

    work_items: int
    work_groups: int
    instructions: float
    instructions_by_kind: Mapping[str, float]
    flops: float
    double_flops: float
    global_bytes_loaded: float
    global_bytes_stored: float
    global_bytes_atomic: float
    unique_bytes: Mapping[str, int]
    global_unique_bytes: float
    global_unique_bytes_high: float
    constant_bytes: float
    local_bytes: float
    private_bytes: float
    barriers: float
    instructions_between_barriers: float  # of a work-item; of all its instructions where there is no barrier
    atomics: float
    atomics_at_one_address: float  # the most that meet at one address
    flops_per_byte: float | None  # of global memory, loaded, stored and atomic; None without a byte


@dataclass(frozen=True, slots=True)
class MemoryInstruction:
    """One load, store or atomic operation of the program.

    `pattern` is what four in five neighbours of sub-groups of 32 do, `stride_bytes` their distance where it is one.
    A request is one execution by a sub-group. `lines_per_request` has, by the width of a sub-group and the bytes of a line,
    how many lines a request touches in the mean; `requests` how many there are, by width. `bank_conflict_ways` has, for local
    memory, by width and number of banks, the words at most that one bank serves in a pass (1: no conflict); 8 bytes a
    work-item take two passes. `misaligned` is the share of accesses whose address is no multiple of their size.
    """

    instruction: int
    line: int
    space: Space
    op: Operation
    accesses: float
    bytes: float
    access_bytes: int
    unique_bytes: int
    pattern: Pattern
    stride_bytes: int | None
    pattern_by_width: Mapping[str, Pattern]
    active_items: float  # of a sub-group of 32, in the mean
    misaligned: float
    requests: Mapping[str, float]
    lines_per_request: Mapping[str, Mapping[str, float]]
    bank_conflict_ways: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch on a condition: how often work-items reach it, and the share of requests of sub-groups, by width, whose
    work-items go different ways."""

    line: int
    executions: float
    divergent: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ReuseCurve:
    """The share of touched lines that a fully associative LRU cache of each size misses (a stack algorithm; Mattson et al.
    1970, sampled by lines as Waldspurger et al. 2015). Touches are those of sub-groups of 32 to global and constant memory,
    work-group after work-group, the work-items of each in step."""

    line_bytes: int
    touches: float
    cold: float  # share of first touches, which any cache misses
    sizes_bytes: tuple[int, ...]
    miss_ratio: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change: the id of the guideline that the line breaks, the line (0: the whole kernel), what the line does, what to do,
    and how many times shorter the predicted time becomes if nothing else changes, with the least and the most."""

    guideline: str
    line: int
    finding: str
    change: str
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True, slots=True)
class DevicePrediction:
    """The time of a launch on a device in ns, None where `missing` names benchmarks that its runs lack; `bound` and `parts` are
    the resources by which it was predicted. `mdm_ns` is by the memory divergence
    model, `roofline_ns` and `bytes_ns` are baselines: see cost.py. `measured_ns` is None
    unless the launch was measured; `reason` says why it could not be. `unmeasured` are benchmarks that would make the interval
    narrower; `refused` says why a launch has no time at all there, as where the device refuses it."""

    device: str
    ns: Number
    low_ns: Number
    high_ns: Number
    bound: str
    parts_ns: Mapping[str, float]
    missing: tuple[str, ...]
    mdm_ns: Number
    roofline_ns: Number
    bytes_ns: Number
    suggestions: tuple[Suggestion, ...]
    effects: Mapping[str, str]
    measured_ns: Number = None
    measured_low_ns: Number = None
    measured_high_ns: Number = None
    reason: str = ""
    unmeasured: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What one launch of a kernel does. `faults` are what the simulator reports: accesses outside buffers, races; `text` is the
    program's."""

    kernel: str
    launch: TracedLaunch
    sampled: Sample
    totals: Totals
    memory: tuple[MemoryInstruction, ...]
    branches: tuple[Branch, ...]
    reuse: tuple[ReuseCurve, ...]
    faults: tuple[str, ...]
    races_checked: bool
    instructions_by_line: Mapping[str, float]
    text: str = ""
    devices: tuple[DevicePrediction, ...] = ()  # the shortest time first
