"""Throughput of local memory and transposition: what they check, and what a run of them shows beside Little's law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench import studies
from clmembench.benchmarks import discovered
from clmembench.benchmarks.local_memory import LOADS_PER_ROUND, MAX_RESIDENT_ITEMS, expected_sums
from clmembench.model import BenchmarkInfo, Skip
from clmembench.plan.sweep import benchmark_card
from clmembench.report.frame import LabelledRun, parts, rows
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.specs.sheets import Figure, Match, SpecSheet
from clmembench.studies.access import local_curves
from tests import banked, builders
from tests.banked import HALVES, MAXWELL, straight
from tests.cases import each

UNITS, GHZ, PEAK = 4, 2.0, 4 * 128 * 2.0  # compute units, and GB/s of all of them at 128 B a cycle
FREE, WAY = 28.0, 2.0  # cycles
CARDS: dict[str, BenchmarkInfo] = {name: benchmark_card(discovered()[name]) for name in ("banks", "local_copy", "local_read")}
SHEET = SpecSheet(
    "Test",
    "gpu",
    Match(("Synthetic GPU",)),
    {"local_memory_bandwidth_gb_s": Figure(PEAK / UNITS, "GB/s", "128 B x clock", "core")},
)


def copying(work_items: int, ilp: int) -> float:
    """GB/s of all units: what latency lets through, or 0.9 of the peak."""
    return min(0.9 * PEAK, UNITS * 8 * ilp * work_items / (FREE / GHZ))


def simulated(mapping=MAXWELL.passes, wide=HALVES.passes, kind="gpu"):
    """A run of the three benchmarks on a device of known banks."""
    accesses = banked.measured(mapping, wide, straight(FREE, WAY), 0.001, np.random.default_rng(4))
    clock = builders.clock(GHZ)
    records = []

    def slope(name, params, ns_per_amount, amount, key):
        near = [round(5e3 + amount * ns_per_amount * (1 + 1e-4 * k)) for k in range(16)]
        far = [round(5e3 + 3 * amount * ns_per_amount * (1 + 1e-4 * k)) for k in range(16)]
        works = [builders.series(times, **{key: n}) for times, n in ((near, amount), (far, 3 * amount))]
        records.append(builders.record(name, params, *works, core_clock=clock, index=len(records)))

    for a in accesses:
        params = {"stride": a.stride, "word_bytes": a.word_bytes, "items": a.items}
        slope("banks", params, a.latency / GHZ, 100_000, "ops")
    for work_group, groups in ((32, 1), (128, 1), (512, 1), (512, 2)):
        for ilp in (1, 4):
            params = {"work_group": work_group, "groups_a_unit": groups, "ilp": ilp}
            slope("local_copy", params, 1 / copying(work_group * groups, ilp), 10**9, "nbytes")
    shape = {"path": "portable", "work_group": 512, "groups_a_unit": 2, "ilp": 4}
    slope("local_read", shape, 1 / (0.95 * PEAK), 10**9, "nbytes")
    head = builders.header(builders.device(kind=kind, compute_units=UNITS, local_mem_bytes=48 << 10), CARDS)
    return builders.run(records, head)


def shown(run, name, sheet=SHEET):
    mine = [row for row in rows(run, sheet) if row.value.benchmark == name]
    make = studies.tables(name)
    assert make is not None
    return mine, make(run, mine)


def test_banks_are_shown_with_ways_and_padding():
    _, (findings, ways, padding) = shown(simulated(), "banks")
    said = {row[0]: row[1] for row in findings.rows}
    assert said["banks"] == "32"
    assert said["bank width"] == "4 B"
    assert said["memory"] == "banked"
    narrow = {row[1]: row for row in ways.rows if row[0] == "4"}
    assert list(narrow) == ["1", "2", "4", "8", "16", "32"]
    assert float(narrow["32"][3]) == pytest.approx(FREE + 31 * WAY, rel=0.01)
    assert narrow["32"][2] == "32, 64"
    assert {row[1] for row in ways.rows if row[0] == "8"} >= {"2", "4", "32"}
    column, padded = (
        next(float(r[4]) for r in padding.rows if r[1] == "4" and r[0].startswith(w))
        for w in ("column of a [32][32]", "column of a [32][33]")
    )
    assert column == pytest.approx((FREE + 31 * WAY) / FREE, rel=0.01)
    assert padded == pytest.approx(1, abs=0.01)


def test_ordinary_memory_has_no_table_of_ways():
    _, sections = shown(simulated(lambda *_: 1.0, lambda *_: 1.0), "banks")
    assert len(sections) == 2
    assert sections[0].rows[0][:2] == ("memory", "ordinary")


def test_findings_name_their_records():
    from clmembench.studies.access.banks import bank_accesses, study_banks

    run = simulated()
    mine, _ = shown(run, "banks")
    found = study_banks(*bank_accesses([row.value for row in mine])).findings["banks"]
    assert "banks:1:0" in found.evidence
    assert len(set(found.evidence)) == len(found.evidence)


@pytest.mark.parametrize("sheet", [SHEET, None], ids=["a sheet", "banks alone"])
def test_throughput_is_compared_with_a_sheet_or_the_inferred_banks(sheet):
    run = simulated()
    for name, share in (("local_copy", 90), ("local_read", 95)):
        _, sections = shown(run, name, sheet)
        row = sections[0].rows[0]
        assert row[1] == "256.0 GB/s"
        assert float(row[3].rstrip("%")) == pytest.approx(share, rel=0.01)
        assert ("sheet" if sheet else "inferred banks") in sections[0].notes[0]


def test_little_law_says_what_the_simulated_device_needs():
    _, (_, items, ilps, little) = shown(simulated(), "local_copy")
    need = {row[0]: float(row[1]) for row in little.rows}
    # cycles x 128 B a cycle / 256 B of a sub-group's loads and stores
    assert need["1"] == pytest.approx(FREE / 2, rel=0.01)
    assert need["4"] == pytest.approx(FREE / 8, rel=0.01)
    assert [row[0] for row in items.rows] == ["32", "128", "512", "1024"]
    assert float(items.rows[0][2].split()[0]) == pytest.approx(copying(32, 4) / UNITS, rel=0.01)
    assert float(items.rows[0][4].split()[0]) == pytest.approx(copying(32, 4) / UNITS, rel=0.01)
    assert ilps.header[1:] == ("ILP 1", "ILP 4")
    assert float(ilps.rows[1][1]) == pytest.approx(copying(128, 1) / UNITS, rel=0.01)


def test_a_cpu_has_no_theory_of_local_memory():
    _, sections = shown(simulated(kind="cpu"), "local_copy", None)
    assert sections[0].rows[0][1] == "–"
    assert "ordinary memory" in sections[0].notes[0]
    assert not any("Little's law for" in section.title for section in sections)


@pytest.mark.parametrize("name", ["banks", "local_copy", "local_read"])
def test_a_run_without_values_says_why(name):
    failed = builders.record(name, {"stride": 1}, status="skipped", reason="no room")
    run = builders.run([failed], builders.header(cards=CARDS))
    _, sections = shown(run, name)
    assert "no room" in sections[0].rows[0][1]
    drawing = {"banks": local_curves.banks, "local_copy": local_curves.local_copy}.get(name)
    assert drawing is None or drawing(CARDS[name], parts([run])) == ""


@pytest.mark.parametrize("name", ["banks", "local_copy"])
def test_figures_draw_what_was_measured_beside_what_was_inferred(name):
    run = simulated()
    mine, _ = shown(run, name)
    draw = {"banks": local_curves.banks, "local_copy": local_curves.local_copy}[name]
    drawn = draw(CARDS[name], [LabelledRun("x", run, SHEET, tuple(mine))])
    said = {"banks": "4-byte words, 32 banks of 4 B", "local_copy": "theoretical peak"}[name]
    assert drawn.startswith("<svg")
    assert said in drawn


# ---- the benchmarks


@pytest.mark.parametrize(("rounds", "work_group", "step", "turn"), [(1, 4, 4, 8), (7, 4, 4, 8), (50, 8, 2, 16), (3, 1, 1, 4)])
def test_sums_of_what_is_read_are_those_of_a_loop(rounds, work_group, step, turn):
    store = (4 * np.arange(turn + LOADS_PER_ROUND * step)[:, None] + np.arange(4)).astype(np.uint32) * np.uint32(2654435761)
    wanted = np.zeros((work_group, 4), np.uint32)
    for item in range(work_group):
        at = item
        for _ in range(rounds):
            for k in range(LOADS_PER_ROUND):
                wanted[item] += store[at + k * step]
            at = (at + step) % turn
    assert np.array_equal(expected_sums(rounds, work_group, step, turn), wanted)
    assert not np.array_equal(expected_sums(rounds + 1, work_group, step, turn), wanted)


def test_a_core_joins_the_cache_lines_of_a_round_and_sums_rounds():
    turn, lanes, rounds = 8, 16, 11
    store = (lanes * np.arange(turn + LOADS_PER_ROUND)[:, None] + np.arange(lanes)).astype(np.uint32) * np.uint32(2654435761)
    wanted = np.zeros((1, lanes), np.uint32)
    for number in range(rounds):
        wanted += np.bitwise_xor.reduce(store[number % turn : number % turn + LOADS_PER_ROUND], axis=0)
    assert np.array_equal(expected_sums(rounds, 1, 1, turn, lanes, xor=True), wanted)


def test_a_copy_that_was_left_out_is_seen():
    device = FakeDevice()
    work = discovered()["local_copy"].prepare(device, work_group=32, groups_a_unit=1, ilp=4).work(6)
    items = 32 * FAKE_DEVICE_INFO.compute_units
    words = np.arange(items * 4, dtype=np.uint32).reshape(items, 4)
    ((buffer, _),) = work.outputs
    device.upload(buffer, np.concatenate([words + 3, words + 2]).astype(np.uint32))
    assert work.check is not None
    work.check()
    assert work.nbytes == 6 * 8 * 4 * items
    # half of the copies, a region that is not copied back, and places that come again after some copies
    for first, second in ((1, 0), (3, 0), (2, 2), (0, 2), (3, 3)):
        device.upload(buffer, np.concatenate([words + first, words + second]).astype(np.uint32))
        with pytest.raises(AssertionError, match="region holds wrong words"):
            work.check()


def test_points_of_the_suite_are_few_and_fit_a_compute_unit():
    bench = discovered()["local_copy"]
    axes = [axis.values(FAKE_DEVICE_INFO) for axis in bench.axes.values()]
    points = [
        p for group in axes[0] for n in axes[1] for ilp in axes[2]
        if bench.where(FAKE_DEVICE_INFO, **(p := dict(zip(bench.axes, (group, n, ilp), strict=True))))
        and bench.default_subset(FAKE_DEVICE_INFO, **p)
    ]  # fmt: skip
    assert len(points) <= 60
    assert all(p["work_group"] * p["groups_a_unit"] <= MAX_RESIDENT_ITEMS for p in points)
    # every ILP at every number of sub-groups up to what a compute unit holds
    active = {ilp: {p["work_group"] * p["groups_a_unit"] // 32 for p in points if p["ilp"] == ilp} for ilp in axes[2]}
    assert all({1, 2, 4, 8, 16, 32, 64} <= found for found in active.values())


@each(
    ("name", "params", "why"),
    [
        ("local_copy", {"work_group": 1024, "groups_a_unit": 1, "ilp": 8}, "do not fit"),
        ("local_copy", {"work_group": 4096, "groups_a_unit": 1, "ilp": 1}, "over this device's largest"),
        ("local_copy", {"work_group": 32, "groups_a_unit": 0, "ilp": 1}, "at least 1"),
        ("local_read", {"path": "portable", "work_group": 256, "groups_a_unit": 1, "ilp": 3}, "no kernel"),
        ("transpose", {"n": 64, "way": "diagonal"}, "no way 'diagonal'"),
        ("transpose", {"n": 0, "way": "tile"}, "below 1"),
    ],
)
def test_shapes_that_are_none_are_skipped(name, params, why):
    with pytest.raises(Skip, match=why):
        discovered()[name].prepare(FakeDevice(FAKE_DEVICE_INFO), **params)


def test_without_ptx_its_path_is_skipped():
    device = FakeDevice(replace(FAKE_DEVICE_INFO, features=frozenset()))
    with pytest.raises(Skip, match="ptx"):
        discovered()["local_read"].prepare(device, path="ptx", work_group=256, groups_a_unit=1, ilp=4)
