"""How long a point may sample."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a point may sample: at least `least_s`, at most `most_s`, until noise is under `noise` in between.

    Where fewer than six samples would be had in `most_s`, it may take `patience` times that.
    Slopes use ends at least `slope_ns` apart. `trial` takes the few samples that a tuning trial needs, and fewer of a slow one.
    """

    least_s: float = 0.1
    most_s: float = 1.0
    noise: float = 0.01
    slope_ns: float = 1e6
    patience: float = 4.0
    trial: bool = False
