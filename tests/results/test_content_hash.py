"""The program's revision and its inputs' hashes: the same for the same contents wherever they lie, another for any change."""

from __future__ import annotations

import hashlib
import os

import pytest

from clmembench import resources
from clmembench.results import whole_file


def laid_out(folder, inside):
    """A package of two modules and a template with kernels and sheets in it, as in a wheel, or beside it."""
    package = folder / "package"
    files = {
        package / "a.py": "a", package / "sub" / "b.py": "b", package / "sub" / "c.j2": "c",
        (package if inside else folder) / "cl_kernels" / "k.cl": "k",
        (package if inside else folder) / "platforms" / "tuning" / "t.toml": "t",
    }  # fmt: skip
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(files)


def hashed(folder, inside):
    parent = folder / "package" if inside else folder
    return whole_file.hash_package(folder / "package", parent / "cl_kernels", parent / "platforms")


def test_a_wheel_has_the_revision_of_its_checkout(tmp_path):
    (tmp_path / "w").mkdir(), (tmp_path / "c").mkdir()
    laid_out(tmp_path / "w", True), laid_out(tmp_path / "c", False)
    assert hashed(tmp_path / "w", True) == hashed(tmp_path / "c", False)


@pytest.mark.parametrize("number", range(5))
def test_any_file_that_changes_or_is_renamed_is_another_revision(tmp_path, number):
    path = laid_out(tmp_path, False)[number]
    before = hashed(tmp_path, False)
    path.write_text("changed")
    changed = hashed(tmp_path, False)
    path.rename(path.with_stem("other"))
    assert len({before, changed, hashed(tmp_path, False)}) == 3


def test_what_python_and_editors_leave_is_no_part_of_a_revision(tmp_path):
    laid_out(tmp_path, False)
    before = hashed(tmp_path, False)
    (tmp_path / "package" / "__pycache__").mkdir()
    for name in ("__pycache__/a.cpython-311.pyc", "a.py~", ".a.py.swp", "notes.md"):
        (tmp_path / "package" / name).write_text("x")
    assert hashed(tmp_path, False) == before


def test_the_revision_of_this_program_is_of_its_own_files():
    assert whole_file.hash_sources() == whole_file.hash_package(resources.package_folder(), *resources.folders())
    assert whole_file.hash_sources().startswith("sha256:") and len(whole_file.hash_sources()) == 71


def test_a_file_s_hash_is_its_sha256_and_a_pipe_has_none(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * (whole_file.READ_CHUNK_BYTES + 5))
    assert whole_file.hash_file(path) == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        whole_file.hash_file(tmp_path / "pipe")
