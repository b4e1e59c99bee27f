"""`compare`, `baseline` and `check`: comparisons of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import exit_codes, options, outputs, stored_runs
from clmembench.units import count

if TYPE_CHECKING:
    from clmembench.analysis.compare import Comparison
    from clmembench.analysis.matching import PointFilter
    from clmembench.model import Run

baseline = typer.Typer(help="Create the baseline that `check` compares runs with.")


def compare(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Two or more results files; each later one is compared with the first.")
    ],
    bench: options.Bench = None,
    suite: options.ShownSuite = None,
    axis: options.Axis = None,
    status: options.Verdict = None,
    device: options.AnyDevice = None,
    margin: options.Margin = "5%",
    force: options.Force = False,
    everything: Annotated[bool, typer.Option("--all", help="List every value; default: the ten that differ most.")] = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
    live: Annotated[
        bool, typer.Option("--live", help="Measure two builds, drivers or options interleaved: see compare --live --help.")
    ] = False,
) -> None:
    """Compare runs: faster, slower, same or undecided.

    Every value that two runs have in common gets the ratio of its medians with a 95% interval. Answers come first, then key
    quantities, then the values that differ most. Filters list the selected values alone, and change no verdict. JSON is a list
    with one object for each run after the first."""
    from clmembench.report import comparison, render
    from clmembench.report.scorecard.key_tables import pair_opening
    from clmembench.report.table import DEFAULT_COLUMNS

    if len(paths) < 2:
        exit_codes.stop("compare needs two runs or more", exit_codes.USAGE)
    wanted, verdicts = stored_runs.parse(bench, suite, axis), stored_runs.parse_words(status, stored_runs.VERDICTS)
    runs = [_judged(path) for path in paths]
    if device is not None:
        runs = [run for run in runs if stored_runs.is_device(run, device)]
        if len(runs) < 2:
            left = count(len(runs), "run")
            exit_codes.stop(f"--device {device!r} leaves {left}: compare needs two or more", exit_codes.USAGE)
    first, *others = runs
    found = [_compared(first, other, _fraction(margin), force, wanted) for other in others]
    for other in others:
        _warn_of_one_run(first, other)
    names = [_name(run) for run in runs]
    if as_json:
        print(render.json_text(comparison.comparison_objects(runs, found, verdicts)))
    else:
        of = [run.header.device for run in runs]
        openings = []
        if wanted.takes_all and not verdicts:
            width, colour = outputs.width() or DEFAULT_COLUMNS, outputs.is_coloured(sys.stdout)
            openings = [pair_opening(first, other, _fraction(margin), width, colour) for other in others]
        print(comparison.comparison_text(names, found, everything, verdicts, *outputs.layout(wide), of, openings))


@baseline.command("create")
def create(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Runs of one device; several show its run-to-run variation.")
    ],
    output: Annotated[Path, options.output_option("Baseline to write, a results file.")] = Path("baseline.jsonl"),
    overwrite: options.Overwrite = False,
    force: options.Force = False,
) -> None:
    """Create a baseline that pools the measured points of runs."""
    from clmembench.analysis import matching
    from clmembench.results import jsonl

    output = outputs.in_folder(output, "baseline.jsonl")
    outputs.check(output, overwrite, name="baseline.jsonl")
    outputs.check_not_input(output, paths)
    runs = [stored_runs.load(path) for path in paths]
    for run in runs[1:]:
        _poolable(runs[0], run, force)
    try:
        made = matching.pooled(runs, ("baseline", "create", *map(str, paths)))
        with jsonl.Writer(output, made.header, overwrite) as writer:
            for record in made.records:
                writer.write(record)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    print(f"wrote {output}: {len(runs)} runs, {len(made.records)} records", file=sys.stderr)


def check(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Results file.")],
    against: Annotated[
        Path, typer.Option("--baseline", metavar="FILE", help="Baseline of `baseline create`, or any results file.")
    ],
    bench: options.Bench = None,
    suite: options.ShownSuite = None,
    axis: options.Axis = None,
    status: options.Verdict = None,
    device: options.AnyDevice = None,
    wide: options.Wide = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="JUnit XML file to write as well.")] = None,
    overwrite: options.Overwrite = False,
    margin: options.Margin = "5%",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 6 where a value is undecided or not compared.")] = False,
    allow_left_out: Annotated[
        bool, typer.Option("--allow-left-out", help="Pass although values of the baseline were not compared; they are counted.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Check a run against a baseline: PASS, FAIL or CANNOT DECIDE.

    FAIL (exit code 5): a value is slower, or its point failed. CANNOT DECIDE (6): no value could be decided, one looks far
    slower but is undecided, or values of the baseline were not compared: their kernels changed, or the run lacks them. PASS
    (0): everything else. With -b, -s or -a only the selected values count."""
    from clmembench.analysis.baseline_check import advice, judge
    from clmembench.report import comparison, render

    margin_share = _fraction(margin)
    if junit is not None:
        junit = outputs.in_folder(junit, "check.xml")
        outputs.check(junit, overwrite, "--junit", "check.xml", pipe=True)
        outputs.check_not_input(junit, (path, against), "--junit")
    wanted, verdicts = stored_runs.parse(bench, suite, axis), stored_runs.parse_words(status, stored_runs.VERDICTS)
    first, second = _judged(against), _judged(path)
    stored_runs.of_device([path], device, [second])
    _same_device(first, second, force)
    found = _compared(first, second, margin_share, force, wanted)
    judged = judge(found, margin_share, allow_left_out)
    if junit is not None:
        outputs.write(junit, comparison.junit_text(found, judged), overwrite, "--junit")
    _warn_of_one_run(first, second)
    print("\n".join(render.wrapped([comparison.judgement_text(judged)], outputs.width(wide))))
    names = [_name(first), _name(second)]
    of = [run.header.device for run in (first, second)]
    print(comparison.comparison_text(names, [found], False, verdicts, *outputs.layout(wide), of))
    if judged.outcome == "FAIL":
        exit_codes.stop(f"{judged.reason}: repeat the run to see which of them persist", exit_codes.REGRESSION)
    if judged.outcome == "CANNOT DECIDE":
        exit_codes.stop(f"{judged.reason}: {advice(judged)}", exit_codes.INCONCLUSIVE)
    if strict and judged.open:
        exit_codes.stop(f"{judged.open} values are undecided or not compared: {advice(judged)}", exit_codes.INCONCLUSIVE)


def _judged(path: Path) -> Run:
    from clmembench.gates.whole import judged_run

    run = stored_runs.load(path)
    return judged_run(run, stored_runs.sheet_of(run))


def _name(run: Run) -> str:
    """A run by its file, and by its label where it has one."""
    return f"{run.path} ({run.header.label})" if run.header.label else run.path


def _compared(first: Run, second: Run, margin: float, force: bool, wanted: PointFilter) -> Comparison:
    """The wanted part of the comparison. Ends the command where no benchmark of the two can be compared."""
    from clmembench.analysis import compare, matching

    objections = matching.objections(first, second)
    found = compare.compare(first, second, margin, force)
    if not found.changes and objections:
        more = f", and {len(objections) - 1} more" if len(objections) > 1 else ""
        code = exit_codes.USAGE
        exit_codes.stop(f"{first.path} and {second.path} are not comparable: {objections[0]}{more}: see --force", code)
    if force:
        for objection in objections:
            exit_codes.say(f"warning: {objection}")
    return stored_runs.chosen_changes(found, first, second, wanted)


def _warn_of_one_run(first: Run, second: Run) -> None:
    from clmembench.analysis import matching

    if matching.is_one_run(first, second):
        exit_codes.say(f"warning: {first.path} and {second.path} are one run, which is compared with itself")


def _poolable(first: Run, second: Run, force: bool) -> None:
    """Ends the command where runs cannot be pooled: they share no point, or a benchmark of another version. With --force it
    warns instead."""
    from clmembench.analysis import matching

    objections = matching.objections(first, second)
    if objections and not force:
        more = f", and {len(objections) - 1} more" if len(objections) > 1 else ""
        exit_codes.stop(
            f"{first.path} and {second.path} cannot be pooled in one baseline: {objections[0]}{more}: see --force",
            exit_codes.USAGE,
        )
    for objection in objections:
        exit_codes.say(f"warning: {objection}")


def _same_device(first: Run, second: Run, force: bool) -> None:
    """Ends the command where the baseline is of another model of device; two devices of one model get a note."""
    from clmembench.model.device_identity import is_same_device, is_same_model, is_same_platform

    then, now = first.header.device, second.header.device
    if not is_same_model(then, now):
        why = f"{first.path} is a baseline of {then.name} and {second.path} a run of {now.name}"
        if not force:
            exit_codes.stop(f"{why}: create a baseline of this device, use `compare`, or add --force", exit_codes.USAGE)
        exit_codes.say(f"warning: {why}")
    elif not is_same_device(then, now):
        exit_codes.say(f"note: the baseline is of another {now.name}: the intervals include the difference between two of them")
    if not is_same_platform(then, now):
        exit_codes.say(f"warning: the baseline was measured through {then.platform} and the run through {now.platform}")


def _fraction(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        exit_codes.stop(f"--margin {text!r} is no share: write 5% or 0.05", exit_codes.USAGE)
    return value
