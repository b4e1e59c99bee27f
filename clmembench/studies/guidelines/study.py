"""The study `advise`: which guidelines for kernels hold on a device."""

from clmembench.studies import JsonOutput, Study

STUDY = Study(
    name="guidelines",
    title="Guidelines for kernels",
    package=__package__,
    source="Fang et al. 2017, section 7",
    commands={"advise": "command:advise"},
    summary="advice_table:section",
    page="advice_table:page",
    page_title="Guidelines for kernels",
    json={"advise": JsonOutput(("advise",), "advice:Advice", is_list=True)},
)
