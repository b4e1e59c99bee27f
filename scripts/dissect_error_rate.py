"""Measures how often `topology` is right, wrong or silent about random simulated devices; prints a Markdown table.

The devices are those of tests/hierarchies.py, with the same inquiry as for real devices. trace_error_rate.py defines wrong; of
spaces other than global memory only latencies are judged. An inquiry that fails or takes too long is counted and listed, and is
in no row.
Usage: python scripts/dissect_error_rate.py FIRST LAST [--processes N] [--wrong]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.infer.hierarchy.dissect import ProbeLimits, infer_hierarchy
from clmembench.model import Answer, Probe
from clmembench.plan.hierarchy import replay
from scripts.trace_error_rate import Row, outcomes, table, true_cache, true_tlb, try_seed
from tests.hierarchies import random_hierarchy

MAX_BYTES = 1 << 30
MEMORY_SIZE_FACTOR = 4  # times the last cache: from there a flat end is called memory


def judge_device(seed: int) -> tuple[list[Row], float, int]:
    """The outcomes of one device, the seconds of its inference and of its simulation, and the number of its probes."""
    machine = random_hierarchy(seed)
    path, asked = machine.paths["global"], 0

    def answered(probes: Sequence[Probe]) -> list[Answer]:
        nonlocal asked
        asked += len(probes)
        return [machine.answer(probe) for probe in probes]

    began = time.perf_counter()
    limits = ProbeLimits(
        MAX_BYTES, MEMORY_SIZE_FACTOR * max(cache.size_bytes for cache in path.caches), frozenset(machine.paths), 64
    )
    found = replay(infer_hierarchy(limits), answered)
    seconds = time.perf_counter() - began
    rows: list[Row] = []
    caches = [true_cache(cache, 0.0) for cache in path.caches]
    levels = [level for level in found.levels if level.name != "DRAM" and level.space.startswith("global")]
    for number, level in enumerate(levels):
        rows += judge_level(seed, "", level.findings, caches[number] if number < len(caches) else None, machine.ghz)
    for level in found.levels:
        if level.name == "DRAM":
            rows += judge_level(seed, "", level.findings, {"latency_cycles": path.memory_cycles}, machine.ghz)
    for number, tlb in enumerate(found.tlb):
        rows += judge_level(
            seed, "TLB ", tlb.findings, true_tlb(path.tlbs[number]) if number < len(path.tlbs) else None, machine.ghz
        )
    return rows, seconds, asked


def judge_level(seed: int, prefix: str, findings: Any, true: dict[str, Any] | None, ghz: float) -> list[Row]:
    """The outcomes of one level's findings; a finding in ns alone is judged by its ns."""
    named = {}
    for name, finding in findings.items():
        if name in ("latency_cycles", "penalty_cycles"):
            in_ns = findings.get(name.replace("cycles", "ns"))
            named[name] = finding if finding.status == "ok" or in_ns is None else in_ns
        elif name != "prefetch_bytes" and not name.endswith("_ns"):
            named[name] = finding
    scale = 1.0
    if any(f.unit == "ns" for f in named.values()):
        scale = 1 / ghz
    return outcomes(seed, prefix, named, true, scale)


def main() -> None:
    """Judges the given seeds and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, to standard error")
    given = parser.parse_args()
    rows: list[Row] = []
    longest, most, failed = 0.0, 0, 0
    seeds = range(given.first, given.last + 1)
    with multiprocessing.Pool(given.processes) as pool:
        for seed, (answers, why) in zip(seeds, pool.imap(partial(try_seed, judge_device), seeds), strict=True):
            if answers is None:
                failed += 1
                print(f"seed {seed}: {why}", file=sys.stderr, flush=True)
                continue
            some, seconds, asked = answers
            rows += some
            longest, most = max(longest, seconds), max(most, asked)
            for _, name, outcome, _, said, true in some:
                if given.wrong and outcome == "wrong":
                    print(f"seed {seed}: {name} said {said}, is {true}", file=sys.stderr, flush=True)
    print(table(rows))
    print(f"\nSeeds {given.first} to {given.last}, {failed} failed; at most {most} probes, {longest:.0f} s with simulation.")


if __name__ == "__main__":
    main()
