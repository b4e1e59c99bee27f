"""Which line a full set gives up, by walks over its lines that are chosen so that policies differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clmembench.model import Array, Experiment, Finding, Pattern
from clmembench.model.findings import undetermined_finding
from clmembench.studies.hierarchy.probes.probing import MIN_RELATIVE_LAP_NOISE, LevelProbe
from clmembench.studies.hierarchy.replacement.lap_likelihood import LapFit
from clmembench.studies.hierarchy.replacement.policy_forms import is_age_based
from clmembench.studies.hierarchy.replacement.policy_rates import (
    DRAWN,
    LAP_DEVIATION,
    MAX_NAMED,
    PathToSet,
    fit_candidates,
    latencies_under,
    likely_names,
    policy_of_ranking,
    rank_policies,
)
from clmembench.studies.hierarchy.replacement.policy_trace import TracedPolicy, policy_by_trace
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, SetOfLevel
from clmembench.studies.hierarchy.replacement.set_walks import SetWalks

# Thresholds and limits, each with its reason
FIRST_WALKS, MORE_WALKS, MAX_WALKS = 6, 4, 18  # random walks that are asked first, each time that more are, and in all
MORE_OF_AGES = 12  # walks more, where none of the usual policies explains them, to tell variants of age-based ones apart
CONFIRMING_WALKS = 8  # walks more, chosen by nobody, that an age-based policy, or any on a shared core, has to explain too
USUAL_WALKS = 16  # that runs stored before have, over EXTRA_LINES more than the ways
USUAL_EXCESS_OF_HITS = 0.015  # of what a miss adds, besides noise: where hits cost more, translation is measured
MAX_EXCESS_OF_HITS = 0.03  # of the same: beyond, something else than this level's hits and misses costs
MIN_DEARER_RATIO, MAX_DEARER_RATIO = 0.8, 3.0  # of what a miss adds in one set to that in all: beyond it is another level's
NOISE_SIGMAS = 3.0  # of a lap's noise
POSSIBLE_LOG_LIKELIHOOD = 16.0  # behind the likeliest candidate: from there on a candidate needs no more evidence
IMITATED = (["NRU"], ["tree-PLRU"])  # policies that some age-based one resembles
MAX_WAYS = 128  # sets of more ways are not probed
UNCONFIRMED = "{1} laps that were chosen to tell policies apart suit {0}, and no further ones confirm it"
NEARER_CACHE_ANSWERS = (
    "a nearer cache serves some accesses of a lap: only latencies of single accesses would decide, which need a clock in the "
    "kernel"
)
ENOUGH_DISTANCE = 30.0  # of log-likelihood between two candidates: three times the margin, since costs are not known exactly
MOST_OF_ONE_LAP = 8.0  # of that distance, that one lap counts for: it may be disturbed, so that others have to agree
MIN_DISTANCE = 0.5  # of log-likelihood that a lap adds between two policies: with less it is not worth a probe


def probe_policy(probe: LevelProbe, of_set: SetOfLevel) -> Experiment[dict[str, Finding]]:
    """The policy of a set, and its victims' probabilities.

    Behind a nearer cache whose policy is not known only single accesses can tell.
    """
    return (yield from probe_possible_policies(probe, of_set))[0]


def probe_possible_policies(probe: LevelProbe, of_set: SetOfLevel) -> Experiment[tuple[dict[str, Finding], frozenset[str]]]:
    """As `probe_policy`, and the policies that are possible; none where nothing is known of them."""
    if of_set.ways < 2 or of_set.ways > MAX_WAYS:
        reason = "a set of one way has no choice" if of_set.ways < 2 else f"sets of over {MAX_WAYS} ways are not probed"
        return {"policy": undetermined_finding("policy", reason)}, frozenset()
    probe.asked.cited()
    possible: Sequence[str] | None = None
    if of_set.nearer and of_set.before is None:
        found = undetermined_finding("policy", NEARER_CACHE_ANSWERS)
    else:
        found, possible = yield from _policy_by_laps(SetWalks(probe, of_set))
    if found.status == "ok" and found.value not in DRAWN:
        return {"policy": found}, frozenset({str(found.value)})
    traced = yield from policy_by_trace(probe, of_set)
    findings = {"policy": found}
    # latencies of single accesses that no lap confirms are not those of this level's hits and misses
    if traced is not None and (possible is None or traced.finding.value in possible):
        findings = _combined_policy(found, traced)
    elif traced is not None and traced.exact and not possible:
        findings = {"policy": traced.finding}
    value = findings["policy"].value
    return findings, frozenset(possible or ()) if value is None else frozenset({str(value)})


def _policy_by_laps(walks: SetWalks) -> Experiment[tuple[Finding, Sequence[str] | None]]:
    """The policy by the mean latencies of whole laps, in which candidates that are still possible differ, and the policies
    that are possible; None where laps say nothing."""
    ways, lines = walks.of_set.ways, walks.of_set.lines
    excess = yield from _excess_of_hits(walks)
    if excess is None:
        return undetermined_finding("policy", "laps over lines of one set got no answer"), None
    if abs(excess) > MAX_EXCESS_OF_HITS + NOISE_SIGMAS * walks.noise:
        reason = f"as many lines of one set as it holds cost {excess:+.2g} of a miss more than expected of hits"
        return undetermined_finding("policy", reason, evidence=walks.probe.asked.cited()), None
    if (yield from walks.ask([lines.pattern("random", ways + EXTRA_LINES)])):
        every = ways + EXTRA_LINES + len(lines.filler)
        missing = (walks.laps[-1].latency - walks.laps[0].latency) * every / (ways + EXTRA_LINES)
        walks.miss = walks.probe.contrast.hit + missing
    known = walks.of_set.miss_is_known
    path = walks.path(known)
    fits = yield from _ask_until_decided(walks, path, None, MAX_WALKS)
    if fits is None:
        return undetermined_finding("policy", "no lap over lines of one set tells policies apart"), None
    names = likely_names(rank_policies(path, fits))
    if not names and known:  # misses of one set may cost more than those of all, where the next level has few ways
        dearer = walks.path(miss_is_known=False)
        free = fit_candidates(dearer, walks.laps)
        best = max(free, key=lambda fit: fit.loglik)
        if MIN_DEARER_RATIO <= best.contrast / path.costs.contrast <= MAX_DEARER_RATIO:
            path, fits = dearer, free
        names = likely_names(rank_policies(path, fits))
    # none of the six, or one that age-based ones imitate: NRU is a policy of ages itself, of one bit
    if (all(is_age_based(name) for name in names) or names in IMITATED) and walks.may_be_aged:
        path = walks.path(path.costs.miss_is_known, all_ages=True)
        aged, most = fit_candidates(path, walks.laps), MAX_WALKS + (0 if names in IMITATED else MORE_OF_AGES)
        fits = (yield from _ask_until_decided(walks, path, aged, most)) or aged
    named = likely_names(rank_policies(path, fits))
    # of hundreds of variants some explain the laps that were chosen among them by chance; and where others use the core, or a
    # real core has a policy that nobody knows, one of the six does
    if named and (all(is_age_based(name) for name in named) or (walks.probe.asked.shared and len(named) == 1)):
        answered = yield from walks.ask(walks.pool(len(path.candidates()))[:CONFIRMING_WALKS])
        fits = fit_candidates(path, walks.laps)
        if 2 * answered < CONFIRMING_WALKS:
            why = UNCONFIRMED.format(" or ".join(named[:MAX_NAMED]), len(walks.laps))
            return undetermined_finding("policy", why, evidence=walks.probe.asked.cited()), named
    ranked = rank_policies(path, fits)
    return policy_of_ranking(ranked, len(walks.laps), ways, walks.probe.asked.cited()), likely_names(ranked)


def _excess_of_hits(walks: SetWalks) -> Experiment[float | None]:
    """What laps over as many lines as the set holds cost more than hits, as a share of what a miss adds: translation is
    subtracted where it matters; None where there is no answer. The laps stay among the walks'."""
    excess: float | None = None
    for translated, seed in ((False, 0), (False, 1), (True, 0), (True, 1)):
        if translated and walks.probe.chase.control_bytes:
            break
        walks.translated = translated
        walks.laps.clear()
        if not (yield from walks.ask([walks.of_set.lines.pattern("walk", walks.of_set.ways, walks.visits, seed)])):
            continue
        path, lap = walks.path(), walks.laps[0]
        expected = latencies_under(path, path.candidates(), [lap.lap])[0][:, 0]
        differences = (lap.latency - expected) / path.costs.contrast
        excess = float(differences[np.argmin(np.abs(differences))])
        if abs(excess) <= USUAL_EXCESS_OF_HITS + NOISE_SIGMAS * walks.noise:
            break
    return excess


def _ask_until_decided(
    walks: SetWalks, path: PathToSet, fits: list[LapFit] | None, most: int
) -> Experiment[list[LapFit] | None]:
    """How well the candidates explain the laps, once one policy is ahead, no lap tells more, or there are `most` laps."""
    while len(walks.laps) < most:
        if fits is not None and len(likely_names(rank_policies(path, fits))) == 1:
            break
        chosen = _telling_walks(walks, path, fits)
        if not chosen:
            break
        if not (yield from walks.ask(chosen)):
            if fits is not None:
                break
            # a run that was stored before has other walks
            usual = max(1, min(8, walks.of_set.unit // 8))
            seeds = range(1, 1 + USUAL_WALKS)
            old = [walks.of_set.lines.pattern("walk", walks.of_set.ways + EXTRA_LINES, usual, seed) for seed in seeds]
            if not (yield from walks.ask(old)):
                break
        fits = fit_candidates(path, walks.laps)
    return fits


def _telling_walks(walks: SetWalks, path: PathToSet, fits: Sequence[LapFit] | None) -> list[Pattern]:
    """The walks of a pool in which the policies that are possible differ most; all policies if none has been fitted."""
    best = max(fit.loglik for fit in fits) if fits else 0.0
    candidates = [
        candidate
        for number, candidate in enumerate(path.candidates())
        if candidate[1].ratio == 1
        and (fits is None or fits[number].possible or fits[number].loglik > best - POSSIBLE_LOG_LIKELIHOOD)
    ]
    names = [own.name for _, own in candidates]
    if not all(is_age_based(name) for name in names):
        names = ["age-based" if is_age_based(name) else name for name in names]
    if len(set(names)) < 2:
        return []
    pool = walks.pool(len(candidates))
    laps = [walks.of_set.lines.numbers(pattern) for pattern in pool]
    expected, spread = latencies_under(path, candidates, laps)
    noise = walks.probe.contrast.noise + MIN_RELATIVE_LAP_NOISE * path.costs.means[2]
    sigma = float((noise**2 + (LAP_DEVIATION * path.costs.contrast) ** 2) ** 0.5)
    chosen = choose_laps(names, expected, spread, sigma, FIRST_WALKS if fits is None else MORE_WALKS)
    return [pool[number] for number in chosen]


def _combined_policy(found: Finding, traced: TracedPolicy) -> dict[str, Finding]:
    """The policy by whole laps (`found`) and by single accesses."""
    named = traced.finding
    if found.status == "ok" and named.status == "ok" and found.value != named.value:
        reason = f"whole laps say {found.value}, single accesses say {named.value}"
        ids = tuple(dict.fromkeys((*found.evidence, *named.evidence)))
        return {"policy": Finding("policy", None, None, None, "", "inconsistent", found.method, ids, reason)}
    if named.status != "ok":
        return {"policy": found}
    if not traced.victims:
        return {"policy": named}
    chances = ", ".join(f"{v:.3f}" for v in traced.victims)
    return {"policy": named, "victim_probabilities": replace(named, name="victim_probabilities", value=chances)}


def choose_laps(names: Sequence[str], latencies: Array, spread: Array, sigma: float, most: int) -> list[int]:
    """Up to `most` laps in which candidates of different names differ most, by number; the best first.

    `latencies` of shape (candidates, laps) are those expected, `spread` is how much they depend on what the set held before,
    and `sigma` the standard deviation of one lap's besides."""
    label = np.unique(np.asarray(names), return_inverse=True)[1]
    first, second = np.nonzero(np.triu(label[:, None] != label[None, :]))
    if first.size == 0 or latencies.shape[1] == 0:
        return []
    variance = sigma**2 + spread[first] ** 2 + spread[second] ** 2
    apart = np.minimum(0.5 * (latencies[first] - latencies[second]) ** 2 / variance, MOST_OF_ONE_LAP)  # by pair and lap
    reached = np.zeros(first.size)
    chosen: list[int] = []
    while len(chosen) < most:
        gain = np.minimum(reached[:, None] + apart, ENOUGH_DISTANCE) - np.minimum(reached, ENOUGH_DISTANCE)[:, None]
        gain[:, chosen] = 0.0
        worth = np.log1p(gain).sum(axis=0)  # some for every pair rather than much for a few
        best = int(np.argmax(worth))
        if gain[:, best].max() < MIN_DISTANCE:
            break
        chosen.append(best)
        reached += apart[:, best]
    return chosen
