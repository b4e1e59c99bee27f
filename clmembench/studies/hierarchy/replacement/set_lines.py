"""One cache set that is asked: its lines, the walks over them, and what they pass before it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from clmembench.model import Pattern
from clmembench.model.address_patterns import NODE_BYTES, listed, pattern_offsets
from clmembench.studies.hierarchy.probes.line_probe import MIN_PAGE_BYTES
from clmembench.studies.hierarchy.replacement.policy_forms import PolicyForm, known_forms

EXTRA_LINES = 2  # lines beyond the ways: laps over one line more do not distinguish LRU from FIFO


@dataclass(frozen=True, slots=True)
class SetLines:
    """Lines of one set: `count` at multiples of `way_bytes`, each shifted `shift_bytes` further, or those in `own`. `filler`:
    lines of other sets, visited among them so that no nearer cache holds them all. `apart_bytes`: a line's length at most, of
    any level."""

    count: int
    way_bytes: int = 0
    shift_bytes: int = 0
    own: tuple[int, ...] = ()
    filler: tuple[int, ...] = ()
    apart_bytes: int = 128

    def pattern(self, order: Literal["walk", "random"], count: int, visits: int = 1, seed: int = 0) -> Pattern:
        """A lap over the first `count` of them and the filler, `visits` of each at most: nodes lie side by side."""
        if not self.own:
            return Pattern(order, count, self.way_bytes, self.shift_bytes, 0, visits, "", seed)
        every = [*self.own[:count], *self.filler]
        apart = min((b - a for a, b in pairwise(sorted(every))), default=self.apart_bytes)
        visits = max(1, min(visits, apart // NODE_BYTES))
        return Pattern(order, len(every), 0, 0, 0, visits, listed(every), seed)

    def stream(self, protected: int, ways: int, control_bytes: int = 0) -> Pattern:
        """A lap in which each visit of a line that came long ago is followed by one of `protected` lines that are used often:
        LRU keeps these and misses all others, FIFO loses them as often as the others. `control_bytes`: over lines so far apart
        in place of those of the set."""
        passing = ways - protected + 1
        order = [line for i in range(passing) for line in (i, passing + i % protected)]
        places = self.own
        if control_bytes or not places:
            stride, shift = (control_bytes, 0) if control_bytes else (self.way_bytes, self.shift_bytes)
            places = tuple(pattern_offsets(Pattern("sequential", ways + 1, stride, shift)).tolist())
        return Pattern("segments", segments=";".join(f"{places[line]}:0:1:1" for line in order), seed=protected)

    def control(self, walk: Pattern) -> Pattern:
        """The same walk over other lines of the same pages, which lie in different sets: it costs what translation costs."""
        if walk.order == "segments":
            raise ValueError("a stream has no control over other lines of the same pages")
        if walk.segments:
            lines = [*self.own[: walk.count - len(self.filler)], *self.filler]
        else:
            lines = [line * self.way_bytes for line in range(walk.count)]
        slots = MIN_PAGE_BYTES // self.apart_bytes
        spread = [
            line // MIN_PAGE_BYTES * MIN_PAGE_BYTES + i % slots * self.apart_bytes for i, line in enumerate(sorted(lines))
        ]
        return replace(walk, stride_bytes=0, shift_bytes=0, segments=listed(spread))

    def numbers(self, walk: Pattern) -> tuple[int, ...]:
        """The lines that a walk visits, by number; those of the filler have numbers below 0."""
        offsets = pattern_offsets(walk)
        if not self.own:
            return tuple((offsets // self.way_bytes).tolist())
        number = {place: i for i, place in enumerate(self.own)} | {place: -1 - i for i, place in enumerate(self.filler)}
        places = np.array(sorted(number))
        visited = places[np.searchsorted(places, offsets, side="right") - 1]
        return tuple(number[place] for place in visited.tolist())


@dataclass(frozen=True, slots=True)
class NearerSet:
    """The one set of the nearest cache that all lines of a set pass: its ways, and the forms that its policy may have."""

    ways: int
    forms: tuple[PolicyForm, ...]

    @classmethod
    def of(cls, ways: int, policy: str) -> NearerSet | None:
        """By the policy's name; None where it draws victims, so that what it lets through is not known."""
        forms = tuple(form for form in known_forms(ways) if form.name == policy and form.maker is not None)
        return cls(ways, forms) if forms else None


@dataclass(frozen=True, slots=True)
class SetOfLevel:
    """The set that is asked: its ways and lines, the unit of bytes within which a line can be visited again, the latency of a
    nearer cache (0: there is none) and that cache's set if it is known, whether what a miss costs is known, and the policies
    that other evidence leaves (none: all)."""

    ways: int
    lines: SetLines
    unit: int
    nearer: float = 0.0
    before: NearerSet | None = None
    miss_is_known: bool = True
    policies: frozenset[str] = frozenset()
