"""PTX programs of the product of matrices in low precision: one work-item copies slabs, warp groups multiply them.

The tile of a work-group is 64 rows of A for each warp group by `columns` columns of B, both contiguous along k. Slabs of 128
bytes a row pass through a ring in local memory; the bulk copy engine, which a tensor map in global memory tells what a matrix
is, permutes their pieces of 16 bytes by the row's number, so that matrix instructions meet in no bank. Barriers in local memory
say which slabs are full and which are free. C is stored from registers, in pieces of 16 bytes of which two neighbours exchange
halves; most sums of a wide tile are kept in other registers, and stored while the next tile's first slabs are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.benchmarks.dgemm.ptx_program import PIECE, SUB_GROUP, Program
from clmembench.benchmarks.gemm.wgmma import COLUMNS, SWIZZLE_128, Wgmma, descriptor
from clmembench.benchmarks.gemm.wgmma import ROWS as GROUP_ROWS
from clmembench.benchmarks.gemm.wgmma import WORK_GROUP as WARP_GROUP

ONE_GROUP_COLUMNS = 32  # of a tile that one warp group multiplies; two have wider ones, of 64 rows each
SLAB_ROW_BYTES = 128
EIGHT_ROWS = 8 * SLAB_ROW_BYTES
INSTRUCTION_BYTES = 32  # of a row, that one matrix instruction takes
BARRIER_BYTES = 8
BAND = 16  # rows of tiles that are taken together: about as many rows of A as of B are read at a time
MAPS, MAP_BYTES = 2, 128  # the engine's descriptions of A and B
LOAD_BOX = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
FULL, FREE = 0, BARRIER_BYTES  # places of a slab's barriers
NONE = 0  # no barrier: address 0 is a slab's
STORED_SUMS = 8  # that a work-item stores together: a piece in each of two rows
STRIDE_PER_SUM = 8  # bytes of a row of C, by the number of a work-item's sum
KEPT_SUMS = 96  # of the 128 of a work-item whose tile is wide: more need registers that there are not
REGISTERS = 24, 240  # of a work-item that copies, and of one that multiplies and keeps sums


@dataclass(frozen=True, slots=True)
class GemmTiles:
    """A work-group's tile of C, and its ring of slabs; the slabs' barriers lie behind it."""

    wgmma: Wgmma
    columns: int
    stages: int
    single: bool = False  # a work-group has one tile, named by its place in a grid, and needs no division to find it
    kept: int = 0  # sums of a work-item that are stored beside the next tile's slabs

    @property
    def multipliers(self) -> int:
        """Warp groups that multiply."""
        return 1 if self.columns <= ONE_GROUP_COLUMNS else 2

    @property
    def rows(self) -> int:
        return self.multipliers * GROUP_ROWS

    @property
    def work_group(self) -> int:
        return self.multipliers * WARP_GROUP + (WARP_GROUP if self.kept else SUB_GROUP)  # whole warp groups pass on registers

    @property
    def ahead(self) -> int:
        """Slabs whose products a warp group leaves under way; those of a wide tile are awaited, and the slab is free sooner."""
        return 0 if self.columns == COLUMNS else 1

    @property
    def slab_bytes(self) -> int:
        return (self.rows + self.columns) * SLAB_ROW_BYTES

    @property
    def barriers(self) -> int:
        """The place of the first slab's barriers."""
        return self.stages * self.slab_bytes

    @property
    def local_bytes(self) -> int:
        return self.barriers + 2 * BARRIER_BYTES * self.stages


def kept_sums(columns: int, row_bytes: int) -> int:
    """Sums that a work-item of several tiles keeps: none of a narrow tile, or of one without a slab more than stores them."""
    return KEPT_SUMS if columns == COLUMNS and row_bytes > KEPT_SUMS // STORED_SUMS * SLAB_ROW_BYTES else 0


def program(tiles: GemmTiles) -> str:
    """The program of `multiply`, with the maps that `describe` makes, for matrices of `rows` rows.

    A and B are arguments so that the driver keeps them.
    """
    p = Program()
    kinds = dict.fromkeys(("a", "b", "c", "maps"), "b64")
    kinds |= dict.fromkeys(("tile_rows", "tile_columns", "rows", "row_bytes", "c_row_bytes"), "b32")
    values = {parameter: p.let(f"ld.param.{kind}", f"[{parameter}]") for parameter, kind in kinds.items()}
    _Multiply(p, tiles, values).emit()
    return p.text("multiply", list(kinds.items()), tiles.work_group, tiles.local_bytes, 1, "sm_90a", "8.3", EIGHT_ROWS)


def map_program(tiles: GemmTiles) -> str:
    """The program of `describe`: one work-item makes the tensor maps of A and B, of `rows` rows, in MAPS * MAP_BYTES zeros.

    Elements are bytes to the engine. It loads what lies outside a matrix as zeros.
    """
    p = Program()
    kinds = {"a": "b64", "b": "b64", "maps": "b64", "rows": "b32", "row_bytes": "b32"}
    values = {parameter: p.let(f"ld.param.{kind}", f"[{parameter}]") for parameter, kind in kinds.items()}
    stride = p.let("cvt.u64.u32", values["row_bytes"])
    for number, (matrix, box_rows) in enumerate((("a", tiles.rows), ("b", tiles.columns))):
        fields = (
            ("global_address", "b64", values[matrix]), ("rank", "b32", 1), ("elemtype", "b32", 0),
            ("box_dim", "b32", 0, SLAB_ROW_BYTES), ("box_dim", "b32", 1, box_rows),
            ("global_dim", "b32", 0, values["row_bytes"]), ("global_dim", "b32", 1, values["rows"]),
            ("global_stride", "b64", 0, stride), ("element_stride", "b32", 0, 1), ("element_stride", "b32", 1, 1),
            ("interleave_layout", "b32", 0), ("swizzle_mode", "b32", 3), ("fill_mode", "b32", 0),
        )  # fmt: skip
        for field, kind, *operands in fields:
            at = f"[{values['maps']}+{number * MAP_BYTES}]"
            p.op(f"tensormap.replace.tile.{field}.global.b1024.{kind}", at, *operands)
    p.op("ret")
    return p.text("describe", list(kinds.items()), 1, PIECE, 1, "sm_90a", "8.3")


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
        p.op("add.u32", self.barrier, self.barrier, 2 * BARRIER_BYTES)
        last = p.let("setp.eq.u32", self.barrier, self.end)
        p.op("mov.u32", self.slab, self.slabs, when=last)
        p.op("mov.u32", self.barrier, self.barriers, when=last)
        p.op("xor.b32", self.parity, self.parity, 1, when=last)


class _Multiply:
    """Emits the kernel: a work-group takes one tile, or tiles that lie as many apart as there are work-groups."""

    def __init__(self, p: Program, t: GemmTiles, values: dict[str, str]) -> None:
        self.p, self.t, self.values = p, t, values
        self.item, self.group, self.groups = (p.let("mov.u32", x) for x in ("%tid.x", "%ctaid.x", "%nctaid.x"))
        self.warp_group, self.own = p.let("shr.u32", self.item, 7), p.let("and.b32", self.item, WARP_GROUP - 1)
        self.slabs = p.let("mov.u32", "slabs")
        self.tiles = p.let("mul.lo.u32", values["tile_rows"], values["tile_columns"])
        self.top, self.left = p.several("b32", 2)
        self.kind = "f32" if t.wgmma.result == "f32" else "b32"

    def emit(self) -> None:
        p, multiply = self.p, self.p.label("MULTIPLY")
        first = p.let("setp.eq.u32", self.item, 0)
        for stage in range(self.t.stages):
            at = self.t.barriers + stage * 2 * BARRIER_BYTES
            p.op("mbarrier.init.shared.b64", f"[{self.slabs}+{at + FULL}]", 1, when=first)
            sub_groups = self.t.multipliers * WARP_GROUP // SUB_GROUP
            p.op("mbarrier.init.shared.b64", f"[{self.slabs}+{at + FREE}]", sub_groups, when=first)
        p.op("fence.proxy.async")
        p.op("bar.sync", 0)
        p.op("bra", multiply, when=p.let("setp.lt.u32", self.warp_group, self.t.multipliers))
        if self.t.kept:
            p.op("setmaxnreg.dec.sync.aligned.u32", REGISTERS[0])
        p.op("bra", "DONE", when=p.let("setp.ne.u32", self.own, 0))
        self._copy()
        p.place(multiply)
        if self.t.kept:
            p.op("setmaxnreg.inc.sync.aligned.u32", REGISTERS[1])
        self._multiply()

    def _for_each_tile(self, end: str) -> tuple[str, str]:
        """Begins a loop over this work-group's tiles, band by band; gives the register of the tile and the loop's label."""
        p = self.p
        tile, loop = p.let("mov.u32", self.group), p.label("TILE")
        if self.t.single:
            p.op("mul.lo.u32", self.top, self.group, self.t.rows)
            p.op("mul.lo.u32", self.left, p.let("mov.u32", "%ctaid.y"), self.t.columns)
            return tile, loop
        p.place(loop)
        p.op("bra", end, when=p.let("setp.ge.u32", tile, self.tiles))
        in_band = p.let("mul.lo.u32", self.values["tile_columns"], BAND)
        band = p.let("mul.lo.u32", p.let("div.u32", tile, in_band), BAND)
        within = p.let("rem.u32", tile, in_band)
        high = p.let("min.u32", BAND, p.let("sub.u32", self.values["tile_rows"], band))
        p.op("mul.lo.u32", self.top, p.let("add.u32", band, p.let("rem.u32", within, high)), self.t.rows)
        p.op("mul.lo.u32", self.left, p.let("div.u32", within, high), self.t.columns)
        return tile, loop

    def _end_tile(self, tile: str, loop: str) -> None:
        """Goes on with this work-group's next tile, or to the end."""
        p = self.p
        if self.t.single:
            p.op("bra.uni", "DONE")
        else:
            p.op("add.u32", tile, tile, self.groups)
            p.op("bra.uni", loop)

    def _map(self, number: int, when: str = "") -> str:
        """The register of a map, seen by this work-item's copies as `describe` left it."""
        at = self.p.let("add.s64", self.values["maps"], number * MAP_BYTES)
        self.p.op("fence.proxy.tensormap::generic.acquire.gpu", f"[{at}]", MAP_BYTES, when=when)
        return at

    def _copy(self) -> None:
        """The work-item that copies: each slab's barrier counts the bytes that arrive."""
        p, values, t = self.p, self.values, self.t
        map_a, map_b = self._map(0), self._map(1)
        ring = _Ring(p, t, self.slabs, 1)
        tile, loop = self._for_each_tile("DONE")
        along, slab = p.let("mov.u32", 0), p.label("COPY")
        p.place(slab)
        ring.wait(FREE)
        full = f"[{ring.barrier}+{FULL}]"
        p.op("mbarrier.arrive.expect_tx.shared.b64", p.new("b64"), full, t.slab_bytes)
        for tensor_map, row, offset in ((map_a, self.top, 0), (map_b, self.left, t.rows * SLAB_ROW_BYTES)):
            p.op(LOAD_BOX, f"[{ring.slab}+{offset}]", f"[{tensor_map}, {{{along}, {row}}}]", full)
        ring.advance()
        p.op("add.u32", along, along, SLAB_ROW_BYTES)
        p.op("bra", slab, when=p.let("setp.lt.u32", along, values["row_bytes"]))
        self._end_tile(tile, loop)

    def _multiply(self) -> None:
        p, t = self.p, self.t
        ring, before = _Ring(p, t, self.slabs, 0), p.let("mov.u32", NONE)
        sums = p.several(self.kind, GROUP_ROWS * t.columns // WARP_GROUP)
        kept = [p.let(f"mov.{self.kind}", "0f00000000" if self.kind == "f32" else 0) for _ in range(t.kept)]
        pieces, accumulate, along = _Pieces(p, self.values, self.kind, self.item), p.new("pred"), p.new("b32")
        last = p.label("LAST")
        tile, loop = self._for_each_tile(last)
        p.op("mov.u32", along, 0)
        p.op("setp.ne.u32", accumulate, along, along)
        at_once = len(sums) - t.kept
        for i in range(0, t.kept, STORED_SUMS):
            self._add_slab(ring, sums, accumulate)
            pieces.store(kept[i : i + STORED_SUMS], at_once + i)
            self._go_on(ring, before, along)
        slab = p.label("SLAB")
        p.place(slab)
        self._add_slab(ring, sums, accumulate)
        self._go_on(ring, before, along)
        p.op("bra", slab, when=p.let("setp.lt.u32", along, self.values["row_bytes"]))
        if t.ahead:
            p.op("wgmma.wait_group.sync.aligned", 0)
            self._free(before)
            p.op("mov.u32", before, NONE)
        pieces.aim(self.top, self.left)
        for i in range(0, at_once, STORED_SUMS):
            pieces.store(sums[i : i + STORED_SUMS], i)
        for into, value in zip(kept, sums[at_once:], strict=True):
            p.op(f"mov.{self.kind}", into, value)
        self._end_tile(tile, loop)
        p.place(last)
        for i in range(0, t.kept, STORED_SUMS):
            pieces.store(kept[i : i + STORED_SUMS], at_once + i)
        p.place("DONE")
        p.op("ret")

    def _add_slab(self, ring: _Ring, sums: list[str], accumulate: str) -> None:
        """Begins the products of the next slab: those of a tile's first instruction are the sums, others are added."""
        p, t = self.p, self.t
        ring.wait(FULL)
        a = p.let("mad.lo.u32", self.warp_group, GROUP_ROWS * SLAB_ROW_BYTES, ring.slab)
        b = p.let("add.u32", ring.slab, t.rows * SLAB_ROW_BYTES)
        operands = [descriptor(p, at, PIECE, EIGHT_ROWS, SWIZZLE_128) for at in (a, b)]
        p.op("wgmma.fence.sync.aligned")
        for i in range(SLAB_ROW_BYTES // INSTRUCTION_BYTES):
            parts = [p.let("add.s64", x, i * INSTRUCTION_BYTES >> 4) if i else x for x in operands]
            p.op(t.wgmma.name(t.columns), f"{{{', '.join(sums)}}}", *parts, f"{accumulate}{t.wgmma.flags}")
            if not i:
                p.op("setp.eq.u32", accumulate, self.item, self.item)
        p.op("wgmma.commit_group.sync.aligned")

    def _go_on(self, ring: _Ring, before: str, along: str) -> None:
        """Frees the slab whose products are done, this one or the one before it, and goes on to the next."""
        p, t = self.p, self.t
        p.op("wgmma.wait_group.sync.aligned", t.ahead)
        self._free(before if t.ahead else ring.barrier)
        if t.ahead:
            p.op("mov.u32", before, ring.barrier)
        ring.advance()
        p.op("add.u32", along, along, SLAB_ROW_BYTES)

    def _free(self, barrier: str) -> None:
        """Says that this sub-group has read the slab of that barrier."""
        p = self.p
        is_told = p.let("setp.eq.u32", p.let("and.b32", self.item, SUB_GROUP - 1), 0)
        if self.t.ahead:
            p.op("and.pred", is_told, is_told, p.let("setp.ne.u32", barrier, NONE))
        p.op("mbarrier.arrive.shared.b64", p.new("b64"), f"[{barrier}+{FREE}]", when=is_told)


class _Pieces:
    """Stores a work-item's sums: pairs in 2 rows that lie 8 apart, of every eighth column.

    Of each two neighbouring eights of columns, an even work-item stores pieces of the first and an odd one of the second: each
    gives its neighbour the pair that belongs to the neighbour's piece. Rows of C are padded to pieces, so that a piece lies
    inside or outside; before the first tile all lie outside.
    """

    def __init__(self, p: Program, values: dict[str, str], kind: str, item: str) -> None:
        self.p, self.values, self.kind = p, values, kind
        lane = p.let("and.b32", item, SUB_GROUP - 1)
        odd = p.let("and.b32", lane, 1)
        self.is_odd = p.let("setp.ne.u32", odd, 0)
        self.row = p.let("mad.lo.u32", p.let("shr.u32", item, 5), 16, p.let("shr.u32", lane, 2))
        self.column = p.let("mad.lo.u32", p.let("and.b32", lane, 2), 2, p.let("shl.b32", odd, 3))
        self.along = p.let("mov.u32", 0)  # in bytes
        self.places = [p.let("mov.u64", 0) for _ in range(2)]
        self.are_rows = [p.let("setp.ne.u32", lane, lane) for _ in range(2)]

    def aim(self, top: str, left: str) -> None:
        """At the tile that begins there."""
        p, pitch = self.p, self.values["c_row_bytes"]
        row = p.let("add.u32", self.row, top)
        p.op("shl.b32", self.along, p.let("add.u32", self.column, left), 2)
        line = p.let("add.s64", self.values["c"], p.wide(row, pitch))
        p.op("add.s64", self.places[0], line, p.let("cvt.u64.u32", self.along))
        p.op("add.s64", self.places[1], self.places[0], p.wide(pitch, 8))
        for number, is_row in zip((row, p.let("add.u32", row, 8)), self.are_rows, strict=True):
            p.op("setp.lt.u32", is_row, number, self.values["rows"])

    def store(self, sums: list[str], number: int) -> None:
        """Stores STORED_SUMS sums, from that number on."""
        p = self.p
        is_column = p.let("setp.lt.u32", p.let("add.u32", self.along, STRIDE_PER_SUM * number), self.values["c_row_bytes"])
        for half, at in enumerate(self.places):
            is_inside = p.new("pred")
            p.op("and.pred", is_inside, is_column, self.are_rows[half])
            first, second = sums[2 * half : 2 * half + 2], sums[2 * half + 4 : 2 * half + 6]
            given = [self._choose(*pair) for pair in zip(first, second, strict=True)]
            taken = p.several(self.kind, 2)
            for into, value in zip(taken, given, strict=True):
                p.op("shfl.sync.bfly.b32", into, value, 1, SUB_GROUP - 1, (1 << SUB_GROUP) - 1)
            left = [self._choose(*pair) for pair in zip(taken, first, strict=True)]
            right = [self._choose(*pair) for pair in zip(second, taken, strict=True)]
            piece = f"{{{', '.join(left + right)}}}"
            p.op(f"st.global.v4.{self.kind}", f"[{at}+{STRIDE_PER_SUM * number}]", piece, when=is_inside)

    def _choose(self, of_odd: str, of_even: str) -> str:
        chosen = self.p.new(self.kind)
        self.p.op(f"selp.{self.kind}", chosen, of_odd, of_even, self.is_odd)
        return chosen
