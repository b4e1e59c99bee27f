"""Every discovered benchmark at every point on the fake device: a new one is tested unasked. And what is pure in them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks import discovered, headline_bytes, line_bytes, named, work_group_sizes
from clmembench.benchmarks.pchase import random_cycle
from clmembench.benchmarks.stream import input_value
from clmembench.model import Axis, Benchmark, Launch, Local, Map, Metric, Overlap, Placement, Skip, Slope, Work
from clmembench.plan import sweep
from clmembench.plan.selection import Selection, suites
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from tests.builders import walked
from tests.cases import each

MIB = 1 << 20
CPU = replace(
    FAKE_DEVICE_INFO, kind="cpu", compute_units=2, shares_host_memory=True, cache_bytes=32 * MIB, host_mem_bytes=24 << 30
)
# sizes that a test can afford; what the benchmarks make of large ones is arithmetic on these
SMALL = {"gpu": replace(FAKE_DEVICE_INFO, array_bytes=4 * MIB), "cpu": replace(CPU, array_bytes=4 * MIB)}


def points(benchmark: Benchmark, info) -> list[dict[str, object]]:
    """Every combination of every axis, tuning or not; a growing axis gives its ends."""

    def values(axis: Axis):
        return axis.values(info)

    names = list(benchmark.axes)
    combinations = itertools.product(*(values(benchmark.axes[name]) for name in names))
    found = [dict(zip(names, combination, strict=True)) for combination in combinations]
    return [p for p in found if benchmark.where is None or benchmark.where(info, **p)]


CASES = [(name, kind) for kind in SMALL for name, benchmark in discovered().items() if not benchmark.adaptive]


def metrics_of(benchmark: Benchmark, params) -> list[Metric]:
    return [m for m in benchmark.metrics if m.applies(params)]


@each(("name", "kind"), CASES)
def test_every_point_prepares_work_that_speaks_of_its_metrics(name, kind):
    """All points of a benchmark in one test: some have hundreds, and a test of its own costs more than most of them."""
    benchmark, wrong = discovered()[name], []
    tried = points(benchmark, SMALL[kind])
    for params in tried:
        try:
            speaks_of_its_metrics(benchmark, SMALL[kind], params)
        except Exception as error:
            wrong.append(f"{params}: {type(error).__name__}: {error}")
    assert tried and not wrong, f"{len(wrong)} of {len(tried)} points, the first ones:\n" + "\n".join(wrong[:5])


def speaks_of_its_metrics(benchmark: Benchmark, info, params) -> None:
    device = FakeDevice(info)
    try:
        prepared = benchmark.prepare(device, **params)
    except Skip as skip:
        assert str(skip), "a Skip must say why"
        return
    if isinstance(prepared, Overlap):
        assert [m.form for m in metrics_of(benchmark, params)] == ["overlap"]
        assert {c.queue for c in prepared.one.commands}.isdisjoint(c.queue for c in prepared.other(2).commands)
        works = [prepared.works(n)[-1] for n in (1, 2)]
    else:
        works = [prepared.work(n) for n in (prepared.start, 3 * prepared.start)] if isinstance(prepared, Slope) else [prepared]
    metrics = metrics_of(benchmark, params)
    assert metrics, "no metric speaks of this point"
    for work in works:
        assert isinstance(work, Work)
        assert work.commands
        assert work.check is not None, "every benchmark verifies its result"
        assert any(work.amount(m.amount) > 0 for m in metrics), "no amount for any of its metrics"
        device.time(work.commands, 1, work.clock)
    if isinstance(prepared, Slope):
        assert all(m.form in ("slope", "slope_rate") for m in metrics)
        amounts = [w.amount(metrics[0].amount) for w in works]
        assert amounts[1] > amounts[0] > 0
    for command in device.log:
        if isinstance(command, Launch) and command.local_size is not None:
            assert all(g % n == 0 for g, n in zip(command.global_size, command.local_size, strict=True))
            assert int(np.prod(command.local_size)) <= device.info.max_work_group
            assert sum(a.nbytes for a in command.args if isinstance(a, Local)) <= device.info.local_mem_bytes


@each("info", [FAKE_DEVICE_INFO, CPU])
@each("name", discovered())
def test_every_benchmark_has_points_a_summary_a_source_and_a_suite(name, info):
    benchmark = discovered()[name]
    assert benchmark.summary.endswith(".")
    assert benchmark.source
    assert benchmark.suite in suites()
    assert benchmark.adaptive or next(sweep.explore(benchmark, info, Selection()))
    assert sweep.describe_plan(benchmark, info, Selection(suite="quick"))


@each("suite", ["quick", "all"])
@each("info", [FAKE_DEVICE_INFO, CPU])
@each("name", [name for name, benchmark in discovered().items() if not benchmark.adaptive])
def test_every_value_of_an_axis_is_a_point_of_its_suite(name, info, suite):
    # tuning axes are searched and growing ones grow; a value of another that never comes up was lost in `where`
    benchmark = discovered()[name]
    axes = {**benchmark.axes, **((benchmark.quick or {}) if suite == "quick" else {})}
    plain = {n: set(a.values(info)) for n, a in axes.items() if not a.tuning and not a.per_octave}
    info = replace(info, features=info.features | {"nontemporal"})
    asked = [p for p in walked(sweep.explore(benchmark, info, Selection(suite=suite))) if p.place == Placement()]
    assert {n: {p.params[n] for p in asked} for n in plain} == plain


def test_random_cycle_visits_every_node_once():
    for nodes in (16, 17, 1000):
        order, successor = random_cycle(nodes, seed=3)
        node, seen = int(order[0]), []
        for _ in range(nodes):
            seen.append(node)
            node = int(successor[node])
        assert node == order[0]
        assert len(set(seen)) == nodes
        assert seen == order.tolist()


def test_random_cycle_is_the_seeds_and_not_in_order():
    successor = random_cycle(500, 1)[1]
    assert np.array_equal(successor, random_cycle(500, 1)[1])
    assert not np.array_equal(successor, random_cycle(500, 2)[1])
    # a stride that prefetchers know would repeat one difference; a random order has next to none twice in a row
    steps = np.diff(successor.astype(int))
    assert (steps[1:] == steps[:-1]).mean() < 0.05


def test_stream_values_are_from_1_to_their_levels_and_depend_on_the_seed():
    index = np.arange(100_000)
    values = input_value(index, 7, 16)
    assert values.max() == 16
    assert values.min() == 1, "a term of 0 could be left out"
    assert (input_value(index, 8, 16) != values).mean() > 0.8


@pytest.mark.parametrize(("width", "work_group"), [(3, 64), (1, 2048)])
def test_stream_refuses_a_shape_that_would_not_be_what_it_says(width, work_group):
    params = {"op": "copy", "dtype": "float", "array_bytes": MIB, "order": "item", "nontemporal": 0}
    with pytest.raises(Skip, match=r"vector of 3|work-group of 2048"):
        discovered()["stream"].prepare(FakeDevice(SMALL["gpu"]), width=width, work_group=work_group, **params)


@each(
    ("info", "wanted"),
    [
        (FAKE_DEVICE_INFO, 2048 * MIB),  # a GPU with 16 GiB
        (replace(FAKE_DEVICE_INFO, global_mem_bytes=4 << 30), 512 * MIB),  # an eighth of its memory
        (replace(FAKE_DEVICE_INFO, max_alloc_bytes=300 * MIB), 256 * MIB),  # the largest power of two that fits
        (CPU, 256 * MIB),
        (replace(CPU, cache_bytes=300 * MIB, host_mem_bytes=128 << 30), 1280 * MIB),  # four times 300 MiB, rounded up
        (replace(CPU, cache_bytes=600 * MIB, host_mem_bytes=128 << 30), 2048 * MIB),
        (replace(CPU, cache_bytes=300 * MIB), 512 * MIB),  # a 32nd of 24 GiB
        (replace(FAKE_DEVICE_INFO, array_bytes=5000), 5000),  # the user's word
    ],
)
def test_headline_size_follows_the_device(info, wanted):
    assert headline_bytes(info) == wanted


def test_unbelievable_line_claims_are_replaced():
    assert [line_bytes(replace(FAKE_DEVICE_INFO, line_bytes=n)) for n in (128, 0, 3, 1 << 20)] == [128, 64, 64, 64]


def test_mapped_memory_of_a_shared_device_has_a_latency_and_no_bandwidth():
    transfer, shared = discovered()["transfer"], FakeDevice(SMALL["cpu"])
    work = transfer.prepare(shared, direction="to_device", memory="mapped", array_bytes=4096)
    assert isinstance(work.commands[0], Map)
    assert (work.nbytes, work.ops) == (0, 1)
    # the fake kernel writes no address, so the fake device is one whose addresses are not the host's
    assert "at different addresses" in work.notes[0]
    copied = transfer.prepare(FakeDevice(SMALL["gpu"]), direction="to_device", memory="mapped", array_bytes=4097)
    assert (copied.nbytes, copied.ops) == (4096, 0)


def test_nodes_that_would_overlap_are_refused():
    for spacing in (4, 12):
        with pytest.raises(Skip, match="multiple of 8"):
            discovered()["pchase"].prepare(FakeDevice(), array_bytes=4096, spacing_bytes=spacing)


def test_arrays_that_hold_nothing_or_cannot_be_exact_are_refused():
    stream = discovered()["stream"].prepare
    shape = {"dtype": "float", "nontemporal": 0, "work_group": 64}
    with pytest.raises(Skip, match="fewer than one work-group"):
        stream(FakeDevice(), op="copy", array_bytes=512, order="item", width=4, **shape)
    two = replace(CPU, max_alloc_bytes=4 << 30)
    with pytest.raises(Skip, match="not exact in float"):
        stream(FakeDevice(two), op="read", array_bytes=2 << 30, order="blocked", width=1, **shape)


def test_another_seed_gives_other_inputs():
    def uploaded(seed):
        device = FakeDevice(seed=seed)
        work = discovered()["pchase"].prepare(device, array_bytes=4096, spacing_bytes=64).work(16)
        assert work.commands
        build = next(c for c in device.log if isinstance(c, Launch) and c.kernel.name == "build_chain")
        return build.args[1].content.tolist()

    assert uploaded(0) == uploaded(0)
    assert uploaded(0) != uploaded(1)


def test_one_benchmark_is_found_by_its_name_without_the_others():
    for name, benchmark in discovered().items():
        assert named(name) is benchmark
    with pytest.raises(KeyError):
        named("no_such")
    with pytest.raises(KeyError):
        named("stream.evil")
    other = "clmembench.studies.mnf.benchmarks.mnf"
    code = f"import sys, clmembench.benchmarks as b; b.named('launch'); print('{other}' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


NARROW = ("stream", "banks", "cache_read", "copy_grid", "datatypes", "local_copy", "local_read", "transpose", "spmv")
NARROW += ("barrier", "barrier_exchange")


@each("largest", [1, 12, 100, 256])
@each("kind", ["gpu", "cpu"])
def test_a_device_with_small_work_groups_has_shapes_for_every_benchmark(kind, largest):
    info = replace(SMALL[kind], max_work_group=largest)
    for name in NARROW:
        benchmark = named(name)
        for axes in (benchmark.axes, {**benchmark.axes, **(benchmark.quick or {})}):
            sizes = [n for axis in ("work_group", "items", "work_items") if axis in axes for n in axes[axis].values(info)]
            assert all(1 <= n <= largest for n in sizes), (name, sizes)
            assert all(axis.values(info) for axis in axes.values()), name
        assert points(benchmark, info), name


def test_work_groups_fall_back_to_the_largest_power_of_two():
    info = replace(FAKE_DEVICE_INFO, max_work_group=100)
    assert work_group_sizes(info, 256, 64, 32) == (64, 32)
    assert work_group_sizes(info, 256, 128) == (64,)
    assert work_group_sizes(replace(info, max_work_group=1), 2) == (1,)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("transpose", {"n": 65, "way": "padded"}),
        ("local_read", {"path": "portable", "work_group": 8, "groups_a_unit": 1, "ilp": 4}),
        ("cache_read", {"set": "shared", "path": "plain", "set_bytes": MIB, "unit_items": 1024}),
        ("banks", {"stride": 3, "word_bytes": 4, "items": 8}),
    ],
)
def test_a_real_device_with_small_work_groups_computes_right(name, params):
    found = runtime("opencl").devices()
    if not found:
        pytest.skip("no OpenCL device here")
    info = replace(found[0], kind="gpu", local_mem_type="local", max_work_group=12, array_bytes=MIB)
    device = runtime("opencl").open(info)
    work = named(name).prepare(device, **params)
    work = work.work(64) if isinstance(work, Slope) else work
    device.run([*work.before, *work.commands])
    assert max(np.prod(c.local_size) for c in work.commands if isinstance(c, Launch) and c.local_size) <= 12
    work.check()


def test_a_device_that_offers_next_to_nothing_has_sizes():
    assert headline_bytes(replace(FAKE_DEVICE_INFO, global_mem_bytes=1)) == 1
    assert headline_bytes(replace(FAKE_DEVICE_INFO, max_alloc_bytes=0)) == 1
