"""`infer --record`: the programs, and what the C one records."""

import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from clmembench.cli import exit_codes
from clmembench.cli.program import app
from clmembench.studies.traces.command import RecordingLanguage, recording_program
from clmembench.studies.traces.trace_csv import COLUMNS, read


@pytest.mark.parametrize("language", list(RecordingLanguage))
def test_each_program_writes_the_columns_and_has_no_mark_left(language):
    result = CliRunner().invoke(app, ["infer", "--record", language.value])
    assert result.exit_code == exit_codes.OK
    assert ",".join(COLUMNS) in result.stdout
    assert "@" not in result.stdout
    assert ("hipMalloc" in result.stdout, "cudaMalloc" in result.stdout) == (language == "hip", language == "cuda")


def test_a_program_goes_to_a_file_and_replaces_none(tmp_path):
    path = tmp_path / "record.cu"
    arguments = ["infer", "--record", "cuda", "-o", str(path)]
    assert CliRunner().invoke(app, arguments).exit_code == exit_codes.OK
    assert path.read_text() == recording_program(RecordingLanguage.CUDA)
    assert CliRunner().invoke(app, arguments).exit_code == exit_codes.USAGE


@pytest.mark.parametrize(
    ("arguments", "says"),
    [([], "--record c"), (["t.csv", "-o", "x.c"], "-o is the file"), (["t.csv", "--record", "c"], "reads no traces")],
)
def test_what_does_not_go_together_is_refused(arguments, says):
    result = CliRunner().invoke(app, ["infer", *arguments])
    assert result.exit_code == exit_codes.USAGE
    assert says in result.stderr


@pytest.mark.skipif(shutil.which("gcc") is None or os.name != "posix", reason="no gcc")
def test_the_c_program_compiles_without_a_warning_and_its_traces_are_inferred_from(tmp_path):
    source, program = tmp_path / "record.c", tmp_path / "record"
    source.write_text(recording_program(RecordingLanguage.C))
    strict = ["gcc", "-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)]
    subprocess.run(strict, check=True, timeout=120)
    asked = ["4096:8:1024", "16384:64:1024:r", "5120:1024:300:w"]
    rows = subprocess.run([program, *asked], check=True, capture_output=True, text=True, timeout=120).stdout
    path = tmp_path / "traces.csv"
    path.write_text(rows)
    words, lap, walk = read(path)
    assert words.offsets[:514].tolist() == [*range(0, 4096, 8), 0, 8]
    assert sorted(lap.offsets[:256].tolist()) == list(range(0, 16384, 64))
    assert lap.offsets[:256].tolist() == lap.offsets[256:512].tolist()
    assert set(walk.offsets.tolist()) == set(range(0, 5120, 1024))
    assert (words.latencies >= 0).all()
    result = CliRunner().invoke(app, ["infer", str(path), "--explain"])
    assert result.exit_code == exit_codes.OK, result.stderr
    refused = subprocess.run([program, "4096:4:10"], capture_output=True, text=True, timeout=60)
    assert (refused.returncode, "a stride of 8" in refused.stderr) == (2, True)
