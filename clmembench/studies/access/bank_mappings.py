"""Candidate bank layouts of local memory: where words lie, and how many passes a sub-group's loads take. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

# Thresholds and limits, each with its reason
BANK_COUNTS = (4, 8, 16, 32, 64, 128)  # numbers of banks that are tried
INTERLEAVE_AND_WIDTH_BYTES = ((4, 4), (8, 8), (16, 16), (4, 8))  # (interleave, width) in bytes
WORK_ITEMS_PER_PASS = (32, 16, 8)  # work-items of a sub-group whose loads one pass may serve


@dataclass(frozen=True, slots=True)
class BankMapping:
    """`count` banks, each of which delivers `width_bytes` of one of its rows per pass. Successive pieces of `interleave_bytes`
    lie in successive banks. Kepler's 8-byte banks interleave by 8 B in one mode and by 4 B in the other, in which the two words
    of a row lie 32 words apart (Mei & Chu 2015, section 6.2). The loads of `served` work-items share passes."""

    count: int
    width_bytes: int
    interleave_bytes: int
    served: int = 32

    def passes(self, stride: int, word_bytes: int, items: int) -> int:
        """Number of passes in which work-items 0 to `items` - 1 load words that lie `stride` words apart: for each group served
        together, the largest number of distinct rows requested from one bank. Requests for the same row share a pass."""
        return _passes_of_load(self, stride, word_bytes, items)

    @property
    def name(self) -> str:
        """Description of the layout."""
        pieces = f"successive words of {self.interleave_bytes} B in successive banks"
        if self.interleave_bytes == self.width_bytes:
            return pieces
        return f"{pieces} of {self.width_bytes} B ({self.interleave_bytes}-byte mode)"


@cache
def _passes_of_load(banks: BankMapping, stride: int, word_bytes: int, items: int) -> int:
    pieces = np.arange(max(1, word_bytes // banks.interleave_bytes)) * banks.interleave_bytes
    total = 0
    for first in range(0, items, banks.served):
        together = np.arange(first, min(first + banks.served, items))
        addresses = (together[:, None] * stride * word_bytes + pieces).ravel()
        row = addresses // (banks.count * banks.width_bytes)
        requested_rows = np.unique(row * banks.count + addresses // banks.interleave_bytes % banks.count)
        total += int(np.bincount(requested_rows % banks.count).max())
    return total


def candidate_banks() -> Iterator[BankMapping]:
    """Every bank layout that is tried."""
    for count in BANK_COUNTS:
        for interleave, width in INTERLEAVE_AND_WIDTH_BYTES:
            for served in WORK_ITEMS_PER_PASS:
                yield BankMapping(count, width, interleave, served)
