"""S1 to S6: whether bank conflicts, patterns, work-group sizes and reuse matter in the local memory of this device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clmembench.analysis.derive import Derived
from clmembench.studies.access.banks import bank_accesses, study_banks
from clmembench.studies.access.effect import BoundedRatio, bounded_ratio
from clmembench.studies.guidelines.advice import (
    MEASURE_AGAIN_ADVICE,
    MIN_WORTHWHILE_RATIO,
    RUN_ACCESS,
    Advice,
    RunKnowledge,
    advice_by_findings,
    advice_by_ratio,
    advice_by_simultaneity,
    format_latency,
    format_ratio,
    inapplicable_advice,
    only_if_complete,
    undetermined_advice,
)

NO_STRIDES = "the run has no latency of local memory by stride: run benchmark banks"
TELLING_STRIDES = frozenset({2, 4, 8, 16, 32})  # words: strides that map ever more work-items to one of the usual 32 banks
NEGLIGIBLE_EFFECTS = ("none", "gain", "at most small")


def guidelines(known: RunKnowledge) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.2)."""
    banked = study_banks(*bank_accesses(known.values)).findings["memory"].value == "banked"
    yield bank_conflicts(known)
    yield advice_by_simultaneity(
        known,
        "S2",
        "local",
        "local memory serves a sub-group's work-items at once, on one word and on many",
        "read one word or neighbouring ones, as suits: a sub-group waits "
        f"{format_latency(known.load('local', known.wide))} either way",
        "arrange reads so that a sub-group reads few different words at a time",
    )
    yield advice_by_findings(
        known,
        "S3",
        "local memory needs neither consecutive nor aligned access",
        "local",
        dict.fromkeys(("aligned", "aligned_loaded", "consecutive", "consecutive_loaded"), NEGLIGIBLE_EFFECTS),
        "index local memory in any order" + ", as long as no two work-items of a sub-group use one bank" * banked,
        "read neighbouring words of local memory by neighbouring work-items: other orders cost time here",
    )
    yield local_work_group_size(known)
    yield local_instead_of_global(known)
    yield data_reuse(known)


def bank_conflicts(known: RunKnowledge) -> Advice:
    """S1, by the worst of the strides that map work-items to one bank, against the same stride plus one word of padding."""
    claim = "bank conflicts must be avoided, by padding for one"
    items = usual_work_items(known)
    points = [v for v in known.values if v.benchmark == "banks" and v.params["word_bytes"] == 4 and v.params["items"] == items]
    by = {int(v.params["stride"]): v for v in points}
    padding_gains = {
        stride: r for stride in by if (r := bounded_ratio(by[stride], by.get(stride + 1))) is not None and stride > 1
    }
    if not padding_gains:
        return undetermined_advice("S1", claim, NO_STRIDES)
    stride, worst = max(padding_gains.items(), key=lambda pair: pair[1].value)
    pad = (
        f"pad rows of {stride} words to {stride + 1}: a column of them takes {format_ratio(worst)} as long "
        f"({format_latency(by[stride])}, not {format_latency(by[stride + 1])})"
    )
    leave = (
        f"do not pad: no stride up to {max(padding_gains)} words costs over {worst.high:.2g} times the latency of the next one"
    )
    advice = advice_by_ratio("S1", claim, worst, pad, leave, NO_STRIDES)
    memory = study_banks(*bank_accesses(known.values)).findings["memory"]
    if memory.value != "ordinary":
        return only_if_complete(
            advice, sum(v.status != "ok" for v in points) or len(TELLING_STRIDES - padding_gains.keys()), "strides"
        )
    why = f"there are no banks here ({memory.reason})"
    more = f"; yet {pad}" if worst.low >= MIN_WORTHWHILE_RATIO else ""
    return replace(advice, verdict="not applicable", advice=f"{why}{more}", reason="")


def usual_work_items(known: RunKnowledge) -> int:
    """Work-items that most points of `banks` were measured with."""
    counts: dict[int, int] = {}
    for value in known.values:
        if value.benchmark == "banks":
            items = int(value.params["items"])
            counts[items] = counts.get(items, 0) + 1
    return max(counts, key=lambda items: counts[items], default=0)


def local_work_group_size(known: RunKnowledge) -> Advice:
    """S4, by the time of a load for each work-item, of one sub-group and of the largest work-group."""
    claim = "time for each load falls as work-items of a group grow: use large enough work-groups"
    sizes = [n for n in known.sizes("local", "items", groups=1, pattern="consecutive", degree=1) if n >= known.wide > 0]
    words_per_time = _load_time_per_item(known, sizes)
    if len(words_per_time) < 2:
        return undetermined_advice(
            "S4", claim, f"the run has no loads of several work-group sizes from local memory: {RUN_ACCESS}"
        )
    few, most = sizes[0], max(words_per_time, key=lambda n: words_per_time[n].value)
    enough = min(n for n in words_per_time if words_per_time[n].high * MIN_WORTHWHILE_RATIO >= words_per_time[most].low)
    size = "the largest work-groups" if enough >= known.info.max_work_group else f"work-groups of {enough} or more"
    advice = advice_by_ratio(
        "S4",
        claim,
        words_per_time[most],
        f"keep many work-items on a compute unit: {size}, or several smaller ones; {most} load "
        f"{format_ratio(words_per_time[most])} as "
        f"many words in the same time as {few}",
        f"work-groups above {few} bring nothing: the time of a load grows with their work-items",
        "",
    )
    gone = known.without_value("subgroup", memory="local", groups=1, pattern="consecutive", degree=1)
    return only_if_complete(advice, gone, "work-group sizes")


def _load_time_per_item(known: RunKnowledge, sizes: list[int]) -> dict[int, BoundedRatio]:
    """Words loaded per time by each size, relative to the first size."""
    loads = {n: known.load("local", n) for n in sizes}
    words_per_time = {}
    for n in sizes:
        slower = bounded_ratio(loads[n], loads[sizes[0]])
        if slower is not None:
            more = n / sizes[0]
            words_per_time[n] = BoundedRatio(more / slower.value, more / slower.high, more / slower.low, slower.evidence)
    return words_per_time


def local_instead_of_global(known: RunKnowledge) -> Advice:
    """S5, by one work-item's loads that hit the nearest cache: global memory at its best."""
    there, here = known.nearest(), known.load("local", 1)
    ratio = bounded_ratio(there, here)
    past = bounded_ratio(known.load("global_cg", 1), here)
    beyond = f", past L1 {format_ratio(past)}" if past is not None else ""
    return advice_by_ratio(
        "S5",
        "local memory has a lower latency than global memory and should replace it",
        ratio,
        f"stage data that many loads wait for in local memory: a load takes {format_latency(here)}, from global memory's "
        f"nearest cache "
        f"{format_latency(there)} ({format_ratio(ratio)}{beyond})",
        f"do not copy to local memory for its latency: it is ordinary memory here ({format_latency(here)}; "
        "global memory's nearest "
        f"cache {format_latency(there)})",
        f"the run has no loads of one work-item from both: {RUN_ACCESS}",
    )


def data_reuse(known: RunKnowledge) -> Advice:
    """S6, by the number of reads from which staging a word pays: the faster loads must save a load from global memory and a
    store."""
    claim = "a copy to local memory costs time itself: staged data must be reused"
    there, here = known.nearest(), known.load("local", 1)
    nearer, found = bounded_ratio(there, here), break_even_reuse(there, here)
    if nearer is None:
        return undetermined_advice(
            "S6", claim, f"the run has no loads of one work-item from both memories: {RUN_ACCESS}", unit="reads"
        )
    if found is None:
        if nearer.high < MIN_WORTHWHILE_RATIO:
            advice = "leave data in global memory: its loads take no longer here, so no number of reads pays for a copy"
            return inapplicable_advice("S6", claim, advice, nearer.evidence, unit="reads")
        effect = (None, None, None, "reads", nearer.evidence)
        return Advice("S6", claim, "undetermined", *effect, MEASURE_AGAIN_ADVICE, "the difference is within the noise")
    return advice_by_ratio(
        "S6",
        claim,
        found,
        f"stage what each work-item reads {found.value:.2g} times or more, compared with dependent loads that hit the "
        f"nearest cache",
        "stage it even if it is read once",
        "",
        least=1.0,
        unit="reads",
    )


def break_even_reuse(there: Derived | None, here: Derived | None) -> BoundedRatio | None:
    """Number of reads of a word from which a copy to `here` pays; None if loads `there` may be no slower. Assumes that a store
    is no slower than a load."""
    slower = bounded_ratio(there, here)
    if slower is None or slower.low <= 1.0:
        return None
    reads = [(r + 1) / (r - 1) for r in (slower.value, slower.high, slower.low)]
    return BoundedRatio(reads[0], reads[1], reads[2], slower.evidence)
