"""Asking a device or a simulation: probes that are never asked twice, and the search for where a set of places overflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clmembench.model import Answer, Inquiry, Pattern, Probe, Space

SIGMAS = 4.0  # of a lap's own noise: what lies further off is another latency
CLEARLY = 4  # times the misses that may hide in the noise
LEAST_NOISE = 0.001  # relative, of one lap: no fewer are believed
HURRIED = 2  # the same out of patience
ORDERS = 4  # in which a lap is tried that gets no answer, or seems slow, until two of them agree on how slow
SAME = 0.5  # relative, of what is more than a hit: two orders agree
CALM = 0.5  # of what was timed of a lap: where no more agree, others use the core
PATIENCE = 60  # times in all: a run ends in its time on the most restless of hosts
HARDLY = 0.01  # a chance that is taken
OTHERS = 0.1  # of all laps
RESTLESS, HASTY = 10, 3  # times at most that what fits and what does not are looked at side by side; and out of patience
SLOW = 4.0  # times a hit: no disturbance lasts that adds so much


@dataclass(slots=True)
class Asked:
    """What was asked so far and what was answered: a probe is asked once. `evidence` collects whose answers were looked at
    since it was last cited. `patience`: how often more a restless core is looked at
    again; `disturbed`, of so many `laps`."""

    answers: dict[Probe, Answer] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    patience: int = PATIENCE
    laps: int = 0
    disturbed: int = 0

    @property
    def restless(self) -> bool:
        """Whether others use the core: of too many laps most of what was timed does not agree."""
        return self.disturbed > OTHERS * self.laps

    def all(self, probes: Sequence[Probe]) -> Inquiry[list[Answer]]:
        """The answers to these probes, in their order."""
        new = [probe for probe in dict.fromkeys(probes) if probe not in self.answers]
        if new:
            found = yield new
            self.answers.update(zip(new, found, strict=True))
            self.laps += len(new)
            self.disturbed += sum(answer.alone < CALM for answer in found)
        answers = [self.answers[probe] for probe in probes]
        self.evidence += [name for answer in answers for name in answer.evidence]
        return answers

    def one(self, probe: Probe) -> Inquiry[Answer]:
        """The answer to one probe."""
        (answer,) = yield from self.all([probe])
        return answer

    def cited(self, most: int = 8) -> tuple[str, ...]:
        """Whose answers were looked at since this was last asked, the latest last; at most so many."""
        names = tuple(dict.fromkeys(self.evidence))
        self.evidence.clear()
        return names[-most:]


@dataclass(frozen=True, slots=True)
class Chase:
    """How places are laid out and reached: the memory space, how far neighbours are moved within a page, in blocks of which
    size they are visited (0: in one random cycle), and the stride of a control: the same number of places so close together
    that the level looked at cannot matter, whose latency is subtracted (0: none)."""

    space: Space = "global"
    shift_bytes: int = 0
    block_bytes: int = 0
    control_bytes: int = 0

    def lap(self, count: int, stride_bytes: int, seed: int = 0) -> Probe:
        """One lap over so many places."""
        order = "blocks" if 0 < self.block_bytes < count * stride_bytes else "random"
        block = self.block_bytes if order == "blocks" else 0
        return Probe(Pattern(order, count, stride_bytes, self.shift_bytes, block, seed=seed), self.space)  # type: ignore[arg-type]

    def mean(self, asked: Asked, count: int, stride_bytes: int, seed: int = 0) -> Inquiry[float | None]:
        """The mean latency of an access, less that of the control; None where there is no answer."""
        return (yield from self.look(asked, count, stride_bytes, seed))[0]

    def look(self, asked: Asked, count: int, stride_bytes: int, seed: int = 0) -> Inquiry[tuple[float | None, bool]]:
        """The same, and whether most of what was timed agrees, as where nothing else uses the core."""
        probes = [self.lap(count, stride_bytes, seed)]
        if self.control_bytes:
            # one order of it will do: what disturbs it makes the difference less, not more
            probes.append(Probe(Pattern("random", count, self.control_bytes), self.space))
        answers = yield from asked.all(probes)
        values = [answer.value for answer in answers if answer.value is not None]
        calm = answers[0].alone >= CALM and not asked.restless
        return (None, calm) if len(values) < len(probes) else (values[0] - sum(values[1:]), calm)


@dataclass(frozen=True, slots=True)
class Contrast:
    """What a hit and a miss of one level cost (beyond the control), the noise of a lap's mean, and what translation may add
    to a hit where a set is larger than a TLB's reach; in the same unit."""

    hit: float
    miss: float
    noise: float
    extra: float = 0.0

    def limit(self, count: int) -> float:
        """The mean up to which so many places all hit: half of one miss a lap, or the noise where that is more."""
        return self.hit + self.extra + max(SIGMAS * self.noise, (self.miss - self.hit) / count / 2)

    def sharp(self, count: int) -> bool:
        """Whether a single miss a lap of so many places would be seen."""
        return (self.miss - self.hit) / count >= 2 * (SIGMAS * self.noise + self.extra)

    def misses(self, mean: float, count: int) -> float:
        """Misses in a lap of so many places and that mean."""
        return (mean - self.hit) / (self.miss - self.hit) * count


@dataclass(frozen=True, slots=True)
class Bound:
    """Where places stop to fit: `fits` of them do, `over` of them do not; None: not found within the limits. `misses` a lap
    were seen of `over`, and up to `hidden` would not have been seen of `fits`. `calm`: nothing else used the core."""

    fits: int
    over: int | None
    misses: float = 0.0
    hidden: float = 0.0
    calm: bool = True

    @property
    def sharp(self) -> bool:
        """Whether one place too many makes so many misses that fewer cannot have hidden before."""
        return self.over is not None and (self.hidden < 1 or self.misses >= CLEARLY * self.hidden)


def fits(asked: Asked, chase: Chase, contrast: Contrast, count: int, stride_bytes: int, first: int = 0) -> Inquiry[bool | None]:
    """Whether so many places are all found in the level, lap after lap. One random order is enough to say so: disturbances only
    add, and of more lines than there is room for at least one misses in every lap. None where there is no answer. `first`: the
    first order tried."""
    limit = contrast.limit(count)
    slow: list[float] = []
    for seed in range(first, first + (HURRIED if asked.restless and asked.patience <= 0 else ORDERS)):
        value, calm = yield from chase.look(asked, count, stride_bytes, seed)
        if value is None:
            continue
        if value <= limit:
            return True
        # misses are as many each time, disturbances are not; some latencies are too slow for one
        alike = calm and any(abs(value - other) <= SAME * (value - contrast.hit) for other in slow)
        if alike or (value - contrast.hit > 4 * (limit - contrast.hit) and value > SLOW * contrast.hit):
            return False
        slow.append(value)
    return False if slow else None


def bound(
    asked: Asked,
    chase: Chase,
    contrast: Contrast,
    stride_bytes: int,
    most: int,
    guesses: Sequence[int] = (),
    apart: float = 0.0,
) -> Inquiry[Bound]:
    """The largest number of places that fit, between 0 and `most`. Each of `guesses`, and what is just beyond it, is tried
    first; then the number is doubled from there until it does not fit, and the gap halved until the ends are one place or,
    relative to them, `apart` from each other. On a host that disturbs both ends are then looked at side by side."""
    low, over, seen, side, calm = 0, most + 1, False, ORDERS, True
    mean: float | None = None
    tries = [count for guess in guesses for count in (guess, guess + max(1, int(apart * guess)))]
    while True:
        tries = [count for count in tries if low < count < over]
        if tries:
            count = tries.pop(0)
        elif not seen and low < most:
            count = min(most, max(2, 2 * low), over - 1)
        elif over - low > max(1, apart * low):
            count = (low + over) // 2
        elif not seen:
            return Bound(low, None)
        elif not asked.restless:
            break
        else:
            # what disturbs a host may last for all orders of one number: only where fewer are fast beside it does it count
            mean, side, calm = yield from _beside(asked, chase, contrast, stride_bytes, low, over, side)
            more = over if mean is not None and mean <= contrast.limit(over) else None
            if more is None and asked.patience > 0:
                # what was likely deserves another look
                more = yield from _likely(asked, chase, contrast, stride_bytes, [g for g in guesses if low < g <= most], side)
            if more is None:
                break
            low, over, seen, mean = more, most + 1, False, None
            continue
        found = yield from fits(asked, chase, contrast, count, stride_bytes)
        if found is None:
            return Bound(low, None)
        if found:
            low = count
        else:
            over, seen = count, True
    if mean is None:
        mean = yield from chase.mean(asked, over, stride_bytes)
    misses = contrast.misses(mean, over) if mean is not None else 0.0
    hidden = contrast.misses(contrast.limit(low), low) if low and not contrast.sharp(low) else 0.0
    return Bound(low, over, misses, hidden, calm)


def _likely(
    asked: Asked, chase: Chase, contrast: Contrast, stride_bytes: int, guesses: Sequence[int], first: int
) -> Inquiry[int | None]:
    """The first of these numbers of places that fits now, in orders from `first` on."""
    for guess in guesses:
        if (yield from fits(asked, chase, contrast, guess, stride_bytes, first + RESTLESS)):
            return guess
    return None


def _beside(
    asked: Asked, chase: Chase, contrast: Contrast, stride_bytes: int, low: int, over: int, first: int
) -> Inquiry[tuple[float | None, int, bool]]:
    """The least mean of a lap of `over` places, taken where one of `low` places, just before, is all hits; or one that is
    itself; or, where the host never leaves them alone, of all. With it the next order that was not looked at, and whether the
    laps were calm: where not, many are looked at. Where there is no answer, as in a run that was stored before they were asked
    for, what was answered before counts."""
    slow: list[float] = []
    other: list[float] = []
    most = RESTLESS if asked.patience > 0 else HASTY
    for tries in range(1, most + 1):
        asked.patience -= tries > 1
        seed = first + tries - 1
        near = (yield from chase.mean(asked, low, stride_bytes, seed)) if low else 0.0
        far, calm = yield from chase.look(asked, over, stride_bytes, seed)
        if near is None or far is None:
            return (yield from chase.mean(asked, over, stride_bytes)), seed + 1, calm
        if far <= contrast.limit(over):
            return far, seed + 1, calm
        (slow if near <= contrast.limit(low) else other).append(far)
        # by how often fewer places were slow too, so many would hardly all have been if they fitted
        chance = ((len(other) + 1) / (tries + 2)) ** tries
        if slow and (calm or chance < HARDLY):
            return min(slow), seed + 1, calm
    return min(slow or other), first + most, False
