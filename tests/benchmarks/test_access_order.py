"""Kernels' order and width of access, by what a device is made of and never by its name or kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clmembench.benchmarks import MIB, discovered
from clmembench.model import Launch, Slope
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from tests.builders import device

FEATURES = frozenset({"fp64", "nontemporal"})
LARGE = {"cache_bytes": 2 * MIB, "local_mem_bytes": MIB, "max_work_group": 4096, "global_mem_bytes": 16 << 30}
CPU = device("x", kind="cpu", compute_units=2, features=FEATURES, **LARGE)
MANY_CORES = device("x", kind="accelerator", local_mem_type="global", compute_units=60, features=FEATURES, **LARGE)
GPU = replace(FAKE_DEVICE_INFO, features=FEATURES, max_work_group=1024)
CORES = pytest.mark.parametrize("info", [CPU, MANY_CORES], ids=["CPU", "many cores"])


def first(name, info, **chosen):
    """The first configuration of a benchmark on a device: what is built, and the launch that is timed."""
    bench, fake = discovered()[name], FakeDevice(info)
    params = {axis: values.values(info)[0] for axis, values in bench.axes.items()} | chosen
    prepared = bench.prepare(fake, **params)
    work = prepared.work(16) if isinstance(prepared, Slope) else prepared
    (launch,) = (command for command in work.commands if isinstance(command, Launch))
    return fake.built, launch, work


@CORES
def test_a_core_reads_blocks_and_writes_cache_lines_past_its_caches(info):
    built, read, work = first("usm_bandwidth", info, memory="device", op="read", array_bytes=4 * MIB)
    reading = next(defines for defines in built if "BLOCKED" in defines)
    assert reading["BLOCKED"] and reading["V"] == "uint16"
    assert read.local_size == (1,) and read.global_size == (4 * info.compute_units,) and work.clock == "device"
    built, write, _ = first("usm_bandwidth", info, memory="device", op="write", array_bytes=4 * MIB)
    assert built[0]["V"] == "uint16" and built[0]["NONTEMPORAL"] and write.global_size == (4 * MIB // 64,)
    for name in ("copy_grid", "datatypes"):
        assert discovered()[name].axes["nontemporal"].values(info) == (1, 0)  # the search knows both
    built, _, _ = first("copy_grid", info, array_bytes=64 * MIB)
    assert any(defines.get("V") == "uint16" and defines["NONTEMPORAL"] for defines in built)


def test_neighbours_of_a_gpu_read_neighbouring_words():
    built, read, _ = first("usm_bandwidth", GPU, memory="device", op="read", array_bytes=4 * MIB)
    reading = next(defines for defines in built if "BLOCKED" in defines)
    assert not reading["BLOCKED"] and reading["V"] == "uint4" and not reading["NONTEMPORAL"]
    assert read.local_size == (1024,)
    built, _, _ = first("copy_grid", GPU, array_bytes=64 * MIB)
    assert any(defines.get("V") == "uint2" and not defines["NONTEMPORAL"] for defines in built)
    queued = {"work_group": 256, "groups": 256 * GPU.compute_units}  # as long as each work-item has a round
    once = 256 * queued["groups"] * 4 * 8
    is_default = discovered()["copy_grid"].default_subset
    assert [is_default(GPU, **queued, ilp=4, array_bytes=size) for size in (once, once - 8)] == [True, False]
    assert "blocked" not in {
        order
        for order in discovered()["stream"].axes["order"].values(GPU)
        if discovered()["stream"].default_subset(GPU, op="read", dtype="double", array_bytes=2048 * MIB, order=order)
    }


@CORES
def test_local_memory_of_cores_is_accessed_by_cache_lines(info):
    built, read, work = first("local_read", info)
    assert built[0]["V"] == "uint16" and built[0]["XOR"] and read.local_size == (1,)
    assert work.nbytes == 16 * 16 * 64 * info.compute_units  # rounds, loads, bytes
    built, _, work = first("local_copy", info, ilp=8)
    assert built[0]["V"] == "uint16" and built[0]["OWN_BLOCK"]
    assert work.nbytes == 16 * 2 * 8 * 64 * built[0]["GROUP_SIZE"] * info.compute_units
    for defines in (first("local_read", GPU)[0][0], first("local_copy", GPU)[0][0]):
        assert defines["V"] in ("uint", "uint4") and not defines.get("XOR") and not defines.get("OWN_BLOCK")


@CORES
def test_the_search_for_the_peak_of_cores_begins_with_the_widest_vectors(info):
    axes = discovered()["arithmetic"].axes
    assert axes["width"].values(info) == (16, 8, 4, 2) and axes["chains"].values(info)[:2] == (8, 12)
