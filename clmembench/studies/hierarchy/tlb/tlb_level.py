"""One level of address translation put together as Findings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clmembench.model import Experiment, Finding, TlbLevel
from clmembench.model.findings import UNKNOWN_CLOCK, measured_finding, undetermined_finding
from clmembench.studies.hierarchy.probes.line_probe import MIN_PAGE_BYTES
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, ChaseLayout, LevelProbe, ProbeSession
from clmembench.studies.hierarchy.replacement.policy_probe import probe_policy, probe_possible_policies
from clmembench.studies.hierarchy.replacement.policy_rates import DRAWN
from clmembench.studies.hierarchy.replacement.set_lines import EXTRA_LINES, NearerSet, SetLines, SetOfLevel
from clmembench.studies.hierarchy.replacement.set_miss_rates import CYCLIC_POLICIES, cyclic_misses, forms_of
from clmembench.studies.hierarchy.tlb.tlb_cost import range_of_noise
from clmembench.studies.hierarchy.tlb.tlb_geometry import TlbGeometry, sets_agree
from clmembench.studies.hierarchy.tlb.tlb_ramp import SetWays

PAIR_METHOD, PAIRS_STOOD = "pairs of accesses", "this run has no points that show that first lines of pairs miss"
COUNT_METHOD, STRIDE_METHOD = "one line a page, at two strides", "pages that fit at strides of powers of two"
RAMP_METHOD = "misses of each page more than fit"
DRAWN_METHOD = "only drawn victims explain how misses grow; that one way is drawn up to three times as often is not excluded"
ROWS_METHOD = "pages that fit where their numbers have one bit at 0, or few remainders"
PAGES_METHOD = "misses of a lap with one page more for each set, page by page"
UNEQUAL_REASON = "which pages are of one of its unequal sets is not known; all that overflow miss, as under LRU and FIFO"
UNLIKE_REASON = "how many pages fit depends on which page is the first: its sets are not equal, or a hash chooses them"
NEARER_PENALTY_REASON = "what a miss of the nearer TLB costs, which is part of it, differs at several times as many pages"
HALVES_METHOD = "half as many pages fit at each doubled stride"
# Thresholds and limits, each with its reason
MIN_HALVES, MAX_HALVES_DIFFERENCE = 2, 0.02  # doubled strides; relative, of the counts at shorter ones, which noise moves
USUAL_ODD_FACTORS = (1, 3, 5, 7)  # of a number of entries
MAX_PENALTY_RELATIVE_DIFFERENCE = (
    0.04  # relative: penalties at two numbers of pages that differ by more are not yet the whole penalty
)
PENALTY_SIGMAS = 3.0  # of its noise, which must be less than that
MAX_GROWTH_DIFFERENCE = 0.15  # relative, of the misses of a lap over one page more than fits, besides one
GROWTH_ORDERS = 6  # further ones, of laps over one page more than fits: on a Zen 4 core one in two has fewer misses
HIDDEN_SHARE = 0.1  # of an undetermined penalty, by which its lower bound is lower still
NEARER_RATIO = 1.5  # times the nearer set's ways: walks over so many pages miss it mostly
MAX_PAGES = 160  # of a walk: the first cache holds a line of each
MAX_CACHE_SHARE = 0.5  # of the first cache, that their lines may take
SLIGHT = 1e-6  # what an access costs that the nearer TLB serves, which is nothing: 0 would say that there is none


@dataclass(frozen=True, slots=True)
class _EntryCount:
    """A number of entries, None for a reason; then `low` bounds the entries, in pages or parts of them (None: no bound)."""

    entries: int | None
    reason: str = ""
    method: str = COUNT_METHOD
    low: float | None = None


def infer_tlb_level(
    asked: ProbeSession, chase: ChaseLayout, number: int, tlb: TlbGeometry, ghz: float | None, before: TlbLevel | None = None
) -> Experiment[TlbLevel]:
    """Entries, page, reach, ways, sets, policy and penalty of one level. `ghz` turns the latencies' cycles into ns; None:
    they are ns. `before`: the nearer level."""
    findings = {"page_bytes": _page_finding(tlb)}
    count = _entry_count(tlb, number)
    if chase.lap_lines and not chase.has_enough_lines(tlb.pages.fits, tlb.stride_bytes):
        count = replace(count, low=None)  # so few lines fit the nearest cache, which may be virtually addressed
    findings |= _entry_findings(tlb, count)
    findings |= yield from _set_findings(asked, chase, tlb, number, before)
    findings |= penalty_findings(tlb, ghz)
    return TlbLevel(f"L{number + 1} TLB", findings)


def _page_finding(tlb: TlbGeometry) -> Finding:
    if tlb.page.nbytes is None:
        return undetermined_finding("page_bytes", tlb.page.reason, evidence=tlb.sources.page)
    method = PAIR_METHOD if tlb.page.is_answered else f"{PAIR_METHOD}; {PAIRS_STOOD}"
    return measured_finding("page_bytes", tlb.page.nbytes, method, tlb.sources.page)


def _entry_count(tlb: TlbGeometry, number: int) -> _EntryCount:
    """The entries, where the growth of misses, or sets, or two strides tell them exactly. `number`: of the level, from 0."""
    if tlb.page.nbytes is None:
        return _EntryCount(None, tlb.page.reason or "the page is not known")
    if tlb.by_pages is not None:
        return _EntryCount(tlb.by_pages.entries, method=PAGES_METHOD)
    if tlb.by_rows is not None:
        return _EntryCount(tlb.by_rows.entries, method=ROWS_METHOD)
    if tlb.alike is False:
        return _EntryCount(None, UNLIKE_REASON, low=max(1.0, tlb.pages.fits - tlb.pages.hidden))
    tried = {one.entries for one in tlb.ramp.likely} if tlb.ramp is not None else set()
    if len(tried) == 1:
        return _EntryCount(tried.pop(), method=RAMP_METHOD)
    found = _entries_by_strides(tlb, tlb.page.nbytes, number)
    if not tried or found.entries in tried:
        return found
    reason = f"{min(tried)} to {max(tried)} entries explain how misses grow"
    return _EntryCount(None, reason, RAMP_METHOD, min(tried))


def _entries_by_strides(tlb: TlbGeometry, page: int, number: int) -> _EntryCount:
    """The entries that as many pages at two strides, or sets times ways tell."""
    agrees, tags = sets_agree(tlb), tlb.tags
    low = max(1.0, tlb.pages.fits - tlb.pages.hidden)  # what hid in the noise may be over it
    if tags is None or not (tags.sharp or agrees):
        halved = entries_of_halves(tlb.sets.fitting, page) if tlb.sets is not None else None
        if halved is not None:
            return _EntryCount(halved, method=HALVES_METHOD)
        return _EntryCount(None, "one page too many would not have been detected", low=low)
    # sets times ways, where noise hides a single page
    entries = tlb.sets.sets * tlb.sets.ways if agrees and tlb.sets and tlb.sets.ways else tags.fits
    dense, reach = tlb.pages.fits * tlb.stride_bytes, entries * page
    if number and not agrees:
        # the nearer level may answer some that miss here, so that those first to miss are not seen
        reason = f"about {entries}: a nearer TLB holds some of them, and sets times ways do not confirm the number"
        return _EntryCount(None, reason)
    if not agrees and not _every_access_missed(tlb):
        # what a miss costs still changes beyond this number of pages: it may be that of a level behind
        return _EntryCount(None, "the cost of a miss differs at several times as many pages")
    # the first of places closer together than pages may lie anywhere in its page; pages in a row that surely fit have entries
    if (tlb.stride_bytes >= page and entries < low) or abs(dense - reach) > (page if tlb.stride_bytes < page or agrees else 0):
        reason = f"{tlb.pages.fits} places {tlb.stride_bytes} B apart fit, and {entries} at an odd stride"
        return _EntryCount(None, reason, low=min(low, entries))
    return _EntryCount(entries)


def entries_of_halves(fitting: Sequence[tuple[int, int]], page: int) -> int | None:
    """The entries of a TLB of which half as many pages fit at each doubled stride, by the last of these, where one page too
    many is seen best; None where the product is no usual number, as where that count is off by one. `fitting`: strides in
    bytes, from `page` on, with the pages that fit at each."""
    found = None
    for number, (stride, count) in enumerate(fitting):
        entries = count << number
        if (
            not count
            or stride != page << number
            or any(abs((fits << i) - entries) > MAX_HALVES_DIFFERENCE * entries for i, (_, fits) in enumerate(fitting[:number]))
        ):
            break
        odd = entries // (entries & -entries)
        found = entries if number >= MIN_HALVES and odd in USUAL_ODD_FACTORS else None
    return found


def _entry_findings(tlb: TlbGeometry, count: _EntryCount) -> dict[str, Finding]:
    """Entries and reach."""
    page, counted = tlb.page.nbytes, tlb.sources.entries
    if count.entries is not None and page is not None:
        return {
            "entries": measured_finding("entries", count.entries, count.method, counted),
            "reach_bytes": measured_finding("reach_bytes", count.entries * page, count.method, counted),
        }
    low = None if count.low is None or tlb.may_follow_another else count.low * tlb.stride_bytes
    least = low / page if low is not None and page else None
    return {
        "entries": undetermined_finding("entries", count.reason, count.method, counted, least, None),
        "reach_bytes": undetermined_finding("reach_bytes", count.reason, count.method, counted, low),
    }


def _set_findings(
    asked: ProbeSession, chase: ChaseLayout, tlb: TlbGeometry, number: int, before: TlbLevel | None
) -> Experiment[dict[str, Finding]]:
    """Ways, sets and policy. `number`: of the level, from 0."""
    page, of_sets = tlb.page.nbytes, tlb.sources.sets
    decided = tlb.decided if page else None
    if decided is not None:
        method = PAGES_METHOD if tlb.by_pages is not None else ROWS_METHOD if tlb.by_rows is not None else RAMP_METHOD
        found = {
            "ways": measured_finding("ways", decided.text, method, of_sets),
            "sets": measured_finding("sets", decided.sets, method, of_sets),
        }
        if decided.large != decided.ways:
            return found | {"policy": undetermined_finding("policy", UNEQUAL_REASON, method, of_sets)}
        ways, stride = decided.large, decided.sets * (page or 0)
    elif tlb.sets is not None and tlb.sets.ways is not None and sets_agree(tlb) and page:
        found = {
            "ways": measured_finding("ways", tlb.sets.ways, STRIDE_METHOD, of_sets),
            "sets": measured_finding("sets", tlb.sets.sets, STRIDE_METHOD, of_sets),
        }
        ways, stride = tlb.sets.ways, max(page, tlb.sets.way_bytes)
    else:
        reason = (tlb.sets.reason if tlb.sets else tlb.page.reason) or "sets times ways is not the number of entries"
        return {name: undetermined_finding(name, reason, evidence=of_sets) for name in ("ways", "sets", "policy")}
    if number and decided is not None:
        behind = set_behind(before, decided, page or 0, chase) if before is not None and _every_access_missed(tlb) else None
        if behind is not None:
            return found | (yield from probe_policy(LevelProbe(asked, chase, tlb.contrast), behind))
        reason = "a nearer TLB holds some of the pages of a set"
        return found | {"policy": undetermined_finding("policy", reason, evidence=of_sets)}
    possible = tlb.ramp.policies if tlb.ramp is not None and len(tlb.ramp.policies) > 1 else frozenset[str]()
    probe = LevelProbe(asked, chase, tlb.contrast)
    lines = SetLines(ways + EXTRA_LINES, stride, chase.shift_bytes)
    of_set = SetOfLevel(ways, lines, 64, miss_is_known=_every_access_missed(tlb), policies=possible)
    told, left = yield from probe_possible_policies(probe, of_set)
    told = _drawn_evenly(told, left or possible, tlb)
    if chase.page_lines != 1 or told["policy"].status != "ok":
        return found | told
    further = yield from _misses_in_further_orders(probe, tlb)
    return found | _unless_growth_differs(told, tlb, ways, further)


def _misses_in_further_orders(probe: LevelProbe, tlb: TlbGeometry) -> Experiment[list[float]]:
    """Misses of laps over one page more than fits in other orders than those that counted: as many under each usual policy,
    but not on a Zen 4 core, where they are 55 or 73 of 73."""
    count = (tlb.tags or tlb.pages).fits + 1
    found: list[float] = []
    for seed in range(1, 1 + GROWTH_ORDERS):
        value = yield from probe.chase.mean(probe.asked, count, tlb.stride_bytes, seed)
        found += [] if value is None else [probe.contrast.misses(value, count)]
    return found


def _drawn_evenly(told: dict[str, Finding], possible: frozenset[str], tlb: TlbGeometry) -> dict[str, Finding]:
    """The policy, random where it is only open whether each way is drawn as often: no TLB is known that prefers one, and only
    latencies of single accesses, which no TLB's penalty stands out of, would show that."""
    policy = told["policy"]
    if policy.status != "undetermined" or not possible or not possible <= DRAWN:
        return told
    evidence = tuple(dict.fromkeys((*policy.evidence, *tlb.sources.sets, *tlb.sources.entries)))
    return {"policy": measured_finding("policy", "random", DRAWN_METHOD, evidence)}


def _unless_growth_differs(
    told: dict[str, Finding], tlb: TlbGeometry, ways: int, further: Sequence[float] = ()
) -> dict[str, Finding]:
    """The policy, unless it lets another number of pages miss than did where one page more than fits was visited in turns, in
    the order that counted them or in `further` ones: of policies that nobody knows, as a real core's may be, one that is known
    explains some walks."""
    policy, held, seen = told["policy"], tlb.tags or tlb.pages, tlb.pages
    name = {"LRU": "LRU or FIFO", "FIFO": "LRU or FIFO", "way-weighted": "random"}.get(str(policy.value), str(policy.value))
    if policy.status != "ok" or name not in CYCLIC_POLICIES:
        return told
    expected = [cyclic_misses(name, form, ways, ways + 1) for form in range(forms_of(name, ways))]
    told_misses = [*([seen.misses] if seen.over == held.fits + 1 else []), *further]
    # a policy keeps its form from one order to the next
    if any(all(abs(misses - one) <= MAX_GROWTH_DIFFERENCE * one + 1 for misses in told_misses) for one in expected):
        return told
    few, several = (", ".join(f"{one:.1f}" for one in sorted(set(of))) for of in (expected, told_misses))
    reason = f"one page more than fits makes {several} accesses of a lap miss, where {policy.value} would let {few}"
    return {"policy": undetermined_finding("policy", reason, policy.method, policy.evidence)}


def penalty_findings(tlb: TlbGeometry, ghz: float | None) -> dict[str, Finding]:
    """Latency that a miss adds to an access, in cycles where those are known, and in ns."""
    method, found, evidence = "lines of pages from page to page, less the same page by page", {}, tlb.sources.penalty
    value = sum(tlb.penalties) / len(tlb.penalties) if tlb.penalties else 0.0
    low, high = min(tlb.penalties, default=0.0), max(tlb.penalties, default=0.0)
    # a level without a page may be two, of which the nearer was within the noise
    spread, whole = LAP_NOISE_SIGMAS * tlb.noise, _every_access_missed(tlb) and tlb.page.nbytes is not None
    for name, scale in (("penalty_cycles", 1.0 if ghz else None), ("penalty_ns", 1 / ghz if ghz else 1.0)):
        if scale is None:
            found[name] = undetermined_finding(name, UNKNOWN_CLOCK, method, evidence)
        elif tlb.hit_doubt > MAX_PENALTY_RELATIVE_DIFFERENCE * value:
            found[name] = undetermined_finding(name, NEARER_PENALTY_REASON, method, evidence)
        elif not whole:
            reason = "it differs at several times as many pages as fit, or is within the noise"
            # where they differ, or without a page, a level behind may be part of all of them
            known = tlb.page.nbytes is not None and not tlb.may_follow_another
            alike = known and high - low <= max(MAX_PENALTY_RELATIVE_DIFFERENCE * high, spread)
            least = scale * max(0.0, low * (1 - HIDDEN_SHARE) - spread) if alike else 0.0
            found[name] = undetermined_finding(name, reason, method, evidence, least or None, None)
        else:
            ends = scale * min(low, value - spread), scale * max(high, value + spread)
            found[name] = measured_finding(name, scale * value, method, evidence, *ends)
    return found


def _every_access_missed(tlb: TlbGeometry) -> bool:
    """True if every access missed where the penalty was read: it is the same with more pages, and well above the noise."""
    low, high = min(tlb.penalties, default=0.0), max(tlb.penalties, default=0.0)
    spread = range_of_noise(len(tlb.penalties), tlb.noise)
    return (
        len(tlb.penalties) > 1
        and high - low <= max(MAX_PENALTY_RELATIVE_DIFFERENCE * high, spread)
        and PENALTY_SIGMAS * tlb.noise < MAX_PENALTY_RELATIVE_DIFFERENCE * high
    )


def set_behind(before: TlbLevel, sets: SetWays, page_bytes: int, chase: ChaseLayout) -> SetOfLevel | None:
    """The set that is walked over, behind the set of the nearer level that all its pages pass; None where that one's sets or
    policy are not known, or where too many pages would be needed."""
    ways, count, policy = (before.findings[name].value for name in ("ways", "sets", "policy"))
    if not isinstance(ways, int) or not isinstance(count, int) or policy is None or sets.large != sets.ways:
        return None
    nearer = NearerSet.of(ways, str(policy))
    others = sets.sets // count - 1  # sets whose pages are of the same set of the nearer level
    if nearer is None or sets.sets % count or others < 1 or sets.ways < 2 or chase.lap_lines:
        return None  # with `lap_lines` few lines hit the first cache, which needs no translation
    own = sets.ways + EXTRA_LINES
    filler = max(0, int(NEARER_RATIO * ways) + EXTRA_LINES - own)
    held = chase.near_lines[0] if chase.near_lines else MAX_PAGES
    if filler > others * (sets.ways - 1) or own + filler > min(MAX_PAGES, MAX_CACHE_SHARE * held):
        return None
    numbers = [row * sets.sets for row in range(own)]
    numbers += [row // others * sets.sets + (1 + row % others) * count for row in range(filler)]
    apart = max(chase.control_bytes, chase.shift_bytes if chase.page_lines == 1 else 0)
    slots = MIN_PAGE_BYTES // apart
    places = [number * page_bytes + index % slots * apart for index, number in enumerate(numbers)]
    lines = SetLines(own, own=tuple(places[:own]), filler=tuple(places[own:]))
    return SetOfLevel(sets.ways, lines, apart, SLIGHT, nearer)
