"""gates.consistency: topology, pchase and cache_read of one device that exclude each other, and those that do not."""

from dataclasses import replace

import pytest

from clmembench.analysis import plateaus
from clmembench.analysis.derive import derive
from clmembench.cli.program import app
from clmembench.gates.whole import judged_run
from clmembench.model import CHASE_BENCHMARK, BenchmarkInfo, CacheLevel, Hierarchy, Metric, TlbLevel
from clmembench.model.findings import measured_finding
from clmembench.results import jsonl
from clmembench.studies.hierarchy import from_runs
from clmembench.studies.hierarchy.consistency import across, conflicts, same_device
from clmembench.studies.hierarchy.curve.curve_findings import memory_level
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.plan import probe_limits, replay
from clmembench.studies.hierarchy.views.section import HierarchyFindings
from tests.builders import CHASE, clock, device, header, record, run, series, slope, write_run
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, plain

IDS = ("chase:1", "chase:2")
CPU = device("Xeon", kind="cpu", cache_bytes=480 * MIB, host_mem_bytes=8 << 30, max_alloc_bytes=2 << 30)
READ = BenchmarkInfo(
    1,
    "access",
    "Reads.",
    "Mei & Chu 2015",
    (Metric("read_bandwidth", "GB/s", "nbytes", "slope_rate", "higher"),),
    x="set_bytes",
)


def latency(ns, spread=0.03):
    ends = ns * (1 - spread), ns * (1 + spread)
    return {"latency_ns": measured_finding("latency_ns", ns, "whole laps", IDS, *ends),
            "latency_cycles": measured_finding("latency_cycles", 2 * ns, "whole laps", IDS,
                2 * ends[0], 2 * ends[1])}  # fmt: skip


def level(name, ns, size=None):
    found = (
        {}
        if size is None
        else {"size_bytes": measured_finding("size_bytes", size, "largest working set", IDS, 0.97 * size, size)}
    )
    return CacheLevel(name, "global", {**found, **latency(ns)})


def hierarchy(memory_ns, *penalties, sizes=(32 * KIB, MIB), ns=(2.0, 8.0)):
    tlbs = [
        TlbLevel(f"L{n + 1} TLB", {"penalty_ns": measured_finding("penalty_ns", p, "", IDS, p, p)})
        for n, p in enumerate(penalties)
    ]
    caches = [level(f"L{n + 1}", t, s) for n, (s, t) in enumerate(zip(sizes, ns, strict=True))]
    return Hierarchy((*caches, level("DRAM", memory_ns)), tuple(tlbs))


def chased(ns_of, info=CPU, last=512 * MIB, **changes):
    """A run of pchase whose latencies in ns are a function of the size."""
    sizes = [4 * KIB << n for n in range(40) if 4 * KIB << n <= last]
    points = [
        slope({"array_bytes": s, "spacing_bytes": "line"}, [ns_of(s), 1.001 * ns_of(s)] * 8, index=n, core_clock=clock(2.0))
        for n, s in enumerate(sizes)
    ]
    return run(points, header(info, {"pchase": CHASE}, **changes))


def stepped(memory_ns, l1=2.0, l2=8.0):
    return lambda size: l1 if size <= 32 * KIB else l2 if size <= MIB else memory_ns


def reads(rates, info=CPU):
    """A run of cache_read of own sets, GB/s by bytes."""
    kept = [
        record("cache_read", {"set": "own", "path": "plain", "set_bytes": size, "unit_items": 1},
               *(series([round(n * size * 1000 / rate) for _ in range(8)], nbytes=n * size * 1000) for n in (1, 3)), index=k)
        for k, (size, rate) in enumerate(rates.items())
    ]  # fmt: skip
    return run(kept, header(info, {"cache_read": READ}))


def test_a_hierarchy_and_a_chase_of_the_same_memory_do_not_conflict():
    for memory, found in ((100.0, hierarchy(100.0)), (140.0, hierarchy(100.0, 3.0, 12.0)), (99.0, hierarchy(110.0))):
        (alone, kept), (same, _) = across([run([]), chased(stepped(memory))], [found, None])
        assert same == found and not alone.records
        assert {r.status for r in kept.records} == {"ok"}


def test_memory_of_62_ns_and_chases_of_210_contradict_each_other():
    """As on a host whose last cache claims 480 MiB: topology told 62 ns, ok, and pchase read 210 to 238 ns."""
    runs = [run([], header(CPU)), chased(stepped(210.0))]
    (_, kept), (found, _) = across(runs, [hierarchy(62.0, 3.0, 10.0), None])
    memory = found.levels[-1].findings
    assert {f.status for f in memory.values()} == {"inconsistent"}
    told = memory["latency_ns"]
    assert told.value is None and "topology says that DRAM" in told.reason and "pchase takes 210" in told.reason
    assert {"chase:1", "pchase:9:0"} <= set(told.evidence)
    assert [f.status for f in found.levels[0].findings.values()] == ["ok"] * 3
    suspects = [r for r in kept.records if r.status == "suspect"]
    assert suspects and all(r.gate == "consistency" and r.reason for r in suspects)
    assert min(r.params["array_bytes"] for r in suspects) == 2 * MIB


def test_a_walk_that_was_measured_explains_a_slow_chase():
    seen = replace(hierarchy(62.0), patterns={"P5_ns": measured_finding("latency_P5_ns", 200.0, "", IDS, 190.0, 212.0, "ns")})
    assert not conflicts(seen, plateaus.curve_points(chased(stepped(230.0)).records, CHASE.metrics[0], "array_bytes"))


@pytest.mark.parametrize(
    ("ns_of", "wrong"),
    [
        (stepped(40.0), {"L2", "DRAM"}),  # far too fast to be memory of 100 ns
        (stepped(100.0, l2=2.0), {"L1", "L2"}),  # a set of 1 MiB as fast as one of 16 KiB
        (stepped(100.0, l1=7.0), {"L1"}),  # the smallest sets are not hits of 2 ns
    ],
)
def test_sizes_and_latencies_that_a_chase_excludes_are_inconsistent(ns_of, wrong):
    found = across([chased(ns_of)], [hierarchy(100.0, 1.0)])[1][0]
    assert {one.name for one in found.levels if any(f.status == "inconsistent" for f in one.findings.values())} == wrong


def test_a_set_of_unknown_translation_is_not_held_against_a_cache():
    slow = chased(lambda size: stepped(100.0)(size) + (9.0 if size > 128 * KIB else 0.0))
    assert not conflicts(hierarchy(100.0), plateaus.curve_points(slow.records, CHASE.metrics[0], "array_bytes"))


def test_bandwidth_that_falls_within_a_level_excludes_its_size():
    falling, even = ({4 * KIB: 400.0, 8 * KIB: last, 64 * KIB: 90.0} for last in (150.0, 390.0))
    found = across([reads(falling)], [hierarchy(100.0)])[1][0]
    assert "cache_read falls from 400 GB/s at 4 KiB to 150 at 8 KiB" in found.levels[0].findings["size_bytes"].reason
    assert across([reads(even)], [hierarchy(100.0)])[1][0] == hierarchy(100.0)
    assert derive(across([reads(falling)], [hierarchy(100.0)])[0][0])[1].status == "suspect"


def test_bandwidth_of_sets_that_a_chase_says_lie_in_one_level_does_not_fall():
    """As of a run of suite access, which has pchase and cache_read."""
    flat = chased(lambda size: 2.0 if size <= 64 * MIB else 90.0)
    for last, wrong in ((150.0, True), (390.0, False)):
        both = reads({4 * KIB: 400.0, 64 * KIB: last})
        head = header(CPU, {"pchase": CHASE, "cache_read": READ})
        judged = judged_run(run([*flat.records, *both.records], head), None)
        found = [r for r in judged.records if r.gate == "knee"]
        assert bool(found) == wrong and all("latency says that both lie in the same level" in r.reason for r in found)


def test_runs_of_other_devices_are_not_held_against_each_other():
    gpu = replace(CPU, kind="gpu")
    other = replace(gpu, uuid="b")
    assert same_device(gpu, other) and not same_device(replace(gpu, uuid="a"), other)
    for info in (replace(CPU, name="EPYC"), replace(CPU, driver="2"), replace(CPU, compute_units=8)):
        assert across([run([], header(CPU)), chased(stepped(210.0), info)], [hierarchy(62.0), None])[1][0] == hierarchy(62.0)


def test_the_committed_runs_of_one_device_agree():
    """Two H100s of one node: not the same device, yet of one kind, whose runs could stand beside each other."""
    from tests.cli.test_evidence import RUNS

    paths = {path.name.partition(".")[0]: path for path in RUNS}
    chases, points = (jsonl.read(paths[name]) for name in ("h100-sxm-topology", "h100-sxm-all"))
    alike = replace(points, header=replace(points.header, device=chases.header.device))
    (_, kept), (found, _) = across([chases, alike], [from_runs.infer_hierarchy(chases), None])
    assert found == from_runs.infer_hierarchy(chases) and kept == alike


def test_a_report_holds_its_runs_against_each_other(tmp_path, capsys, monkeypatch):
    first, second = tmp_path / "chased.jsonl", tmp_path / "points.jsonl"
    write_run(
        first, [replace(slope({"order": "random", "count": 64}, [2.0] * 8), benchmark="chase")], header(CPU, {"chase": CHASE})
    )
    points = chased(stepped(210.0))
    write_run(second, points.records, points.header)
    seen = HierarchyFindings(hierarchy(62.0, 3.0))
    monkeypatch.setattr(from_runs, "hierarchy_of", lambda found: seen if found.has(CHASE_BENCHMARK) else None)
    assert not app(["report", str(first), str(second), "-f", "md"], standalone_mode=False)
    page = capsys.readouterr().out
    assert "inconsistent" in page and "pchase takes 210" in page and "suspect: consistency" in page


# ---- one rule of what memory is -----------------------------------------------------------------------------------------


def test_both_commands_ask_for_the_same_sets_before_they_speak_of_memory():
    for claimed in (0, 32 * MIB, 300 * MIB, 480 * MIB):
        for kind in ("cpu", "gpu"):
            info = replace(CPU, kind=kind, cache_bytes=claimed)
            assert probe_limits(info).floor_bytes == plateaus.memory_floor_bytes(info)


def dissected(device, most_bytes, floor_bytes):
    whole = infer_hierarchy(ProbeLimits(most_bytes, floor_bytes, frozenset({"global"}), 64))
    return replay(whole, lambda probes: [device.answer(probe) for probe in probes])


def test_a_flat_end_that_a_claimed_cache_could_hold_is_not_called_memory():
    path = {"global": Path((Cache(plain(32, 4, 64), 64, 5.0),), 60.0)}
    device = Machine("a large cache is claimed", path, Noise(lap_relative=0.001), 3, no_clock="none", ghz=2.0)
    small = dissected(device, 512 * KIB, 2 * MIB)
    memory = small.levels[-1].findings
    assert memory["latency_ns"].status == "undetermined" and "2 MiB would show memory" in memory["latency_ns"].reason
    assert memory["latency_ns"].low == pytest.approx(30.0, rel=0.03) and memory["latency_ns"].evidence
    assert memory["latency_cycles"].low == pytest.approx(60.0, rel=0.03)
    assert {f.status for n, f in small.patterns.items() if n[:2] in ("P4", "P5")} == {"undetermined"}


def two_levels(last, knee, unit="cycles"):
    """A curve of chases over a cache and what lies beyond it."""
    sizes = [int(4096 * 2 ** (n / 4)) for n in range(100) if 4096 * 2 ** (n / 4) <= last]
    ns = [5.0 if size <= knee else 90.0 for size in sizes]
    held = max(n for n, size in enumerate(sizes) if size <= knee)
    step = CurveStep(10.0, 5.0, 180.0, sizes[held], sizes[held + 1], sizes[held + 1])
    ids = tuple((f"chase:{n}",) for n in range(len(sizes)))
    values = tuple(2 * v for v in ns) if unit == "cycles" else tuple(ns)
    return LatencyCurve(tuple(sizes), values, tuple(ns), (step,), values[-1], ns[-1], 0.001, unit, 0.001, ids)


@each("knee", [32 * KIB, 700 * KIB, 12 * MIB])
@each("octaves", [1, 2, 3, 4, 6])
@each("floor", [0, 4 * MIB, 128 * MIB])
def test_topology_calls_memory_what_pchase_does(knee, octaves, floor):
    curve = two_levels(knee << octaves, knee)
    same = [plateaus.CurvePoint(s, v, 0.99 * v, 1.01 * v) for s, v in zip(curve.sizes, curve.ns, strict=True)]
    (memory,) = memory_level(curve, True, floor)
    assert (memory.findings["latency_ns"].status == "ok") == plateaus.has_settled(same, floor)


def test_what_is_not_surely_memory_has_a_least_latency_in_the_unit_that_is_known():
    (memory,) = memory_level(two_levels(MIB, 32 * KIB, "ns"), True, 4 * MIB)
    assert memory.findings["latency_ns"].low == pytest.approx(90.0, rel=0.01)
    assert memory.findings["latency_cycles"].low is None
    (helped,) = memory_level(two_levels(MIB, 32 * KIB), False, 0)
    assert helped.findings["latency_ns"].status == "undetermined" and helped.findings["latency_ns"].low is None


def test_laps_of_memory_that_differ_much_are_no_one_latency():
    """707 (581 to 834) cycles of 777 were told, where a prefetcher served some accesses."""
    (memory,) = memory_level(replace(two_levels(MIB, 32 * KIB), memory_noise=0.045), True, 0)
    assert (
        memory.findings["latency_cycles"].status == "undetermined"
        and "differ by up to 18%" in memory.findings["latency_ns"].reason
    )
    assert memory.findings["latency_cycles"].low == pytest.approx(0.82 * 180, rel=0.01)
