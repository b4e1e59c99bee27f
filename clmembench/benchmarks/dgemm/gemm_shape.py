"""Configurations of `dgemm`: for CPUs, for GPUs through local memory, and for NVIDIA's FP64 matrix instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.model import BuildError, Device, DeviceInfo, Kernel, Skip, Value
from clmembench.resources import kernel_source

MAX_REGISTER_BYTES = 2048  # no work-item has more registers
CPU_TILE_LIMITS = (192, 512)  # rows and columns of C; fewer if local memory, usually the L2 cache, is small
PACKED_PANELS = 8  # panels of B that are packed at a time

SUB_GROUP_SIZE = 32
SUB_GROUPS_ACROSS = 4  # in a work-group
SLAB_DEPTH = 8  # values of k in a slab, those of one instruction
DOUBLE_BYTES = 8
MAX_SUM_BYTES = 512  # bytes of sums in a work-item
MAX_STAGES = 4  # slabs in local memory
PREFETCHED_SLABS = 2  # if local memory holds only two slabs
MBARRIER_BYTES = 8  # of local memory, in addition to the slabs


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
class MatrixShape:
    """One configuration with matrix instructions: rows and columns of C in a sub-group's registers, and the work-group's
    size."""

    rows: int
    columns: int
    depth: int
    work_group: int

    @property
    def scalar(self) -> np.dtype[np.generic]:
        return np.dtype("f8")

    @property
    def down(self) -> int:
        """The number of rows of sub-groups in a work-group."""
        return self.work_group // (SUB_GROUPS_ACROSS * SUB_GROUP_SIZE)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-group keeps in registers."""
        return self.down * self.rows, SUB_GROUPS_ACROSS * self.columns

    @property
    def multiple(self) -> int:
        """The number to a multiple of which k is padded: slabs are processed in pairs."""
        return 2 * SLAB_DEPTH

    def stages(self, info: DeviceInfo) -> int:
        """Slabs of A and B that fit in local memory; some drivers refuse exactly its limit."""
        return min(MAX_STAGES, (info.local_mem_bytes - MBARRIER_BYTES - 1) // (SLAB_DEPTH * sum(self.tile) * DOUBLE_BYTES))

    def obstacle(self, info: DeviceInfo) -> str:
        """The reason why this configuration cannot run on this device; empty if it can."""
        least = SUB_GROUPS_ACROSS * SUB_GROUP_SIZE
        if self.depth != SLAB_DEPTH:
            return f"matrix instructions take a depth of {SLAB_DEPTH}"
        if self.work_group < least or self.work_group & (self.work_group - 1) or self.work_group > info.max_work_group:
            return f"for matrix instructions a work-group is a power of two from {least} to this device's {info.max_work_group}"
        wide = 16 * max(1, self.down // 2)
        if self.rows < 32 or self.rows % 32 or self.columns < wide or self.columns & (self.columns - 1) or self.columns > 64:
            return f"a sub-group's tile has rows in multiples of 32 and columns in powers of two from {wide} to 64"
        if self.rows * self.columns * DOUBLE_BYTES > MAX_SUM_BYTES * SUB_GROUP_SIZE:
            return f"a sub-group's tile has at most {MAX_SUM_BYTES * SUB_GROUP_SIZE // DOUBLE_BYTES} elements"
        if self.stages(info) < 2:
            two = 2 * SLAB_DEPTH * sum(self.tile) * DOUBLE_BYTES + MBARRIER_BYTES
            return f"{two} B of local memory are not below this device's {info.local_mem_bytes} B: choose a smaller tile"
        return ""

    def kernel(self, device: Device) -> Kernel:
        """The kernel `multiply`; without PTX its emulation, for tests. Raises Skip if the compiler lacks the instruction."""
        stages = self.stages(device.info)
        defines: dict[str, Value] = {
            "PTX": "ptx" in device.info.features,
            "SUB_GROUPS_DOWN": self.down,
            "SUB_GROUPS_ACROSS": SUB_GROUPS_ACROSS,
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "STAGES": stages,
            "AHEAD": PREFETCHED_SLABS if stages == 2 else 0,
        }
        try:
            return device.build(kernel_source("dgemm_matrix"), **defines)["multiply"]
        except BuildError as error:
            raise Skip("the compiler has no FP64 matrix instruction m16n8k8 for this device") from error
