"""Evidence: a finding that is ok names the records it rests on, in every committed run and in whatever reads one."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clmembench.cli.program import app
from clmembench.model import Finding
from clmembench.results import jsonl

LARGE_BYTES = 400_000  # of a run that takes seconds to read
RUNS = sorted((Path(__file__).parents[2] / "reports").glob("*.jsonl.gz"))
READERS = (("show",), ("topology",), ("advise",), ("casestudy", "mnf"))
NONE = ("holds no records of", "holds nothing that")  # what a command says of a run that is not its own


@pytest.mark.parametrize("value", [1.0, "LRU"])
def test_a_finding_that_is_ok_without_evidence_does_not_construct(value):
    with pytest.raises(ValueError, match=r"latency_ns: .*evidence"):
        Finding("latency_ns", value, None, None, "ns", "ok", "whole laps")
    for nothing in ((), ("",), ("-",)):
        with pytest.raises(ValueError, match="evidence"):
            Finding("latency_ns", value, None, None, "ns", "ok", "whole laps", nothing)
    assert Finding("latency_ns", value, None, None, "ns", "ok", "whole laps", ("chase:3",)).evidence == ("chase:3",)


@pytest.mark.parametrize("status", ["undetermined", "inconsistent"])
def test_what_cannot_be_said_needs_none(status):
    assert Finding("latency_ns", None, None, None, "ns", status, "", reason="nothing was measured").evidence == ()


def findings_of(found: Any) -> Iterator[dict[str, Any]]:
    """Every object of a command's JSON that has a status, a method or an effect with evidence beside it."""
    if isinstance(found, dict):
        if "evidence" in found:
            yield found
        for inner in found.values():
            yield from findings_of(inner)
    elif isinstance(found, list):
        for inner in found:
            yield from findings_of(inner)


@cache
def ids_of(run: Path) -> frozenset[str]:
    return frozenset(f"{r.benchmark}:{r.index}" for r in jsonl.read(run).records)


def is_sure(found: dict[str, Any]) -> bool:
    """Whether a finding, a verdict on a guideline or a step of the case study claims to be right."""
    verdict = found.get("status", found.get("verdict"))
    return verdict not in (None, "undetermined", "inconsistent", "not applicable", "skipped", "failed")


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(path, marks=[pytest.mark.slow] * (path.stat().st_size > LARGE_BYTES), id=path.name.partition(".")[0])
        for path in RUNS
    ],
)
@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_no_committed_run_has_an_answer_without_evidence(command, run):
    called = CliRunner().invoke(app, [*command, str(run), "--json"])
    if called.exit_code:
        assert any(says in " ".join(called.output.split()) for says in NONE), called.output
        return
    records = ids_of(run)
    found = list(findings_of(json.loads(called.stdout)))
    bare = [f for f in found if is_sure(f) and not f["evidence"]]
    assert not bare
    named = {":".join(e.partition("/")[0].split(":")[:2]) for f in found for e in f["evidence"]}
    assert named and named <= records, f"not in the run: {sorted(named - records)[:5]}"
