"""Line, ways, sets and policy together: every hypothesis is simulated and held against what hit and what missed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.infer.drawn_victims import ERROR, Observation, fit
from clmembench.infer.mappings import Footprint, Mapping, Possible, footprint, hashed, mappings, plausible
from clmembench.infer.policies import MARGIN, WRONG_FLAGS
from clmembench.infer.replacement import DETERMINISTIC, Maker, makers
from clmembench.infer.streams import Stream
from clmembench.model import Array

MOST_VISITS = 20_000  # of a trace that are simulated
MOST_ALL = 120_000  # of all traces
MOST_DRAWN = 400  # of a trace, where victims are drawn
MOST_ALL_DRAWN = 1_500
MOST_MAPPINGS = 32
EXACT_BUDGET = 1_200_000  # visits simulated for one cache: what is not tried until then is not excluded, and nothing is said
DRAWN_BUDGET = 16_000
MOST_TRACES = 64
MOST_UNITS = 60_000  # of all traces together
WAYS_TRIED = 4
MOST_SURPRISE = 8.0  # standard deviations, of victims drawn evenly where they may be drawn otherwise
ODD_LOG = math.log(ERROR)
EVEN_LOG = math.log(1 - ERROR)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cache: sectors of `unit_bytes` in lines, mapped to sets of `ways` ways, with a policy; how likely all flags are."""

    unit_bytes: int
    mapping: Mapping
    ways: int
    policy: str
    loglik: float
    explains: bool

    @property
    def size_bytes(self) -> int:
        return self.mapping.line_bytes * self.mapping.sets * self.ways


@dataclass(frozen=True, slots=True)
class Setting:
    """What hypotheses are held against: streams of visits at a unit, and their footprints."""

    unit_bytes: int
    visits: tuple[Stream, ...]
    footprints: tuple[Footprint, ...]


def setting(found: Sequence[Stream], unit_bytes: int) -> Setting:
    """Streams at a unit's grain, the most telling: at each stride around the largest that fits and the smallest that does not."""
    visits = [s.visits(unit_bytes) for s in found]
    feet = [footprint(s) for s in visits]
    by_stride: dict[int, list[int]] = {}
    for number, (stream, foot) in enumerate(zip(visits, feet, strict=True)):
        if foot.visited.sum() > 0:
            by_stride.setdefault(stream.stride_bytes, []).append(number)
    ranked: list[tuple[int, int, int]] = []
    for numbers in by_stride.values():
        fitting = sorted((n for n in numbers if feet[n].fits), key=lambda n: -feet[n].units.size)
        over = sorted((n for n in numbers if not feet[n].fits), key=lambda n: feet[n].units.size)
        ranked += [(rank, feet[n].units.size, n) for rank, n in enumerate(fitting)]
        ranked += [(rank // 2, feet[n].units.size, n) for rank, n in enumerate(over)]
    chosen: list[int] = []
    left = MOST_UNITS
    for _, size, n in sorted(ranked):
        if len(chosen) < MOST_TRACES and (size <= left or not chosen):
            chosen.append(n)
            left -= size
    return Setting(unit_bytes, tuple(visits[n] for n in chosen), tuple(feet[n] for n in chosen))


def hypotheses(given: Setting, sectors: Sequence[int], lines: Sequence[int], paged: bool) -> list[Hypothesis]:
    """All hypotheses that explain the data about as well as the best one does; none where none explains it. `sectors` and
    `lines` are the sizes in bytes that are tried."""
    if not given.visits or all(foot.fits for foot in given.footprints):
        return []
    span = max(int(foot.units[-1]) + given.unit_bytes for foot in given.footprints)
    order = sorted(given.footprints, key=lambda foot: foot.units.size)
    for tried in (mappings(lines, span, paged), () if paged else hashed(lines, span)):
        possible = plausible(list(tried), order, MOST_MAPPINGS)
        for search in (_near_exact, _near_drawn):
            near = search(given, sectors, possible)
            if near and all(h.explains for h in near):
                return near
    return []


def _near_exact(given: Setting, sectors: Sequence[int], possible: Sequence[Possible]) -> list[Hypothesis]:
    """The likeliest hypotheses with a deterministic policy, and those about as likely."""
    cut = _cut(given.visits, [MOST_VISITS] * len(given.visits), MOST_ALL)
    best = -math.inf
    found: list[tuple[Possible, Hypothesis]] = []
    spent = _Spent(EXACT_BUDGET)
    for one, ways, sector in _all(possible, sectors):
        for h in _exact(sector, one.mappings[0], ways, cut, best - MARGIN, spent):
            best = max(best, h.loglik)
            found.append((one, h))
        if spent.left < 0:
            return []
    return _each(found, best - MARGIN)


@dataclass(slots=True)
class _Spent:
    """Visits that may still be simulated."""

    left: int


def _all(possible: Sequence[Possible], sectors: Sequence[int]) -> list[tuple[Possible, int, int]]:
    """Mappings with each number of ways and each sector that goes into the line of any of them."""
    return [
        (one, ways, sector)
        for one in possible
        for ways in _tried(one)
        for sector in sectors
        if any(sector <= mapping.line_bytes for mapping in one.mappings)
    ]


def _near_drawn(given: Setting, sectors: Sequence[int], possible: Sequence[Possible]) -> list[Hypothesis]:
    """The same with victims drawn: on few accesses first, then those that are left on as many more as they can be."""
    tried = _all(possible, sectors)
    given = _begun(given)
    if not given.visits:
        return []
    lengths = [MOST_DRAWN] * len(given.visits)
    found: list[tuple[Possible, Hypothesis]] = []
    best = -math.inf
    spent = _Spent(DRAWN_BUDGET)
    for together in (MOST_ALL_DRAWN, 3 * MOST_ALL_DRAWN):
        cut = _cut(given.visits, lengths, together if together == MOST_ALL_DRAWN else MOST_ALL)
        found, best = [], -math.inf
        for one, ways, sector in tried:
            h = _drawn(sector, one.mappings[0], ways, cut, best - 2 * MARGIN, spent)
            if spent.left < 0:
                return []
            if h is not None:
                best = max(best, h.loglik)
                found.append((one, h))
        left = [(one, h.ways, h.unit_bytes) for one, h in found if h.loglik >= best - 2 * MARGIN]
        if len(left) <= 1 or not any(h.explains for _, h in found):
            break
        tried = left
        lengths = _lengths(given, tried, together)
    return _each(found, best - MARGIN)


def _begun(given: Setting) -> Setting:
    """Of traces that were recorded from early on: what a set holds after a long time unseen, victims drawn, is anything."""
    early = [n for n, s in enumerate(given.visits) if int(np.argmax(s.served >= 0)) <= 0.2 * s.served.size]
    return replace(given, visits=tuple(given.visits[n] for n in early), footprints=tuple(given.footprints[n] for n in early))


def _lengths(given: Setting, tried: Sequence[tuple[Possible, int, int]], most: int) -> list[int]:
    """How much of each stream to take so that over-full sets of any hypothesis get no more visits than so many in all."""
    share = most // max(len(given.visits), 1)
    lengths = []
    for stream in given.visits:
        counts = [_parts(sector, one.mappings[0], ways, stream)[0].size for one, ways, sector in tried]
        lengths.append(int(stream.addresses.size * min(1.0, share / max(*counts, 1))))
    return lengths


def _each(found: Sequence[tuple[Possible, Hypothesis]], least: float) -> list[Hypothesis]:
    """The hypotheses that are likely enough, one for each mapping that stands for the same sets."""
    return [
        replace(h, mapping=mapping)
        for one, h in found
        if h.loglik >= least
        for mapping in one.mappings
        if h.unit_bytes <= mapping.line_bytes
    ]


def _tried(one: Possible) -> list[int]:
    low, high = one.least_ways, one.most_ways
    return sorted({round(float(w)) for w in np.linspace(low, high, min(WAYS_TRIED, high - low + 1))})


def _cut(visits: Sequence[Stream], most: Sequence[int], together: int) -> list[Stream]:
    """The starts of streams, with all that was not seen before them."""
    cut, left = [], together
    for stream, length in zip(visits, most, strict=True):
        unseen = int(np.argmax(stream.served >= 0))
        part = stream.cut(unseen + min(length, left))
        left -= part.addresses.size - unseen // 2  # those are simulated too
        cut.append(part)
        if left <= 0:
            break
    return cut


def _parts(unit_bytes: int, mapping: Mapping, ways: int, stream: Stream) -> tuple[Array, Array, int, int]:
    """Visits to over-full sets in order of set and time, their sets; and of all others how many flags there are, and wrong."""
    sets = mapping.of(stream.addresses)
    lines = stream.addresses // mapping.line_bytes
    _, first = np.unique(lines, return_index=True)  # all of a line is in one set
    held = np.bincount(sets[first], minlength=mapping.sets)
    over = held[sets] > ways
    unit = stream.addresses // unit_bytes
    cold = np.zeros(unit.size, dtype=bool)
    cold[np.unique(unit, return_index=True)[1]] = True
    plain = ~over & (stream.missed >= 0)
    wrong = int((cold[plain] != (stream.missed[plain] == 1)).sum())
    at = np.flatnonzero(over)
    return at[np.argsort(sets[at], kind="stable")], sets, int(plain.sum()), wrong


def _exact(
    unit_bytes: int, mapping: Mapping, ways: int, cut: Sequence[Stream], least: float, spent: _Spent
) -> list[Hypothesis]:
    """Hypotheses with each deterministic policy; one that has become less likely than `least` is not followed further."""
    parts = [_parts(unit_bytes, mapping, ways, s) for s in cut]
    total = sum(int((s.missed >= 0).sum()) for s in cut)
    start = sum(wrong for *_, wrong in parts)
    most = (total * EVEN_LOG - least) / (EVEN_LOG - ODD_LOG) if math.isfinite(least) else math.inf
    found = []
    for name in DETERMINISTIC:
        for maker in makers(name, ways):
            wrong = start
            for stream, (at, sets, _, _) in zip(cut, parts, strict=True):
                if wrong > most:
                    break
                wrong += _wrong(unit_bytes, mapping.line_bytes, ways, maker, stream, at, sets)
                spent.left -= at.size
            if wrong <= most:
                loglik = (total - wrong) * EVEN_LOG + wrong * ODD_LOG
                found.append(Hypothesis(unit_bytes, mapping, ways, name, loglik, wrong <= max(3.0, WRONG_FLAGS * total)))
                most = min(most, wrong + MARGIN / (EVEN_LOG - ODD_LOG))
    return found


def _wrong(unit_bytes: int, line_bytes: int, ways: int, maker: Maker, stream: Stream, at: Array, sets: Array) -> int:
    """How many flags of visits to over-full sets are not what the policy does."""
    wrong = 0
    last = -1
    one = maker(ways)
    sectors: dict[int, set[int]] = {}
    a = stream.addresses[at]
    for address, number, flag in zip(a.tolist(), sets[at].tolist(), stream.missed[at].tolist(), strict=True):
        if number != last:
            one, last, sectors = maker(ways), number, {}
        line, unit = address // line_bytes, address // unit_bytes
        if one.access(line):
            hit = unit in sectors[line]
            sectors[line].add(unit)
        else:
            hit = False
            sectors[line] = {unit}
        wrong += flag >= 0 and hit == (flag == 1)
    return wrong


def per_set(unit_bytes: int, mapping: Mapping, ways: int, stream: Stream) -> tuple[list[Observation], int, int]:
    """What each over-full set was asked, line by line without repeats, and what hit. Of the other sectors of a line that is
    visited, which do as the first of them did or were never there: how many flags there are, and how many are otherwise."""
    at, sets, _, _ = _parts(mapping.line_bytes, mapping, ways, stream)
    lines = stream.addresses // mapping.line_bytes
    sectors = stream.addresses // unit_bytes
    cold = np.zeros(lines.size, dtype=bool)
    cold[np.unique(sectors, return_index=True)[1]] = True
    missed = stream.missed
    found: list[Observation] = []
    rest = wrong = 0
    starts = np.unique(np.r_[0, np.flatnonzero(np.diff(sets[at])) + 1, at.size])
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        own = at[begin:end]
        run = np.r_[True, lines[own][1:] != lines[own][:-1]]
        flags = missed[own][run]
        found.append((lines[own][run].tolist(), [None if flag < 0 else flag == 0 for flag in flags.tolist()]))
        same = np.r_[False, sectors[own][1:] == sectors[own][:-1]]
        other = ~run & (missed[own] >= 0)
        said = ~same & (cold[own] | (flags[np.cumsum(run) - 1] == 1))
        rest += int(other.sum())
        wrong += int(((missed[own] == 1) != said)[other].sum())
    return found, rest, wrong


def _drawn(
    unit_bytes: int, mapping: Mapping, ways: int, cut: Sequence[Stream], least: float, spent: _Spent
) -> Hypothesis | None:
    """The hypothesis with victims drawn evenly, on fewer accesses; None as soon as it is less likely than `least`."""
    loglik = 0.0
    surprise = []
    wrong_all = total = 0
    for stream in cut:
        _, _, seen, wrong = _parts(unit_bytes, mapping, ways, stream)
        observations, rest, others = per_set(unit_bytes, mapping, ways, stream)
        wrong_all += wrong + others
        total += seen + rest
        loglik += (wrong + others) * ODD_LOG + (seen + rest - wrong - others) * EVEN_LOG
        if loglik < least:
            return None
        if observations:
            spent.left -= sum(len(lines) for lines, _ in observations)
            if spent.left < 0:
                return None
            found = fit([1 / ways] * ways, observations)
            loglik += found.loglik
            surprise.append(found.surprise)
    if loglik < least:
        return None
    off = abs(sum(surprise)) / math.sqrt(max(len(surprise), 1))
    explains = wrong_all <= max(3.0, WRONG_FLAGS * total) and off <= MOST_SURPRISE and bool(surprise)
    return Hypothesis(unit_bytes, mapping, ways, "random", loglik, explains)
