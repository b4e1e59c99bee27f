"""The clock's step from latencies: of rounded values, of any unit, and whatever a few wrapped differences are."""

import numpy as np
import pytest

from clmembench.model import Accesses
from clmembench.studies.traces.latency_modes import clock_quantum, find_modes
from clmembench.studies.traces.traces import infer_from_traces
from tests.cases import each
from tests.studies.traces.test_level_names import QUIET, SMALL, WARM, rows_of, traces_of

TICK_NS = 0.709  # of a clock at 1.41 GHz


def drawn(step, latencies=(30.0, 480.0), jitter=3.0, count=3000):
    """Latencies around two levels with jitter, as a clock of this step shows them."""
    random = np.random.default_rng(2)
    true = np.repeat(latencies, count) + jitter * random.normal(size=count * len(latencies))
    return np.floor(true / step + random.random(true.size)) * step


def trace(latencies, name="1"):
    return Accesses(name, 64 * latencies.size, 64, 0, np.arange(latencies.size) * 64, latencies.astype(float))


@each("step", [1.0, 2.0, 4.0, 8.0, 10.0, 36.0])
@each("spoiled", ["no", "wrapped", "one giant", "odd values"])
def test_the_step_of_the_clock(step, spoiled):
    latencies = drawn(step)
    if spoiled == "wrapped":
        latencies[100::1000] = 2**32 - 17 * step
    if spoiled == "one giant":
        latencies[17] = 3.7e12
    if spoiled == "odd values":  # a fraction that no tick has, as where two clocks were read
        latencies[50::1500] += 0.37 * step
    assert clock_quantum([trace(latencies)]) == pytest.approx(step, rel=0.02)


@pytest.mark.parametrize("decimals", [1, 2, 6])
def test_ticks_in_rounded_nanoseconds(decimals):
    latencies = np.round(drawn(1.0, (90.0, 300.0)) * TICK_NS, decimals)
    assert clock_quantum([trace(latencies)]) == pytest.approx(TICK_NS, rel=0.03)
    assert len(find_modes([trace(latencies)])) == 2


def test_ticks_rounded_to_whole_numbers():
    latencies = np.round(drawn(1.0, (20.0, 150.0), 2.0) * 10 / 3)
    assert len(find_modes([trace(latencies)])) == 2


def test_values_without_a_grid_have_no_step():
    random = np.random.default_rng(3)
    smooth = np.repeat([30.0, 480.0], 3000) + 3 * random.normal(size=6000)
    assert clock_quantum([trace(smooth)]) == 0.0
    assert len(find_modes([trace(smooth)])) == 2


def test_equal_values_are_one_mode_without_a_step():
    latencies = np.full(500, 90.0)
    assert clock_quantum([trace(latencies)]) == 0.0
    assert [m.centre for m in find_modes([trace(latencies)])] == [pytest.approx(90)]


def test_one_latency_rounded_up_here_and_down_there_is_one_level():
    """A latency of 90 by a clock that steps by 4: 88 in one trace, 92 in another, whose accesses begin at another phase."""
    found = infer_from_traces([trace(np.repeat([88.0, 480.0], 200), "a"), trace(np.repeat([92.0, 484.0], 200), "b")])
    latencies = [level.findings["latency_cycles"] for level in found.levels]
    assert len(latencies) == 2
    assert latencies[0].low <= 88 and latencies[0].high >= 92


@pytest.mark.parametrize("giant", [2.0**32 - 30, 2.0**32 + 5, 1e15, -3.0])
@pytest.mark.parametrize("share", ["one", "many"])
@pytest.mark.slow
def test_wrapped_differences_are_of_unknown_outcome(giant, share):
    """They make no level, and change nothing that the other accesses tell."""
    traces = traces_of(rows_of((SMALL,), WARM, QUIET))
    before = infer_from_traces(traces).levels
    spoiled = []
    for one in traces:
        latencies = one.latencies.copy()
        latencies[[7] if share == "one" else slice(50, None, 97)] = giant
        spoiled.append(Accesses(one.id, one.array_bytes, one.stride_bytes, one.first_step, one.offsets, latencies))
    after = infer_from_traces(spoiled).levels
    assert [level.name for level in after] == [level.name for level in before]
    for was, now in zip(before, after, strict=True):
        assert now.findings["latency_cycles"].value == pytest.approx(was.findings["latency_cycles"].value, rel=0.02)
