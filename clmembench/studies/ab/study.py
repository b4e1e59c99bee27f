"""The study `compare --live`: two builds, drivers, runtimes or devices measured interleaved."""

from clmembench.studies import JsonOutput, Study

STUDY = Study(
    name="ab",
    title="Interleaved A/B measurement",
    package=__package__,
    replaces={"compare": "command:Compare", "run": "runtime_overhead:RunOfRuntimes"},
    json={"compare-live": JsonOutput(("compare --live",), "ab_outcome:LayerComparison")},
)
