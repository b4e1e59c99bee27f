"""One report over any number of runs and devices: a self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from clmembench import __version__
from clmembench.model import CHASE_BENCHMARK, BenchmarkInfo, Run
from clmembench.report import render, views
from clmembench.report.device_runs import Findings, short_names
from clmembench.report.figures import curves, roofline_chart
from clmembench.report.figures.aspects import aspects
from clmembench.report.figures.device_rows import metric_label
from clmembench.report.figures.history_chart import conditions_chart
from clmembench.report.figures.quantity_panels import quantity_panels
from clmembench.report.figures.style import sample
from clmembench.report.frame import LabelledRun, parts
from clmembench.report.imported.imported_values import benchmark_tables, import_table, published_points, sheet_table
from clmembench.report.many_runs import fleet
from clmembench.report.many_runs.fleet_scorecard import fleet_verdict
from clmembench.report.page.embedded_svg import embedded
from clmembench.report.page.packing import packed
from clmembench.report.run_warnings import warnings
from clmembench.report.scorecard.answers import answers, further_details
from clmembench.report.scorecard.scorecard import verdict
from clmembench.report.scorecard_cells import Scorecard
from clmembench.report.sections import energy_tables, peer_values, roofline_tables
from clmembench.report.summary import sections
from clmembench.report.table import Table
from clmembench.report.which_device.panel import panel
from clmembench.results.imported import ImportedRun
from clmembench.sanitize import printable
from clmembench.studies import studies
from clmembench.units import count

MAX_TITLE_DEVICES = 3  # devices that a title names; of more it says how many
MAX_OPEN_ROWS = 40  # rows of the tables of a benchmark without a figure that are not folded
OTHER_SUITES = "other"  # the section of benchmarks of suites that others made
IN_TABLES = "all values are in its tables"

# sections in the page's order, by their anchors; a benchmark called like one, or like another anchor, gets a number instead
SUITES = {
    "memory": "Memory",
    "sync": "Synchronisation",
    "link": "Host link",
    "compute": "Compute",
    "access": "Access patterns",
    OTHER_SUITES: "Other benchmarks",
}
SECTIONS = {
    "quantities": "Key quantities",
    "devices-compared": "Devices compared",
    "which-device": "Which device for my code?",
    "roofline": "Roofline",
    **SUITES,
    "studies": "Guidelines, patterns, peers",
    "devices": "Devices",
    "points": "All points",
    "published": "Published and imported results",
}
RESERVED = {*SECTIONS, *(study.name for study in studies()), "main", "contents", "fleet", "facts", "peers", "rows"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")


def render_html(
    runs: Sequence[Run],
    others: Sequence[ImportedRun] = (),
    findings: Sequence[Findings] = (),
    groups: Sequence[fleet.DeviceGroup] = (),
    labels: Sequence[str] = (),
    baseline: str = "",
    files: Mapping[str, Sequence[Markup]] = MappingProxyType({}),
) -> str:
    """One page with inline SVG, one script of our own and no external address; all text from files is escaped. `findings`
    are what the studies found in each run. With `groups` the report is of all their runs:
    `runs` are those that speak for them in figures and summaries, and the tables of points have a column a group. `labels` are
    the devices' names, in the runs' order; with that of a `baseline` the verdict has ratios to it. `files` has what
    studies, by name, say of files of their own. Raises UnknownDevice where no device has the label."""
    all_parts = parts(runs, labels, findings)
    compared = fleet_verdict(groups, baseline, others) if groups else verdict(all_parts, baseline, others)
    names = [group.label for group in groups] or [part.label for part in all_parts]
    benchmarks = _benchmarks(all_parts, benchmark_tables(others), groups)
    which = panel(all_parts)
    quantities = quantity_panels(compared, others)
    values: dict[str, Any] = {
        "version": __version__,
        "title": ", ".join(names) if len(names) <= MAX_TITLE_DEVICES else count(len(names), "device"),
        "runs": sum(len(group.runs) for group in groups) or sum(part.run.header.run_id.count(", ") + 1 for part in all_parts),
        "unverified": _unverified(all_parts),
        "dates": _days([run.started for group in groups for run in group.runs] or [run.header.started for run in runs]),
        "answers": answers(compared, all_parts, others),
        "further": further_details(compared, all_parts, others),
        "quantities": quantities if quantities.panels else None,
        "ordered": len(names) > 1,
        "compared": compared_values(compared) if compared.lines else None,
        "which": which,
        "legend": _legend(all_parts),
        "studies": _studies(all_parts, files),
        "peers": [table for part in all_parts if (table := _peers(part)) is not None],
        "roofline": _roofline(all_parts),
        "suites": _by_suite(benchmarks, _plots(all_parts, others)),
        "facts": views.facts_table(all_parts),
        "devices": [_device(number, part) for number, part in enumerate(all_parts, 1)],
        "points": [benchmark for benchmark in benchmarks if benchmark["points"].rows],
        "published": [import_table(run) for run in others],
        "sheets": sheet_table(others),
        "fleet": _fleet_values(groups) if groups else None,
        "style": render.asset("page.css"),
        "script": render.asset("page.js"),
        "script_hash": render.asset_hash("page.js"),
        "which_script": render.asset("which_device.js"),
        "which_script_hash": render.asset_hash("which_device.js"),
    }
    return packed(render.html("report.html.j2", {**values, "contents": contents(values)}))


def _days(started: Sequence[str]) -> str:
    """The days of the first and of the last run; "" where no run has one."""
    days = sorted(one[:10] for one in started if one)
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _unverified(all_parts: Sequence[LabelledRun]) -> list[str]:
    """Benchmarks with results that nothing checked."""
    values = [row.value for part in all_parts for row in part.rows]
    return sorted({v.benchmark for v in values if v.median is not None and not v.checked})


def _fleet_values(groups: Sequence[fleet.DeviceGroup]) -> dict[str, Any]:
    return {
        "runs": sum(len(group.runs) for group in groups),
        "devices": fleet.group_table(groups),
        "shown": fleet.MAX_SHOWN_RUNS,
    }


def _plots(all_parts: Sequence[LabelledRun], others: Sequence[ImportedRun]) -> list[dict[str, Any]]:
    """Figures of all devices in one plot, by what they show."""
    return [
        {
            "name": aspect.name,
            "benchmark": aspect.benchmark,
            "not_drawn": aspect.not_drawn,
            "figures": [
                {"svg": embedded(one.svg, one.alt)[0], "caption": one.caption, "left_out": one.left_out}
                for one in aspect.figures
            ],
        }
        for aspect in aspects(all_parts, published_points(others))
    ]


def _studies(all_parts: Sequence[LabelledRun], files: Mapping[str, Sequence[Markup]]) -> list[dict[str, str]]:
    """What the studies say of all devices together, and of files: the anchor, title and HTML of each that says anything."""
    made = [(study, study.call(study.page, all_parts)) for study in studies() if study.page]
    made += [(study, Markup().join(files[study.name])) for study in studies() if study.name in files]
    return [{"id": study.name, "title": study.page_title or study.title, "html": html} for study, html in made if html]


def _legend(all_parts: Sequence[LabelledRun]) -> list[dict[str, Any]]:
    """The look of each of several devices in all figures."""
    names = short_names([part.label for part in all_parts])
    shown = zip(all_parts, names, strict=True) if len(all_parts) > 1 else ()
    return [{"svg": embedded(sample(part.number), "")[0], "name": name, "label": part.label} for part, name in shown]


def _peers(part: LabelledRun) -> dict[str, Any] | None:
    """Our values and those of the host's peers; None where a run has none."""
    found = peer_values.section(part.run, part.rows)
    return None if found is None else {"label": part.label, "table": found}


def _roofline(all_parts: Sequence[LabelledRun]) -> dict[str, Any] | None:
    """The rooflines of all devices in one figure, and the tables of each; None where none has a roofline."""
    found = [(part, roofline_tables.derive_roofline(part.run, part.rows, part.sheet)) for part in all_parts]
    made = [(part, one) for part, one in found if one is not None]
    if not made:
        return None
    agreements = [roofline_tables.agreement_section(part.run, part.rows, part.sheet) for part, _ in made]
    return {
        "source": roofline_tables.SOURCE,
        "figures": embedded(
            roofline_chart.drawn([(part.label, one) for part, one in made]),
            f"Measured kernels under the roofs of each device; {IN_TABLES}",
        ),
        "devices": [
            {
                "label": part.label,
                "tables": [*roofline_tables.tables(one, part.rows), *([agreed] if agreed is not None else [])],
            }
            for (part, one), agreed in zip(made, agreements, strict=True)
        ],
    }


def _device(number: int, part: LabelledRun) -> dict[str, Any]:
    """A device's warnings, what its sensors said, and what the studies found."""
    values: dict[str, Any] = {"id": f"device-{number}", "label": part.label}
    values["warnings"] = [printable(warning) for warning in warnings(part.run, part.rows, part.sheet)]
    values["conditions"] = embedded(
        conditions_chart(energy_tables.conditions(part.run)),
        f"Power, clock and temperature of {part.label} over the run's time",
    )
    values["energy"] = energy_tables.section(part.run, part.rows)
    own = [study for study in studies() if study.device_page and study.name in part.findings]
    values["studies"] = [study.call(study.device_page, values["id"], part) for study in own]
    return values


def _by_suite(benchmarks: Sequence[dict[str, Any]], plots: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Benchmarks by their suite, and the figures of all devices in one plot with the benchmark that they are of."""
    suites = {one["name"]: one["suite"] if one["suite"] in SUITES else OTHER_SUITES for one in benchmarks}
    found = [
        {
            "id": suite,
            "title": title,
            "plots": [one for one in plots if suites.get(one["benchmark"], OTHER_SUITES) == suite],
            "parts": [one for one in benchmarks if suites[one["name"]] == suite],
        }
        for suite, title in SUITES.items()
    ]
    return [one for one in found if one["plots"] or one["parts"]]


def _benchmarks(
    all_parts: Sequence[LabelledRun], beside: Mapping[str, Table], groups: Sequence[fleet.DeviceGroup]
) -> list[dict[str, Any]]:
    cards = _cards(all_parts)
    names, versions = anchors(cards), fleet.versions(groups)
    return [_benchmark(name, card, names[name], all_parts, beside, groups, versions) for name, card in cards.items()]


def _cards(all_parts: Sequence[LabelledRun]) -> dict[str, BenchmarkInfo]:
    """Every benchmark in any run, in order of first appearance, in its latest version that has a row; those without a row are
    left out, and peers, which are shown with the benchmark that they are compared with."""
    found: dict[str, BenchmarkInfo] = {}
    for part in all_parts:
        with_rows = {row.value.benchmark for row in part.rows}
        for name, card in part.run.header.benchmarks.items():
            if name in with_rows and not card.peer_of and (name not in found or card.version >= found[name].version):
                found[name] = card
    return found


def _benchmark(
    name: str,
    card: BenchmarkInfo,
    anchor: str,
    all_parts: Sequence[LabelledRun],
    beside: Mapping[str, Table],
    groups: Sequence[fleet.DeviceGroup],
    versions: dict[str, list[int]],
) -> dict[str, Any]:
    shown = [part.of(name) for part in all_parts]
    measured = [device for device in shown if name in device.run.header.benchmarks]
    drawable = name != CHASE_BENCHMARK
    figures = embedded(curves.drawn(name, card, shown), _alternative(name, card, shown)) if drawable else []
    devices = [_tables(device) for device in measured]
    rows = sum(device["rows"] for device in devices)
    return {
        "id": anchor,
        "name": name,
        "suite": card.suite,
        "summary": card.summary,
        "versions": versions.get(name, []) if groups else sorted({one.run.header.benchmarks[name].version for one in measured}),
        "source": card.source,
        "figures": figures,
        "left_out": curves.left_out(name, card, shown) if drawable else [],
        "devices": [device for device in devices if device["tables"]],
        "open": len(all_parts) == 1 or (not figures and rows <= MAX_OPEN_ROWS),
        "published": beside.get(name),
        "points": _points(name, shown, groups),
    }


def _tables(device: LabelledRun) -> dict[str, Any]:
    """A device's own tables of the benchmark that its rows are of."""
    tables = sections(device.run, device.rows)
    return {"label": device.label, "tables": tables, "rows": sum(len(one.rows) for one in tables)}


def _alternative(name: str, card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """What a figure shows, for those who do not see it."""
    having = [device.label for device in shown if device.rows]
    devices = ", ".join(having) if len(having) <= MAX_TITLE_DEVICES else count(len(having), "device")
    return f"{name}: {metric_label(card)} on {devices}; {IN_TABLES}"


def _points(name: str, shown: Sequence[LabelledRun], groups: Sequence[fleet.DeviceGroup]) -> Table:
    """A benchmark's points over the devices, or over `groups` where a report is of many runs."""
    if groups:
        return fleet.points(groups, name)
    return views.points_over_devices([device.rows for device in shown], [device.label for device in shown])


def anchors(names: Iterable[str]) -> dict[str, str]:
    """The anchor of each benchmark: its name, or a number where the name is no identifier, or another section's anchor."""
    return {
        name: name if _NAME.fullmatch(name) and name not in RESERVED else f"benchmark-{number}"
        for number, name in enumerate(names, 1)
    }


def contents(page: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The anchor and title of each section that a page with these values has, in order."""
    having = {suite["id"] for suite in page["suites"]} | {"devices"}
    having |= {name for name in ("quantities", "roofline", "studies", "points", "published") if page[name]}
    having |= {"studies"} if page["peers"] else set()
    having |= {"devices-compared"} if page["compared"] else set()
    having |= {"which-device"} if page["which"] else set()
    titles = {**SECTIONS, "devices-compared": page["compared"]["title"]} if page["compared"] else SECTIONS
    return [(name, title) for name, title in titles.items() if name in having]


def compared_values(found: Scorecard) -> dict[str, Any]:
    """Values for the page's template: the table of devices side by side under its title."""
    title = SECTIONS["devices-compared"] if len(found.labels) > 1 else "Headline quantities"
    return {"title": title, "table": views.device_table(found)}
