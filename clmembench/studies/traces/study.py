"""The study `infer`: caches and TLBs from traces of latencies that any tool recorded."""

from clmembench.studies import Study

STUDY = Study(
    name="traces",
    title="Traces of latencies",
    package=__package__,
    source="Mei & Chu 2015, section 4",
    commands={"infer": "command:infer"},
)
