"""The Python of the documentation runs as it stands, in the order of its page, on committed runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import matplotlib as mpl
import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
RUNS = ("h200-sxm-quick", "xeon-16-cores-pocl-quick", "epyc-2-cores-pocl-all")  # the last has points over compute units
LISTINGS = {"extending.md": "a benchmark and a study, which test_example and test_study_package run"}


def blocks(page: Path) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    return [token.content for token in tokens if token.type == "fence" and token.info.strip() == "python"]


PAGES = {page.name: page for page in sorted((ROOT / "docs").rglob("*.md")) if blocks(page)}


@pytest.mark.slow  # figures take seconds
@pytest.mark.parametrize("name", [name for name in PAGES if name not in LISTINGS])
def test_the_python_of_a_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    for run in RUNS:
        shutil.copy(ROOT / "reports" / f"{run}.jsonl.gz", tmp_path / "reports")
    mpl.use("agg")
    names: dict[str, object] = {}
    for block in blocks(PAGES[name]):
        exec(compile(block, name, "exec"), names)
    assert "cm" in names


def test_pages_with_python_are_found():
    assert {"reading.md", "extending.md"} <= PAGES.keys()
