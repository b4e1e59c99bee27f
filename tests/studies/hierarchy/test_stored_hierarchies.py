"""Stored runs of earlier versions, read by today's inference: what was right stays, and no box contradicts itself."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from clmembench.model import Answer, CacheLevel, Hierarchy
from clmembench.model.findings import undetermined_finding
from clmembench.results import jsonl
from clmembench.studies.hierarchy.curve.own_latency import BLOCKS_DIFFER, PREFETCHER_HELPS, without_prefetcher
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import infer_stored, replay
from scripts.dissect_error_rate import judge_hierarchy
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Tlb, plain

REPORTS = File(__file__).parents[3] / "reports"
# what the reports said when these runs were measured: docs/results.md
KNOWN = {
    "h100-sxm-topology": {
        ("L1", "size_bytes"): 222208, ("L1", "line_bytes"): 128, ("L1", "sector_bytes"): 32, ("L1", "latency_cycles"): 32.2,
        ("L1", "ways"): 4, ("L1", "sets"): 512, ("L2", "latency_cycles"): 285, ("L2", "size_bytes"): 52.05e6,
        ("L2", "ways"): 16, ("DRAM", "latency_cycles"): 677, ("local", "latency_cycles"): 23.1,
        ("private", "latency_cycles"): 43.6, ("constant_array", "latency_cycles"): 28.2, ("constant", "latency_cycles"): 41.2,
    },
    "h200-sxm-topology": {
        ("L1", "size_bytes"): 222208, ("L1", "line_bytes"): 128, ("L1", "sector_bytes"): 32, ("L1", "latency_cycles"): 32.2,
        ("L1", "ways"): 4, ("L1", "sets"): 512, ("L2", "latency_cycles"): 284, ("L2", "size_bytes"): 59.8e6,
        ("L2", "ways"): 16, ("DRAM", "latency_cycles"): 637, ("local", "latency_cycles"): 23.2,
        ("private", "latency_cycles"): 43.6, ("constant_array", "latency_cycles"): 28.2, ("constant", "latency_cycles"): 41.2,
    },
}  # fmt: skip


def contradictions(hierarchy: Hierarchy) -> list[str]:
    """What findings of one level say against each other."""
    found = []
    for level in hierarchy.levels:
        ok = {name: f.value for name, f in level.findings.items() if f.status == "ok"}
        if ok.get("prefetch_bytes") == 0 and any("prefetcher fetches" in f.reason for f in level.findings.values()):
            found.append(f"{level.name}: a prefetcher that fetches nothing")
        if ok.get("line_bytes", 1 << 40) < ok.get("sector_bytes", 0):
            found.append(f"{level.name}: a sector longer than its line")
        if {"size_bytes", "line_bytes", "ways", "sets"} <= set(ok) and "tagged_bytes" not in ok:
            size, whole = level.findings["size_bytes"], ok["line_bytes"] * ok["ways"] * ok["sets"]
            if not size.low <= whole <= size.high:
                found.append(f"{level.name}: sets x ways x line is not its size")
    cycles = [f.value for level in hierarchy.levels if level.space.startswith("global") for n, f in level.findings.items()
              if n == "latency_cycles" and f.status == "ok"]  # fmt: skip
    return found if cycles == sorted(cycles) else [*found, "a farther level that is faster"]


@pytest.mark.parametrize("name", KNOWN)
def test_a_stored_run_of_a_gpu_keeps_what_it_told(name):
    found = infer_stored(jsonl.read(REPORTS / f"{name}.jsonl.gz")).hierarchy
    assert found.local is not None
    whole = [level for level in found.levels if level.space in ("global", "global_cg", "private")]
    named = {level.name: level for level in whole} | {level.space: level for level in reversed(found.constant)}
    named["local"] = found.local
    for (level, prop), value in KNOWN[name].items():
        finding = named[level].findings[prop]
        assert finding.status == "ok" and finding.value == pytest.approx(value, rel=0.005), (level, prop)
    assert contradictions(found) == []


def live_gpu() -> tuple[Machine, ProbeLimits, dict]:
    """A simulated GPU whose first cache can be passed by, the limits of its probes, and the answers of a run on it."""
    first = Cache(plain(32, 4, 128), 128, 32.0, "LRU", sector_bytes=32)
    caches = (first, Cache(plain(128, 16, 128), 128, 200.0, "LRU", sector_bytes=32))
    tlb = Tlb(plain(1, 16, 64 * KIB), 64 * KIB, 40.0)
    paths = {
        "global": Path(caches, 500.0, (tlb,), l1_virtual=True, launch_empties=(0,)),
        "global_cg": Path(caches[1:], 500.0, (tlb,), launch_empties=(), first_level=2),
    }
    machine = Machine("test", paths, Noise(jitter_cycles=0.5, quantum_cycles=1.0, lap_relative=0.001), 11, one_arena=True)
    limits, said = ProbeLimits(32 * MIB, 2 * MIB, frozenset(paths), 128), {}

    def answers(probes):
        said.update({probe: machine.answer(probe) for probe in probes})
        return [said[probe] for probe in probes]

    replay(infer_hierarchy(limits), answers)
    return machine, limits, said


@pytest.fixture(scope="module")
def gpu():
    return live_gpu()


LACKING = {
    "nothing": lambda probe: False,
    "blocks past the first cache": lambda probe: probe.pattern.order == "blocks" and probe.space == "global_cg",
    "halves of units": lambda probe: probe.pattern.order == "random" and probe.pattern.segments.count(";") >= 7,
    "scans": lambda probe: probe.mode == "residence",
    "crowds": lambda probe: probe.mode == "evict",
    "traces": lambda probe: probe.mode == "trace",
    "two orders of pages": lambda probe: probe.pattern.order in ("by_page", "by_round"),
    "reversed laps": lambda probe: probe.pattern.order == "zigzag",
    "further orders": lambda probe: probe.pattern.seed > 0,
    "lists of lines": lambda probe: bool(probe.pattern.segments),
}


@each("lacking", LACKING)
def test_a_run_without_a_kind_of_points_says_nothing_wrong_and_keeps_its_latencies(gpu, lacking):
    machine, limits, said = gpu

    def stored(probes):
        kept = [None if LACKING[lacking](probe) else said.get(probe) for probe in probes]
        return [
            Answer(p, reason="this run has no answer to this probe") if a is None else a
            for p, a in zip(probes, kept, strict=True)
        ]

    found = replay(infer_hierarchy(limits), stored)
    rows = judge_hierarchy("test", machine, found)
    assert [row for row in rows if row.outcome == "wrong" or row.bounds_hold is False] == []
    assert {row.outcome for row in rows if row.parameter == "latency_cycles"} == {"right"}
    if lacking != "blocks past the first cache":  # which count the second one's lines
        assert {row.outcome for row in rows if row.parameter == "size_bytes"} == {"right"}
    assert contradictions(found) == []


def test_no_reason_names_a_prefetcher_that_was_looked_for_and_not_found():
    level = CacheLevel("L2", "global", {"latency_ns": undetermined_finding("latency_ns", PREFETCHER_HELPS)})
    assert without_prefetcher(level).findings["latency_ns"].reason == BLOCKS_DIFFER
