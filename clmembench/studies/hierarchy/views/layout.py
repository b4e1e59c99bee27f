"""A memory hierarchy as boxes of short facts, with claims, and footnotes on undetermined properties; without the drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from clmembench.model import CacheLevel, DeviceInfo, Finding, Hierarchy
from clmembench.report.finding_tables import interval_text, main_levels, number_text, other_paths, property_label, value_text
from clmembench.sanitize import line
from clmembench.specs.claims import Claim, claims_by_level, verdict
from clmembench.studies.hierarchy.views.sharing_text import sharing_lines
from clmembench.units import count, format_bytes, format_value

Kind = Literal["ok", "undetermined", "inconsistent", "claim", "contradicted"]

PROPERTY_PREFIXES = {
    "page_bytes": "pages of",
    "penalty_cycles": "miss +",
    "penalty_ns": "miss +",
    "latency_cycles": "",
    "latency_ns": "",
}
COUNT_NOUNS = {"ways": "way", "sets": "set", "entries": "entry", "partitions": "partition"}  # a number before their name
PLURALS = {"entry": "entries"}
HEAD = ("size_bytes", "entries", "page_bytes", "reach_bytes")
PROPERTY_ORDER = (*HEAD, "latency_cycles", "latency_ns", "penalty_cycles", "penalty_ns")  # in this order; others follow
TIME_PREFIXES = ("latency", "penalty")  # how the names of times begin
PATTERNS = {  # Mei & Chu 2015, figure 14: data cache, L1 TLB, L2 TLB
    "P1": "cache hit, L1 TLB hit",
    "P2": "cache hit, L1 TLB miss, L2 TLB hit",
    "P3": "cache hit, both TLBs miss",
    "P4": "cache miss, L1 TLB hit",
    "P5": "cache miss, both TLBs miss",
    "P6": "cache miss, another page table's context",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A few words on one property, their certainty, and the number of the footnote with the reason (0: none)."""

    text: str
    kind: Kind = "ok"
    note: int = 0

    def __str__(self) -> str:
        return f"{self.text} [{self.note}]" if self.note else self.text


@dataclass(frozen=True, slots=True)
class Box:
    """One level: its size with claims, its latency, and all other facts; `times` is its latency relative to the previous
    level."""

    title: str
    head: tuple[Fact, ...]
    latency: tuple[Fact, ...]
    facts: tuple[Fact, ...]
    times: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One global latency pattern: its hits and misses, its latency as text, and as a share of the longest (0: none)."""

    name: str
    what: str
    fact: Fact
    share: float


@dataclass(frozen=True, slots=True)
class HierarchyLayout:
    """Content of a drawing, from the compute unit outwards: `near` are memories in the unit, `path` the levels of global
    memory, `tlb` the column beside them, `branches` other paths from the unit, each a separate tree under its heading. `bars`
    are the patterns through the first cache, `bars_past` those that bypass it. `sharing` has lines on shared storage;
    `surprises` the contradicted claims; `footnotes` undetermined properties with reasons; `remarks` what could not be
    measured."""

    title: str
    unit: str
    near: tuple[Box, ...]
    path: tuple[Box, ...]
    tlb: tuple[Box, ...]
    branches: tuple[tuple[str, tuple[Box, ...]], ...]
    bars: tuple[Bar, ...]
    bars_past: tuple[Bar, ...]
    sharing: tuple[str, ...]
    surprises: tuple[str, ...]
    footnotes: tuple[str, ...]
    remarks: tuple[str, ...]


class _Notes:
    """Footnotes, one for each reason, with the properties it applies to."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, list[str]]] = {}

    def add(self, where: str, what: str, reason: str) -> int:
        subjects = self._of.setdefault(reason or "no measurement determined it", {})
        names = subjects.setdefault(where, [])
        names += [what] * (what not in names)
        return list(self._of).index(reason or "no measurement determined it") + 1

    def lines(self) -> tuple[str, ...]:
        places = ("; ".join(f"{where} {', '.join(names)}" for where, names in of.items()) for of in self._of.values())
        return tuple(line(f"[{n}] {who}: {why}") for n, (who, why) in enumerate(zip(places, self._of, strict=True), 1))


def lay_out(hierarchy: Hierarchy, info: DeviceInfo | None = None, claims: Sequence[Claim] = ()) -> HierarchyLayout:
    """The complete content of a drawing, as sanitised plain text. Sizes are in IEC units."""
    notes, surprises = _Notes(), list[str]()
    near = [hierarchy.local] if hierarchy.local is not None else []
    path = [*near, *main_levels(hierarchy)]
    boxes = _path(path, claims_by_level(claims, path), notes, surprises)
    tlb = tuple(_box(line(level.name), level.findings, (), notes, surprises) for level in hierarchy.tlb)
    branches = tuple(
        (other.heading, tuple(_path(other.levels, [[] for _ in other.levels], notes, surprises, other.group)))
        for other in other_paths(hierarchy)
    )
    unit = "compute unit" if info is None else f"compute unit, one of {info.compute_units}"
    return HierarchyLayout(
        title=_title(info),
        unit=unit,
        near=tuple(boxes[: len(near)]),
        path=tuple(boxes[len(near) :]),
        tlb=tlb,
        branches=branches,
        bars=tuple(_bars(hierarchy.patterns, notes, "patterns")),
        bars_past=tuple(_bars(hierarchy.patterns_past, notes, "patterns past the first cache")),
        sharing=sharing_lines(hierarchy.sharing, notes.add),
        surprises=tuple(map(line, surprises)),
        footnotes=notes.lines(),
        remarks=tuple(map(line, hierarchy.notes)),
    )


def _title(info: DeviceInfo | None) -> str:
    if info is None:
        return ""
    memory = f"{format_bytes(info.global_mem_bytes, 1)} memory"
    return line(f"{info.name} · {count(info.compute_units, 'compute unit')} · {memory} · {info.platform} {info.driver}")


def _path(
    levels: Sequence[CacheLevel],
    claims_by_level: Sequence[Sequence[Claim]],
    notes: _Notes,
    surprises: list[str],
    branch: str = "",
) -> list[Box]:
    """A box for each level; those of global memory are compared with the previous one."""
    made: list[Box] = []
    for index, (level, claims) in enumerate(zip(levels, claims_by_level, strict=True)):
        own = level.space in ("global", level.name, branch)
        title = " ".join(filter(None, (branch if branch != level.name else "", level.name, "" if own else f"({level.space})")))
        before = levels[index - 1] if index and levels[index - 1].space == level.space else None
        times = _times(level, before) if before is not None else ""
        made.append(_box(line(title), level.findings, claims, notes, surprises, times))
    return made


def _box(
    title: str,
    findings: Mapping[str, Finding],
    claims: Sequence[Claim],
    notes: _Notes,
    surprises: list[str],
    times: str = "",
) -> Box:
    """A level's findings, grouped by property, each followed by the claims about it."""
    groups: dict[str, list[Fact]] = {"head": [], "when": [], "rest": []}
    names = list(dict.fromkeys((*(name for name in PROPERTY_ORDER if name in findings), *findings, *(c.name for c in claims))))
    for name in names:
        group = groups["head" if name in HEAD else "when" if name.startswith(TIME_PREFIXES) else "rest"]
        finding = findings.get(name)
        group += [_fact(name, finding, title, notes)] if finding is not None else []
        for claim in (c for c in claims if c.name == name):
            fact = _claim(claim, finding, title, surprises)
            if finding is not None and finding.value == claim.value and group[-1].kind == "ok":
                group[-1] = Fact(f"{group[-1].text}, {fact.text}")
            else:
                group.append(fact)
    return Box(title, tuple(groups["head"]), tuple(groups["when"]), tuple(_together(groups["rest"])), times)


def _together(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Properties that are undetermined for the same reason, as one fact."""
    for same, group in groupby(facts, key=lambda fact: (fact.kind, fact.note, fact.text.endswith(" ?"))):
        found = list(group)
        if same[0] == "undetermined" and same[2]:
            yield Fact(f"{', '.join(fact.text.removesuffix(' ?') for fact in found)} ?", *same[:2])
        else:
            yield from found


def _fact(name: str, finding: Finding, where: str, notes: _Notes) -> Fact:
    called, text = PROPERTY_PREFIXES.get(name, property_label(name)), value_text(finding)
    if finding.status != "ok" and finding.value is None:
        span, note = interval_text(finding), notes.add(where, property_label(name), line(finding.reason))
        shown = property_label(name) if finding.status == "undetermined" else f"{property_label(name)} inconsistent"
        return Fact(f"{shown} ? ({span})" if span else f"{shown} ?", finding.status, note)
    one = COUNT_NOUNS.get(name)
    if one is not None and isinstance(finding.value, (int, float)):
        count, _, span = text.partition(" ")
        text = f"{count} {one if finding.value == 1 else PLURALS.get(one, f'{one}s')} {span}".rstrip()
    elif called and name != "size_bytes":
        text = f"{called.removesuffix(f' in {finding.unit}')} {text}"
    if finding.status == "inconsistent":
        return Fact(f"{text}, inconsistent", "inconsistent", notes.add(where, property_label(name), line(finding.reason)))
    return Fact(text)


def _claim(claim: Claim, finding: Finding | None, where: str, surprises: list[str]) -> Fact:
    what = format_bytes(claim.value, 1) if claim.name.endswith("_bytes") else number_text(claim.value)
    what = what if claim.name == "size_bytes" else f"{property_label(claim.name)} {what}"
    if claim.about:
        return Fact(line(f"{claim.source} claims {what} {claim.about}"), "claim")
    if finding is not None and verdict(finding, claim.value) == "contradicted":
        surprises.append(f"{where}: {claim.source} claims {what}, found {value_text(finding)}")
        return Fact(line(f"≠ {claim.source} claims {what}"), "contradicted")
    if finding is not None and finding.value == claim.value:
        return Fact(line(f"as {claim.source} claims"), "claim")
    return Fact(line(f"{claim.source} claims {what}"), "claim")


def _times(level: CacheLevel, before: CacheLevel) -> str:
    """Ratio of this level's latency to the previous one's, if both are determined in one unit."""
    for name in ("latency_cycles", "latency_ns"):
        here, there = level.findings.get(name), before.findings.get(name)
        if here is None or there is None or here.unit != there.unit or {here.status, there.status} != {"ok"}:
            continue
        if isinstance(here.value, (int, float)) and isinstance(there.value, (int, float)) and there.value > 0:
            return f"{format_value(here.value / there.value, 2)} times the latency of {line(before.name)}"
    return ""


def _bars(patterns: Mapping[str, Finding], notes: _Notes, where: str) -> Iterator[Bar]:
    """One bar per pattern; one given in cycles and in ns (P1, P1_ns) has one bar for both."""
    groups: dict[str, list[Finding]] = {}
    for name, finding in patterns.items():
        groups.setdefault(name.partition("_")[0], []).append(finding)
    tops: dict[str, float] = {}
    for first, *_ in groups.values():
        if isinstance(first.value, (int, float)):
            tops[first.unit] = max(tops.get(first.unit, 0.0), first.value)
    for name, (first, *more) in groups.items():
        what, note = PATTERNS.get(name, ""), 0
        if first.status != "ok":
            note = notes.add(where, line(name), line(first.reason))
        if first.value is None or isinstance(first.value, str):
            yield Bar(line(name), what, Fact(value_text(first), "undetermined", note), 0)
            continue
        text = ", ".join([value_text(first), *(value_text(f) for f in more if f.value is not None)])
        top = tops[first.unit]
        yield Bar(line(name), what, Fact(text, first.status, note), first.value / top if top > 0 else 0)
