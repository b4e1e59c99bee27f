"""One configuration of spmv: the matrix in its format, the kernels for it, and their launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from clmembench.benchmarks.spmv import spmv_formats as formats
from clmembench.benchmarks.spmv import spmv_problem as problems
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.model import Array, Buffer, Command, Device, DeviceInfo, Kernel, Launch, Skip
from clmembench.resources import kernel_source

MAX_PREFETCHED_STREAMS = 8  # streams that a core's prefetchers follow at a time
TILE_ROWS = 2048  # rows whose sums a core's first cache holds
PREFETCH_ENTRIES = 512  # beyond the distance of hardware prefetchers, within some KiB of the first cache
CHUNK_ROWS = {"blocked": 8, "strided": 32}  # rows of a chunk of SELL: a vector of doubles, a sub-group
MAX_CORE_SUMS = 1 << 16  # of a slab: half a MiB, which fits in a core's second cache
SLAB_GROUPS_PER_UNIT = 2  # work-groups of slabs on a compute unit
SHARES_PER_UNIT = 64  # of CSR on a core: few enough for streaming, many enough to balance cores that others slow down
RESERVED_LOCAL_BYTES = 1 << 10  # local memory that drivers may use
# the rule that chooses a format
MAX_OWN_X_BYTES = 1 << 19  # half of a unit's own caches: a larger x is gathered from caches that units share
MIN_SCATTERED_FRACTION = 0.5  # lines of x over the entries that need them, in windows of SCATTER_ENTRIES
SCATTER_ENTRIES, SCATTER_WINDOWS, LINE_ELEMENTS = 2048, 64, 16
MIN_SLAB_ROWS = 64  # of fewer, sorting by column brings few entries together
MIN_UNIT_ROWS = 512  # rows of a GPU's compute unit that give each of its work-items one
MAX_ELL_PADDING_RATIO = 1.3
MAX_VECTOR_ROW = 8  # entries: of longer rows, a core adds up each as fast as eight together
KERNEL_FILES = {
    "csr_adaptive": "spmv_adaptive",
    "csr_shares": "spmv_shares",
    "sell": "spmv_sell",
    "slab": "spmv_slab",
}  # others are in spmv.cl


@dataclass(frozen=True, slots=True)
class Choice:
    """A format and its configuration."""

    format: str
    work_group: int
    per: int


def choose(info: DeviceInfo, a: Csr) -> Choice:
    """The likely best format of a matrix, from statistics of its rows: as long as the sum of a few thousand entries.

    Scattered columns of an x beyond the caches of a unit ask for slabs; rows of about one length for ELL on GPUs and, if they
    are short, for SELL on CPUs. Others are shared out by entries.
    """
    cpu, longest, units = info.has_cpu_cores, int(a.row_lengths.max()), info.compute_units
    slabs = units * (1 if cpu else SLAB_GROUPS_PER_UNIT)
    if 8 * a.columns > MAX_OWN_X_BYTES and a.rows >= MIN_SLAB_ROWS * slabs and scattered(a) >= MIN_SCATTERED_FRACTION:
        return Choice("slab", 64 if cpu else 1024, 1)
    even = longest * a.rows <= MAX_ELL_PADDING_RATIO * a.nonzeros
    if cpu:
        return Choice("sell" if even and longest <= MAX_VECTOR_ROW else "csr_shares", 64, 1)
    if even and a.rows >= MIN_UNIT_ROWS * units:
        return Choice("ell", 128, 4)
    return Choice("csr_adaptive", 128, 4)


def scattered(a: Csr) -> float:
    """Lines of x that consecutive entries touch, over these entries: 1 if none shares a line, the median of some windows."""
    begins = np.linspace(0, max(0, a.nonzeros - SCATTER_ENTRIES), SCATTER_WINDOWS).astype(np.int64)
    windows = [a.indices[begin : begin + SCATTER_ENTRIES] // LINE_ELEMENTS for begin in begins]
    return float(np.median([len(np.unique(window)) / max(1, len(window)) for window in windows]))


def convert(
    info: DeviceInfo, a: Csr, format: str, hints: str, blocked: bool, work_group: int, per: int, sigma: int
) -> formats.ConvertedMatrix:
    """The matrix in the format of this kernel. Raises Skip or formats.UnsuitedFormat if the conversion is impossible."""
    if format == "csr_adaptive":
        return formats.blocks(a, work_group, per)
    if format == "csr_shares":
        return formats.shares(a, SHARES_PER_UNIT * info.compute_units)
    if format == "slab":
        if not blocked and hints == "none" and "int64_atomics" not in info.features:
            raise Skip("without 64-bit atomics in local memory, work-items cannot add up a slab")
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
