"""What a study shows of its benchmark in place of a line for each point: its sections and figures, by the benchmark's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmembench.model import Run
from clmembench.report import mnf
from clmembench.report.rows import Row
from clmembench.report.section import Section

Sections = Callable[[Run, Sequence[Row]], list[Section]]  # of the rows of its points on the whole device

SECTIONS: Mapping[str, Sections] = {
    **mnf.SECTIONS,
}
