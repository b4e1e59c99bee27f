"""What is known of one level of address translation. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from clmembench.studies.hierarchy.geometry.strides import SetGeometry, is_consistent
from clmembench.studies.hierarchy.probes.fill_unit import UnitSize
from clmembench.studies.hierarchy.probes.probing import CapacityBound, HitMissModel
from clmembench.studies.hierarchy.tlb.tlb_ramp import RampFit, SetWays

# Thresholds and limits, each with its reason
MAX_HIDDEN_SHARE = 0.1  # of what a miss costs: a nearer level's misses cost as much at least, as a rule


@dataclass(frozen=True, slots=True)
class TlbEvidence:
    """Ids of the records that tell a level's penalty, its page, how many pages fit, and its sets."""

    penalty: tuple[str, ...] = ()
    page: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TlbGeometry:
    """One level: how many pages fit, what a miss costs beyond a hit (and at several times as many pages, which tells whether it
    is the whole cost; `noise` is theirs), the page, its sets; None and why where that is not known. `ramp`: the sets by how
    misses grow; `by_bits`: by which bits of a page's number choose them; `by_pages`: page by page. `alike`: as many pages miss
    wherever the first one is, as of equal sets; None: not known. `first_page`: from which one most pages in a row fit.
    `hit_doubt`: by how much the costs differ that tell what a miss of the nearer level adds to a hit of this one."""

    contrast: HitMissModel
    pages: CapacityBound
    stride_bytes: int  # at which pages were counted
    penalties: tuple[float, ...]
    page: UnitSize
    tags: CapacityBound | None
    sets: SetGeometry | None
    dearest: float = 0.0  # what a miss costs at most
    noise: float = 0.0
    sources: TlbEvidence = field(default_factory=TlbEvidence)
    ramp: RampFit | None = None
    by_bits: SetWays | None = None
    by_pages: SetWays | None = None
    alike: bool | None = None
    first_page: int = 0
    hit_doubt: float = 0.0

    @property
    def decided(self) -> SetWays | None:
        """The sets, where how misses grow, bits or single pages tell them."""
        return self.by_pages or self.by_bits or (self.ramp.sets if self.ramp is not None else None)

    @property
    def may_follow_another(self) -> bool:
        """True if a nearer level may have overflowed before, unseen: so much of what a miss costs hid among pages that fit."""
        return self.pages.hidden > MAX_HIDDEN_SHARE * self.pages.fits


def sets_agree(tlb: TlbGeometry) -> bool:
    """True if sets times ways is the number of entries that odd strides found."""
    return tlb.sets is not None and tlb.tags is not None and is_consistent(tlb.sets, tlb.tags)
