"""placed: partitions of the last cache joined with levels, and latencies that hold for all compute units."""

from __future__ import annotations

import numpy as np
import pytest

from clmembench.model import CacheLevel, Hierarchy
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.sharing import llc_placement
from clmembench.studies.hierarchy.sharing.partitions import LatencyMap
from tests.shared_storage import units_record

UNITS, LINES = 8, 64


def level(name: str, cycles: float | None, space: str = "global") -> CacheLevel:
    if cycles is None:
        return CacheLevel(name, space, {"latency_cycles": undetermined_finding("latency_cycles", "no plateau")})
    ends = cycles - 1, cycles + 1
    return CacheLevel(
        name,
        space,
        {
            "latency_cycles": measured_finding("latency_cycles", cycles, "whole laps", ("chase:9",), *ends),
            "latency_ns": measured_finding("latency_ns", cycles / 2, "whole laps", ("chase:9",), ends[0] / 2, ends[1] / 2),
        },
    )


def mapped(monkeypatch, first: float, last: float, levels, image=()) -> Hierarchy:
    """A hierarchy with a map of units whose means rise from `first` to `last`."""
    cycles = np.repeat(np.linspace(first, last, UNITS)[:, None], LINES, axis=1)
    records = [type("Kept", (), {"benchmark": "l2_map", "params": {"access": "load"}})()]
    monkeypatch.setattr(
        llc_placement.partitions, "measured_map", lambda record: LatencyMap(cycles, tuple(range(UNITS)), ("l2_map:3:0",))
    )
    return llc_placement.place_last_cache(Hierarchy(levels=tuple(levels), image=tuple(image)), records).hierarchy


def ends(level: CacheLevel, name: str = "latency_cycles") -> tuple[float, float]:
    found = level.findings[name]
    return found.low, found.high


def test_what_lies_beyond_the_first_level_holds_for_all_compute_units(monkeypatch):
    found = mapped(
        monkeypatch, 260, 300, [level("L1", 30), level("L2", 270), level("DRAM", 600)], [level("L2", 320, "image1d")]
    )
    first, second, memory = found.levels
    assert ends(first) == (29, 31)
    assert ends(second) == (259, 301) and ends(second, "latency_ns") == pytest.approx((129.5, 150.5))
    assert ends(memory) == (589, 631)
    assert ends(found.image[0]) == (309, 351)
    assert [one.findings["latency_cycles"].value for one in found.levels] == [30, 270, 600]


@pytest.mark.parametrize(
    "levels", [[level("L1", 30), level("L2", None)], [level("L1", 30)], [level("L1", 30), level("L2", 900)]]
)
def test_a_map_of_something_else_changes_no_interval(monkeypatch, levels):
    found = mapped(monkeypatch, 260, 300, levels)
    assert [one.findings["latency_cycles"] for one in found.levels] == [one.findings["latency_cycles"] for one in levels]


@pytest.mark.parametrize(("own", "expected"), [(95, (89, 109)), (107.5, (89, 109)), (200, (199, 201)), (None, (None, None))])
def test_the_second_cache_of_constants_holds_for_all_compute_units(own, expected):
    given = Hierarchy(
        (), constant=(level("L1", 28, "constant_array"), level("L2", own, "constant_array"), level("L1", 41, "constant"))
    )
    asked = [units_record([range(8), range(8, 16)], warm=99, spread=9)]
    first, second, pointer = llc_placement.place_last_cache(given, asked).hierarchy.constant
    assert ends(second) == pytest.approx(expected)  # its own interval about the least and the most
    assert (first, pointer) == (given.constant[0], given.constant[2])
    assert (second == given.constant[1]) == (own is None or own == 200)


MIB = 1 << 20


def partitioned(monkeypatch, levels) -> dict:
    """The second level's findings, beside a map of two partitions, near at 280 and far at 480 cycles."""
    near = np.arange(UNITS)[:, None] % 2 == np.arange(LINES)[None, :] % 2
    cycles = np.where(near, 280.0, 480.0) + np.linspace(0, 4, LINES)
    records = [type("Kept", (), {"benchmark": "l2_map", "params": {"access": "atomic"}})()]
    monkeypatch.setattr(
        llc_placement.partitions, "measured_map", lambda record: LatencyMap(cycles, tuple(range(UNITS)), ("l2_map:3:0",))
    )
    return llc_placement.place_last_cache(Hierarchy(levels=tuple(levels)), records).hierarchy.levels[1].findings


def sized(name: str, cycles: float | None, low: int, high: int | None) -> CacheLevel:
    size = undetermined_finding("size_bytes", "too large", "plateau", ("chase:4",), low * MIB, high and high * MIB)
    plain = level(name, cycles)
    return CacheLevel(name, "global", {**plain.findings, "size_bytes": size})


def bounds(found) -> tuple[float | None, float | None]:
    return found.low and found.low / MIB, found.high and found.high / MIB


def test_a_third_level_as_slow_as_far_lines_is_the_far_part(monkeypatch):
    found = partitioned(monkeypatch, [level("L1", 30), sized("L2", 281, 27, 35), sized("L3", 520, 50, 130), level("DRAM", 650)])
    assert bounds(found["near_bytes"]) == (27, 35) and bounds(found["size_bytes"]) == (50, 130)
    assert found["latency_far_cycles"].value == 520 and found["partitions"].value == 2


def test_without_a_plateau_of_the_far_part_the_whole_is_only_bounded_from_below(monkeypatch):
    found = partitioned(monkeypatch, [level("L1", 30), sized("L2", 281, 27, 35), level("DRAM", 650)])
    assert bounds(found["near_bytes"]) == (27, 35) and bounds(found["size_bytes"]) == (27, None)
    assert found["size_bytes"].reason == llc_placement.NO_FAR_PLATEAU


@pytest.mark.parametrize("cycles", [380, None])
def test_a_level_whose_lines_are_near_and_far_alike_is_the_whole(monkeypatch, cycles):
    found = partitioned(monkeypatch, [level("L1", 30), sized("L2", cycles, 27, 35), level("DRAM", 650)])
    assert bounds(found["size_bytes"]) == (27, 35) and "near_bytes" not in found
