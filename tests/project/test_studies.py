"""Studies: every reference leads to something, discovery imports no figure, and packages bring their own."""

import subprocess
import sys
from inspect import signature

import pytest

from clmembench import studies
from clmembench.benchmarks import discovered
from clmembench.report.figures import study_figures
from clmembench.studies import NO_FIGURE, Study
from clmembench.studies.access import throughput_curves, throughput_tables

ONE = dict.fromkeys(("after_summary", "findings", "headlines", "markdown", "page"), 1)
FUNCTIONS = {**ONE, "summary": 2, "device_page": 2, "part": 3}
OWN = studies.packaged()


@pytest.mark.parametrize("study", OWN, ids=lambda study: study.name)
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
    assert studies.tables("stream") is throughput_tables.types
    seen = []
    monkeypatch.setattr(throughput_curves, "caches", lambda card, shown: seen.append(list(shown)) or "drawn")
    assert study_figures.drawn("stream", discovered()["stream"], []) == "drawn" and seen == [[]]


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
