"""HTML pages of reports, parsed for tests: elements, texts, tables and anchors, and that nothing in them acts or loads."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from clmembench.report import render

VOID = {"meta", "br", "input", "hr", "img"}


class Page(HTMLParser):
    """All tags, attributes and words; `tables` has the number of cells of each row, `elements` each tag with its attributes,
    and `captions` one text for each table that has one."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.words, self.tables = [], [], [], []
        self.elements, self.captions, self.open = [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "caption":
            self.captions.append("")
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in ("td", "th"):
            self.tables[-1][-1] += 1

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open[-1:]:
            self.words.append(data)
        if "caption" in self.open[-1:]:
            self.captions[-1] += data

    def ids(self):
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]

    def links(self):
        return [attributes["href"] for tag, attributes in self.elements if tag == "a"]


def without_own_script(source):
    """The page without the one script that it may have: ours, letter for letter, which alone its policy lets run."""
    script = f"<script>{render.asset('page.js')}</script>"
    assert source.count("</script>") in (0, 1) and source.count(script) == source.count("</script>")
    if script in source:
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)[1]
        assert f"script-src '{render.asset_hash('page.js')}';" in policy and policy.startswith("default-src 'none';")
    return source.replace(script, "")


def assert_harmless(source):
    source = without_own_script(source)
    page = Page(source)
    assert "<script" not in source.lower()
    assert set(page.tags).isdisjoint({"script", "iframe", "object", "embed", "link", "img", "base", "form"})
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("href", "src", "xlink:href", "action", "srcset", "data"):
            assert value.startswith("#"), value
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import", source)
