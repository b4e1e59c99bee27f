"""Checks that every runtime makes before it calls a driver: sizes of buffers, host arrays, local memory and work-groups."""

from __future__ import annotations

import numpy as np

from clmembench.model import Array, DeviceError, DeviceInfo, Launch, Local


def unusable_claim(info: DeviceInfo) -> str:
    """The reason why nothing can be measured on a device with such claims; empty if something can."""
    for claim, number in (
        ("allocate at most", info.max_alloc_bytes),
        ("have a memory of", info.global_mem_bytes),
    ):
        if number < 1:
            return f"its driver claims to {claim} {number} B"
    for claim, number in (("compute units", info.compute_units), ("work-items in a work-group, at most", info.max_work_group)):
        if number < 1:
            return f"its driver claims {number} {claim}"
    return ""


def check_buffer(info: DeviceInfo, nbytes: int) -> None:
    """Raises DeviceError for a buffer over the device's largest, with the sizes, before the driver allocates anything."""
    limit = info.max_alloc_bytes
    if nbytes > limit:
        raise DeviceError(
            f"a buffer of {nbytes / 2**30:.2f} GiB is over this device's largest, {limit / 2**30:.2f} GiB: lower --size (or -a)"
        )


def check_shape(info: DeviceInfo, launch: Launch) -> None:
    """Raises DeviceError for local memory or work-groups over the device's limits.

    Some drivers report no error for these: they crash, or continue.
    """
    local = sum(a.nbytes for a in launch.args if isinstance(a, Local))
    if local > info.local_mem_bytes:
        raise DeviceError(f"{local} B of local memory for a work-group is over this device's {info.local_mem_bytes} B")
    items = int(np.prod(launch.local_size)) if launch.local_size else 1
    if items > info.max_work_group:
        raise DeviceError(f"a work-group of {items} is over this device's {info.max_work_group} work-items")


def host_address(array: Array, nbytes: int) -> int:
    """The address of a host array.

    Raises ValueError where it is not `nbytes` of contiguous memory: a driver would access memory beyond it.
    """
    if not array.flags.c_contiguous or array.nbytes < nbytes:
        raise ValueError(f"a host array of {array.nbytes} B is not {nbytes} B of contiguous memory")
    return int(array.ctypes.data)
