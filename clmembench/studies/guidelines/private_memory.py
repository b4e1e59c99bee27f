"""L1 to L4: which private arrays this device's compiler keeps in registers, and the cost of those that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clmembench.analysis.derive import Derived
from clmembench.studies.access.effect import BoundedRatio, bounded_ratio, first_value
from clmembench.studies.access.registers import ARRAYS_OF_PATTERN, RegisterLimit, register_limits
from clmembench.studies.guidelines.advice import (
    Advice,
    RunKnowledge,
    advice_by_ratio,
    format_latency,
    format_ratio,
    undetermined_advice,
)

NO_PRIVATE_ARRAYS = "the run has no private arrays: run benchmark private_array"
K20C_LIMIT_WORDS, K20C_NAME = 73, "a K20c (sm_35)"  # words of a streaming addition: Fang et al. 2017, table 3


def guidelines(known: RunKnowledge) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.1)."""
    found = {(one.pattern, one.indexing): one for one in register_limits(_private_array_values(known))}
    yield small_arrays(known, found)
    yield complicated_indexing(found)
    yield sorting_arrays(known, found)
    yield newer_device(found)


def _private_array_values(known: RunKnowledge) -> list[Derived]:
    return [v for v in known.values if v.benchmark == "private_array"]


def small_arrays(known: RunKnowledge, found: Mapping[tuple[str, str], RegisterLimit]) -> Advice:
    """L1, by streaming additions: the largest array in registers, and the cost of a step with the largest array of all relative
    to it."""
    claim = "small private arrays, simply accessed, stay in registers"
    one = found.get(("add", "static"))
    if one is None or one.limit.status != "ok" or one.limit.low is None:
        return _undetermined_limit_advice("L1", claim, one)
    words = int(one.limit.low)
    cost, spilled = _cost_of_array(known, one, words), _cost_of_array(known, one, _largest_array_words(known, one))
    dearer = bounded_ratio(spilled, cost)
    evidence_of_cost = _ratio_or_limit(dearer, one)
    if words < 1:
        return Advice("L1", claim, "does not hold", *evidence_of_cost, "avoid private arrays: none is kept in registers")
    never = (run_time := found.get(("add", "dynamic"))) is not None and run_time.limit.low == 0 == run_time.limit.value
    largest = _largest_array_words(known, one)
    beyond = (
        f": of {largest} a step takes {format_ratio(dearer)} as long ({format_latency(spilled)}, not {format_latency(cost)})"
        if dearer
        else ""
    )
    advice = f"keep private arrays to {words} words at most, in small work-groups{_cost_text(cost)}{beyond}"
    return Advice(
        "L1", claim, "holds", *evidence_of_cost, advice + "; with an index known only at run time none is kept" * never
    )


def _cost_text(cost: Derived | None) -> str:
    """Price of the largest array: the registers that it takes, and the work-group that still fits."""
    facts = cost.facts if cost is not None else {}
    registers, group = facts.get("registers"), facts.get("work_group_max")
    if not isinstance(registers, int):
        return ""
    return (
        f" ({registers} registers a work-item" + (f": at most {group} of them a group" if isinstance(group, int) else "") + ")"
    )


def complicated_indexing(found: Mapping[tuple[str, str], RegisterLimit]) -> Advice:
    """L2, by the registers that arrays of a small matrix product and of streaming additions take."""
    claim = "complicated access patterns leave room for smaller arrays: simplify them"
    simple, nested = found.get(("add", "static")), found.get(("matmul", "static"))
    if simple is None or nested is None or None in (simple.limit.value, nested.limit.value):
        return _undetermined_limit_advice("L2", claim, nested)
    sizes = [int(one.limit.low or 0) * ARRAYS_OF_PATTERN.get(one.pattern, 1) for one in (simple, nested)]
    most = int(nested.limit.high or 0) * ARRAYS_OF_PATTERN.get("matmul", 1)
    evidence = tuple(dict.fromkeys((*simple.limit.evidence, *nested.limit.evidence)))
    if not sizes[1]:
        return Advice(
            "L2", claim, "holds", None, None, None, "times", evidence, "unroll nested loops: none keeps arrays as they are"
        )
    effect = BoundedRatio(sizes[0] / sizes[1], sizes[0] / max(most, 1), int(simple.limit.high or sizes[0]) / sizes[1], evidence)
    sizes_text = f"the arrays of a matrix product take {sizes[1]} words of registers at most, those of additions {sizes[0]}"
    return advice_by_ratio(
        "L2",
        claim,
        effect,
        f"simplify the pattern: {sizes_text}",
        f"unrolled loops need no simplifying: {sizes_text}",
        "no sizes of both",
    )


def sorting_arrays(known: RunKnowledge, found: Mapping[tuple[str, str], RegisterLimit]) -> Advice:
    """L3: whether an array that is sorted can lie in registers."""
    claim = "an array that is sorted is not kept in registers: replace sorting by something simpler"
    one = found.get(("sort", "static"))
    if one is None or one.limit.status != "ok" or one.limit.low is None:
        return _undetermined_limit_advice("L3", claim, one)
    words = int(one.limit.low)
    loose = found.get(("sort", "dynamic"))
    dearer = None
    if loose is not None:
        dearer = bounded_ratio(_cost_of_array(known, loose, words), _cost_of_array(known, one, words))
    evidence_of_cost = _ratio_or_limit(dearer, one)
    if words < 1:
        return Advice(
            "L3", claim, "holds", *evidence_of_cost, "do without sorting private arrays, as by a mean in place of a median"
        )
    loosely = loose is not None and loose.limit.value == 0
    advice = (
        f"sort by a network of fixed exchanges: up to {words} words stay in registers" + ", by run-time indices none" * loosely
    )
    if dearer is not None:
        advice += f", which takes {format_ratio(dearer)} as long"
    return Advice("L3", claim, "does not hold", *evidence_of_cost, advice)


def newer_device(found: Mapping[tuple[str, str], RegisterLimit]) -> Advice:
    """L4, by comparison with the published limit of an older device."""
    claim = "compilers of today keep larger arrays in registers than that of the paper's time"
    one = found.get(("add", "static"))
    if one is None or one.limit.status != "ok" or not one.limit.low:
        return _undetermined_limit_advice("L4", claim, one)
    low, high = one.limit.low / K20C_LIMIT_WORDS, (one.limit.high or one.limit.low) / K20C_LIMIT_WORDS
    sizes_text = f"{one.limit.low:.0f} words are kept here, {K20C_LIMIT_WORDS} were on {K20C_NAME}"
    return advice_by_ratio(
        "L4",
        claim,
        BoundedRatio(low, low, high, one.limit.evidence),
        f"compile for the device at hand, and hold small arrays privately: {sizes_text}",
        f"expect no more than in the paper: {sizes_text}",
        "",
    )


def _undetermined_limit_advice(name: str, claim: str, one: RegisterLimit | None) -> Advice:
    return undetermined_advice(
        name, claim, NO_PRIVATE_ARRAYS if one is None else one.limit.reason or "the location of the array is unknown"
    )


def _largest_array_words(known: RunKnowledge, one: RegisterLimit) -> int:
    """The largest array that was measured of this pattern."""
    mine = [
        v for v in _private_array_values(known) if (v.params["pattern"], v.params["indexing"]) == (one.pattern, one.indexing)
    ]
    return max((int(v.params["words"]) for v in mine if v.median is not None), default=0)


def _cost_of_array(known: RunKnowledge, one: RegisterLimit, words: int) -> Derived | None:
    return first_value(known.values, "private_array", pattern=one.pattern, indexing=one.indexing, words=words)


def _ratio_or_limit(
    found: BoundedRatio | None, one: RegisterLimit
) -> tuple[float | None, float | None, float | None, str, tuple[str, ...]]:
    evidence = one.limit.evidence
    if found is None:
        return None, None, None, "times", evidence
    return found.value, found.low, found.high, "times", tuple(dict.fromkeys((*evidence, *found.evidence)))
