"""Pointer chases: patterns, probes of them in a memory space and the latencies they answer; traces of single accesses."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal, TypeVar

from clmembench.model.work import Array, Value

Order = Literal["sequential", "random", "blocks", "pairs", "walk", "segments", "by_page", "by_round", "zigzag"]
Space = Literal[
    "global", "global_cg", "readonly", "image1d_buffer", "image1d", "image2d", "constant", "constant_array", "local", "private"
]
T = TypeVar("T")

CHASE_BENCHMARK = (
    "chase"  # the benchmark that answers probes: shown as the hierarchy that is inferred from them, not point by point
)


@dataclass(frozen=True, slots=True)
class Accesses:
    """Consecutive accesses from an empty cache on, of which the first `first_step` were not recorded. `offsets` (int64, bytes)
    and `latencies` (float, any unit) are of shape (accesses,)."""

    id: str
    array_bytes: int
    stride_bytes: int
    first_step: int
    offsets: Array
    latencies: Array


@dataclass(frozen=True, slots=True)
class Pattern:
    """The addresses of one lap, as offsets in bytes from an aligned base; `address_patterns.pattern_offsets` writes them out.

    `count` places lie `stride_bytes` apart; each is moved `shift_bytes` further than the last, within the stride, so that one
    line a page does not fall into one cache set. `order`: sequential by address; random, one random cycle over all places;
    blocks, blocks of `block_bytes` in random order and the places within each in random order; pairs, places in random order,
    after each the address `block_bytes` behind it; walk, `count` * `visits` accesses in random order, `visits` of each place
    and never one twice in a row; segments, what `segments` says: "start:stride:count:times" joined by ";", each run through
    `times` times, in order; by_page and by_round, `visits` lines `block_bytes` apart at each of `count` places (pages): all
    lines of a page one after another, or in rounds, a line of every page in each; zigzag, as blocks (random where `block_bytes`
    is 0) and then back in reverse order. With `segments` the orders random, walk, zigzag, by_page and
    by_round take the places that it lists. A place that a lap visits again is visited 8 B further on each time, so that every
    node of the chain is met once a lap.
    """

    order: Order
    count: int = 0
    stride_bytes: int = 0
    shift_bytes: int = 0
    block_bytes: int = 0
    visits: int = 1
    segments: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Probe:
    """A pattern chased by one work-item in a memory space.

    mode lap: the mean latency of an access in the steady state, as a slope over steps; needs no clock inside the kernel. mode
    trace: the latency of each of `record` accesses after the first `skip`, counted from the start of a launch. `cold`: every
    cache that can be emptied is emptied before.

    mode evict: the latency of the pattern's first place after many other lines, for `record` numbers of them from `skip` to
    `until` at equal distances. Before each the first place is loaded; then, in `rounds` rounds, as many first lines of a crowd,
    those from number `also_from` to `also_until`, and the pattern's places from the third on, by all work-items of a work-group
    at once; then the second place, in the first one's page. The crowd: `crowd` places (a power of two) `crowd_bytes` apart, in
    the order of `address_patterns.crowd_offsets`.

    mode residence: the latencies of lines of a scan, each when so many others were loaded since. Lines from number `skip` on
    are loaded, first `also_until` and one, then those up to `until` in `record` stretches, by all work-items of a work-group at
    once; after each stretch one of them times a line that lies one of `rounds` numbers of lines back, from `also_from` to
    `also_until`, after a load of the other half of its page. The lines lie `crowd_bytes` apart and follow in windows of `crowd`
    lines (a power of two) as `address_patterns.scan_offsets` says; the pattern is not visited. Every repeat loads
    other lines, and comes to the same ones after `turns` of them.
    """

    pattern: Pattern
    space: Space = "global"
    mode: Literal["lap", "trace", "evict", "residence"] = "lap"
    skip: int = 0
    record: int = 0
    cold: bool = False
    until: int = 0
    crowd: int = 0
    crowd_bytes: int = 0
    also_from: int = 0
    also_until: int = 0
    rounds: int = 0
    turns: int = 0

    def params(self) -> dict[str, Value]:
        """As the parameters of a point: flat, what is at its default left out, so that equal probes have equal parameters; but
        for the mode, which says what is measured."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "pattern"}
        own = {name: value for name, value in own.items() if name == "mode" or value != PROBE_DEFAULTS[name]}
        pattern = {n: v for n, v in asdict(self.pattern).items() if v not in ("", 0) and (n, v) != ("visits", 1)}
        return {**pattern, **own}

    @classmethod
    def of(cls, params: Mapping[str, Value]) -> Probe:
        """The probe that has these parameters. Raises TypeError or KeyError where none has."""
        names = {f.name for f in fields(Pattern)}
        pattern = Pattern(**{n: v for n, v in params.items() if n in names})  # type: ignore[arg-type]
        return cls(pattern, **{n: v for n, v in params.items() if n not in names})  # type: ignore[arg-type]


PROBE_DEFAULTS = {f.name: f.default for f in fields(Probe)}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a probe. `value` with its 95% interval is the mean latency of an access in `unit` (cycles where the core's
    clock is known, else ns), None where there is none, for that `reason`; `ns` the same in ns. `latencies`, of traces, is of
    shape (repeats, record) in `unit`. `evidence` names the records it is from. `alone`: the
    share of what was timed of a lap that agrees with the value; 1 where it was not timed in parts."""

    probe: Probe
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = "cycles"
    ns: float | None = None
    latencies: Array | None = None
    evidence: tuple[str, ...] = ()
    reason: str = ""
    alone: float = 1.0


Experiment = Generator[Sequence[Probe], list[Answer], T]  # asks probes, is sent an Answer for each, returns what it found
