"""The current folder is data: nothing in it, nor in the folder of a stored run, is imported or run, whatever its name."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clmembench.host import processes
from clmembench.measure.job import Job
from clmembench.measure.worker_process import probed
from clmembench.report.many_runs import digests
from clmembench.results.jsonl import Writer
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.studies.peers.benchmarks import programs
from tests.builders import STREAM, device, header, record, series
from tests.cases import each
from tests.faulty import ROOT, Command, tree

# of the standard library but what `python -m` itself imports (contextlib), of what is installed beside this package, and what
# Python imports unasked
NAMES = (
    "json", "pickle", "selectors", "subprocess", "tempfile", "ctypes", "random", "statistics", "platform", "logging",
    "decimal", "multiprocessing", "concurrent", "signal", "select", "socket", "struct", "threading", "queue",
    "dataclasses", "typing", "inspect", "traceback", "zlib", "base64", "math", "gc", "copyreg", "numpy",
    "pandas", "scipy", "matplotlib", "seaborn", "jinja2", "markupsafe", "pyopencl", "pytools", "pydantic", "typer",
    "click", "rich", "ulid", "platformdirs", "threadpoolctl", "pynvml", "cupy", "numba", "sitecustomize",
    "usercustomize",
)  # fmt: skip
PLANTED = """
with open({path!r}, "a") as log:
    log.write(__name__ + "\\n")
raise ImportError("a planted module was imported")
"""


@pytest.fixture
def planted(tmp_path) -> Path:
    """A folder with modules and programs that say when they are used."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED.format(path=str(folder / "used")))
    # a benchmark, and a package that offers it, as an installed one would
    text = f"from clmembench.benchmarks import benchmark\n{PLANTED.format(path=str(folder / 'used'))}"
    (folder / "planted_benchmark.py").write_text(text)
    (folder / "planted-1.0.dist-info").mkdir()
    (folder / "planted-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (folder / "planted-1.0.dist-info" / "entry_points.txt").write_text("[clmembench.benchmarks]\np = planted_benchmark\n")
    for name in ("babelstream", "omp-stream", "ocl-stream", "clpeak", "ldconfig", "gcc", "objdump"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {name} >> {folder}/used\n")
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return folder


def used(folder: Path) -> list[str]:
    return (folder / "used").read_text().split() if (folder / "used").exists() else []


@pytest.fixture(scope="module")
def fake(tmp_path_factory) -> Path:
    return tree(tmp_path_factory.mktemp("fake"))


def stored(folder: Path, number: int) -> str:
    path = folder / f"{number}.jsonl"
    with Writer(path, header(device(), cards={"stream": STREAM}, run_id=f"RUN{number:023d}")) as writer:
        writer.write(record("stream", {"op": "copy"}, series([1000, 1001] * 8, nbytes=1_000_000)))
    return path.name


SMALL = ("-a", "groups=1", "-a", "array_bytes=1MiB")
MEASURING = [
    ("devices",),
    ("suites",),
    ("run", "-b", "launch", "-b", "stream", *SMALL, "--reference", "--processes", "1", "--budget", "1s", "-o", "r.jsonl"),
    ("doctor",),
    ("topology", "--budget", "1s", "-o", "t.jsonl"),
    ("tune", "-b", "stream", "--budget", "1s", "-o", "t.toml"),
]


@pytest.mark.parametrize("args", MEASURING, ids=" ".join)
def test_a_command_that_measures_imports_and_runs_nothing_from_the_current_folder(fake, tmp_path, planted, args):
    path = f".{os.pathsep}{os.pathsep}{os.environ['PATH']}"  # an empty entry is the current folder too
    with Command(fake, args, tmp_path, cwd=planted, environment={"PATH": path}) as command:
        assert command.wait(200) is not None
        assert "planted" not in command.said() and "Traceback" not in command.said(), command.said()
    assert used(planted) == []


@pytest.mark.parametrize("args", [("report", "-o", "r.html"), ("show",), ("compare",)], ids=" ".join)
def test_a_command_that_reads_imports_nothing_from_the_folder_of_the_runs(fake, tmp_path, planted, args):
    count = 14 if args[0] == "report" else 2 if args[0] == "compare" else 1
    runs = [stored(planted, number) for number in range(count)]
    with Command(fake, (*args, *runs), tmp_path, cwd=planted) as command:
        assert command.wait(200) in (0, 5, 6), command.said()
        assert "planted" not in command.said() and "Traceback" not in command.said(), command.said()
    assert used(planted) == []


@pytest.mark.parametrize(
    "path", [":{tree}", *(pytest.param(path, marks=pytest.mark.slow) for path in ("{tree}:", "{tree}::/nowhere"))]
)
def test_a_path_of_modules_with_an_empty_entry_does_not_name_the_current_folder(fake, tmp_path, planted, path):
    for name in ("sitecustomize", "usercustomize"):  # which Python imports before anything of this package
        (planted / f"{name}.py").unlink()
    environment = {"PYTHONPATH": path.format(tree=fake)}
    args = ("run", "-b", "launch", "-a", "groups=1", "--budget", "1s", "-o", "r.jsonl")
    with Command(fake, args, tmp_path, cwd=planted, environment=environment) as command:
        assert command.wait(200) == 0, command.said()
    assert used(planted) == []


FURTHER = ("", os.pathsep, f"{os.pathsep}/nowhere")


@pytest.mark.parametrize(
    "python_path", [None, f"/nowhere{os.pathsep}", *(pytest.param(path, marks=pytest.mark.slow) for path in FURTHER)]
)
def test_an_empty_entry_of_the_paths_is_not_the_current_folder(planted, monkeypatch, python_path):
    monkeypatch.chdir(planted)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if python_path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", python_path)
    assert probed(Job("fake", FAKE_DEVICE_INFO)).quantum_ns >= 1
    runs = [planted / stored(planted, number) for number in range(2)]
    assert len(list(digests.digests(runs, False, 2))) == 2
    assert used(planted) == []
    # what was set for the workers is as it was
    assert os.environ.get("PYTHONPATH") == python_path and "PYTHONSAFEPATH" not in os.environ


def test_a_path_that_the_user_named_is_kept(monkeypatch):
    monkeypatch.chdir("/usr")
    said = {"PYTHONPATH": os.pathsep.join(("/a", "", "lib", "/b")), "HOME": "/h"}
    found = processes.python_environment(said)
    assert found["PYTHONPATH"].split(os.pathsep) == ["/a", "/usr/lib", "/b"]
    assert (found["PYTHONSAFEPATH"], found["HOME"]) == ("1", "/h")
    assert "PYTHONPATH" not in processes.python_environment({"PYTHONPATH": ""})


def test_a_package_that_lies_in_the_current_folder_alone_still_runs(tmp_path):
    """As `python -m clmembench` in a checkout that is not installed."""
    here = tree(tmp_path / "checkout")
    (here / "json.py").write_text(PLANTED.format(path=str(here / "used")))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("PYTHONPATH", None)
    run = ("run", "-b", "launch", "-a", "groups=1", "--budget", "1s", "-o", str(tmp_path / "r.jsonl"))
    command = [sys.executable, "-m", "clmembench", *run]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "Faulty device" in done.stdout and used(here) == []


@pytest.mark.parametrize("folders", [".", "", f"{os.pathsep}", "relative"])
def test_programs_are_looked_for_in_absolute_folders_only(planted, monkeypatch, folders):
    monkeypatch.chdir(planted.parent)
    shutil.copytree(planted, planted.parent / "relative")
    monkeypatch.chdir(planted)
    monkeypatch.setenv("PATH", folders)
    assert programs.find_program("clpeak") is None
    monkeypatch.chdir(planted.parent)
    assert programs.find_program("clpeak") is None
    monkeypatch.setenv("PATH", f"{folders}{os.pathsep}{planted}")
    assert programs.find_program("clpeak") == str(planted / "clpeak")


def test_figures_take_no_settings_from_the_current_folder(planted, tmp_path):
    """matplotlib reads a file matplotlibrc there, which can, for one, have every text set by a program."""
    code = "from clmembench.report.figures import style; f, (a,) = style.subplots(1, 3); a.set_title('x'); print(style.svg(f))"
    without = io.StringIO()
    with contextlib.redirect_stdout(without):
        exec(code, {})
    settings = "text.usetex: True\naxes.titlecolor: red\nlines.linewidth: 20\nsvg.image_inline: False\n"
    (planted / "matplotlibrc").write_text(settings)
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=planted, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout == without.getvalue() and "<svg" in done.stdout and used(planted) == []


@each("path", sorted((ROOT / "scripts").glob("*.py")))
def test_scripts_start_python_without_the_current_folder(path):
    text = path.read_text()
    assert text.count('"-m", "clmembench"') + text.count('"-m", *command') == text.count('"-P", "-m"')
