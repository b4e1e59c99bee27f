"""Loops of a program, by LLVM's text: what compilers leave out of them, and which operations wait for each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from clmembench.studies.kernel import program
from clmembench.studies.kernel.issue import estimated_instructions

WORD_BYTES = 4  # of private memory, by which work-items take turns
UNROLLED = 4  # rounds of a loop that compilers write out where its number of rounds is known only at run time
# machine instructions by which compilers move loads ahead where neither registers nor addresses forbid it: 28 to 56 in loops
# of five kernels (driver 580)
SCHEDULED = 40
SAME_LOOP = 0.1  # difference of executions of what is in a loop and its tests
AFFINE = ("add", "sub", "mul", "shl", "or", "zext", "sext", "trunc", "getelementptr", "bitcast")  # addresses that add up
FREE = ("phi", "zext", "sext", "bitcast", "extractelement", "insertelement", "shufflevector")  # of no time in a chain
_CONSTANT = re.compile(r", -?\d+(?:,|$)")
_POINTER = re.compile(r"\* (?:noundef )?(%[\w.$-]+)")
_COUNTED = re.compile(r"\bicmp\b")


@dataclass(frozen=True)
class Loops:
    """The instructions of a program by their numbers, and how often each is executed."""

    texts: Mapping[int, str]
    executed: Mapping[int, float]

    @cached_property
    def _makers(self) -> Mapping[str, int]:
        return {name: number for number, text in self.texts.items() if (name := program.makes(text))}

    def _operands(self, number: int) -> list[int]:
        return [self._makers[name] for name in program.reads(self.texts[number]) if name in self._makers]

    @cached_property
    def counters(self) -> Mapping[int, float]:
        """The variables that count rounds, and the share of their arithmetic that is left: none where the number of rounds is
        a constant."""
        found = {}
        for number, text in self.texts.items():
            if program.opcode(text) != "phi":
                continue
            steps = [one for one in self._operands(number) if one > number and program.opcode(self.texts[one]) == "add"
                     and number in self._operands(one) and _CONSTANT.search(self.texts[one])]  # fmt: skip
            tests = [one for one, other in self.texts.items()
                     if _COUNTED.search(other) and {number, *steps} & set(self._operands(one))]  # fmt: skip
            if steps and tests:
                found[number] = 0.0 if any(_CONSTANT.search(self.texts[one]) for one in tests) else 1 / UNROLLED
        return found

    @cached_property
    def left(self) -> Mapping[int, float]:
        """The share of executions of an instruction that is left where loops are unrolled: counters, their tests and branches,
        and addresses that add up from them."""
        shares = dict(self.counters)
        for number in sorted(self.texts):
            name = program.opcode(self.texts[number])
            operands = self._operands(number)
            if name in AFFINE and operands and number not in shares:
                inner = [one for one in operands if self.executed[one] * 2 > self.executed[number] or one in shares]
                if inner and all(one in shares for one in inner):
                    shares[number] = min(shares[one] for one in inner)
            elif (name == "icmp" or self.texts[number].startswith("br i1")) and any(one in shares for one in operands):
                shares[number] = min(shares[one] for one in operands if one in shares)
        return shares

    @cached_property
    def private(self) -> Mapping[int, bool]:
        """The loads and stores of private memory, and whether they are of registers: of arrays all of whose places are
        constants once loops are unrolled."""
        in_memory = {array for array, is_constant in self._places.values() if not is_constant}
        return {number: array not in in_memory for number, (array, _) in self._places.items()}

    @cached_property
    def _places(self) -> Mapping[int, tuple[int, bool]]:
        """The array of each load and store of private memory, and whether its place in there is a constant."""
        return {
            number: (self._array(text), self._is_constant(text))
            for number, text in self.texts.items()
            if program.opcode(text) in ("load", "store") and "addrspace" not in text
        }

    def lines(self, number: int, width: int) -> tuple[float, float]:
        """Lines of a word for each work-item of a sub-group, which are neighbours in private memory, that a load or store of
        it touches: at least, where all are at the same place of their arrays, and at most. A single one touches a line."""
        if width == 1:
            return 1.0, 1.0
        array, is_constant = self._places[number]
        same = max(1.0, program.size(self.texts[number]) / WORD_BYTES)
        words = -(-program.size(self.texts.get(array, "")) // WORD_BYTES)
        return same, same if is_constant else max(same, min(width, words))

    def _array(self, text: str) -> int:
        """The allocation that an instruction's pointer is of; -1 if its text does not tell."""
        base = _POINTER.search(text)
        number = self._makers.get(base[1], -1) if base else -1
        inner = self.texts.get(number, "")
        return self._array(inner.partition(" = ")[2]) if program.opcode(inner) in ("getelementptr", "bitcast") else number

    def _is_constant(self, text: str) -> bool:
        """Whether the pointer that an instruction reads is a constant distance from an array."""
        base = _POINTER.search(text)
        number = self._makers.get(base[1], -1) if base else -1
        if program.opcode(self.texts.get(number, "")) not in ("getelementptr", "bitcast"):
            return program.opcode(self.texts.get(number, "")) not in ("phi", "select")
        inner = self.texts[number].partition(" = ")[2]
        other = _POINTER.search(inner)
        names = program.reads(self.texts[number]) - ({other[1]} if other else set())
        return all(self.left.get(self._makers.get(name, -1)) == 0.0 for name in names) and self._is_constant(inner)

    def is_in_runtime_loop(self, number: int) -> bool:
        """Whether an instruction is in a loop whose number of rounds is no constant: no counter up to a constant goes round
        about as often."""
        times = self.executed[number]
        return not any(share == 0.0 and times <= self.executed[one] <= 2 * times for one, share in self.counters.items())

    @cached_property
    def rounds_ahead(self) -> Mapping[int, int]:
        """Of how many rounds of a loop of run-time bounds a compiler issues a load before it uses the first: those that it
        writes out, as far as its schedule looks ahead."""
        cost = {number: estimated_instructions(text) * self.left.get(number, 1.0) for number, text in self.texts.items()}
        found = {}
        for number, text in self.texts.items():
            if program.opcode(text) == "load":
                times = self.executed[number]
                body = sum(each for one, each in cost.items() if abs(self.executed[one] - times) <= SAME_LOOP * times)
                found[number] = max(1, min(UNROLLED, round(SCHEDULED / max(1.0, body))))
        return found

    @cached_property
    def chained(self) -> float:
        """Operations that wait for each other from round to round, over all rounds of all work-items: of each loop the longest
        way from a value back to itself, but through loads."""
        return sum(
            max(self._way(one, phis) for one in phis) * min(self.executed[one] for one in phis) for phis in self._headers
        )

    @property
    def _headers(self) -> list[list[int]]:
        """The values that go round each loop."""
        found = dict[float, list[int]]()
        for number, text in self.texts.items():
            if program.opcode(text) == "phi" and number not in self.counters:
                found.setdefault(self.executed[number], []).append(number)
        return list(found.values())

    def _way(self, phi: int, phis: list[int]) -> int:
        """Operations on the longest way from the value back to itself; 0 if it does not come back."""
        lengths = dict[int, int | None]()

        def length(number: int) -> int | None:
            """Of the longest way from the value to this instruction, None without one."""
            if number in lengths:
                return lengths[number]
            lengths[number] = None
            if program.opcode(self.texts[number]) in ("load", "phi"):
                return None
            before = [0 if one == phi else length(one) for one in self._operands(number)]
            known = [one for one in before if one is not None]
            step = 0 if program.opcode(self.texts[number]) in FREE else 1
            lengths[number] = max(known) + step if known else None
            return lengths[number]

        return max((length(one) or 0 for one in self._operands(phi) if one > phi), default=0)
