"""Memory of each NUMA node from the cores of each: latency and bandwidth; and transfers of pinned memory on each node."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from clmembench.benchmarks import LATENCY, MIB, axis, axis_of, benchmark, headline_bytes, line_bytes, telling_count
from clmembench.benchmarks.link.transfer import BATCH_BYTES, FACTOR, MAX_COPIES, interleave_copies, is_zero_copy, prepare_copy
from clmembench.benchmarks.link.usm import CORE_GROUP, CORE_LANES, assert_sums
from clmembench.benchmarks.pchase import PARTIAL_LAP_STEPS, SEED, STEPS_PER_BLOCK, Chase
from clmembench.benchmarks.stream import OPERATION_CODES, sum_items
from clmembench.host import memory_nodes
from clmembench.model import Array, Buffer, Copy, Device, DeviceInfo, Launch, Metric, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

NUMA_BANDWIDTH = Metric("numa_bandwidth", "GB/s", "nbytes", "rate", "higher")
NUMA_LINK = Metric("numa_link_bandwidth", "GB/s", "nbytes", "rate", "higher")
POLICIES = ("first_touch", "mbind")
SOURCE = "Intel Memory Latency Checker, latency and bandwidth matrices"
CORES = "it measures the memory of the host's CPUs: choose a CPU"


def _nodes(info: DeviceInfo) -> tuple[int, ...]:
    return memory_nodes.memory_nodes()


def _where(info: DeviceInfo, policy: str, memory_node: int) -> bool:
    """No CPU is there to touch first the pages of a node that is memory alone."""
    return policy != "first_touch" or bool(memory_nodes.cpus_of(memory_node)) or memory_node == 0


@benchmark(
    LATENCY,
    suite="several",
    source=SOURCE,
    where=_where,
    figure_axis="memory_node",
    on_nodes=True,
    policy=axis(*POLICIES),
    memory_node=axis_of(_nodes),
)
def numa_latency(device: Device, policy: str, memory_node: int) -> Slope:
    """Latency of loads from one node's memory by a core of another, by a pointer chase over an array beyond all caches.

    Each process runs on the CPUs of one node. first_touch: a thread on the memory's node touches every page first. mbind: the
    pages are bound to the node. That they are there is verified. It includes address translation.
    """
    spacing = line_bytes(device.info)
    nodes = headline_bytes(device.info) // spacing
    if nodes < STEPS_PER_BLOCK:
        raise Skip(f"{nodes * spacing} B are too few lines: raise --size")
    buffer = _placed_buffer(device, nodes * spacing, policy, memory_node)
    chase = Chase.built(device, nodes, spacing, SEED + device.seed, buffer)

    def work(least: int) -> Work:
        blocks = telling_count(-(-least // STEPS_PER_BLOCK), nodes, STEPS_PER_BLOCK)
        steps = blocks * STEPS_PER_BLOCK

        def check() -> None:
            _verify_pages(device, buffer, nodes * spacing, memory_node)
            chase.verify(steps)
            chase.verify_chain()

        return Work(commands=(chase.launch(blocks),), ops=steps, check=check)

    return Slope(work, start=PARTIAL_LAP_STEPS, most=STEPS_PER_BLOCK << 31)


@benchmark(
    NUMA_BANDWIDTH,
    suite="several",
    source=SOURCE,
    where=_where,
    figure_axis="memory_node",
    on_nodes=True,
    policy=axis(*POLICIES),
    memory_node=axis_of(_nodes),
)
def numa_bandwidth(device: Device, policy: str, memory_node: int) -> Work:
    """Bandwidth of reads from one node's memory by all cores of another, of an array beyond all caches.

    Processes and policies are those of numa_latency. Vectors of 64 B are each read once.
    """
    info = device.info
    group = min(CORE_GROUP, info.max_work_group)
    vectors = headline_bytes(info) // (4 * CORE_LANES) // group * group
    if not vectors:
        raise Skip(f"{headline_bytes(info)} B are fewer than one work-group of {group} vectors: raise --size")
    words, items = CORE_LANES * vectors, sum_items(info, True, 1, vectors)
    buffer, sums = _placed_buffer(device, 4 * words, policy, memory_node), device.alloc(4 * CORE_LANES * items)
    defines: dict[str, Value] = {"V": f"uint{CORE_LANES}", "NONTEMPORAL": False}
    writing = device.build(kernel_source("usm"), LANES=CORE_LANES, **defines)["write_words"]
    device.run([Launch(writing, (buffer, FACTOR), (vectors,), (group,))])
    defines |= {"T": "uint", "OP": OPERATION_CODES["read"], "BLOCKED": True, "LOOP": False}
    reading = device.build(kernel_source("stream"), **defines)["reduce"]

    def check() -> None:
        _verify_pages(device, buffer, 4 * words, memory_node)
        assert_sums(device, sums, items, CORE_LANES, vectors)

    return Work(
        commands=(Launch(reading, (buffer, buffer, sums, np.uint64(vectors)), (items,), (1,)),),
        nbytes=4 * words,
        outputs=((sums, 4 * CORE_LANES * items),),
        check=check,
    )


@benchmark(
    NUMA_LINK,
    suite="several",
    source="NVIDIA nvbandwidth, host memory of each NUMA node",
    figure_axis="memory_node",
    min_time_s=0.4,  # as transfer
    direction=axis("to_device", "from_device"),
    memory_node=axis_of(_nodes),
)
def numa_transfer(device: Device, direction: str, memory_node: int) -> Work:
    """Bandwidth of the host link from and to pinned memory on each NUMA node.

    The copies are those of pinned `transfer` at its largest size. The driver allocates under a policy that binds new pages to
    the node. That they are there is verified. Where host and device share memory it is a copy within it.
    """
    nbytes = min(256 * MIB, headline_bytes(device.info)) // 4 * 4
    try:
        with memory_nodes.allocating_on(memory_node):
            work = prepare_copy(device, direction, True, nbytes, 0, blocking=False)
        (copy,) = work.commands
        assert isinstance(copy, Copy)
        _verify_array(copy.src if direction == "to_device" else copy.dst, memory_node)
    except memory_nodes.NodeError as error:
        raise Skip(str(error)) from error
    return interleave_copies([work], max(1, min(MAX_COPIES, BATCH_BYTES // nbytes)))


def _placed_buffer(device: Device, nbytes: int, policy: str, node: int) -> Buffer:
    """A buffer whose pages the host touches first or binds on the node. Raises Skip where neither is possible."""
    if device.info.kind != "cpu":
        raise Skip(CORES)
    if not is_zero_copy(device):
        raise Skip("this driver maps buffers at other addresses, whose pages are not those that kernels read")
    buffer = device.alloc(nbytes)
    try:
        with (
            device.mapped(buffer, nbytes, "write") as array,
            memory_nodes.running_on(node) if policy == "first_touch" else nullcontext(),
        ):
            memory_nodes.renew_pages(array.ctypes.data, nbytes)
            if policy == "mbind":
                memory_nodes.bind_pages(array.ctypes.data, nbytes, node)
            array[:: memory_nodes.PAGE_BYTES] = 0
    except memory_nodes.NodeError as error:
        raise Skip(str(error)) from error
    return buffer


def _verify_pages(device: Device, buffer: Buffer, nbytes: int, node: int) -> None:
    """Raises Skip unless all pages of a buffer are on the node: the system may move them to the cores that use them."""
    try:
        with device.mapped(buffer, nbytes, "read") as array:
            _verify_array(array, node)
    except memory_nodes.NodeError as error:
        raise Skip(str(error)) from error


def _verify_array(array: Array, node: int) -> None:
    found = memory_nodes.pages_by_node(array.ctypes.data, array.nbytes)
    if found.keys() != {node}:
        counts = ", ".join(f"{count} on node {n}" if n >= 0 else f"{count} not told" for n, count in sorted(found.items()))
        raise memory_nodes.NodeError(f"the pages are not all on node {node}: {counts}; see kernel.numa_balancing")
