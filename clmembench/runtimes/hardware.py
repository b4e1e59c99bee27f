"""Which devices are one piece of hardware, that several drivers or runtimes reach: a judgement from what they claim. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.model import DeviceInfo


def is_same_hardware(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether two devices of this host are one piece of hardware: by their PCI addresses, where both are known; else by their
    UUIDs; a host's CPU is one, whoever calls it a device; others must be alike in name, compute units and memory."""
    if one.kind != other.kind:
        return False
    if one.pci and other.pci:
        return one.pci == other.pci
    if one.uuid == other.uuid or one.kind == "cpu":
        return True
    return (one.name, one.compute_units) == (other.name, other.compute_units)


def same_hardware(devices: Sequence[DeviceInfo]) -> list[list[int]]:
    """For each device the indices of the others that are the same hardware.

    Two devices of one runtime's one platform are two, unless they have one PCI address: a driver does not list a device twice.
    """
    return [
        [
            n
            for n, other in enumerate(devices)
            if n != number and not _are_siblings(info, other) and is_same_hardware(info, other)
        ]
        for number, info in enumerate(devices)
    ]


def _are_siblings(one: DeviceInfo, other: DeviceInfo) -> bool:
    return (one.runtime, one.platform, one.driver) == (other.runtime, other.platform, other.driver) and not (
        one.pci and one.pci == other.pci
    )
