"""`infer TRACES.csv`: what it prints, and how it refuses what is no file of traces."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from clmembench.cli import exit_codes
from clmembench.cli.program import app
from clmembench.studies.hierarchy.views import hierarchy_json
from clmembench.studies.traces.trace_csv import COLUMNS, TraceError, read
from tests.cases import each

GOOD = "trace_id,array_bytes,stride_bytes,step,offset_bytes,latency\n" + "".join(
    f"a,256,64,{step},{step % 4 * 64},{200 if step < 4 else 30}\n" for step in range(12)
)


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def lru_csv(tmp_path):
    """A cache of 16 sets of 4 lines of 64 B under LRU, by hand: what it holds is the last 4 lines of each set."""
    rows, random = [",".join((*COLUMNS, "remark"))], np.random.default_rng(4)
    orders = {f"lap {size}": (size, 64, list(range(0, size, 64)) * 6) for size in (2048, 4096, 4160, 4224, 4608, 8192)}
    orders["words"] = (2048, 8, list(range(0, 2048, 8)) * 2)
    orders["words over"] = (4160, 8, list(range(0, 4160, 8)) * 3)
    orders["far"] = (8192, 128, list(range(0, 8192, 128)) * 6)
    orders["walk"] = (6144, 1024, (random.integers(0, 6, 800) * 1024).tolist())
    for name, (size, stride, offsets) in orders.items():
        held = {}
        for step, offset in enumerate(offsets):
            line = offset // 64
            own = held.setdefault(line % 16, [])
            hit = line in own
            if hit:
                own.remove(line)
            own.append(line)
            del own[:-4]
            rows.append(f"{name},{size},{stride},{step},{offset},{(30 if hit else 200) + random.normal():.2f},x")
    return written(tmp_path, "\n".join(rows) + "\n")


def test_json_has_the_levels_with_a_finding_for_each_property(tmp_path):
    result = CliRunner().invoke(app, ["infer", str(lru_csv(tmp_path)), "--json"])
    assert result.exit_code == exit_codes.OK
    whole = json.loads(result.stdout)
    assert list(whole) == ["levels", "tlb", "local", "constant", "image", "patterns", "patterns_past", "sharing", "notes"]
    assert [(level["name"], level["space"]) for level in whole["levels"]] == [("L1", "global"), ("slowest seen", "global")]
    l1 = whole["levels"][0]
    assert set(hierarchy_json.CACHE) <= set(l1)
    values = {name: l1[name]["value"] for name in hierarchy_json.CACHE if name != "latency_cycles"}
    assert values == {
        "size_bytes": 4096, "line_bytes": 64, "sector_bytes": 64, "ways": 4, "sets": 16, "policy": "LRU", "latency_ns": None,
    }  # fmt: skip
    assert l1["latency_cycles"]["value"] == pytest.approx(30, rel=0.01)
    assert l1["latency_cycles"]["unit"] == "as recorded"
    assert l1["latency_ns"]["status"] == "undetermined"
    assert 0 < len(l1["size_bytes"]["evidence"]) <= 5


def test_the_drawing_names_levels_and_reasons(tmp_path):
    result = CliRunner().invoke(app, ["infer", str(lru_csv(tmp_path))])
    assert result.exit_code == exit_codes.OK
    assert "L1" in result.stdout
    assert "4 KiB" in result.stdout
    assert "4 ways" in result.stdout
    result = CliRunner().invoke(app, ["infer", str(written(tmp_path, GOOD, "short.csv"))])
    assert result.exit_code == exit_codes.OK
    assert "Undetermined, and why" in result.stdout


@each(
    ("text", "says"),
    [
        ("", "no column"),
        ("a,b\n1,2\n", "row 1: no column trace_id"),
        (GOOD.splitlines()[0] + "\n", "no accesses"),
        (GOOD.replace(",200\n", ",fast\n", 1), "row 2: latency is 'fast'"),
        (GOOD.replace(",200\n", ",\n", 1), "row 2: latency is nothing"),
        (GOOD.replace(",200\n", ",nan\n", 1), "row 2: latency"),
        (GOOD.replace(",200\n", ",inf\n", 1), "row 2: latency"),
        (GOOD.replace(",200\n", ",-3\n", 1), "row 2: latency is -3"),
        (GOOD.replace("a,256,64,5,", "a,256,64,7,"), "row 7: step 7 of trace a follows step 4"),
        (GOOD.replace("a,256,64,5,", "a,512,64,5,"), "row 7: array_bytes of trace a changes"),
        (GOOD.replace("a,256,64,5,64", "a,256,64,5,64.5"), "row 7: offset_bytes is 64.5, not whole"),
        (GOOD.replace("a,256,64,5,64", "a,256,64,5,1e300"), "row 7: offset_bytes"),
        (GOOD.replace("a,256,64,5,64", "a,0,64,5,64"), "row 7: array_bytes is 0"),
        (GOOD.replace(",200\n", f",{'9' * 310}\n", 1), "row 2: latency is inf: it has to be from 0 to 1e+15"),
        (GOOD.replace(",200\n", f",-{'9' * 310}\n", 1), "row 2: latency is inf"),
        (GOOD.replace(",200\n", f",{'9' * 310}\n", 1).replace(",64,5,", ",64,x,"), "row 7: step is 'x', no number"),
        (GOOD.replace(",200\n", f",{'9' * 30}\n", 1), "row 2: latency is 1e+30"),
        (GOOD.replace("a,256,64,5,64", f"a,256,64,5,{'9' * 310}"), "row 7: offset_bytes is inf"),
        (GOOD.replace("a,256,64,5,64", f"a,{'9' * 310},64,5,64"), "row 7: array_bytes is inf"),
        (GOOD.replace("latency", "step", 1), "no column latency"),
        (GOOD.replace("trace_id", "step,trace_id", 1), "step is there twice"),
        (b"\xff\xfe\x00", "t.csv"),
        (GOOD + 'b,"', "t.csv"),
        (GOOD.replace(",200\n", ",20,5\n", 1), "row 2: it has more cells than the first row has names"),
        (GOOD.replace("\n", ",9\n").replace("latency,9", "latency"), "row 2: it has more cells"),
        (GOOD.replace("a,256,64,5,64,", "a,256,64,5,64,1,"), "row 7: it has more cells"),
        (GOOD.replace(",", ";").replace(";200\n", ";20,5\n", 1), "row 2: latency is '20,5', no number"),
        (GOOD.replace("a,256,64,5,", "\na,256,64,5,"), "row 7: array_bytes is nothing"),
    ],
)
def test_what_is_no_file_of_traces_is_refused_in_a_line(tmp_path, text, says):
    result = CliRunner().invoke(app, ["infer", str(written(tmp_path, text))])
    assert result.exit_code == exit_codes.USAGE
    assert result.stdout == ""
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ["infer", str(tmp_path / "none.csv")])
    assert result.exit_code == exit_codes.USAGE
    assert "none.csv" in result.stderr


def test_columns_in_any_order_others_ignored_and_traces_between_one_another(tmp_path):
    text = "latency,note,step,offset_bytes,trace_id,stride_bytes,array_bytes\n" + "".join(
        f"{10 + step},hello,{first + step},{64 * step},{name},64,4096\n"
        for step in range(3)
        for name, first in (("b", 7), ("x y", 0))
    )
    b, x = read(written(tmp_path, text))
    assert (b.id, b.first_step, b.array_bytes, b.stride_bytes) == ("b", 7, 4096, 64)
    assert (x.id, x.first_step) == ("x y", 0)
    assert b.offsets.tolist() == [0, 64, 128]
    assert x.latencies.tolist() == [10.0, 11.0, 12.0]


def test_files_as_spreadsheets_and_other_systems_write_them_are_the_same_traces(tmp_path):
    def lists(text):
        found = read(written(tmp_path, text))
        return [(one.id, one.array_bytes, one.offsets.tolist(), one.latencies.tolist()) for one in found]

    whole, (head, _, rest) = lists(GOOD), GOOD.partition("\n")
    for other in (
        "\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), GOOD.replace(",", ";"), GOOD.replace(",", "\t"), GOOD + "\n\n",
        f"{head.title()}\n{rest}", f"{head},note,note\n{rest}",
    ):  # fmt: skip
        assert lists(other) == whole, other[:60]


def test_too_large_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("clmembench.studies.traces.trace_csv.MAX_TRACE_FILE_BYTES", 10)
    with pytest.raises(TraceError, match="over the limit of 10: split"):
        read(written(tmp_path, GOOD))
