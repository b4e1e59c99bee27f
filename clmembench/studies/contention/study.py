"""The study of what compute units cost each other: latency under load, and lines that they hand over."""

from clmembench.studies import Study

STUDY = Study(
    name="contention",
    title="Contention of compute units",
    package=__package__,
    source="Intel Memory Latency Checker; Chips and Cheese, Microbenchmarks",
    tables={"loaded_latency": "loaded_tables:sections", "core_to_core": "pair_tables:sections"},
    figures={"loaded_latency": "figures:loaded", "core_to_core": "figures:pairs"},
    headlines="loaded_tables:headlines",
)
