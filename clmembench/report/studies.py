"""What a study shows of its benchmark in place of a line for each point: its sections and figures, by the benchmark's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmembench.model import Run
from clmembench.report import banks, local_memory, mnf, subgroup_tables, throughput
from clmembench.report.private_study import registers_sections, width_sections
from clmembench.report.rows import Row
from clmembench.report.section import Section

Sections = Callable[[Run, Sequence[Row]], list[Section]]  # of the rows of its points on the whole device

SECTIONS: Mapping[str, Sections] = {
    "subgroup": subgroup_tables.sections,
    "step_latency": subgroup_tables.step_sections,
    "private_array": registers_sections,
    "divergence": width_sections,
    "copy_grid": throughput.grid,
    "datatypes": throughput.types,
    "cache_read": throughput.caches,
    "banks": banks.sections,
    "local_copy": local_memory.copy_sections,
    "local_read": local_memory.read_sections,
    **mnf.SECTIONS,
}
