"""What a work-group of a product in PTX has of C, and what of a compute unit: sub-groups, slabs, registers."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.benchmarks.dgemm.ptx_program import PIECE, SUB_GROUP

UNROLL = 2  # slabs in a turn of the loop, for two sets of registers; k is divided into such pairs
UNIT_LOCAL_BYTES, RESERVED_BYTES, UNIT_REGISTERS = 228 << 10, 1 << 10, 1 << 16  # of sm_90


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
