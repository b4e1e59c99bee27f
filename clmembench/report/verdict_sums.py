"""From which size on a sum is faster on a GPU than on a CPU, in sentences: with its operands there, and with their copy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clmembench.benchmarks import discovered
from clmembench.report.parts import Part
from clmembench.report.rows import Row
from clmembench.units import count, format_in

MAX_CROSSOVERS = 3  # pairs of a GPU and a CPU with sentences
SUM_BYTES = 8  # of an element of a sum


@dataclass(frozen=True, slots=True)
class _Time:
    """The time of a sum of n doubles in ns, with its interval."""

    ns: float
    low: float
    high: float


def sum_sentences(parts: Sequence[Part]) -> Iterator[str]:
    """From which size on a sum is faster on each GPU than on each CPU, with its operands there and with their way over the
    link."""
    gpus, cpus = ([part for part in parts if part.run.header.device.kind == kind] for kind in ("gpu", "cpu"))
    gpus.sort(key=_largest_sum_ns_an_element)  # the fastest first, which is the one to choose
    found = [told for gpu in gpus for cpu in cpus if (told := list(_crossover(gpu, cpu)))]
    yield from (text for told in found[:MAX_CROSSOVERS] for text in told)
    if len(found) > MAX_CROSSOVERS:
        more = count(len(found) - MAX_CROSSOVERS, "more pair")
        yield f"Such sizes of {more} of a GPU and a CPU follow from the points of reduction below."
    pairs = len(gpus) * len(cpus)
    if found and len(found) < pairs:
        yield (
            f"Sums of the other {count(pairs - len(found), 'pair')} of a GPU and a CPU are not compared: launches or sums were "
            "measured by other versions, or at no common size."
        )


def _largest_sum_ns_an_element(part: Part) -> float:
    """Time an element of a device's largest sum; infinite where it has none."""
    sums = _sums(part.rows)
    return sums[max(sums)].ns / max(sums) if sums else math.inf


def _crossover(gpu: Part, cpu: Part) -> Iterator[str]:
    cards = [part.run.header.benchmarks.get("reduction") for part in (gpu, cpu)]
    there, here = _round_trip(gpu), _round_trip(cpu)
    if len({card.version for card in cards if card is not None}) != 1 or there is None or here is None:
        return
    # sums are timed by the device's clock, which does not have the launch in it
    fast = {n: _plus(time, there) for n, time in _sums(gpu.rows).items()}
    slow = {n: _plus(time, here) for n, time in _sums(cpu.rows).items()}
    common = sorted(fast.keys() & slow.keys())
    if len(common) == 1:
        yield _at_one_size(gpu, cpu, common[0], fast[common[0]], slow[common[0]])
    if len(common) < 2:
        return
    costs = f"{format_in(there.ns, 'ns')} and {format_in(here.ns, 'ns')}"
    pair = f"faster on {gpu.label} than on {cpu.label}"
    start = f"A sum of doubles that lie in device memory is {pair}"
    told = f"{_from_size(start, common, fast, slow)} A launch and its completion, {costs}, are counted."
    alone = [_sums(part.rows)[common[0]].ns for part in (gpu, cpu)]
    if fast[common[0]].high < slow[common[0]].low and alone[0] > alone[1]:
        told += f" Of {common[0]:,} "
        told += f"the sum alone takes {format_in(alone[0], 'ns')} and {format_in(alone[1], 'ns')}: launches decide there."
    link = _link_gb_s(gpu)
    if link:
        moved = {n: _plus(fast[n], _Time(*[SUM_BYTES * n / link] * 3)) for n in common}
        start = f"With the copy of its operands over the link ({format_in(link, 'GB/s')}) the sum is faster there"
        told = f"{told} {_from_size(start, common, moved, slow)}"
    yield told


def _at_one_size(gpu: Part, cpu: Part, n: int, fast: _Time, slow: _Time) -> str:
    """The times of a sum of the only size that both devices have, and that with the copy of its operands."""
    link = _link_gb_s(gpu)
    moved = f", {format_in(fast.ns + SUM_BYTES * n / link, 'ns')} with the copy of its operands" if link else ""
    both = f"{format_in(fast.ns, 'ns')} on {gpu.label}{moved}, and {format_in(slow.ns, 'ns')} on {cpu.label}"
    return f"A sum of {n:,} doubles takes {both}, with a launch and its completion; no other size was measured on both."


def _from_size(start: str, sizes: Sequence[int], fast: Mapping[int, _Time], slow: Mapping[int, _Time]) -> str:
    """The sentence on the least size from which on the first is surely faster at every size that both were measured at."""
    surely = [fast[n].high < slow[n].low for n in sizes]
    if not surely[-1]:
        return f"{start} at no size up to {sizes[-1]:,}."
    first = next(place for place in range(len(sizes)) if all(surely[place:]))
    if first == 0:
        return f"{start} from the smallest size on, {sizes[0]:,}."
    return f"{start} from some size between {sizes[first - 1]:,} and {sizes[first]:,} elements on."


def _round_trip(part: Part) -> _Time | None:
    """A launch and its completion; None where that was not measured, or by an older version."""
    card = part.run.header.benchmarks.get("launch")
    if card is None or card.version < discovered()["launch"].version:
        return None
    rows = [row for row in part.rows if row.value.benchmark == "launch" and row.value.metric == "round_trip"]
    return next((time for row in rows if row.value.params.get("groups") == 1 and (time := _time(row))), None)


def _time(row: Row) -> _Time | None:
    """A good row's median and interval on the whole device; None of others."""
    value = row.value
    if row.status != "ok" or not (value.median and value.ci_low and value.ci_high) or value.place.compute_units is not None:
        return None
    return _Time(value.median, value.ci_low, value.ci_high)


def _sums(table: Sequence[Row]) -> dict[int, _Time]:
    """The least time of a sum of n doubles by n, over methods."""
    found: dict[int, _Time] = {}
    for row in table:
        n, time = row.value.params.get("n"), _time(row)
        if row.value.benchmark == "reduction" and row.value.metric == "time" and isinstance(n, int) and time is not None:
            found[n] = min(found.get(n, time), time, key=lambda one: one.ns)
    return found


def _link_gb_s(part: Part) -> float | None:
    """The best bandwidth to the device; None where it was measured by an older version, which timed the start of a copy too."""
    card = part.run.header.benchmarks.get("transfer")
    if card is None or card.version < discovered()["transfer"].version:
        return None
    rates = [
        row.value.median
        for row in part.rows
        if row.value.benchmark == "transfer"
        and row.value.metric == "link_bandwidth"
        and row.value.params.get("direction") == "to_device"
        and row.status == "ok"
        and row.value.median
    ]
    return max(rates, default=None)


def _plus(first: _Time, second: _Time) -> _Time:
    return _Time(first.ns + second.ns, first.low + second.low, first.high + second.high)
