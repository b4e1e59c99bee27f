"""`compare --live`: an interleaved A/B measurement of two builds, drivers, options or devices of this machine."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, options
from clmembench.cli.command import Command
from clmembench.cli.running import session
from clmembench.studies.ab.live_run import LiveRun, RequestedSide, end

if TYPE_CHECKING:
    from clmembench.model import Benchmark, DeviceInfo
    from clmembench.plan.selection import Selection

DEFAULT_BUDGET, DEFAULT_TIMEOUT = "2m", "120s"


def _option(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help)


class Compare(Command):
    """`compare`: with --live the command below, which has its own options. Each refuses the options of the other."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command that is meant."""
        if "--live" not in args:
            sides = [arg for arg in args if arg.startswith(("--a-", "--b-"))]
            if sides:
                exit_codes.stop(f"{sides[0]} is an option of --live: add --live, and leave out results files", exit_codes.USAGE)
        else:
            app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
            app.command("compare", cls=Command)(live)
            return typer.main.get_command(app).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def live(
    paths: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    measured: Annotated[bool, typer.Option("--live", help="Measure A and B instead of reading results files.")] = False,
    device: options.Device = None,
    bench: options.Bench = None,
    axis: options.Axis = None,
    b_device: Annotated[str | None, _option("--b-device", "DEVICE", "Device of B; default: that of A.")] = None,
    b_axis: Annotated[list[str] | None, _option("--b-axis", "NAME=VALUE", "Value of an axis in B, such as width=4.")] = None,
    a_env: Annotated[list[str] | None, _option("--a-env", "NAME=VALUE", "Environment variable of A; repeatable.")] = None,
    b_env: Annotated[list[str] | None, _option("--b-env", "NAME=VALUE", "Environment variable of B; repeatable.")] = None,
    a_kernels: Annotated[Path | None, _option("--a-kernels", "DIR", "Folder of .cl files that replace those of A.")] = None,
    b_kernels: Annotated[Path | None, _option("--b-kernels", "DIR", "Folder of .cl files that replace those of B.")] = None,
    a_python: Annotated[Path | None, _option("--a-python", "DIR", "Virtual environment whose clmembench measures A.")] = None,
    b_python: Annotated[Path | None, _option("--b-python", "DIR", "Virtual environment whose clmembench measures B.")] = None,
    budget: Annotated[str, options.budget_option(DEFAULT_BUDGET)] = DEFAULT_BUDGET,
    timeout: Annotated[str, options.timeout_option(DEFAULT_TIMEOUT)] = DEFAULT_TIMEOUT,
    margin: options.Margin = "5%",
    seed: options.Seed = None,
    output: Annotated[
        Path | None,
        options.output_option(
            "Results files to write, NAME-a.jsonl and NAME-b.jsonl (or .jsonl.gz); default: in ./reports.", "NAME"
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    own: options.OwnBenchmarks = None,
) -> None:
    """Measure A and B interleaved until every value is decided.

    B differs from A by the --b-... options only. Each value becomes faster, slower or same, or stays undecided when --budget is
    spent. The exit code is 5 where a value is slower, 6 where one is undecided, 4 where a side failed.
    """
    from clmembench.cli.commands.compare import _fraction

    if paths:
        exit_codes.stop(f"--live measures and reads no file: leave out {' '.join(paths)}, or --live", exit_codes.USAGE)
    began, share = time.monotonic(), _fraction(margin)
    try:
        seconds, timeout_s = units.parse_seconds(budget, "--budget"), units.parse_seconds(timeout, "--timeout")
        first = devices.or_first(device)
        wanted = _sides((a_env, a_kernels, a_python), (b_env, b_kernels, b_python), first, b_device, b_axis or [])
        selection, chosen = _selected(wanted, bench or [], axis or [], timeout_s, seed or 0)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    files = side_files(wanted[0].info, output, overwrite)
    _warn(*wanted)
    run = LiveRun(wanted, selection, chosen, share, began + seconds, seconds, files, overwrite)
    interrupted = run.measure()
    outcomes = run.outcomes()
    end(run.comparison(outcomes, time.monotonic() - began), interrupted, as_json)


def _sides(
    a: tuple[list[str] | None, Path | None, Path | None],
    b: tuple[list[str] | None, Path | None, Path | None],
    device: str,
    b_device: str | None,
    b_axis: list[str],
) -> tuple[RequestedSide, RequestedSide]:
    """Both sides with their devices. Raises ValueError for options that contradict each other."""
    from clmembench.studies.ab import ab_side

    changes = options.parse_axes(b_axis, [])
    for name, values in changes.items():
        if len(values) > 1:
            raise ValueError(f"--b-axis {name} has {len(values)} values: name one")
    starts = [ab_side.parse_start(name, side[0] or [], *side[1:]) for name, side in (("A", a), ("B", b))]
    requested = []
    for name, start, selector in (("A", starts[0], device), ("B", starts[1], b_device or device)):
        if start.python or start.environment:
            try:
                there = ab_side.read_installation(name, start, devices.runtime_of(selector))
            except ab_side.SideError as error:
                exit_codes.stop(str(error), exit_codes.FAILED)
        else:
            from clmembench import __version__
            from clmembench.host import environment

            there = ab_side.Installation(__version__, environment.packages(), devices.listed(selector))
        info = devices.select(there.devices, selector)
        words = [f"{info.name} ({info.platform} {info.driver})"]
        words += [f"{n}={v}" for n, v in start.environment.items()] + ([start.python] if start.python else [])
        own = {n: v[0] for n, v in changes.items()} if name == "B" else {}
        words += [f"{n}={v}" for n, v in own.items()]
        requested.append(RequestedSide(start, info, ", ".join(words), own, there.version, dict(there.packages)))
    return requested[0], requested[1]


def _warn(a: RequestedSide, b: RequestedSide) -> None:
    """Warn where both sides are the same, or their installations differ."""
    if a.words == b.words:
        exit_codes.say("A and B are the same: any value called faster or slower is a false alarm")
    if a.version != b.version:
        exit_codes.say(
            f"warning: A is clmembench {a.version} and B {b.version}: their worker processes may use another protocol"
        )


def _selected(
    wanted: tuple[RequestedSide, RequestedSide], bench: list[str], axis: list[str], timeout_s: float, seed: int
) -> tuple[Selection, list[Benchmark]]:
    """The selection and its benchmarks. Raises ValueError where there are none, or a growing axis has no values."""
    from clmembench.host import cpu_topology
    from clmembench.plan.selection import PLACE_AXES, Selection, check_axes, selected_benchmarks
    from clmembench.results import tuned
    from clmembench.studies.ab.ab_rounds import check_growing_axes_named

    a, b = wanted
    selection = Selection(
        suite="all" if bench else "quick",
        globs=tuple(bench),
        axes=options.parse_axes(axis, []),
        timeout_s=timeout_s,
        seed=seed,
        topology=cpu_topology.read() if a.info.kind == "cpu" else (),
    )
    chosen = selected_benchmarks(selection)
    check_axes(chosen, a.info, selection)
    for name in b.changes:
        if name in PLACE_AXES or not all(name in benchmark.axes for benchmark in chosen):
            raise ValueError(f"--b-axis {name}: not every selected benchmark has this axis: select one by -b; see describe")
        if len(selection.axes.get(name, ())) > 1:
            raise ValueError(f"-a {name} has several values, but --b-axis {name} gives B only one: name one")
    check_axes(chosen, b.info, replace(selection, axes={name: (value,) for name, value in b.changes.items()}))
    for benchmark in chosen:
        check_growing_axes_named(benchmark, selection)
    try:
        return session.with_stored_configurations(a.info, selection, chosen), chosen
    except tuned.TuningError as error:
        raise ValueError(str(error)) from error


def side_files(
    info: DeviceInfo, output: Path | None, overwrite: bool, names: tuple[str, str] = ("a", "b")
) -> tuple[Path, Path]:
    """The results file of each side. Ends the command where one exists."""
    from ulid import ULID

    from clmembench.results import run_files

    stem, suffix = run_files.split_suffix(output or session.default_path(info, str(ULID())))
    found = stem.with_name(f"{stem.name}-{names[0]}{suffix}"), stem.with_name(f"{stem.name}-{names[1]}{suffix}")
    session.check_output(found[0], overwrite)
    if found[0].parent.is_dir():  # the folder does not exist yet, so it has no such file
        session.check_output(found[1], overwrite)
    return found
