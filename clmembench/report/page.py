"""One report over any number of runs and devices: a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clmembench import __version__
from clmembench.gates.whole import MEMORY_PEAK
from clmembench.model import CHASE_BENCHMARK, Card, Run
from clmembench.report import fleet, render, study_figures
from clmembench.report.figures import device_rows, roofline_page
from clmembench.report.figures.aspects import aspects
from clmembench.report.hierarchy import section
from clmembench.report.hierarchy.section import HierarchyFindings
from clmembench.report.parts import Part, parts
from clmembench.report.published import FP32_PEAK, FP64_PEAK, PublishedDevice, peak_text, published
from clmembench.report.published_points import published_marks
from clmembench.report.rows import Row, interval, percent, point_labels
from clmembench.report.run_warnings import warnings
from clmembench.report.sections import advice_table, peer_values
from clmembench.report.summary import sections
from clmembench.report.verdict import verdict, verdict_section
from clmembench.report.verdict_sentences import sentences as verdict_sentences
from clmembench.sanitize import printable
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in


def render_html(
    runs: Sequence[Run],
    others: Sequence[SpecSheet] = (),
    dissected: Sequence[HierarchyFindings | None] = (),
    groups: Sequence[fleet.Group] = (),
    labels: Sequence[str] = (),
    baseline: str = "",
) -> str:
    """One page with inline SVG, no script and no external address; all text from files is escaped. `dissected` has what was
    found of each run's memory hierarchy, None where that is nothing. With `groups` the report is of all their runs: `runs` are
    those that speak for them in figures and summaries, and the tables of points have a column a group. `labels` are the
    devices' names, in the runs' order; with that of a `baseline` the verdict has ratios to it. Raises UnknownDevice where none
    has that label."""
    all_parts, beside = parts(runs, labels), published(others)
    compared = verdict(all_parts, [None if found is None else found.hierarchy for found in dissected], baseline, others)
    shown = [(p.label, f, p.run.header.device, p.sheet) for p, f in zip(all_parts, dissected, strict=False) if f is not None]
    values: dict[str, object] = {
        "version": __version__,
        "labels": [part.label for part in all_parts],
        "runs": [{"label": p.label, "warnings": [printable(w) for w in warnings(p.run, p.rows, p.sheet)]} for p in all_parts],
        "facts": _facts(all_parts),
        "verdict": compared,
        "verdict_notes": verdict_section(compared).notes,
        "sentences": verdict_sentences(compared, all_parts),
        "aspects": aspects(all_parts, published_marks(others)),
        "published": beside,
        "fleet": _fleet_values(groups) if groups else None,
        "hierarchies": section.hierarchy_values(shown, [part.label for part in all_parts]),
        "libraries": [found for part in all_parts if (found := _peers(part)) is not None],
        "roofline": roofline_page.roofline_values([(p.label, p.run, p.rows, p.sheet) for p in all_parts]),
        "guidelines": advice_table.guideline_values([(p.label, p.run, p.rows) for p in all_parts]),
        "parts": [_benchmark(name, card, all_parts, beside, groups) for name, card in _cards(all_parts).items()],
    }
    return render.html("report.html.j2", values)


def _fleet_values(groups: Sequence[fleet.Group]) -> dict[str, Any]:
    return {
        "runs": sum(len(group.runs) for group in groups),
        "labels": [group.label for group in groups],
        "devices": fleet.group_table(groups),
        "apart": fleet.outlier_runs(groups),
        "shown": fleet.MAX_SHOWN_RUNS,
    }


def _peers(part: Part) -> dict[str, Any] | None:
    """Our values and those of the host's peers; None where a run has none."""
    found = peer_values.section(part.run, part.rows)
    return None if found is None else {"label": part.label, "table": found}


def _cards(all_parts: Sequence[Part]) -> dict[str, Card]:
    """Every benchmark in any run, in order of first appearance, in its latest version that has a row; those without a row are
    left out, and peers, which are shown with the benchmark that they are compared with."""
    found: dict[str, Card] = {}
    for part in all_parts:
        with_rows = {row.value.benchmark for row in part.rows}
        for name, card in part.run.header.benchmarks.items():
            if name in with_rows and not card.peer_of and (name not in found or card.version >= found[name].version):
                found[name] = card
    return found


def _benchmark(
    name: str, card: Card, all_parts: Sequence[Part], beside: Sequence[PublishedDevice], groups: Sequence[fleet.Group]
) -> dict[str, Any]:
    from markupsafe import Markup

    shown = [
        device_rows.Shown(
            p.label,
            tuple(r for r in p.rows if r.value.benchmark == name),
            p.run.header.device.kind,
            p.run.header.device.line_bytes,
            p.run.header.benchmarks[name].version if name in p.run.header.benchmarks else 0,
            p.run.header.device.has_cpu_cores,
        )
        for p in all_parts
    ]
    tables = [
        {"label": p.label, "title": s.title if s.title != card.summary else "", "table": s}
        for p in all_parts
        if name in p.run.header.benchmarks
        for s in sections(p.run, [r for r in p.rows if r.value.benchmark == name])
    ]
    return {
        "name": name,
        "summary": card.summary,
        "versions": fleet.versions(groups).get(name, [])
        if groups
        else sorted({p.run.header.benchmarks[name].version for p in all_parts if name in p.run.header.benchmarks}),
        "source": card.source,
        # matplotlib escapes every text it draws
        "svg": Markup(study_figures.drawn(name, card, shown) if name != CHASE_BENCHMARK else ""),  # noqa: S704
        "left_out": study_figures.left_out(name, card, shown) if name != CHASE_BENCHMARK else [],
        "sections": tables,
        "published": [
            {"device": other.name, "result": row} for other in beside for row in other.rows if name in (row.benchmark, row.ours)
        ],
        "columns": [group.label for group in groups] or [part.label for part in all_parts],
        "rows": fleet.points(groups, name) if groups else _compared(shown),
    }


def _compared(shown: Sequence[device_rows.Shown]) -> list[dict[str, Any]]:
    """One line for each point and metric, one cell a device."""
    keys: dict[tuple[str, str], None] = {}
    cells: dict[tuple[str, str, int], dict[str, Any]] = {}
    for device, part in enumerate(shown):
        for label, row in zip(point_labels(part.rows), part.rows, strict=True):
            key = (label, row.value.metric)
            keys[key] = None
            cells[(*key, device)] = _cell(row)
    empty = {"text": "", "title": "", "bad": False}
    return [
        {"params": params, "metric": metric, "cells": [cells.get((params, metric, d), empty) for d in range(len(shown))]}
        for params, metric in keys
    ]


def _cell(row: Row) -> dict[str, Any]:
    value = row.value
    if value.median is None or row.status != "ok":
        return {"text": row.status, "title": printable(row.reason), "bad": row.status != "skipped"}
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    title = f"95% interval {interval(value)}, n {value.n} in {count(value.processes, 'process', 'processes')}"
    return {"text": f"{format_in(value.median, value.unit, 4)}{share}", "title": title, "bad": False}


def _facts(all_parts: Sequence[Part]) -> list[dict[str, Any]]:
    def line(name: str, of: Any) -> dict[str, Any]:
        return {"name": name, "cells": [printable(str(of(part))) for part in all_parts]}

    return [
        line("kind", lambda p: p.run.header.device.kind),
        line("platform and driver", lambda p: f"{p.run.header.device.platform} {p.run.header.device.driver}"),
        line("compute units", lambda p: p.run.header.device.compute_units),
        line("memory", lambda p: format_bytes(p.run.header.device.global_mem_bytes)),
        line("host CPU", lambda p: p.run.header.host.get("cpu") or "not known"),
        line("virtual machine", lambda p: "yes" if p.run.header.host.get("virtual") else "no"),
        line("spec sheet", lambda p: p.sheet.name if p.sheet else "none matches"),
        line("theoretical bandwidth", lambda p: peak_text(p.sheet, MEMORY_PEAK)),
        line("theoretical peak, FP64 vector", lambda p: peak_text(p.sheet, FP64_PEAK)),
        line("theoretical peak, FP32 vector", lambda p: peak_text(p.sheet, FP32_PEAK)),
        line("run", lambda p: f"{p.run.header.run_id}, {p.run.header.started}, suite {p.run.header.suite}"),
        line("clmembench", lambda p: p.run.header.tool_version),
    ]
