"""The walks over one set: which are asked, what each cost, and what else its laps cost than hits and misses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clmembench.model import Experiment, Pattern, Probe
from clmembench.model.address_patterns import NODE_BYTES, listed
from clmembench.studies.hierarchy.probes.probing import MIN_RELATIVE_LAP_NOISE, LevelProbe
from clmembench.studies.hierarchy.replacement.policy_forms import age_forms, known_forms
from clmembench.studies.hierarchy.replacement.policy_rates import MeasuredLap, PathToSet, level_costs
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, NearerSet, SetOfLevel

# Thresholds and limits, each with its reason
MAX_VISITS = 4  # of each line in a lap: short laps differ most between policies, and no sector has room for fewer
POOL_ACCESSES = 20_000  # of the walks in all, times candidates, from among which those are chosen in which policies differ
MIN_POOL, MAX_POOL = 6, 48  # walks among which is chosen
PROTECTED_DIVISORS = (3, 4, 6)  # of the ways: so many lines of a stream are protected, which LRU surely keeps
CONTROL_ORDERS = 3  # of the walks where the level cannot matter
MAX_AGED_WAYS = 24  # sets of more ways, and TLBs, are not known to have any of the hundreds of age-based policies


@dataclass(slots=True)
class SetWalks:
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
        forms = tuple(form for form in known_forms(own.ways) if not own.policies or form.name in own.policies)
        if self.may_be_aged:
            forms = (*forms, *age_forms(established=not all_ages))
        return PathToSet(own.ways, forms, costs, before.ways, before.forms)

    def ask(self, patterns: Sequence[Pattern]) -> Experiment[int]:
        """Asks laps of these walks; how many got an answer."""
        chase, asked = self.probe.chase, self.probe.asked
        answers = yield from asked.all([Probe(pattern, chase.space) for pattern in patterns])
        less: list[float | None] = [0.0] * len(answers)
        if chase.control_bytes:
            less = yield from self._costs_of_controls(patterns)
        elif self.translated:
            base = self.of_set.nearer or self.probe.contrast.hit
            controls = [self.of_set.lines.control(pattern) for pattern in patterns]
            costs = yield from asked.all([Probe(control, chase.space) for control in controls])
            less = [None if a.value is None else max(0.0, a.value - base) for a in costs]
        known = [(p, a, c) for p, a, c in zip(patterns, answers, less, strict=True) if a.value is not None and c is not None]
        for pattern, answer, control in known:
            assert answer.value is not None
            spread = ((answer.high or answer.value) - (answer.low or answer.value)) / 3.92
            deviation = max(spread, MIN_RELATIVE_LAP_NOISE * answer.value)
            self.laps.append(MeasuredLap(self.of_set.lines.numbers(pattern), answer.value - control, deviation))
        return len(known)

    def _costs_of_controls(self, patterns: Sequence[Pattern]) -> Experiment[list[float | None]]:
        """What each of these walks costs where this level cannot matter: the least of a few of its kind, of which one may be
        disturbed, which only adds and would move all walks alike."""
        controls = [self._on_other_lines(pattern) for pattern in patterns]
        costs: dict[tuple[str, int], float | None] = {}
        for own in controls:
            kind = own.order, own.visits
            if kind in costs:
                continue
            alike = [one for one in controls if (one.order, one.visits) == kind]
            if own.order != "segments":  # whose seed says how many lines are protected
                alike = [replace(own, seed=own.seed + n) for n in range(CONTROL_ORDERS)]
            answers = yield from self.probe.asked.all([Probe(one, self.probe.chase.space) for one in alike])
            costs[kind] = min((answer.value for answer in answers if answer.value is not None), default=None)
        return [costs[own.order, own.visits] for own in controls]

    def _on_other_lines(self, pattern: Pattern) -> Pattern:
        """The same walk over lines that a TLB translates at once."""
        apart = self.probe.chase.control_bytes
        if pattern.order == "segments":
            return self.of_set.lines.stream(pattern.seed, self.of_set.ways, apart)
        if pattern.segments:
            beside = [number * apart for number in range(pattern.count)]
            return replace(pattern, stride_bytes=0, shift_bytes=0, segments=listed(beside))
        return replace(pattern, stride_bytes=apart, shift_bytes=0)

    def streams(self) -> list[Pattern]:
        """Laps that tell policies of recency from those of age: few and many lines are protected. None where they are more
        visits than a line has room for, where a nearer cache would serve them, or where translation is to be subtracted."""
        own, lines = self.of_set, self.of_set.lines
        if own.nearer or lines.filler or self.translated or (lines.own and len(lines.own) <= own.ways):
            return []
        shares = {own.ways // divisor for divisor in PROTECTED_DIVISORS} - {0}
        return [lines.stream(n, own.ways) for n in sorted(shares) if -(-(own.ways - n + 1) // n) <= own.unit // NODE_BYTES]

    def pool(self, candidates: int) -> list[Pattern]:
        """Further walks over one and two lines more than the ways, the fewer the more candidates are to be simulated."""
        lines, ways, most = self.of_set.lines, self.of_set.ways, self.visits
        count = POOL_ACCESSES // (candidates * (ways + len(lines.filler) + EXTRA_LINES))
        count = max(MIN_POOL, min(MAX_POOL, count))
        found = [] if self.seed else self.streams()
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

    @property
    def may_be_aged(self) -> bool:
        """True if age-based policies are candidates."""
        return 2 < self.of_set.ways <= MAX_AGED_WAYS and not self.probe.chase.control_bytes
