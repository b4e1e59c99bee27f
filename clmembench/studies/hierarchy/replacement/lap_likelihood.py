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
    """Latencies of an access that a nearer cache serves, of a hit and of a miss, and the standard deviation of each; whether
    what a miss costs was seen, or is guessed."""

    means: tuple[float, float, float]
    deviations: tuple[float, float, float]
    miss_is_known: bool = True

    @property
    def contrast(self) -> float:
        """What a miss adds to a hit."""
        return self.means[2] - self.means[1]


@dataclass(frozen=True, slots=True)
class LapFit:
    """Log-likelihood of the laps' latencies, whether noise and few disturbances explain what is left of them, what a miss
    adds to a hit where they are likeliest, and whether other contents of the sets at first would explain what is left."""

    loglik: float
    explains: bool
    contrast: float = 0.0
    possible: bool = False


def fit_laps(shares: Array, latencies: Array, sigmas: Array, costs: AccessCosts) -> LapFit:
    """How likely latencies of laps are, shape (laps,), with noise of `sigmas`, where `shares` of their accesses, shape (laps,
    3), cost as in `costs`, which are unknown by as much as their deviations: the likelihood is that over all costs.

    A lap may be disturbed, which only adds; a disturbed one says nothing and costs what a disturbance is unlikely.
    """
    use = np.ones(latencies.size, dtype=bool)
    best, penalty = _gaussian(shares, latencies, sigmas, costs, use), 0.0
    loglik = best.loglik
    for _ in range(max(1, int(MAX_DISTURBED_SHARE * latencies.size))):
        worst = int(np.argmax(np.where(use, best.residuals / sigmas, -np.inf)))
        if best.residuals[worst] < MIN_DISTURBED_SIGMAS * sigmas[worst]:
            break
        use[worst] = False
        cost = math.log(DISTURBED_PROBABILITY / (DISTURBED_RANGE * max(float(latencies[worst]), costs.contrast)))
        rest = _gaussian(shares, latencies, sigmas, costs, use)
        if rest.loglik + penalty + cost <= loglik:
            use[worst] = True
            break
        penalty, best = penalty + cost, rest
        loglik = rest.loglik + penalty
    count = int(use.sum())
    explains = best.misfit <= count + MAX_MISFIT_SIGMAS * math.sqrt(2 * count) + MAX_MISFIT_SIGMAS
    return LapFit(loglik, explains, best.contrast)


@dataclass(frozen=True, slots=True)
class _GaussianFit:
    """Log-likelihood of the laps in use; residuals of all; the sum of squared residuals with those of the costs, in standard
    deviations; what a miss adds to a hit."""

    loglik: float
    residuals: Array
    misfit: float
    contrast: float


def _gaussian(shares: Array, latencies: Array, sigmas: Array, costs: AccessCosts, use: Array) -> _GaussianFit:
    """The likelihood under Gaussian noise and Gaussian costs."""
    means, deviations = np.asarray(costs.means), np.asarray(costs.deviations)
    scaled = shares * deviations / sigmas[:, None]
    left = (latencies - shares @ means) / sigmas
    design = scaled[use]
    precision = np.eye(means.size) + design.T @ design
    shift = np.linalg.solve(precision, design.T @ left[use])
    residuals = left - scaled @ shift
    misfit = float((residuals[use] ** 2).sum() + (shift**2).sum())
    _, log_determinant = np.linalg.slogdet(precision)
    scale = float(np.log(sigmas[use] * math.sqrt(2 * math.pi)).sum())
    fitted = means + shift * deviations
    return _GaussianFit(
        -0.5 * misfit - 0.5 * float(log_determinant) - scale, residuals * sigmas, misfit, float(fitted[2] - fitted[1])
    )
