"""Latency of one probe of a memory hierarchy: a chase over a lap of addresses in any memory space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from clmembench.analysis.quiet_windows import CHAINS_PER_LAUNCH, HEADER_NUMBERS
from clmembench.benchmarks import LATENCY, MIB, axis, benchmark, line_bytes, telling_count
from clmembench.benchmarks.spaces import Chain, build_chain
from clmembench.model import Command, Device, DeviceInfo, Launch, Local, Metric, Prepared, Probe, Read, Skip, Slope, Value, Work
from clmembench.model.address_patterns import CROWD_FACTOR, MIN_PAGE_BYTES, NODE_BYTES
from clmembench.studies.hierarchy.benchmarks.evict import PREPARE_CROWD

STEPS_PER_BLOCK = 16  # as unrolled in chase.cl
MAX_FULL_LAP_NODES = 1 << 13  # up to here both ends are whole laps, so that misses of an empty L1 cancel
PARTIAL_LAP_STEPS = 1 << 11  # steps of the near end where the set exceeds any L1
MAX_SINGLE_ITEM_LAP_BYTES = 64 * MIB  # bytes of lines, or twice the claimed cache: warmed by one work-item
COUNTER_CODES = {"ptx": 1, "tsc": 2}  # feature: TICKS in chase.cl
MAX_WINDOWS = 64  # windows of a launch, on CPUs with a fence: a disturbance spares some of them
SHORT_CHAIN_OPS, LONG_CHAIN_OPS = 1 << 11, 5 << 11  # chains beside the windows calibrate the tick
EMPTY_BRACKETS = 32  # in each launch
CALIBRATION_OPS = 1 << 14  # dependent operations that calibrate the tick against the core clock
WINDOW_BYTES = 14 << 10  # of local memory for recorded accesses: at most the smallest carve-out
TRACING_ITEMS = 1024  # of a traced work-group, of which one works: on an H200 two such take as much local memory as 32 of laps
MIN_FLUSH_BYTES = 64 * MIB
GPU_FLUSH_BYTES = 256 * MIB
LARGE_FLUSH_BYTES = 256 * MIB  # beyond, each costs a tenth of a second

LAP_LATENCY = replace(LATENCY, only={"mode": ("lap",)})
TRACED_PASS = Metric("traced_pass", "ns", "ops", "cost", "lower", only={"mode": ("trace", "evict", "residence")})


@benchmark(
    LAP_LATENCY,
    TRACED_PASS,
    suite="memory",
    source="Mei & Chu 2015, section 4; Razzaq et al. 2016, section IV-A1",
    adaptive=True,
    order=axis("random", "sequential", "blocks", "pairs", "walk", "segments", "by_page", "by_round", "zigzag"),
    count=axis(64),
    stride_bytes=axis(64),
    shift_bytes=axis(0),
    block_bytes=axis(0),
    visits=axis(1),
    segments=axis("", accepts=lambda value: isinstance(value, str)),
    seed=axis(0),
    space=axis(
        "global",
        "global_cg",
        "readonly",
        "image1d_buffer",
        "image1d",
        "image2d",
        "constant",
        "constant_array",
        "local",
        "private",
        needs={"global_cg": ["ptx"], **{image: ["images"] for image in ("image1d_buffer", "image1d", "image2d")}},
    ),
    mode=axis("lap", "trace", "evict", "residence"),
    skip=axis(0),
    record=axis(0),
    cold=axis(False, True),
    until=axis(0),
    crowd=axis(0),
    crowd_bytes=axis(0),
    also_from=axis(0),
    also_until=axis(0),
    rounds=axis(0),
    turns=axis(0),
)
def chase(device: Device, **params: Value) -> Prepared:
    """Latency of a memory space over a lap of addresses that a plan chooses, such as that of topology.

    One work-item follows a lap, a chain in which each node holds the location of the next: in global and local memory its
    absolute address, from a base aligned to 2 MiB, elsewhere its number, so that the latency includes the computation of an
    address from it. Each launch fills a private array, and local memory, itself.

    mode lap: the slope of time over steps in the steady state; each launch resumes where the last one ended, after a whole warm
    lap. Where fences order the reading of the counter, a launch is also timed in windows of at least a lap each: on a busy host
    some of them are undisturbed. `windows` has the steps of a window, the operations by which a long chain exceeds a short one,
    the ticks of alternating chains before and after, and the ticks of each window.

    mode trace: the ticks of each of `record` accesses after the first `skip`, kept in local memory. A store of the loaded value
    precedes the second reading of the counter, with fences around both on out-of-order cores. Also read are the cost of a
    bracket without an access (`cost`), the offset that each access led to, modulo 4 GiB (`visited`), and the ticks of dependent
    operations (`chain`: their number, and ticks). Where local memory is too small for all accesses, further launches skip more.
    The metric is the time of a pass over the accesses, including launches and readings of the counter; it is not a latency.

    mode evict: the ticks of a load of the pattern's first place after other lines were loaded, for `record` numbers of lines
    from `skip` to `until`: first of `crowd` lines `crowd_bytes` apart, and the pattern's places from the third on. The second
    place, in the page of the first, is loaded just before, so that no translation misses. Loads of a work-group's items
    overlap.

    mode residence: the ticks of `record` lines of a scan from number `skip` to `until`, each of which was loaded `also_from` to
    `also_until` lines before; the lines lie `crowd_bytes` apart, in windows of `crowd` of them.

    cold: more data than any cache holds is written and read before. All probes of a process use the same buffer, and so the
    same pages, until one needs a larger buffer. Raises Skip for a space that the device lacks, or a lap that does not fit into
    it."""
    probe = Probe.of(params)
    if probe.mode in PREPARE_CROWD:
        return PREPARE_CROWD[probe.mode](device, probe, EMPTY_BRACKETS, CALIBRATION_OPS, **_defines(device.info))
    return _prepare_trace(device, probe) if probe.mode == "trace" else _prepare_lap(device, probe)


def _prepare_lap(device: Device, probe: Probe) -> Slope:
    if probe.cold or probe.skip or probe.record:
        raise Skip("a mean over laps is a steady-state value: cold, skip and record are for traces")
    chain = build_chain(device, probe, **_defines(device.info))
    nodes = chain.lap.size
    state = device.kept("chase state", 32)
    device.upload(state, np.array([chain.lap[0], 0], np.uint64))

    # the parts of a reversed lap differ: only whole laps have its mean
    whole = nodes <= MAX_FULL_LAP_NODES or probe.pattern.order == "zigzag"
    windowed, fenced = _window_arguments(device, chain), bool(_defines(device.info)["FENCE"])

    checked: list[bool] = []

    def work(least: int) -> Work:
        laps = -(-least // nodes)
        # a few steps more than whole laps: a lap ends where it began, so whole laps would verify nothing
        blocks = telling_count(-(-(laps * nodes if whole else least) // STEPS_PER_BLOCK), nodes, STEPS_PER_BLOCK)
        steps = blocks * STEPS_PER_BLOCK
        args, reads = windowed(blocks)
        part = (f"near end {steps / nodes:.2g} of a lap, after a whole warm lap",) if least < nodes else ()

        def check() -> None:
            """Verifies the node reached; and, except the first time, when caches must not be disturbed, that the chain is
            intact."""
            word, total, made = (int(n) for n in device.download(state, np.uint64, 3))
            assert made == steps, f"{made} steps were made, not {steps}"
            wanted = int(chain.lap[total % nodes])
            assert word == wanted, f"after {total} steps the chase is at word {word}, not at {wanted}"
            if checked:
                chain.follow()
            checked.append(True)

        return Work(
            commands=(chain.launch("chase", state, np.uint32(blocks), *args),),
            ops=steps,
            reads=reads,
            own_clock=fenced,
            check=check,
            notes=(*chain.notes, *part),
        )

    if nodes * line_bytes(device.info) <= max(MAX_SINGLE_ITEM_LAP_BYTES, 2 * device.info.cache_bytes):
        blocks = -(-nodes // STEPS_PER_BLOCK)
        device.run([chain.launch("chase", state, np.uint32(blocks), *windowed(blocks)[0])])
    return Slope(work, start=nodes if whole else _partial_lap_steps(probe), most=STEPS_PER_BLOCK << 31)


def _partial_lap_steps(probe: Probe) -> int:
    """Steps of the near end of long laps: whole blocks, since the second half of a block hits neighbours that a prefetcher
    loaded during the first. On a Zen 4 the first half took 121 ns an access, the second 79."""
    pattern = probe.pattern
    block = pattern.block_bytes // pattern.stride_bytes if pattern.order == "blocks" else 1
    return -(-PARTIAL_LAP_STEPS // block) * block if block <= MAX_FULL_LAP_NODES else PARTIAL_LAP_STEPS


def _window_arguments(device: Device, chain: Chain) -> Callable[[int], tuple[tuple[Any, ...], Mapping[str, Read]]]:
    """A function from the number of blocks of a launch to the further arguments that time it in windows, and to the data read
    from them: nothing if the device has no fence, or if a launch is shorter than two laps."""
    if not _defines(device.info)["FENCE"]:
        return lambda blocks: ((), {})
    noted = device.kept("chase windows", 4 * (HEADER_NUMBERS + CHAINS_PER_LAUNCH + MAX_WINDOWS + 1))
    a_lap = -(-chain.lap.size // STEPS_PER_BLOCK)

    def windowed(blocks: int) -> tuple[tuple[Any, ...], Mapping[str, Read]]:
        inner = max(a_lap, -(-blocks // MAX_WINDOWS))
        args = (np.uint32(inner), noted, np.uint32(0x9E3779B9), np.uint32(1))
        reads = {
            "windows": Read(noted, "uint32", HEADER_NUMBERS + CHAINS_PER_LAUNCH + blocks // inner, "steps, operations, ticks")
        }
        return args, reads if blocks >= 2 * inner else {}

    return windowed


def _prepare_trace(device: Device, probe: Probe) -> Work:
    info, record = device.info, probe.record
    defines = _defines(info)
    if not defines["TICKS"]:
        raise Skip("no in-kernel counter works here: only means over laps can be measured")
    if record < 1:
        raise Skip("a trace of no accesses: set the number to record")
    chain = build_chain(device, probe, **defines)
    seen_bytes = 8 if probe.space == "image2d" else 4
    window = _accesses_per_launch(info, record, seen_bytes + 4, chain.local_bytes)
    ticks, visited = device.kept("chase ticks", 4 * record), device.kept("chase visited", 4 * record)
    costs, steps = device.kept("chase costs", 4 * EMPTY_BRACKETS), device.kept("chase chain", 16)
    device.upload(steps, np.array([CALIBRATION_OPS, 0], np.uint64))
    kept = max(window, EMPTY_BRACKETS)
    flush = _flush_commands(device, chain) if probe.cold else ()

    # drivers of GPUs size local memory for as many work-groups as fit by work-items, and leave the rest to the first cache
    idle = min(info.max_work_group, TRACING_ITEMS) - 1 if info.kind == "gpu" else 0

    def launch(first: int) -> Launch:
        local = (Local(seen_bytes * kept), Local(4 * kept))
        numbers = (0x9E3779B9, 1, first, probe.skip + first, min(window, record - first))
        return chain.launch("trace", *local, ticks, visited, costs, steps, *(np.uint32(n) for n in numbers), idle=idle)

    def check() -> None:
        """Verifies that every access led to the next node."""
        reached_offsets = device.download(visited, np.uint32, record)
        index = (probe.skip + 1 + np.arange(record)) % chain.lap.size
        wrong = reached_offsets != (NODE_BYTES * chain.lap[index]).astype(np.uint32)
        assert not wrong.any(), f"{int(wrong.sum())} of {record} accesses did not lead to the next node"

    firsts = range(0, record, window)
    commands: list[Command] = []
    for first in firsts:
        commands += [*(flush if first else ()), launch(first)]
    notes = [f"in {len(firsts)} launches, each from the lap's start"] * (len(firsts) > 1)
    if info.has_cpu_cores and not defines["FENCE"]:
        notes.append("no fence works here: an out-of-order core may read too few ticks")
    return Work(
        commands=tuple(commands),
        ops=sum(probe.skip + min(first + window, record) for first in firsts),
        before=flush,
        reads={
            "ticks": Read(ticks, "uint32", record, "ticks"),
            "visited": Read(visited, "uint32", record, "bytes"),
            "cost": Read(costs, "uint32", EMPTY_BRACKETS, "ticks"),
            "chain": Read(steps, "uint64", 2, "operations, ticks"),
        },
        outputs=((ticks, 4 * record), (visited, 4 * record), (costs, 4 * EMPTY_BRACKETS)),
        check=check,
        notes=(*chain.notes, *notes),
    )


def _defines(info: DeviceInfo) -> dict[str, Value]:
    """Definitions for laps and traces alike, so that both are compiled once."""
    counter = next((number for name, number in COUNTER_CODES.items() if name in info.features), 0)
    own: dict[str, Value] = {
        "COSTS": EMPTY_BRACKETS,
        "CROWD_FACTOR": f"{CROWD_FACTOR}u",
        "HALF_PAGE_WORDS": f"{MIN_PAGE_BYTES // 2 // NODE_BYTES}ul",
        "CHAIN_TICKS": CHAINS_PER_LAUNCH,
        "SHORT_CHAIN": SHORT_CHAIN_OPS,
        "LONG_CHAIN": LONG_CHAIN_OPS,
    }
    return {"TICKS": counter, "FENCE": "fence" in info.features, **own}


def _accesses_per_launch(info: DeviceInfo, record: int, access_bytes: int, taken: int) -> int:
    """Accesses that one launch records."""
    room = min(WINDOW_BYTES, info.local_mem_bytes - 1024 - taken) // access_bytes
    if room < EMPTY_BRACKETS:
        raise Skip(f"{taken} B of local memory for the chain leave too little for the recorded accesses")
    return min(record, room)


def flush_bytes(info: DeviceInfo) -> int:
    """Bytes that exceed any cache: on CPUs four times the claimed size of the last one, or twice that of a large one."""
    cache = info.cache_bytes
    wanted = max(MIN_FLUSH_BYTES, min(4 * cache, max(2 * cache, LARGE_FLUSH_BYTES)))
    wanted = wanted if info.kind == "cpu" else GPU_FLUSH_BYTES
    return min(wanted, info.max_alloc_bytes)


def _flush_commands(device: Device, chain: Chain) -> tuple[Command, ...]:
    """Commands that write and read more than any cache holds, on all compute units."""
    nbytes = flush_bytes(device.info)
    words, out = device.kept("chase flush", nbytes), device.kept("chase never", 8)
    items = (nbytes // NODE_BYTES,)
    write = Launch(chain.kernels["flush_write"], (words,), items)
    return write, Launch(chain.kernels["flush_read"], (words, out, np.uint64(2**64 - 1)), items)
