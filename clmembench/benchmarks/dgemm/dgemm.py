"""B7: floating-point rate of the product of two dense matrices, in double and single precision."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from clmembench.benchmarks import (
    MATRIX_FLOPS,
    VECTOR_FLOPS,
    axis,
    axis_of,
    benchmark,
    is_timed_in_batches,
    work_group_sizes,
)
from clmembench.benchmarks.dgemm.gemm_shape import PACKED_PANELS, PtxShape, Shape, fit_cpu_tile
from clmembench.benchmarks.stream import input_value
from clmembench.model import (
    Array,
    Buffer,
    Device,
    DeviceInfo,
    Fill,
    Headline,
    Launch,
    Local,
    Metric,
    Quantity,
    Skip,
    Value,
    Work,
)
from clmembench.resources import kernel_source
from clmembench.units import format_bytes

PORTABLE, PTX = "portable", "ptx"
# the fraction of peak is that of the kernel's own instructions: matrix instructions have their own peak
VECTOR_RATE, MATRIX_RATE, SINGLE_RATE, PTX_SINGLE_RATE = (
    Metric("performance", "GFLOP/s", "flops", "rate", "higher", peak=peak, only={"dtype": (dtype,), "variant": (variant,)})
    for dtype, variant, peak in (
        ("double", PORTABLE, "fp64_vector_gflop_s"),
        ("double", PTX, "fp64_matrix_gflop_s"),
        ("float", PORTABLE, "fp32_vector_gflop_s"),
        ("float", PTX, "fp32_vector_gflop_s"),
    )
)
INIT_GROUP_SIZE = 64
# register tiles, the likely best first. On CPUs the columns are one or two cache lines, for 12 AVX2 or 24 AVX-512 registers
CPU_TILES = {"double": ("6x8", "12x16"), "float": ("6x16", "12x32")}
GPU_TILES = {"double": ("8x8", "8x4"), "float": ("16x8", "8x8")}
ANY_SIZE = math.inf
# candidates of programs in PTX: a sub-group's tile, work-group and split, and the largest n where they are tried by default
PTX_CANDIDATES: dict[str, dict[tuple[str, int, int], float]] = {
    "double": {
        ("64x32", 256, 0): ANY_SIZE,
        ("64x32", 256, 1): ANY_SIZE,
        ("32x32", 256, 0): ANY_SIZE,
        ("32x32", 256, 1): ANY_SIZE,
        ("16x16", 256, 0): 768,
        ("16x16", 128, 0): 768,
    },
    "float": {
        ("64x32", 256, 0): ANY_SIZE,
        ("64x32", 256, 1): ANY_SIZE,
        ("64x32", 128, 2): ANY_SIZE,
        ("64x64", 256, 0): ANY_SIZE,
        ("16x16", 256, 0): 768,
        ("16x16", 128, 0): 768,
        ("32x16", 512, 0): 1024,
    },
}
PTX_DEPTH, PTX_SPLITS = 16, (0, 1, 2)
MAX_PORTABLE_GROUP = 256  # larger ones are tried where they are asked for
MAX_DEPTH = 1 << 16
LIMIT = "a product of matrices also moves its operands"
SCALING_SIZES = (2048, 4096)  # n of the product that is measured over compute units
SCALING_TILE, MIN_BUSY_SHARE = 128, 0.95  # rows of a GPU's tile; of the units, on average over rounds of equal tiles
SEEDS = (0x51ED270B, 0xC2B2AE35)
MAX_ELEMENT = 4  # elements are -4 to 4: sums are exact in float up to n = 2**20, and always in double
FREIVALDS_VECTORS = 4
MAX_WHOLE_CHECK_SIZE = 512  # up to this n the whole product is also compared
HOST_CHUNK_ELEMENTS = 1 << 22  # elements that the host processes at a time


def _parse_shape(variant: str, dtype: str, tile: str, depth: int, work_group: int, split: int) -> Shape | PtxShape:
    """The configuration of one point. Raises Skip if `tile` is not written as ROWSxCOLUMNS."""
    match = re.fullmatch(r"(\d+)x(\d+)", str(tile))
    if match is None:
        raise Skip(f"{tile} is not a tile: write rows x columns of a work-item, such as 8x8")
    rows, columns, scalar = int(match[1]), int(match[2]), np.dtype("f8" if dtype == "double" else "f4")
    if variant == PTX:
        return PtxShape(scalar, rows, columns, depth, work_group, split)
    if split:
        raise Skip(f"variant {PORTABLE} splits no tiles")
    return Shape(scalar, rows, columns, depth, work_group)


def _variants(info: DeviceInfo) -> tuple[str, ...]:
    return (PORTABLE, *([PTX] if not info.has_cpu_cores and {"ptx", "fp64"} <= info.features else []))


def _tiles(info: DeviceInfo) -> tuple[str, ...]:
    if info.has_cpu_cores:
        return tuple(t for tiles in CPU_TILES.values() for t in tiles)
    ptx = PTX_CANDIDATES.values() if PTX in _variants(info) else ()
    gpu = [*(t for tiles in GPU_TILES.values() for t in tiles), *(t for candidates in ptx for t, _, _ in candidates)]
    return tuple(dict.fromkeys(gpu))


def _depths(info: DeviceInfo) -> tuple[int, ...]:
    return (512, 256) if info.has_cpu_cores else (8, 16)


def _group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    sizes = (1,) if info.has_cpu_cores else (256, 128, 64, 512) if PTX in _variants(info) else (128, 256, 64)
    return work_group_sizes(info, *sizes)


def _splits(info: DeviceInfo) -> tuple[int, ...]:
    return PTX_SPLITS if PTX in _variants(info) else PTX_SPLITS[:1]


def _sizes(info: DeviceInfo) -> tuple[int, ...]:
    if info.has_cpu_cores:
        return (64, 256, 512, 1024, 2048, *((4096,) if info.compute_units >= 16 else ()))
    return (256, 512, 1024, 2048, 4096, 8192)


def _where(info: DeviceInfo, dtype: str, variant: str, n: int, work_group: int, tile: str, depth: int, split: int) -> bool:
    """Whether a point is measured.

    A configuration of the user's is tried, and skipped with a reason if it cannot run; other configurations that cannot run are
    left out.
    """
    if (
        work_group not in _group_sizes(info)
        or tile not in _tiles(info)
        or depth not in _depths(info)
        or split not in _splits(info)
    ):
        return True
    if variant == PTX:
        return depth == PTX_DEPTH and (tile, work_group, split) in PTX_CANDIDATES[dtype]
    if any(tile == own for candidates in PTX_CANDIDATES.values() for own, _, _ in candidates):
        return False
    return not split and not _parse_shape(variant, dtype, tile, depth, work_group, split).obstacle(info)


def _in_default_subset(
    info: DeviceInfo, dtype: str, variant: str, n: int, work_group: int, tile: str, depth: int, split: int
) -> bool:
    """Points of the default subset: few sizes in single precision, the tiles of a type, few configurations of the largest
    product."""
    cpu = info.has_cpu_cores
    if dtype == "float" and "fp64" in info.features and n not in ((1024,) if cpu else (1024, 4096)):
        return False
    if variant == PTX:
        return n <= PTX_CANDIDATES[dtype].get((tile, work_group, split), 0)
    if work_group > MAX_PORTABLE_GROUP:
        return False
    tiles = (CPU_TILES if cpu else GPU_TILES)[dtype]
    if cpu or (dtype == "double" and n < 8192):
        return tile in tiles
    return tile == tiles[0] and depth == _depths(info)[0]


def _type_of_point(info: DeviceInfo) -> str:
    return "double" if "fp64" in info.features else "float"


def _quick_tiles(info: DeviceInfo) -> tuple[str, ...]:
    own = CPU_TILES[_type_of_point(info)] if info.has_cpu_cores else GPU_TILES[_type_of_point(info)][:1]
    return own + ((next(iter(PTX_CANDIDATES[_type_of_point(info)]))[0],) if PTX in _variants(info) else ())


def _scaling_point(info: DeviceInfo) -> Mapping[str, Value]:
    """The point of a scaling study: the largest n up to 4096, enough work for many units and not too much for one; on a GPU
    2048 where its tiles keep all units busy."""
    n = max(n for n in _sizes(info) if n <= SCALING_SIZES[-1])
    tiles = (SCALING_SIZES[0] // SCALING_TILE) ** 2
    rounds = -(-tiles // info.compute_units)
    if not info.has_cpu_cores and tiles >= MIN_BUSY_SHARE * rounds * info.compute_units:
        n = SCALING_SIZES[0]
    return {"dtype": _type_of_point(info), "variant": PORTABLE, "n": n}


def _single_unit_points(info: DeviceInfo) -> list[Mapping[str, Value]]:
    """Smaller products, which are also measured on one compute unit."""
    largest = _scaling_point(info)
    return [{**largest, "n": n} for n in _sizes(info) if n < SCALING_SIZES[-1] and n != largest["n"]]


@benchmark(
    VECTOR_RATE,
    MATRIX_RATE,
    SINGLE_RATE,
    PTX_SINGLE_RATE,
    suite="compute",
    source="Razzaq et al. 2016, section IV-D1 (B7); blocking after Goto & van de Geijn 2008",
    quick={
        "dtype": axis_of(lambda info: (_type_of_point(info),)),
        "n": axis_of(lambda info: (512 if info.has_cpu_cores else 2048,)),
        "work_group": axis_of(lambda info: _group_sizes(info)[:2], tuning=True),
        "tile": axis_of(_quick_tiles, tuning=True),
        "depth": axis_of(lambda info: _depths(info)[: 1 + (PTX in _variants(info))], tuning=True),
        "split": axis_of(lambda info: _splits(info)[:1], tuning=True),
    },
    headlines=(
        Headline("compute", "DGEMM", "performance", {"dtype": "double"}, {"n": "largest"}),
        Headline("compute", "SGEMM", "performance", {"dtype": "float"}, {"n": "largest"}),
    ),
    where=_where,
    quantities=[
        Quantity(name, "performance", {"dtype": (dtype,), "variant": (variant,)}, limit=LIMIT)
        for dtype, variant, name in (
            *((dtype, PORTABLE, name) for dtype, name in VECTOR_FLOPS.items()),
            ("double", PTX, MATRIX_FLOPS),
            ("float", PTX, VECTOR_FLOPS["float"]),
        )
    ],
    default_subset=_in_default_subset,
    figure_axis="n",
    scaling=_scaling_point,
    single_unit=_single_unit_points,
    version=3,
    dtype=axis("double", "float", needs={"double": ["fp64"]}),
    variant=axis_of(_variants, needs={PTX: ["ptx", "fp64"]}),
    n=axis_of(_sizes),
    # a search changes one after the other: with the best tile it finds the best work-group
    tile=axis_of(_tiles, tuning=True),
    work_group=axis_of(_group_sizes, tuning=True),
    depth=axis_of(_depths, tuning=True),
    split=axis_of(_splits, tuning=True),
)
def dgemm(device: Device, dtype: str, variant: str, n: int, work_group: int, tile: str, depth: int, split: int) -> Work:
    """Floating-point rate of C = A B, dense n x n, row-major, in double and single precision.

    A product has 2 n^3 FLOP. Variant portable is pure OpenCL C with vector FMA: its fraction is that of the vector peak.
    Variant ptx is a program in PTX, with more local memory than OpenCL C has and asynchronous copies into it: doubles by FP64
    matrix instructions (m16n8k8), so that the fraction is that of their peak, and floats by multiply-adds. Matrices are padded
    with zeros to whole tiles; the padding is not counted. `tile` is the rows x columns of C that a work-item (with ptx a
    sub-group) keeps in registers; with ptx and 16 columns four sub-groups have two by two tiles, each for a quarter of k,
    and add their sums. `split` work-groups for each compute unit share all tiles, some along k; with 0 a work-group takes one.

    Work-groups of one suit CPUs: B is packed into panels (also timed), and `depth` values of k are multiplied at a time; rows
    of A and the sums of a tile of C are in local memory, which a CPU usually keeps in its L2 cache. Larger work-groups suit
    GPUs: slabs of `depth` pass through local memory. Small products show the cost of launches.

    Elements are small whole numbers, so that results are exact: C is verified by Freivalds' check, and element by element up to
    n = 512. Raises Skip for configurations that cannot run, devices without the instructions, and matrices that do not fit.
    """
    shape = _parse_shape(variant, dtype, tile, depth, work_group, split)
    if depth > MAX_DEPTH:
        raise Skip(f"a depth of {depth} is over {MAX_DEPTH}")
    reason = shape.obstacle(device.info) or ("" if n >= 1 else f"n is {n}: matrices have at least one element")
    if reason:
        raise Skip(reason)
    down, along = (-(-n // size) for size in shape.tile)  # tiles
    rows, columns, inner = down * shape.tile[0], along * shape.tile[1], -(-n // shape.multiple) * shape.multiple
    sizes = [count * shape.scalar.itemsize for count in (rows * inner, inner * columns, rows * columns)]
    tiles = down * along
    groups = shape.groups(device.info, tiles) if isinstance(shape, PtxShape) else device.info.work_groups or tiles
    further = [2 * groups * math.prod(shape.tile) * shape.scalar.itemsize] if split else sizes[1:2] if work_group == 1 else []
    require_memory(device.info, n, sizes + further)
    a, b, c = (device.alloc(size) for size in sizes)
    seeds = ((SEEDS[0] + device.seed) % 2**32, (SEEDS[1] + device.seed) % 2**32)
    for matrix, stride, lines, seed in ((a, inner, rows, seeds[0]), (b, columns, inner, seeds[1])):
        _fill_matrix(device, dtype, n, matrix, stride, lines, seed)
    numbers = [np.uint32(x) for x in (down, along, inner)]
    commands: list[Launch] = []
    args: tuple[object, ...] = (a, b, c, *numbers)
    facts: Mapping[str, Value] = {}
    if isinstance(shape, PtxShape):
        multiply = shape.kernel(device)
        facts = {**device.compiled(multiply), "local_bytes": shape.tiles.local_bytes}
        sums, arrivals = device.alloc(max([16, *further])), device.alloc(4 * tiles)
        device.run([Fill(arrivals, 4 * tiles)])
        args += (sums, arrivals, np.uint32(shape.whole_rounds(groups, tiles)))
    else:
        kernels = shape.kernels(device)
        multiply = kernels["multiply"]
        if work_group == 1:
            b_packed, (high, wide) = device.alloc(sizes[1]), fit_cpu_tile(shape, down, along, device.info)
            chunks = -(-along // PACKED_PANELS) * -(-inner // depth)
            groups = device.info.work_groups or -(-down // high) * -(-along // wide)
            commands = [Launch(kernels["pack"], (b, b_packed, *numbers[1:]), (chunks,), (1,))]
            local = [Local(high * shape.rows * count * shape.scalar.itemsize) for count in (depth, wide * shape.columns)]
            args = (a, b_packed, c, *numbers, np.uint32(high), np.uint32(wide), *local)
    commands.append(Launch(multiply, args, (groups * work_group,), (work_group,)))
    check = check_product(device, c, shape.scalar, n, columns, seeds)
    output = ((c, sizes[2]),)
    return Work(
        tuple(commands), flops=2 * n**3, outputs=output, check=check, facts=facts, back_to_back=is_timed_in_batches(device.info)
    )


def _fill_matrix(device: Device, dtype: str, n: int, matrix: Buffer, stride: int, lines: int, seed: int) -> None:
    """Fills `lines` rows of `stride` elements: the n x n matrix of this seed, with zeros around it."""
    init = device.build(kernel_source("dgemm_init"), T=dtype, **({"FP64": 1} if dtype == "double" else {}))["init"]
    args = (matrix, *(np.uint32(x) for x in (n, stride, seed, MAX_ELEMENT)), np.uint64(lines * stride))
    # the same work-group size for every n: some drivers compile a kernel again for each size
    group = min(INIT_GROUP_SIZE, device.info.max_work_group)
    device.run([Launch(init, args, (-(-lines * stride // group) * group,), (group,))])


def require_memory(info: DeviceInfo, n: int, sizes: list[int]) -> None:
    """Raises Skip if one buffer is over the largest allocation, or if all are over the device's memory."""
    for needed, limit, what in (
        (max(sizes), info.max_alloc_bytes, "largest buffer"),
        (sum(sizes), info.global_mem_bytes, "memory"),
    ):
        if needed > limit:
            raise Skip(f"n={n} needs {format_bytes(needed)}, over this device's {what}, {format_bytes(limit)}: lower n")


def element(index: Array, seed: int) -> Array:
    """The element at each index (row * n + column), as dgemm_init.cl computes it: a whole number in float64.

    The result has the shape of `index`.
    """
    return input_value(index, seed, 2 * MAX_ELEMENT + 1).astype(np.float64) - (MAX_ELEMENT + 1)


def _times_vectors(seed: int, n: int, vectors: Array) -> Array:
    """The exact product of this seed's matrix, generated some rows at a time, and `vectors`, shape (n, any)."""
    step = max(1, HOST_CHUNK_ELEMENTS // n)

    def part(first: int) -> Array:
        return np.asarray(element(np.arange(first * n, min(first + step, n) * n), seed).reshape(-1, n) @ vectors)

    with ThreadPoolExecutor() as pool:  # a single thread takes seconds for n = 8192
        return np.concatenate(list(pool.map(part, range(0, n, step))))


@lru_cache(maxsize=4)  # a size is prepared in several configurations
def expected_products(n: int, seeds: tuple[int, int]) -> tuple[Array, Array]:
    """Random vectors R of whole numbers from 1 to 16, shape (n, FREIVALDS_VECTORS), and A (B R).

    No element of R is 0, since it would hide elements of the product.
    """
    vectors = np.random.default_rng(seeds).integers(1, 17, (n, FREIVALDS_VECTORS)).astype(np.float64)
    return vectors, _times_vectors(seeds[0], n, _times_vectors(seeds[1], n, vectors))


@lru_cache(maxsize=2)
def product(n: int, seeds: tuple[int, int]) -> Array:
    """The product A B, shape (n, n)."""
    return _times_vectors(seeds[0], n, element(np.arange(n * n), seeds[1]).reshape(n, n))


def check_product(
    device: Device, c: Buffer, scalar: np.dtype[np.generic], n: int, columns: int, seeds: tuple[int, int]
) -> Callable[[], None]:
    """Freivalds' check of C, whose rows have `columns` elements: C R = A (B R).

    It is exact in whole numbers, since |A (B R)| is at most 16 n * 16 n, far below 2**53.
    """

    def check() -> None:
        vectors, want = expected_products(n, seeds)
        step = max(1, HOST_CHUNK_ELEMENTS // columns)
        for first in range(0, n, step):
            count = min(step, n - first)
            stored = device.download(c, scalar, count * columns, first * columns * scalar.itemsize)
            part = stored.reshape(count, columns)[:, :n].astype(np.float64, copy=False)
            with np.errstate(all="ignore"):  # memory that was never written may hold any bits
                rows = np.flatnonzero((part @ vectors != want[first : first + count]).any(axis=1))
            assert rows.size == 0, f"{rows.size} rows of the product are wrong, the first one row {first + rows[:1].sum()}"
            if n <= MAX_WHOLE_CHECK_SIZE:
                assert np.array_equal(part, product(n, seeds)[first : first + count]), "elements of the product are wrong"

    return check
