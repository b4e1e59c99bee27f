"""How lines of one level are tested: laps over chosen lines and a filler, and whether some set of the level overflows. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.model import Experiment, Pattern, Probe, Space
from clmembench.model.address_patterns import listed
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, ProbeSession

# Thresholds and limits, each with its reason
MIN_PAGE_BYTES = 4096  # no device has smaller pages
MIN_MISSES = 0.45  # of a lap: what overflows misses once at least
MAX_NEARER_SHARE = 0.15  # of the way to a nearer cache's latency: a lap that is faster was served there
MIN_SATURATION = 1.3  # times the TLB's entries: from there on each access misses it, and more do not cost more
MIN_SATURATION_OF_SETS = 2.0  # the same of a TLB of several sets, each of which gets twice as many pages as it has ways
MAX_ENTRIES_SHARE = 0.8  # of a TLB's entries: with more some of its sets may overflow
CONTROL_DIVISOR = 3  # of what the nearest cache surely holds: a hash lays few of so many lines into one set
MAX_PATTERN_LINES = 1 << 26  # of a lap
HELD_LINES_SHARE = 0.8  # of the nearest cache's lines that surely fit: `held_lines`, for a control
MAX_ORDERS_OF_TEST = 5  # where the noise of one lap is more than a miss


@dataclass(frozen=True, slots=True)
class LineProbe:
    """How lines of one level are tested: latencies of its hit, its miss and the level before (0: there is none); the relative
    noise of a lap; the least distance of lines; latency (`base`) of the nearest cache, and how many lines it surely holds,
    which a control needs; entries and pages of the first TLB, where it has one set (0: else). `filler`: lines that are visited
    in every lap, so that no nearer cache holds the others. `reach_bytes`: of the first TLB, or the largest working set where
    there is none; `is_near`: all lines are within it, so that nothing but this level's misses costs more than a hit.
    `nearer_line`: the shortest line of the nearer caches (0: not known); `hidden`: misses of a lap that their hits outweigh."""

    asked: ProbeSession
    space: Space
    hit: float
    miss: float
    nearer: float
    noise: float
    node_bytes: int
    base: float
    held_lines: int
    entries: int = 0
    page_bytes: int = 0
    filler: tuple[int, ...] = ()
    stride_bytes: int = MIN_PAGE_BYTES
    reach_bytes: int = 0
    is_near: bool = False
    nearer_line: int = 0
    hidden: float = 0.0

    @property
    def free_lines(self) -> int:
        """How many lines, a stride apart, are surely translated for nothing: none where the TLB has sets, or was not found."""
        if self.is_near:
            return MAX_PATTERN_LINES
        return int(MAX_ENTRIES_SHARE * self.entries) * max(1, self.page_bytes // self.stride_bytes)

    @property
    def saturating_pages(self) -> int:
        """So many pages, or more, miss the first TLB in every access; 0 where its pages are not known."""
        if self.entries:
            return math.ceil(MIN_SATURATION * self.entries)
        return math.ceil(MIN_SATURATION_OF_SETS * self.reach_bytes / self.page_bytes) if self.page_bytes else 0

    def lap(self, lines: Sequence[int], seed: int = 0) -> Probe:
        """A lap over lines, in random order."""
        return Probe(Pattern("random", len(lines), segments=listed(lines), seed=seed), self.space)

    def spread(self, lines: Sequence[int]) -> list[int]:
        """Other lines of the same pages, of other sets: a control."""
        slots = MIN_PAGE_BYTES // self.node_bytes
        return [line // MIN_PAGE_BYTES * MIN_PAGE_BYTES + i % slots * self.node_bytes for i, line in enumerate(sorted(lines))]

    def misses(self, lines: Sequence[int], seed: int) -> Experiment[float | None]:
        """How many accesses miss in a lap over these lines and the filler, less what translation costs; None: not known."""
        every = [*lines, *self.filler]
        answer = yield from self.asked.one(self.lap(every, seed))
        translated: float | None = 0.0
        if len(every) > self.free_lines:
            most = max(self.held_lines // CONTROL_DIVISOR, self.saturating_pages)
            if most > self.held_lines and most < len(every):
                return None  # as many as the cache holds do not show what a miss of the TLB costs
            few = every if len(every) <= most else [every[i * len(every) // most] for i in range(most)]
            translated = yield from self._translated(self.spread(few), seed)
        if answer.value is None or translated is None:
            return None
        return len(every) * (answer.value - self.hit - translated) / (self.miss - self.hit) + self.hidden

    def _translated(self, control: Sequence[int], seed: int) -> Experiment[float | None]:
        """What translation adds to an access of such a control; None: no answer. A disturbed control would hide misses: one
        that costs more than the cheapest of as many lines so far, or of fewer, is measured in a second order."""
        known, costs = self.asked.control_costs.setdefault(self.space, {}), list[float]()
        cheapest = max((cost for count, cost in known.items() if count <= len(control)), default=0.0)
        for order in (seed, seed + MAX_ORDERS_OF_TEST):
            value = (yield from self.asked.one(self.lap(control, order))).value
            costs += [max(0.0, value - self.base)] if value is not None else []
            if not costs or costs[0] - cheapest <= LAP_NOISE_SIGMAS * self.noise * (self.base + cheapest):
                break
        if costs:
            known[len(control)] = min(*costs, known.get(len(control), math.inf))
        return min(costs, default=None)

    def deviation(self, count: int) -> float:
        """The standard deviation of `misses` of so many lines."""
        controls = 1 + (count > self.free_lines)
        return count * self.noise * self.hit * math.sqrt(controls) / (self.miss - self.hit)

    def overflows(self, lines: Sequence[int], first: int = 0) -> Experiment[bool]:
        """True if some set has fewer ways than it gets of these lines and the filler. `first`: the first order tried.

        Orders are tried until the misses are surely more or fewer than one; a disturbance only adds, and seldom twice.
        """
        deviation = self.deviation(len(lines) + len(self.filler))
        margin, values = LAP_NOISE_SIGMAS * deviation, list[float]()
        for number in range(MAX_ORDERS_OF_TEST):
            value = yield from self.misses(lines, first + number)
            if value is None:
                return False
            values.append(value)
            middle, slack = statistics.median_low(values), margin / math.sqrt(max(1, number))
            if middle < MIN_MISSES and middle + slack < 1:
                return False
            if number and middle >= max(MIN_MISSES, slack):
                return True
        return statistics.median(values) >= max(MIN_MISSES, margin / math.sqrt(MAX_ORDERS_OF_TEST))

    def is_served_here(self, lines: Sequence[int]) -> Experiment[bool]:
        """True if no nearer cache serves a lap over these lines and the filler."""
        if not self.nearer:
            return True
        answer = yield from self.asked.one(self.lap([*lines, *self.filler]))
        return answer.value is not None and answer.value > self.hit - MAX_NEARER_SHARE * (self.hit - self.nearer)
