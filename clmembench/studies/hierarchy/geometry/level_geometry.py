"""The geometry of one cache level, and the findings that confirm or contradict parts of it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from clmembench.model import Experiment, Finding
from clmembench.model.findings import inconsistent_finding, measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.reversed_laps import turn_round
from clmembench.studies.hierarchy.geometry.strides import SetGeometry
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.page_frames import at_place
from clmembench.studies.hierarchy.probes.probing import (
    MAX_DISTURBED_LINE_SHARE,
    CapacityBound,
    ChaseLayout,
    LevelProbe,
    ProbeSession,
)

SIZE_METHOD = "largest working set without misses"
LINE_METHOD = "places at odd strides"
SETS_METHOD = "places that fit at strides of powers of two"
ODD_METHOD = f"{SIZE_METHOD}; as many lines fit at odd strides"
USUAL_METHOD = f"{SIZE_METHOD}, a power of two, or three times one, to half a percent; most miss soon after"
UNKNOWN_UNIT, UNKNOWN_CAPACITY = UnitSize(None), CapacityBound(0, None)  # before they were looked for
# Thresholds
LOOSE_RELATIVE_BOUNDS = 0.005  # of a size that single lines cannot tell
MIN_AGREEING_STRIDES = 4  # on how many lines fit, before a size without known sets is believed
CLOSE_RELATIVE_BOUNDS = 0.02  # bounds of a size that are no further apart give one
CLOSE_BOUNDS_LINES = 2  # nor are bounds that are no more lines apart
MAX_OWN_LINES = 4  # of a first cache, that the kernel's own variables and notes take
LONGEST_USUAL_LINE_BYTES = 128  # of 67 simulated caches whose odd strides suit up to that many bytes all have such lines
USUAL_FACTORS, USUAL_DIFFERENCE = (1, 3), 0.004  # of sizes that most caches have, and how close misses begin
MAX_GONE_POWER_RATIO = 2.2  # times the size: where victims are drawn three quarters miss by then
MAX_GONE_THIRD_RATIO = 1.25  # of three times a power of two, where pages in random frames often begin to miss: 3/4 of one
MAX_GONE_SIZE_RATIO = 1.5  # three quarters miss by then, unless lines fall into sets by chance
PLACES, PLACES_OF_FIRST = (1, 2), (1, 2, 3, 4)  # of the buffer, besides the first; unequal sets overflow early at half of them
FITTING_SHARE, OVERFLOWING_SHARE = 0.985, 1.06  # of a size: working sets that surely fit it, and that surely do not
SHARES_OF_FIRST = (0.99, 1.015)  # the same of a first cache: one way more in every fourth of eight ways is 3% of its size
ORDERS = 3  # of a lap that should fit: a disturbance lengthens one
BEGINS_ELSEWHERE = "misses begin at a usual size, but not at other places of the buffer: page frames decide where"
UNEQUAL = "misses begin at other working sets at other places of the buffer, as in sets of unequal ways"
AGREEING_METHOD = "largest working set without misses; reversed laps hold as much"
POWER_METHOD = "reversed laps hold a number of bytes that is a power of two"
MAX_DIFFERENCE = 0.01  # between the two, relative: reversed laps hold all but half a percent
MAX_STEEP_GONE_RATIO = 1.6  # times the size: by then three quarters miss, unless lines fall into sets by chance
HELD_SHARE, MAX_HELD_DIFFERENCE = 0.996, 0.008  # of the capacity, that reversed laps hold, and how far it may be off


@dataclass(frozen=True, slots=True)
class LevelGeometry:
    """Measured geometry of one level: the unit `filled` by a miss, how many neighbouring places of `unit` bytes fit (`dense`),
    where three quarters miss, whether it is the `first` level of all, the `tag` unit, how many places fit at odd strides
    (`tags`), and the sets. `shared`: others may have taken some lines."""

    filled: UnitSize
    dense: CapacityBound
    unit: int
    gone_bytes: int
    first: bool
    tag: UnitSize = UNKNOWN_UNIT
    tags: CapacityBound = UNKNOWN_CAPACITY
    sets: SetGeometry | None = None
    shared: bool = False

    def line(self, evidence: tuple[str, ...]) -> Finding:
        """The bytes that a tag stands for. More than a miss brings in, and than lines usually have, is believed only where the
        sets confirm it: a hash, or pages in random frames, spread odd strides unevenly too, which makes lines seem longer."""
        usual = (self.tag.nbytes or 0) <= max(LONGEST_USUAL_LINE_BYTES, self.filled.nbytes or 0)
        first = self.first and self.filled.nbytes is not None and not self.is_uneven() and usual
        filled, short = self.tag.nbytes == self.filled.nbytes, (self.tag.nbytes or 0) <= LONGEST_USUAL_LINE_BYTES
        confirmed = (filled or short) if self.is_steep() else (filled and short)
        if first or self.agrees() or self.tag.nbytes is None or confirmed:
            return unit_finding("line_bytes", self.tag, LINE_METHOD, evidence)
        reason = f"{self.tag.nbytes} B suit the strides, but its sets, which would confirm it, are not known"
        return undetermined_finding("line_bytes", reason, LINE_METHOD, evidence, self.filled.nbytes)

    def is_steep(self) -> bool:
        """True if most accesses miss soon after the first do: lines fall evenly into sets, so that what fits is the size."""
        return self.gone_bytes <= MAX_GONE_SIZE_RATIO * self.bounds_bytes()[1]

    def is_uneven(self) -> bool:
        """True if more places fit at a doubled stride: neighbours fill the sets unevenly, and odd strides tell no unit."""
        counts = [count for _, count in self.sets.fitting] if self.sets is not None else []
        return any(after > (1 + CLOSE_RELATIVE_BOUNDS) * count + CLOSE_BOUNDS_LINES for count, after in pairwise(counts))

    def bounds_bytes(self) -> tuple[int, int]:
        """Bounds of the size in bytes: more than fits surely is over it, and what hid in the noise may be over it too; so may
        what others took that use the core."""
        fits, over = self.dense.fits, self.dense.over or self.dense.fits
        hidden = 0 if self.dense.sharp and not self.shared else int(self.dense.hidden)
        disturbed = 0 if self.dense.calm and not self.shared else int(MAX_DISTURBED_LINE_SHARE * over)
        return (fits - hidden) * self.unit, (max(over - 1, fits) + disturbed) * self.unit

    def agrees(self) -> bool:
        """True if sets times ways times line lies within the bounds of the size."""
        if self.sets is None or self.sets.ways is None or self.tag.nbytes is None:
            return False
        low, high = self.bounds_bytes()
        slack = (MAX_OWN_LINES if self.first else CLOSE_BOUNDS_LINES) * self.tag.nbytes
        return low - slack <= self.product_bytes() <= high + slack

    def product_bytes(self) -> int:
        """Sets times ways times line, in bytes."""
        assert self.sets is not None and self.sets.ways is not None and self.tag.nbytes is not None
        return self.sets.sets * self.sets.ways * self.tag.nbytes

    def size(self, evidence: tuple[str, ...]) -> Finding:
        """The capacity: the largest working set that fits, compared with sets times ways times line."""
        low, high = self.bounds_bytes()
        if self.sets is not None and self.sets.ways is not None and self.tag.nbytes is not None:
            product = self.product_bytes()
            ends = min(low, product), max(high, product)
            if self.agrees():
                return measured_finding("size_bytes", product, f"{SIZE_METHOD}; sets x ways x line agrees", evidence, *ends)
            reason = f"{SIZE_METHOD}: {low} to {high} B; sets x ways x line: {product} B"
            return inconsistent_finding("size_bytes", reason, *ends, SIZE_METHOD, evidence)
        if not self.dense.calm:
            reason = (
                "other programs use the core and take some of the lines, and no sets were found that would confirm the size"
            )
            # on a shared host those may hold most of the cache all the time: then what misses bounds the rest alone
            most = None if self.shared else self.gone_bytes
            return undetermined_finding("size_bytes", reason, SIZE_METHOD, evidence, low, most)
        if self.strides_agree():
            method = f"{SIZE_METHOD}; as many lines fit at four other strides"
            fits = max((self.dense.over or 0) - 1, self.dense.fits) * self.unit
            return measured_finding("size_bytes", fits, method, evidence, low, high)
        close = high - low <= max(CLOSE_RELATIVE_BOUNDS * high, CLOSE_BOUNDS_LINES * self.unit)
        if self.tags_agree() and close and (self.is_steep() or self.first):
            return measured_finding("size_bytes", high, ODD_METHOD, evidence, low, high)
        usual = self.usual_size()
        if (
            close
            and usual is not None
            and self.gone_bytes <= usual * (MAX_GONE_POWER_RATIO if usual & (usual - 1) == 0 else MAX_GONE_THIRD_RATIO)
        ):
            return measured_finding("size_bytes", usual, USUAL_METHOD, evidence, min(low, usual), max(high, usual))
        reason = "the size at which misses begin is only a lower bound: sets may be filled unevenly"
        # no upper bound: where sets are filled unevenly, most accesses may miss far below the size
        return undetermined_finding("size_bytes", reason, SIZE_METHOD, evidence, low)

    def usual_size(self) -> int | None:
        """The power of two, or three times one, at which misses begin; None where they begin elsewhere. Of caches that pages in
        random frames, or a hash, fill unevenly one in seventy begins to miss so close to a power of two by chance."""
        low, high = self.bounds_bytes()
        powers = (factor << k for factor in USUAL_FACTORS for k in range(40))
        found = [n for n in powers if low * (1 - USUAL_DIFFERENCE) <= n <= high * (1 + USUAL_DIFFERENCE)]
        return found[0] if len(found) == 1 else None

    def strides_agree(self) -> bool:
        """True if strides of powers of two, which a hash spreads as evenly as neighbours, all overflow at as many lines."""
        if self.sets is None or self.tag.nbytes is None or self.sets.bits or len(self.sets.fitting) < MIN_AGREEING_STRIDES:
            return False
        low, high = self.bounds_bytes()
        counts = [count * self.tag.nbytes for _, count in self.sets.fitting]
        slack = CLOSE_RELATIVE_BOUNDS / 2
        return all(low * (1 - slack) <= count <= high * (1 + slack) for count in counts)

    def tags_agree(self) -> bool:
        """True if odd strides, which lay lines into sets in another way, overflow at the same number of lines."""
        if self.tag.nbytes is None:
            return False
        low, high = self.bounds_bytes()
        return low * 0.98 <= self.tags.fits * self.tag.nbytes <= high * 1.02

    def sets_findings(self, evidence: tuple[str, ...]) -> dict[str, Finding]:
        """Ways, sets and bits of the set index."""
        if self.sets is None or self.sets.ways is None or not self.agrees():
            reason = self.sets.reason if self.sets is not None and self.sets.ways is None else ""
            if self.sets is not None and self.sets.ways is not None:
                reason = f"{self.sets.sets} sets of {self.sets.ways} ways make {self.product_bytes()} B, which is not the size"
            reason = reason or f"the line is unknown: {self.tag.reason}"
            return {name: undetermined_finding(name, reason, SETS_METHOD, evidence) for name in ("ways", "sets")}
        found = {
            "ways": measured_finding("ways", self.sets.ways, SETS_METHOD, evidence),
            "sets": measured_finding("sets", self.sets.sets, SETS_METHOD, evidence),
        }
        if self.sets.bits and self.sets.factor == 1 and self.bits_alone_choose():
            bits = ",".join(str(bit) for bit in self.sets.bits)
            found["set_bits"] = measured_finding("set_bits", bits, SETS_METHOD, evidence)
        elif self.sets.factor > 1:
            reason = f"the number of sets has a factor of {self.sets.factor}: no address bits alone choose one"
            found["set_bits"] = undetermined_finding("set_bits", reason, SETS_METHOD, evidence)
        elif self.sets.bits:
            reason = (
                f"if bits {self.sets.bits} alone chose the set, neighbours would not fill the cache: other bits are hashed in"
            )
            found["set_bits"] = undetermined_finding("set_bits", reason, SETS_METHOD, evidence)
        return found

    def bits_alone_choose(self) -> bool:
        """True if neighbouring lines, as many as fit, fill no set beyond its ways if these bits alone choose it."""
        assert self.sets is not None and self.sets.ways is not None and self.tag.nbytes is not None
        lines = self.product_bytes() // self.tag.nbytes
        held: dict[int, int] = {}
        for line in range(lines):
            number = sum((line * self.tag.nbytes >> bit & 1) << i for i, bit in enumerate(self.sets.bits))
            held[number] = held.get(number, 0) + 1
        return max(held.values()) <= self.sets.ways


def without_contradiction(findings: dict[str, Finding]) -> dict[str, Finding]:
    """The findings without a line that is shorter than what a miss brings in, and without what the same lines of a set tell:
    they may be of a set of a TLB."""
    line, sector = (findings[name].value for name in ("line_bytes", "sector_bytes"))
    if not isinstance(line, int | float) or not isinstance(sector, int | float) or line >= sector:
        return findings
    reason = f"a line of {line:.0f} B would be shorter than the {sector:.0f} B that a miss brings in"
    doubted = ("line_bytes", "ways", "sets", "policy")
    return {**findings, **{name: undetermined_finding(name, reason, findings[name].method) for name in doubted}}


def unit_finding(name: str, unit: UnitSize, method: str, evidence: tuple[str, ...]) -> Finding:
    """A unit as a finding by that name."""
    if unit.nbytes is None:
        return undetermined_finding(name, unit.reason, method, evidence)
    return measured_finding(name, unit.nbytes, method, evidence)


def with_size_elsewhere(probe: LevelProbe, unit: int, size: Finding, is_first: bool = False) -> Experiment[Finding]:
    """A size that rests on where misses begin, and on no sets, only where they do so at other places too: in other frames, or
    in sets of unequal ways, they would begin at another working set. Without an answer nothing speaks against it."""
    method = ODD_METHOD if is_first else USUAL_METHOD
    if size.method != method or not isinstance(size.value, int | float) or (is_first and probe.asked.shared):
        return size
    for number in PLACES_OF_FIRST if is_first else PLACES:
        for share in SHARES_OF_FIRST if is_first else (FITTING_SHARE, OVERFLOWING_SHARE):
            fits = yield from _fits(probe, unit, int(share * size.value) // unit, number)
            if fits is not None and fits != (share < 1):
                evidence = tuple(dict.fromkeys((*size.evidence, *probe.asked.cited())))
                why, least = UNEQUAL if is_first else BEGINS_ELSEWHERE, min(size.low or 0, size.value)
                return undetermined_finding("size_bytes", why, size.method, evidence, least)
    return size


def _fits(probe: LevelProbe, unit: int, count: int, number: int) -> Experiment[bool | None]:
    """True if so many neighbouring places all hit at another place of the buffer, in one order at least; None: no answer."""
    known = False
    for seed in range(ORDERS):
        answer = yield from probe.asked.one(at_place(probe.chase.lap(count, unit, seed), number))
        if answer.value is not None and answer.value <= probe.contrast.limit(count):
            return True
        known = known or answer.value is not None
    return False if known else None


def confirmed_size(
    asked: ProbeSession,
    chase: ChaseLayout,
    step: CurveStep,
    node: int,
    nearer: tuple[float, float],
    most_bytes: int,
    size: Finding,
    node_is_unit: bool = True,
) -> Experiment[Finding]:
    """A size of which only the largest working set that fits is known, if reversed laps hold as much, or a power of two.

    Both are at most the capacity: fewer lines fit where they fall unevenly into sets; after a turn LRU, FIFO and tree-PLRU hold
    all of it, NRU the share (w - 1) / w of w ways, and random victims leave hits in plain laps, which exclude them. That both
    lack the same part of the capacity would be chance. What NRU holds is no power of two, unless there are two ways, of which
    it holds all, or three or five, which no cache is known to have. Others that use the core take lines from both, so that the
    size may be larger. `nearer`: bytes and latency of the level before; `most_bytes`: the largest working set that does not
    reach the next level. `node_is_unit`: lines are known to be no shorter than the distance of places; else laps may leave out
    every other line and hold twice the size, which what fits must exclude.
    """
    low = size.low or 0.0
    if size.status != "undetermined" or not low:
        return size
    turned = yield from turn_round(asked, chase, step, node, nearer, most_bytes)
    held = turned.recent_bytes() if turned is not None and turned.excludes_random() else None
    if turned is None or held is None:
        return size
    evidence = tuple(dict.fromkeys((*size.evidence, *turned.evidence)))
    steep = step.gone_bytes <= MAX_STEEP_GONE_RATIO * low
    if steep and abs(held - low) <= MAX_DIFFERENCE * max(held, low):
        taken = MAX_DISTURBED_LINE_SHARE * max(low, held) if asked.shared else 0.0
        return measured_finding("size_bytes", max(low, held), AGREEING_METHOD, evidence, min(low, held), max(low, held) + taken)
    power = 2 ** round(math.log2(held / HELD_SHARE))
    if low <= power and (node_is_unit or 2 * low > power) and abs(held / HELD_SHARE - power) <= MAX_HELD_DIFFERENCE * power:
        return measured_finding("size_bytes", power, POWER_METHOD, evidence, min(power, held), max(power, held))
    return size


def dense_capacity(probe: LevelProbe, step: CurveStep, unit: int) -> Experiment[CapacityBound]:
    """How many neighbouring units just fit. A power of two between the curve's points is tried first: most caches are one."""
    low, over = step.fits_bytes // unit, -(-step.over_bytes // unit)
    powers = [p for p in (1 << k for k in range(40)) if low < p < over] + [3 << k for k in range(39) if low < 3 << k < over]
    sharp = probe.contrast.sharp(over)
    guesses = [low, *powers, over] if sharp else [low, over]
    return (yield from find_capacity(probe, unit, 2 * over, guesses, 0.0 if sharp else LOOSE_RELATIVE_BOUNDS))
