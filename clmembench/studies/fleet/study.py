"""The study `fleet`: which devices of a fleet stand apart, by how much and since when."""

from clmembench.studies import JsonOutput, Study

STUDY = Study(
    name="fleet",
    title="Fleet of devices",
    package=__package__,
    group="Measure",
    commands={"fleet": "command:fleet"},
    json={"fleet": JsonOutput(("fleet show",), "findings:FleetFindings")},
)
