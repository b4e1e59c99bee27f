"""Rate over arithmetic intensity: multiply-adds on what is read from memory or from the last cache, as a roofline's axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from clmembench.benchmarks import MIB, axis, benchmark, headline_bytes, work_group_sizes
from clmembench.benchmarks.low_precision import NEEDS, packs_halves, what_lacks
from clmembench.model import Array, Device, DeviceInfo, Fill, Launch, Metric, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

LOADS = 8  # vectors of a batch, as in intensity.cl
NUMPY_TYPES = {"double": np.float64, "float": np.float32, "half": np.float16, "int": np.uint32}
KERNEL_TYPES = {  # T, WORD
    "double": ("double", "ulong"),
    "float": ("float", "uint"),
    "half": ("half", "ushort"),
    "int": ("uint", "uint"),
}
INTENSITIES = tuple(2.0**n for n in range(-4, 10))  # FLOP a byte
GPU_GROUP_SIZE, GPU_GROUPS_PER_UNIT, GPU_VECTOR_BYTES, CPU_VECTOR_BYTES, MAX_WIDTH = 256, 4, 16, 64, 16
GPU_BLOCK_FACTOR = 5  # gives each work-group another order, as in cache_read
GPU_CACHE_BYTES = 16 * MIB  # larger than nearer caches, and held by the last cache of most GPUs
MIN_CPU_CACHE_BYTES, MAX_CPU_CACHE_BYTES = 4 * MIB, 16 * MIB
LIMIT = 1 << 23  # modulo which sums are kept: T has all whole numbers below twice that
ROUNDS: Mapping[str, Value] = {"double": "0x1.8p52", "float": "0x1.8p23f"}  # to which a number is added to be rounded
# Factors of a step and of the next one, each the addend, too: two steps of real numbers add 1.5
REAL_FACTORS, INTEGER_FACTORS = (2, 0.5), (0x9E3779B1, 0x85EBCA6B)
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


def _where(info: DeviceInfo, dtype: str, level: str, intensity: float) -> bool:
    return intensity >= INTENSITIES[1] or dtype != "half"  # fewer than a multiply-add for 8 elements


def _in_default_subset(info: DeviceInfo, dtype: str, level: str, intensity: float) -> bool:
    """All points; of half, where the device has none, one that says why."""
    return not what_lacks(info, dtype) or (level, intensity) == ("memory", 1.0)


def set_bytes(info: DeviceInfo, level: str) -> int:
    """Bytes of the set that is read: a power of two."""
    cache = min(MAX_CPU_CACHE_BYTES, max(MIN_CPU_CACHE_BYTES, info.cache_bytes // 2)) if info.has_cpu_cores else GPU_CACHE_BYTES
    nbytes = min(cache, headline_bytes(info)) if level == "cache" else headline_bytes(info)
    return 1 << (max(1, nbytes).bit_length() - 1)


@benchmark(
    _metric("double", "fp64_vector_gflop_s"),
    _metric("float", "fp32_vector_gflop_s"),
    _metric("half", "fp16_vector_gflop_s"),
    _metric("int", None),
    suite="roofline",
    source="Williams, Waterman & Patterson 2009; mixbench (Konstantinidis & Cotronis 2017)",
    figure_axis="intensity",
    where=_where,
    default_subset=_in_default_subset,
    dtype=axis("double", "float", "half", "int", needs={"double": ["fp64"], "half": NEEDS["half"]}),
    level=axis("memory", "cache"),
    intensity=axis(*INTENSITIES),
)
def intensity(device: Device, dtype: str, level: str, intensity: float) -> Slope:
    """Rate of multiply-adds on data that are read, by FLOP a byte, from memory or the last cache.

    All compute units read one set in batches of 8 vectors a work-item (GPUs: 16 bytes each, 1024 work-items a unit; CPUs: 64
    bytes, of half 32, one) and do `intensity` floating-point operations (of int: integer ones) for each byte, two of each
    multiply-add. Below a multiply-add for each element read, several are first combined by exclusive or, which does not count.
    The set of `memory` is that of stream, of `cache` 16 MiB (on CPUs half of the last cache, at most that). Sums, exact modulo
    2^23 (of half: those of the bits), prove loads and steps. On NVIDIA a register has two halves, multiplied by PTX. Raises
    Skip for an intensity that is no power of two, and where the device has no half.
    """
    info, cores = device.info, device.info.has_cpu_cores
    half, packed = dtype == "half", dtype == "half" and packs_halves(info)
    if reason := what_lacks(info, dtype):
        raise Skip(reason)
    scalar, (kernel_type, word) = np.dtype(NUMPY_TYPES[dtype]), KERNEL_TYPES[dtype]
    steps = _Steps.of(intensity, scalar.itemsize)
    width = min(MAX_WIDTH, (CPU_VECTOR_BYTES if cores else GPU_VECTOR_BYTES) // scalar.itemsize)
    nbytes, item_bytes = set_bytes(info, level), LOADS * width * scalar.itemsize
    (group,) = (1,) if cores else work_group_sizes(info, max(1, min(GPU_GROUP_SIZE, nbytes // item_bytes)))
    groups, batch_bytes = info.compute_units * (1 if cores else GPU_GROUPS_PER_UNIT), item_bytes * group
    blocks = nbytes // batch_bytes
    if blocks < 1:
        raise Skip(f"a set of {nbytes} B is smaller than a batch of one work-group, {batch_bytes} B: raise --size")
    if nbytes > info.max_alloc_bytes:
        raise Skip(f"a set of {nbytes} B does not fit into one buffer of {info.max_alloc_bytes} B")
    vectors = ("uint4", "uint4") if packed else (f"{kernel_type}{width}", f"{word}{width}")
    defines: dict[str, Value] = {"T": word if packed else kernel_type, "V": vectors[0], "WORD": word, "U": vectors[1]}
    defines |= {"HALF": half, "PACKED": packed, "FP16": half and not packed}
    defines |= {"W": width, "GROUP_SIZE": group, "COMBINE": steps.combine, "CHAINS": LOADS // steps.combine}
    defines |= {"LIMIT": LIMIT, "ROUND": ROUNDS.get(dtype, 0), "REAL": dtype in ROUNDS, "FP64": dtype == "double"}
    kernels = device.build(kernel_source("intensity"), **defines)
    data, sums_bytes = device.kept("intensity data", nbytes), groups * group * width * scalar.itemsize
    sums, cursor = device.kept("intensity sums", sums_bytes), device.alloc(4)
    device.run([Fill(cursor, 4), Launch(kernels["fill"], (data,), (nbytes // scalar.itemsize,))])
    jump, last = 1 if cores else GPU_BLOCK_FACTOR, int(not half)  # multiply-adds that also add up
    pairs, odd = divmod(steps.count - last, 2)
    factors = INTEGER_FACTORS if dtype == "int" else REAL_FACTORS
    sum_type = np.dtype(np.uint32 if packed else np.uint16 if half else scalar)
    ends = _ends(dtype, factors, pairs, odd)
    limit = 1 << 8 * sum_type.itemsize if half else LIMIT

    def work(batches: int) -> Work:
        numbers = (batches, blocks - 1, jump, pairs // 4, pairs % 4, odd)
        args = (data, sums, cursor, *map(np.uint32, numbers), *map(scalar.type, factors))

        def check() -> None:
            stored = device.download(sums, sum_type, sums_bytes // sum_type.itemsize).reshape(groups, group, -1)
            first = int(device.download(cursor, np.uint32, 1)[0])
            wanted = sums_read((groups, group, width), (blocks, jump, first), batches, steps.combine, ends)
            if packed:
                wanted = wanted[..., ::2] + (wanted[..., 1::2] << 16)
            wrong = int((stored.astype(wanted.dtype) % limit != wanted % limit).sum())
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


def _ends(dtype: str, factors: tuple[float, float], pairs: int, odd: int) -> Array:
    """What each number from 0 to 63 adds to a sum, modulo LIMIT; of half these are the bits. Shape (64,)."""
    x, (factor, back) = np.arange(64, dtype=object if dtype == "int" else np.float64), factors
    for f in (*(factor, back) * pairs, *(back,) * odd):
        x = x * f + f
        x = x % LIMIT if dtype == "int" else x
    if dtype == "half":
        return x.astype(np.float16).view(np.uint16).astype(np.int64)
    return np.asarray(x * factor % LIMIT).astype(np.int64 if dtype == "int" else np.float64)


def sums_read(shape: tuple[int, int, int], order: tuple[int, int, int], batches: int, combine: int, ends: Array) -> Array:
    """The sum of each element of each work-item, shape (groups, group, width), by what each number adds (`ends`).

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
    table = ends[(5 * np.arange(64)[:, None] + np.arange(64)[None, :]) & 63]  # by block and place in it, modulo 64
    by_place = visits @ table  # (groups, 64)
    first = np.arange(group)[:, None] + np.arange(width)[None, :]
    return np.asarray(sum(by_place[:, (first + 3 * n) & 63] for n in range(LOADS // combine)))
