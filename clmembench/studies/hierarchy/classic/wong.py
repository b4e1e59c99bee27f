"""Wong et al. 2010: a pointer chase over array sizes at one stride, and the method's conclusions. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from clmembench.model import Answer, Array, Experiment, Finding, Pattern, Probe, Space
from clmembench.studies.hierarchy.classic.chase_answers import (
    MIN_FULL_MISS_RATE,
    conclusion,
    fitting_bytes,
    hit_latency,
    knee_bytes,
    latency_by_size,
    no_conclusions,
    unanswered_sizes,
    why_no_knee,
)

WONG = "Wong 2010"
# Thresholds and limits, each with its reason
MEDIAN_WINDOW_SIZES = 5  # sizes of a running median: misses only increase with size, so it removes only disturbances
MIN_CURVE_SIZES = 8  # of the curve over sizes: fewer show no steps
MIN_LATENCY_STEP_SIGMAS = 6.0  # times the measurement's noise: a lower step may be noise
MAX_WAYS_ROUNDING_ERROR = 0.25  # allowed deviation from a whole number of the ways that a step gives


def wong_chases(
    stride_bytes: int = 32,
    space: Space = "global",
    first_bytes: int = 1024,
    most_bytes: int = 1 << 21,
    most_sizes: int = 1024,
) -> Experiment[tuple[Answer, ...]]:
    """Requests the latency over array sizes at one stride: octaves up to four times the first that misses, then every
    `stride_bytes` (or as many sizes as `most_sizes` allows) from the last that fits to the first at which all accesses miss.

    Returns every answer. Wong et al. 2010, as in Mei & Chu 2015, section 4.1.
    """

    def probes(sizes: Sequence[int]) -> list[Probe]:
        return [Probe(Pattern("sequential", size // stride_bytes, stride_bytes), space) for size in sizes]

    answers: list[Answer] = []
    size = first_bytes
    while size <= (4 * knee_bytes(answers) or most_bytes):
        answers += yield probes([size, size * 3 // 2])
        size *= 2
    curve, slow_from = latency_by_size(answers), knee_bytes(answers)
    fits = [n for n in curve if n < slow_from]
    if slow_from and fits:
        full = [n for n in curve if n >= slow_from and curve[n][0] >= MIN_FULL_MISS_RATE * max(t for t, _ in curve.values())]
        last = min(full, default=2 * slow_from)
        step = stride_bytes * max(1, -(-(last - fits[-1]) // (stride_bytes * most_sizes)))
        answers += yield probes(range(fits[-1] + step, last + step, step))
    return tuple(answers)


def read_wong(answers: Sequence[Answer]) -> Mapping[str, Finding]:
    """Conclusions of Wong's method about size_bytes, line_bytes, sets and ways, by equation (2) of Mei & Chu 2015.

    Beyond C each further line overflows one more set, so latency rises in steps, each as wide as a line and one per set, until
    every access misses. Ways follow from the capacity. If a step is no wider than the stride, the line size cannot be seen, and
    ways are the accesses that start to miss in a step, less 1."""
    curve = latency_by_size(answers)
    stride = answers[0].probe.pattern.stride_bytes if answers else 0
    hit, fits, knee = hit_latency(answers), fitting_bytes(answers), knee_bytes(answers)
    if hit is None or not knee or fits is None:
        why = why_no_knee(answers)
        size = conclusion("size_bytes", None, WONG, why, answers, fits)
        return {"size_bytes": size, **no_conclusions(WONG, why, answers)}
    slow = [n for n in curve if n >= knee]
    gone = [n for n in unanswered_sizes(answers) if n > fits]
    if gone or len(curve) < MIN_CURVE_SIZES:
        why = f"an array of {gone[0]} B has no answer" if gone else f"only {len(curve)} arrays were measured"
        size = conclusion("size_bytes", None, WONG, why, answers, fits, knee)
        return {"size_bytes": size, **no_conclusions(WONG, why, answers)}
    top = curve[max(curve)][0]
    sizes = np.array(sorted(curve))
    step = int(np.diff(sizes).min())
    near = np.diff(sizes) == step
    dense = sizes[np.r_[near, False] | np.r_[False, near]]
    times, noise = (np.array([curve[int(n)][k] for n in dense]) for k in (0, 1))
    scale = dense / stride / (top - hit)
    missing, sigma = _running_median((times - hit) * scale), float(np.median(noise * scale)) * math.sqrt(2)
    rises = np.diff(missing)
    jumps = np.flatnonzero(rises > max(rises.max() / 2, MIN_LATENCY_STEP_SIGMAS * sigma))
    if jumps.size == 0 or step > stride:
        why = (
            "steps of latency are not distinguishable from noise"
            if step == stride
            else ("the sweep was too coarse to resolve steps")
        )
    elif rises.min() < -max(rises.max() / 2, MIN_LATENCY_STEP_SIGMAS * sigma):
        why = "latency falls as arrays grow: the sweep was disturbed"
    elif np.unique(np.diff(jumps)).size > 1:
        widths = stride * np.diff(jumps)
        why = f"the steps are {widths.min()} to {widths.max()} B wide, not equally wide"
    else:
        return _findings_of_steps(answers, int(dense[jumps[0]]), jumps, rises, stride)
    size = conclusion("size_bytes", None, WONG, why, answers, int(dense[0]), min(slow))
    return {"size_bytes": size, **no_conclusions(WONG, why, answers)}


def _findings_of_steps(
    answers: Sequence[Answer], capacity: int, jumps: Array, rises: Array, stride: int
) -> Mapping[str, Finding]:
    """Findings from the positions of the steps (in strides) and their heights (in accesses that start to miss)."""
    size = conclusion("size_bytes", capacity, WONG, "", answers)
    sets = int(jumps.size)
    width = int(jumps[1] - jumps[0]) if sets > 1 else 0
    line = stride * width if width > 1 else None
    ways = capacity / (sets * line) if line else float(np.median(rises[jumps])) - 1
    if abs(ways - round(ways)) > MAX_WAYS_ROUNDING_ERROR or ways < MAX_WAYS_ROUNDING_ERROR:
        why = f"{sets} steps would mean {ways:.2f} ways"
        return {"size_bytes": size, **no_conclusions(WONG, why, answers)}
    if line is None:  # no wider than the stride, or a single step
        line = capacity // (sets * round(ways)) if capacity % (sets * round(ways)) == 0 else None
        line = line if line is not None and line <= stride and line & (line - 1) == 0 else None
    unseen = "steps are no wider than the stride"
    return {
        "size_bytes": size,
        "line_bytes": conclusion("line_bytes", line, WONG, unseen, answers, None, None if line else stride),
        "sets": conclusion("sets", sets, WONG, "", answers),
        "ways": conclusion("ways", round(ways), WONG, "", answers),
    }


def _running_median(values: Array) -> Array:
    """Running median of five values, of fewer near the ends. Shape of `values`."""
    reach = MEDIAN_WINDOW_SIZES // 2
    ends = [(max(0, n - reach), min(len(values), n + reach + 1)) for n in range(len(values))]
    return np.array(
        [np.median(values[n - min(n - a, b - n - 1) : n + min(n - a, b - n - 1) + 1]) for n, (a, b) in enumerate(ends)]
    )
