"""The README is short, shows what commands print and continuous integration runs, and its benchmark runs."""

from __future__ import annotations

import shlex

import pytest
from markdown_it import MarkdownIt

from clmembench.results.jsonl import read
from tests.commands import ROOT, cli, process

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 160


def blocks(language: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(README)
    return [token.content for token in tokens if token.type == "fence" and token.info.strip() == language]


def excerpts() -> dict[str, list[str]]:
    """The lines that the README shows of the output of each command."""
    found: dict[str, list[str]] = {}
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ clmembench "):
            lines = found.setdefault(line.removeprefix("$ clmembench "), [])
        else:
            lines.append(line)
    return found


def missing(excerpt: list[str], output: str) -> list[str]:
    """The lines of an excerpt that do not follow each other, others between them, in the output."""
    left = iter(output.splitlines())
    return [line for line in excerpt if line not in left]


def test_the_readme_is_short():
    assert len(README.splitlines()) <= MAX_LINES


def test_the_line_that_runs_the_tests_is_what_continuous_integration_runs():
    steps = [line.strip().removeprefix("timed ") for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()]
    install = next(line for line in steps if line.startswith("python3 -m venv"))
    tests = next(line for line in steps if " -m pytest" in line)
    assert f"{install} && {tests}\n" in blocks("sh")


@pytest.mark.parametrize("command", excerpts())
def test_an_excerpt_is_what_its_command_prints(command):
    excerpt = excerpts()[command]
    done = cli(*shlex.split(command), cwd=ROOT)
    assert (done.returncode, missing(excerpt, done.stdout)) == (0, [])
    assert len(excerpt) > 3


def test_an_excerpt_with_another_figure_or_order_is_found():
    output = "level  size\nL1  32 KiB\nL2  1 MiB\n"
    assert missing(["level  size", "L2  1 MiB"], output) == []
    assert missing(["L1  48 KiB"], output) == ["L1  48 KiB"]
    assert missing(["L2  1 MiB", "L1  32 KiB"], output) == ["L1  32 KiB"]


def test_the_benchmark_of_the_readme_runs_in_place_of_the_one_that_new_writes(tmp_path):
    (listing,) = blocks("python")
    assert process("new", "triple", "-o", "mine", cwd=tmp_path).returncode == 0
    written = tmp_path / "mine" / "triple.py"
    written.write_text(written.read_text(encoding="utf-8").partition("@benchmark(")[0] + listing, encoding="utf-8")
    done = process("run", "--path", "mine", "-d", "0", "--size", "16MiB", "--budget", "1m", "-o", "triple.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    points = {(one.benchmark, one.params["width"]) for one in read(tmp_path / "triple.jsonl").records}
    assert points == {("triple", 2), ("triple", 4)}
