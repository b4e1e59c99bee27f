"""A Slurm of one node on this host: `fleet run --slurm`, and the ReFrame test of the docs by both schedulers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import slurm_node
from tests.commands import ROOT, process

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Variables of a process that submits jobs."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    if os.geteuid() or not all(shutil.which(name, path=path) for name in slurm_node.DAEMONS):
        pytest.skip("needs root, slurm-wlm and munge")
    folder = tmp_path_factory.mktemp("slurm")
    slurm_node.start(folder)
    yield {"SLURM_CONF": str(folder / "slurm.conf")}
    slurm_node.stop(folder)


def test_a_job_of_slurm_measures_its_node(slurm, tmp_path):
    store = tmp_path / "s"
    done = process("fleet", "run", "--slurm", "-d", "fake:0", "-b", "launch", "-o", str(store), **slurm)
    assert done.returncode == 4 and "1 of 1 device complete" in done.stdout, done.stderr
    jobs = [file.read_text() for file in (store / "slurm").iterdir()]
    assert jobs and not any("Traceback" in text for text in jobs)


@pytest.mark.parametrize("partition", ["local", "slurm"])
def test_the_reframe_test_of_the_docs_passes(slurm, tmp_path, partition):
    pytest.importorskip("reframe")
    example = ROOT / "docs" / "example"
    command = [
        str(Path(sys.executable).with_name("reframe")), "-C", str(example / "reframe_settings.py"),
        "-c", str(example / "reframe_checks.py"), f"--system=node:{partition}", "-S", "array_bytes=1MiB", "-r",
    ]  # fmt: skip
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **slurm, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1/1 test case(s)" in done.stdout and "P: bandwidth" in done.stdout, done.stdout
