"""Where commands write to: what cannot be is said at once, by every command alike, and what is read is never replaced."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from clmembench.cli import devices, outputs
from clmembench.cli.program import app
from clmembench.results.jsonl import ResultsError, Writer
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import STREAM, device, header, record, series


@pytest.fixture
def run(tmp_path, monkeypatch) -> str:
    """A stored run; and no command that gets as far as measuring can go on."""
    monkeypatch.setattr(devices, "listed", lambda *_: [FAKE_DEVICE_INFO])

    def measured(*args, **named):
        raise AssertionError("it began to measure")

    monkeypatch.setattr("clmembench.measure.worker_process.probed", measured)
    path = tmp_path / "stored.jsonl"
    with Writer(path, header(device(), cards={"stream": STREAM})) as writer:
        writer.write(record("stream", {"op": "copy"}, series([1000, 1001] * 8, nbytes=1_000_000)))
    return str(path)


MEASURING = [
    ("run", "-b", "launch"),
    ("run", "-b", "launch", "--dry-run"),
    ("topology",),
    ("advise",),
    ("peers",),
    ("casestudy", "mnf"),
    ("tune", "stream"),
]
READING = [("report", "RUN"), ("report", "-f", "md", "RUN"), ("baseline", "create", "RUN")]
COMMANDS = [*((args, "-o") for args in (*MEASURING, *READING)), (("check", "RUN", "--baseline", "RUN"), "--junit")]
COMMANDS += [(("tune", "stream"), "--records"), (("show", "RUN"), "--parquet")]


def ended(args, run: str, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [run if arg == "RUN" else arg for arg in (*args, *more)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stderr


@pytest.mark.parametrize(("args", "option"), COMMANDS, ids=str)
def test_a_folder_in_the_place_of_a_file_gets_a_new_file(run, tmp_path, args, option):
    """Where a command begins to measure, its file is named when it ends; `session` has the test of that."""
    folder = tmp_path / "folder"
    folder.mkdir()
    try:
        code, said = ended(args, run, option, str(folder))
    except AssertionError as error:
        assert "it began to measure" in str(error)
        return
    assert code in (0, 6) and "is a folder" not in said
    assert len(list(folder.iterdir())) == (0 if "--dry-run" in args else 1)


@pytest.mark.parametrize(("args", "option"), COMMANDS, ids=str)
def test_a_folder_in_which_nothing_can_be_written_is_said_at_once(run, args, option):
    code, said = ended(args, run, option, "/proc/self/task")
    assert code in (1, 2) and said.count("\n") == 1 and "choose another" in said


@pytest.mark.parametrize(("args", "option"), COMMANDS, ids=str)
def test_a_folder_in_a_folder_that_is_missing_is_no_place(run, tmp_path, args, option):
    code, said = ended(args, run, option, str(tmp_path / "resutls" / "today" / "x"))
    assert code == 2 and f"there is no folder {tmp_path / 'resutls'}: make it, or choose another {option}" in said
    assert not (tmp_path / "resutls").exists()


@pytest.mark.parametrize(("args", "option"), COMMANDS, ids=str)
def test_what_is_no_ordinary_file_is_refused_and_not_waited_for(run, tmp_path, args, option):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name, says in (("fifo", "is no ordinary file (a pipe)"), ("link", "is a link to a file that is not there")):
        for more in ((), ("--overwrite",)):
            if more and args[0] == "tune":
                continue
            code, said = ended(args, run, option, str(tmp_path / name), *more)
            if name == "fifo" and more and (args[0] == "report" or option == "--junit"):
                assert code == 1 and "it is a pipe that nobody reads" in said  # one that is read may be written to
                continue
            assert code == 2 and f"{tmp_path / name} {says}: choose another {option}" in said
    code, said = ended(args, run, option, str(Path(run) / "x"))
    assert code == 2 and f"cannot write {run}/x: " in said
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(("args", "option"), [c for c in COMMANDS if c[0][0] != "tune" or c[1] != "-o"], ids=str)
def test_a_file_that_is_there_is_kept_unless_it_may_be_replaced(run, tmp_path, args, option):
    (tmp_path / "there").write_text("kept")
    code, said = ended(args, run, option, str(tmp_path / "there"))
    assert code == 2 and f"{tmp_path / 'there'} exists: choose another {option}, or say --overwrite" in said
    assert (tmp_path / "there").read_text() == "kept"


@pytest.mark.parametrize(("args", "option"), [c for c in COMMANDS if c[0] in READING or c[1] == "--junit"], ids=str)
def test_what_is_read_is_never_replaced(run, args, option):
    before = Path(run).read_bytes()
    code, said = ended(args, run, option, run, "--overwrite")
    assert code == 2 and f"{run} is read by this command: choose another {option}" in said
    assert Path(run).read_bytes() == before


def test_a_new_folder_is_named_before_anything_is_measured_and_made_for_it(run, tmp_path):
    for args, option in COMMANDS:
        folder = tmp_path / "-".join((*args, option)).replace("/", "")
        done = CliRunner().invoke(app, [run if arg == "RUN" else arg for arg in (*args, option, str(folder / "x"))])
        assert done.stderr.startswith(f"clmembench: {folder} does not exist: creating the folder\n")
        if args in READING or option == "--junit":
            assert done.exit_code == 0 and (folder / "x").is_file()


def test_a_report_looks_at_its_place_before_it_reads(run, tmp_path, monkeypatch):
    def read(*args):
        raise AssertionError("it began to read")

    def full(**named):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("clmembench.cli.stored_runs.load", read)
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    code, said = ended(("report", "RUN"), run, "-o", str(tmp_path / "r.html"))
    assert code == 1 and f"cannot write {tmp_path / 'r.html'}: Read-only file system: choose another place with -o" in said


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_writer_of_a_folder_says_that_it_is_one(tmp_path, overwrite):
    with pytest.raises(ResultsError, match="it is a folder: choose another place with -o"):
        Writer(tmp_path, header(device()), overwrite)


@pytest.mark.parametrize("before", [None, "kept"])
def test_what_cannot_be_written_to_its_end_is_not_there_or_as_it_was(tmp_path, before):
    path = tmp_path / "r.html"
    if before is not None:
        path.write_text(before)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(typer.Exit):
            outputs.write(path, "x" * 20_000, overwrite=before is not None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == ([] if before is None else [("r.html", "kept")])


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_links(tmp_path):
    (tmp_path / "there").write_text("before")
    (tmp_path / "there").chmod(0o640)
    (tmp_path / "link").symlink_to("there")
    outputs.write(tmp_path / "link", "after", overwrite=True)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there").read_text() == "after"
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "there"]
