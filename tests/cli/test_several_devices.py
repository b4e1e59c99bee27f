"""One `run` over several devices: a file each, and what is finished stays when one fails or Ctrl-C ends it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import typer

from clmembench.cli import devices
from clmembench.cli.program import app
from clmembench.cli.running import session
from clmembench.measure.job import ProbeResult
from clmembench.results import jsonl
from tests.builders import device, header, record, series, write_run

CPU = device("Test CPU", id="1", kind="cpu", uuid="c" * 32)
GPUS = [device("Test GPU", id=str(n), kind="gpu", uuid=str(n) * 32) for n in (2, 3)]


@pytest.fixture
def measuring(tmp_path, monkeypatch):
    """Devices whose measurement writes one record; `endings` says, by a device's id, how it ends otherwise."""
    monkeypatch.chdir(tmp_path)

    def measured(info, selection, cards, records, output, overwrite=False, earlier=None, **more):
        measured.asked.append(info.id)
        ending = measured.endings.get(info.id)
        if isinstance(ending, BaseException):
            raise ending
        path = output or session.default_path(info, f"0000000{info.id}")
        write_run(
            path,
            [record("stream", {"op": "copy"}, series([1000] * 40, nbytes=1 << 20))],
            header(info, label=more["names"].label),
        )
        return session.Written(path, 1 if ending == "failed" else 0, ending == "interrupted")

    measured.asked, measured.endings = [], {}
    monkeypatch.setattr(devices, "listed", lambda *_: [*GPUS, CPU])
    monkeypatch.setattr(session, "measure_to_file", measured)
    return measured


def run(capsys, *args):
    code = app(["run", "-b", "stream", *args], standalone_mode=False)
    return (code or 0, *capsys.readouterr())


@pytest.mark.parametrize(("text", "ids"), [("all", ["2", "3", "1"]), ("gpu", ["2", "3"]), ("cpu", ["1"]), ("0", ["2"])])
def test_a_word_names_several_devices_and_each_has_a_file(measuring, capsys, tmp_path, text, ids):
    code, out, _ = run(capsys, "-d", text)
    assert code == 0 and measuring.asked == ids
    files = sorted((tmp_path / "reports").iterdir())
    assert sorted(jsonl.read(file).header.device.id for file in files) == sorted(ids)
    assert ("Results of" in out) == (len(ids) > 1)
    assert out.count("Bandwidth of global memory") == len(ids)


def test_a_folder_for_them_has_a_name_for_each(measuring, capsys, tmp_path):
    code, out, _ = run(capsys, "-d", "all", "-o", "mine")
    assert code == 0
    assert sorted(file.name for file in (tmp_path / "mine").iterdir()) == [
        "test-cpu.jsonl",
        "test-gpu-0.jsonl",
        "test-gpu-1.jsonl",
    ]
    assert "clmembench report mine/test-gpu-0.jsonl mine/test-gpu-1.jsonl mine/test-cpu.jsonl -o report.html" in out
    again, _, err = run(capsys, "-d", "all", "-o", "mine")
    assert again == 2 and "exists" in err and len(measuring.asked) == 3


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("-d", "all", "-o", "one.jsonl"), 2, "name a folder"),
        (("-d", "all", "--json"), 2, "--json is of one run"),
        (("-d", "accelerator"), 3, "there is none here"),
        (("-d", "all", "-a", "op=nothing"), 2, "none of these devices"),
    ],
    ids=["a file", "--json", "no such kind", "no such value"],
)
def test_what_several_devices_cannot_have_is_refused_before_measuring(measuring, capsys, args, code, said):
    ended, out, err = run(capsys, *args)
    assert (ended, out, measuring.asked) == (code, "", []) and said in err


def test_a_device_with_nothing_to_measure_is_left_out(measuring, capsys, monkeypatch):
    small = replace(GPUS[1], max_alloc_bytes=1 << 20)
    monkeypatch.setattr(devices, "listed", lambda *_: [GPUS[0], small])
    code, _, err = run(capsys, "-d", "gpu", "--size", "64MiB")
    assert code == 0 and measuring.asked == ["2"] and f"left out: {small.name}" in err


def test_a_device_that_fails_keeps_no_other_from_being_measured(measuring, capsys, tmp_path):
    measuring.endings = {"2": typer.Exit(3), "3": "failed"}
    code, out, _ = run(capsys, "-d", "all")
    assert code == 3 and measuring.asked == ["2", "3", "1"]
    assert len(list((tmp_path / "reports").iterdir())) == 2 and "Results of 1 device" in out


@pytest.mark.parametrize("ending", ["interrupted", KeyboardInterrupt()], ids=str)
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(measuring, capsys, ending):
    measuring.endings = {"3": ending}
    code, _, err = run(capsys, "-d", "all", "-o", "mine")
    assert code == 130 and measuring.asked == ["2", "3"]
    assert "complete: mine/test-gpu-0.jsonl" in err
    assert f"not begun: Test CPU: clmembench run -d uuid:{CPU.uuid}" in err
    if ending == "interrupted":
        assert "resume with clmembench run --resume mine/test-gpu-1.jsonl" in err


def test_a_label_is_kept_in_every_file(measuring, capsys, tmp_path):
    run(capsys, "-d", "gpu", "--label", "rack 7", "-o", "mine")
    assert {jsonl.read(file).header.label for file in (tmp_path / "mine").iterdir()} == {"rack 7"}


def test_a_dry_run_lists_every_device(measuring, capsys):
    code, out, _ = run(capsys, "-d", "all", "--dry-run")
    assert code == 0 and out.count("points: ") == 3 and not measuring.asked


def test_together_measures_the_same_points_at_once_and_compares_them(measuring, capsys, monkeypatch, tmp_path):
    begun = threading.Barrier(2, timeout=10)  # passed only where both devices measure

    def at_once(plan, benchmark, runtime, info, found, selection, **more):
        for point in next(plan):
            begun.wait()
            yield record(point.benchmark, point.params, series([3000] * 40, nbytes=1 << 20))

    monkeypatch.setattr("clmembench.measure.runner.run_plan", at_once)
    monkeypatch.setattr(
        "clmembench.measure.worker_process.probed", lambda *_: ProbeResult(frozenset(), None, "", quantum_ns=1.0)
    )
    measuring.endings = {"2": "failed"}  # a bad point of one device keeps none from being measured
    code, out, _ = run(capsys, "-d", "gpu", "-o", "mine", "--together")
    assert code == 4 and out.count("1 slower") == 2 and out.count("0.333") >= 2
    files = sorted((tmp_path / "mine").glob("*-together.jsonl"))
    assert [jsonl.read(file).header.tags for file in files] == [{"together": "2 devices"}] * 2
    assert len({jsonl.read(file).header.run_id for file in (tmp_path / "mine").iterdir()}) == 3  # one for the pair of stubs
    for file in set((tmp_path / "mine").iterdir()) - set(files):
        file.unlink()
    measuring.asked.clear()
    assert run(capsys, "-d", "gpu", "-o", "mine", "--together")[0] == 2 and not measuring.asked


@pytest.mark.parametrize("args", [("-d", "0", "-o", "mine"), ("-d", "gpu"), ("-d", "gpu", "-o", "mine", "--dry-run")])
def test_together_needs_devices_and_a_folder(measuring, capsys, args):
    code, _, err = run(capsys, *args, "--together")
    assert code == 2 and "--together measures devices at once" in err and not measuring.asked
