"""One level of address translation put together as Findings. Pure."""

from __future__ import annotations

from dataclasses import replace

from clmembench.infer.asking import Asked, Chase
from clmembench.infer.found import measured, undetermined
from clmembench.infer.replaced import replaced
from clmembench.infer.tlb import Tlb, agreed
from clmembench.model import Finding, Inquiry, TlbLevel

PENALTY = 0.1  # relative: what a penalty that is read off a curve may be wrong by


def tlb_level(asked: Asked, chase: Chase, number: int, tlb: Tlb) -> Inquiry[TlbLevel]:
    """Entries, page, reach, ways, sets, policy and penalty of one level."""
    penalty = tlb.contrast.miss - tlb.contrast.hit
    findings: dict[str, Finding] = {}
    method = "one line a page"
    page = tlb.page.nbytes
    findings["page_bytes"] = (
        measured("page_bytes", page, "pairs of accesses") if page else undetermined("page_bytes", tlb.page.reason)
    )
    agrees = agreed(tlb)
    if page and tlb.tags is not None and tlb.tags.over is not None and tlb.sharp:
        entries = tlb.tags.fits
        reach = entries * page
        dense = tlb.pages.fits * tlb.stride_bytes
        if abs(dense - reach) > max(tlb.stride_bytes, page):
            reason = f"{tlb.pages.fits} places {tlb.stride_bytes} B apart fit, and {entries} at an odd stride"
            findings["entries"] = undetermined("entries", reason, method, (), entries, None)
            findings["reach_bytes"] = undetermined("reach_bytes", reason, method, (), min(dense, reach), None)
        else:
            findings["entries"] = measured("entries", entries, f"{method}, at two strides")
            findings["reach_bytes"] = measured("reach_bytes", reach, f"{method}, at two strides")
    else:
        reason = tlb.page.reason or "a single page too many would not have been seen"
        low = tlb.pages.fits * tlb.stride_bytes
        high = tlb.pages.over * tlb.stride_bytes if tlb.pages.over else None
        findings["entries"] = undetermined("entries", reason, method, (), low / page if page else None, None)
        findings["reach_bytes"] = undetermined("reach_bytes", reason, method, (), low, high)
    if tlb.sets is not None and tlb.sets.ways is not None and agrees:
        findings["ways"] = measured("ways", tlb.sets.ways, "pages that fit at strides of powers of two")
        findings["sets"] = measured("sets", tlb.sets.sets, "pages that fit at strides of powers of two")
        assert page is not None
        stride = max(page, tlb.sets.way_bytes)
        findings |= yield from replaced(asked, chase, replace(tlb.contrast), tlb.sets.ways, stride, 64)
    else:
        reason = (tlb.sets.reason if tlb.sets else tlb.page.reason) or "sets times ways is not the number of entries"
        findings |= {name: undetermined(name, reason) for name in ("ways", "sets", "policy")}
    findings["penalty_cycles"] = measured(
        "penalty_cycles",
        penalty,
        "latency beyond the TLB less that within",
        (),
        penalty * (1 - PENALTY),
        penalty * (1 + PENALTY),
    )
    return TlbLevel(f"L{number + 1} TLB", findings)
