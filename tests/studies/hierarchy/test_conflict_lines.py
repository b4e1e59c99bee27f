"""mapping: the lines that miss together tell which address bits choose the set."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.studies.hierarchy.classic.conflict_lines import candidate_mappings, mapping_table
from clmembench.studies.hierarchy.set_index import difference_basis, format_set_bits, free_parities, set_number

FERMI = [2, 34, 67, 99, 128]  # Mei & Chu 2015, section 4.5, which counts its 129 lines from 1: 3, 35, 68, 100, 129


def by_bits(found):
    return {format_set_bits(m.bits): m for m in found}


def test_fermis_misses_are_not_those_of_32_plain_sets():
    plain = by_bits(candidate_mappings(FERMI, 129, 128, 128))["7-11"]
    assert plain.sets == 32 and plain.ways == 4
    assert not plain.together and not plain.explains
    assert "3 of its sets" in plain.reason


def test_the_8_major_sets_of_bits_9_to_11_explain_them_but_only_if_12_lines_are_spared():
    major = by_bits(candidate_mappings(FERMI, 129, 128, 128))["9-11"]
    assert (major.sets, major.ways, major.in_set, major.spared) == (8, 16, 17, 12)
    assert major.explains and "keeps some lines longer" in major.reason


def test_32_sets_by_parities_explain_exactly_them():
    first = candidate_mappings(FERMI, 129, 128, 128)[0]
    assert format_set_bits(first.bits) == "9-11, 7^13, 8^14"
    assert (first.sets, first.ways, first.in_set, first.spared) == (32, 4, 5, 0)
    assert first.explains and "exactly the 5 lines" in first.reason


def test_no_mapping_that_explains_them_has_another_number_of_sets_of_4_ways():
    explains = {format_set_bits(m.bits): m.sets for m in candidate_mappings(FERMI, 129, 128, 128) if m.explains}
    assert set(explains) == {"9-11, 7^13, 8^14", "9-11"} | {k for k in explains if explains[k] < 8}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_lines_of_one_set_tell_its_bits(data):
    """Any choice of parities: what shares a set with line 0 tells them, and no more sets than there are."""
    width = 8
    own = data.draw(st.sets(st.integers(0, width - 1), min_size=1, max_size=4))
    others = st.lists(st.sampled_from([b for b in range(width) if b not in own]), unique=True, max_size=2)
    bits = [(bit, *sorted(data.draw(others))) for bit in sorted(own)]
    members = [n for n in range(1 << width) if set_number(n, bits) == set_number(0, bits)]
    again = free_parities(difference_basis(members), width)
    assert len(again) == len(bits)
    assert {n for n in range(1 << width) if set_number(n, again) == 0} == set(members)


def test_a_set_that_does_not_overflow_explains_nothing():
    found = by_bits(candidate_mappings([0, 32], 64, 128, 128))
    assert not found["7-11"].explains and "no set overflows" in found["7-11"].reason


@pytest.mark.parametrize(
    ("bits", "text"), [([(7,), (8,)], "7-8"), ([(7,), (9,)], "7, 9"), ([(7, 13), (9,), (10,)], "9-10, 7^13"), ([], "")]
)
def test_bits_are_told_as_a_reader_writes_them(bits, text):
    assert format_set_bits(bits) == text


def test_the_table_has_a_row_for_each_mapping_and_says_which_explain():
    head, *rows = mapping_table(candidate_mappings(FERMI, 129, 128, 128)).splitlines()
    assert head.split() == ["set", "bits", "sets", "ways", "explains", "why"]
    assert rows[0].startswith("9-11, 7^13, 8^14  32") and "exactly" in rows[0]
    assert any(row.startswith("7-11") and " no " in row for row in rows)
