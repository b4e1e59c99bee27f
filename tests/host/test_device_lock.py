"""Two runs on one device: the second is told who holds it, and a killed one holds nothing."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.cli import waiting
from clmembench.host import device_lock, environment
from clmembench.results.jsonl import ResultsError, Writer, read
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import device, header, record
from tests.cases import each
from tests.faulty import Command, tree, within

HOLD = """
import sys, time
from clmembench.host import device_lock as lock
from clmembench.runtimes.fake import FAKE_DEVICE_INFO as INFO
from dataclasses import replace
sys.argv[1:] = ["run", "-d", "0"]
with lock.held(replace(INFO, uuid=UUID)):
    print("held", flush=True)
    time.sleep(600)
"""


HELD = replace(FAKE_DEVICE_INFO, name="Held GPU", uuid="be1d")


@contextmanager
def holder(uuid: str = FAKE_DEVICE_INFO.uuid) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a device."""
    process = subprocess.Popen([sys.executable, "-c", f"UUID = {uuid!r}\n{HOLD}"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def holds():
    with holder(HELD.uuid) as process:
        yield process


@pytest.fixture
def other(holds):
    """A process that holds the device HELD, and whose lock says so again when the test is over."""
    path = device_lock.path_of(HELD)
    content = path.read_bytes()
    yield holds
    path.write_bytes(content)


def test_a_second_run_is_told_who_holds_the_device(other):
    says = rf"process {other.pid} since 20.*clmembench run -d 0.*choose another device"
    with pytest.raises(device_lock.HeldError, match=says), device_lock.held(HELD):
        raise AssertionError("two runs held one device")


def free(*infos) -> bool:
    try:
        with device_lock.held(*(infos or (FAKE_DEVICE_INFO,))):
            return True
    except device_lock.HeldError:
        return False


def test_another_device_is_free(other):
    assert free(replace(FAKE_DEVICE_INFO, uuid="a2")) and not free(HELD) and not free(replace(HELD, id="2", name="renamed"))


GPU = device("NVIDIA A100", uuid="ab" * 15 + "cd", pci="0000:0f:00.0")
CPU = device("pthread-AMD EPYC", kind="cpu", platform="Portable Computing Language", uuid="c1")
ONE_HARDWARE = {
    "PoCL and Intel": (CPU, replace(CPU, name="AMD EPYC", platform="Intel(R) OpenCL", uuid="c2", compute_units=8)),
    "PoCL and SYCL": (CPU, replace(CPU, name="AMD EPYC", platform="SYCL (Intel(R) OpenCL)", runtime="sycl", uuid="c3")),
    "an emulator on it": (CPU, replace(CPU, kind="accelerator", name="FPGA", shares_host_memory=True, local_mem_type="global")),
    "by PCI address": (GPU, replace(GPU, name="gfx", uuid="", pci="00000000:0F:00.1", platform="Mesa")),
    "by UUID": (GPU, replace(GPU, name="gfx", pci="", platform="PoCL")),
    "by name": (GPU, replace(GPU, name="A100", uuid="", pci="", runtime="sycl")),
    "by name alone": (replace(GPU, uuid="", pci=""), replace(GPU, name="A100", uuid="", pci="", runtime="sycl")),
    "a part of it": (GPU, replace(GPU, name="NVIDIA A100 MIG 1g.5gb", uuid="12" * 16, compute_units=1)),
}  # fmt: skip
TWO = {
    "GPUs": (GPU, replace(GPU, uuid="12" * 16, pci="0000:10:00.0")),
    "GPUs of one UUID": (GPU, replace(GPU, pci="0000:10:00.0")),
    "GPUs of no UUID": (replace(GPU, uuid="0" * 32), replace(GPU, uuid="0" * 32, pci="0000:10:00.0")),
    "GPUs by UUID": (replace(GPU, pci=""), replace(GPU, uuid="12" * 16, pci="")),
    "GPUs by number": tuple(replace(GPU, uuid="", pci="", instance=n) for n in (1, 2)),
    "a GPU and a CPU": (GPU, CPU),
    "GPUs by name": (replace(GPU, uuid="", pci=""), replace(GPU, name="H100", uuid="", pci="")),
}


@each("infos", ONE_HARDWARE.values())
def test_devices_of_one_hardware_exclude_each_other(infos):
    for first, second in (infos, infos[::-1]):
        with device_lock.held(first):
            assert not free(second)
        assert free(second)
    assert free(*infos)  # one run on both holds each lock once


@each("infos", TWO.values())
def test_devices_of_two_pieces_of_hardware_do_not(infos):
    for first, second in (infos, infos[::-1]):
        with device_lock.held(first):
            assert free(second) and not free(first)


def test_a_run_under_another_runtime_is_told_what_is_held():
    pocl, intel = ONE_HARDWARE["PoCL and Intel"]
    with device_lock.held(pocl), pytest.raises(device_lock.HeldError) as told, device_lock.held(intel):
        pass
    assert f"AMD EPYC is in use by another run: process {os.getpid()} " in str(told.value)
    assert "on pthread-AMD EPYC (Portable Computing Language)" in str(told.value)


def test_hosts_that_share_a_folder_of_locks_do_not_exclude_each_other(monkeypatch):
    with device_lock.held(CPU):
        monkeypatch.setattr(device_lock, "_host", lambda: "another-host")
        assert free(CPU)


def test_a_lock_that_names_a_process_that_is_gone_says_so(other):
    gone = subprocess.Popen(["true"])
    gone.wait()
    told = {"pid": gone.pid, "started": "2026-01-01", "argv": ["run"], "uid": os.getuid(), "device": "Held GPU"}
    device_lock.path_of(HELD).write_text(json.dumps(told))
    says = rf"process {gone.pid} .* which is not seen here: .*fuser .*{device_lock.path_of(HELD).name}"
    with pytest.raises(device_lock.HeldError, match=says), device_lock.held(HELD):
        pass


def test_a_lock_of_another_user_names_the_user(other):
    path = device_lock.path_of(HELD)
    path.write_text(json.dumps({**json.loads(path.read_text()), "uid": os.getuid() + 12345}))
    with pytest.raises(device_lock.HeldError, match=rf"process {other.pid} of user {os.getuid() + 12345} since"):
        device_lock.held(HELD).__enter__()


def refused(error):
    """An os.open that fails for locks as for a user without these rights."""
    real = os.open

    def opened(path, flags, *rest, **more):
        if str(path).endswith(".lock") and (flags & os.O_CREAT or (flags & os.O_RDWR and Path(path).exists())):
            raise OSError(error, os.strerror(error))
        return real(path, flags, *rest, **more)

    return opened


def test_a_lock_file_that_another_user_alone_may_write_is_locked_all_the_same(monkeypatch):
    assert free(GPU)
    monkeypatch.setattr(os, "open", refused(errno.EACCES))
    with device_lock.held(GPU) as without:
        assert without == "" and not free(GPU)


def test_where_no_lock_can_be_kept_is_said_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv(device_lock.LOCK_FOLDER_VARIABLE, str(tmp_path))
    for error in (errno.EACCES, errno.EROFS, errno.ENOSPC):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refused(error))
            with device_lock.held(GPU) as without:
                pass
        assert without.startswith(f"no lock keeps other runs off {GPU.name}: {tmp_path}") and "\n" not in without
        assert os.strerror(error) in without and "CLMEMBENCH_LOCKS" in without
    with monkeypatch.context() as patch:
        patch.setattr(device_lock, "attempt", lambda *_: "unavailable")
        with device_lock.held(GPU) as without:
            assert "locks are not available in" in without
    (tmp_path / device_lock.path_of(CPU).name).mkdir()
    assert not free(CPU)


def test_a_run_without_a_lock_warns(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(device_lock.LOCK_FOLDER_VARIABLE, str(tmp_path / "none"))
    with waiting.locked(GPU, 0.0):
        pass
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith("clmembench: warning: no lock keeps other runs off NVIDIA A100: ")


def test_a_killed_run_holds_nothing():
    with holder() as other:
        assert not free()
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert free()


def test_the_lock_is_free_again_after_its_block_and_after_an_error_in_it():
    with pytest.raises(ZeroDivisionError), device_lock.held(FAKE_DEVICE_INFO):
        raise ZeroDivisionError
    assert free() and free()


def test_a_child_does_not_inherit_the_lock():
    with device_lock.held(FAKE_DEVICE_INFO):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
    deadline = time.monotonic() + 200  # exec closes descriptors a moment after it lets the parent go on
    try:
        while not free():
            assert time.monotonic() < deadline, "the child holds the lock"
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()


HOSTILE = [b'{"pid": 1e999, "started": "", "argv": []}', b"[" * 4000, b'{"a":' * 700]


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b'{"pid": "x"}', b"\xff\xfe", b'{"pid": 1}', *HOSTILE])
def test_what_stands_in_the_file_need_not_make_sense(other, content):
    path = device_lock.path_of(HELD)
    path.write_bytes(content)
    with pytest.raises(device_lock.HeldError, match="does not say which"), device_lock.held(HELD):
        pass


def test_hostile_text_in_the_file_cannot_steer_a_terminal(other):
    device_lock.path_of(HELD).write_text('{"pid": 1, "started": "\\u001b[31m", "argv": ["\\u202e' + "x" * 1000 + '"]}')
    with pytest.raises(device_lock.HeldError) as error, device_lock.held(HELD):
        pass
    assert str(error.value).isprintable() and len(str(error.value)) < 500


def test_without_a_folder_to_write_or_behind_a_link_a_run_goes_on_without_a_lock(monkeypatch, tmp_path):
    monkeypatch.setenv(device_lock.LOCK_FOLDER_VARIABLE, str(tmp_path / "none"))
    assert free() and not (tmp_path / "none").exists()
    with device_lock.held(HELD) as without:
        assert f"{tmp_path / 'none'}: No such file or directory: " in without
    monkeypatch.setenv(device_lock.LOCK_FOLDER_VARIABLE, str(tmp_path))
    target = tmp_path / "precious"
    target.write_text("kept")
    device_lock.path_of(FAKE_DEVICE_INFO).symlink_to(target)
    assert free() and target.read_text() == "kept"
    with device_lock.held(FAKE_DEVICE_INFO) as without:
        assert "is a link, which is not followed: remove it" in without


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_the_command_line_refuses_the_second_of_two_runs(tmp_path):
    fake, at = tree(tmp_path / "fake"), tmp_path / "at"
    first = ("run", "-d", "0", "-b", "launch", "-o", str(tmp_path / "1.jsonl"))
    second = ("run", "-d", "0", "-b", "launch", "-o", str(tmp_path / "2.jsonl"))
    with Command(fake, first, tmp_path, {"FAULTY_DEVICE": "hang:0", "FAULTY_AT": str(at)}) as holding:
        assert within(200, at.exists), holding.said()
        with Command(fake, second, tmp_path) as refused:
            assert refused.wait(200) == 3
        assert f"process {holding.process.pid}" in refused.said() and "Traceback" not in refused.said()
        assert not (tmp_path / "2.jsonl").exists()
        assert holding.process.poll() is None  # undisturbed


def test_jobs_with_temporary_folders_of_their_own_exclude_each_other(other, monkeypatch, tmp_path):
    """Batch systems give each job one; locks lie elsewhere."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert not free(HELD) and list(tmp_path.iterdir()) == []
    monkeypatch.delenv(device_lock.LOCK_FOLDER_VARIABLE)
    assert device_lock.path_of(FAKE_DEVICE_INFO) == Path("/tmp") / device_lock.path_of(FAKE_DEVICE_INFO).name


def test_the_folder_of_locks_does_not_make_another_run_of_it(monkeypatch, tmp_path):
    before = environment.variables()
    monkeypatch.setenv(device_lock.LOCK_FOLDER_VARIABLE, str(tmp_path))
    assert environment.variables() == before and device_lock.LOCK_FOLDER_VARIABLE not in before


@pytest.mark.parametrize("kind", ["fifo", "hard link"])
def test_what_is_no_lock_is_said_and_kept(monkeypatch, tmp_path, kind):
    monkeypatch.setenv(device_lock.LOCK_FOLDER_VARIABLE, str(tmp_path))
    precious = tmp_path / "precious"
    precious.write_text("kept")
    if kind == "fifo":
        os.mkfifo(device_lock.path_of(FAKE_DEVICE_INFO))
    else:
        device_lock.path_of(FAKE_DEVICE_INFO).hardlink_to(precious)
    says = f"{device_lock.path_of(FAKE_DEVICE_INFO).name}, where .* is (no ordinary file|a file with several names): remove it"
    with pytest.raises(device_lock.HeldError, match=says), device_lock.held(FAKE_DEVICE_INFO):
        pass
    assert precious.read_text() == "kept"


# ---- results files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
@pytest.mark.parametrize("again", [lambda p: Writer(p, header(), overwrite=True), Writer.going_on])
def test_a_file_that_is_being_written_is_no_other_runs(tmp_path, again, name):
    path = tmp_path / name
    with Writer(path, header()) as writer:
        writer.write(record())
        before = path.read_bytes()
        with pytest.raises(ResultsError, match="is being written by another run: wait for it, or choose another -o"):
            again(path)
        assert path.read_bytes() == before
        writer.write(record())
    assert len(read(path).records) == 2
    with again(path):
        pass
    assert len(read(path).records) == (2 if again == Writer.going_on else 0)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_run_that_goes_on_holds_its_file_and_a_killed_one_frees_it(tmp_path, name):
    path = tmp_path / name
    with Writer(path, header()) as writer:
        writer.write(record())
    code = "import sys, time; from pathlib import Path; from clmembench.results.jsonl import Writer\n"
    code += "w = Writer.going_on(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ResultsError, match="being written"):
            Writer.going_on(path)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    with Writer.going_on(path) as writer:
        writer.write(record())
    assert len(read(path).records) == 2
