"""Compressed results files: what a kill at any byte leaves, damage and bombs, and every command that takes such a name."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import tracemalloc
import zlib
from pathlib import Path

import pytest

import clmembench as cm
from clmembench.cli.command import _remedy
from clmembench.results import imported, limits, line_limits, run_files
from clmembench.results.jsonl import ResultsError, Writer, encode, read
from clmembench.results.run_files import FLUSHED, compress
from clmembench.studies.ab.command import side_files
from tests.builders import device, header, record, series
from tests.commands import ROOT, brief_points, cli

HEADER = header()
RECORDS = tuple(
    record("stream", {"op": op, "array_bytes": 1 << 20}, series([1000 + n * step for n in range(16)], nbytes=1 << 20))
    for step, op in enumerate(("copy", "scale", "add", "triad"), start=3)
)
NEW = record("stream", {"op": "new"}, series([5] * 16, nbytes=1 << 20))
CONTENT = "".join(f"{encode(line)}\n" for line in (HEADER, *RECORDS)).encode()


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # it is of the disk, and slow


def written(path: Path) -> bytes:
    with Writer(path, HEADER) as writer:
        for one in RECORDS:
            writer.write(one)
    return path.read_bytes()


def flushes(data: bytes) -> list[int]:
    """Where each line's flush ends."""
    return [found.end() for found in re.finditer(re.escape(FLUSHED), data)]


# ---- written --------------------------------------------------------------------------------------------------------


def test_it_is_gzip_with_the_content_of_the_plain_file_and_nothing_of_its_time_or_name(tmp_path):
    data = written(tmp_path / "r.jsonl.gz")
    assert gzip.decompress(data) == CONTENT == written(tmp_path / "r.jsonl")
    assert data == written(tmp_path / "other.jsonl.gz") and data[:4] == b"\x1f\x8b\x08\x00" and data[4:8] == bytes(4)
    assert len(data) < len(CONTENT) / 2
    found = read(tmp_path / "r.jsonl.gz", strict=True)
    assert (found.header, found.records, found.notes) == (HEADER, RECORDS, ())


def test_each_record_is_in_the_file_before_the_next(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    with Writer(path, HEADER) as writer:
        for count, one in enumerate(RECORDS):
            assert read(path, strict=True).records == RECORDS[:count]
            writer.write(one)


def test_committed_runs_take_little_more_than_if_compressed_at_once(tmp_path):
    run = read(ROOT / "reports" / "xeon-2-cores-pocl-quick.jsonl.gz")
    with Writer(tmp_path / "r.jsonl.gz", run.header) as writer:
        for one in run.records:
            writer.write(one)
    flushed = (tmp_path / "r.jsonl.gz").read_bytes()
    assert len(flushed) < 1.05 * len(compress(gzip.decompress(flushed)))


def test_a_record_that_could_not_be_written_is_not_followed_by_the_end_of_its_member(tmp_path, monkeypatch):
    class Full:
        def __init__(self, file):
            self.file, self.write_bytes = file, file.write

        def write(self, data):
            self.write_bytes(data[: len(data) // 2])
            self.file.flush()
            raise OSError(28, "No space left on device")

        def __getattr__(self, name):
            return getattr(self.file, name)

    path = tmp_path / "r.jsonl.gz"
    with pytest.raises(ResultsError, match="No space left on device"), Writer(path, HEADER) as writer:
        writer.write(RECORDS[0])
        writer._file = Full(writer._file)
        writer.write(RECORDS[1])
    assert read(path).records == RECORDS[:1]
    with Writer.going_on(path) as writer:
        writer.write(RECORDS[1])
    assert read(path, strict=True).records == RECORDS[:2]


# ---- killed and resumed ---------------------------------------------------------------------------------------------


def test_a_cut_at_any_byte_leaves_every_flushed_line_and_a_resumed_run_goes_on_behind_them(tmp_path):
    whole, path = written(tmp_path / "whole.jsonl.gz"), tmp_path / "r.jsonl.gz"
    ends = flushes(whole)
    assert len(ends) == 1 + len(RECORDS)
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        flushed = sum(end <= size for end in ends)
        try:
            found = read(path)
        except ResultsError:
            assert flushed == 0, size
            before = path.read_bytes()
            with pytest.raises(ResultsError):
                Writer.going_on(path)
            assert path.read_bytes() == before
            continue
        assert found.records == RECORDS[: len(found.records)] and len(found.records) in (flushed - 1, flushed), size
        assert bool(found.notes) <= (size not in ends) and len(found.notes) <= 1, size
        if size < len(whole) and size not in ends and len(found.records) == flushed - 1:
            assert re.search("the last line is torn|its last record may be missing", found.notes[0]), size
        with Writer.going_on(path) as writer:
            assert read(path, strict=True).records == found.records, size
            writer.write(NEW)
        assert read(path, strict=True).records == (*found.records, NEW), size
        assert path.read_bytes()[: ends[flushed - 1] if flushed else 0] == whole[: ends[flushed - 1] if flushed else 0]
        lines = [encode(line) for line in (HEADER, *found.records, NEW)]
        assert gzip.decompress(path.read_bytes()).decode().splitlines() == lines, size


def test_a_file_of_gzip_itself_that_was_cut_is_resumed_with_all_that_can_be_read(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    for whole in (
        gzip.compress(CONTENT),
        b"".join(gzip.compress(CONTENT[at : at + 700]) for at in range(0, len(CONTENT), 700)),
    ):
        for size in range(40, len(whole), 7):
            path.write_bytes(whole[:size])
            try:
                known = read(path).records
            except ResultsError:
                continue
            with Writer.going_on(path) as writer:
                writer.write(NEW)
            assert read(path, strict=True).records == (*known, NEW), size


def test_a_run_that_is_resumed_and_killed_again_and_again_is_read_whole(tmp_path):
    path, kept = tmp_path / "r.jsonl.gz", RECORDS
    written(path)
    for cut in (1, 9, 30, 3, 0):
        os.truncate(path, path.stat().st_size - cut)
        kept = read(path).records
        with Writer.going_on(path) as writer:
            writer.write(NEW)
        kept = (*kept, NEW)
        assert read(path, strict=True).records == kept
    assert gzip.decompress(path.read_bytes()).count(b"\n") == 1 + len(kept)


def test_a_resume_that_writes_nothing_leaves_a_whole_file_as_it_was(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    before = written(path)
    with Writer.going_on(path):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("tail", [bytes(9000), b"\xff" * 9000], ids=["zeros", "ones"])
def test_what_a_power_cut_leaves_behind_the_last_flush_costs_nothing_before_it(tmp_path, tail):
    path = tmp_path / "r.jsonl.gz"
    whole = written(path)
    path.write_bytes(whole[: flushes(whole)[2]] + tail)
    found = read(path)
    assert found.records == RECORDS[:2]
    assert len(found.notes) == 1 and f"{path}:3: its compressed data are damaged here or before (" in found.notes[0]
    with pytest.raises(ResultsError, match="leave out --strict"):
        read(path, strict=True)
    with Writer.going_on(path) as writer:
        writer.write(NEW)
    assert read(path, strict=True).records == (*RECORDS[:2], NEW)


# ---- damaged and hostile --------------------------------------------------------------------------------------------


def test_a_changed_bit_is_an_error_or_a_note(tmp_path):
    whole, path = bytearray(written(tmp_path / "whole.jsonl.gz")), tmp_path / "r.jsonl.gz"
    rng = random.Random(1)
    outcomes = set()
    for at in range(10, len(whole)):
        bit = 1 << rng.randrange(8)
        whole[at] ^= bit
        path.write_bytes(whole)
        whole[at] ^= bit
        try:
            found = read(path)
        except ResultsError as error:
            assert "\n" not in str(error)
            outcomes.add("checksum" if "its gzip checksum does not match" in str(error) else "error")
        else:
            assert found.notes or found.records == RECORDS, at  # some bits only fill a byte
            outcomes.add("note")
    assert outcomes == {"checksum", "error", "note"}


@pytest.mark.parametrize(
    ("tail", "note"),
    [
        (b"", ""), (bytes(3), ""), (bytes(200_000), ""), (compress(b""), ""), (bytes(9) + compress(encode(NEW).encode()), ""),
        (b"hello", "what stands behind its compressed data is no gzip, and was left out"),
        (encode(NEW).encode(), "what stands behind its compressed data is no gzip, and was left out"),
        (b"\x1f", "its compressed data end early: its last record may be missing"),
        (compress(b"x\n"), "no record: this is no JSON"),
    ],
)  # fmt: skip
def test_what_stands_behind_a_member(tmp_path, tail, note):
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(written(tmp_path / "whole.jsonl.gz") + tail)
    found = read(path)
    assert found.records == (*RECORDS, *[NEW] * tail.startswith(bytes(9) + run_files.GZIP))
    assert [text.partition(": ")[2] for text in found.notes] == [note] * bool(note)
    if note:
        with pytest.raises(ResultsError, match=re.escape(note)):
            read(path, strict=True)
    with Writer.going_on(path) as writer:
        writer.write(NEW)
    assert read(path).records == (*found.records, NEW)


NOT_RESULTS = {
    "not gzip": (CONTENT, r"cannot read .*r\.jsonl\.gz: it is not compressed by gzip, as its name says: .* r\.jsonl$"),
    "empty": (b"", r"is no results file of clmembench: it is empty"),
    "one byte": (b"\x1f", r"is no results file of clmembench: its compressed data end early"),
    "nothing in it": (compress(b""), r"is no results file of clmembench: it is empty"),
    "something else in it": (
        compress(b"hello\n"),
        r"is no results file of clmembench: its first line is no header: name a file",
    ),
    "no deflate data": (b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 9, r"is no results file of clmembench: .*are damaged"),
    "another method": (b"\x1f\x8b\x07\x00" + bytes(20), r"is no results file of clmembench: .*unknown compression method"),
    "another checksum": (compress(CONTENT)[:-8] + bytes(8), r"its gzip checksum does not match .*: restore it from a copy"),
    "another length": (compress(CONTENT)[:-4] + bytes(4), r"its gzip checksum does not match .*: restore it from a copy"),
    "compressed twice": (compress(compress(CONTENT)), r"is compressed by gzip: rename it"),
}


@pytest.mark.parametrize("kind", NOT_RESULTS)
def test_what_is_no_compressed_results_file_is_an_error_of_one_line(tmp_path, kind):
    path = tmp_path / "r.jsonl.gz"
    content, message = NOT_RESULTS[kind]
    path.write_bytes(content)
    for command in ("show", "report"):
        done = cli(command, str(path))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert re.search(message, done.stderr.strip())
    assert cli("run", "--resume", str(path)).returncode == 2 and path.read_bytes() == content


def test_a_compressed_file_under_a_plain_name_says_how_to_name_it(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(compress(CONTENT))
    with pytest.raises(
        ResultsError, match=r"r\.jsonl is compressed by gzip: rename it so that it ends with \.gz, or unpack it"
    ):
        read(path)


@pytest.mark.parametrize("of", ["one line", "lines", "members"])
def test_a_bomb_is_refused_by_its_decompressed_bytes_in_little_memory(tmp_path, monkeypatch, of):
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 32 << 20)
    monkeypatch.setattr(line_limits, "MAX_LINE_BYTES", 1 << 20)
    head, zeros = f"{encode(HEADER)}\n".encode(), bytes(1 << 20)
    bomb = {"one line": zeros * 40, "lines": (zeros[:-1] + b"\n") * 40, "members": b""}[of]
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(compress(head + bomb) + compress(zeros) * 40 * (of == "members"))
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(ResultsError, match=r"r\.jsonl\.gz is over 33554432 bytes"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_members_without_content_are_limited_in_number(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_FILE_LINES", 100)
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(compress(CONTENT) + compress(b"") * 99)
    assert read(path).records == RECORDS
    path.write_bytes(compress(CONTENT) + compress(b"") * 100)
    with pytest.raises(ResultsError, match="over 100 gzip members"):
        read(path)


def test_a_line_over_its_limit_costs_that_line(tmp_path, monkeypatch):
    monkeypatch.setattr(line_limits, "MAX_LINE_BYTES", 10_000)
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(compress(CONTENT + b"x" * 300_000 + b"\n" + encode(NEW).encode() + b"\n"))
    found = read(path)
    assert found.records == (*RECORDS, NEW) and found.notes == (f"{path}:6: no record: over 10000 bytes",)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_content_comes_through_a_pipe_in_any_pieces(tmp_path, size):
    data = written(tmp_path / "whole.jsonl.gz") + bytes(5) + compress(encode(NEW).encode())
    source, sink = os.pipe()
    if os.fork() == 0:
        for at in range(0, len(data), size):
            os.write(sink, data[at : at + size])
        os._exit(0)
    os.close(sink)
    name = tmp_path / "pipe.jsonl.gz"
    name.symlink_to(f"/dev/fd/{source}")
    assert read(name, strict=True).records == (*RECORDS, NEW)
    os.close(source)
    os.wait()


def test_deflate_blocks_of_every_kind_are_read_and_resumed(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    for level, strategy in ((0, 0), (1, 0), (9, 0), (6, zlib.Z_FIXED), (6, zlib.Z_HUFFMAN_ONLY), (6, zlib.Z_RLE)):
        deflate = zlib.compressobj(level, zlib.DEFLATED, 31, 8, strategy)
        lines = [deflate.compress(line) + deflate.flush(zlib.Z_SYNC_FLUSH) for line in CONTENT.splitlines(keepends=True)]
        path.write_bytes(b"".join(lines)[:-20])
        with Writer.going_on(path) as writer:
            writer.write(NEW)
        assert read(path, strict=True).records in ((*RECORDS[:3], NEW), (*RECORDS, NEW))
        assert gzip.decompress(path.read_bytes()).endswith(encode(NEW).encode() + b"\n")


# ---- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "r.jsonl.gz"
    with brief_points():
        points = ("-s", "quick", "-b", "launch", "-b", "transfer", "-a", "array_bytes=4KiB")
        done = cli("run", "-d", "0", *points, "-o", str(path))
    assert done.returncode in (0, 4), done.stderr
    return path


def plain(path: Path) -> Path:
    """The same run in a file that is not compressed."""
    found = path.with_suffix("")
    found.write_bytes(gzip.decompress(path.read_bytes()))
    return found


@pytest.mark.parametrize("command", [
    ("show", "RUN", "--json"), ("show", "RUN", "-b", "transfer", "--csv"), ("report", "RUN", "-f", "md"),
    ("compare", "RUN", "RUN", "--json"), ("check", "RUN", "--baseline", "RUN"), ("topology", "RUN", "--json"),
    ("advise", "RUN", "--json"), ("peers", "RUN", "--json"), ("history", "RUN", "--json"), ("doctor", "--run", "RUN"),
    ("casestudy", "mnf", "RUN"), ("model", "measure", "RUN"), ("model", "validate", "RUN"),
], ids=" ".join)  # fmt: skip
def test_a_command_answers_for_the_compressed_run_as_for_the_plain_one(measured, command):
    answers = []
    for path in (measured, plain(measured)):
        done = cli(*(str(path) if word == "RUN" else word for word in command))
        answers.append([done.returncode, *(text.replace(str(path), "RUN") for text in (done.stdout, done.stderr))])
    assert answers[0] == answers[1] and answers[0][1] + answers[0][2]
    assert "gzip" not in answers[0][2] and "no header" not in answers[0][2]


def test_a_run_is_resumed_with_the_points_that_it_lacks(measured, tmp_path):
    path = tmp_path / "r.jsonl.gz"
    whole = measured.read_bytes()
    path.write_bytes(whole[: flushes(whole)[2] + 20])
    with brief_points():
        done = cli("run", "--resume", str(path))
    assert done.returncode in (0, 4) and "may be missing" in done.stderr + "may be missing" * ("is torn" in done.stderr)
    points, wanted = ([(r.benchmark, r.params, r.process) for r in read(one, strict=True).records] for one in (path, measured))
    assert sorted(map(str, points)) == sorted(map(str, wanted))
    assert path.read_bytes().startswith(whole[: flushes(whole)[2]])


def test_a_file_that_exists_is_kept_or_overwritten_and_a_baseline_may_be_compressed(measured, tmp_path):
    base, before = tmp_path / "base.jsonl.gz", measured.read_bytes()
    assert cli("baseline", "create", str(measured), "-o", str(base)).returncode == 0
    assert gzip.decompress(base.read_bytes()).count(b"\n") == 1 + len(read(base, strict=True).records)
    assert cli("check", str(measured), "--baseline", str(base), "--margin", "99%").returncode in (0, 6)
    refused = cli("baseline", "create", str(measured), "-o", str(base))
    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    assert cli("baseline", "create", str(measured), "-o", str(base), "--overwrite").returncode == 0
    assert read(base, strict=True).records and measured.read_bytes() == before


def test_a_folder_of_both_kinds_is_one_history(measured, tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(measured.read_bytes())
    other = gzip.decompress(measured.read_bytes()).replace(read(measured).header.run_id.encode(), b"0" * 26)
    (tmp_path / "b.jsonl").write_bytes(other)
    (tmp_path / "c.jsonl.gz").write_bytes(b"no gzip")
    done = cli("history", str(tmp_path), "--json")
    assert done.returncode == 0 and len(json.loads(done.stdout)[0]["runs"]) == 2
    assert done.stderr.count("left out: ") == 1 and "c.jsonl.gz: it is not compressed" in done.stderr


def test_a_frame_of_a_pattern_has_the_values_of_the_plain_file(measured, tmp_path):
    frame = cm.read(str(measured.parent / "*.jsonl.gz"))
    assert set(frame["file"]) == {str(measured)}
    assert frame.drop(columns="file").equals(cm.read(plain(measured)).drop(columns="file"))


def test_results_of_other_programs_are_kept_compressed(measured, tmp_path):
    source = tmp_path / "triad.csv"
    head = "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime\n"
    source.write_text(f"{head}Triad,100,33554432,8,40000.0,0.020,0.022,0.021\n")
    for name in ("t.import.jsonl", "t.import.jsonl.gz"):
        args = ("import", str(source), "--as", "babelstream", "--label", "Mine", "-o", str(tmp_path / name))
        assert cli(*args).returncode == 0
    packed = tmp_path / "t.import.jsonl.gz"
    assert gzip.decompress(packed.read_bytes()) == (tmp_path / "t.import.jsonl").read_bytes()
    assert imported.is_import_file(packed) and not imported.is_import_file(measured)
    shown = cli("report", str(measured), str(packed), "-f", "md")
    assert shown.returncode == 0 and "BabelStream" in shown.stdout
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(imported.ImportFault, match="its compressed data end early"):
        imported.read(packed)
    packed.write_bytes(compress(imported.MARK + bytes(line_limits.MAX_LINE_BYTES)))
    with pytest.raises(imported.ImportFault, match="it has over 8388608 bytes"):
        imported.read(packed)


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ("r", ("r-a.jsonl", "r-b.jsonl")), ("r.jsonl", ("r-a.jsonl", "r-b.jsonl")), ("v1.2", ("v1.2-a.jsonl", "v1.2-b.jsonl")),
        ("r.jsonl.gz", ("r-a.jsonl.gz", "r-b.jsonl.gz")),
    ],
)  # fmt: skip
def test_both_sides_of_a_live_comparison_are_named_as_their_output(tmp_path, output, files):
    assert side_files(device(), tmp_path / output, False) == tuple(tmp_path / name for name in files)
    (tmp_path / files[1]).touch()
    with pytest.raises(Exception, match=r"^2$"):
        side_files(device(), tmp_path / output, False)


def test_several_devices_need_a_folder_which_is_named_without_both_suffixes(monkeypatch, tmp_path, capsys):
    from clmembench.cli.running.several_devices import targets

    with pytest.raises(Exception, match=r"^2$"):
        targets([None, None], Path("mine.jsonl.gz"), False)
    assert capsys.readouterr().err.strip().endswith("such as -o mine")


@pytest.mark.parametrize("name", ["gone.jsonl", "gone.jsonl.gz"])
def test_a_word_that_is_a_results_file_gets_its_remedy(name):
    assert _remedy(name) == f"to read a results file, use clmembench show {name}"
    assert f"use clmembench show {name}" in cli(name).stderr


def test_whatever_is_stored_in_reports_is_compressed_alike(tmp_path):
    for path in sorted((ROOT / "reports").glob("*.jsonl.gz")):
        assert path.read_bytes()[:8] == b"\x1f\x8b\x08\x00" + bytes(4), path
    assert not list((ROOT / "reports").glob("*.jsonl"))
