"""L1 to L4: which private arrays this device's compiler keeps in registers, and what one that it does not keep costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clmembench.analysis.derive import Derived
from clmembench.infer.access.registers import ARRAYS, Kept, kept
from clmembench.infer.effect import Ratio, pick, ratio
from clmembench.infer.guidelines.advice import Advice, Known, cycles, judged, times, unknown

RUN = "the run has no private arrays: run benchmark private_array"
BEFORE, OLDER = 73, "a K20c (sm_35)"  # words of a streaming addition: Fang et al. 2017, table 3


def guidelines(known: Known) -> Iterator[Advice]:
    """Each in the order of the paper (Fang et al. 2017, section 7.1)."""
    found = {(one.pattern, one.indexing): one for one in kept(_mine(known))}
    yield small(known, found)
    yield complicated(found)
    yield sorting(known, found)
    yield newer(found)


def _mine(known: Known) -> list[Derived]:
    return [v for v in known.values if v.benchmark == "private_array"]


def small(known: Known, found: Mapping[tuple[str, str], Kept]) -> Advice:
    """L1, by streaming additions: the largest array in registers, and a step with the largest of all beside one with it."""
    claim = "small private arrays, simply accessed, stay in registers"
    one = found.get(("add", "static"))
    if one is None or one.limit.status != "ok" or one.limit.low is None:
        return _open("L1", claim, one)
    words = int(one.limit.low)
    cost, spilled = _cost(known, one, words), _cost(known, one, _largest(known, one))
    dearer = ratio(spilled, cost)
    told = _told(dearer, one)
    if words < 1:
        return Advice("L1", claim, "does not hold", *told, "avoid private arrays: none is kept in registers")
    never = (run_time := found.get(("add", "dynamic"))) is not None and run_time.limit.low == 0 == run_time.limit.value
    largest = _largest(known, one)
    beyond = f": of {largest} a step takes {times(dearer)} as long ({cycles(spilled)}, not {cycles(cost)})" if dearer else ""
    advice = f"keep private arrays to {words} words at most, in small work-groups{_taken(cost)}{beyond}"
    return Advice("L1", claim, "holds", *told, advice + "; with an index known only at run time none is kept" * never)


def _taken(cost: Derived | None) -> str:
    """Price of the largest array: the registers that it takes, and the work-group that still fits."""
    facts = cost.facts if cost is not None else {}
    registers, group = facts.get("registers"), facts.get("work_group_max")
    if not isinstance(registers, int):
        return ""
    return (
        f" ({registers} registers a work-item" + (f": at most {group} of them a group" if isinstance(group, int) else "") + ")"
    )


def complicated(found: Mapping[tuple[str, str], Kept]) -> Advice:
    """L2, by what arrays of a small matrix product and of streaming additions take of registers."""
    claim = "complicated access patterns leave room for smaller arrays: simplify them"
    simple, nested = found.get(("add", "static")), found.get(("matmul", "static"))
    if simple is None or nested is None or None in (simple.limit.value, nested.limit.value):
        return _open("L2", claim, nested)
    sizes = [int(one.limit.low or 0) * ARRAYS.get(one.pattern, 1) for one in (simple, nested)]
    most = int(nested.limit.high or 0) * ARRAYS.get("matmul", 1)
    evidence = tuple(dict.fromkeys((*simple.limit.evidence, *nested.limit.evidence)))
    if not sizes[1]:
        return Advice(
            "L2", claim, "holds", None, None, None, "times", evidence, "unroll nested loops: none keeps arrays as they are"
        )
    effect = Ratio(sizes[0] / sizes[1], sizes[0] / max(most, 1), int(simple.limit.high or sizes[0]) / sizes[1], evidence)
    said = f"the arrays of a matrix product take {sizes[1]} words of registers at most, those of additions {sizes[0]}"
    return judged(
        "L2", claim, effect, f"simplify the pattern: {said}", f"unrolled loops need no simplifying: {said}", "no sizes of both"
    )


def sorting(known: Known, found: Mapping[tuple[str, str], Kept]) -> Advice:
    """L3: whether an array that is sorted can lie in registers."""
    claim = "an array that is sorted is not kept in registers: replace sorting by something simpler"
    one = found.get(("sort", "static"))
    if one is None or one.limit.status != "ok" or one.limit.low is None:
        return _open("L3", claim, one)
    words = int(one.limit.low)
    loose = found.get(("sort", "dynamic"))
    dearer = None
    if loose is not None:
        dearer = ratio(_cost(known, loose, words), _cost(known, one, words))
    told = _told(dearer, one)
    if words < 1:
        return Advice("L3", claim, "holds", *told, "do without sorting private arrays, as by a mean in place of a median")
    loosely = loose is not None and loose.limit.value == 0
    advice = (
        f"sort by a network of fixed exchanges: up to {words} words stay in registers" + ", by run-time indices none" * loosely
    )
    if dearer is not None:
        advice += f", which takes {times(dearer)} as long"
    return Advice("L3", claim, "does not hold", *told, advice)


def newer(found: Mapping[tuple[str, str], Kept]) -> Advice:
    """L4, which one device cannot show: by what was published of an older one."""
    claim = "compilers of today keep larger arrays in registers than that of the paper's time"
    one = found.get(("add", "static"))
    if one is None or one.limit.status != "ok" or not one.limit.low:
        return _open("L4", claim, one)
    low, high = one.limit.low / BEFORE, (one.limit.high or one.limit.low) / BEFORE
    said = f"{one.limit.low:.0f} words are kept here, {BEFORE} were on {OLDER}"
    return judged(
        "L4",
        claim,
        Ratio(low, low, high, one.limit.evidence),
        f"compile for the device at hand, and hold small arrays privately: {said}",
        f"expect no more than then: {said}",
        "",
    )


def _open(name: str, claim: str, one: Kept | None) -> Advice:
    return unknown(name, claim, RUN if one is None else one.limit.reason or "where the array lies was not found")


def _largest(known: Known, one: Kept) -> int:
    """The largest array that was measured of this pattern."""
    mine = [v for v in _mine(known) if (v.params["pattern"], v.params["indexing"]) == (one.pattern, one.indexing)]
    return max((int(v.params["words"]) for v in mine if v.median is not None), default=0)


def _cost(known: Known, one: Kept, words: int) -> Derived | None:
    return pick(known.values, "private_array", pattern=one.pattern, indexing=one.indexing, words=words)


def _told(found: Ratio | None, one: Kept) -> tuple[float | None, float | None, float | None, str, tuple[str, ...]]:
    evidence = one.limit.evidence
    if found is None:
        return None, None, None, "times", evidence
    return found.value, found.low, found.high, "times", tuple(dict.fromkeys((*evidence, *found.evidence)))
