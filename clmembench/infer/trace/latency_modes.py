"""Modes of latencies: the values around which those of many accesses lie, however noisy or quantised. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clmembench.model import Accesses, Array

# Thresholds and limits, each with its reason
START = 4_000  # accesses from a trace's start that are all taken: cold misses are rare elsewhere
REST = 16_000  # and from the rest of it, evenly
HOLLOW = 0.12  # of a mode's density: where the density falls below, the mode ends
RARE = 0.005  # of a trace's accesses: rarer values in every trace are outliers
FEW = 5  # accesses: fewer are no mode
MOST = 24  # modes at most: levels and translations of a memory are fewer
COARSE = 0.4  # of a latency: a larger step of the clock hides other latencies
BESIDE = 0.03  # of all latencies, in no mode: with more, the noise is not understood
DIFFERENT = 6.0  # standard deviations: means of two traces that differ by more are of two latencies
WIDER = 1.6  # times the half width of a mode, where its edge is looked for


@dataclass(frozen=True, slots=True)
class Mode:
    """Latencies around `centre`, from `low` to `high`, with their standard deviation; `error` is the centre's own."""

    centre: float
    low: float
    high: float
    deviation: float
    error: float
    count: int
    mixed: bool = False  # whether traces differ within it, or the clock's step is no smaller than it


def quantum(traces: Sequence[Accesses]) -> float:
    """The step of the clock: the greatest number that all latencies differ by multiples of, 0 for none."""
    values = np.unique(np.concatenate([t.latencies[:2000] for t in traces]))
    steps = np.diff(values)
    if values.size < 2 or values.size > 20_000:
        return 0.0
    step = float(np.min(steps[steps > 1e-9 * values[-1]], initial=np.inf))
    if not np.isfinite(step):
        return 0.0
    parts = (values - values[0]) / step  # a constant share of the clock's own may be in all of them
    off = np.abs(parts - np.round(parts))
    return step if float(np.max(off)) < 0.02 else 0.0


def modes(traces: Sequence[Accesses]) -> list[Mode]:
    """The modes of all traces' latencies, from the fastest on.

    The densest place first, with what is around it up to where the density has fallen to a small part; then the densest place
    of what is left, and so on. A mode that is rarer than outliers are in every trace is none.
    """
    step = quantum(traces)
    values, owner = _sample(traces, step)
    sizes = np.bincount(owner, minlength=len(traces))
    order = np.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    left = np.ones(values.size, dtype=bool)
    found: list[tuple[float, float, bool]] = []
    for _ in range(3 * MOST):
        rest = values[left]
        if rest.size < FEW:
            break
        low, high, alone = _around(rest, _densest(rest), step)
        inside = left & (values >= low) & (values <= high)
        if not inside.any():
            break
        left &= ~inside
        if _real(owner[inside], sizes):
            found.append((low, high, alone))
        if len(found) == MOST:
            break
    merged = _merged([_mode(values, *one) for one in _apart(sorted(found), values)], values, step)
    beside = 1 - sum(m.count for m in merged) / values.size
    return [replace(m, mixed=m.mixed or beside > BESIDE or _mixed(m, values, owner, step)) for m in merged]


def _apart(found: Sequence[tuple[float, float, bool]], values: Array) -> list[tuple[float, float, bool]]:
    """Ranges in order, cut where values are sparsest if one reaches into the next."""
    cut = list(found)
    for n in range(len(cut) - 1):
        if cut[n][1] > cut[n + 1][0]:
            places = np.linspace(sum(cut[n][:2]) / 2, sum(cut[n + 1][:2]) / 2, 22)[1:-1]
            half = (places[1] - places[0]) / 2
            counts = [_count(values, place - half, place + half) for place in places]
            edge = float(places[int(np.argmin(counts))])
            cut[n] = (cut[n][0], max(edge, cut[n][0]), cut[n][2])
            cut[n + 1] = (cut[n][1], max(cut[n + 1][1], cut[n][1]), cut[n + 1][2])
    return cut


def assign(latencies: Array, found: Sequence[Mode]) -> Array:
    """The number of the mode that each latency is in, -1 where in none; int8, shape (accesses,)."""
    edges = np.array([edge for m in found for edge in (m.low, m.high)])
    place = np.searchsorted(edges, latencies, side="left")
    numbers: Array = np.where(place % 2 == 1, place // 2, -1).astype(np.int8)
    return numbers


def _sample(traces: Sequence[Accesses], step: float) -> tuple[Array, Array]:
    """Latencies of each trace, a limited number of each, spread over the clock's step; and the trace that each is from."""
    random = np.random.default_rng(0)
    values, owner = [], []
    for number, trace in enumerate(traces):
        taken = trace.latencies[:START]
        rest = trace.latencies[START:]
        if rest.size:
            taken = np.r_[taken, rest[:: -(-rest.size // REST)]]
        values.append(taken)
        owner.append(np.full(taken.size, number))
    whole = np.concatenate(values).astype(float)
    return whole + (random.random(whole.size) - 0.5) * step, np.concatenate(owner)


def _densest(values: Array) -> float:
    """The half-sample mode of sorted values (Bickel & Fruehwirth 2006)."""
    low, high = 0, values.size
    while high - low > 3:
        half = (high - low + 1) // 2
        widths = values[low + half - 1 : high] - values[low : high - half + 1]
        low += int(np.argmin(widths))
        high = low + half
    return float(np.median(values[low:high]))


def _around(values: Array, centre: float, step: float) -> tuple[float, float, bool]:
    """From where to where the values around a centre belong to it: the least width at whose edges they are sparse; and whether
    there is one."""
    least = max(step / 2, 1e-4 * abs(centre), 1e-9)
    most = abs(centre) + 6 * step
    for width in least * 1.15 ** np.arange(120):
        if width > most:
            break
        inner = _count(values, centre - width / 2, centre + width / 2)
        outer = _count(values, centre - width, centre + width) - inner
        if inner >= FEW and outer <= HOLLOW * inner:
            return *_valleys(values, centre, float(width)), True
    return centre - most / 2, centre + most / 2, False


def _valleys(values: Array, centre: float, width: float) -> tuple[float, float]:
    """A little beyond the width, but on each side no further than to where the values are sparsest."""
    edges = []
    for side in (-1, 1):
        tries = centre + side * width * np.linspace(0.8, WIDER, 9)
        counts = [_count(values, t - width / 10, t + width / 10) for t in tries]
        edges.append(float(tries[int(len(counts) - 1 - np.argmin(counts[::-1]))]))
    return edges[0], edges[1]


def _count(values: Array, low: float, high: float) -> int:
    return int(np.searchsorted(values, high, side="right") - np.searchsorted(values, low, side="left"))


def _real(owner: Array, sizes: Array) -> bool:
    counts = np.bincount(owner, minlength=sizes.size)
    return bool(((counts >= FEW) & (counts >= RARE * sizes)).any())


def _mode(values: Array, low: float, high: float, alone: bool) -> Mode:
    values = values[(values >= low) & (values <= high)]
    if values.size == 0:
        return Mode((low + high) / 2, low, high, 0.0, 0.0, 0, True)
    centre = float(np.mean(values))
    deviation = float(np.std(values))
    return Mode(centre, low, high, deviation, deviation / values.size**0.5, int(values.size), not alone)


def _mixed(mode: Mode, values: Array, owner: Array, step: float) -> bool:
    """True if a mode hides several: means of traces that differ by more than chance, or a coarse step of the clock."""
    if step > COARSE * abs(mode.centre):
        return True
    inside = (values >= mode.low) & (values <= mode.high)
    counts = np.bincount(owner[inside])
    means = np.bincount(owner[inside], values[inside])[counts >= 30] / counts[counts >= 30]
    if means.size < 2:
        return False
    off = np.abs(means - np.median(means))
    beyond = off > DIFFERENT * mode.deviation / np.sqrt(counts[counts >= 30])
    return bool((beyond & (off > 0.03 * abs(mode.centre))).any())


def _merged(found: list[Mode], values: Array, step: float) -> list[Mode]:
    """Tails are no modes of their own: one that begins where a far larger one ends, and is close to it, belongs to it; as does
    what is no further off than a step of the clock, whose two nearest values one latency falls on."""
    kept: list[Mode] = []
    for mode in found:
        if kept:
            last = kept[-1]
            big, small = (last, mode) if last.count > mode.count else (mode, last)
            gap = abs(small.centre - big.centre)
            touching = mode.low - last.high < 0.5 * big.deviation
            tail = touching and gap < 6 * big.deviation and small.count < 0.05 * big.count
            if tail or gap < max(2 * big.deviation, 1.5 * step):
                # a tail moves no centre
                kept[-1] = (
                    replace(big, low=last.low, high=mode.high)
                    if tail
                    else _mode(values, last.low, mode.high, not (last.mixed or mode.mixed))
                )
                continue
        kept.append(mode)
    return kept
