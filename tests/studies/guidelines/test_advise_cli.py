"""The command `advise`: what it refuses, what it prints of a stored run, and what it measures on PoCL."""

import json
from dataclasses import replace

import pytest

from clmembench.benchmarks import discovered
from clmembench.cli import exit_codes
from clmembench.cli.running import session
from clmembench.model import Metric
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.report import frame
from clmembench.results import jsonl
from clmembench.studies.guidelines import advice_table
from clmembench.studies.guidelines import plan as advise
from tests import builders
from tests.builders import clock, device, header, record, slope
from tests.commands import call

ALONE = {"pattern": "consecutive", "degree": 1, "shift_bytes": 0, "items": 1, "groups": 1}
LOADS = {"local": 23.0, "global": 41.0}


@pytest.fixture
def stored(tmp_path):
    """A run that holds one work-item's loads from two memories, and those of a sub-group."""
    path = tmp_path / "access.jsonl"
    cards = {"subgroup": sweep.benchmark_card(discovered()["subgroup"])}
    with jsonl.Writer(path, header(device(), cards)) as writer:
        for memory, cycles in {**LOADS, "register": 4.0}.items():
            for items, degree in ((1, 1), (32, 1), (32, 32)):
                params = {**ALONE, "memory": memory, "items": items, "degree": degree}
                told = slope(params, [cycles + 0.01 * k for k in range(8)], core_clock=clock(1.0))
                writer.write(replace(told, benchmark="subgroup"))
    return path


def test_a_stored_run_is_a_list_of_guidelines_with_evidence_in_the_file(stored):
    code, out, err = call("advise", stored, "--json")
    assert (code, err) == (0, "")
    by = {entry["id"]: entry for entry in json.loads(out)}
    assert by["S5"]["verdict"] == "holds"
    assert by["S5"]["effect"] == pytest.approx(41 / 23, rel=0.01)
    assert by["S5"]["low"] <= by["S5"]["effect"] <= by["S5"]["high"]
    assert by["S2"]["verdict"] == "holds"
    assert by["C3"]["verdict"] == "undetermined" and by["C3"]["reason"]
    ids = {f"{r.benchmark}:{r.index}:{r.process}" for r in jsonl.read(stored).records}
    assert set(by["S5"]["evidence"]) <= ids and by["S5"]["evidence"]


def test_text_and_markdown_name_every_guideline(stored):
    _, out, _ = call("advise", stored, "--json")
    names = [entry["id"] for entry in json.loads(out)]
    assert len(names) == len(set(names)) == 30
    for form in ((), ("--md",)):
        code, out, err = call("advise", stored, *form)
        assert (code, err) == (0, "")
        assert all(name in out for name in names)


def test_what_it_measures_is_what_its_guidelines_are_of():
    chosen = Selection(suite="advise")
    names = advise.names(chosen)
    assert {"subgroup", "step_latency", "banks", "datatypes", "copy_grid", "private_array", "pchase", "atomic"} <= set(names)
    assert len(names) == len(set(names))
    assert all(not discovered()[name].adaptive for name in names)


def test_a_small_budget_leaves_the_rest_undetermined_and_keeps_the_file(tmp_path):
    path = tmp_path / "new.jsonl"
    code, out, _ = call("advise", "-d", "0", "--budget", "1s", "-o", path)
    assert code == 0
    assert f"Results: {path}" in out
    kept = jsonl.read(path)
    assert kept.header.suite == "advise"
    assert any("budget" in r.reason for r in kept.records if r.status == "skipped")
    assert "undetermined" in out


def test_what_ends_before_the_first_record_advises_nothing_and_keeps_the_file(tmp_path, monkeypatch):
    path = tmp_path / "new.jsonl"

    def written(*_, **more):
        jsonl.Writer(path, header()).__enter__().__exit__(None, None, None)
        return session.Written(path, 0, True)

    monkeypatch.setattr(session, "measure_to_file", written)
    for form in ((), ("--json",), ("--md",)):
        path.unlink(missing_ok=True)
        code, out, err = call("advise", "-d", "0", *form)
        assert code == exit_codes.INTERRUPTED and "interrupted" in err and path.is_file()
        assert out == "" if form else "undetermined" not in out and str(path) in out


def test_metrics_of_what_is_measured_are_metrics():
    # a card without any would leave all its records without a value
    assert all(isinstance(m, Metric) for name in advise.names(Selection()) for m in discovered()[name].metrics)


def test_a_summary_shows_what_the_run_speaks_of_and_counts_the_rest(stored):
    run = jsonl.read(stored)
    section = advice_table.section(run, frame.rows(run, None))
    shown = {row[0] for row in section.rows}
    assert {"S2", "S5"} <= shown
    assert not {"S1", "G2", "X1"} & shown
    assert section.notes == (
        f"this run has no evidence for {30 - len(shown)} more guidelines: clmembench advise measures all of it",
    )


def test_a_run_of_other_benchmarks_has_no_guidelines():
    other = builders.run([record()])
    assert advice_table.section(other, frame.rows(other, None)) is None
