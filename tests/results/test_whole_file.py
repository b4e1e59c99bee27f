"""Files written whole: a writer that is killed leaves the file as it was, and the next one clears what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clmembench.report.many_runs import digest_cache
from clmembench.results import tuned, whole_file
from clmembench.results.whole_file import PART, remove_abandoned_parts, write_whole
from tests.report.test_digest_cache import kept, key, read, run  # noqa: F401 - fixtures
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
        remove_abandoned_parts(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "elsewhere", f"fifo{PART}", f"link{PART}", f"live{PART}",
        ]  # fmt: skip
    remove_abandoned_parts(tmp_path)
    assert not (tmp_path / f"live{PART}").exists()
    remove_abandoned_parts(tmp_path / "none")


def test_a_name_of_255_bytes_has_a_part(tmp_path, way):
    path = tmp_path / ("ü" * 127)
    for content in ("first", "second"):
        write_whole(path, content, overwrite=True)
    assert path.read_text() == "second"


# ---- the cache of digests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["write", "replace"])
def test_a_digest_s_writer_that_is_killed_leaves_no_part_in_the_cache(run, key, monkeypatch, way, step):  # noqa: F811
    digest_cache._clean.cache_clear()
    first = read(run, key, monkeypatch, made=True)
    (path,) = kept(run)
    other = path.with_name(f"{'0' * 64}.json")  # of a run that changed since, so that it is never written again
    other.write_text("old")
    write_and_die(other, step, way, True, "whole_file.write_whole(path, 'x' * 20000, overwrite=True, durable=False)")
    (path.parent / "tmp1234.part").write_text("as an older version left it")
    path.unlink()
    digest_cache._clean.cache_clear()
    assert read(run, key, monkeypatch, made=True) == first
    assert sorted(file.name for file in path.parent.iterdir()) == sorted([".gitignore", other.name, path.name])


def test_a_digest_is_not_written_through_a_link_that_came_with_the_folder(run, key, monkeypatch, tmp_path):  # noqa: F811
    first = read(run, key, monkeypatch, made=True)
    (path,) = kept(run)
    path.unlink()
    (tmp_path / "own").write_text("the user's own")
    path.symlink_to(tmp_path / "own")
    assert read(run, key, monkeypatch, made=True) == first
    assert (tmp_path / "own").read_text() == "the user's own" and not path.is_symlink()
    assert read(run, key, monkeypatch, made=False) == first


def test_an_empty_key_file_is_replaced_by_a_key(key, tmp_path):  # noqa: F811
    path = tmp_path / "home" / "clmembench" / "digest.key"
    path.write_bytes(b"")
    new = digest_cache.user_key()
    assert new is not None and len(new) == digest_cache.KEY_BYTES and new != key
    assert digest_cache.user_key() == new and path.stat().st_mode & 0o777 == 0o600


def test_a_key_is_written_whole(tmp_path, monkeypatch):
    """A process that is killed while it makes the key leaves none, and the next one makes it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    write = "from clmembench.report import digest_cache\ndigest_cache.user_key()"
    write_and_die(tmp_path / "unused", "write", "beside", True, write)
    assert not (tmp_path / "clmembench" / "digest.key").exists()
    assert digest_cache.user_key() is not None
    assert [file.name for file in (tmp_path / "clmembench").iterdir()] == ["digest.key"]


def test_the_part_of_a_file_is_hidden_and_beside_it():
    usual, second = whole_file._part_paths(Path("/folder/r.html"))
    assert usual == Path("/folder/.r.html.part") and second.parent == usual.parent and second != usual
