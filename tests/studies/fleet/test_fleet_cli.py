"""`fleet show` and `fleet report` on a small store: the slow host is named, and queries read the store alone."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from clmembench.report.schemas import schemas
from clmembench.results import jsonl
from clmembench.studies.fleet.store import import_run
from tests.builders import device, header, record, series, write_run
from tests.commands import cli

OPS = tuple(f"op{number}" for number in range(12))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """24 devices on 6 hosts; those of n2 are slower by 15%, one point of n0 is wrong, one has too few samples to be judged."""
    folder = tmp_path_factory.mktemp("fleet")
    rng = np.random.default_rng(3)
    for number in range(24):
        host = f"n{number // 4}"
        head = header(
            device(pci=f"0000:{number:02x}:00.0", selector=f"0:{number % 4}"), run_id=f"01J{number:023}", host={"name": host},
            tags={"rack": "<script>alert(1)</script>"}, label=f"{host} <b>{number % 4}",
            sensors={"temperature_c": 85.0 if host == "n2" else 60.0 + number % 5},
        )  # fmt: skip
        made = []
        for op in OPS:
            ns = 1_000_000 * rng.normal(1, 0.005) * (1 / 0.85 if host == "n2" else 1)
            times = [round(ns * (1 + rng.normal(0, 0.001))) for _ in range(12)]
            made.append(record("stream", {"op": op}, series(times, nbytes=1_000_000_000)))
        if number == 0:
            made[0] = replace(made[0], status="wrong", reason="element 3 is 7")
        if number == 1:
            made[0] = replace(made[0], series=(series([1_000_000] * 3, nbytes=1_000_000_000),))
        import_run(folder / "s", write_run(folder / f"{number}.jsonl", made, head))
    return str(folder / "s")


def test_the_slow_host_is_named_and_what_is_not_ok_is_counted(fleet):
    done = cli("fleet", "show", fleet)
    assert done.returncode == 0 and "24 devices of 1 model, 24 runs: 4 devices slow, 286 values judged" in done.stdout
    assert "not judged: 1 suspect, 1 wrong" in done.stdout
    assert "host n2: 4 of its 4 slow, 0 of the 20 others" in done.stdout and "temperature_c: median 85" in done.stdout
    assert "stream op=op0: wrong: element 3 is 7" in done.stdout


def test_json_and_csv_have_every_device_that_stands_apart(fleet):
    found = json.loads(cli("fleet", "show", fleet, "--json").stdout)
    assert list(Draft202012Validator(schemas()["fleet"]).iter_errors(found)) == []
    assert {one["device"]["host"] for one in found["apart"]} == {"n2"} and len(found["apart"]) == 4
    assert all(0.13 < value["slower"] < 0.17 and value["low"] > 0.02 for one in found["apart"] for value in one["values"])
    rows = list(csv.DictReader(io.StringIO(cli("fleet", "show", fleet, "--csv").stdout)))
    assert len(rows) == sum(one["slow"] for one in found["apart"]) > 40 and {row["host"] for row in rows} == {"n2"}


def test_a_query_answers_from_the_tables_and_conditions_name_columns(fleet):
    sql = "SELECT host, count(*) AS n FROM points JOIN runs USING (run_id) WHERE status = 'wrong' GROUP BY host"
    assert json.loads(cli("fleet", "show", fleet, "--sql", sql, "--json").stdout) == [{"host": "n0", "n": 1}]
    done = cli("fleet", "show", fleet, "--where", "host = 'n3' AND tags['rack'] LIKE '<%' AND point = 'op=op2'", "--csv")
    assert [row["point"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["op=op2"] * 4
    sql = "SELECT len(device_ns) AS n, series FROM samples WHERE run_id LIKE '%01' AND record = 0"
    assert json.loads(cli("fleet", "show", fleet, "--sql", sql, "--json").stdout) == [{"n": 3, "series": 0}]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--sql", "SELECT * FROM read_text('/etc/hostname')"], "file system operations are disabled"),
        (["--sql", "COPY points TO 'x.csv'"], "one SELECT"),
        (["--sql", "SET enable_external_access = true"], "one SELECT"),
        (["--sql", "SELECT 1; DROP VIEW points"], "one SELECT"),
        (["--sql", "SELECT nothing FROM points"], "DuckDB: Binder Error"),
        (["--where", "1 = 1; DROP VIEW points"], "one SELECT"),
        (["--where", "1", "--sql", "SELECT 1"], "choose one"),
    ],
)
def test_a_query_reads_the_store_alone_and_writes_nothing(fleet, options, says):
    done = cli("fleet", "show", fleet, *options)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_page_has_strips_reasons_and_sections_and_runs_no_text_of_a_file(fleet, tmp_path):
    done = cli("fleet", "report", fleet, "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "host n2: 4 of its 4 slow" in page and page.count('<details id="device-') == 4
    assert page.count("<script>") == 1 and "<b>" not in page and "http" not in page.split("</style>")[1].split("<script>")[0]


def test_a_run_is_exported_as_it_was_imported(fleet, tmp_path):
    out = tmp_path / "run.jsonl.gz"
    assert cli("fleet", "export", fleet, "--run", f"01J{3:023}", "--results", str(out)).returncode == 0
    one, again = jsonl.read(Path(fleet).parent / "3.jsonl"), jsonl.read(out, strict=True)
    assert (one.header, one.records) == (again.header, again.records)
    done = cli("fleet", "export", fleet, "--run", "none", "--results", str(tmp_path / "x.jsonl"))
    assert done.returncode == 2 and "has no run none" in done.stderr
    assert cli("fleet", "export", fleet, "--run", "none").returncode == 2


def test_a_store_without_runs_and_a_missing_library_end_in_one_line(fleet, tmp_path, monkeypatch):
    done = cli("fleet", "show", str(tmp_path / "none"))
    assert done.returncode == 2 and "is no store of a fleet" in done.stderr
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    done = cli("fleet", "show", fleet)
    assert done.returncode == 2 and "pip install 'clmembench[fleet]'" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([record("stream", None, series([9] * 8, nbytes=9))], "1 of models with too few devices"),
        ([record("stream", None, status="skipped")], "0 values judged, not judged: 1 skipped"),
        ([], "0 values judged"),
    ],
    ids=("one", "none good", "none"),
)
def test_a_run_of_one_device_is_no_fleet_but_is_shown(tmp_path, records, says):
    import_run(tmp_path / "s", write_run(tmp_path / "x.jsonl", records))
    for command in (("show",), ("report", "-o", str(tmp_path / "x.html")), ("export", "--junit", str(tmp_path / "x.xml"))):
        done = cli("fleet", command[0], str(tmp_path / "s"), *command[1:])
        assert done.returncode == 0 and (command != ("show",) or says in done.stdout), (command, done)


def test_monitoring_and_acceptance_get_each_device(fleet, tmp_path):
    gauges, junit = tmp_path / "fleet.prom", tmp_path / "fleet.xml"
    assert cli("fleet", "export", fleet, "--prometheus", str(gauges), "--junit", str(junit)).returncode == 0
    families = {one.name: one.samples for one in text_string_to_metric_families(gauges.read_text(encoding="utf-8"))}
    assert {name: len(samples) for name, samples in families.items()} == {
        "clmembench_value": 0, "clmembench_slow_values": 24, "clmembench_bad_points": 72,
        "clmembench_last_run_timestamp_seconds": 24,
    }  # fmt: skip
    assert {one.labels["host"] for one in families["clmembench_slow_values"] if one.value} == {"n2"}
    assert [one.labels["status"] for one in families["clmembench_bad_points"] if one.value] == ["wrong"]
    suite = Xml.fromstring(junit.read_text(encoding="utf-8"))[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "24", "failures": "4", "errors": "1", "skipped": "0",
    }  # fmt: skip
    (error,) = suite.iter("error")
    assert "element 3 is 7" in error.get("message", "") and all(
        "host n2" in f.get("message", "") for f in suite.iter("failure")
    )
    again = cli("fleet", "export", fleet, "--junit", str(junit))
    assert again.returncode == 2 and "exists" in again.stderr and cli("fleet", "export", fleet).returncode == 2
