"""`compare --live`: two builds, drivers, options or devices of this machine, measured interleaved in one call until decided."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from clmembench import units
from clmembench.cli import devices, exits, read, session
from clmembench.cli.progress import progress

if TYPE_CHECKING:
    from clmembench.ab_rounds import Case, Side
    from clmembench.interleaved import Outcome
    from clmembench.isolate import Start
    from clmembench.model import Benchmark, DeviceInfo, Header, Value
    from clmembench.report.interleaved import Setting
    from clmembench.results import Writer
    from clmembench.selection import Selection

DEFAULT_BUDGET = "2m"


class Compare(TyperCommand):
    """`compare`: with --live the command below, which has options of its own; each refuses what only the other one has."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command that is meant."""
        if "--live" not in args:
            sides = [arg for arg in args if arg.startswith(("--a-", "--b-"))]
            if sides:
                exits.stop(f"{sides[0]} is of a measurement: add --live, and leave out results files", exits.USAGE)
        else:
            app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            app.command("compare")(live)
            return typer.main.get_command(app).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


class _Wanted(NamedTuple):
    """A side as it was asked for: its start, its device, and what it is in words."""

    start: Start
    info: DeviceInfo
    words: str
    changes: dict[str, Value]
    version: str
    packages: dict[str, str]


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
    from clmembench.cli.against import _fraction

    if paths:
        exits.stop(f"--live measures and reads no file: leave out {' '.join(paths)}, or --live", exits.USAGE)
    began, share = time.monotonic(), _fraction(margin)
    try:
        seconds, timeout_s = units.parse_seconds(budget), units.parse_seconds(timeout)
        wanted = _sides((a_env, a_kernels, a_python), (b_env, b_kernels, b_python), device, b_device, b_axis or [])
        selection, chosen = _selected(wanted, bench or [], axis or [], timeout_s, seed)
    except ValueError as error:
        exits.stop(str(error), exits.USAGE)
    files = _files(wanted[0].info, output, overwrite)
    run = _Run(wanted, selection, chosen, share, began + seconds, seconds, files, overwrite)
    interrupted = run.measure()
    outcomes = run.outcomes()
    setting = run.setting(time.monotonic() - began)
    _end(outcomes, setting, interrupted, as_json)


def _sides(
    a: tuple[list[str] | None, Path | None, Path | None],
    b: tuple[list[str] | None, Path | None, Path | None],
    device: str,
    b_device: str | None,
    b_axis: list[str],
) -> tuple[_Wanted, _Wanted]:
    """Both sides with their devices. Raises ValueError for options that cannot be meant."""
    from clmembench import ab_side
    from clmembench.cli.run import axes_of

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
                exits.stop(str(error), exits.FAILED)
        else:
            from clmembench import __version__, environment

            there = ab_side.Installation(__version__, environment.packages(), devices.listed())
        info = devices.select(there.devices, selector)
        said = [f"{info.name} ({info.platform} {info.driver})"]
        said += [f"{n}={v}" for n, v in start.environment.items()] + ([start.python] if start.python else [])
        own = {n: v[0] for n, v in changes.items()} if name == "B" else {}
        said += [f"{n}={v}" for n, v in own.items()]
        found.append(_Wanted(start, info, ", ".join(said), own, there.version, dict(there.packages)))
    if found[0].words == found[1].words:
        exits.say("A and B are the same: whatever is called different is a false alarm")
    if found[0].version != found[1].version:
        exits.say(
            f"warning: A is clmembench {found[0].version} and B {found[1].version}: their processes may not understand both"
        )
    return found[0], found[1]


def _selected(
    wanted: tuple[_Wanted, _Wanted], bench: list[str], axis: list[str], timeout_s: float, seed: int
) -> tuple[Selection, list[Benchmark]]:
    """What is measured. Raises ValueError where that is nothing, or no named points."""
    from clmembench import topology, tuning
    from clmembench.cli.run import axes_of
    from clmembench.cli.tune import taken
    from clmembench.selection import PLACE, Selection, check_axes, selected

    a, b = wanted
    selection = Selection(
        suite="all" if bench else "quick",
        globs=tuple(bench),
        axes=axes_of(axis, []),
        timeout_s=timeout_s,
        seed=seed,
        topology=topology.read() if a.info.kind == "cpu" else (),
    )
    chosen = selected(selection)
    check_axes(chosen, a.info, selection)
    for name in b.changes:
        if name in PLACE or not all(name in benchmark.axes for benchmark in chosen):
            raise ValueError(f"--b-axis {name}: not every benchmark chosen has this axis: name one by -b; see describe")
    check_axes(chosen, b.info, replace(selection, axes={name: (value,) for name, value in b.changes.items()}))
    for benchmark in chosen:
        growing = [name for name, known in benchmark.axes.items() if known.per_octave and name not in selection.axes]
        if growing:
            raise ValueError(f"{benchmark.name} grows along {growing[0]}: name its values, as in -a {growing[0]}=1MiB")
    try:
        return taken(a.info, selection, chosen, None), chosen
    except tuning.TuningError as error:
        raise ValueError(str(error)) from error


def _files(info: DeviceInfo, output: Path | None, overwrite: bool) -> tuple[Path, Path]:
    """A results file a side. Ends the command where one is in the way."""
    from ulid import ULID

    stem = output or session.default_path(info, str(ULID()))
    stem = stem.with_suffix("") if stem.suffix == ".jsonl" else stem
    found = stem.with_name(f"{stem.name}-a.jsonl"), stem.with_name(f"{stem.name}-b.jsonl")
    for path in found:
        session.free(path, overwrite)
    return found


class _Run:
    """One A/B run: what is measured, into which files, and what came of it."""

    def __init__(
        self,
        wanted: tuple[_Wanted, _Wanted],
        selection: Selection,
        chosen: Sequence[Benchmark],
        margin: float,
        until: float,
        budget_s: float,
        files: tuple[Path, Path],
        overwrite: bool,
    ) -> None:
        self._wanted, self._selection, self._chosen, self._margin = wanted, selection, chosen, margin
        self._until, self._budget_s, self._files, self._overwrite = until, budget_s, files, overwrite
        self._cases: list[Case] = []
        self._rounds = 0

    def measure(self) -> bool:
        """Hold the devices and measure; whether Ctrl-C ended it. Ends the command where nothing can be measured or written."""
        from clmembench import ab_rounds, lock, results

        try:
            with ExitStack() as stack:
                for info in {wanted.info.id: wanted.info for wanted in self._wanted}.values():
                    stack.enter_context(lock.held(info))
                sides = self._probed("A"), self._probed("B")
                writers = [
                    stack.enter_context(results.Writer(path, self._header(side, wanted), self._overwrite))
                    for path, side, wanted in zip(self._files, sides, self._wanted, strict=True)
                ]
                shown = stack.enter_context(progress())
                try:
                    self._fill(sides, writers, shown)
                except KeyboardInterrupt:
                    return True
                finally:
                    ab_rounds.concluded(self._cases, self._margin)
        except lock.HeldError as error:
            exits.stop(str(error), exits.NO_DEVICE)
        except results.ResultsError as error:
            exits.stop(str(error), exits.INTERNAL)
        except KeyboardInterrupt:
            exits.stop("interrupted before anything was measured", exits.INTERRUPTED)
        return False

    def _probed(self, name: str) -> Side:
        from clmembench import isolate
        from clmembench.ab_rounds import Side
        from clmembench.child import Job

        wanted = self._wanted["AB".index(name)]
        try:
            with isolate.Child(Job("opencl", wanted.info), wanted.start) as child:
                found = child.probe()
        except isolate.ChildError as error:
            said = f"; it last said: {error.log.strip().splitlines()[-1]}" if error.log.strip() else ""
            exits.stop(f"{name}, {wanted.words}, cannot be used: {error}{said}", exits.FAILED)
        return Side(name, replace(wanted.info, features=found.features), found, wanted.start, wanted.changes)

    def _header(self, side: Side, wanted: _Wanted) -> Header:
        head = session.header(side.info, self._selection, session.cards(benchmark.name for benchmark in self._chosen))
        return replace(
            head,
            tool_version=wanted.version,
            packages=wanted.packages,
            environment={**head.environment, **side.start.environment},
            budget_s=self._budget_s,
            clock_step_ns=side.found.quantum_ns,
            claimed=tuple(sorted(wanted.info.features)),
        )

    def _fill(self, sides: tuple[Side, Side], writers: Sequence[Writer], shown: Any) -> None:
        """The search for A's shapes, then the rounds; every record is written as it comes."""
        from clmembench import ab_rounds

        searched = time.monotonic() + ab_rounds.SEARCH * (self._until - time.monotonic())
        for benchmark in self._chosen:
            search = ab_rounds.cases_of(benchmark, sides[0], self._selection, "opencl", searched)
            while True:
                try:
                    record = next(search)
                except StopIteration as end:
                    self._cases += end.value
                    break
                writers[0].write(record)
                shown.show(record)
        rounds = ab_rounds.measured(self._cases, sides, self._selection, "opencl", self._margin, self._until)
        try:
            for which, record in rounds:
                self._rounds = record.process + 1
                writers[which].write(record)
                shown.show(record)  # that it was measured, not how fast it was: who sees that stops when it pleases
        finally:
            rounds.close()  # type: ignore[attr-defined]

    def outcomes(self) -> list[Outcome]:
        """Every value, judged as any reader of the two files would judge it."""
        from clmembench.ab_outcome import outcomes
        from clmembench.data import KERNELS
        from clmembench.gates.whole import judged_run

        stored = [read.load(path) for path in self._files]
        a, b = (judged_run(run, read.sheet_of(run)) for run in stored)
        overlaid = any(KERNELS in wanted.start.environment for wanted in self._wanted)
        return outcomes(self._cases, (a, b), self._wanted[1].changes, overlaid)

    def setting(self, seconds: float) -> Setting:
        from clmembench.interleaved import ERROR
        from clmembench.report.interleaved import Setting

        words, files = tuple(w.words for w in self._wanted), tuple(map(str, self._files))
        return Setting(words, self._margin, ERROR, self._selection.seed, files, self._rounds, round(seconds, 1))  # type: ignore[arg-type]


def _end(outcomes: Sequence[Outcome], setting: Setting, interrupted: bool, as_json: bool) -> None:
    """Print the outcome, and end with its exit code."""
    from clmembench.report import interleaved

    try:
        print(interleaved.to_json(outcomes, setting) if as_json else interleaved.as_text(outcomes, setting), flush=True)
    except BrokenPipeError:  # whoever reads the exit code need not read the text
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    count = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in interleaved.ORDER}
    if interrupted:
        exits.stop("interrupted: the results files hold every record up to here", exits.INTERRUPTED)
    if count["failed"] or not outcomes:
        first = next((o.failed for o in outcomes if o.failed), "no benchmark has a point with these values; see describe")
        exits.stop(f"{count['failed']} of {len(outcomes)} values have no verdict: {first}", exits.FAILED)
    if count["slower"]:
        exits.stop(f"{count['slower']} of {len(outcomes)} values are slower in B", exits.REGRESSION)
    if count["undecided"]:
        exits.stop(f"{count['undecided']} of {len(outcomes)} values are undecided: raise --budget", exits.INCONCLUSIVE)
