"""The scripts' error tables: what exists counts where it was not found, and bounds are judged."""

import pytest

from clmembench.infer.findings import measured_finding, undetermined_finding
from clmembench.model import CacheLevel, Hierarchy, TlbLevel
from scripts.dissect_error_rate import judge_hierarchy
from scripts.trace_error_rate import table
from tests.published import PUBLISHED
from tests.simulated import KIB, Cache, Machine, Path, Tlb, plain

DEVICE = Machine(
    "known", {"global": Path((Cache(plain(64, 8, 64), 64, 4.0),), 100.0, (Tlb(plain(1, 32, 4096), 4096, 7.0),))}, ghz=2.0
)


def found(name, value, **more):
    return measured_finding(name, value, "test", ("chase:1",), **more)


def outcomes(hierarchy):
    return {(row.parameter, row.outcome) for row in judge_hierarchy("known", DEVICE, hierarchy)}


def test_what_exists_and_was_not_found_is_missing():
    said = judge_hierarchy("known", DEVICE, Hierarchy(levels=()))
    assert {row.outcome for row in said} == {"missing"} and len(said) == 7 + 1 + 7
    assert "| all | 15 | 0 (0.0%) | 0 (0.0%) | 0 (0.0%) | 0 (0.0%) | 15 (100.0%) | 0, 0 |" in table(said)


def test_answers_are_right_or_wrong_and_levels_that_do_not_exist_are_wrong():
    level = CacheLevel("L1", "global", {"ways": found("ways", 8), "sets": found("sets", 32)})
    second = CacheLevel("L2", "global", {"ways": found("ways", 8)})
    tlb = TlbLevel("L1 TLB", {"entries": found("entries", 32)})
    said = outcomes(Hierarchy(levels=(level, second), tlb=(tlb,)))
    assert {
        ("ways", "right"),
        ("sets", "wrong"),
        ("ways", "wrong"),
        ("TLB entries", "right"),
        ("line_bytes", "missing"),
    } <= said


@pytest.mark.parametrize(("low", "high", "hold"), [(16, 48, True), (33.5, 64, False), (None, 30, False), (None, None, None)])
def test_bounds_of_what_is_undetermined_are_judged(low, high, hold):
    ends = [end and end * KIB for end in (low, high)]
    level = CacheLevel("L1", "global", {"size_bytes": undetermined_finding("size_bytes", "why", "test", (), *ends)})
    row = next(r for r in judge_hierarchy("known", DEVICE, Hierarchy(levels=(level,))) if r.parameter == "size_bytes")
    assert (row.outcome, row.bounds_hold) == ("undetermined", hold)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_device_names_its_source_and_what_is_assumed(name):
    device = PUBLISHED[name]()
    assert device.source and device.facts["assumed"]
    sizes = [cache.size_bytes for cache in device.paths["global"].caches]
    assert sizes == sorted(sizes)
