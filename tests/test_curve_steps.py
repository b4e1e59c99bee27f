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
