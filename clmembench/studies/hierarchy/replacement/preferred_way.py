"""Whether one way of a set is drawn as the victim more often than each other: by an exact filter over single accesses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.studies.hierarchy.replacement.drawn_rates import MAX_ABSENT, UnevenSets
from clmembench.studies.hierarchy.replacement.random_victims import SetObservation
from clmembench.studies.hierarchy.replacement.victim_states import WRONG_FLAG_PROBABILITY

# Thresholds and limits, each with its reason
PREFERRED_RATIOS = (1.0, 2.0, 3.0, 5.0)  # how much more often one way is the victim than each other: Fermi's is 3
MAX_PREFERRED_WAYS = 8  # with more there are too many states, and one way that is drawn twice as often hardly matters


@dataclass(frozen=True, slots=True)
class RatioFit:
    """The log-likelihood of which accesses hit, and by how many standard deviations it is off what is expected where the
    model is true."""

    loglik: float
    surprise: float


def fit_ratios(ways: int, observations: Sequence[SetObservation]) -> dict[float, RatioFit] | None:
    """How each ratio of PREFERRED_RATIOS explains which accesses hit; None where that cannot be computed: more ways than
    MAX_PREFERRED_WAYS, or other numbers of lines than one or two more than those.

    A set may hold anything at first, and any way may be the preferred one: only which lines go later tells.
    """
    total, above, variance = (np.zeros(len(PREFERRED_RATIOS)) for _ in range(3))
    for lines, flags in observations:
        names, numbers = np.unique(np.asarray(lines), return_inverse=True)
        absent = names.size - ways
        if ways > MAX_PREFERRED_WAYS or not 0 < absent <= MAX_ABSENT:
            return None
        sets = UnevenSets(ways, names.size, absent, PREFERRED_RATIOS, known=False)
        for line, hit in zip(numbers.tolist(), flags, strict=True):
            if hit is None:
                sets.access(line)
                continue
            of_hit, of_miss = (1 - WRONG_FLAG_PROBABILITY, WRONG_FLAG_PROBABILITY)[:: 1 if hit else -1]
            missed = sets.access(line, of_hit, of_miss)
            seen = np.clip(missed * of_miss + (1 - missed) * of_hit, 1e-12, 1 - 1e-12)
            total += np.log(seen)
            contrast = np.log(seen) - np.log(1 - seen)  # of what was seen against the other
            above += (1 - seen) * contrast
            variance += seen * (1 - seen) * contrast**2
    surprises = above / np.sqrt(np.maximum(variance, 1.0))
    fits = zip(PREFERRED_RATIOS, total.tolist(), surprises.tolist(), strict=True)
    return {ratio: RatioFit(loglik, surprise) for ratio, loglik, surprise in fits}
