"""One report over any number of runs and devices: a self-contained HTML page, or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from clmembench import __version__
from clmembench.gates.whole import MEMORY_PEAK
from clmembench.model import CHASE, Card, Run
from clmembench.report import fleet, markup_tables, study_figures, terminal
from clmembench.report.figures import curves, roofline_page
from clmembench.report.hierarchy import section
from clmembench.report.hierarchy.section import Dissected
from clmembench.report.rows import Row, interval, judged_rows, labels, percent, sheet_of, to_markdown
from clmembench.report.sections import advice_table, peer_values
from clmembench.report.summary import sections, warnings
from clmembench.sanitize import markdown, printable
from clmembench.specs import sheets as specs
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in, format_params

FP64_PEAK, FP32_PEAK = "fp64_vector_gflop_s", "fp32_vector_gflop_s"


@dataclass(frozen=True, slots=True)
class Part:
    """A run with what was derived from it, under the name the report gives it."""

    label: str
    run: Run
    sheet: SpecSheet | None
    rows: tuple[Row, ...]


def parts(runs: Sequence[Run]) -> list[Part]:
    """Runs with labels: the device's name, and a number where two runs have the same one. Raises SpecError."""
    names = [printable(run.header.device.name) for run in runs]
    found, sheets = [], specs.every()
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        label = name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        sheet = sheet_of(run, sheets)
        judged, table = judged_rows(run, sheet)
        found.append(Part(label, judged, sheet, tuple(table)))
    return found


def as_markdown(runs: Sequence[Run], others: Sequence[SpecSheet] = (), dissected: Sequence[Dissected | None] = ()) -> str:
    """The summaries of all runs, each followed by its memory hierarchy, where `dissected` has one for it, and all its points;
    and what was published of other devices."""
    measured = [
        f"{terminal.as_markdown(part.run, part.rows, part.sheet)}\n"
        + (f"{section.as_markdown(found, part.run.header.device, part.sheet)}\n" if found is not None else "")
        + f"### All points\n\n{to_markdown(part.rows)}\n"
        for part, found in zip_longest(parts(runs), dissected)
    ]
    header = "| benchmark | metric | parameters | value | source |\n|---|---|---|--:|---|"
    published = [
        "\n".join([f"## {markdown(o['name'])}: published, not measured here\n", header, *map(_markdown_row, o["rows"]), ""])
        for o in _published(others)
    ]
    return "\n".join(measured + published)


def many_as_markdown(groups: Sequence[fleet.Group]) -> str:
    """Of many runs: their devices, the runs that stand apart, and of each device every point's spread over its runs."""
    page = fleet.as_page(groups)
    about = ["label", "runs", "driver", "units", "hosts", "when", "suites", "versions"]
    lines = [f"## {count(page['runs'], 'run')}", "", markup_tables.markdown(
        ("device", "runs", "platform and driver", "compute units", "host CPUs", "from, to", "suites", "clmembench"),
        "lrlrllll", [[group[name] for name in about] for group in page["groups"]])]  # fmt: skip
    odd = [[row[name] for name in ("run", "file", "device", "points", "farthest")] for row in page["apart"]["rows"]]
    if odd:
        header = ("run", "file", "device", "points", "the farthest")
        more = [f"And {page['apart']['more']} more.", ""] if page["apart"]["more"] else []
        lines += ["", "### Runs that stand apart", "", markup_tables.markdown(header, "lllrl", odd), "", *more]
    for name in fleet.versions(groups):
        cells = [[row["params"], row["metric"], *(c["text"] for c in row["cells"])] for row in fleet.points(groups, name)]
        header = ("parameters", "metric", *page["labels"])
        lines += ["", f"### {markdown(name)}", "", markup_tables.markdown(header, "ll" + "r" * len(page["labels"]), cells)]
    return "\n".join([*lines, ""])


def _markdown_row(row: dict[str, str]) -> str:
    cells = (row["benchmark"], row["metric"], row["params"], row["value"], f"{row['source']} {row['note']}".strip())
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"


def _published(others: Sequence[SpecSheet]) -> list[dict[str, Any]]:
    """What papers state of other devices, ready to be shown."""
    return [
        {
            "name": sheet.name,
            "bandwidth": _figure(sheet, MEMORY_PEAK),
            "fp64": _figure(sheet, FP64_PEAK),
            "fp32": _figure(sheet, FP32_PEAK),
            "rows": [
                {
                    "benchmark": p.benchmark,
                    "metric": p.metric,
                    "params": format_params(p.params),
                    "value": f"{p.value:g} {p.unit}",
                    "source": f"{p.source} ({p.read_from})",
                    "note": p.note,
                }
                for p in sheet.published
            ],
        }
        for sheet in others
    ]


def _figure(sheet: SpecSheet | None, name: str) -> str:
    figure = sheet.figures.get(name) if sheet else None
    return f"{figure.value:g} {figure.unit} a {figure.scope}" if figure else "not known"


def as_html(
    runs: Sequence[Run],
    others: Sequence[SpecSheet] = (),
    dissected: Sequence[Dissected | None] = (),
    groups: Sequence[fleet.Group] = (),
) -> str:
    """One page with inline SVG, no script and no external address; all text from files is escaped. `dissected` has what was
    found of each run's memory hierarchy, None where that is nothing. With `groups` the report is of all their runs: `runs` are
    those that speak for them in figures and summaries, and the tables of points have a column a group."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_harmless)
    environment.globals["count"] = count
    all_parts, beside = parts(runs), _published(others)
    shown = [(p.label, f, p.run.header.device, p.sheet) for p, f in zip(all_parts, dissected, strict=False) if f is not None]
    return environment.get_template("report.html.j2").render(
        version=__version__,
        labels=[part.label for part in all_parts],
        runs=[{"label": p.label, "warnings": [printable(w) for w in warnings(p.run, p.rows, p.sheet)]} for p in all_parts],
        facts=_facts(all_parts),
        published=beside,
        fleet=fleet.as_page(groups) if groups else None,
        hierarchies=section.as_page(shown),
        libraries=[s | {"label": p.label} for p in all_parts if (s := _libraries(p)) is not None],
        roofline=roofline_page.as_page([(p.label, p.run, p.rows, p.sheet) for p in all_parts]),
        guidelines=advice_table.as_page([(p.label, p.run, p.rows) for p in all_parts]),
        parts=[_benchmark(name, card, all_parts, beside, groups) for name, card in _cards(all_parts).items()],
    )


def _libraries(part: Part) -> dict[str, Any] | None:
    """A run's section beside the host's libraries; None where it has none."""
    found = peer_values.section(part.run, part.rows)
    return None if found is None else {"header": found.header, "rows": found.rows, "notes": found.notes, "left": found.left}


def _harmless(value: object) -> object:
    """Text from files without control and bidirectional characters; SVG of our own as it is."""
    return printable(value) if type(value) is str else value


def _cards(all_parts: Sequence[Part]) -> dict[str, Card]:
    """Every benchmark in any run, in order of first appearance, in its latest version that has a row; those without a row are
    left out, and references, which stand beside what they are of."""
    found: dict[str, Card] = {}
    for part in all_parts:
        with_rows = {row.value.benchmark for row in part.rows}
        for name, card in part.run.header.benchmarks.items():
            if name in with_rows and not card.peer_of and (name not in found or card.version >= found[name].version):
                found[name] = card
    return found


def _benchmark(
    name: str, card: Card, all_parts: Sequence[Part], beside: Sequence[dict[str, Any]], groups: Sequence[fleet.Group]
) -> dict[str, Any]:
    from markupsafe import Markup

    shown = [
        curves.Shown(
            p.label,
            tuple(r for r in p.rows if r.value.benchmark == name),
            p.run.header.device.kind,
            p.run.header.device.line_bytes,
            p.run.header.benchmarks[name].version if name in p.run.header.benchmarks else 0,
        )
        for p in all_parts
    ]
    tables = [
        {
            "label": p.label,
            "title": s.title if s.title != card.summary else "",
            "header": s.header,
            "rows": s.rows,
            "notes": s.notes,
            "left": s.left,
        }
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
        "svg": Markup(study_figures.drawn(name, card, shown) if name != CHASE else ""),  # noqa: S704
        "left_out": study_figures.left_out(name, card, shown) if name != CHASE else [],
        "sections": tables,
        "published": [
            {**row, "device": other["name"]} for other in beside for row in other["rows"] if row["benchmark"] == name
        ],
        "columns": [group.label for group in groups] or [part.label for part in all_parts],
        "rows": fleet.points(groups, name) if groups else _compared(shown),
    }


def _compared(shown: Sequence[curves.Shown]) -> list[dict[str, Any]]:
    """One line for each point and metric, one cell a device."""
    keys: dict[tuple[str, str], None] = {}
    cells: dict[tuple[str, str, int], dict[str, Any]] = {}
    for device, part in enumerate(shown):
        for label, row in zip(labels(part.rows), part.rows, strict=True):
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
        line("theoretical bandwidth", lambda p: _figure(p.sheet, MEMORY_PEAK)),
        line("theoretical peak, FP64 vector", lambda p: _figure(p.sheet, FP64_PEAK)),
        line("theoretical peak, FP32 vector", lambda p: _figure(p.sheet, FP32_PEAK)),
        line("run", lambda p: f"{p.run.header.run_id}, {p.run.header.started}, suite {p.run.header.suite}"),
        line("clmembench", lambda p: p.run.header.tool_version),
    ]
