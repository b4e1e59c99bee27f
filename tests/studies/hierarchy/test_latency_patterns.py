"""latency_patterns: on the devices of Mei & Chu 2015, figure 14, its latencies; a pattern that a device lacks is not told."""

from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import CacheLevel, Finding, Hierarchy, Probe, TlbLevel
from clmembench.model.address_patterns import pattern_bytes, pattern_offsets
from clmembench.studies.hierarchy.patterns.latency_experiment import (
    HierarchyGeometry,
    known_geometry,
    lap_variants,
    pattern_laps,
    pattern_trace,
)
from clmembench.studies.hierarchy.patterns.latency_patterns import (
    PATTERN_NAMES,
    as_pattern_findings,
    measure_patterns,
    median_of_variants,
    read_laps,
    read_trace,
)
from clmembench.studies.hierarchy.probes.typical_latency import two_groups
from tests.simulated import Cache, Machine, Noise, Path, Sets, Tlb, plain
from tests.studies.hierarchy.test_classic import asked

KIB, MIB = 1 << 10, 1 << 20
PAGE = 2 * MIB
NOISE = Noise(jitter_cycles=2.0, quantum_cycles=1.0, outliers=0.002)
L1_TLB = plain(1, 16, PAGE)
L2_TLB = Sets((17, *(8,) * 6))
CONTEXT = plain(1, 1, 512 * MIB)


def device(caches, memory, tlbs, noise=NOISE, **more):
    return Machine("test", {"global": Path(caches, memory, tlbs, **more)}, noise, seed=3, ghz=1.5)


def tlbs(first, walk, context=None):
    own = (Tlb(L1_TLB, PAGE, first), Tlb(L2_TLB, PAGE, walk))
    return own if context is None else (*own, Tlb(CONTEXT, 512 * MIB, context))


FERMI_L1 = Cache(plain(32, 4, 128), 128, 96)
FERMI_L2 = Cache(plain(1024, 16, 32), 32, 357)
KEPLER_L2 = Cache(Sets((16,) * 3072), 32, 198, "random")
MAXWELL_L1, MAXWELL_L2 = Cache(Sets((192,) * 4, bits=(7, 8)), 32, 82), Cache(plain(4096, 16, 32), 32, 216)
FIGURE_14 = {  # Mei & Chu 2015; P1 to P6
    "GTX560Ti": (
        device((FERMI_L1, FERMI_L2), 635, tlbs((288, 27, 27), (84, 84, 577))),
        HierarchyGeometry(128, 128, 16 * KIB, PAGE, 16, 65),
        (96, 384, 468, 635, 1239, None),
    ),
    "GTX780": (
        device((KEPLER_L2,), 339, tlbs(6, (53, 357), 266)),
        HierarchyGeometry(32, 32, 1536 * KIB, PAGE, 16, 65),
        (198, 204, 257, 339, 702, 968),
    ),
    "GTX980": (
        device((MAXWELL_L1, MAXWELL_L2), 385, tlbs(11, (64, 64, 2043), 301), l1_virtual=True),
        HierarchyGeometry(32, 32, 24 * KIB, PAGE, 16, 65),
        (82, None, None, 385, 2439, 2740),
    ),
}


@pytest.mark.parametrize("name", FIGURE_14)
def test_the_latencies_of_figure_14(name):
    machine, geometry, truth = FIGURE_14[name]
    found = asked(measure_patterns(geometry, ghz=1.5), machine.answer)
    for pattern, cycles in zip(PATTERN_NAMES, truth, strict=True):
        finding, ns = found[pattern].cycles, found[pattern].ns
        if cycles is None:
            assert finding.value is None and finding.reason.startswith("not present"), pattern
            continue
        assert finding.status == ns.status == "ok", f"{pattern}: {finding.reason}"
        assert finding.value == pytest.approx(cycles, rel=0.05)
        assert finding.low <= finding.value <= finding.high
        assert ns.value == pytest.approx(cycles / 1.5, rel=0.05) and ns.unit == "ns"
        assert len(found[pattern].accesses) >= 5 and finding.evidence


def test_without_the_reaches_a_sweep_over_pages_finds_the_same():
    machine, geometry, truth = FIGURE_14["GTX780"]
    found = asked(measure_patterns(replace(geometry, page_bytes=None, near_pages=None, all_pages=None)), machine.answer)
    assert [found[n].cycles.value for n in PATTERN_NAMES] == pytest.approx(truth, rel=0.05)


def test_without_the_reaches_one_step_of_latency_is_not_called_either_pattern():
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    found = asked(measure_patterns(replace(geometry, page_bytes=None, near_pages=None, all_pages=None)), machine.answer)
    for name in ("P2", "P3"):
        assert found[name].cycles.value is None and "reaches are not known" in found[name].cycles.reason


def test_a_tlb_whose_pages_the_data_cache_cannot_hold_leaves_p3_undetermined():
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    found = asked(measure_patterns(replace(geometry, cache_bytes=8 * KIB)), machine.answer)
    assert found["P3"].cycles.value is None and "cannot be met" in found["P3"].cycles.reason
    assert found["P2"].cycles.value == pytest.approx(384, rel=0.05)


def test_contexts_that_switch_at_no_regular_distance_are_not_called_p6():
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    trial = pattern_trace(geometry)
    answer = machine.answer(trial.probe)
    far = next(stage for stage in trial.stages if stage.role == "far")
    answer.latencies[:, [far.first + 5, far.first + 9, far.first + 20]] += 300
    found = read_trace(trial, answer)["P6"].cycles
    assert found.value is None and "no regular distance" in found.reason


def in_two_groups(answer, places, more):
    """The same answer with `more` cycles added to these accesses of its trace."""
    latencies = answer.latencies.copy()
    latencies[:, list(places)] += more
    return replace(answer, latencies=latencies)


def test_far_pages_in_two_groups_are_not_told_by_the_faster():
    """As on an H100: 24 first accesses of 545 to 631 cycles and 23 of 695 to 940, at no regular distance."""
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    trial = pattern_trace(geometry)
    far = next(stage for stage in trial.stages if stage.role == "far").counted
    slower = [n for n in far if n % 7 in (1, 3, 4)]
    answer = in_two_groups(machine.answer(trial.probe), slower, 250)
    found = read_trace(trial, answer)
    assert found["P5"].cycles.value is None
    says = found["P5"].cycles.reason
    assert f"{len(far) - len(slower)} accesses of" in says and f"{len(slower)} accesses of" in says
    assert found["P5"].cycles.low < 1239 < 1480 < found["P5"].cycles.high
    assert found["P6"].cycles.value is None


def test_a_few_slower_far_pages_are_said_beside_the_value():
    machine, geometry, truth = FIGURE_14["GTX560Ti"]
    trial = pattern_trace(geometry)
    far = next(stage for stage in trial.stages if stage.role == "far").counted
    answer = in_two_groups(machine.answer(trial.probe), [far[n] for n in (3, 4, 9, 20, 33, 41)], 400)
    found = read_trace(trial, answer)["P5"].cycles
    assert found.value == pytest.approx(truth[4], rel=0.05) and "6 accesses of" in found.method
    assert found.evidence == answer.evidence


def test_without_a_tlb_no_pattern_that_needs_one_is_claimed():
    machine = device((FERMI_L1, FERMI_L2), 635, ())
    found = asked(measure_patterns(HierarchyGeometry(128, 128, 16 * KIB)), machine.answer)
    assert found["P1"].cycles.value == pytest.approx(96, rel=0.05)
    assert found["P4"].cycles.value == pytest.approx(635, rel=0.05)
    for name in ("P2", "P3", "P5", "P6"):
        assert found[name].cycles.value is None, name
    assert "no TLB was found" in found["P5"].cycles.reason and "47 of them take 63" in found["P5"].cycles.reason


def test_far_pages_that_are_faster_than_near_ones_cannot_be():
    wanted = pattern_laps(CORE_KNOWN)
    answers = {name: CORE.answer(probe) for name, probe in wanted.items() if isinstance(probe, Probe)}
    faster = replace(answers["P5"], value=0.8 * answers["P4"].value, low=0.7 * answers["P4"].low, high=0.85 * answers["P4"].low)
    assert read_laps(answers, wanted, 2.0)["P5"].cycles.status == "ok"
    found = read_laps({**answers, "P5": faster}, wanted, 2.0)["P5"].cycles
    assert found.value is None and "new pages take less time" in found.reason


def test_a_lap_that_is_not_like_two_others_is_named_beside_the_value():
    answers = [CORE.answer(p) for p in lap_variants(pattern_laps(CORE_KNOWN)["P1"])]
    late = [answers[0], replace(answers[1], value=40.0), answers[2]]
    found = median_of_variants(late)
    assert found.value == pytest.approx(2.0, rel=0.05) and found.reason == "1 of 3 laps that should be alike takes 40"
    assert found.reason in read_laps({"P1": found}, pattern_laps(CORE_KNOWN))["P1"].ns.method
    assert median_of_variants(answers).reason == ""


@pytest.mark.slow
def test_two_groups_are_seen_and_one_is_not_called_two():
    rng = np.random.default_rng(1)
    one = [two_groups(rng.normal(500, 20, n)) for n in (12, 32, 47, 200) for _ in range(500)]
    assert sum(found is not None for found in one) <= 0.05 * len(one)
    even = [two_groups(rng.uniform(500, 600, n)) for n in (12, 32, 47, 200) for _ in range(500)]
    assert sum(found is not None for found in even) <= 0.15 * len(even)
    steps = [two_groups(48.0 * np.floor(rng.uniform(2, 4, 40)), 48.0) for _ in range(200)]
    assert not any(found is not None for found in steps)
    two = [two_groups(np.r_[rng.normal(580, 15, 24), rng.normal(760, 30, 23)]) for _ in range(200)]
    assert all(found is not None and 23 <= len(found[0]) <= 25 for found in two)
    assert two_groups(np.full(40, 500.0)) is None and two_groups(np.arange(4.0)) is None


def test_caches_that_a_cold_launch_finds_full_give_no_miss():
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    trial = pattern_trace(geometry)
    answer = machine.answer(trial.probe)
    warm = [n for stage in trial.stages if stage.role == "P4" for n in stage.counted]
    answer.latencies[:, warm] = 97.0
    assert "were not empty" in read_trace(trial, answer)["P4"].cycles.reason


def test_accesses_that_do_not_agree_are_no_pattern():
    machine, geometry, _ = FIGURE_14["GTX780"]
    trial = pattern_trace(geometry)
    answer = machine.answer(trial.probe)
    lap = next(stage for stage in trial.stages if stage.role == "lap")
    answer.latencies[:, list(lap.counted)] = np.linspace(200, 400, len(lap.counted))
    assert "lie within 20%" in read_trace(trial, answer)["P2"].cycles.reason


def test_a_clock_too_coarse_for_a_hit_tells_no_hit_and_a_lap_does():
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    coarse = replace(machine, noise=Noise(quantum_cycles=48))
    trial = pattern_trace(geometry)
    alone = read_trace(trial, coarse.answer(trial.probe))["P1"].cycles
    assert alone.value is None and "steps by 48" in alone.reason
    found = asked(measure_patterns(geometry), coarse.answer)
    assert found["P1"].cycles.value == pytest.approx(96, rel=0.05) and "lap" in found["P1"].cycles.method
    assert found["P5"].cycles.value == pytest.approx(1239, rel=0.05) and "access by access" in found["P5"].cycles.method


CPU_PAGE = 128 * KIB
CORE = Machine(
    "core",
    {
        "global": Path(
            (Cache(plain(64, 16, 64), 64, 4), Cache(plain(256, 8, 64), 64, 14)),
            200,
            (Tlb(plain(1, 8, CPU_PAGE), CPU_PAGE, 7), Tlb(plain(16, 4, CPU_PAGE), CPU_PAGE, 30)),
        )
    },
    Noise(lap_relative=0.003),
    no_clock="no clock inside a kernel",
    in_ns=True,
    ghz=2.0,
)
CORE_KNOWN = HierarchyGeometry(64, 64, 64 * KIB, CPU_PAGE, 8, 64, 128 * KIB)


def test_without_a_clock_laps_meet_all_patterns_but_the_context():
    found = asked(measure_patterns(CORE_KNOWN, ghz=2.0), CORE.answer)
    truth = {"P1": 4, "P2": 11, "P4": 200, "P5": 237}
    for name, cycles in truth.items():
        assert found[name].cycles.value == pytest.approx(cycles, rel=0.05), name
        assert found[name].ns.value == pytest.approx(cycles / 2, rel=0.05)
        assert found[name].cycles.method == "a lap of its own"
    for name in ("P3", "P6"):
        assert found[name].cycles.value is None and "lap's mean" in found[name].cycles.reason


def test_without_a_clock_a_tlb_that_costs_nothing_is_not_present():
    free = replace(CORE, paths={"global": replace(CORE.paths["global"], tlbs=())})
    found = asked(measure_patterns(CORE_KNOWN), free.answer)
    assert found["P2"].cycles.reason.startswith("not present")


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        ({"page_bytes": 4 * KIB}, "P4", "prefetcher"),
        ({"cache_bytes": 4 * KIB}, "P2", "do not surely hit"),
        ({}, "P3", "data cache"),
        ({"near_pages": 16}, "P2", "do not surely hit"),
        ({"all_pages": None}, "P5", "must be known"),
    ],
)
def test_a_lap_whose_mean_would_mix_patterns_is_not_asked_for(change, name, says):
    assert says in pattern_laps(replace(CORE_KNOWN, **change))[name]


def test_laps_that_should_be_alike_and_are_not_tell_nothing():
    probe = pattern_laps(CORE_KNOWN)["P2"]
    assert isinstance(probe, Probe) and len(lap_variants(probe)) == 3 == len(set(lap_variants(probe)))
    answers = [CORE.answer(p) for p in lap_variants(probe)]
    assert median_of_variants(answers).value == pytest.approx(5.5, rel=0.05)
    one_late = [answers[0], replace(answers[1], value=40.0), answers[2]]
    assert median_of_variants(one_late).value == pytest.approx(5.5, rel=0.05)
    apart = [replace(a, value=v) for a, v in zip(answers, (5.5, 8.0, 20.0), strict=True)]
    assert median_of_variants(apart).value is None and "5.5 to 20" in median_of_variants(apart).reason


def test_laps_that_no_array_can_hold_are_said_to_be_too_large():
    wanted = pattern_laps(replace(CORE_KNOWN, last_bytes=1 << 30), most_bytes=1 << 30)
    assert "over the limit" in wanted["P4"] and "over the limit" in wanted["P5"]
    assert isinstance(wanted["P1"], Probe)


def test_what_the_clock_itself_costs_is_taken_off():
    machine, geometry, truth = FIGURE_14["GTX780"]
    costly = replace(machine, noise=replace(NOISE, bias_cycles=20.0))
    found = asked(measure_patterns(geometry), costly.answer)
    assert [found[n].cycles.value for n in PATTERN_NAMES] == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("bias", [-30.0, 90.0])
def test_a_trace_whose_hits_are_not_those_of_a_lap_is_not_believed(bias):
    machine, geometry, _ = FIGURE_14["GTX560Ti"]
    trial = pattern_trace(geometry)
    answer = replace(machine, noise=replace(NOISE, bias_cycles=bias)).answer(trial.probe)
    lap = machine.answer(pattern_laps(geometry)["P1"])
    found = read_trace(trial, answer, 1.5, lap)
    assert all(f.cycles.value is None and "not timed right" in f.cycles.reason for f in found.values())


def test_ns_without_a_clock_rate_are_undetermined():
    machine, geometry, _ = FIGURE_14["GTX780"]
    trial = pattern_trace(geometry)
    found = read_trace(trial, replace(machine.answer(trial.probe), ns=None))
    assert found["P1"].ns.value is None and "clock is not known" in found["P1"].ns.reason
    assert set(as_pattern_findings(found)) == {*PATTERN_NAMES, *(f"{n}_ns" for n in PATTERN_NAMES)}


@pytest.mark.parametrize("name", FIGURE_14)
def test_the_trace_is_a_lap_whose_stages_are_its_accesses(name):
    """Every node once, within what the array may span; and no line twice where new lines are meant."""
    geometry = FIGURE_14[name][1]
    trial = pattern_trace(geometry, most_bytes=4 << 30)
    lap = pattern_offsets(trial.probe.pattern)
    assert sum(stage.count for stage in trial.stages) == lap.size == trial.probe.record
    assert pattern_bytes(trial.probe.pattern) <= 4 << 30
    new = [n for s in trial.stages if s.role in ("P4", "far") for n in range(s.first, s.first + s.count)]
    lines = lap // geometry.line_bytes
    seen = {line: n for n, line in reversed(list(enumerate(lines.tolist())))}
    assert all(seen[int(lines[n])] == n for n in new)
    pages = lap // PAGE
    far = next(s for s in trial.stages if s.role == "far")
    assert np.unique(pages[far.first : far.first + far.count]).size == far.count


def test_what_is_known_comes_from_findings_that_are_sure():
    def sure(name, value, status="ok"):
        return name, Finding(name, value if status == "ok" else None, None, None, "", status, "test", ("chase:1",), "test")

    l1 = CacheLevel("L1", "global", dict([sure("size_bytes", 16384.0), sure("line_bytes", 128), sure("sector_bytes", 32)]))
    l2 = CacheLevel("L2", "global", dict([sure("size_bytes", 1 << 20), sure("line_bytes", 128)]))
    dram = CacheLevel("DRAM", "global", {})
    near = TlbLevel("L1 TLB", dict([sure("entries", 16), sure("page_bytes", PAGE)]))
    far = TlbLevel("L2 TLB", dict([sure("entries", 65, "undetermined")]))
    found = known_geometry(Hierarchy((l1, l2, dram), (near, far)))
    assert found == HierarchyGeometry(128, 32, 16384, PAGE, 16, None, 1 << 20)
    assert known_geometry(Hierarchy()) == HierarchyGeometry()
