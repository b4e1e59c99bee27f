"""The study of suite `access`: memories as work-items see them."""

from clmembench.studies import Study

STUDY = Study(
    name="access",
    title="Access patterns",
    package=__package__,
    source="Fang et al. 2017, sections 4 and 5",
    tables={
        "subgroup": "subgroup_tables:sections",
        "step_latency": "subgroup_tables:step_sections",
        "private_array": "private_arrays:registers_sections",
        "divergence": "private_arrays:width_sections",
        "copy_grid": "throughput_tables:grid",
        "datatypes": "throughput_tables:types",
        "cache_read": "throughput_tables:caches",
        "instruction": "throughput_tables:instructions",
        "intensity": "intensity_tables:sections",
        "banks": "bank_tables:sections",
        "local_copy": "local_throughput:copy_sections",
        "local_read": "local_throughput:read_sections",
    },
    figures={
        "subgroup": "subgroup_curves:drawn",
        "private_array": "private_curves:registers_figure",
        "copy_grid": "throughput_curves:grid",
        "cache_read": "throughput_curves:caches",
        "intensity": "throughput_curves:intensity",
        "banks": "local_curves:banks",
        "local_copy": "local_curves:local_copy",
    },
    headlines="bank_tables:headlines",
)
