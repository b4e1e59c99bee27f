"""The answers of a report: what they state is what compare decides, in few words, with their evidence behind them."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from clmembench.analysis import compare
from clmembench.model import BenchmarkInfo, Metric
from clmembench.report.frame import parts
from clmembench.report.scorecard.answers import MAX_ANSWERS, MAX_WORDS, answers, further_details
from clmembench.report.scorecard.scorecard import verdict
from clmembench.results import jsonl
from clmembench.results.imported import published_run
from clmembench.specs.sheets import published_sheets
from clmembench.units import format_value
from tests.builders import device, found_of, header, record, run, series
from tests.cases import each
from tests.report.test_scorecard import (
    CARDS,
    LAUNCH,
    SUMS,
    TRIAD,
    compared,
    copy,
    dram_of,
    launch,
    line,
    of,
    published,
    total,
    triad,
)  # fmt: skip

REPORTS = Path(__file__).parents[2] / "reports"
MEMORY = "Memory-bound code: "


def answered(*runs, findings=(), others=()):
    """The answers on these runs, by the words before their colon."""
    found = parts(runs, findings=findings)
    known = answers(verdict(found, others=others), found, others)
    assert len(known) <= MAX_ANSWERS and all(len(one.text.split()) <= MAX_WORDS for one in known), known
    return {one.text.partition(":")[0]: one for one in known}


def further(*runs):
    found = parts(runs)
    return further_details(verdict(found), found)


def about_sums(*runs):
    return [text for text in further(*runs) if "um of" in text or "Sums of" in text]


def test_the_ratio_of_bandwidths_is_told_with_the_interval_of_compare():
    runs = of("gpu", triad(4000.0, 1 << 30)), of("cpu", triad(160.0, 1 << 30))
    answer = answered(*runs)["Memory-bound code"]
    (change,) = compare.compare(*reversed(runs)).changes
    ends = f"{format_value(change.gain.low)} to {format_value(change.gain.high)}"
    assert answer.text == f"{MEMORY}Fast GPU is about 25 times as fast as Slow CPU."
    assert answer.details == (
        "memory triad, double (bandwidth): Fast GPU has 4,000 GB/s.",
        f"It is 25.0 times as good as Slow CPU ({ends}); brackets have 95% intervals.",
    )


def test_a_ratio_that_is_known_well_has_three_digits():
    runs = [run([triad(gb_s, 1 << 30)], header(device(name), CARDS)) for name, gb_s in (("A", 4368.0), ("B", 3064.0))]
    assert answered(*runs)["Memory-bound code"].text == f"{MEMORY}A is 1.43 times as fast as B."


def test_a_value_by_an_older_version_is_not_compared():
    newer = {**CARDS, "stream": replace(CARDS["stream"], version=2)}
    new = run([triad(160.0, 1 << 29, version=2)], header(device("New", kind="cpu"), newer))
    known = answered(of("gpu", triad(4000.0, 1 << 30)), new)
    assert known["Memory-bound code"].text == f"{MEMORY}New has 160 GB/s; not compared: Fast GPU (by an older version)."
    assert known["Suspect"].text == "Suspect: nothing. Not compared: 1 value by an older version."
    sums = [total(n, 1e4) for n in (1024, 4096)]
    old = run([replace(r, version=1) for r in sums], header(device("Old"), {"reduction": replace(SUMS, version=1)}))
    assert about_sums(old, of("cpu", *sums)) == []


def test_what_is_suspect_is_named_with_its_reason():
    suspect = triad(9000.0, 1 << 30, status="suspect", gate="peak", reason="over the theoretical peak")
    answer = answered(of("gpu", suspect), of("cpu", triad(160.0, 1 << 29)))["Suspect"]
    assert answer.text == "Suspect: memory triad on Fast GPU."
    assert answer.details == ("Fast GPU, memory triad, double (suspect): over the theoretical peak.",)
    smaller = triad(9000.0, 1 << 20, status="suspect", gate="peak", reason="over the theoretical peak")
    known = answered(of("gpu", smaller, triad(400.0, 1 << 30)), of("cpu", triad(160.0, 1 << 29)))
    assert known["Suspect"].text == "Suspect: no key quantity, but 1 other value (on Fast GPU)."
    assert known["Suspect"].details == ("Fast GPU: 1 suspect value, 1 of stream; reasons are in All points.",)


def test_many_suspect_values_are_counted_apart_from_those_that_are_not_compared():
    lost = triad(9000.0, 1 << 30, status="suspect", gate="peak", reason="odd")
    lost = [replace(lost, params={**lost.params, "op": op}) for op in ("copy", "triad", "read")]
    text = answered(of("gpu", *lost), of("cpu", *lost))["Suspect"].text
    assert text.startswith("Suspect: memory copy on Fast GPU and Slow CPU; ") and " and 1 other" not in text, text


def test_the_next_device_and_the_best_of_the_other_kind_are_named_and_who_is_undecided():
    gpus = [
        run([triad(gb_s, 1 << 30)], header(device(name), CARDS)) for name, gb_s in (("A", 4000.0), ("B", 2000.0), ("C", 1e3))
    ]
    cpus = [run([triad(gb_s, 1 << 30)], header(device(name, kind="cpu"), CARDS)) for name, gb_s in (("D", 100.0), ("E", 50.0))]
    text = answered(*gpus, *cpus)["Memory-bound code"].text
    assert text.startswith(f"{MEMORY}A is 2.00 times as fast as B and about 40 times as fast as D")
    close = [run([triad(gb_s, 1 << 30, 0.01)], header(device(name), CARDS)) for name, gb_s in (("F", 4001.0), ("G", 3810.0))]
    assert "; undecided against " in answered(*close, gpus[1])["Memory-bound code"].text
    assert answered(*close)["Memory-bound code"].text.endswith("no difference is decided; F has the best median, 4,001 GB/s.")


OTHER_PROGRAMS = [0.0, 0.3, 0.8]


@each("others", OTHER_PROGRAMS)
@each("processes", [1, 3])
@each("factor", [1.01, 1.2, 2.0, 5.0, 30.0])
@each("kinds", [("gpu", "cpu"), ("gpu", "gpu"), ("cpu", "cpu")])
def test_a_report_states_what_compare_calls_and_nothing_that_it_leaves_undecided(kinds, factor, processes, others):
    """Samples within a process agree to 0.1%, so that intervals of a run's own samples would part all of these."""

    def made(name, kind, gb_s, share):
        points = [
            replace(triad(gb_s * (1 + 0.02 * process), 1 << 30), process=process, cpu_others=share)
            for process in range(processes)
        ]
        return run(points, header(device(name, kind=kind), CARDS, host={"virtual": True}))

    runs = made("A", kinds[0], 100.0 * factor, 0.0), made("B", kinds[1], 100.0, others)
    (change,) = compare.compare(runs[1], runs[0]).changes
    found = verdict(parts(runs), baseline="B")
    row = line(found, TRIAD)
    assert [cell.is_best for cell in row.cells] == [change.verdict == "faster", False]
    assert row.cells[0].ratio == (f"{format_value(change.gain.value)}x" if change.verdict == "faster" else change.verdict)
    text = answered(*runs)["Memory-bound code"].text
    assert (" as fast as B" in text) == (change.verdict == "faster")
    assert ("equal within" in text) == (change.verdict == "same")
    assert ("no difference is decided" in text) == (change.verdict not in ("faster", "same"))


def test_of_committed_runs_a_report_decides_nothing_that_compare_leaves_undecided():
    names = (
        "h200-sxm-quick",
        "h100-sxm-quick",
        "xeon-16-cores-pocl-quick",
        "xeon-2-cores-intel-quick",
        "xeon-2-cores-pocl-quick",
    )
    judged = {part.label: part for part in parts([jsonl.read(REPORTS / f"{name}.jsonl.gz") for name in names], names)}
    undecided, wrong = 0, []
    for first, second in combinations(judged.values(), 2):
        changes = compare.compare(first.run, second.run).changes
        known = {(c.benchmark, c.first, c.second): c.verdict for c in changes if c.ratio is not None}
        found = verdict([first, second])
        for row in found.lines:
            one, other = row.cells[:2]
            said = known.get((row.benchmark, one.value, other.value))
            decided = found.pairs.decide(row, 0, 1)
            undecided += said == "undecided"
            if said is not None and decided is not None and decided.verdict in ("faster", "slower") and decided.verdict != said:
                wrong.append((first.label, second.label, row.name, decided, said))
    assert wrong == [] and undecided > 10


def test_a_value_of_a_cpu_that_others_used_is_not_said_to_be_worse():
    quiet = of("gpu", triad(400.0, 1 << 30))
    busy = of("cpu", replace(triad(160.0, 1 << 30), cpu_others=0.8))
    texts = [answered(quiet, other)["Memory-bound code"].text for other in (of("cpu", triad(16.0, 1 << 30)), busy)]
    assert ["times as fast" in text for text in texts] == [True, False]


def test_devices_that_are_the_same_are_not_ranked():
    runs = [run([triad(gb_s, 1 << 30)], header(device(name), CARDS)) for name, gb_s in (("A", 1000.0), ("B", 1001.0))]
    answer = answered(*runs)["Memory-bound code"]
    assert answer.text == f"{MEMORY}B and A are equal within 5%." and "It is as good within 5% as A." in answer.details


def test_the_size_from_which_a_sum_is_faster_on_the_gpu_with_and_without_the_way_there():
    sizes = [1 << k for k in range(10, 27, 4)]
    gpu = [launch(8_000), *(total(n, 1_000 + n / 400) for n in sizes)]  # 3.2 TB/s
    cpu = [launch(400), *(total(n, 100 + n / 10) for n in sizes)]
    (alone,) = about_sums(of("gpu", *gpu), of("cpu", *cpu))
    assert "from some size between 1,024 and 262,144 elements on" in alone  # at 16,384 compare decides nothing
    assert alone.endswith("Times include a launch and its completion, 8.00 us and 400 ns.")
    (moved,) = about_sums(of("gpu", *gpu, copy(5.0)), of("cpu", *cpu))
    assert (
        moved.startswith(alone.partition(". ")[0]) and "(5.00 GB/s) it is faster there at no size up to 67,108,864" in moved
    )  # 1.6 ns an element
    (never,) = about_sums(of("gpu", launch(8_000), *[total(n, 1e9) for n in sizes]), of("cpu", *cpu))
    assert "at no size up to 67,108,864" in never
    (always,) = about_sums(of("gpu", launch(10), *[total(n, 10 + n / 400) for n in sizes]), of("cpu", *cpu))
    assert "from the smallest size on, 1,024" in always
    other = run([triad(1.0, 1 << 30)], header(device("Other CPU", kind="cpu"), CARDS))
    assert about_sums(of("gpu", *gpu), of("cpu", *cpu), other)[-1].startswith(
        "Sums of 1 other pair of a GPU and a CPU are not compared"
    )


def test_one_cpu_under_two_runtimes_is_compared_where_intervals_are_apart():
    def under(platform, gb_s, ns, cpu_id="GenuineIntel-6-106", **more):
        info = device("Xeon", kind="cpu", platform=platform, cpu_id=cpu_id, **more)
        return run([triad(gb_s, 1 << 30), launch(ns)], header(info, CARDS))

    text = further(under("PoCL", 200.0, 25_000), under("Intel", 20.0, 5_000))[-1]
    assert "Xeon #1 is better in 1 quantity (memory triad, double: 10.0 times)" in text
    assert "Xeon #2 is better in 1 quantity (launch, round trip: 5.00 times)" in text
    near = further(under("PoCL", 40.0, 25_000), under("Intel", 40.001, 5_000))[-1]
    assert near.endswith("(launch, round trip: 5.00 times); 1 quantity the same or undecided.")
    assert not any("two runtimes" in t for t in further(under("PoCL", 40.0, 9), under("Intel", 20.0, 9, "AuthenticAMD-25-17")))
    opencl, layer = under("Intel", 40.0, 4_000), "Both run kernels by the same driver"
    assert layer in further(opencl, under("SYCL (Intel)", 40.001, 60_000, runtime="sycl"))[-1]
    for more in ({"runtime": "sycl", "driver": "another"}, {"runtime": "opencl"}):
        assert layer not in further(opencl, under("SYCL (Intel)", 40.001, 60_000, **more))[-1]


def test_of_a_cluster_of_one_cpu_some_pairs_are_told_of_and_the_others_are_counted():
    def node(number):
        info = device(f"Xeon {number}", kind="cpu", platform=("PoCL", "Intel")[number % 2], cpu_id="GenuineIntel-6-106")
        return run([triad(20.0 * 3**number, 1 << 30)], header(info, CARDS))

    said = further(*map(node, range(6)))
    assert sum("two runtimes" in text for text in said) == 3
    assert said[-1] == "6 more pairs of such columns are in the table."  # 3 times 3 pairs


@pytest.mark.parametrize(
    ("second", "says"), [(336.0, "A and B are equal"), (360.0, "A is 1.07 times as fast as B"), (353.0, "no difference")]
)
def test_latencies_by_topology_are_compared_with_the_noise_of_chases(second, says):
    gpus = [run([triad(100.0, 1 << 30)], header(device(name), CARDS)) for name in "AB"]
    answer = answered(*gpus, findings=found_of(dram_of(335.0), dram_of(second)))["Latency-bound code"]
    assert says in answer.text and "A has 335 ns" in answer.details[0]


def test_what_a_paper_states_of_an_accelerator_and_of_its_cpus_is_an_answer_with_its_bounds():
    names = ("intel-xeon-phi-knc", "intel-xeon-haswell-ep", "nvidia-gtx-980")
    phi, haswell, gtx = (published(name) for name in names)
    mine = of("gpu", triad(4000.0, 1 << 30))
    answer = answered(mine, others=[haswell, gtx, phi])["Published values"]
    assert answer.text == (
        "Published values: Xeon Phi has about 1.6 times the memory bandwidth of the paper's CPUs (Xeon E5 v3) and at most 1.1 "
        "times their DGEMM."
    )
    assert answer.details[0].startswith("Razzaq et al. 2016, not measured here")
    assert answer.details[1].startswith(
        "memory triad, double, Xeon Phi: about 160 GB/s (the paper does not say which of STREAM's kernels it is of; "
    )
    assert "144 to 176" in answer.details[1]
    assert not any("Published values" in answered(mine, others=others) for others in ([haswell], [phi, gtx]))


def test_of_every_published_device_the_accelerator_is_compared_with_the_best_cpu_of_its_paper():
    every = [published_run(sheet) for sheet in published_sheets(["all"])]
    assert "about 1.6 times" in answered(of("gpu", triad(4000.0, 1 << 30)), others=every)["Published values"].text


def test_a_bandwidth_of_an_array_near_the_size_of_the_claimed_cache_is_not_compared():
    near = of("cpu", triad(100.0, 1 << 30), cache_bytes=512 << 20)
    runs = [of("gpu", triad(4000.0, 1 << 30)), near, run([triad(400.0, 1 << 30)], header(device("Third"), CARDS))]
    row = line(compared(*runs), TRIAD)
    assert [cell.is_best for cell in row.cells] == [True, False, False]
    answer = answered(*runs)["Memory-bound code"]
    assert answer.text.endswith("times as fast as Third.") and "Not compared: Slow CPU (at most 100 GB/s)." in answer.details
    assert answered(near)["Memory-bound code"].text == f"{MEMORY}only bounds are known, at most 100 GB/s on Slow CPU."
    assert answered(*runs[:2])["Suspect"].text.endswith("Not compared: 1 bound.")
    # a bound on the worse side decides: 4,000 GB/s, less its interval, over at most 100
    assert answered(*runs[:2])["Memory-bound code"].text == f"{MEMORY}Fast GPU is at least 39 times as fast as Slow CPU."
    slow = of("gpu", triad(50.0, 1 << 30))
    assert "not compared: Slow CPU (at most 100 GB/s)" in answered(slow, near)["Memory-bound code"].text


def test_a_share_of_a_cpu_is_not_compared_with_the_whole():
    host = {"cpu": "Xeon", "logical_cpus": 2, "virtual": True}
    infos = [device("Xeon", kind="cpu", compute_units=units) for units in (2, 1)]
    runs = [run([triad(gb_s, 1 << 30)], header(info, CARDS, host=host)) for info, gb_s in zip(infos, (400.0, 4.0), strict=True)]
    assert (
        "Xeon #1 has 400 GB/s; not compared: Xeon #2 (another share of the same CPU)"
        in answered(*runs)["Memory-bound code"].text
    )
    row = line(compared(*runs, of("gpu", triad(4000.0, 1 << 30))), TRIAD)
    assert row.cells[2].mark == "*"
    assert [cell.mark for cell in line(compared(*runs), TRIAD).cells] == ["", ""]


def test_kernels_of_one_version_that_differ_are_compared_and_named():
    runs = [of(kind, triad(gb_s, 1 << 30, sources=f"{kind}-11")) for kind, gb_s in (("gpu", 4000.0), ("cpu", 160.0))]
    answer = answered(*runs)["Memory-bound code"]
    assert "25 times as fast as Slow CPU" in answer.text
    assert answer.details[-1] == "Kernels of the same version but another source measured Slow CPU."


def test_virtual_machines_and_single_processes_are_told_of():
    runs = [of(kind, triad(100.0, 1 << 30)) for kind in ("gpu", "cpu")]
    hosted = [replace(one, header=replace(one.header, host={**one.header.host, "virtual": True})) for one in runs]
    caution = "2 of 2 devices were measured on virtual machines, and 100% of all values are of one process."
    start = "Intervals of the table do not include run-to-run variation, which ratios and marks of the best do: "
    assert further(*hosted) == [f"{start}{caution}"] and further(*runs) == []


def test_at_the_only_common_size_the_times_of_a_sum_are_told():
    gpu = of("gpu", launch(8_000), total(1 << 24, 40_000), copy(50.0))
    cpu = of("cpu", launch(400), total(1 << 24, 600_000))
    (text,) = about_sums(gpu, cpu)
    assert text.startswith(
        "A sum of 16,777,216 doubles, with a launch and its completion, takes 48.0 us on Fast GPU (2.73 ms with the copy of "
        "its operands) and 600 us on Slow CPU"
    )


def test_columns_of_a_fleet_are_not_taken_for_those_of_the_runs_that_are_drawn():
    infos = [device("Xeon", kind="cpu", platform=platform, cpu_id="GenuineIntel-6-106") for platform in ("PoCL", "Intel")]
    drawn = [run([triad(40.0, 1 << 30)], header(info, CARDS)) for info in infos]
    fleet = compared(of("gpu", triad(4000.0, 1 << 30)), of("cpu", triad(160.0, 1 << 30)))  # other devices in other columns
    assert not any("two runtimes" in text for text in further_details(fleet, parts(drawn)))


def test_no_size_is_told_where_the_launch_is_not_known_or_was_measured_by_an_older_version():
    sums = [total(n, 100 + n / 10) for n in (1 << 10, 1 << 20)]
    cpu = of("cpu", launch(400), *sums)
    gpu = [total(n, 100 + n / 1000) for n in (1 << 10, 1 << 20)]
    assert len(about_sums(of("gpu", launch(8_000), *gpu), cpu)) == 1
    assert about_sums(of("gpu", *gpu), cpu) == []
    cards = {**CARDS, "launch": replace(LAUNCH, version=1)}
    assert about_sums(run([launch(8_000, version=1), *gpu], header(device("Old"), cards)), cpu) == []


def test_values_at_different_sizes_are_not_compared():
    card = BenchmarkInfo(
        1, "compute", "DGEMM.", "somebody", (Metric("performance", "GFLOP/s", "ops", "rate", "higher"),), x="n"
    )

    def product(name, *points):
        made = [
            record(
                "dgemm", {"dtype": "double", "variant": "portable", "n": n}, series([round(2 * n**3 / rate)] * 20, ops=2 * n**3)
            )
            for n, rate in points
        ]
        return run(made, header(device(name), {"dgemm": card}))

    runs = product("A", (8192, 60_000.0)), product("B", (512, 300.0))
    assert not any(cell.is_best for cell in line(compared(*runs), "DGEMM").cells)
    code = "Compute-bound code (double)"
    assert answered(*runs)[code].text == f"{code}: A has 60,000 GFLOP/s; not compared: B (at another size, n=512)."
    answer = answered(*runs, product("C", (8192, 300.0)))[code]
    assert answer.text == f"{code}: A is 200 times as fast as C."
    assert answer.details[0] == "DGEMM (compute): A has 60,000 GFLOP/s (n=8192)."
    assert "Not compared: B (at another size, n=512)." in answer.details
    smaller = product("A", (256, 100.0), (512, 6_000.0), (8192, 60_000.0)), product("B", (256, 250.0), (512, 300.0))
    assert answered(*smaller)[code].text == f"{code}: A is 20.0 times as fast as B at n=512."


def test_one_device_is_held_against_its_peaks():
    h200 = device("NVIDIA H200", platform="NVIDIA CUDA", vendor="NVIDIA Corporation", compute_units=132)
    known = answered(run([triad(4368.0, 1 << 30), launch(12_900)], header(h200, CARDS)))
    assert known["Memory-bound code"].text == f"{MEMORY}H200 reaches 4,368 GB/s, 91% of its theoretical peak."
    assert known["Small kernels"].text == "Small kernels: a launch and its completion take 12.9 us on H200."
    unknown = answered(of("gpu", triad(4000.0, 1 << 30)))["Memory-bound code"].text
    assert unknown == f"{MEMORY}Fast GPU reaches 4,000 GB/s; its peak is not known."


def test_forty_devices_have_answers_as_short():
    runs = [run([triad(100.0 * 1.1**n, 1 << 30)], header(device(f"GPU {n}"), CARDS)) for n in range(40)]
    assert answered(*runs)["Memory-bound code"].text.startswith(f"{MEMORY}GPU 39 is 1.10 times as fast as GPU 38 and ")
