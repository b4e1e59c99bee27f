"""Lists SYCL devices of every backend and reads their drivers' claims; part of the SYCL runtime."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from typing import Any, Literal

from clmembench.model import DeviceInfo
from clmembench.runtimes.hardware import cpu_id, listed
from clmembench.runtimes.sycl.library import dpctl

_ASPECTS = {
    "fp64": "fp64",
    "fp16": "fp16",
    "atomic64": "int64_atomics",
    "usm_shared_allocations": "usm_shared",
    "usm_host_allocations": "usm_host",
}
_KINDS: dict[str, Literal["gpu", "cpu", "accelerator"]] = {"gpu": "gpu", "cpu": "cpu"}


@cache
def installed_devices() -> list[tuple[DeviceInfo, Any]]:
    """(info, handle) of every usable SYCL device, GPUs before accelerators before CPUs. Raises ImportError without dpctl.

    A usable device can allocate device memory by pointers (USM). On others, such as PoCL's, kernels of OpenCL C cannot be given
    arguments: SYCL's buffers cannot be passed to them.
    """
    usable = [handle for handle in dpctl().get_devices() if handle.has_aspect_usm_device_allocations]
    return listed([(describe(handle), handle) for handle in usable])


def describe(handle: Any) -> DeviceInfo:
    """The driver's claims about a device, as far as SYCL reports them."""
    platform = handle.sycl_platform
    kind = _KINDS.get(handle.device_type.name, "accelerator")
    features = {short for aspect, short in _ASPECTS.items() if getattr(handle, f"has_aspect_{aspect}")}
    sub_groups = sorted(handle.sub_group_sizes)
    if sub_groups and sub_groups[-1] > 1:
        features.add("sub_groups")
    name, pci, uuid = re.sub(r"\s+", " ", handle.name.strip()), *_address(handle)
    made = hashlib.sha256(f"sycl|{platform.name}|{name}|{pci or handle.filter_string}".encode()).hexdigest()[:32]
    return DeviceInfo(
        id=made,
        name=name,
        platform=f"SYCL ({platform.name.strip()})",
        vendor=handle.vendor.strip(),
        kind=kind,
        driver=handle.driver_version.strip(),
        version=f"SYCL by dpctl {dpctl().__version__}, {platform.version.strip()}",
        compute_units=handle.max_compute_units,
        global_mem_bytes=handle.global_mem_size,
        max_alloc_bytes=handle.max_mem_alloc_size,
        local_mem_bytes=handle.local_mem_size,
        max_work_group=handle.max_work_group_size,
        line_bytes=handle.global_mem_cache_line_size,
        cache_bytes=handle.global_mem_cache_size,
        max_clock_mhz=handle.max_clock_frequency,
        timer_resolution_ns=handle.profiling_timer_resolution,
        shares_host_memory=kind == "cpu",  # SYCL 2020 does not report it for other devices
        host_mem_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        features=frozenset(features),
        selector=f"sycl:{handle.filter_string}",
        uuid=uuid or made,
        pci=pci,
        cpu_id=cpu_id() if kind == "cpu" else "",
        sub_group_items=sub_groups[0] if len(sub_groups) == 1 else 0,
        runtime="sycl",
    )


def _address(handle: Any) -> tuple[str, str]:
    """PCI address and UUID of a device, "" where dpctl cannot query them."""
    try:
        from dpctl.utils import intel_device_info

        known = intel_device_info(handle)
    except (ImportError, RuntimeError, TypeError):
        return "", ""
    return str(known.get("pci_address", "")).lower(), str(known.get("uuid", "")).replace("-", "").lower()
