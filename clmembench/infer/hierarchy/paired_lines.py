"""Whether the two halves of what a miss brings in are one line, or two, of which a prefetcher brings the other. Pure.

A prefetcher of pairs (Intel's L2 brings the other line of each aligned 128 B) looks like a line twice as long wherever lines
miss: each miss brings both, and both leave after as many others. But which halves a lap visits differs: a lap may visit both
halves of some units, or one half of twice as many. Of lines twice as long the latter takes twice the room, as much as both
halves of all of them. Of short ones it takes as little as the former, once the halves that nobody visits have left: those that
are visited several times a lap outlive them, and without misses no more are brought.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from clmembench.infer.findings import measured_finding, undetermined_finding
from clmembench.infer.hierarchy.fill_unit import UnitSize
from clmembench.infer.hierarchy.probing import LAP_NOISE_SIGMAS, LevelProbe
from clmembench.model import Finding, Inquiry, Pattern, Probe
from clmembench.model.address_patterns import NODE_BYTES

LINES_METHOD = "halves of what a miss brings in are evicted each by itself"
PAIR_METHOD = "pairs of accesses; lines that a miss brings in together, and that are evicted each by itself"
ONE_LINE = "its halves are evicted together"
NOT_MEASURED = "whether a prefetcher pairs shorter lines was not measured"
PAIRS = "a miss brings in {unit} B, which may be one line, or two of which a prefetcher brings the other"
FILLED_SHARE = 0.57  # of what the cache holds, by the halves that a lap visits; by whole units they would be 1.14
VISITS = 4  # of each half in a lap
SCALES = (1.0, 1.25, 1.5, 1.8, 2.2)  # times what surely fits, which of a cache with a soft end is less than all
MIN_HALF_BYTES = 32  # no device has shorter lines
ORDERS = 2  # of each lap, of which the faster counts: disturbances only add
# Thresholds
MIN_CONTRAST = 0.08  # of the accesses, that miss more of laps over whole units
MAX_APART_SHARE, MIN_TOGETHER_SHARE = 0.35, 0.65  # of the way from the lap that takes less room to the one that takes more

Halves = Literal["lines", "one", "open", "unasked"]  # lines of their own; of one line; not settled; without an answer


@dataclass(frozen=True, slots=True)
class LineUnit:
    """What a miss brings in, as far as it is one line's. `line_bytes`: the line, where it is known by that (0: not).
    `pair_bytes`: what a miss brings in with a prefetcher's help, of this or a nearer level (0: no such). `doubted_bytes`: a
    line so long would look like two with a prefetcher (0: none); `doubt` says why that is not settled, `note` what settles it,
    or that it was not measured."""

    filled: UnitSize
    line_bytes: int = 0
    pair_bytes: int = 0
    doubted_bytes: int = 0
    doubt: str = ""
    note: str = ""

    def noted(self, line: Finding) -> Finding:
        """A line that strides told, with what says that it is one, or that nothing does."""
        is_meant = line.status == "ok" and line.value == self.doubted_bytes
        return replace(line, method=f"{line.method}; {self.note}") if is_meant and self.note else line

    def pair_finding(self, evidence: tuple[str, ...]) -> dict[str, Finding]:
        """What a miss brings in, where that is two lines or more of this level."""
        if not self.line_bytes:
            return {}
        return {"pair_bytes": measured_finding("pair_bytes", self.pair_bytes, PAIR_METHOD, evidence)}


@dataclass(frozen=True, slots=True)
class HalvesLaps:
    """Mean latencies of laps over both halves of every third unit, over one half of two units of three, and over both halves of
    these."""

    few: float
    halves: float
    whole: float


def settle_line_unit(
    probe: LevelProbe, filled: UnitSize, fitting_bytes: int, most_bytes: int, nearer_pair_bytes: int
) -> Inquiry[LineUnit]:
    """What a miss brings in of one line. `fitting_bytes`: what surely fits. `nearer_pair_bytes`: what a nearer level's misses
    bring in with a prefetcher's help (0: no such), both halves of which this level sees each time."""
    unit = filled.nbytes or (2 * filled.least if filled.least >= MIN_HALF_BYTES else 0)
    why = PAIRS.format(unit=unit)
    if unit and unit == nearer_pair_bytes:
        return LineUnit(UnitSize(None, why, unit // 2), 0, unit, unit, why)
    if unit < 2 * MIN_HALF_BYTES or not fitting_bytes:
        return LineUnit(filled, 0, nearer_pair_bytes)
    halves = yield from _halves(probe, unit, fitting_bytes, most_bytes)
    if halves == "open":
        return LineUnit(UnitSize(None, why, unit // 2), 0, nearer_pair_bytes, unit, why)
    if halves != "lines":
        return LineUnit(filled, 0, nearer_pair_bytes, unit, note=ONE_LINE if halves == "one" else NOT_MEASURED)
    line = unit // 2
    while line >= 2 * MIN_HALF_BYTES and (yield from _halves(probe, line, fitting_bytes, most_bytes)) == "lines":
        line //= 2
    return LineUnit(UnitSize(line), line, unit)


def without_doubted_line(findings: dict[str, Finding], unit: LineUnit) -> dict[str, Finding]:
    """The findings with bounds of a line, and of the number of sets that follows from it, which may be two lines that a
    prefetcher brings together. So may every line under FIFO: the two come and go together too, whatever is visited."""
    line, why = unit.doubted_bytes, unit.doubt
    if findings["policy"].value == "FIFO" and line > 2 * MIN_HALF_BYTES and unit.note != NOT_MEASURED:
        why = f"{PAIRS.format(unit=line)}: under FIFO both come and go together"
    if not why or findings["line_bytes"].value != line:
        return findings
    doubted = dict(findings)
    for name in ("line_bytes", "sector_bytes", "sets", "set_bits"):
        found = findings.get(name)
        if found is not None and found.status == "ok":
            least = found.low if name == "sets" else line / 2 if name != "set_bits" else None
            doubted[name] = undetermined_finding(name, why, found.method, found.evidence, least, least and 2 * least)
    return doubted


def _halves(probe: LevelProbe, unit: int, fitting_bytes: int, most_bytes: int) -> Inquiry[Halves]:
    """Whether the halves of a unit are lines of their own."""
    contrast = probe.contrast
    least = max(MIN_CONTRAST * (contrast.miss - contrast.hit), 2 * LAP_NOISE_SIGMAS * contrast.noise * math.sqrt(2))
    for number, scale in enumerate(SCALES):
        count = max(2, int(FILLED_SHARE * scale * fitting_bytes) // unit)  # of three units in a row each
        if 3 * count * unit > most_bytes:
            return "open"
        laps = yield from _laps(probe, unit, count)
        if laps is None:
            return "open" if number else "unasked"
        if laps.whole - laps.few >= least:
            share = (laps.halves - laps.few) / (laps.whole - laps.few)
            return "lines" if share <= MAX_APART_SHARE else "one" if share >= MIN_TOGETHER_SHARE else "open"
    return "open"


def _laps(probe: LevelProbe, unit: int, count: int) -> Inquiry[HalvesLaps | None]:
    """The laps over so many times three units; None: no answer."""
    half, values = unit // 2, []
    for places in ((0, half), (0, 3 * half), (0, half, 2 * half, 3 * half)):
        starts = [place + NODE_BYTES * visit for place in places for visit in range(VISITS)]
        segments = ";".join(f"{start}:{3 * unit}:{count}:1" for start in starts)
        probes = [
            Probe(Pattern("random", len(starts) * count, segments=segments, seed=seed), probe.chase.space)
            for seed in range(ORDERS)
        ]
        answers = yield from probe.asked.all(probes)
        known = [answer.value for answer in answers if answer.value is not None]
        if len(known) < ORDERS:
            return None
        values.append(min(known))
    return HalvesLaps(*values)
