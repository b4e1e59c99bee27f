"""prefetch: how far ahead a simulated prefetcher reaches, none where there is none, nothing without a clock."""

from dataclasses import replace

import numpy as np
import pytest

from clmembench.model.address_patterns import pattern_offsets
from clmembench.studies.hierarchy.probes.prefetch import measure_prefetch, probe_ahead
from tests.cases import each
from tests.simulated import Cache, Machine, Noise, Path, Tlb, plain
from tests.studies.hierarchy.test_classic import asked

KIB, MIB = 1 << 10, 1 << 20
L1, L2 = Cache(plain(32, 4, 128), 128, 96), Cache(plain(256, 16, 128), 128, 357)
HELD = 32 * KIB
NOISE = Noise(jitter_cycles=3.0, quantum_cycles=1.0, outliers=0.005)
TLBS = (Tlb(plain(1, 16, 2 * MIB), 2 * MIB, (288, 27, 27)),)


def device(prefetch_bytes=0, noise=NOISE, **more):
    path = Path((L1, L2), 635, TLBS, prefetch_bytes=prefetch_bytes)
    return Machine("test", {"global": path}, noise, seed=2, **more)


@pytest.mark.parametrize("depth", [128, 256, 1024, 24 * KIB, L2.size_bytes * 2 // 3])
def test_how_far_ahead_data_is_brought(depth):
    found = asked(measure_prefetch(held_bytes=HELD), device(depth).answer)
    assert found.status == "ok" and found.unit == "B" and found.evidence
    assert found.low == found.value <= depth + 128 and found.high >= depth
    assert found.value == pytest.approx(depth, rel=0.03, abs=256)


def test_without_a_prefetcher_it_is_0():
    found = asked(measure_prefetch(held_bytes=HELD), device().answer)
    assert (found.status, found.value, found.low, found.high) == ("ok", 0, 0, 128)


def test_without_a_clock_it_is_undetermined():
    found = asked(measure_prefetch(held_bytes=HELD), device(1024, no_clock="no clock inside a kernel").answer)
    assert found.value is None and "no clock inside a kernel" in found.reason


def test_further_than_may_be_looked_is_a_lower_bound():
    found = asked(measure_prefetch(held_bytes=HELD, most_bytes=4 * KIB), device(64 * KIB).answer)
    assert (found.status, found.value, found.low) == ("undetermined", None, 4 * KIB + 128)


def test_caches_that_cannot_be_emptied_tell_nothing():
    machine = device(1024)

    def full(probe):
        return replace(machine.answer(probe), latencies=np.full((3, probe.record), 357.0))

    found = asked(measure_prefetch(held_bytes=HELD), full)
    assert found.value is None and "not distinguishable" in found.reason


def test_what_only_some_sizes_show_is_no_prefetch():
    machine, without = device(1024), device()

    def answer(probe):
        return (machine if probe.pattern.count == 64 else without).answer(probe)

    found = asked(measure_prefetch(held_bytes=HELD), answer)
    assert found.value is None and "not of all sizes" in found.reason


@each("beyond", [0, 256, 4096, 3 * 4096 + 2048, 1 << 20])
@each("line", [32, 64, 128])
def test_the_access_ahead_lies_that_far_beyond_the_sequence_and_its_page_was_touched(beyond, line):
    probe = probe_ahead(beyond, line)
    lap = pattern_offsets(probe.pattern)
    assert probe.cold and probe.skip == lap.size - 1 and probe.record == 1
    assert lap[-1] == lap[-3] + 8 + beyond
    assert abs(lap[-1] - lap[-2]) == 17 * line
    assert lap[-1] // 4096 == lap[-2] // 4096 or line == 128


def test_a_page_that_the_tlbs_do_not_have_is_not_taken_for_the_end():
    small = replace(device(64 * KIB), paths={"global": Path((L1, L2), 635, (Tlb(plain(1, 16, 4 * KIB), 4 * KIB, 300),),
                                                            prefetch_bytes=64 * KIB)})  # fmt: skip
    found = asked(measure_prefetch(held_bytes=HELD), small.answer)
    assert found.value == pytest.approx(64 * KIB, rel=0.03)


def test_a_line_that_is_larger_than_thought_is_no_prefetch():
    """Half of all accesses 64 B apart find the line of 128 B that the other half brought."""
    found = asked(measure_prefetch(64, HELD), device().answer)
    assert found.value is None and "in any order" in found.reason
