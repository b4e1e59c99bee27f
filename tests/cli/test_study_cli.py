"""The commands that measure or read a stored run, advise, peers, topology and casestudy mnf, do so by one function, alike."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from clmembench.benchmarks import discovered
from clmembench.cli import devices, measure_or_read
from clmembench.cli.running import session
from clmembench.plan import sweep
from clmembench.results import jsonl
from tests.builders import device, header, record, write_run
from tests.cases import each
from tests.commands import call

COMMANDS = {
    "advise": "holds nothing that guidelines are derived from: measure it with clmembench advise -d DEVICE, or with "
    "clmembench run --suite access",
    "peers": "holds no benchmark of this table: measure it with clmembench peers -d DEVICE, or with clmembench run --reference",
    "topology": "holds no records of chase, from which a hierarchy is inferred: measure them with clmembench topology "
    "-d DEVICE",
    "casestudy mnf": "holds no records of MNF: measure them with clmembench casestudy mnf -d DEVICE",
}
MEASURING = (("-d", "0"), ("--budget", "1m"), ("--timeout", "1s"), ("--seed", "1"), ("-o", "x.jsonl"), ("--overwrite",))


@pytest.fixture(params=COMMANDS)
def command(request):
    return request.param


@pytest.fixture
def other(tmp_path) -> Path:
    """A run without evidence for any of the commands."""
    path = tmp_path / "other.jsonl"
    return write_run(path, [record("pchase", {})], header(cards={"pchase": sweep.benchmark_card(discovered()["pchase"])}))


@pytest.fixture
def measuring(tmp_path, monkeypatch):
    """What the device measures: a file without records, as `outcome` says; the arguments of each measurement are kept."""
    path = tmp_path / "new.jsonl"

    def measured(info, selection, cards, records, output, overwrite=False, earlier=None, **more):
        measured.asked.append((info, selection, dict(cards), output, overwrite))
        jsonl.Writer(path, header()).__enter__().__exit__(None, None, None)
        return session.Written(path, *measured.outcome)

    measured.asked, measured.outcome, measured.path = [], (0, False), path
    monkeypatch.setattr(devices, "listed", lambda *_: [device()])
    monkeypatch.setattr(session, "measure_to_file", measured)
    return measured


def test_the_steps_stand_in_one_place():
    steps = {
        "refuse_measuring_options": ["measure_or_read.py"],
        "read_back": ["measure_or_read.py", "run.py"],
        "end": ["measure_or_read.py", "run.py", "tune.py"],
    }
    steps["measure_to_file"] = steps["end"]
    found: dict[str, list[str]] = {step: [] for step in steps}
    for path in sorted(Path(measure_or_read.__file__).parent.rglob("*.py"), key=lambda path: path.name):
        names = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        for step in steps:
            found[step] += [path.name] if f"session.{step}" in names else []
    assert found == steps


@pytest.mark.parametrize("args", MEASURING, ids=" ".join)
def test_a_stored_run_is_not_measured(command, other, args):
    code, out, err = call(*command.split(), other, *args)
    assert (code, out) == (2, "")
    assert err == f"clmembench: {other} is a stored run, which is read and not measured: leave out RUN or {args[0]}\n"


def test_a_run_without_evidence_is_refused_with_the_command_that_measures_it(command, other):
    before = other.read_bytes()
    code, out, err = call(*command.split(), other)
    assert (code, out) == (2, "") and err == f"clmembench: {other} {COMMANDS[command]}\n"
    assert other.read_bytes() == before


@each(
    ("args", "code", "says"),
    [
        (("/nowhere.jsonl",), 2, "cannot read /nowhere.jsonl"),
        (("{other}", "--budget", "1m", "-o", "x.jsonl"), 2, "leave out RUN or --budget, -o"),
        (("{other}", "--json", "--md"), 2, "choose one of"),
        (("-d", "99"), 3, "matches no device"),
        (("-o", "{other}"), 2, "--overwrite"),
    ],
)
def test_what_cannot_be_done_is_one_line_that_names_the_remedy(command, other, args, code, says):
    before = other.read_bytes()
    done, out, err = call(*command.split(), *(arg.format(other=other) for arg in args))
    assert (done, out) == (code, "") and says in err and err.count("\n") == 1
    assert other.read_bytes() == before


def test_options_reach_the_measurement(command, measuring):
    args = ("--budget", "2m", "--timeout", "5s", "--seed", "7", "-o", "given.jsonl", "--overwrite")
    code, out, _ = call(*command.split(), "-d", "0", *args)
    assert code == 0 and out.startswith(f"Results: {measuring.path}\n")
    ((info, selection, cards, output, overwrite),) = measuring.asked
    assert (selection.budget_s, selection.timeout_s, selection.seed) == (120.0, 5.0, 7)
    assert selection.suite == command.split()[0] and cards
    assert info.id == device().id and (output, overwrite) == (Path("given.jsonl"), True)


def test_limits_that_are_not_given_are_the_commands_own(command, measuring):
    assert call(*command.split())[0] == 0
    ((_, selection, _, output, overwrite),) = measuring.asked
    assert (selection.budget_s, selection.timeout_s) == (None, 300.0 if command == "casestudy mnf" else 120.0)
    assert (selection.seed, output, overwrite) == (0, None, False)


@pytest.mark.parametrize(
    ("outcome", "code", "said"), [((0, False), 0, ""), ((2, False), 4, ""), ((2, True), 130, "interrupted: ")]
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=str)
def test_the_exit_code_tells_what_failed_and_only_text_names_the_file(command, measuring, outcome, code, said, form):
    measuring.outcome = outcome
    done, out, err = call(*command.split(), *form)
    assert done == code
    assert err == (f"clmembench: interrupted: {measuring.path} holds every record up to here\n" if said else "")
    assert out == "" if form else f"Results: {measuring.path}" in out


@pytest.mark.parametrize(("option", "value"), [("--budget", "soon"), ("--timeout", "late")])
def test_what_is_no_duration_measures_nothing(command, measuring, option, value):
    code, out, err = call(*command.split(), option, value)
    assert (code, out, measuring.asked) == (2, "", []) and "no duration" in err and err.count("\n") == 1
