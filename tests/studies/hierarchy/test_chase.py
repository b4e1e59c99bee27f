"""The chase on PoCL in every space, order and mode: what it follows, notices and refuses; and its shape on a GPU."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import get_args

import numpy as np
import pytest

from clmembench.benchmarks import discovered, spaces
from clmembench.measure import probe, sampling
from clmembench.measure.job import Job
from clmembench.measure.worker import Session
from clmembench.model import Launch, Local, Order, Pattern, Probe, Skip, Slope, Space
from clmembench.model.address_patterns import pattern_offsets
from clmembench.plan.budget import Budget
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.hierarchy import chase_latency
from tests.cases import each

KIB, MIB = 1 << 10, 1 << 20
CHASE = import_module("clmembench.studies.hierarchy.benchmarks.chase")
RANDOM = Pattern("random", 64, 64, seed=3)
TINY = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4, patience=100)
HERE = [space for space in get_args(Space) if space != "global_cg"]  # which PTX alone can say
ORDERS = {
    "sequential": Pattern("sequential", 40, 128),
    "random": Pattern("random", 1000, 64),
    "blocks": Pattern("blocks", 64, 64, block_bytes=1024),
    "pairs": Pattern("pairs", 20, 4096, shift_bytes=64, block_bytes=32),
    "walk": Pattern("walk", 10, 4096, visits=8),
    "segments": Pattern("segments", segments="0:128:3:2;64:128:2:1"),
    "by_page": Pattern("by_page", 6, 4096, 128, 64, 2),
    "by_round": Pattern("by_round", 6, 4096, 128, 64, 2),
    "zigzag": Pattern("zigzag", 64, 64, block_bytes=1024),
    "listed": Pattern("random", 4, segments="0:4096:3:1;40960:0:1:1"),
}


@pytest.fixture(scope="module")
def device():
    """With the features that it was seen to have, and a counter where a busy host let none be seen."""
    found = next(d for d in runtime("opencl").devices() if d.kind == "cpu")
    features = probe.probe(runtime("opencl").open(found)).features
    return runtime("opencl").open(replace(found, features=features | {"tsc"}))


@pytest.fixture
def quick_flush(monkeypatch):
    monkeypatch.setattr(CHASE, "flush_bytes", lambda info: 4 * MIB)


def prepared(device, asked: Probe):
    return discovered()["chase"].prepare(device, **asked.params())


def steps(device) -> tuple[int, int]:
    word, count = device.download(device.kept("chase state", 16), np.uint64, 2)
    return int(word), int(count)


@each("pattern", ORDERS.values())
def test_a_lap_of_every_order_is_followed_in_order(device, pattern):
    slope = prepared(device, Probe(pattern))
    assert isinstance(slope, Slope) and sampling.check_outputs(device, slope.work(slope.start)) == ""
    lap = pattern_offsets(pattern)
    for _ in range(3):
        before, work = steps(device), slope.work(1)
        device.run(work.commands)
        after = steps(device)
        assert after[1] - before[1] == work.ops
        assert 8 * after[0] == lap[after[1] % lap.size]


def test_every_order_is_among_these():
    assert {pattern.order for pattern in ORDERS.values()} == set(get_args(Order))


@each("space", HERE)
def test_every_space_has_a_lap_and_a_trace_that_are_verified(device, space):
    slope = prepared(device, Probe(RANDOM, space))
    for work in (slope.work(slope.start), slope.work(3 * slope.start)):
        assert sampling.check_outputs(device, work) == ""
        assert ("nodes hold indices" in " ".join(work.notes)) is (space in spaces.SPACES_OF_NUMBERS)
    work = prepared(device, Probe(RANDOM, space, "trace", skip=5, record=100))
    assert sampling.check_outputs(device, work) == ""
    visited = device.download(work.reads["visited"].buffer, np.uint32, 100)
    assert np.array_equal(visited, np.resize(np.roll(pattern_offsets(RANDOM), -6), 100))


@each("space", HERE)
def test_a_chain_that_is_not_the_lap_is_noticed(device, space):
    """Each launch follows the lap as it was uploaded: one that holds a node twice is no chain of any space."""
    slope = prepared(device, Probe(RANDOM, space))
    work, words = slope.work(slope.start), device.kept("chase lap", 8)
    assert sampling.check_outputs(device, work) == ""
    lap = device.download(words, np.uint32, 64)
    lap[9] = lap[30]
    device.upload(words, lap)
    with pytest.raises(AssertionError, match="chain is damaged"):
        work.check()


def test_a_damaged_node_is_noticed_and_not_followed(device):
    pattern = Pattern("random", 5000, 64)
    slope = prepared(device, Probe(pattern))
    work, arena = slope.work(slope.start), device.kept("chase arena", 8)
    assert sampling.check_outputs(device, work) == ""
    whole = device.download(arena, np.uint64, (5000 * 64 + spaces.BASE_ALIGNMENT_BYTES) // 8)
    words = (pattern_offsets(pattern) // 8).astype(np.uint64)
    first = np.arange(spaces.BASE_ALIGNMENT_BYTES // 8, dtype=np.uint64)  # where the base may be
    bases = [whole[first + words[k]] - 8 * words[k + 1] for k in (0, 1)]
    (at,) = np.flatnonzero((bases[0] == bases[1]) & (bases[0] % spaces.BASE_ALIGNMENT_BYTES == 0) & (bases[0] > 0))
    damaged = whole.copy()
    damaged[at + int(words[2000])] = 1  # no address of anything
    device.upload(arena, damaged)
    with pytest.raises(AssertionError, match="damaged"):
        work.check()
    device.upload(arena, whole)
    work.check()


def test_windows_read_what_one_launch_does(device, monkeypatch):
    asked = Probe(RANDOM, mode="trace", skip=10, record=200)
    whole = prepared(device, asked)
    assert sampling.check_outputs(device, whole) == "" and len(whole.commands) == 1
    visited = device.download(whole.reads["visited"].buffer, np.uint32, 200)
    monkeypatch.setattr(CHASE, "WINDOW_BYTES", 8 * 48)
    parts = prepared(device, asked)
    assert sampling.check_outputs(device, parts) == "" and len(parts.commands) == 5
    assert np.array_equal(device.download(parts.reads["visited"].buffer, np.uint32, 200), visited)
    assert parts.ops > whole.ops


def test_a_trace_that_left_the_lap_is_noticed(device):
    work = prepared(device, Probe(RANDOM, mode="trace", record=50))
    assert sampling.check_outputs(device, work) == ""
    read = work.reads["visited"]
    visited = device.download(read.buffer, read.dtype, read.count)
    visited[20] += 64
    device.upload(read.buffer, visited)
    with pytest.raises(AssertionError, match="1 of 50 accesses"):
        work.check()


@pytest.mark.usefixtures("quick_flush")
def test_a_cold_trace_empties_caches_before_every_launch(device, monkeypatch):
    monkeypatch.setattr(CHASE, "WINDOW_BYTES", 8 * 48)
    work = prepared(device, Probe(RANDOM, mode="trace", record=90, cold=True))
    assert sampling.check_outputs(device, work) == ""
    order = [c.kernel.name for c in (*work.before, *work.commands)]
    assert order == ["flush_write", "flush_read", "trace"] * 2


@each(
    ("asked", "says"),
    [
        (Probe(RANDOM, "global_cg"), "no ptx"),
        (Probe(Pattern("random", 8, 4)), "multiples of 8"),
        (Probe(Pattern("sequential", 1 << 17, 256), "local"), "local memory"),
        (Probe(Pattern("sequential", 3, 64 * KIB), "private"), "a private array"),
        (Probe(Pattern("sequential", 3, MIB), "constant"), "constant buffer"),
        (Probe(Pattern("sequential", 3, 64 * KIB), "constant_array"), "constant memory of a program"),
        (Probe(Pattern("sequential", 3, 64 * KIB), "image1d"), "one such image"),
        (Probe(Pattern("sequential", 3, 8), "image2d"), "multiples of 16"),
        (Probe(Pattern("sequential", 9, 1 << 30)), "one buffer"),
        (Probe(Pattern("sequential", 9, 1 << 33)), "a chase can use at most"),
        (Probe(RANDOM, mode="trace"), "number to record"),
        (Probe(RANDOM, cold=True), "for traces"),
        (Probe(RANDOM, record=4), "for traces"),
    ],
)
def test_what_the_device_has_not_or_does_not_fit_is_skipped_with_the_reason(device, asked, says):
    with pytest.raises(Skip, match=says):
        prepared(device, asked)


def test_without_a_counter_or_images_there_is_no_trace_or_image():
    bare = FakeDevice(replace(FAKE_DEVICE_INFO, features=frozenset()))
    with pytest.raises(Skip, match="no in-kernel counter"):
        prepared(bare, Probe(RANDOM, mode="trace", record=4))
    with pytest.raises(Skip, match="no images"):
        prepared(bare, Probe(RANDOM, "image2d"))


def test_probes_of_a_process_share_their_pages_until_one_needs_more(device):
    def arena(asked: Probe):
        return prepared(device, asked).work(1).commands[0].args[0]

    first = arena(Probe(RANDOM))
    assert arena(Probe(Pattern("sequential", 3, 4096))) is first
    assert arena(Probe(Pattern("sequential", 3, first.size))) is not first


@pytest.mark.parametrize("record", [10, 1000, 10_000])
def test_a_trace_takes_no_more_local_memory_than_it_records(record):
    work = prepared(FakeDevice(), Probe(RANDOM, mode="trace", record=record))
    taken = sum(a.nbytes for a in work.commands[0].args if isinstance(a, Local))
    assert taken == 8 * max(CHASE.EMPTY_BRACKETS, min(record, CHASE.WINDOW_BYTES // 8))


@pytest.mark.parametrize("space", ["global", "global_cg", "readonly"])
def test_with_ptx_loads_name_their_cache_and_a_chain_of_addresses_is_built(space):
    gpu = FakeDevice()
    slope = prepared(gpu, Probe(RANDOM, space))
    assert (
        gpu.built[-1][f"SPACE_{space}"] == 1 and gpu.built[-1]["PTX"] and gpu.built[-1]["TICKS"] == CHASE.COUNTER_CODES["ptx"]
    )
    assert "build" in [c.kernel.name for c in gpu.log if isinstance(c, Launch)]
    assert not slope.work(slope.start).notes


@pytest.mark.parametrize("mode", ["lap", "trace"])
def test_a_probe_becomes_a_record_and_an_answer(device, mode):
    """All of the way: asked, measured, judged, answered."""
    session = Session(Job("opencl", device.info, "chase", budget=TINY, features=device.info.features, cycles_per_op=1.0))
    asked = Probe(RANDOM, mode=mode, skip=64 if mode == "trace" else 0, record=32 if mode == "trace" else 0)
    record = session.record(asked.params(), "measure")
    assert record.checked and record.status in ("ok", "suspect"), record.reason  # a busy host's clock may move
    found = chase_latency.answer(replace(record, status="ok"), asked)
    assert found.evidence == ("chase:0",) and found.unit == "cycles"
    if mode == "trace":
        assert found.latencies.shape[1] == 32 and len(found.latencies) >= 6
        assert any(t.unpack().any() for s in record.series for name, t in s.reads.items() if name in ("ticks", "cost"))
    else:
        assert found.reason or found.low <= found.value <= found.high


def test_a_lap_that_turns_round_is_timed_whole_however_long(device):
    """Its accesses hit after a turn and miss far from one: a part of a lap has another mean."""
    nodes = 2 * (CHASE.MAX_FULL_LAP_NODES + 100)
    slope = prepared(device, Probe(Pattern("zigzag", nodes // 2, 64)))
    near, far = slope.work(slope.start), slope.work(3 * slope.start)
    for laps, end in ((1, near), (3, far)):
        assert 0 <= end.ops - laps * nodes < 0.1 * nodes, "whole laps, and a few steps that show how many were made"
    plain = prepared(device, Probe(Pattern("random", nodes, 64)))
    assert plain.work(plain.start).ops < nodes


@pytest.mark.parametrize("block_bytes", [128 * KIB, 256 * KIB])
def test_a_part_of_a_lap_is_whole_blocks(device, block_bytes):
    """A prefetcher brings lines that the second half of a block finds: a part of a block has another mean."""
    slope = prepared(device, Probe(Pattern("blocks", 1 << 16, 64, block_bytes=block_bytes)))
    for work in (slope.work(slope.start), slope.work(3 * slope.start)):
        assert work.ops < 1 << 16 and work.ops % (block_bytes // 64) == 0


@each("nodes", [64, 128, 1000, 4096])
@each("fewer", [lambda n: n // 2, lambda n: n - n // 4, lambda n: n // 16, lambda n: n - 1])
def test_a_chase_that_makes_fewer_steps_is_noticed(device, nodes, fewer):
    """By the count where a launch makes fewer blocks; by the word reached where it counts steps that it does not make."""
    slope = prepared(device, Probe(Pattern("random", nodes, 64)))
    for work in (slope.work(slope.start), slope.work(3 * slope.start)):
        (launch,) = work.commands
        place = next(i for i, arg in enumerate(launch.args) if isinstance(arg, np.uint32) and 16 * arg == work.ops)
        args = (*launch.args[:place], np.uint32(fewer(work.ops // 16)), *launch.args[place + 1 :])
        device.run(work.commands)
        before, lap = steps(device)[1] - work.ops, pattern_offsets(Pattern("random", nodes, 64)) // 8
        work.check()
        device.run([replace(launch, args=args)])
        with pytest.raises(AssertionError, match=f"steps were made, not {work.ops}"):
            work.check()
        skipped = fewer(work.ops)
        state = np.array([lap[(before + skipped) % nodes], before + work.ops, work.ops], np.uint64)
        device.upload(device.kept("chase state", 24), state)
        with pytest.raises(AssertionError, match="the chase is at word"):
            work.check()
        device.upload(device.kept("chase state", 24), np.array([lap[0], 0, 0], np.uint64))
