"""How pages are counted: the two orders in which their lines are visited, and the noise of the difference. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import listed
from clmembench.studies.hierarchy.probes.probing import (
    PAGE_ORDERS,
    SIDE_BY_SIDE_BYTES,
    CapacityBound,
    ChaseLayout,
    HitMissModel,
    LevelProbe,
    ProbeSession,
)

# Thresholds and limits, each with its reason
MAX_SEEDS = 8  # orders of one lap whose mean is taken where the noise of one is too large
MAX_SEEDS_AT_KNEE = 12  # orders of the laps on which a count rests: those of what fits and of one page more
MAX_SEEDS_OF_SEARCH = 4  # orders of the other laps of a search
MAX_DISTURBED_SIGMAS = 6.0  # a lap further off the median of others was disturbed, in either order
RISE_SIGMAS, FIT_SIGMAS = 4.0, 3.0  # of a mean's noise: a rise beyond is no noise; what a mean surely stays below
MORE_SEEDS = 3  # orders more, where those so far are not alike
ALIKE_NOISE_RATIO = 2.0  # times the noise that a mean should have: with more some of its laps were disturbed
MAX_RECOUNTS = 3  # times that the ends of a search are looked at again
MIN_NOISE_OF_OTHER_LINES = 0.004  # relative: laps over other lines differ by more than laps over the same ones in two orders
MIN_FASTEST, MAX_FASTEST_APART = 2, 0.02  # laps that have to agree, relative, where the fastest count
ROUGH_APART = 1 / 48  # relative, of the ends of a search for many pages
HIT_SLACK_SHARE = 0.01  # of what an access costs before a level is asked, by which that may change with the number of pages


@dataclass(frozen=True, slots=True)
class PageCountLimits:
    """Where pages may be counted: the largest working set, and the relative noise of a lap."""

    most_bytes: int
    noise: float


@dataclass(frozen=True, slots=True)
class PageMean:
    """What an access to another page costs more than one to the same page, and the standard deviation of that."""

    value: float
    noise: float

    def rises(self, floor: float, slack: float = 0.0) -> bool:
        """True if it is surely more than `floor`."""
        return self.value - RISE_SIGMAS * self.noise > floor + slack

    def stays(self, limit: float) -> bool:
        """True if it is surely less than a limit."""
        return self.value + FIT_SIGMAS * self.noise < limit


@dataclass(frozen=True, slots=True)
class PageProbe:
    """How pages are counted: the answers so far, the chase over lines of pages, and where pages may be counted."""

    asked: ProbeSession
    chase: ChaseLayout
    field: PageCountLimits

    def middle(self, low: int, high: int, stride_bytes: int) -> int | None:
        """A number of pages between two others, the middle unless a cache may hold some of so many single lines; None: there is
        none."""
        middle = (low + high) // 2
        if self.chase.page_lines != 1:
            return middle
        tried = (*range(middle, low, -1), *range(middle + 1, high))
        return next((count for count in tried if self.chase.has_enough_lines(count, stride_bytes)), None)

    def apart(self, count: int) -> int:
        """How close the ends of a search come: single lines beyond the nearest cache are too noisy for single pages."""
        is_rough = self.chase.page_lines == 1 and count >= self.chase.least_beyond_first()
        return max(1, int(ROUGH_APART * count)) if is_rough else 1

    def until(
        self, count: int, stride_bytes: int, is_settled: Callable[[PageMean], bool], most: int = MAX_SEEDS, least: int = 1
    ) -> Experiment[PageMean | None]:
        """The mean of `count` pages `stride_bytes` apart over as many orders as settle it, from `least` to `most`; None: no
        answer."""
        if self.chase.page_lines == 1:
            return (yield from self._fastest_until(count, stride_bytes, is_settled, most))
        values: list[float] = []
        mean = None
        for seed in range(most + MORE_SEEDS):
            value = yield from self.chase.mean(self.asked, count, stride_bytes, seed)
            if value is None:
                if values or seed > 1:
                    break
                continue  # a busy host may spoil one
            values.append(value)
            one = self.noise(count, stride_bytes)
            mean = mean_of_orders(values, one)
            alike = mean.noise <= ALIKE_NOISE_RATIO * one / math.sqrt(len(values)) and (
                len(values) != 2 or are_alike(values, one / 2)
            )
            if alike and ((len(values) >= least and is_settled(mean)) or len(values) >= most):
                break
        return mean

    def _fastest_until(
        self, count: int, stride_bytes: int, is_settled: Callable[[PageMean], bool], most: int
    ) -> Experiment[PageMean | None]:
        """As `until`, of single lines: the fastest lap less the fastest over lines side by side. Laps differ by what disturbs
        them, which only adds, so that the two fastest have to agree."""
        if not self.chase.has_enough_lines(count, stride_bytes):
            return None
        laps: list[list[float]] = [[], []]
        mean = None
        for seed in range(most + MORE_SEEDS):
            answers = yield from self.asked.all(self.chase.orders(count, stride_bytes, seed))
            for own, answer in zip(laps, answers, strict=True):
                if answer.value is not None:
                    own.append(answer.value)
            if min(len(own) for own in laps) < MIN_FASTEST:
                continue
            fastest = [sorted(own)[:MIN_FASTEST] for own in laps]
            apart = max(own[-1] / own[0] - 1 for own in fastest)
            noise = max(self.noise(count, stride_bytes), apart * fastest[0][0] / 2)
            mean = PageMean(fastest[0][0] - fastest[1][0], noise / math.sqrt(MIN_FASTEST))
            if apart <= MAX_FASTEST_APART and (is_settled(mean) or len(laps[0]) >= MORE_SEEDS):
                break
        return mean

    def mean(self, count: int, stride_bytes: int) -> Experiment[float | None]:
        """The mean of one order."""
        return (yield from self.chase.mean(self.asked, count, stride_bytes))

    def precise(
        self, count: int, stride_bytes: int, wanted: float, most: int = MAX_SEEDS, least: int = 1
    ) -> Experiment[PageMean | None]:
        """The mean over as many orders as bring its noise to `wanted`, at least so many: a single one may be disturbed."""
        return (yield from self.until(count, stride_bytes, _NoiseBelow(wanted), most, least))

    def noise(self, count: int, stride_bytes: int) -> float:
        """The noise of the difference between laps in the two orders, which were asked before."""
        found = [self.asked.answers.get(probe) for probe in self.chase.orders(count, stride_bytes)]
        latency = max((a.value for a in found if a is not None and a.value is not None), default=0.0)
        lines = self.chase.lines_of_page(count, stride_bytes)
        if lines == 1:
            latency = min((a.value for a in found if a is not None and a.value is not None), default=0.0)
            return math.sqrt(2) * max(self.field.noise, MIN_NOISE_OF_OTHER_LINES) * latency
        return math.sqrt(2) * self.field.noise * latency * self.chase.scale(lines)

    def level(self, hit: float, miss: float, count: int, stride_bytes: int) -> LevelProbe:
        """The probe of a TLB with these costs of a hit and a miss, at the noise of `count` pages."""
        return LevelProbe(self.asked, self.chase, HitMissModel(hit, miss, self.noise(count, stride_bytes)))


@dataclass(frozen=True, slots=True)
class _NoiseBelow:
    """Whether a mean's noise is small enough."""

    wanted: float

    def __call__(self, mean: PageMean) -> bool:
        return mean.noise <= self.wanted


def mean_of_orders(values: Sequence[float], noise: float) -> PageMean:
    """The mean of laps in several orders without those that were disturbed: of the most that are alike, where these are more
    than half. Their noise is that of one order, `noise`, or what they show themselves where that is more."""
    near = [[v for v in values if abs(v - one) <= MAX_DISTURBED_SIGMAS * noise] for one in values]
    calm = max(near, key=len)
    if 2 * len(calm) <= len(values):
        calm = list(values)
    shown = statistics.stdev(calm) if len(calm) > 3 or (len(calm) > 1 and not are_alike(calm, noise)) else 0.0
    return PageMean(sum(calm) / len(calm), max(noise, shown) / math.sqrt(len(calm)))


def are_alike(values: Sequence[float], noise: float) -> bool:
    """True if values differ by no more than the noise of one."""
    return max(values) - min(values) <= 2 * MAX_DISTURBED_SIGMAS * noise


@dataclass(frozen=True, slots=True)
class PageCost:
    """What an access costs where the level in question hits (`hit`), and where it misses."""

    hit: float
    miss: float

    @property
    def slack(self) -> float:
        """By how much the former may change with the number of pages."""
        return HIT_SLACK_SHARE * self.hit

    def misses(self, mean: float, count: int) -> float:
        """How many accesses of a lap over `count` pages miss."""
        return count * max(0.0, mean - self.hit) / (self.miss - self.hit)


def count_pages(pages: PageProbe, stride_bytes: int, cost: PageCost, fits: int, over: int) -> Experiment[CapacityBound | None]:
    """How many pages fit, between `fits` and `over`, by bisection; the two counts on which that rests are then measured over so
    many orders that few misses can hide, and the search goes on from there where they say otherwise."""
    low, high = fits, over
    for _ in range(MAX_RECOUNTS):
        while high - low > pages.apart(low):
            count = pages.middle(low, high, stride_bytes)
            if count is None:
                break
            mean = yield from look_at(pages, stride_bytes, cost, count, MAX_SEEDS_OF_SEARCH)
            if mean is None:
                return None
            low, high = (low, count) if mean.rises(cost.hit, cost.slack) else (count, high)
        most = min(pages.field.most_bytes // stride_bytes, 2 * over)
        last = yield from look_at(pages, stride_bytes, cost, low, MAX_SEEDS_AT_KNEE) if low else _nothing()
        first = yield from look_at(pages, stride_bytes, cost, high, MAX_SEEDS_AT_KNEE)
        if first is None or (last is None and low):
            return None
        if last is not None and last.rises(cost.hit, cost.slack):
            low, high = max(0, low - max(2, low // 8)), low
        elif not first.rises(cost.hit, cost.slack) and high < most:
            low, high = high, min(most, high + max(2, high // 8))
        else:
            break
    assert first is not None
    hidden = 0.0 if last is None else cost.misses(last.value + FIT_SIGMAS * last.noise + cost.slack, low)
    return CapacityBound(low, high, cost.misses(first.value, high), hidden)


def look_at(pages: PageProbe, stride_bytes: int, cost: PageCost, count: int, most: int) -> Experiment[PageMean | None]:
    """The mean of so many pages over as many orders as tell whether all hit: up to half of a single miss."""
    single = cost.hit + (cost.miss - cost.hit) / count / 2

    def is_settled(mean: PageMean) -> bool:
        """Of lines that surely take less than hits, those page by page were disturbed."""
        return mean.rises(cost.hit, cost.slack) or (mean.stays(single) and not mean.stays(cost.hit - cost.slack))

    least = 2 if most == MAX_SEEDS_AT_KNEE else 1  # a single one may be disturbed
    return (yield from pages.until(count, stride_bytes, is_settled, most, least))


def _nothing() -> Experiment[PageMean | None]:
    """The mean of no page."""
    yield from ()
    return None


def count_pages_near(
    pages: PageProbe, cost: PageCost, stride_bytes: int, most: int, guesses: Sequence[int]
) -> Experiment[CapacityBound]:
    """How many pages fit, `most` at most. Each of `guesses`, and one page more, is tried first, then twice as many each
    time."""
    low, over = 0, most + 1
    last = min(most, pages.field.most_bytes // stride_bytes)
    tries = [count for guess in guesses for count in (guess, guess + 1)]
    while over > last:
        tries = [count for count in tries if low < count < over and count <= last]
        count = tries.pop(0) if tries else min(last, max(2, 2 * low))
        if pages.chase.page_lines == 1:
            count = next((n for n in range(count, last + 1) if pages.chase.has_enough_lines(n, stride_bytes)), low)
        if count <= low or not pages.chase.has_enough_lines(count, stride_bytes):
            return CapacityBound(low, None)  # the nearest cache would hold them
        mean = yield from look_at(pages, stride_bytes, cost, count, MAX_SEEDS_OF_SEARCH)
        if mean is None:
            return CapacityBound(low, None)
        if mean.rises(cost.hit, cost.slack):
            over = count
        else:
            low = count
    while tries := [count for count in tries if low < count < over]:
        count = tries.pop(0)
        mean = yield from look_at(pages, stride_bytes, cost, count, MAX_SEEDS_OF_SEARCH)
        if mean is None:
            break
        low, over = (low, count) if mean.rises(cost.hit, cost.slack) else (count, over)
    found = yield from count_pages(pages, stride_bytes, cost, low, over)
    return found or CapacityBound(low, None)


def cost_of_pages(
    pages: PageProbe, page_bytes: int, count: int, choose: Callable[[np.random.Generator], Sequence[int]], seed: int
) -> Experiment[float | None]:
    """Mean latency that an access to another of `count` pages adds, whose numbers `choose` says; None without an answer.
    `seed`: of these, of where lines lie in pages, and of the order."""
    chase, random = pages.chase, np.random.default_rng([seed, count])
    lines = chase.lines_of_page(count, page_bytes)
    first = random.integers(0, max(1, page_bytes // chase.control_bytes - lines), count) * chase.control_bytes
    places = listed((np.sort(choose(random)) * page_bytes + first).tolist())
    if lines == 1:
        together = replace(chase, shift_bytes=0, block_bytes=SIDE_BY_SIDE_BYTES).lap(count, chase.control_bytes, seed)
        orders = Probe(Pattern("random", count, segments=places, seed=seed), chase.space), together
    else:
        rounds, by_page = (
            Probe(Pattern(order, count, 0, 0, chase.control_bytes, lines, places, seed), chase.space) for order in PAGE_ORDERS
        )
        orders = rounds, by_page
    return (yield from chase.difference(pages.asked, orders, lines))[0]
