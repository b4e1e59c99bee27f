"""The registry of studies: benchmarks that have tables or a figure of their own in a report, in place of the general ones.

One line in STUDIES gives a benchmark both:

    "my_benchmark": Study(tables="my_tables.sections", figure="my_curves.figure"),

`tables` names a function of report/sections/, `figure` one of report/figures/. The registry imports neither: a module is
imported when it is used, so that commands that print text import no module of figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.report.rows import Row
    from clmembench.report.section import Section

    Tables = Callable[[Run, Sequence[Row]], list[Section]]

NO_FIGURE = "none"


@dataclass(frozen=True, slots=True)
class Study:
    """Tables and figure of one benchmark in a report. `tables` is "module.function" of report/sections/: it takes a Run and the
    rows of its points on the whole device, and returns Sections; "" is a line for each point. `figure` is "module.function" of
    report/figures/: it takes a Card and the devices, and returns inline SVG, "" where there is nothing to draw; "" is the
    figure that any benchmark has, NO_FIGURE none."""

    tables: str = ""
    figure: str = ""


STUDIES: Mapping[str, Study] = {
    "subgroup": Study(tables="subgroup_tables.sections", figure="subgroup_curves.drawn"),
    "step_latency": Study(tables="subgroup_tables.step_sections"),
    "private_array": Study(tables="private_arrays.registers_sections", figure="private_curves.registers_figure"),
    "divergence": Study(tables="private_arrays.width_sections"),
    "copy_grid": Study(tables="throughput_tables.grid", figure="throughput_curves.grid"),
    "datatypes": Study(tables="throughput_tables.types"),
    "cache_read": Study(tables="throughput_tables.caches", figure="throughput_curves.caches"),
    "banks": Study(tables="bank_tables.sections", figure="local_curves.banks"),
    "local_copy": Study(tables="local_throughput.copy_sections", figure="local_curves.local_copy"),
    "local_read": Study(tables="local_throughput.read_sections"),
    "memory_divergence": Study(tables="mdm_tables.sections", figure=NO_FIGURE),
    "mnf_filter": Study(tables="mnf_tables.filter_sections", figure=NO_FIGURE),
    "mnf_covariance": Study(tables="mnf_tables.covariance_sections", figure=NO_FIGURE),
    "mnf_transform": Study(tables="mnf_tables.transform_sections", figure=NO_FIGURE),
    "mnf": Study(tables="mnf_tables.whole_sections", figure=NO_FIGURE),
    "mnf_host": Study(tables="mnf_tables.host_sections", figure=NO_FIGURE),
}


def tables(benchmark: str) -> Tables | None:
    """The function that makes a benchmark's own tables; None where it has none."""
    study = STUDIES.get(benchmark)
    found: Tables | None = load("sections", study.tables) if study is not None and study.tables else None
    return found


def load(folder: str, name: str) -> Any:
    """The function of a folder of `report` that "module.function" names. Raises ImportError or AttributeError where none is."""
    module, _, function = name.partition(".")
    return getattr(import_module(f"clmembench.report.{folder}.{module}"), function)
