"""Latency of memory while other compute units stream, by the traffic and how much of it there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks import (
    LATENCY,
    MIB,
    axis,
    axis_of,
    benchmark,
    headline_bytes,
    line_bytes,
    telling_count,
    work_group_sizes,
)
from clmembench.benchmarks.pchase import STEPS_PER_BLOCK, Chase
from clmembench.model import Array, Buffer, Device, DeviceInfo, Fill, Headline, Launch, Read, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

VECTORS_PER_BATCH = 4  # as in loaded_latency.cl
STORED_VECTORS: Mapping[str, int] = {"none": 0, "read": 0, "read_write": 2, "copy": 4}  # of a batch
# chains of 32 operations between two batches; the batches of one core are fewer than those of a compute unit's work-items
GPU_SPINS, CPU_SPINS = (256, 64, 24, 16, 12, 8, 5, 0), (16, 4, 2, 1, 0)
MAX_BATCHES_PER_POLL, MAX_SPINS_PER_POLL = 16, 512  # polls of one word take no part in the traffic, and no end comes late
GPU_CHASE_BYTES, CPU_CHASE_BYTES = 256 * MIB, 64 * MIB  # or four times the cache, where an array may be so large
GPU_GROUP_SIZE, GPU_VECTOR_WORDS, CPU_VECTOR_WORDS = 1024, 4, 16
COUNTING_ITEMS_PER_UNIT = 2048
# reads of the arrivals before the chase gives up: as those of device_barrier
MAX_POLLS, MAX_CPU_POLLS = 1 << 20, 1 << 25
NEAR_END_STEPS = 512
HASH_FACTOR, SEED = 2654435761, 20261127
ALONE = "other compute units idle"


def _where(info: DeviceInfo, traffic: str, spins: int) -> bool:
    return traffic != "none" or spins == 0


def _in_default_subset(info: DeviceInfo, traffic: str, spins: int) -> bool:
    """All points on GPUs; on CPUs the curve of reads, and the heavy end of the others."""
    return not info.has_cpu_cores or traffic in ("none", "read") or spins <= 1


@benchmark(
    LATENCY,
    suite="memory",
    source="Intel Memory Latency Checker (loaded latencies); Chips and Cheese, Microbenchmarks",
    headlines=(
        Headline("latency", f"memory, {ALONE}", "latency", {"traffic": "none"}, note="by one compute unit, with translation"),
        Headline(
            "latency",
            "memory, other compute units read at full rate",
            "latency",
            {"traffic": "read", "spins": 0},
            note="by one compute unit, with translation",
        ),
    ),
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="spins",
    traffic=axis(*STORED_VECTORS),
    spins=axis_of(lambda info: CPU_SPINS if info.has_cpu_cores else GPU_SPINS),
)
def loaded_latency(device: Device, traffic: str, spins: int) -> Slope:
    """Latency of memory for one work-item while all other compute units stream, from idle to saturation.

    There are as many work-groups as compute units. In the first to arrive one work-item follows a random cycle of lines, as in
    pchase; each other group streams through its own part of a large array until the chase has ended, with `spins` chains of 32
    dependent operations between the batches of a work-item. read loads only, read_write stores half of what it loads, copy all
    of it; with none the others end at once. The metric is a slope over steps, and includes address translation. `streamed` has
    the batches of each group: the achieved bandwidth is that of the slope's extra batches in its extra time, by bytes loaded
    and stored. Sums of all words, counts of stored words and the chase's end verify all three. Raises Skip where groups do
    not run at the same time.
    """
    info, cores = device.info, device.info.has_cpu_cores
    streams = info.compute_units - 1
    if streams < 1:
        raise Skip("one compute unit: no other one can stream beside the chase")
    (group,) = (1,) if cores else work_group_sizes(info, GPU_GROUP_SIZE)
    words = CPU_VECTOR_WORDS if cores else GPU_VECTOR_WORDS
    batch_bytes, stored = VECTORS_PER_BATCH * 4 * words, STORED_VECTORS[traffic]
    segment = headline_bytes(info) // (streams * group * batch_bytes)  # blocks, one batch of each work-item of a group
    if segment < 1:
        raise Skip(f"an array of {headline_bytes(info)} B gives {streams} work-groups of {group} no batch each: raise --size")
    items, data_bytes = streams * group, segment * streams * group * batch_bytes
    defines: Mapping[str, Value] = {"V": f"uint{words}", "GROUP_SIZE": group, "STREAMS": traffic != "none", "STORED": stored}
    kernels = device.build(kernel_source("loaded_latency"), **defines)
    shared = _data(device, data_bytes)
    data, chase, seed = shared.buffer, shared.chase, shared.seed
    target = device.kept("loaded_latency target", data_bytes) if stored else data
    state, streamed = device.alloc(16), device.alloc(4 * streams)
    batches, sums, found = device.alloc(4 * items), device.alloc(4 * words * items), device.alloc(4)
    per_poll = max(1, min(MAX_BATCHES_PER_POLL, MAX_SPINS_PER_POLL // max(1, spins)))

    def launch(blocks: int) -> Launch:
        numbers = (segment, spins, per_poll, 2**32 - 1, HASH_FACTOR)
        patience = np.uint32(MAX_CPU_POLLS if cores else MAX_POLLS)
        args = (chase.cursor, np.uint32(blocks), state, patience, data, target, batches, sums, streamed)
        return Launch(kernels["loaded_latency"], (*args, *map(np.uint32, numbers)), ((streams + 1) * group,), (group,))

    reset = Fill(state, 16), Fill(streamed, 4 * streams)
    device.run([*reset, launch(1)])
    if device.download(state, np.uint32, 4)[2]:
        raise Skip(f"{streams + 1} work-groups do not run at the same time here")

    def check_streams() -> None:
        """Verifies the sums and counts of what streams loaded, and counts what they stored."""
        made = device.download(batches, np.uint32, items).reshape(streams, group).astype(np.int64)
        total = device.download(streamed, np.uint32, streams)
        assert np.array_equal(made.sum(axis=1).astype(np.uint32), total), "a group's work-items made other batches than counted"
        summed = device.download(sums, np.uint32, items * words).reshape(streams, group, words)
        wrong = int((summed != expected_sums(made, segment, words, seed)).any(axis=2).sum())
        assert wrong == 0, f"the sums of {wrong} of {items} work-items are wrong"
        if stored:
            counting = info.compute_units * (1 if cores else COUNTING_ITEMS_PER_UNIT)
            args = (data, target, found, np.uint64(data_bytes // 4))
            device.run([Fill(found, 4), Launch(kernels["count_stored"], args, (counting,))])
            right = int(device.download(found, np.uint32, 1)[0])
            wanted = stored * words * int(np.minimum(made, segment).sum())
            assert right >= wanted, f"{right} words are stored, not {wanted}"

    def work(least: int) -> Work:
        blocks = telling_count(-(-least // STEPS_PER_BLOCK), chase.order.size, STEPS_PER_BLOCK)

        def check() -> None:
            _, _, gave_up, met = device.download(state, np.uint32, 4)
            if gave_up:
                raise Skip(f"{streams + 1} work-groups stopped running at the same time while it was measured")
            assert met == streams + 1, f"the chase began when {met} of {streams + 1} work-groups had arrived"
            chase.verify(blocks * STEPS_PER_BLOCK)
            chase.verify_chain()
            if traffic != "none":
                check_streams()

        return Work(
            commands=(launch(blocks),),
            ops=blocks * STEPS_PER_BLOCK,
            before=reset,
            reads={} if traffic == "none" else {"streamed": Read(streamed, "uint32", streams, "batches")},
            outputs=((target, data_bytes),) * bool(stored) + ((batches, 4 * items), (sums, 4 * words * items)),
            check=check,
            expected_units=1 if traffic == "none" else None,
            concurrent_units=streams + 1 if info.kind == "cpu" and traffic != "none" else 0,
            facts={"batch_bytes": batch_bytes * (VECTORS_PER_BATCH + stored) // VECTORS_PER_BATCH},
        )

    return Slope(work, start=NEAR_END_STEPS, most=STEPS_PER_BLOCK << 24)


@dataclass(frozen=True, slots=True)
class _Data:
    """The data that are streamed, numbered from a seed, and the chase."""

    device: Device
    nbytes: int
    buffer: Buffer
    seed: int
    chase: Chase


_made: list[_Data] = []  # those of this process's last device: making them for each point would take most of its time


def _data(device: Device, nbytes: int) -> _Data:
    info, seed = device.info, (SEED + device.seed) % 2**32
    if not any(one.device is device and one.nbytes == nbytes for one in _made):
        _made.clear()
        buffer, spacing = device.alloc(nbytes), line_bytes(info)
        kernels = device.build(kernel_source("loaded_latency"), V="uint", GROUP_SIZE=1, STREAMS=False, STORED=0)
        device.run([Launch(kernels["number_words"], (buffer, np.uint32(seed)), (nbytes // 4,))])
        least = CPU_CHASE_BYTES if info.has_cpu_cores else GPU_CHASE_BYTES
        nodes = min(headline_bytes(info), max(least, 4 * info.cache_bytes)) // spacing
        chase = Chase.built(device, max(STEPS_PER_BLOCK, nodes), spacing, SEED + device.seed)
        _made.append(_Data(device, nbytes, buffer, seed, chase))
    return _made[0]


def expected_sums(made: Array, segment: int, words: int, seed: int) -> Array:
    """The sums that loaded_latency.cl computes, by the formula of its words and the batches that each work-item made.

    `made` has the shape (streams, group), the result (streams, group, words).
    """
    streams, group = made.shape
    laps, rest = np.divmod(made, segment)
    blocks = laps * (segment * (segment - 1) // 2) + rest * (rest - 1) // 2 + made * segment * np.arange(streams)[:, None]
    stride, loads = VECTORS_PER_BATCH * group, VECTORS_PER_BATCH * made
    vectors = blocks.astype(np.uint64) * np.uint64(VECTORS_PER_BATCH * stride) + (
        loads * np.arange(group) + made * group * (VECTORS_PER_BATCH * (VECTORS_PER_BATCH - 1) // 2)
    ).astype(np.uint64)
    index = vectors[:, :, None] * np.uint64(words) + loads.astype(np.uint64)[:, :, None] * np.arange(words, dtype=np.uint64)
    found: Array = (index * np.uint64(HASH_FACTOR) + loads.astype(np.uint64)[:, :, None] * np.uint64(seed)).astype(np.uint32)
    return found
