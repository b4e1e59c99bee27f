"""From which size on a sum is faster on a GPU than on a CPU, in sentences: with its operands there, and with their copy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clmembench.analysis import decision, noise
from clmembench.analysis.decision import NoisyValue, sum_of
from clmembench.benchmarks import discovered
from clmembench.report.device_runs import short_names
from clmembench.report.frame import LabelledRun, Row
from clmembench.report.scorecard_cells import DevicePairs
from clmembench.units import count, format_in

MAX_CROSSOVERS = 3  # pairs of a GPU and a CPU with sentences
SUM_BYTES = 8  # of an element of a sum


def sum_sentences(parts: Sequence[LabelledRun], known: DevicePairs) -> Iterator[str]:
    """From which size on compare calls a sum faster on each GPU than on each CPU, with its operands there and with their way
    over the link. `known` are the pairs of `parts`."""
    places = {kind: [i for i, part in enumerate(parts) if part.run.header.device.kind == kind] for kind in ("gpu", "cpu")}
    # the fastest first, which is the one to choose
    gpus, cpus = sorted(places["gpu"], key=lambda place: _largest_sum_ns_an_element(parts[place])), places["cpu"]
    found = [told for gpu in gpus for cpu in cpus if (told := list(_crossover(parts, gpu, cpu, known)))]
    yield from (text for told in found[:MAX_CROSSOVERS] for text in told)
    if len(found) > MAX_CROSSOVERS:
        more = count(len(found) - MAX_CROSSOVERS, "more pair")
        yield f"Crossover sizes of {more} of a GPU and a CPU: see the points of reduction."
    pairs = len(gpus) * len(cpus)
    if found and len(found) < pairs:
        left = count(pairs - len(found), "other pair")
        yield f"Sums of {left} of a GPU and a CPU are not compared: no common size, or launches and sums of other versions."


def _largest_sum_ns_an_element(part: LabelledRun) -> float:
    """Time an element of a device's largest sum; infinite where it has none."""
    sums = _sums(part)
    return sums[max(sums)].value / max(sums) if sums else math.inf


def _crossover(parts: Sequence[LabelledRun], gpu_at: int, cpu_at: int, pairs: DevicePairs) -> Iterator[str]:
    gpu, cpu = parts[gpu_at], parts[cpu_at]
    cards = [part.run.header.benchmarks.get("reduction") for part in (gpu, cpu)]
    there, here = _round_trip(gpu), _round_trip(cpu)
    if len({card.version for card in cards if card is not None}) != 1 or there is None or here is None:
        return
    # sums are timed by the device's clock, which does not have the launch in it
    fast = {n: sum_of(time, there) for n, time in _sums(gpu).items()}
    slow = {n: sum_of(time, here) for n, time in _sums(cpu).items()}

    def verdict(a: NoisyValue, b: NoisyValue) -> str:
        return pairs.decide_values(cpu_at, gpu_at, b, a, "lower").verdict

    common = sorted(fast.keys() & slow.keys())
    if len(common) == 1 and verdict(fast[common[0]], slow[common[0]]) != "undecided":
        names = short_names([part.label for part in parts])
        yield _at_one_size([names[gpu_at], names[cpu_at]], gpu, common[0], fast[common[0]], slow[common[0]])
    if len(common) < 2:
        return
    costs = f"{format_in(there.value, 'ns')} and {format_in(here.value, 'ns')}"
    names = short_names([part.label for part in parts])
    start = f"A sum of doubles in device memory is faster on {names[gpu_at]} than on {names[cpu_at]}"
    told = _from_size(start, common, [verdict(fast[n], slow[n]) for n in common])
    alone = [_sums(part)[common[0]] for part in (gpu, cpu)]
    if verdict(fast[common[0]], slow[common[0]]) == "faster" and verdict(alone[0], alone[1]) == "slower":
        told += f" At {common[0]:,} the sum alone takes {format_in(alone[0].value, 'ns')} and "
        told += f"{format_in(alone[1].value, 'ns')}: launches decide there."
    link = _link_gb_s(gpu)
    if link:
        moved = {n: sum_of(fast[n], _copy_of(n, link)) for n in common}
        start = f"With the copy of its operands over the link ({format_in(link.value, 'GB/s')}) it is faster there"
        told = f"{told} {_from_size(start, common, [verdict(moved[n], slow[n]) for n in common])}".strip()
    if told:
        yield f"{told} Times include a launch and its completion, {costs}."


def _at_one_size(names: Sequence[str], gpu: LabelledRun, n: int, fast: NoisyValue, slow: NoisyValue) -> str:
    """The times of a sum of the only size that both devices have, and that with the copy of its operands."""
    link = _link_gb_s(gpu)
    moved = f" ({format_in(sum_of(fast, _copy_of(n, link)).value, 'ns')} with the copy of its operands)" if link else ""
    both = f"{format_in(fast.value, 'ns')} on {names[0]}{moved} and {format_in(slow.value, 'ns')} on {names[1]}"
    return f"A sum of {n:,} doubles, with a launch and its completion, takes {both}; no other size is common to both."


def _from_size(start: str, sizes: Sequence[int], verdicts: Sequence[str]) -> str:
    """The sentence on the least size from which on the first is called faster at every size that both were measured at; ""
    where the largest is undecided."""
    if verdicts[-1] != "faster":
        return "" if verdicts[-1] == "undecided" else f"{start} at no size up to {sizes[-1]:,}."
    first = next(place for place in range(len(sizes)) if all(verdict == "faster" for verdict in verdicts[place:]))
    if first == 0:
        return f"{start} from the smallest size on, {sizes[0]:,}."
    slower = max((place for place in range(first) if verdicts[place] in ("slower", "same")), default=None)
    below = f"some size between {sizes[slower]:,} and {sizes[first]:,}" if slower is not None else f"{sizes[first]:,} or fewer"
    return f"{start} from {below} elements on."


def _round_trip(part: LabelledRun) -> NoisyValue | None:
    """A launch and its completion; None where that was not measured, or by an older version."""
    card = part.run.header.benchmarks.get("launch")
    if card is None or card.version < discovered()["launch"].version:
        return None
    rows = [row for row in part.rows if row.value.benchmark == "launch" and row.value.metric == "round_trip"]
    return next((time for row in rows if row.value.params.get("groups") == 1 and (time := _time(part, row))), None)


def _time(part: LabelledRun, row: Row) -> NoisyValue | None:
    """A good row's value on the whole device; None of others."""
    header = part.run.header
    found = decision.side_of((), header.device, header.host).noisy(row.value, noise.calibrated())
    return found if row.value.place.compute_units is None else None


def _sums(part: LabelledRun) -> dict[int, NoisyValue]:
    """The least time of a sum of n doubles by n, over methods."""
    found: dict[int, NoisyValue] = {}
    for row in part.rows:
        n, time = row.value.params.get("n"), _time(part, row) if row.value.benchmark == "reduction" else None
        if row.value.metric == "time" and isinstance(n, int) and time is not None:
            found[n] = min(found.get(n, time), time, key=lambda one: one.value)
    return found


def _link_gb_s(part: LabelledRun) -> NoisyValue | None:
    """The best bandwidth to the device; None where it was measured by an older version, which timed the start of a copy too."""
    card = part.run.header.benchmarks.get("transfer")
    if card is None or card.version < discovered()["transfer"].version:
        return None
    rates = [
        _time(part, row)
        for row in part.rows
        if (row.value.benchmark, row.value.metric) == ("transfer", "link_bandwidth")
        and row.value.params.get("direction") == "to_device"
    ]
    return max((rate for rate in rates if rate is not None), key=lambda rate: rate.value, default=None)


def _copy_of(n: int, link: NoisyValue) -> NoisyValue:
    """The time of a copy of n elements, which varies as the link's bandwidth does."""
    return replace(link, medians=tuple(SUM_BYTES * n / one for one in link.medians))
