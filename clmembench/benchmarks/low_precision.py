"""Low precision of `arithmetic`: which instruction computes in each type, and where chains of it end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clmembench.model import Array, BuildError, Device, DeviceInfo, Kernel, Launch, Skip, Value
from clmembench.resources import kernel_source

SUB_GROUP_SIZE = 32  # work-items that issue one matrix instruction together
MATRIX_ROWS, MATRIX_COLUMNS = 16, 8  # of its result
STARTING_ITEMS = 16  # work-items from which on start values repeat
STARTS = STARTING_ITEMS + 12  # with those of further chains
STEPS_PER_ROUND = 16  # as unrolled in low_precision.cl
REAL_PAIR_SUM = 2 * 0.5 + 0.5  # added by x -> 2 x + 2 -> x + 1.5
NO_TILES = "device has matrix instructions neither by PTX nor by a CPU's AMX"
OTHER_WAYS = {  # to compute in a type without PTX: the feature, and what a device without either lacks
    "half": ("fp16", "device computes in half neither by OpenCL C (cl_khr_fp16) nor by PTX"),
    "char_dot": ("vnni", "device adds products of bytes neither by PTX nor by a CPU's AVX512-VNNI"),
    "char_matrix": ("amx", NO_TILES),
    "bfloat16_matrix": ("amx", NO_TILES),
}
NEEDS: Mapping[Value, Iterable[str]] = {
    dtype: [f"{feature} or ptx"] for dtype, (feature, _) in OTHER_WAYS.items()
}  # of an axis
DOT_OPERANDS = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)
Encode = Callable[[Array], Array]  # numbers -> the bits of registers full of each


def request_tiles() -> None:
    """Asks Linux for AMX's tiles in this process, which has none before. Raises Skip where it refuses them."""
    if ctypes.CDLL(None).syscall(158, 0x1023, 18):  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
        raise Skip("this system refuses AMX's tiles")


def what_lacks(info: DeviceInfo, dtype: str) -> str:
    """Why the device has no such type; "" where it has."""
    feature, reason = OTHER_WAYS.get(dtype, ("", ""))
    return "" if info.features & {feature, "ptx"} else reason


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
    """E4M3: 3 bits of fraction below an exponent that is 7 for 1; with exponent 0 there is no leading 1."""
    code = np.arange(0x7F)
    value = np.where(code < 8, code * 2.0**-9, (1 + code % 8 / 8) * 2.0 ** (code // 8 - 7.0))
    return _of_bytes(np.searchsorted(value, np.abs(x)) + 0x80 * (x < 0))


def _twice(encode: Encode) -> Encode:
    return lambda x: encode(x) * np.uint32(0x10001)


@dataclass(frozen=True, slots=True)
class LowPrecision:
    """The instruction of a type, and what is counted of it.

    `form` is that of low_precision.cl, `flops` the operations of a work-item (of vectors: of an element) in one instruction,
    `encode` its operands and `encode_end` the end of a chain. Ends are exact for `folded` rounds of steps, after which chains
    start again. A matrix instruction adds `depth` products to each element of its result.
    """

    form: Literal["HALF", "PACKED", "DOT", "MATRIX", "VNNI", "AMX"]
    instruction: str
    encode: Encode
    folded: int
    depth: int = 1
    encode_end: Encode = _of_floats
    fraction: int = 0  # bits of a factor's fraction, where sums are floats

    @property
    def flops(self) -> int:
        if self.form == "MATRIX":
            return 2 * MATRIX_ROWS * MATRIX_COLUMNS * self.depth // SUB_GROUP_SIZE
        return {"HALF": 2, "PACKED": 4, "DOT": 8, "VNNI": 8, "AMX": 2 * MATRIX_ROWS * self.depth}[self.form]

    @property
    def adds_products(self) -> bool:
        """Whether a step adds products of its operands to the result."""
        return self.form in ("MATRIX", "VNNI", "AMX")

    @property
    def rows(self) -> int:
        """Numbers for each element of a vector in the result: a tile has a row of them."""
        return MATRIX_ROWS if self.form == "AMX" else 1

    @property
    def steps(self) -> int:
        """Steps from the start of a chain to its end."""
        return STEPS_PER_ROUND * self.folded

    @property
    def operands(self) -> tuple[int, ...]:
        """Bits of the operands of a step and of the next one."""
        if self.form == "DOT":
            return DOT_OPERANDS
        a, b, c, d = (1, 1, 1, 2) if self.adds_products else (2, 2, 0.5, 0.5)
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
        per_pair = self.depth * (1 * 1 + 1 * 2) if self.adds_products else REAL_PAIR_SUM
        return self._end_bits(np.arange(STARTS) + pairs * per_pair)

    def _end_bits(self, x: Array) -> Array:
        return (self.encode_end if self.adds_products else self.encode)(x)

    def kernels(self, device: Device, width: int, chains: int) -> Mapping[str, Kernel]:
        """The kernels `chains` and, of matrix instructions, `product`. Raises Skip if the compiler lacks the instruction."""
        vector = str(width) if width > 1 else ""
        types = {"V": f"half{vector}", "BITS": f"ushort{vector}", "SUMS": f"uint{vector}"} if self.form == "HALF" else {}
        defines: dict[str, Value] = {"FORM": self.form, "CHAINS": chains, "FOLDED": self.folded, **types}
        if self.instruction:
            defines |= {"INSTRUCTION": self.instruction, "OPAQUE": self.encode is _of_fp8}
        try:
            return device.build(kernel_source("low_precision"), **defines)
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


def _matrix(
    shape: str, kind: str, result: str, encode: Encode, folded: int, fraction: int = 0, encode_end: Encode = _of_floats
) -> LowPrecision:
    instruction = f"mma.sync.aligned.{shape}.row.col.{result}.{kind}.{kind}.{result}"
    return LowPrecision("MATRIX", instruction, encode, folded, int(shape.rpartition("k")[2]), encode_end, fraction)


# Rounds: of 16 bits as many as the significand counts in halves; sums of FP8 are exact up to 2^13 at least; those of 32-bit
# floats are exact for more, and here far beyond what 16 bits could count.
HALF = LowPrecision("HALF", "", _of_halves, 64)
WITHOUT_PTX: Mapping[str, LowPrecision] = {
    "half": HALF,
    "char_dot": LowPrecision("VNNI", "vpdpbusd", _of_bytes, 256, 4, lambda x: x.astype(np.uint32)),
    "char_matrix": LowPrecision("AMX", "tdpbssd", _of_bytes, 64, 64, lambda x: x.astype(np.uint32)),
    "bfloat16_matrix": LowPrecision("AMX", "tdpbf16ps", _twice(_of_bfloats), 64, 32),
}
BY_PTX: Mapping[str, LowPrecision] = {
    "half": LowPrecision("PACKED", "fma.rn.f16x2", _twice(_of_halves), 64),
    "bfloat16": LowPrecision("PACKED", "fma.rn.bf16x2", _twice(_of_bfloats), 8),
    "char_dot": LowPrecision("DOT", "dp4a.u32.u32", _of_bytes, 64),
    "half_matrix": _matrix("m16n8k16", "f16", "f32", _twice(_of_halves), 256, 10),
    "bfloat16_matrix": _matrix("m16n8k16", "bf16", "f32", _twice(_of_bfloats), 256, 7),
    "tf32_matrix": _matrix("m16n8k8", "tf32", "f32", _of_floats, 256, 10),
    "char_matrix": _matrix("m16n8k32", "s8", "s32", _of_bytes, 256, 0, lambda x: x.astype(np.uint32)),
    "fp8_matrix": _matrix("m16n8k32", "e4m3", "f32", _of_fp8, 4, 3),
}


# ---- sums of a matrix instruction

Multiply = Callable[[Array, Array, Array], Array]  # the bits of A (16, k) and B (8, k), and C (16, 8) in float -> A B^T + C
ROW_BYTES = 32  # of A and of B, whatever their type
TESTED_BITS, FLOAT_BITS = 31, 23  # of a sum, below its largest term; of a float's fraction
WAYS = {(1, -1): "cut off", (1, -2): "rounded down", (2, -2): "rounded to nearest"}  # by what 1.75 and -1.75 become


def instruction_product(device: Device, kernel: Kernel, items: int) -> Multiply:
    """The matrix instruction in the kernel `product`. Work-items hold parts of the operands as PTX says; those of four
    sub-groups, whose other rows are 0, lie in local memory by core matrices."""
    grouped = items > SUB_GROUP_SIZE
    lane, part = np.arange(SUB_GROUP_SIZE)[:, None], np.arange(4)
    row, column = lane // 4, lane % 4
    place = (row + 8 * (part // 2), 2 * column + part % 2)

    def multiply(a: Array, b: Array, c: Array) -> Array:
        a, b = a.view(np.uint32), b.view(np.uint32)
        if grouped:
            a, b = (x.reshape(-1, 8, 2, 4).swapaxes(1, 2) for x in (np.pad(a, ((0, 3 * MATRIX_ROWS), (0, 0))), b))
        else:
            a, b = a[row + 8 * (part % 2), column + 4 * (part // 2)], b[row, column + 4 * part[:2]]
        parts = [np.ascontiguousarray(x) for x in (a, b, np.pad(c[place], ((0, items - SUB_GROUP_SIZE), (0, 0))))]
        buffers = [device.alloc(x.nbytes) for x in parts]
        for buffer, x in zip(buffers, parts, strict=True):
            device.upload(buffer, x)
        device.run([Launch(kernel, tuple(buffers), (items,), (items,))])
        sums = np.empty((MATRIX_ROWS, MATRIX_COLUMNS), np.float32)
        sums[place] = device.download(buffers[2], np.float32, 4 * items).reshape(-1, 4)[:SUB_GROUP_SIZE]
        return sums

    return multiply


def sum_note(dtype: str, low: LowPrecision, multiply: Multiply) -> str:
    """How the instruction adds, by sums whose exact values are known (Fasi, Higham, Mikaitis & Pranesh 2021): 1 + x - 1 and
    1 + x for ever smaller x show how many bits below the largest term are kept, 1.75 of the last of them what becomes of the
    rest, and 1 + 1 + x how a sum is rounded to float."""
    element = np.dtype(f"u{ROW_BYTES // low.depth}")

    def product(a: Array, b: Array, c: Array) -> Array:
        whole = [np.zeros((len(one), low.depth)) for one in (a, b)]
        for one, first in zip(whole, (a, b), strict=True):
            one[:, : first.shape[1]] = first
        left, right = (low.encode(one).astype(element) for one in whole)
        return multiply(left, right, c.astype(np.float32)).astype(np.float64)

    reach, shift = (10, 9) if low.fraction < 7 else (16, 12)  # powers of two that a factor has, and by which B shifts them
    a, b, c = np.zeros((MATRIX_ROWS, 4)), np.zeros((MATRIX_COLUMNS, 4)), np.zeros((MATRIX_ROWS, MATRIX_COLUMNS))
    a[:, 0], a[:reach, 1], a[:, 2], a[:, 3] = 1, 2.0 ** -np.arange(reach), -1, 1 + 2.0**-low.fraction
    b[:4, 1] = 1, 2.0**-shift, 1, 2.0**-shift
    b[:2, 0] = b[:2, 2] = 1  # columns: 1 + x - 1, with smaller x, x + C, with smaller x, a product
    b[4, 3] = a[0, 3]
    c[:, 2:4] = 1
    found = product(a, b, c)
    found[:, 2:4] -= 1
    bits = [_kept(found[:reach, first : first + 2], shift) for first in (0, 2)]
    exact = found[0, 4] == a[0, 3] ** 2
    last = 2.0 ** -bits[0]
    a[:4, :3] = (1, 1.75 * last * 2**shift, -1), (1, -1.75 * last * 2**shift, -1), (1, 6 * 2.0 ** (shift - 24), 1), (0, 0, 0)
    a[3, :3] = -a[2, :3]
    found = product(a, b, np.zeros_like(c))[:4, 1]
    end = (np.abs(found[2:]) - 2) * 2.0**22 * (1, -1)
    rest, rounded = (WAYS.get(tuple(ends), "neither cut off nor rounded") for ends in (found[:2] / last, end))
    adds = f"{dtype} adds {'exact' if exact else 'rounded'} products"
    if bits[0] == reach - 1 + shift:
        return f"{adds} with at least {bits[0]} bits below the largest term"
    ending = f"a running sum keeps {bits[1]}, where a float has {FLOAT_BITS}" if bits[1] < FLOAT_BITS else f"a sum is {rounded}"
    return f"{adds} with {bits[0]} bits below the largest term; what is below is {rest}, and {ending}"


def _kept(found: Array, shift: int) -> int:
    """The last n up to which all 2^-n were kept; column 0 has those from 1 on, column 1 those from 2^-shift on."""
    kept = {
        n + shift * column: found[n, column] == 2.0 ** -(n + shift * column) for n in range(len(found)) for column in (1, 0)
    }
    return next((n - 1 for n in range(TESTED_BITS) if not kept.get(n, False)), TESTED_BITS)
