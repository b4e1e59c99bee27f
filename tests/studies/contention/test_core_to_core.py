"""Lines handed between compute units: verified on PoCL, and clusters of matrices whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from clmembench.cli.running.session import cards
from clmembench.host import cpu_topology
from clmembench.host.processes import busiest_threads
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip, Trace
from clmembench.report.frame import judged_rows, parts
from clmembench.studies.contention import figures
from clmembench.studies.contention.benchmarks.core_to_core import LINES, core_to_core
from clmembench.studies.contention.pair_clusters import PairMap, find_clusters, same_division
from clmembench.studies.contention.pair_tables import NO_PAIRS, pair_map, sections
from tests.builders import header, open_cpu, record, run, series
from tests.cases import each


def test_lines_go_to_and_fro_and_fewer_turns_are_seen():
    device = open_cpu(features=frozenset({"tsc"}))
    try:
        alone = core_to_core.prepare(open_cpu()).work(30)
        assert not alone.reads
        prepared = core_to_core.prepare(device)
        assert check_outputs(device, prepared.work(30)) == ""
        device.run([*prepared.work(30).before, *prepared.work(10).commands])
        with pytest.raises(AssertionError, match="handed over"):
            prepared.work(30).check()
    except Skip as skip:
        pytest.skip(str(skip))


def matrix(divisions, latencies, noise, seed, count=16):
    """Latencies of pairs by the finest division that holds both, else the last one, with noise."""
    rng = np.random.default_rng(seed)
    ns = np.full((count, count), float(latencies[-1]))
    for division, latency in reversed(list(zip(divisions, latencies, strict=False))):
        numbers = np.array(division)
        ns[numbers[:, None] == numbers[None, :]] = latency
    upper = np.triu(ns * np.exp(noise * rng.standard_normal(ns.shape)), 1)
    found = upper + upper.T
    np.fill_diagonal(found, np.nan)
    return PairMap(found, tuple(range(count)))


def of_size(size, count=16):
    return [n // size for n in range(count)]


TRUTHS = {
    "threads of a core, sockets": ([of_size(2), of_size(8)], (10, 50, 120)),
    "four shared caches": ([of_size(4)], (25, 90)),
    "two partitions": ([of_size(8)], (300, 390)),
    "unequal": ([[0] * 10 + [1] * 6], (50, 90)),
}


@each("name", TRUTHS)
def test_clusters_are_found_in_noise(name):
    divisions, latencies = TRUTHS[name]
    for seed in range(20):
        levels, why = find_clusters(matrix(divisions, latencies, 0.03, seed))
        assert [same_division(a.of_unit, b) for a, b in zip(levels, divisions, strict=True)] == [True] * len(divisions)
        assert not why
        assert levels[0].within_ns == pytest.approx(latencies[0], rel=0.05)


def test_matrices_without_structure_have_one_cluster():
    rng = np.random.default_rng(7)
    for seed in range(100):
        noise = (0.02, 0.05, 0.1, 0.2)[seed % 4]
        assert find_clusters(matrix([], (100,), noise, seed, 4 + seed % 20))[0] == []
        # units near to and far from everything, as by their distance from a line's home
        far = np.where(rng.random(12) < 0.5, 100.0, 160.0)
        assert find_clusters(PairMap(far[:, None] + far[None, :], tuple(range(12))))[0] == []
    assert "one cluster" in find_clusters(matrix([], (100,), 0.1, 1))[1]
    assert "clusters need" in find_clusters(matrix([], (100,), 0.1, 1, 3))[1]


def measured(facts, disturbed=3):
    """A run of eight CPUs, two cores by two of each; 0.5 ns a tick, and 1 us of a launch. Of so many samples the shorter launch
    of a pair was disturbed."""
    truth = matrix([of_size(2, 8), of_size(4, 8)], (10, 40, 100), 0.0, 1, 8)
    pairs = [(a, b) for a in range(8) for b in range(a + 1, 8)]
    units = np.array(pairs, np.uint32).ravel()
    rng, works = np.random.default_rng(2), []
    for rounds in (100, 300):
        lines = 4 * rounds * np.array([truth.ns[pair] for pair in pairs])[:, None] * np.ones(LINES)  # 0.5 ns a tick
        lines[:, np.arange(LINES) != 3] *= 1.2 + 0.1 * rng.random((len(pairs), LINES - 1))
        ticks = [lines.copy() for _ in range(16)]
        for sample in range(disturbed if rounds == 100 else 0):
            ticks[sample][0] *= 7
        times = [round(1000 * len(pairs) + 0.5 * one.sum()) for one in ticks]
        reads = {"ticks": Trace.pack("ticks", [one.ravel().astype(np.uint32) for one in ticks])}
        reads["unit"] = Trace.pack("", [units] * 16)
        works.append(series(times, ops=len(pairs) * LINES * 2 * rounds, reads=reads))
    made = run([record("core_to_core", {}, *works, facts=facts)], header(cards=cards(["core_to_core"])))
    return judged_rows(made, None)


def test_latencies_and_clusters_are_read_from_records_and_compared_with_sysfs():
    said = {"unit": "CPU", "sysfs core": "0,1;2,3;4,5;6,7", "sysfs last cache": "0,1,2,3,4,5;6,7"}
    judged, rows = measured(said)
    found = pair_map(rows[0])
    assert found.ns[0, 1] == pytest.approx(10, rel=0.01)
    assert found.ns[0, 7] == pytest.approx(100, rel=0.01)
    pairs, clusters = sections(judged, rows)
    assert [row[0] for row in pairs.rows] == ["mean of all pairs", "nearest pair", "farthest pair"]
    assert [row[1:3] + row[5:] for row in clusters.rows] == [("4", "2", "same core"), ("2", "4", "no such groups")]
    assert any("last cache, which latencies do not show" in note for note in clusters.notes)
    _, lost = measured(said, disturbed=14)
    assert pair_map(lost[0]) is None
    (alone,) = sections(judged, lost)
    assert [row[0] for row in alone.rows] == ["mean of all pairs"] and NO_PAIRS in alone.notes
    assert "4 and 2 clusters" in figures.pairs(judged.header.benchmarks["core_to_core"], parts([judged]))


def test_last_caches_and_busy_threads_are_read_from_the_system(tmp_path):
    for cpu, shared in enumerate(("0-1", "0-1", "2")):
        for level, text in ((1, str(cpu)), (3, shared)):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{level}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "shared_cpu_list").write_text(f"{text}\n")
    assert cpu_topology.last_caches((0, 1, 2, 3), tmp_path) == {0: (0, 1), 1: (0, 1), 2: (2,)}
    assert busiest_threads(lambda: None, 0) == set()
