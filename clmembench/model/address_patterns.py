"""Address patterns as arrays: the offsets that one lap of a chase visits, in order. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Array, Pattern, Probe

NODE_BYTES = 8  # an absolute address
MAX_NODES = 1 << 26
SCRAMBLING_SHIFTS = 5, 7  # scramble the indices within a window of a scan, as in chase.cl
MAX_MARKED_BYTES_PER_NODE = 256  # of a lap's span: marking its places then takes a third of the time of sorting them, or less
MIN_PAGE_BYTES = 4096  # no device has smaller pages
CROWD_FACTOR = 2654435761  # odd, so that index * factor modulo a power of two is a permutation of the indices


def pattern_offsets(pattern: Pattern) -> Array:
    """Offsets in bytes, int64, shape (accesses of a lap,), all different, each a multiple of 8.

    Random orders are one cycle through all places (as Sattolo's algorithm gives), so that a prefetcher cannot predict the next
    address. Raises ValueError where places overlap, a stride is no multiple of 8, or a lap has no accesses or more than 2^26;
    the message names the defect.
    """
    if pattern.order == "segments":
        return _checked(_segments(pattern.segments))
    if not 0 < pattern.count <= MAX_NODES or pattern.count * pattern.visits > MAX_NODES:
        raise ValueError(f"a lap has 1 to {MAX_NODES} places, not {pattern.count}")
    places = _places(pattern)
    random = np.random.default_rng(pattern.seed)
    if pattern.order == "sequential":
        lap = places
    elif pattern.order == "random":
        lap = places[random.permutation(places.size)]
    elif pattern.order in ("by_page", "by_round"):
        lap = _lines_of_pages(places[random.permutation(pattern.count)], pattern)
    elif pattern.order == "zigzag":
        forth = places[_blocks(pattern, random) if pattern.block_bytes else random.permutation(places.size)]
        lap = np.concatenate([forth, forth[::-1] + NODE_BYTES])
    elif pattern.order == "blocks":
        lap = places[_blocks(pattern, random)]
    elif pattern.order == "pairs":
        first = places[random.permutation(pattern.count)]
        lap = np.stack([first, first + pattern.block_bytes], axis=1).reshape(-1)
    elif pattern.order == "walk":
        lap = _revisited(places[_walk(pattern, random)])
    else:
        raise ValueError(f"there is no order {pattern.order!r}")
    return _checked(lap)


def pattern_bytes(pattern: Pattern) -> int:
    """Bytes from the base to the end of the last node; an upper bound where places are shifted."""
    if pattern.order == "segments":
        return int(_segments(pattern.segments).max()) + NODE_BYTES
    beyond = {"pairs": 1, "by_page": pattern.visits, "by_round": pattern.visits}.get(pattern.order, 0) * pattern.block_bytes
    if pattern.segments:
        return int(_places(pattern).max()) + beyond + pattern.visits * NODE_BYTES + NODE_BYTES
    beyond += NODE_BYTES if pattern.order == "zigzag" else 0
    moved = pattern_span_bytes(pattern) if pattern.shift_bytes else 0
    return (pattern.count - 1) * pattern.stride_bytes + beyond + moved + pattern.visits * NODE_BYTES


def crowd_offsets(probe: Probe, count: int, first: int = 0) -> Array:
    """Offsets in bytes of the eviction lines of a probe in mode evict, from index `first` up to `count`, in load order."""
    number = np.arange(first, count, dtype=np.uint64) * np.uint64(CROWD_FACTOR) % np.uint64(max(1, probe.crowd))
    return np.asarray(number.astype(np.int64) * probe.crowd_bytes)


def crowd_counts(probe: Probe) -> list[int]:
    """The number of eviction lines that are loaded before each recorded access of a probe in mode evict."""
    between = max(1, probe.record - 1)
    return [probe.until - (probe.until - probe.skip) * (between - j) // between for j in range(probe.record)]


def scan_offsets(probe: Probe, number: Array) -> Array:
    """Offsets in bytes of the lines with these indices of a probe in mode residence; the index order is the load order.

    The scan proceeds window by window, so that prefetched lines are soon loaded anyway. Within a window the order is scrambled
    by invertible steps, so that no index occurs twice and no prefetcher predicts the next line.
    """
    within = number % probe.crowd * CROWD_FACTOR % probe.crowd
    within ^= within >> SCRAMBLING_SHIFTS[0]
    within = within * CROWD_FACTOR % probe.crowd
    within ^= within >> SCRAMBLING_SHIFTS[1]
    return np.asarray((number // probe.crowd * probe.crowd + within) * probe.crowd_bytes)


def scan_span(probe: Probe) -> int:
    """The distance in lines between two repeats of a probe in mode residence: whole windows."""
    return -(-probe.until // probe.crowd) * probe.crowd


def timed_numbers(probe: Probe) -> tuple[Array, Array]:
    """For each timed line of a probe in mode residence: the number of lines that are loaded before it is timed, and its index.

    Golden-ratio steps let each distance behind the scan occur equally often and at no regular interval.
    """
    check = np.arange(probe.record, dtype=np.int64)
    first = probe.skip + probe.also_until + 1
    loaded = first + (probe.until - first) * (check + 1) // probe.record
    index = check * CROWD_FACTOR % (1 << 32) * probe.rounds >> 32
    age = probe.also_from + (probe.also_until - probe.also_from) * index // max(1, probe.rounds - 1)
    return loaded, loaded - 1 - age


def probe_bytes(probe: Probe) -> int:
    """Bytes from the base to the end of the last place of a probe."""
    if probe.mode == "residence":
        return probe.turns * scan_span(probe) * probe.crowd_bytes
    return max(pattern_bytes(probe.pattern), probe.crowd * probe.crowd_bytes)


def pattern_span_bytes(pattern: Pattern) -> int:
    """The span within which a place is shifted: the largest power of two up to the stride.

    For pairs it is half of that, so that each pair begins in the first half of a page as long as the stride. For lines of a
    page that are shifted by no more than their own extent it is 4 KiB, so that the page remains the same.
    """
    whole = 1 << (pattern.stride_bytes.bit_length() - 1)
    if pattern.order in ("by_page", "by_round") and pattern.visits * pattern.block_bytes >= pattern.shift_bytes:
        return min(whole, MIN_PAGE_BYTES)
    return whole // 2 if pattern.order == "pairs" else whole


def _places(pattern: Pattern) -> Array:
    """The offsets of the places of a lap: equally spaced, or as listed in `segments`."""
    if pattern.segments:
        return _segments(pattern.segments)
    index = np.arange(pattern.count, dtype=np.int64)
    places: Array = index * pattern.stride_bytes + _moved(index, pattern)
    return places


def _lines_of_pages(pages: Array, pattern: Pattern) -> Array:
    """Lines of pages, page by page or in rounds; no two consecutive steps go one line further, since a prefetcher might follow
    them."""
    half = pattern.visits // 2
    lines = [k for low in reversed(range(half)) for k in (low, low + half)] + [2 * half] * (pattern.visits % 2)
    offsets = np.array(lines, dtype=np.int64) * pattern.block_bytes
    if pattern.order == "by_page":
        return np.asarray((pages[:, None] + offsets[None, :]).reshape(-1))
    turns = (np.arange(pattern.visits)[:, None] + np.arange(pages.size)[None, :]) % pattern.visits
    return np.asarray((pages[None, :] + offsets[turns]).reshape(-1))


def _moved(index: Array, pattern: Pattern) -> Array:
    """The shift of each place: one `shift_bytes` more than the last, and one more again in every round.

    No bits of the page number then equal bits of the offset, which a cache's set index would see.
    """
    if not pattern.shift_bytes:
        return np.zeros_like(index)
    slots = max(1, pattern_span_bytes(pattern) // pattern.shift_bytes)
    moved: Array = (index + index // slots + index // slots**2) % slots * pattern.shift_bytes
    return moved


def _blocks(pattern: Pattern, random: np.random.Generator) -> Array:
    """Place indices: blocks in random order, and random order within each block. The last block may be shorter."""
    a_block = max(1, pattern.block_bytes // pattern.stride_bytes)
    whole, left = divmod(pattern.count, a_block)
    places = random.permuted(np.arange(whole * a_block).reshape(whole, a_block), axis=1)
    order = random.permutation(whole + (left > 0))
    if not left:
        return places[order].reshape(-1)
    shorter = int(np.flatnonzero(order == whole)[0])
    before, behind = places[order[:shorter]], places[order[shorter + 1 :]]
    return np.concatenate([before.reshape(-1), whole * a_block + random.permutation(left), behind.reshape(-1)])


def _walk(pattern: Pattern, random: np.random.Generator) -> Array:
    """Place indices of a random walk: each of `count` places `visits` times, never twice in a row, also across the end of the
    lap."""
    if pattern.count < 3:
        return np.tile(np.arange(pattern.count), pattern.visits)
    order = np.repeat(np.arange(pattern.count), pattern.visits)
    random.shuffle(order)
    for _ in range(1000):
        same = np.flatnonzero(order == np.roll(order, -1))
        if same.size == 0:
            return order
        for i in same:  # a swap may create another such pair, which the next round removes
            j = int(random.integers(order.size))
            order[i], order[j] = order[j], order[i]
    raise ValueError(f"could not construct a walk over {pattern.count} places with {pattern.visits} visits")


def listed(lines: Sequence[int]) -> str:
    """Lines as segments of a pattern: runs of equal distances."""
    ordered = sorted(lines)
    apart = np.diff(np.array(ordered, dtype=np.int64))
    parts, at = list[str](), 0
    for start in np.flatnonzero(apart[1:] == apart[:-1]).tolist():  # the first of three equally spaced lines
        if start < at:
            continue
        parts += [f"{line}:0:1:1" for line in ordered[at:start]]
        stride, at = ordered[start + 1] - ordered[start], start + 3
        while at < len(ordered) and ordered[at] - ordered[at - 1] == stride:
            at += 1
        parts.append(f"{ordered[start]}:{stride}:{at - start}:1")
    parts += [f"{line}:0:1:1" for line in ordered[at:]]
    return ";".join(parts)


def _segments(text: str) -> Array:
    parts = []
    for segment in text.split(";"):
        try:
            start, stride, count, times = map(int, segment.split(":"))
        except ValueError as error:
            raise ValueError(f"segment {segment!r}: write start:stride:count:times") from error
        if not (count > 0 and 0 < count * times <= MAX_NODES and start >= 0 and stride >= 0):
            raise ValueError(f"segment {segment!r} is empty, negative or too long")
        parts.append((start, stride, count, times))
    # without a loop: a lap over listed lines has thousands of segments with one place each
    starts, strides, counts, repeats = np.array(parts, dtype=np.int64).T
    sizes = counts * repeats
    number = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return _revisited(np.repeat(starts, sizes) + np.repeat(strides, sizes) * (number % np.repeat(counts, sizes)))


def _revisited(lap: Array) -> Array:
    """The lap with the k-th visit of a place moved to the k-th node behind its start."""
    order = np.argsort(lap, kind="stable")
    ranked = lap[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]]
    starts = np.flatnonzero(first)
    nth = np.arange(lap.size) - np.repeat(starts, np.diff(np.r_[starts, lap.size]))
    moved = lap.copy()
    moved[order] += NODE_BYTES * nth
    return moved


def _checked(lap: Array) -> Array:
    if lap.min() < 0 or (lap % NODE_BYTES).any():
        raise ValueError(f"places must lie at multiples of {NODE_BYTES} B: choose strides and distances so")
    if lap.max() < MAX_MARKED_BYTES_PER_NODE * lap.size:
        marked = np.zeros(int(lap.max()) // NODE_BYTES + 1, dtype=np.bool_)
        marked[lap // NODE_BYTES] = True
        apart = np.count_nonzero(marked) == lap.size
    else:
        apart = bool(np.diff(np.sort(lap)).all())
    if not apart:
        raise ValueError("two places of a lap overlap: choose a larger stride, or fewer visits")
    return lap
