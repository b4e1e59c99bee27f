"""Configurations of `dgemm` for FP64 matrix instructions of NVIDIA's sub-groups, whose kernel is dgemm_matrix.cl."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmembench.model import BuildError, Device, DeviceInfo, Kernel, Skip, Value
from clmembench.resources import kernel_source

SUB_GROUP_SIZE = 32
SUB_GROUPS_ACROSS = 4  # in a work-group
SLAB_DEPTH = 8  # values of k in a slab, as an instruction takes them
DOUBLE_BYTES = 8  # bytes
MAX_SUM_BYTES = 512  # bytes of sums in a work-item
MAX_STAGES = 4  # slabs in local memory
PREFETCHED_SLABS = 2  # where local memory holds only two slabs
MBARRIER_BYTES = 8  # of local memory beside the slabs


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """Rows and columns of C in the registers of a sub-group, and work-items of a work-group."""

    rows: int
    columns: int
    depth: int
    work_group: int

    @property
    def scalar(self) -> np.dtype[np.generic]:
        return np.dtype("f8")

    @property
    def down(self) -> int:
        """Sub-groups below each other in a work-group."""
        return self.work_group // (SUB_GROUPS_ACROSS * SUB_GROUP_SIZE)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-group keeps in registers."""
        return self.down * self.rows, SUB_GROUPS_ACROSS * self.columns

    @property
    def multiple(self) -> int:
        """The number that k is padded to a multiple of: slabs are processed in pairs."""
        return 2 * SLAB_DEPTH

    def stages(self, info: DeviceInfo) -> int:
        """Slabs of A and B that fit into local memory; some drivers refuse exactly its limit."""
        return min(MAX_STAGES, (info.local_mem_bytes - MBARRIER_BYTES - 1) // (SLAB_DEPTH * sum(self.tile) * DOUBLE_BYTES))

    def obstacle(self, info: DeviceInfo) -> str:
        """The reason why this configuration cannot run on that device; empty where it can."""
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
            return f"{two} B of local memory are not below this device's {info.local_mem_bytes} B: choose less tile"
        return ""

    def kernel(self, device: Device) -> Kernel:
        """The kernel `multiply`; without PTX its emulation, for tests. Raises Skip where the compiler lacks the instruction."""
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
