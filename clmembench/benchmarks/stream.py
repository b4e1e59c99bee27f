"""B2: bandwidth of global memory by STREAM's operations, and by read, write and dot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks import (
    BANDWIDTH,
    MEMORY_COPIES,
    MEMORY_READS,
    MEMORY_WRITES,
    MIB,
    MIN_PROCESSES_FOR_INTERVAL,
    axis,
    axis_of,
    benchmark,
    headline_bytes,
    work_group_sizes,
)
from clmembench.model import Array, Buffer, Device, DeviceInfo, Headline, Kernel, Launch, Quantity, Skip, Value, Work
from clmembench.resources import kernel_source

SCALAR = 3
OPERATION_CODES = {"copy": 0, "scale": 1, "add": 2, "triad": 3, "write": 4, "dot": 5, "read": 6}
# factors of b, c and 1 in the output of operations that write
EXPECTED_TERMS = {
    "copy": (1, 0, 0),
    "scale": (SCALAR, 0, 0),
    "add": (1, 1, 0),
    "triad": (1, SCALAR, 0),
    "write": (0, 0, SCALAR),
}
ARRAYS_READ = {"copy": 1, "scale": 1, "add": 2, "triad": 2, "write": 0, "dot": 2, "read": 1}
SUM_OPERATIONS = ("dot", "read")
WIDTHS = (1, 2, 4, 8, 16)  # a vector of 3 occupies 4
MAX_INPUT_LEVELS = 1024  # a lower power of two if sums would not be exact
TILES_AT_A_TIME = 4  # tiles that a work-group sums at a time, as in stream.cl
SEEDS = (0x9E3779B9, 0x85EBCA6B)
GROUP_SIZES = (256, 64, 1024)  # work-items; blocks have one work-item, and use only the first entry
FIXED_GROUP_SIZE = 1024  # work-items, for a fixed number of work-groups
CHECKED_ELEMENTS_PER_ITEM = 4  # per work-item that fills or checks an array
HOST_CHECKED_ELEMENTS = 4096  # elements at each end of an array that the host also compares


def input_value(index: Array, seed: int, levels: int) -> Array:
    """The input value at each index, as stream.cl computes it: a whole number from 1 to `levels`. Shape of `index`."""
    i = index.astype(np.uint64)
    h = ((i ^ (i >> np.uint64(32))).astype(np.uint32) * np.uint32(2654435761)) ^ np.uint32(seed)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    return (h ^ (h >> np.uint32(13))) % np.uint32(levels) + np.uint32(1)


def _where(
    info: DeviceInfo, op: str, array_bytes: int, dtype: str, order: str, nontemporal: int, width: int, work_group: int
) -> bool:
    sums = op in SUM_OPERATIONS
    if sums != (order != "item") or (sums and nontemporal):
        return False
    # the group has one work-item: the axis has no meaning
    return not (order == "blocked" and work_group != _group_sizes(info)[0])


def _in_default_subset(info: DeviceInfo, op: str, array_bytes: int, dtype: str, order: str, **_: Value) -> bool:
    """Points of the default subset: every operation over the largest arrays, one writing and one reading over smaller ones.

    Sums use the order that suits the device: a core needs one contiguous block (the other order reached 0.03 to 0.8 of its
    bandwidth), and neighbouring work-items of a GPU need neighbouring addresses.
    """
    if order == ("tiled" if info.has_cpu_cores else "blocked"):
        return False
    return array_bytes == headline_bytes(info) or (op in ("triad", "read") and dtype == "double")


def _store_kinds(info: DeviceInfo) -> tuple[int, ...]:
    """Kinds of stores; the search for the best configuration starts with the first one.

    On CPUs this is non-temporal stores with vectors. Either of them alone is often no better than neither, since runtimes do
    not vectorise non-temporal stores, so that a search from neither would not find both.
    """
    return (1, 0) if info.has_cpu_cores else (0, 1)


def _widths(info: DeviceInfo) -> tuple[int, ...]:
    """Widths of vectors: on CPUs first a cache line of doubles.

    On GPUs they begin with the 16 bytes that a work-item can load at once, with more for sums.
    """
    return (8, 4) if info.has_cpu_cores else (2, 4, 1)


def _group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    return work_group_sizes(info, *(GROUP_SIZES[:2] if info.has_cpu_cores else GROUP_SIZES))


def _array_sizes(info: DeviceInfo) -> tuple[int, ...]:
    largest = headline_bytes(info)
    return (largest, *(size for size in (MIB, 16 * MIB) if size < largest))


def _scaling_point(info: DeviceInfo) -> dict[str, Value]:
    point: dict[str, Value] = {
        "op": "triad",
        "dtype": "double" if "fp64" in info.features else "float",
        "array_bytes": headline_bytes(info),
    }
    # large work-groups if their number is fixed: a compute unit has only one
    return point if info.work_groups is None else {**point, "work_group": work_group_sizes(info, FIXED_GROUP_SIZE)[0]}


@benchmark(
    BANDWIDTH,
    suite="memory",
    source="McCalpin's STREAM; Razzaq et al. 2016, section IV-A2 (B2)",
    quick={
        "op": axis("copy", "triad", "read"),
        "dtype": axis_of(lambda info: ("double",) if "fp64" in info.features else ("float",)),
        "array_bytes": axis_of(lambda info: (headline_bytes(info),)),
        "width": axis_of(lambda info: _widths(info)[:1] if info.has_cpu_cores else _widths(info)[:2], tuning=True),
        "work_group": axis_of(lambda info: _group_sizes(info)[:1], tuning=True),
    },
    where=_where,
    default_subset=_in_default_subset,
    headlines=[
        Headline(
            "bandwidth",
            f"memory {op}, {dtype}",
            "bandwidth",
            {"op": op, "dtype": dtype},
            {"array_bytes": "largest"},
            beyond_caches="array_bytes",
        )
        for op, dtype in (("copy", "double"), ("triad", "double"), ("read", "double"), ("copy", "float"))
    ],
    quantities=[
        Quantity(name, "bandwidth", {"op": ops}, largest="array_bytes", beyond_caches=True)
        for name, ops in ((MEMORY_READS, SUM_OPERATIONS), (MEMORY_WRITES, ("write",)), (MEMORY_COPIES, ("copy",)))
    ],
    figure_axis="array_bytes",
    scaling=_scaling_point,
    # physical pages decide which lines caches hold
    processes=lambda info, array_bytes, **_: MIN_PROCESSES_FOR_INTERVAL if array_bytes < headline_bytes(info) else 1,
    op=axis(*OPERATION_CODES),
    dtype=axis("double", "float", needs={"double": ["fp64"]}),
    array_bytes=axis_of(_array_sizes),
    order=axis("item", "blocked", "tiled", tuning=True),
    nontemporal=axis_of(_store_kinds, needs={1: ["nontemporal"]}, tuning=True),
    width=axis_of(_widths, tuning=True),
    work_group=axis_of(_group_sizes, tuning=True),
)
def stream(
    device: Device, op: str, dtype: str, array_bytes: int, order: str, nontemporal: int, width: int, work_group: int
) -> Work:
    """Bandwidth of global memory: copy, scale, add, triad, write, dot and read.

    The largest arrays exceed every cache; smaller ones show the bandwidth of caches. Bytes are counted as in STREAM: every
    array read or written once, without write-allocate. Results are compared exactly, element by element on the device and at
    both ends by the host. Raises Skip for a width that OpenCL C does not have, a work-group over the device's largest, and
    sizes that cannot be verified.
    """
    if width not in WIDTHS:
        raise Skip(f"OpenCL C has no packed vector of {width}: choose from {', '.join(map(str, WIDTHS))}")
    if order != "blocked" and work_group > device.info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {device.info.max_work_group}")
    scalar = np.dtype("f8" if dtype == "double" else "f4")
    elements = array_bytes // scalar.itemsize // (width * work_group) * (width * work_group)
    if elements == 0:
        raise Skip(f"{array_bytes} B are fewer than one work-group of {work_group} vectors of {width} {dtype}")
    group, vectors = 1 if order == "blocked" else work_group, elements // width
    items = sum_items(device.info, order == "blocked", group, vectors)
    lanes, sums = items * width, op in SUM_OPERATIONS
    additions = elements // lanes + TILES_AT_A_TIME  # at most, per lane
    if sums and additions > 2 ** (np.finfo(scalar).nmant + 1):
        raise Skip(f"{additions} additions per lane are not exact in {dtype}: lower --size")
    common: dict[str, Value] = {"T": dtype, "FP64": 1} if dtype == "double" else {"T": dtype}
    kernels = device.build(
        kernel_source("stream"),
        V=dtype if width == 1 else f"{dtype}{width}",
        OP=OPERATION_CODES[op],
        NONTEMPORAL=nontemporal,
        BLOCKED=order == "blocked",
        LOOP=device.info.work_groups is not None,
        **common,
    )
    levels = _exact_levels(scalar, additions) if sums else MAX_INPUT_LEVELS
    arrays = _StreamArrays(device, device.build(kernel_source("stream"), **common), scalar, elements, levels)
    inputs = [arrays.filled(number) for number in range(ARRAYS_READ[op])]
    # reused from point to point: touching new pages took most of a short point's time
    out = device.alloc(lanes * scalar.itemsize) if sums else device.kept("stream a", elements * scalar.itemsize)
    b, c = (inputs[0], inputs[-1]) if inputs else (out, out)
    if sums:
        launch = Launch(kernels["reduce"], (b, c, out, np.uint64(vectors)), (items,), (group,))
    else:
        shape = ((vectors if device.info.work_groups is None else items,), (group,))
        launch = Launch(kernels["stream"], (out, b, c, scalar.type(SCALAR), np.uint64(vectors)), *shape)
    return Work(
        commands=(launch,),
        nbytes=(ARRAYS_READ[op] + (not sums)) * elements * scalar.itemsize,
        flops={"copy": 0, "write": 0, "scale": 1, "add": 1, "triad": 2, "dot": 2, "read": 1}[op] * elements,
        outputs=((out, (lanes if sums else elements) * scalar.itemsize),),
        check=arrays.sum_check(op, inputs, out, lanes) if sums else arrays.check(op, out),
    )


def sum_items(info: DeviceInfo, blocked: bool, group: int, vectors: int) -> int:
    """Work-items of a sum: a few blocks per compute unit, or enough neighbours to fill a GPU."""
    if info.work_groups is not None:
        return info.work_groups * group
    most = min(info.compute_units * 4, vectors) if blocked else min(info.compute_units * 2048, vectors // TILES_AT_A_TIME)
    return max(group, most // group * group)


def _exact_levels(scalar: np.dtype[np.generic], additions: int) -> int:
    """The number of input levels, a power of two, that keeps a lane's sum of products exact: at most 2**24 in float, 2**53 in
    double."""
    largest = (2**24 if scalar.itemsize == 4 else 2**53) // max(1, additions)
    return min(MAX_INPUT_LEVELS, 1 << max(1, int(largest**0.5).bit_length() - 1))


@dataclass(frozen=True, slots=True)
class _StreamArrays:
    """The inputs b and c, whose elements follow a formula, and the outputs expected by that formula."""

    device: Device
    kernels: Mapping[str, Kernel]
    scalar: np.dtype[np.generic]
    elements: int
    levels: int

    def filled(self, number: int) -> Buffer:
        """Input 0, which is b, or 1, which is c."""
        buffer = self.device.kept(f"stream {'bc'[number]}", self.elements * self.scalar.itemsize)
        args = (buffer, np.uint64(self.elements), self._seeds()[number], np.uint32(self.levels))
        self.device.run([Launch(self.kernels["init"], args, self._eights())])
        return buffer

    def check(self, op: str, out: Buffer) -> Callable[[], None]:
        """Compares every element of the output on the device, and both ends by the host."""
        wrong = self.device.alloc(4)
        times_b, times_c, plus = (np.uint32(times) for times in EXPECTED_TERMS[op])

        def check() -> None:
            self.device.upload(wrong, np.zeros(1, np.uint32))
            terms = (*self._seeds(), np.uint32(self.levels), times_b, times_c, plus)
            self.device.run([Launch(self.kernels["verify"], (out, np.uint64(self.elements), *terms, wrong), self._eights())])
            count = int(self.device.download(wrong, np.uint32, 1)[0])
            assert count == 0, f"{count} of {self.elements} elements of {op} are wrong"
            # the host compares both ends, so that the device does not only check itself
            for first, b, c, stored in self._ends(out):
                same = np.array_equal(stored, (times_b * b + times_c * c + plus).astype(self.scalar))
                assert same, f"{op} from element {first} on is wrong, as the host sees it"

        return check

    def _ends(self, buffer: Buffer) -> Iterator[tuple[int, Array, Array, Array]]:
        """For both ends of an array: the first element, both inputs by the formula, and the contents of the array."""
        size = min(HOST_CHECKED_ELEMENTS, self.elements)
        for first in (0, self.elements - size):
            b, c = (input_value(np.arange(first, first + size), int(seed), self.levels) for seed in self._seeds())
            yield first, b, c, self.device.download(buffer, self.scalar, size, first * self.scalar.itemsize)

    def sum_check(self, op: str, inputs: Sequence[Buffer], out: Buffer, lanes: int) -> Callable[[], None]:
        """Compares the sum over all lanes with the integer sum of the formula, and both ends of the inputs by the host.

        If all elements were equal, the sum would hide that one was read in place of another, so elements follow a formula.
        """
        expected: list[int] = []

        def check() -> None:
            for number, buffer in enumerate(inputs):
                for first, b, c, stored in self._ends(buffer):
                    same = np.array_equal(stored, (c if number else b).astype(self.scalar))
                    assert same, f"input {'bc'[number]} from element {first} on is wrong, as the host sees it"
            if not expected:
                items = min(self.elements, self.device.info.compute_units * 1024)
                partial = self.device.alloc(8 * items)
                args = (partial, *self._seeds(), np.uint32(self.levels), np.uint32(op == "dot"), np.uint64(self.elements))
                self.device.run([Launch(self.kernels["expect"], args, (items,))])
                expected.append(int(self.device.download(partial, np.uint64, items).sum()))
            total = int(self.device.download(out, self.scalar, lanes).astype(np.float64).sum())
            assert total == expected[0], f"the sum of {op} is {total}, not {expected[0]}"

        return check

    def _seeds(self) -> tuple[np.uint32, np.uint32]:
        """Seeds of the two inputs in this process."""
        b, c = (np.uint32((seed + self.device.seed) % 2**32) for seed in SEEDS)
        return b, c

    def _eights(self) -> tuple[int]:
        return (-(-self.elements // CHECKED_ELEMENTS_PER_ITEM),)
