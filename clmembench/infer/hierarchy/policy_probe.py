"""Which line a full set gives up: random walks over lines of one set, chosen so that policies differ, or access by access. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench.infer.findings import undetermined_finding
from clmembench.infer.hierarchy.policy_trace import TracedPolicy, policy_by_trace
from clmembench.infer.hierarchy.probing import MIN_RELATIVE_LAP_NOISE, LevelProbe
from clmembench.infer.hierarchy.set_lines import EXTRA_LINES, NearerSet, SetOfLevel
from clmembench.infer.replacement.lap_likelihood import LapFit
from clmembench.infer.replacement.policy_forms import age_forms, is_age_based, known_forms
from clmembench.infer.replacement.policy_rates import (
    DRAWN,
    LAP_DEVIATION,
    MeasuredLap,
    PathToSet,
    fit_candidates,
    latencies_under,
    level_costs,
    likely_names,
    policy_of_ranking,
    rank_policies,
)
from clmembench.infer.replacement.walk_choice import choose_laps
from clmembench.model import Finding, Inquiry, Pattern, Probe

# Thresholds and limits, each with its reason
FIRST_WALKS, MORE_WALKS, MAX_WALKS = 6, 4, 18  # random walks that are asked first, each time that more are, and in all
MORE_OF_AGES = 12  # walks more, where none of the usual policies explains them, to tell variants of age-based ones apart
USUAL_WALKS = 16  # that runs stored before have, over EXTRA_LINES more than the ways
MAX_VISITS = 4  # of each line in a lap: short laps differ most between policies, and no sector has room for fewer
POOL_ACCESSES = 20_000  # of the walks in all, times candidates, from among which those are chosen in which policies differ
USUAL_EXCESS_OF_HITS, MAX_EXCESS_OF_HITS = 0.015, 0.03  # of what a miss adds, besides noise: translation may cost more than the
# first, and beyond the second something else than this level's hits and misses does
MIN_DEARER_RATIO, MAX_DEARER_RATIO = (
    0.8,
    3.0,
)  # of what a miss adds in one set to what it adds in all: beyond it is another level's
NOISE_SIGMAS = 3.0  # of a lap's noise
MIN_POOL, MAX_POOL = 6, 48  # walks among which is chosen
POSSIBLE_LOG_LIKELIHOOD = 16.0  # behind the likeliest candidate: from there on a candidate needs no more evidence
IMITATED = (["NRU"], ["tree-PLRU"])  # policies that some age-based one resembles
MAX_AGED_WAYS = (
    24  # sets of more ways, and TLBs, are not known to have any of the age-based policies, of which there are hundreds
)
MAX_WAYS = 128  # sets of more ways are not probed
NEARER_CACHE_ANSWERS = (
    "a nearer cache serves some accesses of a lap: only latencies of single accesses would decide, which need a clock in the "
    "kernel"
)


def probe_policy(probe: LevelProbe, of_set: SetOfLevel) -> Inquiry[dict[str, Finding]]:
    """The policy of a set, and its victims' probabilities.

    Behind a nearer cache whose policy is not known only single accesses can tell.
    """
    return (yield from probe_possible_policies(probe, of_set))[0]


def probe_possible_policies(probe: LevelProbe, of_set: SetOfLevel) -> Inquiry[tuple[dict[str, Finding], frozenset[str]]]:
    """As `probe_policy`, and the policies that are possible; none where nothing is known of them."""
    if of_set.ways < 2 or of_set.ways > MAX_WAYS:
        reason = "a set of one way has no choice" if of_set.ways < 2 else f"sets of over {MAX_WAYS} ways are not probed"
        return {"policy": undetermined_finding("policy", reason)}, frozenset()
    probe.asked.cited()
    possible: Sequence[str] | None = None
    if of_set.nearer and of_set.before is None:
        found = undetermined_finding("policy", NEARER_CACHE_ANSWERS)
    else:
        found, possible = yield from _policy_by_laps(_Walks(probe, of_set))
    if found.status == "ok" and found.value not in DRAWN:
        return {"policy": found}, frozenset({str(found.value)})
    traced = yield from policy_by_trace(probe, of_set)
    findings = {"policy": found}
    # latencies of single accesses that no lap confirms are not those of this level's hits and misses
    if traced is not None and (possible is None or traced.finding.value in possible):
        findings = _combined_policy(found, traced)
    value = findings["policy"].value
    return findings, frozenset(possible or ()) if value is None else frozenset({str(value)})


@dataclass(slots=True)
class _Walks:
    """The walks of one set so far; `translated`: what translation adds is measured with each and subtracted; `miss`: what one
    costs if all lines of a lap in random order miss."""

    probe: LevelProbe
    of_set: SetOfLevel
    laps: list[MeasuredLap] = field(default_factory=list)
    seed: int = 0
    translated: bool = False
    miss: float = 0.0

    def path(self, miss_is_known: bool = True, all_ages: bool = False) -> PathToSet:
        """How the set's lines are reached, at what cost, and what its policy may be; `all_ages`: one of all age-based ones."""
        contrast, own = self.probe.contrast, self.of_set
        miss = contrast.miss if miss_is_known else max(contrast.miss, self.miss)
        costs = level_costs(own.nearer, contrast.hit, miss, miss_is_known)
        before = own.before or NearerSet(0, ())
        forms = known_forms(own.ways)
        if 2 < own.ways <= MAX_AGED_WAYS and not self.probe.chase.control_bytes:
            forms = (*forms, *age_forms(established=not all_ages))
        return PathToSet(own.ways, forms, costs, before.ways, before.forms)

    def ask(self, patterns: Sequence[Pattern]) -> Inquiry[int]:
        """Asks laps of these walks; how many got an answer."""
        chase, asked = self.probe.chase, self.probe.asked
        answers = yield from asked.all([Probe(pattern, chase.space) for pattern in patterns])
        less = [0.0] * len(answers)
        if chase.control_bytes:  # the same walks where this level cannot matter
            controls = [replace(pattern, stride_bytes=chase.control_bytes, shift_bytes=0) for pattern in patterns]
            few = [next(c for c in controls if c.visits == control.visits) for control in controls]
            less = [a.value or 0.0 for a in (yield from asked.all([Probe(control, chase.space) for control in few]))]
        elif self.translated:
            base = self.of_set.nearer or self.probe.contrast.hit
            controls = [self.of_set.lines.control(pattern) for pattern in patterns]
            costs = yield from asked.all([Probe(control, chase.space) for control in controls])
            less = [max(0.0, (a.value or 0.0) - base) for a in costs]
        known = [(p, a, c) for p, a, c in zip(patterns, answers, less, strict=True) if a.value is not None]
        for pattern, answer, control in known:
            assert answer.value is not None
            spread = ((answer.high or answer.value) - (answer.low or answer.value)) / 3.92
            deviation = max(spread, MIN_RELATIVE_LAP_NOISE * answer.value)
            self.laps.append(MeasuredLap(self.of_set.lines.numbers(pattern), answer.value - control, deviation))
        return len(known)

    def pool(self, candidates: int) -> list[Pattern]:
        """Further walks over one and two lines more than the ways, the fewer the more candidates are to be simulated."""
        lines, ways, most = self.of_set.lines, self.of_set.ways, self.visits
        count = POOL_ACCESSES // (candidates * (ways + len(lines.filler) + EXTRA_LINES))
        count = max(MIN_POOL, min(MAX_POOL, count))
        found = []
        for _ in range(count):
            self.seed += 1
            more = 1 + self.seed % EXTRA_LINES
            found.append(lines.pattern("walk", ways + more, 1 + self.seed // EXTRA_LINES % most, self.seed))
        return found

    @property
    def noise(self) -> float:
        """The standard deviation of the first lap, as a share of what a miss adds."""
        return self.laps[0].deviation / (self.probe.contrast.miss - self.probe.contrast.hit)

    @property
    def visits(self) -> int:
        return max(1, min(MAX_VISITS, self.of_set.unit // 8))


def _policy_by_laps(walks: _Walks) -> Inquiry[tuple[Finding, Sequence[str] | None]]:
    """The policy by the mean latencies of whole laps, in which candidates that are still possible differ, and the policies that are
    possible; None where laps say nothing."""
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
    if (
        (all(is_age_based(name) for name in names) or names in IMITATED)
        and 2 < ways <= MAX_AGED_WAYS
        and not walks.probe.chase.control_bytes
    ):
        path = walks.path(path.costs.miss_is_known, all_ages=True)
        aged, most = fit_candidates(path, walks.laps), MAX_WALKS + (0 if names in IMITATED else MORE_OF_AGES)
        fits = (yield from _ask_until_decided(walks, path, aged, most)) or aged
    ranked = rank_policies(path, fits)
    return policy_of_ranking(ranked, len(walks.laps), ways, walks.probe.asked.cited()), likely_names(ranked)


def _excess_of_hits(walks: _Walks) -> Inquiry[float | None]:
    """What laps over as many lines as the set holds cost more than hits, as a share of what a miss adds: translation is subtracted
    where it matters; None where there is no answer. The laps stay among the walks'."""
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


def _ask_until_decided(walks: _Walks, path: PathToSet, fits: list[LapFit] | None, most: int) -> Inquiry[list[LapFit] | None]:
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


def _telling_walks(walks: _Walks, path: PathToSet, fits: Sequence[LapFit] | None) -> list[Pattern]:
    """The walks of a pool in which the policies that are possible differ most; all policies if none has been fitted."""
    best = max(fit.loglik for fit in fits) if fits else 0.0
    candidates = [
        candidate
        for number, candidate in enumerate(path.candidates())
        if candidate[1].ratio == 1 and (fits is None or fits[number].loglik > best - POSSIBLE_LOG_LIKELIHOOD)
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
