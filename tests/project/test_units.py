import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench import units
from clmembench.units import format_bytes, format_in, format_params, format_value, parse_bytes, parse_seconds
from tests.cases import each


@each(
    ("text", "nbytes"),
    [
        ("1", 1), ("4096", 4096), ("4096B", 4096), ("64KiB", 64 << 10), ("64K", 64 << 10), ("64k", 64 << 10),
        ("64Ki", 64 << 10), ("64 KB", 64_000), ("1.5GB", 1_500_000_000), ("1.5 GiB", 3 << 29), ("0.5KiB", 512),
        (" 2 mib ", 2 << 20), ("3T", 3 << 40),
    ],
)  # fmt: skip
def test_sizes_are_parsed(text, nbytes):
    assert parse_bytes(text) == nbytes


@each("text", ["", "KiB", "-4", "+4", "1e6", "4 KiBs", "4,096", "four", "0x10", "4 4", "1.KiB", ".5KiB", "nan", "\u0664"])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write bytes or a size such as 64KiB") as caught:
        parse_bytes(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0", "0KiB", "0.5", "1.0001KiB"])
def test_a_size_is_a_positive_whole_number_of_bytes(text):
    with pytest.raises(ValueError, match="positive whole number of bytes"):
        parse_bytes(text)


def test_a_size_beyond_any_float_is_refused_as_a_value():
    with pytest.raises(ValueError):
        parse_bytes("9" * 400)


@given(st.integers(1, 1 << 53))
def test_plain_bytes_are_parsed_exactly(nbytes):
    assert parse_bytes(str(nbytes)) == nbytes


@given(st.integers(1, 8191), st.sampled_from([10, 20, 30, 40]))
def test_formatted_sizes_parse_back_exactly_in_eighths_of_a_unit(eighths, power):
    nbytes = eighths << (power - 3)
    assert parse_bytes(format_bytes(nbytes)) == nbytes


@given(st.integers(1, 1 << 50))
def test_formatted_sizes_are_within_half_a_thousandth_of_their_unit(nbytes):
    number, unit = format_bytes(nbytes).split(" ")
    factor = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
    assert abs(float(number) * factor - nbytes) <= 0.000501 * factor
    assert re.fullmatch(r"\d+(\.\d{1,3})?", number)


@each(
    ("nbytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (256 << 20, "256 MiB"), (1 << 50, "1024 TiB")],
)
def test_sizes_are_formatted(nbytes, text):
    assert format_bytes(nbytes) == text


@each(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("300ms", 0.3), (" 2 s ", 2)])
def test_durations_are_parsed(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@each("text", ["", "0", "0s", "-1", "1d", "s", "1e3", "1 m 30 s", "inf"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write seconds or a duration such as 90s") as caught:
        parse_seconds(text)
    assert repr(text) in str(caught.value)


@given(st.text() | st.text("0123456789.kKmMgGtTiIbBsh -+e"), st.sampled_from([parse_bytes, parse_seconds]))
def test_any_text_is_a_positive_number_or_a_value_error(text, parse):
    try:
        value = parse(text)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert 0 < value < math.inf


@pytest.mark.parametrize("text", ["9" * 400, "9" * 308 + "h", "0." + "0" * 400 + "1"])
def test_a_duration_beyond_any_float_is_refused(text):
    with pytest.raises(ValueError, match="no duration"):
        parse_seconds(text)


@given(st.floats(1e-3, 1e6), st.sampled_from(["ms", "s", "m", "h", ""]))
def test_a_duration_that_is_written_is_read(number, unit):
    factor = {"ms": 1e-3, "s": 1, "m": 60, "h": 3600, "": 1}[unit]
    assert parse_seconds(f"{number:.9f}{unit}") == pytest.approx(number * factor, abs=1e-9 * factor)


@given(st.integers(1, 10**9), st.sampled_from([("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600)]))
def test_a_duration_is_its_number_times_its_unit(number, unit):
    assert parse_seconds(f"{number}{unit[0]}") == pytest.approx(number * unit[1])


@given(st.floats(1e-12, 1e15), st.integers(2, 6), st.sampled_from([1, -1]))
def test_a_formatted_value_keeps_its_significant_digits(value, digits, sign):
    shown = float(format_value(sign * value, digits).replace(",", ""))
    assert abs(shown - sign * value) <= 0.5001 * 10.0 ** (math.floor(math.log10(value)) - digits + 1)


DASH = "\N{EN DASH}"


@each(
    ("value", "text"),
    [
        (None, DASH), (math.nan, DASH), (math.inf, DASH), (-math.inf, DASH), (0, "0"), (0.0, "0"), (1234.5, "1,234"),
        (12.345, "12.3"), (0.00123, "0.00123"), (-2.5, "-2.50"), (1e7, "1.00e+07"), (9.9e-4, "9.90e-04"), (5e-324, "4.94e-324"),
    ],
)  # fmt: skip
def test_values_are_formatted(value, text):
    assert format_value(value) == text


@each(
    ("value", "unit", "text"),
    [
        (9876.0, "ns", "9.88 us"), (4786.0, "us", "4.79 ms"),
        (999.4, "us", "999 us"), (999.6, "us", "1.000 ms"), (12_340.0, "ns", "12.3 us"),
        (1.5e6, "ns", "1.50 ms"), (-2e9, "ns", "-2.00 s"),
        (12_340.0, "GB/s", "12,340 GB/s"), (0.0, "ns", "0 ns"), (None, "ns", f"{DASH} ns"),
    ],
)  # fmt: skip
def test_values_carry_their_unit_and_long_times_a_larger_one(value, unit, text):
    assert format_in(value, unit) == text


def test_parameters_show_sizes_with_units_and_the_rest_as_it_is():
    assert format_params({"op": "triad", "array_bytes": 256 << 20, "count": 1024, "x_bytes": "all"}) == (
        "op=triad array_bytes=256 MiB count=1024 x_bytes=all"
    )
    assert format_params({}) == ""


@each(
    ("name", "value", "shown"),
    [
        ("array_bytes", 33554432, "32 MiB"), ("spacing_bytes", "line", "line"), ("n", 33554432, "33554432"),
        ("n", 1024, "1024"), ("groups", 4096, "4096"), ("items", 65536, "65536"), ("sigma", 1 << 16, "65536"),
        ("shift_bytes", 0, "0 B"),
        ("cold", True, "True"),
    ],
)  # fmt: skip
def test_a_parameters_unit_is_what_its_name_declares(name, value, shown):
    assert units.format_param(name, value) == shown
    assert units.format_params({name: value}) == f"{name}={shown}"


@pytest.mark.parametrize(("number", "words"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_one_thing_is_no_plural(number, words):
    assert units.count(number, "run") == words
    assert units.count(number, "process", "processes") == words.replace("runs", "processes").replace("run", "process")
