"""Links of the documentation site: where a link of a page in the repository leads on the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = "docs"
ROOT_PAGES = {  # pages of the site that lie outside docs/
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
FOLDERS = {"docs/schemas": "reference/schemas.md"}  # folders that a page of the site describes
COPIES = "repository"  # the site's folder of files outside docs/ that pages link to
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Link:
    """One link of a page, and the file or folder of the repository that it names; "" for another site and for its own page."""

    text: str
    target: str
    path: str
    anchor: str


def links(text: str, origin: str) -> Iterator[Link]:
    """The links of a page that lies at `origin` in the repository, those in fenced blocks left out."""
    for match in LINK.finditer(FENCE.sub("", text)):
        yield _link(match, origin)


def linked_files(pages: Iterable[str]) -> set[str]:
    """The files outside docs/ that these pages of the repository link to and that are no pages of the site."""
    found = {link.path for page in pages for link in links((ROOT / page).read_text(encoding="utf-8"), page)}
    return {path for path in found if path and _is_outside(path) and path not in ROOT_PAGES and (ROOT / path).is_file()}


def rewritten(text: str, origin: str, uri: str) -> str:
    """A page with links as they are on the site, where it lies at `uri`. A folder that no page describes becomes its name."""

    def replaced(match: re.Match[str]) -> str:
        link = _link(match, origin)
        if not link.path:
            return match[0]
        folder = (ROOT / link.path).is_dir()
        if folder and link.path not in FOLDERS:
            return f"`{link.path}/`"
        return f"[{link.text}]({posixpath.relpath(_uri(link.path), posixpath.dirname(uri) or '.')}{link.anchor})"

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(replaced, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(replaced, text[end:])])


def _link(match: re.Match[str], origin: str) -> Link:
    target = match["target"]
    path, hash_sign, anchor = target.partition("#")
    if re.match(r"[a-z][a-z0-9+.-]*:", target) or not path:
        return Link(match["text"], target, "", hash_sign + anchor)
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    return Link(match["text"], target, inside, hash_sign + anchor)


def _is_outside(path: str) -> bool:
    return not path.startswith(f"{DOCS}/")


def _uri(path: str) -> str:
    """Where a file of the repository lies on the site."""
    named = {**ROOT_PAGES, **FOLDERS}
    if path in named:
        return named[path]
    return posixpath.join(COPIES, path) if _is_outside(path) else path.removeprefix(f"{DOCS}/")
