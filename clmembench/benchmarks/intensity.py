"""Rate over arithmetic intensity: multiply-adds on what is read from memory or from the last cache, as a roofline's axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from clmembench.benchmarks import MIB, axis, benchmark, headline_bytes, work_group_sizes
from clmembench.model import Array, Device, DeviceInfo, Fill, Launch, Metric, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

LOADS = 8  # vectors of a batch, as in intensity.cl
NUMPY_TYPES = {"double": np.float64, "float": np.float32, "int": np.uint32}
KERNEL_TYPES = {"double": ("double", "ulong"), "float": ("float", "uint"), "int": ("uint", "uint")}  # T, WORD
INTENSITIES = tuple(2.0**n for n in range(-4, 10))  # FLOP a byte
GPU_GROUP_SIZE, GPU_GROUPS_PER_UNIT, GPU_VECTOR_BYTES, CPU_VECTOR_BYTES = 256, 4, 16, 64
GPU_BLOCK_FACTOR = 5  # gives each work-group another order, as in cache_read
GPU_CACHE_BYTES = 16 * MIB  # larger than nearer caches, and held by the last cache of most GPUs
MIN_CPU_CACHE_BYTES, MAX_CPU_CACHE_BYTES = 4 * MIB, 16 * MIB
LIMIT = 1 << 23  # modulo which sums are kept: T has all whole numbers below twice that
ROUNDS: Mapping[str, Value] = {"double": "0x1.8p52", "float": "0x1.8p23f", "int": 0}  # to which a number is added to be rounded
# Factors of a step and of the next one, each the addend, too: two steps of real numbers add 1.5
FACTORS: Mapping[str, tuple[float, float]] = {"double": (2, 0.5), "float": (2, 0.5), "int": (0x9E3779B1, 0x85EBCA6B)}
HASH_FACTOR = 2654435761
MIN_BATCHES = 16


@dataclass(frozen=True, slots=True)
class _Steps:
    """The amounts for an intensity: multiply-adds for each element of a combined vector, and how many loads make one."""

    count: int
    combine: int

    @classmethod
    def of(cls, intensity: float, item_bytes: int) -> _Steps:
        """Raises Skip for an intensity that is no such ratio."""
        each = Fraction(intensity).limit_denominator(64) * item_bytes / 2  # multiply-adds for each element read
        if each <= 0 or each.denominator not in (1, 2, 4, LOADS) or (each < 1 and each.numerator != 1):
            raise Skip(f"{intensity:g} FLOP a byte is no power of two of at least {2 / item_bytes / LOADS:g} with these loads")
        return cls(max(1, int(each)), each.denominator)


def _metric(dtype: str, peak: str | None) -> Metric:
    name, unit = ("intensity_op_rate", "Gop/s") if dtype == "int" else ("intensity_rate", "GFLOP/s")
    return Metric(name, unit, "flops", "slope_rate", "higher", peak=peak, only={"dtype": (dtype,)})


def set_bytes(info: DeviceInfo, level: str) -> int:
    """Bytes of the set that is read: a power of two."""
    cache = min(MAX_CPU_CACHE_BYTES, max(MIN_CPU_CACHE_BYTES, info.cache_bytes // 2)) if info.has_cpu_cores else GPU_CACHE_BYTES
    nbytes = min(cache, headline_bytes(info)) if level == "cache" else headline_bytes(info)
    return 1 << (max(1, nbytes).bit_length() - 1)


@benchmark(
    _metric("double", "fp64_vector_gflop_s"),
    _metric("float", "fp32_vector_gflop_s"),
    _metric("int", None),
    suite="roofline",
    source="Williams, Waterman & Patterson 2009; mixbench (Konstantinidis & Cotronis 2017)",
    figure_axis="intensity",
    dtype=axis("double", "float", "int", needs={"double": ["fp64"]}),
    level=axis("memory", "cache"),
    intensity=axis(*INTENSITIES),
)
def intensity(device: Device, dtype: str, level: str, intensity: float) -> Slope:
    """Rate of multiply-adds on data that are read, by FLOP a byte, from memory or the last cache.

    All compute units read one set in batches of 8 vectors a work-item (GPUs: 16 bytes each, 1024 work-items a unit; CPUs: 64
    bytes, one) and do `intensity` floating-point operations (of int: integer ones) for each byte, two of each multiply-add.
    Below a multiply-add for each element read, several are first combined by exclusive or, which does not count. The set of
    `memory` is that of stream, of `cache` 16 MiB (on CPUs half of the last cache, at most that). Sums, exact modulo 2^23, prove
    loads and steps. Raises Skip for an intensity that is no power of two.
    """
    info, cores = device.info, device.info.has_cpu_cores
    scalar, (kernel_type, word) = np.dtype(NUMPY_TYPES[dtype]), KERNEL_TYPES[dtype]
    steps = _Steps.of(intensity, scalar.itemsize)
    width = (CPU_VECTOR_BYTES if cores else GPU_VECTOR_BYTES) // scalar.itemsize
    nbytes, item_bytes = set_bytes(info, level), LOADS * width * scalar.itemsize
    (group,) = (1,) if cores else work_group_sizes(info, max(1, min(GPU_GROUP_SIZE, nbytes // item_bytes)))
    groups, batch_bytes = info.compute_units * (1 if cores else GPU_GROUPS_PER_UNIT), item_bytes * group
    blocks = nbytes // batch_bytes
    if blocks < 1:
        raise Skip(f"a set of {nbytes} B is smaller than a batch of one work-group, {batch_bytes} B: raise --size")
    if nbytes > info.max_alloc_bytes:
        raise Skip(f"a set of {nbytes} B does not fit into one buffer of {info.max_alloc_bytes} B")
    defines: dict[str, Value] = {"T": kernel_type, "V": f"{kernel_type}{width}", "WORD": word, "U": f"{word}{width}"}
    defines |= {"W": width, "GROUP_SIZE": group, "COMBINE": steps.combine, "CHAINS": LOADS // steps.combine}
    defines |= {"LIMIT": LIMIT, "ROUND": ROUNDS[dtype], "REAL": dtype != "int", "FP64": dtype == "double"}
    kernels = device.build(kernel_source("intensity"), **defines)
    data, sums_bytes = device.kept("intensity data", nbytes), groups * group * width * scalar.itemsize
    sums, cursor = device.kept("intensity sums", sums_bytes), device.alloc(4)
    device.run([Fill(cursor, 4), Launch(kernels["fill"], (data,), (nbytes // scalar.itemsize,))])
    jump, odd, pairs = 1 if cores else GPU_BLOCK_FACTOR, int(steps.count > 1), max(0, steps.count - 2) // 2
    factors = FACTORS[dtype]

    def work(batches: int) -> Work:
        numbers = (batches, blocks - 1, jump, pairs // 4, pairs % 4, odd)
        args = (data, sums, cursor, *map(np.uint32, numbers), *map(scalar.type, factors))

        def check() -> None:
            stored = device.download(sums, scalar, groups * group * width).reshape(groups, group, width)
            first = int(device.download(cursor, np.uint32, 1)[0])
            sum_of_numbers = numbers_read((groups, group, width), (blocks, jump, first), batches, steps.combine)
            times, plus = _after(factors, pairs, odd)
            wanted = (times * sum_of_numbers + plus * (batches * LOADS // steps.combine)) % LIMIT
            wrong = int((stored.astype(np.float64) % LIMIT != wanted).sum())
            assert wrong == 0, (
                f"{wrong} of {stored.size} sums are not those of {batches} batches of {steps.count} multiply-adds"
            )

        elements = groups * group * width * LOADS // steps.combine * batches
        return Work(
            commands=(Launch(kernels["intensity"], args, (groups * group,), (group,)),),
            nbytes=batches * batch_bytes * groups,
            flops=2 * elements * steps.count,
            before=(Launch(kernels["advance"], (cursor, np.uint32(batches)), (1,), (1,)),),
            outputs=((sums, sums_bytes),),
            check=check,
            concurrent_units=groups if info.kind == "cpu" else 0,
        )

    return Slope(work, start=MIN_BATCHES, most=1 << 31)


def _after(factors: tuple[float, float], pairs: int, odd: int) -> tuple[float, float]:
    """By what the multiply-adds multiply a number, and what they add to that; of integers modulo LIMIT."""
    factor, back = factors
    times, plus = factor * back, factor * back + back  # of a pair
    if times == 1:
        times, plus = 1.0, pairs * plus
    else:
        each, plus = int(plus), 0
        for _ in range(pairs):
            plus = (plus * int(times) + each) % LIMIT
        times = pow(int(times), pairs, LIMIT)
    if odd:
        times, plus = back * times, back * plus + back
    return factor * times % LIMIT, factor * plus % LIMIT


def numbers_read(shape: tuple[int, int, int], order: tuple[int, int, int], batches: int, combine: int) -> Array:
    """The sums of the numbers that each element of each work-item read: int64 of the shape (groups, group, width).

    `order` has the number of blocks, the factor of the generator, and the place at which the pass began.
    """
    (groups, group, width), (blocks, jump, start) = shape, order
    number = np.arange(groups, dtype=np.uint64)
    block = (number * np.uint64(blocks) // np.uint64(groups) + np.uint64(start)) % np.uint64(blocks)
    addend = (number * np.uint64(HASH_FACTOR) & np.uint64(2**32 - 1)) >> np.uint64(7) | np.uint64(1)
    addend = np.ones_like(number) if jump == 1 else addend
    # the order modulo 64 repeats itself after 64 blocks, or after all, as the generator's low bits do
    period = min(64, blocks)
    visits = np.zeros((groups, 64), np.int64)
    for place in range(period):
        visits[np.arange(groups), (block % np.uint64(64)).astype(int)] += batches // period + (place < batches % period)
        block = (block * np.uint64(jump) + addend) % np.uint64(blocks)
    table = (5 * np.arange(64)[:, None] + np.arange(64)[None, :]) & 63  # number of a block and of a place in it, modulo 64
    by_place = visits @ table  # (groups, 64)
    first = np.arange(group)[:, None] + np.arange(width)[None, :]
    return np.asarray(sum(by_place[:, (first + 3 * n) & 63] for n in range(LOADS // combine)))
