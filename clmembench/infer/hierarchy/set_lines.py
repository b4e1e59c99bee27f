"""Lines of one cache set, and the walks over them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clmembench.infer.hierarchy.line_probe import listed
from clmembench.model import Pattern
from clmembench.model.address_patterns import pattern_offsets


@dataclass(frozen=True, slots=True)
class SetLines:
    """Lines of one set: `count` at multiples of `way_bytes`, each shifted `shift_bytes` further, or those in `own`. `filler`: lines
    of other sets, visited among them so that no nearer cache holds them all."""

    count: int
    way_bytes: int = 0
    shift_bytes: int = 0
    own: tuple[int, ...] = ()
    filler: tuple[int, ...] = ()

    def pattern(self, order: Literal["walk", "random"], count: int, visits: int = 1, seed: int = 0) -> Pattern:
        """A lap over the first `count` of them and the filler, `visits` of each."""
        if not self.own:
            return Pattern(order, count, self.way_bytes, self.shift_bytes, 0, visits, "", seed)
        every = [*self.own[:count], *self.filler]
        return Pattern(order, len(every), 0, 0, 0, visits, listed(every), seed)

    def numbers(self, walk: Pattern) -> tuple[int, ...]:
        """The lines that a walk visits, by number; those of the filler have numbers below 0."""
        offsets = pattern_offsets(walk)
        if not self.own:
            return tuple((offsets // self.way_bytes).tolist())
        number = {place: i for i, place in enumerate(self.own)} | {place: -1 - i for i, place in enumerate(self.filler)}
        places = np.array(sorted(number))
        visited = places[np.searchsorted(places, offsets, side="right") - 1]
        return tuple(number[place] for place in visited.tolist())
