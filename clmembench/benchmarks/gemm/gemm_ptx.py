"""PTX programs of the product of matrices in low precision: one warp group copies slabs, two multiply them.

The tile of a work-group is 128 rows of A by `columns` columns of B, both contiguous along k. Slabs of 128 bytes a row pass
through a ring in local memory. Their pieces of 16 bytes are permuted by the row's number, so that neither copies nor matrix
instructions meet in a bank. Barriers in local memory say which slabs are full and which are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from clmembench.benchmarks.dgemm.gemm_ptx import BAND, PIECE, SUB_GROUP, Program
from clmembench.benchmarks.gemm.wgmma import ROWS as GROUP_ROWS
from clmembench.benchmarks.gemm.wgmma import SWIZZLE_128, Wgmma, descriptor
from clmembench.benchmarks.gemm.wgmma import WORK_GROUP as WARP_GROUP

MULTIPLIERS = 2  # warp groups that multiply, each 64 rows
TILE_ROWS = MULTIPLIERS * GROUP_ROWS
SLAB_ROW_BYTES = 128
EIGHT_ROWS = 8 * SLAB_ROW_BYTES
INSTRUCTION_BYTES = 32  # of a row, that one matrix instruction takes
LINES = WARP_GROUP * PIECE // SLAB_ROW_BYTES  # rows that a warp group copies at once
BARRIER_BYTES = 8
FULL, FREE = 0, BARRIER_BYTES  # places of a slab's barriers
NONE = 0  # no barrier: address 0 is a slab's


@dataclass(frozen=True, slots=True)
class GemmTiles:
    """A work-group's tile of C, and its ring of slabs."""

    wgmma: Wgmma
    columns: int
    stages: int
    flying: int = 1  # slabs that are copied while the copies of the next one are issued; more were slower

    @property
    def work_group(self) -> int:
        return (MULTIPLIERS + 1) * WARP_GROUP

    @property
    def slab_bytes(self) -> int:
        return (TILE_ROWS + self.columns) * SLAB_ROW_BYTES

    @property
    def barriers(self) -> int:
        """The place of the first slab's barriers."""
        return self.stages * self.slab_bytes

    @property
    def local_bytes(self) -> int:
        return self.barriers + 2 * BARRIER_BYTES * self.stages


def program(tiles: GemmTiles) -> str:
    """The program of `multiply`, whose matrices are padded to whole tiles and slabs; `row_bytes` is the size of a row of A and
    B, and C has 32-bit elements."""
    p = Program()
    kinds = {"a": "b64", "b": "b64", "c": "b64", "tile_rows": "b32", "tile_columns": "b32", "row_bytes": "b32"}
    values = {parameter: p.let(f"ld.param.{kind}", f"[{parameter}]") for parameter, kind in kinds.items()}
    _Multiply(p, tiles, values).emit()
    return p.text("multiply", list(kinds.items()), tiles.work_group, tiles.local_bytes, 1, "sm_90a", "8.0", EIGHT_ROWS)


class _Ring:
    """One side's place in the ring: the slab, its barriers, and the parity that its barrier is waited for with."""

    def __init__(self, p: Program, t: GemmTiles, slabs: str, parity: int) -> None:
        self.p, self.t, self.slabs = p, t, slabs
        self.barriers = p.let("add.u32", slabs, t.barriers)
        self.end = p.let("add.u32", self.barriers, 2 * BARRIER_BYTES * t.stages)
        self.slab, self.barrier = p.let("mov.u32", slabs), p.let("mov.u32", self.barriers)
        self.parity = p.let("mov.u32", parity)

    def wait(self, place: int) -> None:
        """Waits until the barrier at that place has gone through the phase of this parity."""
        p, again, done = self.p, self.p.label("WAIT"), self.p.new("pred")
        p.place(again)
        p.op("mbarrier.try_wait.parity.shared.b64", done, f"[{self.barrier}+{place}]", self.parity)
        p.op("bra", again, when=p.let("not.pred", done))

    def advance(self) -> None:
        p = self.p
        p.op("add.u32", self.slab, self.slab, self.t.slab_bytes)
        last = self.next_barrier(self.barrier)
        p.op("mov.u32", self.slab, self.slabs, when=last)
        p.op("xor.b32", self.parity, self.parity, 1, when=last)

    def next_barrier(self, barrier: str) -> str:
        """Goes on to the next slab's barriers; gives whether that is the first slab."""
        p = self.p
        p.op("add.u32", barrier, barrier, 2 * BARRIER_BYTES)
        last = p.let("setp.eq.u32", barrier, self.end)
        p.op("mov.u32", barrier, self.barriers, when=last)
        return last


class _Multiply:
    """Emits the kernel: a work-group takes tiles that lie as many apart as there are work-groups."""

    def __init__(self, p: Program, t: GemmTiles, values: dict[str, str]) -> None:
        self.p, self.t, self.values = p, t, values
        self.item, self.group, self.groups = (p.let("mov.u32", x) for x in ("%tid.x", "%ctaid.x", "%nctaid.x"))
        self.warp_group, self.own = p.let("shr.u32", self.item, 7), p.let("and.b32", self.item, WARP_GROUP - 1)
        self.slabs = p.let("mov.u32", "slabs")
        self.slab_count = p.let("shr.u32", values["row_bytes"], SLAB_ROW_BYTES.bit_length() - 1)
        self.tiles = p.let("mul.lo.u32", values["tile_rows"], values["tile_columns"])
        self.top, self.left = p.several("b32", 2)

    def emit(self) -> None:
        p, multiply = self.p, self.p.label("MULTIPLY")
        first = p.let("setp.eq.u32", self.item, 0)
        for stage in range(self.t.stages):
            at = self.t.barriers + stage * 2 * BARRIER_BYTES
            p.op("mbarrier.init.shared.b64", f"[{self.slabs}+{at + FULL}]", WARP_GROUP, when=first)
            p.op("mbarrier.init.shared.b64", f"[{self.slabs}+{at + FREE}]", MULTIPLIERS * WARP_GROUP // SUB_GROUP, when=first)
        p.op("bar.sync", 0)
        p.op("bra", multiply, when=p.let("setp.lt.u32", self.warp_group, MULTIPLIERS))
        self._copy()
        p.place(multiply)
        self._multiply()

    def _for_each_tile(self, end: str) -> tuple[str, str]:
        """Begins a loop over this work-group's tiles, band by band; gives the register of the tile and the loop's label."""
        p = self.p
        tile, loop = p.let("mov.u32", self.group), p.label("TILE")
        p.place(loop)
        p.op("bra", end, when=p.let("setp.ge.u32", tile, self.tiles))
        in_band = p.let("mul.lo.u32", self.values["tile_columns"], BAND)
        band = p.let("mul.lo.u32", p.let("div.u32", tile, in_band), BAND)
        within = p.let("rem.u32", tile, in_band)
        high = p.let("min.u32", BAND, p.let("sub.u32", self.values["tile_rows"], band))
        p.op("mul.lo.u32", self.top, p.let("add.u32", band, p.let("rem.u32", within, high)), TILE_ROWS)
        p.op("mul.lo.u32", self.left, p.let("div.u32", within, high), self.t.columns)
        return tile, loop

    def _copy(self) -> None:
        """The warp group that copies: it announces a slab when it has issued the copies of the next `flying` ones."""
        p, values, flying = self.p, self.values, self.t.flying
        line, piece = p.let("shr.u32", self.own, 3), p.let("and.b32", self.own, 7)
        swizzled = p.let("xor.b32", piece, p.let("and.b32", line, 7))
        to = p.let("mad.lo.u32", line, SLAB_ROW_BYTES, p.let("shl.b32", swizzled, 4))
        ring, first_ones = _Ring(p, self.t, self.slabs, 1), p.let("mov.u32", flying)
        landing = p.let("mov.u32", ring.barrier)
        sources = p.several("b64", (TILE_ROWS + self.t.columns) // LINES)
        step, landed = p.wide(values["row_bytes"], LINES), p.label("LANDED")
        tile, loop = self._for_each_tile(landed)
        of_a = TILE_ROWS // LINES
        for matrix, row, mine in (("a", self.top, sources[:of_a]), ("b", self.left, sources[of_a:])):
            at = p.let("add.s64", values[matrix], p.wide(p.let("add.u32", row, line), values["row_bytes"]))
            p.op("add.s64", mine[0], at, p.wide(piece, PIECE))
            for before, source in pairwise(mine):
                p.op("add.s64", source, before, step)
        left, slab = p.let("mov.u32", self.slab_count), p.label("COPY")
        p.place(slab)
        ring.wait(FREE)
        target = p.let("add.u32", ring.slab, to)
        for i, source in enumerate(sources):
            p.op("cp.async.cg.shared.global.L2::128B", f"[{target}+{i * LINES * SLAB_ROW_BYTES}]", f"[{source}]", PIECE)
            p.op("add.s64", source, source, SLAB_ROW_BYTES)
        p.op("cp.async.commit_group")
        counted = p.label("COUNTED")
        early = p.let("setp.ne.u32", first_ones, 0)
        p.op("sub.u32", first_ones, first_ones, 1, when=early)
        p.op("bra", counted, when=early)
        self._announce(ring, landing, flying)
        p.place(counted)
        ring.advance()
        p.op("sub.u32", left, left, 1)
        p.op("bra", slab, when=p.let("setp.ne.u32", left, 0))
        p.op("add.u32", tile, tile, self.groups)
        p.op("bra.uni", loop)
        p.place(landed)
        for still in reversed(range(flying)):  # fewer if there were fewer slabs in all
            later = p.label("LATER")
            p.op("bra", later, when=p.let("setp.ge.u32", first_ones, flying - still))
            self._announce(ring, landing, still)
            p.place(later)
        p.op("bra.uni", "DONE")

    def _announce(self, ring: _Ring, landing: str, flying: int) -> None:
        """Waits until only so many slabs fly, and says that the one before them is full."""
        p = self.p
        p.op("cp.async.wait_group", flying)
        p.op("fence.proxy.async")
        p.op("mbarrier.arrive.shared.b64", p.new("b64"), f"[{landing}+{FULL}]")
        ring.next_barrier(landing)

    def _multiply(self) -> None:
        p, t = self.p, self.t
        ring, before = _Ring(p, t, self.slabs, 0), p.let("mov.u32", NONE)
        kind = "f32" if t.wgmma.result == "f32" else "b32"
        sums = p.several(kind, GROUP_ROWS * t.columns // WARP_GROUP)
        lane = p.let("and.b32", self.item, SUB_GROUP - 1)
        is_first_lane, accumulate = p.let("setp.eq.u32", lane, 0), p.new("pred")
        mine = p.let("mul.lo.u32", self.warp_group, GROUP_ROWS * SLAB_ROW_BYTES)
        row = p.let("mad.lo.u32", self.warp_group, GROUP_ROWS, p.let("shr.u32", lane, 2))
        row = p.let("mad.lo.u32", p.let("shr.u32", self.own, 5), 16, row)
        column = p.let("shl.b32", p.let("and.b32", lane, 3), 1)
        stride = p.let("mul.lo.u32", self.values["tile_columns"], t.columns)
        tile, loop = self._for_each_tile("DONE")
        p.op("setp.ne.u32", accumulate, lane, lane)
        left, slab = p.let("mov.u32", self.slab_count), p.label("SLAB")
        p.place(slab)
        ring.wait(FULL)
        a, b = p.let("add.u32", ring.slab, mine), p.let("add.u32", ring.slab, TILE_ROWS * SLAB_ROW_BYTES)
        operands = [descriptor(p, at, PIECE, EIGHT_ROWS, SWIZZLE_128) for at in (a, b)]
        p.op("wgmma.fence.sync.aligned")
        for i in range(SLAB_ROW_BYTES // INSTRUCTION_BYTES):
            parts = [p.let("add.s64", x, i * INSTRUCTION_BYTES >> 4) if i else x for x in operands]
            p.op(t.wgmma.name(t.columns), f"{{{', '.join(sums)}}}", *parts, f"{accumulate}{t.wgmma.flags}")
            if not i:
                p.op("setp.eq.u32", accumulate, lane, lane)
        p.op("wgmma.commit_group.sync.aligned")
        p.op("wgmma.wait_group.sync.aligned", 1)
        self._release(before, is_first_lane)
        p.op("mov.u32", before, ring.barrier)
        ring.advance()
        p.op("sub.u32", left, left, 1)
        p.op("bra", slab, when=p.let("setp.ne.u32", left, 0))
        p.op("wgmma.wait_group.sync.aligned", 0)
        self._release(before, is_first_lane)
        p.op("mov.u32", before, NONE)
        index = p.let("add.s64", p.wide(p.let("add.u32", self.top, row), stride), p.let("cvt.u64.u32", column))
        index = p.let("add.s64", index, p.let("cvt.u64.u32", self.left))
        upper = p.let("add.s64", self.values["c"], p.let("shl.b64", index, 2))
        lower = p.let("add.s64", upper, p.wide(stride, 8 * 4))
        for i in range(0, len(sums), 4):
            for half, at in enumerate((upper, lower)):
                pair = ", ".join(sums[i + 2 * half : i + 2 * half + 2])
                p.op(f"st.global.v2.{kind}", f"[{at}+{8 * i}]", f"{{{pair}}}")
        p.op("add.u32", tile, tile, self.groups)
        p.op("bra.uni", loop)
        p.place("DONE")
        p.op("ret")

    def _release(self, barrier: str, is_first_lane: str) -> None:
        """Says that this sub-group has read the slab of that barrier."""
        p = self.p
        any_before = p.let("setp.ne.u32", barrier, NONE)
        both = p.new("pred")
        p.op("and.pred", both, any_before, is_first_lane)
        p.op("mbarrier.arrive.shared.b64", p.new("b64"), f"[{barrier}+{FREE}]", when=both)
