"""Files of stored shapes: they come back as written, damage is named, and the entry that suits a point is found."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench import resources
from clmembench.benchmarks import BANDWIDTH, axis, benchmark, discovered
from clmembench.model import Tuned, Work
from clmembench.results import jsonl, tuned
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import device, header, write_run

ENTRY = Tuned(
    device="Fake device", platform="Fake", compute_units=8, benchmark="shaped", version=1,
    params={"op": "copy", "n": 1024}, tuning={"width": 4, "order": "block"}, date="2026-11-22", tool_version="0.1.0",
    driver="1.0", gain=1.25, gain_low=1.2, gain_high=1.3,
)  # fmt: skip


@benchmark(BANDWIDTH, suite="test", source="none", op=axis("copy"), width=axis(1, 4, tuning=True))
def shaped(device, op, width):
    """A benchmark with a tuning axis."""
    return Work(())


def always(shape):
    return True


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path, monkeypatch):
    """Neither their own file nor shipped ones."""
    monkeypatch.delenv(tuned.TUNING_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tuned, "tuning_paths", list)


# ---- files ---------------------------------------------------------------------------------------------------------------


def test_what_is_stored_is_read_again(tmp_path):
    path = tmp_path / "t.toml"
    other = replace(ENTRY, params={"n": 2, "x": 0.5, "ok": True}, gain=None, gain_low=None, gain_high=None)
    tuned.save(path, [ENTRY, other])
    assert tuned.load(path) == tuple(replace(t, origin="own") for t in (ENTRY, other))
    assert tuned.load(path, "shipped")[0].origin == "shipped"
    assert path.read_text().splitlines()[0].startswith("# Shapes")
    assert [p.name for p in tmp_path.iterdir()] == ["t.toml"]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = words | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


@given(words, st.dictionaries(words, values, max_size=3), st.dictionaries(words, values, max_size=3))
def test_any_words_and_numbers_come_back_as_they_were(tmp_path_factory, name, params, shape):
    path = tmp_path_factory.mktemp("any") / "t.toml"
    entry = replace(ENTRY, device=name, driver=name, params=params, tuning=shape)
    tuned.save(path, [entry])
    (found,) = tuned.load(path)
    assert found == replace(entry, origin="own")
    assert [type(v) for v in found.params.values()] == [type(v) for v in params.values()]


def test_a_shape_takes_the_place_of_the_one_for_the_same_point_and_of_other_versions(tmp_path):
    path = tmp_path / "t.toml"
    older, elsewhere = replace(ENTRY, version=0, params={"n": 9}), replace(ENTRY, version=0, device="Another")
    tuned.save(path, [older, elsewhere, replace(ENTRY, params={"op": "sum"})])
    tuned.save(path, [replace(ENTRY, tuning={"width": 1}), replace(ENTRY, benchmark="other")])
    tuned.save(path, [ENTRY])
    found = {(t.device, t.benchmark, t.version, t.params.get("op"), t.tuning.get("width")) for t in tuned.load(path)}
    assert found == {
        ("Another", "shaped", 0, "copy", 4),
        ("Fake device", "other", 1, "copy", 4),
        ("Fake device", "shaped", 1, "copy", 4),
        ("Fake device", "shaped", 1, "sum", 4),
    }


def test_unknown_fields_are_ignored(tmp_path):
    path = tmp_path / "t.toml"
    tuned.save(path, [ENTRY])
    path.write_text(path.read_text().replace('date = "', 'later = { a = 1 }\ndate = "') + "\n[more]\nx = 1\n")
    assert tuned.load(path) == (replace(ENTRY, origin="own"),)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text[: len(text) // 2], "no file of stored shapes"),
        (lambda text: "", "does not begin with schema = 1"),
        (lambda text: text.replace("schema = 1", "schema = 2"), "schema 2, and this version reads up to 1: upgrade clmembench"),
        (lambda text: text.replace("schema = 1", "schema = 0"), "does not begin with schema"),
        (lambda text: text.replace("schema = 1", 'schema = "1"'), "does not begin with schema"),
        (lambda text: text.replace("version = 1", 'version = "1"'), "tuned.0.version"),
        (lambda text: text.replace("width = 4", "width = [4]"), "tuned.0.tuning.width"),
        (lambda text: text.replace("width = 4", "width = nan"), "not JSON compliant"),
        (lambda text: text.replace('"2026-11-22"', "2026-11-22"), "not JSON serializable"),
        (lambda text: text.replace('"2026-11-22"', '"yesterday!"'), "Invalid isoformat"),
        (lambda text: text.replace('"2026-11-22"', '"long ago"'), "is no date such as"),
        (lambda text: text.replace("gain = 1.25", "gain = 0.0"), "gain"),
        (lambda text: text.replace("compute_units = 8", "compute_units = -8"), "compute_units"),
        (lambda text: text.replace('benchmark = "shaped"\n', ""), "tuned.0.benchmark"),
        (lambda text: text + "# " + "x" * tuned.MAX_TUNING_FILE_BYTES, "over 4194304 bytes"),
        (lambda text: "[" * 5000, "no file of stored shapes"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path, damage, says):
    path = tmp_path / "t.toml"
    tuned.save(path, [ENTRY])
    path.write_text(damage(path.read_text()))
    with pytest.raises(tuned.TuningError, match=r"t\.toml") as caught:
        tuned.load(path)
    assert says in str(caught.value)
    with pytest.raises(tuned.TuningError, match=r"t\.toml"):
        tuned.save(path, [ENTRY])  # and what is in it is not lost


def test_bytes_that_are_no_text_and_a_folder_are_no_files(tmp_path):
    (tmp_path / "t.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(tuned.TuningError, match="no file of stored shapes"):
        tuned.load(tmp_path / "t.toml")
    with pytest.raises(tuned.TuningError, match="cannot read"):
        tuned.load(tmp_path)
    with pytest.raises(tuned.TuningError, match=r"cannot write .*: choose another place with -o"):
        tuned.make_writable(tmp_path)


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "t.toml"
    tuned.save(path, [ENTRY])
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(tuned.TuningError, match="No space left on device"):
        tuned.save(path, [replace(ENTRY, params={})])
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["t.toml"]


def test_a_link_stays_one_and_folders_are_made(tmp_path):
    tuned.make_writable(tmp_path / "a" / "b" / "t.toml")
    (tmp_path / "link.toml").symlink_to(tmp_path / "a" / "b" / "t.toml")
    tuned.save(tmp_path / "link.toml", [ENTRY])
    assert (tmp_path / "link.toml").is_symlink() and tuned.load(tmp_path / "a" / "b" / "t.toml")


# ---- which of them are in use --------------------------------------------------------------------------------------------


def test_a_family_is_a_spec_sheets_hardware_else_a_cpus_identity_else_a_name():
    assert tuned.device_family(device("NVIDIA H200")) == ("h200", "Test Platform")
    assert tuned.device_family(device("Some CPU", kind="cpu", cpu_id="AuthenticAMD-25-17")) == ("epyc-genoa", "Test Platform")
    assert tuned.device_family(device("Some CPU", kind="cpu", cpu_id="Nobody-1-1")) == ("Nobody-1-1", "Test Platform")
    assert tuned.device_family(device("Some CPU", kind="cpu")) == ("Some CPU", "Test Platform")
    assert tuned.device_family(device("Some GPU", cpu_id="Nobody-1-1"))[0] == "Some GPU"


def test_the_users_own_come_first_and_others_families_and_versions_are_left_out(tmp_path, monkeypatch):
    own, shipped = tmp_path / "home" / "clmembench" / "tuning.toml", tmp_path / "shipped.toml"
    tuned.make_writable(own)
    tuned.save(
        own, [ENTRY, replace(ENTRY, platform="Another"), replace(ENTRY, device="Another"), replace(ENTRY, benchmark="x")]
    )
    tuned.save(shipped, [replace(ENTRY, date="2026-01-01"), replace(ENTRY, params={}, compute_units=4)])
    monkeypatch.setattr(tuned, "tuning_paths", lambda: [shipped])
    found, complaints = tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped])
    assert [(t.origin, t.compute_units) for t in found] == [("own", 8), ("shipped", 4), ("shipped", 8)]
    assert complaints == ()
    assert tuned.stored_configurations(FAKE_DEVICE_INFO, [replace(shaped, version=2)])[0] == ()


def test_a_damaged_shipped_file_is_gone_on_without_and_a_damaged_own_one_is_not(tmp_path, monkeypatch):
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    tuned.save(good, [ENTRY])
    bad.write_text("schema = ")
    monkeypatch.setattr(tuned, "tuning_paths", lambda: [bad, good])
    found, complaints = tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped])
    assert len(found) == 1 and len(complaints) == 1 and "bad.toml" in complaints[0] and "reinstall" in complaints[0]
    with pytest.raises(tuned.TuningError, match=r"bad\.toml"):
        tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped], bad)


def test_a_file_that_was_named_must_be_there(tmp_path, monkeypatch):
    assert tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped]) == ((), ())
    with pytest.raises(tuned.TuningError, match=r"cannot read .*none\.toml"):
        tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped], tmp_path / "none.toml")
    monkeypatch.setenv(tuned.TUNING_VARIABLE, str(tmp_path / "variable.toml"))
    with pytest.raises(tuned.TuningError, match=r"variable\.toml"):
        tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped])
    tuned.save(tmp_path / "variable.toml", [ENTRY])
    assert len(tuned.stored_configurations(FAKE_DEVICE_INFO, [shaped])[0]) == 1


def test_what_is_shipped_is_whole_and_of_benchmarks_and_axes_that_there_are():
    known = discovered()
    for path in resources.tuning_paths():
        for entry in tuned.load(path):
            axes = known[entry.benchmark].axes
            assert {name for name, axis in axes.items() if axis.tuning} == entry.tuning.keys()
            assert entry.params.keys() <= axes.keys() - entry.tuning.keys()


def test_a_runs_header_keeps_the_shapes_and_is_refused_where_one_is_over_a_limit(tmp_path):
    write_run(tmp_path / "r.jsonl", (), header(tuning=(ENTRY,)))
    assert jsonl.read(tmp_path / "r.jsonl").header.tuning == (ENTRY,)
    for number, bad in enumerate((replace(ENTRY, gain=-1.0), replace(ENTRY, date="1"), replace(ENTRY, device="x" * 10_000))):
        write_run(tmp_path / f"{number}.jsonl", (), header(tuning=(ENTRY, bad)))
        with pytest.raises(jsonl.ResultsError, match="the header is damaged"):
            jsonl.read(tmp_path / f"{number}.jsonl")


# ---- which suits a point -------------------------------------------------------------------------------------------------

POINT = {"op": "copy", "n": 1024}


def test_the_entry_that_names_most_of_a_point_is_taken_and_the_users_own_before_a_shipped_one():
    some = replace(ENTRY, params={"op": "copy"}, origin="shipped")
    full, own = replace(ENTRY, origin="shipped"), replace(ENTRY, params={}, origin="own")
    assert tuned.stored_for([some, full], FAKE_DEVICE_INFO, "shaped", POINT, always) is full
    assert tuned.stored_for([some, full, own], FAKE_DEVICE_INFO, "shaped", POINT, always) is own
    assert tuned.stored_for([some, full], FAKE_DEVICE_INFO, "shaped", {**POINT, "n": 2}, always) is some
    assert tuned.stored_for([some, full], FAKE_DEVICE_INFO, "other", POINT, always) is None


def test_what_was_found_on_other_compute_units_or_does_not_fit_is_not_taken():
    assert tuned.stored_for([ENTRY], replace(FAKE_DEVICE_INFO, compute_units=4), "shaped", POINT, always) is None
    assert tuned.stored_for([ENTRY], replace(FAKE_DEVICE_INFO, work_groups=8), "shaped", POINT, always) is None
    assert tuned.stored_for([ENTRY], FAKE_DEVICE_INFO, "shaped", POINT, lambda shape: shape["width"] != 4) is None


def test_the_nearest_differs_in_numbers_alone_by_the_least_factor():
    small, large = replace(ENTRY, params={"op": "copy", "n": 100}), replace(ENTRY, params={"op": "copy", "n": 1600})
    word = replace(ENTRY, params={"op": "sum", "n": 300})
    entries = [word, small, large]
    assert tuned.nearest_stored(entries, "shaped", {"op": "copy", "n": 300}, always) is small
    assert tuned.nearest_stored(entries, "shaped", {"op": "copy", "n": 500}, always) is large
    assert tuned.nearest_stored(entries, "shaped", {"op": "copy", "n": 500}, lambda shape: False) is None
    assert tuned.nearest_stored(entries, "shaped", {"op": "triad", "n": 300}, always) is None
    assert tuned.nearest_stored(entries, "other", {"op": "copy", "n": 300}, always) is None
    # what has no logarithm, or is a word here and a number there, is no size
    for odd in (0, -4, "big", True):
        assert tuned.nearest_stored([small], "shaped", {"op": "copy", "n": odd}, always) is None
    assert tuned.nearest_stored([small], "shaped", {"op": "copy"}, always) is None


def test_what_is_said_of_a_shape_names_the_driver_where_it_was_another():
    shipped = replace(ENTRY, origin="shipped")
    assert tuned.provenance_note(shipped, FAKE_DEVICE_INFO) == "tuned: shipped 2026-11-22"
    assert (
        tuned.provenance_note(shipped, replace(FAKE_DEVICE_INFO, driver="2.0")) == "tuned: shipped 2026-11-22, with driver 1.0"
    )
