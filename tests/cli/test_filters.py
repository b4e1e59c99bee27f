"""Filters of stored runs: they say which values are shown, and change none of them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from clmembench.host import environment
from clmembench.results import jsonl
from tests.builders import device, header, record, series, write_run
from tests.cases import each
from tests.commands import ROOT, cli

QUICK = ROOT / "reports" / "xeon-2-cores-pocl-quick.jsonl.gz"
INTEL = ROOT / "reports" / "xeon-2-cores-intel-quick.jsonl.gz"


def objects(*args: str) -> list[dict]:
    done = cli("show", str(QUICK), "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def whole() -> list[dict]:
    return objects()


@each(
    ("args", "wanted"),
    [
        (("-b", "launch*"), lambda v: v["benchmark"].startswith("launch")),
        (("-b", "stream", "-b", "dgemm"), lambda v: v["benchmark"] in ("stream", "dgemm")),
        (("-s", "link"), lambda v: v["benchmark"].startswith("transfer")),
        (("-a", "op=[triad,read]"), lambda v: v["params"].get("op") in ("triad", "read")),
        (("-a", "array_bytes=512MiB"), lambda v: v["params"].get("array_bytes") == 512 << 20),
        (("--status", "suspect,undetermined"), lambda v: v["status"] in ("suspect", "undetermined")),
        (("--status", "suspect", "--status", "undetermined"), lambda v: v["status"] in ("suspect", "undetermined")),
        (("-s", "memory", "-a", "op=copy", "--status", "ok"), lambda v: v["params"].get("op") == "copy"),
        (("-s", "all", "--device", "name~xeon"), lambda v: True),
    ],
)
def test_a_filter_shows_the_values_it_names_unchanged(whole, args, wanted):
    expected = [value for value in whole if wanted(value)]
    assert expected and objects(*args) == expected


def test_a_suite_of_this_version_is_known_by_its_benchmarks(whole):
    assert objects("-s", "quick") == whole  # no card says that it is of suite quick


def test_csv_and_markdown_have_the_same_rows():
    lines = list(csv.DictReader(io.StringIO(cli("show", str(QUICK), "--csv", "-b", "stream").stdout)))
    table = cli("show", str(QUICK), "--md", "-b", "stream").stdout
    assert [line["param.op"] for line in lines] == ["copy", "triad", "read"]
    assert table.count("| stream |") == 3 and "dgemm" not in table


def test_the_summary_of_a_part_says_how_much_is_left_out(whole):
    summary, part = cli("show", str(QUICK)).stdout, cli("show", str(QUICK), "-b", "stream").stdout
    assert f"3 of {len(whole)} values are shown: -b stream" in part and "values are shown" not in summary
    line = next(line for line in summary.splitlines() if line.strip().startswith("triad"))
    assert line in part and "Sparse matrix" in summary and "Sparse matrix" not in part


def test_chosen_points_are_listed_and_nothing_is_inferred_from_some_of_a_curve():
    shown = cli("show", str(QUICK), "-b", "pchase", "-a", "array_bytes=64KiB").stdout
    assert "array_bytes=64 KiB" in shown and "ends with lines of" not in shown


@each(
    ("args", "said"),
    [
        (("-b", "nothing"), "choose from benchmarks pchase, stream"),
        (("-s", "nothing"), "suites memory, sync, link, compute"),
        (("-a", "op=nothing"), "op copy, triad, add, read"),
        (("-a", "op"), "write name=value"),
        (("-b", "stream", "--status", "failed"), "choose from status ok"),
        (("--status", "broken"), "choose from ok, suspect"),
        (("--device", "name~Radeon"), "pthread-Intel(R) Xeon(R) Processor"),
    ],
)
def test_a_filter_that_nothing_matches_says_what_there_is(args, said):
    done = cli("show", str(QUICK), *args)
    assert done.returncode == 2 and said in done.stderr and not done.stdout


def test_a_filter_of_compare_changes_no_verdict():
    def changes(*args: str) -> list[dict]:
        done = cli("compare", str(QUICK), str(INTEL), "--force", "--json", *args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)[0]["changes"]

    whole = changes()
    assert changes("-b", "launch*") == [c for c in whole if c["benchmark"].startswith("launch")]
    assert changes("-s", "sync", "--status", "faster") == [
        c for c in whole if c["suite"] == "sync" and c["verdict"] == "faster"
    ]
    assert cli("compare", str(QUICK), str(INTEL), "--force", "--device", "name~Xeon", "--json").returncode == 0
    alone = cli("compare", str(QUICK), str(INTEL), "--device", "name~Radeon")
    assert alone.returncode == 2 and "leaves 0 runs" in alone.stderr


@pytest.fixture
def slower(tmp_path) -> tuple[Path, Path]:
    """A baseline, and a run in which copies are as fast, and triads take twice the time."""
    paths = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for path, factor in zip(paths, (1, 2), strict=True):
        with jsonl.Writer(path, header()) as writer:
            for op, times in (("copy", 1), ("triad", factor)):
                for process in range(6):
                    samples = [times * (100_000 + 10 * i + process) for i in range(40)]
                    writer.write(record("stream", {"op": op}, series(samples, nbytes=1 << 20), process=process))
    return paths


def test_check_judges_the_values_that_were_chosen(slower):
    before, after = map(str, slower)
    whole = cli("check", after, "--baseline", before)
    assert whole.returncode == 5 and "FAIL" in whole.stdout
    assert cli("check", after, "--baseline", before, "-a", "op=copy").returncode == 0
    listed = cli("check", after, "--baseline", before, "--status", "same")
    assert listed.returncode == 5  # what is listed changes no outcome
    assert "op=copy" in listed.stdout and "op=triad" not in listed.stdout
    assert cli("check", after, "--baseline", before, "--device", "name~other").returncode == 2


def test_a_report_with_filters_has_the_chosen_points_alone(tmp_path):
    other = tmp_path / "other.jsonl"
    write_run(other, [record("stream", {"op": "copy"}, series([1000] * 40, nbytes=1 << 20))], header(device("Other GPU")))
    made = cli("report", str(QUICK), str(other), "-f", "md", "-b", "dgemm").stdout
    assert "C = A B" in made and "Bandwidth of global memory" not in made
    assert "Other GPU" not in made  # it has no dgemm
    mine = cli("report", str(QUICK), str(other), "-f", "md", "--device", "name~Other").stdout
    assert "Other GPU" in mine and "Xeon" not in mine
    none = cli("report", str(QUICK), "-b", "nothing")
    assert none.returncode == 2 and "no value of" in none.stderr


def test_names_and_tags_are_kept_and_shown(tmp_path):
    path = tmp_path / "named.jsonl"
    head = header(label="lab machine", tags={"cooling": "water"}, host={"name": "node7", "virtual": False})
    write_run(path, [record("stream", {"op": "copy"}, series([1000] * 40, nbytes=1 << 20))], head)
    read = jsonl.read(path).header
    assert (read.label, dict(read.tags), read.host["name"]) == ("lab machine", {"cooling": "water"}, "node7")
    page = cli("report", str(path), "-f", "md").stdout
    assert "lab machine" in page
    assert "lab machine" in cli("compare", str(path), str(path)).stdout
    shown = cli("show", str(path)).stdout
    assert all(word in shown for word in ("lab machine", "cooling=water", "node7"))
    html = cli("report", str(path), "-f", "html").stdout
    assert all(word in html for word in ("host name", "node7", "cooling=water"))


def test_a_runs_label_names_its_device_and_keeps_it_apart(tmp_path):
    paths = [tmp_path / f"{name}.jsonl" for name in ("one", "two")]
    for path, label in zip(paths, ("first box", "second box"), strict=True):
        write_run(
            path, [record("stream", {"op": "copy"}, series([1000] * 40, nbytes=1 << 20))], header(label=label, run_id=path.stem)
        )
    page = cli("report", *map(str, paths), "-f", "md").stdout
    assert "first box | second box" in page
    renamed = cli("report", *map(str, paths), "-f", "md", "--label", f"{paths[0]}=third box").stdout
    assert "third box | second box" in renamed and "first box |" not in renamed


def test_the_host_name_can_be_replaced_or_left_out(monkeypatch):
    for given, kept in (("lab", "lab"), ("", None)):
        monkeypatch.setenv("CLMEMBENCH_HOST_NAME", given)
        assert environment.host()["name"] == kept
        assert "CLMEMBENCH_HOST_NAME" not in environment.variables()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--tag", "cooling"), "write key=value"),
        (("--tag", "a=1", "--tag", "a=2"), "two values"),
        (("--label", "x" * 500), "at most 200 letters"),
    ],
    ids=["no value", "twice", "long"],
)
def test_names_that_are_none_are_refused_before_anything_is_measured(args, said):
    done = cli("run", "-d", "0", "-b", "launch", "--dry-run", *args)
    assert done.returncode == 2 and said in done.stderr
