"""Little's law against the papers' own numbers, against a queue of requests, and at its edges."""

from __future__ import annotations

import heapq

import pytest

from clmembench.analysis.little import Estimate, allowed_sub_groups, needed_bytes, needed_sub_groups, reachable_gb_s


def exact(value: float) -> Estimate:
    return Estimate.exact(value)


@pytest.mark.parametrize(
    ("cycles", "bytes_a_cycle", "wanted"),
    [(47, 256, 94), (50, 64, 25), (28, 128, 28)],  # GTX 780 as Mei & Chu have it in section 6.1; theirs of the others by hand
)
def test_sub_groups_that_the_papers_devices_need(cycles, bytes_a_cycle, wanted):
    in_flight = needed_bytes(exact(cycles), exact(bytes_a_cycle))
    assert needed_sub_groups(in_flight, 1, 32, 4, 1).value == pytest.approx(wanted)
    assert needed_sub_groups(in_flight, 1, 32, 4, 4).value == pytest.approx(wanted / 4)


def served(in_flight: int, latency: float, gap: float, requests: int = 20_000) -> float:
    """Requests a time unit of a memory that answers after `latency` and begins one each `gap`, `in_flight` at most at once."""
    ready = [0.0] * in_flight
    free = 0.0
    for _ in range(requests):
        begin = max(heapq.heappop(ready), free)
        free = begin + gap
        heapq.heappush(ready, begin + latency)
    return requests / max(ready)


@pytest.mark.parametrize(("latency", "gap"), [(600.0, 2.0), (30.0, 1.0)])
def test_the_bytes_needed_are_those_that_saturate_a_simulated_memory(latency, gap):
    needed = needed_bytes(exact(latency), exact(1 / gap)).value
    assert served(round(needed), latency, gap) == pytest.approx(1 / gap, rel=0.05)
    half = served(round(needed / 2), latency, gap)
    assert half == pytest.approx(reachable_gb_s(needed / 2, exact(latency)).value, rel=0.05)
    assert half < 0.6 / gap


def test_intervals_of_a_product_hold_those_of_its_factors():
    found = needed_bytes(Estimate(600, 570, 630), exact(4800))
    assert (found.low, found.high) == (pytest.approx(570 * 4800), pytest.approx(630 * 4800))
    both = needed_bytes(Estimate(600, 570, 630), Estimate(4800, 4560, 5040))
    assert 570 * 4560 < both.low < 570 * 4800  # independent errors add in quadrature
    assert 630 * 4800 < both.high < 630 * 5040
    bound = reachable_gb_s(1000, Estimate(10, 8, 20))
    assert (bound.value, bound.low, bound.high) == (pytest.approx(100), pytest.approx(50), pytest.approx(125))


def test_the_limit_that_binds_is_named():
    # 228 KiB, 2048 work-items and 32 work-groups per compute unit
    def allowed(items: int, local_bytes: int):
        return allowed_sub_groups(items, 32, local_bytes, 228 << 10, 2048, 32)

    assert (allowed(1024, 1 << 10).sub_groups, allowed(1024, 1 << 10).limit) == (64, "work-items per compute unit")
    assert (allowed(32, 1 << 10).sub_groups, allowed(32, 1 << 10).limit) == (32, "work-groups per compute unit")
    assert (allowed(256, 48 << 10).sub_groups, allowed(256, 48 << 10).limit) == (32, "local memory")
    assert allowed(256, 300 << 10).sub_groups == 0  # it does not fit at all
    assert allowed_sub_groups(33, 32, 0, 1, 66).sub_groups == 4  # a part of a sub-group is one


@pytest.mark.parametrize("numbers", [(0, 0, 1), (1, 2, 3), (1, 0.5, 0.9), (float("inf"), 1, float("inf")), (float("nan"),) * 3])
def test_what_is_no_value_is_refused(numbers):
    with pytest.raises(ValueError, match="no value above 0"):
        Estimate(*numbers)


def test_counts_below_one_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        needed_sub_groups(exact(1), 1, 32, 4, 0)
    with pytest.raises(ValueError, match="at least 1"):
        allowed_sub_groups(0, 32, 0, 1)
    with pytest.raises(ValueError, match="without a known limit"):
        allowed_sub_groups(32, 32, 0, 1)
