"""The largest private array that a compiler keeps in registers, by what it says of itself and by what a step costs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.model import Finding, Value

# Thresholds and limits, each with its reason
WORD = 4  # bytes
ARRAYS = {"matmul": 3}  # arrays of a pattern; other patterns have one
SAME = 1.2  # times the least cost: loop overhead alone explains up to that much
STEP = 1.5  # times the least cost: a spilled element is loaded and stored around each operation
SMALLEST = 4  # words: a compiler that keeps no such array keeps none
MOSTLY = 0.5  # of the arrays' bytes: with more in memory a step cannot cost as little as in registers
MEMORY, SPILLS, COST = "memory", "spills", "cost"  # kinds of evidence
METHODS = {
    MEMORY: "stack frame of the build log, or private memory size",
    SPILLS: "spill bytes of the build log",
    COST: "step of the cost over the size",
}


@dataclass(frozen=True, slots=True)
class Sized:
    """One point: an array's words, what a step cost (None where that has no value) with its interval, and facts."""

    words: int
    cost: float | None
    low: float
    high: float
    facts: Mapping[str, Value]
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
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


def kept(values: Sequence[Derived]) -> list[Kept]:
    """The limit of every pattern and indexing among the values of `private_array`, in their order."""
    usable = [v for v in values if v.status in ("ok", "suspect", "undetermined")]
    in_cycles = all(v.cycles_low is not None for v in usable if v.status == "ok")
    private, told = _private(usable)
    curves: dict[tuple[str, str], list[Sized]] = {}
    for value in usable:
        words = value.params.get("words")
        if isinstance(words, int) and words > 0:
            kind = str(value.params.get("pattern")), str(value.params.get("indexing"))
            curves.setdefault(kind, []).append(_sized(value, words, in_cycles, told))
    unit = "cycles" if in_cycles else "ns"
    untold = "the compiler does not report where the array is"
    if private and not told:
        untold += f" (private memory is {' or '.join(str(n) for n in sorted(private))} B whatever the array)"
    return [_of_curve(*kind, sorted(points, key=lambda p: p.words), unit, untold) for kind, points in curves.items()]


def placed(values: Sequence[Derived]) -> list[bool | None]:
    """For each value, whether its arrays are in registers according to the compiler; None where it says nothing."""
    _, told = _private(values)
    return [_in_registers(_sized(value, 0, False, told)) for value in values]


def _private(values: Sequence[Derived]) -> tuple[set[int], bool]:
    """All private memory sizes, and whether they tell anything: drivers that do not know give 0 for everything, or something
    else."""
    sizes = {n for v in values if (n := _number(v.facts, "private_bytes")) is not None}
    return sizes, 0 in sizes and len(sizes) > 1


def _sized(value: Derived, words: int, in_cycles: bool, told: bool) -> Sized:
    """Without the private memory size where it is not `told`: it never is 0, or always."""
    numbers = (value.cycles, value.cycles_low, value.cycles_high) if in_cycles else (value.median, value.ci_low, value.ci_high)
    cost, low, high = numbers if value.status == "ok" else (None, None, None)
    facts = {name: fact for name, fact in value.facts.items() if told or name != "private_bytes"}
    return Sized(words, cost, low or 0.0, high or 0.0, facts, value.evidence)


def _of_curve(pattern: str, indexing: str, points: Sequence[Sized], unit: str, untold: str) -> Kept:
    name = f"{pattern}_{indexing}_words"
    by = {
        MEMORY: _by_memory(name, points),
        SPILLS: _by_spills(name, points),
        COST: _by_cost(name, points, unit),
    }
    verdicts = [_in_registers(point) for point in points]
    limit = _limit(name, points, verdicts, "what the compiler says")
    if limit.status == "ok":
        limit = _agreed(limit, by[COST], pattern, points)
    elif all(verdict is None for verdict in verdicts):
        limit = _untold(limit, by[COST], untold)
    fits = [p for p, verdict in zip(points, verdicts, strict=True) if verdict is True and p.words == limit.low]
    spilled = [p for p, verdict in zip(points, verdicts, strict=True) if verdict is False]
    return Kept(
        pattern,
        indexing,
        limit,
        by,
        spilled[0].words if spilled else None,
        fits[0].cost if fits else None,
        points[-1].cost,
        unit,
    )


def _in_memory(point: Sized) -> int | None:
    """Bytes of a work-item's arrays that are not in registers, spilled registers among them; None where nothing is said."""
    numbers = [n for name in ("stack_bytes", "private_bytes") if (n := _number(point.facts, name)) is not None]
    return max(numbers) if numbers else None


def _spilled(point: Sized) -> int | None:
    numbers = [n for name in ("spill_store_bytes", "spill_load_bytes") if (n := _number(point.facts, name)) is not None]
    return max(numbers) if numbers else None


def _in_registers(point: Sized) -> bool | None:
    """By both of what compilers say. That nothing was spilled does not say that an array was in registers at all."""
    memory = _in_memory(point)
    if memory or _spilled(point):
        return False
    return None if memory is None else True


def _by_memory(name: str, points: Sequence[Sized]) -> Finding:
    verdicts = [None if (memory := _in_memory(point)) is None else memory == 0 for point in points]
    return _limit(name, points, verdicts, METHODS[MEMORY])


def _by_spills(name: str, points: Sequence[Sized]) -> Finding:
    spills = [_spilled(point) for point in points]
    if any(s is not None for s in spills) and not any(spills):
        why = "no register was spilled at any size, which does not say that the array was in registers"
        return _nothing(name, why, METHODS[SPILLS], points)
    # an array that lies in memory as a whole leaves registers enough
    verdicts = [None if s is None or (not s and _in_memory(p)) else s == 0 for s, p in zip(spills, points, strict=True)]
    return _limit(name, points, verdicts, METHODS[SPILLS])


def _by_cost(name: str, points: Sequence[Sized], unit: str) -> Finding:
    """Where a step begins to cost STEP times the least that one costs with smaller arrays, for good."""
    method, told = METHODS[COST], [p for p in points if p.cost is not None]
    if len(told) < 3:
        return _nothing(name, "fewer than three sizes have a cost", method, points)
    for at in range(1, len(told)):
        least = min(told[:at], key=lambda p: p.cost or 0.0)
        if all(p.low >= STEP * least.high for p in told[at:]):
            same = [p for p in told[:at] if p.words >= least.words and p.high <= SAME * least.high]
            low, high = same[-1].words, told[at].words - 1
            return Finding(name, low, low, high, "words", "ok", method, _evidence(told))
    first, last = told[0], told[-1]
    why = f"no rise: {first.cost:.3g} {unit} with {first.words} words, {last.cost:.3g} with {last.words}"
    return _nothing(name, why, method, told)


def _limit(name: str, points: Sequence[Sized], verdicts: Sequence[bool | None], method: str) -> Finding:
    """The largest size up to which all are kept, by a verdict of each; undetermined where a larger one is kept again."""
    told = [(p, verdict) for p, verdict in zip(points, verdicts, strict=True) if verdict is not None]
    if not told:
        return _nothing(name, "the compiler reports nothing that depends on the array", method, points)
    evidence = _evidence([p for p, _ in told])
    spilled = [p.words for p, verdict in told if not verdict]
    fitting = [p.words for p, verdict in told if verdict]
    if not spilled:
        why = f"the largest array tried, of {fitting[-1]} words, is kept"
        return Finding(name, None, fitting[-1], None, "words", "undetermined", method, evidence, why)
    low = max((words for words in fitting if words < spilled[0]), default=0)
    if not fitting and spilled[0] > SMALLEST:
        why = f"the smallest array tried, of {spilled[0]} words, is not kept: smaller ones may be"
        return Finding(name, None, 0, spilled[0] - 1, "words", "undetermined", method, evidence, why)
    if fitting and fitting[-1] > spilled[0]:
        why = f"no one limit: {spilled[0]} words are not kept, {fitting[-1]} are"
        return Finding(name, None, low, fitting[-1], "words", "undetermined", method, evidence, why)
    return Finding(name, low, low, spilled[0] - 1, "words", "ok", method, evidence)


def _agreed(limit: Finding, cost: Finding, pattern: str, points: Sequence[Sized]) -> Finding:
    """The limit that the compiler reports, where the cost does not contradict it: a few spilled words cost next to nothing, so
    that the cost may rise later, but not while all is in registers, nor stay low with most of the array in memory."""
    if cost.status != "ok":
        return limit
    assert limit.low is not None and limit.high is not None and cost.low is not None and cost.high is not None
    words = WORD * ARRAYS.get(pattern, 1)
    away = [p.words for p in points if p.words <= cost.low and (_in_memory(p) or 0) >= MOSTLY * words * p.words]
    if cost.high < limit.low:
        why = f"{METHODS[COST]}: rises at {cost.high + 1:.0f} words; {limit.method}: {limit.low:.0f} words are in registers"
    elif away:
        why = f"{METHODS[COST]}: rises beyond {cost.low:.0f} words; {limit.method}: of {away[0]} words most are in memory"
    else:
        return Finding(
            limit.name, limit.value, limit.low, limit.high, "words", "ok",
            f"{limit.method}; the cost agrees", tuple(dict.fromkeys(limit.evidence + cost.evidence)),
        )  # fmt: skip
    low, high = min(limit.low, cost.low), max(limit.high, cost.high)
    return Finding(limit.name, None, low, high, "words", "inconsistent", limit.method, limit.evidence, why)


def _untold(limit: Finding, cost: Finding, why: str) -> Finding:
    """Where the compiler says nothing: what the cost shows are bounds at best, since loops are compiled differently by size."""
    if cost.status == "ok":
        why += ", and a step of the cost alone may have other causes"
        return Finding(limit.name, None, cost.low, cost.high, "words", "undetermined", cost.method, cost.evidence, why)
    return _nothing(limit.name, f"{why}; by the cost {cost.reason}", cost.method, (), cost.evidence)


def _nothing(name: str, why: str, method: str, points: Sequence[Sized], evidence: tuple[str, ...] = ()) -> Finding:
    return Finding(name, None, None, None, "words", "undetermined", method, evidence or _evidence(points), why)


def _evidence(points: Sequence[Sized]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for point in points for name in point.evidence))


def _number(facts: Mapping[str, Value], name: str) -> int | None:
    number = facts.get(name)
    return number if isinstance(number, int) else None
