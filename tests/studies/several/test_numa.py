"""Memory of NUMA nodes: sysfs of hosts with several, the system calls on this host's own nodes, points, and matrices."""

from __future__ import annotations

import mmap
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.host import memory_nodes
from clmembench.host.cpu_topology import HardwareThread
from clmembench.host.memory_nodes import NodeError
from clmembench.host.memory_nodes import memory_nodes as read
from clmembench.measure import sampling
from clmembench.model import NODE_PLACEMENT, Placement, Skip
from clmembench.plan import sweep
from clmembench.plan.budget import Budget
from clmembench.plan.selection import Selection
from clmembench.plan.sweep import benchmark_card
from clmembench.report import frame
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.several import curves
from clmembench.studies.several.benchmarks import numa
from clmembench.studies.several.matrices import numa_sections
from tests.builders import device, header, open_cpu, record, run, series, walked

# two sockets of four cores of two threads, as Linux numbers them, a node each; and memory alone in node 2
XEON = tuple(HardwareThread(cpu, cpu % 8 // 4, cpu % 4, cpu // 8, node=cpu % 8 // 4) for cpu in range(16))
CPU = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=16, shares_host_memory=True)


@pytest.fixture
def three_nodes(tmp_path, monkeypatch):
    """Nodes 0 and 1 with CPUs and memory, node 2 with memory alone, of which the process may not use node 3."""
    (tmp_path / "has_memory").write_text("0-3\n")
    (tmp_path / "status").write_text("Name:\tx\nMems_allowed:\t7\nMems_allowed_list:\t0-2\n")
    for node, text in enumerate(("0-3,8-11\n", "4-7,12-15\n", "\n")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(text)
    found = read(tmp_path, tmp_path / "status")
    cpus = {node: memory_nodes.cpus_of(node, tmp_path) for node in range(4)}
    monkeypatch.setattr(memory_nodes, "memory_nodes", lambda: found)
    monkeypatch.setattr(memory_nodes, "cpus_of", cpus.__getitem__)
    return found, cpus


def test_nodes_are_those_with_memory_that_the_process_may_use(three_nodes, tmp_path):
    nodes, cpus = three_nodes
    assert nodes == (0, 1, 2)
    assert cpus == {0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15), 2: (), 3: ()}
    (tmp_path / "has_memory").write_text("rubbish\n")
    assert read(tmp_path, tmp_path / "status") == (0,)


def test_each_nodes_cores_measure_the_memory_of_each_node(three_nodes):
    asked = walked(sweep.explore(discovered()["numa_latency"], CPU, Selection(suite="several", topology=XEON)))
    found = {(p.place.placement, p.params["policy"], p.params["memory_node"]) for p in asked}
    places = [f"{NODE_PLACEMENT}{node}" for node in (0, 1)]
    first = set(product(places, ["first_touch"], (0, 1)))  # no CPU touches first what is on node 2
    assert found == first | set(product(places, ["mbind"], (0, 1, 2))) and len(asked) == len(found)
    assert {p.place for p in asked} == {
        Placement(8, (0, 1, 2, 3, 8, 9, 10, 11), "node 0", 4),
        Placement(8, (4, 5, 6, 7, 12, 13, 14, 15), "node 1", 4),
    }
    moved = walked(sweep.explore(discovered()["numa_transfer"], FAKE_DEVICE_INFO, Selection(suite="several")))
    assert {p.params["memory_node"] for p in moved} == {0, 1, 2} and {p.place for p in moved} == {Placement()}


def test_pages_are_bound_and_counted_by_the_system_itself():
    node = memory_nodes.memory_nodes()[0]
    pages = mmap.mmap(-1, 8 * memory_nodes.PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(pages, np.uint8)
    address = array.ctypes.data
    assert min(memory_nodes.pages_by_node(address, array.nbytes)) < 0  # never touched
    memory_nodes.bind_pages(address, array.nbytes, node)
    with memory_nodes.running_on(node), memory_nodes.allocating_on(node):
        array[:: memory_nodes.PAGE_BYTES] = 1
    assert memory_nodes.pages_by_node(address, array.nbytes) == {node: 8}
    assert memory_nodes.pages_by_node(address + 1, array.nbytes - 1) == {node: 7}  # whole pages
    memory_nodes.renew_pages(address, array.nbytes)
    assert min(memory_nodes.pages_by_node(address, array.nbytes)) < 0 and not array.any()
    with pytest.raises(NodeError, match="no whole page"):
        memory_nodes.pages_by_node(address + 1, 4000)
    with pytest.raises(NodeError, match=r"mbind to node 1000 fails: EINVAL"):
        memory_nodes.bind_pages(address, array.nbytes, 1000)


def test_points_are_verified_on_this_host_and_pages_elsewhere_are_no_value(monkeypatch):
    opened, tiny, node = open_cpu(array_bytes=1 << 20), Budget(0.0, 0.01, 1.0, 1e4), memory_nodes.memory_nodes()[0]
    for name, policy in (("numa_latency", "mbind"), ("numa_bandwidth", "first_touch")):
        prepared = discovered()[name].prepare(opened, policy=policy, memory_node=node)
        result = sampling.sample_point(opened, prepared, tiny, 50)
        assert result.checked and not result.wrong
    monkeypatch.setattr(memory_nodes, "pages_by_node", lambda *_: Counter({node: 200, node + 1: 56}))
    with pytest.raises(Skip, match=f"not all on node {node}: 200 on node {node}, 56 on node {node + 1}; see"):
        sampling.sample_point(opened, prepared, tiny, 50)
    with pytest.raises(Skip, match="choose a CPU"):
        discovered()["numa_bandwidth"].prepare(FakeDevice(), policy="mbind", memory_node=node)


def test_pinned_memory_of_a_transfer_is_on_its_node():
    work = numa.numa_transfer.prepare(FakeDevice(replace(FAKE_DEVICE_INFO, array_bytes=1 << 20)), "to_device", 0)
    assert len(work.commands) == 256 and work.nbytes == 256 << 20
    with pytest.raises(Skip, match="set_mempolicy for node 1000 fails"):
        numa.numa_transfer.prepare(FakeDevice(), "to_device", 1000)


def test_tables_are_a_matrix_for_each_policy_and_the_figure_a_map():
    ns = {(0, 0): 90, (0, 1): 140, (1, 0): 141, (1, 1): 91, (0, 2): 250}
    records = [
        record(
            "numa_bandwidth",
            {"policy": policy, "memory_node": memory},
            series([(1 << 20) * each // 1000] * 16, nbytes=1 << 20),
            place=Placement(8, (0,), f"node {cores}", 4),
        )
        for policy in ("first_touch", "mbind")
        for (cores, memory), each in ns.items()
        if policy == "mbind" or memory < 2
    ]  # fmt: skip
    cards = {"numa_bandwidth": benchmark_card(discovered()["numa_bandwidth"])}
    found = run(records, header(device(kind="cpu", shares_host_memory=True), cards))
    first, bound = numa_sections(found, frame.rows(found, None))
    assert "by first touch, in GB/s" in first.title and first.header == (
        "cores of node", "memory of node 0", "memory of node 1",
    )  # fmt: skip
    assert [[str(cell).split(" ")[0] for cell in row] for row in bound.rows] == [
        ["0", "11.1", "7.14", "4.00"],
        ["1", "7.09", "11.0", "–"],
    ]
    drawn = curves.numa(cards["numa_bandwidth"], frame.parts([found]))
    assert drawn.count("memory of node") == 2
