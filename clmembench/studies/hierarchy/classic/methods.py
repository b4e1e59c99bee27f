"""Both classic methods on one memory space, and the traces that decide between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model import Answer, Experiment, Finding, Space
from clmembench.studies.hierarchy.classic.contradiction import overflow_traces, read_overflow_traces, resolve_contradictions
from clmembench.studies.hierarchy.classic.saavedra import read_saavedra, saavedra_chases
from clmembench.studies.hierarchy.classic.wong import read_wong, wong_chases

MAX_WONG_SIZES = 256  # of Wong's sweep between the last array that fits and the first that misses throughout


@dataclass(frozen=True, slots=True)
class ClassicReadings:
    """Answers to the chases of the classic methods in one memory space, and the conclusions of each method.

    `strides` and `sizes` are the answers to Saavedra's and Wong's chases, `by_strides` and `by_sizes` their conclusions, each
    under its assumptions; `fine` are the findings from single accesses at the capacity (Mei & Chu 2015, section 4.2), None if
    no capacity was determined."""

    space: str
    strides: tuple[Answer, ...]
    sizes: tuple[Answer, ...]
    by_strides: Mapping[str, Finding] = field(default_factory=dict)
    by_sizes: Mapping[str, Finding] = field(default_factory=dict)
    fine: Mapping[str, Finding] | None = None

    def resolved(self) -> Mapping[str, Finding]:
        """Each property once: if the methods disagree, the trace decides, and the reason says why they are wrong."""
        return resolve_contradictions(self.by_strides, self.by_sizes, self.fine or {})


def classic_experiment(space: Space = "global") -> Experiment[ClassicReadings]:
    """Requests Saavedra's and Wong's chases, and the latencies of single accesses at the capacity that these give."""
    strides = yield from saavedra_chases(space)
    by_strides = read_saavedra(strides)
    sizes = yield from wong_chases(space=space, most_sizes=MAX_WONG_SIZES)
    by_sizes = read_wong(sizes)
    tried_capacities = [found["size_bytes"].value for found in (by_sizes, by_strides)]
    capacity = next((int(value) for value in tried_capacities if isinstance(value, int | float)), None)
    if capacity is None:
        return ClassicReadings(space, strides, sizes, by_strides, by_sizes)
    traces = yield from overflow_traces(capacity, space)
    return ClassicReadings(space, strides, sizes, by_strides, by_sizes, read_overflow_traces(traces, capacity))
