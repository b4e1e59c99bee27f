"""Probing a device or a simulation: a cache of answers, and the search for how many places a level holds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.model import Answer, Experiment, Order, Pattern, Probe, Space
from clmembench.model.address_patterns import listed, pattern_offsets, probe_bytes

# Thresholds of what a lap's mean says
LAP_NOISE_SIGMAS = 4.0  # of a lap's own noise: what lies further off is another latency
MIN_RELATIVE_LAP_NOISE = 0.001  # relative, of one lap: less is not believed
MIN_SEEN_TO_HIDDEN_RATIO = 4  # times the misses that may hide in the noise: from there on one place too many shows
MAX_ORDER_RELATIVE_DIFFERENCE = 0.5  # relative, of what is more than a hit: two orders agree on how slow a lap is
MIN_CERTAIN_MISS_SHARE = 0.5  # of a lap's accesses: no disturbance that most windows agree on adds so many misses
MIN_CERTAIN_MISS_RATIO = 4.0  # times a hit: no disturbance lasts that adds so much
MIN_LAP_LINES_SHARE = 0.8  # of the lines that a lap should have: with fewer the nearest cache may hold them
MORE_PAGE_LINES = 4  # of a page: two orders of more would differ hardly more
MAX_FILL_SHARE, MIN_OVERFLOW_RATIO = 0.55, 2.5  # of the lines that a cache holds: fewer fit whatever maps them, more all miss
SIDE_BY_SIDE_BYTES = 64 << 10  # of the blocks in which lines side by side are visited: a first TLB holds 16 pages of 4 KiB
PAGE_ORDERS: tuple[Order, Order] = ("by_round", "by_page")  # the same lines: measurement and control
LONGEST_LINE_BYTES = 128  # of all GPUs' and most CPUs' caches; where a miss brings in more, that counts
MAX_SINGLE_FILL_SHARE, MIN_SINGLE_OVERFLOW_RATIO = 0.9, 1.25  # the same of single lines of pages
MAX_READ_SEGMENTS = 60  # characters
MAX_NEARER_HIT_SHARE = 0.25  # of accesses that a nearer level may answer
MAX_UNIT_BYTES = 4096  # of a page, in which its lines lie: no page is shorter
# Thresholds of a disturbed host
MAX_ORDERS = 4  # tried of a lap that gets no answer or seems slow, until two of them agree on how slow
MAX_ORDERS_WITHOUT_PATIENCE = 2  # orders tried once patience is spent
MIN_UNDISTURBED_SHARE = 0.5  # of what was timed of a lap: where no more agrees, others use the core
MAX_DISTURBED_LAP_SHARE = 0.1  # of all laps: where more are not calm, the core is restless
MAX_REPEATED_LOOKS = 60  # repeated looks in all, so that a run ends in its time on the most restless of hosts
MAX_COMPARISONS, MAX_COMPARISONS_WITHOUT_PATIENCE = (
    10,
    3,
)  # times at most that what fits and what does not are compared; and once patience is spent
MAX_DISTURBED_LINE_SHARE = 0.07  # of a level's lines, taken by what else uses the core, or of its sets by the kernel itself
MAX_CHANCE_PROBABILITY = 0.01  # probability of an error that is accepted


def without_answer(probes: str, answers: Sequence[Answer]) -> str:
    """That these probes got no answer, and why the first one without one did not."""
    why = next((answer.reason for answer in answers if answer.value is None), "")
    return f"{probes} got no answer{f': {why}' if why else ''}"


@dataclass(slots=True)
class ProbeSession:
    """The probes so far with their answers: no probe is measured twice. `evidence` collects the records of the answers read
    since it was last cited; `patience` is how many more looks at a restless core there may be; of `laps`, `disturbed` were.
    `shared`: others, such as the host's own programs, may take some lines of a cache at any time. `reached_bytes`: how far the
    largest lap went that is no long list of places; within that no probe needs a larger buffer, in other page frames.
    `control_costs`: what translation added to an access of the cheapest control, by space and number of lines."""

    answers: dict[Probe, Answer] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    patience: int = MAX_REPEATED_LOOKS
    laps: int = 0
    disturbed: int = 0
    shared: bool = False
    reached_bytes: int = 0
    control_costs: dict[Space, dict[int, float]] = field(default_factory=dict)

    @property
    def restless(self) -> bool:
        """True if others use the core: of too many laps most of what was timed does not agree."""
        return self.disturbed > MAX_DISTURBED_LAP_SHARE * self.laps

    def all(self, probes: Sequence[Probe]) -> Experiment[list[Answer]]:
        """The answers to these probes, in their order."""
        new = [probe for probe in dict.fromkeys(probes) if probe not in self.answers]
        if new:
            found = yield new
            self.answers.update(zip(new, found, strict=True))
            self.laps += len(new)
            plain = [probe for probe in new if len(probe.pattern.segments) <= MAX_READ_SEGMENTS]
            self.reached_bytes = max([self.reached_bytes, *(probe_bytes(probe) for probe in plain)])
            self.disturbed += sum(answer.alone < MIN_UNDISTURBED_SHARE for answer in found)
        answers = [self.answers[probe] for probe in probes]
        self.evidence += [name for answer in answers for name in answer.evidence]
        return answers

    def one(self, probe: Probe) -> Experiment[Answer]:
        """The answer to one probe."""
        (answer,) = yield from self.all([probe])
        return answer

    def cited(self, most: int = 8) -> tuple[str, ...]:
        """Ids of the records whose answers were read since the last call, the latest last; at most `most`."""
        names = tuple(dict.fromkeys(self.evidence))
        self.evidence.clear()
        return names[-most:]


@dataclass(frozen=True, slots=True)
class ChaseLayout:
    """Layout and order of a chase: the memory space, by how much neighbours are shifted within a page, the size of the blocks
    in which places are visited (0: one random cycle), and the stride of a control (0: none). A control visits as many places
    so close together that the level in question cannot matter; its latency is subtracted.

    `page_lines`: each place is a page with so many lines, `control_bytes` apart, and the control visits the same lines page by
    page, not from page to page: caches hold as many of them either way, so that the difference is translation alone.
    `lap_lines`: a lap has so many lines at least, where the nearest cache holds fewer and asks no TLB. `near_lines`: how many
    the caches hold, the nearest first; a lap has either few of them or overflows them, since in between some policies let more
    lines miss in one order than in another. `page_bytes`: places that far apart are each of one
    page, anywhere in which their lines may lie: they spread over more sets of the caches. `numbers`: of the pages that laps
    visit, ascending, where these are not the first ones in a row."""

    space: Space = "global"
    shift_bytes: int = 0
    block_bytes: int = 0
    control_bytes: int = 0
    page_lines: int = 0
    lap_lines: int = 0
    near_lines: tuple[int, ...] = ()
    page_bytes: int = 0
    numbers: tuple[int, ...] = ()

    def lap(self, count: int, stride_bytes: int, seed: int = 0) -> Probe:
        """One lap over `count` places."""
        order = "blocks" if 0 < self.block_bytes < count * stride_bytes else "random"
        block = self.block_bytes if order == "blocks" else 0
        return Probe(Pattern(order, count, stride_bytes, self.shift_bytes, block, seed=seed), self.space)  # type: ignore[arg-type]

    def mean(self, asked: ProbeSession, count: int, stride_bytes: int, seed: int = 0) -> Experiment[float | None]:
        """The mean latency of an access, less that of the control; None where there is no answer."""
        return (yield from self.look(asked, count, stride_bytes, seed))[0]

    def look(self, asked: ProbeSession, count: int, stride_bytes: int, seed: int = 0) -> Experiment[tuple[float | None, bool]]:
        """The mean as of `mean`, and whether most of what was timed agrees."""
        if self.page_lines:
            return (yield from self._look_at_orders(asked, count, stride_bytes, seed))
        probes = [self.lap(count, stride_bytes, seed)]
        if self.control_bytes:
            # one order of the control is enough: a disturbance of it makes the difference less, not more
            probes.append(Probe(Pattern("random", count, self.control_bytes), self.space))
        answers = yield from asked.all(probes)
        values = [answer.value for answer in answers if answer.value is not None]
        calm = answers[0].alone >= MIN_UNDISTURBED_SHARE
        return (None, calm) if len(values) < len(probes) else (values[0] - sum(values[1:]), calm)

    def lines_of_page(self, count: int, stride_bytes: int) -> int:
        """How many lines of each of `count` pages are visited: within 4 KiB, or a quarter of longer pages, or strides."""
        if self.page_lines == 1:
            return 1
        whole = min(stride_bytes, self.page_bytes or stride_bytes)
        room = min(whole, max(MAX_UNIT_BYTES, whole // 4)) // self.control_bytes
        wanted = max(self.page_lines, -(-self.lap_lines // count))
        both = room >= MORE_PAGE_LINES and self._is_clear(MORE_PAGE_LINES * count) and self._is_clear(2 * count)
        if not self.lap_lines and self.near_lines and both:
            first = self.near_lines[0]
            return MORE_PAGE_LINES if MORE_PAGE_LINES * count <= MAX_FILL_SHARE * first else 2
        # of an odd number the last two would follow each other
        return self._fewest_clear(max(2, -(-wanted // 2) * 2), room, count) or max(2, min(room, wanted + 1) // 2 * 2)

    def _fewest_clear(self, least: int, most: int, count: int) -> int:
        """The smallest even number of lines of each of `count` pages, from `least` to `most`, that are clear of the caches; 0:
        none."""
        lines = least
        while lines <= most:
            held = max((held for held in self.near_lines if not self._is_clear_of(held, lines * count)), default=0)
            if not held:
                return lines
            lines = max(lines + 2, int(MIN_OVERFLOW_RATIO * held / count) // 2 * 2)
        return 0

    def has_enough_lines(self, count: int, stride_bytes: int) -> bool:
        """True if laps over `count` pages have as many lines as they should."""
        if self.page_lines == 1:
            return self._is_clear(count)
        return self.lines_of_page(count, stride_bytes) * count >= MIN_LAP_LINES_SHARE * self.lap_lines

    def is_clear(self, count: int, stride_bytes: int) -> bool:
        """True if laps over `count` pages have as many lines as they should, and fit each cache by far or overflow it."""
        return self.has_enough_lines(count, stride_bytes) and self._is_clear(self.lines_of_page(count, stride_bytes) * count)

    def most_in_first(self) -> int:
        """The largest number of single lines that the nearest cache surely holds, however long a line is."""
        share = MAX_SINGLE_FILL_SHARE * min(1.0, self.control_bytes / LONGEST_LINE_BYTES)
        return int(share * self.near_lines[0]) if self.near_lines else 0

    def least_beyond_first(self) -> int:
        """The least number of single lines that overflow the nearest cache whatever it replaces."""
        return math.ceil(MIN_SINGLE_OVERFLOW_RATIO * self.near_lines[0]) + 1 if self.near_lines else 0

    def _is_clear(self, lines: int) -> bool:
        """True if so many lines fit each cache by far, or overflow it."""
        return all(self._is_clear_of(held, lines) for held in self.near_lines)

    def _is_clear_of(self, held: int, lines: int) -> bool:
        # single lines of pages fill the sets of a first cache, which a page's offset chooses, as evenly as lines side by side
        if self.page_lines == 1 and held == self.near_lines[0]:
            return lines <= self.most_in_first() or lines >= MIN_SINGLE_OVERFLOW_RATIO * held
        return lines <= MAX_FILL_SHARE * held or lines >= MIN_OVERFLOW_RATIO * held

    def orders(self, count: int, stride_bytes: int, seed: int = 0) -> tuple[Probe, Probe]:
        """The lines of pages from page to page, and page by page; of single lines the latter lie side by side."""
        lines, apart = self.lines_of_page(count, stride_bytes), self.control_bytes
        if lines == 1:
            together = replace(self, shift_bytes=0, block_bytes=SIDE_BY_SIDE_BYTES).lap(count, apart, seed)
            own = Pattern("random", count, stride_bytes, self.shift_bytes, seed=seed)
            return Probe(self._at_numbers(own), self.space), together
        # by more than they take, so that they are moved within the whole stride
        shift = max(self.shift_bytes, lines * apart + (apart if stride_bytes == self.page_bytes else 0))
        rounds, pages = (
            Probe(self._at_numbers(Pattern(order, count, stride_bytes, shift, apart, lines, seed=seed)), self.space)
            for order in PAGE_ORDERS
        )
        return rounds, pages

    def _at_numbers(self, lap: Pattern) -> Pattern:
        """The same lap over pages of these numbers, where there are any."""
        if not self.numbers:
            return lap
        row = pattern_offsets(Pattern("sequential", lap.count, lap.stride_bytes, lap.shift_bytes))
        moved = (np.array(self.numbers[: lap.count]) - np.arange(lap.count)) * lap.stride_bytes
        return replace(lap, stride_bytes=0, shift_bytes=0, segments=listed((row + moved).tolist()))

    def _look_at_orders(
        self, asked: ProbeSession, count: int, stride_bytes: int, seed: int
    ) -> Experiment[tuple[float | None, bool]]:
        """What an access to another page costs more than one to the same page, and whether most of what was timed agrees."""
        if not self.has_enough_lines(count, stride_bytes) and self.page_lines == 1:
            return None, True
        probes, lines = self.orders(count, stride_bytes, seed), self.lines_of_page(count, stride_bytes)
        return (yield from self.difference(asked, probes, lines))

    def difference(self, asked: ProbeSession, orders: tuple[Probe, Probe], lines: int) -> Experiment[tuple[float | None, bool]]:
        """What an access to another page costs more than one to the same page, from laps from page to page and page by page
        with so many lines of each; and whether most of what was timed agrees."""
        rounds, pages = yield from asked.all(orders)
        calm = min(rounds.alone, pages.alone) >= MIN_UNDISTURBED_SHARE
        if rounds.value is None or pages.value is None:
            return None, calm
        return (rounds.value - pages.value) * self.scale(lines), calm

    @staticmethod
    def scale(lines: int) -> float:
        """What the difference of the two orders is multiplied with: page by page each page's first line is translated too."""
        return lines / (lines - 1) if lines > 1 else 1.0


@dataclass(frozen=True, slots=True)
class HitMissModel:
    """Cost of a hit and of a miss of one level beyond the control, the noise of a lap's mean, and what translation may add to a
    hit where a set is larger than a TLB's reach; all in the same unit."""

    hit: float
    miss: float
    noise: float
    extra: float = 0.0

    def limit(self, count: int) -> float:
        """The mean up to which `count` places all hit: half of one miss a lap, or the noise where that is more."""
        return self.hit + self.extra + max(LAP_NOISE_SIGMAS * self.noise, (self.miss - self.hit) / count / 2)

    def sharp(self, count: int) -> bool:
        """True if a single miss in a lap of `count` places would be detected."""
        return (self.miss - self.hit) / count >= 2 * (LAP_NOISE_SIGMAS * self.noise + self.extra)

    def misses(self, mean: float, count: int) -> float:
        """Misses in a lap of `count` places with that mean."""
        return (mean - self.hit) / (self.miss - self.hit) * count


@dataclass(frozen=True, slots=True)
class LevelProbe:
    """How one level is probed: the answers so far, the chase that reaches it, and what its hits and misses cost. `counting`:
    how places are counted at a stride, up to a number, with guesses, where not as `find_capacity` does itself."""

    asked: ProbeSession
    chase: ChaseLayout
    contrast: HitMissModel
    counting: Callable[[int, int, Sequence[int]], Experiment[CapacityBound]] | None = None

    def mean(self, count: int, stride_bytes: int) -> Experiment[float | None]:
        """The mean latency of `count` places `stride_bytes` apart, less that of the control; None where there is no answer."""
        return (yield from self.chase.mean(self.asked, count, stride_bytes))

    def misses(self, count: int, stride_bytes: int) -> Experiment[float | None]:
        """The share of accesses that miss in a lap of `count` places; None where there is no answer."""
        mean = yield from self.mean(count, stride_bytes)
        return None if mean is None else self.contrast.misses(mean, count) / count

    def is_served_nearer(self, count: int, stride_bytes: int, nearer: float) -> Experiment[bool]:
        """True if the level before, a hit in which costs `nearer`, serves over a quarter of the accesses to `count` places."""
        mean = yield from self.mean(count, stride_bytes)
        return mean is None or mean < self.contrast.hit - MAX_NEARER_HIT_SHARE * (self.contrast.hit - nearer)

    def shifted(self, shift_bytes: int) -> LevelProbe:
        """A probe of the same level with neighbours shifted so far within their pages."""
        return replace(self, chase=replace(self.chase, shift_bytes=shift_bytes))


@dataclass(frozen=True, slots=True)
class CapacityBound:
    """How many places a level holds: `fits` of them, not `over` of them; None: not found within the limits. A lap over `over`
    had `misses`, and up to `hidden` would not have been seen in one over `fits`. `calm`: nothing else used the core."""

    fits: int
    over: int | None
    misses: float = 0.0
    hidden: float = 0.0
    calm: bool = True

    @property
    def sharp(self) -> bool:
        """True if one place too many makes so many misses that fewer cannot have hidden before."""
        return self.over is not None and (self.hidden < 1 or self.misses >= MIN_SEEN_TO_HIDDEN_RATIO * self.hidden)


def all_hit(probe: LevelProbe, count: int, stride_bytes: int, first: int = 0) -> Experiment[bool | None]:
    """True if the level holds all of `count` places, lap after lap; None where there is no answer. `first`: the first order
    tried.

    One random order is enough to say so: disturbances only add, and of more lines than there is room for at least one misses in
    every lap.
    """
    asked, contrast = probe.asked, probe.contrast
    limit = contrast.limit(count)
    slow: list[float] = []
    for seed in range(first, first + (MAX_ORDERS_WITHOUT_PATIENCE if asked.restless and asked.patience <= 0 else MAX_ORDERS)):
        value, calm = yield from probe.chase.look(asked, count, stride_bytes, seed)
        if value is None:
            continue
        if value <= limit:
            return True
        # on a core that others use most windows of a lap may lose a line, but not half of the lap
        if asked.restless and calm and contrast.misses(value, count) >= MIN_CERTAIN_MISS_SHARE * count:
            return False
        # misses are as many each time, disturbances are not; some latencies are too slow for one
        alike = (calm and not asked.restless) and any(
            abs(value - other) <= MAX_ORDER_RELATIVE_DIFFERENCE * (value - contrast.hit) for other in slow
        )
        if alike or (value - contrast.hit > 4 * (limit - contrast.hit) and value > MIN_CERTAIN_MISS_RATIO * contrast.hit):
            return False
        slow.append(value)
    return False if slow else None
