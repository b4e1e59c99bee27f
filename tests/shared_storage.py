"""A simulated compute unit whose paths have storages of known size, shared or not: what cache_sharing would record of it.

Written apart from the inference: lines are followed one by one through caches, LRU or with random victims.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from clmembench.model import Record, Trace
from clmembench.studies.hierarchy.benchmarks.cache_sharing import FIT_LAPS, SAME_WALKS, WALKS
from tests.builders import record, series

KIB = 1 << 10
LINE_BYTES = 128
MISS_TICKS = 290
BRACKET_TICKS = 20
SIZES = tuple(n * KIB for n in (2, 4, 6, 8, 12, 16, 20, 24, 32))
LIMIT = 6 * KIB  # bytes of constants beside the owner's set


@dataclass
class Storage:
    """A fully associative cache: LRU, or with victims at random."""

    nbytes: int
    draws: random.Random
    lru: bool = False
    lines: list[object] = field(default_factory=list)  # with random victims, in no order
    places: dict[object, int] = field(default_factory=dict)  # of lines; of LRU the order of use
    held: int = field(init=False)  # how many lines there can be

    def __post_init__(self) -> None:
        self.held = max(1, self.nbytes // LINE_BYTES)

    def access(self, line: object) -> bool:
        """Whether that line was there; it is now."""
        places, lines = self.places, self.lines
        if line in places:
            if self.lru:
                del places[line]
                places[line] = 0
            return True
        full = len(places) >= self.held
        if self.lru:
            if full:
                del places[next(iter(places))]
            places[line] = 0
        elif full:
            count = len(lines)
            bits = count.bit_length()
            place = self.draws.getrandbits(bits)
            while place >= count:  # as randrange does, which takes three times as long
                place = self.draws.getrandbits(bits)
            del places[lines[place]]
            lines[place] = line
            places[line] = place
        else:
            places[line] = len(lines)
            lines.append(line)
        return False

    def lose(self, share: float) -> None:
        """About that share of the lines go."""
        held = [line for line in self.places if self.draws.random() >= share]
        self.places, self.lines = {line: n for n, line in enumerate(held)}, held


@dataclass
class Unit:
    """`storage_of` is the number of each path's storage, `nbytes` how large each is, `hit_ticks` what a load costs on a path
    that hits. In an idle wait `idle_loss` of the lines go; `noise` is the relative spread of each lap, `local_cost` the bytes
    of the first storage that go for each of local memory."""

    storage_of: Mapping[str, int]
    nbytes: Sequence[int]
    hit_ticks: Mapping[str, float]
    lru: bool = False
    idle_loss: float = 0.0
    noise: float = 0.003
    local_cost: float = 0.0
    samples: int = 7
    seed: int = 1

    def fit(self, path: str, local_bytes: int = 0) -> Record:
        """A record of question fit."""
        rng, rows = np.random.default_rng(self.seed), []
        for _ in range(self.samples):
            storage = self._storages(rng, local_bytes)[self.storage_of[path]]
            ticks = [BRACKET_TICKS, BRACKET_TICKS]
            for number, nbytes in enumerate(SIZES):
                ticks += [self._lap(rng, storage, path, ("set", number), nbytes) for _ in range(FIT_LAPS)]
            rows.append(ticks)
        steps = [0, 0, *(n // LINE_BYTES for n in SIZES for _ in range(FIT_LAPS))]
        local = {"local_bytes": local_bytes} if local_bytes else {}
        return packed({"question": "fit", "owner": path, **local}, rows, steps, SIZES)

    def paths(self, owner: str, other: str, array_bytes: int, other_bytes: int) -> Record:
        """A record of question paths."""
        rng, rows = np.random.default_rng(self.seed + 7), []
        same = {owner, other} == {"global", "readonly"}
        own_bytes = min(other_bytes, LIMIT) if owner.startswith("constant") else other_bytes
        visited = {
            "own": (owner, "own", own_bytes),
            "other": (other, "other", other_bytes),
            "same": (other, "mine", array_bytes),
        }
        names = (*WALKS, *(SAME_WALKS if same else ()))
        for _ in range(self.samples):
            storages, ticks = self._storages(rng), []
            for name in names:
                path, addresses, nbytes = visited.get(name, (owner, "mine", array_bytes))
                if name.startswith("bracket"):
                    ticks.append(BRACKET_TICKS)
                elif name == "idle":
                    for storage in storages:
                        storage.lose(self.idle_loss)
                    ticks.append(1000)
                else:
                    ticks.append(self._lap(rng, storages[self.storage_of[path]], path, addresses, nbytes))
            rows.append(ticks)
        lines = {name: visited.get(name, (owner, "mine", array_bytes))[2] // LINE_BYTES for name in names}
        steps = [0 if name.startswith("bracket") else lines[name] for name in names]
        params = {"question": "paths", "owner": owner, "other": other, "array_bytes": array_bytes, "other_bytes": other_bytes}
        return packed(params, rows, steps, (array_bytes, own_bytes, other_bytes))

    def _storages(self, rng: np.random.Generator, local_bytes: int = 0) -> list[Storage]:
        taken = [int(self.local_cost * local_bytes), *[0] * (len(self.nbytes) - 1)]
        return [
            Storage(n - less, random.Random(int(rng.integers(1 << 30))), self.lru)
            for n, less in zip(self.nbytes, taken, strict=True)
        ]

    def _lap(self, rng: np.random.Generator, storage: Storage, path: str, addresses: object, nbytes: int) -> int:
        access, lines = storage.access, lines_of(addresses, nbytes)
        count = sum(map(access, lines))
        ticks = count * self.hit_ticks[path] + (len(lines) - count) * MISS_TICKS
        return round(BRACKET_TICKS + ticks * float(np.exp(self.noise * rng.standard_normal())))


@lru_cache(maxsize=64)
def lines_of(addresses: object, nbytes: int) -> tuple[object, ...]:
    """The lines of a set, in order."""
    return tuple((addresses, n) for n in range(nbytes // LINE_BYTES))


def packed(params: Mapping[str, object], rows: Sequence[Sequence[int]], steps: Sequence[int], sizes: Sequence[int]) -> Record:
    """A record with these reads, each sample a row of ticks."""
    reads = {
        "ticks": Trace.pack("ticks", [np.array(row, np.uint32) for row in rows]),
        "steps": Trace.pack("", [np.array(steps, np.uint32)] * len(rows)),
        "bytes": Trace.pack("bytes", [np.array(sizes, np.uint32)] * len(rows)),
    }
    return record("cache_sharing", dict(params), series([1000] * len(rows), ops=1, reads=reads))


def units_record(
    groups: Sequence[Sequence[int]], cold: float = 290, warm: float = 98, gaps: float = 0.0, seed: int = 3, spread: float = 0.0
) -> Record:
    """A record of question units, of compute units in groups that share a cache. Their own laps take `warm` ticks a load, give
    or take `spread`."""
    rng = np.random.default_rng(seed)
    units = sorted(n for group in groups for n in group)
    group_of = {unit: number for number, group in enumerate(groups) for unit in group}
    count, slice_steps, lap_steps = len(units), 16, 896
    rows, laps = [], []
    for _ in range(7):
        cells = np.round(slice_steps * (cold + 5 * rng.standard_normal((count + 1, count))))
        for row, source in enumerate(units):
            for column, unit in enumerate(units):
                if group_of[source] == group_of[unit]:
                    cells[row + 1, column] = 0 if source == unit else round(slice_steps * (warm + 2 * rng.standard_normal()))
        cells[1:][rng.random((count, count)) < gaps] = 0
        rows.append(cells.astype(np.uint32).ravel())
        source_laps = np.tile([cold * lap_steps, warm * lap_steps], (count + 1, 1))
        source_laps[1:, 1] = lap_steps * np.linspace(warm - spread, warm + spread, count)
        source_laps[0] = 0
        laps.append(source_laps.astype(np.uint32).ravel())
    reads = {
        "ticks": Trace.pack("ticks", rows),
        "source_ticks": Trace.pack("ticks", laps),
        "units": Trace.pack("", [np.array(units, np.uint32)] * 7),
        "steps": Trace.pack("", [np.array([slice_steps, lap_steps], np.uint32)] * 7),
    }
    return record("cache_sharing", {"question": "units"}, series([1000] * 7, ops=1, reads=reads))
