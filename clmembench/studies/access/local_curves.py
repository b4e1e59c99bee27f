"""Figures of local memory: latency over stride with the inferred banks, throughput over sub-groups with Little's law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.model import BenchmarkInfo
from clmembench.report.figures.device_rows import value_and_interval
from clmembench.report.figures.style import MARKERS, colour, legend, plain, spread, subplots, svg
from clmembench.report.frame import LabelledRun, Row
from clmembench.studies.access.banks import MAX_SUB_GROUP_WORK_ITEMS, BankAccess, bank_accesses, study_banks

ILPS = (1, 2, 4, 6, 8)  # of Mei & Chu 2015, section 6.1

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def banks(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """Mei & Chu's figures 17 and 19: measured latency at each stride, and the latency that the inferred banks predict."""
    devices = [(s, found) for s in shown if (found := bank_accesses([r.value for r in s.rows if r.status == "ok"]))[0]]
    if not devices:
        return ""
    figure, axes = subplots(len(devices), height=4.0)
    for axis, (device, (measured, unit)) in zip(axes, devices, strict=True):
        _over_stride(axis, measured, unit)
        axis.set_title(plain(device.label), fontsize=10)
    legend(figure, axes)
    return svg(figure)


def _over_stride(axis: Axes, measured: Sequence[BankAccess], unit: str) -> None:
    study = study_banks(measured, unit)
    free, way = (study.findings.get(name) for name in ("free", "way"))
    for number, word_bytes in enumerate(sorted({a.word_bytes for a in measured})):
        mine = sorted(
            (a for a in measured if a.word_bytes == word_bytes and a.items == MAX_SUB_GROUP_WORK_ITEMS), key=lambda a: a.stride
        )
        x = [a.stride for a in mine]
        axis.errorbar(
            x, [a.latency for a in mine], spread([(a.latency, a.low, a.high) for a in mine]),
            fmt=MARKERS[number], markersize=4, color=colour(number), label=f"{word_bytes}-byte words, measured",
        )  # fmt: skip
        every = range(max(x, default=0) + 1)
        ways = [study.ways(s, word_bytes, MAX_SUB_GROUP_WORK_ITEMS) for s in every]
        if free is not None and way is not None and all(w is not None for w in ways) and study.banks is not None:
            of = f"{study.banks.count} banks of {study.banks.width_bytes} B"
            least = study.banks.passes(1, 4, 1)
            level = [float(free.value or 0) + float(way.value or 0) * ((w or 0) - least) for w in ways]
            axis.plot(every, level, linewidth=1, color=colour(number), alpha=0.6, label=f"{word_bytes}-byte words, {of}")
    axis.set_ylim(0, 1.1 * max(a.high for a in measured))
    axis.set_xticks(range(0, 65, 8))
    axis.set_xlabel("stride between work-items (words)")
    axis.set_ylabel(f"latency ({unit})")


def local_copy(card: BenchmarkInfo, shown: Sequence[LabelledRun]) -> str:
    """Mei & Chu's figures 15 and 16: throughput of all compute units over active sub-groups with one line per ILP, the peak,
    and the bound by Little's law from the latency of one sub-group's single copy."""
    devices = [(s, good) for s in shown if (good := [r for r in s.rows if r.is_good])]
    if not devices:
        return ""
    figure, axes = subplots(len(devices), height=4.4)
    for axis, (device, good) in zip(axes, devices, strict=True):
        _over_groups(axis, good)
        axis.set_title(plain(device.label), fontsize=10)
    legend(figure, axes)
    return svg(figure)


def _over_groups(axis: Axes, good: Sequence[Row]) -> None:
    lines: dict[int, dict[int, tuple[float, float, float]]] = {}
    for row in good:
        params = row.value.params
        groups = max(1, int(params["work_group"]) * int(params["groups_a_unit"]) // MAX_SUB_GROUP_WORK_ITEMS)
        line = lines.setdefault(int(params["ilp"]), {})
        line[groups] = max(line.get(groups, (0.0, 0.0, 0.0)), value_and_interval(row.value))
    peak = next((row.peak.value for row in good if row.peak), None)
    top = peak or 1.1 * max(high for line in lines.values() for _, _, high in line.values())
    one = lines[1][1][0] if 1 in lines.get(1, {}) else None
    for number, (ilp, line) in enumerate(sorted(lines.items())):
        look = ILPS.index(ilp) if ilp in ILPS else len(ILPS) + number  # one colour for each ILP in every plot
        x = sorted(line)
        axis.plot(
            x,
            [line[n][0] for n in x],
            marker=MARKERS[look % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            color=colour(look),
            label=f"ILP {ilp}",
        )
        axis.fill_between(x, [line[n][1] for n in x], [line[n][2] for n in x], color=colour(look), alpha=0.2, linewidth=0)
        if one is not None:
            allowed = "Little's law, each ILP" if number == 0 else None
            bound = [min(top, one * ilp * n) for n in x]
            axis.plot(x, bound, linestyle=":", linewidth=1, color=colour(look), label=allowed)
    if peak:
        axis.axhline(peak, color="#888888", linewidth=1, label="theoretical peak")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_ylim(0, 1.08 * top)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_xlabel("active sub-groups of 32 per compute unit")
    axis.set_ylabel("throughput, read and written (GB/s)")
