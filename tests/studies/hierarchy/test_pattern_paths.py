"""pattern_paths: P1 to P6 through the first cache and past it, and whether that cache asks a TLB (Mei & Chu 2015, 5.2)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from clmembench.model import CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.model.address_patterns import pattern_bytes
from clmembench.model.findings import measured_finding
from clmembench.report import finding_tables, render
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.patterns.latency_experiment import HierarchyGeometry, known_geometry, pattern_trace
from clmembench.studies.hierarchy.patterns.latency_patterns import PATTERN_NAMES
from clmembench.studies.hierarchy.patterns.pattern_paths import NAME, PatternLimits, translation_pattern, with_patterns
from clmembench.studies.hierarchy.views import hierarchy_json, tree
from tests.cases import each
from tests.published_gpus import MORE_GPUS
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Tlb, plain
from tests.studies.hierarchy.test_classic import asked
from tests.studies.hierarchy.test_truths import PATTERNS
from tests.truths import fermi, kepler, maxwell

LIMITS = PatternLimits(4 << 30, 1.5, "global_cg", overflowed=False, shows_memory=True, translates_first=False)
ALONE = replace(LIMITS, through="global")


def known(*levels: tuple[int, int, int], entries: tuple[int, ...] = (16, 65)) -> Hierarchy:
    """A hierarchy of which sizes in KiB, lines and sectors of its caches were found, the first seen through global memory, and
    the entries of its TLBs."""

    def of(**values: float) -> dict[str, Finding]:
        return {name: measured_finding(name, value, "test", ("test:1",)) for name, value in values.items()}

    caches = (
        CacheLevel(f"L{n + 1}", "global_cg" if n else "global", of(size_bytes=kib * KIB, line_bytes=line, sector_bytes=sector))
        for n, (kib, line, sector) in enumerate(levels)
    )
    tlbs = (TlbLevel(f"L{n + 1} TLB", of(entries=count, page_bytes=2 * MIB)) for n, count in enumerate(entries))
    return Hierarchy(tuple(caches), tuple(tlbs))


FERMI, MAXWELL, KEPLER = known((16, 128, 128), (512, 32, 32)), known((24, 32, 32), (2048, 32, 32)), known((1536, 32, 32))


def found(machine: Machine, hierarchy: Hierarchy, limits: PatternLimits = LIMITS) -> Hierarchy:
    return asked(with_patterns(hierarchy, limits), machine.answer)


def values(patterns) -> list[float | None]:
    return [patterns[name].value for name in PATTERN_NAMES]


@pytest.mark.parametrize(("name", "machine", "hierarchy"), [("fermi", fermi, FERMI), ("maxwell", maxwell, MAXWELL)])
def test_past_the_first_cache_all_patterns_of_figure_14_are_there(name, machine, hierarchy):
    """Of Maxwell P2 and P3 are there only past L1, which asks no TLB. Fermi has no page-table context."""
    told = found(machine(), hierarchy)
    contexts = 6 if name == "maxwell" else 5
    assert values(told.patterns_past)[:contexts] == pytest.approx(PATTERNS[name, "global_cg"][:contexts], rel=0.02)
    assert told.patterns_past["P2_ns"].value == pytest.approx(PATTERNS[name, "global_cg"][1] / 1.5, rel=0.02)
    if name == "maxwell":
        assert all(told.patterns[p].reason.startswith("not present") for p in ("P2", "P3"))


@pytest.mark.parametrize(
    ("machine", "hierarchy", "limits", "value", "says"),
    [
        (fermi(), FERMI, LIMITS, "before L1", "288 to 372 cycles where L1 hits, 27 to 111 cycles past it"),
        (kepler(), KEPLER, ALONE, "before L1", "6 cycles where L1 hits"),
        (maxwell(), MAXWELL, LIMITS, "behind L1", "nothing where L1 hits, 11 to 75 cycles past it"),
    ],
    ids=["fermi", "kepler", "maxwell"],
)
def test_where_translation_sits_on_the_devices_of_the_paper(machine, hierarchy, limits, value, says):
    """288 cycles where L1 hits and 27 where L2 does: section 5.2, item 3; Maxwell's L1 asks no TLB: item 2."""
    finding = found(machine, hierarchy, limits).tlb[0].findings[NAME]
    assert (finding.value, finding.status) == (value, "ok") and says in finding.method and finding.evidence


@each("virtual", [True, False])
@each("name", ["M60 (Maxwell)", "K80 (Kepler)", "A100 (Ampere), near L2"])
def test_published_gpus_whose_first_cache_asks_a_tlb_or_does_not(name, virtual):
    machine = MORE_GPUS[name]()
    path = replace(machine.paths["global"], l1_virtual=virtual)
    machine = replace(machine, paths={**machine.paths, "global": path})
    sizes = [(c.size_bytes // KIB, c.line_bytes, c.sector_bytes or c.line_bytes) for c in path.caches]
    told = found(machine, known(*sizes, entries=tuple(sum(t.sets.ways) for t in path.tlbs)))
    assert told.tlb[0].findings[NAME].value == ("behind L1" if virtual else "before L1")
    if len(path.tlbs) > 1:
        assert told.patterns_past["P2"].value == pytest.approx(path.caches[1].hit_cycles + 60, rel=0.02)
        assert (told.patterns["P2"].value is None) == virtual


def test_a_cache_that_no_load_passes_by_is_behind_only_where_a_tlb_was_seen_beyond_it():
    machine = replace(maxwell(), paths={"global": maxwell().paths["global"]})
    told = found(machine, MAXWELL, ALONE)
    assert told.patterns_past == {} and told.tlb[0].findings[NAME].value is None
    assert "no load passes by it" in told.tlb[0].findings[NAME].reason
    told = found(machine, MAXWELL, replace(ALONE, overflowed=True))
    assert told.tlb[0].findings[NAME].value == "behind L1"


def test_pages_that_take_longer_through_neither_path_say_nothing():
    """As where a TLB has more entries than were counted."""
    larger = (Tlb(plain(1, 512, 2 * MIB), 2 * MIB, 60.0),)
    paths = {name: replace(path, tlbs=larger) for name, path in fermi().paths.items() if name.startswith("global")}
    finding = found(replace(fermi(), paths=paths), FERMI).tlb[0].findings[NAME]
    assert finding.value is None and "not seen for certain" in finding.reason


def test_a_first_cache_that_does_not_hold_the_lines_is_not_told_from_what_is_behind_it():
    """Of a size taken four times too large: the lines are those of L2, of which an L1 that asks no TLB looks as if it did."""
    small = replace(maxwell().paths["global"], caches=(Cache(plain(4, 4, 32), 32, 82), maxwell().paths["global"].caches[1]))
    machine = replace(maxwell(), paths={**maxwell().paths, "global": small})
    finding = found(machine, MAXWELL).tlb[0].findings[NAME]
    assert finding.value is None and "may not stay in it" in finding.reason


def test_parts_of_a_further_cache_at_different_distances_are_no_pattern():
    """Hits past the first cache are told from as many lines as pages: a single line lies in one part alone."""
    for hierarchy in (FERMI, MAXWELL):
        past = pattern_trace(known_geometry(hierarchy, "global_cg"), "global_cg")
        lines = {stage.role: len(stage.counted) for stage in past.stages}["P1"] // 3
        assert lines >= max(stage.pages for stage in past.stages if stage.role == "lap")


def test_hits_past_the_first_cache_lie_within_the_reach_of_a_small_tlb():
    """Else a hit of them would miss the TLB."""
    known = HierarchyGeometry(128, 128, 2 * MIB, 4 * KIB, 8, 128)
    hits = pattern_trace(known, "global_cg").probe.pattern.segments.split(";")[-1].split(":")
    assert int(hits[1]) * int(hits[2]) <= 8 * 4 * KIB // 2 and int(hits[2]) >= 8


def test_laps_past_the_first_cache_leave_room_for_far_pages():
    trial = pattern_trace(HierarchyGeometry(128, 32, 50 * MIB, 2 * MIB, 16, 1024), "global_cg", 4 << 30)
    assert {"far", "P4", "lap", "P1"} == {stage.role for stage in trial.stages} - {"touch"}
    assert pattern_bytes(trial.probe.pattern) <= 4 << 30 and "P3" in trial.unmet


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"page_bytes": None}, "must be known"),
        ({"near_pages": 512}, "than the first cache"),
        ({"page_bytes": 64, "near_pages": 16}, "side by side"),
    ],
)
def test_what_must_be_known_to_ask_for_translation(change, says):
    assert says in translation_pattern(replace(HierarchyGeometry(128, 128, 16 * KIB, 2 * MIB, 16, 65), **change), 4 << 30)


def test_a_run_stored_before_says_nothing_of_the_path_past_its_first_cache():
    machine = maxwell()
    old = set(PATTERN_NAMES)

    def stored(probe):
        answer = machine.answer(probe)
        new = probe.space == "global_cg" or (probe.mode == "trace" and probe.pattern.segments.count(";") == 1)
        return replace(answer, value=None, low=None, high=None, latencies=None, evidence=()) if new else answer

    told = asked(with_patterns(MAXWELL, LIMITS), stored)
    assert told.patterns_past == {} and NAME not in told.tlb[0].findings
    assert {n for n in old if told.patterns[n].value is not None} == {"P1", "P4", "P5", "P6"}


def test_text_json_and_table_have_both_paths_and_where_translation_sits():
    told = found(maxwell(), MAXWELL)
    whole = json.loads(render.json_text(hierarchy_json.hierarchy_fields(told)))
    assert whole["tlb"][0][NAME]["value"] == "behind L1"
    assert whole["patterns"]["P2"]["value"] is None and whole["patterns_past"]["P2"]["value"] == pytest.approx(225, rel=0.02)
    text = tree.draw_tree(told)
    assert "translation behind L1" in text and "patterns of loads that bypass the first cache" in text
    rows = [(e.space, e.name) for e in finding_tables.entries(told) if e.level == "patterns"]
    assert ("global_cg", "P2") in rows and ("global", "P2") in rows
    assert "behind L1" in render.csv_text(finding_tables.finding_fields(told))


@pytest.mark.slow
def test_a_whole_inference_finds_p2_past_a_first_cache_that_asks_no_tlb():
    first = Cache(plain(32, 4, 128), 128, 32.0, "LRU", sector_bytes=32)
    caches = (first, Cache(plain(128, 16, 128), 128, 200.0, "LRU", sector_bytes=32))
    tlbs = (Tlb(plain(1, 16, 64 * KIB), 64 * KIB, 40.0), Tlb(plain(1, 64, 64 * KIB), 64 * KIB, 200.0))
    for virtual in (True, False):
        paths = {
            "global": Path(caches, 500.0, tlbs, l1_virtual=virtual, launch_empties=(0,)),
            "global_cg": Path(caches[1:], 500.0, tlbs, launch_empties=(), first_level=2),
        }
        machine = Machine("test", paths, Noise(jitter_cycles=0.5, quantum_cycles=1.0, lap_relative=0.001), 11, one_arena=True)
        told = asked(infer_hierarchy(ProbeLimits(32 * MIB, 2 * MIB, frozenset(paths), 128)), machine.answer)
        assert told.tlb[0].findings[NAME].value == ("behind L1" if virtual else "before L1")
        assert told.patterns_past["P2"].value == pytest.approx(240, rel=0.03)
