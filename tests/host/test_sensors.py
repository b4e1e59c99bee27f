"""Sensors read from made-up system folders: PCI devices and CPUs, complete, partial and damaged."""

from __future__ import annotations

import pytest

from clmembench.host import sensors
from clmembench.host.checks import complaints
from tests.builders import device


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


PCI = {
    "bus/pci/devices/0000:c1:00.0/current_link_speed": "2.5 GT/s PCIe\n",
    "bus/pci/devices/0000:c1:00.0/max_link_speed": "32.0 GT/s PCIe\n",
    "bus/pci/devices/0000:c1:00.0/current_link_width": "8\n",
    "bus/pci/devices/0000:c1:00.0/max_link_width": "16\n",
    "bus/pci/devices/0000:c1:00.0/hwmon/hwmon3/temp1_input": "91000\n",
    "bus/pci/devices/0000:c1:00.0/hwmon/hwmon3/power1_average": "250000000\n",
}


def test_a_device_on_the_bus_says_its_link_and_temperature(tmp_path):
    info = device(pci="0000:C1:00.0")
    found = sensors.read(info, write(tmp_path, PCI))
    assert found == {
        "link_generation": 1, "link_generation_max": 5, "link_width": 8, "link_width_max": 16,
        "temperature_c": 91.0, "power_w": 250.0,
    }  # fmt: skip
    assert sensors.read(device(pci="c1:00.0"), tmp_path) == found
    said = [str(c) for c in complaints(info, {}, found)]
    assert any("generation 1 of 5" in c for c in said) and any("8 of 16 lanes" in c for c in said)
    assert any("91 degrees" in c for c in said)


@pytest.mark.parametrize("pci", ["", "../../etc", "0000:c1:00.1", "x:y:z"])
def test_what_is_no_device_has_no_sensors(tmp_path, pci):
    assert sensors.read(device(pci=pci), write(tmp_path, PCI)) == {}


def test_damaged_sensors_say_nothing(tmp_path):
    odd = dict.fromkeys(PCI, "N/A\n")
    assert sensors.read(device(pci="0000:c1:00.0"), write(tmp_path, odd)) == {}


def test_a_cpu_says_its_clock_throttling_smt_and_turbo(tmp_path):
    cpu = "devices/system/cpu/"
    root = write(
        tmp_path,
        {
            f"{cpu}cpu0/cpufreq/scaling_cur_freq": "1200000\n",
            f"{cpu}cpu0/cpufreq/cpuinfo_max_freq": "3600000\n",
            f"{cpu}cpu0/thermal_throttle/core_throttle_count": "3\n",
            f"{cpu}smt/active": "1\n",
            f"{cpu}intel_pstate/no_turbo": "0\n",
            "class/thermal/thermal_zone0/temp": "45000\n",
            "class/thermal/thermal_zone1/temp": "97000\n",
        },
    )
    found = sensors.read(device(kind="cpu"), root)
    assert found == {
        "clock_mhz": 1200.0, "clock_max_mhz": 3600.0, "throttled_since_boot": 3, "temperature_c": 97.0,
        "smt": True, "turbo": True,
    }  # fmt: skip
    said = " ".join(str(c) for c in complaints(device(kind="cpu"), {}, found))
    assert "throttled 3 times" in said and "97 degrees" in said and "turbo is on" in said
    assert sensors.read(device(kind="cpu"), tmp_path / "none") == {}
