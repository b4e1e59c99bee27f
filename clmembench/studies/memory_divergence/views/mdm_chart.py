"""The memory divergence model as a figure: latency stacks, errors (the paper's figures 1 and 3), predicted and measured IPC."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clmembench.report.figures.style import MARKERS, colour, image, legend, log_y, plain, subplots
from clmembench.studies.memory_divergence.mdm_inputs import published_errors
from clmembench.studies.memory_divergence.model.equations import MODELS, Model
from clmembench.studies.memory_divergence.model.errors import Compared, ModelError
from clmembench.studies.memory_divergence.model.predict import STALLS
from clmembench.studies.memory_divergence.views.mdm_validation import Validation, errors_by_reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STACK_NAMES = {"mshr": "waiting for an MSHR", "noc": "queue of the NoC", "dram": "queue of DRAM"}
PLOTTED: tuple[Model, ...] = ("MDM", "MDM-overlap")  # over measured IPC
MIN_ERROR_PERCENT = 1.0  # that a logarithmic axis shows


def mdm_chart(found: Validation, label: str, form: str) -> bytes:
    """The figure in a format of matplotlib's, such as png, svg or pdf. Raises ValueError if nothing was measured, or for an
    unknown format."""
    compared = found.compared.get("block", ())
    if not compared:
        raise ValueError("no configuration has a measured time: nothing to draw")
    figure, axes = subplots(2 + len(PLOTTED), height=3.6)
    _stacks(axes[0], compared)
    _errors(axes[1], [one for one in errors_by_reading(found) if one.reading == "block"])
    for axis, model in zip(axes[2:], PLOTTED, strict=True):
        _scatter(axis, model, compared)
    figure.suptitle(plain(label), fontsize=11)
    legend(figure, axes)
    return image(figure, form)


def _stacks(axis: Axes, compared: Sequence[Compared]) -> None:
    """Stall cycles of an interval that MDM predicts, by cause, over the lines of a load (figure 1)."""
    lines = sorted({one.params["lines"] for one in compared}, key=float)
    places, below = list(range(len(lines))), [0.0] * len(lines)
    for number, name in enumerate(STALLS):
        mine = [
            statistics.fmean(one.predicted["MDM"].stack[name] for one in compared if one.params["lines"] == value)
            for value in lines
        ]
        axis.bar(places, mine, bottom=below, color=colour(number), label=STACK_NAMES[name])
        below = [a + b for a, b in zip(below, mine, strict=True)]
    axis.set_xticks(places, [str(value) for value in lines])
    axis.set_xlabel("distinct lines of a load")
    axis.set_ylabel("stall cycles by MDM, mean")
    axis.set_title("Latency stack (the paper's figure 1)", fontsize=9)


def _errors(axis: Axes, errors: Sequence[ModelError]) -> None:
    """Mean |error| of IPC of each model and class, with the paper's (figure 3)."""
    published = published_errors().error
    for number, kind in enumerate(("MD", "NMD")):
        rows = [row for row in errors if row.kind == kind]
        places = [MODELS.index(row.model) + 0.4 * number - 0.2 for row in rows]
        heights = [max(row.mean_error_percent, MIN_ERROR_PERCENT) for row in rows]
        axis.bar(places, heights, width=0.38, color=colour(3 + number), label=f"{kind}, measured here")
        paper = [(MODELS.index(e.model), e.error_percent) for e in published if e.kind == kind and e.model in MODELS]
        axis.plot(
            [x + 0.4 * number - 0.2 for x, _ in paper], [y for _, y in paper], MARKERS[number], color="#333333",
            markerfacecolor="white", markersize=6, linestyle="none", label=f"{kind}, in the paper",
        )  # fmt: skip
    axis.set_xticks(range(len(MODELS)), MODELS, rotation=30, ha="right")
    axis.set_ylabel("mean |error| of IPC, %")
    axis.set_ylim(MIN_ERROR_PERCENT, 1.3 * max(e.error_percent for e in published))
    log_y(axis)
    axis.set_title("Errors of predicted IPC (the paper's figure 3)", fontsize=9)


def _scatter(axis: Axes, model: Model, compared: Sequence[Compared]) -> None:
    """Predicted over measured IPC, and where they are equal."""
    for number, kind in enumerate(("MD", "NMD")):
        mine = [one for one in compared if one.divergent == (kind == "MD")]
        x, y = [one.measured.value for one in mine], [one.predicted[model].ipc_sm for one in mine]
        axis.plot(x, y, MARKERS[number], color=colour(3 + number), markersize=3, linestyle="none")
    ends = [
        choose(value for one in compared for value in (one.measured.value, one.predicted[model].ipc_sm))
        for choose in (min, max)
    ]
    axis.plot(ends, ends, color="#333333", linewidth=1, label="predicted = measured")
    axis.set_xscale("log")
    log_y(axis)
    axis.set_xlabel("measured IPC of a compute unit")
    axis.set_ylabel(f"IPC by {model}")
    axis.set_title(f"{model}: predicted over measured", fontsize=9)
