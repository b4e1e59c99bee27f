"""Figures for notebooks, `clmembench.plots`: each draws a DataFrame of `clmembench.read` or `headlines` on matplotlib Axes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from clmembench.analysis.noise import LogRatio, summed
from clmembench.analysis.stats import Ratio
from clmembench.model import Value
from clmembench.model.metrics import gain
from clmembench.report.figures.device_rows import short_number
from clmembench.report.figures.style import MIN_LOG_RATIO, Look, log_labels, log_y, look, plain, spread
from clmembench.units import format_bytes, format_params

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MEDIAN = ("median", "ci_low", "ci_high")
UNITS = ("param.compute_units", "param.work_groups")


def bandwidth(frame: pd.DataFrame, op: str = "triad", dtype: str = "double", ax: Axes | None = None) -> Axes:
    """Bandwidth of global memory in GB/s over the size of each array, a line a device, 95% intervals as bands (`stream`).

    `frame` is that of `clmembench.read`; only points that are ok are drawn, and of a point of several runs the latest. Without
    `ax` the figure is a new one. Raises ValueError where there is nothing to draw, or several points at one size."""
    params: dict[str, Value] = {"op": op, "dtype": dtype}
    good = _whole_devices(_chosen(frame, "stream", "bandwidth", params))
    axis = _lines(good, _looks(frame), "param.array_bytes", MEDIAN, ax)
    axis.set(xlabel="array size", ylabel=f"bandwidth of {plain(op)}, {plain(dtype)} (GB/s)")
    return axis


def latency(frame: pd.DataFrame, unit: Literal["ns", "cycles"] = "ns", ax: Axes | None = None) -> Axes:
    """Load-to-use latency over the working set, lines touched one after another (`pchase`), in ns or in cycles of the measured
    core clock. As `bandwidth` otherwise; a device whose clock was not measured has no line in cycles."""
    good = _whole_devices(_chosen(frame, "pchase", "latency", {"spacing_bytes": "line"}))
    columns = MEDIAN if unit == "ns" else ("cycles", "cycles_low", "cycles_high")
    axis = _lines(good[good[columns[0]].notna()], _looks(frame), "param.array_bytes", columns, ax)
    axis.set(xlabel="working set", ylabel=f"load-to-use latency ({unit})")
    return axis


def scaling(
    frame: pd.DataFrame,
    benchmark: str = "stream",
    metric: str = "bandwidth",
    relative: bool = False,
    ax: Axes | None = None,
    **params: Value,
) -> Axes:
    """A metric over the number of compute units (of devices that are no CPU, of work-groups), a line a device and placement.

    With `relative` it is divided by its value at the fewest units of the line, without intervals. `params` choose among a
    benchmark's points (op="triad"). As `bandwidth` otherwise."""
    import pandas as pd

    good = _chosen(frame, benchmark, metric, params)
    present = [good[name] for name in UNITS if name in good]
    units = pd.Series(float("nan"), index=good.index)
    for column in present:
        units = units.fillna(column)
    placed = good.get("param.placement", pd.Series(index=good.index, dtype=object))
    names = good["device"].where(placed.isna(), good["device"] + ", " + placed.astype(str))
    good = good.assign(units=units, device=names)[units.notna()].sort_index()
    if relative:
        fewest = good.sort_values("units").groupby("device")["median"].transform("first")
        good = good.assign(median=good["median"] / fewest, ci_low=float("nan"), ci_high=float("nan"))
    axis = _lines(good, _looks(good), "units", MEDIAN, ax)
    unit = "relative to the fewest units" if relative else good["unit"].iloc[0]
    axis.set(xlabel="compute units; work-groups of a GPU", ylabel=plain(f"{metric.replace('_', ' ')} ({unit})"))
    return axis


def headlines(frame: pd.DataFrame, baseline: str = "", groups: Iterable[str] = (), ax: Axes | None = None) -> Axes:
    """How many times as good as the `baseline` (a device of the frame; default: its first) each device is in each headline
    quantity, with 95% intervals of the ratio that include run-to-run variation, as `compare` has them. `groups` are those
    wanted, such as "bandwidth".

    `frame` is that of `clmembench.headlines`. Only quantities that both devices have are drawn, and of those in which neither
    more nor less is better none; what is suspect or undetermined is counted below. Raises ValueError as `bandwidth`."""
    wanted = list(groups)
    shown = frame[frame["group"].isin(wanted)] if wanted else frame
    devices = list(dict.fromkeys(shown["device"]))
    against = baseline or next(iter(devices), "")
    if against not in devices:
        raise ValueError(f"no device is called {baseline!r}: choose from {', '.join(devices)}")
    points = _ratios(shown, against)
    if not points:
        raise ValueError("no other device has a quantity that the baseline has")
    quantities = list(dict.fromkeys(name for name, *_ in points))
    others = [device for device in devices if any(of == device for _, of, *_ in points)]
    axis = ax if ax is not None else _new_axes(1.2 + 0.22 * len(quantities) * max(1.0, 0.6 * len(others)))
    step = 0.7 / len(others)
    looks = _looks(shown)
    for number, device in enumerate(others):
        mine = [point for point in points if point[1] == device]
        at = [quantities.index(name) + (number - (len(others) - 1) / 2) * step for name, *_ in mine]
        value, ends, own = [ratio for _, _, ratio, _, _ in mine], spread([point[2:] for point in mine]), looks[device]
        axis.errorbar(value, at, xerr=ends, label=plain(device), fmt=own.marker, color=own.colour, markersize=6, capsize=2)
    axis.axvline(1.0, color="#555555", linewidth=1)
    axis.set_xscale("log")
    axis.set_yticks(range(len(quantities)), [plain(name) for name in quantities])
    axis.set_ylim(len(quantities) - 0.4, -0.6)
    axis.grid(visible=True, axis="x")
    _log_ticks(axis)
    counts = Counter(
        status for status in shown["status"] if status not in ("ok", "missing", "theoretical", "published", "imported")
    )
    left = "\nnot drawn: " + ", ".join(f"{n} {status}" for status, n in counts.items()) if counts else ""
    axis.set_xlabel(f"times as good as {plain(against)}\nwhiskers: 95% intervals with run-to-run variation{left}")
    _legend(axis)
    return axis


def _ratios(frame: pd.DataFrame, baseline: str) -> list[tuple[str, str, float, float, float]]:
    """(quantity, device, how many times as good, low, high) of every other device that has a value where the baseline has."""
    good: list[dict[str, Any]] = frame[(frame["value"] > 0) & (frame["better"] != "")].to_dict("records")  # type: ignore[assignment]
    base = {(row["group"], row["quantity"]): row for row in good if row["device"] == baseline}
    found = []
    for row in good:
        first = base.get((row["group"], row["quantity"]))
        if first is not None and row is not first:
            value = gain(row["value"] / first["value"], row["better"])
            known = [(one["log_sd"] ** 2, one["log_freedom"]) for one in (first, row) if one["log_freedom"] > 0]
            ratio = LogRatio(math.log(value), *summed(known)).ratio() if len(known) == 2 else Ratio(value, math.nan, math.nan)
            found.append((f"{row['group']}: {row['quantity']}", row["device"], value, ratio.low, ratio.high))
    return found


def _chosen(frame: pd.DataFrame, benchmark: str, metric: str, params: Mapping[str, Value]) -> pd.DataFrame:
    """The good rows of a metric at points with these parameters, of each point and device that of the latest run."""
    good = frame[(frame["benchmark"] == benchmark) & (frame["metric"] == metric) & (frame["status"] == "ok")]
    good = good[good["median"] > 0]
    for name, value in params.items():
        column = good.get(f"param.{name}")
        good = good[column == value] if column is not None else good.iloc[:0]
    if good.empty:
        raise ValueError(f"no point of {benchmark} {format_params(params)} with {metric} is ok".replace("  ", " "))
    point = ["device", *(name for name in good if str(name).startswith("param."))]
    return good.sort_values("run").drop_duplicates(point, keep="last")  # run ids sort by time


def _whole_devices(good: pd.DataFrame) -> pd.DataFrame:
    """The rows of points that have all of a device's compute units."""
    for name in UNITS:
        good = good[good[name].isna()] if name in good else good
    return good


def _looks(frame: pd.DataFrame) -> dict[str, Look]:
    """The look of each device, by their order in the frame, so that all figures of one frame share them."""
    return {name: look(number) for number, name in enumerate(dict.fromkeys(frame["device"]))}


def _lines(good: pd.DataFrame, looks: Mapping[str, Look], x: str, columns: tuple[str, str, str], ax: Axes | None) -> Axes:
    """A line for each device with a band, by the columns of the value and of the ends of its interval; the values have a
    logarithmic axis where they differ by much."""
    import seaborn

    y, low, high = columns

    good = good[good[x].notna()].sort_values(x)
    if good.empty:
        raise ValueError(f"no good point has a number of {x.removeprefix('param.')}")
    twice = good[good.duplicated(["device", x], keep=False)]
    if not twice.empty:
        params = [name for name in map(str, twice) if name.startswith("param.") and name != x]
        differing = [name.removeprefix("param.") for name in params if twice[name].nunique(dropna=False) > 1]
        raise ValueError(f"several points at one place: choose by {', '.join(differing)}")
    axis = ax if ax is not None else _new_axes(4.5)
    own = {name: mine for name, mine in looks.items() if (good["device"] == name).any()}
    seaborn.lineplot(
        good.assign(device=good["device"].map(plain)),
        x=x,
        y=y,
        hue="device",
        style="device",
        palette={plain(name): one.colour for name, one in own.items()},
        markers={plain(name): one.marker for name, one in own.items()},
        hue_order=list(map(plain, own)),
        style_order=list(map(plain, own)),
        dashes=False,
        markersize=7,
        errorbar=None,
        ax=axis,
    )
    for name, one in own.items():
        mine = good[(good["device"] == name) & good[low].notna()]
        axis.fill_between(mine[x], mine[low], mine[high], color=one.colour, alpha=0.2, linewidth=0)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: format_bytes(value) if x.endswith("_bytes") else short_number(value))
    if good[y].max() > MIN_LOG_RATIO * good[y].min():
        log_y(axis)
    else:
        axis.set_ylim(bottom=0)
    axis.grid(visible=True)
    _legend(axis)
    return axis


def _new_axes(height: float) -> Axes:
    """The axes of a new figure of pyplot's, which a notebook shows."""
    from matplotlib import pyplot

    _, axis = pyplot.subplots(figsize=(9, height), layout="constrained")
    return axis


def _log_ticks(axis: Axes) -> None:
    """Labels on a logarithmic axis of ratios."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    axis.xaxis.set_major_locator(FixedLocator(log_labels(*axis.get_xlim())))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _legend(axis: Axes) -> None:
    """The devices above the plot, where they cover nothing."""
    if axis.get_legend_handles_labels()[1]:
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, frameon=False, fontsize=8, title=None)
