"""The registry of studies: every name in it leads to a function, and reading it imports no figure."""

import subprocess
import sys
from inspect import signature

import pytest
from clmembench.report.studies import NO_FIGURE, STUDIES, Study, load

from clmembench.benchmarks import discovered
from clmembench.report import studies


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_of_a_benchmark_and_names_functions_of_tables_and_figures(name):
    study = STUDIES[name]
    assert name in discovered()
    assert study != Study(), "a line that names nothing"
    if study.tables:
        assert len(signature(load("sections", study.tables)).parameters) == 2
    if study.figure and study.figure != NO_FIGURE:
        assert len(signature(load("figures", study.figure)).parameters) == 2


def test_a_benchmark_without_a_study_has_no_tables_of_its_own():
    assert studies.tables("stream") is None


def test_one_line_gives_a_benchmark_tables_and_a_figure(monkeypatch):
    """Whatever the registry says is what a summary and a page use."""
    from clmembench.report.page import study_figures
    from clmembench.studies.access import throughput_curves, throughput_tables

    line = {"stream": Study(tables="throughput_tables.types", figure="throughput_curves.caches")}
    monkeypatch.setattr(studies, "STUDIES", line)
    monkeypatch.setattr(study_figures, "STUDIES", line)
    assert studies.tables("stream") is throughput_tables.types
    seen = []
    monkeypatch.setattr(throughput_curves, "caches", lambda card, shown: seen.append(list(shown)) or "drawn")
    assert study_figures.drawn("stream", discovered()["stream"], []) == "drawn" and seen == [[]]


def test_a_name_of_nothing_is_an_error():
    with pytest.raises(ImportError):
        load("sections", "no_such_tables.sections")
    with pytest.raises(AttributeError):
        load("figures", "throughput_curves.no_such_figure")


def test_the_registry_imports_no_figure_and_no_table():
    said = "import sys, clmembench.report.studies; print([m for m in sys.modules if 'figures' in m or 'sections' in m])"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
