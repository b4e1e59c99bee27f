"""`fleet run` and `fleet resume`: measure the devices of a cluster into a store."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clmembench.cli import exit_codes, options
from clmembench.cli.commands import run
from clmembench.cli.running import run_request
from clmembench.cli.running.outlook import ProgressEstimate
from clmembench.cli.running.progress import BAR_COLUMNS, LINE_PERIOD_S, is_live, snapshot_text
from clmembench.sanitize import argument
from clmembench.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clmembench.model import DeviceInfo
    from clmembench.studies.fleet.clusters import Workers
    from clmembench.studies.fleet.coordinator import Coordinator
    from clmembench.studies.fleet.journal import Plan, State

WAITING_PERIOD_S = 60.0  # between lines of progress while there is no worker, as while jobs are queued
LOCK_WAIT = "1m"  # for a device that another run measures, such as one that is being killed
# options of `run` that each device's `run` gets, and those that `run --resume` gets too
RUN_OPTIONS = (
    "suite", "bench", "axis", "matrix", "budget", "timeout", "benchmark_timeout", "processes", "seed", "reference", "size",
    "stored", "no_tuning", "tag", "wait_quiet", "energy", "path",
)  # fmt: skip
RESUMING_OPTIONS = ("wait_quiet", "energy", "path")

Store = Annotated[Path | None, options.output_option("Store to write, a folder, which is made where there is none.", "STORE")]
StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="Store whose fleet was interrupted.", show_default=False)]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers measure: tls://HOST:PORT.")
]
Slurm = Annotated[bool, typer.Option("--slurm", help="Start the workers as jobs of Slurm, a node each.")]
Nodes = Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Number of Slurm's nodes.")]
SlurmOption = Annotated[
    list[str] | None,
    typer.Option("--slurm-option", metavar="OPTION", help="Option of sbatch, such as --partition=gpu; repeatable."),
]
Local = Annotated[
    int | None, typer.Option("--local", metavar="N", min=1, help="Start N workers on this host; 1 measures its devices.")
]
Budget = Annotated[str | None, options.budget_option("no limit", "each device")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow a scheduler on another host without TLS.")]


def fleet_run(
    context: typer.Context,
    output: Store = None,
    scheduler: Scheduler = None,
    slurm: Slurm = False,
    nodes: Nodes = 1,
    slurm_option: SlurmOption = None,
    local: Local = None,
    insecure: Insecure = False,
    device: Annotated[str, options.device_option("Devices of each host; all, gpu and cpu name several")] = "all",
    suite: run.Suite = None,
    bench: options.Bench = None,
    axis: options.Axis = None,
    matrix: run.Matrix = None,
    budget: Budget = None,
    timeout: options.Timeout = None,
    benchmark_timeout: run.BenchmarkTimeout = None,
    processes: run.Processes = None,
    seed: options.Seed = None,
    reference: run.Reference = False,
    size: run.ArraySize = None,
    tag: run.Tag = None,
    wait_quiet: options.WaitQuiet = None,
    stored: run.Tuning = None,
    no_tuning: run.NoTuning = False,
    energy: options.Energy = False,
    path: options.OwnBenchmarks = None,
) -> None:
    """Measure the devices of a cluster.

    Each device is measured by `run` with these options, one device of a host at a time. Records are stored as they are made.
    Files that options name must be on every host."""
    _require()
    from ulid import ULID

    from clmembench.studies.fleet.journal import Plan

    workers = _workers(scheduler, slurm, nodes, slurm_option, local, insecure)
    if output is None:
        exit_codes.stop("name the store: -o STORE", exit_codes.USAGE)
    if workers is None:
        exit_codes.stop("name the workers: --scheduler ADDRESS, --slurm or --local N", exit_codes.USAGE)
    wait = ("--wait", LOCK_WAIT)
    plan = Plan(
        str(ULID()).lower(), device, (*_arguments(context, RUN_OPTIONS), *wait),
        (*_arguments(context, RESUMING_OPTIONS), *wait), asdict(workers),
    )  # fmt: skip
    _measure(output, plan, workers)


def resume(
    store: StoreArgument,
    scheduler: Scheduler = None,
    slurm: Slurm = False,
    nodes: Nodes = 1,
    slurm_option: SlurmOption = None,
    local: Local = None,
    insecure: Insecure = False,
) -> None:
    """Continue the newest fleet of a store that was interrupted.

    Points that were measured are not measured again. The workers are those of `fleet run` unless others are named."""
    _require()
    from clmembench.studies.fleet import journal
    from clmembench.studies.fleet.clusters import Workers

    found = journal.unfinished(store)
    if not found:
        exit_codes.stop(f"{store} has no fleet that was interrupted", exit_codes.USAGE)
    state, *others = found
    if others:
        exit_codes.say(f"{count(len(others), 'older fleet')} of {store} can be resumed after this one")
    workers = _workers(scheduler, slurm, nodes, slurm_option, local, insecure) or Workers.of(state.plan.workers)
    _measure(store, state.plan, workers, state)


def _require() -> None:
    for module in ("cryptography", "distributed", "pyarrow", "duckdb"):
        exit_codes.require(module, "fleet", "a fleet")


def _workers(
    scheduler: str | None, slurm: bool, nodes: int, slurm_options: list[str] | None, local: int | None, insecure: bool
) -> Workers | None:
    """The workers that were named; None without any. Ends the command where there are several."""
    from clmembench.studies.fleet.clusters import Workers, WorkersError

    if (scheduler is not None) + slurm + (local is not None) > 1:
        exit_codes.stop("--scheduler, --slurm and --local exclude each other: leave out all but one", exit_codes.USAGE)
    if scheduler is None and local is None and not slurm:
        return None
    if scheduler is not None:
        found = Workers("scheduler", scheduler, is_insecure=insecure)
    else:
        found = (
            Workers("slurm", count=nodes, options=tuple(slurm_options or ())) if slurm else Workers("local", count=local or 1)
        )
    try:
        found.check()
    except WorkersError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    return found


def _arguments(context: typer.Context, names: Collection[str]) -> tuple[str, ...]:
    """These options of this command as words of a command line, files by their whole paths."""
    words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name not in names or value is None or value is False:
            continue
        option = parameter.opts[-1]
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [option, str(Path(one).absolute()) if parameter.name in ("matrix", "stored", "path") else str(one)]
    return tuple(words)


def _request(arguments: Collection[str]) -> run_request.Request:
    """What these arguments of `run` ask for. Ends the command where they contradict each other."""
    from clmembench.cli.program import app

    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]  # a group
    given = command.make_context("run", list(arguments)).params
    bench = given["bench"] or (None if given["suite"] else options.benchmarks_of_folders(given["path"]))
    lists: dict[str, Any] = {name: given[name] or () for name in ("axis", "matrix")}
    given["stored"] = Path(given["stored"]) if given["stored"] else None  # which typer converts for the command alone
    names = {one.name for one in fields(run_request.Request)} - {"bench", *lists}
    return run_request.Request(bench=bench or (), **lists, **{name: given[name] for name in names})


def _estimate(request: run_request.Request) -> Callable[[DeviceInfo], ProgressEstimate]:
    """How long a device's run takes, which is the same for devices of one model. Raises ValueError where it has no point."""
    from clmembench.results.tuned import TuningError
    from clmembench.specs.sheets import SpecError

    known: dict[object, Any] = {}

    def estimate(info: DeviceInfo) -> ProgressEstimate:
        key = replace(info, id="", uuid="", pci="", selector="", instance=0)
        if key not in known:
            try:
                planned = request.plan(info)
            except (SpecError, TuningError) as error:
                raise ValueError(str(error)) from error
            known[key] = planned.estimate(info).benchmarks, planned.selection.budget_s
        benchmarks, budget_s = known[key]
        return ProgressEstimate(benchmarks, {}, budget_s)

    return estimate


def _measure(output: Path, plan: Plan, workers: Workers, state: State | None = None) -> None:
    """Measure a fleet, or what is left of it, and say what the store has. Ends the command with INTERRUPTED after Ctrl-C, and
    with FAILED where a device is not complete, or a point is bad."""
    from clmembench.studies.fleet import clusters, compaction, coordinator, journal, store

    request, problem, interrupted = _request(plan.arguments), "", False
    try:
        store.open_store(output, create=True)
        book = journal.Journal(output, plan)
    except (store.StoreError, journal.JournalError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except OSError as error:
        exit_codes.stop(f"cannot write {output}: {error.strerror}: choose another place with -o", exit_codes.USAGE)
    fleet = coordinator.Coordinator(
        plan, book, output / "incoming", _estimate(request), partial(_import, output), workers.count,
        math.inf if workers.kind == "slurm" else coordinator.NO_WORKER_S,
    )  # fmt: skip
    if state is not None:
        for name in state.unfinished:
            fleet.add(name, state.devices[name], state.attempts.get(name, 0) + 1)
    try:
        with clusters.connected(workers, output / "slurm") as client, _progress(fleet) as show:
            fleet.measure(client, show)
    except KeyboardInterrupt:
        interrupted = True
    except (clusters.WorkersError, coordinator.SchedulerLostError) as error:
        problem = str(error)
    targets = fleet.targets.values()
    complete = [target for target in targets if target.status == "complete"]
    known = len(state.unfinished) if state is not None else 0
    if len(complete) == max(known, len(targets)) and not problem and not interrupted:
        book.end()
        compaction.compact(output)
    book.close()
    if not targets:
        book.path.unlink()  # there is nothing to resume
        if interrupted:
            exit_codes.stop("interrupted before anything was measured", exit_codes.INTERRUPTED)
        exit_codes.stop(problem or f"no worker has a device {plan.selector} to measure", exit_codes.NO_DEVICE)
    name = argument(output)
    print(f"{len(complete)} of {count(len(targets), 'device')} complete\nMore: clmembench fleet show {name}")
    remedy = f"{name} has every record up to here; continue with clmembench fleet resume {name}"
    if interrupted:
        exit_codes.stop(f"interrupted: {remedy}", exit_codes.INTERRUPTED)
    if problem or len(complete) < len(targets):
        exit_codes.stop(f"{problem or 'some devices are not complete'}: {remedy}", exit_codes.FAILED)
    if any(target.has_bad for target in complete):
        raise typer.Exit(exit_codes.FAILED)


def _import(store_folder: Path, file: Path) -> None:
    """Import a complete results file, which is not needed any more."""
    from clmembench.results.run_files import ResultsError
    from clmembench.specs.sheets import SpecError
    from clmembench.studies.fleet import store

    try:
        store.import_run(store_folder, file)
        file.unlink()
    except (store.StoreError, ResultsError, SpecError) as error:
        exit_codes.say(f"warning: {file} cannot be imported: {error}")


@contextmanager
def _progress(fleet: Coordinator) -> Iterator[Callable[[], None]]:
    """Progress on standard error: a bar on a terminal, and elsewhere a line every ten seconds."""

    def text() -> str:
        states = [target.status for target in fleet.targets.values()]
        if not states:
            return "waiting for workers"
        return f"{states.count('complete')} of {count(len(states), 'device')}, {snapshot_text(fleet.snapshot())}"

    if not is_live():
        said = time.monotonic()

        def show() -> None:
            nonlocal said
            if time.monotonic() - said >= (LINE_PERIOD_S if fleet.targets else WAITING_PERIOD_S):
                said = time.monotonic()
                exit_codes.say(text())

        yield show
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(BAR_COLUMNS), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=1, redirect_stdout=False) as bar:
        task = bar.add_task("waiting for workers", total=None)

        def show_bar() -> None:
            at = fleet.snapshot()
            bar.update(task, description=text(), completed=at.done, total=at.total or None)

        yield show_bar
