"""The verdict of a report: devices in columns, headline quantities in rows, and runs of one device as one."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clmembench.benchmarks import discovered
from clmembench.cli.program import app
from clmembench.model import HEADLINE_GROUPS, BenchmarkInfo, Metric
from clmembench.report.device_runs import device_label, merged_runs, short_names
from clmembench.report.frame import parts
from clmembench.report.imported.imported_values import FIGURES, imported_cells, joined_values
from clmembench.report.imported.joins import FOUND, LOADS, why_not_joined
from clmembench.report.page.page import render_html
from clmembench.report.render import markdown
from clmembench.report.scorecard.key_quantities import KEY_QUANTITIES, key_lines
from clmembench.report.scorecard.scorecard import _difference, verdict
from clmembench.report.scorecard_cells import ScorecardCell, UnknownDevice
from clmembench.report.table import one_table
from clmembench.report.views import device_table, scorecard_keys, scorecard_table
from clmembench.results.imported import published_run
from clmembench.specs.sheets import published_sheets
from tests import found_hierarchies
from tests.builders import CHASE, LATENCY, STREAM, clock, device, found_of, header, record, run, series, slope, write_run
from tests.pages import without_own_script

REPORTS = Path(__file__).parents[2] / "reports"
TIME = Metric("time", "ns", "ops", "cost", "lower")
SUMS = BenchmarkInfo(2, "sync", "Sums.", "somebody", (TIME,), x="n")
LINK = BenchmarkInfo(
    3, "link", "Copies.", "somebody", (Metric("link_bandwidth", "GB/s", "nbytes", "rate", "higher"),), x="array_bytes"
)
LAUNCH = BenchmarkInfo(
    discovered()["launch"].version, "sync", "Launches.", "somebody", (replace(TIME, name="round_trip"),), x="groups"
)
CARDS = {"stream": STREAM, "reduction": SUMS, "transfer": LINK, "launch": LAUNCH}
NAMES = {"gpu": "Fast GPU", "cpu": "Slow CPU"}


def triad(gb_s, array_bytes, spread=0.001, **changes):
    """A triad of that bandwidth, with samples that differ by that much."""
    times = [round(array_bytes / gb_s * (1 + spread * (n % 5 - 2))) for n in range(20)]
    return record(
        "stream", {"op": "triad", "dtype": "double", "array_bytes": array_bytes}, series(times, nbytes=array_bytes), **changes
    )


def total(n, ns):
    times = [round(ns * (1 + 0.001 * (k % 5 - 2))) for k in range(20)]
    return record("reduction", {"n": n, "method": "tree"}, series(times, ops=1), version=2)


def launch(ns, version=LAUNCH.version):
    return record("launch", {"groups": 1}, series([ns] * 20, ops=1), version=version)


def copy(gb_s, nbytes=1 << 28, **changes):
    times = [round(nbytes / gb_s)] * 20
    params = {"direction": "to_device", "memory": "pinned", "array_bytes": nbytes}
    return record("transfer", params, series(times, nbytes=nbytes), version=3, **changes)


def of(kind, *records, **changes):
    """A run of a GPU or a CPU."""
    return run(records, header(device(NAMES[kind], kind=kind, **changes), CARDS))


def multiplied(name, n):
    """A run of DGEMM at one size, in 10 ms."""
    known = discovered()["dgemm"]
    card = BenchmarkInfo(known.version, "compute", "", "", (known.metrics[0],), x="n")
    times = [10**7 + 10**4 * (at % 5 - 2) for at in range(20)]
    params = {"dtype": "double", "variant": "portable", "n": n}
    point = record("dgemm", params, series(times, flops=2 * n**3), version=known.version)
    return run([point], header(device(name), {"dgemm": card}))


def compared(*runs, **more):
    return verdict(parts(runs), **more)


def line(found, name):
    return next(line for line in found.lines if line.name == name)


TRIAD = "memory triad, double"


def test_quantities_are_matched_by_meaning_at_each_devices_own_largest_size():
    found = compared(
        of("gpu", triad(100.0, 1 << 20), triad(4000.0, 1 << 30)), of("cpu", triad(500.0, 1 << 20), triad(160.0, 1 << 29))
    )
    row = line(found, TRIAD)
    assert row.group == "bandwidth"
    assert [cell.text for cell in row.cells] == ["4,000 GB/s", "160 GB/s"]
    assert row.note == "Fast GPU: array_bytes=1 GiB; Slow CPU: array_bytes=512 MiB"
    assert "95% interval" in row.cells[0].detail
    assert [cell.is_best for cell in row.cells] == [True, False]


def test_devices_that_are_the_same_are_the_best_too_what_is_undecided_is_marked_and_nothing_where_none_is_worse():
    near = [of(kind, triad(gb_s, 1 << 30, 0.01)) for kind, gb_s in (("gpu", 1000.0), ("cpu", 1001.0))]
    assert [c.is_best for c in line(compared(*near), TRIAD).cells] == [False, False]
    far = run([triad(100.0, 1 << 30)], header(device("Third"), CARDS))
    assert [c.mark for c in line(compared(*near, far), TRIAD).cells] == ["?", "*", ""]
    like = run([triad(1001.5, 1 << 30)], header(device("Like"), CARDS))
    assert [c.mark for c in line(compared(*near, far, like), TRIAD).cells] == ["*", "?", "", "*"]
    keys = scorecard_keys(compared(*near, far))
    assert [key[:13] for key in keys] == ["* the best of", "? compare doe"]


def test_a_value_by_an_older_version_of_the_benchmark_is_shown_and_not_compared():
    newer = {**CARDS, "stream": replace(STREAM, version=2)}
    new = run([triad(160.0, 1 << 29, version=2)], header(device("New", kind="cpu"), newer))
    found = compared(of("gpu", triad(4000.0, 1 << 30)), new, baseline="New")
    old, latest = line(found, TRIAD).cells
    assert (old.status, old.value, old.text, old.ratio) == ("older version", None, "4,000 GB/s", "")
    assert "measured by version 1 of stream, not comparable with version 2" in old.detail
    assert not old.is_best and not latest.is_best
    assert "4,000 GB/s, older version" in markdown(one_table(scorecard_table(found)))


def test_less_is_better_of_a_time():
    found = compared(of("gpu", total(1024, 11_000)), of("cpu", total(1024, 2_000)))
    assert [c.is_best for c in line(found, "sum of 1,024 doubles").cells] == [False, True]


def test_what_is_not_good_is_shown_as_that_and_never_the_best():
    suspect = triad(9000.0, 1 << 30, status="suspect", gate="peak", reason="over the theoretical peak")
    found = compared(of("gpu", suspect), of("cpu", triad(160.0, 1 << 29)), run([copy(50.0)], header(device("Third"), CARDS)))
    first, second, third = line(found, TRIAD).cells
    assert (first.status, first.text, first.value) == ("suspect", "suspect", None) and "theoretical peak" in first.detail
    assert second.text == "160 GB/s"
    assert third.text == "–" and third.detail == "not measured: suite memory, benchmark stream"
    assert not any(cell.is_best for cell in (first, second, third))


@pytest.mark.parametrize(("disturbed", "status"), [(90.0, "suspect"), (60.0, "suspect"), (40.0, "ok")])
def test_the_best_of_several_points_is_open_where_one_that_may_be_better_lacked_cpus(disturbed, status):
    """By a thread that waited for half of the time: at most twice as fast without."""
    lacking = copy(disturbed, cpu_waited=0.5, cpu_others=0.5)
    pinned, mapped = copy(100.0), replace(lacking, params={**lacking.params, "memory": "mapped"})
    host = {"logical_cpus": 2, "usable_cpus": 2}
    found = run([pinned, mapped], header(device(NAMES["cpu"], kind="cpu"), CARDS, host=host))
    cell = line(compared(found, of("gpu", copy(50.0))), "host to device").cells[0]
    assert cell.status == status
    assert (cell.value is None and "1 point that may be better lacked CPUs" in cell.detail) == (status == "suspect")


def test_a_smaller_size_does_not_stand_in_for_the_largest_that_failed():
    failed = triad(1.0, 1 << 30, status="failed", reason="out of memory")
    cell = line(compared(of("gpu", triad(4000.0, 1 << 20), failed), of("cpu", triad(160.0, 1 << 29))), TRIAD).cells[0]
    assert cell.status == "failed"


def test_ratios_to_a_baseline_are_above_1_where_a_device_is_better():
    runs = (of("gpu", triad(4000.0, 1 << 30), total(1024, 20_000)), of("cpu", triad(160.0, 1 << 29), total(1024, 2_000)))
    found = compared(*runs, baseline="Slow CPU")
    assert [c.ratio for c in line(found, TRIAD).cells] == ["25.0x", "1x"]
    assert [c.ratio for c in line(found, "sum of 1,024 doubles").cells] == ["0.100x", "1x"]
    with pytest.raises(UnknownDevice, match=r"no device is called 'Slow': choose from Fast GPU, Slow CPU"):
        compared(*runs, baseline="Slow")


def test_levels_of_a_hierarchy_have_rows_and_what_is_undetermined_says_so():
    hierarchy = found_hierarchies.cpu()
    found = verdict(parts([of("gpu", triad(1.0, 1 << 20)), of("cpu", triad(1.0, 1 << 20))], findings=found_of(None, hierarchy)))
    size = line(found, "size of L1, by topology")
    assert [c.text for c in size.cells] == ["–", "32 KiB"] and size.group == "capacity"
    assert size.cells[0].detail == "not measured: clmembench topology"
    assert not any(c.is_best for c in size.cells)  # a larger cache is no better one


def test_groups_come_in_their_order_and_every_headline_is_of_a_metric_and_axes_of_its_benchmark():
    found = compared(of("gpu", total(1024, 1), triad(1.0, 1 << 20), copy(1.0)), of("cpu", triad(1.0, 1 << 20)))
    order = [HEADLINE_GROUPS.index(line.group) for line in found.lines if line.group in HEADLINE_GROUPS]
    assert order == sorted(order) and len(order) > 2
    declared = [(b, h) for b in discovered().values() for h in b.headlines]
    assert len(declared) > 20
    for benchmark, headline in declared:
        assert headline.metric in {m.name for m in benchmark.metrics}, headline
        assert {*headline.params, *headline.extremes} <= set(benchmark.axes), headline
    assert len({h.name for _, h in declared}) == len(declared)


def test_claims_are_marked_as_claims_and_what_no_driver_says_is_left_out():
    gpu = of("gpu", triad(1.0, 1 << 30), local_mem_bytes=48 << 10, sub_group_items=32)
    found = compared(gpu, of("cpu", triad(1.0, 1 << 30), local_mem_bytes=0, sub_group_items=0))
    local = line(found, "local memory of a work-group")
    assert local.group == "claimed by the driver"
    assert [(c.text, c.status, c.value) for c in local.cells] == [("48 KiB", "claimed", None), ("–", "missing", None)]
    assert [c.text for c in line(found, "work-items of a sub-group").cells] == ["32", "–"]
    silent = compared(*[of(kind, triad(1.0, 1 << 30), sub_group_items=0) for kind in ("gpu", "cpu")])
    assert all(line.name != "work-items of a sub-group" for line in silent.lines)


def test_the_report_as_latex_is_the_tables_of_the_verdict_and_of_each_device(tmp_path):
    names = {"gpu": "Fast_GPU & 50% $x$", "cpu": "Slow CPU"}
    for kind, name in names.items():
        write_run(
            tmp_path / f"{kind}.jsonl",
            [triad(4000.0 if kind == "gpu" else 100.0, 1 << 30)],
            header(device(name, kind=kind), CARDS),
        )
    paths = [str(tmp_path / f"{kind}.jsonl") for kind in names]
    done = CliRunner().invoke(app, ["report", *paths, "-f", "latex", "--baseline", "Fast_GPU & 50% $x$"])
    assert done.exit_code == 0, done.stderr
    tables = done.stdout.count(r"\begin{tabular}")
    assert tables >= 3 and done.stdout.count(r"\end{tabular}") == tables == done.stdout.count(r"\bottomrule")
    (row,) = (text for text in done.stdout.splitlines() if TRIAD in text and text.endswith(r"\\"))
    assert row.count(" & ") == 3 and "4,000 GB/s (1x) {*}" in row and "100 GB/s" in row
    (head,) = (text for text in done.stdout.splitlines() if text.startswith("group & quantity"))
    assert head == r"group & quantity & Fast\_GPU 50\% & Slow 4u \\"
    assert r"% Fast_GPU 50%: Fast_GPU & 50% $x$" in done.stdout.splitlines()


def test_the_table_marks_the_best_and_tells_where_points_differ():
    found = compared(of("gpu", triad(4000.0, 1 << 30)), of("cpu", triad(160.0, 1 << 29)), baseline="Slow CPU")
    text = markdown(one_table(scorecard_table(found)))
    assert "| bandwidth | memory triad, double \\[1\\] | 4,000 GB/s (25.0x) \\* | 160 GB/s (1x) |" in text
    assert "\\[1\\] Fast GPU: array\\_bytes=1 GiB" in text.replace("array_bytes", "array\\_bytes")
    page = render_html([of("gpu", triad(4000.0, 1 << 30)), of("cpu", triad(160.0, 1 << 29))])
    assert 'id="devices-compared"' in page and page.index('id="devices-compared"') < page.index("Devices</h2>")
    assert ">Headline quantities</h2>" in render_html([of("gpu", triad(4000.0, 1 << 30))])


def test_cycles_and_the_share_of_the_peak_stand_beside_the_value():
    chase = BenchmarkInfo(1, "memory", "Latency.", "somebody", (replace(LATENCY, cycles=True),), x="array_bytes")
    point = replace(slope({"array_bytes": 4096, "spacing_bytes": "line"}, [2.0] * 8), core_clock=clock(2.0))
    runs = [run([point], header(device(name), {"pchase": chase})) for name in ("A", "B")]
    cell = line(compared(*runs), "nearest cache").cells[0]
    assert (cell.text, cell.extra) == ("2.00 ns", "4.00 cycles")
    assert "2.00 ns, 4.00 cycles |" in markdown(one_table(scorecard_table(compared(*runs))))
    assert "<small>4.00 cycles</small>" in render_html(runs)


def latencies(name, sizes, ns):
    """A run of a latency sweep, by `ns` of a working set's size."""
    cards = {"pchase": replace(CHASE, metrics=(replace(LATENCY, cycles=True),))}
    points = [slope({"array_bytes": size, "spacing_bytes": "line"}, [ns(size)] * 8) for size in sizes]
    return run(points, header(device(name), cards))


def test_memory_is_what_the_latency_curve_settled_at_and_the_nearest_cache_its_first_plateau():
    sizes = [4096 << k for k in range(20)]  # to 2 GiB
    settled = latencies("A", sizes, lambda size: 2.0 if size <= 1 << 16 else 300.0)
    cut = latencies("B", sizes[:15], lambda size: 2.0 if size <= 1 << 16 else 20.0)  # its last level is no memory
    late = latencies("C", sizes[8:], lambda size: 20.0 if size <= 1 << 24 else 300.0)  # begins beyond any first cache
    found = compared(settled, cut, late)
    near, far = line(found, "nearest cache").cells, line(found, "memory").cells
    assert [c.text for c in near] == ["2.00 ns", "2.00 ns", "undetermined"]
    assert [(c.text, c.value) for c in far] == [("300 ns", 300.0), ("at least 20.0 ns", None), ("300 ns", 300.0)]
    assert "over working sets of 4 KiB to 64 KiB" in near[0].detail
    assert "the latency curve has not settled at memory" in far[1].detail
    assert "random loads with address translation over 32 MiB to 64 MiB, no bound of DRAM alone" in far[1].detail
    assert {c.meaning for c in far} == {"random loads with address translation"}
    rising = latencies("E", sizes, lambda size: 2.0 if size <= 1 << 16 else 300.0 * (size / (1 << 30)) ** 0.5)
    (cell,) = line(compared(rising), "memory").cells  # the least of the last octave holds for all larger sets
    assert (cell.side, cell.limit) == ("at least", 300.0)
    short = latencies("D", sizes[:10], lambda size: 2.0 if size <= 1 << 16 else 20.0)  # a budget ended it in a cache
    (cell,) = line(compared(short), "memory").cells
    assert (cell.text, cell.value) == ("undetermined", None) and cell.detail.endswith("it ends at 2 MiB, which caches hold")


def test_latencies_without_a_value_have_the_reason_of_their_points():
    good = latencies("A", [4096 << k for k in range(20)], lambda size: 2.0)
    lost = replace(good, records=tuple(replace(r, status="suspect", reason="others ran") for r in good.records), judged=True)
    found = compared(lost)
    for quantity in ("nearest cache", "memory"):
        (cell,) = line(found, quantity).cells
        assert (cell.text, cell.detail) == ("undetermined", "no point of pchase has a value: suspect: others ran")


def test_a_bandwidth_that_a_cache_may_have_given_is_no_bandwidth_of_memory():
    small = of("cpu", triad(900.0, 1 << 20), cache_bytes=32 << 20)
    cell = line(compared(of("gpu", triad(4000.0, 1 << 30)), small), TRIAD).cells[1]
    assert (cell.status, cell.text, cell.value) == ("bound", "at most 900 GB/s", None)
    assert (
        "1 MiB, the largest array, 0.031 times the claimed cache: a cache may hold part of it; measure 128 MiB" in cell.detail
    )
    own = replace(small.header.device, array_bytes=1 << 20)  # the user's --size makes it no truer
    assert (
        line(compared(of("gpu", triad(4000.0, 1 << 30)), replace(small, header=replace(small.header, device=own))), TRIAD)
        .cells[1]
        .status
        == "bound"
    )


def test_of_one_cpu_under_two_runtimes_the_larger_claim_of_a_cache_is_that_of_both():
    def under(platform, cache_bytes, units=2):
        info = device(platform, kind="cpu", platform=platform, cpu_id="GenuineIntel-6-167", cache_bytes=cache_bytes)
        return run([triad(30.0, 1 << 28)], header(replace(info, compute_units=units), CARDS))

    other = under("Third", 2 << 20, units=16)
    found = compared(under("Intel", 2 << 20), under("PoCL", 480 << 20), other)
    assert [cell.text for cell in line(found, TRIAD).cells] == ["at most 30.0 GB/s", "at most 30.0 GB/s", "30.0 GB/s"]
    claimed = line(found, "cache of global memory")
    assert [cell.text for cell in claimed.cells] == ["2 MiB", "480 MiB", "2 MiB"]


def test_a_size_that_a_spent_budget_left_out_leaves_the_headline_to_the_largest_that_was_measured():
    skipped = triad(1.0, 1 << 30, status="skipped", reason="the run's --budget was spent")
    cell = line(compared(of("gpu", triad(4000.0, 1 << 29), skipped), of("cpu", triad(160.0, 1 << 29))), TRIAD).cells[0]
    assert (cell.text, cell.point) == ("4,000 GB/s", "array_bytes=512 MiB")


def test_of_a_point_that_was_searched_and_not_measured_the_best_candidate_is_a_bound():
    known = discovered()["spmv"]
    rate = next(m for m in known.metrics if m.name == "flop_rate")
    card = BenchmarkInfo(known.version, known.suite, "", "", (rate,), tuning=("work_group",))

    def point(gflop_s, **changes):
        params = {"matrix": "reservoir", "format": "ell", "work_group": 64}
        return record("spmv", params, series([10**6] * 6, flops=round(gflop_s * 10**6)), version=known.version, **changes)

    skipped = replace(point(1.0), status="skipped", reason="the run's --budget was spent", series=())
    searched = [point(388.0, role="tune"), point(350.0, role="tune"), point(900.0, role="tune", status="suspect"), skipped]
    runs = [run(points, header(device(name), {"spmv": card})) for name, points in (("A", searched), ("B", [point(533.0)]))]
    cell = line(compared(*runs), "SpMV reservoir, best format").cells[0]
    assert (cell.text, cell.status, cell.value) == ("at least 388 GFLOP/s", "bound", None)
    assert cell.detail == "the best of 2 candidates of the search, 6 samples: the run's --budget was spent"
    slow = run([point(100.0)], header(device("C"), {"spmv": card}))
    marks = [cell.mark for cell in line(compared(*runs, slow), "SpMV reservoir, best format").cells]
    assert marks == ["?", "*", ""]  # at least 388 may be more than 533


def test_the_same_of_two_devices_are_marked_where_a_third_is_compared_with_neither():
    """A third device has another size, and is not called worse."""
    found = compared(multiplied("A", 4096), multiplied("B", 4096), multiplied("C", 512))
    assert [cell.mark for cell in line(found, "DGEMM").cells] == ["*", "*", ""]


def test_a_nearest_cache_that_the_sweep_does_not_tell_is_that_of_the_hierarchy():
    late = latencies("A", [1 << k for k in range(20, 32)], lambda size: 20.0 if size <= 1 << 24 else 300.0)
    both = [late, replace(late, header=replace(late.header, device=device("B")))]
    found = verdict(parts(both, findings=found_of(found_hierarchies.cpu(), None)))
    first, second = line(found, "nearest cache").cells
    assert (first.text, first.status) == ("1.11 ns", "ok") and first.detail.startswith("load from L1, by topology: ")
    assert (second.text, second.value) == ("undetermined", None)


def test_a_bound_of_a_hierarchy_is_shown_as_one():
    size = found_hierarchies.unknown("size_bytes", "neighbours use it", low=float(1 << 25))
    hierarchy = replace(found_hierarchies.cpu(), levels=(found_hierarchies.level("L2", "global", size),))
    found = verdict(parts([of("gpu", triad(1.0, 1 << 20)), of("cpu", triad(1.0, 1 << 20))], findings=found_of(None, hierarchy)))
    cell = line(found, "size of L2, by topology").cells[1]
    assert (cell.text, cell.status, cell.value, cell.detail) == ("at least 32 MiB", "bound", None, "neighbours use it")


def test_a_hostile_name_is_text_in_the_verdict():
    evil = "<script>alert(1)</script>|`$(x)"
    runs = [run([triad(4000.0, 1 << 30)], header(device(evil), CARDS)), of("cpu", triad(160.0, 1 << 29))]
    assert "<script" not in without_own_script(render_html(runs))


# ---- key quantities and short names -------------------------------------------------------------------------------------


def test_each_name_of_a_key_quantity_is_a_headline_or_a_load_by_topology():
    declared = {h.name for b in discovered().values() for h in b.headlines} | {name for of in LOADS.values() for name in of}
    names = [name for quantity in KEY_QUANTITIES for name in quantity.names]
    assert len(KEY_QUANTITIES) == 8 and len(set(names)) == len(names) and set(names) <= declared


def test_the_line_of_a_key_quantity_is_the_one_with_most_values():
    def loads(hierarchies):
        runs = [latencies(name, [4096 << k for k in range(20)], lambda size: 300.0 if size > 1 << 16 else 2.0) for name in "AB"]
        found = verdict(parts(runs, findings=found_of(*hierarchies)))
        return {quantity.title: line.name for quantity, line in key_lines(found)}["Memory latency"]

    assert loads([None, None]) == loads([dram_of(100.0), None]) == "memory"
    assert loads([dram_of(100.0), dram_of(200.0)]) == "load from DRAM, by topology"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["NVIDIA H100 80GB HBM3", "NVIDIA H200", "AMD Instinct MI300X"], "H100, H200, MI300X"),
        (["NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H200"], "H100 PCIe, H100 80GB HBM3, H200"),
        (["NVIDIA H200 #1", "NVIDIA H200 #2"], "H200 #1, H200 #2"),
        (["AMD EPYC (2 cores), PoCL 3.0-rc2", "Intel Xeon (16 cores), PoCL 5.0"], "EPYC 2c, Xeon 16c"),
        (["Intel Xeon (2 cores), PoCL 3.0", "Intel Xeon (2 cores), Intel OpenCL 26.1"], "Xeon 2c PoCL, Xeon 2c Intel"),
        (["Intel Xeon (2 cores), PoCL 3.0", "Intel Xeon (2 cores), PoCL 5.0"], "Xeon 2c PoCL 3.0, Xeon 2c PoCL 5.0"),
        (["Intel Xeon Platinum 8480+ (64 compute units), PoCL 5.0"], "Xeon 8480+ 64u"),
        (["Intel Xeon Phi (Knights Corner), 8 GB, published", "NVIDIA GeForce GTX 980, published"], "Xeon Phi, GTX 980"),
        (["cluster-node-rack-001", "cluster-node-rack-002"], "cluster-…ack-001, cluster-…ack-002"),
        (["driver of May, at night", "driver of May, at noon", ""], "driver of May at night, driver of May at noon, "),
    ],
)  # fmt: skip
def test_short_names_are_short_and_tell_devices_apart(labels, names):
    found = short_names(labels)
    assert ", ".join(found) == names and len(set(found)) == len(labels)


# ---- what rows are of -------------------------------------------------------------------------------------------------


def measured(benchmark, metric, points, info):
    """A run of a benchmark of this version with values of a rate, by parameters."""
    known = discovered()[benchmark]
    card = BenchmarkInfo(known.version, known.suite, "", "", (next(m for m in known.metrics if m.name == metric),))
    records = []
    for params, rate in points:
        amounts = [round(100_000 * times * rate) for times in (1, 3)]
        near, far = (series([100_000 * times] * 20, nbytes=n, ops=n) for times, n in zip((1, 3), amounts, strict=True))
        of_form = (near, far) if card.metrics[0].form.startswith("slope") else (near,)
        records.append(record(benchmark, params, *of_form, version=known.version))
    return run(records, header(info, {benchmark: card}))


def test_a_shared_set_has_one_size_and_not_the_best_of_sizes_that_nearer_caches_hold_in_part():
    def reads(name, of_small, of_16_mib):
        sets = ((1 << 20, of_small), (16 << 20, of_16_mib))
        points = [({"set": "shared", "path": "plain", "set_bytes": size, "unit_items": 2048}, rate) for size, rate in sets]
        return measured("cache_read", "read_bandwidth", points, device(name))

    found = compared(reads("A", 17_320.0, 9_400.0), reads("B", 13_571.0, 8_066.0))
    (row,) = [one for one in found.lines if one.benchmark == "cache_read"]
    assert row.name == "reads of one set of 16 MiB by all compute units"
    assert [cell.text for cell in row.cells] == ["9,400 GB/s", "8,066 GB/s"]


def test_additions_that_a_compiler_may_merge_are_no_headline_and_those_of_cores_are():
    def adds(info, **rates):
        params = {"op": "add", "memory": "global", "address": "same", "result": "used", "items": 256}
        return measured("atomic", "throughput", [({**params, "dtype": dtype}, rate) for dtype, rate in rates.items()], info)

    cpus = [device(name, kind="cpu") for name in ("CPU", "Quick CPU")]
    runs = [adds(device("A"), int=43.7, long=1.37), adds(device("Quick GPU"), int=43.7), adds(cpus[0], int=2.0, long=4.0)]
    found = compared(*runs, adds(cpus[1], int=2.0))
    (row,) = [one for one in found.lines if one.benchmark == "atomic"]
    values = [round(cell.value / row.cells[0].value, 2) if cell.value else None for cell in row.cells]
    assert values == [1.0, None, 2.92, 1.46]
    assert [cell.size for cell in row.cells] == ["items=256", "", "items=256", "dtype=int items=256"]
    assert found.pairs.objection(row, 0, 3) and not found.pairs.objection(row, 0, 2)


def test_a_barrier_that_a_cpus_compiler_removed_costs_less_than_a_cycle_and_one_of_a_gpu_is_suspect():
    def barriers(info):
        (known, metric) = discovered()["barrier"], discovered()["barrier"].metrics[0]
        card = BenchmarkInfo(known.version, known.suite, "", "", (metric,))
        return run(
            [replace(slope({"work_items": 256}, [0.01] * 8), core_clock=clock(2.0), benchmark="barrier")],
            header(info, {"barrier": card}),
        )

    found = compared(barriers(device("GPU")), barriers(device("CPU", kind="cpu")))
    (row,) = [one for one in found.lines if one.benchmark == "barrier"]
    assert [(cell.text, cell.status) for cell in row.cells] == [("suspect", "suspect"), ("under 1 cycle", "bound")]


def test_the_best_of_a_row_is_one_that_the_row_is_about():
    infos = [device("GPU"), device("Slow GPU"), device("CPU", kind="cpu"), device("Slow CPU", kind="cpu")]
    points = [[({"work_items": 256}, rate)] for rate in (0.1, 0.01, 1.0, 0.5)]
    found = compared(*(measured("barrier", "barrier", of, info) for of, info in zip(points, infos, strict=True)))
    (row,) = [one for one in found.lines if one.benchmark == "barrier"]
    assert [cell.mark for cell in row.cells] == ["*", "", "", ""]  # a time: a CPU's is the end of a loop


def test_each_peak_that_a_fraction_is_of_has_a_row_of_theory():
    peaks = {m.peak for b in discovered().values() for h in b.headlines for m in b.metrics if m.name == h.metric and m.peak}
    assert "fp64_matrix_gflop_s" in peaks and peaks <= set(FIGURES.values())


def test_a_fraction_of_the_peak_of_matrix_instructions_says_so():
    h200 = device("NVIDIA H200", platform="NVIDIA CUDA", vendor="NVIDIA Corporation", compute_units=132)
    points = [({"dtype": "double", "variant": "ptx", "n": 8192}, 61_783.0)]
    card = replace(discovered()["dgemm"].metrics[1])
    known = BenchmarkInfo(discovered()["dgemm"].version, "compute", "", "", (card,), x="n")
    point = record("dgemm", points[0][0], replace(series([10**7] * 20), flops=61_783 * 10**7), version=known.version)
    (cell,) = line(compared(run([point], header(h200, {"dgemm": known}))), "DGEMM").cells
    assert cell.extra == "92% of matrix peak"
    theory = line(compared(run([point], header(h200, {"dgemm": known}))), "FP64, matrix instructions")
    assert theory.cells[0].text == "66,908 GFLOP/s"


@pytest.mark.parametrize(
    ("benchmark", "metric", "params", "more", "meaning"),
    [
        ("barrier", "barrier", {"work_items": 256}, {}, "on CPUs a loop over work-items ends on one core"),
        (
            "transfer", "link_bandwidth", {"direction": "to_device", "memory": "pageable", "array_bytes": 1 << 28},
            {"shares_host_memory": True}, "a copy within the host's memory, over no link",
        ),
        ("local_read", "bandwidth", {"path": "portable"}, {}, "ordinary memory that a cache holds"),
    ],
)  # fmt: skip
def test_what_a_value_is_on_a_cpu_alone_is_said_and_not_compared_with_gpus(benchmark, metric, params, more, meaning):
    infos = [device("GPU"), device("Other GPU"), device("CPU", kind="cpu", **more), device("Other CPU", kind="cpu", **more)]
    runs = [measured(benchmark, metric, [(params, rate)], info) for info, rate in zip(infos, (3.5, 1.0, 2.5, 0.5), strict=True)]
    found = compared(*runs, baseline="GPU")
    (row,) = [one for one in found.lines if one.benchmark == benchmark]
    assert f"{meaning}: CPU, Other CPU" in row.note
    assert [cell.ratio != "" for cell in row.cells] == [True, True, False, False]
    assert not any(found.pairs.decide(row, place, other) for place in (0, 1) for other in (2, 3))
    assert found.pairs.decide(row, 2, 3) is not None


def test_latencies_of_memory_by_topology_and_by_a_sweep_say_how_they_differ():
    (sweep,) = [one for one in discovered()["pchase"].headlines if one.name == "memory"]
    found = verdict(
        parts([of("gpu", triad(1.0, 1 << 20)), of("cpu", triad(1.0, 1 << 20))], findings=found_of(None, dram_of(100.0)))
    )
    by_topology = line(found, "load from DRAM, by topology").note
    assert "excludes translation" in sweep.note and "load from DRAM, by topology" in sweep.note
    assert "without address translation" in by_topology and "row memory" in by_topology


def dram_of(ns):
    latency = found_hierarchies.known("latency_ns", ns, ns * 0.999, ns * 1.001)
    return replace(found_hierarchies.cpu(), levels=(found_hierarchies.level("DRAM", "global", latency),))


def triads(*rates):
    return [run([triad(rate, 1 << 30)], header(device(f"GPU {n}"), CARDS)) for n, rate in enumerate(rates)]


def row_of(table, quantity):
    (cells,) = [row for group in table.groups for row in group.rows if str(row[0]).startswith(quantity)]
    return cells[1:]


def test_cells_are_shaded_by_the_ratio_to_the_best_where_they_are_comparable():
    table = device_table(compared(*triads(4000.0, 3900.0, 2500.0, 900.0, 300.0, 10.0), of("cpu", triad(9000.0, 1 << 20))))
    kinds = [cell.kind for cell in row_of(table, TRIAD)]
    assert kinds == ["best shade-0", "best shade-0", "shade-1", "shade-2", "shade-3", "", "muted"]
    details = [cell.detail for cell in row_of(table, TRIAD)]
    assert details[2].endswith("; the best is 1.60 times as good") and "times as good" not in details[0]
    assert [cell.kind for cell in row_of(table, "compute units")] == ["published"] * 7


def test_published_devices_stand_after_a_rule_as_many_as_fit_and_names_are_short():
    names = ["nvidia-gtx-980", "nvidia-gtx-780", "nvidia-gtx-560-ti"]
    table = device_table(compared(*triads(*range(100, 106)), others=[published(name) for name in names]))
    assert [column.kind for column in table.columns] == [""] * 6 + ["other rule", "other", "other extra"]
    assert (table.shown, table.extra) == (8, 1)
    assert [column.name for column in table.columns[:2]] == ["GPU 0", "GPU 1"]
    assert {column.name: column.label for column in table.legend}["GTX 980"] == "NVIDIA GeForce GTX 980, published"
    assert not any(note.startswith("GTX") for note in table.notes)
    whole = scorecard_table(compared(*triads(100.0), others=[published("nvidia-gtx-980")]))
    assert whole.notes[-1] == "GTX 980: NVIDIA GeForce GTX 980, published"


def test_rows_beyond_those_of_a_screen_or_two_are_folded_by_groups():
    points = [triad(100.0, 1 << 30), total(1024, 10), copy(1.0), launch(9)]
    found = compared(*(run(points, header(device(name), CARDS)) for name in "AB"))
    one = line(found, TRIAD)
    many = replace(found, lines=(*(replace(one, name=f"triad {n}") for n in range(26)), *found.lines))
    for scorecard, folded in ((found, []), (many, ["claimed by the driver"])):
        assert [group.name for group in device_table(scorecard).groups if group.folded] == folded


def test_more_devices_than_columns_have_the_best_the_median_and_the_worst_beside_them():
    cut = device_table(compared(*triads(*range(100, 108))))
    assert [column.name for column in cut.columns] == [f"GPU {n}" for n in range(8)]
    table = device_table(compared(*triads(*range(100, 200, 10))))
    assert [column.name for column in table.columns[:4]] == ["best", "median", "worst", "GPU 0"]
    best, median, worst = row_of(table, TRIAD)[:3]
    assert (str(best), str(median), str(worst)) == ("190 GB/s, GPU 9", "150 GB/s", "100 GB/s, GPU 0")
    assert [str(cell) for cell in row_of(table, "compute units")[:3]] == ["–", "–", "–"]


def test_a_median_over_several_points_has_none_in_the_note():
    cells = [ScorecardCell("1", status="ok", point=point) for point in ("", "n=512", "n=1024")]
    assert _difference(["A", "B", "C"], cells) == "B: n=512; C: n=1024"


def test_sizes_stand_in_the_cells_where_they_differ():
    def adds(name, items):
        params = {"op": "add", "dtype": "long", "memory": "global", "address": "same", "result": "used", "items": items}
        return measured("atomic", "throughput", [(params, 1.0)], device(name))

    row = row_of(device_table(compared(adds("A", 256), adds("B", 512))), "adds to one")
    assert [cell.more for cell in row] == [("items=256",), ("items=512",)]
    assert [cell.more for cell in row_of(device_table(compared(adds("A", 256), adds("B", 256))), "adds to one")] == [(), ()]


def test_a_bandwidth_of_an_array_near_the_size_of_the_claimed_cache_says_so():
    (found,) = line(compared(of("cpu", triad(100.0, 1 << 30), cache_bytes=512 << 20)), TRIAD).cells
    assert (found.text, found.value, round(found.limit)) == ("at most 100 GB/s", None, 100)
    assert found.detail.startswith("1 GiB, the largest array, 2 times the claimed cache")
    (far,) = line(compared(of("cpu", triad(100.0, 1 << 30), cache_bytes=32 << 20)), TRIAD).cells
    assert far.text == "100 GB/s"


def test_over_two_processes_the_interval_is_called_a_range():
    both = [triad(4000.0, 1 << 30), replace(triad(4010.0, 1 << 30), process=1)]
    cell = line(compared(of("gpu", *both), of("cpu", triad(160.0, 1 << 29))), TRIAD).cells[0]
    assert "range over 2 processes" in cell.detail and "95% interval" not in cell.detail


# ---- runs of one device -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "platform", "driver", "label"),
    [
        ("pthread-Intel(R) Xeon(R) Processor", "Portable Computing Language", "3.0-rc2", "Intel Xeon (16 cores), PoCL 3.0-rc2"),
        (
            "cpu-skylake-avx512-Intel(R) Xeon(R) Processor", "Portable Computing Language", "5.0+debian",
            "Intel Xeon (16 cores), PoCL 5.0",
        ),
        ("pthread-AMD EPYC", "Portable Computing Language", "3.0-rc2", "AMD EPYC (16 cores), PoCL 3.0-rc2"),
        (
            "Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) OpenCL", "2024.17.3.0.08_160000",
            "Intel Xeon (16 cores), Intel OpenCL 2024.17.3",
        ),
        ("", "Any", "1", "(16 cores), Any 1"),
    ],
)  # fmt: skip
def test_a_cpu_has_the_name_that_people_use(name, platform, driver, label):
    info = device(name, kind="cpu", platform=platform, driver=driver, compute_units=16)
    assert device_label(header(info, host={"cores": 16})) == label
    # hardware threads, or a part of the cores: OpenCL says compute units of both
    assert device_label(header(info, host={"cores": 8})) == label.replace("cores", "compute units")


def test_a_gpu_has_its_own_name():
    assert device_label(header(device("NVIDIA H200", platform="NVIDIA CUDA"))) == "NVIDIA H200"


def stored(started, *records, cards=CARDS, info=None, run_id="A"):
    return run(records, header(info or device("NVIDIA H200"), cards, started=started, run_id=run_id))


def test_of_each_point_of_one_device_the_latest_value_is_shown():
    old = stored("2026-01-01T00:00:00+00:00", triad(1.0, 1 << 20), triad(2.0, 1 << 30), run_id="A")
    new = stored("2026-02-01T00:00:00+00:00", triad(3.0, 1 << 30), run_id="B")
    (found,) = merged_runs([new, old])
    assert found.label == "NVIDIA H200"
    assert {r.params["array_bytes"]: r for r in found.run.records} == {
        1 << 20: old.records[0], 1 << 30: new.records[0],
    }  # fmt: skip
    assert found.notes == ("2 runs of this device are shown as one: of each point the latest value, suspect where all are",)
    assert found.run.header.run_id == "B, A"


def test_a_suspect_value_hides_no_good_one_and_a_failure_is_not_hidden():
    old = stored("2026-01-01T00:00:00+00:00", triad(2.0, 1 << 30), triad(2.0, 1 << 29))
    doubted = [replace(triad(1.0, 1 << 30, status="suspect", reason="drifted"), process=n) for n in range(2)]
    few = replace(triad(1.0, 1 << 30), process=2)  # most processes were disturbed
    failed = triad(1.0, 1 << 29, status="failed", reason="out of resources")
    new = stored("2026-02-01T00:00:00+00:00", *doubted, few, failed)
    (found,) = merged_runs([old, new])
    assert found.run.records == (failed, old.records[0])
    (alone,) = merged_runs([new])
    assert alone.run.records == new.records


def test_a_point_that_the_latest_run_left_out_is_that_of_an_earlier_one():
    old = stored("2026-01-01T00:00:00+00:00", triad(2.0, 1 << 30))
    skipped = [triad(1.0, size, status="skipped", reason="the run's --budget was spent") for size in (1 << 30, 1 << 29)]
    new = stored("2026-02-01T00:00:00+00:00", *skipped)
    assert merged_runs([old, new])[0].run.records == (old.records[0], skipped[1])


def test_only_the_latest_version_of_a_benchmark_is_shown_and_the_others_are_named():
    cards = {"stream": replace(STREAM, version=2)}
    old = stored("2026-03-01T00:00:00+00:00", triad(1.0, 1 << 20), run_id="A")  # measured later, by an older version
    new = stored("2026-02-01T00:00:00+00:00", triad(3.0, 1 << 30, version=2), cards=cards, run_id="B")
    (found,) = merged_runs([old, new])
    assert found.run.records == new.records
    assert "stream: version 2 is shown, and version 1 left out" in found.notes


def test_a_point_is_the_same_whatever_the_search_chose():
    cards = {"stream": replace(STREAM, tuning=("width",))}

    def one(width, gb_s):
        point = triad(gb_s, 1 << 30)
        return replace(point, params={**point.params, "width": width})

    old = stored("2026-01-01T00:00:00+00:00", one(4, 1.0), cards=cards)
    new = stored("2026-02-01T00:00:00+00:00", one(8, 2.0), cards=cards)
    (found,) = merged_runs([old, new])
    assert found.run.records == new.records


def test_what_grows_with_its_results_is_of_the_run_with_most_good_points_and_of_as_many_the_latest():
    cards = {"stream": replace(STREAM, growing="array_bytes")}
    old = stored("2026-01-01T00:00:00+00:00", triad(1.0, 1 << 20), triad(2.0, 1 << 30), cards=cards)
    quick = stored("2026-02-01T00:00:00+00:00", triad(3.0, 1 << 30), cards=cards)
    assert merged_runs([old, quick])[0].run.records == old.records
    bad = triad(3.0, 1 << 20, status="suspect", gate="levels", reason="disturbed")
    disturbed = stored("2026-02-01T00:00:00+00:00", bad, triad(3.0, 1 << 30), cards=cards)
    assert merged_runs([old, disturbed])[0].run.records == old.records
    new = stored("2026-02-01T00:00:00+00:00", triad(3.0, 1 << 20), triad(3.0, 1 << 30), cards=cards)
    assert merged_runs([old, new])[0].run.records == new.records


def test_another_driver_is_another_device_and_a_label_keeps_runs_apart():
    first = stored("2026-01-01T00:00:00+00:00", triad(1.0, 1 << 20))
    other = stored("2026-01-02T00:00:00+00:00", triad(1.0, 1 << 20), info=device("NVIDIA H200", driver="2.0"))
    assert [one.label for one in merged_runs([first, other])] == ["NVIDIA H200 #1", "NVIDIA H200 #2"]
    assert [one.label for one in merged_runs([first, first], ["before", "after"])] == ["before", "after"]
    assert merged_runs([first])[0].run is first


def test_cpus_of_one_name_have_their_family_and_model_beside_it():
    """A virtual machine moved from a host of model 167 to one of 207; both were "Intel Xeon (2 cores), PoCL 3.0-rc2"."""
    infos = [device("Xeon", kind="cpu", driver="3.0", cpu_id=name) for name in ("GenuineIntel-6-167", "GenuineIntel-6-207", "")]
    runs = [stored("2026-01-01T00:00:00+00:00", triad(1.0, 1 << 20), info=info) for info in infos]
    name = device_label(runs[0].header)
    found = [one.label for one in merged_runs(runs)]
    assert found == [f"{name}, family 6 model 167 #1", f"{name}, family 6 model 207 #2", f"{name} #3"]
    assert [one[-2:] for one in short_names(found)] == ["#1", "#2", "#3"]


def test_runs_of_several_devices_of_one_name_are_told_of():
    first, other = (stored("2026-01-01T00:00:00+00:00", triad(1.0, 1 << 20), info=device("NVIDIA H200", id=i)) for i in "AB")
    (found,) = merged_runs([first, other])
    assert "they are of 2 devices of this name" in found.notes[1]


# ---- published ----------------------------------------------------------------------------------------------------------

EVERY_PUBLISHED = [published_run(sheet) for sheet in published_sheets(["all"])]


def published(name):
    return published_run(published_sheets([name])[0])


def test_published_results_join_their_headlines_and_take_no_part_in_ranks():
    point = triad(100.0, 1 << 30)
    copied = replace(point, params={**point.params, "op": "copy", "dtype": "float"})
    found = verdict(parts([of("gpu", copied), of("cpu", copied)]), others=[published("nvidia-gtx-980")])
    assert found.labels == ("Fast GPU", "Slow CPU", "NVIDIA GeForce GTX 980, published")
    cells = line(found, "memory copy, float").cells
    assert cells[2].text == "156 GB/s" and cells[2].value is None and "Mei and Chu 2015, table VI" in cells[2].detail
    assert not any(cell.is_best for cell in cells)
    peak = line(found, "memory bandwidth")
    assert [c.text for c in peak.cells] == ["–", "–", "224 GB/s"] and peak.group == "theoretical, by spec sheet"


def test_every_published_result_joins_once_or_says_why_not():
    silent = []
    for published_one in EVERY_PUBLISHED:
        taken = [id(point.value) for point in joined_values(published_one)]
        assert len(taken) == len(set(taken))
        for value in published_one.values:
            if id(value) not in taken and not why_not_joined(value):
                silent.append(f"{published_one.device}: {value.benchmark} {value.metric} {dict(value.params)}")
    assert not silent, "\n".join(silent)


def test_a_published_point_has_its_bounds_place_and_quote_and_is_never_a_value_of_the_verdict():
    phi, kepler = map(published, ("intel-xeon-phi-knc", "nvidia-gtx-780"))
    (triad_point,) = [p.ours for p in joined_values(phi) if p.ours.benchmark == "stream"]
    assert (triad_point.metric, triad_point.params) == ("bandwidth", {"op": "triad", "dtype": "double"})
    assert (triad_point.value, triad_point.low, triad_point.high, triad_point.unit) == (160, 144, 176, "GB/s")
    assert (triad_point.paper, triad_point.qualifier) == ("Razzaq et al. 2016", "about")
    assert "section VI-H" in triad_point.source and "only half" in triad_point.quote and triad_point.formula == "320 * 0.5"
    (size,) = [p.ours for p in joined_values(kepler) if (p.ours.metric, p.ours.params) == ("size_bytes", {"level": "L2"})]
    assert (size.benchmark, size.value, size.unit) == (FOUND, 1536 << 10, "B")
    cells = imported_cells(phi)
    assert cells["memory triad, double"].text == "about 160 GB/s" and cells["memory triad, double"].extra == "derived"
    assert cells["host to device"].text == "below 8 GB/s" and cells["DGEMM"].text == "below 1,000 GFLOP/s"
    latency = imported_cells(kepler)["memory"]
    assert latency.text == "337 ns" and "339 / 1.006" in latency.detail
    every = [cell for run in EVERY_PUBLISHED for cell in imported_cells(run).values()]
    assert len(every) > 25
    assert all((cell.value, cell.low, cell.high, cell.status) == (None, None, None, "published") for cell in every)
