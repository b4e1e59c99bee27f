"""infer.guidelines: what the paper's device confirms, what a CPU contradicts, and what cannot be said without evidence."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.model import Cause, Finding, Placement
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.report import render
from clmembench.report.table import one_table as only
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.studies.access.saturation import SaturatingValue
from clmembench.studies.guidelines import advice_table
from clmembench.studies.guidelines.all_guidelines import NEEDED_POINTS, advice_of_guidelines
from clmembench.studies.guidelines.local_memory import break_even_reuse
from tests.builders import walked
from tests.cases import each
from tests.simulated_memories import CPU, K20C, by_line, flat, serial, value, values

CPU_INFO = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=2)


def types(**bandwidths):
    """Copies by data type at these rates, within 1%."""
    found = []
    for name, rate in bandwidths.items():
        told = {"median": rate, "ci_low": rate * 0.99, "ci_high": rate * 1.01, "cycles": None, "unit": "GB/s"}
        found.append(value("datatypes", {"dtype": name}, 1.0, 0.0, **told))
    return found


def strides(latency, noise=0.01):
    """Latency of local memory at each stride by a rule."""
    return [
        value("banks", {"stride": stride, "word_bytes": 4, "items": 32}, latency(stride), noise, stride) for stride in range(65)
    ]


def banked(stride):
    """32 banks of 4 bytes, as on a K20c in its numbers of table VIII, near enough."""
    ways = 32 if stride == 0 else max(stride & -stride, 1)
    return 48 + 14 * (min(ways, 32) - 1) if stride else 48


# Fang et al. 2017, table 4, GB/s
K20C_TYPES = types(float=151.492, double=157.146, int=151.378, char=63.02, char4=148.599, device_copy=159.0)


def verdicts(found, info=FAKE_DEVICE_INFO):
    return {a.id: a.verdict for a in advice_of_guidelines(found, info)}


def test_the_papers_device_confirms_the_papers_guidelines():
    said = verdicts([*values(K20C, noise=0.005), *K20C_TYPES, *strides(banked)])
    expected = dict.fromkeys(("S1", "S2", "S3", "S5", "S6", "C2", "C3", "G1", "G2", "T1", "T2"), "holds")
    assert {name: said[name] for name in expected} == expected


def test_a_cpu_contradicts_it_or_asks_what_it_means():
    found = [
        *values(CPU, kind="cpu", noise=0.005),
        *types(float=30.0, double=30.0, int=30.0, char=30.0, char4=30.0, device_copy=25.0),
        *strides(lambda stride: 5.0),
    ]
    said = verdicts(found, CPU_INFO)
    for name in ("S4", "S5", "C1", "G2"):
        assert said[name] == "does not hold", name
    for name in ("S1", "S2", "S6", "C2", "C3", "C4", "G1", "T1", "X1", "X3", "X4"):
        assert said[name] == "not applicable", name
    assert said["T4"] == "does not hold"


def test_without_values_nothing_is_said_and_what_to_run_is():
    for a in advice_of_guidelines([], FAKE_DEVICE_INFO):
        assert a.verdict == "undetermined"
        assert a.effect is None
        assert a.evidence == ()
        assert "run" in a.reason


def test_each_says_what_it_is_worth_with_its_evidence():
    found = [*values(K20C, noise=0.005), *K20C_TYPES, *strides(banked)]
    known = {e for v in found for e in v.evidence}
    for a in advice_of_guidelines(found, FAKE_DEVICE_INFO):
        if a.verdict in ("holds", "does not hold"):
            assert a.evidence, a.id
            assert set(a.evidence) <= known
            assert a.advice and "?" not in a.advice, a
        if a.effect is not None:
            assert a.low <= a.effect <= a.high


def test_the_advice_is_in_the_devices_numbers():
    by = {
        a.id: a
        for a in advice_of_guidelines([*values(K20C, noise=0.002), *K20C_TYPES, *strides(banked, 0.002)], FAKE_DEVICE_INFO)
    }
    assert "pad rows of 32 words to 33" in by["S1"].advice
    assert by["S1"].effect == pytest.approx((48 + 14 * 31) / 48, rel=0.02)
    assert by["S5"].effect == pytest.approx(218.86 / 47.69, rel=0.02)
    assert by["S6"].effect == pytest.approx((218.86 / 47.69 + 1) / (218.86 / 47.69 - 1), rel=0.02)
    assert by["G2"].effect == pytest.approx(148.599 / 63.02, rel=0.01)
    assert "char reaches" not in by["G2"].advice
    assert by["C3"].effect == pytest.approx((110.13 + 46 * 31) / 110.13, rel=0.02)


def test_a_device_of_the_other_kind_gets_the_other_advice():
    # constant memory that is parallel, images that are faster when scattered
    rules = {**K20C, "constant_array": flat(30), "image": flat(40), "global": by_line(200, 9)}
    said = verdicts(values(rules, noise=0.005))
    assert said["C3"] == "does not hold"
    assert said["T4"] == "holds"
    assert verdicts(values({**K20C, "local": serial(30, 3)}, noise=0.005))["S2"] == "does not hold"


def test_noise_that_hides_an_effect_leaves_it_open():
    by = {a.id: a for a in advice_of_guidelines(values({**K20C, "local": flat(200.0)}, noise=0.12), FAKE_DEVICE_INFO)}
    assert by["S5"].verdict == "undetermined"
    assert "1.1" in by["S5"].reason


def test_where_char_is_slow_and_nothing_else_fast_the_guideline_does_not_hold():
    by = {
        a.id: a
        for a in advice_of_guidelines(
            types(float=80.0, int=80.0, char=40.0, char4=80.0, double=80.0, device_copy=160.0), FAKE_DEVICE_INFO
        )
    }
    assert by["G2"].verdict == "does not hold"
    assert "below the device's own copy" in by["G2"].reason


def test_reads_from_which_a_copy_pays():
    twice = break_even_reuse(value("x", {}, 40, 0.0), value("x", {}, 20, 0.0))
    assert twice.value == pytest.approx(3)  # 40 + 20 + 3 * 20 = 3 * 40
    assert break_even_reuse(value("x", {}, 20, 0.0), value("x", {}, 20, 0.0)) is None
    assert break_even_reuse(None, value("x", {}, 20, 0.0)) is None


def test_every_form_has_every_guideline():
    found = advice_of_guidelines([*values(K20C, noise=0.005), *K20C_TYPES], FAKE_DEVICE_INFO)
    told = json.loads(render.json_text(found))
    assert [entry["id"] for entry in told] == [a.id for a in found]
    assert set(told[0]) == {"id", "guideline", "verdict", "effect", "low", "high", "unit", "evidence", "advice", "reason"}
    for form in (advice_table.guideline_text(found), render.markdown(only(advice_table.guideline_table(found)))):
        assert all(a.id in form for a in found)
    assert max(map(len, advice_table.guideline_text(found).split("\n"))) <= advice_table.WIDTH
    assert max(map(len, advice_table.guideline_text(found, 60).split("\n"))) <= 60


def arrays(pattern, indexing, kept_words, spilled_words, cost, spilled_cost):
    """Private arrays of which those up to a size lie in registers, by the compiler's word and by the cost of a step."""
    found = []
    for words in (*kept_words, *spilled_words):
        stack = 0 if words in kept_words else 4 * words
        facts = {"private_bytes": stack, "stack_bytes": stack, "spill_store_bytes": stack, "spill_load_bytes": stack}
        params = {"pattern": pattern, "indexing": indexing, "words": words}
        told = value("private_array", params, cost if stack == 0 else spilled_cost, 0.01, words, facts=facts)
        found.append(replace(told, key=("private_array", *sorted(params.items()))))
    return found


# Fang et al. 2017, table 3, sm_35
K20C_ARRAYS = [
    *arrays("add", "static", (16, 32, 73), (74, 128, 256), 9.0, 203.0),
    *arrays("matmul", "static", (2, 6), (7, 10, 14), 9.0, 203.0),
    *arrays("sort", "static", (), (2, 4, 8, 16), 9.0, 203.0),
]


def test_the_papers_private_arrays():
    by = {a.id: a for a in advice_of_guidelines(K20C_ARRAYS, FAKE_DEVICE_INFO)}
    assert by["L1"].verdict == "holds"
    assert "73 words" in by["L1"].advice
    assert by["L1"].effect == pytest.approx(203 / 9, rel=0.01)
    assert by["L2"].verdict == "holds"  # 3 arrays of 6 words in place of 73
    assert by["L2"].effect == pytest.approx(73 / 18)
    assert by["L3"].verdict == "holds"
    assert by["L4"].verdict == "does not hold"  # it is that device


def test_a_newer_compiler_contradicts_them():
    found = [
        *arrays("add", "static", (64, 248), (249, 512), 4.0, 35.0),
        *arrays("add", "dynamic", (), (2, 64, 248, 512), 4.0, 35.0),
        *arrays("matmul", "static", (40, 82), (83, 128), 4.0, 35.0),
        *arrays("sort", "static", (64, 248), (249, 512), 4.0, 35.0),
        *arrays("sort", "dynamic", (), (2, 64, 248, 512), 4.0, 90.0),
    ]
    by = {a.id: a for a in advice_of_guidelines(found, FAKE_DEVICE_INFO)}
    assert [by[name].verdict for name in ("L1", "L2", "L3", "L4")] == ["holds", "does not hold", "does not hold", "holds"]
    assert "only at run time none is kept" in by["L1"].advice
    assert by["L3"].effect == pytest.approx(90 / 4, rel=0.01)
    assert by["L4"].effect == pytest.approx(248 / 73)


def test_a_compiler_that_says_nothing_leaves_private_arrays_open():
    silent = [replace(v, facts={}) for v in arrays("add", "static", (16, 64), (), 5.0, 5.0)]
    assert {a.verdict for a in advice_of_guidelines(silent, FAKE_DEVICE_INFO) if a.id.startswith("L")} == {"undetermined"}


def finding(name, low, middle, high, unit=""):
    return Finding(name, middle, low, high, unit, "ok", "test", (f"{name}:0:0",))


def test_what_saturates_memory():
    found = {
        "saturating_work_group": finding("saturating_work_group", 256, 256, 256),
        "saturating_element_bytes": finding("saturating_element_bytes", 4, 4, 4),
        "saturating_ilp": finding("saturating_ilp", 1, 2, 4),
        "saturating_bytes": finding("saturating_bytes", 1 << 20, 1 << 21, 1 << 21, "B"),
        "needed_bytes": finding("needed_bytes", 9e5, 1e6, 1.1e6, "B"),
        "found_over_needed": finding("found_over_needed", 1.1, 1.5, 1.9),
        "best_gb_s": finding("best_gb_s", 990, 1000, 1010, "GB/s"),
    }
    launch = value("launch_dispatch", {"groups": 1}, 5000.0, 0.01)
    by = {a.id: a for a in advice_of_guidelines([launch, *types(int=950.0, float4=1000.0)], FAKE_DEVICE_INFO, found)}
    assert by["X1"].verdict == "holds" and "256" in by["X1"].advice
    assert by["X2"].verdict == "does not hold"
    assert by["X3"].verdict == "undetermined"
    assert by["X4"].verdict == "holds"
    assert by["X7"].effect == pytest.approx(5.0)
    assert "50 us" in by["X7"].advice and "50 MB" in by["X7"].advice


@pytest.mark.parametrize(("low", "high", "wanted"), [(2.5, 4, "does not hold"), (1.5, 3, "undetermined"), (0.6, 1.9, "holds")])
def test_littles_law_beside_what_was_seen(low, high, wanted):
    found = {
        "found_over_needed": finding("found_over_needed", low, (low + high) / 2, high),
        "needed_bytes": finding("needed_bytes", 1e6, 1e6, 1e6, "B"),
        "saturating_bytes": finding("saturating_bytes", 1e6, 1e6, 1e6, "B"),
    }
    assert {a.id: a for a in advice_of_guidelines([], FAKE_DEVICE_INFO, found)}["X4"].verdict == wanted


def test_atomics_and_bandwidth_that_pay_privately():
    def addition(memory, ns):
        params = {"op": "add", "dtype": "int", "memory": memory, "address": "same", "result": "used", "items": 1024}
        return value("atomic", params, ns, 0.01)

    def read(benchmark, rate, **params):
        ends = {"median": rate, "ci_low": rate * 0.99, "ci_high": rate * 1.01, "cycles": None, "unit": "GB/s"}
        return value(benchmark, params, 1.0, 0.0, **ends)

    found = [
        addition("global", 700.0),
        addition("local", 70.0),
        read("local_read", 30.0, path="portable"),
        read("cache_read", 10.0, set="own", set_bytes=1 << 14),
        read("cache_read", 1.0, set="shared", set_bytes=1 << 30),
    ]
    by = {a.id: a for a in advice_of_guidelines(found, FAKE_DEVICE_INFO)}
    assert by["X6"].verdict == "holds"
    assert by["X6"].effect == pytest.approx(10)
    assert by["X5"].verdict == "holds"
    assert by["X5"].effect == pytest.approx(3)


def test_work_items_that_may_take_turns_are_not_advised_of_their_number():
    # no register points: 256 work-items of a loop take 8 times as long as 32, and so does a device that fills up
    found = [v for v in values(CPU, kind="cpu", noise=0.005) if v.params.get("memory") != "register"]
    said = verdicts(found, CPU_INFO)
    assert {said[name] for name in ("C4", "G4", "T3")} == {"undetermined"}


def test_a_device_without_images_is_not_told_to_run_more():
    images = [
        replace(v, status="skipped", reason="device has no images", median=None) if v.params.get("memory") == "image" else v
        for v in values(K20C, noise=0.005)
    ]
    by = {a.id: a for a in advice_of_guidelines(images, FAKE_DEVICE_INFO)}
    assert {by[name].verdict for name in ("T1", "T2", "T3", "T4")} == {"not applicable"}
    assert "no images" in by["T1"].advice


def test_a_grid_that_falls_short_of_the_best_copy_says_nothing_of_memory():
    found = {
        "saturating_work_group": finding("saturating_work_group", 32, 32, 32),
        "saturating_ilp": finding("saturating_ilp", 2, 2, 2),
        "best_gb_s": finding("best_gb_s", 870, 880, 890, "GB/s"),
    }
    by = {a.id: a for a in advice_of_guidelines(types(float4=1000.0, int=990.0), FAKE_DEVICE_INFO, found)}
    assert by["X1"].verdict == by["X3"].verdict == "undetermined"
    assert "88%" in by["X1"].reason


def test_the_smallest_shape_that_was_tried_needs_nothing():
    plain = finding("saturating_work_group", 32, 32, 32)
    own = {field.name: getattr(plain, field.name) for field in fields(plain)}
    tried = SaturatingValue(**own, shape="32 x 8 x 4224", is_smallest_tried=True)
    by = {a.id: a for a in advice_of_guidelines([], FAKE_DEVICE_INFO, {"saturating_work_group": tried})}
    assert by["X1"].verdict == "does not hold"
    assert "32 x 8 x 4224" in by["X1"].advice


def test_global_memory_by_address_is_preferred_to_one_by_index():
    lap = value("pchase", {"array_bytes": 4096, "spacing_bytes": "line"}, 60.0, 0.005)
    by = {a.id: a for a in advice_of_guidelines([*values(K20C, noise=0.005), lap], FAKE_DEVICE_INFO)}
    assert by["S5"].effect == pytest.approx(60 / 47.69, rel=0.02)


def test_broadcasts_that_global_memory_serves_as_fast_are_not_recommended():
    by = {
        a.id: a
        for a in advice_of_guidelines(
            values({**K20C, "constant_array": flat(60), "global": flat(40)}, noise=0.005), FAKE_DEVICE_INFO
        )
    }
    assert by["C2"].verdict == "holds"
    assert by["C2"].advice.startswith("use an array of the program in constant memory or global memory")


def test_strides_that_cost_without_banks_are_told_and_called_no_banks():
    found = strides(lambda stride: 6.1 if stride and stride % 16 == 0 else 5.0, noise=0.005)
    by = {a.id: a for a in advice_of_guidelines(found, CPU_INFO)}
    assert by["S1"].verdict == "not applicable"
    assert "no banks" in by["S1"].advice and "padd" not in by["S1"].reason
    assert by["S1"].effect == pytest.approx(1.22, rel=0.02)


def test_alignment_that_costs_as_much_as_matters_contradicts_the_paper():
    plain = values({**K20C, "global": by_line(200, 9)}, noise=0.005)
    dear = [
        replace(v, median=240.0, ci_low=239.0, ci_high=241.0, cycles=240.0, cycles_low=239.0, cycles_high=241.0)
        if v.params.get("memory") == "global" and v.params.get("pattern") == "shifted"
        else v
        for v in plain
    ]
    by = {a.id: a for a in advice_of_guidelines(dear, FAKE_DEVICE_INFO)}
    assert by["G3"].verdict == "does not hold"
    assert "align them as well" in by["G3"].advice


def test_a_smallest_array_that_is_not_kept_says_nothing_of_smaller_ones():
    by = {a.id: a for a in advice_of_guidelines(arrays("add", "static", (), (250, 256, 512), 4.0, 35.0), FAKE_DEVICE_INFO)}
    assert by["L1"].verdict == by["L4"].verdict == "undetermined"
    assert "smaller ones may be" in by["L1"].reason


def test_wide_types_without_the_devices_own_copy_are_left_open():
    assert verdicts(types(char=40.0, char4=80.0, int=80.0))["G2"] == "undetermined"


ALL_GUIDELINES = [a.id for a in advice_of_guidelines([], FAKE_DEVICE_INFO)]
MEASURED_BY_ADVISE = (
    "subgroup", "step_latency", "banks", "datatypes", "copy_grid", "private_array", "local_read", "cache_read", "atomic",
    "launch_dispatch", "pchase",
)  # fmt: skip


def skipped_values(cause, reason, where=lambda v: True):
    """Every point of what advise measures, without a value for this cause."""
    found = []
    for name in MEASURED_BY_ADVISE:
        for point in walked(sweep.explore(discovered()[name], FAKE_DEVICE_INFO, Selection()))[:4000]:
            blank = value(name, dict(point.params), 1.0, 0.0, status="skipped", reason=reason, cause=cause)
            blank = replace(blank, median=None, ci_low=None, ci_high=None, cycles=None, cycles_low=None, cycles_high=None)
            found += [blank] if point.place == Placement() and where(blank) else []
    return found


def test_there_are_30_guidelines_and_each_has_points_that_it_needs():
    assert len(ALL_GUIDELINES) == len(set(ALL_GUIDELINES)) == 30
    assert all(name in NEEDED_POINTS or name[0] in (*NEEDED_POINTS, "C") for name in ALL_GUIDELINES)


@each("name", ALL_GUIDELINES)
@each(
    ("cause", "verdict"),
    [
        (Cause.BUDGET, "undetermined"), (Cause.BENCHMARK_BUDGET, "undetermined"), (Cause.QUARANTINE, "undetermined"),
        (Cause.MISSING_FEATURE, "not applicable"), (Cause.UNSUPPORTED, "not applicable"),
    ],
)  # fmt: skip
def test_what_was_skipped_is_not_applicable_only_where_the_device_cannot(name, cause, verdict):
    said = by_cause(cause)[name]
    assert said.verdict == verdict
    assert (said.effect, said.low, said.high, said.evidence) == (None, None, None, ())
    assert "run" in said.reason if verdict == "undetermined" else "the reason" in said.advice


@cache
def by_cause(cause):
    return {a.id: a for a in advice_of_guidelines(skipped_values(cause, "the reason"), FAKE_DEVICE_INFO)}


def test_images_that_the_budget_left_out_are_not_missing_from_the_device():
    left = skipped_values(Cause.BUDGET, "the budget was spent", lambda v: v.params.get("memory") == "image")
    found = [v for v in values(K20C, noise=0.005) if v.params.get("memory") != "image"]
    said = verdicts([*found, *left])
    assert {said[name] for name in ("T1", "T2", "T3", "T4")} == {"undetermined"}


def test_the_order_of_accesses_is_not_said_to_matter_little_from_a_table_in_the_nearest_cache():
    by = {a.id: a for a in advice_of_guidelines(values(CPU, kind="cpu", noise=0.005), CPU_INFO)}
    assert by["G3"].verdict == "undetermined"
    assert "nearest cache" in by["G3"].reason and "hardly" not in by["G3"].advice
    one_core = advice_of_guidelines(values(CPU, kind="cpu", noise=0.005), replace(CPU_INFO, compute_units=1))
    assert {a.id: a.verdict for a in one_core}["G3"] == "undetermined"


def test_past_the_first_cache_it_may_be_said():
    plain = {**K20C, "global": flat(32.0), "global_cg": flat(210.0)}
    assert verdicts(values(plain, noise=0.005))["G3"] == "does not hold"


def test_more_groups_than_cores_take_turns_and_say_nothing_of_constant_memory():
    def groups_in_turns(v):
        turns = -(-int(v.params.get("groups", 1)) // 2)
        return replace(
            v, **{n: getattr(v, n) * turns for n in ("median", "ci_low", "ci_high", "cycles", "cycles_low", "cycles_high")}
        )

    found = [groups_in_turns(replace(v, params={**v.params, "groups": 3}) if v.params.get("groups") == 2 else v)
             for v in values(CPU, kind="cpu", noise=0.005)]  # fmt: skip
    assert any(v.params.get("groups") == 3 for v in found)
    assert verdicts(found, CPU_INFO)["C5"] == "undetermined"


@pytest.mark.parametrize("status", ["suspect", "failed", "skipped"])
def test_no_verdict_rests_on_points_without_a_good_value(status):
    """Whatever part of the points is lost: what is still said is what all of them say, or there is less of it."""
    whole = [*values(K20C, noise=0.005), *K20C_TYPES, *strides(banked)]
    whole = [replace(v, evidence=(f"point {n}",)) for n, v in enumerate(whole)]
    before, random = verdicts(whole), np.random.default_rng(3)
    cause = {"suspect": Cause.GATE, "failed": Cause.PROCESS_DIED, "skipped": Cause.BUDGET}[status]
    blank = dict.fromkeys(("median", "ci_low", "ci_high", "cycles", "cycles_low", "cycles_high")) if status != "suspect" else {}
    for share in (0.05, 0.3, 0.7, 0.95):
        for _ in range(6):
            gone = random.random(len(whole)) < share
            left = [
                replace(v, status=status, reason="lost", cause=cause, **blank) if lost else v
                for v, lost in zip(whole, gone, strict=True)
            ]
            bad = {e for v, lost in zip(whole, gone, strict=True) if lost for e in v.evidence}
            for a in advice_of_guidelines(left, FAKE_DEVICE_INFO):
                assert a.verdict in (before[a.id], "undetermined"), (a.id, a.verdict, before[a.id], share)
                assert not bad & set(a.evidence), a.id


@pytest.mark.parametrize(("low", "high", "wanted"), [(0.3, 0.4, "does not hold"), (0.4, 0.6, "undetermined"), (4, 5, "holds")])
def test_a_launch_whose_interval_holds_the_threshold_is_left_open(low, high, wanted):
    middle = {"median": 500 * (low + high), "ci_low": 1e3 * low, "ci_high": 1e3 * high}
    one = value("launch_dispatch", {"groups": 1}, 1.0, 0.0, **middle)
    assert verdicts([one])["X7"] == wanted


def without(found, benchmark, **params):
    """The values without those of a benchmark with these parameters, as where a run was interrupted."""
    return [v for v in found if v.benchmark != benchmark or any(v.params.get(k) != wanted for k, wanted in params.items())]


def test_work_items_of_a_cpu_that_may_take_turns_say_nothing_of_what_saturates_memory():
    shapes = {"saturating_work_group": finding("saturating_work_group", 32, 32, 32)}
    elements = {"saturating_element_bytes": finding("saturating_element_bytes", 16, 16, 16, "B")}
    by = {a.id: a.verdict for a in advice_of_guidelines([], CPU_INFO, shapes | elements)}
    assert {by[name] for name in ("X1", "X2", "X3", "X4")} == {"undetermined"}


def test_no_effect_is_told_from_small_strides_groups_or_sizes_alone():
    whole = [*values(K20C, noise=0.005), *K20C_TYPES, *strides(banked)]
    assert verdicts([v for v in whole if v.params.get("stride", 3) in (3, 4)])["S1"] == "undetermined"
    assert verdicts(without(whole, "atomic"))["X6"] == "undetermined"
    loaded = [v for v in whole if v.params.get("pattern") not in ("shifted", "permuted") or v.params["groups"] == 1]
    assert verdicts(whole)["G3"] != "undetermined" and verdicts(loaded)["G3"] == "undetermined"
