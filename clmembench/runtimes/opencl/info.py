"""Lists OpenCL devices and reads their drivers' claims; part of the OpenCL runtime."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyopencl as cl

from clmembench.model import DeviceInfo
from clmembench.model.device_identity import made_id
from clmembench.runtimes.hardware import cpu_features, cpu_id, listed
from clmembench.runtimes.shared import unusable_claim

_UUID_KHR, _PCI_KHR, _TOPOLOGY_AMD = 0x106A, 0x410F, 0x4037  # pyopencl has no names for the first two
_PCIE_AMD = 1  # type of a topology
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
_PLATFORM_NOT_FOUND, _DEVICE_NOT_FOUND = -1001, -1
_NAME_QUERIES = {"platform": ("clGetPlatformInfo", 0x0902), "device": ("clGetDeviceInfo", 0x102B)}
_BAD_ANSWERS = (cl.Error, ValueError, OverflowError, TypeError)  # failed queries, and invalid texts and numbers
_SIMULATORS = ("Oclgrind",)  # platforms that interpret kernels to look for faults


class Installed(NamedTuple):
    """(info, handle) of every device, each once, in order; and the reasons why others are missing, a sentence each."""

    devices: list[tuple[DeviceInfo, Any]]
    left_out: list[str]


@cache
def installed_platforms() -> Installed:
    """Every device, GPUs before accelerators before CPUs; none without OpenCL.

    Simulators are excluded, also from the numbering of platforms: their times describe no device.
    """
    return _described(simulators=False)


@cache
def simulator_devices() -> list[tuple[DeviceInfo, Any]]:
    """(info, handle) of every simulated device, for checking kernels; empty where no simulator is installed."""
    return _described(simulators=True).devices


def _platforms() -> list[Any]:
    try:
        return list(cl.get_platforms())
    except cl.LogicError as error:
        if error.code == _PLATFORM_NOT_FOUND:
            return []
        raise


def _described(simulators: bool) -> Installed:
    devices_of_platforms, left_out, p = list[tuple[DeviceInfo, Any]](), list[str](), -1
    for platform in _platforms():
        try:
            if (platform.name.strip() in _SIMULATORS) != simulators:
                continue
            p += 1
            devices = platform.get_devices()
        except _BAD_ANSWERS as error:
            if getattr(error, "code", 0) != _DEVICE_NOT_FOUND:  # the code for absent hardware
                words = _text(platform, "platform") or "an OpenCL platform without a readable name"
                left_out.append(f"{words} does not list its devices: {_first_line(error)}: reinstall or update this driver")
            continue
        described = list[tuple[DeviceInfo, Any]]()
        for d, device in enumerate(devices):
            try:
                info = _retried_description(device, f"{p}:{d}", d)
                reason = unusable_claim(info)
            except _BAD_ANSWERS as error:
                reason = f"its driver does not describe it: {_first_line(error)}"
            if reason:
                words = _text(device, "device") or "a device without a readable name"
                left_out.append(f"{words} ({_text(platform, 'platform')} {p}:{d}) is left out: {reason}: update its driver")
            else:
                described.append((info, device))
        devices_of_platforms += [(_with_peers(info, len(described) - 1), device) for info, device in described]
    # the same driver can be registered twice, under two loaders' folders
    return Installed(listed(devices_of_platforms), left_out)


def _with_peers(info: DeviceInfo, peers: int) -> DeviceInfo:
    return replace(info, peers=peers, features=info.features | {"peers"}) if peers else info


def _retried_description(device: Any, selector: str, ordinal: int) -> DeviceInfo:
    """A device's claims; a failed query is repeated once, since it may fail while a driver is busy or starts."""
    try:
        return describe(device, selector, ordinal)
    except cl.Error:
        return describe(device, selector, ordinal)


def _first_line(error: Exception) -> str:
    """An error as one short line; it explains texts that are not UTF-8, since that error does not mention OpenCL."""
    if isinstance(error, UnicodeDecodeError):
        return f"a text of it is not UTF-8 ({error.object[:32]!r})"
    return (str(error).splitlines() or [type(error).__name__])[0]


def describe(device: Any, selector: str, ordinal: int) -> DeviceInfo:
    """The driver's claims about a device. The uuid is the driver's, else it is made of names and place."""
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
    name = re.sub(r"\s+", " ", device.name.strip())
    made = made_id(platform, name, pci or str(ordinal))
    kind = kinds.get(device.type & ~cl.device_type.DEFAULT, "accelerator")
    return DeviceInfo(
        id=uuid or made,
        name=name,
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
        features=frozenset(features) | (cpu_features() if kind == "cpu" else frozenset()),
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
    """The width of all sub-groups by a vendor's query; 0 without one.

    Where compilers choose among several widths for each kernel, a device has no single width.
    """
    for vendors in ("warp_size_nv", "wavefront_width_amd"):
        try:
            return int(getattr(device, vendors))
        except (cl.Error, AttributeError):
            continue
    return 0


def _pci(device: Any) -> str:
    """The PCI address by any extension that reports it; empty where none does, or where it is 0."""
    extensions, address = set(device.extensions.split()), (0, 0, 0, 0)
    try:
        # NVIDIA's slot is only the device number; its GPUs are function 0
        address = device.pci_domain_id_nv, device.pci_bus_id_nv, device.pci_slot_id_nv, 0
    except (cl.Error, AttributeError):
        if "cl_khr_pci_bus_info" in extensions and len(reply := _query("clGetDeviceInfo", device, _PCI_KHR, 16)) == 16:
            address = struct.unpack("4I", reply)
        elif "cl_amd_device_attribute_query" in extensions:
            reply = _query("clGetDeviceInfo", device, _TOPOLOGY_AMD, 24)
            kind, *place = struct.unpack("=I17x3B", reply) if len(reply) == 24 else (0, 0, 0, 0)
            address = (0, *place) if kind == _PCIE_AMD else address
    domain, bus, slot, function = address
    possible = any((domain, bus, slot)) and bus < 1 << 8 and slot < 1 << 5 and function < 1 << 3
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}" if possible else ""


def _uuid(device: Any) -> str:
    """The device's UUID by the loader that pyopencl itself has loaded; empty if the query fails."""
    reply = _query("clGetDeviceInfo", device, _UUID_KHR, 16)
    return reply.hex() if len(reply) == 16 and any(reply) else ""


def _text(handle: Any, kind: Literal["platform", "device"]) -> str:
    """A name in printable form; pyopencl fails for names that are not UTF-8."""
    text = _query(*_NAME_QUERIES[kind][:1], handle, _NAME_QUERIES[kind][1], 1024)
    return re.sub(r"\s+", " ", text.split(b"\0")[0].decode(errors="replace").strip())


def _query(function: str, handle: Any, number: int, most_bytes: int) -> bytes:
    """A claim as bytes, by the loader that pyopencl itself has loaded; empty if the query fails."""
    libraries = sorted((Path(cl.__file__).parent / ".libs").glob("libOpenCL*"))
    try:
        loader = ctypes.CDLL(str(libraries[0]) if libraries else "libOpenCL.so.1")
    except OSError:
        return b""
    buffer, size = (ctypes.c_ubyte * most_bytes)(), ctypes.c_size_t(0)
    code = getattr(loader, function)(
        ctypes.c_void_p(handle.int_ptr), number, ctypes.c_size_t(most_bytes), buffer, ctypes.byref(size)
    )
    return bytes(buffer)[: size.value] if code == 0 else b""
