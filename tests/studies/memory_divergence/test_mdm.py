"""The memory divergence model: vectors, limits, monotonicity, units, intervals, and files of inputs that are refused."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench.resources import mdm_hardware_paths
from clmembench.studies.memory_divergence import plan as mdm_plan
from clmembench.studies.memory_divergence.mdm_inputs import (
    HardwareQuantities,
    InputError,
    Profile,
    ProfileInterval,
    Range,
    load_hardware,
    load_profile,
    published_errors,
)
from clmembench.studies.memory_divergence.model import advice
from clmembench.studies.memory_divergence.model.equations import (
    MODELS,
    Hardware,
    Interval,
    ModelOptions,
    contention_free_cycles,
    interval_terms,
)
from clmembench.studies.memory_divergence.model.measured_memory import miss_ratio
from clmembench.studies.memory_divergence.model.predict import ipc_of, predictions
from tests.cases import each

TABLE_1 = load_hardware("wang2019-table1")
CHIP = Hardware(28.0, 1.4, 128.0, 1050.0, 480.0, 120.0, 220.0, 8.0)
# I, C, R, Wr, m, W: M, S_noc, S_dram, S_mem, S_mshr, cycles, IPC of an SM, computed apart from this code
VECTORS = [
    ((100, 1000, 0, 0, 0, 64), (0, 0, 0, 120, 0, 1000, 6.4)),
    ((50, 800, 1, 0, 0.5, 64), (64, 152.9173, 167.2533, 550.1707, 0, 1120.1707, 2.856708)),
    ((50, 800, 2, 0, 0.5, 64), (128, 305.8347, 334.5067, 870.3413, 0, 1440.3413, 2.221696)),
    ((50, 800, 3, 0, 0.5, 43), (128, 611.6693, 669.0133, 1510.6827, 1510.6827, 3591.3653, 0.598658)),
    ((30, 300, 0, 1, 1, 64), (64, 152.9173, 334.5067, 827.4240, 0, 787.4240, 2.438331)),
    ((50, 700, 1, 1, 0.3, 32), (64, 152.9173, 100.3520, 439.2693, 0, 953.2693, 1.678434)),
]
PAPERS = [model for model in MODELS if model not in ("bound", "MDM-overlap")]

cycle_counts = st.floats(1, 1e5)
miss_counts = st.integers(0, 64)
ratios = st.floats(0, 1)
warp_counts = st.integers(1, 64)


def profile_of(i, c, r, wr, m, w):
    return Profile(w, (ProfileInterval(i, cycles=c, read_misses=r, write_misses=wr, llc_miss_ratio=m),))


def cycles_of(model, i, c, r, wr, m, w, chip=CHIP, options=None):
    return float(interval_terms(model, chip, Interval(i, c, float(r), float(wr), m, float(w)), options).cycles)


@each(("given_inputs", "expected"), VECTORS)
def test_mdm_gives_the_vectors_of_table_1(given_inputs, expected):
    (found,) = predictions(TABLE_1, profile_of(*given_inputs), models=("MDM",))
    (t,) = found.intervals
    terms = [t.concurrent_misses, t.noc_queue_cycles, t.dram_queue_cycles, t.memory_cycles, t.mshr_cycles]
    assert terms == pytest.approx(expected[:5], abs=5e-5)
    assert found.cycles == pytest.approx(expected[5], abs=5e-5) and found.ipc_sm == pytest.approx(expected[6], abs=5e-7)
    assert found.ipc == pytest.approx(28 * found.ipc_sm)
    assert found.cycles_low == found.cycles == found.cycles_high


def test_baselines_differ_from_mdm_in_what_the_paper_says_and_nowhere_else():
    """By hand, for 129 reads: one batch of 128 and one of 1; half of the queues is 305.83 and 334.51 cycles."""
    found = {one.model: one for one in predictions(TABLE_1, profile_of(50, 800, 3, 0, 0.5, 43))}
    mean = (128 + 2) / 129 - 1
    half, full = (305.834667, 334.506667), (611.669333, 669.013333)
    assert found["GPUMech"].stack == pytest.approx(
        {"contention_free": 800, "noc": 0, "dram": half[1], "mshr": 230 * mean}, rel=1e-6
    )
    assert found["GPUMech+"].stack["mshr"] == pytest.approx((230 + sum(half)) * mean, rel=1e-6)
    assert found["MDM-Queue"].stack["mshr"] == pytest.approx((230 + sum(full)) * mean, rel=1e-6)
    assert found["MDM-MSHR"].stack["mshr"] == pytest.approx(230 + sum(half), rel=1e-6)
    for model, queues in (("GPUMech+", half), ("MDM-MSHR", half), ("MDM-Queue", full)):
        assert (found[model].stack["noc"], found[model].stack["dram"]) == pytest.approx(queues, rel=1e-6)
    # of the bound each resource by hand: 43 sub-groups of 3 misses
    assert found["bound"].stack == pytest.approx(
        {"issue": 43 * 50 / 8, "latency": 800, "mshr": 129 / 128 * 230, "noc": 28 * 129 * 1.4 * 128 / 1050,
         "dram": 28 * 129 * 1.4 * 64 / 480}
    )  # fmt: skip


def test_the_mean_over_batches_is_that_of_a_sum():
    for reads, mshrs in ((1, 128), (128, 128), (129, 128), (1000, 96), (7, 3)):
        wanted = np.mean([math.ceil(j / mshrs) for j in range(1, reads + 1)]) - 1
        terms = interval_terms("GPUMech", replace(CHIP, mshrs=float(mshrs)), Interval(1, 1, float(reads), 0.0, 0.0, 1.0))
        assert float(terms.mshr_cycles) == pytest.approx(120 * wanted)


def test_options_read_the_equations_as_the_scripts_do():
    one = (50, 800, 3, 0, 0.5, 43)

    def terms(model="MDM", **changed):
        return predictions(TABLE_1, profile_of(*one), ModelOptions(**changed), (model,))[0]

    assert terms().intervals[0].latency_cycles == pytest.approx(120 + 110)
    assert terms(latency="mixed").intervals[0].latency_cycles == pytest.approx(170)
    assert terms(request="sector").stack["noc"] == pytest.approx(terms().stack["noc"] / 4)
    # M/D/1: 28 x 128 requests of 0.37 cycles are more than DRAM serves in 800, so half of all wait; with few it is a queue
    many = profile_of(50, 800, 3, 0, 1, 43)
    both = [predictions(TABLE_1, many, ModelOptions(gpumech_dram=queue), ("GPUMech",))[0].stack for queue in ("half", "md1")]
    assert both[0] == both[1] and both[0]["dram"] == pytest.approx(28 * 128 * 1.4 * 128 / 480 / 2)
    few = predictions(TABLE_1, profile_of(50, 800, 1, 0, 0.5, 4), ModelOptions(gpumech_dram="md1"), ("GPUMech",))[0]
    load = 28 * 4 * 0.5 * (1.4 * 128 / 480) / 800
    assert few.stack["dram"] == pytest.approx(load * (1.4 * 128 / 480) / (2 * (1 - load)))
    assert terms("bound", scheduling="gto").stack["issue"] == 43 * 50  # one instruction a cycle, as the scripts run it
    assert terms("bound", scheduling="gto", issue=2.0).stack["issue"] == 43 * 25


def test_contention_free_cycles_by_hand():
    """Two intervals of 10 and 30 instructions, stalls of 100 and 0, 5 sub-groups, issue 1: p is 40 / 140."""
    instructions, stalls, ones = np.array([10.0, 30.0]), np.array([100.0, 0.0]), np.ones(2)
    p = 40 / 140
    lrr = contention_free_cycles(instructions, stalls, ones, 5.0, 1.0)
    assert lrr == pytest.approx([10 + p * 4 * 9 + 100, 30 + p * (4 * 29 + 4)])
    gto = contention_free_cycles(instructions, stalls, ones, 5.0, 1.0, "gto")
    assert gto == pytest.approx([10 + 0 + 100, 30 + 4 * 20])
    # as often as an interval is repeated, it counts
    again = contention_free_cycles(np.array([10.0, 30.0]), stalls, np.array([3.0, 3.0]), 5.0, 1.0)
    assert again == pytest.approx(lrr)


def test_the_ipc_is_at_most_the_issue_width():
    (found,) = predictions(TABLE_1, profile_of(1000, 10, 0, 0, 0, 64), models=("MDM",))
    assert found.ipc_sm == 8 and found.capped and found.cycles == 10


@given(
    st.sampled_from([m for m in MODELS if m != "bound"]), cycle_counts, miss_counts, miss_counts, ratios, warp_counts, st.data()
)
def test_cycles_grow_with_sub_groups_reads_writes_and_the_miss_ratio(model, c, r, wr, m, w, data):
    base = cycles_of(model, 10, c, r, wr, m, w)
    slack = base * (1 - 1e-12)
    assert cycles_of(model, 10, c, r + data.draw(st.integers(0, 8)), wr, m, w) >= slack
    assert cycles_of(model, 10, c, r, wr + data.draw(st.integers(0, 8)), m, w) >= slack
    if model != "MDM-overlap":  # its queues are what exceeds the latency, which grows with the ratio and is C_i's
        assert cycles_of(model, 10, c, r, wr, data.draw(st.floats(m, 1)), w) >= slack
    assert cycles_of(model, 10, c, r, wr, m, w + data.draw(st.integers(0, 8))) >= slack


@given(st.sampled_from(PAPERS), cycle_counts, miss_counts, miss_counts, ratios, warp_counts)
def test_limits(model, c, r, wr, m, w):
    """With endless MSHRs nothing is batched, and all models of the paper but GPUMech, which has no NoC, agree; with endless
    bandwidth nothing queues; without misses nothing is added."""
    roomy = replace(CHIP, mshrs=math.inf)
    terms = interval_terms(model, roomy, Interval(10, c, float(r), float(wr), m, float(w)))
    assert float(terms.mshr_cycles) == 0
    if model != "GPUMech":
        assert float(terms.cycles) == pytest.approx(cycles_of("MDM", 10, c, r, wr, m, w, roomy))
    fast = replace(CHIP, noc_gb_s=math.inf, dram_gb_s=math.inf)
    still = interval_terms(model, fast, Interval(10, c, float(r), float(wr), m, float(w)))
    assert float(still.noc_queue_cycles) == float(still.dram_queue_cycles) == 0
    assert cycles_of(model, 10, c, 0, 0, m, w) == pytest.approx(c)
    assert float(interval_terms(model, CHIP, Interval(10, c, float(r), float(wr), 0.0, float(w))).dram_queue_cycles) == 0


@given(
    st.sampled_from([m for m in MODELS if m != "bound"]), cycle_counts, miss_counts, ratios, warp_counts, st.floats(1e-3, 1e3)
)
def test_units_do_not_matter(model, c, r, m, w, by):
    """In MHz and MB/s instead of GHz and GB/s, with sectors instead of bytes, and on two halves of a device, cycles stay."""
    base = cycles_of(model, 10, c, r, 1, m, w)
    scaled = replace(CHIP, clock_ghz=CHIP.clock_ghz * by, noc_gb_s=CHIP.noc_gb_s * by, dram_gb_s=CHIP.dram_gb_s * by)
    assert cycles_of(model, 10, c, r, 1, m, w, scaled) == pytest.approx(base)
    words = replace(CHIP, request_bytes=128 / by, noc_gb_s=CHIP.noc_gb_s / by, dram_gb_s=CHIP.dram_gb_s / by)
    assert cycles_of(model, 10, c, r, 1, m, w, words) == pytest.approx(base)
    part = replace(CHIP, compute_units=14.0, noc_gb_s=525.0, dram_gb_s=240.0)
    assert cycles_of(model, 10, c, r, 1, m, w, part) == pytest.approx(base)
    # time counted in half cycles: all is twice as many
    double = replace(CHIP, clock_ghz=2.8, llc_latency_cycles=240.0, dram_latency_cycles=440.0)
    assert cycles_of(model, 10, 2 * c, r, 1, m, w, double) == pytest.approx(2 * base)


def uncertain_sheet(low, high):
    quantities = {
        one.name: replace(q, low=q.value * low, high=q.value * high)
        for one in fields(HardwareQuantities)
        if (q := getattr(TABLE_1.quantities, one.name)) is not None
        and one.name not in ("compute_units", "schedulers", "block_bytes")
    }
    return replace(TABLE_1, quantities=replace(TABLE_1.quantities, **quantities))


@given(
    st.sampled_from(MODELS), st.integers(0, 40), ratios, warp_counts, st.floats(0.5, 1), st.floats(1, 2),
    st.sampled_from(["half", "md1"]), st.booleans(), st.data(),
)  # fmt: skip
def test_a_prediction_covers_those_of_all_inputs_within_their_intervals(model, r, m, w, low, high, queue, stalls, data):
    sheet = uncertain_sheet(low, high)

    def inside(value):
        return value * data.draw(st.floats(low, high))

    cycles = Range(300.0, 300 * low, 300 * high)
    own = {"stall_cycles": cycles} if stalls else {"cycles": cycles}
    one = ProfileInterval(
        10.0, read_misses=Range(float(r), r * low, r * high), write_misses=1.0, llc_miss_ratio=Range(m, m * low, m), **own
    )
    options = ModelOptions(gpumech_dram=queue)
    (wide,) = predictions(sheet, Profile(w, (one,)), options, (model,))
    quantities = {
        f.name: replace(q, value=inside(q.value) if q.low is not None else q.value, low=None, high=None)
        for f in fields(HardwareQuantities)
        if (q := getattr(sheet.quantities, f.name)) is not None
    }
    chosen = replace(sheet, quantities=replace(sheet.quantities, **quantities))
    ratio = m * data.draw(st.floats(low, 1))
    exact = replace(one, read_misses=inside(float(r)), llc_miss_ratio=ratio, **dict.fromkeys(own, inside(300.0)))
    (found,) = predictions(chosen, Profile(w, (exact,)), options, (model,))
    assert wide.cycles_low * (1 - 1e-9) <= found.cycles <= wide.cycles_high * (1 + 1e-9)
    assert wide.ipc_sm_low * (1 - 1e-9) <= found.ipc_sm <= wide.ipc_sm_high * (1 + 1e-9)


def test_many_configurations_at_once_are_those_one_by_one():
    """A million of them are one array expression; what it says is held against single ones."""
    rng, n = np.random.default_rng(21), 1_000_000
    reads, warps = rng.integers(0, 32, (n, 1)).astype(float), rng.integers(1, 65, (n, 1)).astype(float)
    ratio, c = rng.random((n, 1)), rng.uniform(10, 1e4, (n, 1))
    intervals = Interval(50.0, c, reads, 1.0, ratio, warps)
    cycles = interval_terms("MDM", CHIP, intervals).cycles[:, 0]
    ipc = ipc_of(CHIP, intervals, np.ones(1), cycles)
    assert ipc.shape == cycles.shape == (n,)
    for k in rng.integers(0, n, 20):
        (one,) = predictions(TABLE_1, profile_of(50, c[k, 0], reads[k, 0], 1, ratio[k, 0], int(warps[k, 0])), models=("MDM",))
        assert (ipc[k], cycles[k]) == pytest.approx((one.ipc_sm, one.cycles))


def test_advice_says_where_divergence_ends_and_what_a_change_gains():
    profile = profile_of(50, 800, 3, 0, 0.5, 43)
    assert advice.limits(TABLE_1, profile) == advice.Limit(42, 128 / 43)
    found = {one.of: one for one in advice.changes(TABLE_1, profile)}
    half = predictions(TABLE_1, profile_of(50, 800, 1.5, 0, 0.5, 43), models=("MDM",))[0]
    base = predictions(TABLE_1, profile, models=("MDM",))[0]
    assert found["lines"].gain == pytest.approx(half.ipc_sm / base.ipc_sm) and found["footprint"].gain > 1
    assert "sub_groups" not in found, "C_i is given for one number of sub-groups"
    stalled = Profile(64, (ProfileInterval(50.0, stall_cycles=400.0, read_misses=4.0, llc_miss_ratio=1.0),))
    occupancy = [one for one in advice.changes(TABLE_1, stalled) if one.of == "sub_groups"]
    assert occupancy and any("32 resident" in one.text and one.gain > 1 for one in occupancy)


def test_published_errors_are_those_of_the_paper():
    told = {(one.model, one.kind): one.error_percent for one in published_errors().error}
    assert told == {
        ("GPUMech", "MD"): 444, ("GPUMech+", "MD"): 206, ("MDM-Queue", "MD"): 100, ("MDM-MSHR", "MD"): 98, ("MDM", "MD"): 32,
        ("GPUMech", "NMD"): 19, ("MDM", "NMD"): 16, ("GPUMech", "all"): 217, ("MDM", "all"): 23,
    }  # fmt: skip
    assert [sum(b.kind == kind for b in published_errors().benchmark) for kind in ("NMD", "MD")] == [8, 7]
    # 8 and 7 benchmarks: the averages of the classes agree with those of all, to their rounding
    for model, total in (("GPUMech", 217), ("MDM", 23)):
        assert (8 * told[model, "NMD"] + 7 * told[model, "MD"]) / 15 == pytest.approx(total, abs=1)


def test_shipped_hardware_is_valid():
    assert {path.stem for path in mdm_hardware_paths()} >= {"wang2019-table1"}
    for path in mdm_hardware_paths():
        assert load_hardware(path.stem).name


GOOD = "warps = 64\n[[interval]]\ninstructions = 50\ncycles = 800\nread_misses = 2\nllc_miss_ratio = 0.5\n"


@each(
    ("old", "new", "said"),
    [
        ("warps = 64", "warps = 0", "resident sub-groups"),
        ("warps = 64", "warps = 6.5", "valid integer"),
        ("warps = 64", "warps = true", "valid integer"),
        ("warps = 64", 'warps = "64"', "valid integer"),
        ("read_misses", "read_mises", "unknown key 'read_mises'"),
        ("cycles = 800", "", "give cycles (C_i) or stall_cycles"),
        ("cycles = 800", "cycles = 800\nstall_cycles = 1", "give cycles (C_i) or stall_cycles"),
        ("cycles = 800", "cycles = 0", "cycles: 0"),
        ("cycles = 800", "cycles = nan", "JSON compliant"),
        ("cycles = 800", "cycles = {value = 3, low = 4, high = 5}", "not within"),
        ("cycles = 800", "cycles = {value = 3, low = 1}", "validation error"),
        ("read_misses = 2", "read_misses = -1", "read_misses"),
        ("llc_miss_ratio = 0.5", "llc_miss_ratio = 1.5", "within 0 to 1"),
        ("instructions = 50", "instructions = 0", "above 0"),
        ("[[interval]]", "[[intervals]]", "unknown key 'intervals'"),
        ("read_misses = 2", "read_misses = 2\n[[interval]]\ninstructions = 1\nstall_cycles = 1", "so give either"),
        ("warps = 64", "warps = ", "Invalid value"),
    ],
)
def test_a_damaged_profile_is_refused_with_its_fault(tmp_path, old, new, said):
    path = tmp_path / "profile.toml"
    path.write_text(GOOD)
    assert load_profile(path).interval[0].read_misses == 2
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=r"profile\.toml: no interval profile") as refused:
        load_profile(path)
    assert said in str(refused.value) and "\n" not in str(refused.value)


@each(
    ("old", "new", "said"),
    [
        ('unit = "GHz"', 'unit = "MHz"', "its unit is 'GHz'"),
        ("value = 480", "value = 0", "dram_gb_s"),
        ("value = 480", "value = 480\nlow = 500", "dram_gb_s"),
        ("value = 480", "value = 480\nlo = 400", "unknown key 'lo'"),
        ("[quantities.mshrs]", "[quantities.mshr]", "unknown key 'mshr'"),
        ("name =", "nam =", "unknown key 'nam'"),
        ("value = 128", "value = inf", "JSON compliant"),
        ("value = 128", "value = 1e-12", "mshrs"),
        ("value = 128", "value = 1e16", "mshrs"),
    ],
)
def test_damaged_hardware_is_refused_with_its_fault(tmp_path, old, new, said):
    (shipped,) = [path for path in mdm_hardware_paths() if path.stem == "wang2019-table1"]
    path = tmp_path / "hardware.toml"
    text = shipped.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match="hardware") as refused:
        load_hardware(str(path))
    assert said in str(refused.value)


def test_no_file_and_no_name_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"choose from .*wang2019-table1"):
        load_hardware("wang2019")
    with pytest.raises(InputError, match="Is a directory"):
        load_hardware(str(tmp_path))
    with pytest.raises(InputError, match="No such file"):
        load_profile(Path("nowhere.toml"))


def test_a_point_of_memory_divergence_has_the_profile_that_its_kernel_declares():
    """By hand, on table 1 with a cache of 3 MiB: of a footprint of 12 MiB three quarters of random accesses miss it."""
    q = replace(TABLE_1.quantities, llc_bytes=replace(TABLE_1.quantities.block_bytes, value=3 << 20, low=2 << 20, high=3 << 20))
    params = {"lines": 8, "fmas": 16, "loads": 2, "sub_groups": 32, "footprint_bytes": 12 << 20, "stores": 1}
    profile = mdm_plan.profile_of(params, replace(TABLE_1, quantities=q))
    (one,) = profile.interval
    assert profile.warps == 32 and (one.read_misses, one.write_misses) == (16, 1)
    assert one.instructions == 2 * 12 + 6 + 16 + 5
    assert one.llc_miss_ratio == Range(0.75, 0.75, 1 - 2 / 12)
    chain = 3 * (14 + 1 + 16)  # three cycles more for each dependent operation
    assert isinstance(one.stall_cycles, Range) and one.stall_cycles.value == pytest.approx(chain + 120 + 0.75 * 220)
    assert one.request_bytes == 32 and mdm_plan.profile_of({**params, "lines": 2}, TABLE_1).interval[0].request_bytes == 64
    # requests are sectors only where that is asked for
    block, sector = (predictions(TABLE_1, profile, ModelOptions(request=r), ("MDM",))[0] for r in ("block", "sector"))
    assert sector.stack["noc"] == pytest.approx(block.stack["noc"] / 4)


def test_miss_ratios_of_random_accesses():
    llc = replace(TABLE_1.quantities.block_bytes, value=50.0, low=40.0, high=80.0)
    assert miss_ratio(200, llc) == pytest.approx((0.6, 0.75, 0.8)) and miss_ratio(30, llc) == (0, 0, 0)
    assert miss_ratio(60, llc) == pytest.approx((0, 1 / 6, 1 / 3)) and miss_ratio(60, None) == (0, 0.5, 1)


@pytest.mark.parametrize("number", [1e-9, 1e15])
def test_the_most_extreme_inputs_that_are_taken_give_numbers(tmp_path, number):
    quantities = {
        f.name: replace(q, value=number) for f in fields(HardwareQuantities) if (q := getattr(TABLE_1.quantities, f.name))
    }
    sheet = replace(TABLE_1, quantities=HardwareQuantities(**quantities))
    one = ProfileInterval(1e15, cycles=1e-9, read_misses=1e15, write_misses=1e15, llc_miss_ratio=1.0, repeats=1 << 31)
    for found in predictions(sheet, Profile(1 << 16, (one,)), ModelOptions(gpumech_dram="md1")):
        assert all(map(math.isfinite, (found.ipc_sm_low, found.ipc_sm, found.ipc_sm_high, found.cycles_low, found.cycles_high)))
