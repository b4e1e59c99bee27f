"""`compare --live`: two builds, drivers, options or devices of this machine, measured interleaved in one call until decided."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, session
from clmembench.cli.command import Command
from clmembench.cli.live_run import Run, Wanted, end

if TYPE_CHECKING:
    from clmembench.model import Benchmark, DeviceInfo
    from clmembench.plan.selection import Selection

DEFAULT_BUDGET = "2m"


class Compare(Command):
    """`compare`: with --live the command below, which has options of its own; each refuses what only the other one has."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command that is meant."""
        if "--live" not in args:
            sides = [arg for arg in args if arg.startswith(("--a-", "--b-"))]
            if sides:
                exit_codes.stop(f"{sides[0]} is of a measurement: add --live, and leave out results files", exit_codes.USAGE)
        else:
            app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            app.command("compare")(live)
            return typer.main.get_command(app).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def live(
    paths: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    measured: Annotated[bool, typer.Option("--live", help="Measure A and B interleaved, rather than read runs.")] = False,
    device: Annotated[str, typer.Option("-d", "--device", help="INDEX, P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")] = "0",
    bench: Annotated[list[str] | None, typer.Option("-b", "--bench", help="Only benchmarks matching this glob.")] = None,
    axis: Annotated[
        list[str] | None, typer.Option("-a", "--axis", help="Values of an axis: op=triad, array_bytes=64MiB.")
    ] = None,
    b_device: Annotated[str | None, typer.Option("--b-device", help="B is another device.")] = None,
    b_axis: Annotated[list[str] | None, typer.Option("--b-axis", help="B has this value of an axis: work_group=64.")] = None,
    a_env: Annotated[list[str] | None, typer.Option("--a-env", help="NAME=VALUE in the environment of A.")] = None,
    b_env: Annotated[list[str] | None, typer.Option("--b-env", help="NAME=VALUE in the environment of B.")] = None,
    a_kernels: Annotated[
        Path | None, typer.Option("--a-kernels", help="Folder of .cl files that A has in place of its own.")
    ] = None,
    b_kernels: Annotated[
        Path | None, typer.Option("--b-kernels", help="Folder of .cl files that B has in place of its own.")
    ] = None,
    a_python: Annotated[
        Path | None, typer.Option("--a-python", help="Virtual environment whose clmembench measures A.")
    ] = None,
    b_python: Annotated[
        Path | None, typer.Option("--b-python", help="Virtual environment whose clmembench measures B.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Time for all; what is not decided by then is undecided.")] = DEFAULT_BUDGET,
    timeout: Annotated[str, typer.Option(help="Time for one point before its process is ended.")] = "120s",
    margin: Annotated[str, typer.Option(help="What counts as the same, such as 5%.", metavar="PERCENT")] = "5%",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the inputs and of which side comes first.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="NAME: records go to NAME-a.jsonl and NAME-b.jsonl; else in ./reports."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object rather than a table.")] = False,
) -> None:
    """Measure A and B interleaved, round by round, until every value is faster, slower or the same, or the budget is spent.

    B is A but for what --b-... changes. Exits with 5 where a value is slower, 6 where one is undecided, 4 where a side failed.
    """
    from clmembench.cli.compare import _fraction

    if paths:
        exit_codes.stop(f"--live measures and reads no file: leave out {' '.join(paths)}, or --live", exit_codes.USAGE)
    began, share = time.monotonic(), _fraction(margin)
    try:
        seconds, timeout_s = units.parse_seconds(budget), units.parse_seconds(timeout)
        wanted = _sides((a_env, a_kernels, a_python), (b_env, b_kernels, b_python), device, b_device, b_axis or [])
        selection, chosen = _selected(wanted, bench or [], axis or [], timeout_s, seed)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    files = _files(wanted[0].info, output, overwrite)
    _warn(*wanted)
    run = Run(wanted, selection, chosen, share, began + seconds, seconds, files, overwrite)
    interrupted = run.measure()
    outcomes = run.outcomes()
    setting = run.setting(time.monotonic() - began)
    end(outcomes, setting, interrupted, as_json)


def _sides(
    a: tuple[list[str] | None, Path | None, Path | None],
    b: tuple[list[str] | None, Path | None, Path | None],
    device: str,
    b_device: str | None,
    b_axis: list[str],
) -> tuple[Wanted, Wanted]:
    """Both sides with their devices. Raises ValueError for options that cannot be meant."""
    from clmembench.cli.options import axes_of
    from clmembench.measure import ab_side

    changes = axes_of(b_axis, [])
    for name, values in changes.items():
        if len(values) > 1:
            raise ValueError(f"--b-axis {name} has {len(values)} values: B is one choice")
    starts = [ab_side.start_of(name, side[0] or [], *side[1:]) for name, side in (("A", a), ("B", b))]
    found = []
    for name, start, selector in (("A", starts[0], device), ("B", starts[1], b_device or device)):
        if start.python or start.environment:
            try:
                there = ab_side.installation(name, start)
            except ab_side.SideError as error:
                exit_codes.stop(str(error), exit_codes.FAILED)
        else:
            from clmembench import __version__
            from clmembench.host import environment

            there = ab_side.Installation(__version__, environment.packages(), devices.listed())
        info = devices.select(there.devices, selector)
        said = [f"{info.name} ({info.platform} {info.driver})"]
        said += [f"{n}={v}" for n, v in start.environment.items()] + ([start.python] if start.python else [])
        own = {n: v[0] for n, v in changes.items()} if name == "B" else {}
        said += [f"{n}={v}" for n, v in own.items()]
        found.append(Wanted(start, info, ", ".join(said), own, there.version, dict(there.packages)))
    return found[0], found[1]


def _warn(a: Wanted, b: Wanted) -> None:
    """Say what a user may not have meant."""
    if a.words == b.words:
        exit_codes.say("A and B are the same: whatever is called different is a false alarm")
    if a.version != b.version:
        exit_codes.say(
            f"warning: A is clmembench {a.version} and B {b.version}: their worker processes may not understand this one"
        )


def _selected(
    wanted: tuple[Wanted, Wanted], bench: list[str], axis: list[str], timeout_s: float, seed: int
) -> tuple[Selection, list[Benchmark]]:
    """What is measured. Raises ValueError where that is nothing, or no named points."""
    from clmembench.cli.options import axes_of
    from clmembench.cli.tune import taken
    from clmembench.host import cpu_topology
    from clmembench.measure.ab_rounds import check_named
    from clmembench.plan.selection import PLACE, Selection, check_axes, selected
    from clmembench.results import tuned

    a, b = wanted
    selection = Selection(
        suite="all" if bench else "quick",
        globs=tuple(bench),
        axes=axes_of(axis, []),
        timeout_s=timeout_s,
        seed=seed,
        topology=cpu_topology.read() if a.info.kind == "cpu" else (),
    )
    chosen = selected(selection)
    check_axes(chosen, a.info, selection)
    for name in b.changes:
        if name in PLACE or not all(name in benchmark.axes for benchmark in chosen):
            raise ValueError(f"--b-axis {name}: not every benchmark chosen has this axis: name one by -b; see describe")
        if len(selection.axes.get(name, ())) > 1:
            raise ValueError(f"-a {name} has several values, which with --b-axis {name} are the same point of B: name one")
    check_axes(chosen, b.info, replace(selection, axes={name: (value,) for name, value in b.changes.items()}))
    for benchmark in chosen:
        check_named(benchmark, selection)
    try:
        return taken(a.info, selection, chosen, None), chosen
    except tuned.TuningError as error:
        raise ValueError(str(error)) from error


def _files(info: DeviceInfo, output: Path | None, overwrite: bool) -> tuple[Path, Path]:
    """A results file a side. Ends the command where one is in the way."""
    from ulid import ULID

    stem = output or session.default_path(info, str(ULID()))
    stem = stem.with_suffix("") if stem.suffix == ".jsonl" else stem
    found = stem.with_name(f"{stem.name}-a.jsonl"), stem.with_name(f"{stem.name}-b.jsonl")
    session.free(found[0], overwrite)
    if found[0].parent.is_dir():  # in a folder that is not there yet, which has been said, nothing is in the way
        session.free(found[1], overwrite)
    return found
