"""The inner loop of the simulated memories: tags in sets, looked up access by access, compiled by Numba.

Caches and TLBs are the same thing here: a table of units (lines, pages) in sets of ways. All tables of a machine lie behind one
another in flat arrays; `Tables` is what a numbered level needs to find its part. A level that misses fetches and keeps the unit (of a
line the sector alone); empty ways are filled first, lowest first; nothing is ever taken out but by replacement.

Replacement: LRU; FIFO; tree-PLRU, one bit a node, for ways that are no power of two the tree of the next power of which the last leaves
are missing; NRU, one mark a line, the victim the lowest unmarked way, and where none is left all marks but the newest are
cleared, either at once ("at use") or when a victim is wanted ("at miss", Jaleel 2010); random; way-weighted, victims of
given probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

PLAIN, MODULO, LISTED, HASHED = range(4)
LRU, FIFO, TREE, NRU_AT_USE, NRU_AT_MISS, RANDOM, WEIGHTED = range(7)
SHIFT, KIND, LOW, MASK, SETS, TABLE, POLICY, SECTOR_SHIFT, SECTOR_MASK, PHYSICAL, CHANCES, TREE_WAYS = range(12)
COLUMNS = 12
TICK, CHANCE, STREAM, HEAD = range(
    4
)  # what a run remembers: accesses so far, random state, last access, how far was prefetched
FRAME_BITS = 24  # page frames a machine has: 2^24


class Tables(NamedTuple):
    """The levels of one path to memory. `geometry`: int64 (levels, COLUMNS), caches first, then TLBs; first, ways: of each set;
    tables: listed sets and hashes; chances: cumulated victim probabilities. The rest is state: tags, marks and filled of each
    way, used and tree of each set, memory of the run."""

    geometry: np.ndarray
    first: np.ndarray
    ways: np.ndarray
    tables: np.ndarray
    chances: np.ndarray
    tags: np.ndarray
    marks: np.ndarray
    filled: np.ndarray
    used: np.ndarray
    tree: np.ndarray
    memory: np.ndarray


@njit(cache=True)
def _chance(memory):
    """xorshift64: the next of uniform numbers in [0, 1)."""
    x = np.uint64(memory[CHANCE])
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    memory[CHANCE] = np.int64(x)
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True)
def frame(page, key):
    """The page frame of a page, a permutation of 2^24 that `key` chooses; pages above that keep their upper bits."""
    mask = (1 << FRAME_BITS) - 1
    x = (page ^ key) & mask
    x = (x * 0x9E3779) & mask
    x ^= x >> 13
    x = (x * (((key >> 20) & mask) | 1)) & mask
    x ^= x >> 12
    x = (x * 0x85EBCB) & mask
    x ^= x >> 11
    return (page & ~mask) | x


@njit(cache=True)
def _set_of(g, address, unit, tables):
    kind = g[KIND]
    if kind == PLAIN:
        return (address >> g[LOW]) & g[MASK]
    if kind == MODULO:
        return unit % g[MASK]
    if kind == LISTED:
        return tables[g[TABLE] + unit % g[MASK]]
    found = 0  # every set bit is the parity of some address bits: linear, so one table lookup for each byte
    for byte in range(5):
        found ^= tables[g[TABLE] + 256 * byte + ((address >> (8 * byte)) & 255)]
    return found


@njit(cache=True)
def _victim(g, s, first, n, t):
    policy = g[POLICY]
    if policy == LRU:
        best = 0
        for way in range(1, n):
            if t.marks[first + way] < t.marks[first + best]:
                best = way
        return best
    if policy == FIFO:
        way = t.tree[s]
        t.tree[s] = 0 if way + 1 == n else way + 1
        return way
    if policy == TREE:
        node, low, width = 1, 0, g[TREE_WAYS]
        while width > 1:
            width >>= 1
            right = (t.tree[s] >> node) & 1
            if right == 1 and low + width >= n:  # nothing there
                right = 0
            node = 2 * node + right
            low += right * width
        return low
    if policy == NRU_AT_USE or policy == NRU_AT_MISS:
        for way in range(n):
            if t.marks[first + way] == 0:
                return way
        for way in range(n):
            t.marks[first + way] = 0
        t.tree[s] = 0
        return 0
    chance = _chance(t.memory)
    if policy == RANDOM:
        return np.int64(chance * n)
    for way in range(n - 1):
        if chance < t.chances[g[CHANCES] + way]:
            return way
    return n - 1


@njit(cache=True)
def _used(g, s, first, n, way, t):
    """Tell the policy that a way was used."""
    policy = g[POLICY]
    if policy == LRU:
        t.marks[first + way] = t.memory[TICK]
    elif policy == TREE:
        node, low, width, bits = 1, 0, g[TREE_WAYS], t.tree[s]
        while width > 1:
            width >>= 1
            right = 1 if way >= low + width else 0
            if right == 1:
                bits &= ~(1 << node)
            else:
                bits |= 1 << node
            node = 2 * node + right
            low += right * width
        t.tree[s] = bits
    elif (policy == NRU_AT_USE or policy == NRU_AT_MISS) and t.marks[first + way] == 0:
        t.marks[first + way] = 1
        t.tree[s] += 1
        if policy == NRU_AT_USE and t.tree[s] == n and n > 1:
            for other in range(n):
                t.marks[first + other] = 0
            t.marks[first + way] = 1
            t.tree[s] = 1


@njit(cache=True)
def _look(level, address, t):
    """Whether a level has what is at an address; it has it from then on."""
    g = t.geometry[level]
    unit = address >> g[SHIFT]
    s = g[SETS] + _set_of(g, address, unit, t.tables)
    first, n = t.first[s], t.ways[s]
    sector = 1 << ((address >> g[SECTOR_SHIFT]) & g[SECTOR_MASK])
    way = -1
    for w in range(t.used[s]):
        if t.tags[first + w] == unit:
            way = w
            break
    hit = False
    if way >= 0:
        hit = (t.filled[first + way] & sector) != 0
        t.filled[first + way] |= sector
    else:
        if t.used[s] < n:
            way = t.used[s]
            t.used[s] += 1
        else:
            way = _victim(g, s, first, n, t)
        if g[POLICY] == NRU_AT_USE or g[POLICY] == NRU_AT_MISS:
            t.tree[s] -= t.marks[first + way]
            t.marks[first + way] = 0
        t.tags[first + way] = unit
        t.filled[first + way] = sector
    _used(g, s, first, n, way, t)
    return hit


@njit(cache=True)
def _prefetch(level, address, end, depth, physical, t):
    """Lines behind an access in sequence with the one before it, up to `depth` bytes ahead, are brought into a level."""
    line = 1 << t.geometry[level, SHIFT]
    behind = t.memory[STREAM]
    t.memory[STREAM] = address
    if behind >= 0 and not 0 < address - behind <= 16 * line:
        return
    start = (address // line + 1) * line
    if behind >= 0 and start <= t.memory[HEAD] <= address + depth:
        start = t.memory[HEAD] + line
    last = min(address + depth, end - 1)
    at = start
    while at <= last:
        _look(level, physical_address(at, physical, t.geometry[level, PHYSICAL]), t)
        t.memory[HEAD] = at
        at += line


@njit(cache=True)
def physical_address(address, physical, shift):
    """Where an address is in physical memory of pages of 2^shift bytes; as it is where shift is 0."""
    if shift == 0:
        return address
    return (frame(address >> shift, physical) << shift) | (address & ((1 << shift) - 1))


@njit(cache=True)
def chase(lap, start, accesses, base, end, physical, caches, late_tlb, fetch_level, fetch_bytes, t, counts, codes):
    """`accesses` accesses of laps from number `start` on. Each gets a code: the cache level that served it (memory after the last) +
    (caches + 1) * TLB levels that missed. Counted in `counts`; the last `codes.size` codes are written to `codes`."""
    n = lap.size
    levels = t.geometry.shape[0]
    i = start % n
    quiet = accesses - codes.size
    for k in range(accesses):
        address = base + lap[i]
        i = 0 if i + 1 == n else i + 1
        t.memory[TICK] += 1
        served = 0
        while served < caches:
            if _look(served, physical_address(address, physical, t.geometry[served, PHYSICAL]), t):
                break
            served += 1
        missed = 0
        if not (late_tlb and served == 0):
            while caches + missed < levels and not _look(caches + missed, address, t):
                missed += 1
        if fetch_bytes > 0 and served >= fetch_level:
            _prefetch(fetch_level, address, end, fetch_bytes, physical, t)
        code = served + (caches + 1) * missed
        counts[code] += 1
        if k >= quiet:
            codes[k - quiet] = code
