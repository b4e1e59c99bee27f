import codecs
import json
import os
import tracemalloc
import zlib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench.analysis.derive import derive
from clmembench.model import Cause, ClockReading, Metric, Placement, Record, Series, Trace
from clmembench.results.jsonl import SCHEMA, ResultsError, Writer, decode_record, encode, mismatch, read
from tests.builders import CHASE, STREAM, clock, device, header, record, series, slope
from tests.cases import each

GOLDEN = Path(__file__).parents[1] / "golden"
STEPS_OF_CUTS = (7, pytest.param(1, marks=pytest.mark.slow))  # bytes

values = st.text(max_size=8) | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
times = st.lists(st.integers(0, 2**60), max_size=4).map(tuple)
traces = st.lists(st.integers(0, 255), max_size=4).map(lambda row: Trace.pack("ticks", [np.array(row, "u1")]))


@st.composite
def all_series(draw):
    """By all clocks, each with as many samples; a driver may not stamp, and stamps may be in no order."""
    samples = draw(st.integers(0, 4))
    host, cpu = (st.lists(st.integers(0, 2**60), min_size=samples, max_size=samples).map(tuple) for _ in range(2))
    stamps = st.none() | host
    return Series(
        *(draw(st.integers(0, 2**62)) for _ in range(3)), draw(st.sampled_from(["device", "host", "queue"])),
        draw(st.integers(1, 99)), draw(times), draw(host), draw(stamps), draw(stamps), draw(cpu),
        reads=draw(st.dictionaries(st.text(max_size=4), traces, max_size=2)),
    )  # fmt: skip


positive = st.floats(0, 1e12)
clocks = st.builds(
    ClockReading,
    st.integers(1, 2**20),
    st.floats(1e3, 1e12),
    st.floats(1e3, 1e12),
    st.none() | st.floats(0, 0.1),
    st.text(max_size=9),
)
records = st.builds(
    Record,
    st.text(max_size=12),
    st.integers(0, 99),
    st.dictionaries(st.text(max_size=8), values, max_size=3),
    st.builds(Placement, st.none() | st.integers(1, 256), st.lists(st.integers(0, 512), max_size=3).map(tuple)),
    st.integers(0, 99),
    st.sampled_from(["ok", "suspect", "wrong", "skipped", "failed", "timeout"]),
    st.text(max_size=20),
    st.sampled_from(["measure", "tune"]),
    st.lists(all_series(), max_size=2).map(tuple),
    st.none() | clocks,
    notes=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    log=st.text(max_size=20),
    seconds=positive,
    cause=st.sampled_from([cause for cause in Cause if cause]),
)

A_RECORD = record("stream", {"op": "copy"}, series([100, 101, 99, 100, 102, 98], nbytes=1000))
ANOTHER = record("stream", {"op": "triad"}, status="skipped", reason="no doubles", cause=Cause.MISSING_FEATURE)


def written(path, *some, head=None):
    with Writer(path, head or header()) as writer:
        for one in some:
            writer.write(one)
    return path


@given(records)
def test_any_record_comes_back_as_it_went(one):
    assert decode_record(encode(one)) == one


@given(records)
def test_a_record_is_one_line(one):
    assert len(encode(one).encode().splitlines()) == 1


@given(values)
def test_a_parameter_keeps_its_type(value):
    (back,) = decode_record(encode(record("x", {"p": value}))).params.values()
    assert (type(back), back) == (type(value), value)


def test_text_that_is_no_unicode_does_not_lose_the_record(tmp_path):
    # what surrogateescape makes of a byte that is no UTF-8, in a compiler's log or a file name in argv
    torn = replace(A_RECORD, log="error: \udcff")
    path = written(tmp_path / "r.jsonl", torn, head=header(argv=("run", "-o", "\udcff.jsonl")))
    assert len(read(path).records) == 1


def test_header_and_records_come_back(tmp_path):
    metric = Metric("read", "GB/s", "nbytes", "rate", "higher", only={"op": ("read", 1, 2.5, True)})
    head = header(
        device("A device", uuid="abc", features=frozenset({"a", "b"}), array_bytes=1 << 30),
        {"stream": replace(STREAM, metrics=(metric,), tuning=("wg",)), "pchase": CHASE},
        packages={"numpy": "2.0"}, environment={"POCL_DEVICES": "cpu"}, sensors={"temperature_c": 41.5, "power_w": None},
    )  # fmt: skip
    some = (A_RECORD, ANOTHER, slope({"array_bytes": 4096}, [10.0] * 6, core_clock=clock(2.0)))
    back = read(written(tmp_path / "deep" / "er" / "r.jsonl", *some, head=head))
    assert (back.header, back.records, back.notes) == (head, some, ())
    marked = tmp_path / "marked.jsonl"  # by an editor, as UTF-8
    marked.write_bytes(codecs.BOM_UTF8 + (tmp_path / "deep" / "er" / "r.jsonl").read_bytes())
    assert (read(marked).header, read(marked).records) == (head, some)


@pytest.mark.parametrize(
    ("variable", "same"),
    [("POCL_CACHE_DIR", True), ("CUDA_CACHE_PATH", True), ("POCL_DEVICES", False), ("OCL_ICD_VENDORS", False)],
)
def test_a_run_goes_on_with_another_cache_folder_as_its_error_says(variable, same):
    then, now = header(environment={variable: "/full"}), header(environment={variable: "/other"})
    assert (mismatch(then, now) is None) == (mismatch(then, header(environment={})) is None) == same


def test_each_record_is_on_disk_before_the_next(tmp_path):
    path = tmp_path / "r.jsonl"
    with Writer(path, header()) as writer:
        assert read(path).records == ()
        writer.write(A_RECORD)
        assert read(path).records == (A_RECORD,)


def cuts(whole, step):
    """Sizes in bytes to which a file is cut: three bytes around every end of a line, and each multiple of `step`."""
    near = {end + shift for end, byte in enumerate(whole) if byte == ord("\n") for shift in range(-3, 4)}
    return sorted(size for size in {*near, *range(0, len(whole), step), len(whole)} if size <= len(whole))


@pytest.mark.parametrize("step", STEPS_OF_CUTS)
def test_a_cut_at_any_byte_leaves_every_whole_line(tmp_path, step):
    path = written(tmp_path / "r.jsonl", A_RECORD, ANOTHER)
    whole = path.read_bytes()
    ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
    cut = tmp_path / "cut.jsonl"
    for size in cuts(whole, step):
        cut.write_bytes(whole[:size])
        if size < ends[0]:
            with pytest.raises(ResultsError):
                read(cut)
            continue
        found = read(cut)
        kept = [A_RECORD, ANOTHER][: sum(size >= end for end in ends[1:])]  # its newline alone may be missing
        assert list(found.records) == kept
        torn = size not in [*ends, *(end + 1 for end in ends)]
        assert [("torn" in note, f"{cut}:{len(kept) + 2}:" in note) for note in found.notes] == [(True, True)] * torn


def test_a_bad_line_is_noted_with_its_place_and_the_rest_is_read(tmp_path):
    path = written(tmp_path / "r.jsonl", A_RECORD, ANOTHER)
    lines = path.read_text().splitlines()
    wrong_type = json.dumps({**json.loads(lines[1]), "process": "first"})
    path.write_text("\n".join([lines[0], lines[1], "{not json", wrong_type, "", "[]", lines[2]]) + "\n")
    found = read(path)
    assert found.records == (A_RECORD, ANOTHER)
    assert [note.startswith(f"{path}:{n}: no record") for n, note in zip((3, 4, 5, 6), found.notes, strict=True)] == [True] * 4
    assert "process" in found.notes[1]


def test_bytes_that_are_no_text_cost_one_line(tmp_path):
    path = written(tmp_path / "r.jsonl", A_RECORD)
    path.write_bytes(path.read_bytes() + b"\xff\xfe\x00\n" + encode(ANOTHER).encode() + b"\n")
    found = read(path)
    assert found.records == (A_RECORD, ANOTHER)
    assert len(found.notes) == 1


def test_a_deeply_nested_line_costs_one_line(tmp_path):
    path = written(tmp_path / "r.jsonl", A_RECORD)
    path.write_bytes(path.read_bytes() + b"[" * 100_000 + b"\n" + encode(ANOTHER).encode() + b"\n")
    assert read(path).records == (A_RECORD, ANOTHER)


def test_unknown_fields_are_ignored(tmp_path):
    def grown(value):
        if isinstance(value, dict):
            value = {k: grown(v) if k not in ("params", "reads") else v for k, v in value.items()}
            return {**value, "future": {"x": [1]}} if value else value
        return [grown(v) for v in value] if isinstance(value, list) else value

    path = tmp_path / "r.jsonl"
    head = {**json.loads(encode(header())), "future": 1}
    head["device"]["future"] = 1
    head["benchmarks"]["stream"]["future"] = 1
    path.write_text("".join(json.dumps(x) + "\n" for x in (head, grown(json.loads(encode(A_RECORD))))))
    found = read(path)
    assert (found.header, found.records, found.notes) == (header(), (A_RECORD,), ())


@pytest.mark.parametrize("schema", [SCHEMA + 1, 999, "2", None])
def test_another_schema_is_refused_with_the_remedy(tmp_path, schema):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"schema": schema, "all": "else", "is": "different"}) + "\n")
    with pytest.raises(ResultsError, match=r"r\.jsonl.*upgrade clmembench"):
        read(path)


@each("first", [b"", b"\n", b"{}", b"[]", b"1", b"null", b"\xff\xfe", b"not json", b"[" * 100_000])
def test_a_file_of_something_else_is_refused(tmp_path, first):
    path = tmp_path / "r.jsonl"
    path.write_bytes(first)
    with pytest.raises(ResultsError, match=r"r\.jsonl is no results file"):
        read(path)


def test_a_damaged_header_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**json.loads(encode(header())), "device": 5}) + "\n")
    with pytest.raises(ResultsError, match=r"r\.jsonl:1: .*device"):
        read(path)


def test_no_file_is_a_results_error(tmp_path):
    with pytest.raises(ResultsError, match=r"cannot read .*none\.jsonl"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(ResultsError, match="cannot read"):
        read(tmp_path)


def test_a_file_that_exists_is_kept_unless_asked(tmp_path):
    path = written(tmp_path / "r.jsonl", A_RECORD)
    before = path.read_bytes()
    with pytest.raises(ResultsError, match=r"exists.*--overwrite"):
        Writer(path, header())
    assert path.read_bytes() == before
    with Writer(path, header(), overwrite=True) as writer:
        writer.write(ANOTHER)
    assert read(path).records == (ANOTHER,)


@pytest.mark.parametrize("below", ["r.jsonl", "sub/r.jsonl"])
def test_a_place_that_cannot_be_written_names_the_remedy(tmp_path, below):
    (tmp_path / "file").write_text("a regular file")
    with pytest.raises(ResultsError, match=r"cannot write.*-o"):
        Writer(tmp_path / "file" / below, header())


def test_a_folder_as_the_file_is_a_results_error(tmp_path):
    with pytest.raises(ResultsError):
        Writer(tmp_path, header(), overwrite=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_disk_without_space_for_the_header_leaves_nothing_to_resume():
    with pytest.raises(ResultsError, match=r"nothing was measured: free space, or choose another place with -o$"):
        Writer(Path("/dev/full"), header(), overwrite=True)


@given(st.sampled_from(["u1", "i4", "u8", "f8"]), st.integers(1, 4), st.integers(0, 5000), st.booleans())
def test_a_trace_unpacks_to_what_was_packed(dtype, samples, count, noisy):
    rng = np.random.default_rng(count)
    rows = [rng.integers(0, 100, count).astype(dtype) if noisy else np.zeros(count, dtype) for _ in range(samples)]
    packed = Trace.pack("ticks", rows)
    back = packed.unpack()
    assert (packed.samples, packed.count, packed.nbytes) == (samples, count, samples * count * np.dtype(dtype).itemsize)
    assert back.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(back, np.stack(rows))


HONEST = Trace.pack("ticks", [np.arange(100, dtype="u4")] * 3)


@each(
    "lie",
    [
        {"nbytes": 1199}, {"count": 101}, {"samples": 2}, {"dtype": "u8"}, {"samples": 2, "nbytes": 800},
        {"samples": 4, "nbytes": 1600}, {"samples": -3, "count": -100}, {"samples": 0, "nbytes": 0},
        {"samples": -3, "nbytes": -1200},
        {"data": HONEST.data[:40]}, {"data": ""}, {"data": "!!!"}, {"data": b64encode(b"no zlib").decode()},
        {"dtype": "no such type"}, {"dtype": "O"},
    ],
)  # fmt: skip
def test_a_trace_that_is_not_what_it_says_is_refused(lie):
    with pytest.raises(ValueError):
        replace(HONEST, **lie).unpack()


def test_a_trace_over_the_limit_is_refused():
    with pytest.raises(ValueError, match="limit"):
        HONEST.unpack(most=1199)
    assert HONEST.unpack(most=1200).shape == (3, 100)


@pytest.mark.parametrize("stated", [0, 8])
def test_a_trace_that_hides_a_bomb_does_not_fill_the_memory(stated):
    bomb = Trace("ticks", "u1", 1, stated, stated, b64encode(zlib.compress(bytes(64 << 20))).decode())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            bomb.unpack()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_traces_survive_the_file(tmp_path):
    one = replace(A_RECORD, series=(replace(A_RECORD.series[0], reads={"ticks": HONEST}),))
    (back,) = read(written(tmp_path / "r.jsonl", one)).records
    np.testing.assert_array_equal(back.series[0].reads["ticks"].unpack()[2], np.arange(100))


def test_a_file_of_schema_1_still_reads_to_the_same_medians():
    found = read(GOLDEN / "schema1.jsonl")
    assert (found.header.schema, found.notes, len(found.records)) == (1, (), 5)
    assert found.header.device.features == frozenset({"fp64", "images"})
    assert [(d.benchmark, d.params, d.status, d.median, d.ci_low, d.ci_high) for d in derive(found)] == [
        ("stream", {"op": "copy", "array_bytes": 1048576}, "ok", 20.0, 16.0, 25.0),
        ("stream", {"op": "triad", "array_bytes": 1048576}, "skipped", None, None, None),
        ("pchase", {"array_bytes": 4096}, "ok", 15.0, 10.0, 20.0),
    ]
    assert [d.cycles for d in derive(found)] == [None, None, 20.0]
    assert found.records[1].series[0].reads["ticks"].unpack().tolist() == [[1, 2, 3]]


def test_there_is_a_golden_file_of_every_schema():
    assert {p.name for p in GOLDEN.glob("*.jsonl")} == {
        *(f"schema{n}.jsonl" for n in range(1, SCHEMA + 1)),
        "schema1-cause.jsonl",
    }


def test_a_run_that_was_cut_off_goes_on_after_its_last_whole_record(tmp_path):
    path = tmp_path / "r.jsonl"
    with Writer(path, header()) as writer:
        writer.write(record(params={"op": "copy"}))
        writer.write(record(params={"op": "add"}))
    path.write_bytes(path.read_bytes()[:-20])
    with Writer.going_on(path) as writer:
        writer.write(record(params={"op": "triad"}))
    found = read(path)
    assert [r.params["op"] for r in found.records] == ["copy", "triad"]
    assert found.notes == () and found.header == header()


@pytest.mark.parametrize("step", STEPS_OF_CUTS)
def test_a_run_cut_off_at_any_byte_goes_on_with_every_whole_line_as_it_was(tmp_path, monkeypatch, step):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # it is of the disk, and slow
    path, new = tmp_path / "r.jsonl", record(params={"op": "triad"})
    whole = written(tmp_path / "whole.jsonl", A_RECORD, ANOTHER).read_bytes()
    first = whole.index(b"\n")
    for size in cuts(whole, step):
        path.write_bytes(whole[:size])
        if size < first:  # no whole header: nothing to go on with, and nothing is touched
            with pytest.raises(ResultsError):
                Writer.going_on(path)
            assert path.read_bytes() == whole[:size]
            continue
        with Writer.going_on(path) as writer:
            writer.write(new)
        kept = whole[: whole.rindex(b"\n", 0, size + 1) + 1] if b"\n" in whole[first : size + 1] else b""
        assert path.read_bytes() == kept + encode(new).encode() + b"\n", size
        assert read(path, strict=True).records[-1] == new


def test_going_on_with_what_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(ResultsError, match="cannot read"):
        Writer.going_on(tmp_path / "none.jsonl")


@pytest.mark.parametrize("records", [0, 2])
def test_a_line_that_lacks_but_its_newline_is_kept(tmp_path, records):
    path = tmp_path / "r.jsonl"
    with Writer(path, header()) as writer:
        for n in range(records):
            writer.write(record(params={"n": n}))
    path.write_bytes(path.read_bytes()[:-1])
    with Writer.going_on(path) as writer:
        writer.write(record(params={"n": 7}))
    assert [r.params["n"] for r in read(path).records] == [*range(records), 7]
