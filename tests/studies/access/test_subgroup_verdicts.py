"""infer.effect and infer.subgroup: verdicts on simulated memories whose rules are known, and what refuses to be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench.studies.access import subgroup
from clmembench.studies.access.effect import BoundedRatio, bounded_ratio, impact_verdict, support_verdict
from tests.cases import each
from tests.simulated_memories import CPU, K20C, by_line, flat, serial, value, values


def verdicts(found):
    return {m.name: {name: f.value for name, f in m.verdicts.items()} for m in subgroup.memory_verdicts(found)}


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.02])
def test_the_papers_device_gives_the_papers_table(noise):
    said = verdicts(values(K20C, noise=noise))
    assert {name: said[name]["broadcast"] for name in ("local", "constant_array", "global", "image")} == dict.fromkeys(
        ("local", "constant_array", "global", "image"), "supported"
    )
    assert {name: said[name]["parallel"] for name in ("local", "constant_array", "global", "image")} == {
        "local": "supported",
        "constant_array": "not supported",
        "global": "supported",
        "image": "supported",
    }
    assert said["local"]["aligned"] == said["local"]["consecutive"] == "none"
    assert said["global"]["aligned"] == "none"
    assert said["global"]["consecutive"] == "large"
    assert said["image"]["aligned"] == "none"
    assert said["image"]["consecutive"] in ("small", "at most small")  # 12 cycles of 115
    assert said["image"]["consecutive_loaded"] == "large"  # figure 11(b), of which table 2 says nothing
    assert "broadcast" not in said["register"] and "broadcast" not in said["private"]


def test_work_items_that_take_turns_say_nothing_of_a_memory():
    said = verdicts(values(CPU, kind="cpu", noise=0.01))
    for memory in ("local", "constant", "global", "image"):
        assert said[memory]["parallel"] == said[memory]["broadcast"] == "not applicable"
        assert said[memory]["consecutive"] == said[memory]["aligned"] == "none"


def test_a_bank_that_serves_a_word_after_the_other_is_not_taken_for_a_parallel_one():
    # local memory of one bank: what the paper's rules call no parallel access
    said = verdicts(values({**K20C, "local": serial(30, 2)}, noise=0.01))
    assert said["local"]["parallel"] == "not supported"
    assert said["local"]["broadcast"] == "supported"


@pytest.mark.parametrize(("each", "wanted"), [(0.02, "supported"), (0.18, "partial"), (0.4, "not supported")])
def test_how_much_slower_many_are_decides(each, wanted):
    # 31 more words of `each` of 30 cycles
    assert verdicts(values({**K20C, "local": serial(30, each)}, noise=0.005))["local"]["parallel"] == wanted


def test_noise_as_wide_as_the_effect_is_undetermined():
    found = subgroup.memory_verdicts(values({**K20C, "local": serial(30, 0.1)}, noise=0.15))
    local = next(m for m in found if m.name == "local")
    assert local.verdicts["parallel"].status == "undetermined"
    assert local.verdicts["parallel"].value is None
    assert "times" in local.verdicts["parallel"].reason


def test_without_the_register_control_a_slow_answer_is_not_laid_at_the_memorys_door():
    rules = {name: rule for name, rule in K20C.items() if name != "register"}
    found = {m.name: m for m in subgroup.memory_verdicts(values(rules, noise=0.001))}
    assert found["constant_array"].verdicts["parallel"].status == "undetermined"
    assert "one after another" in found["constant_array"].verdicts["parallel"].reason
    assert found["local"].verdicts["parallel"].value == "supported"


def test_several_groups_are_told_apart_from_one():
    crowded = values({**K20C, "global": lambda load: 200.0 * (3 if load.groups > 1 and load.lines > 1 else 1)}, noise=0.01)
    found = next(m for m in subgroup.memory_verdicts(crowded) if m.name == "global")
    assert found.verdicts["consecutive"].value == "none"
    assert found.verdicts["consecutive_loaded"].value == "large"
    assert found.verdicts["consecutive_loaded"].low == pytest.approx(3, rel=0.03)


def test_exponent_and_cycles_of_each_further_word():
    found = values({**K20C, "constant_array": serial(28, 11), "local": flat(23)}, noise=0.001)
    each = subgroup.cycles_per_further_word(found, "constant_array")
    assert each.low < 11 < each.high
    assert subgroup.latency_exponent(found, "local").value == pytest.approx(0, abs=0.01)
    steep = subgroup.latency_exponent(values({**K20C, "constant_array": serial(1, 1)}, noise=0.001), "constant_array")
    assert steep.low < 1 < steep.high


def test_a_point_without_value_is_undetermined_and_not_left_out():
    found = [
        replace(v, status="failed", median=None) if v.params == {**subgroup.SINGLE_LOAD_PARAMETERS, "memory": "image"} else v
        for v in values(K20C, noise=0.001)
    ]
    image = next(m for m in subgroup.memory_verdicts(found) if m.name == "image")
    assert image.verdicts["parallel"].status == "undetermined"


def test_no_points_give_no_memories():
    assert subgroup.memory_verdicts([]) == []
    assert subgroup.latency_exponent([], "local") is None
    assert subgroup.cycles_per_further_word([], "local") is None


def test_a_ratio_holds_both_clocks():
    # the second point's clock was read 10% too high: its cycles say 1.1 times, its time says the same
    a, b = value("x", {}, 100, 0.01), value("x", {}, 100, 0.01, cycles=110.0, cycles_low=109.0, cycles_high=111.0)
    found = bounded_ratio(b, a)
    assert found.low < 1.0 < 1.1 < found.high
    assert found.evidence == ("x:0:0",)


@pytest.mark.parametrize(
    "bad", [{"median": None}, {"ci_low": None}, {"status": "suspect"}, {"median": 0.0}, {"ci_high": float("inf")}]
)
def test_what_has_no_value_has_no_ratio(bad):
    good = value("x", {}, 100, 0.01)
    assert bounded_ratio(good, replace(good, **bad)) is None
    assert bounded_ratio(replace(good, **bad), good) is None
    assert bounded_ratio(good, None) is None


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.9, 1.1, "supported"), (1.25, 9, "not supported"), (1.11, 1.24, "partial"), (1.05, 1.3, "undetermined")],
)
def test_support(low, high, wanted):
    assert support_verdict(BoundedRatio((low + high) / 2, low, high)) == wanted


@each(
    ("low", "high", "wanted"),
    [
        (0.96, 1.05, "none"),
        (0.5, 1.04, "none"),
        (0.5, 0.94, "gain"),
        (1.26, 2, "large"),
        (1.06, 1.25, "small"),
        (0.99, 1.2, "at most small"),
        (1.1, 1.3, "undetermined"),
        (0.9, 2, "undetermined"),
    ],
)
def test_impact(low, high, wanted):
    assert impact_verdict(BoundedRatio((low + high) / 2, low, high)) == wanted


def test_by_line_is_what_it_says():
    # the simulation itself: lines one after the other, however many work-items ask for each
    rule = by_line(200, 10)
    from tests.simulated_memories import Load

    assert rule(Load(32, 1, 1, 1)) == 200
    assert rule(Load(32, 32, 1, 1)) == 510
    assert rule(Load(32, 32, 8, 1)) == 2560


@pytest.mark.parametrize("wide", [8, 16, 64])
def test_sub_groups_of_other_widths_are_told_as_well(wide):
    found = values({**K20C, "constant_array": serial(28, 11)}, noise=0.005, wide=wide)
    assert subgroup.sub_group_width_of(found) == wide
    said = verdicts(found)
    assert said["local"]["parallel"] == said["local"]["broadcast"] == "supported"
    assert said["constant_array"]["parallel"] == "not supported"
    each = subgroup.cycles_per_further_word(found, "constant_array")
    assert each.low < 11 < each.high
