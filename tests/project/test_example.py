"""The example of the docs: one .py and one .cl, dropped into a copy of the package, appear everywhere with no other edit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.commands import as_on_a_quiet_host
from tests.faulty import ROOT, tree

STRIDES = "stride=[1,2,4,8,16,32]"  # all, but each for the short time of the suite quick


@pytest.mark.slow  # README's benchmark goes the same way in test_readme
def test_a_benchmark_in_two_files_appears_in_suites_run_show_and_report(tmp_path):
    tree(tmp_path, fake=False)
    shutil.copy(ROOT / "docs/example/strided_read.py", tmp_path / "clmembench/benchmarks")
    shutil.copy(ROOT / "docs/example/strided_read.cl", tmp_path / "cl_kernels")

    def cli(*args: str) -> str:
        command = [sys.executable, "-m", "clmembench", *args]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "strided_read" in cli("suites").splitlines()[0]  # quick
    assert "Useful bandwidth" in cli("describe", "strided_read")
    summary = cli("run", "-b", "strided_read", "-s", "quick", "-a", STRIDES, "--size", "4MiB", "-o", "r.jsonl")
    assert "strided_read: stride" in summary and any(line.split()[:1] == ["32"] for line in summary.splitlines())
    as_on_a_quiet_host(tmp_path / "r.jsonl")
    shown = json.loads(cli("show", "r.jsonl", "--json"))
    assert {row["params"]["stride"]: row["status"] for row in shown} == dict.fromkeys((1, 2, 4, 8, 16, 32), "ok")
    page = cli("report", "r.jsonl", "-f", "html")
    assert 'id="strided_read"><summary><h3>strided_read</h3>' in page
    assert page.count('<svg role="img"') == 2  # bars, and a curve over the stride

    # a file made with it is read by a tool that does not know it: the file says what its metrics are
    elsewhere = subprocess.run(
        [sys.executable, "-m", "clmembench", "show", str(tmp_path / "r.jsonl"), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    assert json.loads(elsewhere.stdout) == shown
