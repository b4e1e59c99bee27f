"""The study of docs/extending.md: a package of someone else, built from the page, adds a command, a table and a figure."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.commands import ROOT, as_on_a_quiet_host, process

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "example"


def listing(name: str) -> str:
    """The block of code that the page has of a file: the first below the line that begins with its name."""
    found = re.search(rf"^{re.escape(name)}[:,].*?^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The package as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    package, info = folder / "strides", folder / "strides-0.1.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").touch()
    for name in ("study.py", "command.py", "figures.py"):
        (package / name).write_text(listing(f"strides/{name}"), encoding="utf-8")
    benchmark = (EXAMPLE / "strided_read.py").read_text(encoding="utf-8")
    here = benchmark.replace('kernel_source("strided_read")', 'kernel_source("strided_read", __file__)')
    assert here != benchmark
    (package / "strided_read.py").write_text(here, encoding="utf-8")
    (package / "strided_read.cl").write_bytes((EXAMPLE / "strided_read.cl").read_bytes())
    (package / "tables.py").write_bytes((EXAMPLE / "strided_tables.py").read_bytes())
    project = tomllib.loads(listing("pyproject.toml"))["project"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, names in groups for line in (f"[{group}]", *(f"{name} = {at}" for name, at in names.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def measured(site, tmp_path_factory) -> tuple[Path, str]:
    """A run that the study's command measured, and what it printed."""
    folder = tmp_path_factory.mktemp("run")
    done = process("strides", "-d", "0", "-o", "r.jsonl", "--budget", "3m", cwd=folder, PYTHONPATH=f"{site}:{ROOT}")
    assert done.returncode == 0, done.stderr
    as_on_a_quiet_host(folder / "r.jsonl")
    return folder, done.stdout


def test_the_command_is_in_the_help_under_understand(site, tmp_path):
    text = process("--help", cwd=tmp_path, PYTHONPATH=f"{site}:{ROOT}").stdout
    without = process("--help", cwd=tmp_path, PYTHONPATH=str(ROOT)).stdout
    line = "strides    Measure the bandwidth that reads with a stride leave."
    assert line in text and line not in without
    assert text.index("Understand") < text.index(line)


def test_the_command_measures_and_reads_and_a_run_without_evidence_is_named(site, measured):
    folder, printed = measured
    assert "Useful bandwidth of strided reads" in printed and "Results: r.jsonl" in printed
    shown = process("strides", "r.jsonl", "--md", cwd=folder, PYTHONPATH=f"{site}:{ROOT}").stdout
    assert "| strided_read: stride | useful bandwidth |" in shown and "| 32 | " in shown
    other = process("strides", str(ROOT / "reports/h200-sxm-energy.jsonl.gz"), cwd=folder, PYTHONPATH=f"{site}:{ROOT}")
    assert (other.returncode, "has no strided reads" in other.stderr) == (2, True)


def test_a_suite_that_does_not_exist_ends_it_in_one_line_that_names_the_package(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    command = tmp_path / "site" / "strides" / "command.py"
    text = command.read_text(encoding="utf-8")
    command.write_text(text.replace('selection("memory"', 'selection("memry"'), encoding="utf-8")
    done = process("strides", "-d", "0", "-o", "r.jsonl", cwd=tmp_path, PYTHONPATH=f"{tmp_path / 'site'}:{ROOT}")
    *_, last = done.stderr.splitlines()
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert last.startswith("clmembench: strides 0.1: study strides: command strides: no suite 'memry': did you mean memory?")


def test_its_table_and_figure_are_those_of_show_and_report(site, measured):
    folder, _ = measured
    path = f"{site}:{ROOT}"
    assert "of stride 1" in process("show", "r.jsonl", cwd=folder, PYTHONPATH=path).stdout
    assert process("report", "r.jsonl", "-o", "r.html", cwd=folder, PYTHONPATH=path).returncode == 0
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "stride in words" in page and "of stride 1" in page
    plain = process("show", "r.jsonl", cwd=folder, PYTHONPATH=str(ROOT)).stdout  # an installation without the package
    assert "strided_read" in plain and "of stride 1" not in plain


def test_the_listing_of_the_benchmark_is_a_part_of_its_file():
    (code,) = re.findall(r"^```python\n(USEFUL = .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert code in (EXAMPLE / "strided_read.py").read_text(encoding="utf-8")
