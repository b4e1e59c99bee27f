"""`run`: its options; measures a device or several, writes every record, and prints a summary."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from clmembench.cli import devices, exit_codes, measure_or_read, options, outputs, waiting
from clmembench.cli.running import at_once, interrupted_run, run_header, run_preview, run_request, session, several_devices
from clmembench.cli.running.several_devices import Target
from clmembench.sanitize import argument

if TYPE_CHECKING:
    from clmembench.model import Run
    from clmembench.report.frame import Row

Device = Annotated[str | None, options.device_option("Device to measure, default 0; all, gpu and cpu name several")]
Suite = Annotated[
    str | None,
    options.suite_option(
        "quick, memory, access, sync, link, compute, roofline, several, all or everything; default: quick, or all with --bench."
    ),
]
Runtime = Annotated[
    str | None,
    typer.Option("--runtime", metavar="NAMES", help="Runtime, opencl or sycl; opencl,sycl measures both interleaved."),
]
Matrix = Annotated[
    list[Path] | None,
    typer.Option("--matrix", metavar="FILE", help="Matrix Market file for spmv, in addition to -a matrix=...; repeatable."),
]
BenchmarkTimeout = Annotated[
    str | None,
    typer.Option("--benchmark-timeout", metavar="TIME", help="Time limit of a benchmark, as --budget; default: no limit."),
]
Processes = Annotated[int | None, options.processes_option("6 for points that depend on caches, else 1")]
Reference = Annotated[
    bool, typer.Option("--reference", help="Also measure this host's libraries on the same problems, interleaved.")
]
ArraySize = Annotated[
    str | None,
    typer.Option("--size", metavar="BYTES", help="Size of the largest array, such as 512MiB; default: fitted to the device."),
]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="FILE", help="Resume an interrupted run; its settings come from FILE.")
]
Tuning = Annotated[
    Path | None,
    typer.Option("--tuning", metavar="FILE", help="Stored configurations to use; default: those that `tune` stored."),
]
NoTuning = Annotated[bool, typer.Option("--no-tuning", help="Search every configuration anew, without stored ones.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 6 where a value is suspect.")]
NoIsolate = Annotated[
    bool, typer.Option("--no-isolate", help="Measure in this process, for debugging; a crash or a hang ends the run.")
]
Label = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name of the device in reports; default: the driver's.")
]
Tag = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="Fact to keep in the file, such as cooling=water; repeatable."),
]
Together = Annotated[
    bool,
    typer.Option("--together", help="Then measure all devices of -d at once too, and compare: what they share. Needs -o."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="List the points that would be measured, with time, memory and disk; measure nothing."),
]


class Settings(NamedTuple):
    """How a run is measured and shown, the same for every device."""

    overwrite: bool
    names: run_header.RunNames
    waits: waiting.Waits
    as_json: bool
    wide: bool
    strict: bool


def run(
    context: typer.Context,
    device: Device = None,
    runtime: Runtime = None,
    suite: Suite = None,
    bench: options.Bench = None,
    axis: options.Axis = None,
    matrix: Matrix = None,
    budget: options.Budget = None,
    timeout: options.Timeout = None,
    benchmark_timeout: BenchmarkTimeout = None,
    processes: Processes = None,
    seed: options.Seed = None,
    reference: Reference = False,
    size: ArraySize = None,
    output: options.ResultsFile = None,
    overwrite: options.Overwrite = False,
    resume: Resume = None,
    label: Label = None,
    tag: Tag = None,
    wait: options.Wait = None,
    wait_quiet: options.WaitQuiet = None,
    stored: Tuning = None,
    no_tuning: NoTuning = False,
    strict: Strict = False,
    no_isolate: NoIsolate = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
    dry_run: DryRun = False,
    path: options.OwnBenchmarks = None,
    energy: options.Energy = False,
    together: Together = False,
) -> None:
    """Measure a device, write every record, and print a summary.

    Records are written as they are measured. Points left when a time limit is reached are skipped, and --resume measures them.
    With -d all, gpu or cpu, devices are measured one after another into one file each, and -o is a folder. Suite everything
    adds this host's libraries and the memory hierarchy to all benchmarks. --json prints the values as `show --json` does."""
    options.warn_of_packages()
    bench = bench or (None if suite else options.benchmarks_of_folders(path))
    if runtime is not None and resume is None:
        device = devices.of_runtime(runtime, device)
    asked = run_request.Request(
        suite, bench or (), axis or (), matrix or (), processes, seed, reference, size, stored, no_tuning, no_isolate,
        budget, timeout, benchmark_timeout, energy,
    )  # fmt: skip
    if resume is not None:
        interrupted_run.refuse_options(context)
        wanted = [_resumed(asked, resume)]
    else:
        planned = several_devices.plan(asked, several_devices.select(devices.listed(device), devices.or_first(device)))
        wanted = several_devices.targets(planned, output, overwrite)
    if together and (len(wanted) < 2 or output is None or dry_run):
        why = "--dry-run measures nothing" if dry_run else "it needs several devices (-d all or gpu) and a folder (-o)"
        exit_codes.stop(f"--together measures devices at once: {why}", exit_codes.USAGE)
    with run_request.usage_errors():
        settings = Settings(overwrite, run_header.parse(label, tag), waiting.parse(wait, wait_quiet), as_json, wide, strict)
    if dry_run:
        for target in wanted:
            run_preview.print_plan(target.planned, target.output)
    elif len(wanted) == 1:
        _run_one(wanted[0], settings)
    elif as_json:
        exit_codes.stop(f"--json is of one run, and these are {len(wanted)} devices: use show --json", exit_codes.USAGE)
    else:
        one_by_one = partial(several_devices.run_each, wanted, partial(_run_one, settings=settings))
        if together:
            at_once.measure(wanted, one_by_one, overwrite)
        else:
            one_by_one()


def _resumed(asked: run_request.Request, path: Path) -> Target:
    """The rest of the interrupted run in a file."""
    info, selection, earlier = interrupted_run.read(path)
    with run_request.usage_errors():
        return Target(asked.resume(info, selection, earlier), path)


def _run_one(target: Target, settings: Settings) -> Path:
    """Measure one device and print its results: the results file. Ends the command as `session.end` does, and with
    INCONCLUSIVE under --strict where a value is suspect."""
    planned = target.planned
    written = session.measure_to_file(
        planned.info,
        planned.selection,
        planned.cards(),
        planned.records,
        target.output,
        settings.overwrite,
        planned.earlier,
        names=settings.names,
        estimate=planned.estimate,
        waits=settings.waits,
    )
    suspect = print_results(written.path, settings.as_json, settings.wide)
    session.end(
        written, f"{written.path} holds every record up to here; resume with clmembench run --resume {argument(written.path)}"
    )
    if settings.strict and suspect:
        exit_codes.stop(f"{suspect} of the values are suspect", exit_codes.INCONCLUSIVE)
    return written.path


def print_results(path: Path, as_json: bool = False, wide: bool = False) -> int:
    """Read the results file back like any other and print its summary, or its values as JSON. The number of suspect values."""
    from clmembench.report import frame, render, summary
    from clmembench.report.sections import roofline_tables
    from clmembench.report.table import DEFAULT_COLUMNS

    stored = session.read_back(path)
    sheet = frame.sheet_of(stored)
    stored, table = frame.judged_rows(stored, sheet)
    if as_json:
        print(render.json_text(frame.point_values(table, roofline_tables.by_point(stored, table, sheet))))
    else:
        width, name = outputs.width() or DEFAULT_COLUMNS, argument(path)
        shown = summary.run_summary(stored, table, sheet, width)
        print(render.text(shown.key, outputs.is_coloured(sys.stdout), width))
        is_whole = bool(shown.tables.sections)
        if is_whole:
            outputs.print_document(shown.tables, wide)
            measure_or_read.show_with_run(stored)
        print("\n".join(render.wrapped(shown.lines, width)))
        print(f"Results: {name}" if is_whole else f"Results: {name}\nTables: clmembench show {name}")
        print(f"Next: {_next_step(stored, name, table, is_whole)}")
    return sum(row.status == "suspect" for row in table)


def _next_step(run: Run, name: str, table: Sequence[Row], is_whole: bool) -> str:
    """The command that helps most after a run with these rows, of which all tables were printed or not, and what it does."""
    from clmembench.analysis.derive import left_out
    from clmembench.gates.point import NO_CYCLE_GATE
    from clmembench.model import CHASE_BENCHMARK

    device = run.header.device.selector
    odd = {row.status for row in table if row.status in (*session.BAD, "suspect") and row.value.gate != NO_CYCLE_GATE}
    if left_out(run):
        return f"clmembench run --resume {name}, which measures what the time limit left out"
    if odd and not is_whole:
        return f"clmembench show {name} --status {','.join(sorted(odd))}, for the reasons"
    if CHASE_BENCHMARK in run.header.benchmarks:
        return f"clmembench topology {name}, which draws the memory hierarchy"
    if any(card.peer_of for card in run.header.benchmarks.values()):
        return f"clmembench peers {name}, which compares this host's libraries"
    if is_whole:
        return f"clmembench report {name} -o report.html, with figures"
    if run.header.suite == "quick":
        return f"clmembench run -d {device} --suite all, all benchmarks at full density"
    return f"clmembench topology -d {device}, the memory hierarchy"
