"""Sizes at which misses begin at a power of two by chance of page frames: withheld where other places of the buffer differ."""

import pytest

from clmembench.model import Answer
from clmembench.model.findings import measured_finding
from clmembench.studies.hierarchy.geometry.level_geometry import ODD_METHOD, USUAL_METHOD, with_size_elsewhere
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ChaseLayout, HitMissModel, LevelProbe, ProbeSession
from tests.simulated import KIB

SIZE, UNIT = 128 * KIB, 64


class Level:
    """A level of 20 cycles whose misses, 60 cycles, begin at sizes in bytes that depend on the place of the buffer; `slow`: so
    many of the first laps are disturbed."""

    def __init__(self, begins, slow=0, silent=False):
        self.begins, self.slow, self.silent, self.places = begins, slow, silent, set()

    def answer(self, probe):
        place = int(probe.pattern.segments.split(":")[0]) // SIZE
        self.places.add(int(probe.pattern.segments.split(":")[0]))
        if self.silent:
            return Answer(probe, reason="this run has no answer to this probe")
        self.slow -= 1
        over = probe.pattern.count * UNIT > self.begins[min(place, len(self.begins) - 1)]
        value = 60.0 if over else 25.0 if self.slow >= 0 else 20.0
        return Answer(probe, value, value, value, "cycles", value, evidence=(f"lap {probe.pattern.segments}",))


def found(level, method=USUAL_METHOD, is_first=False):
    probe = LevelProbe(ProbeSession(), ChaseLayout(block_bytes=64 * KIB), HitMissModel(20.0, 60.0, 0.05))
    size = measured_finding("size_bytes", SIZE, method, ("curve",), SIZE - 64, SIZE)
    return replay(with_size_elsewhere(probe, UNIT, size, is_first), lambda probes: [level.answer(one) for one in probes])


@pytest.mark.parametrize(
    ("begins", "status"),
    [
        ((SIZE,) * 5, "ok"),
        ((SIZE, SIZE, 100 * KIB, SIZE, SIZE), "undetermined"),  # earlier elsewhere
        ((SIZE, SIZE, SIZE, SIZE, 160 * KIB), "undetermined"),  # later elsewhere
    ],
)
def test_a_size_is_the_same_at_all_places(begins, status):
    level = Level(begins)
    size = found(level)
    assert size.status == status and len(level.places) >= 2
    if status == "undetermined":
        assert "page frames decide" in size.reason and size.low == SIZE - 64 and len(size.evidence) > 1


def test_a_disturbed_lap_denies_no_size():
    assert found(Level((SIZE,) * 5, slow=2)).status == "ok"
    assert found(Level((SIZE,) * 5, slow=3)).status == "undetermined"


def test_a_stored_run_without_such_laps_keeps_its_size():
    assert found(Level((SIZE,) * 5, silent=True)).status == "ok"


def test_sizes_that_other_evidence_tells_are_not_asked_again():
    level = Level((1,) * 5)
    assert found(level, "sets x ways x line agrees").status == "ok" and not level.places


def test_a_first_cache_of_unequal_sets_begins_to_miss_elsewhere_at_other_sizes():
    """Sets of 8 and 9 ways, from a start in the middle of them: 65,632 of 67,584 B were told as the size."""
    size = found(Level((SIZE, SIZE, SIZE, SIZE + 3 * KIB, SIZE + 3 * KIB)), ODD_METHOD, True)
    assert size.status == "undetermined" and "unequal ways" in size.reason and size.low == SIZE - 64
    assert found(Level((SIZE,) * 5), ODD_METHOD, True).status == "ok"
