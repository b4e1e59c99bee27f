"""Results of other programs: each format's values, names and meaning, what is refused, and their place in a report."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from clmembench.benchmarks import discovered
from clmembench.cli.program import app
from clmembench.report.frame import parts
from clmembench.report.imported.imported_values import imported_cells
from clmembench.report.imported.joins import FOUND, JOINS, join_of
from clmembench.report.scorecard.scorecard import verdict
from clmembench.results import imported
from clmembench.results.imported import ImportFault
from clmembench.results.importers import READERS, foreign_text
from tests.builders import device, header, write_run
from tests.cases import each
from tests.report.test_schemas import made, problems  # noqa: F401 - a fixture
from tests.report.test_scorecard import CARDS, EVERY_PUBLISHED, TRIAD, line, of, triad

COLUMNS = "function,num_times,n_elements,sizeof,max_MB_per_sec,min_runtime,max_runtime,avg_runtime"
STREAM = f"""Using OpenCL device Card A
Driver: 24.1
{COLUMNS}
Copy,100,33554432,8,2000000,0.000268435456,0.0004,0.0003
Triad,100,33554432,8,2684354.56,0.0003,0.0005,0.0004
Nstream,100,33554432,8,2684354.56,0.0004,0.0005,0.0004
"""
READING = {"backend": "OpenCL", "platform": "P", "device": " Card A ", "driver": "1"}
CLPEAK_2 = {
    "format_version": 2, "clpeak_version": "2.1.2",
    "entries": [
        {**READING, "test": "single_precision_compute", "metric": "float", "unit": "gflops", "value": 900.0},
        {**READING, "test": "single_precision_compute", "metric": "float4", "unit": "tflops", "value": 1.5},
        {**READING, "test": "single_precision_compute", "metric": "half2", "unit": "tflops", "value": 9.0},
        {**READING, "test": "kernel_launch_latency", "metric": "roundtrip", "unit": "us", "value": 5.0},
        {**READING, "test": "transfer_bandwidth", "metric": "map", "unit": "gbps", "value": 0.0},
        {**READING, "test": "half_precision_compute", "metric": "half", "unit": "x", "status": "unsupported", "reason": "no"},
        {**READING, "backend": "CUDA", "test": "double_precision_compute", "metric": "double", "unit": "gflops", "value": 30.0},
    ],
}  # fmt: skip
CLPEAK_3 = {
    "format_version": 3, "clpeak_version": "3.0", "generated_at": "2026-08-29T14:03:11Z",
    "devices": [{
        "backend": "OpenCL", "platform": "P", "name": "Card A", "driver": "1",
        "tests": [{"id": "double_precision_compute", "quantity": "flops", "unit": "FLOPS", "metrics": [
            {"id": "double2", "value": 3e13}, {"id": "double4", "status": "error", "reason": "out of memory"}]},
            {"id": "half_precision_compute", "quantity": "flops", "unit": "FLOPS", "metrics": [
                {"id": "half2", "value": 6e13}]}],
    }],
}  # fmt: skip
NVBANDWIDTH = {"nvbandwidth": {
    "version": "v0.8", "Driver Version": "580.1",
    "GPU Device list": ["0: Card A (00000000:01:00): (secret-host)", "1: Card B (00000000:02:00): (secret-host)"],
    "testcases": [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.5", "N/A"]],
         "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"},
        {"name": "host_device_latency_sm", "status": "Passed", "bandwidth_matrix": [["700.5", "801"]],
         "bandwidth_description": "memory latency SM CPU(row) <-> GPU(column) (ns)"},
        {"name": "device_to_device_memcpy_read_ce", "status": "Passed", "bandwidth_matrix": [["N/A", "270"], ["271", "N/A"]],
         "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"},
        {"name": "multinode", "status": "Waived"},
    ],
}}  # fmt: skip
SIZE = {"unit": "bytes", "method": "p-chase"}
MT4G = {
    "general": {"name": "Card A", "vendor": "X"}, "meta": {"driver": 12080, "timestamp": "2025-08-10T00:03:09Z"},
    "memory": {
        "l1": {"latency": {"mean": 38.2, "p50": 38.0, "p95": 40.0, "measurements": 255, "unit": "cycles"},
               "size": {**SIZE, "size": 238848, "confidence": 0.97}, "lineSize": {**SIZE, "size": 128, "confidence": 0.2}},
        "l2": {"size": {"unit": "bytes", "value": 52428800}},
        "main": {"readBandwidth": {"unit": "GiB/s", "value": 2560.0}},
        "constant": {"l1": {"latency": {"mean": 20.0, "p50": 17.0, "p95": 76.0, "measurements": 255, "unit": "cycles"}}},
    },
}  # fmt: skip
TEXTS = {
    "babelstream": STREAM, "clpeak": json.dumps(CLPEAK_2), "nvbandwidth": json.dumps(NVBANDWIDTH), "mt4g": json.dumps(MT4G)
}  # fmt: skip


def values(run):
    return {value.name: value for value in run.values}


def headlines(value):
    join = join_of(value)
    return [] if join is None else list(join.headlines)


def test_babelstream_is_the_rate_of_the_mean_time_with_its_extremes_and_no_interval():
    (run,) = map(imported.checked, READERS["babelstream"](STREAM))
    assert (run.device, run.driver, run.backend, run.origin) == (
        "Card A",
        "24.1",
        "OpenCL",
        "imported from BabelStream, OpenCL",
    )
    copy, triads, other = run.values
    assert copy.value == pytest.approx(2 * 8 * 2**25 / 0.0003 / 1e9) and copy.most == pytest.approx(2000, rel=1e-6)
    assert copy.least == pytest.approx(2 * 8 * 2**25 / 0.0004 / 1e9) and "mean of 99 repetitions" in copy.statistic
    assert triads.params == {"op": "triad", "dtype": "double", "array_bytes": 1 << 28}
    assert headlines(triads) == [TRIAD] and (other.benchmark, headlines(other)) == ("", [])
    cuda = 'CUDA Driver: 12080\nCUDA Device 0: "Card C" 132 SMs(9,0) Memory: 2619 MHz\n' + STREAM[STREAM.index(COLUMNS) :]
    (other,) = READERS["babelstream"](cuda)
    assert (other.device, other.driver, other.backend) == ("Card C", "12080", "CUDA")
    in_gib = STREAM.replace("MB_per", "GiB_per").replace(",2000000,", f",{2e12 / 2**30},")
    assert values(READERS["babelstream"](in_gib.replace(",2684354.56,", f",{2684354.56e6 / 2**30},"))[0])["Copy"] == copy


PHASES = "phase,n_elements,sizeof,max_mbytes_per_sec,runtime\nInit,33554432,8,9000,0.09\nRead,33554432,8,9000,0.09\n"
FULL = COLUMNS.replace("MB_per", "mbytes_per")
SHAPES = {
    "BOM": "\ufeff" + STREAM, "CRLF": STREAM.replace("\n", "\r\n"), "tabs": STREAM.replace(",", "\t"),
    "semicolons and decimal commas": STREAM.replace(",", ";").replace(".", ","), "blank lines": STREAM + "\n \n",
    "three decimals": STREAM.replace("MB_", "TB_").replace("2000000,", "2.000,").replace("2684354.56", "2.68435456")
    .replace(",", ";").replace(".", ","),
    "capitals": STREAM.replace(COLUMNS, COLUMNS.title()).replace("Copy", "COPY"), "empty cells": STREAM.replace("4\n", "4,,\n"),
    "quotes": STREAM.replace("Copy", '"Copy"').replace("0.0003\n", '"0,0003"\n'), "old unit": STREAM.replace("MB_", "mbytes_"),
    "mebibytes": STREAM.replace("MB_", "mibytes_").replace("2000000", str(2e12 / 2**20)).replace("2684354.56", "2560000"),
    "phases of version 5": STREAM.replace(COLUMNS, PHASES + FULL), "spaces": STREAM.replace(",", ", "),
    "words around": "srun: job 1 starts\n" + STREAM + "Application 14 resources: utime ~130s, stime ~1s\nslurmstepd: done\n",
}  # fmt: skip


@each("shape", SHAPES)
def test_babelstream_as_other_systems_and_versions_write_it_is_the_same(shape):
    (found,), (plain,) = READERS["babelstream"](foreign_text.decoded(SHAPES[shape].encode())), READERS["babelstream"](STREAM)
    assert (found.device.lstrip("\ufeff"), found.left_out) == (plain.device, ())
    assert [replace(value, name=value.name.title()) for value in found.values] == list(plain.values)


def test_times_of_few_digits_are_noted():
    (run,) = READERS["babelstream"](f"{FULL}\nTriad,100,33554432,8,40000.0,0.020,0.022,0.021\n")
    assert run.values[0].note == "its times have a last digit of 0.001 s"


@each("end", ["\n", "\r\n", "\r"])
def test_a_file_of_powershell_is_text(end):
    assert foreign_text.decoded(STREAM.replace("\n", end).encode("utf-16")) == STREAM


@each(("unit", "factor"), [("gbytes", 1e9), ("gibytes", 2**30)])
@each("above", ["", FULL + "\n", PHASES + FULL + "\n"])
def test_babelstreams_triad_only_is_the_mean_of_all_its_repetitions(unit, factor, above):
    head = f"function,num_times,n_elements,sizeof,{unit}_per_sec,runtime\n"
    text = f"{above}{head}Triad,100,33554432,4,{2e12 / factor},0.0201326592\n"
    ((value,),) = (run.values for run in READERS["babelstream"](text))
    assert value.value == pytest.approx(2000) and (value.least, value.most) == (None, None)
    assert value.params == {"op": "triad", "dtype": "float", "array_bytes": 1 << 27} and "mean of 100 rep" in value.statistic


def test_a_sum_that_babelstream_calls_wrong_is_left_out_alone():
    dot = STREAM.replace("Nstream", "Dot").replace("2684354.56,0.0004", "1342177.28,0.0004")
    for said in (
        "Validation failed on sum. Error 0.2",
        "FAILED validation of sum: 1 (is) != 2 (should), diff=1 > 0 (largest=2)",
    ):
        (run,) = READERS["babelstream"](f"{said}\nSum was 1 but should be 2\n{dot}")
        assert [value.name for value in run.values] == ["Copy", "Triad"] and run.left_out == (f"Dot: {said}",)


def test_clpeak_of_both_versions_joins_the_best_kernel_of_its_own_type_alone():
    first, second = map(imported.checked, READERS["clpeak"](TEXTS["clpeak"]))
    assert [run.backend for run in (first, second)] == ["OpenCL, P", "CUDA, P"] and first.device == "Card A"
    found = values(first)
    assert (
        found["single_precision_compute, float4"].value == 1500 and found["single_precision_compute, float4"].unit == "GFLOP/s"
    )
    joined = [name for run in (first, second) for name, value in values(run).items() if headlines(value)]
    assert joined == ["single_precision_compute, float4", "double_precision_compute, double"]
    assert "the kernel is another" in found["kernel_launch_latency, roundtrip"].note
    assert any("unsupported: no" in why for why in first.left_out) and any("0 GB/s is no" in why for why in first.left_out)
    (newer,) = READERS["clpeak"](json.dumps(CLPEAK_3))
    value, half = newer.values
    assert value.value == pytest.approx(30_000) and headlines(value) == ["FP64 multiply-adds in registers"]
    assert half.value == pytest.approx(60_000) and headlines(half) == ["FP16 multiply-adds in registers"]
    assert newer.left_out == ("double_precision_compute, double4: error: out of memory",) and newer.date.startswith("2026")


def test_nvbandwidth_has_a_run_for_each_gpu_and_no_name_of_the_host():
    first, second = READERS["nvbandwidth"](TEXTS["nvbandwidth"])
    assert (first.device, second.device, first.driver) == ("Card A", "Card B", "580.1") and "secret" not in str((first, second))
    link, latency = first.values
    assert (link.value, headlines(link)) == (55.5, ["host to device"]) and (latency.value, latency.unit) == (700.5, "ns")
    assert [value.name for value in second.values] == ["host_device_latency_sm"]
    assert first.left_out == ("device_to_device_memcpy_read_ce: it is of pairs of GPUs", "multinode: Waived")


GPUS = [f"0000000{n // 4}:{n}b:00" for n in range(8)]
MATRIX_HEAD = " ".join(f"{n:9}" for n in range(8))


def nvbandwidth_text(*cases):
    devices = "".join(f"Device {n}: Card A ({pci})\n" for n, pci in enumerate(GPUS))
    blocks = "".join(f"Running {name}.\n{lines}\n" for name, lines in cases)
    head = "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nDriver Version: 580.1\n\nsecret-host\n"
    return f"{head}{devices}\n{blocks}NOTE: x"


def matrix(title, *rows):
    body = "".join(f" {n} " + " ".join(f"{cell:>9}" for cell in row) + "\n" for n, row in enumerate(rows))
    return f"{title}\n  {MATRIX_HEAD}\n{body}\nSUM x 1.0\n"


def test_nvbandwidths_text_is_its_json_and_eight_equal_gpus_are_eight_devices():
    title, rates = "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", [f"5{n}.25" for n in range(8)]
    text = nvbandwidth_text(
        ("host_to_device_memcpy_ce", matrix(title, rates)),
        ("device_to_device_memcpy_read_ce", matrix(title, *[["N/A"] * 8] * 8)),
        ("device_to_host_memcpy_ce", " Invalid value when checking the pattern at 0x7f\n" + matrix(title, rates)),
        ("host_to_device_memcpy_sm", "[CUDA_ERROR_OUT_OF_MEMORY] out of memory in expression x\n"),
        ("bidirectional", matrix("Read1 (GB/s)", rates) + matrix("Total (GB/s)", rates)), ("multinode_x", "Waived: \n"),
        ("host_device_latency_sm", matrix("latency (ns)", ["700.5"] * 7 + ["nan"])),
    )  # fmt: skip
    case = {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_description": title, "bandwidth_matrix": [rates]}
    listed = [f"{n}: Card A ({pci}): (secret-host)" for n, pci in enumerate(GPUS)]
    both = [READERS["nvbandwidth"](one) for one in (text, json.dumps({"nvbandwidth": {
        "version": "v0.8", "Driver Version": "580.1", "GPU Device list": listed, "testcases": [case]}}))]  # fmt: skip
    for runs in both:
        assert [run.device for run in runs] == [f"Card A (GPU {n}, {pci})" for n, pci in enumerate(GPUS)]
        assert [run.values[0].value for run in runs] == [float(rate) for rate in rates] and "secret" not in str(runs)
        assert {(run.version, run.driver) for run in runs} == {("v0.8", "580.1")}
    assert [run.values[0] for run in both[0]] == [run.values[0] for run in both[1]]
    assert [len(run.values) for run in both[0]] == [2] * 7 + [1]
    assert [reason.partition(": ")[0] for reason in both[0][0].left_out] == [
        "device_to_device_memcpy_read_ce", "device_to_host_memcpy_ce", "host_to_device_memcpy_sm", "bidirectional",
        "multinode_x", "host_device_latency_sm",
    ]  # fmt: skip
    assert both[0][0].address == f"GPU 0, {GPUS[0]}"


def test_a_test_that_nvbandwidth_calls_failed_anywhere_has_no_value():
    found = json.loads(TEXTS["nvbandwidth"])
    whole = found["nvbandwidth"]["testcases"]
    again = [*whole, {"name": "host_to_device_memcpy_ce", "status": "Error"}]  # as it is written where a test threw
    for cases in (again, [{**whole[0], "error": "wrong data"}, *whole[1:]]):
        first, _ = READERS["nvbandwidth"](json.dumps({"nvbandwidth": {**found["nvbandwidth"], "testcases": cases}}))
        assert [value.name for value in first.values] == ["host_device_latency_sm"] and "host_to" in first.left_out[0]
    ended = {**found["nvbandwidth"], "error": "[CUDA_ERROR_ILLEGAL_ADDRESS] an illegal memory access"}
    assert "ILLEGAL" in READERS["nvbandwidth"](json.dumps({"nvbandwidth": ended}))[0].left_out[0]


def test_equal_gpus_of_clpeak_are_devices_of_their_own():
    test = {"test": "double_precision_compute", "unit": "gflops"}
    entries = [{**READING, **test, "metric": metric, "value": n} for n in range(1, 9) for metric in ("double", "double2")]
    two = READERS["clpeak"](json.dumps({**CLPEAK_2, "entries": entries}))
    three = READERS["clpeak"](json.dumps({**CLPEAK_3, "devices": CLPEAK_3["devices"] * 8}))
    for runs in (two, three):
        assert [run.device for run in runs] == [f"Card A ({n} of 8)" for n in range(1, 9)]
    assert [[value.value for value in run.values] for run in two] == [[n, n] for n in range(1, 9)]


FLOAT, FLOAT2, DOUBLE = (("float", 1.0), ("float2", 2.0), ("double", 3.0))


@each(
    ("entries", "expected"),
    [
        ([FLOAT, FLOAT2, FLOAT, FLOAT2, DOUBLE], [[1, 2], [1, 2, 3]]),
        ([FLOAT, DOUBLE, FLOAT2, FLOAT, FLOAT2], [[1, 3, 2], [1, 2]]),
        ([FLOAT, FLOAT2, DOUBLE, FLOAT, FLOAT2], [[1, 2], [1, 2]]),  # of the first one's end or the second one's beginning
        ([DOUBLE, FLOAT, DOUBLE], [[3], [3]]),
    ],
)
def test_a_reading_that_one_of_equal_gpus_lacks_goes_to_no_wrong_one(entries, expected):
    readings = [{**READING, "test": "x_compute", "unit": "gflops", "metric": name, "value": value} for name, value in entries]
    runs = READERS["clpeak"](json.dumps({**CLPEAK_2, "devices": [READING], "entries": readings}))
    assert [[value.value for value in run.values] for run in runs if run.values] == expected
    lost = len(entries) - sum(map(len, expected))
    reasons = [reason for run in runs for reason in run.left_out]
    assert len(reasons) == lost and all("which of equal" in reason for reason in reasons)


def test_what_clpeak_calls_wrong_and_numbers_beyond_all_are_no_values():
    one = CLPEAK_2["entries"][0]
    odd = [
        {**one, "status": "error", "reason": "wrong"}, {**one, "metric": "m1", "value": None},
        {**one, "metric": "m2", "value": int("9" * 400)}, {**one, "metric": "m3", "value": 1e300},
        {**one, "metric": "m4", "value": -1.0}, {**one, "metric": "m5", "value": 1, "status": "ok"},
    ]  # fmt: skip
    (run,) = map(imported.checked, READERS["clpeak"](json.dumps({**CLPEAK_2, "entries": odd})))
    assert [value.name for value in run.values] == ["single_precision_compute, m5"] and len(run.left_out) == 5
    both = [{**one, "metric": "float4", "value": 1e30}, {**one, "metric": "float", "value": 7.0}]
    (run,) = map(imported.checked, READERS["clpeak"](json.dumps({**CLPEAK_2, "entries": both})))
    assert [(value.benchmark, value.params) for value in run.values] == [("arithmetic", {"dtype": "float"})]
    far = TEXTS["mt4g"].replace("238848", "9" * 400).replace("2560.0", "9" * 4000)
    (run,) = map(imported.checked, READERS["mt4g"](far))
    assert [reason for reason in run.left_out if "no measurement" in reason] == [
        "l1, size: inf B is no measurement", "main, readBandwidth: inf GB/s is no measurement",
    ]  # fmt: skip


def test_mt4g_gives_what_it_measured_with_enough_confidence_and_no_claims():
    (run,) = READERS["mt4g"](TEXTS["mt4g"])
    found = values(run)
    assert found["l1, latency"].value == 38 and headlines(found["l1, latency"])[0] == "nearest cache"
    assert headlines(found["l1, size"]) == ["size of L1, by topology"] and found["constant l1, latency"].value == 17
    assert found["main, readBandwidth"].value == pytest.approx(2748.78, rel=1e-5)
    assert run.left_out == ("l1, lineSize: 128 bytes with a confidence of 0.2", "l2, size: a claim of the runtime")


def joinable():
    """Values of each kind that importers mark as ours."""
    levels = dict.fromkeys(("l1", "l2", "main"), MT4G["memory"]["l1"])
    more = {
        "babelstream": (STREAM.replace("33554432,8", "67108864,4"), STREAM.replace("Copy", "Mul")),
        "clpeak": (json.dumps(CLPEAK_3),),
        "nvbandwidth": (TEXTS["nvbandwidth"].replace("host_to_device", "device_to_host"),),
        "mt4g": (json.dumps({**MT4G, "memory": levels}),),
    }
    runs = [run for name, texts in more.items() for text in (TEXTS[name], *texts) for run in READERS[name](text)]
    return [value for run in runs for value in run.values if value.benchmark]


def test_each_join_is_of_ours_and_of_a_published_or_an_imported_value():
    topology = {f"{what} {n}, by topology" for what in ("size of", "load from") for n in ("L1", "L2", "DRAM")}
    names = {h.name for b in discovered().values() for h in b.headlines} | topology
    marked = joinable()
    others = [*marked, *(value for run in EVERY_PUBLISHED for value in run.values)]
    used = [join_of(value) for value in others]
    assert None not in used[: len(marked)]
    wrong = [f"{join.headlines}: no headline" for join in JOINS if not set(join.headlines) <= names]
    for join in JOINS:
        if join not in used and join.to[0] != FOUND and "memory" not in join.params:
            wrong.append(f"{join}: no value")
        if join.to[0] == FOUND:
            continue
        ours = discovered()[join.to[0]]
        metrics = [m for m in ours.metrics if m.name == join.to[1]]
        units = {m.unit for m in metrics} | {"cycles" for m in metrics if m.cycles}
        if join.unit not in units or not {*join.point, *join.axes} <= {*ours.axes, "level"}:
            wrong.append(f"{join}: {ours.name} has {units} and {list(ours.axes)}")
    assert not wrong, "\n".join(wrong)
    joined = {name for run in EVERY_PUBLISHED for name in imported_cells(run)}
    assert joined >= {"nearest cache", "memory", "memory copy, float", "memory copy, double", TRIAD, "DGEMM", "SGEMM"}
    assert joined >= {"host to device", "device to host", "work-group barrier, 256 work-items", "size of L1, by topology"}


def test_what_sheets_alone_have_is_neither_written_to_an_import_file_nor_read_from_one(tmp_path):
    run = next(run for run in EVERY_PUBLISHED if run.device == "NVIDIA GeForce GTX 980")
    (path := tmp_path / "p.import.jsonl").write_text(imported.as_lines([run]))
    (back,) = imported.read(path)
    bare = dict.fromkeys(("source", "read_from", "quote", "qualifier", "formula", "derived"), "") | {"low": None, "high": None}
    assert any(value.quote for value in run.values)
    assert back.values == tuple(replace(value, **bare) for value in run.values) and back.sheet is None
    (line,) = map(json.loads, path.read_text().splitlines())
    line["sheet"], line["values"][0] = {"name": "x"}, {**line["values"][0], "quote": "evil", "low": "evil"}
    path.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    assert imported.read(path) == [back]


FAULTS = [
    ("babelstream", "", "no table"), ("babelstream", COLUMNS, "empty"),
    ("babelstream", STREAM.replace("0.0003\n", "x\n"), "numbers"),
    ("babelstream", STREAM + STREAM.splitlines()[3].replace("Copy", "copy"), "copy several times"),
    ("babelstream", STREAM.replace(",2000000,", ",2500000,"), "rate is not that of its time"),
    ("babelstream", STREAM.replace("Triad,100", "Triad,nan"), "no numbers"), ("babelstream", TEXTS["clpeak"], "no table"),
    ("clpeak", "[]", "no object"), ("clpeak", "{", "no JSON"), ("clpeak", TEXTS["mt4g"], "clpeak_version"),
    ("clpeak", json.dumps({**CLPEAK_2, "format_version": 9}), "2 and 3 are read"),
    ("clpeak", TEXTS["clpeak"].replace("900.0", '"fast"'), "has no value"),
    ("clpeak", '{"clpeak_version": "2", "entries": []}', "no reading"),
    ("nvbandwidth", '{"nvbandwidth": {}}', "names no GPU"),
    ("nvbandwidth", TEXTS["nvbandwidth"].replace("55.5", "x"), "no number"),
    ("mt4g", TEXTS["clpeak"], "it has no general"), ("mt4g", TEXTS["mt4g"].replace('"p50"', '"p51"'), "has no p50"),
    ("mt4g", "[" * 100_000, "nested"), ("mt4g", "NaN", "no numbers of JSON"),
]  # fmt: skip


def test_what_is_no_file_of_a_program_is_refused_with_what_is_wrong():
    found = []
    for program, text, said in FAULTS:
        try:
            READERS[program](text)
            found.append((program, said, "accepted"))
        except ImportFault as error:
            if said not in str(error):
                found.append((program, said, str(error)))
    assert found == []


def test_imported_values_stand_in_the_verdict_outside_ranks():
    (run,) = READERS["babelstream"](STREAM)
    mine = parts([of("gpu", triad(1000.0, 1 << 30)), of("cpu", triad(100.0, 1 << 30))])
    found = verdict(mine, others=[replace(run, device="Card <b>\x1b", file="s.csv")], baseline="Fast GPU")
    assert found.labels[-1] == "Card <b>?, imported from BabelStream, OpenCL"
    cell = line(found, TRIAD).cells[-1]
    assert cell.status == "imported" and (cell.value, cell.low, cell.ratio, cell.is_best) == (None, None, "", False)
    assert cell.text == "2,013 GB/s" and cell.extra == "arrays of 256 MiB"
    assert "mean of 99 repetitions" in cell.detail and "s.csv" in cell.detail
    assert line(found, TRIAD).cells[0].is_best and line(found, TRIAD).cells[0].value


def test_the_command_writes_a_file_that_report_shows_beside_runs(tmp_path, made):  # noqa: F811
    source, out, stored, page = (tmp_path / name for name in ("b.csv", "b.import.jsonl", "r.jsonl", "r.md"))
    source.write_text(STREAM)
    write_run(stored, [triad(1000.0, 1 << 30)], header(device("Fast GPU"), CARDS))
    done = CliRunner().invoke(app, ["import", str(source), "--as", "babelstream", "-o", str(out)])
    assert done.exit_code == 0 and TRIAD in done.stdout and "from 1611 to 2684 GB/s" in done.stdout
    assert problems(made["import-line"], json.loads(out.read_text())) == []
    told = CliRunner().invoke(app, ["import", str(source), "--as", "babelstream", "--json", "--label", "Mine"])
    assert problems(made["import"], json.loads(told.stdout)) == [] and json.loads(told.stdout)[0]["device"] == "Mine"
    (back,) = imported.read(out)
    assert back.values == READERS["babelstream"](STREAM)[0].values and len(back.sha256) == 64
    shown = CliRunner().invoke(app, ["report", str(stored), str(out), "-f", "md", "--label", f"{out}=Theirs", "-o", str(page)])
    text = page.read_text()
    assert shown.exit_code == 0 and "Theirs, imported from BabelStream, OpenCL" in text and "2,013 GB/s" in text
    html = CliRunner().invoke(app, ["report", str(stored), str(out), "-f", "html"]).stdout
    assert "imported from BabelStream, OpenCL" in html and "Published and imported results" in html
    for words, said in (
        (["report", str(out)], "imported results alone"),
        (["import", str(stored), "--as", "mt4g"], "is not imported as mt4g"),
        (["import", str(tmp_path / "none"), "--as", "mt4g"], "cannot read"),
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1, (words, done.stderr)
    source.write_text(STREAM.replace("Using OpenCL device Card A\n", ""))
    assert "--label NAME" in CliRunner().invoke(app, ["import", str(source), "--as", "babelstream"]).stderr
    out.write_text(out.read_text().replace('"imported":1', '"imported":2'))
    assert "of another schema" in CliRunner().invoke(app, ["report", str(stored), str(out)]).stderr
