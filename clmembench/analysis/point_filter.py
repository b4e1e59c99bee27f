"""A user's choice among the points of a stored run: by benchmark, suite, values of axes and status. Pure.

What is chosen is judged and derived before: a filter says which values are shown, and changes none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from clmembench.analysis import derive
from clmembench.analysis.derive import Derived
from clmembench.model import BenchmarkInfo, Record, Run, Value

WORK_GROUPS = "work_groups"  # what a number of compute units is called where the device is no CPU


@dataclass(frozen=True, slots=True)
class PointFilter:
    """Names of benchmarks (globs), a suite (with `suite_members`, those that this version has in it), values of axes, and
    statuses; each that is empty takes all. `words` are the options as the user wrote them."""

    globs: tuple[str, ...] = ()
    suite: str = ""
    suite_members: Set[str] = frozenset()
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    statuses: Set[str] = frozenset()
    words: str = ""

    @property
    def takes_all(self) -> bool:
        """Whether nothing is left out."""
        return not (self.globs or self.suite or self.axes or self.statuses)

    def takes_benchmark(self, name: str, card: BenchmarkInfo) -> bool:
        """Whether a benchmark is wanted; a peer is where the benchmark is whose problems it solves."""
        names = [name, *([card.peer_of] if card.peer_of else [])]
        if self.globs and not any(fnmatchcase(one, glob) for one in names for glob in self.globs):
            return False
        return not self.suite or self.suite in ("all", "everything", card.suite) or not self.suite_members.isdisjoint(names)

    def takes_params(self, params: Mapping[str, Value]) -> bool:
        """Whether a point has wanted values on all axes that the user named; one without such an axis has not."""
        return all(str(params.get(name)) in map(str, values) and name in params for name, values in self.axes.items())

    def takes_value(self, value: Derived) -> bool:
        """Whether a value has wanted parameters, tuned ones too, and a wanted status."""
        return self.takes_params({**value.tuning, **value.params}) and (not self.statuses or value.status in self.statuses)


def filtered_run(run: Run, values: Sequence[Derived], wanted: PointFilter) -> Run:
    """The part of a judged run that is wanted, with a note that says so; `values` are all its values. Of other records than
    those of points, such as a search's, those with wanted parameters."""
    cards = {name: card for name, card in run.header.benchmarks.items() if wanted.takes_benchmark(name, card)}
    chosen = [value for value in values if value.benchmark in cards and wanted.takes_value(value)]
    keys = {value.key for value in chosen}
    records = tuple(record for record in run.records if record.benchmark in cards and _is_wanted(record, keys, wanted))
    cards = {name: card for name, card in cards.items() if any(value.benchmark == name for value in chosen)}
    note = f"{len(chosen)} of {len(values)} values are shown: {wanted.words}"
    return replace(run, header=replace(run.header, benchmarks=cards), records=records, notes=(*run.notes, note))


def _is_wanted(record: Record, keys: Set[tuple[object, ...]], wanted: PointFilter) -> bool:
    if record.role == "measure":
        return derive.key_of(record) in keys
    units = record.place.compute_units
    places: dict[str, Value] = {} if units is None else {"compute_units": units, WORK_GROUPS: units}
    return wanted.takes_params({**record.params, **places, "placement": record.place.placement})
