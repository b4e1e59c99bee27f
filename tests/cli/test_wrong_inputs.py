"""Wrong inputs: each ends at once with its exit code and one message that names the remedy; and what shells complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from clmembench.cli import completion, devices, exit_codes, options
from clmembench.plan import selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from scripts import wrong_inputs
from tests.cases import each
from tests.cli.test_cli_options import COMMANDS
from tests.commands import ROOT, cli

WRONG = [
    ("rum", 2, "Did you mean 'run'?"),
    ("stream", 2, "no command 'stream': it is a benchmark: write clmembench run -b stream"),
    ("memory", 2, "it is a suite: write clmembench run -s memory"),
    ("baseline creat", 2, "Did you mean 'create'?"),
    ("old.jsonl", 2, "to read a results file, use clmembench show old.jsonl"),
    ("run stream", 2, "run does not take 'stream' without an option: it is a benchmark: write -b stream"),
    ("run quick", 2, "it is a suite: write -s quick"),
    ("run memroy", 2, "did you mean -s memory?"),
    ("run 1", 2, "did you mean -d 1?"),
    ("run op=triad", 2, "did you mean -a op=triad?"),
    ("run -b stream dgemm", 2, "write -b dgemm"),
    ("doctor now", 2, "doctor does not take 'now' without an option: see clmembench doctor --help"),
    ("show a.jsonl b.jsonl", 2, "show takes one RUN, and 'b.jsonl' is another: leave it out; clmembench report and compare"),
    ("run -b sream", 2, "no benchmark matches 'sream': did you mean stream?"),
    ("run -b STREAM", 2, "did you mean stream?"),
    ("run -b memory", 2, "it is a suite: write -s memory"),
    ("run -s memroy", 2, "no suite 'memroy': did you mean memory? Suites: quick, memory"),
    ("run -s stream", 2, "it is a benchmark: write -b stream"),
    ("run -b stream -a opp=copy", 2, "no axis 'opp' here: did you mean op? Axes: array_bytes"),
    ("run -b stream -a stride=2", 2, "it is an axis of banks: name one of them with -b"),
    ("run -b stream --matrix m.mtx", 2, "it is an axis of spmv"),
    ("run -b stream -a op=traid", 2, "'traid' is not one of copy, scale, add, triad, write, dot, read: did you mean triad?"),
    ("run -d Fkae", 3, "--device 'Fkae' matches no device: did you mean name~Fake?"),
    ("run -d Fake", 3, "did you mean name~Fake?"),
    ("describe sream", 2, "no benchmark 'sream': did you mean stream"),
    ("tune dgem", 2, "'dgem' matches no benchmark that has tuning axes: did you mean dgemm"),
    ("tune -a widht=2 stream", 2, "did you mean width?"),
    ("run --budgt 1m", 2, "--budget"),
    ("run --tuning a.toml --no-tuning", 2, "--tuning names stored configurations, and --no-tuning ignores them: leave out one"),
    (
        "run --no-isolate --processes 2",
        2,
        "--no-isolate measures in one process, and --processes starts several: leave out one",
    ),
    ("run -d 0 -d 1", 2, "--device is given 2 times: give it once, or -d all, gpu or cpu for several devices"),
    ("run -s quick --suite all", 2, "--suite is given 2 times: give it once"),
    ("topology -d 0 -d 0", 2, "--device is given 2 times: give it once"),
    ("compare --live -d 0 --budget 1s --budget 2s", 2, "--budget is given 2 times: give it once"),
    ("run --size 1", 2, "--size 1 B holds too little for the work-groups of most benchmarks: raise it to 64KiB at least"),
    ("run --size 0", 2, "--size '0' is no positive whole number of bytes: write one such as 64KiB"),
    ("run --size -1", 2, "--size '-1' is no size"),
    ("run --budget 0", 2, "--budget '0' is no duration above 0: write seconds"),
    ("run --timeout -5", 2, "--timeout '-5' is no duration above 0"),
    ("run --benchmark-timeout 1e99h", 2, "--benchmark-timeout '1e99h' is no duration above 0"),
    ("run --wait 0", 2, "--wait '0' is no duration above 0"),
    ("run --wait-quiet 0s", 2, "--wait-quiet '0s' is no duration above 0"),
    ("topology --budget 0", 2, "--budget '0' is no duration above 0"),
    ("run --processes 0", 2, "--processes"),
    ("run --processes 99999", 2, "--processes"),
    ("run --seed -1", 2, "--seed"),
    ("run -b stream -a array_bytes=0", 2, "-a array_bytes: 0 is not a number from 1 up"),
    ("run --dry-run --json", 2, "--dry-run prints a plan as text, and --json the values of a run: leave out one"),
    ("show a.jsonl --parquet a.parquet --energy", 2, "and --energy prints: leave out one"),
    ("tune -o x.toml --records ./x.toml", 2, "both are the same: leave out one"),
    ("show a.jsonl --parquet a.parquet --csv", 2, "--parquet writes a file of its own, and --csv prints: leave out one"),
    ("show a.jsonl --json --csv", 2, "choose one of --json, --csv, --md and --latex"),
    ("run --resume a.jsonl -o b.jsonl", 2, "from FILE, and writes to it: leave out -o"),
]


DOCTOR = SimpleNamespace(command=SimpleNamespace(name="doctor"))  # what completion reads of a context


@pytest.fixture
def one_device(monkeypatch):
    monkeypatch.setattr(devices, "listed", lambda *_: [FAKE_DEVICE_INFO])


@pytest.mark.parametrize(("command", "code", "says"), WRONG)
def test_a_wrong_input_names_its_remedy(one_device, tmp_path, command, code, says):
    done = cli(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "") and says in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


@each(("command", "code", "says"), [case for case in WRONG if "leave out one" in case[2]])
def test_options_that_contradict_each_other_are_refused_before_devices_are_listed(monkeypatch, tmp_path, command, code, says):
    monkeypatch.setattr(devices, "listed", lambda *_: pytest.fail("it listed the devices"))
    assert cli(*command.split(), cwd=tmp_path).returncode == code


@pytest.mark.parametrize("group", ["", *(name for name, found in COMMANDS.items() if hasattr(found, "commands"))])
def test_a_group_alone_lists_its_commands(group):
    done = cli(*group.split())
    names = getattr(COMMANDS.get(group), "commands", COMMANDS)
    assert done.returncode == 2
    assert all(re.search(rf"^  {name}  ", done.stdout + done.stderr, re.MULTILINE) for name in names)


def test_values_of_an_axis_given_several_times_are_measured_together_and_once():
    given = ["op=copy", "op=[triad,copy]", "n=4", "n=4"]
    assert options.parse_axes(given, []) == {"op": ("copy", "triad"), "n": (4,)}


def test_a_default_of_the_environment_contradicts_nothing(one_device):
    done = cli("run", "--no-tuning", "--dry-run", "-b", "launch", CLMEMBENCH_RUN_TUNING="missing.toml")
    assert done.returncode == 0, done.stderr


def test_every_conflict_is_of_parameters_that_its_command_has():
    for name, found in exit_codes.CONFLICTS.items():
        known = {parameter.name for parameter in COMMANDS[name].params}
        assert found and all(set(conflict.parameters) <= known and len(conflict.parameters) == 2 for conflict in found)


def test_a_name_that_is_like_none_is_answered_with_all():
    assert selection.or_all("zzz", ["copy", "read"]) == "choose from copy, read"
    assert selection.or_all("cpoy", ["copy", "read"], "See x") == "did you mean copy? See x"
    assert selection.near("wri", ["copy", "write", "rewrite"]) == ["write", "rewrite"]


def test_a_file_of_other_programs_with_something_wrong_is_refused_in_a_line(tmp_path):
    """The table that scripts/wrong_inputs.py prints."""
    rows = wrong_inputs.file_rows(tmp_path)
    assert len(rows) >= 40 and [row for row in rows if row[-1]] == []


@pytest.fixture
def completed(monkeypatch, tmp_path):
    """What bash would offer at the end of a line, whose words it has split. It may not ask for devices: a shell waits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(completion, "_ask_for_devices", lambda: pytest.fail("it asked for devices"))
    monkeypatch.setenv("_CLMEMBENCH_COMPLETE", "complete_bash")
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "", raising=False)  # or its name is that of pytest's process

    def complete(words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - (not words.endswith(" "))))
        return cli().stdout.split()

    return complete


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("clmembench sh", ["show"]),
        ("clmembench run -b st", ["stream", "step_latency"]),
        ("clmembench run --suite m", ["memory"]),
        ("clmembench run -b stream -a o", ["op=", "order="]),
        ("clmembench run -b stream -a op = t", ["triad"]),
        ("clmembench run -b stream -a op =", ["copy", "scale", "add", "triad", "write", "dot", "read"]),
        ("clmembench run -a placement = c", ["compact"]),
        ("clmembench tune dg", ["dgemm"]),
        ("clmembench describe numpy_s", ["numpy_stream", "numpy_sum"]),
        ("clmembench compare --live -b dgem", ["dgemm"]),
    ],
)
def test_shells_complete_names(completed, words, offered):
    assert completed(words) == offered


def test_a_shell_that_does_not_split_words_gets_the_axis_and_its_value(completed, monkeypatch):
    monkeypatch.setenv("_CLMEMBENCH_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "clmembench run -b stream -a op=tr")
    assert '"op=triad"' in cli().stdout


def test_completion_of_benchmarks_loads_no_driver():
    code = "import sys; from clmembench.cli import completion as c; c.all_benchmarks(''), c.suites(''); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True)
    loaded = done.stdout.decode().split()
    assert "numpy" in loaded and not {"pyopencl", "scipy", "pandas", "matplotlib"} & set(loaded)


def test_devices_are_asked_for_once_and_their_names_are_harmless(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = [{"index": 0, "name": "Big\x1b[2J GPU", "uuid": "ab12cd34ef"}, {"index": 1, "name": "Big CPU", "uuid": ""}]
    asked = []
    monkeypatch.setattr(completion, "_ask_for_devices", lambda: asked.append(1) or json.dumps(rows))
    for _ in range(2):
        found = completion.devices(DOCTOR, "")
        assert [value for value, _ in found] == ["0", "1", "uuid:ab12cd34"] and "\x1b" not in found[0][1]
    assert [value for value, _ in completion.devices(DOCTOR, "n")] == ["name~GPU", "name~CPU"]
    assert asked == [1]


@pytest.mark.parametrize("answer", [subprocess.TimeoutExpired("x", 2), OSError(), "no JSON", "[1]", "{}"], ids=repr)
def test_devices_that_do_not_answer_are_not_waited_for(monkeypatch, tmp_path, answer):
    def ask() -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(completion, "_ask_for_devices", ask)
    assert completion.devices(DOCTOR, "") == []


def test_the_list_of_devices_comes_from_a_process_of_its_own(monkeypatch, tmp_path):
    """That is ended after a while, and imports nothing from the current folder."""
    (tmp_path / "pyopencl.py").write_text("raise SystemExit('planted')")
    monkeypatch.setattr(completion, "MAX_WAIT_S", 200.0)  # whatever else the host does
    monkeypatch.chdir(tmp_path)
    assert json.loads(completion._ask_for_devices())[0]["index"] == 0


def test_the_help_of_suite_lists_every_suite():
    text = next(p.help for p in COMMANDS["run"].params if p.name == "suite")
    assert set(selection.suites()) <= set(text.replace(",", " ").replace(";", " ").split())
