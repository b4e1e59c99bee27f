"""Errors of predictions against measurements: of IPC, of its logarithm, and their bias, by model and class. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.little import Estimate
from clmembench.model import Value
from clmembench.studies.memory_divergence.model.equations import MODELS, Model

KINDS = ("MD", "NMD", "all")  # memory-divergent configurations, others, and both


@dataclass(frozen=True, slots=True)
class FrozenPrediction:
    """The part of a prediction that is compared with a measurement: IPC of a compute unit with the range from uncertain inputs,
    and cycles by cause."""

    ipc_sm: float
    ipc_sm_low: float
    ipc_sm_high: float
    stack: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Compared:
    """One configuration: its parameters, whether it is memory-divergent for these inputs, its measured IPC of a compute unit
    with interval, and every model's prediction."""

    params: Mapping[str, Value]
    divergent: bool
    measured: Estimate
    predicted: Mapping[Model, FrozenPrediction]

    def relative_error(self, model: Model) -> float:
        """(predicted - measured) / measured IPC, as in the paper."""
        return self.predicted[model].ipc_sm / self.measured.value - 1

    def log_ratio(self, model: Model) -> float:
        """ln(predicted / measured) IPC, in which twice and half as much count alike."""
        return math.log(self.predicted[model].ipc_sm / self.measured.value)

    def covered(self, model: Model) -> bool:
        """Whether the predicted range overlaps the measured interval: then uncertain inputs alone explain the error."""
        one = self.predicted[model]
        return one.ipc_sm_low <= self.measured.high and self.measured.low <= one.ipc_sm_high


@dataclass(frozen=True, slots=True)
class ModelError:
    """Errors of one model over the configurations of one class: mean |error| of IPC in %, mean |ln ratio|, the bias
    exp(mean ln ratio) (above 1: it predicts too much), the largest |ln ratio|, and the share of configurations that the
    inputs' intervals explain. `reading` is that of the equations; `paper_percent` is the published |error|, null where there is
    none."""

    reading: str
    model: Model
    kind: str
    count: int
    mean_error_percent: float
    paper_percent: float | None
    mean_log_ratio: float
    bias: float
    worst_log_ratio: float
    covered: float


def model_errors(compared: Sequence[Compared], reading: str, published: Mapping[tuple[str, str], float]) -> list[ModelError]:
    """The errors of each model and class that has configurations; `published` has the paper's by model and class."""
    rows = []
    for model in MODELS:
        for kind in KINDS:
            mine = [one for one in compared if kind == "all" or one.divergent == (kind == "MD")]
            if mine:
                rows.append(_error(reading, model, kind, mine, published.get((model, kind))))
    return rows


def _error(reading: str, model: Model, kind: str, mine: Sequence[Compared], published: float | None) -> ModelError:
    logs = [one.log_ratio(model) for one in mine]
    return ModelError(
        reading,
        model,
        kind,
        len(mine),
        100 * statistics.fmean(abs(one.relative_error(model)) for one in mine),
        published,
        statistics.fmean(map(abs, logs)),
        math.exp(statistics.fmean(logs)),
        max(map(abs, logs)),
        statistics.fmean(one.covered(model) for one in mine),
    )
