"""The study `casestudy mnf`: what each optimisation of a hyperspectral kernel gains."""

from clmembench.studies import NO_FIGURE, JsonOutput, Study

STUDY = Study(
    name="mnf",
    title="Case study MNF",
    package=__package__,
    source="Fang et al. 2017, section 6",
    commands={"casestudy": "command:casestudy"},
    tables={
        "mnf_filter": "mnf_tables:filter_sections",
        "mnf_covariance": "mnf_tables:covariance_sections",
        "mnf_transform": "mnf_tables:transform_sections",
        "mnf": "mnf_tables:whole_sections",
        "mnf_host": "mnf_tables:host_sections",
    },
    figures=dict.fromkeys(("mnf_filter", "mnf_covariance", "mnf_transform", "mnf", "mnf_host"), NO_FIGURE),
    json={"casestudy-mnf": JsonOutput(("casestudy mnf",), "mnf_data:CaseStudyObject")},
)
