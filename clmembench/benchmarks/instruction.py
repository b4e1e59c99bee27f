"""Latency and throughput of single operations, by dependent and by independent chains: a device's instruction table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark
from clmembench.benchmarks.low_precision import NEEDS, packs_halves, what_lacks
from clmembench.benchmarks.subgroup import sub_group_width
from clmembench.model import Array, BuildError, Device, DeviceInfo, Headline, Kernel, Launch, Metric, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

GPU_LANES = (1, 32, 128, 256, 512, 1024, 2048)
GROUP_SIZE = 256
STARTS = 64  # work-items from which on start values repeat
ROWS = 5  # of a column in local memory: no number of steps that a fault would leave out is a multiple of it
SETTLING_PAIRS = 64  # after which a chain repeats itself, unless its end has a formula
HALF_SETTLING_PAIRS = 2048  # in half, where every sum stops growing
NUMPY_TYPES = {"float": np.float32, "double": np.float64, "int": np.uint32, "long": np.uint64, "half": np.float16}
REAL_TYPES = ("float", "double", "half")
SCALARS = {"int": "uint", "long": "ulong"}
SIGNED = {"int": "int", "long": "long"}
OTHER_KIND = {"int": "float", "long": "double", "float": "double", "double": "long", "half": "float"}
WIDER_ONES = {"float": "1.000000000001", "half": "1.0001f"}  # that rounding to the type makes 1
TOLERANCES = {"float": 1e-5, "double": 1e-13, "half": 4e-3}
NATIVE_TOLERANCE = 1e-3
FLOAT_STEPS = 1 << 21  # up to which sums in float are exact
ROUNDED = ("add", "mul")  # operations whose chains of floating-point numbers end differently where steps are merged,
FEW_ROUNDS = 17  # after which an unrolled loop has shown itself, and float holds every sum
MERGED = 0.1  # but less than where one is missing
Step = Callable[[Array, Array, Array], Array]  # (x, a, b) -> the next x


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: which program has it, how many pairs of it a round has, its inputs, and its chain on the host.

    `first` and `second` are the two steps of a pair; `start` and `spread` give the first values. `carrier` is the operation
    that stands between two of it.
    """

    group: int
    pairs: int
    a: float
    b: float
    first: Step
    second: Step | None = None
    start: float = 1.1
    spread: float = 0.05
    carrier: str = ""


def _slow(step: Step, b: float, a: float = 0.0) -> Operation:
    return Operation(1, 1, a, b, step, carrier="add")


def _functions(prefix: str) -> dict[str, Operation]:
    """Division, roots and functions, by names with this prefix; b makes each chain settle at a number without pattern."""
    found = {
        "div": _slow(lambda x, a, b: a / x + b, 0.7, 1.7),
        "rcp": _slow(lambda x, a, b: 1 / x + b, 0.7),
        "sqrt": _slow(lambda x, a, b: np.sqrt(x) + b, 0.7),
        "rsqrt": _slow(lambda x, a, b: 1 / np.sqrt(x) + b, 0.7),
        "exp": _slow(lambda x, a, b: np.exp(x) + b, -6.0),
        "log": _slow(lambda x, a, b: np.log(x) + b, 3.0),
        "sin": _slow(lambda x, a, b: np.sin(x) + b, 1.5),
    }
    return {prefix + name: operation for name, operation in found.items()}


REAL: Mapping[str, Operation] = {
    # rounding of each single step shows in the ends of these two: a compiler that reorders sums or products is noticed
    "add": Operation(0, 8, 0.0, 2.0, lambda x, a, b: x + a, lambda x, a, b: x + b, 0.0, 1.0),
    "mul": Operation(0, 8, -3.0, 1 / 3, lambda x, a, b: x * a, lambda x, a, b: x * b),
    "fma": Operation(0, 8, -0.75, 1.3, lambda x, a, b: x * a + b),
    "min": Operation(0, 8, 30.0, 1.0, lambda x, a, b: np.minimum(x, a) + b, carrier="add"),
    **_functions(""),
}
NATIVE = _functions("native_")
CONVERT = Operation(
    1, 1, 0.0, 0.0, lambda x, a, b: x.astype(np.float32) + np.float32(1.0001), start=0.0, spread=1.0, carrier="add"
)
INTEGER: Mapping[str, Operation] = {
    "add": Operation(0, 8, 0, 0, lambda x, a, b: x),
    "mul": Operation(0, 8, 0, 0, lambda x, a, b: x),
    "xor": Operation(0, 8, -1, 0x9E3779B1, lambda x, a, b: x, carrier="add"),
    "min": Operation(0, 8, 0.25, 0.5, lambda x, a, b: np.minimum(x, a) ^ b, carrier="xor"),
    "shift": Operation(0, 8, 1, 0.3, lambda x, a, b: (x >> a) + b, carrier="add"),
    "mul_hi": Operation(0, 8, 0.6, 0.9, lambda x, a, b: b - _mul_hi(x, a), carrier="add"),
    "popcount": Operation(0, 8, 0, 0x9E3779B1, lambda x, a, b: _popcount(x) + b, carrier="add"),
    "div": Operation(1, 1, 0.5, 0, lambda x, a, b: a // x + b, carrier="add"),
    "convert": CONVERT,
}
EXCHANGES: Mapping[str, Operation] = {
    "local_load": Operation(2, 8, 0, 0, lambda x, a, b: x),
    "shuffle": Operation(3, 8, 0, 0, lambda x, a, b: x),
    "reduce": Operation(3, 8, 0, 0, lambda x, a, b: x, carrier="add"),
}
OPERATIONS = tuple(dict.fromkeys((*REAL, *INTEGER, *NATIVE, *EXCHANGES)))
PACKED = ("add", "mul", "fma", "min")  # operations on two halves by PTX
USUAL_RATES = ("add", "mul", "fma", "div", "native_exp", "local_load", "shuffle")  # measured unless others are named


def operation_of(op: str, dtype: str) -> Operation | None:
    """The operation in this type; None where the type has none."""
    if dtype in SCALARS:
        return INTEGER.get(op, EXCHANGES.get(op) if dtype == "int" else None)
    if op == "convert":
        return CONVERT
    return REAL.get(op, NATIVE.get(op) if dtype == "float" else None)


def _operations(info: DeviceInfo) -> tuple[str, ...]:
    exchanges = bool(info.features & {"ptx", "sub_groups"})
    return tuple(op for op in OPERATIONS if exchanges or op not in ("shuffle", "reduce"))


def _lanes(info: DeviceInfo) -> tuple[int, ...]:
    """On GPUs work-items of a compute unit; on CPUs elements of a vector. 1: a single chain."""
    return (1, 4, 8) if info.has_cpu_cores else GPU_LANES


def _where(info: DeviceInfo, op: str, dtype: str, lanes: int) -> bool:
    operation = operation_of(op, dtype)
    if operation is None or (what_lacks(info, dtype) and (op, lanes) != ("add", 1)):  # which says why
        return False
    if dtype == "half" and packs_halves(info) and op not in PACKED:
        return False
    if lanes == 1:
        return True
    if not info.has_cpu_cores:
        return operation.group != 3 or lanes % sub_group_width(info) == 0  # else the last sub-group has more than are counted
    if operation.group >= 2:
        return lanes == 8 and operation.group == 2
    if op == "convert":
        return False  # PoCL's compiler aborts on such vectors
    return lanes == (4 if dtype in ("double", "long") else 8)  # 32 bytes: PoCL's compiler aborts on some of 64


def _in_default_subset(info: DeviceInfo, op: str, dtype: str, lanes: int) -> bool:
    """Points of the default subset: each operation's latency in its first type, some rates, and a multiply-add at any number of
    lanes. Where a value of any axis is named, every operation is measured."""
    first = next(kind for kind in NUMPY_TYPES if operation_of(op, kind)) == dtype
    if lanes == 1:
        return first or op == "add" or (op, dtype) == ("fma", "half")
    if op == "fma" and (dtype == "float" or (dtype == "half" and lanes == GPU_LANES[-1]) or info.has_cpu_cores):
        return True
    most = 8 if info.has_cpu_cores else GPU_LANES[-1]
    return first and lanes == most and op in USUAL_RATES


SEVERAL = tuple(sorted({4, 8, *GPU_LANES} - {1}))


@benchmark(
    Metric("instruction_latency", "ns", "ops", "slope", "lower", cycles=True, only={"lanes": (1,)}),
    Metric("unit_rate", "Gop/s", "ops", "slope_rate", "higher", only={"lanes": SEVERAL}),
    suite="compute",
    source="Fog, Instruction tables; Abel & Reineke 2019 (uops.info); Wong et al. 2010",
    headlines=(
        Headline(
            "latency",
            "dependent multiply-add in float",
            "instruction_latency",
            {"op": "fma", "dtype": "float", "lanes": 1},
        ),
    ),
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="op",
    op=axis_of(_operations, needs={op: ["ptx or sub_groups"] for op in ("shuffle", "reduce")}),
    dtype=axis(*NUMPY_TYPES, needs={"double": ["fp64"], "half": NEEDS["half"]}),
    lanes=axis_of(_lanes),
)
def instruction(device: Device, op: str, dtype: str, lanes: int) -> Slope:
    """Latency of an operation (lanes = 1) and its rate on one compute unit.

    At 1 lane one work-item (of exchanges one sub-group) runs one chain of dependent operations, and the metric is the time of
    one of them. Otherwise `lanes` work-items of each compute unit run four independent chains each; on CPUs one work-item runs
    chains of vectors of `lanes` elements (of local loads, `lanes` chains), and the rate is that of all elements of one unit.
    Inputs are opaque to the compiler, and no chain can be merged. Where another operation must stand between two of it, its
    `carrier`, the value is that of both; the table of instructions subtracts it from latencies. The ends of all chains are
    compared with the host's, exactly for integers. On NVIDIA half is two of them in a register, by PTX. Raises Skip where the
    compiler lacks the operation.
    """
    operation = operation_of(op, dtype)
    if operation is None:
        raise Skip(f"{dtype} has no operation {op}")
    info, cores = device.info, device.info.has_cpu_cores
    packed = dtype == "half" and packs_halves(info)
    if reason := what_lacks(info, dtype):
        raise Skip(reason)
    scalar = np.dtype(NUMPY_TYPES[dtype])
    wide = sub_group_width(info)
    single = lanes == 1
    width = 2 if packed else lanes if cores and operation.group < 2 else 1
    chains = 1 if single else (lanes if operation.group == 2 else 4 if operation.group else 8) if cores else 8 if packed else 4
    if single or cores:
        items = group = wide if operation.group == 3 else 1
    else:
        group = min(lanes, GROUP_SIZE, info.max_work_group)
        if operation.group == 3:
            group = max(group, wide)
        items = info.compute_units * max(1, lanes // group) * group
    kernel = _build(device, operation, dtype, 0 if packed else width, chains, group, wide)[f"run_{op}"]
    a, b = _inputs(operation, op, scalar)
    start = _starts(operation, op, scalar, (items, chains, width), group)
    begins, ends, made = device.alloc(start.nbytes), device.alloc(start.nbytes), device.alloc(4 * items)
    device.upload(begins, start)

    def launch(rounds: int) -> Launch:
        return Launch(kernel, (begins, ends, made, scalar.type(a), scalar.type(b), np.uint32(rounds)), (items,), (group,))

    def off(rounds: int) -> Array:
        """How far the end of each chain is from the host's."""
        found = device.download(ends, scalar, start.size).reshape(start.shape)
        wanted = _after(operation, op, dtype, start, (a, b), operation.pairs * rounds, wide, group)
        if dtype in SCALARS:
            return np.asarray(found != wanted)
        return np.asarray(np.abs(found.astype(np.float64) - wanted) / np.maximum(1, np.abs(wanted.astype(np.float64))))

    tolerance = 0.0
    if dtype in REAL_TYPES and op in ROUNDED:
        device.run([launch(FEW_ROUNDS)])
        if 0 < off(FEW_ROUNDS).max() < MERGED:
            reason = f"the compiler merges dependent operations, or keeps more bits between them ({op} of {dtype})"
            raise Skip(f"{reason}, so that no chain of them can be timed")
    elif dtype in REAL_TYPES:
        tolerance = NATIVE_TOLERANCE if op.startswith("native_") else TOLERANCES[dtype]

    def compare(rounds: int) -> None:
        assert (device.download(made, np.uint32, items) == rounds).all(), f"a work-item did not make {rounds} rounds"
        wrong = int((~(off(rounds) <= tolerance)).sum())  # not a number is wrong, too
        assert wrong == 0, f"{wrong} of {start.size} chains are not the results of {2 * operation.pairs * rounds} operations"

    def work(rounds: int) -> Work:
        def check() -> None:
            compare(rounds)
            device.run([launch(1)])  # few enough operations that a missing one is seen where chains settle later
            compare(1)

        steps = 2 * operation.pairs * rounds
        return Work(
            commands=(launch(rounds),),
            ops=steps if single else steps * chains * width * (1 if cores else lanes),
            outputs=((ends, start.nbytes), (made, 4 * items)),
            check=check,
        )

    return Slope(work, start=64, most=FLOAT_STEPS // operation.pairs)


def _build(
    device: Device, operation: Operation, dtype: str, width: int, chains: int, group: int, wide: int
) -> Mapping[str, Kernel]:
    """The kernels of one type and group of operations; width 0: halves in pairs. Raises Skip if the compiler lacks them."""
    vector = str(width) if width > 1 else ""
    scalar = SCALARS.get(dtype, dtype)
    features = device.info.features
    if operation.group == 3 and not features & {"ptx", "sub_groups"}:
        raise Skip("device has no sub-groups")
    signed, other = SIGNED.get(dtype, dtype), OTHER_KIND[dtype]
    fp64 = "fp64" in features
    if operation.group == 1 and other == "double" and not fp64:
        other = "float" if dtype == "long" else "int"
    defines: dict[str, Value] = {
        "T": scalar, "V": scalar + vector, "CHAINS": chains, "GROUP": operation.group, "REAL": dtype in REAL_TYPES,
        "SIGNED": signed + vector, "OTHER": other + vector, "NATIVE": dtype == "float", "FP64": fp64, "FP16": dtype == "half",
        "CONVERTS": width == 1, "ONE": WIDER_ONES.get(dtype, "1"), "PTX": "ptx" in features, "PACKED": 0,
        "ITEMS": group, "ROWS": ROWS if operation.group == 2 else wide,
    }  # fmt: skip
    if not width:
        defines |= {"T": "ushort", "V": "uint", "FP16": 0, "PACKED": 1}
    try:
        return device.build(kernel_source("instruction"), **defines)
    except BuildError as error:
        if operation.group == 3:
            raise Skip("the compiler has no shuffle and reduction of sub-groups for this device") from error
        raise


def _inputs(operation: Operation, op: str, scalar: np.dtype[np.generic]) -> tuple[Array, Array]:
    """The numbers a and b in the type: of integers below 1 as a share of the type's range."""
    bits = 8 * scalar.itemsize
    if scalar.kind == "f":
        whole = 2.0 ** {16: 10, 32: 23, 64: 52}[bits]  # a sum with it has no fraction
        a, b = (scalar.type(value) for value in ((whole, operation.b - whole) if op == "add" else (operation.a, operation.b)))
    else:
        a, b = (
            scalar.type(int(value * 2**bits) if 0 < value < 1 else int(value) % 2**bits) for value in (operation.a, operation.b)
        )
        if op == "div":
            b = scalar.type(1 << (bits // 2))  # about the root of a, so that quotients settle
    return np.asarray(a), np.asarray(b)


def _starts(operation: Operation, op: str, scalar: np.dtype[np.generic], shape: tuple[int, int, int], group: int) -> Array:
    """The first number of each element of each chain of each work-item, shape (items, chains, elements)."""
    items, chains, width = shape
    other = np.arange(chains)[None, :, None] + np.arange(width)[None, None, :]
    if operation.group == 2:
        item = np.arange(items)[:, None, None]
        return np.broadcast_to(4 * (other % ROWS * group + item % group), shape).astype(scalar)
    return np.resize(_first_starts(operation, op, scalar, other), shape)  # repeats the items


def _first_starts(operation: Operation, op: str, scalar: np.dtype[np.generic], other: Array) -> Array:
    """The first numbers of STARTS work-items, which those of others equal; `other` is what elements of chains add."""
    item = np.arange(STARTS)[:, None, None]
    if scalar.kind == "f" or op == "convert":
        place = item / 8 + other % 8
        if op == "mul":
            return np.asarray(_rounded_by(operation, scalar)[(8 * place).astype(int)])
        real = operation.start + operation.spread * place
        whole = np.floor(real) + (0.25 if op == "add" else 0.0)
        return np.asarray(whole if operation.spread == 1.0 else real).astype(scalar)
    factor = np.uint64(0x9E3779B97F4A7C15 if scalar.itemsize == 8 else 0x9E3779B1)
    number = (item * 31 + other).astype(np.uint64) * factor
    return np.asarray(number % np.uint64(2 ** min(63, 8 * scalar.itemsize)) | np.uint64(1)).astype(scalar)


def _rounded_by(operation: Operation, scalar: np.dtype[np.generic]) -> Array:
    """Numbers that a pair of products rounds to others, which it then keeps (but for the sign); a times b is -1."""
    a, b = scalar.type(operation.a), scalar.type(operation.b)
    numbers = np.linspace(1, 1.5, 1 << 13).astype(scalar)
    once = numbers * a * b
    return np.asarray(numbers[(once != -numbers) & (once * a * b == -once)])


def _after(
    operation: Operation, op: str, dtype: str, start: Array, inputs: tuple[Array, Array], pairs: int, wide: int, group: int
) -> Array:
    """The chains after `pairs` pairs of operations: by formula, or by doing them until they repeat themselves."""
    a, b = inputs
    kind, steps = start.dtype.type, 2 * pairs
    if op == "local_load":
        column = start % (4 * group)
        return np.asarray((column + (start // (4 * group) + steps) % ROWS * (4 * group)).astype(kind))
    if op in ("shuffle", "reduce"):
        lane = np.arange(start.shape[0]) % wide
        rows = start.reshape(-1, wide, *start.shape[1:])
        if op == "shuffle":
            return np.asarray(rows[:, (lane[:wide] + steps) % wide].reshape(start.shape))
        most = rows.max(axis=1, keepdims=True) + kind((steps - 1) * (wide - 1) % 2**32)
        return np.asarray((most + lane[:wide, None, None].astype(kind)).reshape(start.shape))
    if op in ("add", "mul") and dtype in SCALARS:
        return np.asarray(_fibonacci(op, start, start + kind(2), pairs))
    if op == "xor":
        return np.asarray(start - kind(2 * pairs * int(b) % 2 ** (8 * start.dtype.itemsize)))
    if op == "convert" and dtype != "half":
        return np.asarray(start + kind(steps))
    if op == "add" and dtype != "half":
        return np.asarray(np.floor(start) + kind(2 * pairs))
    first, second = operation.first, operation.second or operation.first
    few, place = np.unique(start[:STARTS], return_inverse=True)
    for _ in range(min(pairs, HALF_SETTLING_PAIRS if dtype == "half" else SETTLING_PAIRS)):
        few = second(first(few, a, b).astype(kind), a, b).astype(kind)
    return np.resize(few[place], start.shape)


def _fibonacci(op: str, x: Array, y: Array, pairs: int) -> Array:
    """x after `pairs` times x += y, y += x (or *=): y and x count as often as Fibonacci's numbers say, modulo their period."""
    modulus = 2 ** (8 * x.dtype.itemsize)
    of_x, of_y = 1, 0  # of the identity; a pair maps (x, y) to (x + y, x + 2 y)
    p, q, r = 1, 1, 2  # the symmetric matrix of a pair, squared as it goes
    row = (of_x, of_y)
    while pairs:
        if pairs & 1:
            row = (row[0] * p + row[1] * q) % modulus, (row[0] * q + row[1] * r) % modulus
        p, q, r = (p * p + q * q) % modulus, (p * q + q * r) % modulus, (q * q + r * r) % modulus
        pairs >>= 1
    kind = x.dtype.type
    return np.asarray(x * kind(row[0]) + y * kind(row[1]) if op == "add" else _power(x, row[0]) * _power(y, row[1]))


def _power(base: Array, exponent: int) -> Array:
    found = np.ones_like(base)
    while exponent:
        if exponent & 1:
            found = found * base
        base, exponent = base * base, exponent >> 1
    return found


def _mul_hi(x: Array, a: Array) -> Array:
    """The upper half of products."""
    if x.dtype.itemsize == 4:
        return (x.astype(np.uint64) * np.uint64(a) >> np.uint64(32)).astype(np.uint32)
    return np.array([int(one) * int(a) >> 64 for one in x], np.uint64)


def _popcount(x: Array) -> Array:
    return np.array([int(one).bit_count() for one in x], x.dtype)
