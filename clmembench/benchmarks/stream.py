"""B2: bandwidth of global memory by STREAM's operations, and read, write and dot beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from clmembench.benchmarks import AFRESH, BANDWIDTH, MIB, axis, axis_of, benchmark, headline_bytes
from clmembench.data import kernel_source
from clmembench.model import Array, Buffer, Device, DeviceInfo, Kernel, Launch, Skip, Value, Work

OPS = {"copy": 0, "scale": 1, "add": 2, "triad": 3, "write": 4, "dot": 5, "read": 6}
READS = {"copy": 1, "scale": 1, "add": 2, "triad": 2, "write": 0, "dot": 2, "read": 1}  # arrays read
SUMS = ("dot", "read")
WIDTHS = (1, 2, 4, 8, 16)  # a vector of 3 takes the room of 4
SCALAR = 3
SEEDS = (0x9E3779B9, 0x85EBCA6B)
HELD_GROUP = 1024  # work-items of a work-group where their number is fixed
LARGE = 16 * MIB  # bytes of an array from which the launch's idle ends are little
WINDOW = 4096  # elements that the host compares by itself at each end of an array


def value(index: Array, seed: int, levels: int) -> Array:
    """The input value at each index, as stream.cl computes it: a whole number below `levels`. Shape of `index`."""
    i = index.astype(np.uint64)
    h = ((i ^ (i >> np.uint64(32))).astype(np.uint32) * np.uint32(2654435761)) ^ np.uint32(seed)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    return (h ^ (h >> np.uint32(13))) % np.uint32(levels)


def _where(
    info: DeviceInfo, op: str, array_bytes: int, dtype: str, order: str, nontemporal: int, width: int, work_group: int
) -> bool:
    sums = op in SUMS
    if sums != (order != "item") or (sums and nontemporal):
        return False
    # one work-item a group: its size has no meaning
    return not (order == "blocked" and (work_group != 64 or width > 4))


def _thin(info: DeviceInfo, op: str, array_bytes: int, dtype: str, **_: Value) -> bool:
    """Every operation over the largest arrays, and one that writes and one that reads over smaller ones."""
    return array_bytes == headline_bytes(info) or (op in ("triad", "read") and dtype == "double")


def _orders(info: DeviceInfo) -> tuple[str, ...]:
    """The likely winner first: a core wants one contiguous block, a GPU's neighbours want neighbouring addresses."""
    return ("item", "blocked", "strided") if info.kind == "cpu" else ("item", "strided", "blocked")


def _stores(info: DeviceInfo) -> tuple[int, ...]:
    """The search for the best begins with the first: on CPUs non-temporal stores and, below, vectors. Either alone is often no
    better than neither, since runtimes do not vectorise non-temporal stores, so a search from neither would not get there."""
    return (1, 0) if info.kind == "cpu" else (0, 1)


def _widths(info: DeviceInfo) -> tuple[int, ...]:
    return (4, 1, 8) if info.kind == "cpu" else (1, 2, 4)


def _sizes(info: DeviceInfo) -> tuple[int, ...]:
    largest = headline_bytes(info)
    return (largest, *(size for size in (MIB, 16 * MIB) if size < largest))


def _scaling(info: DeviceInfo) -> dict[str, Value]:
    point: dict[str, Value] = {
        "op": "triad",
        "dtype": "double" if "fp64" in info.features else "float",
        "array_bytes": headline_bytes(info),
    }
    # where the number of work-groups is fixed, large ones: a compute unit is to have one
    return point if info.work_groups is None else {**point, "work_group": min(HELD_GROUP, info.max_work_group)}


@benchmark(
    BANDWIDTH,
    suite="memory",
    source="McCalpin's STREAM; Razzaq et al. 2016, section IV-A2 (B2)",
    quick={
        "op": axis("copy", "triad", "read"),
        "dtype": axis_of(lambda info: ("double",) if "fp64" in info.features else ("float",)),
        "array_bytes": axis_of(lambda info: (headline_bytes(info),)),
        "order": axis_of(lambda info: _orders(info)[:2], tuning=True),
        "width": axis_of(lambda info: _widths(info)[:2], tuning=True),
        "work_group": axis(256, 64, tuning=True),  # 64 is also what blocks ask for, see _where
    },
    where=_where,
    thin=_thin,
    x="array_bytes",
    scaling=_scaling,
    processes=lambda info, array_bytes, **_: AFRESH if array_bytes < headline_bytes(info) else 1,  # what caches decide
    op=axis(*OPS),
    dtype=axis("double", "float", needs={"double": ["fp64"]}),
    array_bytes=axis_of(_sizes),
    order=axis_of(_orders, tuning=True),
    nontemporal=axis_of(_stores, needs={1: ["nontemporal"]}, tuning=True),
    width=axis_of(_widths, tuning=True),
    work_group=axis(256, 64, 1024, tuning=True),
)
def stream(
    device: Device, op: str, dtype: str, array_bytes: int, order: str, nontemporal: int, width: int, work_group: int
) -> Work:
    """Bandwidth of global memory: copy, scale, add, triad, write, dot and read.

    The largest arrays are too large for any cache; smaller ones show what caches give.
    Bytes are counted as STREAM does: every array read or written once, no write-allocate. Results are compared exactly, on the
    device element by element and by the host at both ends. Raises Skip for a width that is none of OpenCL C's, a
    work-group over the device's largest, and sizes that cannot be verified.
    """
    if width not in WIDTHS:
        raise Skip(f"OpenCL C has no vector of {width} that is packed: choose from {', '.join(map(str, WIDTHS))}")
    if order != "blocked" and work_group > device.info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {device.info.max_work_group}")
    scalar = np.dtype("f8" if dtype == "double" else "f4")
    elements = array_bytes // scalar.itemsize // (width * work_group) * (width * work_group)
    order_defines = {"FP64": 1} if dtype == "double" else {}
    kernels = device.build(
        kernel_source("stream"),
        T=dtype,
        V=dtype if width == 1 else f"{dtype}{width}",
        OP=OPS[op],
        NONTEMPORAL=nontemporal,
        BLOCKED=order == "blocked",
        LOOP=device.info.work_groups is not None,
        **order_defines,
    )
    group, vectors = 1 if order == "blocked" else work_group, elements // width
    items = _items(device, order, group, vectors)
    levels = 1024 if op not in SUMS else _exact_levels(scalar, elements // (items * width))
    if elements == 0:
        raise Skip(f"{array_bytes} B hold no work-group of {work_group} vectors of {width} {dtype}")
    if op in SUMS and elements // (items * width) > 2 ** (np.finfo(scalar).nmant + 1):
        raise Skip(f"{elements // (items * width)} additions a lane are not exact in {dtype}: lower --size")
    inputs = [device.alloc(elements * scalar.itemsize) for _ in range(READS[op])]
    for buffer, seed in zip(inputs, _seeds(device), strict=False):
        device.run([Launch(kernels["init"], (buffer, np.uint32(seed), np.uint32(levels)), (elements,))])
    b = inputs[0] if inputs else None
    c = inputs[-1] if inputs else None
    if op in SUMS:
        out = device.alloc(items * width * scalar.itemsize)
        launch = Launch(kernels["reduce"], (b, c, out, np.uint64(vectors)), (items,), (group,))
        check = _check_sum(device, kernels, op, out, items * width, elements, levels, scalar)
    else:
        out = device.alloc(elements * scalar.itemsize)
        shape = ((vectors if device.info.work_groups is None else items,), (group,))
        launch = Launch(kernels["stream"], (out, b or out, c or out, scalar.type(SCALAR), np.uint64(vectors)), *shape)
        check = _check_elements(device, kernels, op, out, elements, levels, scalar)
    arrays = READS[op] + (op not in SUMS)
    return Work(
        commands=(launch,),
        nbytes=arrays * elements * scalar.itemsize,
        flops={"copy": 0, "write": 0, "scale": 1, "add": 1, "triad": 2, "dot": 2, "read": 1}[op] * elements,
        outputs=((out, items * width * scalar.itemsize if op in SUMS else elements * scalar.itemsize),),
        check=check,
        busy=device.info.compute_units if device.info.kind == "cpu" and array_bytes >= LARGE else 0,
    )


def _seeds(device: Device) -> tuple[int, int]:
    """Of the two inputs, in this process."""
    return tuple((seed + device.seed) % 2**32 for seed in SEEDS)  # type: ignore[return-value]


def _items(device: Device, order: str, group: int, vectors: int) -> int:
    """Work-items of a sum: a few blocks a compute unit, or enough neighbours to fill a GPU."""
    if device.info.work_groups is not None:
        return device.info.work_groups * group
    each = 4 if order == "blocked" else 2048
    return max(group, min(device.info.compute_units * each, vectors) // group * group)


def _exact_levels(scalar: np.dtype[np.generic], additions: int) -> int:
    """How many input levels keep a lane's sum of products exact: at most 2**24 in float, 2**53 in double."""
    largest = (2**24 if scalar.itemsize == 4 else 2**53) // max(1, additions)
    return int(min(1024, max(2, int(largest**0.5))))


def _check_elements(
    device: Device,
    kernels: Mapping[str, Kernel],
    op: str,
    out: Buffer,
    elements: int,
    levels: int,
    scalar: np.dtype[np.generic],
) -> Callable[[], None]:
    wrong = device.alloc(4)

    def check() -> None:
        device.upload(wrong, np.zeros(1, np.uint32))
        first, second = _seeds(device)
        seeds = [np.uint32(first), np.uint32(second if READS[op] > 1 else first)]
        verify = kernels["verify"]
        device.run([Launch(verify, (out, *seeds, np.uint32(levels), np.uint32(SCALAR), wrong), (elements,))])
        count = int(device.download(wrong, np.uint32, 1)[0])
        assert count == 0, f"{count} of {elements} elements of {op} are wrong"
        # the device's own word is not enough: look at both ends from the host
        size = min(WINDOW, elements)
        for first in (0, elements - size):
            index = np.arange(first, first + size)
            b, c = (value(index, int(seed), levels).astype(scalar) for seed in seeds)
            want = {"copy": b, "scale": SCALAR * b, "add": b + c, "triad": b + SCALAR * c, "write": 0 * b + SCALAR}[op]
            found = device.download(out, scalar, size, first * scalar.itemsize)
            assert np.array_equal(found, want), f"{op} from element {first} on is wrong, as the host sees it"

    return check


def _check_sum(
    device: Device,
    kernels: Mapping[str, Kernel],
    op: str,
    out: Buffer,
    lanes: int,
    elements: int,
    levels: int,
    scalar: np.dtype[np.generic],
) -> Callable[[], None]:
    expected: list[int] = []

    def check() -> None:
        if not expected:
            items = min(elements, device.info.compute_units * 1024)
            partial = device.alloc(8 * items)
            seeds = [np.uint32(seed) for seed in _seeds(device)]
            args = (partial, *seeds, np.uint32(levels), np.uint64(elements))
            device.run([Launch(kernels["expect"], args, (items,))])
            expected.append(int(device.download(partial, np.uint64, items).sum()))
        found = int(device.download(out, scalar, lanes).astype(np.float64).sum())
        assert found == expected[0], f"the sum of {op} is {found}, not {expected[0]}"

    return check
