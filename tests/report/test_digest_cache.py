"""Digests beside their runs: taken for the same content, revision and user, and passed over or rebuilt in any other case."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.report.many_runs import digest_cache, digests
from clmembench.results import whole_file
from clmembench.results.jsonl import encode
from tests.builders import STREAM, record, series
from tests.report.test_fleet import COPY, stored


@pytest.fixture
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return digest_cache.user_key()


@pytest.fixture
def run(tmp_path):
    (tmp_path / "runs").mkdir()
    return stored(tmp_path / "runs", 1)


def kept(run: Path) -> list[Path]:
    return sorted(run.parent.glob(f"{digest_cache.FOLDER}/*.json"))


def read(run: Path, key, monkeypatch, made: bool) -> digests.Digest:
    """The digest, and that it was or was not made anew."""
    calls = []
    one = digests.digest
    with monkeypatch.context() as patch:
        patch.setattr(digests, "digest", lambda *given: calls.append(given) or one(*given))
        found = digests.kept_digest(run, False, key)
    assert bool(calls) is made
    return found


def test_a_second_report_takes_what_the_first_has_kept(run, key, monkeypatch):
    first = read(run, key, monkeypatch, made=True)
    assert len(kept(run)) == 1 and (run.parent / digest_cache.FOLDER / ".gitignore").read_text() == "*\n"
    assert read(run, key, monkeypatch, made=False) == first == digests.digest(run)
    moved = run.rename(run.with_name("moved.jsonl"))
    assert read(moved, key, monkeypatch, made=False) == replace(first, path=str(moved))


def test_another_content_has_another_digest(run, key, monkeypatch):
    first = read(run, key, monkeypatch, made=True)
    with run.open("a") as file:
        file.write(encode(record("stream", {**COPY, "op": "triad"}, series([500] * 16, nbytes=1_000_000))) + "\n")
    again = read(run, key, monkeypatch, made=True)
    assert again.count == first.count + 1 and len(kept(run)) == 2


@pytest.mark.parametrize("changed", ["of_sources", "numpy"])
def test_a_newer_program_or_library_reads_no_digest_of_an_older_one(run, key, monkeypatch, changed):
    read(run, key, monkeypatch, made=True)
    if changed == "numpy":
        monkeypatch.setattr("numpy.__version__", "99.0")
    else:
        monkeypatch.setattr(whole_file, "hash_sources", lambda: "sha256:newer")
    read(run, key, monkeypatch, made=True)
    read(run, key, monkeypatch, made=False)
    assert len(kept(run)) == 1, "in the place of the older one"


def signed(run: Path, key: bytes, change) -> None:
    """The digest that is kept, changed and signed with that key."""
    entry = digest_cache.entry(run, key)
    text = change(entry.path.read_bytes()[digest_cache.SIGNATURE + 1 :])
    entry.path.write_bytes(entry._signature(text) + b"\n" + text)


def faster(text: bytes) -> bytes:
    said = json.loads(text)
    said["values"][0][3] *= 2
    return json.dumps(said).encode()


HOSTILE = {
    "nothing": lambda text: b"",
    "no JSON": lambda text: b"x" * 100,
    "half": lambda text: text[: len(text) // 2],
    "another type": lambda text: json.dumps({**json.loads(text), "count": "1"}).encode(),
    "a field less": lambda text: b'{"count":1}',
    "a key twice": lambda text: text[:-1] + b',"count":1}',
    "no number": lambda text: text.replace(b'"count":1', b'"count":NaN'),
    "deep": lambda text: b"[" * 100_000,
    "many": lambda text: text[:-1] + b',"x":[' + b"{}," * 100_000 + b"1]}",
    "long": lambda text: text[:-1] + b',"x":"' + b"x" * (9 << 20) + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_is_passed_over_and_replaced_whoever_signed_it(run, key, monkeypatch, name):
    first = read(run, key, monkeypatch, made=True)
    signed(run, key, HOSTILE[name])
    assert read(run, key, monkeypatch, made=True) == first
    assert read(run, key, monkeypatch, made=False) == first


def test_a_digest_that_another_signed_or_nobody_is_passed_over(run, key, monkeypatch):
    first = read(run, key, monkeypatch, made=True)
    signed(run, b"x" * digest_cache.KEY_BYTES, faster)
    assert read(run, key, monkeypatch, made=True) == first
    (path,) = kept(run)
    path.write_bytes(path.read_bytes().replace(b"stream", b"strem2"))
    assert read(run, key, monkeypatch, made=True) == first
    signed(run, key, faster)  # only the user could
    assert read(run, key, monkeypatch, made=False) != first


def test_what_lies_where_a_digest_should_is_not_waited_for_nor_followed(run, key, monkeypatch, tmp_path):
    first = read(run, key, monkeypatch, made=True)
    (path,) = kept(run)
    path.unlink()
    os.mkfifo(path)
    assert read(run, key, monkeypatch, made=True) == first
    folder = run.parent / digest_cache.FOLDER
    for left in folder.iterdir():
        left.unlink()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert read(run, key, monkeypatch, made=True) == first
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_nothing_can_be_kept_nothing_is_and_that_is_no_error(run, key, monkeypatch):
    (run.parent / digest_cache.FOLDER).write_text("a file in the folder's place")
    first = read(run, key, monkeypatch, made=True)
    assert read(run, key, monkeypatch, made=True) == first
    (run.parent / digest_cache.FOLDER).unlink()
    assert read(run, None, monkeypatch, made=True) == first
    assert kept(run) == []


def test_a_run_with_bad_lines_or_one_that_grows_meanwhile_is_not_kept(run, key, monkeypatch):
    whole = run.read_text()
    run.write_text(whole + "no json\n")
    assert read(run, key, monkeypatch, made=True).notes
    assert kept(run) == []
    run.write_text(whole)
    entry = digest_cache.entry(run, key)
    run.write_text(whole + "\n")
    entry.write(digests.digest(run))
    assert kept(run) == []


def test_the_key_is_the_user_s_own_and_kept(key, tmp_path):
    path = tmp_path / "home" / "clmembench" / "digest.key"
    assert key is not None and len(key) == digest_cache.KEY_BYTES and digest_cache.user_key() == key
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    assert digest_cache.user_key() is None, "others could have read it"
    path.chmod(0o600)
    path.write_bytes(b"short")
    assert digest_cache.user_key() is None


def test_no_folder_for_the_key_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert digest_cache.user_key() is None


def test_digests_are_kept_by_workers_too(tmp_path, key):
    paths = [stored(tmp_path, n, cards={"stream": STREAM}) for n in range(6)]
    first = list(digests.digests(paths, False, 2))
    assert len(list(tmp_path.glob(f"{digest_cache.FOLDER}/*.json"))) == 6
    assert list(digests.digests(paths, False, 1)) == first
