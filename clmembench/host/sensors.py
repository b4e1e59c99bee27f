"""Sensors of a device: clocks, power, temperature, throttling, ECC and link, through NVML where it is and sysfs elsewhere."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clmembench.model import DeviceInfo, Fact

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # of PCI Express, by GT/s
# in thousandths of a degree, millionths of a watt and of a MHz
HWMON = (("temperature_c", "temp1_input", 1e3), ("power_w", "power1_average", 1e6), ("clock_mhz", "freq1_input", 1e6))
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def read(info: DeviceInfo, root: Path = Path("/sys")) -> dict[str, Fact]:
    """Readings of this device's sensors; None for a value that a sensor does not have, empty without sensors."""
    if info.kind == "cpu":
        return _cpu(root / "devices" / "system" / "cpu", root / "class" / "thermal")
    return (_nvml(info.pci) or _pci(info.pci, root / "bus" / "pci" / "devices")) if info.pci else {}


def _nvml(pci: str) -> dict[str, Fact]:
    """Readings of an NVIDIA device through NVML; empty where NVML is missing or does not know the device."""
    try:
        pynvml: Any = importlib.import_module("pynvml")  # nvidia-ml-py: optional, and without types
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci.encode())
    except pynvml.NVMLError:
        return {}
    sm, mem = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    asked: dict[str, Callable[[], Fact]] = {
        "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, sm),
        "sm_clock_max_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, sm),
        "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, mem),
        "memory_clock_max_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, mem),
        "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "power_limit_w": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "ecc": lambda: bool(pynvml.nvmlDeviceGetEccMode(handle)[0]),
        "link_generation": lambda: pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "link_generation_max": lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
        "link_width": lambda: pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        "link_width_max": lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
        "utilisation_percent": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    }
    found: dict[str, Fact] = {}
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except pynvml.NVMLError:  # not every board has every sensor
            found[name] = None
    pynvml.nvmlShutdown()
    return found


def find_pci_device(pci: str, root: Path) -> Path | None:
    """The folder of a device on the bus, None where it is none."""
    address = pci.lower() if pci.count(":") == 2 else f"0000:{pci.lower()}"
    return root / address if PCI_ADDRESS.fullmatch(address) and (root / address).is_dir() else None


def _pci(pci: str, root: Path) -> dict[str, Fact]:
    """Readings of any device on the bus by Linux: its link, and the values of its driver's hwmon."""
    device = find_pci_device(pci, root)
    if device is None:
        return {}

    def generation(name: str) -> int | None:
        speed = re.match(r"[0-9]{1,3}(\.[0-9])?(?= GT/s)", read_text(device / name) or "")
        return GENERATIONS.get(float(speed[0])) if speed else None

    found: dict[str, Fact] = {
        "link_generation": generation("current_link_speed"),
        "link_generation_max": generation("max_link_speed"),
        "link_width": read_number(device / "current_link_width"),
        "link_width_max": read_number(device / "max_link_width"),
    }
    for folder in sorted(device.glob("hwmon/hwmon*")):
        for name, file, scale in HWMON:
            value = read_number(folder / file)
            if value is not None:
                found[name] = value / scale
    return {name: value for name, value in found.items() if value is not None}


def _cpu(cpus: Path, thermal: Path) -> dict[str, Fact]:
    """Readings of the host's CPUs: clock of the first one, throttling since boot, SMT, turbo and temperature."""
    first = cpus / "cpu0"
    clock, top = read_number(first / "cpufreq" / "scaling_cur_freq"), read_number(first / "cpufreq" / "cpuinfo_max_freq")
    hot = [value for zone in sorted(thermal.glob("thermal_zone*")) if (value := read_number(zone / "temp")) is not None]
    no_turbo, boost = read_number(cpus / "intel_pstate" / "no_turbo"), read_number(cpus / "cpufreq" / "boost")
    smt = read_text(cpus / "smt" / "active")
    found: dict[str, Fact] = {
        "clock_mhz": clock / 1000 if clock is not None else None,
        "clock_max_mhz": top / 1000 if top is not None else None,
        "throttled_since_boot": read_number(first / "thermal_throttle" / "core_throttle_count"),
        "temperature_c": max(hot) / 1000 if hot else None,
        "smt": smt == "1" if smt else None,
        "turbo": no_turbo == 0 if no_turbo is not None else boost == 1 if boost is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def read_number(path: Path) -> int | None:
    """The whole number in a file of the kernel; None where there is none."""
    text = read_text(path)
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def read_text(path: Path) -> str | None:
    """The text in a file of the kernel; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
