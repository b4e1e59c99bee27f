"""Chains of single operations on PoCL: their ends are the host's, and less work is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks.instruction import OPERATIONS, instruction
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip
from clmembench.runtimes.opencl import RUNTIME
from tests.cases import each


@pytest.fixture(scope="module")
def device():
    return RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))


POINTS = [
    ("float", "fma", 8), ("float", "convert", 1), ("double", "sqrt", 1), ("int", "add", 8), ("int", "mul", 1),
    ("int", "xor", 1), ("long", "mul_hi", 1), ("int", "local_load", 8),
]  # fmt: skip


@each("point", POINTS)
def test_chains_end_as_on_the_host(device, point):
    dtype, op, lanes = point
    slope = instruction.prepare(device, op=op, dtype=dtype, lanes=lanes)
    assert check_outputs(device, slope.work(70)) == ""
    device.run(slope.work(35).commands)
    with pytest.raises(AssertionError, match="rounds"):
        slope.work(70).check()


def test_a_result_that_is_not_the_operations_is_seen(device):
    work = instruction.prepare(device, op="fma", dtype="float", lanes=1).work(5)
    (launch,) = work.commands
    device.run([replace(launch, args=(*launch.args[:3], np.float32(-0.5), *launch.args[4:]))])
    with pytest.raises(AssertionError, match="80 operations"):
        work.check()


def test_types_without_an_operation_have_no_point(device):
    with pytest.raises(Skip, match="no operation"):
        instruction.prepare(device, op="native_sin", dtype="double", lanes=1)
    assert all(instruction.where(device.info, op=op, dtype="float", lanes=1) for op in OPERATIONS[:4])
