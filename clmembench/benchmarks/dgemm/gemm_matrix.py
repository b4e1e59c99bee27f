"""Configurations of `dgemm` for FP64 matrix instructions of NVIDIA's sub-groups, whose kernel is dgemm_matrix.cl."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmembench.model import BuildError, Device, DeviceInfo, Kernel, Skip, Value
from clmembench.resources import kernel_source

SUB_GROUP = 32
ACROSS = 4  # in a work-group
DEPTH = 8  # values of k in a slab, as an instruction takes them
DOUBLE = 8  # bytes
REGISTERS = 512  # bytes of sums in a work-item
STAGES = 4  # slabs in local memory
AHEAD = 2  # where local memory holds only two slabs
GATE = 8  # of local memory beside the slabs


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
        return self.work_group // (ACROSS * SUB_GROUP)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-group keeps in registers."""
        return self.down * self.rows, ACROSS * self.columns

    @property
    def multiple(self) -> int:
        """The number that k is padded to a multiple of: slabs are processed in pairs."""
        return 2 * DEPTH

    def stages(self, info: DeviceInfo) -> int:
        """Slabs of A and B that fit into local memory; some drivers refuse exactly its limit."""
        return min(STAGES, (info.local_mem_bytes - GATE - 1) // (DEPTH * sum(self.tile) * DOUBLE))

    def obstacle(self, info: DeviceInfo) -> str:
        """The reason why this configuration cannot run on that device; empty where it can."""
        least = ACROSS * SUB_GROUP
        if self.depth != DEPTH:
            return f"matrix instructions take a depth of {DEPTH}"
        if self.work_group < least or self.work_group & (self.work_group - 1) or self.work_group > info.max_work_group:
            return f"for matrix instructions a work-group is a power of two from {least} to this device's {info.max_work_group}"
        wide = 16 * max(1, self.down // 2)
        if self.rows < 32 or self.rows % 32 or self.columns < wide or self.columns & (self.columns - 1) or self.columns > 64:
            return f"a sub-group's tile has rows in multiples of 32 and columns in powers of two from {wide} to 64"
        if self.rows * self.columns * DOUBLE > REGISTERS * SUB_GROUP:
            return f"a sub-group's tile has at most {REGISTERS * SUB_GROUP // DOUBLE} elements"
        if self.stages(info) < 2:
            two = 2 * DEPTH * sum(self.tile) * DOUBLE + GATE
            return f"{two} B of local memory are not below this device's {info.local_mem_bytes} B: choose less tile"
        return ""

    def kernel(self, device: Device) -> Kernel:
        """The kernel `multiply`; without PTX its emulation, for tests. Raises Skip where the compiler lacks the instruction."""
        stages = self.stages(device.info)
        defines: dict[str, Value] = {
            "PTX": "ptx" in device.info.features,
            "SUB_GROUPS_DOWN": self.down,
            "SUB_GROUPS_ACROSS": ACROSS,
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "STAGES": stages,
            "AHEAD": AHEAD if stages == 2 else 0,
        }
        try:
            return device.build(kernel_source("dgemm_matrix"), **defines)["multiply"]
        except BuildError as error:
            raise Skip("the compiler has no FP64 matrix instruction m16n8k8 for this device") from error
