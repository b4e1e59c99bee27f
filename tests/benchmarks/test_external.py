"""Benchmarks of one's own, in folders that --path names and in installed packages: measured here, and read elsewhere."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import clmembench
from clmembench import benchmarks
from clmembench.benchmarks.plugins import external
from clmembench.benchmarks.plugins.foreign_code import ExternalError
from clmembench.measure.job import Job, job_line, parse_job
from clmembench.model import Metric
from clmembench.results import jsonl
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import STREAM, device, header, record, series, write_run
from tests.commands import brief_points, cli, process

SMALL = ("-b", "my_copy", "-a", "dtype=float", "-a", "width=1", "--size", "64KiB")
BENCHMARK = """
from clmembench.benchmarks import BANDWIDTH, axis, benchmark
from clmembench.model import Device, Work

@benchmark(BANDWIDTH, suite="own", source="this project", n=axis(1))
def {name}(device: Device, n: int) -> Work:
    '''Nothing, {text}.'''
    return Work(commands=())
"""


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """Each test loads folders of its own."""
    monkeypatch.setattr(external, "_loaded", external._Loaded())
    modules = set(sys.modules)
    with brief_points():
        yield
    for name in [name for name in set(sys.modules) - modules if name.startswith(external.PACKAGE)]:
        del sys.modules[name]
    benchmarks._ordered.cache_clear()


def folder_with(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_new_benchmark_runs_and_passes_its_check_at_once(tmp_path):
    made = cli("new", "my_copy", "-o", "mine", cwd=tmp_path)
    assert made.returncode == 0 and "clmembench run --path mine -b my_copy" in made.stdout
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["my_copy.cl", "my_copy.py"]
    done = cli("run", "--path", "mine", "-a", "width=1", "--size", "64KiB", "-o", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr  # all benchmarks of the folder, where none is named
    run = jsonl.read(tmp_path / "r.jsonl")
    assert [(r.benchmark, r.status, r.checked) for r in run.records if r.params["dtype"] == "float"] == [
        ("my_copy", "ok", True)
    ]
    assert run.header.benchmarks["my_copy"].origin == "--path my_copy.py"
    assert set(run.header.inputs) == {"mine/my_copy.py", "mine/my_copy.cl"}

    # a run is resumed with the same files only
    kernel = tmp_path / "mine" / "my_copy.cl"
    kernel.write_text(kernel.read_text() + "// changed\n")
    changed = cli("run", "--path", "mine", "--resume", "r.jsonl", cwd=tmp_path)
    assert changed.returncode == 2 and "another content of the input files" in changed.stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [("stream", "there is a benchmark"), ("My-Copy", "is no name"), ("class", "is no name"), ("../x", "no name")],
)
def test_a_name_that_cannot_be_a_benchmark_is_refused(tmp_path, name, says):
    done = cli("new", name, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and not list(tmp_path.iterdir())


def test_a_new_benchmark_replaces_none(tmp_path):
    assert cli("new", "my_copy", cwd=tmp_path).returncode == 0
    again = cli("new", "my_copy", cwd=tmp_path)
    assert again.returncode == 2 and "exists" in again.stderr
    assert cli("new", "my_copy", "--overwrite", cwd=tmp_path).returncode == 0


def test_a_run_of_a_benchmark_that_is_not_here_is_not_resumed(tmp_path):
    """And nothing that its file names is imported."""
    here = device()
    write_run(
        tmp_path / "r.jsonl",
        [record("theirs", {"op": "copy"}, series([1000] * 16, nbytes=10))],
        header(here, cards={"theirs": replace(STREAM, origin="--path theirs.py")}),
    )
    (tmp_path / "theirs.py").write_text("raise SystemExit('imported')")
    said = cli("run", "--resume", "r.jsonl", cwd=tmp_path)
    assert said.returncode in (2, 3) and "imported" not in said.stderr


def test_a_folder_imports_what_makes_benchmarks_and_nothing_else(tmp_path):
    folder = folder_with(
        tmp_path,
        first=BENCHMARK.format(name="first", text="with help")
        + "from . import helper\nfrom clmembench.benchmarks.stream import stream\n",
        helper="import json\n",
        json="raise SystemExit('hides the library')",
        test_first="raise SystemExit('a test')",
        setup="import clmembench; raise SystemExit('a script')",
    )
    path = list(sys.path)
    assert benchmarks.add_folders([folder]) == ["first"]
    assert benchmarks.add_folders([folder, folder / "first.py"]) == ["first", "first"]
    assert benchmarks.named("first") is benchmarks.discovered()["first"] and sys.path == path
    assert external.folders()[0] == str(folder)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"a": BENCHMARK.format(name="stream", text="")},
            "a.py defines stream, which clmembench has: give your benchmark another",
        ),
        ({"a": BENCHMARK.format(name="x", text=""), "b": BENCHMARK.format(name="x", text="")}, "b.py defines x, and so does"),
        (
            {"a": "from clmembench.benchmarks import benchmark\n1 / 0"},
            "a.py cannot be imported: ZeroDivisionError: division by zero",
        ),
        ({"a": "from clmembench.benchmarks import benchmark\nraise SystemExit(3)"}, "a.py cannot be imported: SystemExit: 3"),
        ({"a": "def f(:"}, "a.py, line 1: this is not Python: invalid syntax"),
        ({"a": "x = 1"}, "has no benchmark: `clmembench new NAME -o"),
        ({}, "has no benchmark"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why_in_one_line(tmp_path, files, says):
    folder = folder_with(tmp_path, **files)
    done = cli("suites", "--path", str(folder))
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_folder_that_is_missing_says_so(tmp_path):
    with pytest.raises(ExternalError, match="there is no such folder"):
        benchmarks.add_folders([tmp_path / "none"])


def test_a_kernel_beside_its_module_hides_none_of_ours(tmp_path):
    from clmembench.resources import kernel_source

    (tmp_path / "stream.cl").write_text("// theirs\n")
    (tmp_path / "mine.cl").write_text('#include "common.cl"\n#include "part.cl"\n')
    (tmp_path / "part.cl").write_text("// part\n")
    module = str(tmp_path / "mine.py")
    assert kernel_source("mine", module).endswith("// part\n") and "REPEAT_16" in kernel_source("mine", module)
    assert kernel_source("stream", module) == "// theirs\n" != kernel_source("stream")
    with pytest.raises(FileNotFoundError):
        kernel_source("part")


def test_a_job_names_folders_only_where_there_are_some(tmp_path):
    """So that a worker process of an older version can read it."""
    job = Job("fake", FAKE_DEVICE_INFO)
    assert "folders" not in json.loads(job_line(job)) and parse_job(json.loads(job_line(job))) == job
    benchmarks.add_folders([folder_with(tmp_path, first=BENCHMARK.format(name="first", text=""))])
    job = Job("fake", FAKE_DEVICE_INFO)
    assert parse_job(json.loads(job_line(job))).folders == (str(tmp_path / "mine"),)


def installed(tmp_path: Path, **modules: str) -> Path:
    """A folder with a package that offers benchmarks, as an installer leaves it."""
    site = tmp_path / "site"
    info = site / "clmembench_more-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clmembench-more\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{external.GROUP}]\n" + "".join(f"{name} = {name}\n" for name in modules))
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    return site


def test_an_installed_package_offers_benchmarks_to_run_and_to_its_workers(tmp_path):
    cli("new", "my_copy", "-o", "new", cwd=tmp_path)
    texts = {"my_copy": (tmp_path / "new/my_copy.py").read_text(), "broken_bench": "import nothing_of_that_name"}
    site = installed(tmp_path, **texts)
    (site / "my_copy.cl").write_text((tmp_path / "new/my_copy.cl").read_text())
    path = f"{site}:{Path(__file__).parents[2]}"
    done = process("run", *SMALL, "-s", "quick", "-o", "r.jsonl", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "benchmarks of clmembench-more 1.2 cannot be loaded: ModuleNotFoundError" in done.stderr
    assert jsonl.read(tmp_path / "r.jsonl").header.benchmarks["my_copy"].origin == "clmembench-more 1.2"


def test_a_package_replaces_no_benchmark(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed(tmp_path, theirs=BENCHMARK.format(name="stream", text=""))))
    found, problems = external.of_packages(benchmarks.packaged())
    assert found == {} and problems == ["benchmark stream of clmembench-more 1.2 is left out: its name is taken"]
    sys.modules.pop("theirs")


@pytest.fixture
def foreign(tmp_path) -> list[Path]:
    """Two runs of a benchmark that this installation lacks; one is twice as fast."""
    card = replace(
        STREAM, origin="clmembench-more 1.2", metrics=(Metric("rate", "Gthing/s", "ops", "rate", "higher"),), tuning=()
    )
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for number, path in enumerate(paths):
        with jsonl.Writer(path, header(device(), cards={"theirs": card}, run_id=f"RUN{number:023d}")) as writer:
            times = [(1000 + n % 3) * (2 - number) for n in range(16)]
            writer.write(record("theirs", {"kind": "all"}, series(times, ops=1_000_000)))
    return paths


def test_a_benchmark_that_is_not_here_is_shown_compared_and_reported(foreign):
    first, second = map(str, foreign)
    rows = json.loads(cli("show", first, "--json").stdout)
    assert [(row["benchmark"], row["unit"], row["status"]) for row in rows] == [("theirs", "Gthing/s", "ok")]
    assert "theirs" in cli("show", first).stdout
    assert "1 faster" in cli("compare", first, second).stdout
    for form in ("html", "md", "latex"):
        page = cli("report", first, second, "-f", form)
        assert page.returncode == 0 and "theirs" in page.stdout, page.stderr
    assert clmembench.read(first).benchmark.tolist() == ["theirs"]
    assert "theirs" in cli("history", first, second, "-b", "theirs").stdout
