"""Whatever a user writes for a suite, a benchmark or an axis is a choice or a ValueError of one line, never anything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.benchmarks import discovered
from clmembench.cli.options import parse_axes
from clmembench.plan.selection import Selection, accepts_value, check_axes, selected_benchmarks, suites
from clmembench.runtimes.fake import FAKE_DEVICE_INFO

words = st.text() | st.sampled_from([*suites(), *discovered(), "*", "[", "[!", "p*", "***", "\0"])
names = st.sampled_from(sorted({axis for b in discovered().values() for axis in b.axes} | {"compute_units", "placement"}))
values = (
    st.text() | st.integers().map(str) | st.sampled_from(["triad", "64MiB", "1e9", "9" * 400, "nan", "a.mtx", "\0.mtx", "²"])
)


@given(words, st.lists(words, max_size=3))
def test_any_suite_and_benchmarks_are_a_choice_or_an_error(suite, globs):
    try:
        chosen = selected_benchmarks(Selection(suite=suite, globs=tuple(globs)))
    except ValueError as error:
        assert "\n" not in str(error)
        assert any(remedy in str(error) for remedy in ("choose from", "did you mean", "leave out --suite", "write -"))
    else:
        assert chosen and all(b is discovered()[b.name] for b in chosen)


@given(st.text() | st.builds("{}={}".format, names | st.text(), values) | st.text("[]=,'\" a1_bytesKMGi.-"))
def test_any_text_for_an_axis_is_values_or_an_error(text):
    try:
        axes = parse_axes([text], [])
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        ((name, found),) = axes.items()
        assert name and found and all(type(value) in (int, float, str) for value in found)
        assert all(abs(value) < 2**64 for value in found if isinstance(value, int))


@settings(deadline=None)
@given(names, st.lists(values, min_size=1, max_size=3))
def test_any_values_of_an_axis_are_taken_or_refused_in_one_line(name, some):
    chosen = list(discovered().values())
    try:
        selection = Selection(axes=parse_axes([f"{name}=[{','.join(some)}]"], []))
        check_axes(chosen, FAKE_DEVICE_INFO, selection)
    except ValueError as error:
        assert str(error)


def test_fractions_are_values_of_axes_that_have_some():
    assert parse_axes(["intensity=[0.25,1]"], []) == {"intensity": (0.25, 1)}
    assert accepts_value(discovered()["intensity"].axes["intensity"], FAKE_DEVICE_INFO, 0.25)
    assert not accepts_value(discovered()["stream"].axes["array_bytes"], FAKE_DEVICE_INFO, 1.5)


@given(names, st.lists(st.integers(1, 2**40), min_size=1, max_size=5))
def test_numbers_written_are_numbers_read(name, numbers):
    for text in (f"{name}=[{','.join(map(str, numbers))}]", f" {name} = {', '.join(map(str, numbers))} "):
        assert parse_axes([text], []) == {name: tuple(dict.fromkeys(numbers))}  # each value once


@pytest.mark.parametrize("value", ["9" * 20, "-" + "9" * 20, "9" * 5000])
def test_a_number_beyond_64_bits_is_no_value(value):
    with pytest.raises(ValueError, match="-a n: "):
        parse_axes([f"n={value}"], [])
