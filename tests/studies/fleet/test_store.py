"""The store: runs go in whole and once, by many writers, and come out with equal records."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from clmembench.results import jsonl
from clmembench.results.jsonl import ResultsError
from clmembench.studies.fleet import compaction, query, store
from clmembench.studies.fleet.compaction import compact
from clmembench.studies.fleet.store import StoreError, export_run, import_run, parts
from tests.builders import device, header, record, series, write_run
from tests.commands import ROOT, cli

QUICK = ROOT / "reports" / "h200-sxm-quick.jsonl.gz"


def results_file(folder, number, ops=("copy", "triad"), **changes):
    head = header(device(pci=f"0000:0{number % 8}:00.0"), run_id=f"01J00000000000000000000{number:03}", **changes)
    made = [record("stream", {"op": op}, series([1000 + number] * 8, nbytes=10_000)) for op in ops]
    return write_run(folder / f"{number}-{len(ops)}.jsonl", made, head)


def count(at, table):
    with query.opened(at, parts(at)) as database:
        return database.execute(f"SELECT count(*), count(DISTINCT run_id) FROM {table}").fetchone()


@pytest.mark.parametrize("packed", [False, True])
def test_a_run_comes_out_of_the_store_with_equal_records(tmp_path, monkeypatch, packed):
    odd = series([5, 6], device_ns=None, queue_ns=(1, 2), submit_ns=(3, 4), warmups_ns=(9,), averaged=0)
    records = [
        record("stream", {"op": "copy"}, odd, odd, notes=("ü", "")),
        record("stream", {"op": "add", "array_bytes": 2**60}, status="skipped", reason='no "fp64"', facts={"x": 1.5, "y": True})
    ]  # fmt: skip
    own = write_run(tmp_path / "own.jsonl", records, header(tags={"rack": "r'1"}, label="node"))
    for file in (own, QUICK):
        assert import_run(tmp_path / "s", file)
    if packed:
        monkeypatch.setattr(compaction, "MIN_PACK_PARTS", 1)
        import_run(tmp_path / "s", results_file(tmp_path, 7))
        assert compact(tmp_path / "s") == 1
    for file in (own, QUICK):
        run = jsonl.read(file)
        (tmp_path / "again.jsonl").write_text(export_run(tmp_path / "s", run.header.run_id), encoding="utf-8")
        again = jsonl.read(tmp_path / "again.jsonl", strict=True)
        assert (again.header, again.records) == (run.header, run.records)


def test_a_run_is_stored_once_and_a_resumed_one_replaces_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "MIN_PACK_PARTS", 2)
    at = tmp_path / "s"
    part, whole = results_file(tmp_path, 1, ("copy",)), results_file(tmp_path, 1)
    assert import_run(at, part) and not import_run(at, part)
    assert import_run(at, results_file(tmp_path, 2)) and compact(at) == 1  # with the beginning in a pack
    assert import_run(at, whole) and not import_run(at, part)
    assert count(at, "samples") == (4, 2)
    assert compact(at) == 1 and count(at, "samples") == (4, 2) and not import_run(at, whole)


def test_many_writers_and_a_reader_at_once_lose_and_repeat_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "MIN_PACK_PARTS", 4)
    files = [results_file(tmp_path, number) for number in range(12)] * 2
    at = tmp_path / "s"
    with ThreadPoolExecutor(6) as pool:
        added = pool.map(lambda file: import_run(at, file), files)
        assert sum(added) <= 24
    assert count(at, "samples") == (24, 12)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: compact(at), range(2)))
    assert count(at, "points")[1] == 12 and len(parts(at)) == 1


def test_a_device_is_known_by_its_uuid_or_else_by_its_host_place_and_model():
    def of(host="n1", **changes):
        return store.device_id(header(device(**changes), host={"name": host}))

    assert of(uuid="12" * 16) == of("n2", uuid="12" * 16, pci="0000:01:00.0")
    assert len({of(), of("n2"), of(pci="0000:01:00.0"), of(platform="Another"), of(name="Another"), of(compute_units=2)}) == 6


def test_a_writer_that_fails_leaves_no_part(tmp_path):
    import_run(tmp_path / "s", results_file(tmp_path, 1))
    (folder,) = (tmp_path / "s" / "parts").glob("*/*")

    def write(temporary):
        (temporary / "runs.parquet").write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.write_part(folder, "01J-1", write)
    assert [path.name for path in folder.iterdir()] == ["01J00000000000000000000001-2"]


def test_what_is_no_run_and_no_store_is_refused(tmp_path):
    file = write_run(tmp_path / "x.jsonl", [], replace(header(), run_id="../../x"))
    with pytest.raises(StoreError, match="run id"):
        import_run(tmp_path / "s", file)
    with pytest.raises(ResultsError):
        import_run(tmp_path / "s", tmp_path / "none.jsonl")
    with pytest.raises(StoreError, match="is no store"):
        parts(tmp_path / "s")
    import_run(tmp_path / "s", results_file(tmp_path, 1))
    (tmp_path / "s" / "store.json").write_text('{"schema": 2}')
    with pytest.raises(StoreError, match="upgrade clmembench"):
        parts(tmp_path / "s")


def test_import_says_what_it_added_and_what_it_left_out(tmp_path):
    results_file(tmp_path, 1)
    (tmp_path / "2.jsonl").write_text("no run")
    done = cli("fleet", "import", str(tmp_path / "s"), str(tmp_path))
    assert (done.returncode, done.stdout.endswith(": 1 run added, 1 left out\n")) == (4, True)
    assert "2.jsonl is no results file" in done.stderr
