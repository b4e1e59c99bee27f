"""Lists OpenCL devices and reads what their drivers claim; part of the OpenCL runtime."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyopencl as cl

from clmembench.model import DeviceInfo
from clmembench.runtimes.host_cpu import cpu_id

_UUID_KHR = 0x106A  # cl_khr_device_uuid; pyopencl has no name for it
_FEATURES = {
    "cl_khr_fp64": "fp64",
    "cl_khr_fp16": "fp16",
    "cl_khr_int64_base_atomics": "int64_atomics",
    "cl_khr_subgroups": "sub_groups",
    "cl_khr_kernel_clock": "kernel_clock",
    "cl_nv_device_attribute_query": "nvidia",
}
_LOCAL_MEM_TYPES: dict[int, Literal["local", "global"]] = {
    cl.device_local_mem_type.LOCAL: "local",
    cl.device_local_mem_type.GLOBAL: "global",
}
_PLATFORM_NOT_FOUND = -1001
_SIMULATORS = ("Oclgrind",)  # platforms that interpret kernels to look for faults


@cache
def installed_platforms() -> list[tuple[DeviceInfo, Any]]:
    """(info, handle) of every device, each once, GPUs before accelerators before CPUs; empty where there is no OpenCL.

    Simulators are not among them, nor counted where platforms are numbered: how long they take says nothing of any device.
    """
    return _described([platform for platform in _platforms() if platform.name.strip() not in _SIMULATORS])


@cache
def simulator_devices() -> list[tuple[DeviceInfo, Any]]:
    """(info, handle) of every device that is none, for checking kernels; empty where no simulator is installed."""
    return _described([platform for platform in _platforms() if platform.name.strip() in _SIMULATORS])


def _platforms() -> list[Any]:
    try:
        return list(cl.get_platforms())
    except cl.LogicError as error:
        if error.code == _PLATFORM_NOT_FOUND:
            return []
        raise


def _described(platforms: Sequence[Any]) -> list[tuple[DeviceInfo, Any]]:
    found: dict[tuple[str, str, str], tuple[DeviceInfo, Any]] = {}
    for p, platform in enumerate(platforms):
        try:
            devices = platform.get_devices()
        except cl.Error:  # a platform whose hardware is absent says so by an error
            continue
        for d, device in enumerate(devices):
            info = describe(device, f"{p}:{d}", d)
            # the same driver can be registered twice, under two loaders' folders
            found.setdefault((info.uuid, info.driver, info.name), (info, device))
    rank = {"gpu": 0, "accelerator": 1, "cpu": 2}
    return sorted(found.values(), key=lambda f: (rank[f[0].kind], f[0].shares_host_memory))


def describe(device: Any, selector: str, ordinal: int) -> DeviceInfo:
    """Claims of the driver about a device. The uuid is the driver's where it has one, else made of names and place."""
    kinds: dict[int, Literal["gpu", "cpu", "accelerator"]] = {
        cl.device_type.GPU: "gpu",
        cl.device_type.CPU: "cpu",
        cl.device_type.ACCELERATOR: "accelerator",
    }
    extensions = set(device.extensions.split())
    features = {short for extension, short in _FEATURES.items() if extension in extensions}
    if device.image_support:
        features.add("images")
    platform, pci = device.platform.name.strip(), _pci(device)
    uuid = _uuid(device) if "cl_khr_device_uuid" in extensions else ""
    made = hashlib.sha256(f"{platform}|{device.name}|{pci or ordinal}".encode()).hexdigest()[:32]
    kind = kinds.get(device.type & ~cl.device_type.DEFAULT, "accelerator")
    return DeviceInfo(
        id=uuid or made,
        name=re.sub(r"\s+", " ", device.name.strip()),
        platform=platform,
        vendor=device.vendor.strip(),
        kind=kind,
        driver=device.driver_version.strip(),
        version=device.version.strip(),
        compute_units=device.max_compute_units,
        global_mem_bytes=device.global_mem_size,
        max_alloc_bytes=device.max_mem_alloc_size,
        local_mem_bytes=device.local_mem_size,
        max_work_group=device.max_work_group_size,
        line_bytes=device.global_mem_cacheline_size,
        cache_bytes=device.global_mem_cache_size,
        max_clock_mhz=device.max_clock_frequency,
        timer_resolution_ns=device.profiling_timer_resolution,
        shares_host_memory=bool(device.host_unified_memory),
        host_mem_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        features=frozenset(features),
        selector=selector,
        uuid=uuid or made,
        pci=pci,
        cpu_id=cpu_id() if kind == "cpu" else "",
        constant_bytes=device.max_constant_buffer_size,
        image_width=device.image2d_max_width if device.image_support else 0,
        image_height=device.image2d_max_height if device.image_support else 0,
        image_buffer_texels=device.image_max_buffer_size if device.image_support else 0,
        sub_group_items=_sub_group_items(device),
        local_mem_type=_LOCAL_MEM_TYPES.get(device.local_mem_type, ""),
    )


def _sub_group_items(device: Any) -> int:
    """The width of every sub-group by a vendor's own query; 0 where there is none. Where compilers choose among several widths
    for each kernel, a device has no one width."""
    for vendors in ("warp_size_nv", "wavefront_width_amd"):
        try:
            return int(getattr(device, vendors))
        except (cl.Error, AttributeError):
            continue
    return 0


def _pci(device: Any) -> str:
    try:
        # NVIDIA's slot is the device number alone; its GPUs are function 0
        return f"{device.pci_domain_id_nv:04x}:{device.pci_bus_id_nv:02x}:{device.pci_slot_id_nv:02x}.0"
    except (cl.Error, AttributeError):
        return ""


def _uuid(device: Any) -> str:
    """The device's UUID by the loader that pyopencl itself has loaded; empty where that cannot be asked."""
    libraries = sorted((Path(cl.__file__).parent / ".libs").glob("libOpenCL*"))
    try:
        loader = ctypes.CDLL(str(libraries[0]) if libraries else "libOpenCL.so.1")
    except OSError:
        return ""
    buffer = (ctypes.c_ubyte * 16)()
    code = loader.clGetDeviceInfo(ctypes.c_void_p(device.int_ptr), _UUID_KHR, ctypes.c_size_t(16), buffer, None)
    return bytes(buffer).hex() if code == 0 and any(buffer) else ""
