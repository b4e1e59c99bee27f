"""Measures how often `topology` is right, wrong or silent about random simulated devices; prints a Markdown table.

The devices are those of tests/hierarchies.py, with the same experiment as for real devices. trace_error_rate.py defines wrong;
of spaces other than global memory only latencies are judged. An experiment that fails or takes too long is counted and listed,
and is in no row.
`--published` judges the published devices of tests/published.py in place of random ones: FIRST to LAST are their numbers.
Usage: python scripts/dissect_error_rate.py FIRST LAST [--processes N] [--wrong] [--reasons] [--rows FILE] [--write]
`--write` puts the sentence, and the table of random devices, into docs/topology.md, the only place that has them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.model import Answer, CacheLevel, Finding, Hierarchy, Probe
from clmembench.studies.hierarchy.curve.unsettled_levels import UNKNOWN_NUMBER_MARK
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import replay
from scripts.trace_error_rate import Row, judged, outcomes, print_wrong, sentence, table, true_cache, true_tlbs, write_block
from tests.hierarchies import random_hierarchy
from tests.published import PUBLISHED
from tests.simulated import Machine

MAX_BYTES = 1 << 30
MEMORY_SIZE_FACTOR = 4  # times the last cache: from there a flat end is called memory


def judge_published(number: int) -> tuple[list[Row], float, int]:
    """As `judge_device`, of a published device."""
    name = list(PUBLISHED)[number]
    return judge_machine(name, PUBLISHED[name]())


def judge_device(seed: int) -> tuple[list[Row], float, int]:
    """The outcomes of one device, the seconds of its inference and of its simulation, and the number of its probes."""
    return judge_machine(seed, random_hierarchy(seed))


def judge_machine(name: int | str, machine: Machine) -> tuple[list[Row], float, int]:
    """The outcomes of a simulated device."""
    path, asked = machine.paths["global"], 0

    def answered(probes: Sequence[Probe]) -> list[Answer]:
        nonlocal asked
        asked += len(probes)
        return [machine.answer(probe) for probe in probes]

    began = time.perf_counter()
    limits = ProbeLimits(
        MAX_BYTES,
        MEMORY_SIZE_FACTOR * max(cache.size_bytes for cache in path.caches),
        frozenset(machine.paths),
        64,
        machine.is_cpu,
    )
    found = replay(infer_hierarchy(limits), answered)
    seconds = time.perf_counter() - began
    return judge_hierarchy(name, machine, found), seconds, asked


def judge_hierarchy(name: int | str, machine: Machine, found: Hierarchy) -> list[Row]:
    """The outcomes of every property of global memory's levels and TLBs."""
    path = machine.paths["global"]
    rows: list[Row] = []
    caches, tlbs = [true_cache(cache, 0.0) for cache in path.caches], true_tlbs(path)
    levels = [level for level in found.levels if level.name != "DRAM" and level.space.startswith("global")]
    for own, true in pair_levels(levels, caches, machine.ghz):
        rows += judge_level(name, "", own or {}, true, machine.ghz)
    memory = next((level.findings for level in found.levels if level.name == "DRAM"), {})
    rows += judge_level(name, "", memory, {"latency_cycles": path.memory_cycles}, machine.ghz)
    for own, true in zip_longest([tlb.findings for tlb in found.tlb], tlbs):
        rows += judge_level(name, "TLB ", own or {}, true, machine.ghz)
    return rows


def pair_levels(
    levels: Sequence[CacheLevel], caches: Sequence[dict[str, Any]], ghz: float
) -> list[tuple[Mapping[str, Finding] | None, dict[str, Any] | None]]:
    """Each level found with the cache it is judged by: that of its number, or, where it says that its number is not known, the
    cache from there on that is nearest. Levels and caches without the other are paired with None."""
    pairs: list[tuple[Mapping[str, Finding] | None, dict[str, Any] | None]] = []
    following = 0
    for number, level in enumerate(levels):
        chosen = following
        if level.name.endswith(UNKNOWN_NUMBER_MARK):
            possible = range(following, len(caches) - (len(levels) - number - 1))  # those behind need caches, too
            chosen = min(possible, key=lambda i: distance(level, caches[i], ghz), default=following)
        pairs += [(None, cache) for cache in caches[following:chosen]]
        pairs.append((level.findings, caches[chosen] if chosen < len(caches) else None))
        following = chosen + 1
    return pairs + [(None, cache) for cache in caches[following:]]


def distance(level: CacheLevel, cache: dict[str, Any], ghz: float) -> float:
    """By how much, as a logarithm, a cache differs from what is known of a level: its latency, else its size, or what these are
    at least; 0 where nothing is known."""
    cycles, size = cache["latency_cycles"], cache["size_bytes"]
    for name, true in (("latency_cycles", cycles), ("latency_ns", cycles / ghz), ("size_bytes", size)):
        finding = level.findings.get(name)
        value = None if finding is None else finding.low if finding.value is None else finding.value
        if isinstance(value, int | float) and value > 0:
            return abs(math.log(value / true))
    return 0.0


def judge_level(device: int | str, prefix: str, findings: Any, true: dict[str, Any] | None, ghz: float) -> list[Row]:
    """The outcomes of one level's findings; a finding in ns alone is judged by its ns."""
    named = {}
    for name, finding in findings.items():
        if name in ("latency_cycles", "penalty_cycles"):
            in_ns = findings.get(name.replace("cycles", "ns"))
            named[name] = finding if finding.status == "ok" or in_ns is None else in_ns
        elif not name.endswith("_ns"):
            named[name] = finding
    scale = 1.0
    if any(f.unit == "ns" for f in named.values()):
        scale = 1 / ghz
    return outcomes(device, prefix, named, true, scale)


def reasons(rows: Sequence[Row]) -> str:
    """Why answers are undetermined: each reason, its numbers left out, with how often it is given for each parameter."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row.outcome in ("undetermined", "missing"):
            found.setdefault(re.sub(r"[-\d.e]*\d", "N", row.reason), Counter())[row.parameter] += 1
    ranked = sorted(found.items(), key=lambda item: -item[1].total())
    return "\n" + "\n".join(
        f"{own.total():5} {why}: {', '.join(f'{k} {v}' for k, v in own.most_common())}" for why, own in ranked
    )


def main() -> None:
    """Judges the given seeds and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, to standard error")
    parser.add_argument("--reasons", action="store_true", help="count the reasons of what is undetermined, too")
    parser.add_argument("--published", action="store_true", help="judge published devices, not random ones")
    parser.add_argument("--rows", type=Path, help="append every device's outcomes to this file, a line of JSON each")
    parser.add_argument("--write", action="store_true", help="put sentence and table into the docs")
    given = parser.parse_args()
    judge = judge_published if given.published else judge_device
    rows: list[Row] = []
    longest, most, tally = 0.0, 0, Counter[str]()
    seeds = range(given.first, given.last + 1)
    for seed, (some, seconds, asked) in judged(judge, seeds, given.processes, tally):
        rows += some
        if given.rows is not None:
            with given.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps([seed, [row[1:] for row in some]], default=str) + "\n")
        longest, most = max(longest, seconds), max(most, asked)
        if given.wrong:
            print_wrong(some)
    what = "Published devices" if given.published else f"Seeds {given.first} to {given.last}"
    told = sentence(rows, what, tally["done"] - tally["failed"], len(seeds))
    print(f"{told}\n\n{table(rows)}")
    if given.published:
        print("\n" + table(rows, lambda row: str(row.device), "device"))
    if given.reasons:
        print(reasons(rows))
    print(f"\nAt most {most} probes, {longest:.0f} s with simulation.")
    if given.write:
        block, text = ("errors-of-published", told) if given.published else ("errors-of-drawn", f"{told}\n\n{table(rows)}")
        write_block(block, text)


if __name__ == "__main__":
    main()
