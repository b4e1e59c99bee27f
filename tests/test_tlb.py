"""Address translation by two orders of the same lines: levels, pages, entries and sets of simulated TLBs."""

from collections import OrderedDict

import numpy as np
import pytest

from clmembench.infer.hierarchy.page_probe import PageCountLimits
from clmembench.infer.hierarchy.probing import ChaseLayout, ProbeCache
from clmembench.infer.hierarchy.tlb import measure_tlbs
from clmembench.infer.hierarchy.tlb_level import infer_tlb_level
from clmembench.model import Answer
from clmembench.model.address_patterns import pattern_offsets
from clmembench.plan.hierarchy import replay

MIB, GIB = 1 << 20, 1 << 30


class SlicedCache:
    """As an H200 past its L1: every line in reach of L2, whose slices differ by up to 30 cycles; one TLB of 16 entries of
    16 MiB, fully associative, LRU, whose misses add 10 cycles; laps with noise of 0.4 cycles."""

    entries, page_bytes, penalty = 16, 16 * MIB, 10.0

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def answer(self, probe):
        lap = pattern_offsets(probe.pattern)
        slices = (lap >> 7) * 0x9E3779B1 % (1 << 32) >> 20 & 63
        latency = 252 + slices.mean() * 60 / 63 + self.penalty * self.misses(lap) / lap.size
        value = float(latency + self.rng.normal(0, 0.4))
        return Answer(probe, value, value, value, "cycles", value, evidence=("sliced",))

    def misses(self, lap):
        """Misses of the second lap."""
        held, count = OrderedDict(), 0
        pages = (lap // self.page_bytes).tolist()
        for number, page in enumerate(pages * 2):
            count += page not in held and number >= len(pages)
            held[page] = None
            held.move_to_end(page)
            if len(held) > self.entries:
                held.popitem(last=False)
        return count


def test_a_tlb_whose_penalty_is_less_than_lines_differ_by_is_found():
    device = SlicedCache()
    chase = ChaseLayout("global_cg", shift_bytes=128, control_bytes=128, page_lines=2, near_lines=(400_000,))
    asked = ProbeCache()

    def ask():
        found = yield from measure_tlbs(asked, chase, PageCountLimits(30 * GIB, 0.0015))
        (tlb,) = found
        return (yield from infer_tlb_level(asked, chase, 0, tlb, 1.98))

    findings = replay(ask(), lambda probes: [device.answer(probe) for probe in probes]).findings
    assert findings["page_bytes"].value == 16 * MIB
    assert findings["entries"].value == 16
    assert findings["reach_bytes"].value == 256 * MIB
    assert findings["penalty_cycles"].value == pytest.approx(10, rel=0.05)
