"""windows: what a busy host leaves alone of a chase's launches, on made records of known latency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.analysis import quiet_windows
from clmembench.model import Pattern, Probe, Record, Trace
from clmembench.studies.hierarchy import chase_latency
from tests.builders import clock, record, series

LAP = Probe(Pattern("random", 64, 64))
STEPS, OPERATIONS, PRODUCT = 4096, 8192, 4  # cycles of a product
QUANTUM = 26  # ticks
TICKS_A_CYCLE = 0.8


def made(
    cycles: np.ndarray, rates: np.ndarray | float = TICKS_A_CYCLE, after: np.ndarray | float | None = None, slowed: float = 1.0
) -> Record:
    """A record whose far launches have windows of these cycles a step, (launches, windows), on a core whose counter ticks at
    these rates, in steps of QUANTUM; `after`, at those behind the windows; chains of additions are `slowed` in most launches.
    The whole laps take what the windows do."""
    launches = len(cycles)
    rates = np.broadcast_to(rates, launches).astype(float)
    after = rates if after is None else np.broadcast_to(after, launches).astype(float)
    read = np.round(cycles * STEPS * rates[:, None] / QUANTUM) * QUANTUM
    pair = np.array([2048, 2048 + OPERATIONS])
    adds = np.where(np.arange(launches) % 3 == 0, 1.0, slowed)
    chains = [
        [*(pair * r * add), *(pair * r), *(pair * s * add), *(pair * s)] for r, s, add in zip(rates, after, adds, strict=True)
    ]
    first = np.tile([STEPS, OPERATIONS, OPERATIONS // PRODUCT], (launches, 1))
    noted = np.hstack([first, np.round(np.array(chains) / QUANTUM) * QUANTUM, read]).astype(np.uint32)
    reads = {"windows": Trace.pack("steps, operations, ticks", list(noted))}
    steps = STEPS * cycles.shape[1]
    # on a core at 2 GHz
    far = [round(5000 + row.sum() * STEPS / 2) for row in cycles]
    near = [5000 + (time - 5000) // 3 for time in far]
    return record(
        "chase", LAP.params(), series(near, ops=steps // 3), series(far, ops=steps, reads=reads), core_clock=clock(2.0, 1.0)
    )


def quiet(hit: float = 4.0, launches: int = 20) -> np.ndarray:
    return np.full((launches, 64), hit) + np.random.default_rng(1).normal(0, 0.002, (launches, 64))


def disturbed(hit: float, alone: float, launches: int = 20) -> np.ndarray:
    """Windows of which so large a share is left alone."""
    rng = np.random.default_rng(2)
    cycles = quiet(hit, launches)
    return np.where(rng.random(cycles.shape) < alone, cycles, cycles * rng.uniform(1.2, 3.5, cycles.shape))


@pytest.mark.parametrize("alone", [1.0, 0.5, 0.1, 0.03])
def test_the_few_windows_that_were_left_alone_say_what_a_step_takes(alone):
    found = chase_latency.usual(made(disturbed(4.0, alone)), LAP, 2.0)
    assert found.value == pytest.approx(4.0, rel=0.005) and found.unit == "cycles"
    assert found.low <= 4.0 * 1.005 and found.high >= 4.0 * 0.995
    assert found.ns == pytest.approx(2.0, rel=0.005)


def test_a_single_miss_a_lap_is_not_lost_among_disturbances():
    """513 lines in 512 places: at least nine misses of 10 cycles in every lap."""
    found = chase_latency.usual(made(disturbed(4.18, 0.05)), LAP, 2.0)
    assert found.value == pytest.approx(4.18, rel=0.005)


def test_where_the_clock_moves_between_launches_each_is_told_by_its_own_chains():
    rates = np.random.default_rng(3).uniform(0.7, 0.9, 20)
    assert quiet_windows.undisturbed(made(quiet(), rates), 4.0)[0] == pytest.approx(4.0, rel=0.005)


def test_launches_within_which_the_clock_moved_say_nothing():
    """Their windows would be faster than any true one."""
    rates = np.full(20, TICKS_A_CYCLE)
    after = rates.copy()
    after[:8] *= 0.9
    cycles = quiet()
    cycles[:8] *= 0.9
    assert quiet_windows.undisturbed(made(cycles, rates, after), 4.0)[0] == pytest.approx(4.0, rel=0.005)
    assert quiet_windows.undisturbed(made(quiet(), rates, 0.9 * rates), 4.0) is None


def test_windows_that_do_not_agree_with_the_launches_they_fill_are_not_trusted():
    """A counter that a core reads ahead of what it should time."""
    good = made(quiet())
    assert quiet_windows.undisturbed(good, 4.0) is not None
    assert quiet_windows.undisturbed(good, 5.5) is None and quiet_windows.undisturbed(good, 3.0) is None


def test_of_windows_that_never_agree_the_median_is_told_and_that_none_do():
    cycles = 4.0 * 1.013 ** np.arange(40).reshape(20, 2)
    value, low, high, share = quiet_windows.undisturbed(made(cycles), float(cycles.mean()))
    assert low < value < high and value == pytest.approx(np.median(cycles), rel=0.02) and share == 0


@pytest.mark.parametrize("unknown", [None, clock(2.0, None)], ids=["no clock", "cycles unknown"])
def test_without_a_clock_in_cycles_whole_laps_count(unknown):
    assert quiet_windows.undisturbed(replace(made(quiet()), core_clock=unknown), 4.0) is None


@pytest.mark.parametrize("slowed", [1.1, 1.3])
def test_additions_that_share_their_core_make_no_latency_too_short(slowed):
    """What runs on the other thread of a core slows a chain of additions, and not what waits for a cache."""
    assert quiet_windows.undisturbed(made(quiet(), slowed=slowed), 4.0)[0] == pytest.approx(4.0, rel=0.005)


@pytest.mark.parametrize("slowed", [1.1, 1.3])
def test_launches_whose_products_too_are_slowed_do_not_count(slowed):
    rates, cycles = np.full(20, TICKS_A_CYCLE), quiet()
    cycles[:12] /= slowed
    rates[:12] *= slowed
    assert quiet_windows.undisturbed(made(cycles, rates), 4.0)[0] == pytest.approx(4.0, rel=0.01)


def test_where_no_launch_tells_how_long_a_product_takes_no_window_does():
    assert quiet_windows.undisturbed(made(quiet(launches=2).repeat(2, axis=0)[1:3], slowed=1.15), 4.0) is None


def test_how_much_of_a_lap_agrees_is_told():
    restless = disturbed(4.0, 0.1)
    assert quiet_windows.undisturbed(made(quiet()), 4.0)[3] > 0.99
    assert quiet_windows.undisturbed(made(restless), restless.mean())[3] < 0.2
