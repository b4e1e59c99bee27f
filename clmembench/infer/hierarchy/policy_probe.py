"""Which line a full set gives up: random walks over lines of one set, chosen so that policies differ, or access by access. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clmembench.infer.findings import undetermined_finding
from clmembench.infer.hierarchy.probing import MIN_RELATIVE_LAP_NOISE, LevelProbe
from clmembench.infer.hierarchy.set_lines import SetLines
from clmembench.infer.replacement.lap_likelihood import LapFit
from clmembench.infer.replacement.policies import policy_and_victims
from clmembench.infer.replacement.policy_forms import PolicyForm, known_forms
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
EXTRA_LINES = 2  # lines beyond the ways: laps over one line more do not distinguish LRU from FIFO
FIRST_WALKS, MORE_WALKS, MAX_WALKS = 6, 4, 18  # random walks that are asked first, each time that more are, and in all
USUAL_WALKS = 16  # that runs stored before have, over EXTRA_LINES more than the ways
MAX_VISITS = 4  # of each line in a lap: short laps differ most between policies, and no sector has room for fewer
POOL_ACCESSES = 1_200  # of the walks in all, from among which those are chosen in which policies differ
MIN_POOL, MAX_POOL = 6, 48  # walks among which is chosen
POSSIBLE_LOG_LIKELIHOOD = 16.0  # behind the likeliest candidate: from there on a candidate needs no more evidence
TRACED_LAPS = 12  # of a walk that are recorded access by access
MAX_WAYS = 128  # sets of more ways are not probed
MAX_WAYS_OF_UNEVEN_VICTIMS = 4  # up to that many ways unequal victim probabilities are distinguishable from equal ones
TRACED_WALKS, MIN_BELIEVED_TRACES = 4, 2  # walks that are recorded access by access, and of these that must agree with laps
MAX_TRACE_RELATIVE_DIFFERENCE = (
    0.25  # relative difference between a trace's mean and the same lap's: beyond, one of them is disturbed
)
NEARER_CACHE_ANSWERS = (
    "a nearer cache serves some accesses of a lap: only latencies of single accesses would decide, which need a clock in the "
    "kernel"
)


@dataclass(frozen=True, slots=True)
class NearerSet:
    """The one set of the nearest cache that all lines of a set pass: its ways, and the forms that its policy may have."""

    ways: int
    forms: tuple[PolicyForm, ...]

    @classmethod
    def of(cls, ways: int, policy: str) -> NearerSet | None:
        """By the policy's name; None where it draws victims, so that what it lets through is not known."""
        forms = tuple(form for form in known_forms(ways) if form.name == policy and form.maker is not None)
        return cls(ways, forms) if forms else None


@dataclass(frozen=True, slots=True)
class SetOfLevel:
    """The set that is asked: its ways and lines, the unit of bytes within which a line can be visited again, the latency of a
    nearer cache (0: there is none) and that cache's set if it is known, and whether what a miss costs is known."""

    ways: int
    lines: SetLines
    unit: int
    nearer: float = 0.0
    before: NearerSet | None = None
    miss_is_known: bool = True


def probe_policy(probe: LevelProbe, of_set: SetOfLevel) -> Inquiry[dict[str, Finding]]:
    """The policy of a set, and its victims' probabilities.

    Behind a nearer cache whose policy is not known only single accesses can tell.
    """
    if of_set.ways < 2 or of_set.ways > MAX_WAYS:
        reason = "a set of one way has no choice" if of_set.ways < 2 else f"sets of over {MAX_WAYS} ways are not probed"
        return {"policy": undetermined_finding("policy", reason)}
    probe.asked.cited()
    walks = _Walks(probe, of_set)
    if of_set.nearer and of_set.before is None:
        found = undetermined_finding("policy", NEARER_CACHE_ANSWERS)
    else:
        found = yield from _policy_by_laps(walks)
    if found.status == "ok" and found.value not in DRAWN:
        return {"policy": found}
    traced = yield from _policy_by_trace(probe, of_set)
    return {"policy": found} if traced is None else _combined_policy(found, *traced, of_set.ways)


@dataclass(slots=True)
class _Walks:
    """The walks of one set so far, and what each access of their control costs, by visits."""

    probe: LevelProbe
    of_set: SetOfLevel
    laps: list[MeasuredLap] = field(default_factory=list)
    seed: int = 0

    def path(self, miss_is_known: bool) -> PathToSet:
        """How the set's lines are reached, and at what cost."""
        contrast, own = self.probe.contrast, self.of_set
        costs = level_costs(own.nearer, contrast.hit, contrast.miss, miss_is_known)
        before = own.before or NearerSet(0, ())
        return PathToSet(own.ways, costs, before.ways, before.forms)

    def ask(self, patterns: Sequence[Pattern]) -> Inquiry[int]:
        """Asks laps of these walks; how many got an answer."""
        chase, asked = self.probe.chase, self.probe.asked
        answers = yield from asked.all([Probe(pattern, chase.space) for pattern in patterns])
        less = [0.0] * len(answers)
        if chase.control_bytes:  # the same walks where this level cannot matter
            controls = [replace(pattern, stride_bytes=chase.control_bytes, shift_bytes=0) for pattern in patterns]
            few = [next(c for c in controls if c.visits == control.visits) for control in controls]
            less = [a.value or 0.0 for a in (yield from asked.all([Probe(control, chase.space) for control in few]))]
        known = [(p, a, c) for p, a, c in zip(patterns, answers, less, strict=True) if a.value is not None]
        for pattern, answer, control in known:
            assert answer.value is not None
            spread = ((answer.high or answer.value) - (answer.low or answer.value)) / 3.92
            deviation = max(spread, MIN_RELATIVE_LAP_NOISE * answer.value)
            self.laps.append(MeasuredLap(self.of_set.lines.numbers(pattern), answer.value - control, deviation))
        return len(known)

    def pool(self) -> list[Pattern]:
        """Further walks over one and two lines more than the ways."""
        lines, ways, most = self.of_set.lines, self.of_set.ways, self.visits
        forms = len(self.of_set.before.forms) if self.of_set.before is not None else 1
        count = POOL_ACCESSES // (forms * (ways + len(lines.filler) + EXTRA_LINES))
        count = max(MIN_POOL, min(MAX_POOL, count))
        found = []
        for _ in range(count):
            self.seed += 1
            more = 1 + self.seed % EXTRA_LINES
            found.append(lines.pattern("walk", ways + more, 1 + self.seed // EXTRA_LINES % most, self.seed))
        return found

    @property
    def visits(self) -> int:
        return max(1, min(MAX_VISITS, self.of_set.unit // 8))


def _policy_by_laps(walks: _Walks) -> Inquiry[Finding]:
    """The policy by the mean latencies of whole laps, where candidates that are still possible differ in each that is asked."""
    ways, lines = walks.of_set.ways, walks.of_set.lines
    known = walks.path(walks.of_set.miss_is_known)
    yield from walks.ask([lines.pattern("walk", ways, walks.visits), lines.pattern("random", ways + EXTRA_LINES)])
    fits: list[LapFit] | None = None
    while len(walks.laps) < MAX_WALKS:
        chosen = _telling_walks(walks, known, fits)
        if not chosen:
            break
        if not (yield from walks.ask(chosen)):
            if fits is not None:
                break
            # a run that was stored before has other walks
            usual = max(1, min(8, walks.of_set.unit // 8))
            old = [lines.pattern("walk", ways + EXTRA_LINES, usual, seed) for seed in range(1, 1 + USUAL_WALKS)]
            if not (yield from walks.ask(old)):
                return undetermined_finding("policy", "laps over lines of one set got no answer")
        fits = fit_candidates(known, walks.laps)
        if len(likely_names(rank_policies(known, fits))) == 1:
            break
    evidence = walks.probe.asked.cited()
    if fits is None:
        return undetermined_finding("policy", "no lap over lines of one set tells policies apart", evidence=evidence)
    ranked = rank_policies(known, fits)
    if not likely_names(ranked) and walks.of_set.miss_is_known:  # misses of one set may cost more than those of all
        free = walks.path(miss_is_known=False)
        ranked = rank_policies(free, fit_candidates(free, walks.laps))
    return policy_of_ranking(ranked, len(walks.laps), ways, evidence)


def _telling_walks(walks: _Walks, path: PathToSet, fits: Sequence[LapFit] | None) -> list[Pattern]:
    """The walks of a pool in which the policies that are possible differ most; all policies if none has been fitted."""
    best = max((fit.loglik for fit in fits), default=0.0) if fits else 0.0
    candidates = [
        candidate
        for number, candidate in enumerate(path.candidates())
        if candidate[1].ratio == 1 and (fits is None or fits[number].loglik > best - POSSIBLE_LOG_LIKELIHOOD)
    ]
    pool = walks.pool()
    expected = latencies_under(path, candidates, [walks.of_set.lines.numbers(pattern) for pattern in pool])
    noise = walks.probe.contrast.noise + MIN_RELATIVE_LAP_NOISE * path.costs.means[2]
    sigma = float((noise**2 + (LAP_DEVIATION * path.costs.contrast) ** 2) ** 0.5)
    most = FIRST_WALKS if fits is None else MORE_WALKS
    chosen = choose_laps([own.name for _, own in candidates], expected, sigma, most)
    return [pool[number] for number in chosen]


def _combined_policy(found: Finding, named: Finding, victims: tuple[float, ...], empty: bool, ways: int) -> dict[str, Finding]:
    """The policy by whole laps (`found`) and by single accesses (`named`), whose traces began in an empty cache or did not."""
    if found.status == "ok" and named.status == "ok" and found.value != named.value:
        reason = f"whole laps say {found.value}, single accesses say {named.value}"
        ids = tuple(dict.fromkeys((*found.evidence, *named.evidence)))
        return {"policy": Finding("policy", None, None, None, "", "inconsistent", found.method, ids, reason)}
    if named.value == "random" and ways > MAX_WAYS_OF_UNEVEN_VICTIMS:
        named = _without_value(named, f"equally and unequally likely victims are not distinguishable for {ways} ways")
    if named.value == "random" and not empty:
        named = _without_value(named, "equally and unequally likely victims are distinguishable only from an empty cache on")
    if named.status != "ok":
        return {"policy": found}
    chances = ", ".join(f"{v:.3f}" for v in victims)
    more = {"victim_probabilities": replace(named, name="victim_probabilities", value=chances)}
    return {"policy": named, **(more if victims else {})}


def _without_value(named: Finding, reason: str) -> Finding:
    """The finding without its value, for a reason."""
    return replace(named, value=None, status="undetermined", reason=reason)


def _policy_by_trace(probe: LevelProbe, of_set: SetOfLevel) -> Inquiry[tuple[Finding, tuple[float, ...], bool] | None]:
    """The policy and its victims from the latency of each access, and whether the traces began in an empty cache; None where
    there is no clock, or where it does not agree with the whole laps."""
    contrast, nearer, lines = probe.contrast, of_set.nearer, of_set.lines
    visits = max(1, min(8, of_set.unit // 8))
    walks = [lines.pattern("walk", of_set.ways + EXTRA_LINES, visits, seed) for seed in range(1, 1 + TRACED_WALKS)]
    record = TRACED_LAPS * len(lines.numbers(walks[0]))
    answers = yield from probe.asked.all([Probe(walk, probe.chase.space, "trace", 0, record) for walk in walks])
    if any(answer.latencies is None for answer in answers):
        return None
    means = yield from probe.asked.all([Probe(walk, probe.chase.space) for walk in walks])
    observations = []
    middle = (contrast.hit + contrast.miss) / 2
    for walk, answer, mean in zip(walks, answers, means, strict=True):
        if answer.latencies is None or mean.value is None:
            continue
        steady = float(answer.latencies[:, record // 2 :].mean())
        if abs(steady - mean.value) > MAX_TRACE_RELATIVE_DIFFERENCE * mean.value:
            continue  # a lap may be disturbed
        for row in answer.latencies[:1]:
            reached = [
                (line, bool(v < middle))
                for line, v in zip(lines.numbers(walk) * TRACED_LAPS, row, strict=True)
                if line >= 0 and v > (nearer + contrast.hit) / 2 * bool(nearer)
            ]
            observations.append(([line for line, _ in reached], [hit for _, hit in reached]))
    if len(observations) < MIN_BELIEVED_TRACES:
        return None
    empty = not any(flags[seen.index(line)] for seen, flags in observations for line in set(seen))
    return *policy_and_victims(of_set.ways, observations, probe.asked.cited()), empty
