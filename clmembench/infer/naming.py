"""Names of records, by which findings tell what they rest on. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from clmembench.derive import key_of
from clmembench.model import Record

Names = Mapping[tuple[object, ...], tuple[str, ...]]  # of the records of each point, by its key


def names_of(records: Iterable[Record]) -> Names:
    """benchmark:index:process of every measured record, by its point's key."""
    named: dict[tuple[object, ...], tuple[str, ...]] = defaultdict(tuple)
    for record in records:
        if record.role == "measure":
            named[key_of(record)] += (f"{record.benchmark}:{record.index}:{record.process}",)
    return named
