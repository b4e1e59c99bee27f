"""Rate of the product of two dense matrices in low precision, by NVIDIA's matrix instructions of four sub-groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark, is_timed_in_batches
from clmembench.benchmarks.dgemm.dgemm import INIT_GROUP_SIZE, MAX_ELEMENT, SEEDS, check_product, require_memory
from clmembench.benchmarks.dgemm.ptx_program import PIECE
from clmembench.benchmarks.gemm.gemm_ptx import (
    MAP_BYTES,
    MAPS,
    ONE_GROUP_COLUMNS,
    SLAB_ROW_BYTES,
    GemmTiles,
    kept_sums,
    map_program,
    program,
)
from clmembench.benchmarks.gemm.wgmma import BY_TYPE
from clmembench.model import Array, Buffer, BuildError, Device, DeviceInfo, Headline, Launch, Metric, Skip, Value, Work
from clmembench.resources import kernel_source

PEAKS = {"half": "fp16_matrix_gflop_s", "bfloat16": "bf16_matrix_gflop_s", "tf32": "tf32_matrix_gflop_s"}
PEAKS |= {"char": "int8_matrix_gop_s"}
RATES = {
    dtype: Metric(
        *(("operation_rate", "Gop/s") if dtype == "char" else ("performance", "GFLOP/s")),
        "flops", "rate", "higher", peak=peak, only={"dtype": (dtype,)},
    )
    for dtype, peak in PEAKS.items()
}  # fmt: skip
STAGES = {256: 4, 128: 6, 64: 6, 32: 4}  # slabs in local memory, by the columns of a tile: 48 to 192 KiB
SIZES = (1024, 2048, 4096, 8192)
OF_ALL_TYPES = 4096  # the size that is measured in each type by default
FEW_TILES = 1024  # the largest n whose tiles of 256 columns leave most compute units idle
ELEMENTS = np.arange(-MAX_ELEMENT, MAX_ELEMENT + 1)


def element_bits(dtype: str) -> Array:
    """The bits of -MAX_ELEMENT to MAX_ELEMENT in a type, as unsigned numbers of its size."""
    if dtype == "char":
        return ELEMENTS.astype(np.int8).view(np.uint8)
    if dtype == "half":
        return ELEMENTS.astype(np.float16).view(np.uint16)
    bits = ELEMENTS.astype(np.float32).view(np.uint32)
    return (bits >> 16).astype(np.uint16) if dtype == "bfloat16" else bits


def row_pitch(n: int, itemsize: int) -> int:
    """Bytes from a row of A or B to the next, padded to lines: rows that begin inside a sector cost a quarter of the rate (FP16
    on an H200: n = 1000 and 1001, of 2,000 and 2,016 bytes)."""
    return -(-n * itemsize // SLAB_ROW_BYTES) * SLAB_ROW_BYTES


def result_type(dtype: str) -> np.dtype[np.generic]:
    """The type of sums and of C."""
    return np.dtype(np.int32 if dtype == "char" else np.float32)


def _in_default_subset(info: DeviceInfo, dtype: str, n: int, columns: int) -> bool:
    """One size in most types, and the tiles that suit a size: the smallest ones suit n = 512 and less."""
    return (dtype == "half" or n == OF_ALL_TYPES) and (columns < 256) == (n <= FEW_TILES) and columns > ONE_GROUP_COLUMNS


@benchmark(
    *RATES.values(),
    suite="compute",
    source="this project; peer: cuBLAS",
    needs=["ptx"],
    headlines=[
        Headline("compute", f"{name} GEMM", RATES[dtype].name, {"dtype": dtype}, {"n": "largest"})
        for dtype, name in {"half": "FP16", "bfloat16": "BF16", "tf32": "TF32", "char": "INT8"}.items()
    ],
    default_subset=_in_default_subset,
    figure_axis="n",
    dtype=axis(*RATES),
    n=axis_of(lambda info: SIZES),
    columns=axis(*STAGES, tuning=True),
)
def gemm(device: Device, dtype: str, n: int, columns: int) -> Work:
    """Rate of C = A B in low precision, dense n x n, with sums of 32 bits; A by rows and B by columns.

    A product has 2 n^3 operations. A program in PTX for sm_90a, with a work-group for each compute unit: one work-item has the
    bulk copy engine load slabs of 128 bytes a row into a ring in local memory; eight sub-groups, at 32 columns four, multiply
    slabs by wgmma, of 64 rows by `columns`, and store C. Half, bfloat16 and TF32 have sums and C in float, char in int. Tiles
    are whole: their part outside the matrices is multiplied as zeros, and not counted. Rows of A and B are padded to 128 bytes,
    for cuBLAS too.

    Elements are small whole numbers, so that results are exact: C is verified by Freivalds' check, and element by element up to
    n = 512. Raises Skip where the driver does not assemble the program, and for matrices that do not fit.
    """
    if columns not in STAGES:
        raise Skip(f"a tile has {', '.join(map(str, STAGES))} columns, not {columns}")
    if n < 1:
        raise Skip(f"n is {n}: matrices have at least one element")
    groups = device.info.work_groups or device.info.compute_units
    bits, result = element_bits(dtype), result_type(dtype)
    row_bytes, c_row_bytes = row_pitch(n, bits.itemsize), -(-n * result.itemsize // PIECE) * PIECE
    tiles = GemmTiles(BY_TYPE[dtype], columns, STAGES[columns])
    down, along = -(-n // tiles.rows), -(-n // columns)
    single = down * along <= groups
    tiles = replace(tiles, single=single, kept=0 if single else kept_sums(columns, row_bytes))
    sizes = (n * row_bytes, n * row_bytes, n * c_row_bytes)
    require_memory(device.info, n, list(sizes))
    try:
        kernel, describe = device.assemble(program(tiles))["multiply"], device.assemble(map_program(tiles))["describe"]
    except BuildError as error:
        raise Skip(f"the driver does not assemble {tiles.wgmma.name(columns)} for this device: {error}") from error
    a, b, c = (device.alloc(size) for size in sizes)
    seeds = ((SEEDS[0] + device.seed) % 2**32, (SEEDS[1] + device.seed) % 2**32)
    for matrix, size, seed in ((a, sizes[0], seeds[0]), (b, sizes[1], seeds[1])):
        _fill_matrix(device, n, matrix, size, row_bytes, bits, seed, transposed=matrix is b)
    maps = device.alloc(MAPS * MAP_BYTES)
    device.upload(maps, np.zeros(MAPS * MAP_BYTES, np.uint8))
    device.run([Launch(describe, (a, b, maps, *(np.uint32(x) for x in (n, row_bytes))), (1,), (1,))])
    grid = (down, along) if tiles.single else (groups, 1)
    args = (a, b, c, maps, *(np.uint32(x) for x in (down, along, n, row_bytes, c_row_bytes)))
    facts: Mapping[str, Value] = {**device.compiled(kernel), "local_bytes": tiles.local_bytes}
    return Work(
        (Launch(kernel, args, (grid[0] * tiles.work_group, grid[1]), (tiles.work_group, 1)),),
        flops=2 * n**3,
        outputs=((c, sizes[2]),),
        check=check_product(device, c, result, n, c_row_bytes // result.itemsize, seeds),
        facts=facts,
        back_to_back=is_timed_in_batches(device.info),
    )


def _fill_matrix(
    device: Device, n: int, matrix: Buffer, size: int, row_bytes: int, bits: Array, seed: int, transposed: bool
) -> None:
    """Fills the buffer, whose rows have so many bytes: the n x n matrix of this seed, with zeros around it."""
    kind = {1: "uchar", 2: "ushort", 4: "uint"}[bits.itemsize]
    init = device.build(kernel_source("gemm_init"), T=kind)["init_bits"]
    table, elements = device.alloc(bits.nbytes), size // bits.itemsize
    device.upload(table, bits)
    numbers = (n, row_bytes // bits.itemsize, seed, MAX_ELEMENT, transposed)
    args = (matrix, table, *(np.uint32(x) for x in numbers), np.uint64(elements))
    device.run([Launch(init, args, (-(-elements // INIT_GROUP_SIZE) * INIT_GROUP_SIZE,), (INIT_GROUP_SIZE,))])
