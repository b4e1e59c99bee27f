"""JSON Schemas: those in docs are the code's, every committed run and every command's JSON is valid, and faults are seen."""

import gzip
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.main import get_command
from typer.testing import CliRunner

from clmembench.analysis.stats import Ratio
from clmembench.cli.program import app
from clmembench.model import Finding, Hierarchy
from clmembench.report.render import json_text
from clmembench.report.schemas import outputs, schemas
from clmembench.studies.ab.ab_decision import Outcome
from clmembench.studies.ab.ab_outcome import LayerComparison, LiveComparison
from clmembench.studies.hierarchy.classic.methods import ClassicReadings
from clmembench.studies.hierarchy.views.hierarchy_json import hierarchy_object

ROOT = Path(__file__).parents[2]
FOLDER, RUNS = ROOT / "docs" / "schemas", ROOT / "reports"
MNF, TOPOLOGY, PEERS = (str(RUNS / f"h200-sxm-{name}.jsonl.gz") for name in ("mnf", "topology", "peers"))
COMMANDS = (
    ("points", "show", MNF), ("casestudy-mnf", "casestudy", "mnf", MNF), ("peers", "peers", PEERS),
    ("advise", "advise", str(RUNS / "h200-sxm-access.jsonl.gz")), ("hierarchy", "topology", TOPOLOGY),
    ("compare", "compare", MNF, MNF), ("doctor", "doctor", "--run", MNF), ("devices", "devices"),
    ("model-predict", "model", "predict", "wang2019-table1", str(ROOT / "docs" / "example" / "divergent_profile.toml")),
    ("history", "history", MNF, str(RUNS / "xeon-2-cores-pocl-peers.jsonl.gz")),
)  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, Draft202012Validator]:
    found = schemas()
    for schema in found.values():
        Draft202012Validator.check_schema(schema)
    return {name: Draft202012Validator(schema) for name, schema in found.items()}


def problems(validator, value) -> list[str]:
    return [f"{'.'.join(map(str, error.path))}: {error.message[:200]}" for error in validator.iter_errors(value)]


def brief(value):
    """The value with lists of whole numbers cut to two, which one schema holds for, to save time."""
    if isinstance(value, list):
        return value[:2] if set(map(type, value)) == {int} else [brief(one) for one in value]
    return {name: brief(one) for name, one in value.items()} if isinstance(value, dict) else value


def undescribed(value):
    if isinstance(value, list):
        return [undescribed(one) for one in value]
    return {k: undescribed(v) for k, v in value.items() if k != "description"} if isinstance(value, dict) else value


def test_the_schemas_in_docs_are_those_that_the_code_gives():
    committed = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    given = schemas()
    if "description" not in given["run-record"]:  # pydantic before 2.11 does not take them from dataclasses
        committed, given = undescribed(committed), undescribed(given)
    assert committed == given, "run scripts/write_schemas.py"


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_committed_run_is_valid(made, step):
    """One line of five, the header among them; all lines, which takes longer, among the slow tests."""
    found, lines = {}, 0
    for path in sorted(RUNS.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, text in enumerate(file):
                if number % step:
                    continue
                lines += 1
                if wrong := problems(made["run-record" if number else "run-header"], brief(json.loads(text))):
                    found[f"{path.name}:{number + 1}"] = wrong[0]
    assert lines > 4000 / step and found == {}


def test_what_commands_print_is_valid(made):
    found = {}
    for name, *command in COMMANDS:
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 0, (command, done.stderr)
        if wrong := problems(made[name], json.loads(done.stdout)):
            found[" ".join(command[:2])] = wrong[:3]
    assert found == {}


def test_a_live_comparison_and_the_classic_methods_are_valid(made):
    ratio = Ratio(1.1, 1.0, 1.2)
    decided = ("undecided", 1.0, 1.1, ratio, ratio, 7, 1.05, "the rounds differ", ["a"])
    values = [Outcome("stream", {"op": "copy"}, "bandwidth", "GB/s", "higher", *decided)]
    settings = (("as it is", "-a op=copy"), 0.05, 0.05, 1, ("a.jsonl", "b.jsonl"), 7, 12.5, values)
    for compared in (LiveComparison(*settings), LayerComparison(*settings, ["Through SYCL"])):
        assert problems(made["compare-live"], json.loads(json_text(compared))) == []
    line = Finding("line_bytes", 128, 128, 128, "B", "ok", "strides", ("chase:1:0",))
    readings = ClassicReadings("global", (), (), {"line_bytes": line}, {}, None)
    told = json.loads(json_text(hierarchy_object(Hierarchy((), (), None, (), (), {}, ()), [readings])))
    assert problems(made["hierarchy"], told) == [] and told["classic"][0]["saavedra"]["line_bytes"]["value"] == 128


def test_every_command_with_json_has_a_schema():
    def commands(command, words=()):
        for name, one in getattr(command, "commands", {}).items():
            yield from commands(one, (*words, name))
        if any("--json" in parameter.opts for parameter in command.params):
            yield " ".join(words)

    described = {words for of, *_ in outputs().values() for words in of}
    assert described - {"compare --live"} == set(commands(get_command(app)))
    assert {name for name, *_ in COMMANDS} | {
        "compare-live",
        "fleet",
        "import",
        "kernel",
        "model-validate",
    } == outputs().keys()  # in other tests


def test_what_is_wrong_is_seen(made):
    with gzip.open(MNF, "rt", encoding="utf-8") as file:
        header, record = json.loads(next(file)), json.loads(next(file))
    (point, *_), wrong = json.loads(CliRunner().invoke(app, ["show", MNF, "--json"]).stdout), "1.5"
    changed = [
        ("run-header", {**header, "seed": wrong}), ("run-record", {**record, "status": "good"}),
        ("run-record", {**record, "series": [{}]}), ("points", [{**point, "median": wrong}]), ("points", [{**point, "new": 1}]),
        ("points", [{name: value for name, value in point.items() if name != "n"}]),
    ]  # fmt: skip
    assert [name for name, value in changed if not problems(made[name], value)] == []
    assert problems(made["run-record"], {**record, "of a newer version": 1}) == []


def test_dataclasses_are_json_by_their_fields_whatever_their_texts_and_only_of_finite_numbers():
    name = "run\udcff.jsonl"  # a file's name that is not UTF-8
    point = Finding(name, 1, 0.5, None, "B", "undetermined", "", reason="é")
    made_of = json.loads(json_text({"all": [Hierarchy(patterns={name: point})]}))["all"][0]
    assert (
        made_of["patterns"][name] == {**asdict(point), "evidence": []} and made_of["levels"] == [] and made_of["local"] is None
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([Ratio(float("nan"), 1.0, 2.0)])
