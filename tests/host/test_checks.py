"""Complaints about hosts and devices: each has a planted cause that brings it about, and a clean host has none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from clmembench.cli.program import app
from clmembench.host import environment
from clmembench.host.checks import complaints
from clmembench.report.frame import rows
from clmembench.report.run_warnings import warnings
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import header, record, run, series
from tests.cases import each

CPU = replace(FAKE_DEVICE_INFO, kind="cpu", vendor="Intel")
GPU = replace(FAKE_DEVICE_INFO, vendor="NVIDIA Corporation")
HOST = {
    "load_1min": 0.3, "logical_cpus": 16, "usable_cpus": 16, "cores": 16, "steal": 0.0, "cpu_limit": None,
    "governor": "performance", "virtual": False,
}  # fmt: skip
SENSORS = {"throttle_reasons": 0x1, "utilisation_percent": 0, "temperature_c": 40, "ecc": True}  # 0x1: idle


def test_a_quiet_host_and_a_cool_device_have_nothing_to_complain_of():
    assert complaints(CPU, HOST, {}) == []
    assert complaints(GPU, {**HOST, "virtual": True, "load_1min": 99.0}, SENSORS) == []  # the host is not what is measured


@each(
    ("fact", "value", "says", "remedy"),
    [
        ("load_1min", 9.0, "load is 9 on 16 CPUs", "stop other programs"),
        ("steal", 0.25, "took 25% of the CPU time", "--processes 6"),
        ("cpu_limit", 2.5, "limits this process to 2.5 of 16 CPUs", "raise the container's CPU limit"),
        ("usable_cpus", 4, "only 4 of 16 CPUs may be used", "taskset"),
        ("governor", "powersave", "governor is powersave", "cpupower"),
        ("cores", 8, "16 CPUs are hardware threads of 8 cores", "-a compute_units=8 -a placement=scatter"),
        ("virtual", True, "a virtual machine", "ratios"),
    ],
)
def test_what_is_wrong_with_a_cpus_host_is_said_with_a_remedy(fact, value, says, remedy):
    facts = {**HOST, fact: value, **({"cores": 4} if fact == "usable_cpus" else {})}
    (found,) = complaints(CPU, facts, {})
    assert says in found.what and remedy in found.remedy


@pytest.mark.parametrize(
    ("sensor", "value", "says"),
    [
        ("throttle_reasons", 0x4, "its power limit"),
        ("throttle_reasons", 0x41, "its temperature (hardware limit)"),
        ("utilisation_percent", 60, "60% busy before anything was measured"),
        ("temperature_c", 91, "at 91 degrees"),
        ("ecc", False, "ECC is off"),
    ],
)
def test_what_is_wrong_with_a_gpu_is_said(sensor, value, says):
    (found,) = complaints(GPU, HOST, {**SENSORS, sensor: value})
    assert says in found.what and found.remedy


def test_an_nvidia_device_without_sensors_and_a_device_without_fp64_are_told():
    assert "clmembench[nvidia]" in complaints(GPU, HOST, {})[0].remedy
    assert complaints(replace(FAKE_DEVICE_INFO, vendor="nobody"), HOST, {}) == []
    assert "no fp64" in complaints(replace(CPU, features=frozenset()), HOST, {})[0].what


def test_facts_that_are_not_known_say_nothing():
    assert complaints(CPU, {}, {}) == []
    assert complaints(CPU, dict.fromkeys(HOST, None), {}) == []
    assert complaints(GPU, {}, dict.fromkeys(SENSORS, None)) == []


def test_a_run_warns_of_what_its_header_holds():
    found = run([record("stream", {"op": "copy"}, series([100] * 8, nbytes=1000))], header(CPU, host={**HOST, "steal": 0.5}))
    assert sum("other virtual machines took 50%" in warning for warning in warnings(found, rows(found, None), None)) == 1


UNIFIED, CPU_V1 = "0::/a/b\n", "5:cpuset:/a/b\n3:cpu,cpuacct:/a/b\n"


@each(
    ("groups", "root", "files", "limit"),
    [
        (UNIFIED, "/", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        (UNIFIED, "/", {"cpu.max": "300000 100000\n"}, 3.0),
        (UNIFIED, "/", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n", "cpu.max": "300000 100000\n"}, 2.0),
        (UNIFIED, "/", {"a/b/cpu.max": "max 100000\n"}, None),
        (UNIFIED, "/", {"a/b/cpu.max": "what\n"}, None),
        (UNIFIED, "/", {"c/cpu.max": "100000 100000\n"}, None),  # of another group
        (UNIFIED, "/", {}, None),
        (UNIFIED, "/a/b", {"cpu.max": "50000 100000\n"}, 0.5),  # a container, which sees its own group as the root
        ("0::/\n", "/", {"cpu.max": "50000 100000\n"}, 0.5),  # the same in a name space of its own
        ("0::/../c\n", "/", {"cpu.max": "50000 100000\n"}, 0.5),  # moved out of it
        (CPU_V1, "/", {"a/b/cpu.cfs_quota_us": "400000\n", "a/b/cpu.cfs_period_us": "100000\n"}, 4.0),
        (CPU_V1, "/", {"a/cpu.cfs_quota_us": "100000\n", "a/cpu.cfs_period_us": "50000\n"}, 2.0),
        (CPU_V1, "/", {"a/b/cpu.cfs_quota_us": "-1\n", "a/b/cpu.cfs_period_us": "100000\n"}, None),
        (CPU_V1, "/a/b", {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.5),
    ],
)
def test_the_least_quota_from_a_process_s_own_group_up_to_the_root_counts(tmp_path, groups, root, files, limit):
    kind, options = ("cgroup2", "rw") if groups is not CPU_V1 else ("cgroup", "rw,cpu,cpuacct")
    mount = tmp_path / "with a space"
    for name, content in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(content)
    (tmp_path / "cgroup").write_text(f"7:memory:/else\n{groups}")
    here = str(mount).replace(" ", "\\040")
    other = "30 23 0:26 / /sys/fs/other rw - cgroup cgroup rw,memory"
    (tmp_path / "mountinfo").write_text(f"{other}\n31 23 0:27 {root} {here} rw shared:9 - {kind} none {options}\n")
    assert environment.cpu_limit(tmp_path) == limit


def test_a_system_without_control_groups_has_no_quota(tmp_path):
    assert environment.cpu_limit(tmp_path) is None


def test_this_host_says_how_many_cores_it_has_and_what_was_stolen():
    host = environment.host()
    assert 1 <= host["cores"] <= host["logical_cpus"]
    assert host["steal"] is None or 0 <= host["steal"] <= 1


def test_doctor_names_every_device_in_words_and_in_json(monkeypatch):
    """Of one look at the host, which is another a moment later: a busy one, so that there is something to be said."""
    host = {**environment.host(), "load_1min": 99.0, "steal": 0.5}
    monkeypatch.setattr(environment, "host", lambda: host)
    words, found = (CliRunner().invoke(app, ["doctor", *options]) for options in ([], ["--json"]))
    assert (words.exit_code, found.exit_code) == (0, 0)
    said = json.loads(found.stdout)
    assert said["devices"] and said["host"]["cores"]
    for device in said["devices"]:
        assert device["device"] in words.stdout
        assert "the host's load is 99" in str(device["complaints"])
        for complaint in device["complaints"]:
            assert complaint["what"] in words.stdout and complaint["remedy"] in words.stdout
