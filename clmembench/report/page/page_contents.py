"""Contents of a page: the anchors of its sections, and the entries that lead to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clmembench.studies import studies

# anchors of what is no benchmark; one called like these gets a number instead
SECTIONS = {
    "verdict": "Verdict",
    "aspects": "Aspects",
    "devices": "Devices",
    "points": "All points",
    "published": "Published and imported results",
}
ASPECTS = {
    "plots": "Devices in one plot",
    "roofline": "Roofline",
    "peers": "Peers of the host",
}
SUITES = {
    "memory": "Memory",
    "link": "Host link",
    "sync": "Synchronisation",
    "compute": "Compute",
    "access": "Access patterns",
}
RESERVED = {
    *SECTIONS,
    *ASPECTS,
    *(study.name for study in studies()),
    "main",
    "contents",
    "fleet",
    "outliers",
    "facts",
    "filter",
    "intervals",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")


def anchors(names: Iterable[str]) -> dict[str, str]:
    """The anchor of each benchmark: its name, or a number where the name is no identifier, or another section's anchor."""
    return {
        name: name if _NAME.fullmatch(name) and name not in RESERVED else f"benchmark-{number}"
        for number, name in enumerate(names, 1)
    }


def contents(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sections that a page with these values has, in order; each with its anchor, title, and groups of entries."""
    aspects = [(name, title) for name, title in ASPECTS.items() if page[name]]
    aspects += [(study["id"], study["title"]) for study in page["studies"]]
    groups = [_group("", aspects), *(_group(s["title"], [(p["id"], p["name"]) for p in s["parts"]]) for s in page["suites"])]
    devices = [_group("", [(device["id"], device["label"]) for device in page["devices"]])]
    entries: dict[str, Sequence[dict[str, Any]]] = {"verdict": [], "aspects": groups, "devices": devices, "points": []}
    having = {name: title for name, title in SECTIONS.items() if name in ("devices",) or page[name]}
    return [
        {"id": name, "title": title, "groups": [group for group in entries.get(name, []) if group["entries"]]}
        for name, title in having.items()
    ]


def _group(title: str, entries: Iterable[tuple[str, str]]) -> dict[str, Any]:
    return {"title": title, "entries": [{"id": anchor, "title": text} for anchor, text in entries]}
