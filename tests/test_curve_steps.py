"""find_steps: levels in latency curves that dip, are disturbed, or rise softly."""

from __future__ import annotations

import pytest

from clmembench.infer.hierarchy.curve_steps import find_steps

KIB = 1 << 10
SIZES = [int(2 * KIB * 2 ** (i / 4)) for i in range(40)]
LEVELS = [(8, 4.0), (12, 14.0), (20, 60.0)]  # points, latency


def curve(*changes: tuple[int, float]) -> list[float]:
    values = [latency * (1 + 0.001 * (i % 3)) for points, latency in LEVELS for i in range(points)]
    for place, value in changes:
        values[place] = value
    return values


def found(values: list[float]) -> list[tuple[float, int]]:
    return [(step.hit, step.fits_bytes) for step in find_steps(SIZES, values, values, 0.002)]


EXPECTED = [(pytest.approx(4.0, rel=0.01), SIZES[7]), (pytest.approx(14.0, rel=0.01), SIZES[19])]


@pytest.mark.parametrize(
    "changes",
    [(), ((12, 11.0),), ((11, 9.0), (12, 12.0)), ((3, 9.0),), ((30, 48.0),), ((15, 30.0),)],
    ids=["smooth", "one fast point", "two fast points", "one slow point", "a fast point of memory", "a slow point"],
)
def test_a_point_that_falls_out_is_no_level(changes):
    assert found(curve(*changes)) == EXPECTED


def test_a_few_even_points_on_a_ramp_are_no_plateau_to_rely_on():
    values = curve()
    values[20:28] = [18.0, 22.0, 27.0, 27.0, 27.0, 33.0, 41.0, 50.0]
    assert [(step.hit, step.flat) for step in find_steps(SIZES, values, values, 0.002) if step.flat] == [
        (pytest.approx(4.0, rel=0.01), True),
        (pytest.approx(14.0, rel=0.01), True),
    ]


# an H200: the near partition of the L2, the far one, memory; MiB, and ns of a lap
H200 = {
    0.13: 16.2, 0.22: 16.3, 0.31: 131.0, 0.5: 140.6, 1.1: 140.6, 2.2: 140.8, 4.4: 140.8, 8.9: 140.8, 12.5: 140.9, 17.7: 140.6,
    21.1: 140.6, 25.1: 140.8, 27.3: 144.6, 29.8: 167.1, 32.5: 234.4, 35.4: 258.4, 38.7: 261.7, 42.1: 261.6, 46.0: 262.8,
    50.1: 263.5, 54.7: 268.0, 59.6: 282.7, 65.0: 251.4, 70.9: 257.1, 77.3: 266.0, 84.3: 275.3, 91.9: 275.9, 100.2: 283.7,
    109.3: 284.3, 119.2: 293.4, 130.0: 289.2, 141.8: 298.0, 154.6: 295.7, 168.6: 303.9, 183.9: 303.5, 200.5: 307.7,
    283.5: 315.8, 401.0: 317.0, 567.1: 322.0, 802.0: 323.5,
}  # fmt: skip


def test_a_plateau_of_large_sets_ends_before_the_first_that_is_slower():
    """65 MiB are as fast as 46 MiB by chance; 59.6 MiB are not, so that no more than 54.7 MiB surely fit."""
    sizes = [int(size * KIB * KIB) for size in H200]
    steps = find_steps(sizes, list(H200.values()), list(H200.values()), 0.001, large_noise=0.012)
    assert [step.flat for step in steps] == [True] * 3
    assert 46 <= steps[2].fits_bytes / KIB / KIB <= 54.7
    assert steps[2].miss / steps[2].hit == pytest.approx(322 / 260, rel=0.03)
