"""How the work-items of a sub-group access memory together: patterns, lines of a request, conflicts of banks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clmembench.studies.kernel.facts import BANKS, LINE_BYTES, WIDTHS, Pattern

Numbers = npt.NDArray[np.int64]
USUAL_WIDTH = 32
WORD_BYTES = 4  # of a bank
MOST = 0.8  # share of neighbours, or of requests, whose pattern is that of an instruction


@dataclass(frozen=True, slots=True)
class Requests:
    """Accesses by one instruction, ordered by work-group, execution and work-item; with `starts` of each request, that is of
    one execution by a sub-group, for each width of sub-groups."""

    items: Numbers
    addresses: Numbers
    sizes: Numbers
    starts: Mapping[int, Numbers]

    @classmethod
    def of(cls, events: npt.NDArray[np.void]) -> Requests:
        """The requests of the events (dtype EVENT) of one instruction."""
        ordered = events[np.lexsort((events["item"], events["nth"], events["group"]))]
        group, nth, item = (ordered[name].astype(np.int64) for name in ("group", "nth", "item"))
        starts = {}
        for width in WIDTHS:
            unit = item // width
            new = np.ones(len(ordered), bool)
            new[1:] = (np.diff(group) != 0) | (np.diff(nth) != 0) | (np.diff(unit) != 0)
            starts[width] = np.flatnonzero(new)
        return cls(item, ordered["address"].astype(np.int64), ordered["size"].astype(np.int64), starts)

    def numbers(self, width: int) -> Numbers:
        """The number of the request of each access."""
        starts = self.starts[width]
        return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(self.items))))

    def lines_per_request(self, width: int, line_bytes: int) -> float:
        """Lines that a request touches, in the mean."""
        touched = _different(*_spread(self.numbers(width), self.addresses, self.sizes, line_bytes))
        return len(touched[0]) / len(self.starts[width])

    def bank_ways(self, width: int) -> dict[int, float]:
        """Ways of conflicts by the number of banks; see below."""
        return bank_ways(self.numbers(width), self.items, self.addresses, self.sizes, width)

    def pattern(self, width: int = USUAL_WIDTH) -> tuple[Pattern, int | None]:
        """What requests look like, and the stride in bytes where it is one: the step between neighbours that most have, so
        that rows of a two-dimensional work-group are what each of them is."""
        starts = self.starts[width]
        inside = np.ones(len(self.items), bool)
        inside[starts] = False
        steps = (np.diff(self.addresses) / np.maximum(1, np.diff(self.items)))[inside[1:]]
        if not len(steps):
            return "single", None
        found, times = np.unique(steps, return_counts=True)
        step = found[times.argmax()]
        if times.max() >= MOST * len(steps):
            size = int(np.bincount(self.sizes).argmax())
            return ("broadcast", None) if step == 0 else ("unit stride", None) if step == size else ("stride", int(step))
        counts = np.diff(np.append(starts, len(self.items)))
        permuted = self._are_permuted(width, counts, self.sizes[starts])[counts > 1]
        return ("permuted" if permuted.mean() >= MOST else "scattered"), None

    def _are_permuted(self, width: int, counts: Numbers, size: Numbers) -> npt.NDArray[np.bool_]:
        """Whether the addresses of each request are those of neighbours, each once, in another order."""
        starts = self.starts[width]
        if not len(starts):
            return np.zeros(0, bool)
        least = np.minimum.reduceat(self.addresses, starts)
        most = np.maximum.reduceat(self.addresses, starts)
        request = self.numbers(width)
        order = np.lexsort((self.addresses, request))
        same = (np.diff(self.addresses[order]) == 0) & (np.diff(request[order]) == 0)
        repeated = np.bincount(request[order][1:][same], minlength=len(starts)) > 0
        return np.asarray((most - least == (counts - 1) * size) & ~repeated)


def bank_ways(request: Numbers, items: Numbers, addresses: Numbers, sizes: Numbers, width: int) -> dict[int, float]:
    """Different words that the busiest bank serves in a pass of a request, numbered without gaps, in the mean, by the number of
    banks. Accesses of 8 or 16 bytes take two or four passes of as many fewer work-items."""
    parts = np.maximum(1, sizes // WORD_BYTES)
    number = request * int(parts.max(initial=1)) + items % width * parts // width
    one_pass, word = _different(*_spread(number, addresses, sizes, WORD_BYTES))
    one_pass = np.cumsum(np.diff(one_pass, prepend=one_pass[:1]) != 0)
    found = {}
    for banks in BANKS:
        counts = np.bincount(one_pass * banks + word % banks, minlength=(int(one_pass.max(initial=-1)) + 1) * banks)
        found[banks] = float(counts.reshape(-1, banks).max(axis=1).mean())
    return found


def divergent_share(events: npt.NDArray[np.void], width: int) -> float:
    """The share of executions of a branch by a sub-group in which its work-items go different ways."""
    requests = Requests.of(events)
    starts = requests.starts[width]
    different = np.minimum.reduceat(requests.addresses, starts) != np.maximum.reduceat(requests.addresses, starts)
    return float(different.mean())


def _spread(request: Numbers, addresses: Numbers, sizes: Numbers, unit: int) -> tuple[Numbers, Numbers]:
    """The request and the place, in units of so many bytes, of every unit that an access touches."""
    first, last = addresses // unit, (addresses + np.maximum(1, sizes) - 1) // unit
    count = last - first + 1
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(request, count), np.repeat(first, count) + offset


def _different(request: Numbers, place: Numbers) -> tuple[Numbers, Numbers]:
    """The different pairs, ordered by request and then by place."""
    if not len(place):
        return request, place
    low, span = place.min(), int(place.max() - place.min()) + 1
    if int(request.max() + 1) * span < 1 << 62:  # one number for a pair sorts many times faster
        keys = np.sort(request * span + (place - low))
        request, place = np.divmod(keys[np.diff(keys, prepend=-1) != 0], span)
        return request, place + low
    pairs = np.unique(np.stack((request, place), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def unique_bytes(addresses: Numbers, sizes: Numbers) -> int:
    """Different bytes that accesses touch, counted in the largest unit that all addresses and sizes are multiples of."""
    if not len(addresses):
        return 0
    together = int(np.bitwise_or.reduce(addresses) | np.bitwise_or.reduce(sizes)) | 16
    unit = together & -together
    _, places = _spread(np.zeros(len(addresses), np.int64), addresses, sizes, unit)
    places = np.sort(places)
    return (1 + int(np.count_nonzero(np.diff(places)))) * unit


def touched_lines(request: Numbers, addresses: Numbers, sizes: Numbers, line_bytes: int) -> tuple[Numbers, Numbers]:
    """The lines that requests, in the order of their numbers, touch, and the request of each: each line once a request, in the
    order of addresses."""
    return _different(*_spread(request, addresses, sizes, line_bytes))


def lines_by_width(requests: Requests) -> dict[str, dict[str, float]]:
    """Lines of a request by width and bytes of a line, as text, since JSON's keys are texts."""
    return {str(width): {str(line): requests.lines_per_request(width, line) for line in LINE_BYTES} for width in WIDTHS}


def ways_by_width(requests: Requests) -> dict[str, dict[str, float]]:
    """Ways of bank conflicts by width and number of banks."""
    return {str(width): {str(banks): ways for banks, ways in requests.bank_ways(width).items()} for width in WIDTHS}
