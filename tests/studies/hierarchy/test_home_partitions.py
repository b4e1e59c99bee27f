"""infer.hierarchy.home_partitions: a last cache of which each partition is in front of its own memory, simulated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from clmembench.model import Answer, Probe
from clmembench.model.address_patterns import MIN_PAGE_BYTES, scan_offsets, timed_numbers
from clmembench.studies.hierarchy.levels.home_partitions import FarPartition, measure_far_partition
from clmembench.studies.hierarchy.levels.lifetime import Residence, ScannedLevel, measure_residence
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ProbeSession
from tests.simulated import KIB

LINE, SETS, WAYS = 128, 128, 16
HIT, FAR_HIT, NEAR_MEMORY, FAR_MEMORY = 280.0, 480.0, 560.0, 740.0


@dataclass
class Partition:
    """Sets with LRU, which a scrambled line number chooses."""

    sets: list[OrderedDict[int, None]] = field(default_factory=lambda: [OrderedDict() for _ in range(SETS)])

    def holds(self, line: int) -> bool:
        """Whether it held a line, which it holds from then on."""
        own = self.sets[line * 0x9E3779B97F4A7C15 % (1 << 64) >> 57]
        held = line in own
        own[line] = None
        own.move_to_end(line)
        if len(own) > WAYS:
            own.popitem(last=False)
        return held


@dataclass
class TwoPartitions:
    """A device of two partitions of 256 KiB each: the near one holds all that is loaded, the far one what is at home
    there. With one memory nothing is at home far away."""

    memories: int = 2
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def latency(self, line: int, near: Partition, far: Partition) -> float:
        is_far = self.memories == 2 and (line * 0xC2B2AE3D27D4EB4F % (1 << 64) >> 40) % 16 < 9
        held = near.holds(line)
        held_far = is_far and not held and far.holds(line)
        return HIT if held else FAR_HIT if held_far else FAR_MEMORY if is_far else NEAR_MEMORY

    def answer(self, probe: Probe) -> Answer:
        near, far = Partition(), Partition()
        scan = (scan_offsets(probe, np.arange(probe.skip, probe.until)) // LINE).tolist()
        loaded, timed = (numbers - probe.skip for numbers in timed_numbers(probe))
        seen, done = [], 0
        for until, number in zip(loaded.tolist(), timed.tolist(), strict=True):
            for line in scan[done:until]:
                self.latency(line, near, far)
            done = until
            self.latency((scan[number] * LINE ^ MIN_PAGE_BYTES // 2) // LINE, near, far)
            seen.append(self.latency(scan[number], near, far))
        seen_twice = np.array([seen, seen])
        late = (seen_twice >= NEAR_MEMORY) & (self.rng.random(seen_twice.shape) < 0.2)  # as on an H200
        cycles = seen_twice + self.rng.normal(0, 12.0, late.shape) + late * self.rng.exponential(200.0, late.shape)
        return Answer(probe, float(cycles.mean()), None, None, "cycles", None, cycles, ("chase:1",))


def measured(device: TwoPartitions) -> tuple[Residence, FarPartition | str]:
    level = ScannedLevel(ProbeSession(), "global_cg", LINE, HIT, 390.0, 220.0, 200 * KIB, 0, 1 << 30)

    def answers(probes: Sequence[Probe]) -> list[Answer]:
        return [device.answer(probe) for probe in probes]

    near = replay(measure_residence(level), answers)
    assert isinstance(near, Residence)
    return near, replay(measure_far_partition(level, near), answers)


@pytest.mark.slow
def test_both_partitions_and_both_memories() -> None:
    near, far = measured(TwoPartitions())
    assert isinstance(far, FarPartition)
    assert near.nbytes == pytest.approx(SETS * WAYS * LINE, rel=0.03)
    assert far.nbytes == pytest.approx(SETS * WAYS * LINE, rel=0.05)
    assert far.low <= SETS * WAYS * LINE <= far.high
    assert far.share == pytest.approx(9 / 16, abs=0.02)
    for found, true in ((far.hit, FAR_HIT), (far.near_memory, NEAR_MEMORY), (far.far_memory, FAR_MEMORY)):
        assert found[0] == pytest.approx(true, abs=12.0)
        assert found[1] <= true <= found[2]


@pytest.mark.slow
def test_a_cache_in_front_of_one_memory_has_no_far_partition() -> None:
    near, far = measured(TwoPartitions(memories=1))
    assert near.nbytes == pytest.approx(SETS * WAYS * LINE, rel=0.03)
    assert isinstance(far, str)
    assert "uneven shares" in far  # the late ones
