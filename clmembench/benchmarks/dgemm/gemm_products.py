"""How a sub-group multiplies slabs and stores its sums: doubles by matrix instructions, floats by multiply-adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from clmembench.benchmarks.dgemm.gemm_slabs import Change, Spread
from clmembench.benchmarks.dgemm.gemm_tiles import UNROLL, Tiles
from clmembench.benchmarks.dgemm.ptx_program import SUB_GROUP, Program

K = 8  # of a matrix instruction
AHEAD = 2  # eights of rows that are loaded before they are used
NO_SLAB = 4  # bytes: no operand's address is an odd multiple


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
