"""PoCL's cache of compiled programs: what a host that lost power leaves there is compiled again, the rest stays."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from clmembench.measure.job import Job
from clmembench.measure.worker_process import WorkerError, WorkerProcess
from clmembench.runtimes.opencl import RUNTIME, drivers
from clmembench.runtimes.opencl.pocl_cache import cache_folder, damage, remove_empty_programs, unusable_reason

RUN = """
import numpy as np
from clmembench.model import Launch
from clmembench.runtimes import runtime
info = next(d for d in runtime("opencl").devices() if "portable" in d.platform.lower())
runtime("opencl").repair(info)
device = runtime("opencl").open(info)
kernels = device.build("kernel void f(global int *a) { a[get_global_id(0)] = 7; }")
buffer = device.alloc(64)
device.run([Launch(kernels["f"], (buffer,), (16,), (16,))])
print(sorted(kernels), device.download(buffer, np.int32, 16).sum())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    return tmp_path


def program(cache, name, size=0, kernel_size=0, age_s=3600):
    """A program of that name with one kernel, in files of these sizes."""
    folder = cache / name[:2] / name
    (folder / "f" / "1-1-1").mkdir(parents=True)
    for path, nbytes in (
        (folder / "program.bc", size),
        (folder / "f" / "1-1-1" / "f.so", kernel_size),
        (folder / "last_accessed", 0),
    ):
        path.write_bytes(b"x" * nbytes)
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
    return folder


def run_kernel():
    return subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True)


def test_the_folder_is_the_one_that_pocl_uses(cache, monkeypatch):
    assert cache_folder() == cache
    monkeypatch.delenv("POCL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(cache_folder()) == "/cache/pocl/kcache"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/user")
    assert str(cache_folder()) == "/home/user/.cache/pocl/kcache"


def test_empty_programs_and_kernels_go_and_whole_ones_stay(cache):
    whole, empty, half = program(cache, "AAWHOLE", 9, 9), program(cache, "BBEMPTY", 0, 9), program(cache, "CCHALF", 9, 0)
    assert remove_empty_programs() == 2
    assert (whole / "f" / "1-1-1" / "f.so").exists()
    assert not empty.exists()
    assert (half / "program.bc").exists()
    assert not (half / "f" / "1-1-1" / "f.so").exists()


def test_a_file_that_another_process_may_be_writing_stays(cache):
    young = program(cache, "AAYOUNG", age_s=0)
    assert remove_empty_programs() == 0
    assert (young / "program.bc").exists()


def test_a_folder_that_is_not_there_is_nothing_to_mend(cache, monkeypatch):
    monkeypatch.setenv("POCL_CACHE_DIR", str(cache / "none"))
    assert remove_empty_programs() == 0


@pytest.mark.parametrize("kind", ["program.bc", "*.so"])
def test_a_kernel_runs_though_the_cache_was_cut_short(cache, kind):
    assert run_kernel().stdout == "['f'] 112\n"
    cut = list(cache.rglob(kind))
    assert cut
    for path in cut:
        os.truncate(path, 0)
        os.utime(path, (0, 0))
    again = run_kernel()
    assert (again.stdout, again.returncode) == ("['f'] 112\n", 0), again.stderr


def test_a_program_without_kernels_is_told_with_the_folder_to_remove(cache):
    run_kernel()
    for path in cache.rglob("program.bc"):
        os.truncate(path, 0)  # just now: it is left, as if another process were writing it
    failed = run_kernel()
    assert f"without kernels: remove its cache of programs, {cache}" in failed.stderr.splitlines()[-1]


def system(**changes):
    """What statvfs says of a file system with room, but for these changes."""
    room = {"f_flag": 0, "f_blocks": 9, "f_bavail": 9, "f_files": 9, "f_favail": 9}
    return lambda path: SimpleNamespace(**{**room, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"f_flag": os.ST_NOEXEC}, "is on a file system that is mounted noexec"),
        ({"f_bavail": 0}, "is on a file system that is full"),
        ({"f_favail": 0}, "is on a file system that is full"),
        ({"f_files": 0, "f_favail": 0}, ""),  # a file system that counts no files
        ({"f_blocks": 0, "f_bavail": 0}, ""),  # one that counts no blocks, as ramfs and a tmpfs without a limit
    ],
)
def test_a_file_system_that_the_cache_cannot_be_on_is_named(cache, monkeypatch, changes, says):
    monkeypatch.setattr(os, "statvfs", system(**changes))
    reason = unusable_reason()
    assert (says in reason and str(cache) in reason and "set POCL_CACHE_DIR" in reason) if says else not reason


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
def test_a_folder_in_which_no_file_can_be_made_is_not_called_full():
    with_proc = {"POCL_CACHE_DIR": "/proc"}
    assert unusable_reason(with_proc).startswith("PoCL's cache folder /proc cannot be written: ")


def test_a_folder_that_cannot_be_made_or_written_is_named_and_pocl_is_missed(tmp_path, cache, monkeypatch):
    assert not unusable_reason() and not drivers.pocl_without_cache()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"{cache} cannot be written: no permission" in unusable_reason()
    monkeypatch.setenv("POCL_CACHE_DIR", str(cache / "a" / "b"))
    assert f"{cache}/a/b cannot be created in {cache}: no permission" in unusable_reason()
    (cache / "a").write_text("")
    assert unusable_reason().startswith(
        f"PoCL's cache folder {cache}/a/b cannot be created: {cache}/a is not a folder: set POCL_CACHE_DIR"
    )
    monkeypatch.setattr(drivers, "registered", lambda: [SimpleNamespace(library="/x/libpocl.so.2")])
    assert drivers.pocl_without_cache() == [unusable_reason()]


def whole_library(nbytes=256):
    """The least that is a whole ELF library: a header whose section table ends within the file."""
    head = bytearray(64)
    head[:6], head[40:48], head[58:62] = b"\x7fELF\x02\x01", (128).to_bytes(8, "little"), b"\x40\0\x02\0"
    return bytes(head).ljust(nbytes, b"\0")


@pytest.mark.parametrize(
    ("content", "damaged"),
    [(whole_library(), False), (whole_library(255), True), (whole_library()[:63], True), (b"no library", True), (b"", True)],
)
def test_a_kernel_that_is_no_whole_library_explains_a_death(cache, content, damaged):
    kernel = program(cache, "AAKERNEL", 9, 9) / "f" / "1-1-1" / "f.so"
    kernel.write_bytes(content)
    said = damage("", os.environ)
    assert (f"cannot be loaded, {kernel}: remove the folder {cache}" in said) if damaged else not said


def test_the_drivers_last_words_name_the_kernel(cache, monkeypatch):
    log = f"dlopen(\"{cache}/AA/f.so\") failed with '{cache}/AA/f.so: {os.strerror(errno.EIO)}'.\nnote: missing symbols"
    assert f"cannot be loaded, {cache}/AA/f.so: remove the folder {cache}" in damage(log, os.environ)
    assert not damage(log.replace(str(cache), "/elsewhere"), os.environ)
    assert "cannot be loaded, " in damage(log, {"POCL_CACHE_DIR": str(cache)})
    monkeypatch.setattr(os, "statvfs", system(f_flag=os.ST_NOEXEC))
    assert "mounted noexec" in damage(log, os.environ)


def test_a_worker_that_dies_of_a_damaged_kernel_names_the_cache(cache):
    pocl = [info for info in RUNTIME.devices() if "portable" in info.platform.lower()]
    if not pocl:
        pytest.skip("PoCL is not installed")
    job = Job("opencl", pocl[0])
    with WorkerProcess(job) as worker:
        worker.probe()
    for kernel in cache.rglob("*.so"):
        kernel.write_bytes(kernel.read_bytes()[:5000])  # what is mapped beyond its end is a SIGBUS without a word
    with WorkerProcess(job) as worker, pytest.raises(WorkerError) as died:
        worker.probe()
    assert re.search(r"its process died of SIG\w+: PoCL's cache holds a kernel", str(died.value))
    assert f"remove the folder {cache}" in str(died.value)


def test_a_file_in_the_folders_place_is_named_where_a_kernel_cannot_be_built(cache, monkeypatch):
    pocl = [info for info in RUNTIME.devices() if "portable" in info.platform.lower()]
    if not pocl:
        pytest.skip("PoCL is not installed")
    (file := cache / "file").touch()
    monkeypatch.setenv("POCL_CACHE_DIR", str(file))  # PoCL takes it, since it may be written, and lists its device
    with WorkerProcess(Job("opencl", pocl[0])) as worker, pytest.raises(WorkerError) as failed:
        worker.probe()
    assert f"cache folder {file} cannot be created: {file} is not a folder: set POCL_CACHE_DIR" in str(failed.value)
    assert not failed.value.last_words()
