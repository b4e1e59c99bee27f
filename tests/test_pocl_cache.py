"""PoCL's cache of compiled programs: what a host that lost power leaves there is compiled again, the rest stays."""

import os
import subprocess
import sys

import pytest

from clmembench.runtimes.opencl.pocl_cache import cache_folder, remove_empty_programs

RUN = """
import numpy as np
from clmembench.model import Launch
from clmembench.runtimes import runtime
info = next(d for d in runtime("opencl").devices() if "portable" in d.platform.lower())
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
