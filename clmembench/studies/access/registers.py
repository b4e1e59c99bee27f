"""The largest private array that a compiler keeps in registers, from its reports and from the cost of a step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.model import Finding, Value

# Thresholds and limits, each with its reason
REGISTER_BYTES = 4  # bytes
ARRAYS_OF_PATTERN = {"matmul": 3}  # arrays of a pattern; other patterns have one
MAX_REGISTER_COST_RATIO = 1.2  # times the least cost: loop overhead alone explains up to that much
MIN_SPILL_COST_RATIO = 1.5  # times the least cost: a spilled element is loaded and stored around each operation
SMALLEST_ARRAY_WORDS = 4  # words: a compiler that does not keep this array keeps none
MIN_MEMORY_SHARE_WITH_COST = 0.5  # of the arrays' bytes: with more in memory a step cannot cost as little as in registers
MEMORY_EVIDENCE, SPILL_EVIDENCE, COST_EVIDENCE = "memory", "spills", "cost"  # kinds of evidence
METHOD_OF_EVIDENCE = {
    MEMORY_EVIDENCE: "stack frame of the build log, or private memory size",
    SPILL_EVIDENCE: "spill bytes of the build log",
    COST_EVIDENCE: "step of the cost over the size",
}


@dataclass(frozen=True, slots=True)
class ArraySizePoint:
    """One point: array size in words, cost of a step (None without a value) with its interval, and facts of the compiler."""

    words: int
    cost: float | None
    low: float
    high: float
    facts: Mapping[str, Value]
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisterLimit:
    """Register limit of one pattern and indexing.

    `limit` is the largest array kept in registers, in words; its true value lies from `low` (the largest kept) to `high` (one
    less than the smallest that was not). `by` has the same by each kind of evidence alone: `memory` (whether the array is on
    the stack), `spills` (of registers), `cost`. `registers_cost` is the cost of a step with the largest array kept,
    `largest_cost` with the largest of all; `unit` is theirs.
    """

    pattern: str
    indexing: str
    limit: Finding
    by: Mapping[str, Finding]
    spilled_from: int | None
    registers_cost: float | None
    largest_cost: float | None
    unit: str


def register_limits(values: Sequence[Derived]) -> list[RegisterLimit]:
    """The limit of every pattern and indexing among the values of `private_array`, in their order."""
    usable = [v for v in values if v.status in ("ok", "suspect", "undetermined")]
    in_cycles = all(v.cycles_low is not None for v in usable if v.status == "ok")
    private, informative = _private_memory_sizes(usable)
    curves: dict[tuple[str, str], list[ArraySizePoint]] = {}
    for value in usable:
        words = value.params.get("words")
        if isinstance(words, int) and words > 0:
            kind = str(value.params.get("pattern")), str(value.params.get("indexing"))
            curves.setdefault(kind, []).append(_array_size_point(value, words, in_cycles, informative))
    unit = "cycles" if in_cycles else "ns"
    untold = "the compiler does not report where the array is"
    if private and not informative:
        untold += f" (private memory is {' or '.join(str(n) for n in sorted(private))} B whatever the array)"
    return [_limit_of_curve(*kind, sorted(points, key=lambda p: p.words), unit, untold) for kind, points in curves.items()]


def arrays_in_registers(values: Sequence[Derived]) -> list[bool | None]:
    """For each value, whether its arrays are in registers according to the compiler; None if it does not report it."""
    _, informative = _private_memory_sizes(values)
    return [_is_in_registers(_array_size_point(value, 0, False, informative)) for value in values]


def _private_memory_sizes(values: Sequence[Derived]) -> tuple[set[int], bool]:
    """All private memory sizes, and whether they are informative: drivers without this information report 0, or another
    constant."""
    sizes = {n for v in values if (n := _integer_fact(v.facts, "private_bytes")) is not None}
    return sizes, 0 in sizes and len(sizes) > 1


def _array_size_point(value: Derived, words: int, in_cycles: bool, informative: bool) -> ArraySizePoint:
    """The point; without the private memory size if that is not `informative`: it is never 0, or always."""
    numbers = (value.cycles, value.cycles_low, value.cycles_high) if in_cycles else (value.median, value.ci_low, value.ci_high)
    cost, low, high = numbers if value.status == "ok" else (None, None, None)
    facts = {name: fact for name, fact in value.facts.items() if informative or name != "private_bytes"}
    return ArraySizePoint(words, cost, low or 0.0, high or 0.0, facts, value.evidence)


def _limit_of_curve(
    pattern: str, indexing: str, points: Sequence[ArraySizePoint], unit: str, why_no_verdict: str
) -> RegisterLimit:
    name = f"{pattern}_{indexing}_words"
    by = {
        MEMORY_EVIDENCE: _limit_by_memory(name, points),
        SPILL_EVIDENCE: _limit_by_spills(name, points),
        COST_EVIDENCE: _limit_by_cost(name, points, unit),
    }
    verdicts = [_is_in_registers(point) for point in points]
    limit = _limit_by_verdicts(name, points, verdicts, "what the compiler says")
    if limit.status == "ok":
        limit = _limit_confirmed_by_cost(limit, by[COST_EVIDENCE], pattern, points)
    elif all(verdict is None for verdict in verdicts):
        limit = _limit_bounded_by_cost(limit, by[COST_EVIDENCE], why_no_verdict)
    fits = [p for p, verdict in zip(points, verdicts, strict=True) if verdict is True and p.words == limit.low]
    spilled = [p for p, verdict in zip(points, verdicts, strict=True) if verdict is False]
    return RegisterLimit(
        pattern,
        indexing,
        limit,
        by,
        spilled[0].words if spilled else None,
        fits[0].cost if fits else None,
        points[-1].cost,
        unit,
    )


def _memory_bytes(point: ArraySizePoint) -> int | None:
    """Bytes of a work-item's arrays that are not in registers, spilled registers included; None if the compiler reports
    nothing."""
    numbers = [n for name in ("stack_bytes", "private_bytes") if (n := _integer_fact(point.facts, name)) is not None]
    return max(numbers) if numbers else None


def _spill_bytes(point: ArraySizePoint) -> int | None:
    numbers = [n for name in ("spill_store_bytes", "spill_load_bytes") if (n := _integer_fact(point.facts, name)) is not None]
    return max(numbers) if numbers else None


def _is_in_registers(point: ArraySizePoint) -> bool | None:
    """Verdict from both reports of the compiler. No spills alone do not prove that an array was in registers."""
    memory = _memory_bytes(point)
    if memory or _spill_bytes(point):
        return False
    return None if memory is None else True


def _limit_by_memory(name: str, points: Sequence[ArraySizePoint]) -> Finding:
    verdicts = [None if (memory := _memory_bytes(point)) is None else memory == 0 for point in points]
    return _limit_by_verdicts(name, points, verdicts, METHOD_OF_EVIDENCE[MEMORY_EVIDENCE])


def _limit_by_spills(name: str, points: Sequence[ArraySizePoint]) -> Finding:
    spills = [_spill_bytes(point) for point in points]
    if any(s is not None for s in spills) and not any(spills):
        why = "no register was spilled at any size, which does not prove that the array was in registers"
        return _undetermined_limit(name, why, METHOD_OF_EVIDENCE[SPILL_EVIDENCE], points)
    # an array that lies in memory as a whole leaves enough registers
    verdicts = [None if s is None or (not s and _memory_bytes(p)) else s == 0 for s, p in zip(spills, points, strict=True)]
    return _limit_by_verdicts(name, points, verdicts, METHOD_OF_EVIDENCE[SPILL_EVIDENCE])


def _limit_by_cost(name: str, points: Sequence[ArraySizePoint], unit: str) -> Finding:
    """The size from which on every step costs at least MIN_SPILL_COST_RATIO times the least cost of smaller arrays."""
    method, timed = METHOD_OF_EVIDENCE[COST_EVIDENCE], [p for p in points if p.cost is not None]
    if len(timed) < 3:
        return _undetermined_limit(name, "fewer than three sizes have a cost", method, points)
    for at in range(1, len(timed)):
        least = min(timed[:at], key=lambda p: p.cost or 0.0)
        if all(p.low >= MIN_SPILL_COST_RATIO * least.high for p in timed[at:]):
            same = [p for p in timed[:at] if p.words >= least.words and p.high <= MAX_REGISTER_COST_RATIO * least.high]
            low, high = same[-1].words, timed[at].words - 1
            return Finding(name, low, low, high, "words", "ok", method, _evidence_of_points(timed))
    first, last = timed[0], timed[-1]
    why = f"no rise: {first.cost:.3g} {unit} with {first.words} words, {last.cost:.3g} with {last.words}"
    return _undetermined_limit(name, why, method, timed)


def _limit_by_verdicts(name: str, points: Sequence[ArraySizePoint], verdicts: Sequence[bool | None], method: str) -> Finding:
    """The largest size up to which all arrays are kept, by their verdicts; undetermined if a larger one is kept again."""
    judged = [(p, verdict) for p, verdict in zip(points, verdicts, strict=True) if verdict is not None]
    if not judged:
        return _undetermined_limit(name, "the compiler reports nothing that depends on the array", method, points)
    evidence = _evidence_of_points([p for p, _ in judged])
    spilled = [p.words for p, verdict in judged if not verdict]
    fitting = [p.words for p, verdict in judged if verdict]
    if not spilled:
        why = f"the largest array tried, of {fitting[-1]} words, is kept"
        return Finding(name, None, fitting[-1], None, "words", "undetermined", method, evidence, why)
    low = max((words for words in fitting if words < spilled[0]), default=0)
    if not fitting and spilled[0] > SMALLEST_ARRAY_WORDS:
        why = f"the smallest array tried, of {spilled[0]} words, is not kept: smaller ones may be"
        return Finding(name, None, 0, spilled[0] - 1, "words", "undetermined", method, evidence, why)
    if fitting and fitting[-1] > spilled[0]:
        why = f"no single limit: {spilled[0]} words are not kept, {fitting[-1]} are"
        return Finding(name, None, low, fitting[-1], "words", "undetermined", method, evidence, why)
    return Finding(name, low, low, spilled[0] - 1, "words", "ok", method, evidence)


def _limit_confirmed_by_cost(limit: Finding, cost: Finding, pattern: str, points: Sequence[ArraySizePoint]) -> Finding:
    """The limit that the compiler reports, unless the cost contradicts it. A few spilled words cost almost nothing, so the cost
    may rise later; but it must not rise while the array is in registers, nor remain low with most of it in memory."""
    if cost.status != "ok":
        return limit
    assert limit.low is not None and limit.high is not None and cost.low is not None and cost.high is not None
    words = REGISTER_BYTES * ARRAYS_OF_PATTERN.get(pattern, 1)
    away = [
        p.words
        for p in points
        if p.words <= cost.low and (_memory_bytes(p) or 0) >= MIN_MEMORY_SHARE_WITH_COST * words * p.words
    ]
    if cost.high < limit.low:
        why = (
            f"{METHOD_OF_EVIDENCE[COST_EVIDENCE]}: rises at {cost.high + 1:.0f} words; {limit.method}: {limit.low:.0f} "
            "words are in registers"
        )
    elif away:
        why = (
            f"{METHOD_OF_EVIDENCE[COST_EVIDENCE]}: rises beyond {cost.low:.0f} words; {limit.method}: most of {away[0]} "
            f"words are in memory"
        )
    else:
        return Finding(
            limit.name, limit.value, limit.low, limit.high, "words", "ok",
            f"{limit.method}; the cost agrees", tuple(dict.fromkeys(limit.evidence + cost.evidence)),
        )  # fmt: skip
    low, high = min(limit.low, cost.low), max(limit.high, cost.high)
    return Finding(limit.name, None, low, high, "words", "inconsistent", limit.method, limit.evidence, why)


def _limit_bounded_by_cost(limit: Finding, cost: Finding, why: str) -> Finding:
    """The limit if the compiler reports nothing: the cost gives bounds at best, since loops of different sizes are compiled
    differently."""
    if cost.status == "ok":
        why += ", and a step of the cost alone may have other causes"
        return Finding(limit.name, None, cost.low, cost.high, "words", "undetermined", cost.method, cost.evidence, why)
    return _undetermined_limit(limit.name, f"{why}; by the cost {cost.reason}", cost.method, (), cost.evidence)


def _undetermined_limit(
    name: str, why: str, method: str, points: Sequence[ArraySizePoint], evidence: tuple[str, ...] = ()
) -> Finding:
    return Finding(name, None, None, None, "words", "undetermined", method, evidence or _evidence_of_points(points), why)


def _evidence_of_points(points: Sequence[ArraySizePoint]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for point in points for name in point.evidence))


def _integer_fact(facts: Mapping[str, Value], name: str) -> int | None:
    number = facts.get(name)
    return number if isinstance(number, int) else None
