"""The identity of a device: its UUID or PCI address if the driver reports one, then its name without version numbers.

Functions here decide whether the claims of two devices describe the same model, the same device, or the same platform. A device
that a driver update renames keeps its identity; a card that takes another card's slot has its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from clmembench.model.device import DeviceInfo

# the prefix that PoCL and LLVM put before a CPU's name
_CPU_PREFIX = re.compile(r"^(?:pthread|basic|cpu)-(?:[a-z0-9]+(?:-[a-z0-9]+)*-(?=[A-Z]|[0-9]+th Gen ))?")
_MODES = re.compile(r"[:+](?:sram-?ecc|xnack)[+-]?")  # ROCm's suffixes of an architecture
_VERSIONED = re.compile(
    r"\b(?:(?:LLVM|DRM|Mesa|Linux|kernel|driver|version|build|OpenCL|Vulkan|ROCm|HIP|PoCL|NEO)[ :/-]*)+v?\d[\w.+~-]*"
    r"|\bv?\d+\.\d+\.\d[\w.+~-]*",  # no model name has a number of three parts
    re.IGNORECASE,
)
_INNERMOST = re.compile(r"\(([^()]*)\)")
_VERSION = re.compile(
    r"v?\d+\.\d[\w.+~-]*|git-\w+|radeonsi|r600|ACO|RADV"
)  # list items that name a kernel version or a part of a driver
_TRADEMARK = re.compile(r"\((?:R|TM|C)\)|[®™]", re.IGNORECASE)
MAKERS = frozenset({"nvidia", "amd", "ati", "intel", "mesa", "corporation", "inc."})
_FILLERS = frozenset({"cpu", "processor"})
_NAMES = ("id", "name", "platform", "vendor", "driver", "version", "selector", "uuid", "pci", "instance", "library")
MAX_BYTES_OF_A_PLACE = 5  # nonzero bytes of a UUID made of a PCI address: domain (2), bus, device, function


def model_name(name: str) -> str:
    """A device's name without versions of its driver, compiler and kernel, and without PoCL's prefix for CPUs."""
    text = _VERSIONED.sub("", _MODES.sub("", _CPU_PREFIX.sub("", name)))
    return " ".join(re.sub(r"\[\s*\]", " ", _INNERMOST.sub(_without_versions, text)).split()) or name


def _without_versions(match: re.Match[str]) -> str:
    parts = [part.strip() for part in re.split(r",|\s/\s", match[1])]
    left = ", ".join(part for part in parts if part and not _VERSION.fullmatch(part))
    return f"({left})" if left else " "


@lru_cache(maxsize=4096)
def name_key(name: str) -> str:
    """The words that all names of one model share: lower case, without makers, trademarks and fillers."""
    words = re.sub(r"[][(),]", " ", _TRADEMARK.sub(" ", model_name(name))).casefold().split()
    return " ".join(word for word in words if word not in MAKERS | _FILLERS) or name.casefold()


def model_key(info: DeviceInfo) -> str:
    """The model of a device by its name, and a CPU's vendor-family-model."""
    return " ".join(filter(None, (info.kind, name_key(info.name), info.cpu_id if info.kind == "cpu" else "")))


def made_id(platform: str, name: str, place: str) -> str:
    """The id of a device whose driver reports no UUID; `place` is its PCI address, or else its index on its platform."""
    return hashlib.sha256(f"{platform}|{name}|{place}".encode()).hexdigest()[:32]


def driver_uuid(info: DeviceInfo) -> str:
    """The UUID that the driver reports for a device, or "".

    It is "" also for UUIDs that identify no single device: all zeros, or a CPU's, which identifies its model or the driver's
    version.
    """
    uuid = re.sub(r"[^0-9a-z]", "", info.uuid.casefold())
    if info.kind == "cpu" or set(uuid) <= {"0"} or set(uuid) == {"f"}:
        return ""
    if info.runtime == "sycl":
        return "" if info.uuid == info.id else uuid
    places = (info.pci, info.selector.rpartition(":")[2] or "0")
    return "" if info.uuid in [made_id(info.platform, info.name, place) for place in places] else uuid


def pci_address(text: str) -> tuple[int, int, int] | None:
    """Domain, bus and device of a PCI address such as "0000:0f:00.0"; None for other texts.

    Sources write the domain with different numbers of digits or leave it out, and some do not report the function.
    """
    try:
        parts = [int(part, 16) for part in text.partition(".")[0].split(":")]
    except ValueError:
        return None
    domain, bus, device = [0] * (3 - len(parts)) + parts if len(parts) in (2, 3) else (0, 0, 0)
    return (domain, bus, device) if bus or device or domain else None


def is_same_model(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether two devices are of one model: by name, or by the card's UUID where a driver renamed it."""
    if model_key(one) == model_key(other):
        return True
    renamed = _card_key(one)
    return renamed is not None and renamed == _card_key(other)


def is_same_device(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether two devices of one model may be the same device.

    Their UUIDs decide, else their PCI addresses, else their numbers among equal devices, and finally their ids, which are made
    of names and places.
    """
    if not is_same_model(one, other):
        return False
    for known in (driver_uuid, _pci, _instance):
        first, second = known(one), known(other)
        if first and second:
            return first == second
    has_address = one.kind == "cpu" or any(driver_uuid(d) or _pci(d) for d in (one, other))
    is_renamed = (one.runtime, one.platform, one.name) != (other.runtime, other.platform, other.name)
    return has_address or is_renamed or one.id == other.id


def distinction(one: DeviceInfo, other: DeviceInfo) -> tuple[str, str]:
    """What differs between two devices of one name, of each of them; empty texts where their names differ, or nothing else that
    is known of both."""
    for what, take in _DISTINCTIONS.items() if one.name == other.name else ():
        first, second = take(one), take(other)
        if first and second and first != second:
            return f"{what} {first}", f"{what} {second}"
    return "", ""


def is_same_platform(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether two devices are reached through the same runtime and the same platform, by its name."""
    return one.runtime == other.runtime and is_platform_renamed(one.platform, other.platform)


def renamed(then: DeviceInfo, now: DeviceInfo) -> DeviceInfo:
    """A device's old claims under the names that it has now."""
    return replace(then, **{name: getattr(now, name) for name in _NAMES})


def is_platform_renamed(one: str, other: str) -> bool:
    """Whether two names may belong to one platform: all words of one are in the other."""
    first, second = _words(one), _words(other)
    return _is_within(first, second) or _is_within(second, first)


def device_key(info: DeviceInfo) -> str:
    """A key of one device: its UUID, else its model with its PCI address or number."""
    place = ":".join(map(str, _pci(info) or (info.instance,)))
    return driver_uuid(info) or f"{model_key(info)} {place}"


def number_of_devices(infos: Sequence[DeviceInfo]) -> int:
    """The smallest number of devices that these can be."""
    distinct: list[DeviceInfo] = []
    for info in infos:
        if not any(is_same_device(info, known) for known in distinct):
            distinct.append(info)
    return len(distinct)


def device_groups(infos: Sequence[DeviceInfo]) -> list[int]:
    """A group number for each device: devices of one model, platform and number of compute units share it.

    It is the index of the first device of the group.
    """
    root = list(range(len(infos)))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = place = root[root[place]]
        return place

    first: dict[Hashable, int] = {}
    for place, (info, platform) in enumerate(zip(infos, _platforms(infos), strict=True)):
        for key in _group_keys(info):
            one, other = sorted((find(place), find(first.setdefault((platform, key), place))))
            root[other] = one
    return [find(place) for place in range(len(infos))]


def _group_keys(info: DeviceInfo) -> Iterator[Hashable]:
    yield model_key(info), info.compute_units
    if (card := _card_key(info)) is not None:
        yield card


def _card_key(info: DeviceInfo) -> Hashable | None:
    """The key of a card under all its names, from its UUID; None without one.

    A UUID made of the PCI slot is not used, since another card may be in that slot. A partition of a GPU may have the UUID of
    the whole, so the compute units are part of the key.
    """
    uuid = driver_uuid(info)
    of_a_place = len(uuid) == 32 and sum(uuid[n : n + 2] != "00" for n in range(0, 32, 2)) <= MAX_BYTES_OF_A_PLACE
    return (info.kind, uuid, info.compute_units) if uuid and not of_a_place else None


def _platforms(infos: Sequence[DeviceInfo]) -> list[Hashable]:
    """A key of each device's platform: the shortest set of words of any of these platforms that its own name contains."""
    every = {(info.kind, info.runtime, _words(info.platform)) for info in infos}
    keys: dict[Hashable, Hashable] = {}
    for kind, runtime, words in every:
        within = [w for k, r, w in every if (k, r) == (kind, runtime) and _is_within(w, words)]
        keys[kind, runtime, words] = (runtime, min(within, key=lambda w: (len(w), sorted(w))))
    return [keys[info.kind, info.runtime, _words(info.platform)] for info in infos]


def _is_within(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether all words are among the others; a single word is a maker's name, which other platforms have too."""
    return words == others or (len(words) > 1 and words < others)


@lru_cache(maxsize=4096)
def _words(platform: str) -> frozenset[str]:
    """The words of a platform's name, without those that contain digits."""
    words = re.findall(r"[^\W_]+", _TRADEMARK.sub(" ", platform).casefold())
    return frozenset(word for word in words if not any(c.isdigit() for c in word)) or frozenset({platform})


def _pci(info: DeviceInfo) -> tuple[int, int, int] | None:
    return pci_address(info.pci)


def _instance(info: DeviceInfo) -> int:
    return info.instance


_DISTINCTIONS: Mapping[str, Callable[[DeviceInfo], object]] = {
    "processor": lambda info: info.cpu_id,
    "uuid": driver_uuid,
    "PCI address": lambda info: info.pci,
    "number": _instance,
}
