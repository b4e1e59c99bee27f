"""A release holds together: one version, archives with every file of the package, a container that copies what is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import clmembench
from scripts import try_release

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

in_a_clone = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares with the files that git knows")


def test_the_version_has_one_source():
    assert PROJECT["project"]["dynamic"] == ["version"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "clmembench/__init__.py"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == clmembench.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == clmembench.__version__


def test_classifiers_name_the_versions_of_python_from_the_lowest_on():
    named = [line.rpartition(".")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
    lowest = int(PROJECT["project"]["requires-python"].removeprefix(">=3."))
    assert [int(minor) for minor in named] == list(range(lowest, lowest + len(named)))


@in_a_clone
def test_the_workflow_runs_each_version_of_python_that_the_metadata_names():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    versions = re.findall(r'"(3\.\d+)"', re.search(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)[1])
    named = [line.rpartition(".")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert [version.partition(".")[2] for version in versions[: len(named)]] == named
    assert "- run: bash .ci/run\n" in workflow


@in_a_clone
def test_kernels_sheets_and_tables_are_among_the_files_that_a_wheel_must_hold():
    shipped = try_release.shipped_files()
    kinds = {(name.split("/")[1], Path(name).suffix) for name in shipped}
    assert {("cl_kernels", ".cl"), ("platforms", ".toml"), ("analysis", ".toml"), ("report", ".j2")} <= kinds
    assert not [name for name in shipped if not name.startswith("clmembench/")]


@in_a_clone
@pytest.mark.slow
def test_a_wheel_holds_every_file_of_the_package(tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob(f"clmembench-{clmembench.__version__}-*.whl")
    assert try_release.missing_from_wheel(wheel) == set()


@in_a_clone
@pytest.mark.slow
def test_an_sdist_holds_every_file_of_the_package(tmp_path):
    pytest.importorskip("build", reason='pip install -e ".[release]" builds sdists')
    done = subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--outdir", tmp_path, ROOT], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert try_release.missing_from_sdist(sdist) == set()


@in_a_clone
def test_files_that_an_archive_lacks_are_named(tmp_path):
    import tarfile
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel, tarfile.open(tmp_path / "a.tar.gz", "w:gz") as sdist:
        for name in try_release.shipped_files() - {"clmembench/cl_kernels/stream.cl"}:
            wheel.writestr(name, "")
        for path in ("clmembench/__init__.py", "cl_kernels/pchase.cl"):
            sdist.add(ROOT / path, f"clmembench-0/{path}")
    assert try_release.missing_from_wheel(tmp_path / "a.whl") == {"clmembench/cl_kernels/stream.cl"}
    lacking = try_release.missing_from_sdist(tmp_path / "a.tar.gz")
    assert "clmembench/cl_kernels/stream.cl" in lacking and "clmembench/cl_kernels/pchase.cl" not in lacking


def test_the_container_names_what_the_package_has():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    ignored = set((ROOT / ".containerignore").read_text(encoding="utf-8").split())
    assert f'ENTRYPOINT ["{next(iter(PROJECT["project"]["scripts"]))}"]' in text
    needed = {"clmembench", "cl_kernels", "platforms", "README.md", "LICENSE", "pyproject.toml"}
    assert not needed & ignored and all((ROOT / name).exists() for name in needed)
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
    assert set(re.findall(r"COPY --from=(\w+)", text)) <= stages
