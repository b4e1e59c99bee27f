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


class OneSet:
    """Answers laps over lines of one set, whatever the stride, by means of many laps; without a clock. `disturbed`: the share
    of laps that are slower by 5 to 50%."""

    def __init__(self, make, way_bytes, hit, miss, noise, seed, disturbed=0.0):
        self.make, self.way_bytes, self.hit, self.miss = make, way_bytes, hit, miss
        self.noise, self.disturbed, self.rng = noise, disturbed, np.random.default_rng(seed)

    def answer(self, probe: Probe) -> Answer:
        if probe.mode != "lap":
            return Answer(probe, reason="no clock can be read inside a kernel")
        lap = (pattern_offsets(probe.pattern) // self.way_bytes).tolist()
        cache, laps = self.make(), max(8, 1500 // len(lap))
        for line in lap * laps:
            cache.access(line)
        misses = sum(not cache.access(line) for line in lap * laps)
        mean = self.hit + (self.miss - self.hit) * misses / (laps * len(lap))
        if self.rng.random() < self.disturbed:
            mean *= self.rng.uniform(1.05, 1.5)
        samples = mean * self.rng.normal(1, self.noise * 10**0.5, 10)
        value, half = float(samples.mean()), 2.262 * float(samples.std(ddof=1)) / 10**0.5
        return Answer(probe, value, value - half, value + half, evidence=("set:1",))


def walk(count: int, visits: int, seed: int) -> Pattern:
    return Pattern("walk", count, 64, 0, 0, visits, "", seed)
