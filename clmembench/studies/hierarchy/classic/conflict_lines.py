"""Mappings of addresses to sets that explain which lines miss together when a cache overflows by one line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clmembench.studies.hierarchy.set_index import SetIndexBits, difference_basis, format_set_bits, free_parities, set_number

POLICY_MUST_SPARE_LINES = "possible only under a policy that keeps some lines longer"


@dataclass(frozen=True, slots=True)
class MappingVerdict:
    """One mapping of lines to sets, tested against the lines that miss.

    `together`: all missing lines are in one set; `in_set`: how many lines of the array are in that set, of which `spared` did
    not miss; `explains`: the set has more lines than ways, and no line of another set misses. `reason` is the explanation."""

    name: str
    bits: SetIndexBits
    sets: int
    ways: int
    together: bool
    in_set: int
    spared: int
    explains: bool
    reason: str


def candidate_mappings(missed: Sequence[int], lines: int, line_bytes: int, capacity_lines: int) -> list[MappingVerdict]:
    """Mappings to try on an array of `lines` lines of which those numbered `missed` (from 0) miss, the most sets first.

    Candidates: the bits next to the line's for each number of sets, every other maximal run of adjacent bits that can explain
    them, and the parities that the lines leave free. `capacity_lines` is the total capacity."""
    low, width = line_bytes.bit_length() - 1, (lines - 1).bit_length()
    tried: list[tuple[SetIndexBits, str]] = [(tuple((low + b,) for b in range(k)), "plain") for k in range(1, width)]
    differ = {b for number in missed for b in range(width) if (number ^ missed[0]) >> b & 1}
    for start in range(width):
        run = next((b for b in range(start, width) if b in differ), width) - start
        if run and start:
            tried.append((tuple((low + b,) for b in range(start, start + run)), "a run of bits"))
    free = free_parities(difference_basis(missed), width)
    tried.append((tuple(tuple(low + b for b in group) for group in free), "parities"))
    known = {bits: name for bits, name in reversed(tried) if capacity_lines % (1 << len(bits)) == 0}
    array = _Overflow(missed, lines, line_bytes, capacity_lines)
    verdicts = [_mapping_verdict(name, bits, array) for bits, name in known.items()]
    return sorted(verdicts, key=lambda m: (-m.explains, -m.sets, m.spared))


def mapping_table(found: Sequence[MappingVerdict]) -> str:
    """Mappings as a text table, one row each: bits, sets and ways, whether they explain the misses, and why."""
    rows = [("set bits", "sets", "ways", "explains", "why")]
    rows += [(format_set_bits(m.bits), str(m.sets), str(m.ways), "yes" if m.explains else "no", m.reason) for m in found]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows)


@dataclass(frozen=True, slots=True)
class _Overflow:
    """An array of `lines` lines in a cache that holds fewer, and the numbers of the lines that miss, from 0."""

    missed: Sequence[int]
    lines: int
    line_bytes: int
    capacity_lines: int


def _mapping_verdict(name: str, bits: SetIndexBits, array: _Overflow) -> MappingVerdict:
    """The verdict on one mapping."""
    sets, ways = 1 << len(bits), array.capacity_lines >> len(bits)
    where = {set_number(number * array.line_bytes, bits) for number in array.missed}
    together = len(where) == 1
    in_set = sum(set_number(number * array.line_bytes, bits) in where for number in range(array.lines))
    spared = in_set - len(array.missed)
    full = together and in_set > ways
    if not together:
        reason = f"the lines that miss lie in {len(where)} of its sets, but only one set can overflow"
    elif not full:
        reason = f"no set overflows: {in_set} lines of the array share {ways} ways"
    elif spared:
        reason = f"{in_set} lines share {ways} ways and {spared} of them do not miss: {POLICY_MUST_SPARE_LINES}"
    else:
        reason = f"exactly the {in_set} lines that share its {ways} ways miss"
    return MappingVerdict(name, bits, sets, ways, together, in_set, spared, full, reason)
