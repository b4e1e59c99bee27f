"""What sensors said beside a point: clock, power, temperature and throttling before and after its samples, and energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model.work import Fact


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """Energy of a device over a stretch of passes by a counter of its own: joules from `window_ns`, of which it was at work on
    passes for `busy_ns`. The counter is updated every `update_ns` at the latest. The amounts are those of all passes in it. A
    `shared` counter has the energy of other processes' work too."""

    source: str
    joules: float
    window_ns: int
    update_ns: int
    busy_ns: int
    nbytes: int = 0
    flops: int = 0
    ops: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """Readings of sensors right before and right after the samples of a point; empty where there are none, or the last ones are
    a moment old. `no_energy` says why there is no energy, where there is none."""

    before: Mapping[str, Fact] = field(default_factory=dict)
    after: Mapping[str, Fact] = field(default_factory=dict)
    energy: EnergyReading | None = None
    no_energy: str = ""
