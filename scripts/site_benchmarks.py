"""The reference of benchmarks: purpose, axes, metrics and source of each, with the values of two devices as examples."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scripts.site_links import ROOT
from scripts.site_markdown import code, plain, table

if TYPE_CHECKING:
    from clmembench.model import Axis, Benchmark, DeviceInfo

# committed runs, of whose devices values are shown: they depend on the device, and building the site needs none
EXAMPLES = {"NVIDIA H200": "h200-sxm-quick.jsonl.gz", "16-core Xeon, PoCL": "xeon-16-cores-pocl-quick.jsonl.gz"}
MAX_VALUES = 12  # of an axis that are shown; of more, the first and the last ones
FORMS = {
    "rate": "amount per time",
    "cost": "time per amount",
    "slope": "time of each further unit of the amount, from works of two amounts: what a launch costs cancels out",
    "slope_rate": "rate of the further units of the amount, from works of two amounts",
    "overlap": "share of the shorter of two works that hides behind the other",
}


def benchmarks_page() -> str:
    """Every benchmark, by suite; those of studies, and those that measure other libraries, last."""
    devices = _devices()
    suites: dict[str, list[str]] = defaultdict(list)
    studies: list[str] = []
    peers: list[tuple[str, str, str, str]] = []
    for one in _benchmarks():
        if one.peer_of:
            peers.append((code(one.name), code(one.peer_of), plain(one.summary), plain(one.source)))
        else:
            (studies if one.adaptive else suites[one.suite]).append(_section(one, devices))
    parts = [
        "# Benchmarks and axes",
        "Generated from the benchmarks of this version, as `clmembench describe` shows them. Values of an axis depend on the "
        f"device; those of {' and of '.join(devices)} are examples. A *searched* axis is tuned: the best of its values is the "
        "record. A *growing* axis goes on until its metric stays flat. `-a NAME=VALUES` chooses other values. Metrics are "
        "explained on [a page of their own](metrics.md).",
    ]
    for suite, sections in suites.items():
        parts += [f"## Suite {suite}", *sections]
    parts += [
        "## Benchmarks of studies",
        "A command with a plan of its own chooses their points; no suite has them.",
        *studies,
        "## Other libraries and programs",
        "Measured by `run --reference` and `peers` on the points of a benchmark of ours, where this host has them.",
        table(("name", "points of", "what", "source"), peers),
    ]
    return "\n\n".join(parts) + "\n"


def metrics_page() -> str:
    """Every metric of every benchmark, the quantities of a verdict, and how time becomes a value."""
    from clmembench.model.metrics import Metric

    rows, headlines = [], []
    for one in _benchmarks():
        if one.peer_of:
            continue
        for metric in one.metrics:
            peak = code(metric.peak or "")
            unit = plain(metric.unit) + (", cycles" if metric.cycles else "")
            points = plain(", ".join(f"{name}={' or '.join(map(str, values))}" for name, values in metric.only.items()))
            name = metric.name.replace("_", " ")
            rows.append((code(one.name), name, points, unit, code(metric.form), metric.better, peak))
        headlines += [(h.group, plain(h.name), code(one.name), h.metric.replace("_", " ")) for h in one.headlines]
    return (
        "\n\n".join(
            [
                "# Metrics",
                "Generated from the benchmarks of this version. Raw times are stored; a metric says how they become a value "
                "when a file is read. [How numbers are made](../measuring.md) explains intervals and statuses.",
                table(("benchmark", "metric", "only where", "unit", "form", "better", "theoretical peak"), rows),
                "## Forms",
                table(("form", "value"), [(code(form), said) for form, said in FORMS.items()]),
                plain(" ".join((inspect.getdoc(Metric) or "").split("\n\n")[-1].split())),
                "## Headline quantities",
                "A report's verdict compares devices by these.",
                table(("group", "quantity", "benchmark", "metric"), headlines),
            ]
        )
        + "\n"
    )


def _section(one: Benchmark, devices: dict[str, DeviceInfo]) -> str:
    paragraphs = (inspect.getdoc(one.prepare) or "").split("\n\n")
    axes = table(("axis", *devices, "kind"), [_axis(name, axis, devices) for name, axis in one.axes.items()])
    metrics = "; ".join(f"{m.name.replace('_', ' ')} in {plain(m.unit)} ({m.better} is better)" for m in one.metrics)
    source = plain(one.source).removesuffix(".")
    last = f"Metrics: {metrics}. Version {one.version}. Source: {source}."
    return "\n\n".join([f"### {one.name}", *(plain(" ".join(text.split())) for text in paragraphs), axes, last])


def _axis(name: str, axis: Axis, devices: dict[str, DeviceInfo]) -> Sequence[str]:
    needs = "; ".join(f"{value} needs {', '.join(sorted(features))}" for value, features in axis.needs.items())
    kind = "searched" if axis.tuning else "growing" if axis.per_octave else ""
    return code(name), *(_values(name, axis, info) for info in devices.values()), plain("; ".join(filter(None, (kind, needs))))


def _values(name: str, axis: Axis, info: DeviceInfo) -> str:
    from clmembench.units import format_param, format_value

    values = [format_value(v) if isinstance(v, float) else format_param(name, v) for v in axis.values(info)]
    if axis.per_octave:
        return plain(" to ".join(values))
    if len(values) > MAX_VALUES:
        half = MAX_VALUES // 2
        return plain(f"{', '.join(values[:half])} ... {', '.join(values[-half:])} ({len(values)} values)")
    return plain(", ".join(values))


def _benchmarks() -> Iterator[Benchmark]:
    from clmembench.benchmarks import discovered

    return iter(discovered().values())


def _devices() -> dict[str, DeviceInfo]:
    from clmembench.results import jsonl

    return {name: jsonl.read(ROOT / "reports" / file).header.device for name, file in EXAMPLES.items()}
