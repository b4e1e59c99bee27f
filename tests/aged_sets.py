"""One cache set under age-based policies, written apart from the inference, and the laps that it answers.

After Abel & Reineke 2020 (nanoBench), section VI.B, from the names of the variants alone: a hit promotes by Hxy, a line comes
in by Mm, Rr says which line goes, Uu how ages are raised, UMO that they are raised on misses only."""

from __future__ import annotations

import re

import numpy as np

from clmembench.model import Answer, Pattern, Probe
from clmembench.model.address_patterns import pattern_offsets

NAME = re.compile(r"QLRU_H(\d)(\d)_M(\d)_R(\d)_U(\d)(_UMO)?")


class QuadAgeSet:
    """Ways as pairs of a line and an age, `None` for an empty way's line."""

    def __init__(self, name, ways):
        found = NAME.fullmatch(name)
        self.from3, self.from2, self.new, self.victim, self.raising = (int(found[n]) for n in range(1, 6))
        self.on_miss = found[6] is not None
        self.held = [(None, 3)] * ways

    def access(self, line):
        for way, (own, age) in enumerate(self.held):
            if own == line:
                self.held[way] = (line, {3: self.from3, 2: self.from2}.get(age, 0))
                if not self.on_miss:
                    self.age(way)
                return True
        if self.on_miss:
            self.age(-1)
        way = self.going()
        self.held[way] = (line, self.new)
        if not self.on_miss:
            self.age(way)
        return False

    def going(self):
        empty = [way for way, (own, _) in enumerate(self.held) if own is None]
        if empty:
            return empty[-1] if self.victim == 2 else empty[0]
        oldest = [way for way, (_, age) in enumerate(self.held) if age == 3]
        return oldest[0] if oldest or self.victim != 1 else 0

    def age(self, at):
        ages = [age for _, age in self.held]
        if self.raising in (0, 1):
            counted = [age for way, age in enumerate(ages) if self.raising == 0 or way != at]
            step = 3 - max(counted)
        else:
            step = int(3 not in ages)
        spared = at if self.raising in (1, 3) else None
        self.held = [(own, age if way == spared else age + step) for way, (own, age) in enumerate(self.held)]


class HitAgedLines:
    """Lines with an age each, the last used at the end: a hit ages all others, a new line has an age, the first of the oldest
    goes."""

    def __init__(self, new, ways):
        self.new, self.ways = new, ways
        self.held: list[tuple[int, int]] = []

    def access(self, line):
        here = [own for own, _ in self.held]
        if line in here:
            self.held = [(own, age + 1) for own, age in self.held if own != line] + [(line, 0)]
            return True
        if len(here) == self.ways:
            oldest = max(age for _, age in self.held)
            self.held.remove(next(pair for pair in self.held if pair[1] == oldest))
        self.held.append((line, self.new))
        return False


class OneSet:
    """Answers laps over lines of one set, whatever the stride, by means of many laps; `clock`: and traces. `disturbed`: the
    share of laps that are slower by 5 to 50%. `apart`: by how much, relative, the misses of lines differ, as where some are
    farther away."""

    def __init__(self, make, way_bytes, hit, miss, noise, seed, disturbed=0.0, clock=False, apart=0.0):
        self.make, self.way_bytes, self.hit, self.miss = make, way_bytes, hit, miss
        self.noise, self.disturbed, self.rng = noise, disturbed, np.random.default_rng(seed)
        self.clock, self.apart = clock, apart

    def cost(self, line, hit):
        return self.hit if hit else self.miss * (1 + self.apart * ((line * 7) % 5 - 2) / 2)

    def trace(self, probe):
        lap, cache = (pattern_offsets(probe.pattern) // self.way_bytes).tolist(), self.make()
        seen = (lap * -(-(probe.skip + probe.record) // len(lap)))[: probe.skip + probe.record]
        costs = np.array([self.cost(line, cache.access(line)) for line in seen])[probe.skip :]
        rows = np.stack([costs * self.rng.normal(1, self.noise, costs.size) for _ in range(4)])
        return Answer(probe, latencies=rows, evidence=("set:2",))

    def answer(self, probe: Probe) -> Answer:
        if probe.mode != "lap":
            return self.trace(probe) if self.clock else Answer(probe, reason="no clock can be read inside a kernel")
        lap = (pattern_offsets(probe.pattern) // self.way_bytes).tolist()
        cache, laps = self.make(), max(8, 1500 // len(lap))
        for line in lap * laps:
            cache.access(line)
        mean = float(np.mean([self.cost(line, cache.access(line)) for line in lap * laps]))
        if self.rng.random() < self.disturbed:
            mean *= self.rng.uniform(1.05, 1.5)
        samples = mean * self.rng.normal(1, self.noise * 10**0.5, 10)
        value, half = float(samples.mean()), 2.262 * float(samples.std(ddof=1)) / 10**0.5
        return Answer(probe, value, value - half, value + half, evidence=("set:1",))


def walk(count: int, visits: int, seed: int) -> Pattern:
    return Pattern("walk", count, 64, 0, 0, visits, "", seed)
