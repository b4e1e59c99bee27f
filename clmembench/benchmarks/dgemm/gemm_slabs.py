"""How slabs of A and B come into local memory: asynchronous copies, spread among what is multiplied meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clmembench.benchmarks.dgemm.ptx_program import PIECE, Program

RUN_BYTES = 32  # of a line that is turned: as many as a sector of global memory, which neighbours copy an element each


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
