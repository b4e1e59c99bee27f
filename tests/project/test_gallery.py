"""Tests of the gallery: each part of a kind's runs ends within ten minutes, and every page equals what its template makes."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from dataclasses import asdict
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from clmembench.model.record import Trace
from scripts.gallery import figures, inside, make, measure, run_numbers
from scripts.site_tables import TITLES
from tests.commands import ROOT
from tests.project.test_docs_commands import parse

GIVEN = tomllib.loads((ROOT / "scripts" / "gallery" / "runs.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", GIVEN["kinds"])
def test_the_runs_of_a_kind_are_commands_and_fit_into_calls(kind):
    divided = measure.parts(measure.runs_of(kind, GIVEN))
    for part in divided:
        assert sum(run.limit_s + measure.STOP_S for run in part) <= measure.CALL_S and len(part) <= 4
    for run in (run for part in divided for run in part):
        assert (ROOT / run.arguments[0]).exists() if run.is_script else parse(list(run.arguments[2:])) is not None


def test_a_run_is_complete_by_its_command_and_its_versions(tmp_path):
    quick = measure.runs_of("h200-sxm", GIVEN)[0]
    cards = {"stream": {"version": measure.packaged()["stream"].version}}
    header = {"argv": [*quick.arguments[2:], "--overwrite", "-o", "x"], "benchmarks": cards}
    other = {"benchmarks": {"stream": {"version": 0}}}, {"argv": ["run", "-s", "all"]}
    for change, complete in (({}, True), *((one, False) for one in other)):
        (tmp_path / "h200-sxm-quick.jsonl.gz").write_bytes(gzip.compress(json.dumps({**header, **change}).encode() + b"\n"))
        assert quick.made(tmp_path) == complete
    assert not measure.runs_of("h200-sxm", GIVEN)[1].made(tmp_path)


def test_pages_are_fresh_and_a_changed_number_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make, "made", cache(make.made))  # each page takes a while
    assert make.main(["--check", "--quick"]) == 0, capsys.readouterr().out
    for page, made in make.pages(quick=True):
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(made.text, encoding="utf-8")
    monkeypatch.setattr(run_numbers, "ROOT", tmp_path)
    changed = tmp_path / "docs" / "tables" / "h200-peers.csv"
    text = changed.read_text(encoding="utf-8")
    ratio = re.search(r"\b1\.\d\d[1-9]\b", text)
    assert ratio is not None
    changed.write_text(text.replace(ratio[0], f"{ratio[0][:-1]}0", 1), encoding="utf-8")
    capsys.readouterr()
    assert make.main(["--check", "--quick"]) == 1
    assert capsys.readouterr().out == "docs/tables/h200-peers.csv: stale, made by scripts/gallery/make.py\n"


@pytest.mark.slow
def test_pages_of_slow_inference_are_fresh(capsys):
    assert make.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in figures.FIGURES if name != "reports/comparison.html"])  # of a browser
def test_a_figure_drawn_by_todays_code_has_the_same_bytes(name, tmp_path):
    drawn = tmp_path / Path(name).name
    figures.FIGURES[name][1](drawn, figures.runs_of(name))
    assert drawn.read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('{{ value("h100-sxm-all", "stream", op="triad") }}', "h100-sxm-all: stream op=triad"),
        ('{{ value("h100-sxm-all", "barrier", work_items=3) }}', "work_items=3: 0 points"),
        ('{{ value("xeon-16-cores-pocl-all", "arithmetic", dtype="double") }}', "is suspect: "),
        ('{{ guideline("h200-sxm-access", "X4") }}', "is undetermined"),
        ('{{ value("no-such-run", "stream") }}', "no run no-such-run"),
        ("Triad 3070 GB/s", "3070 GB/s: measured by no run"),
    ],
)
def test_a_number_that_no_run_holds_is_an_error_that_names_it(template, message, tmp_path, monkeypatch):
    monkeypatch.setattr(make, "PAGES", tmp_path)
    (tmp_path / "x.md.j2").write_text(template, encoding="utf-8")
    with pytest.raises(run_numbers.MissingNumber, match=f"x.md.j2: .*{re.escape(message)}"):
        make.made(tmp_path / "x.md.j2")


def test_forms_of_a_number_and_a_part_that_is_kept(tmp_path, monkeypatch):
    number = run_numbers.Number(33_437.4, 33_000.0, 34_000.0, "GFLOP/s", peak=0.9995)
    assert (str(number), str(number.to("TFLOP/s")), number.of_peak) == ("33,437 GFLOP/s", "33.4 TFLOP/s", "100.0%")
    assert number.digits(2).to("TFLOP/s").interval == "33 to 34"
    assert str(run_numbers.Number(6720.0, None, None, "ns").to("us")) == "6.72 us"
    with pytest.raises(run_numbers.MissingNumber, match="is no GB/s"):
        number.to("GB/s")
    monkeypatch.setattr(make, "PAGES", tmp_path)
    (tmp_path / "x.md.j2").write_text('{% call kept("a trial") %}Once 7 us.{% endcall %}', encoding="utf-8")
    assert make.made(tmp_path / "x.md.j2") == make.Page("Once 7 us.", [("a trial", 1)])


def test_a_value_of_a_table_is_quoted_with_its_interval_and_none_that_is_undetermined(monkeypatch):
    header = ["level", "space", "property", "value", "interval", "status", "why"]
    rows = [
        ["L1", "global", "size", "217 KiB", "216.5 to 217 KiB", "ok", ""],
        ["L2", "global", "size", "–", "at least 1 MiB", "undetermined", "no room"],
        ["L2", "global", "ways", "–", "2 to 8", "undetermined", "no stride"],
    ]
    monkeypatch.setattr(run_numbers, "read", lambda table: [header, *rows])
    size = run_numbers.inferred("some", "L1", "size")
    assert (str(size), size.interval) == ("217 KiB", "216.5 to 217 KiB")
    assert str(run_numbers.inferred("some", "L2", "size")) == "at least 1 MiB"
    for level, name, message in (("L2", "ways", "is undetermined: no stride"), ("L3", "size", "0 points")):
        with pytest.raises(run_numbers.MissingNumber, match=message):
            run_numbers.inferred("some", level, name)


def test_the_diagram_of_an_h200_has_the_values_of_its_table(tmp_path):
    inside.draw(tmp_path / "x.svg", ())
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(drawn)
    assert all(
        str(run_numbers.inferred("h200-hierarchy", "L1", name)) in drawn for name in ("size", "line", "latency in cycles")
    )
    assert drawn.count("<rect") > 15


def test_a_measured_number_without_a_run_or_command_is_found(tmp_path, monkeypatch):
    assert list(make.unsourced()) == []
    (tmp_path / "docs").mkdir()
    text = "An H200 reads 4.5 TB/s.\nIts limit is 5%, and `an H200 has 4.8 TB/s` is code.\n\nNothing on the EPYC."
    (tmp_path / "docs" / "x.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(run_numbers, "ROOT", tmp_path)
    assert list(make.unsourced()) == [("docs/x.md", "An H200 reads 4.5 TB/s.")]
    monkeypatch.setattr(make, "PAGES", tmp_path)
    (tmp_path / "y.md.j2").write_text("```console\n$ clmembench show x\n  triad 4.5 TB/s\n```\n", encoding="utf-8")
    with pytest.raises(run_numbers.MissingNumber, match=re.escape("4.5 TB/s")):
        make.made(tmp_path / "y.md.j2")


def test_every_table_of_a_command_is_made_from_a_run():
    for name, (_, origin, _) in TITLES.items():
        template = ROOT / "scripts" / "gallery" / "pages" / "docs" / "tables" / f"{name}.csv.j2"
        assert template.exists() == (origin.startswith("clmembench ") or origin == "trials of November 2026"), name


def test_an_excerpt_is_passages_of_what_a_command_prints():
    words = "show reports/h200-sxm-quick.jsonl.gz"
    excerpt = run_numbers.console(words, ("of peak", "DGEMM"), ("Launch", "Launch"))
    assert [line.split()[0] for line in excerpt.splitlines()] == ["$", "median", "Memory", "DGEMM", "Launch,"]
    with pytest.raises(run_numbers.MissingNumber, match="no lines from no such"):
        run_numbers.console(words, ("no such", "DGEMM"))


def test_readings_are_kept_of_the_first_samples(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    ticks = Trace.pack("cycles", [np.full(3, n, dtype="uint64") for n in range(5)])
    records = [{"schema": 1}, {"series": [{"host_ns": [1] * 5, "reads": {"ticks": asdict(ticks)}}]}]
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in records).encode()))
    measure.keep_reads(path, 2)
    header, record = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    assert header == records[0] and record["series"][0]["host_ns"] == [1] * 5
    assert Trace(**record["series"][0]["reads"]["ticks"]).unpack().tolist() == [[0] * 3, [1] * 3]


def test_factors_of_predicted_kernels_are_geometric_means(monkeypatch):
    header = ["device", "sizes", "class", "measured_us", "predicted_us", "low_us", "high_us"]
    rows = [["X", "gpu", "sort", "10", "20", "5", "15"], ["X", "gpu", "own", "8", "1", "1", "2"], ["X", "cpu", "own", *"1111"]]
    monkeypatch.setattr(run_numbers, "read", lambda table: [header, *rows])
    found = run_numbers.predicted("X", "gpu")
    assert (found.kernels, found.within, found.factor("predicted")) == (2, 1, "4.00")
    assert run_numbers.predicted("X", "gpu", "own").factor("predicted") == "8.00"
    with pytest.raises(run_numbers.MissingNumber, match="0 kernels"):
        run_numbers.predicted("X", "gpu", "graph")
