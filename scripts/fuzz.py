"""Fuzzes the results reader and everything derived from a run, the Matrix Market reader, and values of the command line.

Findings are an exception other than those that the function documents, a crash, 20 s for one input, and 2 GiB of memory. The
input of a finding is kept, and the exit code is 1. libFuzzer ends at its first finding; it is restarted until the time has
passed.
Usage: pip install atheris
       python scripts/fuzz.py results --seconds 180
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = (
    "null",
    "0",
    "-1",
    "1.5",
    "true",
    '""',
    "[]",
    "{}",
    '"ok"',
    '"suspect"',
    "9223372036854775807",
    "1e300",
    "5e-324",
    '"<b>"',
)
MATRIX = "%%MatrixMarket matrix coordinate {}\n% a comment\n3 3 3\n1 1{}\n3 2{}\n3 3{}\n"
VALUES = ("op=[triad,copy]", "array_bytes=64MiB", "array_bytes=['4 KiB',1.5GB]", "n=-1", "a=[1,,]", "300ms", "1.5h")


def results_target(path: Path) -> Callable[[bytes], None]:
    """Reads a run, derives values from it, and renders it in every text format."""
    from clmembench.report import frame, render, summary, views
    from clmembench.report.table import one_table as alone
    from clmembench.resources import sheet_paths
    from clmembench.results import jsonl, run_files
    from clmembench.specs import sheets as specs

    sheets = [specs.load(sheet) for sheet in sheet_paths()]  # once: sheets are not fuzzed

    def run(data: bytes) -> None:
        file = path.with_suffix(".jsonl.gz") if data.startswith(run_files.GZIP) else path
        file.write_bytes(data)
        with contextlib.suppress(jsonl.ResultsError, specs.SpecError):
            found = jsonl.read(file)
            sheet = specs.match_sheet(found.header.device, sheets)
            table = frame.rows(found, sheet)
            points, document = alone(views.point_table(table)), summary.summary_document(found, table, sheet)
            render.json_text(frame.point_values(table))
            render.csv_text(frame.point_fields(table))
            render.latex(points)
            made = render.text(document) + render.markdown(document) + render.markdown(points)
            assert all(c.isprintable() or c == "\n" for c in made), "an unprintable character"

    return run


def matrix_target(path: Path) -> Callable[[bytes], None]:
    """Reads a Matrix Market file, and checks that the result is a valid CSR matrix."""
    import numpy as np

    from clmembench.benchmarks.spmv import matrix_market

    def run(data: bytes) -> None:
        packed = data[:2] == b"\x1f\x8b"
        file = path.with_suffix(".mtx.gz" if packed else ".mtx")
        file.write_bytes(data)
        with contextlib.suppress(ValueError):
            promised = matrix_market.read_header(str(file))
            if max(promised.rows, promised.columns) > 1 << 20:
                return  # callers check first whether it fits, as spmv does
            a = matrix_market.read_matrix(str(file))
            assert a.nonzeros <= promised.nonzeros, "more nonzeros than promised"
            assert np.isfinite(a.values).all(), "a value that is not finite"
            assert a.indptr[0] == 0 and a.indptr[-1] == a.nonzeros and (a.row_lengths >= 0).all(), "rows that are none"
            assert a.nonzeros == 0 or 0 <= a.indices.min() <= a.indices.max() < a.columns, "columns that are none"

    return run


def axes_target(_: Path) -> Callable[[bytes], None]:
    """Parses values of axes, sizes and durations as a user writes them."""
    from clmembench import units
    from clmembench.cli.options import parse_axes

    def run(data: bytes) -> None:
        text = data.decode(errors="surrogateescape")
        for parse in (lambda t: parse_axes([t], []), units.parse_bytes, units.parse_seconds):
            with contextlib.suppress(ValueError):
                parse(text)

    return run


TARGETS = {"results": results_target, "matrix": matrix_target, "axes": axes_target}


def seeds(target: str) -> list[bytes]:
    """Small real inputs from which fuzzing starts."""
    if target == "axes":
        return [value.encode() for value in VALUES]
    if target == "matrix":
        kinds = {"real general": " 1.5", "integer symmetric": " -7", "pattern skew-symmetric": ""}
        plain = [MATRIX.format(kind, *[value] * 3).encode() for kind, value in kinds.items()]
        return [*plain, gzip.compress(plain[0])]
    golden = (ROOT / "tests" / "golden" / "schema1.jsonl").read_bytes()
    head, *lines = golden.splitlines(keepends=True)
    plain = [golden, head + lines[1], head + lines[-1]]
    return [*plain, gzip.compress(golden, mtime=0), gzip.compress(head, mtime=0) + gzip.compress(lines[-1], mtime=0)]


def other_json(data: bytes, most: int, seed: int) -> bytes:
    """A mutated line: one value is replaced by another of the line, or by an extreme one, since mutated bytes seldom remain
    JSON."""
    import atheris

    rng, lines = random.Random(seed), data.splitlines(keepends=True)  # noqa: S311 - no secret
    number = rng.randrange(len(lines)) if lines else 0
    try:
        line = json.loads(lines[number])
    except (ValueError, IndexError, RecursionError):
        line = None
    if not isinstance(line, dict) or rng.random() < 0.3:
        return bytes(atheris.Mutate(data, most))
    for _ in range(rng.randint(1, 4)):
        places = list(_places(line))
        inside, key = rng.choice(places)
        taken = rng.choice(places)
        inside[key] = json.loads(rng.choice(PARTS)) if rng.random() < 0.6 else json.loads(json.dumps(taken[0][taken[1]]))
    lines[number] = json.dumps(line).encode() + b"\n"
    return b"".join(lines)[:most]


def _places(value: Any) -> Any:
    """(container, key) of every element within a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def child(target: str, folder: Path, options: list[str]) -> None:
    """Fuzzes in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["clmembench"]):
        run = TARGETS[target](folder / "input.jsonl")
        for seed in seeds(target):
            run(seed)  # it imports the modules that are imported late
    mutator = {"custom_mutator": other_json} if target == "results" else {}
    atheris.Setup([sys.argv[0], *options, str(folder / "corpus")], run, **mutator)
    atheris.Fuzz()


def main() -> int:
    """Starts libFuzzer in child processes until the time has passed, and prints the coverage that was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="of the corpus and the findings; default a temporary one")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris (it has wheels for CPython on Linux)", file=sys.stderr)
        return 2
    if given.child is not None:
        child(given.target, given.folder, given.child)
    folder = given.folder or Path(tempfile.mkdtemp(prefix=f"fuzz-{given.target}-"))
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(given.target)):
        (folder / "corpus" / f"seed{number}").write_bytes(seed)
    runs, findings, until = 0, [], time.monotonic() + given.seconds
    while (left := int(until - time.monotonic())) > 0:
        options = [f"-max_total_time={left}", "-timeout=20", "-rss_limit_mb=2048", "-max_len=20000", "-print_final_stats=1"]
        command = [sys.executable, __file__, given.target, "--folder", str(folder), "--child", *options]
        done = subprocess.run(
            [*command, f"-artifact_prefix={folder}/"], capture_output=True, text=True, errors="replace", cwd=ROOT
        )
        runs += sum(map(int, re.findall(r"stat::number_of_executed_units: (\d+)", done.stderr)))
        if done.returncode:
            findings.append(done.stderr)
            print(done.stderr[-3000:], file=sys.stderr)
    inputs = sum(1 for _ in (folder / "corpus").iterdir())
    reached = f"{runs} executions in {given.seconds} s, {inputs} inputs of interest, {len(findings)} findings"
    print(f"{given.target}: {reached}, in {folder}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
