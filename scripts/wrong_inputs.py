"""Files of other programs and odd files, as people have them, and what each command says: a table, and exit code 1 for a fault.

A fault is a traceback, more or less than one line, another exit code, or a message that lacks its words. Each input is a file
of the shape that BabelStream, clpeak, nvbandwidth, MT4G, a spreadsheet, a matrix collection or a shell writes.
Usage: python scripts/wrong_inputs.py > table.md
"""

# ruff: noqa: E501 - a case per line
from __future__ import annotations

import gzip
import io
import json
import os
import socket
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from typer.testing import CliRunner  # noqa: E402

from clmembench import sanitize  # noqa: E402
from clmembench.benchmarks.spmv import matrix_market  # noqa: E402
from clmembench.cli.program import app  # noqa: E402


class Case(NamedTuple):
    """An input: what it is, the words of the command with FILE, the file's content and ending, and words of the message."""

    what: str
    command: str
    content: str | bytes
    said: str
    ending: str = ".txt"


HEAD = "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime\n"
ROW = "Triad,100,33554432,8,161061.27,0.005,0.006,0.0052\n"
STREAM = "Using OpenCL device Card A\n" + HEAD + ROW
GPU = "NVIDIA H100 80GB HBM3"
TEXT = (
    "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nDriver Version: 570.86\n\nhost1\n"
    f"Device 0: {GPU} (00000000:18:00)\nDevice 1: {GPU} (00000000:2a:00)\n\n"
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1\n 0     55.32     55.10\n\nSUM host_to_device_memcpy_ce 110.42\n\n"
)
BANDWIDTH = {
    "nvbandwidth": {
        "GPU Device list": [f"0: {GPU} (00000000:18:00): (host1)"],
        "testcases": [{"name": "a", "status": "Passed", "bandwidth_description": "(GB/s)", "bandwidth_matrix": [["5,5"]]}],
    }
}
ENTRY = {"backend": "OpenCL", "device": "Card", "test": "t", "metric": "m", "unit": "gbps"}
CLPEAK = {"format_version": 2, "clpeak_version": "2.1.2", "entries": [{**ENTRY, "value": 12.5}]}
LATENCY = {"mean": 1.0, "p50": 1.0, "p95": 1.0, "measurements": 255, "unit": "cycles"}
MT4G = {"general": {"name": "Card"}, "memory": {"l1": {"latency": LATENCY}}}
MATRIX = "%%MatrixMarket matrix coordinate real {}\n3 3 {}\n{}"
TRACE = "trace_id,array_bytes,stride_bytes,step,offset_bytes,latency\na,256,64,0,0,5.5\n"
BABELSTREAM, NVBANDWIDTH = "import FILE --as babelstream", "import FILE --as nvbandwidth"
PEAK, LEVELS = "import FILE --as clpeak", "import FILE --as mt4g"
SPMV, INFER = "run -b spmv --matrix FILE", "infer FILE"


def _packed(name: str, text: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


CASES = (
    Case("BabelStream: its text table", BABELSTREAM, "Function    MBytes/sec\nCopy        176151.000\n", "run it with --csv"),
    Case("BabelStream: validation failed, in its words of 3 to 5", BABELSTREAM, "Validation failed on a[]. Average error 0.1\n" + STREAM, "calls its results wrong: Validation failed on a[]"),
    Case("BabelStream: validation failed, in its words of 6", BABELSTREAM, STREAM + "FAILED validation of c[0]: 1 (is) != 2 (should)\n", "calls its results wrong: FAILED validation of c[0]"),
    Case("BabelStream: decimal commas between commas", BABELSTREAM, STREAM.replace("0.005,", "0,005,"), "9 cells under 8 names"),
    Case("BabelStream: a cell beyond the header", BABELSTREAM, STREAM.replace("0.0052", "0.0052,7"), "9 cells under 8 names"),
    Case("BabelStream: a line that a terminal wrapped", BABELSTREAM, STREAM.replace("0.005,", "\n0.005,"), "5 cells under 8 names"),
    Case("BabelStream: times rounded by a spreadsheet", BABELSTREAM, HEAD + "Copy,100,33554432,8,1784250,0.0003,0.0004,0.0003\n", "its times are rounded to 0.0001 s"),
    Case("BabelStream: a rate that wrapped round", BABELSTREAM, STREAM.replace("161061.27", "-161061.27"), "its rate is not that of its time"),
    Case("BabelStream: a rate in thousands with points", BABELSTREAM, STREAM.replace(",", ";").replace("161061.27", "161.061"), "its rate is not that of its time"),
    Case("BabelStream: elements of 4,000 digits", BABELSTREAM, STREAM.replace("33554432", "9" * 4000), "no whole number from 1 to"),
    Case("BabelStream: 10^300 elements", BABELSTREAM, STREAM.replace("33554432", "1" + "0" * 300), "no whole number from 1 to"),
    Case("BabelStream: elements below 0, wrapped round 32 bits", BABELSTREAM, STREAM.replace("33554432", "-2147483648"), "no whole number from 1 to"),
    Case("BabelStream: elements as a spreadsheet shortens them", BABELSTREAM, STREAM.replace("33554432", "3.36E+07"), "no whole number from 1 to"),
    Case("BabelStream: a time of nan", BABELSTREAM, STREAM.replace("0.0052", "nan"), "'nan' is no number"),
    Case("BabelStream: a time of 4,000 digits", BABELSTREAM, STREAM.replace("0.0052", "9" * 4000), "is no number"),
    Case("BabelStream: digits with underscores, which Python reads", BABELSTREAM, STREAM.replace("33554432", "33_554_432"), "no whole number"),
    Case("BabelStream: a line of 200,000 letters", BABELSTREAM, STREAM + "Copy," + "9" * 200_000, "over 10000 letters"),
    Case("BabelStream: two runs in one file", BABELSTREAM, STREAM + STREAM, "several tables"),
    Case("BabelStream: a header alone", BABELSTREAM, HEAD, "its table is empty"),
    Case("BabelStream: no device named", BABELSTREAM, HEAD + ROW, "say --label NAME"),
    Case("nvbandwidth: a GPU that found wrong data", NVBANDWIDTH, " Invalid value when checking the pattern at 0x7f\n" + json.dumps(BANDWIDTH), "calls its results wrong: Invalid value"),
    Case("nvbandwidth: JSON with an error of all", NVBANDWIDTH, json.dumps({"nvbandwidth": {**BANDWIDTH["nvbandwidth"], "error": "Invalid value"}}), "reports an error: Invalid value"),
    Case("nvbandwidth: JSON with decimal commas twice", NVBANDWIDTH, json.dumps(BANDWIDTH).replace("5,5", "1,234,5"), "is no number"),
    Case("nvbandwidth: a comma of thousands or of fractions", NVBANDWIDTH, json.dumps(BANDWIDTH).replace("5,5", "1,234"), "'1,234' may be a thousand or a fraction"),
    Case("BabelStream: a mean time of thousands or of fractions", BABELSTREAM, STREAM.replace(",", ";").replace("0.0052", "5,200"), "may be a thousand or a fraction"),
    Case("nvbandwidth: a row with more numbers than columns", NVBANDWIDTH, TEXT.replace("55.32 ", "55,32 7"), "3 numbers under 2 columns"),
    Case("nvbandwidth: a number of 400 digits", NVBANDWIDTH, TEXT.replace("55.32", "9" * 400), "is no number"),
    Case("nvbandwidth: text of a run that ended before a test", NVBANDWIDTH, TEXT[: TEXT.index("Running")], "no result of nvbandwidth"),
    Case("clpeak: its text, which begins with N", PEAK, "No platform\nNVIDIA CUDA\nInteger compute\n", "no JSON of clpeak: Expecting value"),
    Case("clpeak: its XML", PEAK, '<?xml version="1.0"?><clpeak format_version="2"/>', "--json-file"),
    Case("clpeak: NaN, which JSON has not", PEAK, json.dumps(CLPEAK).replace("12.5", "NaN"), "NaN and Infinity are no numbers"),
    Case("clpeak: nan, as a stream of C++ prints it", PEAK, json.dumps(CLPEAK).replace("12.5", "nan"), "no JSON of clpeak"),
    Case("clpeak: a text for a number", PEAK, json.dumps(CLPEAK).replace("12.5", '"12,5"'), "has no value that can be used: '12,5'"),
    Case("clpeak: a newer format", PEAK, json.dumps({**CLPEAK, "format_version": 9}), "2 and 3 are read"),
    Case("MT4G: what it prints before its JSON", LEVELS, "Running L1 size\n" + json.dumps(MT4G), "with -q"),
    Case("MT4G: a count of 400 digits", LEVELS, json.dumps(MT4G).replace("255", "9" * 400), "has no measurements"),
    Case("MT4G: a latency without a median", LEVELS, json.dumps(MT4G).replace('"p50": 1.0', '"p50": null'), "has no p50"),
    Case("any program: a file of zero bytes", LEVELS, bytes(64), "no JSON of MT4G"),
    Case("matrix: both triangles in a symmetric file", SPMV, MATRIX.format("symmetric", 3, "1 1 2\n2 1 5\n1 2 5\n"), "row 1, column 2 of a symmetric matrix is above", ".mtx"),
    Case("matrix: a skew-symmetric one with a diagonal", SPMV, MATRIX.format("skew-symmetric", 2, "1 1 2\n2 1 5\n"), "is on the diagonal: leave it out", ".mtx"),
    Case("matrix: decimal commas", SPMV, MATRIX.format("general", 1, "1 1 1,5\n"), "'1 1 1,5' is not an entry", ".mtx"),
    Case("matrix: an archive of a collection", SPMV, _packed("m/m.mtx", MATRIX.format("general", 1, "1 1 2\n")), "unpack it first: tar -xzf", ".tar.gz"),
    Case("matrix: packed by xz", SPMV, b"\xfd7zXZ\x00", "unpack it first: unxz", ".mtx.xz"),
    Case("matrix: packed by bzip2, and cut", SPMV, b"BZh91AY&SY", "ended before", ".mtx.bz2"),
    Case("matrix: no gzip behind the name", SPMV, MATRIX.format("general", 1, "1 1 2\n"), "Not a gzipped file", ".mtx.gz"),
    Case("matrix: packed by gzip, and cut", SPMV, gzip.compress(MATRIX.format("general", 1, "1 1 2\n").encode())[:30], "end-of-stream", ".mtx.gz"),
    Case("traces: decimal commas", INFER, TRACE.replace("5.5", "5,5"), "row 2: it has more cells", ".csv"),
    Case("traces: decimal commas between semicolons", INFER, TRACE.replace(",", ";").replace("5.5", "5,5"), "latency is '5,5'", ".csv"),
    Case("run: an empty file", "show FILE", "", "no results file of clmembench: it is empty", ".jsonl"),
    Case("run: compressed, and named as if it were not", "show FILE", gzip.compress(b"{}"), "is compressed by gzip: rename it", ".jsonl"),
    Case("run: named as if it were compressed", "show FILE", b"{}\n", "it is not compressed by gzip, as its name says: rename it", ".jsonl.gz"),
    Case("run: compressed, and cut", "show FILE", gzip.compress(b"{}")[:10], "is no results file of clmembench: its compressed data end early", ".jsonl.gz"),
    Case("run: compressed, with a checksum of something else", "show FILE", gzip.compress(b"{}")[:-8] + bytes(8), "its gzip checksum does not match", ".jsonl.gz"),
    Case("run: what is no text", "show FILE", b"\xff\xfe\x00" * 9, "no results file of clmembench", ".jsonl"),
)  # fmt: skip
KINDS = {  # what stands in a file's place, and words of each message
    "a pipe that nobody writes": "pipe", "a socket": "socket", "a device without an end": "a device", "a folder": "folder",
    "a link to itself": "symbolic links", "a name of 300 letters": "File name too long",
}  # fmt: skip
COMMANDS = ("show FILE", "report FILE", "import FILE --as clpeak", "infer FILE", "doctor --run FILE", "run --resume FILE", SPMV)


def odd_files(folder: Path) -> dict[str, Path]:
    """What is no file to read, by its kind."""
    pipe, name, loop = folder / "f.1", folder / "f.2", folder / "f.3"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(name))
    loop.symlink_to(loop.name)
    return dict(zip(KINDS, (pipe, name, Path("/dev/zero"), folder, loop, folder / ("n" * 300)), strict=True))


def answer(command: str, path: Path) -> tuple[int, str, str]:
    """The exit code of a command on a file, its message, and what is wrong with these or "". Of spmv the matrix is read alone,
    which ends the command where the header is none, and the point where the entries are none."""
    if command == SPMV:
        return _matrix_answer(path)
    done = CliRunner().invoke(app, [str(path) if word == "FILE" else word for word in command.split()])
    said = _shown(done.stderr, path)
    fault = "" if done.exit_code == 2 and done.stderr.count("\n") == 1 else f"exit code {done.exit_code}: {done.exception!r}"
    return done.exit_code, said, fault


def _shown(message: str, path: Path) -> str:
    """A message with FILE for the file, and the beginning of the name that is too long."""
    text = message.strip().removeprefix("clmembench: ")
    return text.replace(str(path), "FILE").replace(str(path.parent) + os.sep, "")[:250]


def _matrix_answer(path: Path) -> tuple[int, str, str]:
    code = 2
    try:
        if not matrix_market.is_file(str(path)):
            return 0, "", "it is not taken for a matrix"
        code = 4
        matrix_market.read_matrix(str(path))
    except ValueError as error:
        return code, _shown(str(error), path), "a message of several lines" * ("\n" in str(error))
    return 0, "", "it was read"


Row = tuple[str, str, int, str, str]  # what the input is, the command, its exit code, its message, and what is wrong or ""


def file_rows(folder: Path) -> list[Row]:
    """The rows of files with something wrong in them."""
    found = []
    for number, case in enumerate(CASES):
        path = folder / f"{number}{case.ending}"
        path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
        code, said, fault = answer(case.command, path)
        found.append((case.what, case.command, code, said, fault or ("" if case.said in said else f"lacks {case.said!r}")))
    return found


def kind_rows(folder: Path) -> list[Row]:
    """The rows of what is no file to read."""
    found = []
    sanitize.MAX_WRITER_WAIT_S = 0.01
    for kind, path in odd_files(folder).items():
        for number, command in enumerate(COMMANDS):
            named = path
            if command == SPMV and kind != "a name of 300 letters":  # a matrix is known by its ending
                named = folder / f"{kind.split()[1]}{number}.mtx"
                named.symlink_to(path)
            elif command == SPMV:
                continue
            code, said, fault = answer(command, named)
            found.append((kind, command, code, said, fault))
    return found


def main() -> int:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = [*file_rows(Path(folder)), *kind_rows(Path(folder))]
    print("| input | command | exit | what it says |\n|---|---|--:|---|")
    for what, command, code, said, _ in found:
        print(f"| {what} | `{command}` | {code} | {said.replace('|', chr(92) + '|')} |")
    faults = [(what, command, fault) for what, command, _, _, fault in found if fault]
    for what, command, fault in faults:
        print(f"fault: {what}, {command}: {fault}", file=sys.stderr)
    print(f"\n{len(found)} inputs, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
