"""Whether more or less of a metric is better: the one place where its word, "higher" or "lower", becomes arithmetic."""

from __future__ import annotations


def more_is_better(better: str) -> bool:
    """Whether a larger value is a better one. Stored words other than "higher" mean that it is not."""
    return better == "higher"


def sign(better: str) -> int:
    """1 or -1: times a value, or the logarithm of a ratio of two, it is larger where that is better."""
    return 1 if more_is_better(better) else -1


def gain(ratio: float, better: str) -> float:
    """How many times as good one value is as another, from their ratio, which is not 0."""
    return ratio if more_is_better(better) else 1 / ratio


def score(value: float, better: str) -> float:
    """A value turned so that more is better; 0 where less is better and the value is not above 0."""
    if more_is_better(better):
        return value
    return 1 / value if value > 0 else 0.0
