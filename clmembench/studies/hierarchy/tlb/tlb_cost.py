"""What a miss of a level of address translation costs, and how misses grow beyond the pages that fit. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.page_probe import MAX_SEEDS_AT_KNEE, PageCost, PageMean, PageProbe
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, CapacityBound
from clmembench.studies.hierarchy.tlb.tlb_geometry import MAX_PAGES
from clmembench.studies.hierarchy.tlb.tlb_ramp import RampFit, RampPoint, fit_ramp_of_sets

# Thresholds and limits, each with its reason
PENALTY_QUARTERS = (8, 10, 12, 16, 24, 32)  # quarters of the pages that fit, at which the cost of a miss is read
NEAR_PENALTY_QUARTERS = (5, 6, 7)  # the same where memory has no room for more
MAX_RISE_FROM_TWICE = 1.4  # times the cost at twice the pages that fit, where of drawn victims a fifth still hits
PENALTY_NOISE_SHARE = 0.008  # of a penalty: the noise that is wanted for it
MAX_PENALTY_NOISE_SHARE = 0.012  # of a penalty: noise from which laps in more orders are asked,
MAX_SEEDS_OF_COST, MAX_COSTS_OF_MORE_SEEDS = 96, 3  # in so many, over so many numbers of pages,
MIN_MISSING_ALL_RATIO = 4  # if they are so many times those that fit: of drawn victims one in fifty hits there
MAX_PENALTY_RELATIVE_RISE = 0.015  # of penalties that agree: with more pages they do not rise
RANGE_SIGMAS = 2.5  # of the noise of each, between the least and the most of a few costs
KNEE_COUNTS = 3  # numbers of pages just beyond those that fit
RAMP_COUNTS = (1, 2, 3, 4, 6, 8)  # pages beyond those that fit, at which misses are counted
RAMP_SIXTEENTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # of those that fit: as many pages more
RAMP_NOISE_SHARE = 0.015  # of the cost of a miss: the noise that is wanted there
MAX_SEEDS_OF_RAMP = 3
BOUND_SLACK_DIVISOR = 64  # of the pages that fit, by which the entries may be more


def miss_penalties(pages: PageProbe, stride: int, fitting: int, floor: float) -> Experiment[tuple[list[float], float]]:
    """Costs of a miss at several times as many pages as fit, with their noise: at those numbers next to each other that agree,
    or at all. Where victims are drawn at random, some pages still hit at few times as many; with more the next TLB misses."""
    costs: dict[int, PageMean] = {}
    most = min(pages.field.most_bytes // stride, MAX_PAGES)
    near = NEAR_PENALTY_QUARTERS if fitting * PENALTY_QUARTERS[1] // 4 > most else ()
    for quarters in (*near, *PENALTY_QUARTERS):
        count = fitting * quarters // 4
        if count > most:
            break
        rough = yield from pages.mean(count, stride)
        wanted = PENALTY_NOISE_SHARE * max(0.0, (rough or 0.0) - floor)
        found = yield from pages.precise(count, stride, wanted, MAX_SEEDS_AT_KNEE)
        if found is None and not pages.chase.has_enough_lines(count, stride):
            continue  # a cache may hold some of so many lines
        if found is None:
            break
        costs[count] = PageMean(found.value - floor, found.noise)
    told = (_of_the_most if near else _of_one_level)(list(costs.values()))
    values, noise = costs_that_agree(told)
    agreeing = [count for count, cost in costs.items() if cost.value in values]
    noisy = penalties_agree(values, noise) and noise > MAX_PENALTY_NOISE_SHARE * max(values)
    if not noisy or agreeing[-1] < MIN_MISSING_ALL_RATIO * fitting:
        return values, noise
    return (yield from _in_more_orders(pages, stride, agreeing[-MAX_COSTS_OF_MORE_SEEDS:], floor, max(values)))


def _in_more_orders(
    pages: PageProbe, stride: int, counts: Sequence[int], floor: float, about: float
) -> Experiment[tuple[list[float], float]]:
    """Costs of a miss, which are about that much, at these numbers of pages, with their noise, by as many orders of laps as
    bring the noise of their mean down."""
    wanted = PENALTY_NOISE_SHARE * math.sqrt(len(counts)) * about
    costs: list[PageMean] = []
    for count in counts:
        found = yield from pages.precise(count, stride, wanted, MAX_SEEDS_OF_COST)
        if found is not None:
            costs.append(PageMean(found.value - floor, found.noise))
    return costs_that_agree(costs)


def _of_one_level(costs: Sequence[PageMean]) -> Sequence[PageMean]:
    """The costs without those that are surely more than misses of this level alone, by the first, at twice as many pages as
    fit: a level behind misses too."""
    if not costs:
        return costs
    first = costs[0]
    most = MAX_RISE_FROM_TWICE * (first.value + LAP_NOISE_SIGMAS * first.noise)
    return [one for one in costs if one.value - LAP_NOISE_SIGMAS * one.noise <= most]


def _of_the_most(costs: Sequence[PageMean]) -> Sequence[PageMean]:
    """The costs, at up to twice as many pages as fit, without those that are surely less than the last one: no level behind
    misses there, but some pages still hit where there are fewer, as under NRU."""
    if not costs:
        return costs
    least = costs[-1].value * (1 - MAX_PENALTY_RELATIVE_RISE) - LAP_NOISE_SIGMAS * costs[-1].noise
    return [one for one in costs if one.value + LAP_NOISE_SIGMAS * one.noise >= least]


def knee_penalties(pages: PageProbe, stride: int, over: int, floor: float) -> Experiment[tuple[list[float], float]]:
    """Costs of a miss at the first numbers of pages that do not fit."""
    costs: list[PageMean] = []
    for count in range(over, over + KNEE_COUNTS):
        found = yield from pages.precise(count, stride, 0.0)
        if found is not None:
            costs.append(PageMean(found.value - floor, found.noise))
    return costs_that_agree(costs)


def costs_that_agree(costs: Sequence[PageMean]) -> tuple[list[float], float]:
    """Those costs next to each other that agree, or all, and the noise of their mean."""
    sure = min((one.noise for one in costs), default=0.0)
    clear = [one for one in costs if one.noise <= max(2 * sure, PENALTY_NOISE_SHARE * one.value)]
    left = clear if len(clear) > 1 else costs
    runs = [left[i : j + 1] for i in range(len(left)) for j in range(i + 1, len(left))]
    alike = [run for run in runs if _are_alike(run)]
    best = min(alike, key=_noise_of_mean) if alike else left
    return [one.value for one in best], _noise_of_mean(best)


def _are_alike(run: Sequence[PageMean]) -> bool:
    """True if costs, each with its noise, differ by no more than noise, and grow no more than a few hits would make them."""
    values = [one.value for one in run]
    return max(values) - min(values) <= max(MAX_PENALTY_RELATIVE_RISE * max(values), 2 * max(one.noise for one in run))


def penalties_agree(penalties: Sequence[float], noise: float) -> bool:
    """True if costs at several times as many pages, with that noise of their mean, are the cost of a miss, and not of some
    misses."""
    if len(penalties) < 2:
        return False
    slack = max(2 * MAX_PENALTY_RELATIVE_RISE * max(penalties), range_of_noise(len(penalties), noise))
    return max(penalties) - min(penalties) <= slack


def range_of_noise(count: int, noise: float) -> float:
    """By how much so many costs differ by noise, which is that of their mean: each has more."""
    return max(LAP_NOISE_SIGMAS, RANGE_SIGMAS * math.sqrt(count)) * noise


def _noise_of_mean(run: Sequence[PageMean]) -> float:
    return math.sqrt(sum(one.noise**2 for one in run)) / len(run) if run else math.inf


def measure_ramp(
    pages: PageProbe, stride: int, cost: PageCost, held: CapacityBound
) -> Experiment[tuple[RampFit | None, list[PageMean]]]:
    """The sets that explain how misses grow beyond the pages that fit, and the cost of a miss where these overflow them all."""
    most = min(pages.field.most_bytes // stride, MAX_PAGES)
    more = sorted({*RAMP_COUNTS, *(held.fits * n // 16 for n in RAMP_SIXTEENTHS)})
    points = []
    for count in (held.fits, *(held.fits + n for n in more if n > 0)):
        if count > most:
            break
        mean = yield from pages.precise(count, stride, RAMP_NOISE_SHARE * (cost.miss - cost.hit), MAX_SEEDS_OF_RAMP)
        if mean is None and not pages.chase.has_enough_lines(count, stride):
            continue
        if mean is None:
            return None, []
        points.append(RampPoint(count, mean.value, mean.noise))
    least = held.fits - int(held.hidden / 2)
    # a rise that was noise ended the search a little early
    most_entries = (held.over - 1 if held.over else held.fits) + max(1, held.fits // BOUND_SLACK_DIVISOR)
    fit = fit_ramp_of_sets(points, cost.hit, cost.miss - cost.hit, least, most_entries)
    first = fit.sets.period if fit is not None and fit.sets is not None and fit.sets.misses_all else math.inf
    return fit, [PageMean(point.value - cost.hit, point.noise) for point in points if point.count >= first]
