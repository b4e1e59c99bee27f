"""Rates over arithmetic intensity: verified on PoCL, and the knee of curves whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.benchmarks.intensity import INTENSITIES, intensity
from clmembench.cli.running.session import cards
from clmembench.measure.sampling import check_outputs
from clmembench.model import Skip
from clmembench.report.frame import judged_rows
from clmembench.studies.access.intensity_knee import intensity_curves, knee
from clmembench.studies.access.intensity_tables import sections
from tests.benchmarks.test_instruction import PackingDevice
from tests.builders import header, open_cpu, record, run, series
from tests.cases import each


@pytest.fixture(scope="module")
def device():
    return open_cpu(array_bytes=1 << 18)


@each("point", [("double", 0.0625), ("double", 8), ("float", 0.125), ("float", 16), ("int", 1)])
def test_sums_are_the_hosts(device, point):
    dtype, flop_per_byte = point
    slope = intensity.prepare(device, dtype=dtype, level="memory", intensity=flop_per_byte)
    work = slope.work(300)
    assert work.flops / work.nbytes == flop_per_byte
    assert check_outputs(device, work) == ""
    assert check_outputs(device, slope.work(7)) == ""  # from where the last pass ended
    (launch,) = work.commands
    fewer = replace(launch, args=(*launch.args[:3], np.uint32(299), *launch.args[4:]))
    device.run([*work.before, fewer])
    with pytest.raises(AssertionError, match="300 batches"):
        work.check()


def test_sums_are_the_hosts_where_work_groups_read_blocks_in_orders_of_their_own():
    device = open_cpu(array_bytes=1 << 20, kind="gpu", local_mem_type="local")
    work = intensity.prepare(device, dtype="float", level="cache", intensity=2).work(90)
    assert check_outputs(device, work) == ""
    device.run([*work.before, *work.commands])
    work.check()


def test_sums_of_pairs_of_halves_are_the_hosts():
    packing = PackingDevice(open_cpu(array_bytes=1 << 18, kind="gpu", local_mem_type="local"))
    work = intensity.prepare(packing, dtype="half", level="memory", intensity=4).work(40)
    assert work.flops == 4 * work.nbytes
    assert check_outputs(packing, work) == ""
    (launch,) = work.commands
    packing.run([*work.before, replace(launch, args=(*launch.args[:-1], np.float16(0.25)))])
    with pytest.raises(AssertionError, match="40 batches of 4"):
        work.check()


def test_points_that_cannot_be_are_skipped(device):
    for flop_per_byte, message in ((3 / 16, "no power of two"), (1 / 64, "no power of two")):
        with pytest.raises(Skip, match=message):
            intensity.prepare(device, dtype="double", level="memory", intensity=flop_per_byte)
    with pytest.raises(Skip, match="raise --size"):
        intensity.prepare(open_cpu(array_bytes=64), dtype="int", level="cache", intensity=1)


def measured(rate, noise=0.004, seed=1):
    """A run of intensity in double from memory, with a rate in GFLOP/s for each intensity."""
    rng, records = np.random.default_rng(seed), []
    for index, x in enumerate(INTENSITIES):
        works = []
        for batches in (1000, 3000):
            flops = int(batches * 1e6 * x)
            times = [round(5000 + flops / rate(x) * (1 + noise * e)) for e in rng.standard_normal(16)]
            works.append(series(times, nbytes=int(batches * 1e6), flops=flops))
        params = {"dtype": "double", "level": "memory", "intensity": x}
        records.append(record("intensity", params, *works, index=index))
    return judged_rows(run(records, header(cards=cards(["intensity"]))), None)


def soft(x):
    """Bandwidth of 100 GB/s and a peak of 1000 GFLOP/s, less where both bind."""
    return 100 * x / (1 + (x / 10) ** 3) ** (1 / 3)


@pytest.mark.parametrize("seed", range(3))
def test_the_knee_lies_in_its_interval(seed):
    judged, rows = measured(soft, seed=seed)
    (curve,) = intensity_curves([row.value for row in rows])
    found, truth = knee(curve), 10 * (0.9**3 / (1 - 0.9**3)) ** (1 / 3)
    assert found.low <= truth <= found.high
    assert found.high <= 4 * found.low
    assert curve.ridge.value == pytest.approx(10, rel=0.03)
    assert curve.least_share() == (pytest.approx(0.87, abs=0.02), 8.0)
    (table,) = sections(judged, rows)
    assert table.rows[0][:2] == ("double", "memory")
    assert table.rows[0][6] == "–"  # no roofs in this run


def test_a_rate_that_grows_to_the_end_or_never_has_no_knee():
    for rate, message in ((lambda x: 100 * x, "still grows"), (lambda x: 50.0, "from 0.0625")):
        (curve,) = intensity_curves([row.value for row in measured(rate)[1]])
        found = knee(curve)
        assert (found.status, found.value) == ("undetermined", None)
        assert message in found.reason
