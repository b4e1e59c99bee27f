"""What a program's instructions cost to issue, and which loads each of them waits for, by LLVM's text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from clmembench.studies.kernel import program

_LANES = re.compile(r"<(\d+) x ")
FREE = ("phi", "ret", "extractelement", "insertelement", "shufflevector")  # names of registers
SOMETIMES = ("getelementptr", "bitcast", "addrspacecast", "zext", "sext", "trunc")  # or folded into another instruction
# machine instructions of an operation that hardware has no single one for, from the fewest to the most of common devices
SLOW = {"fdiv": (1, 10), "udiv": (8, 20), "sdiv": (8, 20), "urem": (8, 20), "srem": (8, 20)}
FUNCTION = (1, 40)  # of a mathematical function; native ones are one
SIMPLE = ("max", "min", "clamp", "abs", "fmin", "fmax", "fabs", "mul24", "smin", "smax", "umin", "umax")


NO_LATENCY = (*FREE, "zext", "sext", "trunc", "bitcast", "addrspacecast", "br", "switch", "load", "store", "alloca")
REAL_OPERATIONS = {"fadd": "add", "fsub": "add", "fmul": "mul", "fdiv": "div"}
LONG = 10  # operations that a mathematical function or a division takes the time of, where ways are compared


def machine_instructions(text: str) -> tuple[float, float]:
    """The fewest and the most machine instructions that one of LLVM's takes for a work-item."""
    name, function = program.opcode(text), program.called(text)
    found = _LANES.search(text)
    lanes = int(found[1]) if found and name not in ("load", "store", "getelementptr") else 1
    kind = program.kind(text)
    if kind == "index":
        return 0, 1
    if name == "br":
        return (1, 1) if text.startswith("br i1") else (0, 0)  # blocks that follow each other are one
    if name in FREE or function.startswith(("llvm", "dbg", "lifetime", "assume")):
        return 0, 0
    if name in SOMETIMES:
        return 0, 2 if name == "getelementptr" else 1
    if name in SLOW:
        return SLOW[name][0] * lanes, SLOW[name][1] * lanes
    if function and kind == "function":
        return FUNCTION[0] * lanes, (FUNCTION[0] if function.startswith(("native_", "half_")) else FUNCTION[1]) * lanes
    if function.startswith(SIMPLE):
        return lanes, 2 * lanes
    return lanes, lanes


def is_function(text: str) -> bool:
    """Whether a unit for functions computes it: a mathematical function, or a division or root of real numbers."""
    return (program.kind(text) == "function" and not program.called(text).startswith(SIMPLE)) or program.opcode(text) == "fdiv"


def fewest_instructions(text: str) -> float:
    """The fewest of them."""
    return machine_instructions(text)[0]


def most_instructions(text: str) -> float:
    """The most of them."""
    return machine_instructions(text)[1]


def estimated_instructions(text: str) -> float:
    """The middle of both, by their logarithms; half an instruction stands for none."""
    least, most = machine_instructions(text)
    return (max(least, 0.5) * most) ** 0.5 if most else 0.0


def latency_name(text: str) -> str:
    """The operation and the type by which `instruction` measures the latency of an instruction; empty if it has none."""
    name, function = program.opcode(text), program.called(text)
    if name in NO_LATENCY or (function and program.kind(text) not in ("float", "function")):
        return ""
    dtype = next((one for one in ("double", "half", "float") if one in text), "int")
    if function:
        return f"{'fma' if function in program.MULTIPLY_ADDS else function} {dtype}"
    return f"{REAL_OPERATIONS[name]} {dtype}" if name in REAL_OPERATIONS else "add int"


def length(way: Sequence[str]) -> int:
    """Of a way of latencies, in those of an addition."""
    return sum(1 if name.partition(" ")[0] in ("add", "mul", "fma") else LONG for name in way)


@dataclass(frozen=True)
class Dependences:
    """The loads that each instruction waits for, by the numbers of instructions."""

    texts: Mapping[int, str]

    @cached_property
    def _makers(self) -> Mapping[str, int]:
        return {name: number for number, text in self.texts.items() if (name := program.makes(text))}

    @cached_property
    def waits_for(self) -> Mapping[int, frozenset[int]]:
        """The loads and atomics that an instruction's operands come from, through any operations."""
        return {number: self._sources(program.reads(text)) for number, text in self.texts.items()}

    @cached_property
    def ways(self) -> Mapping[int, Mapping[int, tuple[str, ...]]]:
        """The longest way from each load to an instruction within a round of a loop, by the numbers of both: the latencies that
        it takes, with the instruction's own."""
        found = dict[int, dict[int, tuple[str, ...]]]()
        for number in sorted(self.texts):
            text, mine = self.texts[number], dict[int, tuple[str, ...]]()
            if program.opcode(text) != "phi":
                own = (latency_name(text),) if latency_name(text) else ()
                for maker in sorted(self._makers[name] for name in program.reads(text) if name in self._makers):
                    before = {maker: ()} if self._is_load(maker) else found.get(maker, {})
                    for load, way in before.items():
                        mine[load] = max(mine.get(load, ()), (*way, *own), key=length)
            found[number] = mine
        return found

    def way(self, loads: Iterable[int], waiting: Iterable[int]) -> tuple[str, ...]:
        """The longest way from one of the loads to one of the instructions that wait; without these to the end."""
        ends = [self.ways[number] for number in waiting] or [self.farthest]
        return max((end[load] for end in ends for load in loads if load in end), key=length, default=())

    @cached_property
    def farthest(self) -> Mapping[int, tuple[str, ...]]:
        """The longest way from each load to whatever comes from it within a round of a loop."""
        found = dict[int, tuple[str, ...]]()
        for ways in self.ways.values():
            for load, way in ways.items():
                found[load] = max(found.get(load, ()), way, key=length)
        return found

    def _is_load(self, number: int) -> bool:
        return program.opcode(self.texts[number]) == "load" or program.called(self.texts[number]).startswith("atom")

    @cached_property
    def has_loop(self) -> bool:
        """Whether a value comes from a later instruction, as it does where a loop goes round."""
        return any(self._makers.get(name, -1) > number for number, text in self.texts.items() for name in program.reads(text))

    @cached_property
    def has_short_index(self) -> bool:
        """Whether an index of a work-item is cut to 32 bits: it may wrap, so neighbours need not be neighbours in memory, and
        compilers do not make vectors of their loads and stores."""
        return any(
            program.opcode(text) == "trunc" and program.kind(self.texts.get(self._makers.get(name, -1), "")) == "index"
            for text in self.texts.values()
            for name in program.reads(text)
        )

    def _sources(self, names: Iterable[str]) -> frozenset[int]:
        found, seen, open_names = set(), set(), list(names)
        while open_names:
            number = self._makers.get(open_names.pop())
            if number is None or number in seen:
                continue
            seen.add(number)
            if self._is_load(number):
                found.add(number)
            else:
                open_names += program.reads(self.texts[number])
        return frozenset(found)
