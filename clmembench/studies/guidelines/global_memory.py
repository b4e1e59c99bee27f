"""G1 to G4: effects of patterns, data types and numbers of work-items on this device's global memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from clmembench.model import Finding
from clmembench.studies.access.effect import BoundedRatio, bounded_ratio, first_value, values_with
from clmembench.studies.guidelines.advice import (
    MEASURE_AGAIN_ADVICE,
    MIN_WORTHWHILE_RATIO,
    ORDER_VERDICTS,
    RUN_ACCESS,
    TURNS_UNKNOWN,
    Advice,
    RunKnowledge,
    advice_by_ratio,
    advice_by_simultaneity,
    format_latency,
    format_ratio,
    undetermined_advice,
)

NARROW_TYPE, PACKED_TYPE = "char", "char4"
WIDE_TYPES = ("int", "float", "char4", "double")  # of 4 and 8 bytes
DEVICE_COPY_TYPE = "device_copy"
NEAREST_CACHE_ALONE = ": these loads hit the nearest cache, which says nothing about memory itself"
KEEP_ORDER_ADVICE = (
    "let neighbouring work-items read neighbouring words: the cost of other orders beyond the nearest cache is unknown"
)
ALIGNMENT_VERDICTS = ("aligned", "aligned_loaded")


def guidelines(known: RunKnowledge) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.4)."""
    yield advice_by_simultaneity(
        known,
        "G1",
        "global",
        "global memory serves a sub-group's work-items at once, on one word and on many",
        "read neighbouring words by neighbouring work-items: a sub-group waits "
        f"{format_latency(known.load('global', known.wide))}, "
        f"as one work-item does ({format_latency(known.load('global', 1))})",
        "have fewer work-items read from global memory at a time",
    )
    yield data_types(known)
    yield access_patterns(known)
    yield scattered_access(known)


def data_types(known: RunKnowledge) -> Advice:
    """G2, by copies of single bytes and of four of them packed, each in its best configuration, compared with the device's own
    copy."""
    claim = "types of 4 and 8 bytes reach the bandwidth of global memory, and char does not: pack it into char4"
    by = {str(v.params["dtype"]): v for v in values_with(known.values, "datatypes")}
    ratio = bounded_ratio(by.get(PACKED_TYPE), by.get(NARROW_TYPE))
    best = {t: r for t in WIDE_TYPES if (r := bounded_ratio(by.get(t), by.get(DEVICE_COPY_TYPE))) is not None}
    near = f"; of the device's own copy {', '.join(f'{t} reaches {r.value:.0%}' for t, r in best.items())}" if best else ""
    advice = advice_by_ratio(
        "G2",
        claim,
        ratio,
        f"move bytes as {PACKED_TYPE} or wider: {format_ratio(ratio)} the bandwidth of {NARROW_TYPE}{near}",
        f"leave bytes as they are: {PACKED_TYPE} moves {format_ratio(ratio)} what {NARROW_TYPE} does{near}",
        "the run has no copies by data type: run benchmark datatypes",
    )
    if advice.verdict != "holds":
        return advice
    if not best:
        return replace(advice, verdict="undetermined", reason="the device's own copy has no value to compare wide types with")
    short = [t for t, r in best.items() if r.high < 1 / MIN_WORTHWHILE_RATIO]
    if short:
        return replace(advice, verdict="does not hold", reason=f"{', '.join(short)}: well below the device's own copy")
    return advice


def access_patterns(known: RunKnowledge) -> Advice:
    """G3, which makes two claims: both must hold, in one group and in several."""
    claim = "global memory needs consecutive accesses, which need not be aligned"
    near, past = (m.verdicts if (m := known.memories.get(name)) else {} for name in ("global", "global_cg"))
    order, place = _worst_ratio(near, ORDER_VERDICTS), _worst_ratio(near, ALIGNMENT_VERDICTS)
    if order is None or place is None:
        return undetermined_advice("G3", claim, f"the run has no patterns of global memory: {RUN_ACCESS}")
    beyond = _worst_ratio(past, ORDER_VERDICTS)
    evidence = tuple(dict.fromkeys((*order.evidence, *place.evidence)))
    effect = (order.value, order.low, order.high, "times", evidence)
    deep = f", {format_ratio(beyond)} past L1" if beyond is not None else ""
    apart = f"scattered ones take up to {format_ratio(order)} as long{deep}"
    wants, needs = order.low >= MIN_WORTHWHILE_RATIO, place.low >= MIN_WORTHWHILE_RATIO
    if (not wants and order.high >= MIN_WORTHWHILE_RATIO) or (not needs and place.high >= MIN_WORTHWHILE_RATIO):
        reason = f"scattered {order.low:.3g} to {order.high:.3g}, shifted or permuted {place.low:.3g} to {place.high:.3g} times"
        return Advice("G3", claim, "undetermined", *effect, MEASURE_AGAIN_ADVICE, reason)
    if wants and needs:
        skewed = f"align them as well, which costs up to {format_ratio(place)} otherwise"
        return Advice(
            "G3", claim, "does not hold", *effect, f"let neighbouring work-items read neighbouring words: {apart}; {skewed}"
        )
    if wants and known.info.compute_units > 1 and _worst_ratio(near, ALIGNMENT_VERDICTS[1:]) is None:
        reason = "the run has no shifted or permuted loads by several work-groups"
        return Advice(
            "G3", claim, "undetermined", *effect, f"let neighbouring work-items read neighbouring words: {apart}", reason
        )
    if wants:
        advice = f"let neighbouring work-items read neighbouring words: {apart}; do not align them for speed"
        return Advice("G3", claim, "holds", *effect, advice)
    if beyond is None or beyond.high >= MIN_WORTHWHILE_RATIO:
        reason = f"scattered accesses take at most {order.high:.2f} times as long{deep}{NEAREST_CACHE_ALONE}"
        return Advice("G3", claim, "undetermined", *effect, KEEP_ORDER_ADVICE, reason)
    advice = f"the order of accesses hardly matters here: scattered ones take at most {order.high:.2f} times as long{deep}"
    return Advice("G3", claim, "does not hold", *effect, advice)


def _worst_ratio(verdicts: Mapping[str, Finding], names: Sequence[str]) -> BoundedRatio | None:
    """The largest ratio behind these verdicts, in one group and, if measured, in several; None if the former is missing."""
    bounded = [verdicts[n] for n in names if n in verdicts and verdicts[n].high is not None]
    if not bounded or verdicts.get(names[0]) not in bounded:
        return None
    worst = max(bounded, key=lambda f: f.low or 0.0)
    low, high = worst.low or 0.0, max(f.high or 0.0 for f in bounded)
    return BoundedRatio(
        (low * (worst.high or low)) ** 0.5, low, high, tuple(dict.fromkeys(e for f in bounded for e in f.evidence))
    )


def scattered_access(known: RunKnowledge) -> Advice:
    """G4: scattered loads over work-items of one group, and over groups."""
    claim = "where accesses are not consecutive, latency grows with a group's work-items and not with the number of groups"
    items, groups = _growth_by_items(known), _growth_by_groups(known)
    if items is None or groups is None:
        return undetermined_advice("G4", claim, f"the run has no scattered loads over work-items and groups: {RUN_ACCESS}")
    evidence = tuple(dict.fromkeys((*items[1].evidence, *groups[1].evidence)))
    effect = (items[1].value, items[1].low, items[1].high, "times", evidence)
    over = f"{format_ratio(items[1])} with {items[0]} work-items in a group, {format_ratio(groups[1])} with {groups[0]} groups"
    if not known.taking_turns() and not known.side_by_side():
        return Advice("G4", claim, "undetermined", *effect, RUN_ACCESS, TURNS_UNKNOWN)
    grows, flat = (
        (items[1].low >= MIN_WORTHWHILE_RATIO, groups[1].low >= MIN_WORTHWHILE_RATIO),
        (items[1].high < MIN_WORTHWHILE_RATIO, groups[1].high < MIN_WORTHWHILE_RATIO),
    )
    gone = known.without_value("subgroup", memory="global", pattern="scattered")
    if any(flat) and gone:
        return Advice(
            "G4", claim, "undetermined", *effect, MEASURE_AGAIN_ADVICE, f"{over}; {gone} scattered loads have no value"
        )
    if grows[0] and flat[1]:
        return Advice("G4", claim, "holds", *effect, f"choose the work-group size for scattered accesses: {over}")
    if all(flat):
        return Advice("G4", claim, "undetermined", *effect, KEEP_ORDER_ADVICE, f"{over}{NEAREST_CACHE_ALONE}")
    if grows[1] or flat[0]:
        return Advice("G4", claim, "does not hold", *effect, f"keep scattered accesses few however they are launched: {over}")
    return Advice("G4", claim, "undetermined", *effect, MEASURE_AGAIN_ADVICE, f"{over}, within the noise")


def _growth_by_items(known: RunKnowledge) -> tuple[int, BoundedRatio] | None:
    """Latency of scattered loads by the largest group over that by one sub-group; if work-items run one after another, divided
    by the same ratio of consecutive loads."""
    sizes = [n for n in known.sizes("global", "items", pattern="scattered", groups=1) if n >= known.wide]
    if len(sizes) < 2:
        return None
    ratio = bounded_ratio(*(known.load("global", n, pattern="scattered") for n in (sizes[-1], sizes[0])))
    anyway = bounded_ratio(*(known.load("global", n) for n in (sizes[-1], sizes[0])))
    if ratio is None or anyway is None:
        return None
    if known.taking_turns():
        ratio = BoundedRatio(ratio.value / anyway.value, ratio.low / anyway.high, ratio.high / anyway.low, ratio.evidence)
    return sizes[-1], ratio


def _growth_by_groups(known: RunKnowledge) -> tuple[int, BoundedRatio] | None:
    """Latency of scattered loads by the most groups over that by one group of as many work-items."""
    sizes = known.side_by_side_groups(known.sizes("global", "groups", pattern="scattered"))
    if len(sizes) < 2:
        return None
    items = known.sizes("global", "items", pattern="scattered", groups=sizes[-1])[0]
    many, one = (
        first_value(known.values, "subgroup", memory="global", pattern="scattered", items=items, groups=n)
        for n in (sizes[-1], sizes[0])
    )
    over = bounded_ratio(many, one)
    return None if over is None else (sizes[-1], over)
