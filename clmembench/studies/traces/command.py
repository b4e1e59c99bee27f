"""`infer`: caches and TLBs from traces of access latencies that any tool recorded."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from clmembench import units
from clmembench.cli import exit_codes, options, outputs

TEMPLATES = Path(__file__).parent / "templates"


def infer(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[TRACES.csv]", help="Columns: trace_id,array_bytes,stride_bytes,step,offset_bytes,latency."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="For each undetermined property, print the trace that would decide it.")
    ] = False,
    record: Annotated[
        RecordingLanguage | None,
        typer.Option("--record", help="Print a program that records such a file, ready to compile."),
    ] = None,
    last_cache: Annotated[
        str | None,
        typer.Option(
            "--last-cache", metavar="SIZE", help="Size of the device's last cache; without it no level is called DRAM."
        ),
    ] = None,
    output: Annotated[Path | None, options.output_option("File to write the program of --record to.", "FILE")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Infer caches and TLBs from recorded pointer-chase latencies.

    The file has the latency of each access, recorded with CUDA, HIP, C or any other tool; --record prints programs that write
    it. JSON has every property with its interval, status, method and evidence.
    """
    if record is not None:
        _write_program(record, path, output, overwrite)
        return
    if path is None:
        exit_codes.stop("no file of traces: name one, or use --record c for a program that writes one", exit_codes.USAGE)
    if output is not None:
        exit_codes.stop("-o is the file of a program: add --record c, cuda or hip", exit_codes.USAGE)
    try:
        known = units.parse_bytes(last_cache, "--last-cache") if last_cache is not None else None
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    from clmembench.report import render
    from clmembench.studies.hierarchy.views import hierarchy_json, tree
    from clmembench.studies.traces import deciding, trace_csv, traces

    try:
        recorded = trace_csv.read(path)
    except trace_csv.TraceError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    states: list[deciding.LevelState] = []
    hierarchy = traces.infer_from_traces(recorded, states, known)
    advice = deciding.deciding_traces(states, recorded) if explain else ()
    if as_json:
        whole = hierarchy_json.hierarchy_fields(hierarchy)
        print(render.json_text({**whole, "deciding_traces": advice} if explain else whole))
        return
    print(tree.draw_tree(hierarchy))
    if explain:
        print("\n" + deciding.advice_text(advice))


def _write_program(language: RecordingLanguage, path: Path | None, output: Path | None, overwrite: bool) -> None:
    """Prints the program that records traces, or writes it to a file."""
    if path is not None:
        exit_codes.stop("--record reads no traces: leave the file out, or name it with -o", exit_codes.USAGE)
    text = recording_program(language)
    if output is None:
        print(text, end="")
        return
    outputs.check(output, overwrite, "-o", "record.c")
    outputs.write(output, text, overwrite, "-o")


class RecordingLanguage(StrEnum):
    """Language of a program that records traces."""

    C = "c"
    CUDA = "cuda"
    HIP = "hip"


# names that differ between CUDA and HIP
_WORDS = {
    RecordingLanguage.CUDA: {
        "BUILD": "nvcc -O2 -o record record.cu",
        "SHARED": "shared memory",
        "HEADER": "cuda_runtime.h",
        "PREFIX": "cuda",
    },
    RecordingLanguage.HIP: {
        "BUILD": "hipcc -O2 -o record record.hip",
        "SHARED": "local memory (LDS)",
        "HEADER": "hip/hip_runtime.h",
        "PREFIX": "hip",
    },
}


def recording_program(language: RecordingLanguage) -> str:
    """The source text of the program in a language."""
    words = _WORDS.get(language, {})
    text = (TEMPLATES / f"record.{'gpu' if words else 'c'}.txt").read_text(encoding="utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
