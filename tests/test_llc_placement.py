"""placed: partitions of the last cache joined with levels, and latencies that hold for all compute units."""

from __future__ import annotations

import numpy as np
import pytest

from clmembench.infer.findings import measured_finding, undetermined_finding
from clmembench.infer.hierarchy import llc_placement
from clmembench.infer.hierarchy.partitions import LatencyMap
from clmembench.model import CacheLevel, Hierarchy

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
