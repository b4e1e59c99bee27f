"""The inner loop of the simulated memories: units looked up in sets of ways, access by access, compiled by Numba.

Caches and TLBs are the same thing here: levels that keep units (lines, pages) in sets of ways. A level that misses fetches and
keeps the unit, of a line the sector alone. Empty ways are filled first, the lowest first; nothing leaves but by replacement.

Replacement: LRU; FIFO; tree-PLRU, one bit a node, where the ways are no power of two the tree of the next power without its
last leaves; NRU, one mark a way, the victim the lowest unmarked way, and where all are marked all marks but the newest are
cleared, at once ("at use") or when a victim is wanted ("at miss", Jaleel et al. 2010); random; way-weighted, where every way
has its probability of being the victim.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PLAIN, MODULO, LISTED, HASHED = range(4)
LRU, FIFO, TREE, NRU_AT_USE, NRU_AT_MISS, RANDOM, WEIGHTED = range(7)
# geometry: one row a level, caches first, then TLBs
SHIFT, KIND, LOW, MASK, SETS, TABLE, POLICY, SECTOR_SHIFT, SECTOR_MASK, PHYSICAL, CHANCES, TREE_WAYS = range(12)
COLUMNS = 12
# memory: the access's number, state of the random numbers, the last access, how far was prefetched
TICK, CHANCE, STREAM, HEAD, STREAK = range(5)
STREAKS = 2  # steps forward in a row, from which on data is brought in ahead; at the very first access it is too
# sets: a block of each set begins with these, then come the units, the marks and the sectors of its ways
WAYS, USED, TREE_BITS, UNITS = range(4)
FRAME_BITS = 24  # a machine has 2^24 page frames

# written into the one loop; without counting references to arrays, which nothing here lets go of and which costs half the time
inlined = njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)
called = njit(cache=True, _nrt=False, error_model="numpy")  # what few accesses need: a copy of a lookup takes long to compile


@inlined
def _chance(memory):
    """xorshift64: the next of uniform numbers in [0, 1)."""
    x = np.uint64(memory[CHANCE])
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    memory[CHANCE] = np.int64(x)
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0


@inlined
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


@inlined
def _physical(address, key, shift):
    """Where an address is in physical memory of pages of 2^shift bytes; as it is where shift is 0."""
    if shift == 0:
        return address
    return (frame(address >> shift, key) << shift) | (address & ((1 << shift) - 1))


@inlined
def _set_of(level, address, unit, geometry, tables):
    kind = geometry[level, KIND]
    if kind == PLAIN:
        return (address >> geometry[level, LOW]) & geometry[level, MASK]
    if kind == MODULO:
        return unit % geometry[level, MASK]
    table = geometry[level, TABLE]
    if kind == LISTED:
        return tables[table + unit % geometry[level, MASK]]
    found = 0  # each bit is the parity of some bits of the address: linear, so one lookup for each byte
    for byte in range(5):
        found ^= tables[table + 256 * byte + ((address >> (8 * byte)) & 255)]
    return found


@inlined
def _victim(level, at, geometry, chances, sets, memory):
    n, policy = sets[at + WAYS], geometry[level, POLICY]
    marks = at + UNITS + n
    if policy == LRU:
        stamps = sets[marks : marks + n]
        oldest, victim = stamps[0], 0
        for way in range(n):
            oldest = min(oldest, stamps[way])
        for way in range(n):
            if stamps[way] == oldest:
                victim = way
        return victim
    if policy == FIFO:
        way = sets[at + TREE_BITS]
        sets[at + TREE_BITS] = 0 if way + 1 == n else way + 1
        return way
    if policy == TREE:
        node, low, width = 1, 0, geometry[level, TREE_WAYS]
        while width > 1:
            width >>= 1
            right = (sets[at + TREE_BITS] >> node) & 1
            if low + width >= n:  # nothing is there
                right = 0
            node = 2 * node + right
            low += right * width
        return low
    if policy in (NRU_AT_USE, NRU_AT_MISS):
        for way in range(n):
            if sets[marks + way] == 0:
                return way
        for way in range(n):
            sets[marks + way] = 0
        return 0
    chance = _chance(memory)
    if policy == RANDOM:
        return np.int64(chance * n)
    for way in range(n - 1):
        if chance < chances[geometry[level, CHANCES] + way]:
            return way
    return n - 1


@inlined
def _used(level, at, way, geometry, sets, memory):
    """Tell the policy that a way was used."""
    n, policy = sets[at + WAYS], geometry[level, POLICY]
    marks = at + UNITS + n
    if policy == LRU:
        sets[marks + way] = memory[TICK]
    elif policy == TREE:
        node, low, width, bits = 1, 0, geometry[level, TREE_WAYS], np.int64(sets[at + TREE_BITS])
        while width > 1:
            width >>= 1
            right = 1 if way >= low + width else 0
            bits = bits & ~(1 << node) if right else bits | (1 << node)
            node = 2 * node + right
            low += right * width
        sets[at + TREE_BITS] = bits
    elif policy in (NRU_AT_USE, NRU_AT_MISS) and sets[marks + way] == 0:
        sets[marks + way] = 1
        if policy == NRU_AT_USE:
            for other in range(n):
                if sets[marks + other] == 0:
                    return
            for other in range(n):
                sets[marks + other] = 0
            sets[marks + way] = 1


@inlined
def _look(level, address, geometry, tables, chances, starts, sets, memory):
    """Whether a level has what is at an address; it has it from then on."""
    unit = address >> geometry[level, SHIFT]
    at = starts[geometry[level, SETS] + _set_of(level, address, unit, geometry, tables)]
    n, used = sets[at + WAYS], sets[at + USED]
    units = at + UNITS
    sector = 1 << ((address >> geometry[level, SECTOR_SHIFT]) & geometry[level, SECTOR_MASK])
    way = used
    if used > 8:  # all of them, which is done many at a time
        present = sets[units : units + used]
        for candidate in range(used):
            if present[candidate] == unit:
                way = candidate
    else:
        way = 0
        while way < used and sets[units + way] != unit:
            way += 1
    filled = 0
    if way < used:
        filled = sets[units + 2 * n + way]
    else:
        if used < n:
            sets[at + USED] = used + 1
        else:
            way = _victim(level, at, geometry, chances, sets, memory)
        sets[units + way] = unit
        sets[units + n + way] = 0
    sets[units + 2 * n + way] = filled | sector
    _used(level, at, way, geometry, sets, memory)
    return (filled & sector) != 0


@called
def _bring(level, address, geometry, tables, chances, starts, sets, memory):
    """As `_look`, of what no access asked for."""
    return _look(level, address, geometry, tables, chances, starts, sets, memory)


@called
def _prefetch(level, address, end, key, depth, geometry, tables, chances, starts, sets, memory):
    """Lines behind an access in sequence with the one before it, up to `depth` bytes ahead, are brought into a level."""
    line = 1 << geometry[level, SHIFT]
    before = memory[STREAM]
    memory[STREAM] = address
    if before >= 0:
        memory[STREAK] = memory[STREAK] + 1 if 0 < address - before <= 16 * line else 0
        if memory[STREAK] < STREAKS:  # one step forward is no stream yet
            return
    start = (address // line + 1) * line
    if before >= 0 and start <= memory[HEAD] <= address + depth:
        start = memory[HEAD] + line
    for at in range(start, min(address + depth, end - 1) + 1, line):
        found = _physical(at, key, geometry[level, PHYSICAL])
        _bring(level, found, geometry, tables, chances, starts, sets, memory)
        memory[HEAD] = at


@called
def _bring_pair(level, caches, other, key, geometry, tables, chances, starts, sets, memory):
    """The other line of a pair is brought into a level and those behind it, as far as they lack it."""
    while level < caches:
        found = _physical(other, key, geometry[level, PHYSICAL])
        if _bring(level, found, geometry, tables, chances, starts, sets, memory):
            return
        level += 1


@called
def chase(lap, start, accesses, base, end, key, form, geometry, tables, chances, starts, sets, memory, counts, codes):
    """`accesses` accesses of laps, from number `start` on, of an array from `base` to `end`; `key` places its pages in frames.

    `form`: number of caches, whether TLBs are asked only behind the first cache, level that is prefetched into, bytes ahead;
    level whose misses bring further lines of so many bytes (0: none), how many that follow (0: the other one of an aligned
    pair), and at how many misses of 2^20.
    An access's code is the level that served it, memory being the last, + (caches + 1) * how many TLB levels missed. Codes are
    counted in `counts`, and the last `codes.size` of them written to `codes`.
    """
    caches, late_tlb, fetch_level, fetch_bytes, pair_level, pair_bytes, pair_lines, pair_share = form
    n, levels = lap.size, geometry.shape[0]
    i = start % n
    quiet = accesses - codes.size
    for k in range(accesses):
        address = base + lap[i]
        i = 0 if i + 1 == n else i + 1
        memory[TICK] += 1
        served = 0
        while served < caches:
            found = _physical(address, key, geometry[served, PHYSICAL])
            if _look(served, found, geometry, tables, chances, starts, sets, memory):
                break
            served += 1
        missed = 0
        if served > 0 or not late_tlb:
            while caches + missed < levels:
                if _look(caches + missed, address, geometry, tables, chances, starts, sets, memory):
                    break
                missed += 1
        if fetch_bytes > 0 and served >= fetch_level:
            _prefetch(fetch_level, address, end, key, fetch_bytes, geometry, tables, chances, starts, sets, memory)
        if pair_bytes > 0 and served > pair_level and _chance(memory) * (1 << 20) < pair_share:
            if pair_lines == 0:
                other = address ^ pair_bytes
                _bring_pair(pair_level, caches, other, key, geometry, tables, chances, starts, sets, memory)
            for ahead in range(1, pair_lines + 1):
                other = address + ahead * pair_bytes
                if (other ^ address) < 4096:  # within the page
                    _bring_pair(pair_level, caches, other, key, geometry, tables, chances, starts, sets, memory)
        code = served + (caches + 1) * missed
        counts[code] += 1
        if k >= quiet:
            codes[k - quiet] = code
