"""BabelStream and clpeak as references: what they print is read strictly, and what is no such output is no value."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace

import pytest

from clmembench.benchmarks import discovered
from clmembench.gates.point import judged
from clmembench.measure import sampling
from clmembench.model import DeviceError, Reported, Skip
from clmembench.plan.budget import Budget
from clmembench.runtimes.fake import FAKE_DEVICE_INFO as GPU
from clmembench.runtimes.fake import FakeDevice
from clmembench.studies.peers.benchmarks import programs, reference_programs
from clmembench.studies.peers.benchmarks.programs import OutputError
from clmembench.studies.peers.benchmarks.reference_programs import REPETITIONS
from tests.builders import record
from tests.cases import each

MIB = 1 << 20
CPU = replace(GPU, kind="cpu", name="pthread-Some  CPU", platform="Portable Computing Language", shares_host_memory=True)
HEAD = "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime"
ABOUT = "BabelStream\nVersion: 5.0\nImplementation: {of}\nRunning kernels 2 times\n"
NL = "\\n"  # as printf of a shell has it
ARRAYS = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2}


def table(elements: int, times: int = REPETITIONS, item: int = 8, head: str = HEAD) -> list[str]:
    """BabelStream's CSV at 10 GB/s at best, 8 GB/s in the mean."""
    rows = [head]
    for name, arrays in ARRAYS.items():
        nbytes = arrays * elements * item
        rows.append(f"{name},{times},{elements},{item},10000,{nbytes / 10e9:.6g},{nbytes / 5e9:.6g},{nbytes / 8e9:.6g}")
    return rows


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """Puts a program of that name, which is a shell script, on PATH, and nothing else but the shell's own."""
    reference_programs._run_stream.cache_clear()
    reference_programs._run_clpeak.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def put(name: str, body: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return str(path)

    return put


def stream(csv: str, of: str = "OpenMP", listed: str = "") -> str:
    """A script that answers as BabelStream does."""
    return f"""
case "$*" in
  --list) printf '{listed}';;
  *--csv*) echo "Using a device"; printf '{csv}\\n';;
  *) printf '{ABOUT.format(of=of)}';;
esac"""


def prepared(name: str, info=CPU, op="triad", array_bytes=16 * MIB, dtype="double"):
    return discovered()[name].prepare(FakeDevice(info), op=op, dtype=dtype, array_bytes=array_bytes)


def test_a_babelstream_is_a_record_with_its_version_and_its_mean(on_path):
    on_path("omp-stream", stream(NL.join(table(2 * MIB))))
    told = prepared("omp_stream")
    assert isinstance(told, Reported) and told.checked and told.averaged == REPETITIONS - 1
    done = sampling.sample_point(FakeDevice(CPU), told, Budget(), 1.0)
    assert done.series[0].nbytes / done.series[0].host_ns[0] == pytest.approx(8.0, rel=1e-4)
    assert done.facts["library"] == "BabelStream OpenMP" and done.facts["version"] == "5.0"
    assert done.facts["best_gb_s"] == pytest.approx(10.0, rel=1e-4)
    assert "mean of 10" in done.facts["timed"]
    # one time of a mean of 10 is not too few, and that of a mean of 2 is
    good = record("omp_stream", {"op": "triad"}, *done.series)
    assert judged(good, discovered()["omp_stream"].metrics).status == "ok"
    few = record("omp_stream", {"op": "triad"}, replace(done.series[0], averaged=2))
    assert judged(few, discovered()["omp_stream"].metrics).gate == "samples"


def test_it_is_run_once_for_all_operations(on_path, tmp_path):
    on_path("omp-stream", f"echo run >> {tmp_path}/log\n{stream(NL.join(table(2 * MIB)))}")
    for op in ("copy", "scale", "add", "triad", "dot"):
        assert prepared("omp_stream", op=op).nbytes == ARRAYS[reference_programs.STREAM_FUNCTIONS[op]] * 16 * MIB
    assert (tmp_path / "log").read_text().count("run") == 3  # what devices, which version, and once for all


@pytest.mark.parametrize("version", ["max_mbytes_per_sec", "max_MB_per_sec"])
def test_both_ways_to_name_its_columns_are_known(version):
    lines = programs.parse_stream_csv(
        "\n".join(table(100, head=HEAD.replace("max_mbytes_per_sec", version))), 100, 8, REPETITIONS
    )
    assert lines["Dot"].mean_s == pytest.approx(2 * 100 * 8 / 8e9)


GOOD = table(100)


@each(
    "text",
    [
        "",
        "garbage\n\x00\xff",
        "\n".join(GOOD[1:]),  # no head
        "\n".join([*GOOD, GOOD[0]]),  # two
        "\n".join([GOOD[0].replace("sizeof", "size"), *GOOD[1:]]),
        "\n".join([GOOD[0].replace("mbytes", "mibytes"), *GOOD[1:]]),  # another unit
        "\n".join(GOOD[:-1]),  # no dot
        "\n".join([*GOOD, GOOD[1]]),  # one twice
        "\n".join([*GOOD, "and more"]),
        "\n".join(table(100, times=REPETITIONS - 1)),  # another run
        "\n".join(table(101)),
        "\n".join(table(100, item=4)),
        "\n".join([*GOOD[:2], GOOD[2].replace("10000", "20000"), *GOOD[3:]]),  # a rate that is not its time's
        "\n".join([*GOOD[:2], "Mul,11,100,8,nan,nan,nan,nan", *GOOD[3:]]),
        "\n".join([*GOOD[:2], "Mul,11,100,8,10000,-1,-1,-1", *GOOD[3:]]),
        "\n".join([*GOOD[:2], "Mul,11,100,8,10000,1.6e-7,1e-7,1.2e-7", *GOOD[3:]]),  # a largest below the least
        "\n".join([*GOOD[:2], "Mul,11,100,8,10000,fast,1,1", *GOOD[3:]]),
        "\n".join([*GOOD[:2], "Mul,11,100,8,10000,1.6e-7,1e300,1e300", *GOOD[3:]]),  # a time that no run of it has
    ],
)
def test_what_is_no_table_of_babelstream_is_no_value(text):
    with pytest.raises(OutputError):
        programs.parse_stream_csv(text, 100, 8, REPETITIONS)


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("exit 3", DeviceError, "exit code 3"),
        ("echo oops >&2; exit 3", DeviceError, "exit code 3: oops"),
        ("true", DeviceError, "does not say that it is BabelStream"),
        ("echo garbage", DeviceError, "does not say that it is BabelStream"),
        (stream("garbage"), DeviceError, "no table"),
        (stream("x") + "\necho 'Validation failed on a[]. Average error 1' >&2", AssertionError, "its own check"),
        (stream("x") + "\necho 'FAILED validation of a[3]' >&2; exit 1", AssertionError, "its own check"),
        (stream("x", of="CUDA"), Skip, "for CUDA, not for this device"),
    ],
)
def test_a_program_that_fails_costs_its_own_record(on_path, script, error, says):
    on_path("babelstream", script)
    for _ in range(2):  # what it said is kept
        with pytest.raises(error, match=says):
            prepared("babelstream")


def test_a_program_that_hangs_ends(on_path, monkeypatch):
    monkeypatch.setattr(programs, "RUN_LIMIT_S", 0.2)
    on_path("babelstream", "exec sleep 60")
    with pytest.raises(DeviceError, match=r"did not end within 0\.2 s"):
        prepared("babelstream")


def test_one_that_is_gone_is_skipped(on_path):
    with pytest.raises(Skip, match="no ocl-stream is on PATH"):
        prepared("ocl_stream")


@pytest.mark.parametrize(
    ("listed", "info", "says"),
    [
        ("\\nDevices:\\n0: Other\\n1: Fake device\\n", GPU, ""),
        ("Devices:\\n0: Other\\n1: Third\\n", GPU, "does not see this device"),
        ("Devices:\\n0: Fake device\\n1: Fake device\\n", GPU, "lists 2 devices"),
        ("Devices:\\n0: pthread-Some CPU\\n", CPU, ""),
        ("", GPU, "does not list the OpenCL devices"),
    ],
)
def test_the_device_is_chosen_by_its_name(on_path, tmp_path, listed, info, says):
    on_path("ocl-stream", f'echo "$*" >> {tmp_path}/log\n{stream(NL.join(table(2 * MIB)), "OpenCL", listed)}')
    if says:
        with pytest.raises(Skip, match=says):
            prepared("ocl_stream", info)
        return
    assert prepared("ocl_stream", info).facts["library"] == "BabelStream OpenCL"
    index = "1" if info is GPU else "0"
    asked = (tmp_path / "log").read_text().splitlines()[1:]
    assert asked == [f"--device {index} -s 262144 -n 2", f"--device {index} -s 2097152 -n {REPETITIONS} --csv"]


@each(
    ("implementation", "kind", "suits"),
    [
        ("OpenMP", "cpu", True),
        ("OpenMP", "gpu", False),
        ("OpenMP (target offload)", "gpu", True),
        ("OpenCL", "gpu", True),
        ("CUDA", "cpu", False),
        ("STD (data-oriented)", "cpu", True),
        ("STD (data-oriented)", "gpu", False),
    ],
)
def test_a_build_is_for_its_kind_of_device(implementation, kind, suits):
    assert programs._suits_device(implementation, replace(GPU, kind=kind)) is suits


def test_floats_are_asked_for_as_floats(on_path, tmp_path):
    on_path("omp-stream", f'echo "$*" >> {tmp_path}/log\n{stream(NL.join(table(4 * MIB, item=4)))}')
    assert prepared("omp_stream", dtype="float").nbytes == 3 * 16 * MIB
    assert (tmp_path / "log").read_text().rstrip().endswith("--csv --float")


# ---- clpeak -----------------------------------------------------------------------------------------------------------


def entry(test: str, metric: str, unit: str, value: float | None = None, **changes: str) -> dict[str, object]:
    plain = {"backend": "OpenCL", "platform": GPU.platform, "device": GPU.name, "driver": "1", "category": "x"}
    told: dict[str, object] = {**plain, "test": test, "metric": metric, "unit": unit, **changes}
    return {**told, "value": value} if value is not None else {**told, "status": "unsupported", "reason": "no"}


def peaks(*entries: dict[str, object], version: str = "2.1.0") -> str:
    return json.dumps({"format_version": 2, "clpeak_version": version, "os": "x", "devices": [], "entries": entries})


def clpeak(text: str) -> str:
    """A script that writes that file."""
    return f"""while [ $# -gt 0 ]; do [ "$1" = --json-file ] && file=$2; shift; done
cat > "$file" <<'END'
{text}
END"""


DP = "double_precision_compute"
ALL = peaks(
    entry(DP, "double", "gflops", 30000.0),
    entry(DP, "double2", "gflops", 33100.5),
    entry(DP, "double4", "gflops"),
    entry(DP, "double", "gflops", 99999.0, device="Another"),
    entry(DP, "double", "gflops", 99999.0, backend="CUDA"),
    entry("single_precision_compute", "float", "tflops", 66.9),
    entry("integer_compute", "int", "gops", 16000.0),
    entry("local_memory_bandwidth", "float4", "gbps", 28600.0),
    entry("kernel_launch_latency", "dispatch", "us", 7.0),
    entry("kernel_launch_latency", "roundtrip", "us", 19.1),
)


@pytest.mark.parametrize(
    ("name", "params", "value"),
    [
        ("clpeak_arithmetic", {"dtype": "double"}, 33100.5),
        ("clpeak_arithmetic", {"dtype": "float"}, 66900.0),
        ("clpeak_arithmetic", {"dtype": "int"}, 16000.0),
        ("clpeak_local", {}, 28600.0),
        ("clpeak_launch", {"groups": 1024}, 19100.0),
        ("clpeak_wait", {"groups": 1024}, 7000.0),
    ],
)
def test_clpeaks_best_figure_of_the_device_is_a_record(on_path, name, params, value):
    on_path("clpeak", clpeak(ALL))
    told = discovered()[name].prepare(FakeDevice(GPU), **params)
    done = sampling.sample_point(FakeDevice(GPU), told, Budget(), 1.0)
    from clmembench.analysis.derive import values_of

    metric = next(m for m in discovered()[name].metrics if m.applies(params))
    good = record(name, params, *done.series)
    assert values_of(good, metric) == [pytest.approx(value)]
    assert done.facts["version"] == "2.1.0" and not done.checked
    assert judged(good, (metric,)).status == "ok"


@each(
    ("text", "error", "says"),
    [
        ("", OutputError, "not clpeak's JSON"),
        ("{", OutputError, "not clpeak's JSON"),
        ("[]", OutputError, "not clpeak's JSON"),
        ('{"clpeak_version": "2", "entries": [3]}', OutputError, "not clpeak's JSON"),
        (peaks(), Skip, "no figure"),
        (peaks(entry(DP, "double", "gflops")), Skip, "no figure"),
        (peaks(entry(DP, "double", "gflops", 1.0), entry(DP, "double", "gflops", 2.0)), Skip, "several devices"),
        (peaks(entry(DP, "double", "gflops", -1.0)), OutputError, "positive"),
        (peaks(entry(DP, "a", "gflops", 1.0), entry(DP, "b", "tflops", 1.0)), OutputError, "one unit"),
    ],
)
def test_what_is_no_output_of_clpeak_is_no_value(text, error, says):
    with pytest.raises(error, match=says):
        programs.parse_clpeak_json(text.encode(), GPU, DP)


def test_a_clpeak_of_before_or_with_another_unit_has_no_value(on_path):
    on_path("clpeak", "echo clpeak 1.1")
    with pytest.raises(DeviceError, match="version 2 or later"):
        discovered()["clpeak_local"].prepare(FakeDevice(GPU))
    reference_programs._run_clpeak.cache_clear()
    on_path("clpeak", clpeak(peaks(entry("local_memory_bandwidth", "float", "furlongs", 1.0))))
    with pytest.raises(DeviceError, match="no rate"):
        discovered()["clpeak_local"].prepare(FakeDevice(GPU))


@pytest.mark.parametrize(
    ("name", "params", "told", "says"),
    [
        ("clpeak_arithmetic", {"dtype": "double"}, entry(DP, "double", "gflops", 1e300), "no device does"),
        ("clpeak_arithmetic", {"dtype": "double"}, entry(DP, "double", "tflops", 1e308), "no device does"),
        ("clpeak_launch", {"groups": 1024}, entry("kernel_launch_latency", "roundtrip", "us", 1e300), "longer than it ran"),
    ],
)
def test_a_figure_that_cannot_be_is_no_value(on_path, name, params, told, says):
    on_path("clpeak", clpeak(peaks(told)))
    with pytest.raises(DeviceError, match=says):
        discovered()[name].prepare(FakeDevice(GPU), **params)
