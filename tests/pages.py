"""HTML pages of reports, parsed for tests: elements, texts, tables and anchors, and that nothing in them acts or loads."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from html.parser import HTMLParser

from clmembench.report import render

ROWS = re.compile(r'<script type="application/octet-stream" id="rows">([A-Za-z0-9+/=]*)</script>')
VOID = {"meta", "br", "input", "hr", "img"}


def demanded(source):
    """The tables that a page, or a part of it with its end, makes on demand, by their captions: columns and groups of rows, as
    its script reads them."""
    found = ROWS.search(source)
    if found is None:
        return {}
    tables = json.loads(gzip.decompress(base64.b64decode(found[1])))
    places = dict(re.findall(r'data-caption="([^"]*)"[^>]* data-rows="(\d+)"', source))
    return {html.unescape(caption): tables[int(number)] for caption, number in places.items()}


class Page(HTMLParser):
    """All tags, attributes and words; `tables` has the number of cells of each row, `elements` each tag with its attributes,
    and `captions` one text for each table that has one. Tables on demand come last."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.words, self.tables = [], [], [], []
        self.elements, self.captions, self.open = [], [], []
        self.feed(source)
        for caption, found in demanded(source).items():
            self.captions.append(caption)
            rows = [row for _, rows in found["groups"] for row in rows]
            self.tables.append([len(found["columns"]), *map(len, rows)])
            self.words += [text for text, _ in found["columns"]]
            for cell in (cell for row in rows for cell in row):
                self.words += [cell] if isinstance(cell, str) else [cell["text"], *cell.get("more", ()), cell.get("detail", "")]

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


OWN_SCRIPTS = ("page.js", "which_device.js")


def without_own_script(source):
    """The page without the scripts that it may have, ours letter for letter, which alone its policy lets run, and without the
    rows that these read, which are no script."""
    source = ROWS.sub("", source, 1)
    own = [name for name in OWN_SCRIPTS if f"<script>{render.asset(name)}</script>" in source]
    if own:
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)[1]
        allowed = " ".join(f"'{render.asset_hash(name)}'" for name in own)
        assert f"script-src {allowed};" in policy and policy.startswith("default-src 'none';")
    for name in own:
        source = source.replace(f"<script>{render.asset(name)}</script>", "")
    assert "</script>" not in source
    return source


def assert_harmless(source):
    source = without_own_script(source)
    page = Page(source)
    assert "<script" not in source.lower()
    assert set(page.tags).isdisjoint({"script", "iframe", "object", "embed", "link", "img", "base", "form"})
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("href", "src", "xlink:href", "action", "srcset", "data"):
            assert value.startswith(("#", "data:image/png;base64,")), value
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import", source)
