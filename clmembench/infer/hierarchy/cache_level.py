"""One level of the hierarchy put together: its geometry and policy as Findings, each with what supports it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clmembench.infer.findings import inconsistent, measured, undetermined
from clmembench.infer.hierarchy import random_pages, strides
from clmembench.infer.hierarchy.curve_findings import LevelLatency, latency_findings
from clmembench.infer.hierarchy.curve_steps import Step
from clmembench.infer.hierarchy.latency_curve import Curve, PlateauPoint, free_of_prefetching
from clmembench.infer.hierarchy.policy_probe import replaced
from clmembench.infer.hierarchy.probing import Asked, Bound, Chase, Contrast, bound, fits
from clmembench.infer.hierarchy.strides import Sets, Unit
from clmembench.model import CacheLevel, Finding, Inquiry

GEOMETRY = ("line_bytes", "sector_bytes", "ways", "sets", "policy")
PAGE = 4096  # bytes: the least page there is
STRIDES = 4  # strides that agree on how many lines fit
STEEP = 0.2  # of accesses: fewer misses a quarter beyond where they begin are a soft end
RAMP = 0.95  # of the way to a miss: what lies beyond tells nothing of a ramp
CLOSE = 0.02  # relative: bounds of a size that are no further apart give one
LAST_LINES = 2  # nor bounds that are no more lines apart
HIDDEN = 10  # times a hit: before a miss that costs more another level may hide
OWN_LINES = 4  # of a first cache, that the kernel's own variables and notes take
UNKNOWN = 32  # bytes that are taken to come in together where that is not known: no device brings in less
HELPED = "laps in blocks of two sizes take not as long as each other: a prefetcher brings some of the lines"
NUMBERLESS = "a step before it has no plateau: which level this is cannot be said"
RAMPED = 1.5  # times the size: where three quarters miss, lines do not fall into sets by chance
LOOSE = 0.005  # relative: bounds of a size that single lines cannot tell


@dataclass(frozen=True, slots=True)
class Around:
    """What else is known when a level is looked at: its number from 0, the relative noise of a lap, reach and entries of
    the nearest TLB, the largest working set that may be asked for, the longest unit that any level brings in, and a hit's
    latency in the level before this one (0: there is
    none), the length of a page (0: not known), and what a missing translation costs at most."""

    number: int
    noise: float
    reach_bytes: int
    entries: int
    most_bytes: int
    node_bytes: int
    nearer: float = 0.0
    page_bytes: int = 0
    penalty: float = 0.0


def cache_level(asked: Asked, chase: Chase, curve: Curve, around: Around) -> Inquiry[CacheLevel]:
    """Size, line, sector, ways, sets, policy and latency of a level that a curve's step leaves."""
    step = curve.steps[around.number]
    name, why = f"L{around.number + 1}", "no plateau is flat enough: other levels answer some accesses"
    method = "plateau of whole laps over growing working sets"
    sure = step.flat and (yield from _unhelped(asked, chase, step, around))
    reason = HELPED if step.flat else why
    plateau = curve.plateau(around.number)
    own = (
        LevelLatency(method, plateau, step.hit, step.hit_ns, noise=step.noise)
        if sure
        else LevelLatency(method, plateau, why=reason)
    )
    latencies = latency_findings(curve, own)
    # a block's pages are translated once each, for all their lines
    beyond = around.penalty * around.node_bytes / max(PAGE, around.page_bytes) if step.over_bytes > around.reach_bytes else 0.0
    contrast = Contrast(step.hit, step.miss, (step.noise or around.noise) * step.hit, beyond)
    if sure and not all(before.flat for before in curve.steps[: around.number]):
        sure, reason = False, NUMBERLESS
        bounded = LevelLatency(method, plateau, why=reason, least=step.hit, least_ns=step.hit_ns)
        latencies = latency_findings(curve, bounded)
    if not sure:
        bounds = undetermined("size_bytes", reason, method, plateau, step.fits_bytes, step.gone_bytes)
        none = {n: undetermined(n, reason) for n in GEOMETRY}
        return CacheLevel(name, chase.space, {"size_bytes": bounds, **none, **latencies})
    asked.cited()
    filled = yield from strides.fill_unit(asked, chase.space, contrast, step.gone_bytes, around.node_bytes)
    fill_from = asked.cited()
    least = filled.nbytes or min(max(UNKNOWN, filled.least), around.node_bytes)
    unit, dense = yield from _densest(asked, chase, contrast, step, least, around)
    dense_from = asked.cited()
    sector = _unit("sector_bytes", filled, "pairs of accesses", fill_from)
    if not dense.fits:
        why = "no working set was found that fits into it without misses"
        none = {n: undetermined(n, why) for n in ("size_bytes", "line_bytes", "ways", "sets", "policy")}
        return CacheLevel(name, chase.space, {**none, "sector_bytes": sector, **latencies})
    share = yield from _share(asked, chase, contrast, unit, dense)
    if share is not None and share < STEEP:
        return CacheLevel(name, chase.space, {**_soft(curve, around, dense.fits * unit), "sector_bytes": sector, **latencies})
    straight = replace(chase, block_bytes=0)
    nearer = around.nearer if chase.space == "global" else 0.0
    tag, tags = yield from strides.tag_unit(asked, chase, contrast, unit, dense, around.most_bytes)
    tag_from = asked.cited()
    sets: Sets | None = None
    if tag.nbytes is not None:
        count = dense.fits * unit // tag.nbytes
        sets = yield from strides.sets_and_ways(
            asked, straight, contrast, tag.nbytes, count, around.reach_bytes, around.entries, around.most_bytes, nearer
        )
    sets_from = asked.cited()
    known = Found(filled, dense, unit, tag, tags, sets, contrast, step.gone_bytes, around.number == 0)
    policy: Mapping[str, Finding] = {}
    following = curve.steps[around.number + 1 :]
    miss_known = following[0].flat if following else curve.memory is not None
    if sets is not None and sets.ways is not None and known.agrees() and miss_known:
        policy = yield from replaced(asked, straight, contrast, sets.ways, sets.way_bytes, unit, nearer)
    else:
        why = (
            "its sets are not known, so no set can be overflowed on purpose" if miss_known else "what a miss costs is not known"
        )
        policy = {"policy": undetermined("policy", why)}
    findings = {
        "size_bytes": known.size(dense_from),
        "line_bytes": known.line(tag_from),
        "sector_bytes": sector,
        **known.sets_findings(sets_from),
        **policy,
        **latencies,
    }
    return CacheLevel(name, chase.space, findings)


def _unhelped(asked: Asked, chase: Chase, step: Step, around: Around) -> Inquiry[bool]:
    """Whether no prefetcher makes the plateau what it is: looked at well before its end, which in a cache that pages fall into
    by chance is soft; at its end where there is no answer."""
    for size in (step.fits_bytes // 2, step.fits_bytes)[0 if around.number else 1 :]:
        point = PlateauPoint(size, around.node_bytes, step.hit, step.noise)
        told = yield from free_of_prefetching(asked, chase, point, around.reach_bytes)
        if told is not None:
            return told
    return False


def _share(asked: Asked, chase: Chase, contrast: Contrast, unit: int, dense: Bound) -> Inquiry[float | None]:
    """The share of misses a quarter beyond where they begin: most, where lines fall evenly into sets, whatever is replaced."""
    count = dense.fits * 5 // 4 + 1
    mean = yield from chase.mean(asked, count, unit)
    return None if mean is None else contrast.misses(mean, count) / count


def _soft(curve: Curve, around: Around, first: int) -> dict[str, Finding]:
    """A level whose misses begin early and grow slowly: pages fall into it by chance, or a hash decides."""
    step, why = (
        curve.steps[around.number],
        "lines fall into sets by chance, as physical pages or a hash do: no stride keeps to one set",
    )
    names = ("line_bytes", "ways", "sets", "policy")
    found = {name: undetermined(name, why) for name in names}
    ramp, evidence = None, curve.cited(step.fits_bytes, step.gone_bytes)
    if around.page_bytes and step.miss < HIDDEN * step.hit:
        points = [
            (size, (value - step.hit) / (step.miss - step.hit))
            for size, value in zip(curve.sizes, curve.values, strict=True)
            if step.fits_bytes <= size and value < step.hit + RAMP * (step.miss - step.hit)
        ]
        ramp = random_pages.fitted(points, around.page_bytes, first, 8 * first)
    method = "share of misses over growing working sets, as of pages in random frames"
    if ramp is None:
        reason = "misses begin there and grow slowly, not as they do of pages in random frames alone"
        size = undetermined("size_bytes", reason, method, evidence, first, step.gone_bytes)
    elif ramp.high - ramp.low > CLOSE * ramp.high:
        reason = f"the share of misses suits sizes from {ramp.low:.0f} to {ramp.high:.0f} B"
        size = undetermined("size_bytes", reason, method, evidence, ramp.low, ramp.high)
    else:
        size = measured("size_bytes", ramp.best, method, evidence, ramp.low, ramp.high)
    return {"size_bytes": size, **found}


def _densest(
    asked: Asked, chase: Chase, contrast: Contrast, step: Step, least: int, around: Around
) -> Inquiry[tuple[int, Bound]]:
    """The unit in which places are counted, and how many neighbouring ones just fit. Beyond the first level they are counted
    in whole lines of any level, since nodes are dear there, and only held against the least unit, what a miss brings in."""
    unit = least if around.number == 0 else around.node_bytes
    dense = yield from _dense(asked, chase, contrast, step, unit)
    if unit <= least or not dense.fits:
        return unit, dense
    # where lines are shorter and a hash spreads them, as many places as there are lines fit at any stride
    finer = replace(dense, fits=dense.fits * unit // least, over=dense.over and -(-dense.over * unit // least))
    if not (yield from fits(asked, chase, contrast, finer.fits, least)):
        finer = yield from _dense(asked, chase, contrast, step, least)
    return least, finer


def _dense(asked: Asked, chase: Chase, contrast: Contrast, step: Step, unit: int) -> Inquiry[Bound]:
    """How many neighbouring units just fit. A power of two between the curve's points is tried first: most caches are one."""
    low, over = step.fits_bytes // unit, -(-step.over_bytes // unit)
    powers = [p for p in (1 << k for k in range(40)) if low < p < over] + [3 << k for k in range(39) if low < 3 << k < over]
    guesses = [low, *powers, over] if contrast.sharp(over) else [low, over]
    apart = 0.0 if contrast.sharp(over) else LOOSE
    return (yield from bound(asked, chase, contrast, unit, 2 * over, guesses, apart))


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of one level's geometry."""

    filled: Unit
    dense: Bound
    unit: int
    tag: Unit
    tags: Bound
    sets: Sets | None
    contrast: Contrast
    gone_bytes: int
    first: bool  # level of all

    def line(self, evidence: tuple[str, ...]) -> Finding:
        """What a tag stands for. Beyond the first level more than what a miss brings in is believed only where the sets confirm
        it: a hash, or pages in random frames, spread odd strides unevenly too."""
        method = "places at odd strides"
        first = self.first and self.filled.nbytes is not None
        if first or self.agrees() or self.tag.nbytes is None or self.tag.nbytes == self.filled.nbytes:
            return _unit("line_bytes", self.tag, method, evidence)
        reason = f"{self.tag.nbytes} B suit the strides, but its sets, which would confirm it, are not known"
        return undetermined("line_bytes", reason, method, evidence, self.filled.nbytes)

    def least_and_most(self) -> tuple[int, int]:
        """Bounds of the size in bytes: more than fits surely is over it, and what hid in the noise may be over it too; so may
        what others took that use the core."""
        fits, over = self.dense.fits, self.dense.over or self.dense.fits
        hidden = 0 if self.dense.sharp else int(self.dense.hidden)
        taken = 0 if self.dense.calm else int(strides.TAKEN * over)
        return (fits - hidden) * self.unit, (max(over - 1, fits) + taken) * self.unit

    def agrees(self) -> bool:
        """Whether sets times ways times line lies within the bounds of the size."""
        if self.sets is None or self.sets.ways is None or self.tag.nbytes is None:
            return False
        low, high = self.least_and_most()
        slack = (OWN_LINES if self.first else LAST_LINES) * self.tag.nbytes
        return low - slack <= self.geometric() <= high + slack

    def geometric(self) -> int:
        """Sets times ways times line, in bytes."""
        assert self.sets is not None and self.sets.ways is not None and self.tag.nbytes is not None
        return self.sets.sets * self.sets.ways * self.tag.nbytes

    def size(self, evidence: tuple[str, ...]) -> Finding:
        """The capacity: what just fits, held against sets times ways times line."""
        low, high = self.least_and_most()
        method = "largest working set without misses"
        if self.sets is not None and self.sets.ways is not None and self.tag.nbytes is not None:
            product = self.geometric()
            if self.agrees():
                agreed = f"{method}; sets x ways x line agrees"
                return measured("size_bytes", product, agreed, evidence, min(low, product), max(high, product))
            reason = f"{method}: {low} to {high} B; sets x ways x line: {product} B"
            return inconsistent("size_bytes", reason, min(low, product), max(high, product), method, evidence)
        if not self.dense.calm:
            reason = "others use the core, and what lines they take is not the level's whole size: its sets were not found"
            return undetermined("size_bytes", reason, method, evidence, low, self.gone_bytes)
        if self.strides_agree():
            return measured("size_bytes", high, f"{method}; as many lines fit at four other strides", evidence, low, high)
        steep = self.gone_bytes <= RAMPED * high
        if self.tags_agree() and high - low <= max(CLOSE * high, LAST_LINES * self.unit) and (steep or self.first):
            return measured("size_bytes", high, f"{method}; as many lines fit at odd strides", evidence, low, high)
        reason = "where misses begin is a lower bound only: lines may fall unevenly into sets"
        return undetermined("size_bytes", reason, method, evidence, low, self.gone_bytes)

    def strides_agree(self) -> bool:
        """Whether strides of powers of two, which a hash spreads as evenly as neighbours, all overflow at as many lines."""
        if self.sets is None or self.tag.nbytes is None or self.sets.bits or len(self.sets.fitting) < STRIDES:
            return False
        low, high = self.least_and_most()
        counts = [count * self.tag.nbytes for _, count in self.sets.fitting]
        return all(low * (1 - CLOSE / 2) <= count <= high * (1 + CLOSE / 2) for count in counts)

    def tags_agree(self) -> bool:
        """Whether odd strides, which lay lines into sets in another way, overflow at the same number of lines."""
        if self.tag.nbytes is None:
            return False
        low, high = self.least_and_most()
        return low * 0.98 <= self.tags.fits * self.tag.nbytes <= high * 1.02

    def sets_findings(self, evidence: tuple[str, ...]) -> dict[str, Finding]:
        """Ways, sets and bits of the set index."""
        method = "places that fit at strides of powers of two"
        if self.sets is None or self.sets.ways is None or not self.agrees():
            reason = self.sets.reason if self.sets is not None and self.sets.ways is None else ""
            if self.sets is not None and self.sets.ways is not None:
                reason = f"{self.sets.sets} sets of {self.sets.ways} ways make {self.geometric()} B, which is not the size"
            reason = reason or f"the line is not known: {self.tag.reason}"
            return {name: undetermined(name, reason, method, evidence) for name in ("ways", "sets")}
        found = {
            "ways": measured("ways", self.sets.ways, method, evidence),
            "sets": measured("sets", self.sets.sets, method, evidence),
        }
        if self.sets.bits and self.sets.factor == 1 and self.plain():
            bits = ",".join(str(bit) for bit in self.sets.bits)
            found["set_bits"] = measured("set_bits", bits, method, evidence)
        elif self.sets.factor > 1:
            reason = f"the number of sets has a factor of {self.sets.factor}: no address bits alone choose one"
            found["set_bits"] = undetermined("set_bits", reason, method, evidence)
        elif self.sets.bits:
            reason = f"if bits {self.sets.bits} alone chose the set, neighbours would not fill the cache: others are hashed in"
            found["set_bits"] = undetermined("set_bits", reason, method, evidence)
        return found

    def plain(self) -> bool:
        """Whether neighbouring lines, as many as fit, fill no set beyond its ways if these bits alone choose it."""
        assert self.sets is not None and self.sets.ways is not None and self.tag.nbytes is not None
        lines = self.geometric() // self.tag.nbytes
        held: dict[int, int] = {}
        for line in range(lines):
            number = sum((line * self.tag.nbytes >> bit & 1) << i for i, bit in enumerate(self.sets.bits))
            held[number] = held.get(number, 0) + 1
        return max(held.values()) <= self.sets.ways


def _unit(name: str, unit: Unit, method: str, evidence: tuple[str, ...]) -> Finding:
    if unit.nbytes is None:
        return undetermined(name, unit.reason, method, evidence)
    return measured(name, unit.nbytes, method, evidence)
