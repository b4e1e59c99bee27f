"""`tune`: search the best shapes of benchmarks on a device, and store them for `run`; which of those a run takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, output_file, session
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.measure.worker import Found
    from clmembench.model import Benchmark, DeviceInfo, Record, Value
    from clmembench.plan.selection import Selection
    from clmembench.tune.candidates import Outcome

Among = Mapping[str, tuple["Value", ...]]


def tune(
    bench: Annotated[
        list[str] | None, typer.Argument(metavar="[BENCH...]", help="Benchmarks, or globs; else all that have tuning axes.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("-d", "--device", help="INDEX (0 if not given), P:D, name~TEXT, uuid:HEX or pci:ADDRESS.")
    ] = None,
    axis: Annotated[
        list[str] | None, typer.Option("-a", "--axis", help="Only these values of an axis: n=[1024,4096], width=4.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Time for all of it; what is not decided by then is not stored.")] = "5m",
    timeout: Annotated[str, typer.Option(help="Time for one point before its process is ended.")] = "120s",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of random inputs, orders and starts.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File that the shapes are put into; else your own, which `run` reads.")
    ] = None,
    records: Annotated[Path | None, typer.Option("--records", help="Results file of all trials; default in ./reports.")] = None,
) -> None:
    """Search the best shapes of benchmarks on this device, prove them beside the first choice, and store them for `run`."""
    from clmembench.plan import sweep
    from clmembench.results import tuned
    from clmembench.specs import sheets
    from clmembench.tune import candidates, search

    info = devices.select(devices.listed(), device or "0")
    path = output or tuned.own_path()
    if output is not None:
        output_file.check(output, overwrite=True, name="shapes.toml")  # what is there is added to
    try:
        seconds = units.parse_seconds(budget)
        chosen = _tunable(bench or ["*"])
        selection, among = _selection(chosen, info, axis or [], units.parse_seconds(timeout), seed)
        family = tuned.family(info)
        if path.exists():
            tuned.load(path)  # a damaged one is better known before than after
        selection = taken(info, selection, chosen, None)
        if not any(candidates.contests(benchmark, info, selection, among) for benchmark in chosen):
            raise ValueError("nothing to tune: no point has several shapes with all these values; see describe")
    except (ValueError, sheets.SpecError, tuned.TuningError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.free(records, False, "--records")
    told: list[tuple[Benchmark, Sequence[Outcome]]] = []

    def measured(info: DeviceInfo, found: Found, known: Sequence[Record]) -> Iterator[Record]:
        def store(benchmark: Benchmark, outcomes: Sequence[Outcome]) -> None:
            told.append((benchmark, outcomes))
            tuned.save(path, [t for o in outcomes if (t := search.entry(o, benchmark, info, family)) is not None])

        wanted = [(benchmark, candidates.contests(benchmark, info, selection, among)) for benchmark in chosen]
        return search.measured("opencl", info, found, selection, [w for w in wanted if w[1]], seconds, store)

    try:
        tuned.ready(path)
        cards = {benchmark.name: sweep.card(benchmark) for benchmark in chosen}
        kept, bad, interrupted = session.kept(info, selection, cards, measured, records)
    except tuned.TuningError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    _say(told, path, kept)
    if interrupted:
        exit_codes.stop(f"interrupted: {path} holds what was decided up to here, {kept} every record", exit_codes.INTERRUPTED)
    if bad:
        raise typer.Exit(exit_codes.FAILED)


def taken(info: DeviceInfo, selection: Selection, chosen: Sequence[Benchmark], path: Path | None) -> Selection:
    """The selection with the stored shapes of the chosen benchmarks. Raises TuningError for a user's own file that is damaged,
    with what to do; of a shipped one it is said on standard error."""
    from dataclasses import replace

    from clmembench.results import tuned

    try:
        found, complaints = tuned.in_use(info, chosen, path)
    except tuned.TuningError as error:
        raise tuned.TuningError(f"{error}: repair or remove it; run goes on without stored shapes by --no-tuning") from error
    for complaint in complaints:
        exit_codes.say(f"warning: {complaint}")
    return replace(selection, tuning=found)


def _tunable(globs: Sequence[str]) -> list[Benchmark]:
    """Raises ValueError naming what there is where a glob matches nothing that has tuning axes."""
    from clmembench.benchmarks import discovered

    known = {n: b for n, b in discovered().items() if not b.planned and any(axis.tuning for axis in b.axes.values())}
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in known):
            raise ValueError(f"{glob!r} matches no benchmark that has tuning axes: choose from {', '.join(known)}")
    return [benchmark for name, benchmark in known.items() if any(fnmatchcase(name, glob) for glob in globs)]


def _selection(
    chosen: Sequence[Benchmark], info: DeviceInfo, axis: list[str], timeout_s: float, seed: int
) -> tuple[Selection, Among]:
    """What is tuned, and the values that the user named on tuning axes. Raises ValueError for one that is on no such axis."""
    from clmembench.cli.options import axes_of
    from clmembench.plan.selection import Selection, check_axes

    given = axes_of(axis, [])
    names = {name for benchmark in chosen for name, known in benchmark.axes.items() if known.tuning}
    among = {name: values for name, values in given.items() if name in names}
    for name, values in among.items():
        known = [v for benchmark in chosen if name in benchmark.axes for v in benchmark.axes[name].values(info)]
        for value in values:
            if value not in known:
                there = ", ".join(map(str, dict.fromkeys(known)))
                raise ValueError(f"-a {name}: {value!r} is none of the values that run may take, {there}")
    plain = {name: values for name, values in given.items() if name not in names}
    for name in plain:
        if not any(name in benchmark.axes for benchmark in chosen):
            there = ", ".join(sorted({n for benchmark in chosen for n in benchmark.axes}))
            raise ValueError(f"no axis {name!r} here: choose from {there}")
    selection = Selection(suite="tune", axes=plain, timeout_s=timeout_s, seed=seed)
    check_axes(chosen, info, selection)
    return selection, among


def _say(told: Sequence[tuple[Benchmark, Sequence[Outcome]]], path: Path, kept: Path) -> None:
    """What was found of each point, and where it is."""
    stored = 0
    for benchmark, outcomes in told:
        for found in outcomes:
            stored += found.best is not None
            print(line(f"{benchmark.name} {units.format_params(found.params)}: {_said(found)}"))
    points = "1 shape is" if stored == 1 else f"{stored} shapes are"
    print(line(f"Tuning: {points} stored in {path}"))
    print(line(f"Results: {kept}"))


def _said(found: Outcome) -> str:
    tried = f"{found.tried} of {found.shapes} shapes tried"
    ratio = f"{found.ratio.value:.3f} ({found.ratio.low:.3f} to {found.ratio.high:.3f})" if found.ratio else ""
    if found.best is None:
        return f"undecided, nothing is stored: {found.reason}; {tried}"
    if found.best is found.first:
        near = f"; {units.format_params(found.winner)} is {ratio} times as good" if ratio else ""
        return f"{units.format_params(found.best)}: the first choice is the best{near}; {tried}"
    gain = f"{ratio} times as good as the first choice, {units.format_params(found.first)}"
    return f"{units.format_params(found.best)}: {gain if ratio else 'the first choice does not run'}; {tried}"
