"""A release holds together: one version, archives with every file of the package, a container that copies what is there."""

from __future__ import annotations

import re
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
    version, date = re.search(r"^## (\S+) \((.+)\)$", changes, re.MULTILINE).groups()
    assert version == clmembench.__version__
    assert date == (re.search(r"^date-released: (.+)$", citation, re.MULTILINE) or ["", "unreleased"])[1]
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"| {'.'.join(version.split('.')[:2])}.x | yes |" in security


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
def test_archives_hold_every_file_of_the_package_and_are_the_same_when_built_again(tmp_path):
    pytest.importorskip("build", reason='pip install -e ".[release]" builds archives')
    wheel, sdist = try_release.build(tmp_path / "once")
    assert [*try_release.wheel_faults(wheel), *try_release.sdist_faults(sdist)] == []
    again = try_release.build(tmp_path / "again", "--sdist", "--wheel")
    assert [one.read_bytes() == other.read_bytes() for one, other in zip((wheel, sdist), again, strict=True)] == [True, True]


@in_a_clone
def test_files_that_an_archive_lacks_or_should_not_have_are_named(tmp_path):
    import tarfile
    import zipfile

    kernel = "cl_kernels/stream.cl"
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel, tarfile.open(tmp_path / "a.tar.gz", "w:gz") as sdist:
        for name in {*try_release.shipped_files(), "notes.txt", "a.dist-info/RECORD"} - {f"clmembench/{kernel}"}:
            wheel.writestr(name, "")
        for path in try_release.git("ls-files", *try_release.SHIPPED).splitlines():
            if path != kernel:
                sdist.add(ROOT / path, f"clmembench-0/{path}")
        sdist.add(ROOT / kernel, "clmembench-0/notes.txt")
    faults = [*try_release.wheel_faults(tmp_path / "a.whl")]
    assert faults == [f"a.whl lacks clmembench/{kernel}", "a.whl has notes.txt besides"]
    faults = [*try_release.sdist_faults(tmp_path / "a.tar.gz")]
    assert faults == [f"a.tar.gz lacks {kernel}", "a.tar.gz has notes.txt besides"]


def test_the_container_names_what_the_package_has():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    ignored = set((ROOT / ".containerignore").read_text(encoding="utf-8").split())
    assert f'ENTRYPOINT ["{next(iter(PROJECT["project"]["scripts"]))}"]' in text
    needed = {"clmembench", "cl_kernels", "platforms", "README.md", "LICENSE", "pyproject.toml"}
    assert not needed & ignored and all((ROOT / name).exists() for name in needed)
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
    assert set(re.findall(r"COPY --from=(\w+)", text)) <= stages
