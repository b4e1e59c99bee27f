"""What a page says many times, once: the rows of its long tables as one compressed block, styles and shapes of its figures."""

from __future__ import annotations

import base64
import gzip
import re
from collections import Counter

from markupsafe import Markup

from clmembench.report.page.embedded_svg import FIGURE

ROWS = re.compile(r'data-rows(>.*?)<script type="application/json">(.*?)</script>', re.DOTALL)
_STYLE = re.compile(r'style="([^"]*)"')
_DEFINITIONS = re.compile(r"<defs>(.*?)</defs>", re.DOTALL)
_DEFINITION = re.compile(r'<(\w+) [^>]*?id="([^"]*)".*?</\1>', re.DOTALL)
_END_OF_STYLE, _BEGIN_OF_BODY, _END_OF_MAIN = "</style>", "<body>", "</main>"


def packed(page: str) -> Markup:
    """The same page, shorter. Rows of long tables become one block of gzip and base64, which the page's script reads when they
    are asked for; styles that figures share become classes, and what figures refer to stands at the page's beginning."""
    tables: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        tables.append(found[2])
        return f'data-rows="{len(tables) - 1}"{found[1]}'

    page = ROWS.sub(numbered, page)
    figures = FIGURE.findall(page)
    styles = Counter(style for svg in figures for style in _STYLE.findall(svg))
    classes = {style: f"s{number:x}" for number, (style, times) in enumerate(styles.most_common()) if times > 1}
    definitions: dict[str, str] = {}

    def shared(found: re.Match[str]) -> str:
        definitions.update((one[2], _with_classes(one[0], classes)) for one in _DEFINITION.finditer(found[1]))
        return ""

    page = FIGURE.sub(lambda svg: _with_classes(_DEFINITIONS.sub(shared, svg[0]), classes), page)
    rules = "".join(f".{name}{{{style}}}" for style, name in classes.items())
    page = page.replace(_END_OF_STYLE, f"{rules}\n{_END_OF_STYLE}", 1)
    if definitions:
        shapes = f'<svg class="shapes" aria-hidden="true"><defs>{"".join(definitions.values())}</defs></svg>'
        page = page.replace(_BEGIN_OF_BODY, f"{_BEGIN_OF_BODY}\n{shapes}", 1)
    if tables:
        block = base64.b64encode(gzip.compress(f"[{','.join(tables)}]".encode(), mtime=0)).decode()
        script = f'<script type="application/octet-stream" id="rows">{block}</script>'
        page = page.replace(_END_OF_MAIN, f"{_END_OF_MAIN}\n{script}", 1)
    return Markup(page)  # noqa: S704 - of parts that are


def _with_classes(svg: str, classes: dict[str, str]) -> str:
    return _STYLE.sub(lambda style: f'class="{classes[style[1]]}"' if style[1] in classes else style[0], svg)
