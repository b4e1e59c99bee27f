"""The study `peers`: our kernels beside the libraries of the host."""

from clmembench.studies import JsonOutput, Study

STUDY = Study(
    name="peers",
    title="Libraries of the host",
    package=__package__,
    group="Read and compare",
    commands={"peers": "command:peers"},
    json={"peers": JsonOutput(("peers",), "peer_table:PeersObject")},
)
