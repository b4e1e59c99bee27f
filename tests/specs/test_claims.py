"""Claims about a memory hierarchy: which level each is about, and whether what was found agrees."""

from clmembench.model import Finding
from clmembench.resources import sheet_paths
from clmembench.specs import sheets
from clmembench.specs.claims import FIRST_CACHE, LARGEST_CACHE, Claim, claims_by_level, list_claims, unit_cache_bytes, verdict
from tests import found_hierarchies as hierarchies
from tests.builders import device
from tests.cases import each
from tests.found_hierarchies import KIB, MIB, known, level, unknown


def two_methods(value, low, high):
    return Finding("size_bytes", value, low, high, "B", "inconsistent", "a; b", (), "they disagree")


@each(
    ("finding", "claimed", "says"),
    [
        (known("size_bytes", 32 * KIB), 32 * KIB, "agrees"),
        (known("size_bytes", 233 * KIB, 205 * KIB, 256 * KIB), 256 * KIB, "agrees"),
        (known("size_bytes", 32 * KIB), 39 * KIB, "agrees"),
        (known("size_bytes", 32 * KIB), 48 * KIB, "contradicted"),
        (known("size_bytes", 48 * MIB, 44 * MIB, 52 * MIB), 4 * MIB, "contradicted"),
        (known("line_bytes", 128), 128, "agrees"),
        (known("line_bytes", 128), 127, "contradicted"),
        (Finding("ways", 8, None, None, "", "ok", "sets", ("chase:4",)), 8, "agrees"),
        (Finding("ways", 8, None, None, "", "ok", "sets", ("chase:4",)), 12, "contradicted"),
        (unknown("size_bytes", "why"), 4 * MIB, "not confirmed"),
        (unknown("size_bytes", "why", 8 * MIB), 16 * MIB, "not confirmed"),
        (unknown("size_bytes", "why", 8 * MIB), 4 * MIB, "contradicted"),
        (two_methods(8 * MIB, 6 * MIB, 11 * MIB), 8 * MIB, "not confirmed"),
        (two_methods(8 * MIB, 6 * MIB, 11 * MIB), 32 * MIB, "contradicted"),
        (two_methods(8 * MIB, None, None), 32 * MIB, "not confirmed"),
        (known("policy", "LRU"), 1, "not confirmed"),
        (None, 48 * KIB, "not confirmed"),
    ],
)
def test_what_was_found_confirms_or_contradicts_a_claim(finding, claimed, says):
    assert verdict(finding, claimed) == says


def test_a_driver_says_what_it_does_not_leave_at_0():
    info = device(line_bytes=0, cache_bytes=32 * MIB, local_mem_bytes=48 * KIB)
    assert {claim.level: claim.value for claim in list_claims(info) if claim.name == "size_bytes"} == {
        LARGEST_CACHE: 32 * MIB, "local": 48 * KIB, "DRAM": info.global_mem_bytes,
    }  # fmt: skip
    assert "line_bytes" not in {claim.name for claim in list_claims(info)}


def test_a_sheet_says_the_sizes_it_prints():
    sheet = sheets.match_sheet(hierarchies.gpu_device(), [sheets.load(path) for path in sheet_paths()])
    printed = {c.level: c.value for c in list_claims(hierarchies.gpu_device(), sheet) if c.source == "the sheet"}
    assert printed == {"L1": 256 * KIB, "L2": 50 * MIB, "local": 227 * KIB}


def test_each_claim_is_about_one_level():
    size = known("size_bytes", MIB)
    levels = [level("local", "local"), level("L1", "global", size), level("L2 near", "global", size)]
    levels += [level("L2 far", "global", size), level("DRAM", "global")]
    claims = [
        Claim(name, "size_bytes", 1, "x") for name in ("local", FIRST_CACHE, LARGEST_CACHE, "L2", "L2 near", "DRAM", "L3")
    ]
    assert [[claim.level for claim in of] for of in claims_by_level(claims, levels)] == [
        ["local"], [FIRST_CACHE], ["L2 near"], [LARGEST_CACHE, "L2"], ["DRAM"],
    ]  # fmt: skip


def test_claims_need_no_cache_to_be_found():
    assert claims_by_level([Claim(LARGEST_CACHE, "size_bytes", 1, "x"), Claim(FIRST_CACHE, "line_bytes", 1, "x")], []) == []
    assert claims_by_level([Claim(LARGEST_CACHE, "size_bytes", 1, "x")], [level("DRAM", "global")]) == [[]]


def test_claims_of_a_cache_stand_beside_global_memorys_path_and_not_beside_another_to_the_same():
    size = known("size_bytes", MIB)
    levels = [level(name, space, size) for space in ("global", "readonly") for name in ("L1", "L2")]
    claims = [Claim(name, "size_bytes", 1, "x") for name in (FIRST_CACHE, LARGEST_CACHE, "L1", "L2")]
    assert [[c.level for c in of] for of in claims_by_level(claims, levels)] == [
        [FIRST_CACHE, "L1"],
        [LARGEST_CACHE, "L2"],
        [],
        [],
    ]


def caches_and_memory(latency, *sizes):
    return [*(level(f"L{n}", "global", size) for n, size in enumerate(sizes, 1)), level("DRAM", "global", latency)]


def test_a_claim_that_is_the_sum_of_all_units_first_caches_is_not_held_against_the_l2():
    info = device(compute_units=132, cache_bytes=132 * 32 * KIB)
    (claim,) = (c for c in list_claims(info) if c.level == LARGEST_CACHE)
    l1, l2 = known("size_bytes", 217 * KIB), unknown("size_bytes", "grows slowly", 27 * MIB)
    first, second, memory = claims_by_level([claim], caches_and_memory(known("latency_ns", 335.0), l1, l2))
    assert not second and not memory
    assert [c.about for c in first] == ["for all compute units, 32 KiB each"]
    # an L2 of just that size is what the claim is about
    first, second, _ = claims_by_level([claim], caches_and_memory(known("latency_ns", 335.0), l1, known("size_bytes", 4 * MIB)))
    assert not first and [c.about for c in second] == [""]


@each(
    ("changes", "each"),
    [
        ({"compute_units": 132, "cache_bytes": 132 * 32 * KIB}, 32 * KIB),
        ({"compute_units": 15, "cache_bytes": 15 * 16 * KIB}, 16 * KIB),
        ({"compute_units": 132, "cache_bytes": 50 * MIB}, 0),
        ({"compute_units": 96, "cache_bytes": 32 * KIB * 96, "kind": "cpu"}, 0),
        ({"compute_units": 1, "cache_bytes": 64 * KIB}, 0),
        ({"compute_units": 132, "cache_bytes": 0}, 0),
    ],
)
def test_which_claims_may_be_sums_over_compute_units(changes, each):
    assert unit_cache_bytes(device(**changes)) == each


def test_a_larger_cache_than_was_reached_is_contradicted_only_where_memory_was():
    claim, l1 = Claim(LARGEST_CACHE, "size_bytes", 256 * MIB, "the driver"), known("size_bytes", 32 * KIB)
    reached, not_reached = known("latency_ns", 110.0), unknown("latency_ns", "the latency still grows")
    for latency, about in ((reached, ""), (not_reached, "for its largest cache, which was not reached")):
        of, _ = claims_by_level([claim], caches_and_memory(latency, l1))
        assert [c.about for c in of] == [about]
    # a cache that is surely larger than claimed contradicts, whatever lies behind it
    small = Claim(LARGEST_CACHE, "size_bytes", 8 * KIB, "the driver")
    assert claims_by_level([small], caches_and_memory(not_reached, l1))[0] == [small]
