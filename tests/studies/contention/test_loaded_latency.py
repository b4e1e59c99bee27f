"""A chase beside streams: its parts are verified on PoCL, and curves of known truth give the bandwidth at twice the latency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.cli.running.session import cards
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip, Trace
from clmembench.report.frame import judged_rows, parts
from clmembench.studies.contention.benchmarks.loaded_latency import loaded_latency
from clmembench.studies.contention.loaded_curve import bandwidth_at_twice, loaded_points
from clmembench.studies.contention.loaded_tables import headlines, sections
from tests.builders import header, open_cpu, record, run, series

STREAMS, BATCH_BYTES, IDLE_NS, PEAK = 3, 256, 100.0, 1000.0
RATES = (0.0, 100.0, 400.0, 700.0, 800.0, 950.0)


def test_the_chase_and_what_streams_beside_it_are_verified():
    device = open_cpu(array_bytes=1 << 20)
    for traffic in ("none", "copy"):
        work = loaded_latency.prepare(device, traffic=traffic, spins=0).work(600)
        assert check_outputs(device, work) == ""
    streamed = work.reads["streamed"]
    device.upload(streamed.buffer, device.download(streamed.buffer, np.uint32, streamed.count) + np.uint32(1))
    with pytest.raises(AssertionError, match="other batches than counted"):
        work.check()
    with pytest.raises(Skip, match="no other one"):
        loaded_latency.prepare(open_cpu(compute_units=1), traffic="read", spins=0)
    with pytest.raises(Skip, match="--size"):
        loaded_latency.prepare(open_cpu(array_bytes=128), traffic="read", spins=0)


def loaded(latency, most=PEAK, noise=0.002, seed=3):
    """A run of reads at RATES up to `most`, whose latency is a function of the share of the peak."""
    rng, records = np.random.default_rng(seed), []
    for index, rate in enumerate(r for r in RATES if r <= most):
        ns = latency(rate / PEAK)
        works = []
        for steps in (1000, 3000):
            times = [round(2000 + steps * ns * (1 + noise * e)) for e in rng.standard_normal(16)]
            batches = [np.full(STREAMS, round(rate * t / BATCH_BYTES / STREAMS), np.uint32) for t in times]
            reads = {"streamed": Trace.pack("batches", batches)} if rate else {}
            works.append(series(times, ops=steps, reads=reads))
        params = {"traffic": "read" if rate else "none", "spins": 100 - index if rate else 0}
        records.append(record("loaded_latency", params, *works, index=index, facts={"batch_bytes": BATCH_BYTES}))
    return judged_rows(run(records, header(cards=cards(["loaded_latency"]))), None)


def queue(share):
    return IDLE_NS * (1 + 0.3 * share / (1 - share))


@pytest.mark.parametrize("seed", range(4))
def test_the_bandwidth_at_twice_the_latency_lies_in_its_interval(seed):
    points = loaded_points([row.value for row in loaded(queue, seed=seed)[1]])
    found = bandwidth_at_twice(points, "read")
    truth = PEAK / 1.3  # where 0.3 x / (1 - x) is 1
    assert found.status == "ok"
    assert found.low <= truth <= found.high
    assert found.high - found.low < 0.25 * truth
    rates = [p.bandwidth.value for p in points if p.traffic == "read"]
    assert np.allclose(rates, RATES[1:], rtol=0.02)


def test_a_curve_that_does_not_reach_twice_the_latency_gives_none():
    judged, rows = loaded(queue, most=700.0)
    points = loaded_points([row.value for row in rows])
    found = bandwidth_at_twice(points, "read")
    assert (found.status, found.value) == ("undetermined", None)
    assert "1.7 times" in found.reason.replace("1.70", "1.7")
    assert bandwidth_at_twice(points, "copy").status == "undetermined"
    curve, summary = sections(judged, rows)
    assert [row[0] for row in curve.rows] == ["none", "reads", "reads", "reads"]
    assert str(summary.rows[0][3]) == "undetermined [1]"
    (line,) = headlines(parts([judged]))
    assert line.cells[0].status == "undetermined"


def test_a_bandwidth_that_falls_as_latency_rises_is_named():
    points = loaded_points([row.value for row in loaded(queue)[1]])
    idle, *curve = points
    beaten = replace(curve[-1], bandwidth=replace(curve[-1].bandwidth, value=300.0, low=290.0, high=310.0))
    found = bandwidth_at_twice([idle, *curve[:3], beaten], "read")
    assert found.status == "undetermined"
    assert "falls" in found.reason
