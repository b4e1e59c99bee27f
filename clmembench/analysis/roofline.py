"""The roofline: which measured roof bounds a kernel at its arithmetic intensity, and how near it comes. Pure.

Source: Williams, Waterman & Patterson 2009. The roofs of inner memory levels beside that of memory are those of the cache-aware
(Ilic, Pratas & Sousa 2014) and hierarchical (Yang, Kurth & Williams 2020) rooflines; a kernel has a place against a level whose
bytes it states, and ours state those of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate
from clmembench.analysis.roofs import ARITHMETIC, MEMORY, Measured, Roof, cache_bytes_of, compute_roofs, level_roofs
from clmembench.model import BenchmarkInfo, DeviceInfo, Metric
from clmembench.specs.sheets import SpecSheet

ITEM_BYTES = {"double": 8, "float": 4}
PRECISION_BY_BENCHMARK = {"spmv": "double", "reduction": "double"}  # of those whose points do not say it
MAX_ROOF_RATIO = 1.02  # times a roof: beyond what the moments of one run explain
COUNTED_BYTES, COMPULSORY_BYTES = "as counted", "compulsory: three n x n matrices once"


@dataclass(frozen=True, slots=True)
class KernelPosition:
    """One kernel of a run under its roofs: FLOP a byte of memory, FLOP/s, the roof that bounds it there, and the share of it.

    `memory_bytes` are those that the intensity is of, `counted` how; `cached` says that they fit a cache as stated, so that
    memory's roof need not bound it; `over` that it is over its roof by more than the intervals of both explain.
    """

    value: Derived
    precision: str
    intensity: float
    gflop_s: Estimate
    bound: Roof
    limit: Estimate
    share: Estimate
    memory_bytes: int
    counted: str
    cached: bool
    over: bool


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofs of a run, its kernels under them, and how many points of kernels have no place, by reason."""

    roofs: tuple[Roof, ...]
    placed: tuple[KernelPosition, ...]
    left: Mapping[str, int]
    cache_bytes: int

    def arithmetic(self, precision: str) -> list[Roof]:
        """The roofs of arithmetic in that precision, vector instructions first."""
        return [roof for roof in self.roofs if roof.unit == "GFLOP/s" and roof.precision == precision]

    @property
    def levels(self) -> list[Roof]:
        """The roofs of memory levels, the outermost first."""
        return [roof for roof in self.roofs if roof.unit == "GB/s"]


def roofline(
    values: Sequence[Measured], cards: Mapping[str, BenchmarkInfo], info: DeviceInfo, sheet: SpecSheet | None
) -> Roofline | None:
    """The roofline of a run's values, each with its theoretical peak; None without a measured roof of floating-point arithmetic
    and one of memory. Only values that are `ok` make roofs or are placed; kernels on a part of the device have no place."""
    stated = cache_bytes_of(info, sheet)
    levels = level_roofs(values, info, stated)
    compute = compute_roofs(values)
    memory = next((roof for roof in levels if roof.name == MEMORY), None)
    if memory is None or not any(roof.unit == "GFLOP/s" for roof in compute):
        return None
    left: Counter[str] = Counter()
    placed = []
    for value, metric in _kernels([value for value, _ in values], cards):
        found = _placed(value, metric, compute, memory, stated)
        if isinstance(found, str):
            left[found] += 1
        else:
            placed.append(found)
    return Roofline((*compute, *levels), tuple(placed), dict(left), stated)


def _kernels(values: Sequence[Derived], cards: Mapping[str, BenchmarkInfo]) -> Iterator[tuple[Derived, Metric]]:
    """The headline value of every point on the whole device that computes in floating point, or should have; of our own kernels
    alone, since nobody says which instructions a library beside them has."""
    own = {name for name, card in cards.items() if name != ARITHMETIC and not card.peer_of}
    whole = [v for v in values if v.place.compute_units is None and v.benchmark in own]
    computing = {v.benchmark for v in whole if v.flops}
    computing |= {name for name, card in cards.items() if any(metric.amount == "flops" for metric in card.metrics)}
    seen = set()
    for value in whole:
        metric = next((m for m in cards[value.benchmark].metrics if m.name == value.metric), None)
        if value.benchmark not in computing or value.key in seen or metric is None:
            continue
        seen.add(value.key)
        if value.flops or value.status != "ok":
            yield value, metric


def _placed(value: Derived, metric: Metric, compute: Sequence[Roof], memory: Roof, stated: int) -> KernelPosition | str:
    """The point under its roofs, or why it has no place."""
    if value.status != "ok" or value.median is None or value.median <= 0 or not value.work:
        return value.status if value.status != "ok" else "has no rate"
    precision = str(value.params.get("dtype", PRECISION_BY_BENCHMARK.get(value.benchmark, "")))
    if value.params.get("level") == "cache":
        return "reads a cache, whose roof is not memory's"
    if precision not in ITEM_BYTES:
        return "computes in integers" if precision == "int" else "does not say what it computes in"
    nbytes, counted = _memory_bytes(value, precision)
    if not nbytes:
        return "states no bytes"
    mine = [roof for roof in compute if roof.precision == precision]
    if not mine:
        return f"no roof of {precision} was measured"
    rate, intensity = _rate(value, metric), value.flops / nbytes
    slanted = memory.rate.times(Estimate.exact(intensity))
    top = _top(mine, value, metric)
    bound, limit = (memory, slanted) if slanted.value < top.rate.value else (top, top.rate)
    share = rate.times(limit.inverse())
    over = share.value > MAX_ROOF_RATIO and share.low > 1
    return KernelPosition(value, precision, intensity, rate, bound, limit, share, nbytes, counted, nbytes <= stated, over)


def _top(mine: Sequence[Roof], value: Derived, metric: Metric) -> Roof:
    """The roof of a kernel's instructions among those of its type, by the peak that its metric names: what is rated by
    its FLOP and names none may have any, and what is rated by its bytes has those of vectors."""
    named = next((roof for roof in mine if value.peak is not None and roof.peak == value.peak), None)
    return named or (max(mine, key=lambda roof: roof.rate.value) if metric.amount == "flops" and not value.peak else mine[0])


def _memory_bytes(value: Derived, precision: str) -> tuple[int, str]:
    """The bytes of memory that a pass moves: as its benchmark counts them; of a product of dense matrices, which states none,
    those that it cannot do without."""
    n = value.params.get("n")
    if not value.nbytes and isinstance(n, int) and value.flops == 2 * n**3:
        return 3 * n * n * ITEM_BYTES[precision], COMPULSORY_BYTES
    return value.nbytes, COUNTED_BYTES


def _rate(value: Derived, metric: Metric) -> Estimate:
    """FLOP/ns, from whatever the metric is of: its value, scaled by the FLOP of a pass over its amount of a pass."""
    each = value.flops / value.work
    middle, low, high = (v if v is not None and v > 0 else value.median for v in (value.median, value.ci_low, value.ci_high))
    assert middle is not None and low is not None and high is not None
    if metric.form in ("rate", "slope_rate"):
        return _estimate(*(v / metric.scale * each for v in (middle, low, high)))
    return _estimate(*(metric.scale * each / v for v in (middle, high, low)))


def _estimate(middle: float, low: float, high: float) -> Estimate:
    return Estimate(middle, min(low, middle), max(high, middle))
