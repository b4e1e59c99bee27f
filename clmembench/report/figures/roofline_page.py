"""The rooflines of a report's page: one figure of all devices that have one, their tables, and what agrees with what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clmembench.model import Run
from clmembench.report.figures import roofline_chart
from clmembench.report.rows import Row
from clmembench.report.sections import roofline_tables
from clmembench.specs.sheets import SpecSheet


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
