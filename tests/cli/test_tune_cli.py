"""`tune` and the runs that take what it stored, on PoCL: real processes, exit codes, files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clmembench.model import Tuned
from clmembench.results import jsonl
from clmembench.results import tuned as tuning
from clmembench.runtimes import runtime
from tests.cases import each
from tests.commands import brief_points, cli
from tests.faulty import ROOT, Command, mountable, tree, within

SUM = ("-a", "n=[4096]", "-a", "method=loop")
mounts = pytest.mark.skipif(not mountable(), reason="this user may not mount, even in a namespace")


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    with brief_points():
        yield


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Two shapes of one sum, tuned: the file of shapes, that of the records, and what the command said."""
    folder = tmp_path_factory.mktemp("tune")
    shapes, records = folder / "new" / "t.toml", folder / "r.jsonl"
    only = ("-a", "width=8", "-a", "groups_a_unit=[4,1]")
    done = cli("tune", "reduction", "-d", "0", *SUM, *only, "--budget", "10s", "-o", str(shapes), "--records", str(records))
    return shapes, records, done


@pytest.fixture
def forced(tuned, tmp_path) -> Iterator[tuple[Path, Tuned]]:
    """A file with the shape that run's own search does not begin with, so that what is taken can be told from what is found."""
    info = runtime("opencl").devices()[0]
    device, platform = tuning.device_family(info)
    entry = Tuned(
        device=device, platform=platform, compute_units=info.compute_units, benchmark="reduction", version=version(tuned[1]),
        params={"method": "loop"}, tuning={"groups_a_unit": 1, "width": 4, "work_group": 1}, date="2026-11-22",
        tool_version="0", driver=info.driver,
    )  # fmt: skip
    tuning.save(tmp_path / "f.toml", [entry])
    yield tmp_path / "f.toml", entry


def version(records: Path) -> int:
    return jsonl.read(records).header.benchmarks["reduction"].version


@pytest.mark.slow
def test_tune_says_what_it_found_of_each_point_and_keeps_every_record(tuned):
    shapes, records, done = tuned
    assert done.returncode == 0, done.stderr
    assert re.search(r"^reduction n=4096 method=loop: .*; 2 of 2 configurations tried$", done.stdout, re.MULTILINE)
    assert str(shapes) in done.stdout and str(records) in done.stdout
    run = jsonl.read(records)
    assert run.notes == () and run.header.suite == "tune"
    assert {(r.params["groups_a_unit"], r.params["width"]) for r in run.records} == {(1, 8), (4, 8)}
    assert {r.status for r in run.records} <= {"ok", "suspect"} and all(r.checked for r in run.records)
    # what can be said of it is stored, and a noisy host may leave nothing to say
    stored = tuning.load(shapes) if shapes.exists() else ()
    assert [dict(t.params) for t in stored] == ([] if "nothing is stored" in done.stdout else [{"n": 4096, "method": "loop"}])


def test_a_stored_run_of_tune_can_be_shown_and_reported(tuned, tmp_path):
    assert cli("show", str(tuned[1])).returncode == 0
    assert cli("report", str(tuned[1]), "-o", str(tmp_path / "r.html")).returncode == 0


def test_a_run_takes_a_stored_shape_without_a_search_and_says_so_as_show_does_in_json(forced, tmp_path):
    path, entry = forced
    done = cli("run", "-b", "reduction", *SUM, "--tuning", str(path), "-o", str(tmp_path / "r.jsonl"))
    assert done.returncode == 0, done.stderr
    run = jsonl.read(tmp_path / "r.jsonl")
    assert [(r.role, r.params["width"], r.params["groups_a_unit"]) for r in run.records] == [("measure", 4, 1)]
    assert "tuned: own 2026-11-22" in run.records[0].notes and "note: tuned: own 2026-11-22" in done.stdout
    assert [(dict(t.tuning), t.origin) for t in run.header.tuning][:1] == [(dict(entry.tuning), "own")]
    rows = json.loads(cli("show", str(tmp_path / "r.jsonl"), "--json").stdout)
    assert all("tuned: own 2026-11-22" in row["notes"] for row in rows) and rows


def test_without_stored_shapes_a_run_searches(forced, tmp_path):
    done = cli("run", "-b", "reduction", *SUM, "--no-tuning", "-o", str(tmp_path / "r.jsonl"), CLMEMBENCH_TUNING=str(forced[0]))
    assert done.returncode == 0, done.stderr
    run = jsonl.read(tmp_path / "r.jsonl")
    assert run.header.tuning == () and {r.role for r in run.records} == {"measure", "tune"}


def test_a_run_that_is_gone_on_with_takes_the_shapes_it_began_with(forced, tmp_path):
    path, entry = forced
    whole = tmp_path / "r.jsonl"
    sums = ("-b", "reduction", "-a", "n=[2048,4096]", "-a", "method=loop")
    done = cli("run", *sums, "-o", str(whole), CLMEMBENCH_TUNING=str(path))
    assert done.returncode == 0, done.stderr
    lines = whole.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    whole.write_bytes(b"".join(lines[:2]))
    tuning.save(path, [tuning.replace(entry, tuning={"groups_a_unit": 4, "width": 8, "work_group": 1})])
    done = cli("run", "--resume", str(whole), CLMEMBENCH_TUNING=str(path))
    assert done.returncode == 0, done.stderr
    run = jsonl.read(whole)
    assert [(r.role, r.params["width"], r.params["groups_a_unit"]) for r in run.records] == [("measure", 4, 1)] * 2
    assert {r.params["n"] for r in run.records} == {2048, 4096}
    for option in (("--tuning", str(path)), ("--no-tuning",)):
        assert cli("run", "--resume", str(whole), *option).returncode == 2


def test_a_dry_run_and_a_user_who_names_a_shape(forced):
    dry = ("run", "--dry-run", "-b", "reduction", *SUM)
    assert "1 of 1 points in a stored configuration (own 2026-11-22)" in cli(*dry, "--tuning", str(forced[0])).stdout
    assert "stored" not in cli(*dry, "--tuning", str(forced[0]), "-a", "width=8").stdout
    assert "stored" not in cli(*dry, "--tuning", str(forced[0]), "--no-tuning").stdout


@each(
    ("args", "code", "says"),
    [
        (("tune", "launch"), 2, "'launch' matches no benchmark that has tuning axes: choose from"),
        (("tune", "reduction", "-a", "width=[8,3]"), 2, "-a width: 3 is not one of the values on this device"),
        (("tune", "reduction", "-a", "nonsense=1"), 2, "no axis 'nonsense' here: choose from"),
        (("tune", "reduction", "-a", "method=loup"), 2, "'loup' is not one of"),
        (("tune", "reduction", "--budget", "soon"), 2, "no duration"),
        (
            ("tune", "reduction", "-a", "n=64", "-a", "width=8", "-a", "groups_a_unit=1", "-a", "method=loop"),
            2,
            "nothing to tune",
        ),
        (("tune", "reduction", "-o", "damaged.toml"), 2, "damaged.toml is no file of stored shapes"),
        (
            ("tune", "reduction", "-o", "/proc/none/t.toml"),
            1,
            "cannot write /proc/none/t.toml: No such file or directory: choose",
        ),
        (("run", "-b", "reduction", "--tuning", "damaged.toml"), 2, "repair or remove it"),
        (("run", "-b", "reduction", "--tuning", "none.toml"), 2, "cannot read none.toml"),
        (("tune", "-d", "99"), 3, "matches no device"),
    ],
)
def test_a_wrong_word_or_file_is_one_line_that_names_the_remedy(tmp_path, args, code, says):
    (tmp_path / "damaged.toml").write_text("schema = 1\n[[tuned]]\n")
    done = cli(*args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "") and says in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["damaged.toml"]


def test_a_damaged_file_of_the_users_stops_a_run_which_goes_on_without_it_when_told_to(tmp_path):
    home = tmp_path / "home"
    (home / "clmembench").mkdir(parents=True)
    (home / "clmembench" / "tuning.toml").write_text("[[tuned")
    dry = ("run", "--dry-run", "-b", "reduction", *SUM)
    refused = cli(*dry, XDG_DATA_HOME=str(home))
    assert refused.returncode == 2 and "tuning.toml is no file of stored shapes" in refused.stderr
    assert "--no-tuning" in refused.stderr and refused.stderr.count("\n") == 1
    assert cli(*dry, "--no-tuning", XDG_DATA_HOME=str(home)).returncode == 0


@mounts
def test_a_folder_that_may_only_be_read_is_noticed_before_anything_is_measured(tmp_path):
    (tmp_path / "shut").mkdir()
    shut = 'mount --bind shut shut && mount -o remount,ro,bind shut || exit 99; exec "$@"'
    args = ("tune", "reduction", *SUM, "-o", "shut/t.toml", "--records", "r.jsonl")
    with Command(ROOT, args, tmp_path, before=("unshare", "-rm", "sh", "-c", shut, "sh")) as command:
        code = command.wait()
    assert code == 1 and "shut/t.toml: Read-only file system: choose another place with -o" in command.said()
    assert not (tmp_path / "r.jsonl").exists()


def test_ctrl_c_keeps_what_there_is_and_exits_130(tmp_path):
    records = tmp_path / "r.jsonl"
    args = ("tune", "stream", "reduction", "-o", str(tmp_path / "t.toml"), "--records", str(records))
    with Command(tree(tmp_path / "copy", fake=False), args, tmp_path) as command:
        assert within(200, lambda: records.exists() and records.read_bytes().count(b"\n") >= 2), command.said()
        command.interrupt()
        assert command.wait(200) == 130
        assert command.gone()
    assert "interrupted: " in command.said() and "Traceback" not in command.said()
    assert jsonl.read(records).notes == () and not (tmp_path / "t.toml").exists()
    assert not list(tmp_path.glob("tmp??*.toml"))
