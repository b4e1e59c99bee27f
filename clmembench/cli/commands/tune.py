"""`tune`: search the best configurations of benchmarks on a device, and store them for `run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from clmembench import units
from clmembench.cli import completion, devices, exit_codes, options, outputs
from clmembench.cli.running import session
from clmembench.sanitize import line

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult as ProbeResult
    from clmembench.model import Benchmark, DeviceInfo, Record, Value
    from clmembench.plan.selection import Selection
    from clmembench.tune.candidates import SearchOutcome

AllowedValues = Mapping[str, tuple["Value", ...]]
Found = Sequence[tuple["Benchmark", Sequence["SearchOutcome"]]]
DEFAULT_BUDGET, DEFAULT_TIMEOUT = "5m", "120s"


def tune(
    bench: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BENCH",
            help="Benchmarks, or globs; default: all that have tuning axes.",
            show_default=False,
            autocompletion=completion.tunable_benchmarks,
        ),
    ] = None,
    device: options.Device = None,
    axis: options.Axis = None,
    budget: Annotated[str, options.budget_option(DEFAULT_BUDGET)] = DEFAULT_BUDGET,
    timeout: Annotated[str, options.timeout_option(DEFAULT_TIMEOUT)] = DEFAULT_TIMEOUT,
    seed: options.Seed = None,
    output: Annotated[
        Path | None, options.output_option("File of configurations to add to; default: your own, which `run` reads.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE", help="Results file of all trials; default: a new file in ./reports."),
    ] = None,
    own: options.OwnBenchmarks = None,
) -> None:
    """Search the best configuration of each point, and store it.

    A candidate replaces the first configuration only after interleaved measurements show that it is better. `run` uses what is
    stored. Points that --budget leaves undecided are not stored.
    """
    from clmembench.results import tuned
    from clmembench.specs.sheets import SpecError

    info = devices.select(devices.listed(device), devices.or_first(device))
    path = output or tuned.user_tuning_path()
    if output is not None:
        path = outputs.in_folder(output, "shapes.toml")
        outputs.check(path, overwrite=True, name="shapes.toml")  # entries are added to it
    try:
        budget_s = units.parse_seconds(budget, "--budget")
        case = _case(info, bench or ["*"], axis or [], units.parse_seconds(timeout, "--timeout"), seed or 0, path)
    except (ValueError, SpecError, tuned.TuningError) as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.check_output(records, False, "--records")
    found, written = _search(info, case, budget_s, path, records)
    _print_outcomes(found, path, written.path)
    session.end(written, f"{path} holds what was decided up to here, {written.path} every record")


class _Case(NamedTuple):
    """The benchmarks that are tuned, the selection of their points, and the values that the user named on tuning axes."""

    benchmarks: Sequence[Benchmark]
    selection: Selection
    allowed: AllowedValues

    def points(self, info: DeviceInfo) -> list[tuple[Benchmark, Any]]:
        """Each benchmark with its points that have several configurations."""
        from clmembench.tune import candidates

        cases = [(b, candidates.tuning_cases(b, info, self.selection, self.allowed)) for b in self.benchmarks]
        return [case for case in cases if case[1]]


def _case(info: DeviceInfo, bench: list[str], axis: list[str], timeout_s: float, seed: int, path: Path) -> _Case:
    """What is tuned. Raises ValueError where that is nothing, SpecError where two spec sheets match the device, and TuningError
    where the file of configurations is damaged, which is better known before the search than after it."""
    from clmembench.results import tuned

    chosen = _tunable(bench)
    selection, allowed = _selection(chosen, info, axis, timeout_s, seed)
    tuned.device_family(info)
    if path.exists():
        tuned.load(path)
    case = _Case(chosen, session.with_stored_configurations(info, selection, chosen), allowed)
    if not case.points(info):
        raise ValueError("nothing to tune: no point has several configurations with all these values; see describe")
    return case


def _search(info: DeviceInfo, case: _Case, budget_s: float, path: Path, output: Path | None) -> tuple[Found, session.Written]:
    """Search, and store the best configurations of each benchmark when it is done: what was found, and the results file. Ends
    the command where either file cannot be written."""
    from clmembench.results import tuned
    from clmembench.tune import search

    family = tuned.device_family(info)
    found: list[tuple[Benchmark, Sequence[SearchOutcome]]] = []

    def store(benchmark: Benchmark, outcomes: Sequence[SearchOutcome]) -> None:
        found.append((benchmark, outcomes))
        tuned.save(path, [t for o in outcomes if (t := search.tuned_entry(o, benchmark, info, family)) is not None])

    def records(info: DeviceInfo, probed: ProbeResult, known: Sequence[Record]) -> Iterator[Record]:
        return search.run_searches(info.runtime, info, probed, case.selection, case.points(info), budget_s, store)

    cards = session.cards(benchmark.name for benchmark in case.benchmarks)
    try:
        tuned.make_writable(path)
        return found, session.measure_to_file(info, case.selection, cards, records, output)
    except tuned.TuningError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)


def _tunable(globs: Sequence[str]) -> list[Benchmark]:
    """Raises ValueError naming what there is where a glob matches nothing that has tuning axes."""
    from clmembench.benchmarks import discovered
    from clmembench.plan import selection

    known = {n: b for n, b in discovered().items() if not b.adaptive and any(axis.tuning for axis in b.axes.values())}
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in known):
            raise ValueError(f"{glob!r} matches no benchmark that has tuning axes: {selection.or_all(glob, known)}")
    return [benchmark for name, benchmark in known.items() if any(fnmatchcase(name, glob) for glob in globs)]


def _selection(
    chosen: Sequence[Benchmark], info: DeviceInfo, axis: list[str], timeout_s: float, seed: int
) -> tuple[Selection, AllowedValues]:
    """The selection of what is tuned, and the values that the user named on tuning axes. Raises ValueError for an axis or a
    value that no benchmark has."""
    from clmembench.plan import selection
    from clmembench.plan.selection import Selection, check_axes

    given = options.parse_axes(axis, [])
    names = {name for benchmark in chosen for name, known in benchmark.axes.items() if known.tuning}
    allowed = {name: values for name, values in given.items() if name in names}
    for name, values in allowed.items():
        known = [v for benchmark in chosen if name in benchmark.axes for v in benchmark.axes[name].values(info)]
        for value in values:
            if value not in known:
                there = ", ".join(map(str, dict.fromkeys(known)))
                raise ValueError(f"-a {name}: {value!r} is not one of the values on this device, {there}")
    plain = {name: values for name, values in given.items() if name not in names}
    for name in plain:
        if not any(name in benchmark.axes for benchmark in chosen):
            names_here = sorted({n for benchmark in chosen for n in benchmark.axes})
            raise ValueError(f"no axis {name!r} here: {selection.or_all(name, names_here)}")
    request = Selection(suite="tune", axes=plain, timeout_s=timeout_s, seed=seed)
    check_axes(chosen, info, request)
    return request, allowed


def _print_outcomes(found: Found, path: Path, records: Path) -> None:
    """Print what was found of each point, and the names of both files."""
    stored = 0
    for benchmark, outcomes in found:
        for outcome in outcomes:
            stored += outcome.best is not None
            print(line(f"{benchmark.name} {units.format_params(outcome.params)}: {_outcome_text(outcome)}"))
    count = "1 configuration is" if stored == 1 else f"{stored} configurations are"
    print(line(f"Tuning: {count} stored in {path}"))
    print(line(f"Results: {records}"))


def _outcome_text(found: SearchOutcome) -> str:
    tried = f"{found.tried} of {found.shapes} configurations tried"
    ratio = f"{found.ratio.value:.3f} ({found.ratio.low:.3f} to {found.ratio.high:.3f})" if found.ratio else ""
    if found.best is None:
        return f"undecided, nothing is stored: {found.reason}; {tried}"
    if found.best is found.first:
        near = f" is kept: {units.format_params(found.winner)} is {ratio} times as good" if ratio else " did best in the trials"
        return f"{units.format_params(found.best)}: the first configuration{near}; {tried}"
    gain = f"{ratio} times as good as the first configuration, {units.format_params(found.first)}"
    return f"{units.format_params(found.best)}: {gain if ratio else 'the first configuration does not run'}; {tried}"
