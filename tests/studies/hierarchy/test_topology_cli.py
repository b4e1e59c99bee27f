"""The command `topology`: what it refuses, what it prints of a stored run, and the file it keeps of what it measures."""

import json
from dataclasses import replace

import pytest

from clmembench.cli.running import session
from clmembench.results import jsonl
from clmembench.studies.hierarchy import command as topology
from clmembench.studies.hierarchy import from_runs
from clmembench.studies.hierarchy import plan as hierarchy
from clmembench.studies.hierarchy.classic.methods import classic_experiment
from tests import found_hierarchies as hierarchies
from tests.builders import CHASE, device, header, record, slope, walked, write_run
from tests.cases import each
from tests.commands import call
from tests.simulated import Machine, Noise, Path
from tests.studies.hierarchy.test_contradiction import L2, TEXTURE


@pytest.fixture
def stored(tmp_path):
    """A results file with two chases on a device."""
    path = tmp_path / "chased.jsonl"
    return write_run(
        path,
        (replace(slope({"order": "random", "count": count}, [2.0] * 8), benchmark="chase") for count in (64, 128)),
        header(hierarchies.gpu_device(), {"chase": CHASE}),
    )


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

    def measured(info, found, selection, spaces, classic):
        measured.asked = (info, selection, spaces, classic)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            yield answer

    monkeypatch.setattr(topology, "hierarchy_records", measured)
    monkeypatch.setattr(session, "cards", lambda names: {"chase": CHASE})
    return answers, measured


@each("spaces", ["local,shared", ","])
def test_an_unknown_memory_space_is_refused_with_those_that_exist(spaces):
    code, out, err = call("topology", "--spaces", spaces)
    assert (code, out) == (2, "") and "choose from global," in err and err.count("\n") == 1


def test_a_stored_run_is_drawn_with_its_device_and_what_the_driver_claims(stored, inferred):
    code, out, err = call("topology", stored)
    assert (code, err) == (0, "")
    assert out.startswith("NVIDIA H100") and "─ L1 TLB ─" in out
    assert "the driver claims 4.1 MiB" in out
    (run,) = inferred
    assert [r.params["count"] for r in run.records] == [64, 128]


@pytest.mark.parametrize(("form", "start"), [("--csv", "level,space,"), ("--md", "| level |"), ("--latex", r"\begin{tabular}")])
def test_a_stored_run_as_a_table(stored, inferred, form, start):
    code, out, err = call("topology", stored, form)
    assert (code, err) == (0, "") and out.startswith(start)


def test_standard_output_is_json_and_nothing_else(stored, measuring, tmp_path):
    for args in ((stored, "--json"), ("-d", "0", "--json", "-o", tmp_path / "new.jsonl")):
        code, out, _ = call("topology", *args)
        assert code == 0 and json.loads(out)["levels"][0]["name"] == "L1"


def test_what_is_measured_is_kept_and_inferred_from_the_file(measuring, inferred, tmp_path):
    path = tmp_path / "new.jsonl"
    args = ("-d", "0", "--spaces", "local, global", "--budget", "2m", "--timeout", "5s", "--seed", "7", "-o", path)
    code, out, err = call("topology", *args)
    assert code == 0 and f"Results: {path}" in out and "chase: 1 point" in err
    kept = jsonl.read(path)
    assert [r.params for r in kept.records] == [{"order": "random"}] == [r.params for r in inferred[0].records]
    assert (kept.header.seed, kept.header.budget_s, kept.header.timeout_s, kept.header.suite) == (7, 120.0, 5.0, "topology")
    info, _, spaces, classic = measuring[1].asked
    assert spaces == ("local", "global") and info.id == kept.header.device.id and not classic


def test_without_a_name_the_file_is_among_the_reports(measuring, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("topology")[0] == 0
    (path,) = (tmp_path / "reports").glob("*.jsonl")
    assert len(jsonl.read(path).records) == 1


@pytest.mark.parametrize("status", ["failed", "wrong", "timeout"])
def test_what_failed_is_told_by_the_exit_code(measuring, tmp_path, status):
    measuring[0].append(record("chase", {"order": "pairs"}, status=status, reason="it broke"))
    code, out, _ = call("topology", "-o", tmp_path / "new.jsonl")
    assert code == 4 and "─ L1 ─" in out


def test_ctrl_c_keeps_what_was_measured_and_shows_it(measuring, tmp_path):
    measuring[0].append(KeyboardInterrupt())
    code, out, err = call("topology", "-o", tmp_path / "new.jsonl")
    assert code == 130 and "─ L1 ─" in out and "interrupted" in err
    assert len(jsonl.read(tmp_path / "new.jsonl").records) == 1


def test_ctrl_c_before_the_first_record_draws_nothing(measuring, inferred, tmp_path):
    measuring[0][:] = [KeyboardInterrupt()]
    code, out, err = call("topology", "-o", tmp_path / "new.jsonl")
    assert code == 130 and inferred == [] and "holds no records" not in err and "─ L1 ─" not in out


def test_a_results_file_is_replaced_only_where_that_was_said(stored, measuring):
    assert call("topology", "-o", stored, "--overwrite")[0] == 0
    assert jsonl.read(stored).header.device != hierarchies.gpu_device()
    assert jsonl.read(stored).header.device != device()


def test_show_and_report_have_the_hierarchy_of_a_run_that_was_dissected(stored, inferred, tmp_path):
    code, out, _ = call("show", stored)
    assert code == 0 and "─ L1 TLB ─" in out
    assert call("report", stored, "-o", tmp_path / "r.html")[0] == 0
    assert '<div class="tree">' in (tmp_path / "r.html").read_text()


def test_show_and_report_of_other_runs_infer_nothing(tmp_path, inferred):
    other = tmp_path / "other.jsonl"
    write_run(other, [record()])
    assert "compute unit, one of" not in call("show", other)[1]
    assert "Memory hierarchy" not in call("report", other, "-f", "md")[1]
    assert inferred == []


@pytest.fixture(scope="module")
def classic_file(tmp_path_factory):
    """A results file of the chases that `--classic` adds, on a simulated texture L1, as the plan asks for them."""
    machine = Machine("test", {"global": Path((TEXTURE, L2), 600.0)}, Noise(), 1)
    answers = {}

    def said(probes):
        for probe in probes:
            answers[tuple(sorted(probe.params().items()))] = machine.answer(probe)
        return [answers[tuple(sorted(probe.params().items()))] for probe in probes]

    read = hierarchy.replay(classic_experiment(), said)

    def answered(point):
        found = answers[tuple(sorted(point.params.items()))]
        if found.value is None or found.latencies is not None:
            return record("chase", point.params, status="skipped", reason="no clock in a kernel")
        return replace(slope(point.params, [found.value] * 8), benchmark="chase")

    points = walked(hierarchy.classic_plan(hierarchies.gpu_device()), answered)
    path = tmp_path_factory.mktemp("classic") / "classic.jsonl"
    write_run(path, (answered(point) for point in points), header(hierarchies.gpu_device(), {"chase": CHASE}))
    assert len(points) > 100 and read.fine
    return path, read


def test_a_run_with_the_classic_methods_shows_them_side_by_side(classic_file, inferred):
    path, direct = classic_file
    code, out, err = call("topology", path)
    assert (code, err) == (0, "") and "The classic methods on global memory" in out
    line = next(row for row in out.splitlines() if row.split()[:1] == ["line"])
    assert line.split()[1:5] == ["32", "B", "128", "B"]  # Saavedra's and Wong's: they contradict each other
    (read,) = hierarchy.stored_classic(jsonl.read(path))
    for name, found in direct.by_sizes.items():
        assert (read.by_sizes[name].value, read.by_sizes[name].status) == (found.value, found.status), name
    assert read.resolved()["line_bytes"].status == "inconsistent"  # the stored traces were skipped


@pytest.mark.parametrize(
    ("form", "says"), [("--csv", "Wong 2010,global,line_bytes,128"), ("--md", "Wong 2010"), ("--latex", "Wong 2010")]
)
def test_the_classic_methods_as_a_table(classic_file, inferred, form, says):
    assert says in call("topology", classic_file[0], form)[1]


def test_the_classic_methods_as_json(classic_file, inferred):
    (classic,) = json.loads(call("topology", classic_file[0], "--json")[1])["classic"]
    assert classic["space"] == "global" and classic["wong"]["line_bytes"]["value"] == 128
    assert classic["resolved"]["line_bytes"]["status"] == "inconsistent"


def test_a_report_draws_the_classic_methods_of_a_run(classic_file, inferred, tmp_path):
    assert call("report", classic_file[0], "-o", tmp_path / "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert "The two classic methods through global memory" in page and "Contradictions" in page


def test_a_run_without_the_classic_methods_shows_none(stored, inferred):
    assert "classic" not in call("topology", stored)[1] and json.loads(call("topology", stored, "--json")[1])["classic"] == []


def test_classic_asks_for_them(measuring, tmp_path):
    assert call("topology", "-d", "0", "--classic", "-o", tmp_path / "new.jsonl")[0] == 0
    assert measuring[1].asked[3]
