"""A probe of how many lines evict one: its latency after a growing crowd of lines, as one Work."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks.chase.spaces import BASE_ALIGNMENT_BYTES, build_chain
from clmembench.model import Device, Fill, Launch, Local, Probe, Read, Skip, Value, Work
from clmembench.model.address_patterns import NODE_BYTES, crowd_counts, probe_bytes

MAX_RECORDED = 256  # numbers of lines in one probe
ITEMS = 1024  # of the work-group that loads the crowd, on GPUs
MAX_CROWD_BYTES = 1 << 33  # words are numbered by 32 bits; a quarter of what they reach


def prepare_evict(device: Device, probe: Probe, empty_brackets: int, chain_ops: int, **defines: Value) -> Work:
    """The Work of a probe in mode evict. Raises Skip where there is no counter, and for a probe that is none."""
    info, record = device.info, probe.record
    if not defines["TICKS"]:
        raise Skip("no counter that a kernel can read was seen to work here: no single access can be timed")
    if probe.space not in ("global", "global_cg"):
        raise Skip("lines are evicted in global memory alone")
    crowd, apart = probe.crowd, probe.crowd_bytes
    if not 0 < record <= MAX_RECORDED or not 0 <= probe.skip <= probe.until <= crowd or crowd & (crowd - 1) or probe.rounds < 1:
        raise Skip(f"an eviction records up to {MAX_RECORDED} numbers of lines, of a crowd of a power of two")
    if apart % NODE_BYTES or probe_bytes(probe) > MAX_CROWD_BYTES:
        raise Skip(f"a crowd of {crowd} lines {apart} B apart cannot be had")
    if probe_bytes(probe) + BASE_ALIGNMENT_BYTES > info.max_alloc_bytes:
        raise Skip(f"{probe_bytes(probe)} B do not fit into one buffer")
    arena = device.kept("chase arena", probe_bytes(probe) + BASE_ALIGNMENT_BYTES)
    device.run([Fill(arena, probe_bytes(probe) + BASE_ALIGNMENT_BYTES, 0)])  # what the crowd loads was written once
    chain = build_chain(device, probe, **defines)
    items = min(info.max_work_group, ITEMS) if info.kind == "gpu" else 1
    ticks, visited = device.kept("chase ticks", 4 * record), device.kept("chase visited", 4 * record)
    costs, steps = device.kept("chase costs", 4 * empty_brackets), device.kept("chase chain", 16)
    sink = device.kept("chase sink", 8 * ITEMS)
    device.upload(steps, np.array([chain_ops, 0], np.uint64))
    kept = max(record, empty_brackets)
    numbers = (
        0x9E3779B9,
        1,
        probe.skip,
        probe.until,
        record,
        crowd,
        apart // NODE_BYTES,
        probe.also_from,
        probe.also_until,
        probe.rounds,
    )
    local = (Local(4 * kept), Local(4 * kept))
    args = (*chain.args, *local, ticks, visited, costs, steps, *(np.uint32(n) for n in numbers), sink)

    def check() -> None:
        """Every timed access led to the node that follows."""
        found = device.download(visited, np.uint32, record)
        wrong = found != np.uint32(NODE_BYTES * int(chain.lap[1]))
        assert not wrong.any(), f"{int(wrong.sum())} of {record} accesses did not lead to the node that follows"

    return Work(
        commands=(Launch(chain.kernels["evict"], args, (items,), (items,)),),
        ops=probe.rounds * (sum(crowd_counts(probe)) + record * max(0, probe.also_until - probe.also_from)) + record,
        reads={
            "ticks": Read(ticks, "uint32", record, "ticks"),
            "visited": Read(visited, "uint32", record, "bytes"),
            "cost": Read(costs, "uint32", empty_brackets, "ticks"),
            "chain": Read(steps, "uint64", 2, "operations, ticks"),
        },
        outputs=((ticks, 4 * record), (visited, 4 * record), (costs, 4 * empty_brackets)),
        check=check,
        notes=chain.notes,
    )
