"""PTX programs of the product of dense matrices for NVIDIA GPUs: straight lines, unrolled here, with registers by name.

A program in PTX declares its local memory, of which OpenCL C has 48 KiB on NVIDIA's GPUs, and names each instruction. A
work-group copies slabs of A and B, `depth` values of k deep, into a ring of `stages` slabs by asynchronous copies, and
multiplies them from registers: doubles by the FP64 matrix instruction m16n8k8, floats by multiply-adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clmembench.benchmarks.dgemm.gemm_products import DoubleProducts, FloatProducts, Products
from clmembench.benchmarks.dgemm.gemm_slabs import Copies, Spread
from clmembench.benchmarks.dgemm.gemm_tiles import UNROLL, Tiles
from clmembench.benchmarks.dgemm.ptx_program import PIECE, SUB_GROUP, Program

BAND = 8  # rows of tiles that are taken together, so that those computed at the same time share operands in a cache


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
