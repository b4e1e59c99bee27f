"""Selectors of SYCL devices, and which devices of several runtimes are one piece of hardware."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench.cli import devices as device_selection
from clmembench.model import DeviceInfo
from clmembench.runtimes.fake import FAKE_DEVICE_INFO as GPU
from clmembench.runtimes.hardware import is_same_hardware, same_hardware
from tests.cases import each

CPU = replace(GPU, kind="cpu", runtime="opencl", selector="0:0", uuid="c0", platform="A")


def sycl_infos() -> list[DeviceInfo]:
    names = ("level_zero:gpu:0", "opencl:gpu:0", "opencl:cpu:0", "opencl:cpu:1")
    return [
        replace(GPU, name=f"Device {n}", selector=f"sycl:{name}", uuid=f"{n}abc", runtime="sycl", platform=name)
        for n, name in enumerate(names)
    ]


@each(
    ("text", "number"),
    [
        ("sycl:0", 0), ("sycl:3", 3), ("sycl:opencl:gpu", 1), ("sycl:level_zero", 0), ("sycl:opencl:cpu:1", 3),
        ("sycl:name~device 2", 2), ("sycl:uuid:1abc", 1), ("sycl:Device 1~", 1),
    ],
)  # fmt: skip
def test_a_sycl_device_is_named_by_index_or_by_backend_and_type(text, number):
    assert device_selection.select(sycl_infos(), text).name == f"Device {number}"


@pytest.mark.parametrize(("text", "code"), [("sycl:4", 3), ("sycl:opencl:cpu", 2), ("sycl:opencl", 2), ("sycl:cuda", 3)])
def test_a_name_of_no_sycl_device_or_of_several_ends_the_command(text, code, capsys):
    import typer

    with pytest.raises(typer.Exit) as ended:
        device_selection.select(sycl_infos(), text)
    assert ended.value.exit_code == code
    said = capsys.readouterr().err
    assert "sycl:BACKEND:TYPE" in said and "sycl:2 Device 2" in said


def test_one_piece_of_hardware_is_known_by_address_by_uuid_and_by_name():
    other = replace(GPU, uuid="else", platform="Other", runtime="sycl")
    assert is_same_hardware(GPU, other)
    assert is_same_hardware(GPU, replace(other, name="Else", uuid=GPU.uuid))
    assert not is_same_hardware(GPU, replace(other, name="Else"))
    assert not is_same_hardware(GPU, replace(other, compute_units=9))
    assert is_same_hardware(replace(GPU, pci="0:1"), replace(other, name="Else", pci="0:1"))
    assert not is_same_hardware(replace(GPU, pci="0:1"), replace(GPU, pci="0:2", runtime="sycl"))
    assert is_same_hardware(CPU, replace(CPU, name="Else", uuid="c1", compute_units=1, runtime="sycl"))
    assert not is_same_hardware(CPU, GPU)


def test_two_devices_of_one_driver_are_two_and_the_cpu_of_two_drivers_is_one():
    twins = [replace(GPU, uuid="a", runtime="opencl"), replace(GPU, uuid="b", runtime="opencl")]
    cpus = [CPU, replace(CPU, platform="B", uuid="c1"), replace(CPU, runtime="sycl", uuid="c2")]
    assert same_hardware([*twins, *cpus]) == [[], [], [3, 4], [2, 4], [2, 3]]
    layer = replace(twins[0], uuid="c", runtime="sycl", platform="SYCL")
    assert same_hardware([*twins, layer]) == [[], [], []]  # which of the two it is stays open
    assert same_hardware([twins[0], layer]) == [[1], [0]]
    one = replace(twins[0], runtime="sycl", platform="SYCL", pci="0:1")
    assert same_hardware([replace(twins[0], pci="0:1"), replace(twins[1], pci="0:2"), one]) == [[2], [], [0]]
