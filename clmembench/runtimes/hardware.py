"""Which devices are one piece of hardware, that several drivers or runtimes reach: a judgement from what they claim. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import DeviceInfo


def is_same_hardware(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether two devices of this host are one piece of hardware: by their PCI addresses, where both are known; else by their
    UUIDs; a host's CPU is one, whoever calls it a device; others must be alike in name and compute units."""
    return _is_surely_same(one, other) or _is_alike(one, other)


def same_hardware(devices: Sequence[DeviceInfo]) -> list[list[int]]:
    """For each device the indices of the others that are the same hardware.

    Two devices of one driver are two, unless they have one PCI address: a driver does not list a device twice. Where a driver
    has several that are alike in name and compute units, which of them another device is stays open, and none is named.
    """
    return [
        [n for n, other in enumerate(devices) if n != number and _is_told_same(info, other, devices)]
        for number, info in enumerate(devices)
    ]


def _is_told_same(one: DeviceInfo, other: DeviceInfo, devices: Sequence[DeviceInfo]) -> bool:
    if _driver(one) == _driver(other):
        return bool(one.pci) and one.pci == other.pci
    if _is_surely_same(one, other):
        return True
    twins = [[d for d in devices if _driver(d) == _driver(of) and _is_alike(d, of)] for of in (one, other)]
    return _is_alike(one, other) and all(len(found) == 1 for found in twins)


def _driver(info: DeviceInfo) -> tuple[str, str, str]:
    return info.runtime, info.platform, info.driver


def _is_surely_same(one: DeviceInfo, other: DeviceInfo) -> bool:
    if one.kind != other.kind:
        return False
    if one.pci and other.pci:
        return one.pci == other.pci
    return one.uuid == other.uuid or one.kind == "cpu"


def _is_alike(one: DeviceInfo, other: DeviceInfo) -> bool:
    apart = bool(one.pci and other.pci) and one.pci != other.pci
    return (one.kind, one.name, one.compute_units) == (other.kind, other.name, other.compute_units) and not apart
