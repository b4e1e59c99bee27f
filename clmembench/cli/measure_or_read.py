"""Commands of studies that either measure a device or read a stored run of such a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from clmembench import units
from clmembench.cli import devices, exit_codes, options, stored_runs, waiting
from clmembench.cli.running import session
from clmembench.sanitize import argument
from clmembench.studies import SelectionError, studies

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import DeviceInfo, Record, Run
    from clmembench.plan.estimate import RunEstimate
    from clmembench.plan.selection import Selection


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything that one command measures: the selection that its file's header keeps, the names of its benchmarks, their
    records, as they are measured on a device with the features that were found, and how long that will take, if known."""

    selection: Selection
    benchmarks: Iterable[str]
    records: Callable[[DeviceInfo, ProbeResult], Iterator[Record]]
    estimate: Callable[[DeviceInfo], RunEstimate] | None = None

    @classmethod
    def of_selections(
        cls, selection: Selection, benchmarks: Iterable[str], chosen: Callable[[DeviceInfo], Sequence[Selection]]
    ) -> Measurement:
        """The measurement of the selections that are `chosen` for a device, one after the other."""
        from clmembench.measure.runner import run_selections
        from clmembench.plan.estimate import estimate_selections

        return cls(
            selection,
            benchmarks,
            lambda info, found: run_selections(info.runtime, info, found, chosen(info), selection.budget_s),
            lambda info: estimate_selections(info, chosen(info)),
        )


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """The options that measure, as they were given. `timeout_s` limits a point where --timeout does not."""

    device: str | None = None
    budget: str | None = None
    timeout: str | None = None
    seed: int | None = None
    output: Path | None = None
    overwrite: bool = False
    wait: str | None = None
    wait_quiet: str | None = None
    timeout_s: float = 120.0

    @classmethod
    def of(cls, context: typer.Context, timeout_s: float) -> MeasureOptions:
        """Those options that the command of this context has, by the names of its parameters."""
        given = {one.name: context.params[one.name] for one in fields(cls) if one.name in context.params}
        if given.get("output") is not None:
            given["output"] = Path(given["output"])  # typer converts it for the command's function only
        return cls(**given, timeout_s=timeout_s)

    def selection(self, suite: str, **more: Any) -> Selection:
        """The selection of a suite with these limits. Raises ValueError for what is no duration."""
        from clmembench.plan.selection import Selection

        return Selection(
            suite=suite,
            seed=self.seed or 0,
            budget_s=units.parse_seconds(self.budget, "--budget") if self.budget else None,
            timeout_s=units.parse_seconds(self.timeout, "--timeout") if self.timeout else self.timeout_s,
            **more,
        )


@dataclass(frozen=True, slots=True)
class StudyCommand:
    """One command: what it measures with these options on a device (raises ValueError for an option that cannot be meant),
    whether a run has evidence for it, what to say of a run that has none, and how it prints one. `footer` is printed under
    text, with the name of the results file for {}; `timeout_s` is the default of --timeout."""

    measurement: Callable[[MeasureOptions, DeviceInfo], Measurement]
    has_evidence: Callable[[Run], bool]
    no_evidence: str
    show: Callable[[Run, str], None]
    footer: str = "Results: {}"
    timeout_s: float = 120.0


def measure_or_read(context: typer.Context, path: Path | None, command: StudyCommand) -> None:
    """Print what a study finds in a stored run, or measure it first where there is no `path`. The options that measure and
    that choose a format are read from the context, since a command only declares them. Ends the command where that cannot be
    done, with FAILED where a record is bad, and with INTERRUPTED after Ctrl-C."""
    form, given = options.chosen_format(context), MeasureOptions.of(context, command.timeout_s)
    if path is not None:
        session.refuse_measuring_options(path, context)
        run = stored_runs.load(path)
        if not command.has_evidence(run):
            exit_codes.stop(f"{path} {command.no_evidence}", exit_codes.USAGE)
        command.show(run, form)
        return
    info = devices.select(devices.listed(given.device), devices.or_first(given.device))
    try:
        measured = command.measurement(given, info)
        waits = waiting.parse(given.wait, given.wait_quiet)
    except SelectionError:  # the study's own
        raise
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    session.check_output(given.output, given.overwrite)
    written = session.measure_to_file(
        info,
        measured.selection,
        session.cards(measured.benchmarks),
        lambda info, found, known: measured.records(info, found),
        given.output,
        given.overwrite,
        estimate=measured.estimate,
        waits=waits,
    )
    run = session.read_back(written.path)
    if command.has_evidence(run):
        command.show(run, form)
    if form == "text":
        print(command.footer.format(argument(written.path)))
    session.end(written)


def show_with_run(run: Run) -> None:
    """Print, after the summary of a run, the answers of those studies that show theirs with every run."""
    for study in studies():
        if study.after_summary:
            study.call(study.after_summary, run)
