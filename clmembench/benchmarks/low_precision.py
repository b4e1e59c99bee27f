"""Low precision of `arithmetic`: which instruction computes in each type, and where chains of it end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clmembench.model import Array, BuildError, Device, DeviceInfo, Kernel, Skip, Value
from clmembench.resources import kernel_source

SUB_GROUP_SIZE = 32  # work-items that issue one matrix instruction together
MATRIX_ROWS, MATRIX_COLUMNS = 16, 8  # of its result
STARTING_ITEMS = 16  # work-items from which on start values repeat
STARTS = STARTING_ITEMS + 12  # with those of further chains
STEPS_PER_ROUND = 16  # as unrolled in low_precision.cl
REAL_PAIR_SUM = 2 * 0.5 + 0.5  # added by x -> 2 x + 2 -> x + 1.5
NO_HALF = "device computes in half neither by OpenCL C (cl_khr_fp16) nor by PTX"
DOT_OPERANDS = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)
Encode = Callable[[Array], Array]  # numbers -> the bits of registers full of each


def has_half(info: DeviceInfo) -> bool:
    """Whether the device computes in half by OpenCL C or PTX."""
    return bool(info.features & {"fp16", "ptx"})


def packs_halves(info: DeviceInfo) -> bool:
    """Whether half is two of them in a register, by PTX: the instructions that reach NVIDIA's rate."""
    return "ptx" in info.features


def _of_halves(x: Array) -> Array:
    return x.astype(np.float16).view(np.uint16).astype(np.uint32)


def _of_bfloats(x: Array) -> Array:
    return x.astype(np.float32).view(np.uint32) >> 16


def _of_floats(x: Array) -> Array:
    return x.astype(np.float32).view(np.uint32)


def _of_bytes(x: Array) -> Array:
    return x.astype(np.uint32) * 0x01010101


def _of_fp8(x: Array) -> Array:
    """E4M3, of powers of two: 3 bits of fraction below an exponent that is 7 for 1."""
    return _of_bytes((np.log2(x) + 7) * 8)


def _twice(encode: Encode) -> Encode:
    return lambda x: encode(x) * np.uint32(0x10001)


@dataclass(frozen=True, slots=True)
class LowPrecision:
    """The instruction of a type, and what is counted of it.

    `form` is that of low_precision.cl, `flops` the operations of a work-item in one instruction, `encode` its operands and
    `encode_end` the end of a chain. Ends are exact for `folded` rounds of steps, after which chains start again. A matrix
    instruction adds `depth` products to each element of its result.
    """

    form: Literal["HALF", "PACKED", "DOT", "MATRIX"]
    instruction: str
    encode: Encode
    folded: int
    depth: int = 1
    encode_end: Encode = _of_floats

    @property
    def flops(self) -> int:
        if self.form == "MATRIX":
            return 2 * MATRIX_ROWS * MATRIX_COLUMNS * self.depth // SUB_GROUP_SIZE
        return {"HALF": 2, "PACKED": 4, "DOT": 8}[self.form]

    @property
    def steps(self) -> int:
        """Steps from the start of a chain to its end."""
        return STEPS_PER_ROUND * self.folded

    @property
    def operands(self) -> tuple[int, ...]:
        """Bits of the operands of a step and of the next one."""
        if self.form == "DOT":
            return DOT_OPERANDS
        a, b, c, d = (1, 1, 1, 2) if self.form == "MATRIX" else (2, 2, 0.5, 0.5)
        return tuple(int(bits) for bits in self.encode(np.array([a, b, c, d], np.float64)))

    @property
    def starts(self) -> Array:
        """Bits of the start values, shape (STARTS,)."""
        return self._end_bits(np.arange(STARTS))

    @property
    def ends(self) -> Array:
        """Bits of the end of the chain from each start, shape (STARTS,)."""
        pairs = self.steps // 2
        if self.form == "DOT":
            return _dots(self.starts, pairs)
        per_pair = self.depth * (1 * 1 + 1 * 2) if self.form == "MATRIX" else REAL_PAIR_SUM
        return self._end_bits(np.arange(STARTS) + pairs * per_pair)

    def _end_bits(self, x: Array) -> Array:
        return (self.encode_end if self.form == "MATRIX" else self.encode)(x)

    def kernel(self, device: Device, width: int, chains: int) -> Kernel:
        """The kernel `chains`. Raises Skip if the compiler lacks the instruction."""
        vector = str(width) if width > 1 else ""
        types = {"V": f"half{vector}", "BITS": f"ushort{vector}", "SUMS": f"uint{vector}"} if self.form == "HALF" else {}
        defines: dict[str, Value] = {"FORM": self.form, "CHAINS": chains, "FOLDED": self.folded, **types}
        if self.instruction:
            defines |= {"INSTRUCTION": self.instruction, "OPAQUE": self.encode is _of_fp8}
        try:
            return device.build(kernel_source("low_precision"), **defines)["chains"]
        except BuildError as error:
            raise Skip(f"the compiler has no {self.instruction or 'half'} for this device") from error


def _dots(x: Array, pairs: int) -> Array:
    """x -> a . x + b -> c . x + d, dot products of bytes, so many times."""
    a, b, c, d = DOT_OPERANDS
    for _ in range(pairs):
        for factors, addend in ((a, b), (c, d)):
            products = [(x >> shift & 0xFF) * (factors >> shift & 0xFF) for shift in (0, 8, 16, 24)]
            x = ((np.sum(products, axis=0) + addend) % 2**32).astype(np.uint32)
    return x


def _matrix(shape: str, kind: str, result: str, encode: Encode, folded: int, encode_end: Encode = _of_floats) -> LowPrecision:
    instruction = f"mma.sync.aligned.{shape}.row.col.{result}.{kind}.{kind}.{result}"
    return LowPrecision("MATRIX", instruction, encode, folded, int(shape.rpartition("k")[2]), encode_end)


# Rounds: of 16 bits as many as the significand counts in halves; sums of FP8 are exact up to 2^13 at least; those of 32-bit
# floats are exact for more, and here far beyond what 16 bits could count.
HALF = LowPrecision("HALF", "", _of_halves, 64)
BY_PTX: Mapping[str, LowPrecision] = {
    "half": LowPrecision("PACKED", "fma.rn.f16x2", _twice(_of_halves), 64),
    "bfloat16": LowPrecision("PACKED", "fma.rn.bf16x2", _twice(_of_bfloats), 8),
    "char_dot": LowPrecision("DOT", "dp4a.u32.u32", _of_bytes, 64),
    "half_matrix": _matrix("m16n8k16", "f16", "f32", _twice(_of_halves), 256),
    "bfloat16_matrix": _matrix("m16n8k16", "bf16", "f32", _twice(_of_bfloats), 256),
    "tf32_matrix": _matrix("m16n8k8", "tf32", "f32", _of_floats, 256),
    "char_matrix": _matrix("m16n8k32", "s8", "s32", _of_bytes, 256, lambda x: x.astype(np.uint32)),
    "fp8_matrix": _matrix("m16n8k32", "e4m3", "f32", _of_fp8, 4),
}
