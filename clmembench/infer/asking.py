"""Asking a device or a simulation: probes that are never asked twice, and the search for where a set of places overflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clmembench.model import Answer, Inquiry, Pattern, Probe, Space

SIGMAS = 4.0  # of a lap's own noise: what lies further off is another latency
CLEARLY = 4  # times the misses that may hide in the noise
LEAST_NOISE = 0.001  # relative, of one lap: no fewer are believed
ORDERS = 4  # in which a lap is tried that gets no answer, or seems slow, until two of them agree on how slow
SAME = 0.5  # relative, of what is more than a hit: two orders agree
NOISY = 0.01  # relative, of a lap: what is seen of a number of places is doubted
SLOW = 4.0  # times a hit: no disturbance lasts that adds so much


@dataclass(slots=True)
class Asked:
    """What was asked so far and what was answered: a probe is asked once. `evidence` collects whose answers were looked at
    since it was last cited."""

    answers: dict[Probe, Answer] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)

    def all(self, probes: Sequence[Probe]) -> Inquiry[list[Answer]]:
        """The answers to these probes, in their order."""
        new = [probe for probe in dict.fromkeys(probes) if probe not in self.answers]
        if new:
            found = yield new
            self.answers.update(zip(new, found, strict=True))
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
        probes = [self.lap(count, stride_bytes, seed)]
        if self.control_bytes:
            probes.append(Probe(Pattern("random", count, self.control_bytes, seed=seed), self.space))
        answers = yield from asked.all(probes)
        values = [answer.value for answer in answers if answer.value is not None]
        return None if len(values) < len(probes) else values[0] - sum(values[1:])


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
    were seen of `over`, and up to `hidden` would not have been seen of `fits`."""

    fits: int
    over: int | None
    misses: float = 0.0
    hidden: float = 0.0

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
    for seed in range(first, first + ORDERS):
        value = yield from chase.mean(asked, count, stride_bytes, seed)
        if value is None:
            continue
        if value <= limit:
            return True
        # misses are as many each time, disturbances are not; some latencies are too slow for one
        alike = any(abs(value - other) <= SAME * (value - contrast.hit) for other in slow)
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
    doubts: int = 0,
) -> Inquiry[Bound]:
    """The largest number of places that fit, between 0 and `most`. Each of `guesses`, and what is just beyond it, is tried
    first; then the number is doubled from there until it does not fit, and the gap halved until the ends are one place or,
    relative to them, `apart` from each other. On a noisy host what does not fit is tried again so many times, `doubts`."""
    low, over, seen, doubted = 0, most + 1, False, 0
    tries = [count for guess in guesses for count in (guess, guess + max(1, int(apart * guess)))]
    while True:
        tries = [count for count in tries if low < count < over]
        if tries:
            count = tries.pop(0)
        elif not seen and low < most:
            count = min(most, max(2, 2 * low), over - 1)
        elif over - low > max(1, apart * low):
            count = (low + over) // 2
        elif seen and doubted < doubts and contrast.noise > NOISY * contrast.hit:
            # what disturbs a noisy host may last for all tries of one number: once more, now that time has passed
            count, doubted = over, doubted + 1
            if not (yield from fits(asked, chase, contrast, count, stride_bytes, doubted * ORDERS)):
                break
            low, over, seen = count, most + 1, False
            continue
        else:
            break
        found = yield from fits(asked, chase, contrast, count, stride_bytes)
        if found is None:
            return Bound(low, None)
        if found:
            low = count
        else:
            over, seen = count, True
    if not seen:
        return Bound(low, None)
    mean = yield from chase.mean(asked, over, stride_bytes)
    misses = contrast.misses(mean, over) if mean is not None else 0.0
    hidden = contrast.misses(contrast.limit(low), low) if low and not contrast.sharp(low) else 0.0
    return Bound(low, over, misses, hidden)
