"""Linear fit of latency over passes: cost of a pass, goodness of fit, and the points that it does not explain. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Thresholds and limits, each with its reason
NORMAL_95_PERCENT_SIGMAS = 1.96  # standard deviations of a 95% interval
POINT_RELATIVE_ERRORS = (
    0.003,
    0.01,
    0.02,
)  # relative: candidates for the variation between points beyond the noise of their samples
PASS_COUNT_ERRORS = (
    0.0,
    0.3,
    1.0,
)  # in passes: candidates for the deviation from the line that all strides with one number of passes share
CERTAIN_SIGMAS = 4.0  # standard deviations: a residual beyond is not noise
MAX_RESIDUAL_PASSES = 0.5  # in passes: a point further off has another number of passes than the mapping predicts
MAX_LINE_RELATIVE_DEVIATION = 0.1  # of the cost of all passes: allowed deviation from the line at many passes


@dataclass(frozen=True, slots=True)
class ConflictLine:
    """Fitted line latency = free + way * (passes - least): `free` is the latency at the least number of passes, `way` the cost
    of each further one, with their standard errors. `off` is the largest relative deviation from the line of the latency at any
    number of passes, `off_error` its standard error. `unexplained` are the indices of the points that the line does not
    explain, the worst first; all points if it explains too many badly. `sd` is each point's noise, `levels` the latency by
    number of passes."""

    free: float
    way: float
    free_error: float
    way_error: float
    least: int
    most: int
    loglik: float
    off: float
    off_error: float
    unexplained: tuple[int, ...]
    sd: FloatArray
    levels: Mapping[int, float]

    def at(self, passes: int) -> float:
        """The latency of `passes` passes: the measured one where there is one, else that of the line."""
        return self.levels.get(passes, self.free + self.way * (passes - self.least))

    @property
    def slowed(self) -> tuple[float, float, float]:
        """How many times slower the most passes are than the least, with the ends of its interval."""
        reach = (self.most - self.least) / self.free
        return tuple(1 + reach * (self.way + k * NORMAL_95_PERCENT_SIGMAS * self.way_error) for k in (0, -1, 1))  # type: ignore[return-value]


def fit_conflict_line(passes: npt.NDArray[np.int64], latency: FloatArray, noise: FloatArray) -> ConflictLine:
    """The most likely line through points of `noise` (standard deviations of their samples alone); all of shape (points,).

    Points with the same number of passes share one deviation from the line, since they wait for the same thing. The variance of
    points beyond their samples' noise, and of levels around the line, is chosen from a few values by likelihood."""
    levels, of = np.unique(passes, return_inverse=True)
    best: tuple[float, FloatArray, FloatArray, float, float, list[float]] | None = None
    for relative in POINT_RELATIVE_ERRORS:
        sd = np.hypot(noise, relative * latency)
        weight = np.bincount(of, 1 / sd**2)
        mean = np.bincount(of, latency / sd**2) / weight
        within = float(np.sum(((latency - mean[of]) / sd) ** 2 + 2 * np.log(sd)))
        plain = _weighted_least_squares(levels, mean, 1 / weight)[1]
        for spread in PASS_COUNT_ERRORS:
            variance = 1 / weight + (spread * plain) ** 2
            free, way, *errors = _weighted_least_squares(levels, mean, variance)
            off = mean - free - way * (levels - levels[0])
            loglik = -0.5 * (within + float(np.sum(off**2 / variance + np.log(variance * weight))))
            if best is None or loglik > best[0]:
                share = 1 - 1 / (weight * variance)  # part of a level's deviation that is not noise
                best = loglik, sd, mean - off + share * off, free, way, errors
    assert best is not None
    loglik, sd, expected, free, way, errors = best
    residual = np.abs(latency - expected[of])
    allowed = np.maximum(
        np.maximum(MAX_RESIDUAL_PASSES * way, MAX_LINE_RELATIVE_DEVIATION * way * (passes - levels[0])), CERTAIN_SIGMAS * sd
    )
    wrong = np.flatnonzero(residual > allowed)
    freedom = max(1, len(latency) - 2)
    misfit = float(np.sum((residual / np.maximum(sd, MAX_LINE_RELATIVE_DEVIATION * way * (passes - levels[0]))) ** 2)) / freedom
    if misfit > 1 + CERTAIN_SIGMAS * math.sqrt(2 / freedom):
        wrong = np.argsort(-residual / sd) if not len(wrong) else wrong
    weight = np.bincount(of, 1 / sd**2)
    mean = np.bincount(of, latency / sd**2) / weight
    off = np.abs(mean / (free + way * (levels - levels[0])) - 1)
    worst = int(np.argmax(off))
    return ConflictLine(
        free, way, errors[0], errors[1], int(levels[0]), int(levels[-1]), loglik,
        float(off[worst]), float(1 / math.sqrt(weight[worst]) / mean[worst]), tuple(map(int, wrong)), sd,
        dict(zip(levels.tolist(), expected.tolist(), strict=True)),
    )  # fmt: skip


def _weighted_least_squares(x: npt.NDArray[np.int64], y: FloatArray, variance: FloatArray) -> tuple[float, float, float, float]:
    """Value at the least x, slope, and the standard errors of both, by weighted least squares; a slope is not below 0."""
    weight = 1 / variance
    middle = float(np.average(x, weights=weight))
    spread = float(np.sum(weight * (x - middle) ** 2))
    level = float(np.average(y, weights=weight))
    if spread <= 0:
        return level, 0.0, math.sqrt(1 / float(np.sum(weight))), math.inf
    slope = float(np.sum(weight * (x - middle) * (y - level))) / spread
    degrees = max(1, len(x) - 2)
    misfit = float(np.sum(weight * (y - level - slope * (x - middle)) ** 2)) / degrees
    error = math.sqrt(max(1.0, misfit) / spread)
    of_level = math.sqrt(max(1.0, misfit) / float(np.sum(weight)))
    if slope <= 0:
        return level, 0.0, of_level, error
    back = float(x[0]) - middle
    return level + slope * back, slope, math.hypot(of_level, back * error), error
