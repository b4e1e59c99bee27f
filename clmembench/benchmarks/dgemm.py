"""B7: floating-point rate of the product of two dense matrices, in double and single."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark
from clmembench.benchmarks.stream import value
from clmembench.data import kernel_source
from clmembench.model import Array, Buffer, Device, DeviceInfo, Kernel, Launch, Local, Metric, Skip, Value, Work
from clmembench.units import format_bytes

# of the peak of vector instructions, since the kernels use no others: matrix instructions have a peak of their own
DOUBLE, SINGLE = (
    Metric("performance", "GFLOP/s", "flops", "rate", "higher", peak=peak, only={"dtype": (dtype,)})
    for dtype, peak in (("double", "fp64_vector_gflop_s"), ("float", "fp32_vector_gflop_s"))
)
SEEDS = (0x51ED270B, 0xC2B2AE35)
MOST = 4  # elements are whole numbers from -4 to 4: sums of n products are exact in float up to n = 2**20, in double always
VECTORS = 4  # of Freivalds' check
WHOLE = 512  # up to this n the whole product is compared, too
INIT_GROUP = 64
CHUNK = 1 << 22  # elements that the host handles at once
REGISTERS = 2048  # bytes: no work-item has more of them
# register tiles, the likely best first. On CPUs the columns are one or two cache lines: of 12 AVX2 registers, of 24 of AVX-512
CORE_TILES = {"double": ("6x8", "12x16"), "float": ("6x16", "12x32")}
CACHED = (192, 512)  # rows and columns of a CPU's tile of C: less where its local memory, as a rule its L2 cache, is small
PACKED = 8  # panels of B that are packed at once
GROUP_TILES = ("8x8", "8x4")
LARGE = 512  # from this n on the launches' idle ends are little
DEEPEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Shape:
    """How the work is cut: rows and columns of C in a work-item's registers, its work-group, and how much of k at once."""

    scalar: np.dtype[np.generic]
    rows: int
    columns: int
    depth: int
    work_group: int

    @property
    def width(self) -> int:
        """Elements of a vector: of 64 bytes or what divides the columns, in larger work-groups of 16."""
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

    def local_bytes(self, high: int, wide: int) -> int:
        """What a CPU's tile of `high` x `wide` panels keeps in local memory: rows of A, `depth` of k, and sums."""
        return high * self.rows * (self.depth + wide * self.columns) * self.scalar.itemsize

    def obstacle(self, info: DeviceInfo) -> str:
        """Why this shape cannot run on that device; empty where it can."""
        least = min(self.rows, self.columns, self.depth, self.work_group)
        if least < 1 or self.rows * self.columns * self.scalar.itemsize > REGISTERS:
            return f"rows, columns and depth are at least 1, and a tile's rows x columns at most {REGISTERS} B"
        if self.work_group == 1:
            needed = self.local_bytes(1, 1)
            over = f"{needed} B of local memory are over this device's {info.local_mem_bytes} B: choose less depth or tile"
            return over if needed > info.local_mem_bytes else ""
        if self.work_group > info.max_work_group:
            return f"a work-group of {self.work_group} is over this device's largest, {info.max_work_group}"
        (high, wide), width = self.group, self.width
        if self.work_group & (self.work_group - 1) or any(n % width for n in (self.rows, self.columns, self.depth)):
            return f"a work-group must be a power of two, and rows, columns and depth multiples of {width} {self.scalar}"
        across = self.depth // width  # vectors of a row of a slab of A
        if self.work_group % across or self.rows * across % wide or self.columns * across % high:
            return f"{self.work_group} work-items cannot share slabs {self.depth} deep evenly: choose another depth or tile"
        slabs = 2 * self.depth * (sum(self.tile) + width) * self.scalar.itemsize  # two of each, those of A padded
        if slabs >= info.local_mem_bytes:  # exactly the limit is refused by some drivers
            return f"{slabs} B of local memory are not below this device's {info.local_mem_bytes} B: choose less depth or tile"
        return ""


def _shape(dtype: str, tile: str, depth: int, work_group: int) -> Shape:
    """Raises Skip where `tile` is not written as ROWSxCOLUMNS."""
    found = re.fullmatch(r"(\d+)x(\d+)", str(tile))
    if found is None:
        raise Skip(f"{tile} is no tile: write rows x columns of a work-item, such as 8x8")
    return Shape(np.dtype("f8" if dtype == "double" else "f4"), int(found[1]), int(found[2]), depth, work_group)


def _tiles(info: DeviceInfo) -> tuple[str, ...]:
    return tuple(t for tiles in CORE_TILES.values() for t in tiles) if info.kind == "cpu" else GROUP_TILES


def _depths(info: DeviceInfo) -> tuple[int, ...]:
    return (512, 256) if info.kind == "cpu" else (8, 16)


def _groups(info: DeviceInfo) -> tuple[int, ...]:
    return (1,) if info.kind == "cpu" else (128, 64, 256)


def _sizes(info: DeviceInfo) -> tuple[int, ...]:
    if info.kind == "cpu":
        return (64, 256, 512, 1024, 2048, *((4096,) if info.compute_units >= 16 else ()))
    return (256, 512, 1024, 2048, 4096, 8192)


def _where(info: DeviceInfo, dtype: str, n: int, work_group: int, tile: str, depth: int) -> bool:
    """What a user names is tried, so that it is skipped with a reason; of what is tried unasked, all but what cannot run."""
    unasked = work_group in _groups(info) and tile in _tiles(info) and depth in _depths(info)
    return not unasked or not _shape(dtype, tile, depth, work_group).obstacle(info)


def _thin(info: DeviceInfo, dtype: str, n: int, work_group: int, tile: str, depth: int) -> bool:
    """Single at few sizes; the tiles meant for a type; and the largest product, which takes long, in fewer shapes."""
    cpu = info.kind == "cpu"
    if dtype == "float" and "fp64" in info.features and n not in ((1024,) if cpu else (1024, 4096)):
        return False
    if cpu:
        return tile in CORE_TILES[dtype]
    return (dtype == "double" and n < 8192) or (tile == GROUP_TILES[0] and depth == _depths(info)[0])


def _dtype(info: DeviceInfo) -> str:
    return "double" if "fp64" in info.features else "float"


def _scaling(info: DeviceInfo) -> Mapping[str, Value]:
    return {"dtype": _dtype(info), "n": 1024 if info.kind == "cpu" else 2048}


@benchmark(
    DOUBLE,
    SINGLE,
    suite="compute",
    source="Razzaq et al. 2016, section IV-D1 (B7); blocking after Goto & van de Geijn 2008",
    quick={
        "dtype": axis_of(lambda info: (_dtype(info),)),
        "n": axis_of(lambda info: (512 if info.kind == "cpu" else 2048,)),
        "work_group": axis_of(lambda info: _groups(info)[:2], tuning=True),
        "tile": axis_of(lambda info: CORE_TILES[_dtype(info)] if info.kind == "cpu" else GROUP_TILES[:1], tuning=True),
        "depth": axis_of(lambda info: _depths(info)[:1], tuning=True),
    },
    where=_where,
    thin=_thin,
    x="n",
    scaling=_scaling,
    dtype=axis("double", "float", needs={"double": ["fp64"]}),
    n=axis_of(_sizes),
    work_group=axis_of(_groups, tuning=True),
    tile=axis_of(_tiles, tuning=True),
    depth=axis_of(_depths, tuning=True),
)
def dgemm(device: Device, dtype: str, n: int, work_group: int, tile: str, depth: int) -> Work:
    """Floating-point rate of C = A B, dense n x n, row-major, in double and single.

    2 n^3 FLOP, by vector FMA alone: the fraction is of the vector peak, not of that of matrix instructions. Matrices are stored
    padded with zeros to whole tiles; the padding is not counted. `tile` is the rows x columns of C that a work-item keeps
    in registers. A work-group of one suits CPUs: B is packed into panels (timed, too), `depth` of k is multiplied at once, with
    rows of A and the sums of a tile of C in local memory, as a rule a CPU's second level of cache. Larger ones suit GPUs: slabs
    `depth` deep pass through local memory. Small products show what launches cost. Elements are small whole numbers, so that
    results are exact: C is compared with Freivalds' check, and whole up to n = 512. Raises
    Skip for shapes that cannot run and for matrices that do not fit the device.
    """
    shape = _shape(dtype, tile, depth, work_group)
    if depth > DEEPEST:
        raise Skip(f"a depth of {depth} is over {DEEPEST}")
    reason = shape.obstacle(device.info) or ("" if n >= 1 else f"n is {n}: matrices have at least one element")
    if reason:
        raise Skip(reason)
    down, along = (-(-n // size) for size in shape.tile)  # tiles
    rows, columns = down * shape.tile[0], along * shape.tile[1]
    inner = n if work_group == 1 else -(-n // depth) * depth
    sizes = [count * shape.scalar.itemsize for count in (rows * inner, inner * columns, rows * columns)]
    _fits(device.info, n, sizes + (sizes[1:2] if work_group == 1 else []))
    kernels = _build(device, dtype, shape)
    a, b, c = (device.alloc(size) for size in sizes)
    seeds = ((SEEDS[0] + device.seed) % 2**32, (SEEDS[1] + device.seed) % 2**32)
    for matrix, stride, lines, seed in ((a, inner, rows, seeds[0]), (b, columns, inner, seeds[1])):
        args = (matrix, *(np.uint32(x) for x in (n, stride, seed, MOST)), np.uint64(lines * stride))
        group = min(INIT_GROUP, device.info.max_work_group)  # the same for every n: some drivers compile a kernel for each
        device.run([Launch(kernels["init"], args, (-(-lines * stride // group) * group,), (group,))])
    numbers = [np.uint32(x) for x in (down, along, inner)]
    if work_group == 1:
        b_packed, (high, wide) = device.alloc(sizes[1]), _cached(shape, down, along, device.info)
        tiles, chunks = -(-down // high) * -(-along // wide), -(-along // PACKED) * -(-inner // depth)
        commands = [Launch(kernels["pack"], (b, b_packed, *numbers[1:]), (chunks,), (1,))]
        local = [Local(high * shape.rows * count * shape.scalar.itemsize) for count in (depth, wide * shape.columns)]
        args = (a, b_packed, c, *numbers, np.uint32(high), np.uint32(wide), *local)
    else:
        tiles, commands, args = down * along, [], (a, b, c, *numbers)
    items = (device.info.work_groups or tiles) * work_group
    commands.append(Launch(kernels["multiply"], args, (items,), (work_group,)))
    check = _check(device, c, shape.scalar, n, columns, seeds)
    busy = device.info.compute_units if device.info.kind == "cpu" and n >= LARGE else 0
    return Work(tuple(commands), flops=2 * n**3, outputs=((c, sizes[2]),), check=check, busy=busy)


def _build(device: Device, dtype: str, shape: Shape) -> Mapping[str, Kernel]:
    high, wide = shape.group
    return device.build(
        kernel_source("dgemm"),
        T=dtype,
        V=dtype if shape.width == 1 else f"{dtype}{shape.width}",
        WIDTH=shape.width,
        ROWS=shape.rows,
        COLUMNS=shape.columns,
        DEPTH=shape.depth,
        WORK_GROUP=shape.work_group,
        PACKED=PACKED,
        GROUP_ROWS=high,
        GROUP_COLUMNS=wide,
        **({"FP64": 1} if dtype == "double" else {}),
    )


def _fits(info: DeviceInfo, n: int, sizes: list[int]) -> None:
    """Raises Skip where one buffer is over the largest allocation, or all are over the device's memory."""
    for needed, limit, what in (
        (max(sizes), info.max_alloc_bytes, "largest buffer"),
        (sum(sizes), info.global_mem_bytes, "memory"),
    ):
        if needed > limit:
            raise Skip(f"n={n} needs {format_bytes(needed)}, over this device's {what}, {format_bytes(limit)}: lower n")


def _cached(shape: Shape, row_panels: int, column_panels: int, info: DeviceInfo) -> tuple[int, int]:
    """Panels of rows and of columns in a CPU's tile of C: few enough for caches, and for 4 tiles a compute unit at least."""
    high, wide = (min(n, size // m) or 1 for n, size, m in zip((row_panels, column_panels), CACHED, shape.tile, strict=True))
    while -(-row_panels // high) * -(-column_panels // wide) < 4 * info.compute_units and high * wide > 1:
        if (high * shape.rows >= wide * shape.columns and high > 1) or wide == 1:
            high = -(-high // 2)
        else:
            wide = -(-wide // 2)
    # the rest of that cache is for what passes through; rows are given up until there are a quarter of the columns, then both
    while high * wide > 1 and shape.local_bytes(high, wide) > info.local_mem_bytes * 3 // 4:
        fewer_rows = wide == 1 or (high > 1 and high * shape.rows * 4 >= wide * shape.columns)
        high, wide = (high - 1, wide) if fewer_rows else (high, wide - 1)
    # as many tiles, of even size
    return -(-row_panels // -(-row_panels // high)), -(-column_panels // -(-column_panels // wide))


def element(index: Array, seed: int) -> Array:
    """The element at each index (row * n + column), as dgemm.cl computes it: a whole number in float64. Shape of `index`."""
    return value(index, seed, 2 * MOST + 1).astype(np.float64) - MOST


def _times(seed: int, n: int, vectors: Array) -> Array:
    """The product of the matrix of that seed, made some rows at a time, and `vectors`, shape (n, any): exact."""
    step = max(1, CHUNK // n)

    def part(first: int) -> Array:
        return np.asarray(element(np.arange(first * n, min(first + step, n) * n), seed).reshape(-1, n) @ vectors)

    with ThreadPoolExecutor() as pool:  # for n = 8192 one thread takes seconds
        return np.concatenate(list(pool.map(part, range(0, n, step))))


@lru_cache(maxsize=4)  # one size is prepared in several shapes
def _expected(n: int, seeds: tuple[int, int]) -> tuple[Array, Array]:
    """Random vectors R of whole numbers from 1 to 16, shape (n, VECTORS), and A (B R). No 0: it would hide an element."""
    vectors = np.random.default_rng(seeds).integers(1, 17, (n, VECTORS)).astype(np.float64)
    return vectors, _times(seeds[0], n, _times(seeds[1], n, vectors))


@lru_cache(maxsize=2)
def _product(n: int, seeds: tuple[int, int]) -> Array:
    """A B, shape (n, n)."""
    return _times(seeds[0], n, element(np.arange(n * n), seeds[1]).reshape(n, n))


def _check(
    device: Device, c: Buffer, scalar: np.dtype[np.generic], n: int, columns: int, seeds: tuple[int, int]
) -> Callable[[], None]:
    """Freivalds' check, C R = A (B R), in exact whole numbers: |A (B R)| is at most 16 n * 16 n, far below 2**53."""

    def check() -> None:
        vectors, want = _expected(n, seeds)
        step = max(1, CHUNK // columns)
        for first in range(0, n, step):
            count = min(step, n - first)
            stored = device.download(c, scalar, count * columns, first * columns * scalar.itemsize)
            found = stored.reshape(count, columns)[:, :n].astype(np.float64)
            with np.errstate(all="ignore"):  # what was never written may be anything
                rows = np.flatnonzero((found @ vectors != want[first : first + count]).any(axis=1))
            assert rows.size == 0, f"{rows.size} rows of the product are wrong, the first one row {first + rows[:1].sum()}"
            if n <= WHOLE:
                assert np.array_equal(found, _product(n, seeds)[first : first + count]), "elements of the product are wrong"

    return check
