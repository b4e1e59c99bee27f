"""What a study shows of its benchmark in place of a line for each point: its sections and figures, by the benchmark's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmembench.model import Run
from clmembench.report.rows import Row
from clmembench.report.section import Section
from clmembench.report.sections import bank_tables, local_throughput, mnf_tables, subgroup_tables, throughput_tables
from clmembench.report.sections.private_arrays import registers_sections, width_sections

Sections = Callable[[Run, Sequence[Row]], list[Section]]  # of the rows of its points on the whole device

SECTIONS: Mapping[str, Sections] = {
    "subgroup": subgroup_tables.sections,
    "step_latency": subgroup_tables.step_sections,
    "private_array": registers_sections,
    "divergence": width_sections,
    "copy_grid": throughput_tables.grid,
    "datatypes": throughput_tables.types,
    "cache_read": throughput_tables.caches,
    "banks": bank_tables.sections,
    "local_copy": local_throughput.copy_sections,
    "local_read": local_throughput.read_sections,
    **mnf_tables.SECTIONS,
}
