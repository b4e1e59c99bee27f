"""Chains of single operations on PoCL: their ends are the host's, and less work is seen."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks.instruction import OPERATIONS, instruction
from clmembench.benchmarks.intensity import intensity
from clmembench.cli.running.session import cards
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip
from clmembench.report.frame import judged_rows
from clmembench.runtimes.opencl import RUNTIME
from clmembench.studies.access.throughput_tables import instructions
from tests.builders import clock, header, record, run, series
from tests.cases import each


@pytest.fixture(scope="module")
def device():
    return RUNTIME.open(next(info for info in RUNTIME.devices() if info.kind == "cpu"))


POINTS = [
    ("float", "fma", 8), ("float", "add", 8), ("double", "add", 1), ("double", "mul", 4), ("float", "convert", 1),
    ("double", "sqrt", 1), ("int", "add", 8), ("int", "mul", 1),
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


@each("op", ("add", "mul"))
def test_a_compiler_that_merges_the_steps_of_a_chain_has_no_point(device, op):
    class Merging:
        """The device, whose compiler takes the two steps of a pair for one."""

        info = device.info
        alloc, upload, download, run = device.alloc, device.upload, device.download, device.run

        @staticmethod
        def build(source, **defines):
            first, second = f"x##i {'+*'[op == 'mul']}= a;", f"x##i {'+*'[op == 'mul']}= b;"
            assert first in source and second in source
            merged = f"x##i {'+*'[op == 'mul']}= a {'+*'[op == 'mul']} b;"
            return device.build(source.replace(first, merged).replace(second, ""), **defines)

    with pytest.raises(Skip, match=f"merges dependent operations, .* \\({op} of float"):
        instruction.prepare(Merging, op=op, dtype="float", lanes=1)


PACKED_HALVES = """
#define HALF_OF(x, i) vload_half(i, (const half*)&x)
float calculate(constant char* name, float x, float y, float z) {
    return name[0] == 'a' ? x + y : name[0] == 'f' ? x * y + z : name[1] == 'u' ? x * y : min(x, y);
}
__attribute__((noinline)) uint of_two(constant char* name, uint x, uint y, uint z) {
    uint found;
    for (int i = 0; i < 2; i++)
        vstore_half(calculate(name, HALF_OF(x, i), HALF_OF(y, i), HALF_OF(z, i)), i, (half*)&found);
    return found;
}
"""
ASM = re.compile(r'asm volatile\((instruction|"\S+)[^:]*: "\+r"\((\S+)\) : "r"\((\w+)\)(?:, "r"\((\w+)\))?\);')


class PackingDevice:
    """A device whose PTX instructions on two halves are functions in OpenCL C."""

    def __init__(self, device):
        self.device, self.info = device, replace(device.info, features=device.info.features | {"ptx"})

    def __getattr__(self, name):
        return getattr(self.device, name)

    def build(self, source, **defines):
        def by_function(found):
            name = found[1] if found[1] == "instruction" else f'{found[1]}"'
            return f"{found[2]} = of_two({name}, {found[2]}, {found[3]}, {found[4] or found[3]});"

        source, count = ASM.subn(by_function, source)
        assert count
        return self.device.build(PACKED_HALVES + source, **defines)


@each("op", ("add", "mul", "fma", "min"))
def test_pairs_of_halves_end_as_on_the_host(device, op):
    packing = PackingDevice(device)
    work = instruction.prepare(packing, op=op, dtype="half", lanes=1).work(70)
    assert check_outputs(packing, work) == ""
    (launch,) = work.commands
    device.run([replace(launch, args=(*launch.args[:3], np.float16(5), *launch.args[4:]))])
    with pytest.raises(AssertionError, match="1120 operations"):
        work.check()


def test_half_is_skipped_where_a_device_has_none(device):
    for benchmark, point in ((instruction, {"op": "fma", "lanes": 1}), (intensity, {"level": "memory", "intensity": 1.0})):
        with pytest.raises(Skip, match="half neither by OpenCL C"):
            benchmark.prepare(device, dtype="half", **point)


def test_types_without_an_operation_have_no_point(device):
    with pytest.raises(Skip, match="no operation"):
        instruction.prepare(device, op="native_sin", dtype="double", lanes=1)
    assert all(instruction.where(device.info, op=op, dtype="float", lanes=1) for op in OPERATIONS[:4])


def test_what_is_left_of_a_pair_is_a_range_that_widens_with_each_operation_that_is_subtracted():
    def chain(op, cycles):  # at 2 GHz, by a slope over 1000 and 3000 operations
        ends = [[5000 + n % 3 + 500 * steps * cycles // 1000 for n in range(16)] for steps in (1000, 3000)]
        params = {"op": op, "dtype": "int", "lanes": 1}
        samples = (series(one, ops=ops) for one, ops in zip(ends, (1000, 3000), strict=True))
        return record("instruction", params, *samples, core_clock=clock(2.0, 5.0))

    measured = run([chain("add", 5), chain("xor", 10), chain("min", 9)], header(cards=cards(["instruction"])))
    measured, rows = judged_rows(measured, None)
    (table,) = instructions(measured, rows)
    left = {row[0]: row[5] for row in table.rows}
    assert left == {"add": "–", "xor": "4.00 to 6.00", "min": "2.00 to 6.00"}
