"""Which line a full set gives up, from the latency of each access of a walk: known policies, preferred ways. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Answer, Experiment, Finding, Pattern, Probe
from clmembench.studies.hierarchy.probes.probing import LevelProbe
from clmembench.studies.hierarchy.replacement.cache_set import DETERMINISTIC_POLICIES, SetMaker, hits_of_accesses, policy_forms
from clmembench.studies.hierarchy.replacement.drawn_rates import MAX_ABSENT, UnevenSets
from clmembench.studies.hierarchy.replacement.policies import (
    MAX_SURPRISE_SIGMAS,
    MAX_WRONG_FLAG_SHARE,
    MIN_LOG_LIKELIHOOD_MARGIN,
    VictimProbabilities,
    decide_policy,
    policy_finding,
)
from clmembench.studies.hierarchy.replacement.policy_forms import age_forms
from clmembench.studies.hierarchy.replacement.policy_rates import MAX_NAMED, NONE_OF_SIX
from clmembench.studies.hierarchy.replacement.random_victims import SetObservation
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, SetOfLevel
from clmembench.studies.hierarchy.replacement.victim_states import WRONG_FLAG_PROBABILITY

# Thresholds and limits, each with its reason
TRACED_LAPS = 12  # of a walk that are recorded access by access
TRACED_WALKS, MORE_TRACED_WALKS = 4, 4  # walks that are recorded access by access; and more, where victims are drawn
MIN_BELIEVED_TRACES = 2  # of these, whose mean is that of the same lap
MAX_TRACE_RELATIVE_DIFFERENCE = 0.25  # between a trace's mean and the same lap's: beyond, one of them is disturbed
TRACED_VISITS = 8  # of each line in a lap
HISTORY_LAPS = 2  # before a trace, of whose outcomes nothing is known: after these a set is as the policy leaves it
MIN_EARLIER_HITS = 2  # of first accesses to lines: one may be a disturbance
MAX_WAYS_OF_PROBABILITIES = 4  # up to that many ways the victims' probabilities can be estimated one by one
# Cohen's kappa of two repeats: drawn victims of 8 ways and more agree by 0.2 on average, since lines used long ago miss more
# often, of fewer ways by 0.3
MIN_MANY_WAYS, MAX_AGREEMENT_OF_MANY_WAYS, MAX_AGREEMENT_OF_FEW_WAYS = 8, 0.35, 0.55
MAX_KAPPA_OF_DRAWN = (8, 0.45), (3, 0.6), (0, 0.8)  # ways from which on, and kappa: 0.36, 0.50 and 0.70 in simulations
MAX_LEAD_OF_DRAWN = 0.1  # of the policy without chance that agrees best with drawn victims, before the second
MIN_TELLING_ACCESSES = 30  # hits, and as many misses, once the lines are known that a set under FIFO holds
MOSTLY_EXPLAINED = "{} explains most accesses, but not all, and none of the others nearly as many"
ALIKE_REPEATS = "the same accesses miss in each repeat, as drawn victims would not make them"
AGED_METHOD = "hits and misses of {} accesses as an age-based policy decides them, from an empty set on"
INSERTED_METHOD = "lines of {} accesses hit as long as they are among the last that missed"
DRAWN_METHOD = "likelihood of {} accesses with one way drawn as often as each other, or 2, 3, 5 times as often; ahead by {:.0f}"
PREFERRED_RATIOS = (1.0, 2.0, 3.0, 5.0)  # how much more often one way is the victim than each other: Fermi's is 3
MAX_PREFERRED_WAYS = 8  # with more there are too many states, and one way that is drawn twice as often hardly matters
# Thresholds, each with its reason
MIN_TOLD_ACCESSES = 600  # beyond a set's first lap: there are hundreds of variants, and few accesses suit some by chance
MIN_SEQUENCES = 3  # of accesses in different orders: for the same reason


@dataclass(frozen=True, slots=True)
class TracedPolicy:
    """The policy by single accesses; each way's probability of being the victim where it is known; and whether nearly every
    access is as the policy says, which needs no lap to confirm it."""

    finding: Finding
    victims: VictimProbabilities = ()
    exact: bool = False


def policy_by_trace(probe: LevelProbe, of_set: SetOfLevel) -> Experiment[TracedPolicy | None]:
    """The policy by the latency of each access; None where there is no clock, or where it does not agree with the whole
    laps."""
    observed = yield from _observed(probe, of_set, range(1, 1 + TRACED_WALKS), check=True)
    if observed is None:
        return None
    observations = [_observation(probe, of_set, *one) for one in observed]
    decision = decide_policy(of_set.ways, observations, probe.asked.cited(), uneven=False)
    most = MAX_AGREEMENT_OF_FEW_WAYS if of_set.ways < MIN_MANY_WAYS else MAX_AGREEMENT_OF_MANY_WAYS
    alike = decision.finding.value == "random" and _repeats_agreement(probe, of_set, observed) > most
    if (alike or not decision.explained) and (aged := explaining_age_policies(of_set.ways, observations)):
        return _aged_policy(aged, sum(len(lines) for lines, _ in observations), decision.finding.evidence)
    if decision.finding.value == "random" and leave_as_they_came(of_set.ways, observations):
        count = sum(len(lines) for lines, _ in observations)
        return TracedPolicy(policy_finding("FIFO", INSERTED_METHOD.format(count), "", decision.finding.evidence), exact=True)
    if decision.finding.value == "random" and of_set.nearer and (likeliest := favoured_policy(of_set.ways, observations)):
        # where a nearer cache draws its victims, what reaches this one differs from repeat to repeat, whatever its own policy
        return TracedPolicy(policy_finding(None, decision.finding.method, MOSTLY_EXPLAINED.format(likeliest), ()))
    if alike:
        return TracedPolicy(policy_finding(None, decision.finding.method, ALIKE_REPEATS, decision.finding.evidence))
    drawn = decision.finding.value == "random" or not decision.explained
    if not drawn or of_set.ways > MAX_PREFERRED_WAYS:
        return TracedPolicy(decision.finding)
    seeds = range(1 + TRACED_WALKS, 1 + TRACED_WALKS + MORE_TRACED_WALKS)
    more = yield from _observed(probe, of_set, seeds, check=False)
    observations += [_observation(probe, of_set, *one) for one in more or ()]
    return _drawn_policy(of_set.ways, observations, decision.finding, probe.asked.cited())


def leave_as_they_came(ways: int, observations: Sequence[SetObservation]) -> bool:
    """True if, from as many misses on as there are ways, an access hits where its line is one of those that missed last, as
    under FIFO: whatever was in the set before, and whatever a nearer cache lets through, which simulations from one repeat of a
    walk do not know."""
    seen = {True: 0, False: 0}
    wrong = 0
    for lines, flags in observations:
        inserted: list[int] = []
        for line, hit in zip(lines, flags, strict=True):
            if hit is None:
                continue
            if len(inserted) >= ways:
                seen[hit] += 1
                wrong += hit != (line in inserted[-ways:])
            if not hit:
                inserted.append(line)
    return min(seen.values()) >= MIN_TELLING_ACCESSES and wrong <= MAX_WRONG_FLAG_SHARE * sum(seen.values())


def _observed(
    probe: LevelProbe, of_set: SetOfLevel, seeds: Sequence[int], check: bool
) -> Experiment[list[tuple[Pattern, Answer]] | None]:
    """Some walks with their traces; None where they are too few. `check`: only walks whose mean is that of the same lap."""
    visits = max(1, min(TRACED_VISITS, of_set.unit // 8))
    walks = [of_set.lines.pattern("walk", of_set.ways + EXTRA_LINES, visits, seed) for seed in seeds]
    record, space = TRACED_LAPS * len(of_set.lines.numbers(walks[0])), probe.chase.space
    answers = yield from probe.asked.all([Probe(walk, space, "trace", 0, record) for walk in walks])
    if any(answer.latencies is None for answer in answers):
        return None
    means = (yield from probe.asked.all([Probe(walk, space) for walk in walks])) if check else answers
    believed = [(w, a) for w, a, mean in zip(walks, answers, means, strict=True) if not check or _agrees(a, mean)]
    if len(believed) < MIN_BELIEVED_TRACES:
        return None
    return believed


def _repeats_agreement(probe: LevelProbe, of_set: SetOfLevel, observed: Sequence[tuple[Pattern, Answer]]) -> float:
    """By how much repeats of a walk agree on which accesses miss, beyond chance (Cohen's kappa): 1 where they are the same. In
    the second half of each, of lines of the set; 0 without repeats."""
    middle, found = (probe.contrast.hit + probe.contrast.miss) / 2, list[float]()
    for walk, answer in observed:
        assert answer.latencies is not None
        own = np.array(of_set.lines.numbers(walk) * TRACED_LAPS) >= 0
        own[: own.size // 2] = False
        missed = answer.latencies[:, own] > middle
        share = float(missed.mean())
        chance = share**2 + (1 - share) ** 2
        found += [float((missed[0] == other).mean() - chance) / (1 - chance) for other in missed[1:] if chance < 1]
    return statistics.mean(found) if found else 0.0


def favoured_policy(ways: int, observations: Sequence[SetObservation]) -> str:
    """The policy without chance that explains far more accesses than all others do, "" where there is none: drawn victims suit
    all of them about as well (Cohen's kappa of what each expects with what was seen)."""
    known = np.array([flag is not None for _, flags in observations for flag in flags])
    seen = np.array([bool(flag) for _, flags in observations for flag in flags])[known]
    kappas = []
    for name in DETERMINISTIC_POLICIES:
        for maker in policy_forms(name, ways):
            hits = np.array([hit for lines, _ in observations for hit in hits_of_accesses(maker, ways, lines)])[known]
            chance = hits.mean() * seen.mean() + (1 - hits.mean()) * (1 - seen.mean())
            kappas.append((float((hits == seen).mean() - chance) / max(1e-9, 1 - chance), name))
    best, name = max(kappas)
    second = max((kappa for kappa, other in kappas if other != name), default=0.0)
    most = next(agreement for least, agreement in MAX_KAPPA_OF_DRAWN if ways >= least)
    return name if best > most or best - second > MAX_LEAD_OF_DRAWN else ""


def _agrees(answer: Answer, mean: Answer) -> bool:
    """True if the second half of a trace has the mean of the same lap."""
    if answer.latencies is None or mean.value is None:
        return False
    steady = float(answer.latencies[:, answer.latencies.shape[1] // 2 :].mean())
    return abs(steady - mean.value) <= MAX_TRACE_RELATIVE_DIFFERENCE * mean.value


def _observation(probe: LevelProbe, of_set: SetOfLevel, walk: Pattern, answer: Answer) -> SetObservation:
    """The lines of the set that a walk visits where no nearer cache serves them, and which of them hit."""
    assert answer.latencies is not None
    contrast, nearer = probe.contrast, of_set.nearer
    middle, nearest = (contrast.hit + contrast.miss) / 2, (nearer + contrast.hit) / 2 if nearer else 0.0
    visited = of_set.lines.numbers(walk) * TRACED_LAPS
    reached = [(n, bool(v < middle)) for n, v in zip(visited, answer.latencies[0], strict=True) if n >= 0 and v > nearest]
    lines, flags = [line for line, _ in reached], [hit for _, hit in reached]
    if sum(flags[lines.index(line)] for line in set(lines)) < MIN_EARLIER_HITS:
        return lines, flags
    # the set was not empty at first: repeats of a walk follow each other, so that its last laps came before
    before = lines[-(HISTORY_LAPS * len(lines) // TRACED_LAPS) :]
    return [*before, *lines], [*[None] * len(before), *flags]


def _aged_policy(names: Sequence[str], count: int, evidence: tuple[str, ...]) -> TracedPolicy:
    """The age-based policy that explains so many accesses, or those that do."""
    method = AGED_METHOD.format(count)
    if len(names) == 1:
        return TracedPolicy(policy_finding(names[0], method, "", evidence), exact=True)
    reason = f"{NONE_OF_SIX}: each access is as under {' or '.join(names[:MAX_NAMED])}"
    reason += f" or {len(names) - MAX_NAMED} others" if len(names) > MAX_NAMED else ""
    return TracedPolicy(policy_finding(None, method, reason, evidence), exact=True)


def _drawn_policy(ways: int, observations: Sequence[SetObservation], named: Finding, evidence: tuple[str, ...]) -> TracedPolicy:
    """Whether drawn victims are drawn evenly; `named`: what evenly drawn ones explain."""
    fits = fit_ratios(ways, observations)
    if fits is None:
        return TracedPolicy(named)
    even, uneven = fits[1.0], max((fit for ratio, fit in fits.items() if ratio > 1), key=lambda fit: fit.loglik)
    ids = tuple(dict.fromkeys((*named.evidence, *evidence)))
    ahead = even.loglik - uneven.loglik
    method = DRAWN_METHOD.format(sum(len(lines) for lines, _ in observations), abs(ahead))
    if named.value == "random" and ahead > MIN_LOG_LIKELIHOOD_MARGIN:
        return TracedPolicy(policy_finding("random", method, "", ids))
    if ahead > -MIN_LOG_LIKELIHOOD_MARGIN or abs(uneven.surprise) > MAX_SURPRISE_SIGMAS:
        reason = "victims are drawn, but more accesses are needed to tell whether one way is drawn more often"
        return TracedPolicy(policy_finding(None, method, reason if named.value else named.reason, ids))
    found = policy_finding("way-weighted", method, "", ids)
    victims: VictimProbabilities = ()
    empty = all(flags[lines.index(line)] is False for lines, flags in observations for line in set(lines))
    if ways <= MAX_WAYS_OF_PROBABILITIES and empty:
        victims = decide_policy(ways, observations, ids).victims
    return TracedPolicy(found, victims)


@dataclass(frozen=True, slots=True)
class RatioFit:
    """The log-likelihood of which accesses hit, and by how many standard deviations it is off what is expected where the
    model is true."""

    loglik: float
    surprise: float


def fit_ratios(ways: int, observations: Sequence[SetObservation]) -> dict[float, RatioFit] | None:
    """How each ratio of PREFERRED_RATIOS explains which accesses hit; None where that cannot be computed: more ways than
    MAX_PREFERRED_WAYS, or other numbers of lines than one or two more than those.

    A set may hold anything at first, and any way may be the preferred one: only which lines go later tells.
    """
    total, above, variance = (np.zeros(len(PREFERRED_RATIOS)) for _ in range(3))
    for lines, flags in observations:
        names, numbers = np.unique(np.asarray(lines), return_inverse=True)
        absent = names.size - ways
        if ways > MAX_PREFERRED_WAYS or not 0 < absent <= MAX_ABSENT:
            return None
        sets = UnevenSets(ways, names.size, absent, PREFERRED_RATIOS, known=False)
        for line, hit in zip(numbers.tolist(), flags, strict=True):
            if hit is None:
                sets.access(line)
                continue
            of_hit, of_miss = (1 - WRONG_FLAG_PROBABILITY, WRONG_FLAG_PROBABILITY)[:: 1 if hit else -1]
            missed = sets.access(line, of_hit, of_miss)
            seen = np.clip(missed * of_miss + (1 - missed) * of_hit, 1e-12, 1 - 1e-12)
            total += np.log(seen)
            contrast = np.log(seen) - np.log(1 - seen)  # of what was seen against the other
            above += (1 - seen) * contrast
            variance += seen * (1 - seen) * contrast**2
    surprises = above / np.sqrt(np.maximum(variance, 1.0))
    fits = zip(PREFERRED_RATIOS, total.tolist(), surprises.tolist(), strict=True)
    return {ratio: RatioFit(loglik, surprise) for ratio, loglik, surprise in fits}


def explaining_age_policies(ways: int, observations: Sequence[SetObservation]) -> list[str]:
    """The names of age-based policies that call at most 1% of the flags wrong, from an empty set on; none where the
    observations are few."""
    told = [(lines, flags) for lines, flags in observations if len(set(lines)) > ways]
    beyond = sum(len(lines) - len(set(lines)) for lines, _ in told)
    if len({tuple(lines) for lines, _ in told}) < MIN_SEQUENCES or beyond < MIN_TOLD_ACCESSES:
        return []
    most = int(MAX_WRONG_FLAG_SHARE * sum(len(lines) for lines, _ in told))
    return [form.name for form in age_forms(established=False) if form.maker and _explains(form.maker, ways, told, most)]


def _explains(maker: SetMaker, ways: int, observations: Sequence[SetObservation], most: int) -> bool:
    """True if a policy calls at most so many flags wrong."""
    wrong = 0
    for lines, flags in observations:
        one = maker(ways)
        for line, hit in zip(lines, flags, strict=True):
            said = one.access(line)
            wrong += hit is not None and said != hit
            if wrong > most:
                return False
    return True
