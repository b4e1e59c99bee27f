"""One configuration of spmv: the matrix in its format, the kernels for it, and their launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clmembench.benchmarks.spmv import spmv_formats as formats
from clmembench.benchmarks.spmv import spmv_problem as problems
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.model import Array, Buffer, Command, Device, DeviceInfo, Kernel, Launch
from clmembench.resources import kernel_source

MAX_PREFETCHED_STREAMS = 8  # streams that a core's prefetchers follow at a time
TILE_ROWS = 2048  # rows whose sums a core's first cache holds
PREFETCH_ENTRIES = 512  # beyond the distance of hardware prefetchers, within some KiB of the first cache
CHUNK_ROWS = {"blocked": 8, "strided": 32}  # rows of a chunk of SELL: a vector of doubles, a sub-group
MAX_CORE_SUMS = 1 << 16  # of a slab: half a MiB, which fits in a core's second cache
SLAB_GROUPS_PER_UNIT = 2  # work-groups of slabs on a compute unit
SHARES_PER_UNIT = 64  # of CSR on a core: few enough for streaming, many enough to balance cores that others slow down
RESERVED_LOCAL_BYTES = 1 << 10  # local memory that drivers may use
KERNEL_FILES = {
    "csr_adaptive": "spmv_adaptive",
    "csr_shares": "spmv_shares",
    "sell": "spmv_sell",
    "slab": "spmv_slab",
}  # others are in spmv.cl


def convert(
    info: DeviceInfo, a: Csr, format: str, hints: str, blocked: bool, work_group: int, per: int, sigma: int
) -> formats.ConvertedMatrix:
    """The matrix in the format of this kernel. Raises UnsuitedFormat, or Skip for too little memory, if impossible."""
    if format == "csr_adaptive":
        return formats.blocks(a, work_group, per)
    if format == "csr_shares":
        return formats.shares(a, SHARES_PER_UNIT * info.compute_units)
    if format == "slab":
        if not blocked and hints == "none" and "int64_atomics" not in info.features:
            raise formats.UnsuitedFormat("without 64-bit atomics in local memory, work-items cannot add up a slab")
        if blocked:
            return formats.slabs(a, info.compute_units, MAX_CORE_SUMS, False)
        stored = formats.slabs(
            a, SLAB_GROUPS_PER_UNIT * info.compute_units, (info.local_mem_bytes - RESERVED_LOCAL_BYTES) // 8, True
        )
        return replace(stored, defines={**stored.defines, "PER": per})
    if format == "sell":
        return formats.sell(a, CHUNK_ROWS["blocked" if blocked else "strided"], sigma)
    if format == "ell":
        formats.refuse_padded("ELL", int(a.row_lengths.max()) * a.rows, a)
        problems.require_memory(info, a.rows, a.columns, int(a.row_lengths.max()) * a.rows)
        stored = formats.ell(a)
        return replace(stored, defines={**stored.defines, "TILE": TILE_ROWS, "STREAMS": MAX_PREFETCHED_STREAMS})
    return formats.ConvertedMatrix((a.values, a.indices, a.indptr), {}, a.nonzeros, a.rows)


def build_kernels(
    device: Device, stored: formats.ConvertedMatrix, format: str, hints: str, blocked: bool, team: int, work_group: int
) -> Mapping[str, Kernel]:
    """The kernels of a format, built for one configuration."""
    ahead = PREFETCH_ENTRIES if hints == "prefetch" else 0
    defines = {**stored.defines, "PTX": hints == "ptx", "AHEAD": ahead, "NONTEMPORAL": ahead > 0, "BLOCKED": blocked}
    if format == "csr_team":
        defines["TEAM"] = team
    if format in ("csr_adaptive", "csr_shares"):
        defines["PARTS_GROUP"] = 1 if blocked else work_group
    return device.build(kernel_source(KERNEL_FILES.get(format, "spmv")), GROUP_SIZE=work_group, **defines)


def make_commands(
    device: Device,
    kernels: Mapping[str, Kernel],
    format: str,
    stored: formats.ConvertedMatrix,
    x: Array,
    y: Buffer,
    groups: int,
    group_size: int,
) -> tuple[Command, ...]:
    """The launch of a format's kernel; if several work-groups share rows, also the launch that adds up their parts."""
    buffers = [_upload(device, array) for array in (*stored.arrays, x)]
    parts = [device.alloc(8 * max(1, stored.parts))] if format in ("csr_adaptive", "csr_shares") else []
    shape = ((device.info.work_groups or groups) * group_size,), (group_size,)
    launch = Launch(kernels[format], (*buffers, y, *parts, np.uint32(stored.items)), *shape)
    if not len(stored.parted):
        return (launch,)
    rows = _upload(device, stored.parted)
    return launch, Launch(kernels["csr_parts"], (rows, *parts, y), (len(stored.parted) * group_size,), (group_size,))


def _upload(device: Device, array: Array) -> Buffer:
    buffer = device.alloc(array.nbytes)
    device.upload(buffer, array)
    return buffer
