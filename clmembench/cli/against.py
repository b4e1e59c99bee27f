"""`compare`, `baseline` and `check`: runs held against each other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clmembench.cli import exits, read

if TYPE_CHECKING:
    from clmembench.compare import Comparison
    from clmembench.model import Run

Force = Annotated[bool, typer.Option("--force", help="Compare what is not comparable, with a warning.")]
Margin = Annotated[
    str, typer.Option(help="What counts as the same: 5%; less is never called faster or slower.", metavar="PERCENT")
]

baseline = typer.Typer(help="Make what `check` holds runs against.", no_args_is_help=True)


def compare(
    paths: Annotated[list[Path], typer.Argument(metavar="A B [C...]", help="Results files; all others are held against A.")],
    margin: Margin = "5%",
    force: Force = False,
    everything: Annotated[bool, typer.Option("--all", help="Also list what is the same.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A list with one object for each run after the first.")] = False,
) -> None:
    """Compare runs: the ratio of medians with its 95% interval for every common point; faster, slower, same or undecided."""
    from clmembench.report import changes

    if len(paths) < 2:
        exits.stop("compare needs two runs or more", exits.USAGE)
    first, *others = (_judged(path) for path in paths)
    found = [_compared(first, other, _fraction(margin), force) for other in others]
    names = [str(path) for path in paths]
    print(changes.to_json(names, found) if as_json else changes.as_text(names, found, everything))


@baseline.command("create")
def create(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs of one device: several show how they differ.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The baseline, a results file.")] = Path("baseline.jsonl"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
    force: Force = False,
) -> None:
    """Make a baseline of one run or several: their measured points, with each run's processes beside the others'."""
    from clmembench import compare, results

    if output.is_file() and not overwrite:
        exits.stop(f"{output} exists: choose another -o, or say --overwrite", exits.USAGE)
    runs = [read.load(path) for path in paths]
    for run in runs[1:]:
        _comparable(runs[0], run, force)
    try:
        made = compare.pooled(runs, ("baseline", "create", *map(str, paths)))
        with results.Writer(output, made.header, overwrite) as writer:
            for record in made.records:
                writer.write(record)
    except ValueError as error:
        exits.stop(f"{error}: a baseline is of one device and driver", exits.USAGE)
    except results.ResultsError as error:
        exits.stop(str(error), exits.INTERNAL)
    print(f"wrote {output}: {len(runs)} runs, {len(made.records)} records", file=sys.stderr)


def check(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A results file.")],
    against: Annotated[Path, typer.Option("--baseline", help="What `baseline create` made, or any results file.")],
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --junit.")] = False,
    margin: Margin = "5%",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 6 where something is undecided or missing.")] = False,
    force: Force = False,
) -> None:
    """Hold a run against a baseline: exit 5 where a value is slower or its point failed; with --strict 6 where one is undecided
    or missing."""
    from clmembench.report import changes
    from clmembench.untrusted import open_new

    found = _compared(_judged(against), _judged(path), _fraction(margin), force)
    if junit is not None:
        try:
            with open_new(junit, overwrite) as file:
                file.write(changes.to_junit(found))
        except FileExistsError:
            exits.stop(f"{junit} exists: choose another --junit, or say --overwrite", exits.USAGE)
        except OSError as error:
            exits.stop(f"cannot write {junit}: {error.strerror}: choose another place with --junit", exits.INTERNAL)
    print(changes.as_text([str(against), str(path)], [found], everything=False))
    broken = sum(change.broken for change in found.changes)
    if found.count("slower") or broken:
        exits.stop(
            f"{found.count('slower')} of {len(found.changes)} values are slower, and {broken} failed: "
            "see in another run which of them stay so",
            exits.REGRESSION,
        )
    undecided = found.count("undecided") + len(found.only_first)
    if strict and undecided:
        exits.stop(f"{undecided} values are undecided or missing: use --processes 6, on a quiet host", exits.INCONCLUSIVE)


def _judged(path: Path) -> Run:
    from clmembench.gates.whole import judged_run

    run = read.load(path)
    return judged_run(run, read.sheet_of(run))


def _compared(first: Run, second: Run, margin: float, force: bool) -> Comparison:
    from clmembench import compare

    _comparable(first, second, force)
    return compare.compare(first, second, margin)


def _comparable(first: Run, second: Run, force: bool) -> None:
    """Ends the command where two runs are not, or warns where that is wanted."""
    from clmembench import compare

    objections = compare.objections(first, second)
    if objections and not force:
        more = f", and {len(objections) - 1} more" if len(objections) > 1 else ""
        exits.stop(f"{first.path} and {second.path} are not comparable: {objections[0]}{more}: see --force", exits.USAGE)
    for objection in objections:
        exits.say(f"warning: {objection}")


def _fraction(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        exits.stop(f"--margin {text!r} is no share: write 5% or 0.05", exits.USAGE)
    return value
