"""Banked memories that may be: how words lie in their banks, and in how many passes a sub-group's loads are served. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

# Thresholds and limits, each with its reason
BANK_COUNTS = (4, 8, 16, 32, 64, 128)  # of banks, that are tried
INTERLEAVE_AND_WIDTH_BYTES = ((4, 4), (8, 8), (16, 16), (4, 8))  # (interleave, width) in bytes
WORK_ITEMS_PER_PASS = (32, 16, 8)  # work-items of a sub-group whose loads one pass may serve


@dataclass(frozen=True, slots=True)
class BankMapping:
    """`count` banks, each of which gives `width_bytes` of one of its rows in a pass. Successive pieces of `interleave_bytes`
    lie in successive banks: in Kepler's banks of 8 B these are 8 in one mode and 4 in the other, where the two words of a
    bank's row lie 32 words apart (Mei & Chu 2015, section 6.2). The loads of `served` work-items at a time share passes."""

    count: int
    width_bytes: int
    interleave_bytes: int
    served: int = 32

    def passes(self, stride: int, word_bytes: int, items: int) -> int:
        """In how many passes work-items 0 to `items` - 1 get words that lie `stride` words apart: of each group served together
        as many as the bank in most demand has different rows to give. Of a row that several ask for it is one pass."""
        return _passes_of_load(self, stride, word_bytes, items)

    @property
    def name(self) -> str:
        """How words lie in them, in words."""
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
        asked = np.unique(row * banks.count + addresses // banks.interleave_bytes % banks.count)
        total += int(np.bincount(asked % banks.count).max())
    return total


def candidate_banks() -> Iterator[BankMapping]:
    """Every banked memory that is tried."""
    for count in BANK_COUNTS:
        for interleave, width in INTERLEAVE_AND_WIDTH_BYTES:
            for served in WORK_ITEMS_PER_PASS:
                yield BankMapping(count, width, interleave, served)
