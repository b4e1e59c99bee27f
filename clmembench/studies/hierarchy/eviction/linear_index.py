"""Whether parities of address bits choose a level's sets, and how many sets that makes, from eviction sets. Pure.

Where they do, the exclusive or of two lines of one set leads from any line to another one of its set: differences found in one
eviction set are tried in the others. All differences within a window of 2^n lines span 2^(n - s) of them if the window's lines
are of 2^s sets; and since as many lines as fit are of sets that hold them, the number of sets has a lower bound too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from clmembench.model import Experiment
from clmembench.studies.hierarchy.eviction.eviction_sets import MAX_WINDOW_BYTES, EvictionSets
from clmembench.studies.hierarchy.set_index import SetIndexBits, difference_basis, free_parities

# Thresholds
MAX_FITTING_ERROR = 0.01  # of what surely fits, which a disturbance may move: half of what other sets would hold is no bound
MIN_CONFIRMED_DIFFERENCES = (
    4  # differences of one eviction set that are such of another: by chance each is so in one of the sets
)


@dataclass(frozen=True, slots=True)
class LinearIndex:
    """Parities of address bits that choose the set: how many sets that makes, the bits of each parity, differences (in bytes,
    by exclusive or) that lead to lines of the same set, and the line in bytes."""

    sets: int
    bits: SetIndexBits
    differences: tuple[int, ...]
    line_bytes: int

    def another_line(self, places: tuple[int, ...]) -> int | None:
        """A place of the set of these in none of their lines, anywhere in which they may lie."""
        taken = {place // self.line_bytes for place in places}
        reached = {0}
        for difference in self.differences:
            reached |= {difference ^ other for other in reached}
        others = (places[0] ^ other for other in reached)
        return min((place for place in others if place // self.line_bytes not in taken), default=None)


def find_linear_index(found: EvictionSets, fitting_bytes: float) -> Experiment[LinearIndex | None]:
    """The parities of address bits that choose the sets of a level which surely holds `fitting_bytes` of neighbouring lines;
    None where differences of one eviction set are none of another, or where the number of sets is not settled."""
    line, window = found.line_bytes, found.window_bytes
    if line is None or not 0 < window <= MAX_WINDOW_BYTES or len(found.lines) < 2:
        return None
    numbers = [[offset // line for offset in lines] for lines in found.lines]
    own = [difference_basis(of_set) for of_set in numbers]
    confirmed = 0
    for number, lines in enumerate(found.lines):
        others = dict.fromkeys(d for basis in own[:number] + own[number + 1 :] for d in basis)
        probe = replace(found.probe, filler=found.fillers[number])
        for difference in others:
            candidate = numbers[number][0] ^ difference
            if candidate not in numbers[number] and not (
                yield from probe.overflows([candidate * line + lines[0] % line, *lines[1:]])
            ):
                return None
            confirmed += 1
    if confirmed < MIN_CONFIRMED_DIFFERENCES:
        return None
    basis = difference_basis([0, *(a ^ b for of_set in numbers for a, b in combinations(of_set, 2))])
    width = (window // line).bit_length() - 1
    sets = 1 << max(0, width - len(basis))
    held = found.ways * line * sets
    if not held / 2 * (1 + MAX_FITTING_ERROR) < fitting_bytes <= held * (1 + MAX_FITTING_ERROR):
        return None
    low = line.bit_length() - 1
    bits = tuple(tuple(low + bit for bit in group) for group in free_parities(basis, width))
    return LinearIndex(sets, bits, tuple(line * row for row in basis), line)
