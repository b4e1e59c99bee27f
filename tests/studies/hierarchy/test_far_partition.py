"""The far part of a last cache on the latency curve: a short plateau above 24 MiB, as of an H200."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import Answer, Probe
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve, WorkingSets, measure_curve
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, ProbeSession
from tests.cases import each
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, plain

# cycles at working sets in MiB, as measured on an H200 through OpenCL; below 25 MiB the near part, and the L1
H200 = {
    0.002: 34, 0.2: 34, 0.26: 282, 25: 282, 27: 290, 28: 297, 30: 415, 32: 511, 36: 512, 40: 513, 50: 527, 71: 575, 100: 622,
    142: 617, 200: 636, 284: 657, 401: 667, 802: 664, 2048: 666,
}  # fmt: skip
SETS = WorkingSets(128, 16 * 128, 2 << 30, 512 * MIB, dense_to_bytes=128 * MIB)


def measured(seed: int, sets: WorkingSets) -> LatencyCurve:
    """The curve of the measured points, with the noise of laps."""
    rng = np.random.default_rng(seed)

    def answer(probe: Probe) -> Answer:
        size = probe.pattern.count * probe.pattern.stride_bytes / MIB
        value = float(np.interp(math.log(size), [math.log(mib) for mib in H200], list(H200.values())))
        value *= float(rng.normal(1, 0.01 if size > 24 else 0.003))
        return Answer(probe, value, 0.998 * value, 1.002 * value, "cycles", value / 1.98)

    found = replay(measure_curve(ProbeSession(), ChaseLayout(block_bytes=128 * KIB), sets), lambda ps: [answer(p) for p in ps])
    assert found is not None
    return found


@each("seed", range(10))
def test_far_part_of_the_measured_curve(seed: int) -> None:
    """Near part, far part and memory are three latencies, and the far part's size is bracketed."""
    _, near, far = measured(seed, SETS).steps
    assert near.hit == pytest.approx(282, rel=0.03)
    assert far.flat
    assert far.hit == pytest.approx(512, rel=0.03)
    assert 36 * MIB <= far.fits_bytes <= 64 * MIB


def test_few_points_show_no_far_part() -> None:
    """With half as many points an octave as below 24 MiB the far part is no level of its own: what `dense_to_bytes` is for."""
    steps = measured(0, replace(SETS, dense_to_bytes=0)).steps
    assert not any(step.flat and step.hit == pytest.approx(512, rel=0.03) for step in steps)


@pytest.mark.slow
def test_far_part_of_a_simulated_device() -> None:
    """Caches of 28 and 56 MiB behind an L1."""
    parts = (Cache(Sets((16,) * 14336), 128, 282), Cache(Sets((16,) * 28672), 128, 512))
    path = Path((Cache(plain(512, 4, 128), 128, 34), *parts), 668, launch_empties=(0,))
    device = Machine("far-part", {"global": path}, Noise(lap_relative=0.002), 3, one_arena=True)
    sets = replace(SETS, first_bytes=16 * MIB, flat_from_bytes=160 * MIB, last_bytes=320 * MIB)
    found = replay(
        measure_curve(ProbeSession(), ChaseLayout(block_bytes=128 * KIB), sets), lambda ps: [device.answer(p) for p in ps]
    )
    assert found is not None
    near, far = found.steps
    assert near.hit == pytest.approx(282, rel=0.02)
    assert far.hit == pytest.approx(512, rel=0.02)
    assert far.flat
    assert far.fits_bytes <= 56 * MIB < far.over_bytes
    assert found.memory == pytest.approx(668, rel=0.02)
