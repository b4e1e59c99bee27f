"""Which replacement policy explains the latencies of laps repeated for ever, where single accesses were not seen. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Array, Finding
from clmembench.studies.hierarchy.replacement.lap_likelihood import AccessCosts, LapFit, fit_laps
from clmembench.studies.hierarchy.replacement.policies import MIN_LOG_LIKELIHOOD_MARGIN, policy_finding
from clmembench.studies.hierarchy.replacement.policy_forms import (
    Lap,
    PolicyForm,
    accesses_let_through,
    is_age_based,
    known_forms,
)

# Thresholds and limits, each with its reason
LAP_DEVIATION = 0.01  # of what a miss adds: what single laps differ by besides noise, as draws of victims and queues
HIT_DEVIATION = 0.01  # of what a miss adds, by which a hit in a lap over one set may differ from one over all sets
MISS_DEVIATION = 0.03  # of what a miss adds, by which a miss may differ from what was taken for it
MIN_CONTRAST_SHARE = 0.02  # of what a miss was taken to add, that it adds at least
UNKNOWN_MISS_DEVIATION = 0.5  # of that, where it was read from a lap in which some lines may hit: half of it to nearly twice
MAX_UNEVEN_GAIN = 30.0  # of log-likelihood, that unevenly drawn victims are ahead of evenly drawn ones, by laps
MIN_SURE_LAPS = 3  # laps that a policy has to explain, which miss and hardly depend on what the set held before
OTHER_STARTS_SHARE = 0.2  # of the difference between starts that were simulated, by which others may differ from the closest
MET_SIGMAS, WIDE_SIGMAS = 2.0, 12.0  # of a lap's noise: how close to a start it is to be, and how far starts are apart
SURE_SPREAD = 0.03  # of accesses, by which they depend on that at most
RATE_METHOD = "latencies of {} laps against six policies simulated"
UNEXPLAINED = "no policy that is known explains the miss rates of these laps"
MISSING_LAPS = "missing are more laps in random order over ways + 2 lines of one set, or each access's latency"
NONE_OF_SIX = "none of LRU, FIFO, tree-PLRU, NRU, random, way-weighted"
MAX_NAMED = 4  # of policies that behave alike, that are named
DRAWN = frozenset({"random", "way-weighted"})
MISS_CYCLES = frozenset({"LRU", "FIFO", "tree-PLRU", "NRU"})  # every access of a lap over more lines than ways, each once
DRAWN_ALIKE = "one way drawn twice or three times as often changes the miss rate of no lap by more than 1.5%"
ALIKE_WITH_TWO_WAYS = frozenset({"LRU", "tree-PLRU", "NRU"})

RateObservation = tuple[Sequence[int], float, float, float]
Candidate = tuple[PolicyForm | None, PolicyForm]  # the form of a nearer cache's policy, and of this one's


@dataclass(frozen=True, slots=True)
class MeasuredLap:
    """A lap's lines by number, below 0 where they are of other sets, which this level holds; the mean latency of its accesses
    and that mean's standard deviation."""

    lap: Lap
    latency: float
    deviation: float


@dataclass(frozen=True, slots=True)
class PathToSet:
    """The ways of the set that is asked with the forms that its policy may have, what its accesses cost, and the ways of the
    one set of a nearer cache that all its lines pass with the forms of its policy (none: no cache is nearer)."""

    ways: int
    forms: tuple[PolicyForm, ...]
    costs: AccessCosts
    nearer_ways: int = 0
    nearer: tuple[PolicyForm, ...] = ()

    def candidates(self) -> list[Candidate]:
        """The forms of the nearer cache's policy and of this one's, all pairs."""
        return [(before, own) for before in self.nearer or (None,) for own in self.forms]

    def shares(self, candidate: Candidate, lap: Lap) -> tuple[tuple[float, float, float], ...]:
        """The shares of a lap's accesses that the nearer cache serves, that hit here and that miss; several where they depend
        on what the sets held before."""
        before, own = candidate
        streams: tuple[tuple[Lap, int], ...] = ((lap, len(lap)),)
        if before is not None and before.maker is not None:
            streams = accesses_let_through(before.maker, self.nearer_ways, lap)
        found = []
        for seen, count in streams:
            members = tuple(line for line in seen if line >= 0)
            for rate in own.miss_rates(self.ways, members) if members else (0.0,):
                missed = rate * len(members) / count
                found.append((1 - len(seen) / count, len(seen) / count - missed, missed))
        return tuple(dict.fromkeys(found))


def level_costs(nearer: float, hit: float, miss: float, miss_is_known: bool = True) -> AccessCosts:
    """Costs of accesses to a level with how well they are known; `nearer`: of an access that a nearer cache serves, 0: none."""
    contrast = miss - hit
    miss_deviation = MISS_DEVIATION if miss_is_known else UNKNOWN_MISS_DEVIATION
    deviations = (HIT_DEVIATION * nearer, HIT_DEVIATION * contrast, miss_deviation * contrast)
    return AccessCosts((nearer, hit, miss), deviations, miss_is_known)


def fit_candidates(path: PathToSet, laps: Sequence[MeasuredLap]) -> list[LapFit]:
    """How well each of the path's candidates explains the laps, in their order. Unevenly drawn victims are simulated only where
    evenly drawn ones are not far from the likeliest."""
    candidates = path.candidates()
    found = {candidate: _fit_candidate(path, candidate, laps) for candidate in candidates if candidate[1].ratio == 1}
    best = max(found, key=lambda candidate: found[candidate].loglik)
    for candidate in candidates:
        if candidate not in found:
            even = found[candidate[0], PolicyForm("random")]
            far = even.loglik < found[best].loglik - MAX_UNEVEN_GAIN
            found[candidate] = LapFit(even.loglik, False) if far else _fit_candidate(path, candidate, laps)
    return [replace(found[one], possible=_is_possible(path, one, best, laps)) for one in candidates]


def _fit_candidate(path: PathToSet, candidate: Candidate, laps: Sequence[MeasuredLap]) -> LapFit:
    """How well a candidate explains the laps."""
    latencies, deviations = np.array([lap.latency for lap in laps]), np.array([lap.deviation for lap in laps])
    ranges, means = [np.array(path.shares(candidate, lap.lap)) for lap in laps], np.asarray(path.costs.means)
    # of what a lap may come to, by what the sets held before, that which it is closest to
    shares = np.array([one[np.argmin(np.abs(one @ means - lap.latency))] for one, lap in zip(ranges, laps, strict=True)])
    starts = np.array([np.ptp(one[:, 2]) for one in ranges])
    spread = np.hypot(LAP_DEVIATION, OTHER_STARTS_SHARE * starts)
    chosen = float(np.log([len(one) for one in ranges]).sum())
    sigmas = np.hypot(deviations, spread * path.costs.contrast)
    # where starts differ much, one of the few that were simulated is met by chance in one lap perhaps, not in several
    narrow = np.hypot(deviations, LAP_DEVIATION * path.costs.contrast)
    met = (np.abs(shares @ means - latencies) <= MET_SIGMAS * narrow) & (starts * path.costs.contrast > WIDE_SIGMAS * narrow)
    sure = int((((starts <= SURE_SPREAD) | met) & (shares[:, 2] > SURE_SPREAD)).sum()) >= MIN_SURE_LAPS
    found = fit_laps(shares, latencies, sigmas, path.costs)
    if not path.costs.miss_is_known:  # laps differ by as much of what a miss costs as that is found to be
        sigmas = np.hypot(deviations, spread * max(found.contrast, MIN_CONTRAST_SHARE * path.costs.contrast))
        found = fit_laps(shares, latencies, sigmas, path.costs)
    return replace(found, loglik=found.loglik - chosen, explains=found.explains and sure)


def _is_possible(path: PathToSet, candidate: Candidate, best: Candidate, laps: Sequence[MeasuredLap]) -> bool:
    """True if only laps speak against a candidate, compared with the best, that depend on what the sets held at first."""
    if is_age_based(candidate[1].name) or candidate[1].maker is None:
        return False
    sure = [lap for lap in laps if np.ptp(np.array(path.shares(candidate, lap.lap))[:, 2]) <= SURE_SPREAD]
    if len(sure) == len(laps):
        return False
    behind = _fit_candidate(path, best, sure).loglik - _fit_candidate(path, candidate, sure).loglik if sure else 0.0
    others = [lap for lap in laps if lap not in sure]
    behind += sum(_loglik_of_some_start(path, best, lap) - _loglik_of_some_start(path, candidate, lap) for lap in others)
    return behind < MIN_LOG_LIKELIHOOD_MARGIN


def _loglik_of_some_start(path: PathToSet, candidate: Candidate, lap: MeasuredLap) -> float:
    """The log-likelihood of a lap that depends on what the set held: of the closest start that was simulated, or of any latency
    between theirs alike, as of starts that were not. 0 at most: a candidate that says each lap's latency is the likelier the
    wider the other's range."""
    expected = np.array(path.shares(candidate, lap.lap)) @ np.asarray(path.costs.means)
    sigma = math.hypot(lap.deviation, LAP_DEVIATION * path.costs.contrast)
    closest = -0.5 * float(np.abs(expected - lap.latency).min() / sigma) ** 2 - math.log(len(expected))
    low, high = float(expected.min()), float(expected.max())
    beyond = max(0.0, low - lap.latency, lap.latency - high) / (sigma + OTHER_STARTS_SHARE * (high - low))
    between = -math.log(max(1.0, (high - low) / (sigma * math.sqrt(2 * math.pi)))) - 0.5 * beyond**2
    return max(closest, between)


def rank_policies(path: PathToSet, fits: Sequence[LapFit]) -> dict[str, LapFit]:
    """How well each policy explains the laps, in the likeliest of its forms; the likeliest first."""
    found: dict[str, LapFit] = {}
    for (_, own), fit in zip(path.candidates(), fits, strict=True):
        known = found.get(own.name, fit)
        possible = fit.possible or known.possible
        found[own.name] = replace(fit if fit.loglik > known.loglik else known, possible=possible)
    return dict(sorted(found.items(), key=lambda item: -item[1].loglik))


def likely_names(ranked: dict[str, LapFit]) -> list[str]:
    """The policies within the margin of the likeliest, that one first, and those that only laps speak against which depend on
    what the sets held at first; none where the likeliest does not explain the laps."""
    best = next(iter(ranked.values()))
    if not best.explains:
        return []
    least = best.loglik - MIN_LOG_LIKELIHOOD_MARGIN
    return [name for name, fit in ranked.items() if fit.loglik > least or fit.possible]


def policy_of_ranking(ranked: dict[str, LapFit], count: int, ways: int, evidence: Sequence[str]) -> Finding:
    """The policy that explains so many laps by a margin over every other; undetermined with what is missing otherwise.

    An age-based one that no lap tells from one of the six does not compete with it: it is the less usual of the two.
    """
    method = RATE_METHOD.format(count)
    likely = likely_names(ranked)
    close = [name for name in likely if not is_age_based(name)] or likely
    if likely and is_age_based(likely[0]) and ranked[close[0]].loglik < ranked[likely[0]].loglik - MIN_LOG_LIKELIHOOD_MARGIN:
        close = likely  # one of the six is possible, but it is not the likeliest
    if not close:
        return policy_finding(None, method, UNEXPLAINED, evidence)
    if ways == 2 and "LRU" in close and set(close) <= ALIKE_WITH_TWO_WAYS:
        return policy_finding("LRU", f"{method}; of two ways tree-PLRU and NRU give up the same line", "", evidence)
    if len(close) > 1:
        reason = f"{' or '.join(close[:MAX_NAMED])} explain the miss rates equally well; {_missing(close)}"
        if is_age_based(close[0]):
            reason = f"{NONE_OF_SIX}: behaves most like {' or '.join(close[:MAX_NAMED])}"
            reason += f" or {len(close) - MAX_NAMED} others" if len(close) > MAX_NAMED else ""
        return policy_finding(None, method, reason, evidence)
    rivals = [fit.loglik for name, fit in ranked.items() if name not in likely or name == close[0]]
    ahead = f"ahead by {rivals[0] - rivals[1]:.0f}" if len(rivals) > 1 else "alone"
    return policy_finding(close[0], f"{method}, {ahead}", "", evidence)


def _missing(close: Sequence[str]) -> str:
    """Evidence that would tell these policies apart."""
    if set(close) <= DRAWN:
        return f"{DRAWN_ALIKE}, so that only each access's latency tells"
    return MISSING_LAPS


def policy_from_rates(ways: int, observations: Sequence[RateObservation], evidence: Sequence[str]) -> Finding:
    """The policy of a set of `ways` ways from steady-state miss rates.

    Each observation is one lap of line numbers in one set, the rate at which its accesses miss when it is repeated for ever,
    and that rate's 95% interval. Answers only with a log-likelihood margin of 10 over every other policy, and where the best
    is within what noise explains; a lap over ways + 2 lines in random order, some visits each, distinguishes most policies.
    `evidence` are ids of the records of the laps."""
    telling = [o for o in observations if len(set(o[0])) > ways]
    if ways < 2:
        return policy_finding(None, RATE_METHOD.format(0), "a set of one way has no choice of a victim", evidence)
    if not telling:
        why = "no lap had more lines of a set than it has ways: chase random laps over ways + 2 lines"
        return policy_finding(None, RATE_METHOD.format(0), why, evidence)
    return policy_of_ranking(_ranked_by_rates(ways, telling), len(telling), ways, evidence)


def policies_by_cyclic_laps(ways: int, observations: Sequence[RateObservation]) -> frozenset[str]:
    """The policies that explain steady-state miss rates (see `policy_from_rates`) of laps that visit each line once, within the
    margin of the likeliest; none where no policy explains them. Where victims are not drawn nearly each access misses. FIFO
    alone may keep some lines by what the set held before, as if a nearer cache served these: fewer misses do not tell it."""
    telling = [o for o in observations if len(set(o[0])) > ways]
    if ways < 2 or not telling:
        return frozenset()
    likely = frozenset(likely_names(_ranked_by_rates(ways, telling)))
    return MISS_CYCLES if likely == {"FIFO"} else likely


def _ranked_by_rates(ways: int, observations: Sequence[RateObservation]) -> dict[str, LapFit]:
    laps = [MeasuredLap(tuple(lap), rate, max((high - low) / 3.92, 0.0)) for lap, rate, low, high in observations]
    path = PathToSet(ways, known_forms(ways), level_costs(0.0, 0.0, 1.0))
    return rank_policies(path, fit_candidates(path, laps))


def latencies_under(path: PathToSet, candidates: Sequence[Candidate], laps: Sequence[Lap]) -> tuple[Array, Array]:
    """The latency of each lap under each candidate, shape (candidates, laps), and by how much it depends on what the sets held
    before."""
    means = np.asarray(path.costs.means)
    found = [[np.array(path.shares(candidate, lap)) @ means for lap in laps] for candidate in candidates]
    middle = np.array([[(one.max() + one.min()) / 2 for one in row] for row in found])
    return middle, np.array([[np.ptp(one) for one in row] for row in found])
