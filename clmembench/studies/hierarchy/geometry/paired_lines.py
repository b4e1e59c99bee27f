"""Lines: two halves or one, by what a prefetcher brings, and what lines of nearer caches tell of a sector. Pure.

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

from clmembench.model import CacheLevel, Experiment, Finding, Pattern, Probe
from clmembench.model.address_patterns import NODE_BYTES
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.geometry.level_geometry import LINE_METHOD
from clmembench.studies.hierarchy.geometry.strides import SetGeometry
from clmembench.studies.hierarchy.probes.fill_unit import BROUGHT_SOONER, OTHER_LINE_BYTES, UnitSize
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, LevelProbe

LINES_METHOD = "halves of what a miss brings in are evicted each by itself"
PAIR_METHOD = "pairs of accesses; lines that a miss brings in together, and that are evicted each by itself"
SOME_MISSES = "the second access of a pair neither hits nor misses: a prefetcher at some misses, or mixed levels"
PAIRED_SETS = (
    "{count} places {stride} B apart fit, of which each may bring in another one: of two sets, or of one twice as large"
)
ONE_LINE = "its halves are evicted together"
NOT_MEASURED = "whether a prefetcher pairs shorter lines was not measured"
PAIRS = "a miss brings in {unit} B, which may be one line, or two of which a prefetcher brings the other"
FILLED_SHARE = 0.57  # of what the cache holds, by the halves that a lap visits; by whole units they would be 1.14
VISITS = 4  # of each half in a lap
SURELY_FITTING_SHARE = 0.95  # of the units that fit: disturbances and the kernel's own lines take no more
SCALES = (1.0, 1.25, 1.5, 1.8, 2.2)  # times what surely fits, which of a cache with a soft end is less than all
MIN_HALF_BYTES = 32  # no device has shorter lines
ORDERS = 2  # of each lap, of which the faster counts: disturbances only add
# Thresholds
MIN_CONTRAST = 0.08  # of the accesses, that miss more of laps over whole units
MAX_APART_SHARE, MIN_TOGETHER_SHARE = 0.35, 0.65  # of the misses of laps over whole units, that laps over halves have more

# lines of their own; of one line; not settled; so at one number of lines and not at another; without an answer
Halves = Literal["lines", "one", "open", "mixed", "unasked"]
PAIRED_LINES = (
    "as many places at odd strides fit as of lines twice as long as the first cache's: tags may be of pairs, or a prefetcher "
    "brings pairs"
)
SECTOR_OF_NEARER_METHOD = "its line, as much as a miss of the nearer cache brings in"


@dataclass(frozen=True, slots=True)
class Paired:
    """What a level's misses bring in with a prefetcher's help, or may (0: no such), and its line."""

    pair_bytes: int = 0
    line_bytes: int = 0


UNPAIRED = Paired()


@dataclass(frozen=True, slots=True)
class LineUnit:
    """What a miss brings in, as far as it is one line's. `line_bytes`: the line, where it is known by that (0: not); then
    `pair_bytes` is what a miss brings in with a prefetcher's help, `at_some_misses` if not each time, or if another level is
    between. `doubted`: lines over the first and up to the second look like shorter ones with a prefetcher; `doubt` says why
    that is not settled, `note` what settles it, or that it was not measured. `brought_bytes`: the apparent
    fill unit of a doubted line."""

    filled: UnitSize
    line_bytes: int = 0
    pair_bytes: int = 0
    doubted: tuple[int, int] = (0, 0)
    doubt: str = ""
    note: str = ""
    at_some_misses: bool = False
    brought_bytes: int = 0

    def may_be_pairs(self, nearer_line: int | None) -> bool:
        """True if a miss brings in several lines, or may, as under FIFO. `nearer_line`: as of `without_doubted_line`."""
        unit = self.doubted[1]
        return bool(self.pair_bytes or self.doubt) or (unit > 2 * MIN_HALF_BYTES and nearer_line not in (None, unit))

    def noted(self, line: Finding) -> Finding:
        """A line that strides told, with what says that it is one, or that nothing does."""
        is_meant = line.status == "ok" and line.value == self.doubted[1]
        return replace(line, method=f"{line.method}; {self.note}") if is_meant and self.note else line

    def with_surely_held(self, size: Finding, apart_bytes: int) -> Finding:
        """The size with a lower bound that holds where the line is in doubt: places counted so far apart may each be one of the
        shortest lines, as in a single set, whatever else a miss brought in for a while."""
        shortest = self.doubted[0]
        if not self.doubt or size.status != "undetermined" or not size.low or shortest >= apart_bytes:
            return size
        return replace(size, low=size.low * shortest / apart_bytes)

    def pair_finding(self, evidence: tuple[str, ...]) -> dict[str, Finding]:
        """What a miss brings in, where that is lines of this level; where some misses alone seem to, at most that."""
        if not self.pair_bytes:
            return {}
        if self.filled.is_prefetched:
            found = undetermined_finding("pair_bytes", BROUGHT_SOONER, PAIR_METHOD, evidence, None, self.pair_bytes)
        elif self.at_some_misses:
            found = undetermined_finding("pair_bytes", SOME_MISSES, PAIR_METHOD, evidence, self.line_bytes, self.pair_bytes)
        else:
            found = measured_finding("pair_bytes", self.pair_bytes, PAIR_METHOD, evidence)
        return {"pair_bytes": found}


@dataclass(frozen=True, slots=True)
class HalvesLaps:
    """Mean latencies of laps over both halves of every third unit, over one half of two units of three, and over both halves of
    these."""

    few: float
    halves: float
    whole: float


def settle_line_unit(
    probe: LevelProbe, filled: UnitSize, fitting_bytes: int, most_bytes: int, nearer: Paired = UNPAIRED
) -> Experiment[LineUnit]:
    """What a miss brings in of one line. `fitting_bytes`: what surely fits. `nearer`: a nearer level whose misses bring in
    several lines, all of which this level sees each time."""
    unit = 2 * filled.beside or filled.nbytes or (2 * filled.least if filled.least >= MIN_HALF_BYTES else 0)
    why, paired = PAIRS.format(unit=unit), filled.is_prefetched or nearer.line_bytes < unit <= nearer.pair_bytes
    if nearer.pair_bytes and paired:
        why = why if unit else BROUGHT_SOONER
        doubted = nearer.line_bytes, max(OTHER_LINE_BYTES, nearer.pair_bytes)  # how far it brings lines at some misses is open
        return LineUnit(replace(filled, nbytes=None, reason=why), doubted=doubted, doubt=why, brought_bytes=unit)
    if filled.is_prefetched:
        return LineUnit(filled, pair_bytes=OTHER_LINE_BYTES)
    if unit < 2 * MIN_HALF_BYTES or not fitting_bytes:
        return LineUnit(filled)
    halves = yield from _halves(probe, unit, fitting_bytes, most_bytes)
    if halves == "one" and not (yield from _both_halves_fit(probe, unit, fitting_bytes)):
        halves = "open"
    if halves in ("open", "mixed") or (filled.beside and halves != "lines"):
        return LineUnit(UnitSize(None, why, unit // 2), doubted=(unit // 2, unit), doubt=why)
    if halves != "lines":
        return LineUnit(filled, doubted=(unit // 2, unit), note=ONE_LINE if halves == "one" else NOT_MEASURED)
    line = yield from shortest_line(probe, unit // 2, fitting_bytes, most_bytes)
    if line is None:
        return LineUnit(UnitSize(None, why), pair_bytes=unit, doubted=(MIN_HALF_BYTES // 2, unit), doubt=why)
    sector = filled.nbytes if filled.beside else line
    at_some = filled.nbytes is None or bool(filled.beside and filled.reason)
    return LineUnit(UnitSize(sector), line, unit, (line // 2, line), at_some_misses=at_some)


def shortest_line(probe: LevelProbe, line: int, fitting_bytes: int, most_bytes: int) -> Experiment[int | None]:
    """A line, or a half, or a half of that, whose halves are not lines; None where more lines say otherwise than fewer do."""
    while line >= 2 * MIN_HALF_BYTES:
        halves = yield from _halves(probe, line, fitting_bytes, most_bytes)
        if halves == "mixed":
            return None
        if halves != "lines":
            break
        line //= 2
    return line


def without_doubted_line(findings: dict[str, Finding], unit: LineUnit, nearer_line: int | None = None) -> dict[str, Finding]:
    """The findings with bounds of a line, and of the number of sets that follows from it, which may be several lines that a
    prefetcher brings together; of a single set the ways are as well. So may every line under FIFO, and where the policy is not
    known: two come and go together too, whatever is visited. `nearer_line`: as long lines of the level before say that these
    are lines too (0: not known; None: there is no such level)."""
    (least, most), why, line = unit.doubted, unit.doubt, findings["line_bytes"].value
    unknown = findings["policy"].status != "ok" and not unit.pair_bytes  # lines told apart by their evictions are no FIFO's
    may_be_fifo = unknown and nearer_line is not None and nearer_line != line
    is_asked = most > 2 * MIN_HALF_BYTES and unit.note != NOT_MEASURED
    if is_asked and (may_be_fifo or findings["policy"].value == "FIFO"):
        why = f"{PAIRS.format(unit=unit.brought_bytes or most)}: under FIFO both come and go together"
    if not why or not isinstance(line, int) or not least < line <= most:
        return findings
    doubted = dict(findings)
    # a line that is shorter than what a miss brings in contradicts it: neither bounds the line
    most_of_line, least_sets = (None, None) if line < unit.brought_bytes else (line, findings["sets"].low)
    ends = {"line_bytes": (None, most_of_line), "sector_bytes": (None, most_of_line), "sets": (least_sets, None)}
    if findings["sets"].value == 1:  # neighbours of one set, or of two
        ends["ways"] = (findings["ways"].low, None)
    for name in (*ends, "set_bits"):
        found = findings.get(name)
        if found is not None and found.status == "ok":
            doubted[name] = undetermined_finding(name, why, found.method, found.evidence, *ends.get(name, ()))
    return doubted


def without_sets_of_pairs(sets: SetGeometry, pair_bytes: int) -> SetGeometry:
    """The sets, without ways where lines of a set lie no further apart than those that a miss brings in together: half as many
    fit there since each brings in another one, of two sets as of one."""
    if sets.ways is None or not sets.bits or sets.way_bytes > pair_bytes:
        return sets
    return replace(sets, ways=None, reason=PAIRED_SETS.format(count=sets.ways, stride=sets.way_bytes))


def _halves(probe: LevelProbe, unit: int, fitting_bytes: int, most_bytes: int) -> Experiment[Halves]:
    """Whether the halves of a unit are lines of their own."""
    contrast, fewer = probe.contrast, set[Halves]()
    noise = 2 * LAP_NOISE_SIGMAS * contrast.noise * math.sqrt(2)
    least = max(MIN_CONTRAST * (contrast.miss - contrast.hit), noise)
    for number, scale in enumerate(SCALES):
        count = max(2, int(FILLED_SHARE * scale * fitting_bytes) // unit)  # of three units in a row each
        if 3 * count * unit > most_bytes:
            return "open"
        laps = yield from _laps(probe, unit, count)
        if laps is None:
            return "open" if number else "unasked"
        # a nearer cache serves as many accesses of few and of halves, and fewer of the whole: less than hits is no miss
        missed = laps.whole - max(laps.few, contrast.hit)
        if missed < noise:
            continue
        share = (laps.halves - laps.few) / missed
        halves: Halves = "lines" if share <= MAX_APART_SHARE else "one" if share >= MIN_TOGETHER_SHARE else "open"
        if missed >= least:
            return "mixed" if fewer - {halves, "open"} else halves
        fewer.add(halves)
    return "open"


def _both_halves_fit(probe: LevelProbe, unit: int, fitting_bytes: int) -> Experiment[bool]:
    """True if both halves of nearly as many units hit as were found to fit by one place of each; True without an answer. Where
    they do not, the halves are lines, of which those that nobody visits have left."""
    contrast, count, values = probe.contrast, max(1, int(SURELY_FITTING_SHARE * fitting_bytes) // unit), list[float]()
    for starts in ((0,), (0, unit // 2)):
        segments = ";".join(f"{start}:{unit}:{count}:1" for start in starts)
        probes = [
            Probe(Pattern("random", len(starts) * count, segments=segments, seed=seed), probe.chase.space)
            for seed in range(ORDERS)
        ]
        known = [answer.value for answer in (yield from probe.asked.all(probes)) if answer.value is not None]
        if not known:
            return True
        values.append(min(known))
    noise = 2 * LAP_NOISE_SIGMAS * contrast.noise * math.sqrt(2)
    return values[1] - max(values[0], contrast.hit) < max(MIN_CONTRAST * (contrast.miss - contrast.hit), noise)


def _laps(probe: LevelProbe, unit: int, count: int) -> Experiment[HalvesLaps | None]:
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


def without_paired_lines(level: CacheLevel, first: CacheLevel) -> CacheLevel:
    """The level of a CPU without a line longer than the first cache's that nothing but capacities at odd strides told, and
    without the sets that follow from it: a prefetcher that brings the other line of each pair looks the same."""
    line, shorter = level.findings["line_bytes"], number_of(first, "line_bytes")
    told = line.method in (LINE_METHOD, f"{LINE_METHOD}; {NOT_MEASURED}")
    if line.status != "ok" or not told or not shorter or number_of(level, "line_bytes") == shorter:
        return level
    findings = {**level.findings}
    for name in ("sets", "set_bits"):
        if name in findings:
            findings[name] = undetermined_finding(name, PAIRED_LINES, findings[name].method, findings[name].evidence)
    findings["line_bytes"] = undetermined_finding("line_bytes", PAIRED_LINES, line.method, line.evidence, shorter, line.high)
    return replace(level, findings=findings)


def with_sector_of_nearer(level: CacheLevel, nearer: CacheLevel) -> CacheLevel:
    """The level with its line as sector where the nearer level's misses bring in as much at once: pairs of accesses within it,
    which the nearer level serves, cannot tell."""
    sector, line, unit = level.findings["sector_bytes"], number_of(level, "line_bytes"), number_of(nearer, "sector_bytes")
    if sector.status != "undetermined" or not line or not unit or unit < line:
        return level
    evidence = (*level.findings["line_bytes"].evidence, *nearer.findings["sector_bytes"].evidence)
    found = measured_finding("sector_bytes", line, SECTOR_OF_NEARER_METHOD, evidence)
    return replace(level, findings={**level.findings, "sector_bytes": found})


def number_of(level: CacheLevel, name: str) -> int | None:
    """The whole number that a finding of a level has as value; None where it has none."""
    value = level.findings[name].value if name in level.findings else None
    return int(value) if isinstance(value, int | float) else None
