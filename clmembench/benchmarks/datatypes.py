"""Throughput of global memory by the data type of the elements that a work-item copies, and of the runtime's own copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clmembench.benchmarks import (
    BANDWIDTH,
    MEMORY_COPIES,
    axis,
    axis_of,
    benchmark,
    work_group_sizes,
)
from clmembench.benchmarks.copy_check import copy_array_bytes, prepare_copy, store_kinds
from clmembench.model import Command, Copy, Device, DeviceInfo, Launch, Quantity, Skip, Value, Work
from clmembench.resources import kernel_source

SCALAR_BYTES = {"char": 1, "short": 2, "int": 4, "float": 4, "double": 8}  # bytes
VECTOR_WIDTHS = {"char": (1, 2, 4, 8, 16), "short": (1, 2, 4), "int": (1, 2, 4), "float": (1, 2, 4), "double": (1, 2, 4)}
TYPE_BYTES = {f"{name}{w if w > 1 else ''}": w * SCALAR_BYTES[name] for name, widths in VECTOR_WIDTHS.items() for w in widths}
DEVICE_COPY = "device_copy"
DOUBLE_FEATURES: dict[Value, list[str]] = {t: ["fp64"] for t in TYPE_BYTES if t.startswith("double")}
GROUP_SIZES = (256, 64, 1024)
CPU_TYPES = ("char", "char4", "short", "int", "float", "float4", "double", "double4")
ELEMENTS_PER_ITEM = (1, 4)
MIN_NONTEMPORAL_BYTES = 16  # the narrowest vector that CPUs store past their caches


def _types(info: DeviceInfo) -> tuple[str, ...]:
    """All types; on CPUs only some, since their compilers vectorise all of them."""
    return (*(TYPE_BYTES if not info.has_cpu_cores else CPU_TYPES), DEVICE_COPY)


def _where(info: DeviceInfo, dtype: str, array_bytes: int, work_group: int, elements: int, nontemporal: int) -> bool:
    # the runtime's copy has no configurable work-groups and stores
    if dtype == DEVICE_COPY:
        return work_group == work_group_sizes(info, *GROUP_SIZES)[0] and elements == ELEMENTS_PER_ITEM[0] and not nontemporal
    # compilers do not vectorise non-temporal stores
    return not nontemporal or TYPE_BYTES.get(dtype, 1) >= MIN_NONTEMPORAL_BYTES


@benchmark(
    BANDWIDTH,
    suite="access",
    source="Fang et al. 2017, section 6.3 (table 4)",
    where=_where,
    quantities=(
        Quantity(MEMORY_COPIES, "bandwidth", {"dtype": tuple(TYPE_BYTES)}, largest="array_bytes", beyond_caches=True),
        Quantity(
            MEMORY_COPIES,
            "bandwidth",
            {"dtype": (DEVICE_COPY,)},
            largest="array_bytes",
            beyond_caches=True,
            limit="the runtime's own copy, as its driver does it",
            least_share=0.5,
        ),
    ),
    dtype=replace(axis_of(_types, needs=DOUBLE_FEATURES), accepts=TYPE_BYTES.__contains__),
    array_bytes=axis_of(lambda info: (copy_array_bytes(info),)),
    work_group=axis_of(lambda info: work_group_sizes(info, *GROUP_SIZES), tuning=True),
    elements=axis(*ELEMENTS_PER_ITEM, tuning=True),
    nontemporal=axis_of(store_kinds, needs={1: ["nontemporal"]}, tuning=True),
    version=2,
)
def datatypes(device: Device, dtype: str, array_bytes: int, work_group: int, elements: int = 1, nontemporal: int = 0) -> Work:
    """Throughput of a copy in global memory by data type, each in its best configuration, and of the runtime's own copy.

    A work-item copies one element, or `elements` of them that are one work-group's size apart. `device_copy` is the runtime's
    copy between two buffers. On CPUs vectors are also stored past the caches. All types move the same array, rounded down to
    whole elements. Bytes read and bytes written are counted. Every byte is compared after the copy. Raises Skip for a
    work-group over the device's largest, and if the array is smaller than one element.
    """
    size = TYPE_BYTES.get(dtype, 1)
    count = array_bytes // size
    if not count:
        raise Skip(f"{array_bytes} B are fewer than one {dtype}: raise --size")
    if dtype != DEVICE_COPY and work_group > device.info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {device.info.max_work_group}")
    source, target, check = prepare_copy(device, count * size)
    command: Command = Copy(target, source, count * size)
    if dtype != DEVICE_COPY:
        options: dict[str, Value] = {"T": dtype, "ELEMENTS": elements, "NONTEMPORAL": nontemporal}
        options |= {"FP64": 1} if dtype.startswith("double") else {}
        kernel = device.build(kernel_source("datatypes"), **options)["copy_elements"]
        items = -(-count // (work_group * elements)) * work_group
        command = Launch(kernel, (source, target, np.uint64(count)), (items,), (work_group,))
    return Work(
        commands=(command,),
        nbytes=2 * count * size,
        outputs=((target, count * size),),
        check=check,
    )
