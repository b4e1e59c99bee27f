"""find_steps: levels in latency curves that dip, are disturbed, or rise softly."""

from __future__ import annotations

import pytest

from clmembench.studies.hierarchy.curve.curve_steps import find_steps
from tests.cases import each

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


@each(
    "changes",
    [(), ((12, 11.0),), ((11, 9.0), (12, 12.0)), ((3, 9.0),), ((30, 48.0),), ((15, 30.0),)],
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


# two virtual cores of an EPYC 7003, from 29.8 KiB on: neighbours load L3 and memory, L1 and L2 are quiet
BUSY_EPYC = {
    29.8: 4.01, 35.4: 11.07, 42.1: 11.85, 50.1: 12.08, 59.6: 12.18, 70.9: 12.25, 84.2: 12.24, 100.2: 12.21, 119.2: 12.25,
    141.8: 12.24, 168.6: 12.58, 200.5: 12.96, 238.4: 14.6, 283.5: 20.65, 337.2: 21.03, 401.0: 30.71, 476.8: 37.66, 567.1: 41.1,
    674.4: 41.88, 802.0: 128.5, 953.7: 146.4, 1134.2: 308.3, 1348.8: 258.9, 1604.0: 334.7, 1907.4: 369.5, 2268.4: 362.6,
    2697.6: 382.7, 3208.0: 386.4, 3814.9: 388.0, 4536.8: 387.4, 5395.2: 403.8, 6416.0: 386.3, 7629.9: 392.2, 9073.6: 395.5,
}  # fmt: skip


def test_noise_of_memory_does_not_hide_where_a_quiet_cache_ends():
    quiet = [KIB * size for size in (1.0, 1.4, 1.9, 2.7, 3.8, 5.3, 7.5, 10.6, 14.9, 21.1)]
    sizes = [int(size) for size in [*quiet, *(KIB * size for size in BUSY_EPYC)]]
    values = [4.03, 4.01, 4.05, 4.04, 4.01, 4.01, 4.01, 4.01, 3.99, 4.0, *BUSY_EPYC.values()]
    noises = [0.003 if size < 200 * KIB else 0.026 for size in sizes]
    first, second, *_ = find_steps(sizes, values, values, 0.026, may_wander=True, noises=noises)
    assert (first.hit, first.flat) == (pytest.approx(4.01, rel=0.01), True)
    assert (second.hit, second.flat) == (pytest.approx(12.24, rel=0.005), True)
    assert 119 * KIB <= second.fits_bytes <= 169 * KIB
    assert not find_steps(sizes, values, values, 0.026, may_wander=True)[1].flat  # by the noise of the whole curve


# an H200: the near partition of the L2, the far one, memory; MiB
H200_SIZES = [
    0.13, 0.22, 0.31, 0.5, 1.1, 2.2, 4.4, 8.9, 12.5, 17.7, 21.1, 25.1, 27.3, 29.8, 32.5, 35.4, 38.7, 42.1, 46.0, 50.1, 54.7,
    59.6, 65.0, 70.9, 77.3, 84.3, 91.9, 100.2, 109.3, 119.2, 130.0, 141.8, 154.6, 168.6, 183.9, 200.5, 283.5, 401.0, 567.1,
    802.0,
]  # fmt: skip
NEAR = [32.0, 32.0, 270.0, 281.0, 281.0, 281.0, 281.0, 281.0, 281.0, 281.0, 281.0, 280.0]
# cycles of a lap from 27.3 MiB on: four runs
H200_RUNS = [
    [286, 331, 464, 512, 518, 518, 520, 522, 531, 560, 498, 509, 527, 545, 546, 562, 563, 581, 573, 590,
     585, 602, 601, 609, 625, 628, 638, 640],
    [282, 349, 412, 522, 530, 528, 528, 527, 543, 578, 520, 540, 544, 541, 582, 593, 554, 600, 615, 616,
     635, 605, 618, 609, 655, 645, 687, 656],
    [285, 352, 472, 525, 530, 527, 540, 512, 532, 527, 520, 531, 554, 566, 583, 551, 580, 578, 613, 614,
     636, 619, 631, 628, 659, 656, 648, 656],
    [285, 354, 412, 517, 534, 531, 533, 528, 529, 630, 489, 486, 541, 557, 578, 551, 600, 598, 588, 611,
     629, 619, 637, 630, 642, 656, 659, 660],
]  # fmt: skip


@pytest.mark.parametrize("beyond", H200_RUNS)
def test_a_plateau_of_large_sets_tells_the_far_part_of_a_gpus_last_cache(beyond):
    """65 MiB are as fast as 46 MiB in each run, 59.6 MiB seldom are; of 60 MiB a tenth of the accesses to 71 MiB may hit."""
    sizes, values = [int(size * KIB * KIB) for size in H200_SIZES], [*NEAR, *map(float, beyond)]
    first, near, far = find_steps(sizes, values, values, 0.001, large_noise=0.02)
    assert first.flat and near.flat and far.flat
    assert near.hit == pytest.approx(281, rel=0.02) and far.hit == pytest.approx(525, rel=0.03)
    assert far.surely_fits_bytes / KIB / KIB <= 60 < far.gone_bytes / KIB / KIB
    assert far.surely_fits_bytes / KIB / KIB > 45


# an H200: the near partition of the L2, the far one, memory; MiB, and ns of a lap
FIRST_H200 = {
    0.13: 16.2, 0.22: 16.3, 0.31: 131.0, 0.5: 140.6, 1.1: 140.6, 2.2: 140.8, 4.4: 140.8, 8.9: 140.8, 12.5: 140.9, 17.7: 140.6,
    21.1: 140.6, 25.1: 140.8, 27.3: 144.6, 29.8: 167.1, 32.5: 234.4, 35.4: 258.4, 38.7: 261.7, 42.1: 261.6, 46.0: 262.8,
    50.1: 263.5, 54.7: 268.0, 59.6: 282.7, 65.0: 251.4, 70.9: 257.1, 77.3: 266.0, 84.3: 275.3, 91.9: 275.9, 100.2: 283.7,
    109.3: 284.3, 119.2: 293.4, 130.0: 289.2, 141.8: 298.0, 154.6: 295.7, 168.6: 303.9, 183.9: 303.5, 200.5: 307.7,
    283.5: 315.8, 401.0: 317.0, 567.1: 322.0, 802.0: 323.5,
}  # fmt: skip


def test_a_plateau_of_large_sets_ends_before_the_first_that_is_slower():
    """65 MiB are as fast as 46 MiB by chance; 59.6 MiB are not, so that no more than 54.7 MiB surely fit."""
    sizes = [int(size * KIB * KIB) for size in FIRST_H200]
    steps = find_steps(sizes, list(FIRST_H200.values()), list(FIRST_H200.values()), 0.001, large_noise=0.012)
    assert [step.flat for step in steps] == [True] * 3
    assert 46 <= steps[2].fits_bytes / KIB / KIB <= 54.7
    assert steps[2].miss / steps[2].hit == pytest.approx(322 / 260, rel=0.03)


def test_a_halt_is_a_level_where_it_is_longer_than_a_policy_makes_one():
    """An L2 of two to four times the L1, whose misses begin soon: random page frames, few ways."""
    sizes = [int(15 * KIB * 2 ** (i / 4 - 2)) for i in range(9)]
    sizes += [int(18 * KIB * (1 + i / 24)) for i in range(11)]
    sizes += [int(30 * KIB * 2 ** (i / 4)) for i in range(24)]
    values = [2.6] * 9 + [8.6] * 11
    rise = [9.5, 11.3, 11.5, 12.0, 12.5, 13.5, 14.2, 14.9, 15.9, 16.7, 17.3, 17.6, 17.7, 17.7, 17.8, 17.8]
    values += rise + [46.0] * 8
    values = [value * (1 + 0.0005 * (i % 3)) for i, value in enumerate(values)]
    hits = [step.hit for step in find_steps(sizes, values, values, 0.002)]
    assert hits[:2] == [pytest.approx(2.6, rel=0.01), pytest.approx(8.6, rel=0.01)]


def test_a_halt_within_the_overflow_of_one_cache_is_no_level():
    """NRU of four ways misses as many accesses of one line too many in each set as of two."""
    sizes = [int(2 * KIB * 2 ** (i / 8)) for i in range(60)]
    held = 16 * KIB
    values = []
    for size in sizes:
        over = size / held
        missed = 0.0 if over <= 1 else min(1, (over - 1) * 4) * 0.5 if over <= 1.5 else min(1.0, 0.5 + (over - 1.5) * 2)
        values.append(4.0 + 10.0 * missed)
    assert [step.hit for step in find_steps(sizes, values, values, 0.002)] == [pytest.approx(4.0)]
