"""Drivers that crash, hang or say nonsense while devices are listed cost their own devices, and are named."""

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from clmembench.host.failures import last_words
from clmembench.measure import device_list, worker_process
from clmembench.measure.device_list import Listing
from clmembench.measure.job import Job
from clmembench.model import Driver
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.runtimes.opencl import drivers, info
from clmembench.runtimes.opencl.info import cl
from clmembench.runtimes.shared import unusable_claim
from tests.cases import each
from tests.commands import cli
from tests.faulty_drivers import DRIVER, FAULTS, LAYER, compiled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drivers are ELF libraries, which a loader of Linux loads")


def library(path, source, *defines):
    if compiled(path, source, *defines) is None:
        pytest.skip("no C compiler here to make a driver with")
    return path


@pytest.fixture(scope="module")
def vendors(tmp_path_factory):
    """A folder that registers a driver for each fault."""
    folder = tmp_path_factory.mktemp("vendors")
    for name, fault in FAULTS.items():
        library(folder / f"{name}.so", DRIVER, f"-DFAULT={fault}")
        (folder / f"{name}.icd").write_text(f"{folder / name}.so\n")
    return folder


@pytest.fixture
def listing(monkeypatch):
    """Lists devices anew, in this test alone."""
    monkeypatch.setattr(device_list, "listed", device_list.listed.__wrapped__)
    return device_list.listed


@pytest.fixture(scope="module")
def beside_faulty_drivers(vendors):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCL_ICD_VENDORS", str(vendors))
        patch.setenv(device_list.TIMEOUT_VARIABLE, "12")
        return device_list.listed.__wrapped__("opencl")


def test_drivers_that_crash_or_hang_are_named_and_the_others_stay(vendors, beside_faulty_drivers):
    aborts, exits, hangs = sorted(beside_faulty_drivers.left_out)
    for name, text in zip(sorted(FAULTS), (aborts, exits, hangs), strict=True):
        assert text.startswith(f"the driver {name}.so ({vendors / name}.icd) is left out") and "unregister it" in text
    assert "died of SIGABRT; it last said: " in aborts
    assert "ended with exit code 0" in exits and "no answer within 12 s" in hangs and device_list.TIMEOUT_VARIABLE in hangs
    assert all(one.library and one.platform for one in beside_faulty_drivers.devices)


def test_a_worker_loads_only_the_driver_of_its_device(vendors, beside_faulty_drivers, monkeypatch):
    pocl = [one for one in beside_faulty_drivers.devices if "portable" in one.platform.lower()]
    if not pocl:
        pytest.skip("PoCL is not installed")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors))
    assert worker_process.probed(Job("opencl", pocl[0])).features


def test_the_command_line_lists_the_others(vendors, tmp_path):
    environment = {**os.environ, "OCL_ICD_VENDORS": str(vendors / "aborts.so"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "clmembench", "devices", "--json"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
    assert "the driver aborts.so (named by OCL_ICD_VENDORS=" in done.stderr and "died of SIGABRT" in done.stderr


def test_a_name_that_is_no_text_costs_that_device_alone(tmp_path, listing, monkeypatch):
    monkeypatch.setenv("OPENCL_LAYERS", str(library(tmp_path / "layer.so", LAYER)))
    monkeypatch.setenv("LAYER_NAME", os.fsdecode(b"card \xff"))
    found = listing("opencl")
    assert not found.devices and found.left_out
    assert all(text.startswith("card �") and "a text of it is not UTF-8" in text for text in found.left_out)


class Handle:
    """A platform or a device of pyopencl, some of whose answers fail."""

    def __init__(self, name, failing=(), devices=(), **claims):
        self.claims = {"name": name, **claims}
        self.failing, self.devices = failing, devices

    def __getattr__(self, name):
        if name in self.failing:
            raise self.failing[name]
        return self.claims.get(name, 1)

    def get_devices(self):
        return self.failing["get_devices"]() if "get_devices" in self.failing else self.devices


def error(code, text):
    return cl.LogicError(cl._cl._ErrorRecord("clGetDeviceInfo", code, text))


def raising(problem):
    def fail():
        raise problem

    return fail


@pytest.fixture
def described(monkeypatch):
    """Describes handles instead of what the loader gives."""
    monkeypatch.setattr(info, "_text", lambda handle, kind: handle.claims["name"])
    monkeypatch.setattr(
        info,
        "describe",
        lambda handle, selector, d: replace(FAKE_DEVICE_INFO, name=handle.name, uuid=selector, **handle.claims["of"]),
    )

    def describe(*platforms):
        monkeypatch.setattr(cl, "get_platforms", lambda: list(platforms))
        return info._described(simulators=False)

    return describe


def device(name, failing=(), **claims):
    return Handle(name, failing, of=claims)


def test_one_device_of_several_is_left_out_by_name(described):
    undecodable = UnicodeDecodeError("utf-8", b"\xff\xfe", 0, 1, "invalid start byte")
    refused = error(-5, "OUT_OF_RESOURCES")
    found = described(
        Handle("A", {"get_devices": raising(error(-1, "DEVICE_NOT_FOUND"))}),
        Handle("B", {"get_devices": raising(error(-6, "OUT_OF_HOST_MEMORY"))}),
        Handle("C", {"name": undecodable}),
        Handle(
            "D",
            devices=[device("one"), device("two", {"name": refused}), device("three", max_alloc_bytes=0)],
        ),
    )
    assert [one.name for one, _ in found.devices] == ["one"]
    platform, name, query, claim = found.left_out
    assert platform.startswith("B does not list its devices: clGetDeviceInfo failed: OUT_OF_HOST_MEMORY")
    assert name.startswith("C does not list its devices: a text of it is not UTF-8")
    assert query.startswith(
        "two (D 2:1) is left out: its driver does not describe it: clGetDeviceInfo failed: OUT_OF_RESOURCES"
    )
    assert claim.startswith("three (D 2:2) is left out: its driver claims to allocate at most 0 B")


def test_a_query_that_fails_once_costs_nothing(described, monkeypatch):
    answers = iter([error(-5, "OUT_OF_RESOURCES"), FAKE_DEVICE_INFO])

    def describe(*_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(info, "describe", describe)
    found = described(Handle("D", devices=[device("one")]))
    assert [one for one, _ in found.devices] == [FAKE_DEVICE_INFO] and not found.left_out


@pytest.mark.parametrize("name", ["max_alloc_bytes", "global_mem_bytes", "compute_units", "max_work_group"])
def test_nothing_can_be_measured_on_nothing(name):
    assert not unusable_claim(replace(FAKE_DEVICE_INFO, **{name: 1}))
    assert "its driver claims" in unusable_claim(replace(FAKE_DEVICE_INFO, **{name: 0}))


ONE, TWO = (Driver(f"{n}.so (/{n}.icd)", f"/{n}.so", {}) for n in ("one", "two"))
CARD = replace(FAKE_DEVICE_INFO, platform="P", selector="0:1")


def test_drivers_that_cannot_be_loaded_together_are_used_apart():
    found = device_list._merged([ONE, TWO], [Listing([CARD]), Listing([replace(CARD, platform="Q", uuid="2")])], "it died")
    assert [(one.selector, one.library) for one in found.devices] == [("0:1", "/one.so"), ("1:1", "/two.so")]
    assert found.left_out == ["the drivers one.so (/one.icd), two.so (/two.icd) cannot be loaded together (it died): "
                              "each is used in processes of its own"]  # fmt: skip


def test_what_is_loaded_into_each_driver_is_named_where_none_works(monkeypatch):
    monkeypatch.setenv("OPENCL_LAYERS", "/layer.so")
    found = device_list._merged([ONE, TWO], ["it died", "it died"], "it died")
    assert found.left_out == ["no driver can list its devices with OPENCL_LAYERS=/layer.so: it died: unset it"]
    monkeypatch.delenv("OPENCL_LAYERS")
    assert len(device_list._merged([ONE, TWO], ["it died", "it died"], "it died").left_out) == 2


def test_a_driver_without_a_device_explains_itself_only_where_there_is_none():
    silent = Listing((), ("the driver two.so does not load",))
    assert device_list._merged([ONE, TWO], [Listing([CARD]), silent], "it died").left_out[0].startswith("the drivers")
    assert device_list._merged([ONE, TWO], ["it died", silent], "it died").left_out[1] == "the driver two.so does not load"


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_a_time_limit_that_is_none_is_a_usage_error(text, listing, monkeypatch):
    monkeypatch.setenv(device_list.TIMEOUT_VARIABLE, text)
    done = cli("devices")
    assert done.returncode == 2 and f"{device_list.TIMEOUT_VARIABLE}={text}: give a number of seconds" in done.stderr


@pytest.mark.parametrize(
    ("left_out", "says"),
    [
        ((), "no OpenCL device found. For this CPU: pip install"),
        (("A is broken", "B too"), "can be used: A is broken; B too\n"),
    ],
)
def test_without_a_device_the_reasons_are_said_and_else_the_remedy(left_out, says, monkeypatch):
    monkeypatch.setattr(device_list, "listed", lambda name: Listing((), left_out))
    done = cli("devices")
    assert done.returncode == 3 and says in done.stderr and done.stderr.count("\n") == 1


def test_commands_that_need_no_device_list_none(monkeypatch):
    monkeypatch.setattr(device_list, "listed", lambda name: pytest.fail("devices are listed"))
    for command in (("--help",), ("run", "--help"), ("suites",), ("model", "--help"), ("import", "--help")):
        assert cli(*command).returncode == 0


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Registers drivers in a folder that stands for the system's; the wheel's are not looked for."""
    monkeypatch.setattr(drivers, "_SYSTEM", tmp_path)
    monkeypatch.setattr(drivers, "_wheel", lambda: None)
    monkeypatch.setattr(drivers, "sys", SimpleNamespace(prefix=str(tmp_path / "prefix")))
    for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "a.icd").write_text("libabsent-opencl.so.1\n")
    (tmp_path / "empty.icd").write_text("")
    return tmp_path


def test_drivers_are_found_where_loaders_look(registered, monkeypatch):
    (registered / "b.icd").write_text("libb.so")
    (other := registered / "other").mkdir()
    (other / "c.icd").write_text("/opt/libc-cl.so\n")
    monkeypatch.setenv("OCL_ICD_FILENAMES", "libd.so:libb.so")
    assert [one.library for one in drivers.registered()] == ["libabsent-opencl.so.1", "libb.so", "libd.so"]
    monkeypatch.delenv("OCL_ICD_FILENAMES")
    monkeypatch.setenv("OPENCL_VENDOR_PATH", str(other))
    assert [one.library for one in drivers.registered()] == ["/opt/libc-cl.so"]
    monkeypatch.setenv("OCL_ICD_VENDORS", "b.icd")
    assert [one.library for one in drivers.registered()] == ["libb.so"]
    monkeypatch.setenv("OCL_ICD_VENDORS", "libx.so")
    (only,) = drivers.registered()
    assert dict(only.environment) == {"OCL_ICD_VENDORS": "libx.so", "OCL_ICD_FILENAMES": "libx.so"}


def test_a_driver_that_does_not_load_says_why(registered):
    (text,) = drivers.unloadable()
    assert text.startswith(
        f"the driver libabsent-opencl.so.1 ({registered}/a.icd) does not load: libabsent-opencl.so.1: cannot open"
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OCL_ICD_VENDORS", "{0}/none", "does not exist"),
        ("OCL_ICD_VENDORS", "{0}/empty", "is a folder without .icd files"),
        ("OCL_ICD_VENDORS", "libm.so.6", "has no device"),
        ("OPENCL_VENDOR_PATH", "{0}/none", "does not exist"),
        ("OPENCL_VENDOR_PATH", "{0}/empty", "is a folder without .icd files"),
    ],
)
def test_a_variable_that_hides_every_driver_is_named(registered, name, value, says, monkeypatch):
    (registered / "empty").mkdir()
    value = value.format(registered)
    monkeypatch.setenv(name, value)
    (text,) = drivers.unloadable()
    assert text.startswith(f"{name}={value} {says}") and "or unset it" in text


@each(
    ("log", "words"),
    [
        ("", ""),
        ("dlopen() failed with 'noexec'.\nnote: missing symbols might", "dlopen() failed with 'noexec'."),
        ("LLVM ERROR: x\nPLEASE submit a bug report\nStack dump:\n0.\tProgram arguments\n #0 0x7f (lib.so)\n", "LLVM ERROR: x"),
        ("note: only that\n", "note: only that"),
        ("Traceback:\n  File\nValueError: bad\n", "ValueError: bad"),
        ("terminate called\n  what():  bad\nAborted (core dumped)\n", "what():  bad"),
    ],
)  # fmt: skip
def test_the_cause_and_not_a_remark_behind_it_is_a_processs_last_word(log, words):
    assert last_words(log) == (f"; it last said: {words}" if words else "")
