"""What every test shares: temporary files, locks among them, of its own, so that a run beside the tests does not stop them."""

import os
import tempfile

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_temporary_folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("tmp"))
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"], tempfile.tempdir = folder, folder
    yield
    tempfile.tempdir = before[1]
    if before[0] is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before[0]
