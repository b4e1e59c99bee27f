"""Traces that would decide undetermined properties: the remaining hypotheses differ on them, or bounds narrow. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clmembench.model import Accesses, Array, Finding
from clmembench.studies.hierarchy.replacement.cache_set import DETERMINISTIC_POLICIES, policy_forms
from clmembench.studies.traces.geometry import TraceSelection
from clmembench.studies.traces.hypothesis import CacheHypothesis

# Thresholds and limits, each with its reason
MAX_COMPARED_HYPOTHESES = 16  # remaining hypotheses, evenly spread: each is simulated for each chase
MAX_PROPOSED_ACCESSES = 20_000  # accesses of a proposed chase: more take long to record
WALK_ACCESSES = 1_200  # accesses of a random walk over the lines of a set, which distinguish deterministic policies
RANDOM_VICTIM_ACCESSES = 4_000  # of one that has to distinguish uniformly random victims from others
LAPS = 4  # laps of a sequential chase: a cold one, and later ones in which overflowing lines miss
UNTRACED_PROPERTIES = (
    "latency",
    "penalty",
)  # their unit and precision depend on the clock, which another chase does not change


@dataclass(frozen=True, slots=True)
class LevelState:
    """Result of the inference of one level: remaining hypotheses, the traces they were tested on, the findings."""

    name: str
    near: tuple[CacheHypothesis, ...]
    given: TraceSelection | None
    findings: Mapping[str, Finding]
    fetched_bytes: int = 0  # by the previous cache at once: nothing finer reaches this one

    @property
    def open(self) -> tuple[str, ...]:
        """Names of the undetermined properties."""
        return tuple(
            n for n, f in self.findings.items() if f.status == "undetermined" and not n.startswith(UNTRACED_PROPERTIES)
        )

    @property
    def hidden(self) -> tuple[str, ...]:
        """Those of them that the previous cache hides: a line or sector that may be finer than its requests, and the sets of
        such lines."""
        if not self.fetched_bytes:
            return ()
        finer = [n for n in ("line_bytes", "sector_bytes") if (self.findings[n].high or 0) == self.fetched_bytes]
        hidden = {*finer, *(("sets",) if "line_bytes" in finer else ())}
        return tuple(n for n in self.open if n in hidden)


@dataclass(frozen=True, slots=True)
class DecidingTrace:
    """A chase that would decide properties of a level; no array if none would."""

    level: str
    properties: tuple[str, ...]
    reason: str
    array_bytes: int | None = None
    stride_bytes: int | None = None
    accesses: int | None = None
    order: Literal["sequential", "random"] = "sequential"

    @property
    def argument(self) -> str:
        """As the programs of `infer --record` take it."""
        text = f"{self.array_bytes}:{self.stride_bytes}:{self.accesses}"
        return f"{text}:w" if self.order == "random" else text


def advice_text(traces: Sequence[DecidingTrace]) -> str:
    """The traces as lines, with the arguments that the recording programs take."""
    if not traces:
        return "Traces that would decide undetermined properties: none needed."
    lines = [
        "Traces that would decide undetermined properties (ARRAY:STRIDE:ACCESSES, sizes in bytes, w: random), starting "
        "with empty caches"
    ]
    for one in traces:
        what = one.argument if one.array_bytes else "no trace of this program"
        lines.append(f"  {one.level} {', '.join(one.properties)}: {what}\n      {one.reason}")
    return "\n".join(lines)


def deciding_traces(states: Sequence[LevelState], recorded: Sequence[Accesses]) -> list[DecidingTrace]:
    """For each level and its undetermined properties, the trace that would decide them or narrow them down."""
    chosen: list[DecidingTrace] = []
    for state in states:
        names = tuple(name for name in state.open if name not in state.hidden)
        if state.hidden:
            reason = f"the previous cache requests {state.fetched_bytes} B at once: only loads that bypass it would show it"
            chosen.append(DecidingTrace(state.name, state.hidden, reason))
        if names and state.given is None:
            chosen.append(_of_hidden_level(state, names, recorded))
        elif names and state.given is not None:
            chosen += _of_level(state, names, state.given)
    return chosen


def _of_hidden_level(state: LevelState, names: tuple[str, ...], recorded: Sequence[Accesses]) -> DecidingTrace:
    """For latencies that could not be attributed: within a page no translation misses, so a smaller stride separates them."""
    within = [t for t in recorded if 0 < t.stride_bytes < 4096]
    if within:
        reason = "latencies overlap within pages too: a finer clock, less noise, or more repeats would separate them"
        return DecidingTrace(state.name, names, reason)
    largest = max((t.array_bytes for t in recorded), default=4096)
    count = min(MAX_PROPOSED_ACCESSES, 2 * largest // 64)
    return DecidingTrace(state.name, names, "within a page no translation misses", largest, 64, count)


def _of_level(state: LevelState, names: tuple[str, ...], given: TraceSelection) -> list[DecidingTrace]:
    unit = max(given.unit_bytes, 4)
    found = []
    filled = tuple(name for name in names if name in ("sector_bytes", "page_bytes"))
    rest = tuple(name for name in names if name not in filled)
    if filled:
        found.append(_of_fill_unit(state, filled, unit))
    if not rest:
        return found
    best = _most_telling(state, rest) if len(_distinct(state.near)) > 1 else None
    if best is not None:
        return [*found, best]
    if state.near:
        return [*found, *_of_random_victims(state, rest)]
    return [*found, _of_capacity(state, rest, given, unit)]


def _of_fill_unit(state: LevelState, names: tuple[str, ...], unit: int) -> DecidingTrace:
    """Cold accesses at half of the largest possible fill of a miss: every other one hits, or none does."""
    finding = state.findings[names[0]]
    high, low = finding.high, finding.low
    stride = max(4, int(high) // 2) if high else 2 * int(low) if low else max(4, unit // 2)
    reason = f"of cold accesses {stride} B apart every other one hits if a miss brings in {2 * stride} B"
    return DecidingTrace(state.name, names, reason, 128 * stride, stride, 128)


def _of_random_victims(state: LevelState, names: tuple[str, ...]) -> list[DecidingTrace]:
    one = state.near[0]
    if one.ways == 1:
        return []
    stride = one.mapping.sets * one.mapping.grain_bytes
    reason = f"{one.ways + 1} lines of one set at random show how often each way is replaced"
    return [DecidingTrace(state.name, names, reason, (one.ways + 1) * stride, stride, RANDOM_VICTIM_ACCESSES, "random")]


def _of_capacity(state: LevelState, names: tuple[str, ...], given: TraceSelection, unit: int) -> DecidingTrace:
    """For no remaining hypothesis: an array between the largest that fits and the smallest that does not; or a larger one; or,
    if these are adjacent, few lines far apart, to find their sets."""
    fitting = max((foot.units.size * unit for foot in given.footprints if foot.fits), default=0)
    over = min((foot.units.size * unit for foot in given.footprints if not foot.fits), default=0)
    if not over:
        array = 2 * max(fitting, unit)
        return DecidingTrace(
            state.name, names, f"arrays up to {fitting} B fit: a larger one has to overflow it", array, unit, _lap(array, unit)
        )
    if over - fitting > unit:
        array = max(fitting + unit, (fitting + over) // 2 // unit * unit)
        reason = f"{fitting} B fit and {over} B do not: the array between them halves the interval"
        return DecidingTrace(state.name, names, reason, array, unit, _lap(array, unit))
    stride = 1 << max(over - 1, 1).bit_length()
    reason = f"lines {stride} B apart are in one set of plain bits: the number of them that it holds is its ways"
    return DecidingTrace(state.name, names, reason, 16 * stride, stride, WALK_ACCESSES, "random")


def _lap(array: int, stride: int) -> int:
    return max(1, min(MAX_PROPOSED_ACCESSES, LAPS * (array // stride)))


def _distinct(near: Sequence[CacheHypothesis]) -> list[CacheHypothesis]:
    """One hypothesis for each shape and policy; of many, a few evenly spread ones."""
    distinct = list({(h.unit_bytes, h.mapping, h.ways, h.policy): h for h in near}.values())
    distinct.sort(key=lambda h: (h.size_bytes, h.ways, h.policy))
    if len(distinct) <= MAX_COMPARED_HYPOTHESES:
        return distinct
    return [distinct[round(float(n))] for n in np.linspace(0, len(distinct) - 1, MAX_COMPARED_HYPOTHESES)]


def _most_telling(state: LevelState, names: tuple[str, ...]) -> DecidingTrace | None:
    """The chase that splits the hypotheses' misses into the most groups, the shortest of such chases; None if they never
    differ."""
    near = _distinct(state.near)
    best: tuple[int, int, DecidingTrace] | None = None
    for array, stride, accesses, order in sorted({c for h in near for c in _candidates(h)}):
        places = max(1, array // stride)
        drawn = np.random.default_rng(1).integers(0, places, accesses) if order else np.arange(accesses) % places
        groups = len({predicted_misses(h, drawn * stride).tobytes() for h in near})
        reason = f"the {len(near)} remaining hypotheses make {groups} different predictions of which accesses miss"
        one = DecidingTrace(state.name, names, reason, array, stride, accesses, "random" if order else "sequential")
        if groups > 1 and (best is None or (groups, -accesses) > best[:2]):
            best = groups, -accesses, one
    return None if best is None else best[2]


def _candidates(h: CacheHypothesis) -> list[tuple[int, int, int, str]]:
    """Chases that distinguish a hypothesis from its neighbours: array, stride, accesses, order."""
    line, one_set = h.mapping.line_bytes, h.mapping.sets * h.mapping.grain_bytes
    chases = [((h.ways + more) * one_set, one_set, WALK_ACCESSES, "w") for more in (1, 2)]
    for stride in sorted({max(4, line // 2), line, 2 * line}):
        for array in (h.size_bytes + line, h.size_bytes * 5 // 4 // stride * stride):
            if LAPS * (array // stride) <= MAX_PROPOSED_ACCESSES // 4:
                chases.append((array, stride, _lap(array, stride), ""))
    return chases


def predicted_misses(h: CacheHypothesis, addresses: Array) -> Array:
    """Which accesses miss under a hypothesis from an empty cache on; random victims are simulated as LRU, since the sets are
    decided first; bool, shape (accesses,)."""
    name = h.policy if h.policy in DETERMINISTIC_POLICIES else "LRU"
    maker = (policy_forms(name, h.ways) or policy_forms("LRU", h.ways))[0]
    sets = {number: maker(h.ways) for number in np.unique(h.mapping.of(addresses)).tolist()}
    sectors: dict[int, set[int]] = {}
    missed = np.zeros(addresses.size, dtype=bool)
    for n, (address, number) in enumerate(zip(addresses.tolist(), h.mapping.of(addresses).tolist(), strict=True)):
        line, unit = address // h.mapping.line_bytes, address // h.unit_bytes
        if not sets[number].access(line):
            sectors[line] = set()
        missed[n] = unit not in sectors[line]
        sectors[line].add(unit)
    return missed
