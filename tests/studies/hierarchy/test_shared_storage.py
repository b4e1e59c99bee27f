"""What shares storage: verdicts on simulated compute units whose truth is known, and what keeps a verdict back."""

from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import Trace
from clmembench.studies.hierarchy.benchmarks.cache_sharing import PATH_CODES
from clmembench.studies.hierarchy.plan import CPU_REASON, LOCAL_BYTES, sharing_plan
from clmembench.studies.hierarchy.sharing.cache_sharing import pairs_to_try, sharing_findings, sharing_notes
from clmembench.studies.hierarchy.sharing.sharing_records import fit_of
from tests.builders import device, record, walked
from tests.cases import each
from tests.shared_storage import KIB, SIZES, Unit, packed, units_record

GPU = device(features=frozenset({"ptx", "images"}), local_mem_bytes=48 * KIB)
HITS = {"global": 41, "readonly": 41, "image1d_buffer": 94, "constant": 41, "constant_array": 28}
# as on an H200: one storage for all loads but those of constants, whose nearest cache is small
TOGETHER = {"global": 0, "readonly": 0, "image1d_buffer": 0, "constant": 0, "constant_array": 1}
APART = {path: number for number, path in enumerate(HITS)}


def unit(storage_of=TOGETHER, nbytes=(16 * KIB, 4 * KIB), **changes):
    return Unit(storage_of, nbytes, changes.pop("hit_ticks", HITS), **changes)


def measured(simulated, local=(), leave_out=()):
    """The records of a whole experiment into a simulated unit, as its plan asks for them, without the map of units."""

    def answer(point):
        p = point.params
        if p["question"] == "units":
            return record("cache_sharing", p, status="skipped", reason="no units here")
        if p["question"] == "fit":
            return simulated.fit(p["owner"], p.get("local_bytes", 0))
        return simulated.paths(p["owner"], p["other"], p["array_bytes"], p["other_bytes"])

    found = []
    walked(sharing_plan(GPU), lambda point: found.append(answer(point)) or found[-1])
    left = [r for r in found if not any(r.params.get(k) == v for k, v in leave_out)]
    return [r for r in left if r.params.get("local_bytes", 0) in (0, *local)]


def verdicts(findings):
    return {name: f.value for name, f in findings.items() if "_with_" in name}


@each("lru", [False, True])
@each("seed", range(1, 4))
def test_one_storage_of_all_loads_but_those_of_constants(lru, seed):
    found = sharing_findings(measured(unit(lru=lru, seed=seed)))
    said = verdicts(found)
    for name in ("global_with_readonly", "global_with_image1d_buffer", "readonly_with_image1d_buffer"):
        assert said[name] == "shared", found[name]
        assert 0.5 <= found[name].low <= found[name].high <= 2
    for path in ("global", "readonly", "image1d_buffer"):
        assert said[f"{path}_with_constant_array"] == "separate", found[f"{path}_with_constant_array"]
        assert found[f"{path}_with_constant_array"].high <= 0.1
    for path in ("global", "readonly", "image1d_buffer"):
        pointer = found[f"{path}_with_constant"]
        assert pointer.value is None and "global loads" in pointer.reason


@pytest.mark.parametrize("seed", range(1, 4))
def test_storages_of_their_own_are_separate(seed):
    nbytes = (16 * KIB, 12 * KIB, 12 * KIB, 4 * KIB, 4 * KIB)
    hits = {**HITS, "constant": 28}
    found = sharing_findings(measured(unit(APART, nbytes, hit_ticks=hits, seed=seed)))
    said = verdicts(found)
    assert set(said.values()) == {"separate"} and len(said) == 9
    assert all(f.evidence and f.status == "ok" for name, f in found.items() if "_with_" in name)


def test_constants_in_the_storage_of_global_loads_that_take_another_path_are_shared():
    hits = {**HITS, "constant_array": 60}
    storage = {**TOGETHER, "constant_array": 0}
    found = sharing_findings(measured(unit(storage, (12 * KIB,), hit_ticks=hits)))
    assert found["global_with_constant_array"].value in ("shared", None)  # its control has few bytes
    assert found["image1d_buffer_with_constant_array"].value in ("shared", None)


@pytest.mark.parametrize("owner", ["global", "constant_array"])
def test_constants_that_are_loaded_as_global_memory_are_never_judged(owner):
    hits, storage = {**HITS, "constant_array": 42}, {**APART}
    nbytes = (16 * KIB, 12 * KIB, 12 * KIB, 4 * KIB, 4 * KIB)
    simulated = unit(storage, nbytes, hit_ticks=hits)
    records = measured(simulated)
    assert not any(
        {"constant_array"} & {r.params["owner"], r.params["other"]} for r in records if r.params["question"] == "paths"
    )
    records += [simulated.paths(owner, "image1d_buffer", 3 * KIB, 24 * KIB), units_record([[0], [1], [2]], warm=42)]
    found = sharing_findings(records)
    judged = [f for name, f in found.items() if "constant_array" in name or "units" in name]
    assert len(judged) == 4
    assert all(f.value is None and f.status == "undetermined" and "take as long as global loads" in f.reason for f in judged)


def test_a_program_of_two_paths_that_loads_constants_as_global_memory_is_not_judged():
    """The set that stays was seen through the constant cache, but with another path beside it the compiler chose otherwise."""
    records = measured(unit())
    other = unit(hit_ticks={**HITS, "constant_array": 41})
    void = [
        other.paths(*(r.params[k] for k in ("owner", "other", "array_bytes", "other_bytes")))
        if r.params["question"] == "paths" and "constant_array" in (r.params["owner"], r.params["other"])
        else r
        for r in records
    ]
    found = sharing_findings(void)
    for path in ("global", "readonly", "image1d_buffer"):
        finding = found[f"{path}_with_constant_array"]
        assert finding.value is None and "take as long as global loads" in finding.reason


def test_without_the_laps_of_constants_their_program_is_not_known():
    records = [r for r in measured(unit()) if not (r.params["question"] == "paths" and r.params["owner"] == "constant_array")]
    finding = sharing_findings(records)["global_with_constant_array"]
    assert finding.value is None and "no record has laps over constant arrays" in finding.reason


def test_a_control_that_evicts_nothing_gives_no_verdict():
    """Sets far smaller than the storage: neither path evicts, and that says nothing."""
    simulated = unit({"global": 0, "readonly": 0}, (64 * KIB,))
    fits = [unit({"global": 0, "readonly": 0}, (16 * KIB,)).fit(path) for path in ("global", "readonly")]
    pairs = [simulated.paths(*way, 4 * KIB, 8 * KIB) for way in (("global", "readonly"), ("readonly", "global"))]
    finding = sharing_findings([*fits, *pairs])["global_with_readonly"]
    assert finding.value is None and "evict too little to compare with" in finding.reason


def test_an_idle_wait_that_evicts_gives_no_verdict():
    for storage_of in (TOGETHER, APART):
        nbytes = (16 * KIB,) * 5
        found = sharing_findings(measured(unit(storage_of, nbytes, idle_loss=0.6)))
        finding = found["global_with_readonly"]
        assert finding.value is None and "idle wait" in finding.reason


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.4])
@pytest.mark.slow
def test_noise_makes_no_wrong_verdict(noise, seed):
    nbytes = (16 * KIB, 12 * KIB, 12 * KIB, 4 * KIB, 4 * KIB)
    hits = {**HITS, "constant": 28}
    together = verdicts(sharing_findings(measured(unit(noise=noise, seed=seed))))
    apart = verdicts(sharing_findings(measured(unit(APART, nbytes, hit_ticks=hits, noise=noise, seed=seed))))
    assert all(together[f"global_with_{path}"] in ("shared", None) for path in ("readonly", "image1d_buffer"))
    assert together.get("global_with_constant_array") in ("separate", None)
    assert set(apart.values()) <= {"separate", None}
    if noise < 0.05:
        assert together["global_with_readonly"] == "shared" and apart["global_with_readonly"] == "separate"


def test_one_direction_alone_can_prove_sharing_and_never_separation():
    for storage_of, value in ((TOGETHER, "shared"), (APART, None)):
        records = measured(unit(storage_of, (16 * KIB,) * 5), leave_out=[])
        one = [r for r in records if not (r.params["question"] == "paths" and r.params["owner"] == "readonly")]
        finding = sharing_findings(one)["global_with_readonly"]
        assert finding.value == value
        assert value or "no record has laps over read-only loads" in finding.reason


def test_paths_that_failed_say_what_their_record_says():
    records = measured(unit())
    broken = [
        replace(r, status="failed", reason="it broke", series=()) if r.params["question"] == "paths" else r for r in records
    ]
    found = sharing_findings(broken)
    assert "it broke" in found["global_with_readonly"].reason and found["global_with_readonly"].value is None


def test_too_few_samples_give_no_verdict():
    found = sharing_findings(measured(unit(samples=4)))
    assert "fewer than 6 samples" in found["global_with_readonly"].reason


def test_local_memory_that_takes_from_the_first_cache():
    found = sharing_findings(measured(unit(nbytes=(24 * KIB, 4 * KIB), local_cost=1.0, lru=True), local=LOCAL_BYTES))
    assert found["local_with_first_cache"].value == "shared"
    kept = {local: found[f"stays_at_local_{local // KIB}_kib_bytes"] for local in (0, 4 * KIB, 8 * KIB)}
    assert all(f.low <= 24 * KIB - local < f.high for local, f in kept.items())
    assert all("one-item work-groups" in f.method for f in kept.values())


def test_local_memory_that_takes_nothing_is_not_called_separate():
    found = sharing_findings(measured(unit(nbytes=(24 * KIB, 4 * KIB)), local=LOCAL_BYTES))
    assert found["local_with_first_cache"].value is None
    assert "divided in a fixed way" in found["local_with_first_cache"].reason


def test_a_set_that_never_leaves_bounds_the_cache_from_below():
    finding = sharing_findings([unit(nbytes=(64 * KIB, 4 * KIB)).fit("global")])["stays_at_local_0_kib_bytes"]
    assert (finding.status, finding.low, finding.high) == ("undetermined", SIZES[-1], None)


@each("nbytes", [5 * KIB, 9 * KIB, 16 * KIB, 23 * KIB, 30 * KIB])
@each("lru", [False, True])
def test_the_largest_set_that_stays_brackets_the_storage(nbytes, lru):
    fit = fit_of(unit(nbytes=(nbytes, KIB), lru=lru).fit("global"))
    assert fit.low_bytes <= nbytes
    assert fit.high_bytes > nbytes or (not lru and fit.high_bytes > nbytes / 2)  # lines of earlier sets leave at random, too


def test_runs_without_these_records_show_nothing():
    assert sharing_findings([record("chase", {"order": "random"}), record()]) == {} and sharing_notes([record()]) == ()


def test_a_cpu_says_why_nothing_is_measured():
    (point,) = walked(sharing_plan(device(kind="cpu")))
    assert point.reason == CPU_REASON
    skipped = record("cache_sharing", point.params, status="skipped", reason=point.reason)
    assert sharing_findings([skipped]) == {} and sharing_notes([skipped]) == (f"shared storage: {CPU_REASON}",)


def test_without_a_counter_one_point_is_tried():
    points = walked(
        sharing_plan(GPU), lambda point: record("cache_sharing", point.params, status="skipped", reason="no counter")
    )
    assert len(points) == 1


def test_pairs_have_sets_that_stay_and_others_that_overflow():
    records = measured(unit())
    fits = {r.params["owner"]: fit_of(r) for r in records if r.params["question"] == "fit"}
    pairs = pairs_to_try(records)
    assert pairs and all(p.array_bytes == fits[p.owner].low_bytes for p in pairs)
    assert all(p.other_bytes > max(fits[path].high_bytes for path in (p.owner, p.other)) for p in pairs)
    assert {"constant"} & {p.owner for p in pairs} == set()


@pytest.mark.parametrize("damage", ["short", "steps", "sizes", "none"])
def test_damaged_records_are_left_out(damage):
    rows = [[20, 20, *[2000] * (3 * len(SIZES))]] * 7
    steps, sizes = [0, 0, *[32] * (3 * len(SIZES))], list(SIZES)
    if damage == "short":
        rows, steps = [row[:-1] for row in rows], steps[:-1]
    elif damage == "steps":
        steps[-1] = 0
    elif damage == "sizes":
        sizes[3] = sizes[2]
    found = packed({"question": "fit", "owner": "global"}, rows, steps, sizes)
    found = replace(found, series=()) if damage == "none" else found
    assert fit_of(found) is None and sharing_findings([found]) == {}


def fits_of_constants():
    return [unit().fit(path) for path in ("global", "constant_array")]


@pytest.mark.parametrize("groups", [[[n] for n in range(6)], [[0, 1], [2, 3], [4, 5]], [[0, 2, 9], [1, 5, 7]]])
def test_groups_of_compute_units(groups):
    finding = sharing_findings([*fits_of_constants(), units_record(groups)])["units_of_a_constant_cache"]
    assert (finding.value, finding.status) == (len(groups[0]), "ok")
    assert all("+".join(map(str, group)) in finding.method for group in groups) or len(groups[0]) == 1


def test_groups_of_several_sizes_are_listed_and_a_map_with_gaps_has_no_number():
    uneven = sharing_findings([*fits_of_constants(), units_record([[0, 1], [2]])])["units_of_a_constant_cache"]
    assert (uneven.value, uneven.low, uneven.high, uneven.status) == ("2 + 1", 1, 2, "ok") and "0+1, 2" in uneven.method
    gaps = sharing_findings([*fits_of_constants(), units_record([[n] for n in range(8)], gaps=0.7)])[
        "units_of_a_constant_cache"
    ]
    assert gaps.value is None and "told apart" in gaps.reason


def test_a_few_pairs_that_neither_hit_nor_miss_keep_the_number_back():
    """Two of twelve units find each other's slices in a cache that is farther than the one asked about."""
    plain = units_record([[n] for n in range(12)])
    reads = plain.series[0].reads
    rows = reads["ticks"].unpack().reshape(-1, 13, 12).copy()
    rows[:, 1, 1] = rows[:, 2, 0] = 16 * 195
    ticks = Trace.pack("ticks", [row.ravel() for row in rows])
    between = replace(plain, series=(replace(plain.series[0], reads={**reads, "ticks": ticks}),))
    whole, open_one = (sharing_findings([*fits_of_constants(), r])["units_of_a_constant_cache"] for r in (plain, between))
    assert whole.value == 1 and open_one.value is None and "neither a hit nor a miss" in open_one.reason


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({"cold": 110}, "hits and misses"),  # whatever was loaded before is still there
        ({"warm": 29}, "nearest cache"),
        ({"warm": 42}, "take as long as global loads"),
        ({"cold": 42, "warm": 42}, "take as long as global loads"),
    ],
)
def test_a_map_whose_control_tells_nothing_has_no_groups(times, says):
    finding = sharing_findings([*fits_of_constants(), units_record([[n] for n in range(6)], **times)])[
        "units_of_a_constant_cache"
    ]
    assert finding.value is None and says in finding.reason


def test_a_map_without_the_latencies_of_the_paths_is_not_judged():
    finding = sharing_findings([units_record([[n] for n in range(6)])])["units_of_a_constant_cache"]
    assert finding.value is None and "is not known" in finding.reason


def test_every_finding_of_paths_is_of_two_that_exist():
    names = [name for name in sharing_findings(measured(unit())) if "_with_" in name and not name.startswith("local")]
    assert names and all(set(name.split("_with_")) <= set(PATH_CODES) for name in names)
    assert np.unique(names).size == len(names)
