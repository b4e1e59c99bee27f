"""Pipes, devices and hostile TOML in the place of a file: refused in a line, and waited for by nobody."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clmembench import sanitize
from clmembench.cli.program import app
from clmembench.report import frame
from clmembench.report.scorecard import scorecard
from clmembench.results import jsonl, tuned
from clmembench.results.jsonl import ResultsError, Writer
from clmembench.specs import sheets
from clmembench.studies.traces import trace_csv
from tests.builders import header, record, series
from tests.cases import each

ONE = record("stream", {"op": "copy"}, series([100] * 6, nbytes=1000))


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def ends(function):
    """What a call returns or raises, on a thread of its own so that one that waits for ever fails."""
    found: list[object] = []

    def call():
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it waits for the other end of a pipe"
    return found[0]


def test_a_pipe_is_no_file_of_shapes_sheet_or_traces(pipe):
    for function in (tuned.load, sheets.load, trace_csv.read):
        error = ends(lambda function=function: function(pipe))
        assert "no regular file" in str(error)


def test_a_pipe_is_no_results_file(pipe):
    for function in (
        lambda: Writer(pipe, header()),
        lambda: Writer(pipe, header(), overwrite=True),
        lambda: Writer.going_on(pipe),
    ):
        error = ends(function)
        assert isinstance(error, ResultsError)
        assert any(said in str(error) for said in ("no regular file", "it is no file", "it is a pipe"))
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    "command",
    [
        ("report", "RUN", "-o", "PIPE", "--overwrite"),
        ("check", "RUN", "--baseline", "RUN", "--junit", "PIPE", "--overwrite"),
        ("baseline", "create", "RUN", "-o", "PIPE", "--overwrite"),
        ("infer", "PIPE"),
        ("run", "--resume", "PIPE"),
        ("run", "-o", "PIPE", "--overwrite"),
        ("run", "--tuning", "PIPE", "-b", "reduction", "--dry-run"),
        ("tune", "reduction", "-o", "PIPE"),
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_a_pipe_ends_a_command_in_one_line(tmp_path, pipe, command):
    run = tmp_path / "r.jsonl"
    with Writer(run, header()) as writer:
        writer.write(ONE)
    names = {"RUN": str(run), "PIPE": str(pipe)}
    done = ends(lambda: CliRunner().invoke(app, [names.get(word, word) for word in command]))
    assert done.exit_code in (1, 2), done.output
    assert "pipe" in done.stderr and done.stderr.count("\n") == 1
    assert done.exception is None or isinstance(done.exception, SystemExit)


# commands that read a file that the user names; each has to open it the same way
READERS = [
    ("show", "FILE"), ("show", "FILE", "--parquet", "OUT"), ("report", "FILE"), ("compare", "RUN", "FILE"), ("history", "FILE"),
    ("check", "FILE", "--baseline", "RUN"), ("check", "RUN", "--baseline", "FILE"), ("baseline", "create", "FILE", "-o", "OUT"),
    ("advise", "FILE"), ("topology", "FILE"), ("doctor", "--run", "FILE"), ("import", "FILE", "--as", "mt4g"),
    ("infer", "FILE"), ("peers", "FILE"), ("casestudy", "mnf", "FILE"), ("model", "measure", "FILE"),
    ("model", "validate", "FILE"), ("model", "predict", "FILE", "FILE"), ("model", "predict", "wang2019-table1", "FILE"),
    ("run", "--resume", "FILE"),
    ("run", "--tuning", "FILE", "-b", "reduction", "--dry-run"), ("run", "--path", "FILE", "-b", "mine", "--dry-run"),
]  # fmt: skip


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory):
    """Files of every kind that hold no data, or no file that can be read."""
    folder = tmp_path_factory.mktemp("odd")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "socket"))
    (folder / "loop").symlink_to("loop")
    (folder / "bytes").write_bytes(b"\xff\xfe\x00\x80" * 50)
    named = {name: folder / name for name in ("pipe", "socket", "loop", "bytes", "gone")}
    return named | {"folder": folder, "device": Path("/dev/zero"), "name": folder / ("n" * 300)}


@each("command", READERS)
def test_whatever_is_no_file_ends_a_command_in_one_line(monkeypatch, tmp_path, odd_files, command):
    monkeypatch.setattr(sanitize, "MAX_WRITER_WAIT_S", 0.01)
    run = tmp_path / "r.jsonl"
    with Writer(run, header()) as writer:
        writer.write(ONE)
    kinds = odd_files if command[0] in ("show", "import", "infer", "report") else ("pipe", "name")  # one of each way to read
    for kind, path in ((kind, odd_files[kind]) for kind in kinds):
        names = {"RUN": str(run), "FILE": str(path), "OUT": str(tmp_path / "out")}
        done = ends(lambda names=names: CliRunner().invoke(app, [names.get(word, word) for word in command]))
        assert done.exit_code == 2 and done.stdout == "" and done.stderr.count("\n") == 1, (kind, done.output, done.exception)
        assert "Traceback" not in done.stderr and (kind == "bytes" or path.name[:20] in done.stderr), (kind, done.stderr)
        assert kind not in ("pipe", "socket", "device") or kind in done.stderr or "no regular file" in done.stderr, done.stderr


def test_a_run_comes_through_a_pipe_as_from_a_shells_substitution(monkeypatch, tmp_path):
    run = tmp_path / "r.jsonl"
    with Writer(run, header()) as writer:
        writer.write(ONE)
    for pieces in ([run.read_bytes()], [run.read_bytes()[:40], run.read_bytes()[40:]]):
        end, start = os.pipe()

        def write(pieces=pieces, start=start):
            for piece in pieces:
                time.sleep(0.02)
                os.write(start, piece)
            os.close(start)

        threading.Thread(target=write, daemon=True).start()
        assert ends(lambda end=end: jsonl.read(Path(f"/dev/fd/{end}"))).records == (ONE,)
        os.close(end)


def test_a_writer_that_falls_silent_is_not_waited_for(monkeypatch, pipe):
    monkeypatch.setattr(sanitize, "MAX_WRITER_WAIT_S", 0.01)
    monkeypatch.setattr(sanitize, "MAX_PIPE_SILENCE_S", 0.05)
    writer = os.open(pipe, os.O_RDWR)
    assert "nothing came for 0.05 s: write the data into a file" in str(ends(lambda: jsonl.read(pipe)))
    os.close(writer)
    assert "nobody writes: name the file itself" in str(ends(lambda: jsonl.read(pipe)))


def test_a_name_that_no_file_can_have_is_said(tmp_path):
    run, long = tmp_path / "r.jsonl", "n" * 300
    with Writer(run, header()) as writer:
        writer.write(ONE)
    for words in (
        ["show", str(run), "--parquet", long], ["report", str(run), "-o", long], ["run", "-o", f"{long}/r.jsonl"],
        ["import", str(run), "--as", "mt4g", "-o", long], ["infer", "--record", "c", "-o", long], ["show", str(run), long],
        ["baseline", "create", str(run), "-o", long], ["history", str(run), "--figure", f"{long}.png"], ["new", long],
        ["check", str(run), "--baseline", str(run), "--junit", long], ["tune", "reduction", "-o", long],
        ["run", "--path", long],
    ):  # fmt: skip
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2 and done.stderr.count("\n") == 1 and "nnn" in done.stderr, (words[:3], done.output[:300])
        assert isinstance(done.exception, SystemExit), (words[:3], done.exception)


def test_a_run_in_a_file_whose_name_is_no_text_is_a_frame(tmp_path):
    run = tmp_path / os.fsdecode(b"\xff.jsonl")
    with Writer(run, header()) as writer:
        writer.write(ONE)
    assert frame.read(run)["file"][0].endswith("/?.jsonl")


def test_an_empty_list_of_runs_is_said(tmp_path):
    for paths in ([], str(tmp_path / "none*"), tmp_path / ("n" * 300)):
        for function in (frame.read, scorecard.headlines):
            with pytest.raises(FileNotFoundError, match="no results file"):
                function(paths)


def test_a_pipe_that_somebody_reads_is_written(pipe):
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    deadline = time.monotonic() + 200
    while True:
        try:
            file = sanitize.open_new(pipe, overwrite=True)
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with file:
        file.write("x" * 1_000_000)  # more than a pipe holds: it is waited for
    reader.join(20)
    assert read == ["x" * 1_000_000]


def test_a_regular_file_of_limited_size_is_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert sanitize.read_regular(path, 5) == b"12345"
    with pytest.raises(ValueError, match="over 4 bytes"):
        sanitize.read_regular(path, 4)
    with pytest.raises(IsADirectoryError):
        sanitize.read_regular(tmp_path, 5)
    with pytest.raises(OSError, match="no regular file"):
        sanitize.read_regular(Path("/dev/zero"), 5)


LONG = "a." * sanitize.MAX_DOTTED_KEY_PARTS + "a"


@each(
    "text",
    [
        "a." * 200_000 + "a = 1", f"[{LONG}]", f"[[{LONG}]]", f"x = {{ {LONG} = 1 }}", LONG.replace(".", " . ") + " = 1",
        LONG.replace("a", '"a"') + " = 1", LONG.replace("a", "'a.b'") + " = 1", "x = 'quoted' # a comment\n" + LONG + " = 1",
        'x = """ a "text" \\""" """\n' + LONG + " = 1", "x = ''' it's '''\n" + LONG + " = 1",
    ],
)  # fmt: skip
def test_a_dotted_key_of_many_parts_is_refused_before_it_is_parsed(monkeypatch, text):
    monkeypatch.setattr("tomllib.loads", lambda text: pytest.fail("it was parsed"))
    with pytest.raises(ValueError, match="a key of over 16 parts"):
        sanitize.parse_toml(text.encode())


@each(
    "text",
    [
        "a." * 15 + "a = 1", f"x = '{LONG}'", f'x = "{LONG}"', f"# {LONG}", f'x = """\n{LONG}\n"""', f"x = '''\n{LONG}\n'''",
        "x = [1.5, 2.5, -1e3, 1979-05-27T07:32:00.999Z]", 'x = "\\" # no comment"\ny = 1.0',
    ],
)  # fmt: skip
def test_dots_elsewhere_are_no_parts_of_a_key(text):
    assert sanitize.parse_toml(text.encode()) is not None


@pytest.mark.parametrize("text", ["x" * 1_000_000, "a." * 8 * 100_000 + "=", "'" * 999_999, '"""' * 300_001, '"\\' * 400_000])
def test_no_text_makes_the_look_at_keys_long(text):
    with pytest.raises(ValueError):
        sanitize.parse_toml(text.encode())


def test_a_run_is_on_the_disk_from_time_to_time_and_at_its_end(tmp_path, monkeypatch):
    now, synced = [0.0], []
    monkeypatch.setattr(jsonl.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path = tmp_path / "r.jsonl"
    with Writer(path, header()) as writer:
        first = path.stat().st_size
        assert synced[0] == first and len(synced) == 2, "the header, and the folder with its name"
        for now[0] in (1.0, 4.0, 5.0, 6.0, 120.0):
            writer.write(ONE)
        sizes = [first + n * (path.stat().st_size - first) // 5 for n in range(6)]
        assert synced[2:] == [sizes[3], sizes[5]]
        now[0] = 121.0
        writer.write(ONE)
    assert synced[-1] == path.stat().st_size
    with Writer.going_on(path) as writer:
        writer.write(ONE)
        assert synced[-1] == path.stat().st_size


def test_a_disk_that_fails_to_sync_is_an_error_in_a_line(tmp_path, monkeypatch):
    with Writer(tmp_path / "r.jsonl", header()) as writer:
        monkeypatch.setattr(jsonl, "SYNC_S", 0.0)

        def broken(descriptor):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(ResultsError, match="Input/output error: records before this one are kept"):
                writer.write(ONE)
