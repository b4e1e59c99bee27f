"""The study `topology`: how the memory hierarchy of a device is built."""

from clmembench.studies import JsonOutput, Study

STUDY = Study(
    name="hierarchy",
    title="Memory hierarchy",
    package=__package__,
    source="Mei et al. 2014; Mei & Chu 2015",
    commands={"topology": "command:topology"},
    after_summary="command:show_after_summary",
    measures=("chase", "cache_sharing", "l2_map"),
    part="command:part_of_run",
    findings="from_runs:findings",
    headlines="views.section:level_lines",
    markdown="views.section:markdown",
    device_page="views.section:device_page",
    page="views.section:page",
    page_title="Latency patterns",
    json={
        "hierarchy": JsonOutput(
            ("topology", "infer"),
            "views.hierarchy_json:HierarchyObject",
            further=dict.fromkeys(("CacheLevelObject", "TlbLevelObject"), "FindingObject"),
        )
    },
)
