"""Which devices of a model stand apart: robust distances, effect and interval, false discovery rate, and common factors. Pure.

A value is the logarithm of a device's median, turned so that more is slower. Its population is the devices of one model, in the
modes that their values fall into. The spread of a population is the median absolute deviation, without the bias of few values
(Croux & Rousseeuw 1992); that of few devices is shrunk towards the spreads of the model's other quantities (Smyth 2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clmembench.analysis import decision, stats

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of the judgement. `min_effect` is the fraction by which a value must surely be off; the others are what data of
    known truth need: docs/fleet.md."""

    min_effect: float = 0.02
    false_discovery_rate: float = decision.FALSE_DISCOVERY_RATE
    common_rate: float = 0.05  # of false common factors: a hint where to look, of few devices too
    min_spread: float = 0.01  # of a population: closer values are alike for any user
    min_devices: int = 3  # of a population: which of two is slow is not known
    min_devices_alone: int = 100  # whose spread is known by 6%: it needs no other quantities
    devices_of_tails: int = 1000  # whose tails are known by 4%
    min_quantities: int = 10  # of a model, to know how its spreads differ
    min_devices_for_modes: int = 20
    min_mode_devices: int = 5
    min_mode_share: float = 0.1  # of the devices: fewer are outliers of the others
    min_mode_distance: float = 3.0  # of two medians over the sum of the spreads: halves of a uniform distribution have 1.4


DEFAULT = Thresholds()
MAD_BIAS = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}  # Croux & Rousseeuw 1992
SIGMA_PER_MAD = 1.4826  # times the median absolute deviation, of normal numbers
FREEDOM_PER_DEVICE = 0.38  # degrees of freedom with which so many median absolute deviations know a spread
MEDIAN_VARIANCE = math.pi / 2  # of a median, over that of a mean
MAX_OUTLIER_GROUPS = 20  # at an end of a distribution, that are passed over in the search of modes
MAX_PRIOR_FREEDOM = 2.0  # quantities of one model differ in spread by more than a few devices show


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one quantity on the devices of one model, by their numbers: `slowness` as above, `sd` the standard deviation of
    its repetition on the same device with its degrees of freedom, `slack` by how much other programs may have slowed it."""

    quantity: int
    model: int
    devices: Integers
    slowness: Floats
    sd: Floats
    freedom: Floats
    slack: Floats


@dataclass(frozen=True, slots=True)
class Population:
    """Devices that are judged together for one quantity: those of one mode, counted from the fastest; `devices` names them
    where there are several modes. `spread` is a standard deviation that is known with `freedom`."""

    quantity: int
    model: int
    mode: int
    modes: int
    count: int
    devices: Integers
    middle: float
    spread: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Flag:
    """A value that stands apart from the population of that number: `effect` is its slowness over the population's, with a 95%
    interval; negative is faster. `distance` counts spreads, `chance` is the probability of such a distance by chance."""

    population: int
    device: int
    effect: float
    low: float
    high: float
    distance: float
    chance: float

    @property
    def is_slow(self) -> bool:
        """Whether the device is slower than its population, not faster."""
        return self.effect > 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """All populations, the flags, how many values were judged, how many had too few devices of their model, and the probability
    up to which values are flagged."""

    populations: tuple[Population, ...]
    flags: tuple[Flag, ...]
    judged: int
    alone: int
    level: float


@dataclass(frozen=True, slots=True)
class _Far:
    """Values of a population that are far off if their distribution is normal: their effects, and distances in spreads as
    estimated and in the least spread; `tails` is how far the fastest 2.5% are off, over normal values."""

    of: Population
    tails: float
    values: Values
    effect: Floats
    estimated: Floats
    least: Floats


def judge(every: Iterable[Values], limits: Thresholds = DEFAULT) -> Judgement:
    """Judge the values of all quantities and models together. Values come one quantity at a time: those of large populations
    are not held."""
    far: list[_Far] = []
    waiting: dict[int, list[tuple[Population, Values]]] = {}
    judged = alone = 0
    for values in every:
        if len(values.slowness) < limits.min_devices:
            alone += len(values.slowness)
            continue
        judged += len(values.slowness)
        of_value = modes(values.slowness, limits)
        for number, members in enumerate(of_value):
            own = _chosen(values, members)
            n, (middle, spread) = len(members), robust_spread(own.slowness)
            known = FREEDOM_PER_DEVICE * (n - 0.5)
            devices = own.devices if len(of_value) > 1 else own.devices[:0]
            found = Population(values.quantity, values.model, number, len(of_value), n, devices, middle, spread, known)
            if n < limits.min_devices_alone:
                waiting.setdefault(values.model, []).append((found, own))
            else:
                far.append(_far(found, own, limits))
    for of_model in waiting.values():
        prior = _prior([population for population, _ in of_model], limits)
        far += [_far(_shrunk(population, *prior), own, limits) for population, own in of_model]
    chances = _chances(far, limits)
    level = _level(np.concatenate([np.zeros(0), *chances]), judged, limits.false_discovery_rate)
    flags = [
        _flag(number, one, int(at), float(chance[at]))
        for number, (one, chance) in enumerate(zip(far, chances, strict=True))
        for at in np.flatnonzero(chance <= level)
    ]
    populations = tuple(one.of for one in far)
    return Judgement(populations, tuple(flag for flag in flags if _is_surely_off(flag, limits)), judged, alone, level)


def _chosen(values: Values, members: Integers) -> Values:
    of = (values.devices, values.slowness, values.sd, values.freedom, values.slack)
    return Values(values.quantity, values.model, *(array[members] for array in of))  # type: ignore[arg-type]


def _level(chances: Floats, judged: int, rate: float) -> float:
    """As stats.benjamini_hochberg of `judged` values, of which the least probable alone are known: others never pass."""
    ordered = np.sort(chances)
    passing = ordered <= rate * np.arange(1, len(ordered) + 1) / max(1, judged)
    return float(ordered[passing][-1]) if passing.any() else 0.0


def _is_surely_off(flag: Flag, limits: Thresholds) -> bool:
    return min(flag.low, flag.high, key=abs) * math.copysign(1, flag.effect) > math.log1p(limits.min_effect)


def robust_spread(values: Floats) -> tuple[float, float]:
    """The median, and the standard deviation by the median absolute deviation."""
    n, middle = len(values), float(np.median(values))
    bias = MAD_BIAS.get(n, n / (n - 0.8))
    return middle, SIGMA_PER_MAD * bias * float(np.median(np.abs(values - middle)))


def modes(values: Floats, limits: Thresholds = DEFAULT) -> list[Integers]:
    """The members of each mode, from the smallest values on; one mode where no cut separates two clearly."""
    order = np.argsort(values, kind="stable")
    return [order[first:last] for first, last in _cuts(values[order], 0, limits)]


def _cuts(ordered: Floats, start: int, limits: Thresholds) -> list[tuple[int, int]]:
    """The first and last place of each mode of values in order."""
    first, cut, last = _best_cut(ordered, limits)
    if first < cut < last:
        (low, low_spread), (high, high_spread) = robust_spread(ordered[first:cut]), robust_spread(ordered[cut:last])
        apart = max(limits.min_mode_distance * (low_spread + high_spread), 2 * limits.min_spread, math.log1p(limits.min_effect))
        if high - low > apart:
            return [*_cuts(ordered[:cut], start, limits), *_cuts(ordered[cut:], start + cut, limits)]
    return [(start, start + len(ordered))]


def _best_cut(ordered: Floats, limits: Thresholds) -> tuple[int, int, int]:
    """The cut with the largest variance between its sides (Otsu 1979), and the places of the first and last value that it is
    of: a few values that lie on one side alone are outliers, and the cut is that of the others. No cut is the first place."""
    n = len(ordered)
    least = max(limits.min_mode_devices, math.ceil(limits.min_mode_share * n))
    first, last = 0, n
    for _ in range(MAX_OUTLIER_GROUPS):
        m = last - first
        if m < max(2 * least, limits.min_devices_for_modes):
            break
        sums, places = np.cumsum(ordered[first:last]), np.arange(1, m)
        between = (sums[:-1] - sums[-1] * places / m) ** 2 / (places * (m - places))
        cut = first + 1 + int(np.argmax(between))
        if least <= cut - first <= m - least:
            return first, cut, last
        first, last = (cut, last) if cut - first < least else (first, cut)
    return 0, 0, n


def _prior(populations: Sequence[Population], limits: Thresholds) -> tuple[float, float]:
    """The typical variance of the model's populations, and the degrees of freedom with which they keep to it (Smyth 2004)."""
    from scipy.special import digamma, polygamma

    if len(populations) < limits.min_quantities:
        return 0.0, 0.0
    half = np.array([population.freedom for population in populations]) / 2
    spreads = [max(population.spread, limits.min_spread / 20) for population in populations]
    logs = 2 * np.log(spreads) - digamma(half) + np.log(half)
    excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, half)))
    freedom = MAX_PRIOR_FREEDOM if excess <= 0 else min(MAX_PRIOR_FREEDOM, 2 * _inverse_trigamma(excess))
    return math.exp(float(np.mean(logs)) + float(digamma(freedom / 2)) - math.log(freedom / 2)), freedom


def _inverse_trigamma(value: float) -> float:
    """By Newton's method, as in the appendix of Smyth 2004."""
    from scipy.special import polygamma

    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, found))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, found))
        found += step
        if -step / found < 1e-8:
            break
    return found


def _shrunk(of: Population, variance: float, freedom: float) -> Population:
    known = freedom + of.freedom
    spread = math.sqrt((freedom * variance + of.freedom * of.spread**2) / known)
    return replace(of, spread=spread, freedom=known)


def _far(of: Population, values: Values, limits: Thresholds) -> _Far:
    """The values that are further off than the smallest effect, and that so few normal ones are as the rate allows at most."""
    from scipy.special import ndtri

    effect, n = values.slowness - of.middle, len(values.slowness)
    own = np.maximum(0.0, values.sd**2 - float(np.median(values.sd)) ** 2)  # beyond the noise that the spread includes
    factor, tiny = 1 + MEDIAN_VARIANCE / n, np.finfo(np.float64).tiny
    estimated, least = (effect / np.sqrt(sd**2 * factor + own + tiny) for sd in (of.spread, limits.min_spread))
    # slow devices widen one side, so that the fast one tells what healthy ones do
    tails = -float(np.quantile(estimated, 0.025)) / decision.NORMAL_95
    needed = -float(ndtri(limits.false_discovery_rate / 2))
    estimated, least = np.abs(estimated), np.abs(least)
    found = np.flatnonzero((np.minimum(estimated, least) > needed) & (np.abs(effect) > math.log1p(limits.min_effect)))
    return _Far(of, tails, _chosen(values, found), effect[found], estimated[found], least[found])


def _chances(far: Sequence[_Far], limits: Thresholds) -> list[Floats]:
    """The probability of each distance by chance. Two ways to be usual are added: by the estimated spread, of which little is
    known where devices are few, and by the least spread. Tails of a population beyond those of a normal one lower the degrees
    of freedom to those of Student's distribution with such tails, drawn towards the tails of the model's other quantities."""
    from scipy.special import ndtr, stdtr

    of_models: dict[int, list[float]] = {}
    for one in far:
        if one.of.count >= limits.min_devices_alone:
            of_models.setdefault(one.of.model, []).append(one.tails)
    typical = {model: float(np.median(tails)) for model, tails in of_models.items()}
    found = []
    for one in far:
        n, freedom = one.of.count, one.of.freedom
        if n >= limits.min_devices_alone:
            share = n / (n + limits.devices_of_tails)
            tails = share * one.tails + (1 - share) * typical[one.of.model]
            freedom = min(freedom, float(np.interp(-tails, *_tail_table())))
        found.append(np.minimum(1.0, 2 * stdtr(freedom, -one.estimated) + 2 * ndtr(-one.least)))
    return found


@lru_cache(maxsize=1)
def _tail_table() -> tuple[Floats, Floats]:
    """Minus the tails of Student's distribution, and its degrees of freedom."""
    from scipy.special import stdtrit

    freedom = np.geomspace(1, 1000, 60)
    return -stdtrit(freedom, 0.975) / (decision.NORMAL_95 * SIGMA_PER_MAD * stdtrit(freedom, 0.75)), freedom


def _flag(number: int, one: _Far, at: int, chance: float) -> Flag:
    of, values, effect = one.of, one.values, float(one.effect[at])
    variance, known = float(values.sd[at]) ** 2, MEDIAN_VARIANCE * of.spread**2 / of.count
    error = math.sqrt(variance + known)
    freedom = error**4 / (variance**2 / float(values.freedom[at]) + known**2 / of.freedom) if error else 1.0
    reach = stats.student(round(freedom, 1)) * error
    distance = float(min(one.estimated[at], one.least[at]))
    low, high = effect - reach - float(values.slack[at]), effect + reach
    return Flag(number, int(values.devices[at]), effect, low, high, distance, chance)


@dataclass(frozen=True, slots=True)
class CommonFactor:
    """What some devices have in common: of all that have the factor's `level`, `inside` of `inside_all` are among them, and of
    the others `outside` of `outside_all`. Of a number, which has no level, `inside_median` and `outside_median` are medians."""

    factor: str
    level: str
    chance: float
    inside: int
    inside_all: int
    outside: int
    outside_all: int
    inside_median: float = math.nan
    outside_median: float = math.nan


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of a factor that each device of a model has, as its place in `names`; -1 where it is not known."""

    names: tuple[str, ...]
    places: Integers

    @classmethod
    def of(cls, levels: Sequence[str | None]) -> Levels:
        """The levels of devices in their order."""
        names = {name: place for place, name in enumerate(dict.fromkeys(filter(None, levels)))}
        return cls(tuple(names), np.array([names.get(level or "", -1) for level in levels], dtype=np.int64))


def common_factors(
    chosen: Integers, names: Mapping[str, Levels], numbers: Mapping[str, Floats], limits: Thresholds = DEFAULT
) -> list[CommonFactor]:
    """What the chosen devices have in common that the others have not: levels of factors by Fisher's exact test, numbers by
    Mann and Whitney's, together at `common_rate`; the least probable first. A level whose chosen devices all
    have a less probable one is left out. `numbers` have an entry of each device of the model, NaN where it is not known."""
    from scipy.stats import hypergeom, mannwhitneyu

    found: list[CommonFactor] = []
    tests = len(numbers)
    for factor, levels in names.items():
        if len(levels.names) < 2:
            continue
        tests += len(levels.names)
        every, own = levels.places[levels.places >= 0], levels.places[chosen]
        totals = np.bincount(every, minlength=len(levels.names))
        inside = np.bincount(own[own >= 0], minlength=len(levels.names))
        for place in np.flatnonzero(inside > 1):
            here, there = int(inside[place]), int(totals[place])
            chance = float(hypergeom.sf(here - 1, len(every), inside.sum(), there))
            rest = int(inside.sum()) - here, len(every) - there
            found.append(CommonFactor(factor, levels.names[place], chance, here, there, *rest))
    for factor, values in numbers.items():
        is_chosen = np.zeros(len(values), dtype=bool)
        is_chosen[chosen] = True
        known = ~np.isnan(values)
        inner, outer = values[is_chosen & known], values[~is_chosen & known]
        if len(inner) > 1 and len(outer) > 1 and min(inner.min(), outer.min()) < max(inner.max(), outer.max()):
            chance = float(mannwhitneyu(inner, outer).pvalue)
            medians = float(np.median(inner)), float(np.median(outer))
            found.append(CommonFactor(factor, "", chance, len(inner), len(inner), 0, len(outer), *medians))
    level = _level(np.array([one.chance for one in found]), tests, limits.common_rate)
    explained = np.zeros(0, dtype=np.int64)
    kept = []
    for one in sorted((one for one in found if one.chance <= level), key=lambda one: one.chance):
        if one.level:
            levels = names[one.factor]
            inner = chosen[levels.places[chosen] == levels.names.index(one.level)]
            if len(np.setdiff1d(inner, explained)) < 2:  # the rack of a host that is named already
                continue
            explained = np.union1d(explained, inner)
        kept.append(one)
    return kept
