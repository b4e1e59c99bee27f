"""Devices that are the same hardware, reached through several drivers or runtimes: a decision by their claims."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from clmembench.model import DeviceInfo
from clmembench.model.device_identity import driver_uuid, made_id, name_key, pci_address

_RANK = {"gpu": 0, "accelerator": 1, "cpu": 2}
_T = TypeVar("_T")


CPU_FLAGS = {"avx512_vnni": "vnni", "amx_tile": "amx"}  # of Linux: our features


@cache
def _cpu_facts() -> dict[str, str]:
    """What Linux says of this host's first CPU; nothing on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    return dict(re.findall(r"^(vendor_id|cpu family|model|flags)\s*:\s*(.+)", text, re.MULTILINE))


def cpu_features() -> frozenset[str]:
    """Instructions of this host's CPU that a benchmark asks for."""
    flags = _cpu_facts().get("flags", "").split()
    return frozenset(feature for flag, feature in CPU_FLAGS.items() if flag in flags)


def cpu_id() -> str:
    """vendor-family-model of this host's CPU in Linux's numbering; empty on other systems."""
    fields = _cpu_facts()
    return "-".join(fields.get(key, "?") for key in ("vendor_id", "cpu family", "model")) if fields else ""


def distinct_devices(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices of a runtime with a distinct identity for each device of a platform.

    A UUID that several of them share is replaced, and equal devices without an address are numbered.
    """
    platforms = [(d.runtime, d.platform, d.selector.rpartition(":")[0]) for d in devices]
    uuids, renamed = Counter(zip(platforms, (d.uuid for d in devices), strict=True)), []
    for platform, info in zip(platforms, devices, strict=True):
        if uuids[platform, info.uuid] > 1:
            place = info.selector.rpartition(":")[2]
            made = made_id(info.platform, info.name, place) if info.runtime == "opencl" else info.id
            info = replace(info, id=made, uuid=made)
        renamed.append(info)
    addressed = [bool(driver_uuid(info) or pci_address(info.pci)) for info in renamed]
    alike = [(*p, d.kind, name_key(d.name), known) for p, d, known in zip(platforms, renamed, addressed, strict=True)]
    return [
        info if known or alike.count(key) == 1 else replace(info, instance=alike[: place + 1].count(key))
        for place, (info, known, key) in enumerate(zip(renamed, addressed, alike, strict=True))
    ]


def listing_order(devices: Iterable[_T], info_of: Callable[[_T], DeviceInfo]) -> list[_T]:
    """Devices of one runtime in listing order, each once even if its driver is registered several times.

    GPUs come before accelerators before CPUs, and devices with their own memory first.
    """
    once: dict[tuple[str, str, str, str], _T] = {}
    for one in devices:
        info = info_of(one)
        once.setdefault((info.uuid, info.platform, info.driver, info.name), one)
    return sorted(once.values(), key=lambda one: (_RANK[info_of(one).kind], info_of(one).shares_host_memory))


def listed(devices: Sequence[tuple[DeviceInfo, _T]]) -> list[tuple[DeviceInfo, _T]]:
    """Devices with their handles, distinct and in listing order."""
    infos = distinct_devices([info for info, _ in devices])
    return listing_order(((info, handle) for info, (_, handle) in zip(infos, devices, strict=True)), lambda one: one[0])


def is_same_hardware(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether two devices of this host are the same hardware.

    Their PCI addresses decide if both are known, else their UUIDs. The host's CPU is one device in all drivers. Other devices
    must agree in name and compute units.
    """
    return _is_surely_same(one, other) or _is_alike(one, other)


def same_hardware(devices: Sequence[DeviceInfo]) -> list[list[int]]:
    """For each device the indices of the others that are the same hardware.

    Two devices of one driver are different, unless they share a PCI address: a driver does not list a device twice. Where a
    driver has several devices with equal names and compute units, their counterparts in another driver are ambiguous, and none
    is named.
    """
    return [
        [n for n, other in enumerate(devices) if n != number and _is_recognised_as_same(info, other, devices)]
        for number, info in enumerate(devices)
    ]


def _is_recognised_as_same(one: DeviceInfo, other: DeviceInfo, devices: Sequence[DeviceInfo]) -> bool:
    if _driver(one) == _driver(other):
        address = pci_address(one.pci)
        return address is not None and address == pci_address(other.pci)
    if _is_surely_same(one, other):
        return True
    twins = [[d for d in devices if _driver(d) == _driver(of) and _is_alike(d, of)] for of in (one, other)]
    return _is_alike(one, other) and all(len(group) == 1 for group in twins)


def _driver(info: DeviceInfo) -> tuple[str, str, str]:
    return info.runtime, info.platform, info.driver


def _is_surely_same(one: DeviceInfo, other: DeviceInfo) -> bool:
    if one.kind != other.kind:
        return False
    first, second = pci_address(one.pci), pci_address(other.pci)
    if first and second:
        return first == second
    return one.kind == "cpu" or (bool(driver_uuid(one)) and driver_uuid(one) == driver_uuid(other))


def _is_alike(one: DeviceInfo, other: DeviceInfo) -> bool:
    first, second = pci_address(one.pci), pci_address(other.pci)
    apart = first is not None and second is not None and first != second
    alike = (one.kind, name_key(one.name), one.compute_units) == (other.kind, name_key(other.name), other.compute_units)
    return alike and not apart
