"""Predicted times of kernels: the formula with rates by hand, and the rates that are read from a run's values."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from clmembench.analysis.derive import Derived
from clmembench.analysis.device_rates import device_rates
from clmembench.analysis.kernel_time import BandwidthLevel, DeviceRates, LatencyLevel, Workload, bandwidth, predict
from clmembench.analysis.little import Estimate
from clmembench.analysis.plateaus import CurvePoint
from clmembench.model import Placement
from tests.builders import device
from tests.cases import each

MIB = 1 << 20


def about(value, share=0.1):
    return Estimate(value, value * (1 - share), value * (1 + share))


GPU = DeviceRates(
    round_trip_ns=about(10_000),
    dispatch_ns=about(5_000),
    link_ns=about(8_000),
    link_gb_s=about(50),
    vector_gflop_s=about(10_000),
    product_gflop_s=about(20_000),
    bandwidths=(BandwidthLevel("L2", 32 * MIB, about(8_000), ""), BandwidthLevel("memory", math.inf, about(2_000), "")),
    latencies=(LatencyLevel("L1", 4096, 65536, about(20)), LatencyLevel("memory", 16 * 65536, 1 << 30, about(320))),
    sources={"vector": "arithmetic", "product": "dgemm, n=8192"},
)


@each(
    ("work", "ns", "bound", "by"),
    [
        (Workload(0.1, 2e9, 1e18), 10_000 + 1e6, "memory", "memory"),
        (Workload(0.1, 8e6, MIB), 10_000 + 1000, "launch", "L2"),
        (Workload(100, 1e9, MIB), 10_000 + 1e7, "compute", "arithmetic"),
        (Workload(100, 1e9, MIB, product=True), 10_000 + 5e6, "compute", "dgemm, n=8192"),
        (Workload(0.1, 8e6, MIB, launches=101), 510_000 + 1000, "launch", "L2"),
        (Workload(0.1, 8e6, MIB, link_bytes=1e9), 10_000 + 8_000 + 2e7 + 1000, "link", "L2"),
        (Workload(set_bytes=4096, loads=1e6), 10_000 + 2e7, "latency", "L1"),
        (Workload(set_bytes=4 * 65536, loads=1e6), 10_000 + 8e7, "latency", "memory"),  # the middle of a knee
        (Workload(set_bytes=1 << 34, loads=1e6), 10_000 + 3.2e8, "latency", "memory"),
    ],
)
def test_a_time_is_the_sum_of_launches_link_and_the_longest_of_the_kernels_parts(work, ns, bound, by):
    found = predict(GPU, work)
    assert found.ns.value == pytest.approx(ns, rel=1e-9) and (found.bound, found.by) == (bound, by)
    assert found.ns.low < found.ns.value < found.ns.high


def test_bandwidth_falls_from_a_caches_to_memorys_without_a_jump_and_its_interval_reaches_down_to_memory():
    sizes = [32 * MIB * 2 ** (step / 32) for step in range(-4, 320)]
    found = [bandwidth(GPU, size)[0] for size in sizes]
    assert all(a.value >= b.value >= 0.85 * a.value for a, b in pairwise(found))
    assert found[0].value == 8000 and found[-1].value == pytest.approx(2000, rel=0.01)
    assert {one.low for one in found[6:]} == {1800}


@each(
    ("rates", "work", "missing"),
    [
        (DeviceRates(), Workload(1, 1, 1, 2, 1, 1), ("round_trip", "dispatch", "link", "vector", "memory", "latency")),
        (DeviceRates(has_link=False), Workload(1, 1, 1, 0, 1, product=True), ("product", "memory")),
        (DeviceRates(bandwidths=GPU.bandwidths[1:], memory_from=MIB), Workload(0, 1, MIB / 2, 0), ("cache",)),
    ],
)
def test_what_was_not_measured_is_named_and_not_guessed(rates, work, missing):
    found = predict(rates, work)
    assert found.ns is None and found.missing == missing


def test_a_prediction_says_where_it_is_a_bound():
    lacking = DeviceRates(bandwidths=GPU.bandwidths[1:], latencies=(LatencyLevel("largest set", MIB, MIB, about(100)),))
    assert predict(lacking, Workload(0, 1e6, 1e9, 0)).remark == "no_cache"
    assert predict(lacking, Workload(set_bytes=2 * MIB, loads=1, launches=0)).remark == "beyond"
    assert predict(GPU, Workload(0, 1e6, 1e9)).remark == ""


def value(benchmark, metric, median, unit, status="ok", place=None, **params):
    return Derived(
        benchmark, params, {}, place or Placement(), metric, unit, "higher", None, status, "",
        median=median, ci_low=0.9 * median, ci_high=1.1 * median, pass_ns=1e6, key=(benchmark, metric, *params.items()),
    )  # fmt: skip


def read(op, size, gb_s):
    return value("stream", "bandwidth", gb_s, "GB/s", op=op, dtype="double", array_bytes=size)


def cached(size, gb_s, kind="shared"):
    return value("cache_read", "read_bandwidth", gb_s, "GB/s", set=kind, path="plain", set_bytes=size, unit_items=1024)


def test_rates_are_read_from_the_largest_arrays_and_from_the_largest_set_that_a_cache_holds():
    largest, small = 1 << 30, MIB
    values = [
        *(read(op, largest, gb_s) for op, gb_s in (("copy", 900), ("triad", 1000), ("read", 1100), ("write", 2000))),
        read("triad", small, 100),
        value("stream", "bandwidth", 5000, "GB/s", "suspect", op="triad", dtype="double", array_bytes=1 << 31),
        # requests of all work-items for one line merge in a small set; a large one is no longer held; own sets do not count
        *(cached(size * MIB, gb_s) for size, gb_s in ((0.0625, 20_000), (8, 4100), (16, 4000), (32, 2500))),
        cached(MIB, 30_000, "own"),
        value("dgemm", "performance", 700, "GFLOP/s", dtype="double", variant="portable", n=512),
        value("dgemm", "performance", 1500, "GFLOP/s", dtype="double", variant="ptx", n=512),
        # a peer library's copies are not this program's
        *(
            value(name, "link_bandwidth", gb_s, "GB/s", direction="to_device", memory="pinned", array_bytes=largest)
            for name, gb_s in (("transfer", 50), ("other_copies", 60))
        ),
        value("launch", "round_trip", 12_000, "ns", groups=1),
        value("launch", "round_trip", 9_000, "ns", groups=1024),
    ]
    found = device_rates(values, [], device(compute_units=4))
    cache, memory = found.bandwidths
    assert (cache.name, cache.nbytes, cache.gb_s.value) == ("L2", 16 * MIB, 4000)
    assert (memory.gb_s.value, memory.gb_s.low, memory.gb_s.high) == (1000, 810, pytest.approx(1210))
    assert (found.vector_gflop_s.value, found.product_gflop_s.value) == (700, 1500)
    assert (
        found.round_trip_ns.value == 12_000
        and found.link_gb_s.value == 50
        and found.dispatch_ns is None
        and found.latencies == ()
    )
    inputs = [one.key for one in values if one.key in found.inputs]
    assert values[1].key in inputs and values[3].key not in inputs and values[4].key not in inputs


def test_latencies_are_those_of_plateaus_and_of_the_points_between_up_to_memory_or_the_largest_set():
    def rates(last):
        sizes = [4096 << step for step in range(last)]
        ns = [2.0 if size <= 65536 else 40.0 if size == 131072 else 100.0 for size in sizes]
        return device_rates([], [CurvePoint(size, one, one, one) for size, one in zip(sizes, ns, strict=True)], device())

    assert [one.name for one in rates(20).latencies] == ["L1", "memory", "memory"] and rates(20).memory_from == 262144
    assert [one.name for one in rates(12).latencies] == ["L1", "largest set", "largest set"]
    assert predict(rates(20), Workload(set_bytes=131072, loads=1, launches=0)).ns.value == 40
