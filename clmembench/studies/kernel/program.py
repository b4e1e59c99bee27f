"""What an instruction of LLVM's program is, by its text: its kind, its floating-point operations, what it reads and makes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv", "frem", "fneg"), "float"),
    **dict.fromkeys(
        ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "and", "or", "xor"), "integer"
    ),
    **dict.fromkeys(("icmp", "fcmp", "select"), "compare"),
    **dict.fromkeys(
        ("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "bitcast", "ptrtoint",
         "inttoptr", "addrspacecast", "freeze"), "conversion",
    ),
    **dict.fromkeys(("extractelement", "insertelement", "shufflevector", "extractvalue", "insertvalue"), "vector"),
    **dict.fromkeys(("load", "store"), "memory"),
    **dict.fromkeys(("br", "switch", "ret", "phi", "unreachable"), "control"),
    "getelementptr": "address",
    "alloca": "address",
}  # fmt: skip
MULTIPLY_ADDS = ("fma", "mad", "fmuladd")
OPCODE = re.compile(r"^(?:%[^=]+ = )?((?:tail |notail |musttail )?\w+)")
CALLED = re.compile(r"@([\w.]+)\(")
MANGLED = re.compile(r"_Z(\d+)(\w+)")
VECTOR = re.compile(r"<(\d+) x (?:half|float|double)>")
REAL = re.compile(r"\b(?:half|float|double)\b")
DIMENSION = re.compile(r"(\d+) x ")
ELEMENT = re.compile(r"\b(?:i(\d+)|half|float|double)\b")
ELEMENT_BYTES: Mapping[str, int] = {"half": 2, "float": 4, "double": 8}
NAME = re.compile(r"%[\w.$-]+|%\"[^\"]+\"")


@cache
def opcode(text: str) -> str:
    """The opcode, or of a call "call"."""
    found = OPCODE.match(text)
    return found[1].split()[-1] if found else ""


@cache
def called(text: str) -> str:
    """The name of the function that a call calls, as OpenCL C has it; empty for other instructions."""
    found = CALLED.search(text)
    if opcode(text) != "call" or found is None:
        return ""
    mangled = MANGLED.match(found[1])
    if mangled:
        return mangled[2][: int(mangled[1])]
    return found[1].split(".")[1] if found[1].startswith("llvm.") else found[1]


@cache
def kind(text: str) -> str:
    """The kind of an instruction, for counts by kind."""
    function = called(text)
    if not function:
        return KINDS.get(opcode(text), "other")
    if function in MULTIPLY_ADDS:
        return "float"
    if function.startswith("get_"):
        return "index"
    if "barrier" in function or "fence" in function:
        return "barrier"
    if function.startswith(("atom", "vload", "vstore", "async_", "memcpy", "memset", "read_image", "write_image")):
        return "memory"
    return "function" if flops(text) else "other"


@cache
def flops(text: str) -> int:
    """Floating-point operations of one execution: each element once, a multiply-add twice."""
    function, wide = called(text), VECTOR.search(text)
    elements = int(wide[1]) if wide else 1
    if function in MULTIPLY_ADDS:
        return 2 * elements
    if function == "dot":
        return 2 * elements - 1
    if function:
        is_data = function.startswith(
            ("atom", "vload", "vstore", "convert", "as_", "shuffle", "select", "read_", "write_", "get_")
        )
        made = text.split("@")[0]
        return elements if REAL.search(made) and "=" in text and not is_data else 0
    return elements if opcode(text) in ("fadd", "fsub", "fmul", "fdiv", "frem") else 0


@cache
def makes(text: str) -> str:
    """The name of the value that an instruction makes; empty without one."""
    before, _, after = text.partition(" = ")
    return before.strip() if after and before.strip().startswith("%") else ""


@cache
def reads(text: str) -> frozenset[str]:
    """The names of the values that an instruction reads."""
    return frozenset(NAME.findall(text.partition(" = ")[2] if makes(text) else text))


@cache
def size(text: str) -> int:
    """Bytes of what an instruction loads, stores or allocates; 0 if its text does not tell."""
    inner = text.partition(" = ")[2] or text
    element = ELEMENT.search(inner)
    if element is None:
        return 0
    each = -(-int(element[1]) // 8) if element[1] else ELEMENT_BYTES[element[0]]
    return each * math.prod(map(int, DIMENSION.findall(inner[: element.start()])))
