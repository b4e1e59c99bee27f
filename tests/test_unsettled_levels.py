"""infer.hierarchy.unsettled_levels: levels of which nothing is known are one."""

from clmembench.infer.findings import measured_finding, undetermined_finding
from clmembench.infer.hierarchy.unsettled_levels import UNSETTLED, with_unsettled_merged
from clmembench.model import CacheLevel


def unsettled(name, low, high, **more):
    size = undetermined_finding("size_bytes", "not flat", "", (name,), low, high)
    return CacheLevel(
        name, "global", {"size_bytes": size, "latency_cycles": undetermined_finding("latency_cycles", "?"), **more}
    )


def settled(name):
    return CacheLevel(name, "global", {"size_bytes": measured_finding("size_bytes", 1024, "laps", ("chase:1",))})


def test_a_run_of_levels_of_which_nothing_is_known_is_one():
    found = with_unsettled_merged([settled("L1"), unsettled("L2", 10, 20), unsettled("L3", 30, None), unsettled("L4", 50, 70)])
    assert [level.name for level in found] == ["L1", "L2"] and found[0].findings["size_bytes"].value == 1024
    size = found[1].findings["size_bytes"]
    assert (size.low, size.high, size.reason) == (10, 70, UNSETTLED) and size.evidence == ("L2", "L3", "L4")
    assert found[1].findings["latency_cycles"].reason == UNSETTLED


def test_what_is_known_of_a_level_keeps_it():
    known = measured_finding("latency_cycles", 20.0, "laps", ("chase:1",))
    levels = [settled("L1"), unsettled("L2", 10, 20), unsettled("L3", 30, 40, latency_cycles=known), unsettled("L4", 50, 70)]
    assert with_unsettled_merged(levels) == levels
    assert with_unsettled_merged([]) == []
