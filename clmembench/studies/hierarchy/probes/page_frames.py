"""A latency curve free of the chance of page frames: the same working sets at other places of the buffer. Pure.

Where pages lie in random frames, a cache that is addressed by frames begins to miss where by chance more pages than it has ways
share a place in it. The curve then rises in steps as high as such pages are many: levels that do not exist. At other places of
the buffer, in other frames, the steps are others, so that their mean rises smoothly; a level's plateau is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from clmembench.model import Answer, Experiment, Probe
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, MIN_RELATIVE_LAP_NOISE, ChaseLayout, ProbeSession

# Thresholds and limits, each with its reason
PLACES = 5  # of a working set, the first one included: the fastest and the slowest are left out, one of which may be disturbed
MIN_PLACE_BYTES = 64 << 10  # between places: longer than most pages that lie in random frames
MIN_DIFFERING_RELATIVE = 0.02  # between two places: less is noise
MAX_STEADY_RELATIVE = 0.01  # between places of one working set on a plateau
MIN_DIFFERING_POINTS = 2  # working sets that differ: one may be disturbed


def at_place(lap: Probe, number: int) -> Probe:
    """The same lap at another place of the buffer, each place as long as the lap, rounded up to a power of two."""
    pattern = lap.pattern
    apart = max(MIN_PLACE_BYTES, 1 << (pattern.count * pattern.stride_bytes - 1).bit_length())
    places = f"{number * apart}:{pattern.stride_bytes}:{pattern.count}:1"
    return replace(lap, pattern=replace(pattern, segments=places))


@dataclass(frozen=True, slots=True)
class FrameAverages:
    """Answers by size, and by how much the latencies of places differ, relative, where by more than noise; `compared`: at all
    places, False where two places show that frames do not matter."""

    answers: Mapping[int, Answer]
    spreads: Mapping[int, float] = field(default_factory=dict)
    compared: bool = False


def averaged_over_frames(
    asked: ProbeSession, chase: ChaseLayout, stride: int, first: Mapping[int, Answer], noise: float, is_soft: bool = False
) -> Experiment[FrameAverages]:
    """The answers of laps, `first` being those at the first place by size in bytes, each the mean over several places of the
    buffer where places differ, or are known to (`is_soft`); as they are where none do, as where an address chooses the place in
    a cache, or where there is no answer."""
    laps = {size: chase.lap(size // stride, stride) for size in first}
    every = {size: [answer] for size, answer in first.items()}
    for number in range(1, PLACES):
        answers = yield from asked.all([at_place(lap, number) for lap in laps.values()])
        if any(answer.value is None for answer in answers):
            return FrameAverages(first)
        for of, answer in zip(every.values(), answers, strict=True):
            of.append(answer)
        differing = sum(_spread(of) > _noise_spread(MIN_DIFFERING_RELATIVE, noise) for of in every.values())
        if number == 1 and not is_soft and differing < MIN_DIFFERING_POINTS:
            return FrameAverages(first)
    middle = {size: sorted(of, key=lambda answer: answer.value or 0.0)[1:-1] for size, of in every.items()}
    spreads = {size: _spread(of) for size, of in middle.items() if _spread(of) > _noise_spread(MAX_STEADY_RELATIVE, noise)}
    return FrameAverages({size: _mean(middle[size], every[size]) for size in every}, spreads, True)


def _noise_spread(least: float, noise: float) -> float:
    return max(least, LAP_NOISE_SIGMAS * max(MIN_RELATIVE_LAP_NOISE, noise))


def _spread(answers: Sequence[Answer]) -> float:
    """The relative range of some answers."""
    values = [answer.value or 0.0 for answer in answers]
    return (max(values) - min(values)) / max(values)


def _mean(middle: Sequence[Answer], every: Sequence[Answer]) -> Answer:
    """The mean of the answers in the middle, with the records of every one."""
    value, first = sum(answer.value or 0.0 for answer in middle) / len(middle), every[0]
    scale = value / (first.value or value)
    names = tuple(dict.fromkeys(name for answer in every for name in answer.evidence))
    low, high, ns = (None if end is None else end * scale for end in (first.low, first.high, first.ns))
    return replace(first, value=value, low=low, high=high, ns=ns, evidence=names)
