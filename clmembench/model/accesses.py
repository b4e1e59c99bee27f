"""A trace of accesses as anyone may have taken it: where each went, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.model.work import Array


@dataclass(frozen=True, slots=True)
class Accesses:
    """Consecutive accesses from an empty cache on, of which the first `first_step` were not recorded. `offsets` (int64, bytes)
    and `latencies` (float, any unit) are of shape (accesses,)."""

    id: str
    array_bytes: int
    stride_bytes: int
    first_step: int
    offsets: Array
    latencies: Array
