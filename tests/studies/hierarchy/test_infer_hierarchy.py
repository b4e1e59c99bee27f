"""infer_hierarchy: hierarchies recovered from simulated devices of which everything is known, and silence where it must be."""

import numpy as np
import pytest

from clmembench.model import Answer, Pattern, Probe
from clmembench.studies.hierarchy.curve.curve_steps import find_steps
from clmembench.studies.hierarchy.geometry import gradual_knee
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.probing import CapacityBound, ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain
from tests.truths import TRUTHS

QUIET = Noise(jitter_cycles=1.0, lap_relative=0.001)
NO_CLOCK = "no clock can be read inside a kernel"


def machine(*caches, memory=300.0, tlbs=(), noise=QUIET, **more):
    return Machine("test", {"global": Path(tuple(caches), memory, tuple(tlbs))}, noise, 7, **more)


def answers(answer):
    return lambda probes: [answer(probe) for probe in probes]


def found(device, most_bytes=512 * MIB):
    last = max(cache.size_bytes for cache in device.paths["global"].caches)
    return replay(infer_hierarchy(ProbeLimits(most_bytes, 4 * last, frozenset(device.paths), 64)), answers(device.answer))


def values(findings):
    return {name: f.value for name, f in findings.items() if f.status == "ok"}


# without a clock tree-PLRU is below
@pytest.mark.parametrize(
    ("policy", "clock"),
    [
        *(("LRU", ""), ("FIFO", ""), ("tree-PLRU", ""), ("random", ""), ("random", NO_CLOCK), ("LRU", NO_CLOCK)),
        *(pytest.param(policy, NO_CLOCK, marks=pytest.mark.slow) for policy in ("FIFO", "tree-PLRU")),
    ],
)
def test_a_cache_of_plain_sets_is_recovered_with_and_without_a_clock(policy, clock):
    device = machine(Cache(plain(32, 4, 64), 64, 5.0, policy), memory=60.0, no_clock=clock)
    level, memory = found(device).levels
    told = values(level.findings)
    exact = {"size_bytes": 8 * KIB, "line_bytes": 64, "sector_bytes": 64, "ways": 4, "sets": 32, "set_bits": "6,7,8,9,10"}
    assert exact.items() <= told.items()
    assert told.get("policy", policy) == policy
    assert told["latency_cycles"] == pytest.approx(5.0, rel=0.02)
    assert values(memory.findings)["latency_cycles"] == pytest.approx(60.0, rel=0.02)


def test_the_policy_is_told_by_whole_laps_alone():
    device = machine(Cache(plain(64, 8, 64), 64, 4.0, "tree-PLRU"), memory=60.0, no_clock=NO_CLOCK)
    assert found(device).levels[0].findings["policy"].value == "tree-PLRU"


def test_two_caches_and_a_tlb_are_told_apart():
    device = machine(
        Cache(plain(64, 8, 64), 64, 4.0), Cache(plain(512, 8, 64), 64, 20.0), memory=200.0,
        tlbs=(Tlb(Sets((40,)), 4096, 9.0),),
    )  # fmt: skip
    hierarchy = found(device)
    first, second, _ = hierarchy.levels
    assert values(first.findings)["size_bytes"] == 32 * KIB
    assert values(second.findings)["size_bytes"] == pytest.approx(256 * KIB, rel=0.02)
    assert values(second.findings)["latency_cycles"] == pytest.approx(20.0, rel=0.03)
    (tlb,) = hierarchy.tlb
    told = values(tlb.findings)
    assert (told["entries"], told["page_bytes"], told["reach_bytes"]) == (40, 4096, 160 * KIB)
    assert told["penalty_cycles"] == pytest.approx(9.0, rel=0.05)


def test_a_line_of_sectors_is_both_numbers():
    level = found(machine(Cache(plain(32, 4, 128), 128, 30.0, sector_bytes=32))).levels[0]
    told = values(level.findings)
    assert (told["line_bytes"], told["sector_bytes"], told["size_bytes"]) == (128, 32, 16 * KIB)


def test_one_set_of_all_lines_has_no_set_bits():
    told = values(found(machine(Cache(Sets((24,)), 64, 5.0), memory=60.0)).levels[0].findings)
    assert (told["ways"], told["sets"], told["size_bytes"]) == (24, 1, 1536) and "set_bits" not in told


def test_bits_that_are_not_above_the_offset_are_found():
    """As of the texture L1 of Mei & Chu 2015, section 4.3: 4 sets by bits 7 and 8, lines of 32 B."""
    told = values(found(machine(Cache(Sets((24,) * 4, bits=(7, 8)), 32, 100.0))).levels[0].findings)
    assert (told["line_bytes"], told["sets"], told["ways"], told["set_bits"]) == (32, 4, 24, "7,8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "true"),
    [
        ("fermi", {"size_bytes": 16 * KIB, "line_bytes": 128, "ways": 4, "sets": 32, "set_bits": "7,8,9,10,11"}),
        ("fermi-major", {"size_bytes": 16 * KIB, "line_bytes": 128, "ways": 16, "sets": 8, "set_bits": "9,10,11"}),
        ("fermi-hashed", {"size_bytes": 16 * KIB, "line_bytes": 128, "ways": 4, "sets": 32}),
    ],
)
def test_the_l1_of_fermi_is_recovered_whatever_maps_its_sets(name, true):
    device = TRUTHS[name]()
    told = values(found(device).levels[0].findings)
    assert true.items() <= told.items()
    if name == "fermi-hashed":
        assert "set_bits" not in told


@pytest.mark.slow
def test_what_is_told_of_noisy_physical_pages_is_true_or_bounded():
    device = machine(
        Cache(plain(64, 8, 64), 64, 4.0), Cache(plain(512, 16, 64), 64, 20.0, frame_bytes=4096), memory=200.0,
        noise=Noise(lap_relative=0.003, disturbed=0.01), no_clock=NO_CLOCK, processes=3,
    )  # fmt: skip
    second = found(device).levels[1].findings
    size = second["size_bytes"]
    assert size.low <= 512 * KIB <= (size.high or np.inf)
    assert size.status != "ok" or size.value == pytest.approx(512 * KIB, rel=0.02)
    assert second["ways"].status == "undetermined"


def test_a_device_that_answers_nothing_gives_an_empty_hierarchy_and_says_so():
    hierarchy = replay(infer_hierarchy(ProbeLimits(64 * MIB, MIB)), answers(lambda probe: Answer(probe, reason="gone")))
    assert not hierarchy.levels and "no chase" in hierarchy.notes[0]


def test_an_experiment_ends_when_answers_cease_at_any_point():
    device = machine(Cache(plain(32, 4, 64), 64, 5.0), memory=60.0)
    for left in (0, 5, 20, 40, 60, 90, 130, 200):
        asked = []

        def said(probe, asked=asked, left=left):
            asked.append(probe)
            return device.answer(probe) if len(asked) <= left else Answer(probe, reason="the budget was spent")

        hierarchy = replay(infer_hierarchy(ProbeLimits(64 * MIB, MIB)), answers(said))
        assert len(asked) < 2000
        for level in hierarchy.levels:
            told = values(level.findings)
            assert told.get("size_bytes", 8 * KIB) == 8 * KIB and told.get("line_bytes", 64) == 64


def steady(hit, miss, capacity):
    """Answers of a cache that holds so many places, LRU: all miss once there is one more."""
    return lambda probe: Answer(probe, hit if probe.pattern.count <= capacity else miss)


@each("capacity", [1, 2, 7, 64, 500])
@each("guesses", [(), (64,), (3, 900)])
def test_a_bound_is_found_whatever_is_guessed_first(capacity, guesses):
    experiment, answer = (
        find_capacity(LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(1.0, 9.0, 0.01)), 64, 2000, guesses),
        steady(1.0, 9.0, capacity),
    )
    try:
        probes = next(experiment)
        while True:
            probes = experiment.send([answer(p) for p in probes])
    except StopIteration as done:
        result: CapacityBound = done.value
    assert (result.fits, result.over) == (capacity, capacity + 1) and result.sharp


def searched(answer, guesses=(), most=2000):
    experiment = find_capacity(LevelProbe(ProbeSession(), ChaseLayout(), HitMissModel(4.0, 14.0, 0.004)), 64, most, guesses)
    return replay(experiment, answers(answer))


@each("seed", range(8))
@each("disturbed", [0.3, 0.6])
def test_what_disturbs_most_laps_of_a_restless_core_moves_no_bound(seed, disturbed):
    """Another thread of the core takes lines now and then, in phases that outlast several laps."""
    rng = np.random.default_rng(seed)
    phase = {"left": 0, "on": False}

    def said(probe):
        if not phase["left"]:
            phase["left"], phase["on"] = int(rng.integers(1, 5)), bool(rng.random() < disturbed)
        phase["left"] -= 1
        count = probe.pattern.count
        value = 4.0 if count <= 512 else 14.0
        # of few lines none are taken before they are used again
        if phase["on"] and count > 100:
            value += rng.uniform(0.2, 6.0)
        return Answer(probe, value, alone=0.1)

    result = searched(said, (400, 512))
    # that it cannot be told is no error, where it is said
    assert result.fits <= 512 and not result.calm
    assert result.fits == 512 or disturbed > 0.5


def test_a_bound_on_a_core_that_is_never_left_alone_says_so():
    result = searched(
        lambda probe: Answer(probe, 4.0 if probe.pattern.seed == 0 and probe.pattern.count < 9 else 8.0, alone=0.1)
    )
    assert result.fits == 8 and not result.calm


def test_a_rise_with_a_flat_step_in_it_is_one_level_and_two_rises_are_two():
    sizes = [1024 * 2**k for k in range(12)]
    one = [4.0, 4.0, 4.0, 6.0, 6.0, 9.0, 12.0, 12.0, 12.0, 12.0, 12.0, 12.0]
    two = [4.0, 4.0, 4.0, 12.0, 12.0, 12.0, 12.0, 40.0, 40.0, 40.0, 40.0, 40.0]
    assert [(s.hit, s.miss) for s in find_steps(sizes, one, one, 0.001)] == [(4.0, 12.0)]
    assert [(s.hit, s.miss) for s in find_steps(sizes, two, two, 0.001)] == [(4.0, 12.0), (12.0, 40.0)]


def test_pages_in_random_frames_miss_by_the_binomial_law():
    random, colours, ways = np.random.default_rng(3), 16, 8
    for pages in (64, 128, 160):
        drawn = random.integers(colours, size=(4000, pages))
        held = np.stack([np.bincount(row, minlength=colours) for row in drawn])
        share = np.where(held > ways, held, 0).sum() / drawn.size
        assert gradual_knee.expected_miss_share(colours * ways * 4096, ways, 4096, pages * 4096) == pytest.approx(
            share, abs=0.01
        )


def test_a_ramp_gives_bounds_around_the_true_size_and_none_where_it_is_another_law():
    points = [
        (int(s * MIB), gradual_knee.expected_miss_share(MIB, 8, 4096, s * MIB)) for s in (0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2)
    ]
    ramp = gradual_knee.fit_ramp(points, 4096, 256 * KIB, 4 * MIB)
    assert ramp.low <= MIB <= ramp.high and ramp.high < 1.3 * ramp.low
    assert gradual_knee.fit_ramp([(k * MIB, 0.5) for k in (1, 2, 4, 8, 16)], 4096, 256 * KIB, 4 * MIB) is None


def test_a_probe_is_asked_once():
    asked, count = ProbeSession(), 0
    experiment = asked.all([Probe(Pattern("random", 4, 64))] * 3)
    probes = next(experiment)
    count += len(probes)
    with pytest.raises(StopIteration) as done:
        experiment.send([Answer(probes[0], 1.0, evidence=("a",))])
    assert count == 1 and len(done.value.value) == 3
    assert asked.cited() == ("a",) and asked.cited() == ()


def test_a_number_of_sets_with_an_odd_factor_is_found():
    (level, _) = found(machine(Cache(Sets((4,) * 80), 64, 5.0), memory=60.0)).levels
    told = values(level.findings)
    assert (told["ways"], told["sets"], told["size_bytes"]) == (4, 80, 20 * KIB)
    assert "set_bits" not in told


def test_places_that_a_nearer_level_holds_are_not_the_next_ones_ways():
    device = machine(Cache(Sets((64,)), 64, 5.0), Cache(plain(64, 8, 128), 128, 40.0), memory=200.0)
    second = found(device).levels[1]
    assert values(second.findings).get("ways", 8) == 8
    assert values(second.findings).get("sets", 64) == 64


@pytest.mark.slow
def test_lines_shorter_than_other_levels_are_not_taken_for_theirs():
    hashed = Sets((8,) * 64, masks=tuple(1 << bit | 1 << bit + 7 for bit in range(6, 12)))
    device = machine(
        Cache(plain(16, 4, 64), 64, 5.0), Cache(hashed, 64, 40.0), Cache(plain(512, 16, 128), 128, 150.0), memory=400.0
    )
    second = found(device).levels[1]
    assert values(second.findings).get("line_bytes", 64) == 64
    assert values(second.findings).get("size_bytes", 32 * KIB) == pytest.approx(32 * KIB, rel=0.02)


def test_spaces_without_global_memory_are_looked_at_alone():
    """`--spaces local,constant` spends its budget there: no chase goes through global memory."""
    paths = {
        "global": Path((Cache(plain(64, 8, 64), 64, 30.0),), 300.0),
        "constant": Path((Cache(plain(8, 4, 64), 64, 25.0),), 110.0),
        "local": Path((), 24.0, memory="local"),
    }
    device, spaces = Machine("test", paths, QUIET, 7), []

    def answer(probe):
        spaces.append(probe.space)
        return device.answer(probe)

    limits = ProbeLimits(64 * MIB, MIB, frozenset({"constant", "local"}), 64)
    hierarchy = replay(infer_hierarchy(limits), answers(answer))
    assert set(spaces) == {"constant", "local"}
    assert values(hierarchy.local.findings)["latency_cycles"] == pytest.approx(24, rel=0.02)
    assert hierarchy.constant[0].findings["latency_cycles"].value == pytest.approx(25, rel=0.02)
    assert (hierarchy.levels, hierarchy.tlb) == ((), ())
