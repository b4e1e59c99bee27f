import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from clmembench.analysis.plateaus import (
    CurvePoint,
    curve_points,
    find_plateaus,
    has_settled,
    memory_floor_bytes,
    nearest_cache,
)
from tests.builders import LATENCY, clock, device, slope
from tests.cases import each

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# (capacity in bytes, latency in ns) of each level; memory has no end
CPU = ((48 * KIB, 1.6), (2 * MIB, 5.0), (32 * MIB, 25.0), (math.inf, 100.0))
H100 = ((256 * KIB, 20.0), (50 * MIB, 150.0), (math.inf, 480.0))
BIG_CACHE = ((48 * KIB, 1.6), (2 * MIB, 5.0), (300 * MIB, 40.0), (math.inf, 130.0))
MACHINES = {"CPU": CPU, "H100": H100, "big cache": BIG_CACHE}


def sizes(per_octave, last=4 * GIB):
    count = round(per_octave * math.log2(last / (4 * KIB))) + 1
    return [int(4 * KIB * 2 ** (step / per_octave)) // KIB * KIB for step in range(count)]


def ramp(size, machine, octaves=1.0):
    """Latency of a level up to its capacity, then a straight line in both logarithms to the next within that many octaves."""
    value = machine[0][1]
    for (capacity, ns), (_, slower) in pairwise(machine):
        if size > capacity:
            value = ns * (slower / ns) ** min(1.0, math.log2(size / capacity) / octaves)
    return value


def random_replacement(size, machine):
    """Each level holds capacity / size of the working set, and what it lacks comes from the next."""
    value = machine[0][1]
    for (capacity, ns), (_, slower) in pairwise(machine):
        if size > capacity:
            value += (slower - ns) * (1 - capacity / size)
    return value


def simulated(machine, per_octave=4, seed=0, noise=0.015, last=4 * GIB, latency=ramp):
    rng = np.random.default_rng(seed)
    values = [(size, latency(size, machine) * (1 + noise * rng.standard_normal())) for size in sizes(per_octave, last)]
    return [CurvePoint(size, ns, 0.99 * ns, 1.01 * ns) for size, ns in values]


@each("per_octave", [2, 4])
@each("name", MACHINES)
def test_every_level_is_found_with_its_latency_and_capacity(name, per_octave):
    machine = MACHINES[name]
    for seed in range(20):
        found = find_plateaus(simulated(machine, per_octave, seed))
        assert len(found) == len(machine)
        for plateau, (capacity, ns) in zip(found, machine, strict=True):
            assert plateau.ns == pytest.approx(ns, rel=0.05)
            assert plateau.low <= ns <= plateau.high
            # a working set 2% beyond a capacity is 3% slower here, which the noise hides
            assert plateau.last_bytes <= 1.02 * capacity and capacity <= (plateau.next_bytes or math.inf)
        assert [p.next_bytes is None for p in found] == [False] * (len(machine) - 1) + [True]


@each("per_octave", [2, 4])
@each("name", MACHINES)
def test_a_capacity_is_placed_within_one_step_of_the_sweep(name, per_octave):
    machine = MACHINES[name]
    for seed in range(20):
        for plateau in find_plateaus(simulated(machine, per_octave, seed))[:-1]:
            assert plateau.next_bytes / plateau.last_bytes == pytest.approx(2 ** (1 / per_octave), rel=0.03)


@pytest.mark.parametrize("name", MACHINES)
def test_disturbed_points_end_no_level_early(name):
    # a neighbour slows every eighth point by up to two fifths; what is measured is never faster than the truth
    machine, met = MACHINES[name], 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        slowed = [
            replace(s, ns=s.ns * slower, low=s.low * slower, high=s.high * slower)
            for s in simulated(machine, 4, seed, noise=0.005)
            for slower in [1 + (rng.random() < 0.125) * rng.uniform(0.05, 0.4)]
        ]
        for plateau in find_plateaus(slowed):
            for capacity, ns in machine[:-1]:
                if plateau.ns == pytest.approx(ns, rel=0.05):
                    met += 1
                    assert plateau.last_bytes <= 1.02 * capacity
                    assert capacity <= (plateau.next_bytes or math.inf)
    assert met >= 0.9 * 20 * len(machine[:-1])


@each("per_octave", [2, 4])
@each("name", MACHINES)
def test_the_first_capacity_and_memory_are_right_under_random_replacement_too(name, per_octave):
    machine = MACHINES[name]
    for seed in range(20):
        found = find_plateaus(simulated(machine, per_octave, seed, last=64 * GIB, latency=random_replacement))
        assert found[0].last_bytes <= machine[0][0] <= found[0].next_bytes
        assert found[-1].ns == pytest.approx(machine[-1][1], rel=0.05)


def test_one_level_is_not_reported_as_two():
    # the last point of the ramp is just under a tenth below the plateau, which then rises by one in a hundred
    values = [90.5] + [100.0] * 4 + [101.0] * 20
    samples = [CurvePoint(size, ns, ns, ns) for size, ns in zip(sizes(4), values, strict=False)]
    assert [p.next_bytes for p in find_plateaus(samples)] == [None]


@pytest.mark.parametrize("per_octave", [2, 4])
def test_a_small_step_is_not_placed_beyond_the_capacity_it_comes_from(per_octave):
    # the far partition of a GPU's cache: a third slower from 25 MiB on
    machine = ((256 * KIB, 20.0), (25 * MIB, 150.0), (50 * MIB, 195.0), (math.inf, 480.0))
    for seed in range(10):
        found = find_plateaus(simulated(machine, per_octave, seed, noise=0.005))
        # the sweep's next point beyond 25 MiB is 3% slower, which is near what the tolerance takes for drift
        assert found[1].last_bytes <= 1.1 * 25 * MIB
        assert found[1].next_bytes >= 25 * MIB


def test_a_plateau_begins_after_the_level_before_it():
    for seed in range(20):
        found = find_plateaus(simulated(CPU, 4, seed))
        assert all(b.first_bytes > a.last_bytes for a, b in pairwise(found))
        # it is reached an octave after the knee, less what lies within a tenth of it
        reached = zip(found[1:], CPU, strict=False)
        assert all(capacity <= plateau.first_bytes <= 2.4 * capacity for plateau, (capacity, _) in reached)


@pytest.mark.parametrize("samples", [[], simulated(CPU)[:1], simulated(CPU)[:2], simulated(CPU)[:4]])
def test_a_curve_of_less_than_an_octave_has_no_plateau(samples):
    assert find_plateaus(samples) == []
    assert not has_settled(samples, 0)


def test_an_octave_is_a_plateau():
    (found,) = find_plateaus(simulated(CPU, 4)[:5])
    assert (found.first_bytes, found.last_bytes, found.next_bytes) == (4 * KIB, 8 * KIB, None)


def test_a_steady_climb_has_no_plateau():
    climb = [CurvePoint(size, ns := size**0.5, ns, ns) for size in sizes(4)]
    assert find_plateaus(climb) == []


def test_noise_beyond_the_tolerance_makes_no_level():
    assert find_plateaus(simulated(((math.inf, 100.0),), noise=0.5, seed=1)) == []


def noisy_beyond(size, noise, quiet_noise, seed):
    """A CPU's curve at two points an octave, quieter up to a size than beyond it, as where pages lie scattered."""
    rng = np.random.default_rng(seed)
    machine = ((48 * KIB, 2.0), (MIB, 6.0), (8 * MIB, 40.0), (math.inf, 150.0))
    values = [
        (s, ramp(s, machine) * math.exp((quiet_noise if s <= size else noise) * rng.standard_normal()))
        for s in sizes(2, 512 * MIB)
    ]
    return [CurvePoint(s, v, v, v) for s, v in values]


def test_noise_of_larger_sets_hides_no_nearest_cache():
    found = [find_plateaus(noisy_beyond(MIB, 0.25, 0.03, seed)) for seed in range(40)]
    firsts = [plateaus[0] for plateaus in found if plateaus and plateaus[0].first_bytes <= 8 * KIB]
    assert len(firsts) >= 36 and all(p.ns == pytest.approx(2.0, rel=0.05) for p in firsts)


def test_points_that_agree_by_chance_in_noise_are_no_nearest_cache():
    found = [find_plateaus(noisy_beyond(4 * KIB, 0.25, 0.25, seed)) for seed in range(200)]
    assert sum(bool(plateaus and plateaus[0].first_bytes <= 8 * KIB) for plateaus in found) <= 4


def test_a_change_of_frequency_makes_no_knee():
    # 4 cycles throughout, while the clock falls from 4 to 2 GHz half way
    ghz = [4.0 if size < MIB else 2.0 for size in sizes(4)]
    steady = [CurvePoint(size, 4 / g, 4 / g, 4 / g, 4.0) for size, g in zip(sizes(4), ghz, strict=True)]
    (found,) = find_plateaus(steady)
    assert (found.cycles, found.last_bytes, found.next_bytes) == (4.0, 4 * GIB, None)
    assert len(find_plateaus([replace(s, cycles=None) for s in steady])) == 2


def test_bad_readings_of_the_clock_hide_no_level():
    # a clean curve in ns, whose clock was read with an error of a third, as on a busy host
    generator = np.random.default_rng(5)
    samples = [replace(s, cycles=s.ns * float(generator.lognormal(1.0, 0.3))) for s in simulated(CPU, 4)]
    clean = [replace(s, cycles=None) for s in samples]
    assert [(p.first_bytes, p.last_bytes) for p in find_plateaus(samples)] == [
        (p.first_bytes, p.last_bytes) for p in find_plateaus(clean)
    ]
    assert len(find_plateaus(samples)) == len(CPU)


def grown(machine, floor, per_octave=4, seed=0, last=16 * GIB):
    """Where an octave-by-octave sweep stops; None if it never settles."""
    samples = simulated(machine, per_octave, seed, last=last)
    for end in range(per_octave, len(samples) + 1, per_octave):
        if has_settled(samples[:end], floor):
            return samples[end - 1].array_bytes
    return None


@each("per_octave", [2, 4])
@each(
    ("machine", "info", "latest"),
    [
        (CPU, device(kind="cpu", cache_bytes=32 * MIB), GIB),
        (H100, device(kind="gpu", cache_bytes=50 * MIB), 2 * GIB),
        (BIG_CACHE, device(kind="cpu", cache_bytes=300 * MIB), 8 * GIB),
        (BIG_CACHE, device(kind="gpu", cache_bytes=4 * MIB), 8 * GIB),
    ],
)
def test_a_sweep_settles_in_memory_and_never_before(machine, info, latest, per_octave):
    largest_cache = machine[-2][0]
    for seed in range(20):
        stopped = grown(machine, memory_floor_bytes(info), per_octave, seed)
        assert stopped is not None
        assert 4 * largest_cache <= stopped <= latest
        assert stopped >= memory_floor_bytes(info)


def test_a_large_cache_would_pass_for_memory_without_the_floor():
    assert grown(BIG_CACHE, 0) < 300 * MIB


def test_a_curve_without_a_knee_has_not_settled():
    assert not has_settled(simulated(((math.inf, 100.0),)), 0)


def test_a_curve_that_ends_on_a_ramp_has_not_settled():
    assert not has_settled([s for s in simulated(H100) if s.array_bytes < 80 * MIB], 0)


def test_a_ramp_into_memory_does_not_hide_where_it_settles():
    # an H200's: the ramp moved the median of the whole stretch, by which the largest set was 2.5% too slow to be memory
    end = (234, 269, 312, 326, 331.5, 335.7, 328.6, 334, 340.3)
    values = [16.2] * 13 + [138] * 13 + [*end]
    curve = [CurvePoint(int(4 * KIB * 2 ** (n / 2)), ns, 0.99 * ns, 1.01 * ns) for n, ns in enumerate(values)]
    assert has_settled(curve, 512 * MIB)
    assert find_plateaus(curve)[-1].ns == pytest.approx(334, rel=0.005)


def test_the_floor_is_four_times_the_claimed_cache_and_twice_the_largest_cache_a_gpu_hides():
    assert memory_floor_bytes(device(kind="cpu", cache_bytes=32 * MIB)) == 128 * MIB
    assert memory_floor_bytes(device(kind="gpu", cache_bytes=32 * MIB)) == 512 * MIB
    assert memory_floor_bytes(device(kind="gpu", cache_bytes=300 * MIB)) == 1200 * MIB


def chase(size, ns, **changes):
    return slope({"array_bytes": size}, [ns] * 8, **changes)


def test_a_curve_is_its_points_in_order_of_size():
    found = curve_points([chase(8192, 2.0), chase(4096, 1.0, core_clock=clock(3.0))], LATENCY, "array_bytes")
    assert [(s.array_bytes, s.ns, s.cycles) for s in found] == [(4096, 1.0, pytest.approx(3.0)), (8192, 2.0, None)]


def test_a_curve_leaves_out_what_has_no_value():
    bad = [
        chase(8192, 2.0, status="failed"),
        chase(16384, 2.0, role="tune"),
        slope({"array_bytes": 32768}, [1.0] * 3),  # no interval
        chase(65536, -1.0),
        replace(chase(131072, 2.0), series=()),
    ]
    assert [s.array_bytes for s in curve_points([chase(4096, 1.0), *bad], LATENCY, "array_bytes")] == [4096]
    assert curve_points([], LATENCY, "array_bytes") == []


def test_a_curve_pools_the_processes_of_a_point():
    (found,) = curve_points([chase(4096, ns, process=i) for i, ns in enumerate((1.0, 2.0, 4.0))], LATENCY, "array_bytes")
    assert (found.ns, found.low, found.high) == (2.0, 1.0, 4.0)


def test_a_curve_takes_each_processes_own_clock():
    records = [chase(4096, 10.0, core_clock=clock(2.0)), chase(4096, 20.0, core_clock=clock(1.0), process=1)]
    (found,) = curve_points(records, LATENCY, "array_bytes")
    assert (found.ns, found.cycles) == (15.0, pytest.approx(20.0))


def test_a_stored_curve_gives_the_levels_it_was_made_from():
    rng = np.random.default_rng(5)
    records = [slope({"array_bytes": s}, list(ramp(s, H100) * (1 + 0.01 * rng.standard_normal(12)))) for s in sizes(4, 2 * GIB)]
    found = find_plateaus(curve_points(records, LATENCY, "array_bytes"))
    assert [p.ns for p in found] == pytest.approx([20.0, 150.0, 480.0], rel=0.05)


def test_sets_that_every_first_cache_holds_tell_its_latency_where_the_curve_is_too_noisy_for_plateaus():
    """A core of an EPYC that others use: 4 to 32 KiB in 1.33 to 1.65 ns, behind it whatever the others leave."""
    ns = (1.60, 1.40, 1.39, 1.37, 1.33, 1.65, 1.49, 4.05, 4.01, 4.25, 4.30, 5.80, 6.53, 13.4, 16.8, 17.3, 276, 24.2, 150, 152)
    kib = (4, 5, 8, 11, 16, 22, 32, 45, 64, 90, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896)
    busy = [CurvePoint(size * KIB, value, 0.97 * value, 1.03 * value) for size, value in zip(kib, ns, strict=True)]
    assert find_plateaus(busy) == []
    found = nearest_cache(busy)
    assert found.ns == 1.40 and (found.low, found.high) == (0.97 * 1.39, 1.03 * 1.60) and found.last_bytes == 8 * KIB
    assert nearest_cache(busy[1:]) is None  # two points
    tiny = [replace(busy[0], ns=0.5), *busy[1:]]  # a first cache of 4 KiB
    assert nearest_cache(tiny) is None
    quiet = simulated(CPU, 4, 1)
    assert nearest_cache(quiet) == find_plateaus(quiet)[0]
