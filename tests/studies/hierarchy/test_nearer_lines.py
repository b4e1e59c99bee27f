"""What lines of nearer caches tell: a longer line behind a CPU's first cache is open, a sector that it fills is not."""

from __future__ import annotations

import pytest

from clmembench.model import CacheLevel, Finding
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.geometry.level_geometry import LINE_METHOD
from clmembench.studies.hierarchy.geometry.paired_lines import with_sector_of_nearer, without_paired_lines


def level(line: Finding, sector: Finding | None = None) -> CacheLevel:
    sector = sector or undetermined_finding("sector_bytes", "pairs got no answer")
    return CacheLevel("L", "global", {"line_bytes": line, "sector_bytes": sector})


def known(nbytes: int, method: str = LINE_METHOD) -> Finding:
    return measured_finding("line_bytes", nbytes, method, ("r",))


@pytest.mark.parametrize(
    ("line", "method", "left"),
    [(64, LINE_METHOD, 64), (128, LINE_METHOD, None), (128, "members of eviction sets, moved", 128), (32, LINE_METHOD, None)],
)
def test_a_line_that_differs_from_the_first_caches_needs_eviction_sets(line, method, left):
    found = without_paired_lines(level(known(line, method)), level(known(64))).findings["line_bytes"]
    assert found.value == left
    assert left is not None or ("prefetcher" in found.reason and found.low == 64)


def test_nothing_is_compared_with_a_line_that_is_not_known():
    open_line = undetermined_finding("line_bytes", "no stride")
    assert without_paired_lines(level(known(128)), level(open_line)).findings["line_bytes"].value == 128
    assert without_paired_lines(level(open_line), level(known(64))).findings["line_bytes"] is open_line


@pytest.mark.parametrize(("nearer", "sector"), [(64, 64), (128, 64), (32, None)])
def test_a_sector_is_the_line_where_the_nearer_cache_brings_in_as_much(nearer, sector):
    first = level(known(64), measured_finding("sector_bytes", nearer, "pairs", ("p",)))
    assert with_sector_of_nearer(level(known(64)), first).findings["sector_bytes"].value == sector
