"""Every link inside the documentation leads to a file, and to a heading of it; every page is on the site once."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from markdown_it import MarkdownIt

from scripts import site_hooks, site_links, site_reference
from tests.cases import each

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PARSER = MarkdownIt("commonmark").enable("table")


@cache
def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def targets(text: str) -> list[str]:
    """Every address that a page links to or shows, as a Markdown parser reads it."""
    inline = [child for token in PARSER.parse(text) for child in token.children or ()]
    return [str(child.attrs.get("href") or child.attrs.get("src")) for child in inline if child.type in ("link_open", "image")]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, by the rule that the site and code hosts share."""
    tokens = PARSER.parse(text)
    headings = [after for before, after in pairwise(tokens) if before.type == "heading_open"]
    texts = ["".join(c.content for c in token.children or () if c.type in ("text", "code_inline")) for token in headings]
    return {re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in texts}


def complaints(page: str, text: str, written: dict[str, str]) -> list[str]:
    """What is wrong with a page's links. `written` are pages that have a text but no file."""
    found = []
    for target in targets(text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        if place not in written and not (ROOT / place).exists():
            found.append(f"{page}: {target}: no such file")
        elif anchor and anchor not in anchors(written.get(place) or (text if place == page else page_text(place))):
            found.append(f"{page}: {target}: {place} has no such heading")
    return found


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The pages that are made when the site is built."""
    return {f"docs/{page}": text for page, text in site_reference.pages().items()}


@each("page", PAGES)
def test_links_lead_to_files_and_headings(page, generated):
    assert complaints(page, page_text(page), generated) == []


def test_links_of_generated_pages_lead_somewhere(generated):
    assert [one for page, text in generated.items() for one in complaints(page, text, generated)] == []


def test_a_broken_link_is_found():
    assert complaints("docs/peers.md", "[a](measuring.md#gates) [b](#here)\n\n# Here", {}) == []
    broken = "[a](missing.md) [b](measuring.md#no-such-heading) [c](#nowhere) ![d](missing.png) [e](../docs/nothing/)"
    assert len(complaints("docs/x.md", broken, {})) == 5
    assert complaints("docs/x.md", "```\n[a](missing.md)\n``` \n`[b](missing.md)` [c](https://example.org/x)", {}) == []


def test_links_that_leave_docs_lead_to_copies_on_the_site_or_name_a_folder():
    text = "[a](../reports/peers.html) [b](../reports/) [c](../CHANGELOG.md#x) [d](measuring.md#gates) [e](https://x.org)"
    told = "[a](repository/reports/peers.html) `reports/` [c](changelog.md#x) [d](measuring.md#gates) [e](https://x.org)"
    assert site_links.rewritten(text, "docs/page.md", "page.md") == told
    deeper = site_links.rewritten("[a](../../reports/peers.html) [b](../measuring.md)", "docs/how-to/x.md", "how-to/x.md")
    assert deeper == "[a](../repository/reports/peers.html) [b](../measuring.md)"
    assert site_links.rewritten("[t](docs/testing.md)", "SECURITY.md", "security.md") == "[t](testing.md)"
    fenced = "```\n[a](../reports/peers.html)\n```\n"
    assert site_links.rewritten(fenced, "docs/page.md", "page.md") == fenced
    assert {path for path in site_links.linked_files(["docs/results.md"]) if path.endswith(".html")} >= {
        "reports/comparison.html"
    }


def test_a_page_that_the_contents_leave_out_is_listed_under_more():
    config = SimpleNamespace(nav=[{"All": [page for page in site_hooks._pages() if page != "measuring.md"]}])
    site_hooks.on_config(config)
    assert config.nav[-1] == {"More": ["measuring.md"]}
    site_hooks.on_config(config)
    assert len(config.nav) == 2
