"""Peak rate of arithmetic: multiply-adds in registers, by vector instructions of each type and by matrix instructions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clmembench.benchmarks import MATRIX_FLOPS, VECTOR_FLOPS, axis_of, benchmark, iterate_multiply_add
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
# numbers of steps up to which the result counts them exactly
MAX_EXACT_STEPS = {"float": 1 << 23, "double": 1 << 50, "int": 1 << 31, MATRIX_TYPE: 1 << 46}
GPU_GROUP_SIZE, GPU_GROUPS_PER_UNIT = 256, 8  # most GPUs hold this many work-items
MATRIX_INSTRUCTION_FLOPS, SUB_GROUP_SIZE = 2 * 16 * 8 * 16, 32  # per instruction; work-items that issue one together
MATRIX_DOUBLES_PER_ITEM = 4  # doubles of the result in each work-item
# Factors of a step and of the next one: of a vector the first of two, which is the addend, too. They make the result count the
# steps: two steps of real numbers add 1.5, x -> 2 x + 2 -> x + 1.5, and two matrix instructions add 16 times 1 + 2.
CONSTANTS: Mapping[str, tuple[float, float, float, float]] = {
    "int": (0x9E3779B1, 0, 0x85EBCA6B, 0),
    MATRIX_TYPE: (1, 1, 1, 2),
}
REAL_CONSTANTS = (2, 0, 0.5, 0)
REAL_PAIR_SUM = 2 * 0.5 + 0.5
MATRIX_PAIR_SUM = 16 * (1 * 1 + 1 * 2)


def _rate_metric(dtype: str, peak: str | None) -> Metric:
    """The rate metric of one data type, with the theoretical peak for it."""
    name, of = ("operation_rate", "Gop/s") if dtype == "int" else ("flop_rate", "GFLOP/s")
    return Metric(name, of, "flops", "slope_rate", "higher", peak=peak, only={"dtype": (dtype,)})


def _types(info: DeviceInfo) -> tuple[str, ...]:
    return ("float", "double", "int", *([MATRIX_TYPE] if "ptx" in info.features else []))


def _where(info: DeviceInfo, dtype: str, width: int, chains: int) -> bool:
    return dtype != MATRIX_TYPE or width == 1


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
    _rate_metric("double", "fp64_vector_gflop_s"),
    _rate_metric("float", "fp32_vector_gflop_s"),
    _rate_metric("int", None),
    _rate_metric(MATRIX_TYPE, "fp64_matrix_gflop_s"),
    suite="compute",
    source="Williams, Waterman & Patterson 2009 (roofs); clpeak",
    headlines=(
        Headline("compute", "FP64 multiply-adds in registers", "flop_rate", {"dtype": "double"}),
        Headline("compute", "FP64 matrix instructions in registers", "flop_rate", {"dtype": MATRIX_TYPE}),
        Headline("compute", "FP32 multiply-adds in registers", "flop_rate", {"dtype": "float"}),
    ),
    quantities=[
        Quantity(name, "flop_rate", {"dtype": (dtype,)}) for dtype, name in (*VECTOR_FLOPS.items(), (MATRIX_TYPE, MATRIX_FLOPS))
    ],
    where=_where,
    figure_axis="dtype",
    dtype=axis_of(_types, needs={"double": ["fp64"], MATRIX_TYPE: ["ptx", "fp64"]}),
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
    """
    info, matrix = device.info, dtype == MATRIX_TYPE
    group = min(GPU_GROUP_SIZE, info.max_work_group) if not info.has_cpu_cores else 1
    items = group * info.compute_units * (GPU_GROUPS_PER_UNIT if not info.has_cpu_cores else 1)
    kernel = _build_kernel(device, dtype, matrix, width, chains)
    scalar, lanes = np.dtype(NUMPY_TYPES[dtype]), MATRIX_DOUBLES_PER_ITEM if matrix else width
    out = device.alloc(items * chains * lanes * scalar.itemsize)
    constants = CONSTANTS.get(dtype, REAL_CONSTANTS)

    def work(rounds: int) -> Work:
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

    return Slope(work, start=16, most=MAX_EXACT_STEPS[dtype] // STEPS_PER_ROUND)


def _after(start: Array, dtype: str, pairs: int) -> Array:
    """The result of so many pairs of steps on whole numbers; shape of `start`."""
    if dtype == "int":
        factor, _, back, _ = (int(constant) for constant in CONSTANTS["int"])
        return iterate_multiply_add(start, factor * back % 2**32, (factor * back + back) % 2**32, pairs)
    return np.asarray(start + pairs * (MATRIX_PAIR_SUM if dtype == MATRIX_TYPE else REAL_PAIR_SUM))


def _build_kernel(device: Device, dtype: str, matrix: bool, width: int, chains: int) -> Kernel:
    """The kernel of one variant. Raises Skip if the compiler lacks the matrix instruction."""
    scalar = {"int": "uint", MATRIX_TYPE: "double"}.get(dtype, dtype)
    defines: dict[str, Value] = {"T": scalar, "CHAINS": chains, "MATRIX": matrix}
    defines |= {"FP64": 1} if scalar == "double" else {}
    if matrix:
        try:
            return device.build(kernel_source("arithmetic"), **defines)["chains"]
        except BuildError as error:
            raise Skip("the compiler has no FP64 matrix instruction m16n8k16 for this device") from error
    return device.build(kernel_source("arithmetic"), V=scalar + (str(width) if width > 1 else ""), **defines)["chains"]
