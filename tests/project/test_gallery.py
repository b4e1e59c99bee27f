"""The gallery: its lists of runs have commands that exist and fit into the calls of a machine that is lent."""

from __future__ import annotations

import gzip
import json
import tomllib

import pytest

from scripts.gallery import measure
from tests.commands import ROOT
from tests.project.test_docs_commands import parse

GIVEN = tomllib.loads((ROOT / "scripts" / "gallery" / "runs.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", GIVEN["kinds"])
def test_the_runs_of_a_kind_are_commands_and_fit_into_calls(kind):
    divided = measure.parts(measure.runs_of(kind, GIVEN))
    for part in divided:
        assert sum(run.limit_s + measure.STOP_S for run in part) <= measure.CALL_S and len(part) <= 4
    for run in (run for part in divided for run in part):
        assert (ROOT / run.arguments[0]).exists() if run.is_script else parse(list(run.arguments[2:])) is not None


def test_a_run_is_complete_by_its_command_and_its_versions(tmp_path):
    quick = measure.runs_of("h200-sxm", GIVEN)[0]
    cards = {"stream": {"version": measure.packaged()["stream"].version}}
    header = {"argv": [*quick.arguments[2:], "--overwrite", "-o", "x"], "benchmarks": cards}
    other = {"benchmarks": {"stream": {"version": 0}}}, {"argv": ["run", "-s", "all"]}
    for change, complete in (({}, True), *((one, False) for one in other)):
        (tmp_path / "h200-sxm-quick.jsonl.gz").write_bytes(gzip.compress(json.dumps({**header, **change}).encode() + b"\n"))
        assert quick.made(tmp_path) == complete
    assert not measure.runs_of("h200-sxm", GIVEN)[1].made(tmp_path)
