"""What someone careful records of a memory by hand, after Mei & Chu 2015, section 4.2, not knowing of any tool that reads it.

A coarse sweep of sizes; arrays around every capacity; few lines far apart; random orders of lines of one set; lines on pages.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.simulated import KIB, MIB, Cache, Path, Tlb

Recording = tuple[np.ndarray, int, int, int, int]  # offsets of a lap, accesses recorded, not recorded before, array, stride


def recordings(rng: np.random.Generator, path: Path) -> Iterator[Recording]:
    """All of them, for one path to memory."""
    word = int(rng.choice([4, 8]))
    yield from _sweep(path)
    for cache in path.caches:
        yield from _around(cache, word)
        yield from _one_set(rng, cache)
    yield from _conflicts(path)
    for tlb in path.tlbs:
        yield from _pages(tlb, path.caches[0].line_bytes)


def _sequential(size: int, stride: int, accesses: int, warmup: int) -> Recording:
    return np.arange(0, size, stride), accesses, warmup, size, stride


def _sweep(path: Path) -> Iterator[Recording]:
    """Sizes by factors of 2 and 1.5 to twice the last cache, one line after the other, a little of a warm lap of each."""
    stride, size = path.caches[0].line_bytes, 1 * KIB
    while size <= 2 * path.caches[-1].size_bytes:
        for array in (size, size * 3 // 2):
            lap = -(-array // stride)
            yield _sequential(array, stride, min(lap, 200), 2 * lap)
        size *= 2


def _around(cache: Cache, word: int) -> Iterator[Recording]:
    """Arrays a little smaller and larger than a cache: word by word, in sectors, lines and powers of two, cold and warm."""
    size, line, sets = cache.size_bytes, cache.line_bytes, len(cache.sets.ways)
    sector = cache.sector_bytes or line
    if size // line > 4096:  # too much to record whole laps of many sizes
        for array in (size // 2, size * 7 // 8, size, size + line, size * 9 // 8, size * 3 // 2):
            yield _sequential(array, line, 2000, 2 * (array // line))
        return
    if size // word <= 10_000:
        for more in (0, word, line, line + word):
            lap = -(-(size + more) // word)
            yield _sequential(size + more, word, lap, lap)
    for stride in {sector, line}:
        yield _sequential(size, stride, 2 * size // stride, 0)
    overflows = sorted({-line, 0, line, 2 * line, 3 * line, sets // 2 * line, sets * line, 2 * sets * line})
    for more in overflows:
        lap = (size + more) // line
        yield _sequential(size + more, line, 3 * lap if lap < 600 else lap, 2 * lap)
    for stride in (2 * line, 4 * line):
        array = 2 * size
        yield _sequential(array, stride, array // stride, 2 * array // stride)


def _conflicts(path: Path) -> Iterator[Recording]:
    """Few lines at strides of powers of two, from empty caches."""
    stride = path.caches[0].line_bytes
    while stride <= min(2 * path.caches[-1].size_bytes, 16 * MIB):
        for lines in (2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 25):
            yield _sequential(lines * stride, stride, 5 * lines, 0)
        stride *= 2


def _one_set(rng: np.random.Generator, cache: Cache) -> Iterator[Recording]:
    """A random order of a few lines more than a set has ways, at the stride at which plain bits put all into one set."""
    ways = max(cache.sets.ways)
    stride = len(cache.sets.ways) * cache.line_bytes
    if ways > 32:
        return
    for more in (1, 2):
        order = rng.integers(0, ways + more, size=2000)
        yield order * stride, order.size, 0, (ways + more) * stride, stride


def _pages(tlb: Tlb, line: int) -> Iterator[Recording]:
    """One line a page, each a line further into its page, around the entries; and at half and twice the page's size."""
    for spacing in (tlb.page_bytes // 2, tlb.page_bytes, 2 * tlb.page_bytes):
        around = {tlb.entries // 2, *range(tlb.entries - 1, tlb.entries + 3), tlb.entries * 5 // 4, tlb.entries * 2}
        for entries in sorted(around):
            number = np.arange(entries)
            lap = number * spacing + number * line % min(2 * KIB, spacing)
            yield lap, min(entries, 1000), 2 * entries, entries * spacing, spacing
