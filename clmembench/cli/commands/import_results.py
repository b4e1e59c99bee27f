"""`import`: results of other programs, as values marked with their source that a report shows beside ours."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clmembench.cli import exit_codes, options, outputs
from clmembench.sanitize import argument, line

if TYPE_CHECKING:
    from clmembench.results.imported import ImportedRun


def import_results(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Result file of another program.")],
    program: Annotated[
        Literal["babelstream", "clpeak", "nvbandwidth", "mt4g"],
        typer.Option(
            "--as", help="Program that wrote it: BabelStream's --csv, nvbandwidth's text or JSON, JSON of the others."
        ),
    ],
    label: Annotated[str, typer.Option(metavar="NAME", help="Name of the device, if the file has none or another one.")] = "",
    output: Annotated[Path | None, options.output_option("Import file to write, for `report`.")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Import results of BabelStream, clpeak, nvbandwidth or MT4G.

    Their values are summaries: they keep the name of their program, have no samples and no interval, and are not ranked. The
    table marks those that measure the same as one of our benchmarks."""
    from clmembench.report import render
    from clmembench.report.imported.imported_values import import_table
    from clmembench.report.table import Document
    from clmembench.results import imported

    if output is not None:
        output = outputs.in_folder(output, f"{path.stem}.import.jsonl")
        outputs.check(output, overwrite, name="other.import.jsonl")
        outputs.check_not_input(output, [path])
        outputs.check_writable(output)
    runs = _read(path, program, label)
    if as_json:
        print(render.json_text(imported.as_objects(runs)))
    else:
        outputs.print_document(Document(tuple(map(import_table, runs))))
    if output is not None:
        from clmembench.results import run_files

        content = imported.as_lines(runs).encode()
        outputs.write(output, run_files.compress(content) if run_files.is_compressed(output) else content, overwrite)
        print(line(f"wrote {output}; show it: clmembench report RUN {argument(output)} -o report.html"), file=sys.stderr)


def _read(path: Path, program: str, label: str) -> list[ImportedRun]:
    """The runs of the file, with its name and hash. Ends the command where it is not of that program, or names no device."""
    import hashlib

    from clmembench.results import imported, line_limits
    from clmembench.results.importers import READERS, foreign_text
    from clmembench.sanitize import input_problem, read_input

    try:
        content = read_input(path, line_limits.MAX_LINE_BYTES)
        runs = [imported.checked(run) for run in READERS[program](foreign_text.decoded(content))]
    except imported.ImportFault as error:
        exit_codes.stop(f"{path} is not imported as {program}: {error}", exit_codes.USAGE)
    except (OSError, ValueError) as error:
        why = input_problem(error) if isinstance(error, OSError) else error
        exit_codes.stop(f"cannot read {path}: {why}", exit_codes.USAGE)
    if label and len({run.device for run in runs}) > 1:
        names = ", ".join(dict.fromkeys(run.device for run in runs))
        exit_codes.stop(f"--label names one device, and {path} has several: {names}", exit_codes.USAGE)
    if not label and not all(run.device for run in runs):
        exit_codes.stop(f"{path} does not name its device: say --label NAME", exit_codes.USAGE)
    digest = hashlib.sha256(content).hexdigest()
    return [replace(run, device=label or run.device, file=path.name, sha256=digest) for run in runs]
