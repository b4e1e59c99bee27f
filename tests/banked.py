"""Simulated local memories of known banks, and of mappings that nobody has a name for, as what `banks` measures of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clmembench.infer.bank_mappings import Banks
from clmembench.infer.banks import Access

STRIDES = tuple(range(65))
WIDE = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 24, 31, 32, 33, 64)
FEWER = (1, 2, 4, 8, 16)

FERMI = MAXWELL = Banks(32, 4, 4)
KEPLER_8, KEPLER_4 = Banks(32, 8, 8), Banks(32, 8, 4)
TESLA = Banks(16, 4, 4, 16)
HALVES = Banks(32, 4, 4, 16)  # how words of 8 B are served on banks of 4 B

# Mei & Chu 2015, table VIII, in cycles by ways; the first is that of a single thread, section 6.2
GTX560TI = {1: 50, 2: 87, 4: 162, 8: 311, 16: 611, 32: 1209}
GTX780 = {1: 47, 2: 82, 4: 96, 8: 158, 16: 257, 32: 484}
GTX980 = {1: 28, 2: 30, 4: 34, 8: 42, 16: 58, 32: 90}

Passes = Callable[[int, int, int], float]  # of (stride, word_bytes, items)


def tabled(table: dict[int, int]) -> Callable[[float], float]:
    """Latency by passes: the table's, and straight between its entries and beyond them."""
    ways, cycles = np.array(list(table)), np.array(list(table.values()), dtype=np.float64)
    beyond = (cycles[-1] - cycles[-2]) / (ways[-1] - ways[-2])
    return lambda p: float(np.interp(p, ways, cycles) + max(0.0, p - ways[-1]) * beyond)


def straight(free: float, way: float) -> Callable[[float], float]:
    return lambda p: free + way * (p - 1)


def measured(
    narrow: Passes,
    wide: Passes,
    latency: Callable[[float], float],
    noise: float,
    rng: np.random.Generator,
    strides: Sequence[int] = STRIDES,
) -> list[Access]:
    """What the suite's points read, each off by `noise` (a relative standard deviation), which its interval knows."""
    points = (
        [(s, 4, 32) for s in strides]
        + [(s, 8, 32) for s in WIDE]
        + [(32, 4, n) for n in FEWER]
        + [(32, 8, n) for n in FEWER[:2]]
    )
    found = []
    for index, (stride, word_bytes, items) in enumerate(points):
        true = latency((narrow if word_bytes == 4 else wide)(stride, word_bytes, items))
        value = true * (1 + noise * rng.standard_normal())
        reach = 1.96 * max(noise, 1e-4) * value
        found.append(Access(stride, word_bytes, items, value, value - reach, value + reach, f"banks:{index}"))
    return found


def swizzled(stride: int, word_bytes: int, items: int) -> float:
    """32 banks of 4 B whose number is mixed with higher bits of the address: no stride of a power of two conflicts."""
    words = np.unique(np.arange(items) * stride * word_bytes // 4)
    return float(np.bincount((words ^ words >> 5) % 32).max())


def prime(stride: int, word_bytes: int, items: int) -> float:
    """31 banks of 4 B."""
    words = np.unique(np.arange(items) * stride * word_bytes // 4)
    return float(np.bincount(words % 31).max())


def lines(stride: int, word_bytes: int, items: int) -> float:
    """A cache that gathers: one access for each line of 64 B."""
    return float(len(np.unique(np.arange(items) * stride * word_bytes // 64)))


UNKNOWN = (swizzled, prime, lines)
