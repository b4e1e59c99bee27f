"""Hooks of mkdocs.yml: generated pages, pages outside docs/, links that leave it, and pages that the contents do not name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import site_reference
from scripts.site_links import COPIES, ROOT, ROOT_PAGES, linked_files, rewritten

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = ROOT / "docs"


def on_config(config: MkDocsConfig) -> None:
    """Pages that the contents leave out are listed under More, so that each can be found."""
    named = _named(config.nav)
    others = [page for page in _pages() if page not in named]
    if others and config.nav is not None:
        config.nav.append({"More": others})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the reference, the pages outside docs/, and the files that pages link to."""
    from mkdocs.structure.files import File

    for uri, text in site_reference.pages().items():
        files.append(File.generated(config, uri, content=text))
    for source, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))
    for path in sorted(linked_files([*ROOT_PAGES, *(f"docs/{page}" for page in _pages())])):
        files.append(File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as they are on the site."""
    origins = {uri: source for source, uri in ROOT_PAGES.items()}
    uri: str = page.file.src_uri
    return rewritten(markdown, origins.get(uri, f"docs/{uri}"), uri)


def _pages() -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def _named(nav: Any) -> set[str]:
    """The pages that a part of the contents names."""
    if isinstance(nav, dict):
        return _named(list(nav.values()))
    if isinstance(nav, list):
        return set().union(*map(_named, nav))
    return {Path(nav).as_posix()} if isinstance(nav, str) else set()


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Generated pages in an element of their own: names in their tables are not broken."""
    return f'<div class="reference">{html}</div>' if page.file.generated_by else html
