"""Prefetch into the last-level cache: how far ahead of sequential accesses data is already cached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Answer, Experiment, Finding, Pattern, Probe, Space
from clmembench.model.address_patterns import NODE_BYTES

PREFETCH_METHOD = "cold accesses in sequence; then one access further and further ahead of a short sequence"
# Thresholds and limits, each with its reason
TRACE_LINES = (64, 256, 1024)  # lines
COLD_PAIR_COUNT, COLD_PAIR_SPACING_BYTES = (
    128,
    (64 << 10) + 4096,
)  # pairs of the cold reference, whole pages apart: no prefetcher has been there
MIN_COLD_TO_WARM_RATIO = 1.2  # times a hit: a cold access faster than that is not distinguishable from one
MIN_FOUND_SHARE = 0.1  # of the accesses in sequence: where fewer find their data, nothing is prefetched
# lines visited, 8 B by 8 B, before the access ahead: enough for a stream to be recognised and for its prefetches to arrive
LEAD_IN_LINES, LONGER_LEAD_IN_LINES = 8, 12  # the latter confirms what the former says
MAX_DISTANCE_RELATIVE_UNCERTAINTY = 0.02  # of the distance: bisection stops there
DISTANCE_UNIT_BYTES = (
    256  # distances are multiples of it: a multiple of every usual line, so that the first sector of a line is probed
)
TRANSLATION_OFFSET_LINES, MIN_PAGE_BYTES = (
    17,
    4096,
)  # lines between the access and the one that loads its translation; the least page there is
RANDOM_SEED = 46  # of the random orders, fixed so that a stored run is read alike


def measure_prefetch(
    line_bytes: int = 128, held_bytes: int = 0, space: Space = "global", most_bytes: int = 64 << 20
) -> Experiment[Finding]:
    """Measure cold traces and infer `prefetch_bytes`: how far ahead of accesses in sequence data is already in a cache.

    0 where cold accesses in sequence find nothing. Where they do, one cold access ahead of a short sequence is tried at
    distances that double and are then bisected, up to `most_bytes`; the value is the greatest at which the data was there, the
    interval reaches to the least at which it was not. The latency of a hit is that of the second lap over `held_bytes`, a set
    that L1 does not hold and the last cache does (0: there is no L1 on the way). Mei & Chu 2015, section 4.6, item 3, saw no
    cold miss in arrays below two thirds of the L2. Undetermined without latencies of single accesses."""
    held = max(TRACE_LINES[0], held_bytes // line_bytes)
    probes = [
        Probe(Pattern("sequential", held, line_bytes), space, "trace", held, held),
        Probe(
            Pattern(
                "pairs",
                COLD_PAIR_COUNT,
                COLD_PAIR_SPACING_BYTES,
                block_bytes=TRANSLATION_OFFSET_LINES * line_bytes,
                seed=RANDOM_SEED,
            ),
            space,
            "trace",
            0,
            2 * COLD_PAIR_COUNT,
            True,
        ),
    ]
    probes += [
        Probe(Pattern(order, count, line_bytes, seed=RANDOM_SEED if order == "random" else 0), space, "trace", 0, count, True)
        for count in TRACE_LINES
        for order in ("sequential", "random")
    ]
    answers = yield probes
    found = cold_sequence_verdict(answers, line_bytes)
    if isinstance(found, Finding):
        return found
    limit, anyway = found
    trials: list[Answer] = []
    low, high, step = -1, 0, 0  # units of UNIT beyond the next line
    while not high and step * DISTANCE_UNIT_BYTES <= most_bytes:
        trials += yield [probe_ahead(step * DISTANCE_UNIT_BYTES, line_bytes, space)]
        low, high = (step, 0) if _is_cached(trials[-1], limit) else (low, max(step, 1))
        step = max(1, 2 * step)
    while low >= 0 and high - low > max(1, MAX_DISTANCE_RELATIVE_UNCERTAINTY * high):
        middle = (low + high) // 2
        trials += yield [probe_ahead(middle * DISTANCE_UNIT_BYTES, line_bytes, space)]
        low, high = (middle, high) if _is_cached(trials[-1], limit) else (low, middle)
    low, high = (
        max(0, low * DISTANCE_UNIT_BYTES + line_bytes) if low >= 0 else 0,
        high * DISTANCE_UNIT_BYTES + line_bytes if high else 0,
    )
    if low and high:
        why = yield from _denied_by_longer(low - line_bytes, high - line_bytes, line_bytes, space, limit, trials)
        if why:
            return _undetermined_prefetch([*answers, *trials], why)
    if anyway and high and low < DISTANCE_UNIT_BYTES:
        why = f"accesses at random find as much: memory is fetched in blocks of more than {line_bytes} B in any order"
        return _undetermined_prefetch([*answers, *trials], why)
    return _distance_finding([*answers, *trials], low, high, line_bytes)


def _denied_by_longer(
    cached: int, missing: int, line_bytes: int, space: Space, limit: float, trials: list[Answer]
) -> Experiment[str]:
    """Why a longer sequence denies the distances at which data is cached and is not, "" where it confirms both."""
    probes = [probe_ahead(beyond, line_bytes, space, LONGER_LEAD_IN_LINES) for beyond in (cached, missing)]
    again = yield probes
    trials += again
    if _is_cached(again[0], limit) and not _is_cached(again[1], limit):
        return ""
    return (
        f"after {LEAD_IN_LINES} lines data is there {cached + line_bytes} B ahead and not {missing + line_bytes} B; "
        f"after {LONGER_LEAD_IN_LINES} lines it is otherwise"
    )


def probe_ahead(beyond_bytes: int, line_bytes: int, space: Space = "global", lead_in_lines: int = LEAD_IN_LINES) -> Probe:
    """A cold trace of a short sequence and one access `beyond_bytes` after its end, which alone is recorded.

    Before that access one of the same page, out of the reach of any stream, so that no TLB is missed.
    """
    nodes, end = lead_in_lines * line_bytes // NODE_BYTES, lead_in_lines * line_bytes
    at, aside = end + beyond_bytes, TRANSLATION_OFFSET_LINES * line_bytes
    touched = at + aside if at % MIN_PAGE_BYTES + aside < MIN_PAGE_BYTES or at - aside < 2 * end else at - aside
    segments = f"0:{NODE_BYTES}:{nodes}:1;{touched}:{NODE_BYTES}:1:1;{at}:{NODE_BYTES}:1:1"
    return Probe(Pattern("segments", segments=segments), space, "trace", nodes + 1, 1, True)


def cold_sequence_verdict(answers: Sequence[Answer], line_bytes: int) -> tuple[float, bool] | Finding:
    """The latency below which cold accesses in sequence found their data, and whether accesses at random find as much; or the
    finding, where none is found.

    `answers`: of a second lap, of cold pairs far apart (the second of a pair finds its page in the TLB), then of cold traces of
    each size, in sequence and at random.
    """
    silent = next((a.reason or "no latencies of single accesses" for a in answers if a.latencies is None), "")
    if silent:
        return _undetermined_prefetch(answers, f"prefetch shows only in latencies of single accesses: {silent}")
    latencies = [np.median(a.latencies, axis=0) for a in answers if a.latencies is not None]
    hit, miss = float(np.percentile(latencies[0], 90)), float(np.median(latencies[1][1::2]))
    if miss < MIN_COLD_TO_WARM_RATIO * hit:
        return _undetermined_prefetch(answers, f"cold accesses take {miss:.4g}, warm ones up to {hit:.4g}: not distinguishable")
    limit = float(np.sqrt(max(hit, 0.0) * max(miss, 0.0)))
    sequence, random = ([float((trace[1:] < limit).mean()) for trace in latencies[n::2]] for n in (2, 3))
    told = ", ".join(f"{s:.0%} and {r:.0%} of {n}" for s, r, n in zip(sequence, random, TRACE_LINES, strict=True))
    if max(sequence) < MIN_FOUND_SHARE:
        return _prefetch_finding(answers, 0.0, 0.0, float(line_bytes))
    if min(sequence) < MIN_FOUND_SHARE:
        return _undetermined_prefetch(answers, f"accesses in sequence and at random find {told} lines: not of all sizes")
    return limit, all(s < r + MIN_FOUND_SHARE for s, r in zip(sequence, random, strict=True))


def _is_cached(answer: Answer, limit: float) -> bool:
    return answer.latencies is not None and float(np.median(answer.latencies)) < limit


def _distance_finding(answers: Sequence[Answer], low: int, high: int, line_bytes: int) -> Finding:
    if not high:
        why = f"data is there at every distance tried, up to {low} B ahead"
        return _undetermined_prefetch(answers, why, float(low))
    if not low:
        why = "accesses in sequence find their data, but not the line that follows a short sequence"
        return _undetermined_prefetch(answers, why, 0.0)
    return _prefetch_finding(answers, float(low), float(low), float(high))


def _prefetch_finding(answers: Sequence[Answer], value: float, low: float, high: float) -> Finding:
    return Finding("prefetch_bytes", value, low, high, "B", "ok", PREFETCH_METHOD, _evidence_of_answers(answers))


def _undetermined_prefetch(answers: Sequence[Answer], why: str, low: float | None = None) -> Finding:
    return Finding("prefetch_bytes", None, low, None, "B", "undetermined", PREFETCH_METHOD, _evidence_of_answers(answers), why)


def _evidence_of_answers(answers: Sequence[Answer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e for a in answers for e in a.evidence))
