"""Parts of a page, as its templates take them: contents, verdict and rooflines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clmembench.model import Run
from clmembench.report import views
from clmembench.report.figures import roofline_chart
from clmembench.report.figures.headline_panels import panel_figures
from clmembench.report.frame import Row
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.scorecard_cells import Scorecard
from clmembench.report.sections import roofline_tables
from clmembench.specs.sheets import SpecSheet
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

PANELS_ALT = "Headline quantities of all devices, in the order of medians; all values are in the table above"


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


def verdict_values(found: Scorecard, sentences: Sequence[str]) -> dict[str, Any]:
    """Values for the page's template: the table of devices side by side, and what stands around it."""
    is_wide = views.is_wide(found)
    return {
        "table": views.scorecard_table(found),
        "devices": len(found.labels),
        "panels": [svg for one in panel_figures(found) for svg in embedded(one, PANELS_ALT)] if is_wide else [],
        "sentences": sentences,
        "keys": views.scorecard_keys(found),
    }


def roofline_values(runs: Sequence[tuple[str, Run, Sequence[Row], SpecSheet | None]]) -> dict[str, Any]:
    """Values for the page's template, by the labels of runs; no devices where none has a roofline."""
    from markupsafe import Markup

    found = [
        (label, roofline_tables.tables(made, table), roofline_tables.agreement_section(run, table, sheet), made)
        for label, run, table, sheet in runs
        if (made := roofline_tables.derive_roofline(run, table, sheet)) is not None
    ]
    return {
        "source": roofline_tables.SOURCE,
        # matplotlib escapes every text it draws
        "svg": Markup(roofline_chart.drawn([(label, made) for label, _, _, made in found])),  # noqa: S704
        "devices": [
            {"label": label, "tables": tables if agreed is None else [*tables, agreed]} for label, tables, agreed, _ in found
        ],
    }
