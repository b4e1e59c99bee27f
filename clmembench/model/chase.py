"""Pointer chases: patterns, probes of patterns in a memory space, the measured latencies, and traces of single accesses."""

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

CHASE_BENCHMARK = "chase"  # measures probes; reports show the hierarchy inferred from them instead of its points


@dataclass(frozen=True, slots=True)
class Accesses:
    """Consecutive accesses, beginning with an empty cache, of which the first `first_step` were not recorded.

    `offsets` (int64, bytes) and `latencies` (float, any unit) have shape (accesses,).
    """

    id: str
    array_bytes: int
    stride_bytes: int
    first_step: int
    offsets: Array
    latencies: Array


@dataclass(frozen=True, slots=True)
class Pattern:
    """The addresses of one lap, as offsets in bytes from an aligned base; `address_patterns.pattern_offsets` computes them.

    `count` places are `stride_bytes` apart. Each is shifted `shift_bytes` further than the last, within the stride, so that
    lines with one per page do not all fall into one cache set.

    `order`: sequential, by address. random: one random cycle over all places. blocks: blocks of `block_bytes` in random order,
    and random order within each. pairs: places in random order, each followed by the address `block_bytes` behind it. walk:
    `count` * `visits` accesses in random order, `visits` of each place, never the same place twice in a row. segments: the lap
    that `segments` describes, "start:stride:count:times" joined by ";", each traversed `times` times, in order. by_page and
    by_round: `visits` lines `block_bytes` apart at each of `count` places (pages), either all lines of a page in a row or in
    rounds with one line of every page. zigzag: as blocks (random where `block_bytes` is 0), and then back in reverse order.

    With `segments`, the orders random, walk, zigzag, by_page and by_round use the places listed there. Every further visit of a
    place within a lap goes 8 B further on, so that each node of the chain occurs once per lap.
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

    mode lap: the mean latency of an access in the steady state, as a slope over steps; it needs no clock inside the kernel.
    mode trace: the latency of each of `record` accesses after the first `skip`, counted from the start of a launch. `cold`:
    all caches that can be emptied are emptied beforehand.

    mode evict: the latency of the pattern's first place after n eviction lines, for `record` values of n, equally spaced from
    `skip` to `until`. Each measurement loads the first place. Then all work-items of a work-group load, in `rounds` rounds, the
    first n eviction lines, the eviction lines from index `also_from` to `also_until`, and the pattern's places from the third
    on. Then the second place is loaded, which lies in the page of the first, and the first place is timed. The eviction lines
    are `crowd` places (a power of two) `crowd_bytes` apart, in the order of `address_patterns.crowd_offsets`.

    mode residence: the latencies of lines of a scan, each after a known number of other lines. All work-items of a work-group
    load lines from index `skip` on: first `also_until` + 1 lines, then the lines up to index `until` in `record` segments.
    After each segment one work-item times a line at one of `rounds` distances behind the scan, from `also_from` to `also_until`
    lines, after a load from the other half of its page. The lines are `crowd_bytes` apart, and their order is that of
    `address_patterns.scan_offsets`, with windows of `crowd` lines (a power of two); the pattern is not used. Every repeat loads
    other lines, and the same ones again after `turns` repeats.
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
        """The parameters of the probe's point, flat; defaults are left out, so that equal probes have equal parameters.

        The mode is always included, since it says what is measured.
        """
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "pattern"}
        own = {name: value for name, value in own.items() if name == "mode" or value != PROBE_DEFAULTS[name]}
        pattern = {n: v for n, v in asdict(self.pattern).items() if v not in ("", 0) and (n, v) != ("visits", 1)}
        return {**pattern, **own}

    @classmethod
    def of(cls, params: Mapping[str, Value]) -> Probe:
        """The probe with these parameters. Raises TypeError or KeyError if no probe has them."""
        names = {f.name for f in fields(Pattern)}
        pattern = Pattern(**{n: v for n, v in params.items() if n in names})  # type: ignore[arg-type]
        return cls(pattern, **{n: v for n, v in params.items() if n not in names})  # type: ignore[arg-type]


PROBE_DEFAULTS = {f.name: f.default for f in fields(Probe)}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a probe.

    `value` with its 95% interval is the mean latency of an access in `unit` (cycles if the core's clock is known, else ns), or
    None because of `reason`; `ns` is the same in ns. `latencies` of traces have shape (repeats, record), in `unit`. `evidence`
    names the records. `alone` is the share of a lap's timed parts that agree with the value; 1 if it was not timed in parts.
    """

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


Experiment = Generator[Sequence[Probe], list[Answer], T]  # yields probes, receives their Answers, returns a result
