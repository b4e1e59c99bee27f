"""Studies: every reference leads to something, discovery imports no figure, and packages bring their own."""

import subprocess
import sys
from inspect import signature
from types import SimpleNamespace

import pytest
import typer

from clmembench import studies
from clmembench.benchmarks import discovered
from clmembench.cli import devices, program
from clmembench.cli.measure_or_read import Measurement, StudyCommand, measure_or_read
from clmembench.cli.running import run_request
from clmembench.plan.selection import EVERYTHING, Selection, selected_benchmarks
from clmembench.report.figures import curves
from clmembench.studies import NO_FIGURE, Study
from clmembench.studies.access import throughput_curves, throughput_tables
from tests.builders import device
from tests.cases import each

ONE = dict.fromkeys(("after_summary", "findings", "headlines", "markdown", "page"), 1)
FUNCTIONS = {**ONE, "file_page": 1, "summary": 2, "device_page": 2, "part": 3}
OWN = studies.packaged()


@each("study", OWN)
def test_every_reference_leads_to_something(study):
    for name in (*study.commands.values(), *study.replaces.values(), *(output.type for output in study.json.values())):
        assert study.load(name) is not None
    for field, parameters in FUNCTIONS.items():
        if getattr(study, field):
            assert len(signature(study.load(getattr(study, field))).parameters) == parameters, field
    for names in (study.tables, study.figures):
        assert names.keys() <= discovered().keys()
        assert all(len(signature(study.load(name)).parameters) == 2 for name in names.values() if name != NO_FIGURE)
    assert set(study.measures) <= discovered().keys() and bool(study.measures) == bool(study.part)
    assert bool(study.page) == bool(study.page_title)


def test_no_two_studies_have_a_name_command_or_benchmark_in_common():
    for field in ("commands", "replaces", "tables", "figures", "json", "measures"):
        names = [name for study in OWN for name in getattr(study, field)]
        assert len(names) == len(set(names)), field


def test_a_benchmark_without_a_study_has_no_tables_of_its_own():
    assert studies.tables("stream") is None and studies.figure("stream") == ""


def test_what_a_study_declares_for_a_benchmark_is_used(monkeypatch):
    own = Study(
        "own", "Own", "clmembench.studies.access", tables={"stream": "throughput_tables:types"},
        figures={"stream": "throughput_curves:caches"},
    )  # fmt: skip
    monkeypatch.setattr(studies, "studies", lambda: (own,))
    monkeypatch.setattr(throughput_tables, "types", lambda run, rows: [*rows, "table"])
    assert studies.tables("stream")(None, ["row"]) == ["row", "table"]
    seen = []
    monkeypatch.setattr(throughput_curves, "caches", lambda card, shown: seen.append(list(shown)) or "drawn")
    assert curves.drawn("stream", discovered()["stream"], []) == "drawn" and seen == [[]]


def test_a_reference_to_nothing_is_an_error():
    study = next(study for study in OWN if study.name == "access")
    with pytest.raises(ImportError):
        study.load("no_such_tables:sections")
    with pytest.raises(AttributeError):
        study.load("throughput_curves:no_such_figure")


def test_discovery_imports_no_figure_table_or_command():
    code = "import sys, clmembench.studies as s; s.studies(); print([m for m in sys.modules if m.startswith('clmembench.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("clmembench.") for name in eval(found.stdout)}
    assert loaded == {"studies"} | {f"studies.{s.name}" for s in OWN} | {f"studies.{s.name}.study" for s in OWN}


def test_every_module_of_commands_can_be_imported_first():
    for study in OWN:
        for module in {reference.partition(":")[0] for reference in (*study.commands.values(), *study.replaces.values())}:
            subprocess.run([sys.executable, "-c", f"import {study.package}.{module}"], check=True)


def package(folder, text: str, entry: str = "own_study:STUDY"):
    (folder / "own_study.py").write_text(text)
    about = folder / "own-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[clmembench.studies]\nown = {entry}\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    studies.studies.cache_clear(), studies._installed.cache_clear()
    yield tmp_path
    sys.modules.pop("own_study", None)
    studies.studies.cache_clear(), studies._installed.cache_clear()


GOOD = "from clmembench.studies import Study\nSTUDY = Study('own', 'Own', __name__, commands={'own': 'command:own'})\n"


def test_a_package_brings_its_study(installed):
    package(installed, GOOD)
    assert "own" in [study.name for study in studies.studies()] and studies.problems_of_packages() == ()


FAILS = "def once(*args):\n    yield 1\n    raise KeyError('x')\n"


@pytest.mark.parametrize(("reference", "says"), [("no:thing", "ModuleNotFoundError"), ("parts:once", "KeyError: 'x'")])
def test_what_fails_in_a_package_names_it_and_the_study(installed, reference, says):
    package(installed, GOOD.replace("__name__", "'own_parts'"))
    (installed / "own_parts").mkdir()
    (installed / "own_parts" / "parts.py").write_text(FAILS)
    (own,) = [study for study in studies.studies() if study not in OWN]
    with pytest.raises(studies.StudyError, match=rf"^own 1.0: study own: .*{says}"):
        own.call(reference)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module", "cannot be imported: ModuleNotFoundError"),
        ("STUDY = 3", "is a int: name an object of type Study"),
        (GOOD.replace("'own', 'Own'", "'hierarchy', 'Own'"), "has the name hierarchy, which is taken: rename it"),
        (GOOD.replace("'own':", "'topology':"), "has the name topology, which is taken: rename it"),
    ],
)
def test_a_package_whose_study_is_none_is_left_out_with_the_reason(installed, text, says):
    package(installed, text)
    assert studies.studies() == OWN
    (problem,) = studies.problems_of_packages()
    assert says in problem


# ---- names that do not exist --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("origin", "package"), [("", "clmembench"), ("own 1.0", "own 1.0")])
@pytest.mark.parametrize(
    ("selection", "says"),
    [
        (Selection("memry"), "no suite 'memry': did you mean memory?"),
        (Selection("all", ("strem",)), "no benchmark matches 'strem': did you mean"),
        (Selection("all", ("stream",), {"opp": ("add",)}), "no axis 'opp' here: did you mean op?"),
    ],
    ids=("suite", "benchmark", "axis"),
)
def test_a_command_that_selects_what_does_not_exist_names_package_and_study_and_the_remedy(selection, says, origin, package):
    own = Study("own", "Own", "own_study", origin=origin)
    with pytest.raises(studies.StudyError) as found:
        program._guarded(own, "own", lambda: selected_benchmarks(selection))()
    assert str(found.value).startswith(f"{package}: study own: command own: {says}")


def test_a_command_of_another_package_that_fails_names_it_and_ends_as_it_wants():
    own = Study("own", "Own", "own_study", origin="own 1.0")

    def ended(by):
        def command():
            raise by

        return program._guarded(own, "own", command)

    with pytest.raises(studies.StudyError, match=r"^own 1.0: study own: command own: KeyError: 'x'$"):
        ended(KeyError("x"))()
    for end in (typer.Exit(4), typer.Abort(), SystemExit(3), KeyboardInterrupt()):
        with pytest.raises(type(end)):
            ended(end)()
    with pytest.raises(KeyError):  # an error of this program
        program._guarded(OWN[0], "own", lambda: {}["x"])()


def test_what_a_measurement_selects_is_no_option_of_the_users(monkeypatch):
    monkeypatch.setattr(devices, "listed", lambda named: ())
    monkeypatch.setattr(devices, "select", lambda listed, named: device())
    command = StudyCommand(lambda given, info: selected_benchmarks(Selection("memry")), bool, "", print)
    with pytest.raises(studies.SelectionError):
        measure_or_read(SimpleNamespace(params={}), None, command)


def part_of_unknown_suite(selection, known, deadline) -> Measurement:
    def records(info, found):
        yield from selected_benchmarks(Selection("memry"))

    return Measurement(selection, (), records)


def test_a_part_of_a_run_that_names_what_does_not_exist_is_an_error_of_its_study(monkeypatch):
    gpu = device()
    own = Study("own", "Own", "tests.project", measures=("chse",), part="test_studies:part_of_unknown_suite")
    monkeypatch.setattr(run_request, "studies", lambda: (own,))
    monkeypatch.setattr("clmembench.measure.runner.run_selection", lambda *_: iter(()))
    planned = run_request.PlannedRun(gpu, Selection(EVERYTHING), ())
    with pytest.raises(studies.StudyError, match=r"^clmembench: study own: measures: no benchmark 'chse': did you mean chase"):
        planned.cards()
    with pytest.raises(studies.StudyError, match=r"^clmembench: study own: .*: no suite 'memry': did you mean memory"):
        list(planned.records(gpu, None, ()))
