"""What is read out of build logs, of the shapes that drivers write them in."""

from __future__ import annotations

import pytest

from clmembench.runtimes.opencl.build import nvidia_facts

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'sort' for 'sm_90'
ptxas info    : Function properties for sort
ptxas         .     1024 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 1024 bytes cumulative stack size, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'add' for 'sm_90'
ptxas info    : Function properties for add
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 26 registers, 380 bytes cmem[0]
"""


def told(registers: int, stack: int, stores: int, loads: int) -> dict[str, int]:
    return {"registers": registers, "stack_bytes": stack, "spill_store_bytes": stores, "spill_load_bytes": loads}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_each_kernel_of_a_log_has_its_own_numbers(ends):
    log = LOG.replace("\n", ends)
    assert nvidia_facts(log, "sort") == told(255, 1024, 40, 44)
    assert nvidia_facts(log, "add") == told(26, 0, 0, 0)


@pytest.mark.parametrize("log", ["", "warning: nothing of interest", LOG.replace("'add'", "'added'")])
def test_a_log_that_does_not_speak_of_a_kernel_gives_nothing(log):
    assert nvidia_facts(log, "add") == {}


def test_functions_that_a_kernel_calls_are_passed_over():
    called = """ptxas info    : Compiling entry function 'add' for 'sm_35'
ptxas info    : Function properties for helper
    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for add
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers
"""
    assert nvidia_facts(called, "add") == told(20, 0, 0, 0)


def test_a_log_that_contradicts_itself_gives_nothing():
    other = LOG.replace("sm_90", "sm_35").replace("26 registers", "30 registers")
    assert nvidia_facts(LOG + other, "add") == {}
    assert nvidia_facts(LOG + other, "sort") == told(255, 1024, 40, 44)


def test_a_line_of_another_shape_gives_none_of_its_numbers():
    assert nvidia_facts(LOG.replace("26 registers", "many registers"), "add").keys() == told(0, 0, 0, 0).keys() - {"registers"}
    assert nvidia_facts(LOG.replace("0 bytes stack frame,", "no stack frame,"), "add") == {"registers": 26}
