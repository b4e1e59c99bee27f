"""Simulated local memories of known banks, and of mappings that nobody has a name for, as what `banks` measures of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.studies.access.banks import BankAccess, BankMapping, study_banks

STRIDES = tuple(range(65))
WIDE = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 24, 31, 32, 33, 64)
BANK_COUNTS = (1, 2, 4, 8, 16)

FERMI = MAXWELL = BankMapping(32, 4, 4)
KEPLER_8, KEPLER_4 = BankMapping(32, 8, 8), BankMapping(32, 8, 4)
TESLA = BankMapping(16, 4, 4, 16)
HALVES = BankMapping(32, 4, 4, 16)  # how words of 8 B are served on banks of 4 B

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
) -> list[BankAccess]:
    """What the suite's points read, each off by `noise` (a relative standard deviation), which its interval knows."""
    points = (
        [(s, 4, 32) for s in strides]
        + [(s, 8, 32) for s in WIDE]
        + [(32, 4, n) for n in BANK_COUNTS]
        + [(32, 8, n) for n in BANK_COUNTS[:2]]
    )
    found = []
    for index, (stride, word_bytes, items) in enumerate(points):
        true = latency((narrow if word_bytes == 4 else wide)(stride, word_bytes, items))
        value = true * (1 + noise * rng.standard_normal())
        reach = 1.96 * max(noise, 1e-4) * value
        found.append(BankAccess(stride, word_bytes, items, value, value - reach, value + reach, f"banks:{index}"))
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


@dataclass(frozen=True, slots=True)
class Drawn:
    """A device drawn at random: its banks, None where it has none or none that is known; what is measured of it; its noise."""

    kind: str
    banks: BankMapping | None
    served: int
    way: float
    accesses: Sequence[BankAccess]


def drawn(rng: np.random.Generator) -> Drawn:
    """A device: 6 of 10 with plain banks, 1 with Kepler's 4-byte mode, 1 without banks, 2 with banks that nobody has a name
    for. Noise of 0.05% to 6%, conflicts of 1 to 40 cycles a way on 20 to 120; of one in three, each number of ways is off the
    line by a tenth of a way, of one in three by three tenths (standard deviations)."""
    kind = str(rng.choice(["banked", "mode", "none", "unknown"], p=[0.6, 0.1, 0.1, 0.2]))
    noise = float(np.exp(rng.uniform(np.log(0.0005), np.log(0.06))))
    free, way, bent = rng.uniform(20, 120), rng.uniform(1, 40), rng.choice([0, 0.1, 0.3])
    off = {p: float(rng.normal() * bent * way) for p in range(1, 300)}

    def latency(passes: float) -> float:
        return float(free + way * (passes - 1) + off.get(int(passes), 0.0))

    if kind in ("banked", "mode"):
        width = 8 if kind == "mode" else int(rng.choice([4, 8]))
        banks = BankMapping(int(rng.choice([8, 16, 32, 64])), width, 4 if kind == "mode" else width)
        wide = BankMapping(banks.count, width, banks.interleave_bytes, int(rng.choice([16, 32])))
        return Drawn(kind, banks, wide.served, way, measured(banks.passes, wide.passes, latency, noise, rng))
    if kind == "none":
        return Drawn(kind, None, 0, way, measured(lambda *_: 1.0, lambda *_: 1.0, latency, noise, rng))
    count = int(rng.choice([3, 5, 6, 7, 12, 17, 24, 31, 33, 48, 61, -1, -2, -3]))

    def uneven(stride: int, word_bytes: int, items: int) -> float:
        return float(np.bincount(np.unique(np.arange(items) * stride * word_bytes // 4) % count).max())

    mapping = uneven if count > 0 else UNKNOWN[-1 - count]
    return Drawn(kind, None, 0, way, measured(mapping, mapping, latency, noise, rng))


def verdict(device: Drawn) -> str:
    """Whether what is said of a device's banks is right, wrong or undetermined."""
    found = study_banks(device.accesses, "cycles")
    memory = found.findings["memory"]
    if memory.status != "ok":
        return "undetermined"
    if memory.value == "ordinary":
        return "right" if device.kind == "none" else "wrong"
    if device.banks is None or found.banks is None:
        return "wrong"
    same = all(getattr(found.banks, n) == getattr(device.banks, n) for n in ("count", "width_bytes", "interleave_bytes"))
    return "right" if same else "wrong"


def served_verdict(device: Drawn) -> str:
    """The same of how many work-items have words of 8 B served at a time."""
    finding = study_banks(device.accesses, "cycles").findings.get("together_8")
    if finding is None or finding.status != "ok":
        return "undetermined"
    return "right" if finding.value == device.served else "wrong"


if __name__ == "__main__":  # python -m tests.banked SEED DEVICES: the error rates that docs/access.md states
    seeded, many = np.random.default_rng(int(sys.argv[1])), int(sys.argv[2])
    devices = [drawn(seeded) for _ in range(many)]
    print("banks", Counter((d.kind, verdict(d)) for d in devices))
    print("words of 8 B", Counter(served_verdict(d) for d in devices if d.banks is not None))
