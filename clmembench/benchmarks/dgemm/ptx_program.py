"""A program in PTX as it is written: its lines, and its registers by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SUB_GROUP = 32
PIECE = 16  # bytes of a load from local memory, and of a copy of a line that stays as it is


@dataclass(slots=True)
class Program:
    """The lines of a program, and how many registers of each type it has."""

    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    labels: int = 0

    def new(self, kind: str) -> str:
        """A new register of a type: b32, b64, f32, f64 or pred."""
        number = self.counts.get(kind, 0)
        self.counts[kind] = number + 1
        return f"%{kind}_{number}"

    def several(self, kind: str, count: int) -> list[str]:
        return [self.new(kind) for _ in range(count)]

    def op(self, name: str, *operands: object, when: str = "") -> None:
        """An instruction, executed where the predicate `when` is true."""
        guard = f"@{when} " if when else ""
        self.lines.append(f"\t{guard}{name} {', '.join(map(str, operands))}".rstrip() + ";")

    def let(self, name: str, *operands: object) -> str:
        """The new register that holds an instruction's result, of the type that the instruction's name tells."""
        if name.startswith("setp") or name.endswith("pred"):
            kind = "pred"
        elif name.startswith("mul.wide"):
            kind = "b64"
        else:
            kind = f"b{name.split('.')[1 if name.startswith('cvt') else -1][1:]}"
        result = self.new(kind)
        self.op(name, result, *operands)
        return result

    def label(self, name: str) -> str:
        self.labels += 1
        return f"{name}_{self.labels}"

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def wide(self, number: str, by: object) -> str:
        """A product of two 32-bit numbers, of 64 bits."""
        return self.let("mul.wide.u32", number, by)

    def text(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        work_group: int,
        local_bytes: int,
        resident: int,
        target: str = "sm_90",
        version: str = "7.8",
        align: int = 128,
    ) -> str:
        """The whole program: one kernel of that name, whose parameters are pointers (b64) and numbers (b32)."""
        declared = ",\n".join(
            f"\t.param .u64 .ptr .global .align 16 {p}" if kind == "b64" else f"\t.param .u32 {p}" for p, kind in parameters
        )
        registers = "\n".join(f"\t.reg .{kind} %{kind}_<{count}>;" for kind, count in sorted(self.counts.items()))
        body = "\n".join(self.lines)
        return (
            f".version {version}\n.target {target}\n.address_size 64\n.shared .align {align} .b8 slabs[{local_bytes}];\n"
            f".visible .entry {name}(\n{declared}\n)\n.reqntid {work_group}, 1, 1\n.minnctapersm {resident}\n{{\n"
            f"{registers}\n{body}\n}}\n"
        )
