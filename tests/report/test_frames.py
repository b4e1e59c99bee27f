"""Runs as pandas DataFrames: `clmembench.read` and `clmembench.headlines`."""

import io
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import clmembench as cm
from clmembench.cli.program import app
from clmembench.report import frame
from tests.builders import device, header, write_run
from tests.report.test_scorecard import CARDS, TRIAD, triad


@pytest.fixture
def files(tmp_path):
    """Runs of two devices, with a point that is suspect."""
    suspect = triad(9000.0, 1 << 29, status="suspect", gate="peak", reason="over the theoretical peak")
    for name, points in (("A", [triad(4000.0, 1 << 30)]), ("B", [triad(160.0, 1 << 20), suspect])):
        write_run(tmp_path / f"{name}.jsonl", points, header(device(name), CARDS))
    return tmp_path


def test_a_row_for_each_point_and_metric_with_its_parameters_and_interval(files):
    found = cm.read(files / "*.jsonl")
    assert list(found["device"]) == ["A", "B", "B"]
    assert list(found["param.array_bytes"]) == [1 << 30, 1 << 20, 1 << 29]
    first = found.iloc[0]
    assert (first["benchmark"], first["metric"], first["unit"], first["status"]) == ("stream", "bandwidth", "GB/s", "ok")
    assert first["ci_low"] <= first["median"] <= first["ci_high"] and first["median"] == pytest.approx(4000, rel=0.01)
    assert found.iloc[2]["status"] == "suspect" and "theoretical peak" in found.iloc[2]["reason"]
    assert found["file"].iloc[0].endswith("A.jsonl")
    assert len(cm.read([files / "A.jsonl", str(files / "*.jsonl")])) == 3  # each file once


def test_headlines_are_those_of_the_verdict_and_only_good_ones_have_a_value(files):
    found = cm.headlines(str(files / "*.jsonl")).set_index(["quantity", "device"])
    assert found.loc[(TRIAD, "A"), "value"] == pytest.approx(4000, rel=0.01)
    assert found.loc[(TRIAD, "B"), "status"] == "suspect" and found.loc[(TRIAD, "B")].isna()["value"]
    assert found.loc[(TRIAD, "A"), "better"] == "higher" and found.loc[(TRIAD, "A"), "group"] == "bandwidth"


def test_what_is_not_there_is_said(files):
    with pytest.raises(FileNotFoundError, match="no results file of this name or pattern"):
        cm.read(files / "nothing*.jsonl")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cm.nonsense  # noqa: B018


def test_the_package_alone_loads_no_pandas():
    code = "import clmembench, sys; print('pandas' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_show_parquet_writes_the_frame_that_read_gives(files, tmp_path):
    pytest.importorskip("pyarrow", reason="pip install 'clmembench[data]'")
    out = tmp_path / "b.parquet"
    done = CliRunner().invoke(app, ["show", str(files / "B.jsonl"), "--parquet", str(out)])
    assert done.exit_code == 0 and done.stdout == ""
    pd.testing.assert_frame_equal(pd.read_parquet(out), cm.read(files / "B.jsonl"), check_dtype=False)
    again = CliRunner().invoke(app, ["show", str(files / "B.jsonl"), "--parquet", str(out)])
    assert again.exit_code == 2 and "--overwrite" in again.stderr
    mixed = pd.DataFrame({"param.spacing_bytes": ["line", 256, None], "n": [1, 2, 3], "large": [2**64 - 1, -1, None]})
    back = pd.read_parquet(io.BytesIO(frame.parquet(mixed)))
    assert list(back["param.spacing_bytes"][:2]) == ["line", "256"] and back["param.spacing_bytes"].isna()[2]
    assert list(back["large"][:2]) == [str(2**64 - 1), "-1"] and list(back["n"]) == [1, 2, 3]


def test_without_pyarrow_one_line_names_the_remedy(files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = CliRunner().invoke(app, ["show", str(files / "A.jsonl"), "--parquet", str(tmp_path / "a.parquet")])
    assert done.exit_code == 2 and "pip install 'clmembench[data]'" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "a.parquet").exists()
