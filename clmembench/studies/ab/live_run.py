"""One run of `compare --live`: lock the devices, measure both sides, write every record, and print the outcome."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clmembench.cli import exit_codes, outputs
from clmembench.cli.running import run_header, session
from clmembench.cli.running.progress import progress
from clmembench.cli.stored_runs import load, sheet_of

if TYPE_CHECKING:
    from clmembench.measure.worker_process import Start
    from clmembench.model import Benchmark, DeviceInfo, Header, Value
    from clmembench.plan.selection import Selection
    from clmembench.results.jsonl import Writer
    from clmembench.studies.ab.ab_case import Case
    from clmembench.studies.ab.ab_decision import Outcome
    from clmembench.studies.ab.ab_outcome import LiveComparison
    from clmembench.studies.ab.ab_rounds import ABSide


class RequestedSide(NamedTuple):
    """A side as the options request it: how its worker starts, its device, its description, the axis values that differ from A,
    and its installation."""

    start: Start
    info: DeviceInfo
    words: str
    changes: dict[str, Value]
    version: str
    packages: dict[str, str]

    def with_arrays(self, array_bytes: int) -> RequestedSide:
        """The side with arrays of that size where a benchmark's default depends on the device."""
        return self._replace(info=replace(self.info, array_bytes=array_bytes))


class LiveRun:
    """One interleaved A/B measurement: its points, its files and its outcome."""

    def __init__(
        self,
        wanted: tuple[RequestedSide, RequestedSide],
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
        """Lock the devices and measure; True if Ctrl-C ended it. Ends the command if nothing can be measured or written."""
        from clmembench.host import device_lock
        from clmembench.results import jsonl
        from clmembench.studies.ab import ab_rounds

        try:
            with ExitStack() as stack:
                without = stack.enter_context(device_lock.held(*(wanted.info for wanted in self._wanted)))
                if without:
                    exit_codes.say(f"warning: {without}")
                sides = self._probed("A"), self._probed("B")
                writers = [
                    stack.enter_context(jsonl.Writer(path, self._header(side, wanted), self._overwrite))
                    for path, side, wanted in zip(self._files, sides, self._wanted, strict=True)
                ]
                shown = stack.enter_context(progress())
                try:
                    self._fill(sides, writers, shown)
                except KeyboardInterrupt:
                    return True
                finally:
                    ab_rounds.conclude(self._cases, self._margin)
        except device_lock.HeldError as error:
            exit_codes.stop(str(error), exit_codes.NO_DEVICE)
        except jsonl.ResultsError as error:
            exit_codes.stop(str(error), exit_codes.INTERNAL)
        except KeyboardInterrupt:
            exit_codes.stop("interrupted before anything was measured", exit_codes.INTERRUPTED)
        return False

    def _probed(self, name: str) -> ABSide:
        from clmembench.measure import worker_process
        from clmembench.measure.job import Job
        from clmembench.studies.ab.ab_rounds import ABSide

        wanted = self._wanted["AB".index(name)]
        try:
            with worker_process.WorkerProcess(Job(wanted.info.runtime, wanted.info), wanted.start) as child:
                found = child.probe()
        except worker_process.WorkerError as error:
            exit_codes.stop(f"{name}, {wanted.words}, cannot be used: {error}{error.last_words()}", exit_codes.FAILED)
        return ABSide(name, replace(wanted.info, features=found.features), found, wanted.start, wanted.changes)

    def _header(self, side: ABSide, wanted: RequestedSide) -> Header:
        head = run_header.header(side.info, self._selection, session.cards(benchmark.name for benchmark in self._chosen))
        return replace(
            head,
            tool_version=wanted.version,
            packages=wanted.packages,
            environment={**head.environment, **side.start.environment},
            budget_s=self._budget_s,
            clock_step_ns=side.found.quantum_ns,
            claimed=tuple(sorted(wanted.info.features)),
        )

    def _fill(self, sides: tuple[ABSide, ABSide], writers: Sequence[Writer], shown: Any) -> None:
        """Search A's configurations, then measure the rounds; write every record as it comes."""
        from clmembench.plan.budget import Deadline
        from clmembench.studies.ab import ab_rounds

        deadline = Deadline(self._until)
        searched = deadline.share(ab_rounds.SEARCH_BUDGET_FRACTION)
        for benchmark in self._chosen:
            search = ab_rounds.find_cases(benchmark, sides[0], self._selection, searched)
            while True:
                try:
                    record = next(search)
                except StopIteration as end:
                    self._cases += end.value
                    break
                writers[0].write(record)
                shown.show(record)
        rounds = ab_rounds.run_rounds(self._cases, sides, self._selection, self._margin, deadline)
        try:
            for which, record in rounds:
                self._rounds = record.process + 1
                writers[which].write(record)
                shown.show(record)  # the point without its speed: seeing it, a user might stop when it looks good
        finally:
            rounds.close()  # type: ignore[attr-defined]

    def outcomes(self) -> list[Outcome]:
        """The outcome of every value, from the two files, as a reader of these files derives it."""
        from clmembench.gates.whole import judged_run
        from clmembench.resources import KERNELS_VARIABLE
        from clmembench.studies.ab.ab_outcome import outcomes

        stored = [load(path) for path in self._files]
        a, b = (judged_run(run, sheet_of(run)) for run in stored)
        overlaid = any(KERNELS_VARIABLE in wanted.start.environment for wanted in self._wanted)
        return outcomes(self._cases, (a, b), self._wanted[1].changes, overlaid)

    def comparison(self, values: Sequence[Outcome], seconds: float, layer: Sequence[str] | None = None) -> LiveComparison:
        """The settings and values of the run, with sentences on a layer if it compared two runtimes."""
        from clmembench.studies.ab.ab_decision import MAX_ERROR_PROBABILITY
        from clmembench.studies.ab.ab_outcome import LayerComparison, LiveComparison

        words, files = [wanted.words for wanted in self._wanted], [str(path) for path in self._files]
        settings = (words, self._margin, MAX_ERROR_PROBABILITY, self._selection.seed, files, self._rounds, round(seconds, 1))
        return LiveComparison(*settings, values) if layer is None else LayerComparison(*settings, values, layer)


def end(found: LiveComparison, interrupted: bool, as_json: bool) -> None:
    """Print the outcome, and end with its exit code."""
    from clmembench.report import render
    from clmembench.studies.ab import ab_outcome

    outcomes = found.values
    try:
        print(render.json_text(found) if as_json else ab_outcome.comparison_text(found, outputs.width()), flush=True)
    except BrokenPipeError:  # a script may read the exit code only
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    count = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in ab_outcome.ORDER}
    if interrupted:
        exit_codes.stop("interrupted: the results files hold every record up to here", exit_codes.INTERRUPTED)
    if not outcomes:
        exit_codes.stop("nothing to measure: no benchmark has a point with all these values; see describe", exit_codes.USAGE)
    if count["failed"]:
        first = next(o.reason for o in outcomes if o.verdict == "failed")
        exit_codes.stop(f"{count['failed']} of {len(outcomes)} values have no verdict: {first}", exit_codes.FAILED)
    if count["slower"]:
        exit_codes.stop(f"{count['slower']} of {len(outcomes)} values are slower in B", exit_codes.REGRESSION)
    if count["undecided"]:
        exit_codes.stop(
            f"{count['undecided']} of {len(outcomes)} values are undecided: raise --budget", exit_codes.INCONCLUSIVE
        )
