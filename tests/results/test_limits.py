"""A results file over any limit costs one line, or is refused: nothing that is read is larger, deeper or stranger than said."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import threading
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench.cli.stored_runs import load
from clmembench.model import Cause, Trace
from clmembench.results import jsonl, limits, line_limits, record_lines
from clmembench.results.jsonl import MAX_BAD_LINE_NOTES, ResultsError, Writer, decode_record, encode, read
from clmembench.results.line_limits import check_line
from tests.builders import CHASE, STREAM, clock, device, header, record, series
from tests.cases import each

GOOD = record("stream", {"op": "copy"}, series([100, 101, 99, 100, 102, 98], nbytes=1000), core_clock=clock(2.0))
TRACE = Trace.pack("ticks", [np.arange(100, dtype="u4")] * 3)
TRACED = replace(GOOD, series=(replace(GOOD.series[0], reads={"ticks": TRACE}),))
SIX = [100] * 6


def changed(where: str, value: Any, one: Any = GOOD) -> str:
    """The line of a record with one field, such as "series.0.host_ns", set to a value."""
    line = json.loads(encode(one))
    *path, last = where.split(".")
    inside = line
    for key in path:
        inside = inside[int(key) if isinstance(inside, list) else key]
    inside[int(last) if isinstance(inside, list) else last] = value
    return json.dumps(line)


def test_the_record_that_is_changed_is_good_itself():
    assert decode_record(changed("process", 0)) == GOOD
    assert decode_record(changed("process", 0, TRACED)) == TRACED


@each(
    ("where", "value"),
    [
        # of another type: nothing is made to fit
        ("process", "0"), ("process", 0.0), ("process", True), ("process", None), ("version", "1"), ("benchmark", 5),
        ("checked", 1), ("checked", "true"), ("status", "fine"), ("status", "OK"), ("role", None), ("reason", None),
        ("series", {}), ("series.0", None), ("series.0.passes", 1.0), ("series.0.host_ns", ["100"] * 6),
        ("series.0.clock", "mine"),
        ("series.0.host_ns", [1.5] * 6), ("series.0.host_ns", [[1]] * 6), ("series.0.host_ns", 5), ("notes", "a text"),
        ("params", []), ("params", {"op": ["copy"]}), ("params", {"op": {"a": 1}}), ("params", {"op": None}),
        ("core_clock", 5), ("core_clock.before_ns", "1"), ("place", None), ("place.compute_units", "2"),
        # out of range
        ("process", -1), ("process", limits.MAX_PROCESSES + 1), ("version", -1), ("version", 10**30), ("seconds", -0.1),
        ("series.0.passes", 0), ("series.0.passes", -1), ("series.0.nbytes", -1), ("series.0.flops", 2**63),
        ("series.0.ops", -5),
        ("series.0.busy", -1), ("series.0.host_ns", [-1] * 6), ("series.0.host_ns", [2**63] * 6), ("series.0.cpu_ns", [-1] * 6),
        ("series.0.host_ns", [2**62] * 6), ("series.0.device_ns", [100, 100, 100, 100, 100, -1]),
        ("series.0.warmups_ns", [-(2**65)]),
        ("series.0.queue_ns", [-(2**63)] * 6), ("series.0.device_ns", [100] * 5), ("series.0.queue_ns", [1] * 7),
        ("series.0.cpu_ns", []), ("place.compute_units", 0), ("place.cores", -1), ("place.cpus", [-1]), ("place.cpus", [2**70]),
        ("core_clock.cycles_per_op", 1e12), ("core_clock.before_ns", -1e19), ("core_clock.ops", -1), ("params", {"n": 2**65}),
        ("params", {"n": -(2**64)}),
        ("core_clock", {**json.loads(encode(GOOD))["core_clock"], "before_ns": 1e-300, "after_ns": 1e-300}),
        # too many, too long
        ("benchmark", "x" * (limits.MAX_NAME_LETTERS + 1)), ("reason", "x" * (limits.MAX_TEXT_LETTERS + 1)),
        ("log", "x" * (limits.MAX_LOG_LETTERS + 1)),
        ("notes", ["x" * (limits.MAX_TEXT_LETTERS + 1)]), ("notes", [""] * (limits.MAX_AXIS_VALUES + 1)),
        ("params", {"x" * (limits.MAX_NAME_LETTERS + 1): 1}),
        ("params", {"op": "x" * (limits.MAX_TEXT_LETTERS + 1)}),
        ("params", {str(n): n for n in range(limits.MAX_HEADER_ENTRIES + 1)}),
        ("series", json.loads(encode(GOOD))["series"] * (limits.MAX_SERIES + 1)),
        ("place.cpus", [0] * (limits.MAX_HEADER_ENTRIES + 1)),
        ("series.0.warmups_ns", [0] * (limits.MAX_SAMPLES + 1)), ("place.placement", "x" * (limits.MAX_NAME_LETTERS + 1)),
    ],
)  # fmt: skip
def test_a_record_that_is_not_of_its_schema_or_over_a_limit_is_refused(where, value):
    with pytest.raises(ValueError):
        decode_record(changed(where, value))


@each("name", ["process", "seconds", "core_clock.before_ns"])
@each("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_no_number_is_infinite_or_none(name, number):
    with pytest.raises(ValueError):
        decode_record(changed(name, "@").replace('"@"', number))
    with pytest.raises(ValueError):
        decode_record(changed("params", {"op": "@"}).replace('"@"', number))
    with pytest.raises(ValueError):
        decode_record(changed("series.0.host_ns", ["@"] * 6).replace('"@"', number))


def test_stamps_in_no_order_are_a_drivers_word_in_a_suspect_record_only():
    negative = {"device_ns": (-1,) * 6, "queue_ns": (-1,) * 6}
    odd = replace(GOOD, status="suspect", cause=Cause.GATE, series=(replace(GOOD.series[0], **negative),))
    assert decode_record(encode(odd)) == odd
    with pytest.raises(ValueError, match="below 0"):
        decode_record(encode(replace(odd, status="ok")))
    queued = replace(GOOD, series=(replace(GOOD.series[0], queue_ns=(-1,) * 6),))  # not what the record is about
    assert decode_record(encode(queued)) == queued


TWINS = [
    '{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"x":{"b":[1,2],"b":[1,2]}}]', '{"[1]":1,"[\\u0031]":2}',
    '{"a":[1],"b":2,"a":[3]}',
]  # fmt: skip


@pytest.mark.parametrize("line", TWINS)
def test_a_key_that_is_there_twice_is_refused(line):
    with pytest.raises(ValueError, match="is there twice"):
        check_line(line.encode())


def test_a_record_with_two_statuses_is_refused():
    with pytest.raises(ValueError, match="'status' is there twice"):
        decode_record(encode(GOOD)[:-1] + ',"status":"failed"}')


def nested(depth: int, of: str) -> str:
    return {"lists": "[" * depth + "]" * depth, "objects": '{"a":' * depth + "1" + "}" * depth}[of]


@pytest.mark.parametrize("of", ["lists", "objects"])
def test_nesting_is_limited(of):
    check_line(nested(line_limits.MAX_NESTING_DEPTH, of).encode())
    check_line(
        (f'["{"[" * 100}","\\"{"{" * 100}",' + nested(line_limits.MAX_NESTING_DEPTH - 1, of) + "]").encode()
    )  # brackets in texts are none
    check_line(("[" + "[],{}," * 1000 + "1]").encode())
    for depth in (line_limits.MAX_NESTING_DEPTH + 1, 10_000, 1_000_000):
        with pytest.raises(ValueError, match="deep"):
            check_line(nested(depth, of).encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_any_json_without_twins_is_let_through(value):
    check_line(json.dumps(value).encode())
    check_line(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


@given(st.binary() | st.text('{}[]",:\\1ae-').map(str.encode))
def test_any_line_is_let_through_or_a_value_error(line):
    try:
        check_line(line)
        decode_record(line)
    except ValueError:
        return
    pytest.fail("a random line is a record")


OVER = {
    "bytes": b'{"a":"' + b"x" * (8 << 20) + b'"}',
    "objects": b'{"a":[' + b"{}," * 100_000 + b"{}]}",
    "objects with keys": b'{"a":[' + b'{"b":1},' * 100_000 + b"{}]}",
    "lists": b'{"a":[' + b"[]," * 100_000 + b"[]]}",
    "keys": b"{" + b",".join(b'"%d":1' % n for n in range(300_000)) + b"}",
    "texts": b'{"a":[' + b'"",' * 1_000_000 + b"1]}",
    "numbers": b'{"a":[' + b"1," * 2_000_000 + b"1]}",
    "quotes without an end": b'"\\"' * 1_000_000,
}


@each("what", OVER)
def test_a_line_that_would_take_a_hundred_times_its_size_is_refused_before_it_is_parsed(monkeypatch, what):
    def parsed(kind):
        pytest.fail("it was parsed")

    monkeypatch.setattr(record_lines, "_adapter", parsed)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="over "):
            decode_record(OVER[what])
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


def test_a_header_of_many_objects_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    path.write_text(encode(header())[:-1] + ',"a":[' + "{}," * line_limits.MAX_LINE_BRACKETS + "{}]}\n")
    monkeypatch.setattr(record_lines, "_adapter", lambda kind: pytest.fail("it was parsed"))
    with pytest.raises(ResultsError, match="the header is damaged: over "):
        read(path)


def test_brackets_and_commas_in_a_text_count_for_nothing():
    log = "[{,}]" * (limits.MAX_LOG_LETTERS // 10)
    one = replace(GOOD, log=log, notes=("{[,:",) * 1000)
    assert decode_record(encode(one)) == one


def test_a_record_too_long_for_a_line_is_written_as_one_that_failed_and_a_log_is_cut_first(tmp_path):
    path = tmp_path / "r.jsonl"
    logged = replace(GOOD, log="\x01" * limits.MAX_LOG_LETTERS)  # six bytes each, as JSON writes it
    traced = replace(GOOD, notes=("\x01" * limits.MAX_TEXT_LETTERS,) * 2)
    with Writer(path, header()) as writer:
        for one in (GOOD, logged, traced):
            writer.write(one)
    good, cut, failed = read(path, strict=True).records
    assert good == GOOD
    assert cut == replace(logged, log="\x01" * record_lines.MAX_CUT_LOG_LETTERS)
    assert failed.status == "failed" and failed.series == () and failed.params == GOOD.params
    assert "its record takes 12 MiB, over the 8 MiB of a line" in failed.reason


# ---- traces ---------------------------------------------------------------------------------------------------------------


@each(
    "lie",
    [
        {"nbytes": 1199}, {"count": 101}, {"samples": 2}, {"dtype": "uint64"}, {"samples": 4, "nbytes": 1600},
        {"samples": -3, "count": -100}, {"data": TRACE.data[:40]}, {"data": ""}, {"data": "!!!"}, {"dtype": "O"},
        {"data": base64.b64encode(b"no zlib").decode()},
        {"dtype": "u4,O"}, {"dtype": "(2,3)f8"}, {"dtype": "object"}, {"samples": 2**40, "count": 2**40, "nbytes": 2**82},
        {"unit": "x" * (limits.MAX_NAME_LETTERS + 1)}, {"samples": "3"}, {"data": 5},
    ],
)  # fmt: skip
def test_a_trace_that_is_not_what_it_says_costs_its_record(lie):
    line = json.loads(encode(TRACED))
    line["series"][0]["reads"]["ticks"] |= lie
    with pytest.raises(ValueError):
        decode_record(json.dumps(line))


@pytest.mark.parametrize("stated", [8, 32 << 20])
def test_a_trace_that_hides_a_bomb_is_refused_in_little_memory(stated):
    packed = base64.b64encode(zlib.compress(bytes(stated + (64 << 20)))).decode()
    bomb = replace(TRACED, series=(replace(GOOD.series[0], reads={"t": Trace("t", "uint8", 1, stated, stated, packed)}),))
    line = encode(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="unpack"):
            decode_record(line)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_traces_are_limited_in_all(monkeypatch):
    monkeypatch.setattr(limits, "MAX_TRACE_BYTES", 1 << 16)
    half = Trace.pack("t", [np.zeros(limits.MAX_TRACE_BYTES // 2 + 8, "u1")])
    both = replace(GOOD, series=(replace(GOOD.series[0], reads={"a": half, "b": half}),))
    assert decode_record(encode(replace(GOOD, series=(replace(GOOD.series[0], reads={"a": half}),))))
    with pytest.raises(ValueError, match=r"reads\.b"):
        decode_record(encode(both))
    many = replace(GOOD, series=(replace(GOOD.series[0], reads={str(n): TRACE for n in range(limits.MAX_TRACES + 1)}),))
    with pytest.raises(ValueError, match="reads"):
        decode_record(encode(many))


# ---- headers --------------------------------------------------------------------------------------------------------------


def _with_scale_of_0(metric):
    """A metric as no benchmark can declare it, but a file may hold it."""
    bad = replace(metric)
    object.__setattr__(bad, "scale", 0.0)
    return bad


BAD_HEADERS = {
    "no metric": header(cards={"stream": replace(STREAM, metrics=())}),
    "many metrics": header(cards={"stream": replace(STREAM, metrics=STREAM.metrics * (limits.MAX_METRICS + 1))}),
    "many benchmarks": header(cards={str(n): STREAM for n in range(11)}),
    "a long name": header(device("x" * (limits.MAX_NAME_LETTERS + 1))),
    "a scale of 0": header(cards={"stream": replace(STREAM, metrics=(_with_scale_of_0(STREAM.metrics[0]),))}),
    "a huge scale": header(cards={"stream": replace(STREAM, metrics=(replace(STREAM.metrics[0], scale=1e300),))}),
    "less than nothing": header(device(global_mem_bytes=-1)),
    "more than 64 bits": header(device(cache_bytes=2**64)),
    "a long argument": header(argv=("x" * (limits.MAX_TEXT_LETTERS + 1),)),
    "many arguments": header(argv=("",) * (limits.MAX_AXIS_VALUES + 1)),
    "many values": header(axes={"n": tuple(range(limits.MAX_AXIS_VALUES + 1))}),
    "many variables": header(environment={str(n): "" for n in range(11)}),
    "many packages": header(packages={str(n): "" for n in range(11)}),
    "no processes": header(processes=-1),
}


@each("fault", BAD_HEADERS)
def test_a_header_over_a_limit_is_refused_with_its_place(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(limits, "MAX_HEADER_ENTRIES", 10)
    path = tmp_path / "r.jsonl"
    path.write_text(encode(BAD_HEADERS[fault]) + "\n")
    with pytest.raises(ResultsError, match=r"r\.jsonl:1: the header is damaged: ") as caught:
        read(path)
    assert len(str(caught.value)) < 500 + len(str(path))


@pytest.mark.parametrize("number", ["NaN", "1e999"])
def test_a_fact_of_the_host_is_finite(tmp_path, number):
    path = tmp_path / "r.jsonl"
    path.write_text(encode(header(host={"load_1min": 0.123})).replace("0.123", number) + "\n")
    with pytest.raises(ResultsError, match="header is damaged"):
        read(path)


@each("schema", [0, -1, True, 1.0, 2**70, [], "\u202e"])
def test_a_schema_is_one_there_was(tmp_path, schema):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**json.loads(encode(header())), "schema": schema}) + "\n")
    with pytest.raises(ResultsError, match=r"has schema .*, and this version reads up to 1: upgrade clmembench"):
        read(path)


# ---- files ----------------------------------------------------------------------------------------------------------------


def stored(folder: Path, *lines: str, head: Any = None) -> Path:
    path = folder / "r.jsonl"
    path.write_text("".join(line + "\n" for line in (encode(head or header()), *lines)))
    return path


def test_a_file_over_its_limit_is_refused_before_it_is_read(tmp_path):
    path = stored(tmp_path, encode(GOOD))
    with path.open("r+b") as file:
        file.truncate(limits.MAX_FILE_BYTES + 1)  # a hole: it takes no place on the disk
    with pytest.raises(ResultsError, match=f"r.jsonl is over {limits.MAX_FILE_BYTES} bytes"):
        read(path)


def test_what_has_no_size_is_limited_as_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(line_limits, "MAX_LINE_BYTES", 1 << 16)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=_write_zeros, args=(pipe,), daemon=True).start()
    with pytest.raises(ResultsError, match="is over 1048576 bytes"):
        read(pipe)


def _write_zeros(pipe):
    with contextlib.suppress(BrokenPipeError), pipe.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))


def test_a_line_over_its_limit_costs_that_line(tmp_path, monkeypatch):
    monkeypatch.setattr(line_limits, "MAX_LINE_BYTES", 10_000)
    long = encode(replace(GOOD, log="x" * 100_000))
    path = stored(tmp_path, encode(GOOD), long, encode(GOOD), long)
    found = read(path)
    assert found.records == (GOOD, GOOD)
    assert found.notes == tuple(f"{path}:{n}: no record: over 10000 bytes" for n in (3, 5))
    path.write_text(path.read_text().removesuffix("\n"))
    assert read(path).notes == found.notes


def test_lines_are_limited_in_number(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_FILE_LINES", 4)
    assert len(read(stored(tmp_path, *[encode(GOOD)] * 3)).records) == 3
    with pytest.raises(ResultsError, match="over 4 lines"):
        read(stored(tmp_path, *[encode(GOOD)] * 4))


def test_many_bad_lines_are_noted_once(tmp_path):
    path = stored(tmp_path, encode(GOOD), *["no json"] * (MAX_BAD_LINE_NOTES + 5), encode(GOOD))
    found = read(path)
    assert len(found.records) == 2
    assert [note.startswith(f"{path}:{n}: ") for n, note in enumerate(found.notes[:-1], start=3)] == [True] * MAX_BAD_LINE_NOTES
    assert found.notes[-1] == f"{path}: and 5 more bad lines"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("no json", ":3: no record: this is no JSON"),
        (changed("process", "0"), ":3: no record: process: Input should be a valid integer"),
        ('{"a":1,"a":1}', ":3: no record: 'a' is there twice"), (encode(GOOD)[:50], ":3: no record: "),
    ],
)  # fmt: skip
def test_strict_stops_at_the_first_bad_line_and_says_where(tmp_path, bad, says):
    path = stored(tmp_path, encode(GOOD), bad, encode(GOOD))
    assert len(read(path).notes) == 1 and len(read(path).records) == 2
    with pytest.raises(ResultsError) as caught:
        read(path, strict=True)
    assert str(caught.value).startswith(f"{path}{says}")
    torn = stored(tmp_path, encode(GOOD), encode(GOOD))
    assert len(read(torn, strict=True).records) == 2
    torn.write_bytes(torn.read_bytes()[:-9])
    with pytest.raises(ResultsError, match=r"r\.jsonl:3: the last line is torn"):
        read(torn, strict=True)


@pytest.mark.parametrize("command", ["show", "report"])
def test_strict_on_the_command_line_is_a_usage_error_of_one_harmless_line(tmp_path, capsys, command):
    import typer
    from typer.testing import CliRunner

    from clmembench.cli.program import app

    (tmp_path / "\x1b[2J\u202e").mkdir()
    path = stored(tmp_path / "\x1b[2J\u202e", encode(GOOD), '{"\\u001b[31m": 1, "\\u001b[31m": 2}')
    done = CliRunner().invoke(app, [command, str(path), "--strict"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and done.stderr.removesuffix("\n").isprintable()
    assert "r.jsonl:3: no record:" in done.stderr
    lenient = CliRunner().invoke(app, [command, str(path), *(["-f", "md"] if command == "report" else [])])
    assert lenient.exit_code == 0 and lenient.stderr.removesuffix("\n").isprintable() and "r.jsonl:3:" in lenient.stderr
    with pytest.raises(typer.Exit):
        load(path, strict=True)


@pytest.mark.parametrize("kind", ["reports/*.jsonl.gz", "tests/golden/*.jsonl"])
def test_files_that_were_kept_are_read_without_a_note(kind):
    paths = sorted(Path(__file__).parents[2].glob(kind))
    assert paths or kind.startswith("reports")  # not in every source distribution
    for path in paths:
        assert read(path, strict=True).records


def test_whatever_is_written_is_read_again(tmp_path):
    """Limits lie beyond what a run can make: a long log, many CPUs, a day's stamps."""
    large = replace(
        GOOD, log="x" * 1_000_000, reason="r" * 10_000, notes=("n" * 5000,) * 100,
        series=(replace(GOOD.series[0], device_ns=(86_400 * 10**9,) * 6, nbytes=2**60, passes=2**40),),
        params={"matrix": "/" + "x" * 4095, "n": 2**63, "w": -1, "f": 1e308, "b": True},
        core_clock=replace(clock(5.0), ops=2**40, before_ns=2.0**40, after_ns=math.pi),
    )  # fmt: skip
    with Writer(tmp_path / "r.jsonl", header(cards={"stream": STREAM, "pchase": CHASE}, argv=("x" * 100_000,) * 10)) as writer:
        writer.write(large)
    assert read(tmp_path / "r.jsonl", strict=True).records == (large,)
    assert jsonl.SCHEMA == 1
