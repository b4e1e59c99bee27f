"""What to chase for the global latency patterns P1 to P6: one trace of non-uniform strides, or laps one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model import CacheLevel, Finding, Hierarchy, Pattern, Probe, Space
from clmembench.patterns import NODE_BYTES

SOURCE_PAGE = 2 << 20  # where a page's size is not known: spacings that are multiples of every usual size
FAR_BYTES = 64 << 20  # eighth of the 512 MiB that Kepler's page-table context spans
FAR_MOST = 48
LEAST_FAR = 8
MISSES = 8  # rounds of new lines in pages that the L1 TLB holds
P4_PAGES = 4
P1_LINES = 16  # lines of a distributed cache differ in latency by where they are: one alone would not do
SWEPT = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # pages gone round where a reach is not known
FILLED = 0.8  # of the data cache's lines that may be in use: more would not all hit
BEYOND_CACHE, BEYOND_TLB = 8, 16  # how many times what should miss is larger than what could hold it


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
    last_bytes: int | None = None  # of the largest cache


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


def known(hierarchy: Hierarchy, space: Space = "global") -> Known:
    """What the inference was sure of, of the level nearest to the core and of the TLBs."""
    levels = [level for level in hierarchy.levels if level.space == space and level.name != "DRAM"]
    cache = levels[0] if levels else CacheLevel("", space, {})
    tlbs = [level.findings for level in hierarchy.tlb]
    line = _number(cache.findings, "line_bytes") or Known().line_bytes
    return Known(
        line_bytes=line,
        sector_bytes=_number(cache.findings, "sector_bytes") or min(line, Known().sector_bytes),
        cache_bytes=_number(cache.findings, "size_bytes"),
        page_bytes=next((n for f in tlbs if (n := _number(f, "page_bytes"))), None),
        near_pages=_number(tlbs[0], "entries") if tlbs else None,
        all_pages=_number(tlbs[1], "entries") if len(tlbs) > 1 else None,
        last_bytes=_number(levels[-1].findings, "size_bytes") if levels else None,
    )


def experiment(known: Known, space: Space = "global", most_bytes: int = 4 << 30) -> Experiment:
    """The trace, after Mei & Chu 2015, section 5.2 and figure 13.

    Far pages first, 64 MiB apart (P5, and P6 where one in so many takes longer); then new lines of a few pages that have just
    been used (P4); then pages gone round, a line each: more than the L1 TLB and fewer than the L2 TLB holds (P2), more than
    either (P3), the first round warming the cache; at last the lines of one page again and again (P1). Pages lie a page and a
    line apart, so that their lines do not meet in one cache set. Without a TLB's reach several numbers of pages are gone round.
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
        parts.append(("lap", pages, f"{2 * number * line}:{spacing}:{pages}:{1 + visits}", pages * (1 + visits), pages))
    parts.append(("P1", 1, f"{again}:{2 * line}:{P1_LINES}:{1 + visits}", P1_LINES * (1 + visits), P1_LINES))
    stages, at = [], 0
    for role, pages, _, accesses, warm in parts:
        stages.append(Stage(role, pages, at, accesses, tuple(range(at + warm, at + accesses))))
        at += accesses
    probe = Probe(Pattern("segments", segments=";".join(p[2] for p in parts)), space, "trace", 0, at, cold=True)
    return Experiment(probe, tuple(stages), known, unmet)


def laps(known: Known, space: Space = "global", most_bytes: int = 4 << 30) -> Mapping[str, Probe | str]:
    """The patterns one by one as laps in random order, for devices without a clock inside kernels; or why one cannot be.

    P1: few lines. P2 and P3: a line of each of so many pages. P4: a set eight times as large as the last cache, block by block,
    each within half the L1 TLB's reach. P5: lines at random over eight times the last cache and sixteen times the L2 TLB's
    reach. A change of page-table context (P6) drowns in the mean. Some accesses of a lap meet other patterns: in P5's one
    page in sixteen may be in a TLB, in P4's the first of each page is not.
    """
    page, line = known.page_bytes, known.line_bytes
    found: dict[str, Probe | str] = {
        "P1": Probe(Pattern("random", 16, line), space),
        "P6": "single accesses of a change of page-table context cannot be told from a lap's mean",
    }
    if page is None or known.near_pages is None or known.all_pages is None or known.last_bytes is None:
        why = "page size, the TLBs' reaches and the largest cache must be known for laps that meet it"
        return found | dict.fromkeys(("P2", "P3", "P4", "P5"), why)
    rounds, unmet = _rounds(known)
    for name in ("P2", "P3"):
        fit = [n for n in rounds if (n > known.all_pages) == (name == "P3")]
        found[name] = Probe(Pattern("random", fit[0], page, line), space) if fit else unmet[name]
    count = BEYOND_CACHE * known.last_bytes // line
    reach = _up(max(BEYOND_TLB * known.all_pages * page, count * line), count * line)
    block = max(page, known.near_pages * page // 2)
    too_large = f"needs an array of {max(reach, count * line)} B, over the limit of {most_bytes} B"
    found["P4"] = Probe(Pattern("blocks", count, line, block_bytes=block), space) if count * line <= most_bytes else too_large
    found["P5"] = Probe(Pattern("random", count, reach // count), space) if reach <= most_bytes else too_large
    return found


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
