"""Figures as parts of a page: shorter than matplotlib writes them, with a text alternative, in the page's greys."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping

from markupsafe import Markup

from clmembench.sanitize import printable

FIGURE = re.compile(r"<svg.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<\w[^<>]*>")  # in text and attributes matplotlib escapes < and >
_REFERENCE = re.compile(r'(?:url\(#|href="#)([^")]+)')
_URL = re.compile(r"url\(#([^)]+)\)")
_ATTRIBUTE = re.compile(r' ([\w:-]+)="([^"]*)"')
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_GREY = re.compile(r"#([0-9a-f])[0-9a-f]\1[0-9a-f]\1[0-9a-f](?![0-9a-f])")
_FONT = re.compile(r"font-family:[^;]*;?")
_BETWEEN_TAGS = re.compile(r">\s*\n\s*<")


def embedded(plots: str, label: str) -> list[Markup]:
    """The SVG elements of `plots`, inline SVG by matplotlib: each is an image of that name to a screen reader, numbered
    where there are several. Greys become the page's variables --g0 (black) to --gf (white), which a dark page inverts."""
    found = FIGURE.findall(plots)
    names = [f"{label} ({number} of {len(found)})" if len(found) > 1 else label for number in range(1, len(found) + 1)]
    return [_image(svg, printable(name)) for svg, name in zip(found, names, strict=True)]


def _image(svg: str, name: str) -> Markup:
    start = Markup('<svg role="img" aria-label="{}" ').format(name)
    # matplotlib escapes every text it draws, and the name was escaped here
    return Markup(_shorter(svg, f"f{zlib.crc32(name.encode()):08x}").replace("<svg ", str(start), 1))  # noqa: S704


def _shorter(svg: str, prefix: str) -> str:
    """The same drawing to a hundredth of a point, without ids that nothing refers to; the others become `prefix` and a number,
    since figures of one page share what they draw, and its id with it. Text is not changed."""
    ids = {name: f"{prefix}-{number}" for number, name in enumerate(dict.fromkeys(_REFERENCE.findall(svg)))}
    return _TAG.sub(lambda tag: _tag(tag[0], ids), _BETWEEN_TAGS.sub("><", svg))


def _tag(tag: str, ids: Mapping[str, str]) -> str:
    return _ATTRIBUTE.sub(lambda pair: _attribute(pair[1], pair[2], ids), tag)


def _attribute(name: str, value: str, ids: Mapping[str, str]) -> str:
    if name == "id":
        return f' id="{ids[value]}"' if value in ids else ""
    if name == "d":
        value = " ".join(_path(value.split()))
    elif name in ("x", "y", "width", "height", "transform"):
        value = _DECIMALS.sub(_rounded, value)
    elif name == "style":
        value = _GREY.sub(r"var(--g\1)", _FONT.sub("", value).replace(": ", ":").replace("; ", ";"))
    elif name in ("href", "xlink:href"):
        value = f"#{ids.get(value[1:], value[1:])}"
    if "url(#" in value:
        value = _URL.sub(lambda url: f"url(#{ids.get(url[1], url[1])})", value)
    return f' {name}="{value}"'


def _path(words: list[str]) -> Iterator[str]:
    """A path's commands and coordinates; a line's letter is left out where it follows a start or another line."""
    before = ""
    for word in words:
        if word.isalpha():
            if word != "L" or before not in ("M", "L"):
                yield word
            before = word
        else:
            yield _DECIMALS.sub(_rounded, word)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
