"""Chases that meet the global latency patterns P1 to P6: one trace of non-uniform strides, or laps one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clmembench.model import CacheLevel, Finding, Hierarchy, Pattern, Probe, Space
from clmembench.model.address_patterns import NODE_BYTES

# Thresholds and limits, each with its reason
DEFAULT_PAGE_SPACING_BYTES = 2 << 20  # where a page's size is not known: spacings that are multiples of every usual size
FAR_PAGE_SPACING_BYTES = 64 << 20  # eighth of the 512 MiB that Kepler's page-table context spans
MAX_FAR_PAGES = 48  # far pages: six page-table contexts of eight pages each
MIN_FAR_PAGES = 8  # far pages: fewer are less than one page-table context
MISS_ROUNDS = 8  # rounds of new lines in pages that the L1 TLB holds
P4_PAGE_COUNT = 4  # few, so that the L1 TLB of any device holds them
PAGE_OFFSET_LINES = (
    5  # lines by which places in neighbouring pages are apart within their pages: odd, and more than usually share a set
)
P1_LINE_COUNT, P1_LAP_NODES = 4, 8  # few: where neighbours share a set, more would not all hit; of a lap, in 64 B
SWEPT_PAGE_COUNTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # pages of a lap where a reach is not known
MAX_CACHE_FILL_SHARE = 0.65  # of the data cache's lines: where more are in use, some sets overflow
MAX_LAP_CACHE_SHARE = 0.25  # of the data cache's lines: a lap's mean does not show which lines met in a set
P4_SPACING_LINES, MIN_P4_PLACES_PER_PAGE = (
    33,
    32,
)  # lines between places of P4's lap, so far that prefetchers do not follow; places in a page
NEAR_REACH_SHARE = 0.5  # of a TLB's reach that lines side by side span, so that none of them misses it
LEAST_PAGE_BYTES = 64 << 10  # of GPUs: what they span where no TLB is known
MISS_ENTRIES_RATIO = 4  # times a TLB's entries: in a lap over that many pages only 2% hit even where victims are random
MIN_P5_SPACING_BYTES = 256  # bytes that places of P5's lap are apart at least: further levels may have longer lines
P5_CACHE_RATIO, P5_TLB_RATIO = 8, 32  # how many times what should miss is larger than what could hold it


@dataclass(frozen=True, slots=True)
class HierarchyGeometry:
    """Known geometry of a hierarchy: bytes of the data cache nearest to the core, of its lines and sectors, of a page, and
    how many pages each TLB holds; None where that is not known."""

    line_bytes: int = 128
    sector_bytes: int = 32
    cache_bytes: int | None = None
    page_bytes: int | None = None
    near_pages: int | None = None  # of the L1 TLB
    all_pages: int | None = None  # of the L2 TLB
    last_bytes: int | None = None  # of the largest cache

    @property
    def translates(self) -> bool:
        """True if a TLB was found: its page is what is first known of one."""
        return self.page_bytes is not None or self.near_pages is not None


@dataclass(frozen=True, slots=True)
class TraceStage:
    """A stretch of the trace: accesses `first` to `first + count` go through `pages` pages to do what `role` says: far, touch
    (new pages), P4, lap (pages gone round again) or P1; those of `counted`, by their number in the trace, are looked at."""

    role: str
    pages: int
    first: int
    count: int
    counted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PatternExperiment:
    """One trace that meets the patterns, its stages, and why a pattern cannot be met."""

    probe: Probe
    stages: tuple[TraceStage, ...]
    known: HierarchyGeometry
    unmet: Mapping[str, str] = field(default_factory=dict)


def known_geometry(hierarchy: Hierarchy, space: Space = "global") -> HierarchyGeometry:
    """Certain findings about the level nearest to the core and about the TLBs."""
    levels = [level for level in hierarchy.levels if level.space in ("global", "global_cg") and level.name != "DRAM"]
    cache = next((level for level in levels if level.space == space), CacheLevel("", space, {}))
    tlbs = [level.findings for level in hierarchy.tlb]
    line = _known_integer(cache.findings, "line_bytes") or HierarchyGeometry().line_bytes
    return HierarchyGeometry(
        line_bytes=line,
        sector_bytes=_known_integer(cache.findings, "sector_bytes") or min(line, HierarchyGeometry().sector_bytes),
        cache_bytes=_known_integer(cache.findings, "size_bytes"),
        page_bytes=next((n for f in tlbs if (n := _known_integer(f, "page_bytes"))), None),
        near_pages=_known_integer(tlbs[0], "entries") if tlbs else None,
        all_pages=_known_integer(tlbs[1], "entries") if len(tlbs) > 1 else None,
        last_bytes=_known_integer(levels[-1].findings, "size_bytes") if levels else None,
    )


def pattern_trace(known: HierarchyGeometry, space: Space = "global", most_bytes: int = 4 << 30) -> PatternExperiment:
    """The trace, after Mei & Chu 2015, section 5.2 and figure 13.

    Far pages first, 64 MiB apart (P5, and P6 where one in so many takes longer); then new lines of a few pages that have just
    been used (P4); then laps over pages, a line each: more than the L1 TLB and fewer than the L2 TLB holds (P2), more than
    either (P3), the first round warming the cache; at last the lines of one page again and again (P1), past the first cache as
    many as those of the pages: parts of a further cache lie at different distances. Pages lie a page and
    five lines apart, so that their lines do not meet in one cache set. Without a TLB's reach many numbers of pages are tried.
    """
    page, line = known.page_bytes or DEFAULT_PAGE_SPACING_BYTES, known.line_bytes
    spacing = page + PAGE_OFFSET_LINES * line
    rounds, unmet = _page_rounds(known, space, most_bytes)
    visits = visits_of(known)
    new = _round_up(max(rounds, default=0) * spacing + page, page)  # where P4's pages begin
    gap = _new_line_spacing(page, line)
    again = _round_up(new + P4_PAGE_COUNT * spacing + page, page)
    hits, apart = _hits(known, space, most_bytes)
    end = _round_up(again + max(page, hits * apart), page)
    far = _round_up(end, FAR_PAGE_SPACING_BYTES)
    count = min(MAX_FAR_PAGES, max(0, (most_bytes - far) // (FAR_PAGE_SPACING_BYTES + line)))
    parts: list[tuple[str, int, str, int, int]] = []  # role, pages, segment, accesses, of them not counted
    if count >= MIN_FAR_PAGES:
        parts.append(("far", count, f"{far}:{FAR_PAGE_SPACING_BYTES + line}:{count}:1", count, 1))
    parts.append(
        (
            "touch",
            P4_PAGE_COUNT,
            f"{new}:{spacing}:{P4_PAGE_COUNT}:1",
            P4_PAGE_COUNT,
            0 if count < MIN_FAR_PAGES else P4_PAGE_COUNT,
        )
    )
    parts += [
        ("P4", P4_PAGE_COUNT, f"{new + n * gap}:{spacing}:{P4_PAGE_COUNT}:1", P4_PAGE_COUNT, 0)
        for n in range(1, MISS_ROUNDS + 1)
    ]
    for number, pages in enumerate(rounds):
        parts.append(("lap", pages, f"{2 * number * line}:{spacing}:{pages}:{1 + visits}", pages * (1 + visits), pages))
    parts.append(("P1", 1, f"{again}:{apart}:{hits}:{1 + visits}", hits * (1 + visits), hits))
    stages, at = [], 0
    for role, pages, _, accesses, warm in parts:
        stages.append(TraceStage(role, pages, at, accesses, tuple(range(at + warm, at + accesses))))
        at += accesses
    probe = Probe(Pattern("segments", segments=";".join(p[2] for p in parts)), space, "trace", 0, at, cold=True)
    return PatternExperiment(probe, tuple(stages), known, unmet)


def pattern_laps(known: HierarchyGeometry, space: Space = "global", most_bytes: int = 4 << 30) -> Mapping[str, Probe | str]:
    """The patterns one by one as laps in random order, for devices without a clock inside kernels; or why one cannot be.

    P1: 64 B; past the first cache, lines of one page. P2: a line of each of four times as many pages as the L1 TLB has entries.
    P4: four times the lines of the last cache, 33 lines apart, block by block, each within half the L1 TLB's reach. P5: lines
    at random over eight times the last cache and 32 times the L2 TLB's reach. P3 and a change of page-table context (P6) do not
    follow from a mean. Some accesses of a lap meet other patterns: in P5's one page in 32 may be in a TLB, in P4's the first of
    each page is not.
    """
    page, line = known.page_bytes, known.line_bytes
    found: dict[str, Probe | str] = {
        "P1": Probe(
            Pattern("random", P1_LAP_NODES, NODE_BYTES)
            if space == "global"
            else Pattern("random", *_hits(known, space, most_bytes)),
            space,
        ),
        "P6": "a lap's mean does not show the single accesses that change the page-table context",
    }
    if page is None or known.near_pages is None or known.all_pages is None or known.last_bytes is None:
        why = "page size, the TLBs' reaches and the largest cache must be known for laps that meet it"
        return found | dict.fromkeys(("P2", "P3", "P4", "P5"), why)
    _, unmet = _page_rounds(known, space, most_bytes)
    pages = MISS_ENTRIES_RATIO * known.near_pages
    if "P2" in unmet:
        found["P2"] = unmet["P2"]
    elif pages > known.all_pages // 2 or known.cache_bytes is None or pages * line > MAX_LAP_CACHE_SHARE * known.cache_bytes:
        found["P2"] = f"{pages} pages, which miss {known.near_pages} entries whatever their policy, do not surely hit all else"
    else:
        found["P2"] = Probe(Pattern("random", pages, page, PAGE_OFFSET_LINES * line), space)
    found["P3"] = "the lines of that many pages may conflict in sets of the data cache, which a lap's mean does not show"
    count = P5_CACHE_RATIO * known.last_bytes // line
    span = _round_up(max(P5_TLB_RATIO * known.all_pages * page, count * MIN_P5_SPACING_BYTES), count * MIN_P5_SPACING_BYTES)
    large = "needs an array of {} B, over the limit of " + f"{most_bytes} B"
    found["P5"] = Probe(Pattern("random", count, span // count), space) if span <= most_bytes else large.format(span)
    block, apart, fewer = (
        max(page, known.near_pages * page // 2),
        P4_SPACING_LINES * line,
        MISS_ENTRIES_RATIO * known.last_bytes // line,
    )
    if page < MIN_P4_PLACES_PER_PAGE * apart:
        found["P4"] = f"pages of {page} B are too small for lines that no prefetcher foresees, each page used often enough"
    elif fewer * apart > most_bytes:
        found["P4"] = large.format(fewer * apart)
    else:
        found["P4"] = Probe(Pattern("blocks", fewer, apart, block_bytes=block), space)
    return found


def lap_variants(lap: Probe) -> list[Probe]:
    """A lap in three orders, and where pages are a line and a bit apart in three layouts: one may be disturbed, or have lines
    that meet in a set."""
    pattern = lap.pattern
    shifts = [
        pattern.shift_bytes // PAGE_OFFSET_LINES * n for n in (PAGE_OFFSET_LINES, PAGE_OFFSET_LINES + 2, PAGE_OFFSET_LINES + 4)
    ]
    return [replace(lap, pattern=replace(pattern, seed=n, shift_bytes=s)) for n, s in enumerate(shifts)]


def visits_of(known: HierarchyGeometry) -> int:
    """How often a line is visited again: each visit lies 8 B behind the last, within the sector."""
    return max(1, min(3, known.sector_bytes // NODE_BYTES - 1))


def side_by_side_bytes(known: HierarchyGeometry, lines: int) -> int:
    """How far apart as many lines lie that surely miss no TLB, five lines at most; 0 where they cannot."""
    reach = (
        NEAR_REACH_SHARE * known.near_pages * known.page_bytes if known.near_pages and known.page_bytes else LEAST_PAGE_BYTES
    )
    apart = next((n for n in (PAGE_OFFSET_LINES, 3, 1) if lines * n * known.line_bytes <= reach), 0)
    return apart * known.line_bytes


def _hits(known: HierarchyGeometry, space: Space, most_bytes: int) -> tuple[int, int]:
    """Of P1: how many lines, and how many bytes they are apart."""
    pages = max([P1_LINE_COUNT, *_page_rounds(known, space, most_bytes)[0]])
    counts = [] if space == "global" else [pages, pages // 2, pages // 4, pages // 8]
    few = P1_LINE_COUNT, PAGE_OFFSET_LINES * known.line_bytes
    return next(((n, apart) for n in counts if n >= P1_LINE_COUNT and (apart := side_by_side_bytes(known, n))), few)


def _page_rounds(known: HierarchyGeometry, space: Space, most_bytes: int) -> tuple[list[int], dict[str, str]]:
    """How many pages to go round, and which patterns cannot be met that way and why."""
    most = int(MAX_CACHE_FILL_SHARE * known.cache_bytes / known.line_bytes) if known.cache_bytes else SWEPT_PAGE_COUNTS[-1]
    # a first cache holds lines of few pages; a further one holds those of more than leave room for the far pages
    span = most_bytes if space == "global" else most_bytes // 2
    most = min(most, span // ((known.page_bytes or DEFAULT_PAGE_SPACING_BYTES) + PAGE_OFFSET_LINES * known.line_bytes))
    near, every = known.near_pages, known.all_pages
    if near is None or every is None:
        least = next((n for n in SWEPT_PAGE_COUNTS if n > (near or 0)), SWEPT_PAGE_COUNTS[-1])
        swept = [n for n in SWEPT_PAGE_COUNTS if least // 4 <= n <= most // 2]
        return swept, {} if swept else {"P2": f"{most} lines are too few for pages that a TLB could miss"}
    rounds, unmet = [], {}
    second = min(4 * near, max(every // 2, min(int(0.75 * every), 2 * near)), most)  # its sets may not fill evenly
    if second >= 1.25 * near:
        rounds.append(second)
    else:
        unmet["P2"] = f"no number of pages lies clear between {near} and {every} and has its lines in the data cache"
    third = min(4 * every, max(most // 3, 3 * every // 2), most)
    if third >= 1.2 * every:
        rounds.append(third)
    else:
        unmet["P3"] = (
            f"cannot be met: more than {every} pages have more lines than the {known.cache_bytes} B of the data cache hold, "
            f"or span more than {span} B"
        )
    return rounds, unmet


def _new_line_spacing(page: int, line: int) -> int:
    """The distance of new lines within a page: an odd number of lines, at most 8 KiB, all rounds within the page."""
    lines = min((8 << 10) // line, (page // line - PAGE_OFFSET_LINES * P4_PAGE_COUNT) // (MISS_ROUNDS + 1))
    return line * max(1, lines - 1 + lines % 2)


def _known_integer(findings: Mapping[str, Finding], name: str) -> int | None:
    found = findings.get(name)
    usable = found is not None and found.status == "ok" and isinstance(found.value, int | float)
    return round(float(found.value)) if usable and found is not None and found.value is not None else None


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
