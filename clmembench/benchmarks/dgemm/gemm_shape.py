"""Configurations of `dgemm`: for CPUs, for GPUs through local memory, and for programs in PTX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks.dgemm.gemm_ptx import program
from clmembench.benchmarks.dgemm.gemm_tiles import Tiles
from clmembench.benchmarks.dgemm.ptx_program import SUB_GROUP
from clmembench.model import BuildError, Device, DeviceInfo, Kernel, Skip, Value
from clmembench.resources import kernel_source

MAX_REGISTER_BYTES = 2048  # no work-item has more registers
CPU_TILE_LIMITS = (192, 512)  # rows and columns of C; fewer if local memory, usually the L2 cache, is small
PACKED_PANELS = 8  # panels of B that are packed at a time

MAX_SUM_BYTES = 512  # bytes of sums in a work-item of a program in PTX
STAGES = 4  # slabs in its local memory
SUB_GROUP_TILES = ((32, 32), (32, 64), (64, 32), (64, 64), (16, 16), (32, 16))
SHARED_COLUMNS, SHARERS, SHARED_STAGES = 16, 4, 3  # of a tile whose sub-groups share k, these, and slabs in local memory
MAX_STATIC_BYTES = 226 << 10  # of local memory that NVIDIA's driver grants to a program that declares it


@dataclass(frozen=True, slots=True)
class Shape:
    """One configuration: rows and columns of C in a work-item's registers, the work-group, and the values of k per step."""

    scalar: np.dtype[np.generic]
    rows: int
    columns: int
    depth: int
    work_group: int

    @property
    def width(self) -> int:
        """Elements of a vector: 64 bytes or a divisor of the columns; 16 bytes in work-groups of several work-items."""
        if self.work_group > 1:
            return 16 // self.scalar.itemsize
        return next(w for w in (16, 8, 4, 2, 1) if w * self.scalar.itemsize <= 64 and self.columns % w == 0)

    @property
    def group(self) -> tuple[int, int]:
        """Rows and columns of work-items in a work-group: a square, or twice as wide as high."""
        high = 1 << (self.work_group.bit_length() - 1) // 2
        return high, self.work_group // high

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-group keeps in registers."""
        high, wide = self.group
        return high * self.rows, wide * self.columns

    @property
    def multiple(self) -> int:
        """The number to a multiple of which k is padded."""
        return 1 if self.work_group == 1 else self.depth

    def local_bytes(self, high: int, wide: int) -> int:
        """Bytes of local memory for a CPU's tile of `high` x `wide` panels: rows of A, `depth` values of k, and sums."""
        return high * self.rows * (self.depth + wide * self.columns) * self.scalar.itemsize

    def obstacle(self, info: DeviceInfo) -> str:
        """The reason why this configuration cannot run on this device; empty if it can."""
        least = min(self.rows, self.columns, self.depth, self.work_group)
        if least < 1 or self.rows * self.columns * self.scalar.itemsize > MAX_REGISTER_BYTES:
            return f"rows, columns and depth are at least 1, and a tile's rows x columns at most {MAX_REGISTER_BYTES} B"
        if self.work_group == 1:
            needed = self.local_bytes(1, 1)
            over = f"{needed} B of local memory are over this device's {info.local_mem_bytes} B: choose a smaller depth or tile"
            return over if needed > info.local_mem_bytes else ""
        if self.work_group > info.max_work_group:
            return f"a work-group of {self.work_group} is over this device's largest, {info.max_work_group}"
        (high, wide), width = self.group, self.width
        if self.work_group & (self.work_group - 1) or any(n % width for n in (self.rows, self.columns, self.depth)):
            return f"a work-group must be a power of two, and rows, columns and depth multiples of {width} {self.scalar}"
        across = self.depth // width  # vectors in a row of a slab of A
        if self.work_group % across or self.rows * across % wide or self.columns * across % high:
            return f"{self.work_group} work-items cannot share slabs {self.depth} deep evenly: choose another depth or tile"
        slabs = 2 * self.depth * (sum(self.tile) + width) * self.scalar.itemsize  # two slabs each; those of A are padded
        if slabs >= info.local_mem_bytes:  # some drivers refuse exactly the limit
            over = f"{slabs} B of local memory are not below this device's {info.local_mem_bytes} B"
            return f"{over}: choose a smaller depth or tile"
        return ""

    def kernels(self, device: Device) -> Mapping[str, Kernel]:
        """The kernel `multiply`, and for work-groups of one also `pack`."""
        dtype = "double" if self.scalar.itemsize == 8 else "float"
        defines: dict[str, Value] = {
            "T": dtype,
            "V": dtype if self.width == 1 else f"{dtype}{self.width}",
            "WIDTH": self.width,
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "DEPTH": self.depth,
            **({"FP64": 1} if dtype == "double" else {}),
        }
        if self.work_group == 1:
            return device.build(kernel_source("dgemm"), PACKED=PACKED_PANELS, **defines)
        high, wide = self.group
        # more than two k per step exceed the registers for doubles; for floats they do not, and a loop costs more
        unroll = 1 if dtype == "double" else self.depth // 2
        defines |= {"GROUP_SIZE": self.work_group, "GROUP_ROWS": high, "GROUP_COLUMNS": wide, "UNROLL": unroll}
        return device.build(kernel_source("dgemm_tiles"), **defines)


def fit_cpu_tile(shape: Shape, row_panels: int, column_panels: int, info: DeviceInfo) -> tuple[int, int]:
    """Panels of rows and of columns in a CPU's tile of C: few enough for the caches, and for at least 4 tiles per compute
    unit."""
    high, wide = (
        min(n, size // m) or 1 for n, size, m in zip((row_panels, column_panels), CPU_TILE_LIMITS, shape.tile, strict=True)
    )
    while -(-row_panels // high) * -(-column_panels // wide) < 4 * info.compute_units and high * wide > 1:
        if (high * shape.rows >= wide * shape.columns and high > 1) or wide == 1:
            high = -(-high // 2)
        else:
            wide = -(-wide // 2)
    # the rest of that cache is for streamed data; rows are reduced to a quarter of the columns first, then both
    while high * wide > 1 and shape.local_bytes(high, wide) > info.local_mem_bytes * 3 // 4:
        fewer_rows = wide == 1 or (high > 1 and high * shape.rows * 4 >= wide * shape.columns)
        high, wide = (high - 1, wide) if fewer_rows else (high, wide - 1)
    # the same number of tiles, of equal size
    return -(-row_panels // -(-row_panels // high)), -(-column_panels // -(-column_panels // wide))


@dataclass(frozen=True, slots=True)
class PtxShape:
    """One configuration of a program in PTX: rows and columns of C in a sub-group's registers, and the work-group's size.

    With `split`, so many work-groups for each compute unit share all tiles evenly, some along k; with 0, a work-group takes one
    tile. With SHARED_COLUMNS, SHARERS sub-groups have two by two of their tiles together, and each multiplies a part of k.
    """

    scalar: np.dtype[np.generic]
    rows: int
    columns: int
    depth: int
    work_group: int
    split: int

    @property
    def tiles(self) -> Tiles:
        """The arrangement of sub-groups that makes the work-group's tile square, or higher than wide, of floats wider."""
        size, parts, stages = self.scalar.itemsize, *((SHARERS, SHARED_STAGES) if self.is_shared else (1, STAGES))
        sub_groups, edge = self.work_group // SUB_GROUP // parts, math.isqrt(parts)
        rows, columns = (self.rows, self.columns) if size == 8 else (self.columns, self.rows)
        more = 1
        while 2 * more <= sub_groups and more * rows < sub_groups // more * columns:
            more *= 2
        down, across = (more, sub_groups // more) if size == 8 else (sub_groups // more, more)
        return Tiles(
            size, edge * down * self.rows, edge * across * self.columns, down, across, parts * self.depth, stages, parts
        )

    @property
    def is_shared(self) -> bool:
        """Whether sub-groups share k."""
        return self.columns == SHARED_COLUMNS

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-group keeps in registers."""
        return self.tiles.rows, self.tiles.columns

    @property
    def multiple(self) -> int:
        """The number to a multiple of which k is padded."""
        return self.tiles.multiple

    def groups(self, info: DeviceInfo, tiles: int) -> int:
        """Work-groups of a launch; of few tiles as many share each one, so that none has parts of two."""
        most = self.split * info.compute_units
        return info.work_groups or (most - most % min(most, tiles) if self.split else tiles)

    def whole_rounds(self, groups: int, tiles: int) -> int:
        """Rounds in which each work-group takes a whole tile; one less than fit, so that the tiles that are split afterwards
        are enough for even shares."""
        rounds, rest = divmod(tiles, groups)
        return max(0, rounds - 1) if rest else rounds

    def obstacle(self, info: DeviceInfo) -> str:
        """The reason why this configuration cannot run on this device; empty if it can."""
        double = self.scalar.itemsize == 8
        if self.depth not in (8, 16, 32):
            return "a program in PTX takes a depth of 8, 16 or 32"
        least = SUB_GROUP * (SHARERS if self.is_shared else 2)
        most = min(512 if self.is_shared else 256, info.max_work_group)
        if self.work_group not in (64, 128, 256, 512) or not least <= self.work_group <= most:
            return f"for a program in PTX a work-group is 64, 128, 256 or 512, here at least {least} and at most {most}"
        if (self.rows, self.columns) not in SUB_GROUP_TILES or (double and self.is_shared and self.rows > SHARED_COLUMNS):
            return "a sub-group's tile is 32 or 64 rows by 32 or 64 columns, 16 by 16, or of floats 32 by 16"
        if self.rows * self.columns > (2048 if double else 4096):
            return f"a sub-group's tile is at most {MAX_SUM_BYTES * SUB_GROUP // self.scalar.itemsize} elements"
        if double and self.depth == 8:
            return "programs in PTX take doubles at a depth of 16 or 32"
        if not 0 <= self.split <= 8:
            return "tiles are split among 1 to 8 work-groups for each compute unit, or not, with 0"
        if self.tiles.local_bytes > MAX_STATIC_BYTES:
            return f"{self.tiles.local_bytes} B of local memory are over {MAX_STATIC_BYTES} B: choose a smaller tile or depth"
        return ""

    @property
    def text(self) -> str:
        """The program: of doubles the next tile's first slabs are copied while one is stored; floats lack the registers, and
        shared tiles the local memory, where their sums are added."""
        overlap = self.split > 0 and self.scalar.itemsize == 8 and not self.is_shared
        return program(self.tiles, bool(self.split), overlap)

    def kernel(self, device: Device) -> Kernel:
        """The kernel `multiply`. Raises Skip if the driver cannot assemble it for this device."""
        try:
            return device.assemble(self.text)["multiply"]
        except BuildError as error:
            raise Skip(f"the driver does not assemble this program for this device: {error}") from error
