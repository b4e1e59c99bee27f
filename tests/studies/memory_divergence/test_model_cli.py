"""`model`: what its commands print, what they refuse, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clmembench.cli import exit_codes, outputs
from clmembench.report import folding
from clmembench.studies.memory_divergence.model.equations import MODELS
from tests.commands import cli

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "example" / "divergent_profile.toml"
ONE = "warps = 43\n[[interval]]\ninstructions = 50\ncycles = 800\nread_misses = 3\nwrite_misses = 0\nllc_miss_ratio = 0.5\n"


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "profile.toml"
    path.write_text(ONE)
    return str(path)


def test_predict_prints_every_model_as_json(profile):
    done = cli("model", "predict", "wang2019-table1", profile, "--json")
    assert done.returncode == 0 and done.stderr == ""
    found = {one["model"]: one for one in json.loads(done.stdout)}
    assert tuple(found) == MODELS
    assert found["MDM"]["ipc_sm"] == pytest.approx(0.598658, abs=5e-7)
    assert found["MDM"]["cycles"] == pytest.approx(3591.3653, abs=5e-5)
    (interval,) = found["MDM"]["intervals"]
    assert interval["mshr_cycles"] == pytest.approx(1510.6827, abs=5e-5) and interval["divergent"] is True
    assert found["MDM"]["stack"]["mshr"] == interval["mshr_cycles"] and found["MDM"]["dominant"] == "mshr"
    assert [name for name, one in found.items() if one["ours"]] == ["MDM-overlap", "bound"]


@pytest.mark.parametrize("columns", [60, 80])
def test_predictions_are_folded_to_the_terminal(profile, monkeypatch, columns):
    monkeypatch.setattr(outputs, "width", lambda wide=False: columns)
    done = cli("model", "predict", "wang2019-table1", profile)
    assert done.returncode == 0 and max(map(folding.columns, done.stdout.splitlines())) <= columns


def test_predict_says_which_term_dominates_and_what_a_change_would_gain(profile):
    done = cli("model", "predict", "wang2019-table1", profile)
    assert done.returncode == 0
    for part in ("MDM-MSHR", "waiting for an MSHR (batches)", "42%", "half as many distinct lines", "with over 42 sub-groups"):
        assert part in done.stdout, part
    assert "give stall_cycles to see others" in done.stdout
    example = cli("model", "predict", "wang2019-table1", str(EXAMPLE), "--md")
    assert example.returncode == 0 and "16 resident sub-groups" in example.stdout and "| MDM |" in example.stdout


def test_options_change_the_reading(profile):
    printed, mixed = (
        json.loads(cli("model", "predict", "wang2019-table1", profile, "--json", *more).stdout)[0]["intervals"][0]
        for more in ((), ("--latency", "mixed"))
    )
    assert (printed["latency_cycles"], mixed["latency_cycles"]) == pytest.approx((230, 170))


@pytest.mark.parametrize("args", [("nowhere", str(EXAMPLE)), ("wang2019-table1", "nowhere.toml")])
def test_what_is_no_input_is_refused_in_one_line(args):
    done = cli("model", "predict", *args)
    assert done.returncode == exit_codes.USAGE and done.stdout == ""
    assert done.stderr.startswith("clmembench: nowhere") and done.stderr.count("\n") == 1
