"""The documentation stays short: few pages, few words, sentences that are understood at first reading."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

from tests.cases import each

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
MAX_PAGES = 16  # generated pages of the site are not files
MAX_WORDS = 28_000
MAX_MEAN_SENTENCE_WORDS = 25.0


def sentences(text: str) -> list[str]:
    """The sentences of a page; code, tables and headings are none."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#", "    ", "<!--", "!["))]
    paragraphs = re.split(r"\n\s*\n|\n(?=- |\d\. )", re.sub(r"\]\([^)]*\)", "]", "\n".join(lines)))
    parts = [
        part for paragraph in paragraphs for part in re.split(r"(?<=[.:?!])\s+(?=[A-Z`*\[(0-9])", " ".join(paragraph.split()))
    ]
    return [part for part in parts if len(part.split()) > 2]


def test_the_docs_have_few_pages_and_words():
    assert len(PAGES) <= MAX_PAGES
    assert sum(len(text.split()) for text in PAGES.values()) <= MAX_WORDS


@each("page", PAGES)
def test_sentences_are_short_in_the_mean(page):
    assert fmean(len(one.split()) for one in sentences(PAGES[page])) <= MAX_MEAN_SENTENCE_WORDS


def test_a_sentence_ends_at_its_full_stop_and_tables_and_code_are_none():
    prose, table, code = (
        "One two three. Four five\nsix seven: `eight` nine ten.",
        "| a | b | c |",
        "```\ncode that is long\n```",
    )
    text = "\n\n".join(("# A title here", prose, table, code, ""))
    assert sentences(text) == ["One two three.", "Four five six seven:", "`eight` nine ten."]
