"""Steps of every command that measures: lock the device, probe it, measure it, and write each record as it comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from clmembench.cli import exit_codes, outputs, waiting
from clmembench.cli.running import run_header
from clmembench.cli.running.outlook import ProgressEstimate
from clmembench.cli.running.progress import conclusion, progress
from clmembench.cli.running.run_header import RunNames
from clmembench.cli.waiting import Waits
from clmembench.host import failures

if TYPE_CHECKING:
    from clmembench.measure.job import ProbeResult
    from clmembench.model import Benchmark, BenchmarkInfo, DeviceInfo, Record, Run
    from clmembench.plan.estimate import RunEstimate
    from clmembench.plan.selection import Selection

    # the device with the features that were found, the result of probing it, and the records that the file has already
    Records = Callable[[DeviceInfo, ProbeResult, Sequence[Record]], Iterator[Record]]

BAD = ("failed", "wrong", "timeout")


class Written(NamedTuple):
    """A results file that was just written: its name, how many of its records are bad, and whether Ctrl-C ended it early."""

    path: Path
    bad: int
    interrupted: bool


def end(written: Written, holds: str = "") -> None:
    """End the command with INTERRUPTED after Ctrl-C, saying what its files hold, or with FAILED where a record is bad."""
    if written.interrupted:
        holds = holds or f"{written.path} holds every record up to here"
        exit_codes.stop(f"interrupted: {holds}", exit_codes.INTERRUPTED)
    if written.bad:
        raise typer.Exit(exit_codes.FAILED)


def cards(names: Iterable[str]) -> Mapping[str, BenchmarkInfo]:
    """The benchmarks of a run as its header keeps them, by name. Raises SelectionError for a name that is none."""
    from clmembench.plan import selection, sweep

    return {name: sweep.benchmark_card(selection.benchmark_named(name)) for name in names}


READING_OPTIONS = (
    "path",
    "as_json",
    "as_csv",
    "as_md",
    "as_latex",
    "figure",
)  # options that a command also takes with a stored run


def on_command_line(context: typer.Context, names: Collection[str] | None = None, but: Collection[str] = ()) -> list[str]:
    """The options given on the command line, all or these of them, as they are written there. Environment variables are the
    user's defaults, and contradict nothing."""
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and (names is None or parameter.name in names)
        and parameter.name not in but
        and (source := context.get_parameter_source(parameter.name)) is not None
        and source.name == "COMMANDLINE"
    ]


def refuse_measuring_options(path: Path, context: typer.Context) -> None:
    """Ends the command where options that measure were given with a stored run."""
    given = on_command_line(context, but=READING_OPTIONS)
    if given:
        exit_codes.stop(
            f"{path} is a stored run, which is read and not measured: leave out RUN or {', '.join(given)}", exit_codes.USAGE
        )


def check_output(output: Path | None, overwrite: bool, option: str = "-o") -> None:
    """Ends the command where no new results file can be made of that name."""
    if output is not None and not output.is_dir():  # in a folder a new file is made
        outputs.check(output, overwrite, option)
    elif output is not None:
        outputs.check_writable(output / "run.jsonl", option)


def with_stored_configurations(
    info: DeviceInfo, selection: Selection, chosen: Sequence[Benchmark], path: Path | None = None
) -> Selection:
    """The selection with the stored configurations of the chosen benchmarks, from the file `path` or else the user's own and
    the shipped ones. Raises TuningError for a damaged file of the user's; a damaged shipped one costs a warning."""
    from clmembench.results import tuned

    try:
        found, complaints = tuned.stored_configurations(info, chosen, path)
    except tuned.TuningError as error:
        raise tuned.TuningError(
            f"{error}: repair or remove it, or use --no-tuning, which ignores stored configurations"
        ) from error
    for complaint in complaints:
        exit_codes.say(f"warning: {complaint}")
    return replace(selection, tuning=found)


def with_probed_features(info: DeviceInfo, selection: Selection) -> DeviceInfo:
    """The device with the features that a run would find, by which it plans; with those that its driver claims, and a warning,
    where it cannot be probed, as while another run measures it."""
    from clmembench.host import device_lock
    from clmembench.measure import worker_process
    from clmembench.measure.job import Job

    try:
        with device_lock.held(info):
            found = worker_process.probed(Job(info.runtime, info), selection.isolated, selection.timeout_s)
    except (device_lock.HeldError, worker_process.WorkerError) as error:
        exit_codes.say(f"warning: {info.name} was not probed, so that its run may have another number of points: {error}")
        return info
    return replace(info, features=found.features)


def measure_to_file(
    info: DeviceInfo,
    selection: Selection,
    cards: Mapping[str, BenchmarkInfo],
    records: Records,
    output: Path | None,
    overwrite: bool = False,
    earlier: Run | None = None,
    names: RunNames = RunNames(),  # noqa: B008 - immutable
    estimate: Callable[[DeviceInfo], RunEstimate] | None = None,
    waits: Waits = Waits(),  # noqa: B008 - immutable
) -> Written:
    """Lock the device, probe it, and write its `records` to a results file, which is `output` or a new one in ./reports; a run
    that was interrupted `earlier` is appended to. Ends the command where the device cannot be used or the file written."""
    from clmembench.host import device_lock
    from clmembench.measure import worker_process
    from clmembench.measure.job import Job
    from clmembench.results import jsonl

    try:
        with waiting.locked(info, waits.lock_s):
            waiting.warn_of_others(info, waits.quiet_s)
            found = worker_process.probed(Job(info.runtime, info), selection.isolated, selection.timeout_s)
            claimed, info = info, replace(info, features=found.features)
            head = earlier.header if earlier else run_header.header(info, selection, cards, names)
            head = replace(head, clock_step_ns=found.quantum_ns, claimed=tuple(sorted(claimed.features)))
            new = default_path(info, head.run_id)
            path = new if output is None else outputs.in_folder(output, new.name)
            writer = jsonl.Writer.going_on(path) if earlier else jsonl.Writer(path, head, overwrite)
            # read again: another run may have appended to it before the lock was ours
            known = jsonl.read(path).records if earlier else ()
            outlook = _outlook(estimate(info) if estimate else None, cards, selection.budget_s, known)
            return Written(path, *_write(writer, records(info, found, known), known, outlook))
    except device_lock.HeldError as error:
        exit_codes.stop(str(error), exit_codes.NO_DEVICE)
    except worker_process.WorkerError as error:
        exit_codes.stop(
            f"{info.name} cannot be used: {error}{error.last_words()}{failures.resource_limits()}", exit_codes.NO_DEVICE
        )
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.INTERNAL)
    except KeyboardInterrupt:
        exit_codes.stop("interrupted before anything was measured", exit_codes.INTERRUPTED)


def _outlook(
    estimate: RunEstimate | None, cards: Mapping[str, BenchmarkInfo], budget_s: float | None, known: Sequence[Record]
) -> ProgressEstimate:
    """What is to be expected of a run; nothing without an estimate."""
    groups = {name: card.peer_of for name, card in cards.items() if card.peer_of}
    return ProgressEstimate(estimate.benchmarks if estimate else (), groups, budget_s, known)


def _write(writer: object, records: Iterator[Record], known: Sequence[Record], outlook: ProgressEstimate) -> tuple[int, bool]:
    """Write records as they come: the number of bad ones, known ones included, and whether Ctrl-C ended it early."""
    from clmembench.results.jsonl import Writer

    assert isinstance(writer, Writer)
    bad, interrupted = sum(is_bad(record) for record in known), False
    with writer, progress(outlook) as shown:
        try:
            for record in records:
                writer.write(record)
                shown.show(record)
                bad += is_bad(record)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            records.close()  # type: ignore[attr-defined]
    if text := conclusion(outlook, interrupted):
        exit_codes.say(text)
    return bad, interrupted


def is_bad(record: Record) -> bool:
    """Whether a record makes the command exit with FAILED. A failed trial of a search does not, but a wrong one does: the
    device computes wrongly. A failed or wrong peer is no fault of the device, and its record says so."""
    from clmembench.benchmarks import discovered

    known = discovered().get(record.benchmark)
    if known is not None and known.peer_of is not None:
        return False
    return record.status in BAD and (record.role == "measure" or record.status == "wrong")


def read_back(path: Path) -> Run:
    """The results file that was just written, read like any other. Ends the command where it is gone."""
    from clmembench.results import jsonl

    try:
        return jsonl.read(path)
    except jsonl.ResultsError as error:
        exit_codes.stop(f"{error}: it was there when the run began", exit_codes.INTERNAL)


def default_path(info: DeviceInfo, run_id: str) -> Path:
    """The default results file of a run, named after its day, its device and the end of its id."""
    return Path("reports") / f"{datetime.now(UTC):%Y%m%d}-{slug(info.name)}-{run_id[-8:].lower()}.jsonl"


def slug(name: str) -> str:
    """A device's name as part of a file's."""
    kept = "".join(c.lower() if c.isalnum() and c.isascii() else "-" for c in name)
    return "-".join(part for part in kept.split("-") if part)[:40] or "device"
