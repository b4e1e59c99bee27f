"""partitions: how many, near and far, and who belongs where, from simulated maps; nothing from one plateau."""

import numpy as np
import pytest

from clmembench.model import Series, Trace
from clmembench.studies.hierarchy.sharing.partitions import LatencyMap, find_partitions, measured_map
from tests.builders import record, slope
from tests.cases import each

UNITS, LINES = 132, 256


def simulated(count, near=270.0, far=480.0, noise=6.0, seed=1, units=UNITS, lines=LINES):
    """A map of `count` partitions, and where each unit and line is: units and slices differ by their place on the chip."""
    rng = np.random.default_rng(seed)
    of_unit, of_line = rng.permutation(np.arange(units) % count), rng.integers(count, size=lines)
    plateau = np.where(of_unit[:, None] == of_line[None, :], near, far)
    place = rng.normal(0, 6, (units, 1)) + rng.normal(0, 6, (1, lines))
    cycles = plateau + place + rng.normal(0, noise, (units, lines))
    late = rng.random((units, lines)) < 0.003
    return LatencyMap(cycles + late * rng.uniform(0, 2000, (units, lines)), tuple(range(units)), ("run:1",)), of_unit, of_line


def same_groups(found, truth):
    """Whether two numberings group alike."""
    pairs = set(zip(found, truth.tolist(), strict=True))
    return len(pairs) == len(set(found)) == len(set(truth.tolist()))


@each("count", [2, 4])
@each("seed", range(4))
def test_partitions_and_their_plateaus_are_found(count, seed):
    cycles, of_unit, of_line = simulated(count, seed=seed)
    found = find_partitions(cycles)
    f = found.findings
    assert f["partitions"].value == count and f["partitions"].status == "ok"
    assert same_groups(found.of_unit, of_unit) and same_groups(found.of_line, of_line)
    assert f["near_cycles"].value == pytest.approx(270, rel=0.02) and f["far_cycles"].value == pytest.approx(480, rel=0.02)
    assert f["near_cycles"].low < 270 < f["near_cycles"].high < f["far_cycles"].low
    assert sum(map(int, f["units_each"].value.split(" + "))) == UNITS
    assert f["partitions"].evidence == ("run:1",)


@each("seed", range(8))
def test_one_partition_is_undetermined(seed):
    found = find_partitions(simulated(1, seed=seed)[0])
    assert {f.status for f in found.findings.values()} == {"undetermined"}
    assert "one group" in found.findings["partitions"].reason
    assert set(found.of_unit) == set(found.of_line) == {-1}


def test_a_slope_over_the_chip_is_no_partition():
    """Latency that grows with distance from 200 to 500 cycles, with no gap."""
    rng = np.random.default_rng(1)
    cycles = 200 + 300 * np.abs(rng.random((UNITS, 1)) - rng.random((1, LINES)))
    found = find_partitions(LatencyMap(cycles, tuple(range(UNITS)), ("run:1",))).findings["partitions"]
    assert found.value is None and "one group" in found.reason


def test_lines_that_are_slow_for_all_are_no_partition():
    cycles, _, _ = simulated(1)
    cycles.cycles[:, ::3] += 300
    found = find_partitions(cycles).findings["partitions"]
    assert found.value is None and "far from all" in found.reason


def test_units_that_are_slow_for_all_lines_are_no_partition():
    cycles, _, _ = simulated(1)
    cycles.cycles[::3] += 300
    assert find_partitions(cycles).findings["partitions"].value is None


def test_lines_that_are_slow_for_all_belong_nowhere_beside_two_partitions():
    cycles, of_unit, _ = simulated(2)
    cycles.cycles[:, :20] = 700
    found = find_partitions(cycles)
    assert found.findings["partitions"].value == 2
    assert set(found.of_line[:20]) == {-1} and same_groups(found.of_unit, of_unit)


def test_a_unit_near_to_both_belongs_to_neither():
    cycles, _, _ = simulated(2)
    cycles.cycles[7] = 270
    assert find_partitions(cycles).of_unit[7] == -1


@pytest.mark.parametrize("shape", [(0, 0), (1, 256), (132, 1)])
def test_a_map_of_nothing_tells_nothing(shape):
    found = find_partitions(LatencyMap(np.full(shape, 270.0), tuple(range(shape[0])), ("run:1",)))
    assert found.findings["partitions"].value is None and len(found.of_unit) == shape[0]
    assert {f.status for f in found.findings.values()} == {"undetermined"}


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_clock_that_stands_still_or_tells_nothing_has_no_plateaus(value):
    cycles, _, _ = simulated(2)
    cycles.cycles[: UNITS if value == 0 else 1] = value
    found = find_partitions(cycles).findings
    assert {f.value for f in found.values()} == {None}


def test_findings_have_numbers_with_their_ranges():
    findings = find_partitions(simulated(2)[0]).findings
    near = findings["near_cycles"]
    assert findings["partitions"].value == 2 and near.low < near.value < near.high
    assert findings["units_each"].value == "66 + 66"


def stored(cycles, steps, overhead, units, samples=4):
    """A series of l2_map of `steps` accesses a line."""
    rows, lines = cycles.shape
    ticks = (cycles * steps + overhead).astype(np.uint32).ravel()
    reads = {
        "ticks": Trace.pack("cycles", [ticks] * samples),
        "unit": Trace.pack("", [np.array(units, dtype=np.uint32)] * samples),
    }
    times = (1000,) * samples
    return Series(0, 0, rows * lines * steps, "device", 1, (), times, times, None, times, reads=reads)


def test_a_record_gives_its_map_without_the_clocks_own_cost():
    cycles = np.arange(200, 212, dtype=float).reshape(3, 4)
    works = stored(cycles, 12, 90, (4, 5, 9)), stored(cycles, 4, 90, (4, 5, 9))
    found = measured_map(record("l2_map", {"access": "load"}, *works, index=7))
    assert np.allclose(found.cycles, cycles) and found.units == (4, 5, 9) and found.evidence == ("l2_map:7:0",)


def test_a_row_that_was_not_measured_is_left_out():
    nowhere = 0xFFFFFFFF
    cycles = np.full((3, 4), 250.0)
    works = stored(cycles, 4, 90, (4, nowhere, 9)), stored(cycles, 12, 90, (4, nowhere, 9))
    found = measured_map(record("l2_map", {"access": "load"}, *works))
    assert found.units == (4, 9) and found.cycles.shape == (2, 4)


def test_a_record_without_ticks_has_no_map():
    assert measured_map(slope({"access": "load"}, [10.0] * 8)) is None
    assert measured_map(record("l2_map", {"access": "load"}, status="skipped")) is None
