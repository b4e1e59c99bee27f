"""Files written whole: a writer that is killed leaves the file as it was, and the next one clears what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clmembench.results import tuned
from clmembench.results.whole_file import PART, remove_if_abandoned, write_whole
from tests.results.test_tuned import ENTRY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills processes within system calls")
NEW = "new " * 5000
WAYS = {"nameless": "", "beside": "del os.O_TMPFILE\n"}
# the system call that a writer is killed at, before it is made and after it
STEPS = ("write", "fsync", "link", "replace")
KILLED = """
import os, pathlib, signal, sys
from clmembench.results import whole_file
{way}
def killed(name, real):
    def call(*args, **named):
        if {before}:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    return call
path, step = pathlib.Path(sys.argv[1]), sys.argv[2]
if step == "write":
    real = os.fdopen
    class Torn:
        def __init__(self, file): self.file = file
        def __enter__(self): return self
        def __exit__(self, *args): pass
        def write(self, data):
            self.file.write(data if not {before} else data[:len(data) // 2])
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.fdopen = lambda fd, mode, **named: Torn(real(fd, mode)) if mode == "wb" else real(fd, mode, **named)
elif step == "replace":
    pathlib.Path.replace = killed(step, pathlib.Path.replace)
else:
    setattr(os, step, killed(step, getattr(os, step)))
{write}
"""


def write_and_die(path: Path, step: str, way: str, before: bool, write: str) -> int:
    code = KILLED.format(way=WAYS[way], before=before, write=write)
    return subprocess.run([sys.executable, "-c", code, str(path), step], timeout=60).returncode


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param == "beside":
        monkeypatch.delattr(os, "O_TMPFILE")
    return request.param


@pytest.mark.parametrize("dies_before", [True, False])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("before", [None, "old"])
def test_a_writer_that_is_killed_leaves_the_old_file_or_the_whole_new_one(tmp_path, way, step, before, dies_before):
    path = tmp_path / "r.html"
    if before is not None:
        path.write_text(before)
    write = f"whole_file.write_whole(path, {NEW!r}, overwrite={before is not None})"
    code = write_and_die(path, step, way, dies_before, write)
    assert code in (0, -signal.SIGKILL)  # not every way makes every call
    found = path.read_text() if path.exists() else None
    assert found in ((before, NEW) if code else (NEW,))
    write_whole(path, "third", overwrite=True)
    assert path.read_text() == "third"
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.parametrize("dies_before", [True, False])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.slow
def test_stored_configurations_outlive_a_writer_that_is_killed(tmp_path, way, step, dies_before):
    path = tmp_path / "tuning.toml"
    tuned.save(path, [ENTRY])
    before = path.read_text()
    write = "from clmembench.results import tuned\ntuned.save(path, [tuned.replace(tuned.load(path)[0], compute_units=4)])"
    write_and_die(path, step, way, dies_before, write)
    assert tuned.load(path)
    assert path.read_text() == before or len(tuned.load(path)) == 2


def test_a_file_that_appears_while_another_is_written_is_not_replaced(tmp_path, monkeypatch, way):
    path = tmp_path / "r.html"
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: path.write_text("another's") and real(descriptor))
    with pytest.raises(FileExistsError):
        write_whole(path, "ours")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.html", "another's")]


def test_two_writers_of_one_file_do_not_meet(tmp_path, monkeypatch, way):
    """The second begins when the first has written its part; each of them writes the whole file."""
    path = tmp_path / "r.html"
    path.write_text("old")
    real, begun = Path.replace, []

    def replace(self, target):
        if not begun:
            begun.append(self)
            write_whole(path, "second", overwrite=True)
            assert path.read_text() == "second" and self.exists()
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    write_whole(path, "first", overwrite=True)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.html", "first")]


def test_without_hard_links_a_new_file_is_written_too_and_an_old_one_kept(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE")

    def refuse(*args, **named):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "r.html", "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.html", "new")]
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "r.html", "newer")


def test_a_disk_that_is_full_leaves_nothing_beside_the_old_file(tmp_path, monkeypatch, way):
    path = tmp_path / "r.html"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, NEW, overwrite=True)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.html", "old")]


def test_what_others_write_and_what_is_no_part_is_not_removed(tmp_path):
    import fcntl

    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / f"link{PART}").symlink_to("elsewhere")
    os.mkfifo(tmp_path / f"fifo{PART}")
    (tmp_path / f"left{PART}").write_text("torn")
    with (tmp_path / f"live{PART}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for path in list(tmp_path.glob(f"*{PART}")):
            remove_if_abandoned(path)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "elsewhere", f"fifo{PART}", f"link{PART}", f"live{PART}",
        ]  # fmt: skip
    remove_if_abandoned(tmp_path / f"live{PART}")
    assert not (tmp_path / f"live{PART}").exists()
    remove_if_abandoned(tmp_path / "none" / PART)


def test_a_name_of_255_bytes_has_a_part(tmp_path, way):
    path = tmp_path / ("ü" * 127)
    for content in ("first", "second"):
        write_whole(path, content, overwrite=True)
    assert path.read_text() == "second"
