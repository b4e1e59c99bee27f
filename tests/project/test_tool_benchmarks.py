"""The benchmarks of the tool itself: copies of stored runs are runs, and the cost of their report is measured."""

from __future__ import annotations

import gzip
import importlib.util
import statistics

import pytest

from clmembench.results.jsonl import read
from tests.commands import ROOT

SPEC = importlib.util.spec_from_file_location("tool", ROOT / "benchmarks" / "tool.py")
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)


@pytest.fixture
def stored():
    return tool.find_stored(tool.STORED, "h200-sxm-mnf")


def times(path):
    return [ns for record in read(path).records for series in record.series for ns in series.host_ns]


def test_copies_are_runs_of_other_speeds(stored, tmp_path):
    tool.write_copies(stored, tmp_path, 100, 3)
    runs = [read(path) for path in sorted(tmp_path.glob("*.jsonl"))]
    assert len({run.header.run_id for run in runs}) == 100 and {len(run.records) for run in runs} == {3}
    speed = [statistics.median(times(path)) for path in sorted(tmp_path.glob("*.jsonl"))]
    slow = speed[77] / statistics.median(speed)
    assert 1.2 < slow < 1.5 and 0.005 < statistics.pstdev(speed[:77]) / statistics.fmean(speed[:77]) < 0.04


def test_a_compressed_run_is_read_as_its_text(stored, tmp_path):
    header, records = tool.read_run(stored[0], 2)
    text = "\n".join(map(tool.json.dumps, (header, *records)))
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    assert tool.read_run(tool.find_stored(tmp_path, "*")[0], 5) == (header, records)


def test_a_report_of_copies_takes_time_and_memory_and_leaves_a_page(stored, tmp_path):
    tool.write_copies(stored, tmp_path, 2, 3)
    seconds, memory = tool.report_copies(tmp_path)
    assert 0.1 < seconds < 240 and 20e6 < memory < 8e9  # Python with NumPy, not a number of pages
    assert b"</html>" in (tmp_path / "report.html").read_bytes()
    (tmp_path / "0000.jsonl").write_text("no run")
    with pytest.raises(tool.subprocess.CalledProcessError):
        tool.report_copies(tmp_path)
