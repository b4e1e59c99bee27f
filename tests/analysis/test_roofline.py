"""The roofline: which roofs a run has, where its kernels lie under them, and what tables, JSON and figures say of that."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from clmembench.analysis.roofline import COMPULSORY_BYTES
from clmembench.benchmarks import discovered
from clmembench.plan.sweep import benchmark_card
from clmembench.report import render, summary
from clmembench.report.figures import roofline_chart
from clmembench.report.figures.roofline_chart import offsets
from clmembench.report.frame import point_values, rows
from clmembench.report.page.page import render_html
from clmembench.report.sections import roofline_tables
from clmembench.specs.sheets import Figure, Match, SpecSheet
from tests.builders import device, header, record, run, series

NAMES = ("arithmetic", "stream", "cache_read", "local_read", "dgemm", "spmv", "reduction", "launch")
CARDS = {name: benchmark_card(discovered()[name]) for name in NAMES}
SHEET = SpecSheet("Test sheet", "gpu", Match(), {
    "memory_bandwidth_gb_s": Figure(1100.0, "GB/s", "the data sheet"),
    "fp64_vector_gflop_s": Figure(10_500.0, "GFLOP/s", "the data sheet"),
    "l2_bytes": Figure(32 << 20, "B", "the data sheet"),
})  # fmt: skip
GIB = 1 << 30
INDEX = iter(range(10_000))


def rate(benchmark, params, ns, spread=0, **amounts):
    times = [ns - spread, ns + spread] * 8
    return record(benchmark, params, series(times, **amounts), index=next(INDEX))


def steep(benchmark, params, per_ns, amount):
    """A slope whose extra amount, of 10^9 and 3 10^9, takes 1/per_ns ns each."""
    near, far = (series([round(times * 1e9 / per_ns) + 5000] * 16, **{amount: int(times * 1e9)}) for times in (1, 3))
    return record(benchmark, params, near, far, index=next(INDEX))


def roofs(double=10_000.0, memory=1000.0, matrix=None):
    found = [steep("arithmetic", {"dtype": "double", "width": 1, "chains": 8}, double, "flops"), triad(memory)]
    if matrix is not None:
        found.append(steep("arithmetic", {"dtype": "double_matrix", "width": 1, "chains": 8}, matrix, "flops"))
    return found


def triad(gb_s, array_bytes=GIB, **changes):
    params = {"op": "triad", "dtype": "double", "array_bytes": array_bytes, "order": "item", "width": 1, "work_group": 64}
    nbytes = 3 * array_bytes
    return replace(rate("stream", params, round(nbytes / gb_s), nbytes=nbytes, flops=2 * array_bytes // 8), **changes)


def spmv(gflop_s, nonzeros=10_000_000, **changes):
    flops, nbytes = 2 * nonzeros, 12 * nonzeros
    params = {"matrix": "banded", "format": "ell", "order": "item", "team": 1, "work_group": 64}
    return replace(rate("spmv", params, round(flops / gflop_s), nbytes=nbytes, flops=flops, ops=1), **changes)


def dgemm(gflop_s, n=4096, dtype="double", variant="portable"):
    params = {"dtype": dtype, "variant": variant, "n": n, "work_group": 64, "tile": "8x8", "depth": 8}
    return rate("dgemm", params, round(2 * n**3 / gflop_s), flops=2 * n**3)


def made(records, sheet=SHEET, **changes):
    found = run(records, header(device(cache_bytes=4 << 20, **changes), cards=CARDS), judged=True)
    table = rows(found, sheet)
    return found, table, roofline_tables.derive_roofline(found, table, sheet)


def test_a_kernel_is_bound_by_the_lower_of_its_roofs():
    _, _, found = made([*roofs(), spmv(120.0), dgemm(8000.0)])
    by_name = {p.value.benchmark: p for p in found.placed}
    thin, dense = by_name["spmv"], by_name["dgemm"]
    assert thin.bound.name == "memory" and thin.intensity == pytest.approx(1 / 6)
    assert thin.limit.value == pytest.approx(1000 / 6, rel=1e-6) and thin.share.value == pytest.approx(0.72, rel=1e-3)
    assert dense.bound.name == "FP64 vector" and dense.share.value == pytest.approx(0.8, rel=1e-3)
    assert not thin.over and not dense.over


def test_a_product_of_dense_matrices_has_its_compulsory_bytes():
    _, _, found = made([*roofs(), dgemm(8000.0, n=1001), dgemm(8000.0, n=999, dtype="float")])
    (double,) = (p for p in found.placed if p.value.benchmark == "dgemm")
    assert double.memory_bytes == 3 * 1001**2 * 8 and double.counted == COMPULSORY_BYTES
    assert double.intensity == pytest.approx(2 * 1001 / 24)
    assert found.left == {"no roof of float was measured": 1}


def test_a_kernel_is_held_against_the_roof_of_its_instructions():
    """The peak that its metric names says which instructions it has; without one the highest roof holds."""
    silent = replace(CARDS["dgemm"], metrics=tuple(replace(metric, peak=None) for metric in CARDS["dgemm"].metrics))
    for variant, of_dgemm, wanted in (
        ("portable", CARDS["dgemm"], "FP64 vector"),
        ("ptx", CARDS["dgemm"], "FP64 matrix"),
        ("portable", silent, "FP64 matrix"),
    ):
        records = [*roofs(matrix=20_000.0), dgemm(8000.0, variant=variant)]
        found = run(records, header(device(), cards=CARDS | {"dgemm": of_dgemm}), judged=True)
        (placed,) = (
            p for p in roofline_tables.derive_roofline(found, rows(found, None), None).placed if p.value.benchmark == "dgemm"
        )
        assert placed.bound.name == wanted


def test_what_is_over_memory_s_roof_is_said_to_be_in_a_cache_and_not_clipped():
    _, table, found = made([*roofs(), triad(3000.0, array_bytes=1 << 20)])
    small = next(p for p in found.placed if p.value.params["array_bytes"] == 1 << 20)
    assert small.over and small.cached and small.share.value == pytest.approx(3.0, rel=1e-3)
    assert roofline_tables.caveat(small) == "over the memory roof: its data, 3 MiB, fit a cache"
    kernels = roofline_tables.tables(found, table)[1]
    assert [row[4] for row in kernels.rows if "fit a cache" in row[-1]] == ["a cache"]
    assert [f"{float(row[6][:-1]):.0f}%" for row in kernels.rows if "fit a cache" in row[-1]] == ["300%"]


def test_what_is_over_memory_s_roof_and_fits_no_cache_is_said_to_be_off():
    _, _, found = made([*roofs(memory=1000.0), spmv(200.0)])
    large = next(p for p in found.placed if p.value.benchmark == "spmv")
    assert large.over and not large.cached and "one of them is off" in roofline_tables.caveat(large)
    _, _, found = made([*roofs(double=4000.0), dgemm(8000.0)])
    assert roofline_tables.caveat(found.placed[-1]) == "over the FP64 vector roof: one of the two is off"


def test_only_good_values_are_placed_and_the_rest_is_counted():
    bad = [spmv(100.0, status="suspect", params={**spmv(1.0).params, "matrix": "a"}),
           spmv(100.0, status="wrong", series=(), params={**spmv(1.0).params, "matrix": "b"}),
           spmv(100.0, status="skipped", series=(), params={**spmv(1.0).params, "matrix": "c"})]  # fmt: skip
    _, table, found = made([*roofs(), spmv(120.0), *bad])
    assert [p.value.params["matrix"] for p in found.placed if p.value.benchmark == "spmv"] == ["banded"]
    assert found.left == {"suspect": 1, "wrong": 1, "skipped": 1}
    notes = roofline_tables.tables(found, table)[1].notes
    assert "3 points have no place: 1 skipped, 1 suspect, 1 wrong" in notes


def test_what_is_no_good_makes_no_roof():
    suspect = [replace(r, status="suspect") for r in roofs()]
    assert made([*roofs()[:1], suspect[1]])[2] is None
    assert made([suspect[0], *roofs()[1:]])[2] is None
    assert made([*roofs()[1:], spmv(100.0)])[2] is None and made([])[2] is None


def test_the_interval_of_the_share_has_both_intervals_in_it():
    _, _, found = made(
        [
            *roofs(),
            rate("dgemm", {"dtype": "double", "variant": "portable", "n": 1000}, 400_000, spread=20_000, flops=2 * 1000**3),
        ]
    )
    p = found.placed[-1]
    low, high = math.log(p.gflop_s.value / p.gflop_s.low), math.log(p.gflop_s.high / p.gflop_s.value)
    assert low > 0 and high > 0
    assert math.log(p.share.value / p.share.low) >= low and math.log(p.share.high / p.share.value) >= high


def test_levels_of_a_gpu_are_those_that_sets_surely_lie_in():
    def reads(kind, path, set_bytes, gb_s, unit_items=1024):
        params = {"set": kind, "path": path, "set_bytes": set_bytes, "unit_items": unit_items}
        return steep("cache_read", params, gb_s, "nbytes")

    mib = 1 << 20
    sets = [
        reads("own", "plain", 64 << 10, 9000.0),
        reads("own", "cg", 16 << 10, 9900.0),  # leaves the first cache out
        reads("shared", "cg", mib // 8, 7000.0),  # smaller than what all load at once
        reads("shared", "cg", 8 * mib, 3000.0),
        reads("shared", "plain", 16 * mib, 2500.0),
        reads("shared", "plain", 32 * mib, 2900.0),  # as large as the cache
        reads("shared", "plain", GIB, 1050.0),
    ]
    local = steep("local_read", {"path": "portable", "work_group": 64, "groups_a_unit": 1, "ilp": 4}, 12_000.0, "nbytes")
    _, _, found = made([*roofs(), *sets, local])
    levels = {roof.name: roof.rate.value for roof in found.levels}
    assert list(levels) == ["memory", "L2", "L1", "local memory"]
    assert levels == pytest.approx({"memory": 1050.0, "L2": 2500.0, "L1": 9000.0, "local memory": 12_000.0}, rel=1e-3)
    assert all(p.bound.name in ("memory", "FP64 vector") for p in found.placed)


def test_memory_s_roof_of_arrays_that_a_cache_may_hold_says_so():
    _, table, found = made(roofs(), sheet=None)
    assert not any("partly a cache's" in note for note in roofline_tables.tables(found, table)[0].notes)
    changed = run(roofs(), header(device(cache_bytes=GIB), cards=CARDS), judged=True)
    table = rows(changed, None)
    found = roofline_tables.derive_roofline(changed, table, None)
    assert any("partly a cache's" in note for note in roofline_tables.tables(found, table)[0].notes)


def test_a_time_becomes_a_rate_of_flop():
    """Of a benchmark whose first metric is a time, whatever its scale."""
    metric = replace(CARDS["launch"].metrics[0], name="time", unit="us", amount="ops", form="cost", scale=1e-3, only={})
    cards = CARDS | {"launch": replace(CARDS["launch"], metrics=(metric,))}
    own = rate("launch", {"dtype": "double"}, 1000, nbytes=8000, flops=4000, ops=2)
    found = run([*roofs(), own], header(device(), cards=cards), judged=True)
    (placed,) = (
        p for p in roofline_tables.derive_roofline(found, rows(found, None), None).placed if p.value.benchmark == "launch"
    )
    assert placed.gflop_s.value == pytest.approx(4.0) and placed.intensity == pytest.approx(0.5)


def test_summaries_and_json_and_pages_have_it():
    found, table, _ = made([*roofs(), spmv(120.0), dgemm(8000.0)])
    shown = render.text(summary.summary_document(found, table, SHEET))
    assert roofline_tables.ROOFS in shown and roofline_tables.KERNELS in shown and "FP64 vector" in shown
    told = point_values(table, roofline_tables.by_point(found, table, SHEET))
    placed = {point.benchmark: point.roofline for point in told if point.roofline is not None}
    assert placed["spmv"].bound_by == "memory" and placed["dgemm"].bytes_are == COMPULSORY_BYTES
    assert "arithmetic" not in placed and len(told) == len(table)
    page = render_html([found])
    assert 'id="roofline"' in page and "arithmetic intensity (FLOP per byte of memory)" in page
    assert 'id="roofline"' not in render_html([replace(found, records=found.records[1:])])


def test_a_figure_has_every_kernel_and_names_the_fastest():
    kernels = [spmv(120.0), dgemm(8000.0), dgemm(7000.0, n=512), triad(3000.0, array_bytes=1 << 20)]
    found, _, line = made([*roofs(double=10_500.0), *kernels])
    drawn = roofline_chart.drawn([("$x$ <b>", line)])
    assert drawn == roofline_chart.drawn([("$x$ <b>", line)]) and "<b>" not in drawn
    for name in (
        "dgemm portable n=4096",
        "spmv banded ell",
        "memory 1,000 GB/s",
        "FP64 vector 10.5 TFLOP/s",
        "its data fit a cache",
    ):
        assert name in drawn
    assert "dgemm portable n=512" not in drawn and len(re.findall("<use", drawn)) >= len(kernels)
    assert roofline_chart.drawn([("none", replace(line, placed=()))]) == "" == roofline_chart.drawn([])
    assert found.judged


def test_names_of_dots_cover_neither_dots_nor_each_other():
    dots = [(100.0, 100.0 + i) for i in range(5)]
    names = [f"kernel {i}" for i in range(5)]
    spots = offsets(dots, names, [*dots, (120.0, 100.0)], 7.5)
    boxes = [
        (x + dx, y + dy - 4.5, x + dx + 7.5 * 0.56 * 8, y + dy + 4.5) for (x, y), (dx, dy) in zip(dots, spots, strict=True)
    ]
    for i, a in enumerate(boxes):
        assert not any(a[0] < x < a[2] and a[1] < y < a[3] for x, y in [*dots, (120.0, 100.0)])
        assert not any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for b in boxes[:i])
