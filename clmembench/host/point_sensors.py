"""Sensors that are read beside each point, outside of timed passes: clock, power, temperature, throttling, energy counters.

NVML through nvidia-ml-py on NVIDIA devices, RAPL through Linux's powercap on CPUs, hwmon on others. They are opened once in
each worker process, and read at most five times a second, so that points of some milliseconds are not slowed down.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from clmembench.host import cpu_topology
from clmembench.host.sensors import find_pci_device, read_number, read_text
from clmembench.model import DeviceInfo, Fact

MIN_INTERVAL_S = 0.2  # between two readings of sensors, some of which take milliseconds
MAX_CPU_CLOCKS = 16  # CPUs whose clock is read: each is a file
NVML_UPDATE_NS = 100_000_000  # NVML does not say how often its total is updated: every 20 to 100 ms was seen
HWMON_UPDATE_NS = 100_000_000  # nor do drivers
RAPL_UPDATE_NS = 2_000_000  # about 1 ms by Intel's manual, volume 3B, section 15.10; twice that, since it jitters
NO_NVML = "NVML is not here: pip install 'clmembench[nvidia]'"


class Counted(NamedTuple):
    """A reading of an energy counter: microjoules since any moment, and when it was read."""

    microjoules: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Sensors:
    """Open sensors of one device: facts now, and its energy counter, None with a `reason` where it has none."""

    facts: Callable[[], dict[str, Fact]]
    microjoules: Callable[[], int | None] | None = None
    source: str = ""
    update_ns: int = 0
    wraps_at: int = 0  # microjoules at which the counter begins again; 0: never
    shared: bool = False  # it has the energy of other processes' work too
    reason: str = ""


class PointSensors:
    """The sensors of a device over the points of a worker process."""

    def __init__(self, sensors: Sensors, clock: Callable[[], float] = time.monotonic) -> None:
        self.sensors = sensors
        self._clock = clock
        self._last_s = float("-inf")

    def sample(self) -> dict[str, Fact]:
        """Readings now; none where the last ones are a moment old, or there are no sensors."""
        now = self._clock()
        if now - self._last_s < MIN_INTERVAL_S:
            return {}
        self._last_s = now
        return self.sensors.facts()

    def count(self) -> Counted | None:
        """The energy counter now; None where there is none, or it cannot be read."""
        read = self.sensors.microjoules
        value = read() if read is not None else None
        return None if value is None else Counted(value, time.monotonic_ns())

    def joules(self, before: Counted, after: Counted) -> float:
        """Energy between two readings."""
        difference = after.microjoules - before.microjoules
        return (difference + self.sensors.wraps_at * (difference < 0)) / 1e6


def open_sensors(info: DeviceInfo, root: Path = Path("/sys")) -> Sensors:
    """The sensors of a device."""
    if info.kind == "cpu":
        return _of_cpus(root)
    if not info.pci:
        return Sensors(dict, reason="the driver does not say the device's PCI address, by which its sensors are found")
    if "nvidia" in info.vendor.lower():
        return _nvml(info.pci)
    return _hwmon(info.pci, root)


def _nvml(pci: str) -> Sensors:
    try:
        pynvml: Any = importlib.import_module("pynvml")  # nvidia-ml-py: optional, and without types
    except ImportError:
        return Sensors(dict, reason=NO_NVML)
    try:
        pynvml.nvmlInit()  # until the process ends
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci.encode())
    except pynvml.NVMLError as error:
        return Sensors(dict, reason=f"NVML does not know the device: {error}")
    asked: dict[str, Callable[[], Fact]] = {
        "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    }

    def facts() -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        for name, ask in asked.items():
            try:
                found[name] = ask()
            except (pynvml.NVMLError, AttributeError):  # not every board, nor every version of the library, has every sensor
                continue
        return found

    def microjoules() -> int | None:
        try:
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1000
        except pynvml.NVMLError:
            return None

    try:
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except (pynvml.NVMLError, AttributeError) as error:
        return Sensors(facts, reason=f"NVML does not count this device's energy: {error}")
    return Sensors(facts, microjoules, "NVML, the whole board", NVML_UPDATE_NS)


def _of_cpus(root: Path) -> Sensors:
    cpus, thermal = root / "devices" / "system" / "cpu", root / "class" / "thermal"
    clocks = [cpus / f"cpu{n}" / "cpufreq" / "scaling_cur_freq" for n in sorted(cpu_topology.usable_cpus())[:MAX_CPU_CLOCKS]]
    zones = sorted(thermal.glob("thermal_zone*/temp"))
    throttles = cpus / "cpu0" / "thermal_throttle" / "package_throttle_count"

    def facts() -> dict[str, Fact]:
        khz = [value for path in clocks if (value := read_number(path)) is not None]
        hot = [value for path in zones if (value := read_number(path)) is not None]
        found: dict[str, Fact] = {
            "clock_mhz": median(khz) / 1000 if khz else None,
            "temperature_c": max(hot) / 1000 if hot else None,
            "throttled_since_boot": read_number(throttles),
        }
        return {name: value for name, value in found.items() if value is not None}

    # intel-rapl-mmio:* are the same counters once more
    folders = [path for path in sorted((root / "class" / "powercap").glob("intel-rapl:*")) if _is_package(path)]
    counters = [folder / "energy_uj" for folder in folders]
    if not counters:
        return Sensors(facts, reason="this system has no RAPL counter (virtual machines mostly have none)")

    def microjoules() -> int | None:
        values = [read_number(path) for path in counters]
        return None if None in values else sum(value for value in values if value is not None)

    if microjoules() is None:
        return Sensors(facts, reason="RAPL's counter is not readable: sudo chmod a+r /sys/class/powercap/*/energy_uj")
    if len(counters) > 1:  # each wraps at its own time, which a sum does not show
        return Sensors(facts, _summed(counters, folders), "RAPL, all packages", RAPL_UPDATE_NS, shared=True)
    wraps_at = read_number(folders[0] / "max_energy_range_uj") or 0
    return Sensors(facts, microjoules, "RAPL, the whole package", RAPL_UPDATE_NS, wraps_at, shared=True)


def _is_package(folder: Path) -> bool:
    """Whether a RAPL domain is a whole package: its parts, such as cores and DRAM, are zones of their own below it."""
    return (read_text(folder / "name") or "").startswith("package")


def _summed(counters: list[Path], folders: list[Path]) -> Callable[[], int | None]:
    """A counter that never wraps, over counters of several packages."""
    ranges = [read_number(folder / "max_energy_range_uj") or 0 for folder in folders]
    last: list[int | None] = [None] * len(counters)
    total = 0

    def microjoules() -> int | None:
        nonlocal total
        for at, path in enumerate(counters):
            value, before = read_number(path), last[at]
            if value is None:
                return None
            if before is not None:
                total += value - before + ranges[at] * (value < before)
            last[at] = value
        return total

    return microjoules


def _hwmon(pci: str, root: Path) -> Sensors:
    """Sensors of a device's driver in Linux: temperature, power and clock, and a counter where the driver has one."""
    device = find_pci_device(pci, root / "bus" / "pci" / "devices")
    folders = sorted(device.glob("hwmon/hwmon*")) if device is not None else []
    scales = {"temperature_c": ("temp1_input", 1e3), "power_w": ("power1_average", 1e6), "clock_mhz": ("freq1_input", 1e6)}

    def facts() -> dict[str, Fact]:
        read = ((name, read_number(folder / file), scale) for folder in folders for name, (file, scale) in scales.items())
        return {name: value / scale for name, value, scale in read if value is not None}

    counter = next((path for folder in folders for path in sorted(folder.glob("energy*_input"))), None)
    if counter is None:
        return Sensors(facts, reason="the device's driver has no energy counter in hwmon")
    return Sensors(facts, lambda: read_number(counter), "hwmon, by the device's driver", HWMON_UPDATE_NS)
