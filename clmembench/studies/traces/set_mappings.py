"""Mappings of addresses to cache sets that are tried. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clmembench.model import Array

# Thresholds and limits, each with its reason
MAX_INDEX_SHIFT_BITS = 8  # bits between the offset in a line and the first bit of the set index
MAX_GRAIN_BYTES = (
    4096  # consecutive bytes in one set: bits of the page's number alone are no set index, and frames may hide them
)
MAX_INDEX_BITS = 14  # of a set index, that are tried
ODD_SET_COUNTS = tuple(n for n in range(3, 33) if n & (n - 1)) + tuple(
    m << k for k in range(3, 12) for m in (3, 5, 7, 9, 11, 13, 15)
)


@dataclass(frozen=True, slots=True)
class SetMapping:
    """Lines of `line_bytes`; the set is `address // grain_bytes` modulo `sets` (plain bits where both are powers of two)."""

    line_bytes: int
    grain_bytes: int
    sets: int
    folded: tuple[int, int] = (0, 0)  # number and first of the bits above the grain that are XORed into the set's lowest bits

    def of(self, addresses: Array) -> Array:
        """The set of each address."""
        index = addresses // self.grain_bytes
        count, first = self.folded
        if count:
            index = index ^ (index >> first) & ((1 << count) - 1)
        set_number: Array = index % self.sets
        return set_number

    @property
    def bits(self) -> str:
        """Address bits of the set index, "7-11", if it consists of plain bits; else ""."""
        if self.sets & (self.sets - 1) or self.sets == 1 or self.folded[0]:
            return ""
        low = self.grain_bytes.bit_length() - 1
        high = low + self.sets.bit_length() - 2
        return f"{low}-{high}" if high > low else str(low)

    @property
    def hash(self) -> str:
        """Bits that are XORed into the lowest bits of the set index, "13-14 into 7-8"; "" where there are none."""
        count, first = self.folded
        low = self.grain_bytes.bit_length() - 1
        return f"{low + first}-{low + first + count - 1} into {low}-{low + count - 1}" if count else ""


def plain_mappings(lines: Sequence[int], span: int, paged: bool) -> Iterator[SetMapping]:
    """The mappings that are tried: plain bits at any position, numbers of sets that are no power of two, one set."""
    for line in lines:
        yield SetMapping(line, line, 1)
        for shift in range(1 if paged else MAX_INDEX_SHIFT_BITS):
            for bits in range(1, MAX_INDEX_BITS):
                if line << shift << bits <= 2 * span and (paged or line << shift < MAX_GRAIN_BYTES):
                    yield SetMapping(line, line << shift, 1 << bits)
        for sets in ODD_SET_COUNTS:
            if line * sets <= 2 * span:
                yield SetMapping(line, line, sets)


def hashed_mappings(lines: Sequence[int], span: int) -> Iterator[SetMapping]:
    """Plain bits with further adjacent ones XORed into the lowest: the simplest hashes, tried if plain mappings explain
    nothing."""
    for line in lines:
        for bits in range(1, MAX_INDEX_BITS):
            for first in range(bits, bits + 4):
                for count in range(1, bits + 1):
                    if line << first < span:
                        yield SetMapping(line, line, 1 << bits, (count, first))
