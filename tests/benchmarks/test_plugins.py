"""Benchmarks of others that fail in every way they can: each is one line with its name, and costs no other benchmark."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clmembench import benchmarks
from clmembench.benchmarks.plugins import external, import_trial
from clmembench.cli import devices
from clmembench.model import Cause, DeclarationError, Metric, Overlap, Reported, Slope, Work
from clmembench.results import jsonl
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.benchmarks.test_external import installed
from tests.commands import brief_points, cli, process

MODULE = """
import os, signal, sys, time
import numpy as np
from clmembench.benchmarks import BANDWIDTH, axis, axis_of, benchmark
from clmembench.model import Fill, Metric, Overlap, Reported, Slope, Work

BAD = Metric("m", "GB/s", "nbytes", "rate", "higher")
{at_import}

@benchmark({metric}, suite={suite}, source="this project", n={axis}{more})
def {name}(device, n):
    '''Does nothing, well.'''
    buffer = device.alloc(64)
    work = Work(commands=(Fill(buffer, 64),), nbytes=64)
    {body}
    return work
"""
GOOD = {
    "at_import": "", "metric": "BANDWIDTH", "suite": "'own'", "axis": "axis(1)", "more": "", "body": "pass", "name": "theirs",
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """Each test loads plug-ins of its own, on a device without a driver."""
    monkeypatch.setattr(external, "_loaded", external._Loaded())
    monkeypatch.setattr(devices, "listed", lambda *_: [FAKE_DEVICE_INFO])
    modules = set(sys.modules)
    with brief_points():
        yield
    for name in [name for name in set(sys.modules) - modules if name.startswith((external.PACKAGE, "plug_in"))]:
        del sys.modules[name]
    benchmarks._ordered.cache_clear()
    benchmarks._installed.cache_clear()


@pytest.fixture
def tried(monkeypatch):
    """No trial import in a process, whose answers other tests look at."""
    monkeypatch.setattr(external, "problem_of_import", lambda *_: None)


def module(**parts: str) -> str:
    return MODULE.format(**{**GOOD, **parts})


def run(tmp_path: Path, *more: str, **parts: str):
    """A run of a plug-in in this process, and its records."""
    (tmp_path / "mine.py").write_text(module(**parts))
    done = cli("run", "--path", "mine.py", "--no-isolate", "-o", "r.jsonl", *more, cwd=tmp_path)
    return done, jsonl.read(tmp_path / "r.jsonl").records if (tmp_path / "r.jsonl").exists() else ()


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"at_import": "raise KeyboardInterrupt"}, "mine.py cannot be imported: KeyboardInterrupt"),
        ({"at_import": "class Own(BaseException): pass\nraise Own('two\\nlines')"}, "cannot be imported: Own: two lines"),
        ({"at_import": "sys.exit('no GPU')"}, "cannot be imported: SystemExit: no GPU"),
        ({"at_import": "input()"}, "cannot be imported: "),
        ({"metric": "Metric('m', 'GB/s', 'nbytes', 'rates', 'higher')"}, "form is 'rates' (str), not one of 'rate', 'cost'"),
        ({"metric": "Metric('m', 'GB/s', 'bytes', 'rate', 'higher')"}, "amount is 'bytes' (str), not one of 'nbytes'"),
        ({"metric": "Metric('m', 'GB/s', 'nbytes', 'rate', 'more')"}, "better is 'more' (str), not one of"),
        ({"metric": "Metric('m', 'GB/s', 'nbytes', 'rate', 'higher', scale=float('nan'))"}, "scale is nan (float), not a fin"),
        ({"metric": "Metric('m', 'GB/s', 'nbytes', 'rate', 'higher', scale=-1)"}, "scale is -1, not above 0"),
        ({"metric": "Metric('m', None, 'nbytes', 'rate', 'higher')"}, "unit is None (NoneType), not a text"),
        ({"metric": "'bandwidth'"}, "metrics[0] is 'bandwidth' (str), not a Metric"),
        ({"metric": "*()"}, "it has no metric"),
        ({"metric": "BAD, BAD"}, "two of its metrics are named m"),
        ({"axis": "[1, 2]"}, "n is [1, 2], which is not an axis: write n=axis(...)"),
        ({"axis": "axis(float('nan'))"}, "benchmark theirs (--path mine.py): a value of axis n is nan (float), not a text"),
        ({"axis": "axis(1 << 70)"}, "a value of axis n is 1180591620717411303424 (int), not a text"),
        ({"axis": "axis(None)"}, "a value of axis n is None (NoneType)"),
        ({"axis": "axis()"}, "axis n has no value on this device"),
        ({"axis": "axis_of(lambda info: 7)"}, "axis n is 7 (int), not a tuple"),
        ({"axis": "axis_of(lambda info: 1 // 0)"}, "(--path mine.py): ZeroDivisionError: integer division"),
        ({"axis": "axis_of(lambda info: sys.exit(3))"}, "(--path mine.py): SystemExit: 3"),
        ({"more": ", where=lambda info, n: 1 // 0"}, "benchmark theirs (--path mine.py): where: ZeroDivisionError"),
        ({"more": ", figure_axis='m'"}, "figure_axis names m, which is none of its axes"),
        ({"suite": "'quick'"}, "its suite cannot be called quick"),
        ({"suite": "7"}, "suite is 7 (int), not a text"),
        ({"more": ", version=1.5"}, "version is 1.5 (float), not a whole number"),
    ],
)
def test_what_a_plug_in_declares_is_checked_before_anything_is_measured(tmp_path, tried, parts, says):
    done, records = run(tmp_path, **parts)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert says in done.stderr and "mine.py" in done.stderr and not records


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("work = Work(commands=(), nbytes=8.0)", "Work.nbytes is 8.0 (float), not a whole number"),
        ("work = Work(commands=(), notes=(7,))", "Work.notes[0] is 7 (int), not a text"),
        ("return None", "what its function returns is None (NoneType), not a Work or Slope or Overlap or Reported"),
        ("return Slope(lambda n: work)", "its function returns a Slope, of which a metric of form rate has no value"),
        ("work = Work(commands=work.commands, nbytes=64, check=lambda: sys.exit(3))", "SystemExit: 3"),
        ("raise KeyError('a\\nb')", "KeyError: 'a\\nb'"),
    ],
)
def test_what_a_plug_in_returns_is_a_failed_point_with_its_name(tmp_path, tried, body, says):
    done, (record,) = run(tmp_path, body=body)
    assert (done.returncode, record.status, record.cause) == (4, "failed", Cause.INTERNAL_ERROR), done.stderr
    assert record.reason == f"internal error in theirs (--path mine.py): {record.reason.partition('): ')[2]}"
    assert says in record.reason and "Traceback" not in done.stderr


def test_what_a_plug_in_prints_is_no_output_of_the_command(tmp_path, tried):
    """At its import, when it is asked for its values, and while it is measured."""
    loud = {
        "at_import": "print('import')", "axis": "axis_of(lambda info: [print('values')] and [np.int64(1)])",
        "body": "print('body'); work = Work(commands=work.commands, nbytes=np.int64(64), check=lambda: print('check'))",
    }  # fmt: skip
    done, records = run(tmp_path, "--json", **loud)
    (record,) = records
    assert record.status in ("ok", "suspect") and (record.params, record.series[0].nbytes) == ({"n": 1}, 64), done.stderr
    assert json.loads(done.stdout)[0]["benchmark"] == "theirs"
    assert all(word in done.stderr for word in ("import", "values", "body", "check"))


def test_what_a_plug_in_prints_from_c_or_at_the_end_is_no_output_of_the_command(tmp_path):
    at_import = "import atexit, ctypes; ctypes.CDLL(None).puts(b'from C'); os.write(1, b'raw'); atexit.register(print, 'bye')"
    (tmp_path / "mine.py").write_text(module(at_import=at_import))
    done = process("suites", "--path", "mine.py", cwd=tmp_path)
    assert done.returncode == 0 and "theirs" in done.stdout and all(word in done.stderr for word in ("from C", "raw", "bye"))
    assert not any(word in done.stdout for word in ("from C", "raw", "bye"))


@pytest.mark.parametrize(
    ("at_import", "says"),
    [
        ("os._exit(0)", "the process that imports it ends with exit code 0"),
        ("os.kill(os.getpid(), 11)", "the process that imports it dies of SIGSEGV"),
        ("os.fork()", "it forks a process when it is imported"),
        ("time.sleep(99)", "its import does not end within 1 s"),
    ],
)
def test_a_plug_in_that_kills_its_process_at_import_costs_no_other(tmp_path, monkeypatch, at_import, says):
    monkeypatch.setattr(import_trial, "IMPORT_LIMIT_S", 1.0 if "sleep" in at_import else 30.0)
    texts = {"plug_in_bad": module(at_import=at_import), "plug_in_good": module(name="good")}
    monkeypatch.syspath_prepend(site := str(installed(tmp_path, **texts)))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{Path(__file__).parents[2]}")
    done = cli("run", "-s", "own", "--no-isolate", "-o", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0 and [r.benchmark for r in jsonl.read(tmp_path / "r.jsonl").records] == ["good"], done.stderr
    assert f"benchmarks of clmembench-more 1.2 are left out: {says}" in done.stderr


def test_an_installed_benchmark_that_cannot_say_its_points_is_left_out_of_a_suite(tmp_path, tried, monkeypatch):
    texts = {"plug_in_bad": module(axis="axis(float('nan'))"), "plug_in_good": module(name="good"), "plug_in_none": "x = 1"}
    monkeypatch.syspath_prepend(site := installed(tmp_path, **texts))
    (site / "clmembench_more-1.2.dist-info" / "entry_points.txt").open("a").write("number = plug_in_none:x\n")
    done = cli("run", "-s", "own", "--no-isolate", "-o", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0 and "benchmark theirs (clmembench-more 1.2): a value of axis n is nan" in done.stderr
    assert "cannot be loaded: its entry point names a int" in done.stderr
    external._loaded.withdrawn.clear()
    named = cli("run", "-b", "theirs", "--no-isolate", cwd=tmp_path)
    assert named.returncode == 2 and "a value of axis n is nan" in named.stderr and named.stdout == ""


@pytest.mark.parametrize("amount", [True, np.bool_(True), -1, 1.0, np.float64(8), float("nan"), "8", None, 1 << 63])
@pytest.mark.parametrize("name", ["nbytes", "flops", "ops"])
def test_an_amount_is_a_whole_number_of_64_bits(name, amount):
    with pytest.raises(DeclarationError, match=rf"^Work\.{name} is .*, not a (whole )?number"):
        Work(commands=(), **{name: amount})
    with pytest.raises(DeclarationError, match=rf"^Reported\.{name} is"):
        Reported((1,), 1, **{name: amount})


def test_numbers_of_numpy_are_numbers_as_they_are_stored():
    work = Work(commands=[], nbytes=np.uint64(8), outputs=[(None, np.int32(4))], facts={"a": np.float32(0.5), "b": np.True_})
    assert (type(work.nbytes), type(work.outputs[0][1]), work.facts, work.commands) == (int, int, {"a": 0.5, "b": True}, ())
    assert replace(work, flops=np.int8(1)).flops == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Work(commands=(), notes="a text"),
        lambda: Work(commands=(), facts={"a": float("inf")}),
        lambda: Work(commands=(), facts={"a": None}),
        lambda: Work(commands=(), clock="wall"),
        lambda: Work(commands=(), check=True),
        lambda: Work(commands=("copy",)),
        lambda: Work(commands=7),
        lambda: Work(commands=(), reads={"a": 1}),
        lambda: Work(commands=(), outputs=(1,)),
        lambda: Work(commands=(), expected_units=-1),
        lambda: Slope(None),
        lambda: Slope(Work, start=0),
        lambda: Slope(lambda n: None).at(1),
        lambda: Overlap(None, lambda n: None),
        lambda: Overlap(Work(commands=()), lambda n: None).works(1),
        lambda: Reported((1.5,), 1),
        lambda: Metric("", "s", "ops", "cost", "lower"),
        lambda: Metric("m", "s", "ops", "cost", "lower", only={"op": "copy"}),
        lambda: Metric("m", "s", "ops", "cost", "lower", part="queued"),
        lambda: Metric("m", "s", "ops", "cost", "lower", scale=True),
    ],
)
def test_what_means_nothing_is_refused_where_it_is_made(make):
    with pytest.raises(DeclarationError):
        make()
