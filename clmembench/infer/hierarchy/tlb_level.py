"""One level of address translation put together as Findings. Pure."""

from __future__ import annotations

from clmembench.infer.findings import UNKNOWN_CLOCK, measured_finding, undetermined_finding
from clmembench.infer.hierarchy.policy_probe import probe_policy
from clmembench.infer.hierarchy.probing import LAP_NOISE_SIGMAS, ChaseLayout, LevelProbe, ProbeCache
from clmembench.infer.hierarchy.set_lines import EXTRA_LINES, SetLines, SetOfLevel
from clmembench.infer.hierarchy.tlb import TlbGeometry, sets_agree
from clmembench.model import Finding, Inquiry, TlbLevel

# Thresholds and limits, each with its reason
MAX_PENALTY_RELATIVE_DIFFERENCE = (
    0.04  # relative: penalties at two numbers of pages that differ by more are not yet the whole penalty
)
HIDDEN_SHARE = 0.1  # of an undetermined penalty, by which its lower bound is lower still


def infer_tlb_level(
    asked: ProbeCache, chase: ChaseLayout, number: int, tlb: TlbGeometry, ghz: float | None
) -> Inquiry[TlbLevel]:
    """Entries, page, reach, ways, sets, policy and penalty of one level. `ghz` turns the latencies' cycles into ns; None:
    they are ns."""
    findings: dict[str, Finding] = {}
    method, paged, counted, of_sets = "one line a page", tlb.sources.page, tlb.sources.entries, tlb.sources.sets
    page = tlb.page.nbytes
    findings["page_bytes"] = (
        measured_finding("page_bytes", page, "pairs of accesses", paged)
        if page
        else undetermined_finding("page_bytes", tlb.page.reason, evidence=paged)
    )
    agrees = sets_agree(tlb)
    if page and tlb.tags is not None and (tlb.tags.sharp or agrees):
        # sets times ways, where noise hides a single page
        entries = tlb.sets.sets * tlb.sets.ways if agrees and tlb.sets and tlb.sets.ways else tlb.tags.fits
        reach = entries * page
        dense = tlb.pages.fits * tlb.stride_bytes
        # the first of places closer together than pages may lie anywhere in its page
        if number and not agrees:
            # the nearer level may answer some that miss here, so that those first to miss are not seen
            reason = f"about {entries}: a nearer TLB holds some of them, and sets times ways do not confirm the number"
            findings["entries"] = undetermined_finding("entries", reason, method, counted, None, None)
            findings["reach_bytes"] = undetermined_finding("reach_bytes", reason, method, counted, None, None)
        elif not agrees and not _every_access_missed(tlb):
            # what a miss costs still changes beyond this number of pages: it may be that of a level behind
            reason = "the cost of a miss differs at several times as many pages"
            findings["entries"] = undetermined_finding("entries", reason, method, counted, None, None)
            findings["reach_bytes"] = undetermined_finding("reach_bytes", reason, method, counted, None, None)
        elif abs(dense - reach) > (page if tlb.stride_bytes < page or agrees else 0):
            reason = f"{tlb.pages.fits} places {tlb.stride_bytes} B apart fit, and {entries} at an odd stride"
            findings["entries"] = undetermined_finding("entries", reason, method, counted, entries, None)
            findings["reach_bytes"] = undetermined_finding("reach_bytes", reason, method, counted, min(dense, reach), None)
        else:
            findings["entries"] = measured_finding("entries", entries, f"{method}, at two strides", counted)
            findings["reach_bytes"] = measured_finding("reach_bytes", reach, f"{method}, at two strides", counted)
    else:
        reason = tlb.page.reason or "one page too many would not have been detected"
        low = max(1.0, tlb.pages.fits - tlb.pages.hidden) * tlb.stride_bytes  # what hid in the noise may be over it
        high = tlb.pages.over * tlb.stride_bytes if tlb.pages.over else None
        findings["entries"] = undetermined_finding("entries", reason, method, counted, low / page if page else None, None)
        findings["reach_bytes"] = undetermined_finding("reach_bytes", reason, method, counted, low, high)
    if tlb.sets is not None and tlb.sets.ways is not None and agrees:
        method = "pages that fit at strides of powers of two"
        findings["ways"] = measured_finding("ways", tlb.sets.ways, method, of_sets)
        findings["sets"] = measured_finding("sets", tlb.sets.sets, method, of_sets)
        assert page is not None
        stride = max(page, tlb.sets.way_bytes)
        if _every_access_missed(tlb):
            lines = SetLines(tlb.sets.ways + EXTRA_LINES, stride, chase.shift_bytes)
            findings |= yield from probe_policy(LevelProbe(asked, chase, tlb.contrast), SetOfLevel(tlb.sets.ways, lines, 64))
        else:
            findings["policy"] = undetermined_finding("policy", "the cost of a miss is unknown")
    else:
        reason = (tlb.sets.reason if tlb.sets else tlb.page.reason) or "sets times ways is not the number of entries"
        findings |= {name: undetermined_finding(name, reason, evidence=of_sets) for name in ("ways", "sets", "policy")}
    findings |= penalty_findings(tlb, ghz)
    return TlbLevel(f"L{number + 1} TLB", findings)


def penalty_findings(tlb: TlbGeometry, ghz: float | None) -> dict[str, Finding]:
    """Latency that a miss adds to an access, in cycles where those are known, and in ns."""
    method, found, evidence = "lines of pages from page to page, less the same page by page", {}, tlb.sources.penalty
    value = sum(tlb.penalties) / len(tlb.penalties) if tlb.penalties else 0.0
    low, high = min(tlb.penalties, default=0.0), max(tlb.penalties, default=0.0)
    spread, whole = LAP_NOISE_SIGMAS * tlb.noise, _every_access_missed(tlb)
    for name, scale in (("penalty_cycles", 1.0 if ghz else None), ("penalty_ns", 1 / ghz if ghz else 1.0)):
        if scale is None:
            found[name] = undetermined_finding(name, UNKNOWN_CLOCK, method, evidence)
        elif not whole:
            reason = "it differs at several times as many pages as fit, or is within the noise"
            found[name] = undetermined_finding(name, reason, method, evidence, scale * low * (1 - HIDDEN_SHARE) or None, None)
        else:
            ends = scale * min(low, value - spread), scale * max(high, value + spread)
            found[name] = measured_finding(name, scale * value, method, evidence, *ends)
    return found


def _every_access_missed(tlb: TlbGeometry) -> bool:
    """True if every access missed where the penalty was read: it is the same with more pages, and well above the noise."""
    low, high = min(tlb.penalties, default=0.0), max(tlb.penalties, default=0.0)
    spread = LAP_NOISE_SIGMAS * tlb.noise
    return (
        len(tlb.penalties) > 1
        and high - low <= max(MAX_PENALTY_RELATIVE_DIFFERENCE * high, spread)
        and spread < MAX_PENALTY_RELATIVE_DIFFERENCE * high
    )
