"""Which age-based policies explain what hit and what missed in one set, access by access."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.studies.hierarchy.replacement.cache_set import SetMaker
from clmembench.studies.hierarchy.replacement.policies import MAX_WRONG_FLAG_SHARE
from clmembench.studies.hierarchy.replacement.policy_forms import age_forms
from clmembench.studies.hierarchy.replacement.random_victims import SetObservation

# Thresholds, each with its reason
MIN_TOLD_ACCESSES = 600  # beyond a set's first lap: there are hundreds of variants, and few accesses suit some by chance
MIN_SEQUENCES = 3  # of accesses in different orders: for the same reason


def explaining_age_policies(ways: int, observations: Sequence[SetObservation]) -> list[str]:
    """The names of age-based policies that call at most 1% of the flags wrong, from an empty set on; none where the
    observations are few."""
    told = [(lines, flags) for lines, flags in observations if len(set(lines)) > ways]
    beyond = sum(len(lines) - len(set(lines)) for lines, _ in told)
    if len({tuple(lines) for lines, _ in told}) < MIN_SEQUENCES or beyond < MIN_TOLD_ACCESSES:
        return []
    most = int(MAX_WRONG_FLAG_SHARE * sum(len(lines) for lines, _ in told))
    return [form.name for form in age_forms(established=False) if form.maker and _explains(form.maker, ways, told, most)]


def _explains(maker: SetMaker, ways: int, observations: Sequence[SetObservation], most: int) -> bool:
    """True if a policy calls at most so many flags wrong."""
    wrong = 0
    for lines, flags in observations:
        one = maker(ways)
        for line, hit in zip(lines, flags, strict=True):
            said = one.access(line)
            wrong += hit is not None and said != hit
            if wrong > most:
                return False
    return True
