"""Likelihood of latencies of laps under shares of hits and misses, where the cost of each is not known exactly. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array

# Thresholds and limits, each with its reason
DISTURBED_PROBABILITY = 0.02  # of laps, that others use the core all the while: as often as on shared hosts
MAX_DISTURBED_SHARE = 0.12  # of laps, or one: more are less likely than 1%, and do not explain what a policy leaves open
DISTURBED_RANGE = 0.5  # of a lap's latency, that a disturbance adds at most
MIN_DISTURBED_SIGMAS = 4.0  # of a lap's noise, that a disturbance adds at least: less is noise
MAX_MISFIT_SIGMAS = 4.0  # of the sum of squared residuals from its expectation: beyond, costs and shares explain no latencies


@dataclass(frozen=True, slots=True)
class AccessCosts:
    """Latencies of an access that a nearer cache serves, of a hit and of a miss, and the standard deviation of each."""

    means: tuple[float, float, float]
    deviations: tuple[float, float, float]

    @property
    def contrast(self) -> float:
        """What a miss adds to a hit."""
        return self.means[2] - self.means[1]


@dataclass(frozen=True, slots=True)
class LapFit:
    """Log-likelihood of the laps' latencies, and whether noise and few disturbances explain what is left of them."""

    loglik: float
    explains: bool


def fit_laps(shares: Array, latencies: Array, sigmas: Array, costs: AccessCosts) -> LapFit:
    """How likely latencies of laps are, shape (laps,), with noise of `sigmas`, where `shares` of their accesses, shape (laps, 3),
    cost as in `costs`, which are unknown by as much as their deviations: the likelihood is that over all costs.

    A lap may be disturbed, which only adds; a disturbed one says nothing and costs what a disturbance is unlikely.
    """
    use = np.ones(latencies.size, dtype=bool)
    loglik, residuals, misfit = _gaussian(shares, latencies, sigmas, costs)
    penalty = 0.0
    for _ in range(max(1, int(MAX_DISTURBED_SHARE * latencies.size))):
        worst = int(np.argmax(np.where(use, residuals / sigmas, -np.inf)))
        if residuals[worst] < MIN_DISTURBED_SIGMAS * sigmas[worst]:
            break
        width = DISTURBED_RANGE * latencies[worst] / (sigmas[worst] * math.sqrt(2 * math.pi))
        cost = math.log(DISTURBED_PROBABILITY / max(width, 1.0))
        use[worst] = False
        rest, residuals, misfit_of_rest = _gaussian(shares, latencies, sigmas, costs, use)
        if rest + penalty + cost <= loglik:
            break
        penalty, loglik, misfit = penalty + cost, rest + penalty + cost, misfit_of_rest
    count = int(use.sum())
    return LapFit(loglik, misfit <= count + MAX_MISFIT_SIGMAS * math.sqrt(2 * count) + MAX_MISFIT_SIGMAS)


def _gaussian(
    shares: Array, latencies: Array, sigmas: Array, costs: AccessCosts, use: Array | None = None
) -> tuple[float, Array, float]:
    """Log-likelihood of the laps in use, up to a constant that depends on their noise alone; the residuals of all; the sum of
    squared residuals with those of the costs, in standard deviations."""
    means, deviations = np.asarray(costs.means), np.asarray(costs.deviations)
    known = deviations > 0
    scaled = shares[:, known] * deviations[known] / sigmas[:, None]
    left = (latencies - shares @ means) / sigmas
    chosen = np.ones(latencies.size, dtype=bool) if use is None else use
    design = scaled[chosen]
    precision = np.eye(design.shape[1]) + design.T @ design
    shift = np.linalg.solve(precision, design.T @ left[chosen])
    residuals = left - scaled @ shift
    misfit = float((residuals[chosen] ** 2).sum() + (shift**2).sum())
    _, log_determinant = np.linalg.slogdet(precision)
    return -0.5 * misfit - 0.5 * float(log_determinant), residuals * sigmas, misfit
