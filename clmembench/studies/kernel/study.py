"""The study `kernel`: what a user's kernel does to memory, and what that costs on measured devices."""

from clmembench.studies import JsonOutput, Study

STUDY = Study(
    name="kernel",
    title="Your kernel",
    package=__package__,
    source="Fang et al. 2017, section 7.6; Wang et al. 2019",
    commands={"kernel": "command:kernel"},
    file_page="page:file_section",
    json={"kernel": JsonOutput(("kernel",), "facts:KernelFacts")},
)
