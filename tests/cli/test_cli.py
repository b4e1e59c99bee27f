"""The command line as a user meets it: real processes, exit codes, clean standard output."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clmembench import sanitize
from clmembench.cli.running.run_request import _with_array_size
from clmembench.report.frame import judged_rows
from clmembench.results import jsonl, run_files, whole_file
from clmembench.results.limits import MAX_FILE_BYTES
from tests.builders import device
from tests.cases import each
from tests.commands import ROOT, Ended, as_on_a_quiet_host, brief_points, cli, is_measured, process
from tests.pages import without_own_script


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    with brief_points():
        yield


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> tuple[Path, Ended]:
    path = tmp_path_factory.mktemp("run") / "r.jsonl"
    done = cli("run", "-d", "0", "-b", "launch*", "-b", "transfer", "-a", "groups=1", "-a", "array_bytes=4KiB", "-o", str(path))
    return path, done


def test_help_and_version():
    assert "run" in process("--help").stdout
    assert process("--version").stdout.startswith("clmembench ")


@pytest.mark.parametrize("name", ["VERSION", "HELP", "SUITES_HELP", "DEVICES_HELP"])
def test_the_environment_makes_no_command_print_something_else(name):
    done = cli("suites", **{f"CLMEMBENCH_{name}": "1"})
    assert done.returncode == 0 and done.stdout.startswith("quick: "), done.stdout


LIMIT_S = 200  # for what ends by itself, on a host that does much else too
SPEAKS = [
    ("show", "RUN"), ("show", "RUN", "--md"), ("show", "RUN", "--latex"), ("show", "RUN", "--csv"), ("topology", "RUN"),
    ("report", "RUN"), ("report", "RUN", "-f", "md"), ("compare", "RUN", "RUN", "--all"), ("infer", "TRACES"), ("suites",),
    ("devices",), ("describe", "pchase"), ("show", "missing-\u2013-\u20ac.jsonl"),
]  # fmt: skip


def speaks(run, tmp_path, command, encoding):
    """What a command prints, of a run of a device whose name is not in ASCII, is of that encoding alone."""
    file, traces = tmp_path / "r.jsonl", tmp_path / "t.csv"
    if "RUN" in command:
        stored = (ROOT / "tests" / "golden" / "schema1.jsonl").read_text(encoding="utf-8")
        file.write_text(stored.replace('"name":"', '"name":"\u20ac \u2013 ', 1), encoding="utf-8")
    traces.write_text("trace_id,array_bytes,stride_bytes,step,offset_bytes,latency\na,64,8,0,0,4\n", encoding="utf-8")
    names = {"RUN": str(file), "TRACES": str(traces)}
    done = run(*(names.get(word, word) for word in command), encoding=encoding)
    assert "Traceback" not in done.stderr and "codec" not in done.stderr
    assert done.returncode in ((2,) if command[-1].startswith("missing") or command[0] == "topology" else (0,)), done.stderr
    assert done.stdout.isascii() or encoding != "ascii"


@each("encoding", ["ascii", "latin-1"])
@each("command", SPEAKS)
def test_output_goes_to_a_terminal_of_any_encoding(tmp_path, monkeypatch, command, encoding):
    monkeypatch.chdir(tmp_path)
    speaks(cli, tmp_path, command, encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", [("show", "RUN"), ("show", "missing-\u2013-\u20ac.jsonl")], ids=" ".join)
def test_a_process_writes_to_a_terminal_of_any_encoding(tmp_path, command, encoding):
    speaks(partial(process, PYTHONIOENCODING=encoding), tmp_path, command, encoding)


def test_letters_that_a_terminal_lacks_are_written_by_ones_that_look_alike():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    sanitize.write_anywhere(stream)
    stream.write("5 \xb5s \u2013 \u2502 \u20ac \udc80")
    stream.flush()
    assert stream.buffer.getvalue().decode("latin-1") == "5 \xb5s - | ? ?"


HANDLED = """
import clmembench.__main__ as entry
from clmembench.cli import program

def interrupted():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        raise SystemExit(130)

program.main = interrupted
entry.main()
"""


def test_a_handled_ctrl_c_ends_in_its_exit_code_and_not_by_a_signal(tmp_path):
    (tmp_path / "interrupted.py").write_text(HANDLED)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-m", "interrupted"], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (130, "")


def test_import_of_the_command_line_brings_no_heavy_library():
    heavy = "('numpy', 'pandas', 'scipy', 'seaborn', 'matplotlib', 'pyopencl')"
    code = f"import sys, clmembench.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_describe_gives_an_axis_the_unit_that_its_name_declares():
    counts = cli("describe", "dgemm").stdout + cli("describe", "spmv").stdout + cli("describe", "copy_grid").stdout
    axes = dict(line.removeprefix("axis").strip().split(": ", 1) for line in counts.splitlines() if line.startswith("axis"))
    assert {"1024", "2048"} <= set(axes["n"].split(" (")[0].split(", ")) and "1, 65536" in axes["sigma"]
    assert not any("iB" in axes[name] for name in ("n", "sigma", "groups", "work_group"))
    assert "array_bytes: 4 KiB" in cli("describe", "pchase").stdout


def test_devices_as_json_have_the_promised_fields():
    listed = json.loads(cli("devices", "--json").stdout)
    assert listed
    promised = {"index", "id", "name", "platform", "vendor", "type", "driver", "compute_units", "global_mem_bytes"}
    promised |= {"local_mem_bytes", "max_work_group", "fp64", "features"}
    assert promised <= set(listed[0])


def test_a_run_ends_in_a_summary_and_a_file(stored):
    path, done = stored
    assert done.returncode == 0, done.stderr
    _, rows = judged_rows(jsonl.read(path), None)
    is_good = any(row.is_good for row in rows if row.value.benchmark == "launch")  # not where the host was disturbed
    assert "Launch, round trip" in done.stdout or not is_good
    table = "Round trip of a nearly empty kernel"  # the run prints its tables where they are short: fewer notes, fewer lines
    assert (table in done.stdout) != (f"Tables: clmembench show {path}" in done.stdout)
    assert table in cli("show", str(path)).stdout
    assert "launch: 1 point," in done.stderr
    run = jsonl.read(path)
    assert run.records and all(map(is_measured, run.records))


def test_show_json_has_the_promised_fields_and_nothing_else_on_stdout(stored):
    shown = json.loads(cli("show", str(stored[0]), "--json").stdout)
    promised = {"benchmark", "params", "status", "reason", "metric", "unit", "median", "ci_low", "ci_high", "n", "processes"}
    assert all(promised | {"peak", "fraction_of_peak"} <= set(row) for row in shown)
    assert {row["benchmark"] for row in shown} == {
        *("launch", "launch_call", "launch_dispatch", "launch_method", "launch_wait", "transfer")
    }
    assert all(row["ci_low"] <= row["median"] <= row["ci_high"] for row in shown if row["status"] == "ok")


def test_show_csv_and_markdown(stored):
    lines = cli("show", str(stored[0]), "--csv").stdout.splitlines()
    assert lines[0].startswith("benchmark,")
    assert len({line.count("|") for line in cli("show", str(stored[0]), "--md").stdout.splitlines()}) == 1
    assert cli("show", str(stored[0]), "--csv", "--json").returncode == 2


def test_report_is_one_file_with_our_scripts_alone_and_no_address(stored, tmp_path):
    run = str(as_on_a_quiet_host(stored[0], tmp_path / "r.jsonl"))  # a figure shows values that are `ok`
    out = tmp_path / "r.html"
    assert cli("report", run, run, "-o", str(out)).returncode == 0
    text = out.read_text()
    assert "<svg" in text
    assert "<script" in text and "<script" not in without_own_script(text)
    assert 'src="http' not in text
    again = cli("report", str(stored[0]), "-o", str(out))
    assert again.returncode == 2
    assert "--overwrite" in again.stderr


def test_an_existing_file_is_not_replaced_unasked(stored):
    before = stored[0].read_bytes()
    done = cli("run", "-d", "0", "-b", "launch", "-a", "groups=1", "-o", str(stored[0]))
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert stored[0].read_bytes() == before


def test_dry_run_measures_nothing(tmp_path):
    done = cli("run", "--dry-run", "-s", "all", cwd=tmp_path)
    assert done.returncode == 0
    assert "pchase: array_bytes 4 KiB to at most" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_sizes_of_an_axis_may_have_units_and_quotes():
    done = cli("run", "--dry-run", "-b", "pchase", "-a", 'array_bytes=["64KiB",1MiB,4096]')
    assert "array_bytes 64 KiB, 1 MiB, 4 KiB" in done.stdout


def test_the_next_command_is_printed_as_a_shell_takes_it(tmp_path):
    path = tmp_path / "two words & $HOME.jsonl"
    done = cli("run", "-b", "launch", "-a", "groups=1", "-o", str(path))
    assert done.returncode == 0, done.stderr
    command = done.stdout.partition("\nNext: ")[2].partition(",")[0]
    assert shlex.split(command)[2] == str(path)


@each(
    ("args", "code", "says"),
    [
        (("run", "-s", "nonsense"), 2, "choose from quick"),
        (("run", "-b", "nonsense"), 2, "pchase"),
        (("run", "-a", "nonsense"), 2, "name=value"),
        (("run", "-a", "nonsense=1"), 2, "no axis"),
        (("run", "-b", "stream", "-a", "op=[triad,triadd]"), 2, "'triadd' is not one of copy"),
        (("run", "-b", "stream", "-a", "width=0"), 2, "0 is not a number from 1 up"),
        (("run", "-b", "pchase", "-a", "array_bytes=big"), 2, "'big' is not a number"),
        (("run", "--size", "many"), 2, "no size"),
        (("run", "--size", "4096TiB"), 2, "largest allocation"),
        (("run", "-b", "transfer", "-a", "direction=both", "-a", "memory=mapped"), 2, "nothing to measure"),
        (("run", "--budget", "soon"), 2, "no duration"),
        (("run", "-d", "99"), 3, "matches no device"),
        (("run", "-d", "uuid:"), 3, "matches no device"),
        (("run", "-d", "name~"), 3, "matches no device"),
        (("run", "-d", ""), 3, "matches no device"),
        (("show", "/nowhere.jsonl"), 2, "cannot read"),
        (("describe", "nonsense"), 2, "choose from"),
    ],
)
def test_a_wrong_word_is_one_line_that_names_the_remedy(args, code, says):
    done = cli(*args)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_arrays_that_the_memory_does_not_hold_are_refused():
    small = device(global_mem_bytes=4 << 30, max_alloc_bytes=2 << 30)
    assert _with_array_size(small, 1 << 30).array_bytes == 1 << 30
    with pytest.raises(ValueError, match=r"3 arrays of --size 1\.5 GiB are over"):
        _with_array_size(small, 1536 << 20)
    with pytest.raises(ValueError, match="largest allocation"):
        _with_array_size(small, 3 << 30)


def test_an_unwritable_place_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = cli("run", "-b", "launch", "-a", "groups=1", "-o", str(tmp_path / "file" / "r.jsonl"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1  # said before anything is measured
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_said_and_what_was_written_stays():
    done = cli("run", "-b", "launch", "-a", "groups=1", "-o", "/dev/full", "--overwrite")
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_leaves_a_valid_file_and_exits_130(tmp_path):
    path = tmp_path / "r.jsonl"
    running = subprocess.Popen(
        [sys.executable, "-m", "clmembench", "run", "-b", "launch", "-b", "pchase", "-o", str(path)],  # a short one, a long one
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n") >= 3):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    run = jsonl.read(path)
    assert len(run.records) >= 2
    assert run.notes == ()


def test_a_run_goes_on_where_it_was_cut_off(tmp_path):
    path = tmp_path / "r.jsonl"
    command = ("run", "-d", "0", "-b", "launch", "-a", "groups=[1,2]", "-o", str(path))
    assert cli(*command).returncode == 0
    whole = jsonl.read(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:40])
    given = {
        "CLMEMBENCH_RUN_DEVICE": "0",
        "CLMEMBENCH_RUN_SIZE": "1MiB",
        "CLMEMBENCH_RUN_SUITE": "link",
        "CLMEMBENCH_RUN_OVERWRITE": "1",
    }
    done = cli("run", "--resume", str(path), **given)  # defaults of the user's, of which the file knows better
    assert done.returncode == 0, done.stderr
    again = jsonl.read(path)
    assert again.header == whole.header and again.records[0] == whole.records[0]
    assert [r.params for r in again.records] == [r.params for r in whole.records]
    assert again.records[1].started > whole.records[1].started


def cut_off(path: Path, *arguments: str) -> None:
    """A run of two points whose second was lost."""
    assert cli("run", "-d", "0", *arguments, "-o", str(path)).returncode == 0
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]))


def matrix_file(path: Path, value: str) -> Path:
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 {value}\n2 2 1\n")
    return path


def test_a_run_does_not_go_on_with_another_matrix_of_the_same_name(tmp_path):
    path, matrix = tmp_path / "r.jsonl", matrix_file(tmp_path / "a.mtx", "1.5")
    cut_off(path, "-b", "spmv", "--matrix", str(matrix), "-a", "format=csr_row", "--no-isolate")
    whole = path.read_bytes()
    matrix_file(matrix, "2.5")
    done = cli("run", "--resume", str(path))
    assert done.returncode == 2 and "was measured with another content of the input files" in done.stderr
    assert path.read_bytes() == whole
    matrix_file(matrix, "1.5")
    assert cli("run", "--resume", str(path)).returncode == 0
    assert jsonl.read(path).header.inputs == {str(matrix): whole_file.hash_file(matrix)}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("source_revision", "sha256:0", "another revision of clmembench"),
        ("packages", {"numpy": "0.1"}, "another set of package versions"),
    ],
)
def test_a_run_does_not_go_on_with_another_program(stored, tmp_path, name, value, said):
    first, _, rest = stored[0].read_text().partition("\n")
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**json.loads(first), name: value}) + "\n" + rest)
    done = cli("run", "--resume", str(path))
    assert done.returncode == 2 and said in done.stderr


def test_an_older_file_goes_on_with_a_warning_of_what_it_does_not_say(stored, tmp_path):
    first, _, rest = stored[0].read_text().partition("\n")
    head = {name: value for name, value in json.loads(first).items() if name not in ("source_revision", "inputs")}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(head) + "\n" + rest)
    done = cli("run", "--resume", str(path))
    assert done.returncode == 0, done.stderr
    assert "does not record its revision of clmembench: a change of it cannot be detected" in done.stderr


@pytest.mark.parametrize("said", [("-d", "0"), ("-s", "quick"), ("-a", "groups=1"), ("--seed", "5"), ("--processes", "2")])
def test_a_run_that_goes_on_says_by_itself_what_it_is(stored, said):
    path, _ = stored
    before = path.read_bytes()
    done = cli("run", *said, "--resume", str(path))
    assert done.returncode == 2 and "leave out" in done.stderr
    assert path.read_bytes() == before


def test_resume_needs_a_run_of_a_device_that_is_here(stored, tmp_path):
    done = cli("run", "--resume", str(tmp_path / "none.jsonl"))
    assert done.returncode == 2 and "No such file" in done.stderr
    path, _ = stored
    other = tmp_path / "other.jsonl"
    header, _, rest = path.read_text().partition("\n")
    device = jsonl.read(path).header.device
    other.write_text(header.replace(f'"name":"{device.name}"', '"name":"Another CPU"') + "\n" + rest)
    done = cli("run", "--resume", str(other))
    assert done.returncode == 3 and "which is not here: see devices" in done.stderr
    other.write_text(header.replace(f'"cpu_id":"{device.cpu_id}"', '"cpu_id":"Maker-1-2"') + "\n" + rest)
    done = cli("run", "--resume", str(other))  # by its name and its id it is here
    assert done.returncode == 3
    assert f"(processor Maker-1-2), which is not here, but one of processor {device.cpu_id}" in done.stderr
    brand = device.name.partition("-")[2]
    renamed = header.replace(device.id, "0123").replace(f'"name":"{device.name}"', f'"name":"cpu-znver4-{brand}"')
    other.write_text(renamed + "\n" + rest)  # as an older version of the driver named it
    done = cli("run", "--resume", str(other))
    assert done.returncode == 0, done.stderr


def test_another_number_of_threads_is_another_device(stored):
    path, _ = stored
    done = process("run", "--resume", str(path), POCL_MAX_PTHREAD_COUNT="1")
    assert done.returncode == 2 and ("number of compute units" in done.stderr or "another environment" in done.stderr)


@pytest.mark.parametrize("value", ["²", "--5", "1e3", ""])
def test_what_is_no_number_is_said_to_be_none(value):
    done = cli("run", "-b", "launch", "-a", f"groups={value}")
    assert done.returncode == 2 and "invalid literal" not in done.stderr and "Traceback" not in done.stderr


def test_a_run_that_was_killed_leaves_whole_records_no_orphan_and_goes_on(tmp_path):
    path = tmp_path / "r.jsonl"
    command = ("run", "-d", "0", "-b", "launch", "-b", "launch_dispatch", "-s", "quick", "-a", "groups=[1,2]", "-o", str(path))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    first = subprocess.Popen(
        [sys.executable, "-m", "clmembench", *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + LIMIT_S
    while not path.exists() or path.read_bytes().count(b"\n") < 2:
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.01)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    first.kill()
    first.communicate()
    before = jsonl.read(path).records
    assert before and all(map(is_measured, before))
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "a child outlived its run"
        time.sleep(0.05)
    done = cli("run", "--resume", str(path))
    assert done.returncode == 0, done.stderr
    after = jsonl.read(path)
    assert after.records[: len(before)] == before and after.notes == ()
    points = [(r.benchmark, r.process, *r.params.values()) for r in after.records]
    assert len(points) == len(set(points)) > len(before)


# ---- runs against each other --------------------------------------------------------------------------------------------


SCRIPTED_SAMPLES = 21
CLOCKS = {"host_ns": 1.0, "device_ns": 0.9, "queue_ns": 0.5, "submit_ns": 0.25}


def scripted(record):
    """A record with times as of a host where nothing else runs, in the place of those that were measured; as many of each
    point, and of one pass each."""

    def amount(series):
        return max(1, series["ops"], series["nbytes"], series["flops"])

    def times(series):
        first = max(20_000, record["series"][0]["nbytes"] // 10)  # copies at 10 GB/s, which links carry
        typical_ns = first * amount(series) // amount(record["series"][0])
        host_ns = [typical_ns + typical_ns // 200 * (n % 7) for n in range(SCRIPTED_SAMPLES)]
        shown = {c: [round(part * t) for t in host_ns] for c, part in CLOCKS.items() if series[c]}
        cpu_ns = [series["cpu_ns"][n % len(series["cpu_ns"])] for n in range(SCRIPTED_SAMPLES)] if series["cpu_ns"] else []
        return {**series, **shown, "cpu_ns": cpu_ns, "passes": 1}

    clock = {**record["core_clock"], "after_ns": record["core_clock"]["before_ns"]}
    said = {"status": "ok", "gate": "", "reason": "", "cpu_others": 0.0, "core_clock": clock}
    return {**record, **said, "series": [times(series) for series in record["series"]]}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory) -> Path:
    """Some points of a committed run with scripted times: what is decided of it depends on nothing that this host does."""
    path = tmp_path_factory.mktemp("quiet") / "quiet.jsonl"
    committed = run_files.read_regular(ROOT / "reports" / "xeon-2-cores-pocl-quick.jsonl.gz", MAX_FILE_BYTES)
    head, *records = [json.loads(line) for line in committed.splitlines()]
    chosen = [r for r in records if r["benchmark"].startswith("launch") or r["benchmark"] == "transfer"]
    chosen = [r for r in chosen if r["process"] == 0]
    assert {"launch", "launch_dispatch", "launch_wait", "transfer"} <= {r["benchmark"] for r in chosen}
    path.write_text("\n".join(map(json.dumps, [head, *map(scripted, chosen)])) + "\n")
    return path


def slowed(record, factor):
    """A record of a file with every time that much longer."""

    def longer(series):
        return {**series, **{c: [round(factor * t) for t in series[c]] for c in CLOCKS if series[c]}}

    return {**record, "series": [longer(series) for series in record["series"]]}


def test_a_run_is_compared_checked_and_made_a_baseline(quiet, tmp_path):
    path, base, junit, slow = (quiet, *(tmp_path / name for name in ("base.jsonl", "j.xml", "slow.jsonl")))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    done = cli("baseline", "create", str(path), str(path), "-o", str(base))
    assert done.returncode == 2 and "are one run" in done.stderr
    for args in (("compare", str(path), str(path)), ("check", str(path), "--baseline", str(path))):
        assert "are one run, which is compared with itself" in cli(*args).stderr
    runs = [tmp_path / f"run{n}.jsonl" for n in range(6)]
    for run, factor in zip(runs, (0.9, 0.94, 0.98, 1.02, 1.06, 1.1), strict=True):
        run.write_text("\n".join(map(json.dumps, [lines[0], *(slowed(record, factor) for record in lines[1:])])) + "\n")
    assert cli("baseline", "create", *map(str, runs), "-o", str(base)).returncode == 0
    assert {r.process for r in jsonl.read(base).records} == set(range(6))
    lines = [json.loads(line) for line in base.read_text().splitlines()]
    assert cli("baseline", "create", str(path), "-o", str(base)).returncode == 2  # never replaced unasked
    done = cli("check", str(path), "--baseline", str(base), "--junit", str(junit), "--margin", "90%")
    assert done.returncode == 0 and done.stdout.startswith("PASS: "), done.stderr
    assert junit.read_text().startswith("<?xml") and "testcase" in junit.read_text()
    assert cli("check", str(path), "--baseline", str(base), "--junit", str(junit)).returncode == 2
    overwritten = cli("check", str(path), "--baseline", str(base), "--junit", str(junit), "--overwrite", "--margin", "90%")
    assert overwritten.returncode == 0
    slow.write_text("\n".join(map(json.dumps, [lines[0], *(slowed(record, 10) for record in lines[1:])])) + "\n")
    done = cli("check", str(slow), "--baseline", str(base))
    assert done.returncode == 5 and "slower" in done.stderr and done.stderr.count("\n") == 1
    done = cli("compare", str(base), str(slow), str(path), "--json")
    found = json.loads(done.stdout)
    assert [c["second"] for c in found] == [str(slow), str(path)]
    assert [c for c in found[0]["changes"] if c["verdict"] != "slower"] == []
    # one process a run says little of small changes, and nothing where the host's clock times a launch
    assert {c["verdict"] for c in found[1]["changes"]} <= {"same", "undecided"}
    assert cli("check", str(path), "--baseline", str(base), "--strict", "--margin", "1%").returncode == 6
    assert {c["verdict"] for c in json.loads(cli("compare", str(path), str(path), "--json").stdout)[0]["changes"]} == {"same"}


def test_a_check_keeps_its_exit_code_and_its_verdict_when_its_output_is_not_read(quiet, tmp_path):
    path, slow = quiet, tmp_path / "slow.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    slow.write_text("\n".join(map(json.dumps, [lines[0], *(slowed(record, 1000) for record in lines[1:])])) + "\n")
    command = [sys.executable, "-m", "clmembench", "check", str(slow), "--baseline", str(path), "--strict"]
    codes = set()
    for _ in range(3):
        reader, writer = os.pipe()
        os.close(reader)  # as `| head -0`, which never reads
        with os.fdopen(writer, "wb") as pipe:
            done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
        assert "slower" in done.stderr and "Traceback" not in done.stderr
        codes.add(done.returncode)
    assert codes == {cli(*command[3:]).returncode} and codes <= {5, 6}
    first, _, _ = cli(*command[3:]).stdout.partition("\n")
    assert first.startswith(("FAIL: ", "CANNOT DECIDE: ")) and "smallest slowdown" in first


def test_a_baseline_of_another_device_is_refused_unless_told(stored, tmp_path):
    path, other = stored[0], tmp_path / "other.jsonl"
    name = json.dumps(jsonl.read(path).header.device.name)
    other.write_text(path.read_text().replace(name, '"Another device"', 1))
    done = cli("check", str(path), "--baseline", str(other))
    assert done.returncode == 2 and "a baseline of Another device" in done.stderr and "--force" in done.stderr
    done = cli("check", str(path), "--baseline", str(other), "--force")
    assert done.returncode in (0, 6) and "warning: " in done.stderr


def test_a_check_of_runs_without_a_common_value_decides_nothing(stored, tmp_path):
    path, only, rest = stored[0], tmp_path / "only.jsonl", tmp_path / "rest.jsonl"
    header, *lines = path.read_text().splitlines()
    launches = [line for line in lines if json.loads(line)["benchmark"] == "launch"]
    others = [line for line in lines if json.loads(line)["benchmark"] == "transfer"]
    for file, chosen in ((only, launches), (rest, others)):
        file.write_text("\n".join([header, *chosen]) + "\n")
    done = cli("check", str(only), "--baseline", str(rest))
    assert done.returncode == 6 and "no value in common" in done.stderr


def test_what_is_not_comparable_is_refused_or_warned_of(stored, tmp_path):
    path, _ = stored
    other = tmp_path / "other.jsonl"
    header, _, rest = path.read_text().partition("\n")
    changed = json.loads(header)
    changed["benchmarks"]["launch"]["version"] += 1
    other.write_text(json.dumps(changed) + "\n" + rest)
    done = cli("compare", str(path), str(other))
    assert done.returncode == 0 and "left out: launch is of version" in done.stdout and "--force" in done.stdout
    changed["benchmarks"] = {"launch": changed["benchmarks"]["launch"]}
    lines = [line for line in rest.splitlines() if json.loads(line)["benchmark"] == "launch"]
    alone = tmp_path / "alone.jsonl"
    alone.write_text("\n".join([json.dumps(changed), *lines]) + "\n")
    done = cli("compare", str(path), str(alone))
    assert done.returncode == 2 and "launch is of version" in done.stderr and "--force" in done.stderr
    assert done.stdout == ""
    done = cli("compare", str(path), str(other), "--force")
    assert done.returncode == 0 and "warning: launch is of version" in done.stderr


@pytest.mark.parametrize("margin", ["much", "-1%", "200%"])
def test_a_margin_that_is_none_is_refused(stored, margin):
    path, _ = stored
    done = cli("compare", str(path), str(path), "--margin", margin)
    assert done.returncode == 2 and "is no share" in done.stderr


def test_a_run_without_isolation_and_one_whose_benchmark_ran_out_of_time(tmp_path):
    path, short = tmp_path / "here.jsonl", tmp_path / "short.jsonl"
    command = ("run", "-b", "launch", "-a", "groups=[1,4]")
    done = cli(*command, "--no-isolate", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert list(map(is_measured, jsonl.read(path).records)) == [True, True]
    for more in (("--processes", "2"), ("-a", "compute_units=1")):
        done = cli(*command, "--no-isolate", *more, "-o", str(tmp_path / "two.jsonl"))
        assert done.returncode == 2 and "--no-isolate" in done.stderr
    done = cli(*command, "--benchmark-timeout", "1ms", "-o", str(short))
    statuses = {r.status for r in jsonl.read(short).records}
    assert done.returncode in (0, 4) and statuses <= {"skipped", "timeout"}
    # what was skipped for want of time is measured when there is more
    assert cli("run", "--resume", str(short), "--benchmark-timeout", "100s").returncode in (0, 4)


def test_strict_tells_of_what_is_suspect(stored, tmp_path, monkeypatch):
    # a sample may take no time, so there are too few of them
    path = tmp_path / "few.jsonl"
    few = "from clmembench.analysis import stats\nstats.MIN_SAMPLES = 10**6\n"
    few += "from clmembench.cli.program import main\nimport sys\nsys.argv = ['clmembench', *sys.argv[1:]]\nmain()\n"
    command = [sys.executable, "-c", few, "run", "-b", "launch", "-a", "groups=1", "--strict", "-o", str(path), "--no-isolate"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)
    assert done.returncode == 6 and "suspect" in done.stderr, done.stderr


def test_a_run_into_a_folder_makes_a_new_file_there(tmp_path):
    for count in (1, 2):
        done = cli("run", "-b", "launch", "-a", "groups=1", "-o", str(tmp_path))
        assert done.returncode == 0 and len(list(tmp_path.glob("*.jsonl"))) == count, done.stderr
