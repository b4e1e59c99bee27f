"""The site builds without a warning, and no page of it needs another address."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Loads(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in LOADING and values.get("rel") not in ("canonical", "alternate", "prev", "next"):
            self.loads += filter(None, [values.get(LOADING[tag])])  # a script may stand in the page itself


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason='pip install -e ".[docs]" builds the site')
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_pages_of_the_site_load_only_files_that_are_there(site):
    pages = [
        path for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "repository" and path.name != "404.html"
    ]
    assert len(pages) > 20
    for page in pages:
        for address in Loads(page.read_text(encoding="utf-8")).loads:
            assert not re.match(r"(https?:)?//", address), f"{page.name} loads {address}"
            assert address.startswith("data:") or (page.parent / re.split("[?#]", address)[0]).is_file(), (
                f"{page.name}: {address}"
            )


@pytest.mark.slow
def test_styles_load_nothing_from_elsewhere(site):
    found = [
        css.name
        for css in site.rglob("*.css")
        if re.search(r"url\(\s*[\"']?(https?:)?//|@import", css.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.slow
def test_the_site_has_the_generated_reference_the_change_log_and_search(site):
    for page in (
        "reference/commands.html",
        "reference/benchmarks.html",
        "reference/python.html",
        "changelog.html",
        "security.html",
    ):
        assert (site / page).is_file(), page
    api = (site / "reference/python.html").read_text(encoding="utf-8")
    assert 'id="clmembench.report.frame.read"' in api and 'id="clmembench.model.work.Work"' in api
    assert "topology" in (site / "search/search_index.js").read_text(encoding="utf-8")
