"""The capacity of a cache behind any mapping, from reversed laps, or from how many lines random victims leave. Pure.

After a turn a policy that keeps what was used last still holds the last C bytes, whatever maps the sets: of laps over B bytes
that take f on average, and z where each turns back, C = B (f - z) / (f - hit). Where victims are drawn at random, a lap over B
bytes of which the share h hits has C = B (1 - h) / (-ln h), times w (-ln(1 - 1/w)) for sets of w ways.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.model import Experiment, Pattern, Probe
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession

OVERFLOWS = (
    (3.0, 4.5),
    (2.0, 3.0),
    (1.5, 2.0),
)  # times the size at which most accesses miss: the sets of reversed laps, if possible
MAX_NEXT_SHARE = 0.6  # of what the next level holds: beyond it may miss too
MAX_RELATIVE_DIFFERENCE = 0.03  # between the capacities that two working sets give, and from sets times ways times line
MAX_RANDOM_DIFFERENCE = 0.09  # the same where victims are random: sets that get more lines than others keep other shares
MAX_NOISY_DIFFERENCE = 0.08  # between two capacities, where laps are as noisy as that
MAX_FLAT_RISE = 0.03  # of a miss's cost, by which laps over the two working sets differ where all accesses miss
HELD_OF_DRAWN = 0.7  # of the capacity, ln 2 and a little more, which turning laps seem to hold where victims are random
MIN_DRAWN_HITS = 0.01  # of accesses, fewer than which say nothing
WANTED_NOISE = 0.008  # of the capacity
MAX_ORDERS = 7  # of one working set, fewer where a lap takes long
MAX_TURNED_NODES = 1 << 21  # in all orders of one working set
MAX_SHARED_TURN_COST = 1.5e8  # nodes times the latency of a miss, where others use the host: more orders do not outlast them
MAX_KNOWN_POLICY_DIFFERENCE = 0.06  # from sets times ways times line, where the policy is known: 15 sets are not taken for 16
ODD_SETS = (1, 3, 5)  # times a power of two: numbers of sets that are believed


@dataclass(frozen=True, slots=True)
class Turning:
    """Capacities in bytes by turning round at two working sets, the shares that hit in plain laps over them, the capacities'
    relative standard deviations, and that of a share."""

    bytes_: tuple[float, ...]
    sizes: tuple[int, ...]
    hits: tuple[float, ...]
    deviations: tuple[float, ...]
    noise: float
    evidence: tuple[str, ...]

    @property
    def misses_all(self) -> bool:
        """True if all accesses of plain laps miss: then no victims are drawn at random."""
        slack = max(MAX_FLAT_RISE, 3 * self.noise)
        return max(self.hits) <= slack and max(self.hits) - min(self.hits) <= slack

    def excludes_random(self) -> bool:
        """True if victims drawn at random would leave more hits in plain laps than there are: of a capacity that then is larger
        than the one that keeps what was used last."""
        expected = math.exp(-min(self.sizes) * HELD_OF_DRAWN / max(self.bytes_))
        return self.misses_all and expected - self.hits[self.sizes.index(min(self.sizes))] > max(MIN_DRAWN_HITS, 3 * self.noise)

    def recent_bytes(self, is_known: bool = False) -> float | None:
        """The capacity under a policy that keeps what was used last; None where two working sets disagree. `is_known`: the
        policy is known for one of these, so that two allocations may differ as much as page frames let them."""
        noise = MAX_NOISY_DIFFERENCE if is_known else 3 * math.hypot(*self.deviations)
        return _agreed(self.bytes_, max(MAX_RELATIVE_DIFFERENCE, min(noise, MAX_NOISY_DIFFERENCE)))

    def random_bytes(self, ways: int) -> float | None:
        """The capacity where victims are drawn at random from so many ways."""
        factor = ways * -math.log(1 - 1 / ways) if ways > 1 else 1.0
        found = [factor * b * (1 - h) / -math.log(h) for b, h in zip(self.sizes, self.hits, strict=True) if 0 < h < 1]
        return _agreed(found, MAX_RANDOM_DIFFERENCE) if len(found) == len(self.sizes) else None


def _agreed(values: Sequence[float], difference: float = MAX_RELATIVE_DIFFERENCE) -> float | None:
    low, high = min(values), max(values)
    return statistics.mean(values) if low > 0 and high - low <= difference * high else None


def turn_round(
    asked: ProbeSession,
    chase: ChaseLayout,
    step: CurveStep,
    node: int,
    nearer: tuple[float, float],
    most_bytes: int,
    is_random: bool = False,
) -> Experiment[Turning | None]:
    """Reversed laps over two working sets beyond a level; None where they would reach the next one, `most_bytes` being
    the largest working set that does not. `nearer`: bytes and latency of the level before. `is_random`: victims are, so that
    smaller sets have more hits to tell by."""
    tried = [[int(factor * step.gone_bytes) // node * node for factor in factors] for factors in OVERFLOWS[is_random:]]
    sizes = next((sizes for sizes in tried if sizes[-1] <= most_bytes), None)
    if sizes is None:
        return None
    asked.cited()
    held, hits, deviations, worst = [], [], [], 0.0
    most_nodes = min(MAX_TURNED_NODES, MAX_SHARED_TURN_COST / step.miss) if asked.shared else MAX_TURNED_NODES
    for size in sizes:
        pairs: list[tuple[float, float]] = []
        deviation = 1.0
        for seed in range(max(1, min(MAX_ORDERS, int(most_nodes * node / size)))):
            block = chase.block_bytes if chase.block_bytes < size else 0
            order = "blocks" if block else "random"
            turned, plain = yield from asked.all(
                [
                    Probe(Pattern("zigzag", size // node, node, block_bytes=block, seed=seed), chase.space),
                    Probe(Pattern(order, size // node, node, block_bytes=block, seed=seed), chase.space),  # type: ignore[arg-type]
                ]
            )
            if turned.value is None or plain.value is None:
                return None
            pairs.append((turned.value, plain.value))
            noise = math.sqrt(2) * step.noise * plain.value / math.sqrt(len(pairs))
            deviation = noise / max(1e-9, plain.value - turned.value)
            if len(pairs) >= 3 and deviation <= WANTED_NOISE:
                break
        z, f = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        if f <= step.hit:
            return None
        held.append((size * (f - z) - nearer[0] * (step.hit - nearer[1])) / (f - step.hit))
        deviations.append(deviation)
        hits.append((step.miss - f) / (step.miss - step.hit))
        worst = max(worst, step.noise * step.miss / (step.miss - step.hit))
    return Turning(tuple(held), tuple(sizes), tuple(hits), tuple(deviations), worst, asked.cited())


def number_of_sets(
    capacity: float, way_bytes: int, difference: float = MAX_RELATIVE_DIFFERENCE, most: float = 0.0
) -> int | None:
    """The number of sets that a capacity, or one between it and `most`, tells, `way_bytes` for each set: a power of two, or
    three or five times one; None where none or several do."""
    low, high = capacity * (1 - difference) / way_bytes, max(capacity, most) * (1 + difference) / way_bytes
    found = {odd << k for odd in ODD_SETS for k in range(24) if low <= odd << k <= high}
    return found.pop() if len(found) == 1 else None
