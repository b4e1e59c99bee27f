"""A host that has no more memory, files, processes or space: one line with the remedy, or less of it is used."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clmembench import __main__ as entry
from clmembench.cli import program
from clmembench.host import failures
from clmembench.host.failures import not_started
from clmembench.report.many_runs import digests
from tests.cases import each
from tests.report.test_fleet import stored


@each(
    ("error", "says"),
    [
        (MemoryError(), "ulimit -v"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "ulimit -v"),
        (ImportError("_generator.so: failed to map segment from shared object"), "ulimit -v"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (OSError(errno.EMFILE, "Too many open files", "r.jsonl"), "ulimit -n"),
        (OSError(errno.ENOSPC, "No space left on device"), "a temporary file: No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "/x/y"), "cannot write /x/y: Read-only file system"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "set TMPDIR"),
    ],
)
def test_what_is_scarce_is_one_line_with_the_remedy(error, says, monkeypatch, capsys):
    def fails():
        raise error

    monkeypatch.setattr(program, "main", fails)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    said = capsys.readouterr().err
    assert ended.value.code == 1 and said.count("\n") == 1 and says in said, said
    assert "standard output" not in said


@pytest.mark.parametrize(
    "error", [ImportError("No module named x"), RuntimeError("a bug"), FileNotFoundError(2, "x"), OSError()]
)
def test_an_error_of_the_program_stays_one(error, monkeypatch):
    def fails():
        raise error

    monkeypatch.setattr(program, "main", fails)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(type(error)):
        entry.main()


def test_a_current_folder_that_is_gone_costs_nothing_until_it_is_needed(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        monkeypatch.setattr(program, "main", lambda: None)
        monkeypatch.setattr(sys, "path", list(sys.path))
        entry.main()
        assert "current folder" in str(failures.scarcity_text(FileNotFoundError(errno.ENOENT, "No such file or directory")))
    finally:
        os.chdir(tmp_path)


@each(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EROFS, "Read-only"), RuntimeError("no new thread")],
)
@each("where", ["__init__", "submit"])
def test_runs_are_read_by_one_process_where_no_pool_can_be_had(tmp_path, monkeypatch, error, where):
    class Pool:
        def __init__(self, *_, **__):
            if where == "__init__":
                raise error

        def submit(self, *_):
            raise error

        def shutdown(self):
            return

    paths: list[Path] = [stored(tmp_path, n) for n in range(3)]
    monkeypatch.setattr(digests, "ProcessPoolExecutor", Pool)
    assert list(digests.digests(paths, False, 2)) == list(digests.digests(paths, False, 1))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_beyond_what_is_buffered_on_a_full_disk_is_told_too():
    code = "from clmembench.cli import program; program.app = lambda: print('x' * 100_000); program.main()"
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "clmembench: cannot write to standard output: No space left on device\n")


def test_a_process_that_is_not_started_names_what_is_scarce():
    assert "ulimit -n" in not_started(OSError(errno.EMFILE, "Too many open files"))
    assert "ulimit -v" in not_started(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not_started(OSError(errno.EPERM, "Not permitted"), "to list devices").startswith(
        "no process could be started to list"
    )


@pytest.mark.parametrize(
    "log", ["LLVM ERROR: out of memory\nAllocation failed", "  ...\nMemoryError", "what():  std::bad_alloc"]
)
def test_an_ended_process_that_lacked_memory_is_told_so(log):
    assert "ulimit -v" in failures.scarcity_in(log)
    assert not failures.scarcity_in("clBuildProgram failed: 3 errors")


def test_limits_are_named_only_where_there_are_some(monkeypatch):
    resource = pytest.importorskip("resource")
    given = {resource.RLIMIT_AS: 400_000 * 1024}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (given.get(kind, resource.RLIM_INFINITY), resource.RLIM_INFINITY))
    assert "390.625 MiB of memory" in failures.resource_limits() and "ulimit -f" not in failures.resource_limits()
    given[resource.RLIMIT_FSIZE] = 1024
    assert "a file may have 1 KiB" in failures.resource_limits() and "ulimit -f" in failures.resource_limits()
    given.clear()
    assert not failures.resource_limits()
