"""What to change in a kernel for a device: the changes whose gain there is bounded away from 1. Pure.

The changed launch is costed as the traced one is. The gain is a range: each part of the time takes either end of its interval,
the same one before and after the change, and all parts overlap, or none do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from clmembench.analysis.little import Estimate
from clmembench.studies.guidelines.advice import MIN_WORTHWHILE_RATIO
from clmembench.studies.kernel.changes import Change, changes, without_repeated_loads
from clmembench.studies.kernel.cost import cost, total
from clmembench.studies.kernel.demand import Demand, demand
from clmembench.studies.kernel.facts import KernelFacts, Suggestion
from clmembench.studies.kernel.local_memory_changes import local_memory_changes
from clmembench.studies.kernel.rates import KernelRates
from clmembench.studies.kernel.requests import Sample

Parts = Mapping[str, Estimate]
Key = tuple[str, int]  # guideline and line


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The demand of a kernel as it is, and of each change, on devices of the same width and lines."""

    need: Demand
    changed: tuple[tuple[Change, Demand], ...]


def alternatives(sample: Sample, facts: KernelFacts, need: Demand) -> tuple[Alternatives, ...]:
    """What may become of the kernel: as traced, and if the compiler keeps in registers what a work-item loads again."""
    kept = without_repeated_loads(sample)
    both = [(sample, need)]
    if kept is not sample:
        both.append((kept, demand(kept, facts, need.width, need.line_bytes, need.in_lockstep)))
    return tuple(Alternatives(each, tuple(_changed(one, facts, each))) for one, each in both)


def _changed(sample: Sample, facts: KernelFacts, need: Demand) -> Iterator[tuple[Change, Demand]]:
    for change in (*changes(sample, facts, need), *local_memory_changes(sample, facts, need)):
        after = need
        if change.sample is not sample:
            after = demand(change.sample, facts, need.width, need.line_bytes, need.in_lockstep)
        added = {name: max(0.0, getattr(after, name) + amount) for name, amount in change.added.items()}
        yield change, replace(after, **added)


def suggestions(every: Sequence[Alternatives], rates: KernelRates) -> list[Suggestion]:
    """The changes that are worth it on this device whatever the compiler does, those whose least gain is largest first, and of
    each guideline at most one for a line."""
    first, *others = (_worthwhile(one, rates) for one in every)
    found = []
    for key, one in first.items():
        same = [other[key] for other in others if key in other]
        if len(same) == len(others):
            low, high = min(each.gain_low for each in (one, *same)), max(each.gain_high for each in (one, *same))
            found.append(replace(one, gain_low=low, gain_high=high))
    return sorted(found, key=lambda one: -one.gain_low)


def _worthwhile(one: Alternatives, rates: KernelRates) -> dict[Key, Suggestion]:
    before = cost(one.need, rates)
    best: dict[Key, Suggestion] = {}
    for change, need in one.changed:
        after = cost(need, rates)
        if before.ns is None or after.ns is None or rates.launch_ns is None:
            continue
        low, value, high = gain(rates.launch_ns.value, before.parts, after.parts)
        low, high = low / change.margin, high * change.margin
        key = change.guideline, change.line
        if low >= MIN_WORTHWHILE_RATIO and (key not in best or best[key].gain_low < low):
            best[key] = Suggestion(change.guideline, change.line, change.finding, change.change, value, low, high)
    return best


def gain(launch_ns: float, before: Parts, after: Parts) -> tuple[float, float, float]:
    """How many times shorter a launch becomes, at least, as predicted, and at most."""
    ranges, first, second = list[tuple[float, float]](), list[float](), list[float]()
    for name in before.keys() | after.keys():
        one = before.get(name) or after[name]
        ranges.append((one.low, one.high))
        first.append(float(name in before))
        second.append(after[name].value / one.value if name in after else 0.0)
    found = [
        (launch_ns + float(np.dot(first, ends))) / (launch_ns + float(np.dot(second, ends))) for ends in product(*ranges)
    ]  # without overlap the ratio is monotonic in every part
    lows = [low for low, _ in ranges]
    predicted = total(Estimate.exact(launch_ns), before).value / total(Estimate.exact(launch_ns), after).value
    least = min(predicted, *found, *_longest(launch_ns, ranges, lows, first, second))
    most = max(predicted, *found, *(1 / one for one in _longest(launch_ns, ranges, lows, second, first)))
    return least, predicted, most


def _longest(
    launch_ns: float,
    ranges: Sequence[tuple[float, float]],
    lows: Sequence[float],
    above: Sequence[float],
    below: Sequence[float],
) -> Iterator[float]:
    """Candidates, none of them too small, for the least ratio of the longest part times `above` to the longest times `below`:
    each part may be the longest below, at either end or where it becomes longest above, the others as short as they may be."""
    for number, (low, high) in enumerate(ranges):
        others = max((a * b for n, (a, b) in enumerate(zip(above, lows, strict=True)) if n != number), default=0.0)
        crossing = others / above[number] if above[number] else low
        for one in (low, min(max(crossing, low), high), high):
            yield (launch_ns + max(above[number] * one, others)) / (launch_ns + below[number] * one)
