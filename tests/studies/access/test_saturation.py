"""What saturates memory, from copies of devices whose truth is known: steep, soft, noisy, starved of work-items, and CPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.analysis.derive import derive
from clmembench.analysis.plateaus import CurvePoint, memory_latency
from clmembench.benchmarks.datatypes import TYPE_BYTES
from clmembench.model import BenchmarkInfo, Finding
from clmembench.studies.access.saturation import against, needed, saturating_element, saturation_findings
from tests.builders import BANDWIDTH, device, header, record, run, series

UNITS = 100
INFO = device(compute_units=UNITS)
LATENCY_NS, PEAK = 500.0, 2000.0  # 1000 GB/s of loads: 500,000 B in flight
TRUTH = LATENCY_NS * PEAK / 2
NBYTES = 1 << 30
CARDS = {
    "copy_grid": BenchmarkInfo(1, "access", "Copy.", "", (BANDWIDTH,)),
    "datatypes": BenchmarkInfo(1, "access", "Types.", "", (BANDWIDTH,)),
}
GRID = [
    (groups, size, ilp)
    for groups in (UNITS // 4, *(n * UNITS for n in (1, 2, 4, 8, 16, 32)))
    for size in (32, 64, 256, 1024)
    for ilp in (1, 2, 4, 8)
    if groups * size <= 2048 * UNITS
]


def copies(resident=2048, slots=32, peak=PEAK, noise=0.003, soft=False, info=INFO, grid=GRID, seed=0):
    """Records of a device whose compute units hold `resident` work-items at once, by Little's law."""
    rng = np.random.default_rng(seed)
    records = []
    for index, (groups, size, ilp) in enumerate(grid):
        held = min(groups / info.compute_units, max(1, resident // size), slots) * info.compute_units
        rate = 2 * held * size * ilp * 4 / LATENCY_NS
        rate = rate * peak / (rate + peak) if soft else min(rate, peak, 1.5 * peak * groups / info.compute_units)
        times = [round(NBYTES / (rate * (1 + noise * e))) for e in rng.standard_normal(20)]
        params = {"groups": groups, "work_group": size, "ilp": ilp}
        records.append(record("copy_grid", params, series(times, nbytes=NBYTES), index=index))
    return run(records, header(info, CARDS))


def found(a_run):
    return saturation_findings(derive(a_run), a_run.header.device)


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_that_littles_law_asks_for_are_found_between_two_of_the_grid(seed):
    saturated = found(copies(seed=seed))
    bytes_ = saturated["saturating_bytes"]
    assert bytes_.status == "ok"
    assert bytes_.low < 0.95 * TRUTH <= bytes_.high
    assert bytes_.high <= 2.2 * TRUTH  # the grid's steps
    assert abs(saturated["best_gb_s"].value / PEAK - 1) < 0.01
    assert bytes_.evidence and all(e.startswith("copy_grid:") for e in bytes_.evidence)


def test_the_smallest_of_each_that_does_is_named():
    # 5,000 B a unit: 1250 words. 32 work-items: with 32 groups and ILP 2. ILP 1: 2048 work-items. One group: 1024 with ILP 2
    saturated = found(copies())
    assert saturated["saturating_work_group"].value == 32
    assert saturated["saturating_ilp"].value == 1
    assert saturated["saturating_groups_per_unit"].value == 1
    assert "smallest that was tried" in saturated["saturating_work_group"].method
    assert "smallest that was tried" not in saturated["saturating_groups_per_unit"].method


def test_a_unit_that_holds_few_work_items_needs_ilp():
    # 512 work-items: 1250 words take an ILP of 4; 2048 words of 4 are shown, as 512 alone with an ILP of 8 are on their way
    info = replace(INFO, max_work_group=256)
    grid = [(g, s, i) for g, s, i in GRID if s <= 256]
    saturated = found(copies(resident=512, info=info, grid=grid))
    assert saturated["saturating_ilp"].value == 4
    assert saturated["saturating_bytes"].low < TRUTH <= saturated["saturating_bytes"].high


@pytest.mark.parametrize("resident", [64, 128, 256])
def test_a_device_that_never_saturates_is_told_so(resident):
    # at most 256 x 8 words a unit: over 1250, but what is beyond was not seen; or far less
    grid = [(g, s, i) for g, s, i in GRID if s <= resident]
    saturated = found(copies(resident=resident, peak=1e6, info=replace(INFO, max_work_group=resident), grid=grid))
    for name in ("saturating_bytes", "saturating_work_group", "saturating_ilp", "saturating_groups_per_unit"):
        assert saturated[name].status == "undetermined", name
        assert saturated[name].value is None
        assert "not saturated" in saturated[name].reason
    assert saturated["saturating_bytes"].low is not None  # it takes more than what was surely too little


def test_more_work_groups_than_a_unit_holds_are_no_more_bytes_in_flight():
    # all of them ask for 32 times as many, and their rate shows that two of 32 work-items were on their way
    grid = [(n * UNITS, 32, 1) for n in (1, 2, 4, 8, 16, 32)] + [(n * UNITS, 32, 2) for n in (1, 2, 4)]
    saturated = found(copies(resident=64, grid=grid))
    assert saturated["shown_bytes"].value <= 1.05 * 2 * 32 * 2 * 4 * UNITS
    assert saturated["saturating_bytes"].status == "undetermined"


@pytest.mark.parametrize("slots", [2, 4, 8])
def test_work_groups_that_find_no_slot_do_not_make_too_much_of_too_few(slots):
    # 32 groups of 32 that ask for 32 KiB a unit have an eighth of that on their way and fail, which says nothing of 32 KiB
    bytes_ = found(copies(slots=slots, peak=3 * PEAK))["saturating_bytes"]
    assert bytes_.status == "ok"
    assert bytes_.low < 0.95 * 3 * TRUTH <= bytes_.high


def test_few_compute_units_fail_for_reasons_of_their_own():
    # a quarter of the units has 716,800 B in flight and fails, as units have a limit each; of all units no shape has as many
    grid = [(g, s, i) for g, s, i in GRID if g * s * i * 4 != 819_200] + [(UNITS // 4, 1024, 7)]
    bytes_ = found(copies(grid=grid))["saturating_bytes"]
    assert bytes_.status == "ok"
    assert bytes_.low < 0.95 * TRUTH <= bytes_.high


def test_a_soft_curve_that_still_grows_is_not_called_saturated():
    assert found(copies(soft=True, peak=8 * PEAK))["saturating_bytes"].status == "undetermined"


def test_noise_widens_the_interval():
    quiet, noisy = (found(copies(noise=n, seed=3))["saturating_bytes"] for n in (0.001, 0.15))
    assert quiet.status == noisy.status == "ok"
    assert noisy.low <= quiet.low and noisy.high >= quiet.high
    assert (noisy.low, noisy.high) != (quiet.low, quiet.high)


def test_few_points_and_cpus_say_no_bytes():
    few = found(copies(grid=GRID[:3]))
    assert few["saturating_bytes"].status == "undetermined" and "3 of" in few["saturating_bytes"].reason
    cpu = found(copies(info=replace(INFO, kind="cpu")))
    assert cpu["saturating_bytes"].status == "undetermined" and "loop on a core" in cpu["saturating_bytes"].reason
    assert cpu["saturating_groups_per_unit"].status == "ok"
    assert "shown_bytes" not in cpu


def test_a_cpu_that_others_use_is_told_so():
    quiet = copies(info=replace(INFO, kind="cpu"))
    busy = replace(quiet, records=tuple(replace(r, cpu_others=0.4 if r.index == 5 else 0.0) for r in quiet.records))
    said = found(busy)["saturating_work_group"]
    assert said.status == "undetermined" and "40% of the CPUs" in said.reason


def test_bad_points_are_left_out():
    a_run = copies()
    spoilt = replace(a_run, records=tuple(replace(r, status="suspect") if r.index % 2 else r for r in a_run.records))
    ids = {e for f in found(spoilt).values() for e in f.evidence}
    assert ids and all(int(e.split(":")[1]) % 2 == 0 for e in ids)


def types(rates):
    records = [
        record("datatypes", {"dtype": t}, series([round(NBYTES / r * (1 + e)) for e in (-1e-3, 0, 1e-3) * 4], nbytes=NBYTES))
        for t, r in rates.items()
    ]
    a_run = run(records, header(INFO, CARDS))
    return saturating_element(derive(a_run), TYPE_BYTES)


def test_the_smallest_element_that_reaches_is_found():
    assert types({"char": 630, "char4": 1490, "double": 1571, "device_copy": 1590}).value == 8  # Fang et al., times 10
    assert types({"char": 630, "char4": 1530, "double": 1571}).value == 4
    assert types({"char": 630}).status == "undetermined"


def finding(name, value, low, high, unit=""):
    return Finding(name, value, low, high, unit, "ok", "test", (name,))


def test_littles_law_is_held_against_what_saturates():
    latency, best = finding("latency_ns", 500.0, 495, 505), finding("best_gb_s", 2000.0, 1990, 2010)
    need = needed(latency, best, share=0.5)
    assert need.value == pytest.approx(500_000) and need.low < 500_000 < need.high
    assert need.evidence == ("latency_ns", "best_gb_s")
    fits = against(need, finding("saturating_bytes", 819_200.0, 409_600, 819_200))
    assert fits.status == "ok" and fits.low < 1 < fits.high
    undercut = against(need, finding("saturating_bytes", 100_000.0, 50_000, 120_000))
    assert undercut.status == "inconsistent" and undercut.value is None


def test_what_is_not_known_stays_so():
    best = finding("best_gb_s", 2000.0, 1990, 2010)
    none = memory_latency([], INFO)
    assert none.status == "undetermined" and "run -b pchase" in none.reason
    need = needed(none, best)
    assert need.status == "undetermined" and need.reason == none.reason
    assert against(need, finding("saturating_bytes", 1.0, 1, 1)).reason == none.reason
    flat = [CurvePoint(4096 << k, 20.0, 19.9, 20.1) for k in range(6)]
    assert "not settled" in memory_latency(flat, INFO).reason


def test_a_settled_curve_has_a_latency_of_memory():
    sizes = [int(4096 * 2 ** (k / 2)) for k in range(40)]
    latencies = [20.0 if size <= 128 << 10 else 600.0 for size in sizes]
    curve = [
        CurvePoint(size, ns, 0.99 * ns, 1.01 * ns, None, (f"pchase:{k}:0",))
        for k, (size, ns) in enumerate(zip(sizes, latencies, strict=True))
    ]
    found_ = memory_latency(curve, INFO)
    assert found_.status == "ok" and found_.value == 600 and found_.unit == "ns"
