"""Claims of a device against planted truths: too small, too large, right, and not to be told."""

from __future__ import annotations

from dataclasses import replace

from clmembench.gates.claims_audit import check_claims
from clmembench.specs.sheets import Figure, Match, SpecSheet
from tests.builders import CHASE, clock, device, header, run, slope

MIB = 1 << 20
SHEET = SpecSheet(
    "a sheet",
    "gpu",
    Match(("Synthetic GPU",)),
    {"l2_bytes": Figure(50.0 * MIB, "B", "the data sheet"), "local_memory_bytes": Figure(227.0 * 1024, "B", "the guide")},
)


def chase(info, **changes):
    """A curve whose last cache ends after 32 MiB, settled at 2 GiB."""
    ns = [16.0] * 5 + [150.0] * 9 + [400.0] * 6
    points = [slope({"array_bytes": 4096 << n}, [v, 1.001 * v] * 8, core_clock=clock(2.0)) for n, v in enumerate(ns)]
    return run(points, header(info, {"pchase": CHASE}, clock_step_ns=32.0, **changes))


def verdicts(claims, what):
    return [c.verdict for c in claims if c.what == what]


def test_claims_that_measurement_and_sheet_contradict():
    # as an H100's driver has it
    info = device(cache_bytes=4 * MIB, local_mem_bytes=48 << 10, timer_resolution_ns=1000, max_clock_mhz=900)
    found = check_claims(chase(info, features=("fp64",), claimed=("fp64", "images")), SHEET)
    assert verdicts(found, "largest cache") == ["contradicted", "contradicted"]
    assert any("32 MiB" in c.found for c in found if c.what == "largest cache")
    for what in ("local memory", "core clock", "step of the event clock", "images"):
        assert verdicts(found, what) == ["contradicted"], what
    assert verdicts(found, "fp64") == []


def test_claims_that_hold():
    info = device(cache_bytes=48 * MIB, local_mem_bytes=227 << 10, timer_resolution_ns=32, max_clock_mhz=2000)
    found = check_claims(chase(info), SHEET)
    assert {c.verdict for c in found} == {"agrees"} and len(found) == 5


def test_a_plateau_that_ends_before_the_claimed_cache_is_no_contradiction():
    assert verdicts(check_claims(chase(device(cache_bytes=256 * MIB)), None), "largest cache") == ["not confirmed"]


def test_a_clock_that_boosts_or_rests_is_not_confirmed():
    for claimed in (1400, 5000):
        found = check_claims(chase(device(max_clock_mhz=claimed)), None)
        assert verdicts(found, "core clock") == ["not confirmed"]


def test_a_run_without_the_evidence_says_nothing():
    bare = replace(chase(device()), records=())
    bare = replace(bare, header=replace(bare.header, clock_step_ns=None))
    assert check_claims(bare, None) == []


def test_a_claim_that_may_be_the_sum_of_all_units_first_caches_contradicts_nothing():
    info = device(compute_units=132, cache_bytes=132 * (32 << 10))
    found = [c for c in check_claims(chase(info), SHEET) if c.what == "largest cache"]
    assert [c.verdict for c in found] == ["not confirmed", "not confirmed"]
    assert "32 KiB in each of 132 compute units" in found[0].claimed
