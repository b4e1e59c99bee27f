"""Advice by one guideline on one device: its verdict, the effect with its interval, the evidence, and a line of advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from clmembench.analysis.derive import Derived
from clmembench.model import Cause, DeviceInfo, Finding, Value
from clmembench.studies.access.effect import BoundedRatio, first_value, has_parameters
from clmembench.studies.access.subgroup import (
    SINGLE_LOAD_PARAMETERS,
    SUBGROUP_BENCHMARK,
    WORK_ITEMS_ARE_SERIAL,
    MemoryVerdicts,
    memory_verdicts,
    sub_group_width_of,
    work_items_are_serial,
)

GuidelineVerdict = Literal["holds", "does not hold", "undetermined", "not applicable"]

MIN_WORTHWHILE_RATIO = 1.10  # times: a smaller gain is not worth rewriting a kernel
INABILITIES = (Cause.MISSING_FEATURE, Cause.UNSUPPORTED, Cause.NONE)  # NONE: of runs that say no cause
RUN_ACCESS = "run suite access"
ORDER_VERDICTS = ("consecutive", "consecutive_loaded")  # verdicts on the order of accesses, in one group and in several
TURNS_UNKNOWN = "unknown whether work-items run one after another, which takes longer the more there are"
MEASURE_AGAIN_ADVICE = "no advice yet: measure again on a quieter host"


@dataclass(frozen=True, slots=True)
class Advice:
    """`guideline` is what was claimed, `id` its name in Fang et al. 2017, section 7 (X: beyond it). `effect` in `unit` is the
    gain from following it, or the quantity that it is about. `reason` says why it is undetermined or not applicable."""

    id: str
    guideline: str
    verdict: GuidelineVerdict
    effect: float | None
    low: float | None
    high: float | None
    unit: str
    evidence: tuple[str, ...]
    advice: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunKnowledge:
    """Everything that guidelines use from a run: its values, the device's claims, the verdicts on each memory, and other
    findings by name (see `access.saturation`)."""

    values: Sequence[Derived]
    info: DeviceInfo
    memories: Mapping[str, MemoryVerdicts]
    wide: int
    findings: Mapping[str, Finding] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Sequence[Derived], info: DeviceInfo, findings: Mapping[str, Finding]) -> RunKnowledge:
        """From the values of a run, as `derive` gives them, judged by the gates."""
        return cls(values, info, {m.name: m for m in memory_verdicts(values)}, sub_group_width_of(values), findings)

    def load(self, memory: str, items: int, **changes: Value) -> Derived | None:
        """Time of a load by `items` work-items from a memory: consecutive words and one group unless changed."""
        return first_value(
            self.values, SUBGROUP_BENCHMARK, memory=memory, **{**SINGLE_LOAD_PARAMETERS, "items": items, **changes}
        )

    def sizes(self, memory: str, name: str, **params: Value) -> list[int]:
        """The values of `items` or `groups` that were measured, in order, of points with these parameters."""
        mine = [
            v
            for v in self.values
            if v.benchmark == SUBGROUP_BENCHMARK and v.params["memory"] == memory and v.median is not None
        ]
        return sorted({int(v.params[name]) for v in mine if all(v.params[k] == wanted for k, wanted in params.items())})

    def taking_turns(self) -> str:
        """Why simultaneous work-items cannot be judged; "" if they can, or if that is unknown."""
        taking, found = work_items_are_serial(self.values, self.wide)
        if not taking or found is None:
            return ""
        return f"{WORK_ITEMS_ARE_SERIAL}: without any memory {self.wide} of them take {found.value:.3g} times as long as one"

    def side_by_side(self) -> bool:
        """True if a sub-group's work-items are known to run at the same time."""
        return work_items_are_serial(self.values, self.wide)[0] is False

    def may_take_turns(self) -> bool:
        """True on a CPU unless the run shows that a sub-group's work-items run at the same time."""
        return self.info.has_cpu_cores and not self.side_by_side()

    def absent(self, benchmark: str, **params: Value) -> str:
        """Why this device cannot run the points of a benchmark with these parameters; "" if it can, or if the run does not show
        it, for example because its budget was spent."""
        mine = [v for v in self.values if v.benchmark == benchmark and has_parameters(v, params)]
        lacking = bool(mine) and all(v.status == "skipped" and v.cause in INABILITIES for v in mine)
        return mine[0].reason if lacking else ""

    def without_value(self, benchmark: str, **params: Value) -> int:
        """How many points of a benchmark with these parameters have no good value although the device could run them."""
        mine = [v for v in self.values if v.benchmark == benchmark and has_parameters(v, params)]
        return sum(v.status != "ok" and not (v.status == "skipped" and v.cause in INABILITIES) for v in mine)

    def side_by_side_groups(self, groups: Sequence[int]) -> list[int]:
        """Those numbers of work-groups that run at the same time: on a CPU a core runs one after the other."""
        return [n for n in groups if not self.info.has_cpu_cores or n <= self.info.compute_units]

    def nearest(self) -> Derived | None:
        """Latency of one work-item's load that hits global memory's nearest cache: by absolute addresses if the run has pchase,
        else by index, with the computation of the address."""
        laps = [v for v in self.values if v.benchmark == "pchase" and v.status == "ok" and v.median is not None]
        return min(laps, key=lambda v: int(v.params["array_bytes"]), default=self.load("global", 1))

    def constant(self) -> str:
        """The kind of constant memory to judge: an array of the program, which lies in constant memory wherever a device has
        one."""
        return "constant_array" if "constant_array" in self.memories else "constant"


GuidelineGroup = Callable[[RunKnowledge], Iterator[Advice]]


def advice_by_ratio(
    name: str,
    guideline: str,
    ratio: BoundedRatio | None,
    holds: str,
    fails: str,
    missing: str,
    least: float = MIN_WORTHWHILE_RATIO,
    unit: str = "times",
) -> Advice:
    """Advice by one ratio: the guideline holds if the whole interval is at least `least`, and does not hold if none of it
    is."""
    if ratio is None:
        return undetermined_advice(name, guideline, missing, unit=unit)
    effect = (ratio.value, ratio.low, ratio.high, unit, ratio.evidence)
    if ratio.low >= least:
        return Advice(name, guideline, "holds", *effect, holds)
    if ratio.high < least:
        return Advice(name, guideline, "does not hold", *effect, fails)
    reason = f"{ratio.low:.3g} to {ratio.high:.3g} {unit}: the interval contains {least:g}, the least worthwhile effect"
    return Advice(name, guideline, "undetermined", *effect, MEASURE_AGAIN_ADVICE, reason)


def only_if_complete(advice: Advice, missing: int, what: str) -> Advice:
    """The advice; undetermined if it finds no effect but points that might show one have no value."""
    if advice.verdict != "does not hold" or not missing:
        return advice
    reason = f"{missing} {what} have no value in this run and might show an effect"
    return replace(advice, verdict="undetermined", advice=MEASURE_AGAIN_ADVICE, reason=reason)


def advice_of_no_effect(advice: Advice) -> Advice:
    """The advice for a guideline that claims no effect: it holds where there is none."""
    if advice.verdict == "holds":
        return replace(advice, verdict="does not hold")
    return replace(advice, verdict="holds") if advice.verdict == "does not hold" else advice


def inapplicable_advice(name: str, guideline: str, why: str, evidence: tuple[str, ...] = (), unit: str = "times") -> Advice:
    """A guideline that has no meaning on this device, and why."""
    return Advice(name, guideline, "not applicable", None, None, None, unit, evidence, why)


def advice_by_findings(
    known: RunKnowledge, name: str, guideline: str, memory: str, wanted: Mapping[str, Sequence[str]], holds: str, fails: str
) -> Advice:
    """Advice by verdicts on a memory: the guideline holds if each verdict named in `wanted` has one of the words given there.
    The effect is the largest ratio behind these verdicts."""
    if memory not in known.memories:
        return undetermined_advice(name, guideline, "the run has no points of this memory: run suite access")
    verdicts = known.memories[memory].verdicts
    chosen = {key: verdicts[key] for key in wanted if key in verdicts}
    evidence = tuple(dict.fromkeys(e for f in chosen.values() for e in f.evidence))
    if any(f.value == "not applicable" for f in chosen.values()):
        return inapplicable_advice(name, guideline, known.taking_turns(), evidence)
    worst = max(chosen.values(), key=lambda f: f.low if f.low is not None else 0.0, default=None)
    ends = (_geometric_middle(worst), worst.low if worst else None, worst.high if worst else None)
    if any(f.value is not None and f.value not in wanted[key] for key, f in chosen.items()):
        return Advice(name, guideline, "does not hold", *ends, "times", evidence, fails)
    if len(chosen) < len(wanted) or any(f.value is None for f in chosen.values()):
        reasons = "; ".join(f"{f.name}: {f.reason}" for f in chosen.values() if f.value is None) or "a verdict is missing"
        return Advice(name, guideline, "undetermined", *ends, "times", evidence, MEASURE_AGAIN_ADVICE, reasons)
    return Advice(name, guideline, "holds", *ends, "times", evidence, holds)


def advice_by_simultaneity(known: RunKnowledge, name: str, memory: str, claim: str, holds: str, fails: str) -> Advice:
    """Advice by whether a memory serves a sub-group's work-items at once, on one word and on many, as the guideline claims."""
    wanted = dict.fromkeys(("broadcast", "parallel"), ("supported",))
    return advice_by_findings(known, name, claim, memory, wanted, holds, fails)


def advice_without_simultaneity(
    known: RunKnowledge, name: str, guideline: str, evidence: tuple[str, ...] = ()
) -> Advice | None:
    """Advice of a guideline on simultaneous work-items where they run one after another or may do so; None where they run at
    the same time."""
    if known.taking_turns():
        return inapplicable_advice(name, guideline, known.taking_turns(), evidence)
    if not known.side_by_side():
        return undetermined_advice(name, guideline, f"{TURNS_UNKNOWN}: {RUN_ACCESS}")
    return None


def _geometric_middle(finding: Finding | None) -> float | None:
    """The geometric middle of the interval behind a verdict."""
    if finding is None or finding.low is None or finding.high is None:
        return None
    return float((finding.low * finding.high) ** 0.5)


def undetermined_advice(name: str, guideline: str, reason: str, unit: str = "times") -> Advice:
    """An undetermined guideline, with the missing evidence as its reason."""
    return Advice(name, guideline, "undetermined", None, None, None, unit, (), "no advice", reason)


def format_ratio(found: BoundedRatio | None) -> str:
    """A ratio in a sentence."""
    if found is None:
        return "?"
    return f"{found.value:.2f} times" if found.value < 10 else f"{found.value:.3g} times"


def format_upper_bound(found: BoundedRatio) -> str:
    """The upper end of a ratio in a sentence."""
    return f"{found.high:.2f} times" if found.high < 10 else f"{found.high:.3g} times"


def format_latency(value: Derived | None) -> str:
    """A latency in a sentence, in cycles where the clock is known."""
    if value is None or value.median is None:
        return "?"
    number, unit = (value.cycles, "cycles") if value.cycles else (value.median, "ns")
    return f"{number:,.0f} {unit}" if number >= 1000 else f"{number:.3g} {unit}"
