"""Sets of a level by how misses grow where lines fall into sets by chance: placements simulated apart from the model."""

from functools import lru_cache

import numpy as np
import pytest

from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.curve.set_count import with_sets_of_size
from clmembench.studies.hierarchy.curve.set_ramp import RampOfSets, number_by_ramp, with_sets_by_ramp
from tests.simulated import KIB

LINE, PAGE = 64, 4 * KIB


def placed_misses(rng, sets, ways, nbytes, victims, page):
    """The share of a lap's accesses that miss, counted set by set in a cache that is visited in turns: `page` > 0: whole pages
    fall into places by chance, else each line by itself. `victims`: lru, or random, which is simulated."""
    unit = page or LINE
    places = sets * LINE // unit if page else sets
    held = np.bincount(rng.integers(places, size=max(1, nbytes // unit)), minlength=places)
    missed = 0.0
    for lines, times in zip(*np.unique(held, return_counts=True), strict=True):
        if lines > ways:
            missed += times * (lines if victims == "lru" else drawn_misses(int(lines), ways))
    return missed / held.sum()


@lru_cache
def drawn_misses(lines, ways, laps=300):
    """Misses of a lap over lines of one set in turns, whose victims are drawn."""
    rng = np.random.default_rng((lines, ways))
    cache, missed = list(range(ways)), 0
    for lap in range(laps):
        for line in range(lines):
            if line not in cache:
                cache[int(rng.integers(ways))] = line
                missed += lap >= laps // 4
    return missed / (laps - laps // 4)


def ramp(seed, sets, ways, victims, page, policies=frozenset()):
    """Points of a curve, each the mean of three allocations, and what surely fits."""
    rng = np.random.default_rng((seed, sets, ways))
    capacity, points = sets * ways * LINE, []
    for i in range(-8, 8):
        size = int(capacity * 2 ** (i / 4)) // PAGE * PAGE
        points.append((size, float(np.mean([placed_misses(rng, sets, ways, size, victims, page) for _ in range(3)]))))
    fits = max((size for size, share in points if share < 0.01), default=points[0][0])
    kept = [point for point in points if point[1] <= 0.95]
    return RampOfSets(tuple(kept), ways, LINE, page, policies), fits


@pytest.mark.parametrize("page", [0, PAGE])
@pytest.mark.parametrize(("victims", "policy"), [("lru", "LRU"), ("random", "random")])
@pytest.mark.parametrize(("sets", "ways"), [(1024, 8), (512, 16), (1536, 4)])
@pytest.mark.slow
def test_the_growth_of_misses_tells_the_sets(page, victims, policy, sets, ways):
    found = [number_by_ramp(*ramp(seed, sets, ways, victims, page, frozenset({policy}))) for seed in range(3)]
    assert set(found) <= {sets, None} and sets in found


def test_no_wrong_number_where_the_policy_is_not_known():
    found = []
    for seed in range(6):
        for sets, ways in ((256, 8), (768, 12), (2048, 4), (1280, 8)):
            for victims in ("lru", "random"):
                found.append((number_by_ramp(*ramp(seed, sets, ways, victims, PAGE if seed % 2 else 0)), sets))
    assert all(said in (None, true) for said, true in found)
    assert sum(said == true for said, true in found) > len(found) // 3


def test_a_curve_without_a_ramp_tells_nothing():
    steep = RampOfSets(((32 * KIB, 0.0), (64 * KIB, 0.0), (72 * KIB, 1.0)), 8, LINE, PAGE)
    assert number_by_ramp(steep, 64 * KIB) is None
    assert number_by_ramp(RampOfSets((), 8, LINE, PAGE), 64 * KIB) is None


def level(**found):
    names = ("size_bytes", "line_bytes", "ways", "sets", "policy")
    given = {
        name: measured_finding(name, found[name], "", ("r",)) if name in found else undetermined_finding(name, "")
        for name in names
    }
    if "size_bytes" not in found:
        given["size_bytes"] = undetermined_finding("size_bytes", "", low=found.get("low"))
    return given


def test_a_level_gets_its_sets_and_its_size():
    points, fits = ramp(2, 1024, 8, "lru", PAGE)
    sizes = tuple(size for size, _ in points.points)
    values = tuple(12 + 30 * share for _, share in points.points)
    step = CurveStep(12.0, 3.0, 42.0, fits, 2 * fits, sizes[-1])
    curve = LatencyCurve(sizes, values, values, (step,), 42.0, 10.0, 0.001, records=(("curve",),) * len(sizes))
    found = with_sets_by_ramp(level(line_bytes=64, ways=8, policy="LRU", low=float(fits)), curve, step, PAGE)
    assert (found["sets"].value, found["size_bytes"].value) == (1024, 512 * KIB)
    for left in (level(line_bytes=64, low=float(fits)), level(ways=8, low=float(fits)), level(size_bytes=512 * KIB, ways=8)):
        assert with_sets_by_ramp(left, curve, step, PAGE) == left


@pytest.mark.parametrize(
    ("size", "ways", "expected"), [(128 * KIB, 8, 256), (160 * KIB + 320, 8, 320), (150 * KIB, 8, None), (128 * KIB, 7, None)]
)
def test_size_over_ways_and_line(size, ways, expected):
    assert with_sets_of_size(level(size_bytes=size, line_bytes=64, ways=ways))["sets"].value == expected


def overlapping_pages(seed, sets, ways):
    """As `ramp`, of pages whose lines fall into sets modulo their number, of which a page fills no whole part; victims are
    drawn."""
    rng, lines = np.random.default_rng((seed, sets, ways)), PAGE // LINE
    capacity, points = sets * ways * LINE, []
    for i in range(-8, 8):
        pages, shares = max(1, int(capacity * 2 ** (i / 4)) // PAGE), []
        for _ in range(3):
            frames = rng.integers(1 << 20, size=pages)
            held = np.bincount((frames[:, None] * lines + np.arange(lines)).ravel() % sets, minlength=sets)
            shares.append(sum(n * drawn_misses(int(k), ways) for k, n in enumerate(np.bincount(held)) if k > ways) / held.sum())
        points.append((pages * PAGE, float(np.mean(shares))))
    fits = max((size for size, share in points if share < 0.01), default=points[0][0])
    return RampOfSets(
        tuple(point for point in points if point[1] <= 0.95), ways, LINE, PAGE, frozenset({"random", "NRU"})
    ), fits


def test_sets_by_a_modulus_are_not_taken_for_a_power_of_two_of_another_policy():
    """96 sets of drawn victims lose as many lines as 128 of NRU, unless pages that overlap are reckoned with."""
    found = [number_by_ramp(*overlapping_pages(seed, 96, 4)) for seed in range(6)]
    assert set(found) <= {96, None}
