"""Global latency patterns P1 to P6: hit or miss in data cache, TLBs and page-table context, in one chase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clmembench import stats
from clmembench.model import Answer, Array, CacheLevel, Finding, Hierarchy, Inquiry, Pattern, Probe, Space
from clmembench.patterns import NODE_BYTES

NAMES = ("P1", "P2", "P3", "P4", "P5", "P6")
METHOD = "non-uniform strides, access by access"
SOURCE_PAGE = 2 << 20  # where a page's size is not known: spacings that are multiples of every usual size
FAR_BYTES = 64 << 20  # eighth of the 512 MiB that Kepler's page-table context spans
FAR_MOST = 48
LEAST_FAR = 8
MISSES = 8  # rounds of new lines in pages that the L1 TLB holds
P4_PAGES = 4
P1_LINES = 8
SWEPT = (8, 16, 32, 64, 128, 256, 512)  # pages gone round where a reach is not known
FILLED = 0.8  # of the data cache's lines that may be in use: more would not all hit
SAME = 0.03  # latencies that differ by less are one
TYPICAL, SHARE = 0.10, 0.6  # most accesses of a pattern lie that close to their median
STEP = 0.2  # of a latency that the clock's step may be
LONGER = 1.08  # an access to a far page that takes longer than most may be a change of page-table context


@dataclass(frozen=True, slots=True)
class Known:
    """What a hierarchy is known to be: bytes of the data cache nearest to the core, of its lines and sectors, of a page, and
    how many pages each TLB holds; None where that is not known."""

    line_bytes: int = 128
    sector_bytes: int = 32
    cache_bytes: int | None = None
    page_bytes: int | None = None
    near_pages: int | None = None  # of the L1 TLB
    all_pages: int | None = None  # of the L2 TLB


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of the trace: accesses `first` to `first + count` go through `pages` pages to do what `role` says: far, touch
    (new pages), P4, lap (pages gone round again) or P1; those of `counted`, by their number in the trace, are looked at."""

    role: str
    pages: int
    first: int
    count: int
    counted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One trace that meets the patterns, its stages, and why a pattern cannot be met."""

    probe: Probe
    stages: tuple[Stage, ...]
    known: Known
    unmet: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Latency:
    """One pattern's latency in cycles and in ns, and the accesses of the trace (from 0) that met it."""

    cycles: Finding
    ns: Finding
    accesses: tuple[int, ...] = ()


def known(hierarchy: Hierarchy, space: Space = "global") -> Known:
    """What the inference was sure of, of the level nearest to the core and of the TLBs."""
    levels = (level for level in hierarchy.levels if level.space == space and level.name != "DRAM")
    cache = next(levels, CacheLevel("", space, {}))
    tlbs = [level.findings for level in hierarchy.tlb]
    line = _number(cache.findings, "line_bytes") or Known().line_bytes
    return Known(
        line_bytes=line,
        sector_bytes=_number(cache.findings, "sector_bytes") or min(line, Known().sector_bytes),
        cache_bytes=_number(cache.findings, "size_bytes"),
        page_bytes=next((n for f in tlbs if (n := _number(f, "page_bytes"))), None),
        near_pages=_number(tlbs[0], "entries") if tlbs else None,
        all_pages=_number(tlbs[1], "entries") if len(tlbs) > 1 else None,
    )


def inquire(
    known: Known, ghz: float | None = None, space: Space = "global", most_bytes: int = 4 << 30
) -> Inquiry[Mapping[str, Latency]]:
    """Asks for one cold trace that meets all patterns there are, and reads it. `most_bytes` is what it may span; `ghz` the
    core's clock, to tell ns where latencies are in cycles, and cycles where they are in ns."""
    asked = experiment(known, space, most_bytes)
    (answer,) = yield [asked.probe]
    return read(asked, answer, ghz)


def as_findings(found: Mapping[str, Latency]) -> Mapping[str, Finding]:
    """As a Hierarchy keeps them: P1 to P6 in cycles, and P1_ns to P6_ns."""
    return {name: f.cycles for name, f in found.items()} | {f"{name}_ns": f.ns for name, f in found.items()}


def experiment(known: Known, space: Space = "global", most_bytes: int = 4 << 30) -> Experiment:
    """The trace, after Mei & Chu 2015, section 5.2 and figure 13.

    Far pages first, 64 MiB apart (P5, and P6 where one in so many takes longer); then new lines of a few pages that have just
    been used (P4); then pages gone round, a line each: more than the L1 TLB and fewer than the L2 TLB holds (P2), more than
    either (P3), the first round warming the cache; at last one line again and again (P1). Pages lie a page and a line apart,
    so that their lines do not meet in one cache set. Without a TLB's reach several numbers of pages are gone round.
    """
    page, line = known.page_bytes or SOURCE_PAGE, known.line_bytes
    spacing = page + line
    rounds, unmet = _rounds(known)
    visits = max(1, min(3, known.sector_bytes // NODE_BYTES - 1))  # a visit lies 8 B behind the last, within the sector
    new = _up(max(rounds, default=0) * spacing + page, page)  # where P4's pages begin
    gap = _gap(page, line)
    again = _up(new + P4_PAGES * spacing + page, page)
    end = again + page
    far = _up(end, FAR_BYTES)
    count = min(FAR_MOST, max(0, (most_bytes - far) // (FAR_BYTES + line)))
    parts: list[tuple[str, int, str, int, int]] = []  # role, pages, segment, accesses, of them not counted
    if count >= LEAST_FAR:
        parts.append(("far", count, f"{far}:{FAR_BYTES + line}:{count}:1", count, 1))
    parts.append(("touch", P4_PAGES, f"{new}:{spacing}:{P4_PAGES}:1", P4_PAGES, 0 if count < LEAST_FAR else P4_PAGES))
    parts += [("P4", P4_PAGES, f"{new + n * gap}:{spacing}:{P4_PAGES}:1", P4_PAGES, 0) for n in range(1, MISSES + 1)]
    for number, pages in enumerate(rounds):
        parts.append(("lap", pages, f"{3 * number * line}:{spacing}:{pages}:{1 + visits}", pages * (1 + visits), pages))
    nodes = known.sector_bytes // NODE_BYTES
    parts += [("P1", 1, f"{again + 2 * n * line}:{NODE_BYTES}:{nodes}:1", nodes, 1) for n in range(P1_LINES)]
    stages, at = [], 0
    for role, pages, _, accesses, warm in parts:
        stages.append(Stage(role, pages, at, accesses, tuple(range(at + warm, at + accesses))))
        at += accesses
    probe = Probe(Pattern("segments", segments=";".join(p[2] for p in parts)), space, "trace", 0, at, cold=True)
    return Experiment(probe, tuple(stages), known, unmet)


def read(asked: Experiment, answer: Answer, ghz: float | None = None) -> Mapping[str, Latency]:
    """Each pattern's latency, with 95% interval over its accesses, from a trace's latencies.

    A pattern that the device does not have is undetermined with a reason that begins `not present`; so is one that could not
    be met, and one whose accesses do not agree.
    """
    if answer.latencies is None:
        why = answer.reason or "no latencies of single accesses"
        return {name: _told(_Found(why=why), name, answer, ghz) for name in NAMES}
    latencies = np.median(answer.latencies, axis=0)  # over repeats: what disturbs one is not in the others
    cut = _Reader(latencies, _clock_step(answer.latencies))
    hit = cut.of(_accesses(asked, "P1"))
    far = _accesses(asked, "far")
    laps = [(s.pages, cut.of(s.counted)) for s in asked.stages if s.role == "lap"]
    second, third = _tlb_misses(asked, hit, laps)
    miss = cut.of(_accesses(asked, "P4"))
    if miss.sure and hit.sure and miss.value < hit.value * (1 + 5 * SAME):
        miss = _Found(why="lines that were not used before take no longer: the caches were not empty")
    walk, context = _far(cut, far, asked) if far else (cut.of(_accesses(asked, "touch")), _Found(why="the array is too small"))
    if walk.sure and miss.sure and walk.high < miss.low:
        walk = replace(walk, why="new pages take less time than new lines of used ones", value=np.nan)
    elif walk.sure and miss.sure and walk.value < miss.value * (1 + SAME):
        walk = _Found(why="not present: a new page takes no longer than a new line, so translation costs nothing here")
    found = dict(zip(NAMES, (hit, second, third, miss, walk, context), strict=True))
    return {name: _told(f, name, answer, ghz) for name, f in found.items()}


@dataclass(frozen=True, slots=True)
class _Found:
    """A latency in the answer's unit with its interval, NaN where there is none for the reason `why`."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    accesses: tuple[int, ...] = ()
    why: str = ""

    @property
    def sure(self) -> bool:
        return bool(np.isfinite(self.value))

    def above(self, other: _Found) -> bool:
        """Whether this is a longer latency for certain."""
        return self.low > other.high and self.value > other.value * (1 + SAME)

    def like(self, other: _Found) -> bool:
        return abs(self.value - other.value) <= SAME * other.value


@dataclass(frozen=True, slots=True)
class _Reader:
    """Latencies of a trace, and by how much the clock they were read from steps."""

    latencies: Array
    clock_step: float

    def of(self, accesses: Sequence[int]) -> _Found:
        """The latency of accesses that should be alike."""
        values = self.latencies[list(accesses)]
        if not len(values):
            return _Found(why="the trace has no such access")
        summary = stats.summarise(values.tolist())
        spread = max(TYPICAL * summary.median, 3.0)
        close = np.abs(values - summary.median) <= spread
        if self.clock_step > STEP * summary.median:
            return _Found(why=f"the clock inside the kernel steps by {self.clock_step:g}, too much to tell a latency")
        if close.mean() < SHARE:
            return _Found(why=f"only {close.mean():.0%} of its {len(values)} accesses lie within 10% of their median")
        half = self.clock_step / 2
        return _Found(summary.median, summary.low - half, summary.high + half, tuple(accesses))


def _tlb_misses(asked: Experiment, hit: _Found, laps: Sequence[tuple[int, _Found]]) -> tuple[_Found, _Found]:
    """P2 and P3: of the numbers of pages gone round, those beyond the L1 TLB and those beyond the L2 TLB as well."""
    known = asked.known
    if not hit.sure:
        return _Found(why="a hit's latency is not known"), _Found(why="a hit's latency is not known")
    if known.near_pages is None or known.all_pages is None:
        return _swept(asked, hit, laps)
    by = {"P2": [f for n, f in laps if n <= known.all_pages], "P3": [f for n, f in laps if n > known.all_pages]}
    found: dict[str, _Found] = {}
    below = hit
    for name, tlb in (("P2", "L1"), ("P3", "L2")):
        if name in asked.unmet or not by[name]:
            found[name] = _Found(why=asked.unmet.get(name, "the trace has no such access"))
            continue
        this = by[name][0]
        if this.sure and this.like(below) and not this.above(below):
            this = _Found(why=f"not present: a miss of the {tlb} TLB costs nothing while the data cache hits")
        elif this.sure and not this.above(below):
            this = _Found(why="its latency cannot be told from that of the pattern before it")
        below = this if this.sure else below
        found[name] = this
    return found["P2"], found["P3"]


def _swept(asked: Experiment, hit: _Found, laps: Sequence[tuple[int, _Found]]) -> tuple[_Found, _Found]:
    """P2 and P3 where a reach is not known: the plateaus that latency climbs to as more pages are gone round."""
    pages = max((n for n, _ in laps), default=0)
    if not pages:
        why = asked.unmet.get("P2", "the trace has no such access")
        return _Found(why=why), _Found(why=why)
    plateaus: list[list[_Found]] = [[]]
    for _, lap in laps:
        if not lap.sure:
            continue
        below = plateaus[-1][-1] if plateaus[-1] else hit
        if lap.like(below):
            plateaus[-1].append(lap)
        else:
            plateaus.append([lap])
    levels = [p for p in plateaus if p and not p[0].like(hit)]
    if not levels:
        why = f"not present up to {pages} pages: going round them costs no more than a hit"
        return _Found(why=why), _Found(why=why)
    if len(levels) == 2 and len(levels[0]) > 1 and levels[1][0].above(levels[0][-1]):
        return levels[0][0], levels[1][-1]
    why = (
        f"the TLBs' reaches are not known, and up to {pages} pages latency does not climb to two plateaus that could be theirs"
    )
    return _Found(why=why), _Found(why=why)


def _far(cut: _Reader, far: Sequence[int], asked: Experiment) -> tuple[_Found, _Found]:
    """P5 and P6 among first accesses to far pages: most of them, and those that at regular distances take longer."""
    values = cut.latencies[list(far)]
    longer = values > LONGER * np.median(values)
    usual = cut.of([n for n, slow in zip(far, longer, strict=True) if not slow])
    spanned = len(far) * FAR_BYTES >> 20
    if not longer.any():
        return usual, _Found(
            why=f"not present: of {len(far)} first accesses over {spanned} MiB none takes longer than the others"
        )
    places = np.flatnonzero(longer)
    gaps = np.diff(places)
    if len(places) < 2 or gaps.min() < 2 or (gaps % gaps.min()).any():
        why = f"{len(places)} of {len(far)} first accesses over {spanned} MiB take longer, at no regular distance"
        return usual, _Found(why=why)
    return usual, cut.of([n for n, slow in zip(far, longer, strict=True) if slow])


def _rounds(known: Known) -> tuple[list[int], dict[str, str]]:
    """How many pages to go round, and which patterns cannot be met that way and why."""
    most = int(FILLED * known.cache_bytes / known.line_bytes) if known.cache_bytes else SWEPT[-1]
    near, every = known.near_pages, known.all_pages
    if near is None or every is None:
        least = next((n for n in SWEPT if n > (near or 0)), SWEPT[-1])
        swept = [n for n in SWEPT if least // 4 <= n <= most // 2]
        return swept, {} if swept else {"P2": f"{most} lines are too few for pages that a TLB could miss"}
    rounds, unmet = [], {}
    second = min(2 * near, int(0.9 * every))
    if second >= 1.25 * near and second <= most:
        rounds.append(second)
    else:
        unmet["P2"] = f"no number of pages lies clear between {near} and {every} and has its lines in the data cache"
    third = min(every + max(near, every // 2), most)
    if third >= 1.2 * every:
        rounds.append(third)
    else:
        unmet["P3"] = (
            f"cannot be met: more than {every} pages have more lines than the {known.cache_bytes} B of the data cache hold"
        )
    return rounds, unmet


def _told(found: _Found, name: str, answer: Answer, ghz: float | None) -> Latency:
    """In cycles and in ns."""
    ratio = ghz or (answer.value / answer.ns if answer.unit == "cycles" and answer.value and answer.ns else None)

    def finding(unit: str) -> Finding:
        own, label = answer.unit == unit, f"latency_{name}" + ("_ns" if unit == "ns" else "")
        if not found.sure or (not own and ratio is None):
            why = found.why if not found.sure else f"the core's clock is not known, so {answer.unit} cannot be told in {unit}"
            return Finding(label, None, None, None, unit, "undetermined", METHOD, answer.evidence, why)
        scale = 1.0 if own or ratio is None else (1 / ratio if unit == "ns" else ratio)
        value, low, high = (scale * v for v in (found.value, found.low, found.high))
        return Finding(label, value, low, high, unit, "ok", METHOD, answer.evidence)

    return Latency(finding("cycles"), finding("ns"), found.accesses)


def _accesses(asked: Experiment, role: str) -> tuple[int, ...]:
    return tuple(n for stage in asked.stages if stage.role == role for n in stage.counted)


def _clock_step(latencies: Array) -> float:
    """The least difference of two latencies, where there are so few different ones that the clock must be coarse."""
    distinct = np.unique(latencies)
    return float(np.diff(distinct).min()) if 1 < distinct.size < latencies.size / 4 else 0.0


def _gap(page: int, line: int) -> int:
    """The distance of new lines within a page: an odd number of lines, at most 8 KiB, all rounds within the page."""
    lines = min((8 << 10) // line, (page // line - P4_PAGES) // (MISSES + 1))
    return line * max(1, lines - 1 + lines % 2)


def _number(findings: Mapping[str, Finding], name: str) -> int | None:
    found = findings.get(name)
    usable = found is not None and found.status == "ok" and isinstance(found.value, int | float)
    return round(float(found.value)) if usable and found is not None and found.value is not None else None


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def lines_of(found: Mapping[str, Latency]) -> Iterator[str]:
    """One line of text a pattern."""
    for name, latency in found.items():
        said = [f"{f.value:.4g} {f.unit}" for f in (latency.cycles, latency.ns) if isinstance(f.value, int | float)]
        yield f"{name}: " + (f"{', '.join(said)}, {len(latency.accesses)} accesses" if said else latency.cycles.reason)
