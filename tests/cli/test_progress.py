"""Progress on a terminal, without colour, on a dumb one, in a pipe, and where Ctrl-C ends it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clmembench.results import jsonl
from tests.faulty import tree
from tests.terminals import Recording, on_terminal

POINTS = ("run", "-d", "0", "-s", "quick", "-b", "launch", "-a", "groups=[1,2,4]", "--seed", "380")  # in that order
BAR = re.compile(r"(\d) of 3 measurements \((\d+)%\), \d+ s, (about )?\d+ s (to \d+ s )?left")


@pytest.fixture(scope="module")
def fake(tmp_path_factory) -> Path:
    """The package with a scripted device in the place of OpenCL."""
    return tree(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def measured(fake, tmp_path):
    """A run on a terminal, with these variables."""

    def run(**environment) -> Recording:
        locks = {"PYTHONPATH": str(fake), "CLMEMBENCH_LOCKS": str(tmp_path)}
        return on_terminal(*POINTS, "-o", "r.jsonl", folder=tmp_path, **(locks | environment))

    return run


def test_a_terminal_shows_a_bar_that_goes_away(measured):
    done = measured()
    assert done.returncode == 0, done.text
    assert BAR.search(done.text) and "━" in done.text and done.colours
    assert done.written.index("\x1b[?25l") < done.written.index("\x1b[?25h")  # the cursor is there again
    shown = done.written.partition("\x1b[?25h")[2]
    assert not BAR.search(shown) and "Results: r.jsonl" in shown
    assert "launch: 3 points, " in done.text


@pytest.mark.slow
def test_no_color_takes_the_colour_and_leaves_the_progress(measured):
    done = measured(NO_COLOR="1")
    assert done.returncode == 0 and BAR.search(done.text)
    assert not any(re.search(r"\[(?:3|9)\d|;(?:3|9)\d", code) for code in done.colours)


@pytest.mark.slow
def test_a_dumb_terminal_gets_lines_alone(measured):
    done = measured(TERM="dumb")
    assert done.returncode == 0 and "\x1b" not in done.written and "launch: 3 points, " in done.text


def test_ctrl_c_gives_the_terminal_back_and_names_the_command_that_resumes(measured, tmp_path):
    reached = tmp_path / "at"
    done = measured(interrupt_at=reached, FAULTY_DEVICE="hang:4", FAULTY_AT=str(reached))
    assert done.returncode == 130, done.text
    assert "resume with clmembench run --resume r.jsonl" in " ".join(done.text.split())
    assert done.written.index("\x1b[?25l") < done.written.rindex("\x1b[?25h") and "Traceback" not in done.text
    assert len(jsonl.read(tmp_path / "r.jsonl").records) == 2


@pytest.mark.slow
def test_a_run_into_a_pipe_whose_reader_left_is_measured_to_its_end(fake, tmp_path):
    locks = {"PYTHONPATH": str(fake), "CLMEMBENCH_LOCKS": str(tmp_path)}
    started = subprocess.Popen(
        [sys.executable, "-m", "clmembench", *POINTS, "-o", str(tmp_path / "r.jsonl")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **locks},
    )  # fmt: skip
    started.stdout.close()
    said = started.stderr.read().decode()
    assert started.wait() == 0 and "Traceback" not in said and "Broken pipe" not in said
    assert len(jsonl.read(tmp_path / "r.jsonl").records) == 3
    assert "\x1b" not in said and "launch: 3 points, " in said
