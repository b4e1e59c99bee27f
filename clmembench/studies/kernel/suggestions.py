"""What to change in a kernel: guidelines that its lines break, and what following each would save. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clmembench.analysis.kernel_time import scaled
from clmembench.analysis.little import Estimate
from clmembench.studies.guidelines.advice import MIN_WORTHWHILE_RATIO
from clmembench.studies.kernel.cost import ATOMICS, FIRST, LOCAL, SHARED, KernelCost, total
from clmembench.studies.kernel.demand import SECTOR_BYTES
from clmembench.studies.kernel.facts import KernelFacts, MemoryInstruction, Suggestion
from clmembench.studies.kernel.rates import KernelRates

CONSECUTIVE, BANKS, PRIVATISE = "G3", "S1", "X6"  # ids of guidelines, as `advise` has them
WIDTH, BANK_COUNT, LINE_BYTES = "32", "32", 128  # of the requests that are judged
MIN_WASTE_RATIO = 1.5  # times the fewest lines: less is alignment


def suggestions(facts: KernelFacts, cost: KernelCost, rates: KernelRates) -> list[Suggestion]:
    """The changes that are worth it on this device, the largest gain first."""
    if cost.ns is None or rates.launch_ns is None or not rates.is_parallel:
        return []  # of CPUs it is unknown what the compiler makes of a line
    launch = rates.launch_ns
    found = []
    for id, line, finding, change, parts in (*_order(facts, cost), *_banks(facts, cost), *_atomics(facts, cost)):
        gain = cost.ns.value / total(launch, {**cost.parts, **parts}).value
        if gain >= MIN_WORTHWHILE_RATIO:
            found.append(Suggestion(id, line, finding, change, gain))
    return sorted(found, key=lambda one: -one.gain)


Change = tuple[str, int, str, str, Mapping[str, Estimate]]


def _order(facts: KernelFacts, cost: KernelCost) -> Iterator[Change]:
    """Lines whose sub-groups touch more lines of memory than their words fill."""
    outside = [one for one in facts.memory if one.lines_per_request]
    lines, sectors = (sum(_touched(one, size) * one.requests[WIDTH] for one in outside) for size in (LINE_BYTES, SECTOR_BYTES))
    for one in outside:
        words = one.bytes / one.requests[WIDTH]
        fewest, fewest_sectors = max(1.0, words / LINE_BYTES), max(1.0, words / SECTOR_BYTES)
        found = _touched(one, LINE_BYTES)
        if found < MIN_WASTE_RATIO * fewest or one.pattern == "broadcast":
            continue
        saved = {
            FIRST: (found - fewest) * one.requests[WIDTH] / lines,
            SHARED: max(0.0, _touched(one, SECTOR_BYTES) - fewest_sectors) * one.requests[WIDTH] / sectors,
        }
        parts = {name: scaled(cost.parts[name], 1 - share) for name, share in saved.items() if name in cost.parts and share < 1}
        apart = f"{one.stride_bytes} B apart" if one.stride_bytes else one.pattern
        finding = f"{one.op}s {apart}: {found:.3g} lines of {LINE_BYTES} B a request, where {fewest:.3g} would do"
        change = "let neighbours access neighbouring words: another layout, or a tile in local memory"
        yield CONSECUTIVE, one.line, finding, change, parts


def _touched(one: MemoryInstruction, size: int) -> float:
    return one.lines_per_request[WIDTH][str(size)]


def _banks(facts: KernelFacts, cost: KernelCost) -> Iterator[Change]:
    """Lines whose sub-groups need several passes over the banks of local memory."""
    local = [one for one in facts.memory if one.bank_conflict_ways]
    passes = sum(one.requests[WIDTH] * _ways(one) for one in local)
    for one in local:
        if _ways(one) >= MIN_WASTE_RATIO and LOCAL in cost.parts:
            left = 1 - one.requests[WIDTH] * (_ways(one) - 1) / passes
            finding = f"local {one.op}s take {_ways(one):.3g} passes over 32 banks"
            yield BANKS, one.line, finding, "pad the rows by one word", {LOCAL: scaled(cost.parts[LOCAL], left)}


def _ways(one: MemoryInstruction) -> float:
    return one.bank_conflict_ways[WIDTH][BANK_COUNT]


def _atomics(facts: KernelFacts, cost: KernelCost) -> Iterator[Change]:
    """Atomics on global memory, which a copy for each work-group in local memory makes rarer by its work-items."""
    lines = [one for one in facts.memory if one.op == "atomic" and one.space == "global"]
    if lines and ATOMICS in cost.parts and facts.totals.atomics_at_one_address > facts.totals.work_groups:
        busiest = max(lines, key=lambda one: one.accesses)
        left = scaled(cost.parts[ATOMICS], facts.totals.work_groups / facts.totals.atomics_at_one_address)
        finding = f"{facts.totals.atomics_at_one_address:.3g} atomics meet at one address"
        yield PRIVATISE, busiest.line, finding, "add up in a copy for each work-group first", {ATOMICS: left}
