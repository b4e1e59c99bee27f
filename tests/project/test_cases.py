"""tests.cases: a test of many cases runs all of them, each by itself, and names those that fail."""

import inspect
import os

import pytest

from tests.cases import each


def test_all_cases_run_and_those_that_fail_are_named():
    seen = []

    @each("low", [0, 1])
    @each(("high", "name"), [(1, "a"), (2, "b"), (3, "c")])
    def holds(device, low, high, name):
        seen.append((device, low, high, name))
        assert high - low != 2, "two apart"
        if high == 1:
            with pytest.raises(ValueError):
                list(range(low))

    assert list(inspect.signature(holds).parameters) == ["device"]
    with pytest.raises(BaseExceptionGroup, match="2 of 2 cases failed") as caught:
        holds(device="fake")
    assert len(seen) == len(set(seen)) == 6
    first, second = caught.value.exceptions
    assert (first.__notes__, second.__notes__) == (["low=0"], ["low=1"])
    assert [error.__notes__ for error in first.exceptions] == [["high=1, name='a'"], ["high=2, name='b'"]]
    assert "two apart" in str(first.exceptions[1])


def test_a_case_sees_no_file_patch_or_output_of_another(tmp_path, monkeypatch, capsys):
    before = []

    @each("name", ["a", "b"])
    def alone(tmp_path, monkeypatch, capsys, name):
        before.append((list(tmp_path.iterdir()), os.environ.get("OF_A_CASE"), capsys.readouterr().out))
        (tmp_path / name).touch()
        monkeypatch.setenv("OF_A_CASE", name)
        print(name)

    alone(tmp_path=tmp_path, monkeypatch=monkeypatch, capsys=capsys)
    assert before == 2 * [([], None, "")]
    assert "OF_A_CASE" not in os.environ


def test_a_test_without_cases_or_without_their_names_is_no_test():
    with pytest.raises(AssertionError, match="no cases"):
        each("name", [])
    with pytest.raises(AssertionError, match="marks of single cases"):
        each("name", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(AssertionError, match="does not take"):
        each("other", [1])(lambda name: None)


def test_a_skipped_case_hides_no_other():
    seen = []

    def case(name):
        seen.append(name)
        if name != "b":
            pytest.skip("not here")

    each("name", ["a", "b", "c"])(case)()
    assert seen == ["a", "b", "c"]
    with pytest.raises(pytest.skip.Exception):
        each("name", ["a", "c"])(case)()
