"""Figures as parts of a page: much shorter than matplotlib writes them, with a text alternative, in the page's greys.

A figure keeps its drawing to a tenth of a point, less than a pixel of a page. Marks of a curve become SVG markers on its line,
paths of one style one path; ids are made of what they name, so that figures share it (`page.packing`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from xml.etree import ElementTree

from markupsafe import Markup

from clmembench.sanitize import printable

FIGURE = re.compile(r"<svg.*?</svg>", re.DOTALL)
COLUMN_POINTS = 0.5  # width in which a curve keeps four points: its first, lowest, highest and last
MIN_MARKERS = 3  # of one shape; fewer are drawn as paths

_TAG = re.compile(r"<\w[^<>]*>")  # in text and attributes matplotlib escapes < and >
_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GREY = re.compile(r"#([0-9a-f])[0-9a-f]\1[0-9a-f]\1[0-9a-f](?![0-9a-f])")
_DECLARATION = re.compile(r"\s*([\w-]+)\s*:\s*([^;]+?)\s*(?:;|$)")
_URL = re.compile(r"url\(#([^)]+)\)")
_COMMAND = re.compile(r"([MLQCz])([^MLQCz]*)")
_DECIMALS = re.compile(r"-?\d+\.\d{2,}")
_NO_ROTATION = re.compile(r"rotate\(-?0(\.0+)? .*\)")

_Element = ElementTree.Element
_Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A path, or another element as it is, with the clipping of its group; `segments` are a path's commands with the points
    that each has, `marker` is the shape at each point."""

    style: str = ""
    clip: str = ""
    segments: tuple[tuple[str, tuple[_Point, ...]], ...] = ()
    marker: str = ""
    element: _Element | None = None

    @property
    def points(self) -> list[_Point] | None:
        """The points of one open polyline; None of any other path."""
        if not self.segments or [name for name, _ in self.segments] != ["M"] + ["L"] * (len(self.segments) - 1):
            return None
        return [point for _, points in self.segments for point in points]


@dataclass(slots=True)
class _Figure:
    """What is collected of one figure: shapes by their ids, elements to refer to, and the markers that were made."""

    shapes: dict[str, _Element] = field(default_factory=dict)
    referred: dict[str, _Element] = field(default_factory=dict)
    markers: dict[str, tuple[str, str]] = field(default_factory=dict)


def embedded(plots: str, label: str) -> list[Markup]:
    """The SVG elements of `plots`, inline SVG by matplotlib: each is an image of that name to a screen reader, numbered
    where there are several; without a name it is decoration beside a text. Greys become the page's variables --g0 (black) to
    --gf (white), which a dark page inverts."""
    found = FIGURE.findall(plots)
    names = [f"{label} ({number} of {len(found)})" if len(found) > 1 else label for number in range(1, len(found) + 1)]
    return [_image(svg, printable(name)) for svg, name in zip(found, names, strict=True)]


def _image(svg: str, name: str) -> Markup:
    root = ElementTree.fromstring(_TAG.sub(lambda tag: tag[0].replace("xlink:", ""), _NO_XML.sub("?", svg)))  # noqa: S314 - ours
    figure = _Figure()
    _collect(root, figure)
    elements = _merged(_with_markers(list(_drawn(root, "", figure)), figure))
    said = {"role": "img", "aria-label": name} if name else {"aria-hidden": "true"}
    made = ElementTree.Element("svg", {**said, "viewBox": root.get("viewBox", "")})
    body = list(_grouped(elements))
    used = set(_URL.findall("".join(ElementTree.tostring(one, "unicode") for one in body)))
    definitions = ElementTree.Element("defs")
    for identity, (d, style) in figure.markers.items():
        marker = ElementTree.SubElement(definitions, "marker", {"id": identity, "markerUnits": "userSpaceOnUse"})
        ElementTree.SubElement(marker, "path", {"d": d, "style": style})
    definitions.extend(one for one in figure.referred.values() if one.get("id") in used)
    made.extend([definitions, *body] if len(definitions) else body)
    # matplotlib escapes every text it draws, and the parser's writer escapes it again
    return Markup(ElementTree.tostring(made, "unicode").replace(" />", "/>"))  # noqa: S704


def _collect(root: _Element, figure: _Figure) -> None:
    """Find what other elements refer to, and name it after what it is."""
    for definitions in root.iter("defs"):
        for one in definitions:
            identity = one.get("id", "")
            if one.tag == "path":
                figure.shapes[identity] = one
            elif one.tag != "style" and identity:
                for part in one.iter():
                    _tidy(part)
                    part.attrib.pop("id", None)
                content = "".join(ElementTree.tostring(part, "unicode") for part in one)
                one.set("id", f"{one.tag[0]}{zlib.crc32(content.encode()):08x}")
                figure.referred[identity] = one


def _tidy(element: _Element) -> None:
    """Round an element's numbers, and shorten its style."""
    element.text, element.tail = (element.text or "").strip() or None, (element.tail or "").strip() or None
    for name in ("x", "y", "width", "height", "transform"):
        if not element.get(name, "matrix").startswith("matrix"):
            element.set(name, _DECIMALS.sub(lambda found: _number(float(found[0])), element.get(name, "")))
    if "d" in element.attrib:
        element.set("d", _path(_segments(element.get("d", ""))))
    if "style" in element.attrib:
        element.set("style", _style(element.get("style", "")))
    if _NO_ROTATION.fullmatch(element.get("transform", "")):
        del element.attrib["transform"]


def _drawn(parent: _Element, clip: str, figure: _Figure) -> Iterator[_Drawn]:
    """What an element draws, in order, without groups that change nothing."""
    for one in parent:
        mine = _reference(one.get("clip-path", ""), figure) or clip
        one.attrib.pop("clip-path", None)
        if one.tag == "defs":
            continue
        if one.tag == "g" and set(one.attrib) <= {"id"}:
            yield from _drawn(one, mine, figure)
        elif one.tag == "path":
            yield _Drawn(_reference(_style(one.get("style", "")), figure), mine, _segments(one.get("d", "")))
        elif one.tag == "use" and (shape := figure.shapes.get(one.get("href", "").removeprefix("#"))) is not None:
            style = _style(f"{shape.get('style', '')};{one.get('style', '')}")
            at = float(one.get("x", "0")), float(one.get("y", "0"))
            yield _Drawn(style, mine, (("M", (at,)),), marker=shape.get("d", ""))
        else:
            one.attrib.pop("id", None)
            for part in one.iter():
                _tidy(part)
            yield _Drawn(clip=mine, element=one)


def _reference(text: str, figure: _Figure) -> str:
    return _URL.sub(lambda url: f"url(#{figure.referred[url[1]].get('id')})" if url[1] in figure.referred else url[0], text)


def _with_markers(found: Sequence[_Drawn], figure: _Figure) -> Iterator[_Drawn]:
    """Shapes of one kind in a row as markers of the line before them, where they lie on its points, or of a line that is not
    seen; a few as paths of their own."""
    before: _Drawn | None = None
    for (shape, style, clip), group in groupby(
        found, lambda one: (one.marker, one.style, one.clip) if one.marker else ("", "", "")
    ):
        if not shape:
            for one in group:
                if before is not None:
                    yield before
                before = one
            continue
        places = [point for one in group for _, points in one.segments for point in points]
        if len(places) < MIN_MARKERS:
            if before is not None:
                yield before
            before = None
            yield from (_Drawn(style, clip, _segments(shape, place)) for place in places)
            continue
        d = _path(_segments(shape))
        identity = f"m{zlib.crc32(f'{d} {style}'.encode()):08x}"
        figure.markers[identity] = d, style
        line = before.points if before is not None and before.clip == clip else None
        if before is not None and line is not None and _same(line, places):
            yield replace(before, marker=identity)
        else:
            if before is not None:
                yield before
            yield _Drawn("fill:none", clip, (("M", (places[0],)), *(("L", (place,)) for place in places[1:])), identity)
        before = None
    if before is not None:
        yield before


def _same(first: Sequence[_Point], second: Sequence[_Point]) -> bool:
    return len(first) == len(second) and all(
        abs(a[0] - b[0]) < 0.05 and abs(a[1] - b[1]) < 0.05 for a, b in zip(first, second, strict=True)
    )


def _merged(found: Iterable[_Drawn]) -> list[_Drawn]:
    """Paths of one style as one path: neighbours, and lines between which there is nothing but text."""
    made: list[_Drawn] = []
    for one in found:
        if one.segments and not one.marker and "opacity" not in one.style:
            at = len(made) - 1
            while at >= 0 and "fill:none" in one.style and made[at].element is not None:
                at -= 1
            if at >= 0 and made[at].segments and (made[at].style, made[at].clip, made[at].marker) == (one.style, one.clip, ""):
                made[at] = replace(made[at], segments=(*made[at].segments, *one.segments))
                continue
        made.append(one)
    return made


def _grouped(found: Iterable[_Drawn]) -> Iterator[_Element]:
    """Elements, those of one clipping in a group."""
    for clip, group in groupby(found, lambda one: one.clip):
        made = [_element(one) for one in group]
        if not clip:
            yield from made
        elif len(made) == 1 and "transform" not in made[0].attrib:  # which would move the clipping too
            made[0].set("clip-path", clip)
            yield made[0]
        else:
            parent = ElementTree.Element("g", {"clip-path": clip})
            parent.extend(made)
            yield parent


def _element(one: _Drawn) -> _Element:
    if one.element is not None:
        return one.element
    style = f"{one.style};marker:url(#{one.marker})" if one.marker else one.style
    return ElementTree.Element("path", {"d": _path(one.segments), "style": style})


def _style(text: str) -> str:
    """A style with short colours, without what is so by itself, in one order; of two values of a property the first stays."""
    found: dict[str, str] = {}
    for name, value in _DECLARATION.findall(text):
        found.setdefault(name, _GREY.sub(r"var(--g\1)", _DECIMALS.sub(lambda number: _number(float(number[0])), value)))
    for name, value in (("font-family", ""), ("stroke-dashoffset", "0"), ("text-anchor", "start")):
        if name in found and value in ("", found[name]):
            del found[name]
    return ";".join(f"{name}:{found[name]}" for name in sorted(found))


def _segments(d: str, by: _Point = (0.0, 0.0)) -> tuple[tuple[str, tuple[_Point, ...]], ...]:
    """The commands of a path with their points, moved `by` so much."""
    found = []
    for name, text in _COMMAND.findall(d):
        numbers = [float(word) for word in text.split()]
        places = tuple((x + by[0], y + by[1]) for x, y in zip(numbers[::2], numbers[1::2], strict=True))
        found.append((name.upper(), places))
    return tuple(found)


def _path(segments: Sequence[tuple[str, tuple[_Point, ...]]]) -> str:
    """A path in relative coordinates of tenths of a point."""
    words: list[str] = []
    x, y, start, before = 0, 0, (0, 0), ""
    for name, points in _thinned(segments):
        if name == "Z":
            words.append("z")
            (x, y), before = start, "z"
            continue
        tenths = [(round(10 * px), round(10 * py)) for px, py in points]
        if name == "L" and tenths == [(x, y)] and before == "l":
            continue  # no longer than a pixel
        letter = name.lower()
        if letter == "m" or (letter != before and (letter, before) != ("l", "m")):
            words.append(letter)
        for px, py in tenths:
            words += [_tenths(px - x), _tenths(py - y)]
        x, y = tenths[-1]
        start, before = ((x, y) if name == "M" else start), letter
    return re.sub(r" (?=[-mlqcz])|(?<=[mlqcz]) ", "", " ".join(words))


def _thinned(segments: Sequence[tuple[str, tuple[_Point, ...]]]) -> Iterator[tuple[str, tuple[_Point, ...]]]:
    """The commands with at most four points of a line in each column of the figure."""
    for (name, _), group in groupby(segments, lambda one: (one[0], round(one[1][0][0] / COLUMN_POINTS) if one[1] else 0)):
        column = list(group)
        if name != "L" or len(column) <= 4:
            yield from column
            continue
        heights = [points[0][1] for _, points in column]
        kept = {0, heights.index(min(heights)), heights.index(max(heights)), len(column) - 1}
        yield from (column[at] for at in sorted(kept))


def _tenths(number: int) -> str:
    return _number(number / 10)


def _number(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
