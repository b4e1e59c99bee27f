"""The command `topology`: what it refuses, what it prints of a stored run, and the file it keeps of what it measures."""

import json
from dataclasses import replace

import pytest

from clmembench.cli import app, session, topology
from clmembench.report.hierarchy import from_runs
from clmembench.results import jsonl
from tests import found_hierarchies as hierarchies
from tests.builders import CHASE, device, header, record, slope


@pytest.fixture
def stored(tmp_path):
    """A results file with two chases on a device."""
    path = tmp_path / "chased.jsonl"
    with jsonl.Writer(path, header(hierarchies.gpu_device(), {"chase": CHASE})) as writer:
        for count in (64, 128):
            writer.write(replace(slope({"order": "random", "count": count}, [2.0] * 8), benchmark="chase"))
    return path


@pytest.fixture
def inferred(monkeypatch):
    """Runs that were looked at; each is found to be the hierarchy of a GPU."""
    seen = []
    monkeypatch.setattr(from_runs, "infer_hierarchy", lambda run: seen.append(run) or hierarchies.gpu())
    return seen


@pytest.fixture
def measuring(monkeypatch, inferred):
    """What the next dissection measures: records, or an exception in their place."""
    answers = [record("chase", {"order": "random"})]

    def measured(info, found, selection, spaces):
        measured.asked = (info, selection, spaces)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            yield answer

    monkeypatch.setattr(topology, "_records", measured)
    monkeypatch.setattr(session, "cards", lambda names: {"chase": CHASE})
    return answers, measured


def call(capsys, *args):
    """(exit code, standard output, standard error) of `clmembench topology ARGS`."""
    return command(capsys, "topology", *args)


def command(capsys, *args):
    code = app([*map(str, args)], standalone_mode=False)
    return (code or 0, *capsys.readouterr())


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("/nowhere.jsonl",), 2, "cannot read /nowhere.jsonl"),
        (("{stored}", "-d", "0"), 2, "leave out RUN or -d"),
        (("{stored}", "--budget", "1m", "-o", "x.jsonl"), 2, "leave out RUN or --budget, -o"),
        (("{stored}", "--json", "--csv"), 2, "choose one of"),
        (("{other}",), 2, "measure them with clmembench topology -d DEVICE"),
        (("-d", "99"), 3, "matches no device"),
        (("--spaces", "local,shared"), 2, "choose from global,"),
        (("--spaces", ","), 2, "choose from global,"),
        (("--budget", "soon"), 2, "no duration"),
        (("-o", "{stored}"), 2, "--overwrite"),
    ],
)
def test_what_cannot_be_done_is_one_line_that_names_the_remedy(stored, tmp_path, capsys, args, code, says):
    other = tmp_path / "other.jsonl"
    with jsonl.Writer(other, header()) as writer:
        writer.write(record())
    before = stored.read_bytes()
    done, out, err = call(capsys, *(str(arg).format(stored=stored, other=other) for arg in args))
    assert done == code and says in err
    assert err.count("\n") == 1 and out == ""
    assert stored.read_bytes() == before


def test_a_stored_run_is_drawn_with_its_device_and_what_the_driver_claims(stored, inferred, capsys):
    code, out, err = call(capsys, stored)
    assert (code, err) == (0, "")
    assert out.startswith("NVIDIA H100") and "─ L1 TLB ─" in out
    assert "the driver claims 4.1 MiB" in out
    (run,) = inferred
    assert [r.params["count"] for r in run.records] == [64, 128]


@pytest.mark.parametrize(("form", "start"), [("--csv", "level,space,"), ("--md", "| level |"), ("--latex", r"\begin{tabular}")])
def test_a_stored_run_as_a_table(stored, inferred, capsys, form, start):
    code, out, err = call(capsys, stored, form)
    assert (code, err) == (0, "") and out.startswith(start)


def test_standard_output_is_json_and_nothing_else(stored, measuring, tmp_path, capsys):
    for args in ((stored, "--json"), ("-d", "0", "--json", "-o", tmp_path / "new.jsonl")):
        code, out, _ = call(capsys, *args)
        assert code == 0 and json.loads(out)["levels"][0]["name"] == "L1"


def test_what_is_measured_is_kept_and_inferred_from_the_file(measuring, inferred, tmp_path, capsys):
    path = tmp_path / "new.jsonl"
    args = ("-d", "0", "--spaces", "local, global", "--budget", "2m", "--timeout", "5s", "--seed", "7", "-o", path)
    code, out, err = call(capsys, *args)
    assert code == 0 and f"Results: {path}" in out and "chase: 1 point" in err
    kept = jsonl.read(path)
    assert [r.params for r in kept.records] == [{"order": "random"}] == [r.params for r in inferred[0].records]
    assert (kept.header.seed, kept.header.budget_s, kept.header.timeout_s, kept.header.suite) == (7, 120.0, 5.0, "topology")
    info, _, spaces = measuring[1].asked
    assert spaces == ("local", "global") and info.id == kept.header.device.id


def test_without_a_name_the_file_is_among_the_reports(measuring, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(capsys)[0] == 0
    (path,) = (tmp_path / "reports").glob("*.jsonl")
    assert len(jsonl.read(path).records) == 1


@pytest.mark.parametrize("status", ["failed", "wrong", "timeout"])
def test_what_failed_is_told_by_the_exit_code(measuring, tmp_path, capsys, status):
    measuring[0].append(record("chase", {"order": "pairs"}, status=status, reason="it broke"))
    code, out, _ = call(capsys, "-o", tmp_path / "new.jsonl")
    assert code == 4 and "─ L1 ─" in out


def test_ctrl_c_keeps_what_was_measured_and_shows_it(measuring, tmp_path, capsys):
    measuring[0].append(KeyboardInterrupt())
    code, out, err = call(capsys, "-o", tmp_path / "new.jsonl")
    assert code == 130 and "─ L1 ─" in out and "interrupted" in err
    assert len(jsonl.read(tmp_path / "new.jsonl").records) == 1


def test_ctrl_c_before_the_first_record_draws_nothing(measuring, inferred, tmp_path, capsys):
    measuring[0][:] = [KeyboardInterrupt()]
    code, out, err = call(capsys, "-o", tmp_path / "new.jsonl")
    assert code == 130 and inferred == [] and "holds no records" not in err and "─ L1 ─" not in out


def test_a_results_file_is_replaced_only_where_that_was_said(stored, measuring, capsys):
    assert call(capsys, "-o", stored, "--overwrite")[0] == 0
    assert jsonl.read(stored).header.device != hierarchies.gpu_device()
    assert jsonl.read(stored).header.device != device()


def test_show_and_report_have_the_hierarchy_of_a_run_that_was_dissected(stored, inferred, tmp_path, capsys):
    code, out, _ = command(capsys, "show", stored)
    assert code == 0 and "─ L1 TLB ─" in out
    assert command(capsys, "report", stored, "-o", tmp_path / "r.html")[0] == 0
    assert 'id="hierarchy"' in (tmp_path / "r.html").read_text()


def test_show_and_report_of_other_runs_infer_nothing(tmp_path, inferred, capsys):
    other = tmp_path / "other.jsonl"
    with jsonl.Writer(other, header()) as writer:
        writer.write(record())
    assert "compute unit, one of" not in command(capsys, "show", other)[1]
    assert "Memory hierarchy" not in command(capsys, "report", other, "-f", "md")[1]
    assert inferred == []
