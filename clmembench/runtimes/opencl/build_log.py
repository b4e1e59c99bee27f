"""Registers, stack frame and spills of a kernel, from the build log of NVIDIA's compiler. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '[^']+'\s*$")
_PROPERTIES = re.compile(r"Function properties for '?([^\s']+?)'?\s*$")
_FRAME = re.compile(r"\b(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\s*$")
_REGISTERS = re.compile(r"\bUsed (\d+) registers\b")


def nvidia_facts(log: str, kernel: str) -> Mapping[str, int]:
    """registers, stack_bytes, spill_store_bytes and spill_load_bytes of the kernel of that name, for each work-item.

    Empty where the log does not speak of it, as that of a program from the driver's cache, or contradicts itself; a line that
    is not as expected gives none of its numbers. What the log says of functions that the kernel calls is passed over.
    """
    told: dict[str, set[int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, function = match[1], ""
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif entry != kernel:
            continue
        elif (match := _FRAME.search(line)) and function == kernel:
            for name, number in zip(("stack_bytes", "spill_store_bytes", "spill_load_bytes"), match.groups(), strict=True):
                told.setdefault(name, set()).add(int(number))
        elif match := _REGISTERS.search(line):
            told.setdefault("registers", set()).add(int(match[1]))
    if any(len(numbers) > 1 for numbers in told.values()):
        return {}
    return {name: numbers.pop() for name, numbers in told.items()}
