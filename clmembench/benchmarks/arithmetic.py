"""Peak rate of arithmetic: multiply-adds in registers, by vector instructions of each type and by matrix instructions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clmembench.benchmarks import MATRIX_FLOPS, VECTOR_FLOPS, axis_of, benchmark, iterate_multiply_add, telling_count
from clmembench.benchmarks.gemm.wgmma import BY_TYPE as BY_WGMMA
from clmembench.benchmarks.gemm.wgmma import rate_by_groups
from clmembench.benchmarks.low_precision import (
    BY_PTX,
    HALF,
    NEEDS,
    OTHER_WAYS,
    REAL_PAIR_SUM,
    STARTING_ITEMS,
    SUB_GROUP_SIZE,
    WITHOUT_PTX,
    LowPrecision,
    instruction_product,
    packs_halves,
    request_tiles,
    sum_note,
    what_lacks,
)
from clmembench.model import (
    Array,
    BuildError,
    Device,
    DeviceInfo,
    Headline,
    Kernel,
    Launch,
    Metric,
    Quantity,
    Skip,
    Slope,
    Value,
    Work,
)
from clmembench.resources import kernel_source

STEPS_PER_ROUND = 16  # as unrolled in arithmetic.cl
MATRIX_TYPE = "double_matrix"
NUMPY_TYPES = {"float": np.float32, "double": np.float64, "int": np.uint32, MATRIX_TYPE: np.float64}
NUMPY_TYPES |= {"long": np.uint64, "short": np.uint16, "char": np.uint8}
# numbers of steps up to which the result counts them exactly
MAX_EXACT_STEPS = {"float": 1 << 23, "double": 1 << 50, MATRIX_TYPE: 1 << 46}
MAX_INTEGER_STEPS = 1 << 31
FIRST_TYPES = ("float", "double", "int", MATRIX_TYPE)  # whose whole search is measured by default
INTEGER_PEAK = "int8_matrix_gop_s"
PEAKS: dict[str, str | None] = {  # of the spec sheets
    "double": "fp64_vector_gflop_s",
    "float": "fp32_vector_gflop_s",
    "int": None,
    MATRIX_TYPE: "fp64_matrix_gflop_s",
    "long": None,
    "short": None,
    "char": None,
    "char_dot": "int8_vector_gop_s",
    "char_matrix": INTEGER_PEAK,
    "half": "fp16_vector_gflop_s",
    "bfloat16": "bf16_vector_gflop_s",
    "half_matrix": "fp16_matrix_gflop_s",
    "bfloat16_matrix": "bf16_matrix_gflop_s",
    "tf32_matrix": "tf32_matrix_gflop_s",
    "fp8_matrix": "fp8_matrix_gflop_s",
}
WGMMA = "_wgmma"  # ends the name of a type that four sub-groups multiply together
PEAKS |= {f"{name}{WGMMA}": PEAKS[f"{name}_matrix"] for name in BY_WGMMA}
GPU_GROUP_SIZE, GPU_GROUPS_PER_UNIT = 256, 8  # most GPUs hold this many work-items
TILE_CHAINS = 4  # of eight tiles, others hold operands
PTX_GROUPS_PER_UNIT = 2  # whose registers fit, and whose chains are enough
MATRIX_INSTRUCTION_FLOPS = 2 * 16 * 8 * 16
MATRIX_DOUBLES_PER_ITEM = 4  # doubles of the result in each work-item
# Factors of a step and of the next one: of a vector the first of two, which is the addend, too. They make the result count the
# steps: two steps of real numbers add 1.5, x -> 2 x + 2 -> x + 1.5, and two matrix instructions add 16 times 1 + 2.
CONSTANTS: Mapping[str, tuple[float, float, float, float]] = {
    "int": (0x9E3779B1, 0, 0x85EBCA6B, 0),
    # products that are 5 modulo 8, so that numbers of few bits return late
    "long": (0x9E3779B97F4A7C15, 0, 0xC2B2AE3D27D4EB51, 0),
    "short": (0x79B1, 0, 0xCA65, 0),
    "char": (0xB1, 0, 0x65, 0),
    MATRIX_TYPE: (1, 1, 1, 2),
}
REAL_CONSTANTS = (2, 0, 0.5, 0)
INTEGERS = ("int", "long", "short", "char")  # how the names of integer types begin
# integers that are smaller than a register, and the pairs of steps after which they return
PERIODS = {"short": 1 << 15, "char": 1 << 7}
MATRIX_PAIR_SUM = 16 * (1 * 1 + 1 * 2)


def _rate_metric(dtype: str, peak: str | None) -> Metric:
    """The rate metric of one data type, with the theoretical peak for it."""
    name, of = ("operation_rate", "Gop/s") if dtype.startswith(INTEGERS) else ("flop_rate", "GFLOP/s")
    return Metric(name, of, "flops", "slope_rate", "higher", peak=peak, only={"dtype": (dtype,)})


def _types(info: DeviceInfo) -> tuple[str, ...]:
    by_ptx = (MATRIX_TYPE, *BY_PTX, *(name + WGMMA for name in BY_WGMMA))
    return ("float", "double", "int", "long", "short", "char", *(by_ptx if "ptx" in info.features else OTHER_WAYS))


def _low_precision(info: DeviceInfo, dtype: str) -> LowPrecision | None:
    """How the device computes in a type whose chains are short, or whose instruction has no word; None for other types."""
    return BY_PTX.get(dtype) if packs_halves(info) else WITHOUT_PTX.get(dtype)


def _where(info: DeviceInfo, dtype: str, width: int, chains: int) -> bool:
    if dtype.endswith(WGMMA):
        return width == 1 and chains == 1
    low = _low_precision(info, dtype)
    if low is None or low is HALF:
        return width == 1 or dtype != MATRIX_TYPE
    if low.form == "AMX" and chains != TILE_CHAINS:
        return False
    return width == (_widths(info)[0] if low.form in ("VNNI", "AMX") else 1)


def _in_default_subset(info: DeviceInfo, dtype: str, width: int, chains: int) -> bool:
    """Of types that few programs compute in, the likely best configurations."""
    likely = width == _widths(info)[0] and chains in _chain_counts(info)[:2]
    low = _low_precision(info, dtype)
    return likely or dtype in FIRST_TYPES or dtype.endswith(WGMMA) or (low is not None and low.form == "AMX")


def _widths(info: DeviceInfo) -> tuple[int, ...]:
    """Elements of a vector: on CPUs the widths of vector registers, 16 to 64 bytes, the widest first.

    A search that begins with narrower vectors may miss the widest, since these lower the clock: it then ends at half of the
    peak.
    """
    return (16, 8, 4, 2) if info.has_cpu_cores else (1,)


def _chain_counts(info: DeviceInfo) -> tuple[int, ...]:
    """Chains of a work-item: 8 exactly fill two pipes of 4 cycles, as most cores have; 12 fit in 16 registers."""
    return (8, 12, 4, 2, 1) if info.has_cpu_cores else (8, 4, 2, 1)


@benchmark(
    *(_rate_metric(dtype, peak) for dtype, peak in PEAKS.items()),
    suite="compute",
    source="Williams, Waterman & Patterson 2009 (roofs); clpeak",
    headlines=(
        Headline("compute", "FP64 multiply-adds in registers", "flop_rate", {"dtype": "double"}),
        Headline("compute", "FP64 matrix instructions in registers", "flop_rate", {"dtype": MATRIX_TYPE}),
        Headline("compute", "FP32 multiply-adds in registers", "flop_rate", {"dtype": "float"}),
        Headline("compute", "FP16 multiply-adds in registers", "flop_rate", {"dtype": "half"}),
        Headline("compute", "FP16 matrix instructions, mma", "flop_rate", {"dtype": "half_matrix"}),
        Headline("compute", "BF16 matrix instructions, mma or AMX", "flop_rate", {"dtype": "bfloat16_matrix"}),
        Headline("compute", "TF32 matrix instructions, mma", "flop_rate", {"dtype": "tf32_matrix"}),
        Headline("compute", "FP8 matrix instructions, mma", "flop_rate", {"dtype": "fp8_matrix"}),
        Headline("compute", "INT8 matrix instructions, mma or AMX", "operation_rate", {"dtype": "char_matrix"}),
        Headline("compute", "FP16 matrix instructions, wgmma", "flop_rate", {"dtype": "half_wgmma"}),
        Headline("compute", "BF16 matrix instructions, wgmma", "flop_rate", {"dtype": "bfloat16_wgmma"}),
        Headline("compute", "TF32 matrix instructions, wgmma", "flop_rate", {"dtype": "tf32_wgmma"}),
        Headline("compute", "FP8 matrix instructions, wgmma", "flop_rate", {"dtype": "fp8_wgmma"}),
        Headline("compute", "INT8 matrix instructions, wgmma", "operation_rate", {"dtype": "char_wgmma"}),
    ),
    quantities=[
        Quantity(name, "flop_rate", {"dtype": (dtype,)}) for dtype, name in (*VECTOR_FLOPS.items(), (MATRIX_TYPE, MATRIX_FLOPS))
    ],
    default_subset=_in_default_subset,
    where=_where,
    figure_axis="dtype",
    dtype=axis_of(
        _types,
        needs={
            **{name: ["ptx"] for name in (*BY_PTX, *(name + WGMMA for name in BY_WGMMA))},
            **NEEDS,
            "double": ["fp64"],
            MATRIX_TYPE: ["ptx", "fp64"],
        },
    ),
    width=axis_of(_widths, tuning=True),
    chains=axis_of(_chain_counts, tuning=True),
)
def arithmetic(device: Device, dtype: str, width: int, chains: int) -> Slope:
    """Rate of multiply-adds in registers on all compute units: the compute roof of every kernel.

    Each work-item runs `chains` independent chains of multiply-adds over vectors of `width`, with 2048 work-items per compute
    unit on GPUs and one on CPUs. A multiply-add counts as two operations. double_matrix is NVIDIA's FP64 matrix instruction
    m16n8k16 by PTX, 4096 operations of a sub-group. The rate is a slope over rounds. The end of every chain is compared
    exactly: in floating point two steps add 1.5, by factors that are opaque to the compiler. Raises Skip if the compiler lacks
    the instruction.

    Low precision is NVIDIA's by PTX, with 512 work-items per compute unit: multiply-adds of two halves or bfloat16, dot
    products of four bytes (char_dot), and mma.sync of 16-bit floats, TF32, FP8 (E4M3) and bytes (char_matrix), which add in
    32 bits. Elsewhere half is OpenCL C's, and inline assembly reaches a CPU's AVX512-VNNI (char_dot: vpdpbusd) and AMX
    (char_matrix: tdpbssd, bfloat16_matrix: tdpbf16ps). These chains start again before sums become inexact, and their ends are
    added up.
    Types that end in _wgmma are a program in PTX for sm_90a: three work-groups per compute unit, each of four sub-groups that
    issue m64n256 instructions together, with both operands in local memory.
    How those that add floats round is probed, and noted. Operands are constants, which take less power than others and may
    leave a higher clock.
    """
    info, matrix = device.info, dtype == MATRIX_TYPE
    if reason := what_lacks(info, dtype):
        raise Skip(reason)
    if dtype.endswith(WGMMA):
        return rate_by_groups(device, dtype.removesuffix(WGMMA))
    group = min(GPU_GROUP_SIZE, info.max_work_group) if not info.has_cpu_cores else 1
    low = _low_precision(info, dtype)
    groups = 1 if info.has_cpu_cores else PTX_GROUPS_PER_UNIT if low and low is not HALF else GPU_GROUPS_PER_UNIT
    items = group * info.compute_units * groups
    if low is not None:
        return _low_precision_chains(device, dtype, low, width, chains, items, group)
    kernel = _build_kernel(device, dtype, matrix, width, chains)
    scalar, lanes = np.dtype(NUMPY_TYPES[dtype]), MATRIX_DOUBLES_PER_ITEM if matrix else width
    out = device.alloc(items * chains * lanes * scalar.itemsize)
    constants = CONSTANTS.get(dtype, REAL_CONSTANTS)

    def work(rounds: int) -> Work:
        if dtype in PERIODS:
            rounds = telling_count(rounds, PERIODS[dtype], STEPS_PER_ROUND // 2)
        steps = STEPS_PER_ROUND * rounds

        def check() -> None:
            results = device.download(out, scalar, items * chains * lanes).reshape(items, chains, lanes)
            start = (np.arange(items)[:, None] % 64 + np.arange(chains)[None, :]).astype(np.uint64)
            wanted = _after(start, dtype, steps // 2)
            wrong = int((results != wanted.astype(scalar)[:, :, None]).sum())
            assert wrong == 0, f"{wrong} of {results.size} numbers are not the results of {steps} steps"

        flops = MATRIX_INSTRUCTION_FLOPS * items // SUB_GROUP_SIZE if matrix else 2 * items * width
        args = (out, *(scalar.type(constant) for constant in constants), np.uint32(rounds))
        return Work(
            commands=(Launch(kernel, args, (items,), (group,)),),
            flops=flops * chains * steps,
            outputs=((out, items * chains * lanes * scalar.itemsize),),
            check=check,
            concurrent_units=items if info.kind == "cpu" else 0,
        )

    return Slope(work, start=16, most=MAX_EXACT_STEPS.get(dtype, MAX_INTEGER_STEPS) // STEPS_PER_ROUND)


def _after(start: Array, dtype: str, pairs: int) -> Array:
    """The result of so many pairs of steps on whole numbers; shape of `start`."""
    if dtype in INTEGERS:
        (factor, _, back, _), bits = (int(constant) for constant in CONSTANTS[dtype]), 8 * np.dtype(NUMPY_TYPES[dtype]).itemsize
        return iterate_multiply_add(start, factor * back, factor * back + back, pairs, bits)
    return np.asarray(start + pairs * (MATRIX_PAIR_SUM if dtype == MATRIX_TYPE else REAL_PAIR_SUM))


def _low_precision_chains(
    device: Device, dtype: str, low: LowPrecision, width: int, chains: int, items: int, group: int
) -> Slope:
    """Chains of an instruction of low precision: a round is all steps of a chain, whose ends are added up."""
    kernels = low.kernels(device, width, chains)
    notes = (sum_note(dtype, low, instruction_product(device, kernels["product"], SUB_GROUP_SIZE)),) if low.fraction else ()
    starts = low.starts.astype(np.uint16 if low is HALF else np.uint32)
    lanes = MATRIX_DOUBLES_PER_ITEM if low.form == "MATRIX" else width * low.rows
    if low.form == "AMX":
        request_tiles()
    numbers = items * chains * lanes
    out, start_buffer = device.alloc(4 * numbers), device.alloc(starts.nbytes)
    device.upload(start_buffer, starts)

    def work(rounds: int) -> Work:
        def check() -> None:
            results = device.download(out, np.uint32, numbers).reshape(items, chains, lanes)
            place = np.arange(items)[:, None] % STARTING_ITEMS + np.arange(chains)[None, :]
            wanted = (low.ends[place] * np.uint64(rounds)).astype(np.uint32)
            wrong = int((results != wanted[:, :, None]).sum())
            assert wrong == 0, f"{wrong} of {results.size} sums are not those of {rounds} chains of {low.steps} steps"

        args = (out, start_buffer, *(np.uint32(bits) for bits in (*low.operands, 0, rounds)))
        return Work(
            commands=(Launch(kernels["chains"], args, (items,), (group,)),),
            notes=notes,
            flops=low.flops * width * items * chains * low.steps * rounds,
            outputs=((out, 4 * numbers),),
            check=check,
            concurrent_units=items if device.info.kind == "cpu" else 0,
        )

    return Slope(work, start=1, most=1 << 24)


def _build_kernel(device: Device, dtype: str, matrix: bool, width: int, chains: int) -> Kernel:
    """The kernel of one variant. Raises Skip if the compiler lacks the matrix instruction."""
    scalar = "double" if matrix else f"u{dtype}" if dtype in INTEGERS else dtype
    defines: dict[str, Value] = {"T": scalar, "CHAINS": chains, "MATRIX": matrix}
    defines["OWN_CONSTANTS"] = dtype in PERIODS and "nvidia" in device.info.features  # others may have narrower registers
    defines |= {"FP64": 1} if scalar == "double" else {}
    if matrix:
        try:
            return device.build(kernel_source("arithmetic"), **defines)["chains"]
        except BuildError as error:
            raise Skip("the compiler has no FP64 matrix instruction m16n8k16 for this device") from error
    return device.build(kernel_source("arithmetic"), V=scalar + (str(width) if width > 1 else ""), **defines)["chains"]
