"""PTX programs of the product of dense matrices for NVIDIA GPUs: straight lines, unrolled here, with registers by name.

A program in PTX declares its local memory, of which OpenCL C has 48 KiB on NVIDIA's GPUs, and names each instruction. A
work-group copies slabs of A and B, `depth` values of k deep, into a ring of `stages` slabs by asynchronous copies, and
multiplies them from registers: doubles by the FP64 matrix instruction m16n8k8, floats by multiply-adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

SUB_GROUP = 32
PIECE = 16  # bytes of a load from local memory, and of a copy of a line that stays as it is
RUN_BYTES = 32  # of a line that is turned: as many as a sector of global memory, which neighbours copy an element each
UNROLL = 2  # slabs in a turn of the loop, for two sets of registers; k is divided into such pairs
UNIT_LOCAL_BYTES, RESERVED_BYTES, UNIT_REGISTERS = 228 << 10, 1 << 10, 1 << 16  # of sm_90
BAND = 8  # rows of tiles that are taken together, so that those computed at the same time share operands in a cache
K = 8  # of a matrix instruction
AHEAD = 2  # eights of rows that are loaded before they are used
NO_SLAB = 4  # bytes: no operand's address is an odd multiple


@dataclass(frozen=True, slots=True)
class Tiles:
    """A work-group's tile of C, its sub-groups, and its ring of slabs. An element has `size` bytes: a double or a float.

    `parts` sub-groups have the same part of the tile, and each multiplies its own part of a slab's depth.
    """

    size: int
    rows: int
    columns: int
    down: int
    across: int
    depth: int
    stages: int
    parts: int = 1

    @property
    def work_group(self) -> int:
        return SUB_GROUP * self.down * self.across * self.parts

    @property
    def own_depth(self) -> int:
        """Values of k in a slab that a sub-group multiplies."""
        return self.depth // self.parts

    @property
    def a_bytes(self) -> int:
        """Bytes of a slab of A: `rows` lines of doubles; floats are turned, in `depth` lines."""
        return self.rows * self.depth * self.size if self.size == 8 else self.a_pitch * self.depth

    @property
    def a_pitch(self) -> int:
        """Bytes from line to line of a turned slab, padded so that copies of neighbours access different banks."""
        return (self.rows + 4) * self.size

    @property
    def slab_bytes(self) -> int:
        return self.a_bytes + self.columns * self.depth * self.size

    @property
    def local_bytes(self) -> int:
        return self.stages * self.slab_bytes + PIECE  # and what one work-item tells the others

    @property
    def registers(self) -> int:
        """Most registers of a work-item: as many as there are, but half where few sums let two work-groups share a unit."""
        sums = self.rows * self.columns * self.parts * self.size // 4 // self.work_group
        return 128 if self.size == 4 and sums <= 64 else 255

    @property
    def resident(self) -> int:
        """Work-groups that a compute unit holds at a time."""
        by_memory = UNIT_LOCAL_BYTES // (self.local_bytes + RESERVED_BYTES)
        return max(1, min(by_memory, UNIT_REGISTERS // ((self.registers + 1) // 8 * 8 * self.work_group)))

    @property
    def multiple(self) -> int:
        """The number to a multiple of which k is padded."""
        return UNROLL * self.depth


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


class Spread:
    """Emits `count` steps between others: `together` at a time, evenly over `among` calls of `advance`."""

    def __init__(self, steps: Iterator[None], count: int, among: int, together: int) -> None:
        self.steps, self.count, self.among, self.together = steps, count, among, together
        self.passed = self.made = 0

    def advance(self) -> None:
        self.passed += 1
        while self.made < min(self.count, self.passed * self.count / self.among):
            for _ in range(self.together):
                next(self.steps, None)
            self.made += self.together

    def finish(self) -> None:
        for _ in self.steps:
            pass


class Copies:
    """A work-item's asynchronous copies of slabs of one operand, `lines` lines of `line` bytes that lie a stride apart.

    In local memory the pieces of a line are permuted by its number; or, where `pitch` is given, the slab is turned: elements of
    a line lie that many bytes apart.
    """

    def __init__(self, p: Program, item: str, work_group: int, lines: int, line: int, change: Change, pitch: int = 0) -> None:
        self.p = p
        self.bytes = 4 if pitch else PIECE
        across = RUN_BYTES // 4 if pitch else line // PIECE  # neighbouring work-items copy from one line
        self.runs = line // self.bytes // across
        self.step = work_group // across  # lines from one of its lines to the next
        mine = lines // self.step
        self.count = mine * self.runs
        self.line = p.let("shr.u32", item, across.bit_length() - 1)
        self.piece = p.let("and.b32", item, across - 1)
        if pitch:
            self.to = {0: p.let("mad.lo.u32", self.piece, pitch, p.let("shl.b32", self.line, 2))}
            self.places = [(0, run * across * pitch + i * self.step * 4) for i in range(mine) for run in range(self.runs)]
        else:
            first = p.let("mad.lo.u32", self.line, line, p.let("shl.b32", change.of_register(p, self.line, self.piece), 4))
            # a permutation of later lines differs by a constant from that of the first one
            self.places = [(change.of(i * self.step) * PIECE, i * self.step * line) for i in range(mine)]
            self.to = {other: p.let("xor.b32", first, other) for other, _ in self.places}
        # of doubles an address for each line, since an address that is computed anew waits until the last copy has read it
        self.sources = p.several("b64", 1 if pitch else mine)
        self.stride = self.next_slab = ""

    def start(self, source: str, stride: str, next_slab: object) -> None:
        """The next copies begin at that address of the first line; lines and slabs follow so many bytes apart."""
        self.stride, self.next_slab = stride, str(next_slab)
        self.p.op("mov.u64", self.sources[0], source)
        for before, address in zip(self.sources, self.sources[1:], strict=False):
            self.p.op("add.s64", address, before, stride)

    def issue(self, slab: str, offset: int, when: str) -> Iterator[None]:
        """Copies the next slab, a piece at a time."""
        name = f"cp.async.{'cg' if self.bytes == PIECE else 'ca'}.shared.global.L2::128B"
        source = self.sources[0]
        for i, (change, after) in enumerate(self.places):
            line, run = divmod(i, self.runs)
            if len(self.sources) > 1:
                source = self.sources[line]
            elif line and not run:
                source = self.p.let("add.s64", source, self.stride)
            to = self.p.let("add.u32", slab, self.to[change])
            self.p.op(name, f"[{to}+{offset + after}]", f"[{source}+{run * RUN_BYTES}]", self.bytes, when=when)
            yield

    def advance(self) -> Iterator[None]:
        """Moves on to the next slab, an address at a time."""
        for source in self.sources:
            self.p.op("add.s64", source, source, self.next_slab)
            yield


@dataclass(frozen=True, slots=True)
class Change:
    """What the numbers of a line's pieces are combined with by exclusive or: bits of the line's number from `first` on."""

    first: int
    bits: int
    shift: int

    def of(self, line: int) -> int:
        return (line >> self.first & (1 << self.bits) - 1) << self.shift

    def of_register(self, p: Program, line: str, piece: str) -> str:
        """The changed number of a piece in a line."""
        if not self.bits:
            return piece
        part = p.let("and.b32", p.let("shr.u32", line, self.first), (1 << self.bits) - 1)
        return p.let("xor.b32", piece, p.let("shl.b32", part, self.shift))


class Products(Protocol):
    """A sub-group's part of a tile in registers, `m` rows by `n` columns."""

    sums: list[list[list[str]]]
    row: str  # of the work-item's first element
    column: str

    def start(self, use: str) -> None: ...
    def slabs(self, use: str, copying: Copying) -> None: ...
    def row_of(self, part: str, lines: int) -> str: ...
    def parted(self, sums: Sequence[str], zero: str) -> Sequence[str]: ...
    def store(self, at: str, stride: str) -> None: ...


class Copying(Protocol):
    """What a loop over slabs asks for: the next slab's copies, and the change to the next slab."""

    def spread(self, among: int, together: int) -> Spread: ...
    def turn(self) -> None: ...


class DoubleProducts:
    """Products by matrix instructions.

    Their first operand has columns of B and their second one rows of A: then what a load of 16 bytes brings lies in
    neighbouring registers of one operand. A sub-group has lanes 4 g + q.
    """

    A_CHANGE, B_CHANGE = Change(0, 1, 2), Change(1, 2, 1)

    def __init__(self, p: Program, t: Tiles, lane: str, down: str, across: str, part: str) -> None:
        self.p, self.t = p, t
        self.m, self.n = t.rows // t.down, t.columns // t.across
        g, q = p.let("shr.u32", lane, 2), p.let("and.b32", lane, 3)
        row = p.let("mad.lo.u32", down, self.m, g)
        low = p.let("mad.lo.u32", row, t.depth * 8, p.let("shl.b32", self.A_CHANGE.of_register(p, g, q), 4))
        # rows 2 q and 2 q + 1 of every eight rows of B
        at = p.let("mad.lo.u32", q, 2 * t.columns * 8, p.let("shl.b32", p.let("xor.b32", g, p.let("shl.b32", q, 1)), 4))
        if part:
            low, at = (
                p.let("mad.lo.u32", part, t.own_depth * pitch, place) for place, pitch in ((low, 8), (at, 8 * t.columns))
            )
        self.a_at = [low, p.let("xor.b32", low, 64)]  # of the even and the odd eights of k
        self.b_at = p.let("add.u32", p.let("mad.lo.u32", across, self.n * 8, at), t.a_bytes)
        self.row = p.let("mad.lo.u32", down, self.m, p.let("shl.b32", q, 1))
        self.column = p.let("mad.lo.u32", across, self.n, p.let("shl.b32", g, 1))
        self.sums = [[p.several("f64", 4) for _ in range(self.n // 16)] for _ in range(self.m // 8)]
        self.rows = [p.several("f64", 2) for _ in range(2 * AHEAD)]
        self.columns = [[p.several("f64", 4) for _ in range(self.n // 16)] for _ in range(2)]
        self.a_use, self.b_use = p.several("b32", 2), p.new("b32")
        self.fences = 0

    def start(self, use: str) -> None:
        self._use(use)
        for r in range(AHEAD):
            self._load_rows(0, r, self.rows[r])
        for j, part in enumerate(self.columns[0]):
            self._load_columns(0, j, part)

    def slabs(self, use: str, copying: Copying) -> None:
        """UNROLL slabs. Rows are loaded AHEAD eights ahead; the columns of the next eight k while the last rows are used."""
        p, rows, in_slab = self.p, self.m // 8, self.t.own_depth // K
        for step in range(UNROLL * in_slab):
            now, after = self.columns[step % 2], self.columns[(step + 1) % 2]
            if step % in_slab == 0:
                copies = copying.spread(12, 4)
            for r in range(rows):
                if r + AHEAD == rows and (step + 1) % in_slab == 0:
                    copies.finish()
                    copying.turn()
                    self._use(use)
                for j in range(len(now)):
                    if j == 1:
                        self._fence()
                        ahead = step * rows + r + AHEAD
                        self._load_rows(ahead // rows % in_slab, ahead % rows, self.rows[ahead % len(self.rows)])
                        coming = r + AHEAD - rows
                        for other in range(coming, len(now), AHEAD) if coming >= 0 else ():
                            self._load_columns((step + 1) % in_slab, other, after[other])
                        copies.advance()
                    c, part = self.sums[r][j], self.rows[(step * rows + r) % len(self.rows)]
                    operands = (f"{{{', '.join(x)}}}" for x in (c, now[j], part, c))
                    p.op(f"mma.sync.aligned.m16n8k{K}.row.col.f64.f64.f64.f64", *operands)

    def _use(self, use: str) -> None:
        for to, at in zip((*self.a_use, self.b_use), (*self.a_at, self.b_at), strict=True):
            self.p.op("add.u32", to, use, at)

    def _fence(self) -> None:
        """A branch that is never taken, across which the assembler moves no load.

        Otherwise it moves loads up to where a register becomes free, and there they wait until the instruction before has read
        that register.
        """
        self.fences += 1
        never = self.p.let("setp.eq.u32", self.a_use[0], NO_SLAB * (2 * self.fences + 1))
        self.p.op("bra", "DONE", when=never)

    def _load_rows(self, eight: int, r: int, part: Sequence[str]) -> None:
        """A work-item's elements of 8 rows of A: at k = 2 q and 2 q + 1, which take the places of q and q + 4 in the
        instruction; the order of k is free."""
        at = f"[{self.a_use[eight % 2]}+{8 * r * self.t.depth * 8 + eight // 2 * 128}]"
        self.p.op("ld.volatile.shared.v2.f64", f"{{{part[0]}, {part[1]}}}", at)

    def _load_columns(self, eight: int, j: int, part: Sequence[str]) -> None:
        """Its elements of 16 columns of B at those k: two neighbours; the second takes the place of column g + 8."""
        for k in range(2):
            at = f"[{self.b_use}+{(8 * eight + k) * self.t.columns * 8 + j * 128}]"
            self.p.op("ld.volatile.shared.v2.f64", f"{{{part[2 * k]}, {part[2 * k + 1]}}}", at)

    def row_of(self, part: str, lines: int) -> str:
        """The row of the work-item's first element in a part of so many lines of its sums."""
        return self.p.let("mad.lo.u32", part, 8 * lines, self.row)

    def parted(self, sums: Sequence[str], zero: str) -> Sequence[str]:
        """The sums, to be stored as a vector."""
        return sums

    def store(self, at: str, stride: str) -> None:
        p = self.p
        odd, down = p.let("add.s64", at, p.wide(stride, 8)), p.wide(stride, 8 * 8)
        for line in self.sums:
            for j, c in enumerate(line):
                p.op("st.global.v2.f64", f"[{at}+{j * 128}]", f"{{{c[0]}, {c[2]}}}")
                p.op("st.global.v2.f64", f"[{odd}+{j * 128}]", f"{{{c[1]}, {c[3]}}}")
            at, odd = (p.let("add.s64", x, down) for x in (at, odd))


class FloatProducts:
    """Products by multiply-adds. A work-item, of 8 x 4 in a sub-group, has its rows in fours 32 apart, its columns in fours 16
    apart."""

    A_CHANGE = B_CHANGE = Change(0, 0, 0)

    def __init__(self, p: Program, t: Tiles, lane: str, down: str, across: str, part: str) -> None:
        self.p, self.t = p, t
        self.m, self.n = t.rows // t.down, t.columns // t.across
        y, x = p.let("shr.u32", lane, 2), p.let("and.b32", lane, 3)
        self.row = p.let("mad.lo.u32", down, self.m, p.let("shl.b32", y, 2))
        self.column = p.let("mad.lo.u32", across, self.n, p.let("shl.b32", x, 2))
        self.a_at, self.b_at = p.let("shl.b32", self.row, 2), p.let("mad.lo.u32", self.column, 4, t.a_bytes)
        if part:
            self.a_at = p.let("mad.lo.u32", part, t.own_depth * t.a_pitch, self.a_at)
            self.b_at = p.let("mad.lo.u32", part, t.own_depth * t.columns * 4, self.b_at)
        self.sums = [[p.several("f32", 4) for _ in range(self.n // 16)] for _ in range(self.m // 8)]
        self.parts = [(p.several("f32", self.m // 8), p.several("f32", self.n // 4)) for _ in range(2)]
        self.a_use, self.b_use = p.new("b32"), p.new("b32")

    def start(self, use: str) -> None:
        self._use(use)
        for _ in self._load(0, 0):
            pass

    def slabs(self, use: str, copying: Copying) -> None:
        """UNROLL slabs. While one k is used, the next is loaded to the other set of registers."""
        p, depth = self.p, self.t.own_depth
        blocks = self.m * self.n // SUB_GROUP // 8  # of 4 x 2 multiply-adds
        for k in range(UNROLL * depth):
            if k % depth == 0:
                copies = copying.spread((depth - 1) * blocks, 6)
            if (k + 1) % depth == 0:
                copies.finish()
                copying.turn()
                self._use(use)
            a, b = self.parts[k % 2]
            loads = Spread(self._load((k + 1) % depth, (k + 1) % 2), (len(a) + len(b)) // 4, blocks, 1)
            for i in range(0, len(a), 4):
                for j in range(0, len(b), 2):
                    loads.advance()
                    # rows begin where those of the columns before ended: operands are used again at once
                    for row in (i, i + 1, i + 2, i + 3) if j % 4 == 0 else (i + 2, i + 3, i, i + 1):
                        for column in (j, j + 1):
                            c = self.sums[row][column // 4][column % 4]
                            p.op("fma.rn.f32", c, a[row], b[column], c)
                    copies.advance()
            loads.finish()

    def _use(self, use: str) -> None:
        self.p.op("add.u32", self.a_use, use, self.a_at)
        self.p.op("add.u32", self.b_use, use, self.b_at)

    def _load(self, k: int, half: int) -> Iterator[None]:
        """Loads one k, a four at a time."""
        a, b = self.parts[half]
        places = [(b, j, f"[{self.b_use}+{k * self.t.columns * 4 + j * 16}]") for j in range(0, len(b), 4)]
        places += [(a, i, f"[{self.a_use}+{k * self.t.a_pitch + i * 32}]") for i in range(0, len(a), 4)]
        for part, i, at in places:
            self.p.op("ld.shared.v4.f32", f"{{{', '.join(part[i : i + 4])}}}", at)
            yield

    def row_of(self, part: str, lines: int) -> str:
        """The row of the work-item's first element in a part of so many lines of its sums."""
        p, row = self.p, self.p.let("mad.lo.u32", part, lines, self.row)
        if len(self.sums) * self.t.parts <= 4:
            return row
        return p.let("mad.lo.u32", p.let("shr.u32", p.let("mul.lo.u32", part, lines), 2), 28, row)

    def parted(self, sums: Sequence[str], zero: str) -> list[str]:
        """The sums, to be stored as a vector.

        A vector of the sums themselves would tie them to neighbouring registers, in the banks of the columns of B that they
        take products of; an operation with a zero that the assembler does not know parts them.
        """
        bits = self.p.several("b32", len(sums))
        for b, s in zip(bits, sums, strict=True):
            self.p.op("mov.b32", b, s)
        return [self.p.let("xor.b32", b, zero) for b in bits]

    def store(self, at: str, stride: str) -> None:
        p = self.p
        zero = p.let("shr.u32", stride, 31)
        down, to_next_four = p.wide(stride, 4), p.wide(stride, 29 * 4)
        for i, line in enumerate(self.sums):
            for j, four in enumerate(line):
                p.op("st.global.v4.b32", f"[{at}+{j * 64}]", f"{{{', '.join(self.parted(four, zero))}}}")
            at = p.let("add.s64", at, to_next_four if i % 4 == 3 else down)


def program(tiles: Tiles, split: bool, overlap: bool, name: str = "multiply") -> str:
    """The program of `multiply`: C = A B, of row-major matrices padded with zeros to whole tiles and to `tiles.multiple`.

    Its parameters are a, b, c, the numbers of tiles down and across, the inner size, sums (two tiles for each work-group),
    arrivals (an integer for each split tile, 0 before and after) and the number of rounds in which each work-group takes a
    whole tile. All tiles after those are split along k, so that each work-group has an equal share of them.
    """
    p = Program()
    kinds = {"a": "b64", "b": "b64", "c": "b64", "tile_rows": "b32", "tile_columns": "b32", "inner": "b32"}
    kinds |= {"sums": "b64", "arrivals": "b64", "whole_rounds": "b32"}
    values = {parameter: p.let(f"ld.param.{kind}", f"[{parameter}]") for parameter, kind in kinds.items()}
    _Multiply(p, tiles, values, split, overlap).emit()
    return p.text(name, list(kinds.items()), tiles.work_group, tiles.local_bytes, 1 if split else tiles.resident)


class _Multiply:
    """Emits the kernel: segments, which are tiles or parts of them along k, one after the other."""

    def __init__(self, p: Program, t: Tiles, values: dict[str, str], split: bool, overlap: bool) -> None:
        self.p, self.t, self.values, self.split, self.overlap = p, t, values, split, overlap
        self.item, self.group, self.groups = (p.let("mov.u32", x) for x in ("%tid.x", "%ctaid.x", "%nctaid.x"))
        self.stride = p.let("mul.lo.u32", values["tile_columns"], t.columns)  # of a row of B and C, in elements
        self.turns = p.let("shr.u32", values["inner"], t.multiple.bit_length() - 1)  # of the loop, for a whole tile
        sub_group, lane = p.let("shr.u32", self.item, 5), p.let("and.b32", self.item, SUB_GROUP - 1)
        self.part = ""
        if t.parts > 1:
            self.part, sub_group = (p.let(name, sub_group, t.down * t.across) for name in ("div.u32", "rem.u32"))
        place = lane, p.let("div.u32", sub_group, t.across), p.let("rem.u32", sub_group, t.across), self.part
        kind = DoubleProducts if t.size == 8 else FloatProducts
        self.products: Products = kind(p, t, *place)
        shared = p, self.item, t.work_group
        self.a = Copies(*shared, t.rows, t.depth * t.size, kind.A_CHANGE, 0 if t.size == 8 else t.a_pitch)
        self.b = Copies(*shared, t.depth, t.columns * t.size, kind.B_CHANGE)
        self.slabs = p.let("mov.u32", "slabs")
        self.slabs_end = p.let("add.u32", self.slabs, t.stages * t.slab_bytes)
        self.to, self.use, self.left_to_copy = p.several("b32", 3)
        self.tile, self.first, self.last, self.top, self.left = p.several("b32", 5)  # of the segment that is copied

    def emit(self) -> None:
        p = self.p
        following, stored, loop = p.label("SEGMENT"), p.label("STORED"), p.label("TURN")
        self._first_segment()
        now = self.tile, self.first, self.last, self.top, self.left
        before, any_before = p.several("b32", len(now)), p.new("pred")
        if self.overlap:
            p.op("setp.ne.u32", any_before, self.group, self.group)
        p.place(following)
        more = self._next_segment()
        if not self.overlap:
            p.op("bra", "DONE", when=p.let("not.pred", more))
        for _ in range(self.t.stages - 1):
            self.spread(1, 1).finish()
        if self.overlap:
            p.op("bra", stored, when=p.let("not.pred", any_before))
            self._finish(before, stored)
            p.place(stored)
            p.op("bra", "DONE", when=p.let("not.pred", more))
            p.op("mov.pred", any_before, more)
            for old, new in zip(before, now, strict=True):
                p.op("mov.u32", old, new)
        for line in self.products.sums:
            for sums in line:
                for s in sums:
                    p.op(f"mov.f{8 * self.t.size}", s, "0d0000000000000000" if self.t.size == 8 else "0f00000000")
        p.op("mov.u32", self.use, self.slabs)
        self._wait()
        self.products.start(self.use)
        turns = p.let("sub.u32", self.last, self.first)
        p.place(loop)
        self.products.slabs(self.use, self)
        p.op("sub.u32", turns, turns, 1)
        p.op("bra", loop, when=p.let("setp.ne.u32", turns, 0))
        if not self.overlap:
            self._finish(now, stored)
            p.place(stored)
        p.op("bar.sync", 0)  # all have read the last slabs
        p.op("bra.uni", following)
        p.place("DONE")
        p.op("ret")

    def spread(self, among: int, together: int) -> Spread:
        """The copies of the next slab, if any is left."""
        steps = (self.a.count + self.b.count) * (2 if self.t.size == 8 else 1)  # of doubles an address is moved for each copy
        return Spread(self._copy(), steps, among, together)

    def turn(self) -> None:
        """The next slab is complete, and all have this one's operands in registers."""
        self._wait()
        self._next_stage(self.use)

    def _copy(self) -> Iterator[None]:
        p = self.p
        any_left = p.let("setp.ne.u32", self.left_to_copy, 0)
        yield from self.a.issue(self.to, 0, any_left)
        yield from self.b.issue(self.to, self.t.a_bytes, any_left)
        p.op("cp.async.commit_group")
        yield from self.a.advance()
        yield from self.b.advance()
        p.op("sub.u32", self.left_to_copy, self.left_to_copy, 1, when=any_left)
        self._next_stage(self.to)

    def _wait(self) -> None:
        self.p.op("cp.async.wait_group", self.t.stages - 2)
        self.p.op("bar.sync", 0)

    def _next_stage(self, at: str) -> None:
        self.p.op("add.u32", at, at, self.t.slab_bytes)
        self.p.op("mov.u32", at, self.slabs, when=self.p.let("setp.ge.u32", at, self.slabs_end))

    def _first_segment(self) -> None:
        p, values = self.p, self.values
        self.tiles = p.let("mul.lo.u32", values["tile_rows"], values["tile_columns"])
        self.coming = p.let("mov.u32", self.group)
        self.whole = self.tiles
        if not self.split:
            return
        self.whole = p.let("min.u32", self.tiles, p.let("mul.lo.u32", values["whole_rounds"], self.groups))
        self.total = p.let("mul.lo.u32", p.let("sub.u32", self.tiles, self.whole), self.turns)
        self.share_first, self.share_last = self._share(self.group), self._share(p.let("add.u32", self.group, 1))
        self.share_now = p.let("mov.u32", self.share_first)

    def _next_segment(self) -> str:
        """Chooses the next tile, or what is next in this work-group's share of split tiles, and sets out to copy it.

        Returns the predicate that there was one.
        """
        p, t = self.p, self.t
        chosen = p.label("CHOSEN")
        p.op("mov.u32", self.left_to_copy, 0)
        p.op("mov.u32", self.to, self.slabs)
        more = p.let("setp.lt.u32", self.coming, self.whole)
        p.op("mov.u32", self.tile, self.coming)
        p.op("mov.u32", self.first, 0)
        p.op("mov.u32", self.last, self.turns)
        p.op("add.u32", self.coming, self.coming, self.groups, when=more)
        if self.split:
            whole = p.label("WHOLE")
            p.op("bra", whole, when=more)
            p.op("setp.lt.u32", more, self.share_now, self.share_last)
            p.op("add.u32", self.tile, self.whole, p.let("div.u32", self.share_now, self.turns))
            p.op("rem.u32", self.first, self.share_now, self.turns)
            rest = p.let("sub.u32", self.share_last, self.share_now)
            p.op("min.u32", self.last, self.turns, p.let("add.u32", self.first, rest))
            p.op("add.u32", self.share_now, self.share_now, p.let("sub.u32", self.last, self.first), when=more)
            p.place(whole)
        p.op("bra", chosen, when=p.let("not.pred", more))
        p.op("mul.lo.u32", self.left_to_copy, p.let("sub.u32", self.last, self.first), UNROLL)
        # tiles are numbered band by band
        in_band = p.let("mul.lo.u32", self.values["tile_columns"], BAND)
        band = p.let("mul.lo.u32", p.let("div.u32", self.tile, in_band), BAND)
        within = p.let("rem.u32", self.tile, in_band)
        high = p.let("min.u32", BAND, p.let("sub.u32", self.values["tile_rows"], band))
        p.op("mul.lo.u32", self.top, p.let("add.u32", band, p.let("rem.u32", within, high)), t.rows)
        p.op("mul.lo.u32", self.left, p.let("div.u32", within, high), t.columns)
        k = p.let("mul.lo.u32", self.first, t.multiple)
        for copies, matrix, row, stride, column, slab in (
            (self.a, "a", self.top, self.values["inner"], k, t.depth * t.size),
            (self.b, "b", k, self.stride, self.left, p.wide(self.stride, t.depth * t.size)),
        ):
            source = self._address(matrix, p.let("add.u32", row, copies.line), stride, column)
            source = p.let("add.s64", source, p.wide(copies.piece, copies.bytes))
            copies.start(source, p.wide(stride, copies.step * t.size), slab)
        p.place(chosen)
        return more

    def _address(self, matrix: str, row: str, stride: str, column: str) -> str:
        """The address of an element."""
        p = self.p
        index = p.let("add.s64", p.wide(row, stride), p.let("cvt.u64.u32", column))
        return p.let("add.s64", self.values[matrix], p.let("shl.b64", index, self.t.size.bit_length() - 1))

    def _finish(self, segment: Sequence[str], stored: str) -> None:
        """Stores a segment's sums: those of a whole tile to C."""
        p, products = self.p, self.products
        tile, first, last, top, left = segment
        if self.t.parts > 1:
            self._add_parts()
        if self.split:
            whole, turns = p.label("STORE"), p.let("sub.u32", last, first)
            p.op("bra", whole, when=p.let("setp.eq.u32", turns, self.turns))
            self._combine(tile, turns, stored)
            p.place(whole)
        at = self._address("c", p.let("add.u32", top, products.row), self.stride, p.let("add.u32", left, products.column))
        products.store(at, self.stride)

    def _add_parts(self) -> None:
        """Adds the sums of the sub-groups that have the same part of the tile, in local memory; each has some lines of it then.

        All have read the last slab.
        """
        p, t, products = self.p, self.t, self.products
        width, kind = PIECE // t.size, f"f{8 * t.size}"
        own = len(products.sums) // t.parts  # lines
        zero, pitch = p.let("shr.u32", self.stride, 31), PIECE * t.work_group
        at = p.let("mad.lo.u32", self.item, PIECE, self.slabs)
        flat = [s for line in products.sums for sums in line for s in sums]
        for i in range(0, len(flat), width):
            parted = ", ".join(products.parted(flat[i : i + width], zero))
            p.op(f"st.shared.v{width}.b{8 * t.size}", f"[{at}+{i // width * pitch}]", f"{{{parted}}}")
        p.op("bar.sync", 0)
        at = p.let("mad.lo.u32", self.part, len(flat) // width // t.parts * pitch - pitch // t.parts, at)
        products.sums = [[p.several(kind, 4) for _ in line] for line in products.sums[:own]]
        flat = [s for line in products.sums for sums in line for s in sums]
        for i in range(0, len(flat), width):
            for part in range(t.parts):
                into = p.several(kind, width) if part else flat[i : i + width]
                place = f"[{at}+{i // width * pitch + part * pitch // t.parts}]"
                p.op(f"ld.shared.v{width}.{kind}", f"{{{', '.join(into)}}}", place)
                for s, other in zip(flat[i : i + width], into, strict=True) if part else ():
                    p.op(f"add.{kind}", s, s, other)
        products.row = products.row_of(self.part, own)

    def _share(self, group: str) -> str:
        """The first turn of the split tiles that a work-group takes, of all their turns."""
        p = self.p
        return p.let("cvt.u32.u64", p.let("div.u64", p.wide(self.total, group), p.let("cvt.u64.u32", self.groups)))

    def _combine(self, tile: str, turns: str, stored: str) -> None:
        """Stores this work-group's sums; the last one that arrives at a tile adds those of the others to its own."""
        p, t = self.p, self.t
        width, kind = PIECE // t.size, f"f{8 * t.size}"
        flat = [s for line in self.products.sums for sums in line for s in sums]
        pieces = [flat[i : i + width] for i in range(0, len(flat), width)]
        number = p.let("sub.u32", tile, self.whole)
        begin = p.let("mul.lo.u32", number, self.turns)
        end = p.let("add.u32", begin, self.turns)

        def sums_of(group: str, share_first: str) -> str:
            """The address of a work-group's sums of this tile: it has parts of at most two, its first and its last."""
            later = p.let("setp.ne.u32", p.let("div.u32", share_first, self.turns), number)
            slot = p.let("add.u32", p.let("shl.b32", group, 1), p.let("selp.u32", 1, 0, later))
            at = p.let("add.s64", self.values["sums"], p.wide(slot, t.rows * t.columns * t.size))
            return p.let("add.s64", at, p.wide(self.item, PIECE))

        at = sums_of(self.group, self.share_first)
        zero = p.let("shr.u32", self.stride, 31)
        for i, piece in enumerate(pieces):
            parted = ", ".join(self.products.parted(piece, zero))
            p.op(f"st.global.v{width}.b{8 * t.size}", f"[{at}+{i * PIECE * t.work_group}]", f"{{{parted}}}")
        p.op("fence.acq_rel.gpu")
        p.op("bar.sync", 0)
        counter = p.let("add.s64", self.values["arrivals"], p.wide(number, 4))
        told, arrived = f"[slabs+{t.stages * t.slab_bytes}]", p.new("b32")
        is_first = p.let("setp.eq.u32", self.item, 0)
        p.op("atom.acq_rel.gpu.global.add.u32", arrived, f"[{counter}]", turns, when=is_first)
        p.op("st.shared.u32", told, arrived, when=is_first)
        p.op("bar.sync", 0)
        p.op("ld.shared.u32", arrived, told)
        p.op("bra", stored, when=p.let("setp.ne.u32", p.let("add.u32", arrived, turns), self.turns))
        p.op("st.global.u32", f"[{counter}]", 0, when=is_first)  # ready for the next launch
        p.op("fence.acq_rel.gpu")
        # the others are those whose shares have turns of this tile, from the one before its first turn's on
        loop, skip, added = p.label("OTHER"), p.label("SKIP"), p.label("ADDED")
        guess = p.let("div.u64", p.wide(begin, self.groups), p.let("cvt.u64.u32", self.total))
        other = p.let("cvt.u32.u64", guess)
        p.place(loop)
        p.op("bra", added, when=p.let("setp.ge.u32", other, self.groups))
        share_first, share_last = self._share(other), self._share(p.let("add.u32", other, 1))
        p.op("bra", added, when=p.let("setp.ge.u32", share_first, end))
        p.op("bra", skip, when=p.let("setp.le.u32", share_last, begin))
        p.op("bra", skip, when=p.let("setp.eq.u32", other, self.group))
        at = sums_of(other, share_first)
        for i, piece in enumerate(pieces):
            parts = p.several(kind, width)
            p.op(f"ld.global.cg.v{width}.{kind}", f"{{{', '.join(parts)}}}", f"[{at}+{i * PIECE * t.work_group}]")
            for s, part in zip(piece, parts, strict=True):
                p.op(f"add.{kind}", s, s, part)
        p.place(skip)
        p.op("add.u32", other, other, 1)
        p.op("bra.uni", loop)
        p.place(added)
