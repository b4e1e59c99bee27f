"""Digests of runs for a report over many of them, computed by several processes."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from clmembench.benchmarks import discovered
from clmembench.host import processes
from clmembench.model import BenchmarkInfo, DeviceInfo
from clmembench.report.device_runs import device_label
from clmembench.report.frame import LabelledRun, judged_rows, sheet_of
from clmembench.report.scorecard.headline_cells import headline_cell
from clmembench.report.scorecard_cells import ScorecardCell
from clmembench.report.views import point_labels
from clmembench.results import jsonl


class ReaderError(Exception):
    """A process that read runs is gone; the message says what to do."""


Key = tuple[str, str, str]  # benchmark, parameters, metric


@dataclass(frozen=True, slots=True)
class Digest:
    """Digest of one run in a report over many: its identity, `label` its device's name, the versions of the benchmarks that it
    has values of, how many those are, of every point and metric unit, status and median, and the cells of its headlines by
    their names."""

    path: str
    label: str
    run_id: str
    started: str
    suite: str
    tool_version: str
    host_cpu: str
    device: DeviceInfo
    versions: Mapping[str, int]
    count: int
    values: tuple[tuple[Key, str, str, float | None], ...]
    notes: tuple[str, ...]
    headlines: Mapping[str, ScorecardCell]


def digest(path: Path, strict: bool = False) -> Digest:
    """One run, read, judged and derived, in short. Raises ResultsError and SpecError."""
    run = jsonl.read(path, strict)
    cards = {name: _in_its_unit(card) for name, card in run.header.benchmarks.items()}
    sheet = sheet_of(run)
    run, table = judged_rows(replace(run, header=replace(run.header, benchmarks=cards)), sheet)
    header = run.header
    names = point_labels(table)
    values = tuple(
        ((row.value.benchmark, name, row.value.metric), row.value.unit, row.status, row.value.median)
        for row, name in zip(table, names, strict=True)
    )
    measured = {row.value.benchmark for row in table}
    versions = {name: card.version for name, card in header.benchmarks.items() if name in measured}
    about = (header.run_id, header.started, header.suite, header.tool_version, str(header.host.get("cpu") or ""))
    headlines = _headlines(LabelledRun("", run, sheet, tuple(table)))
    return Digest(str(path), device_label(header), *about, header.device, versions, len(values), values, run.notes, headlines)


def _headlines(part: LabelledRun) -> dict[str, ScorecardCell]:
    """The cells of the headlines that a run has points of."""
    cells = {
        headline.name: headline_cell(part, benchmark.name, headline)
        for benchmark in discovered().values()
        if benchmark.name in part.run.header.benchmarks
        for headline in benchmark.headlines
    }
    return {name: cell for name, cell in cells.items() if cell.status != "missing"}


def _in_its_unit(card: BenchmarkInfo) -> BenchmarkInfo:
    """The card without values in cycles: a digest has none, and deriving them would double its time."""
    return replace(card, metrics=tuple(replace(metric, cycles=False) for metric in card.metrics))


AT_ONCE = 4  # runs that a process is given at once
ENDED = "a process that read the runs was ended from outside, perhaps for lack of memory: report fewer runs at once"


def digests(paths: Sequence[Path], strict: bool, workers: int) -> Iterator[Digest]:
    """Digests of all runs, in their order, by that many processes; no run is held longer than its digest takes. Raises
    ResultsError and SpecError, and WorkerError where such a process was ended from outside."""
    # small: what does not fit into a pipe at once keeps a process that is interrupted from ending (CPython gh-94777)
    one = partial(digest, strict=strict)
    if workers < 2:
        yield from map(one, paths)
        return
    before = set(active_children())
    pool = None
    try:
        try:
            with processes.inherited_environment(), _ctrl_c_held():
                pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker)
                shares = [paths[first : first + AT_ONCE] for first in range(0, len(paths), AT_ONCE)]
                found = _in_order(deque(pool.submit(_each, one, share) for share in shares))
        except BrokenProcessPool:
            raise
        except (OSError, RuntimeError):  # no /dev/shm to write to, or no more files, processes or threads
            _kill_new(before)
            found = map(one, paths)
        yield from found
    except BaseException as error:  # a worker died, Ctrl-C, or an invalid file: the results of the other workers are not needed
        _kill_new(before)  # the pool's thread sees this and ends; it fails on answers that were cancelled
        if isinstance(error, BrokenProcessPool):
            raise ReaderError(ENDED) from error
        raise
    finally:
        if pool is not None:
            pool.shutdown()  # waits for the pool's thread: the interpreter's end would race with it


def _each(one: Callable[[Path], Digest], paths: Sequence[Path]) -> list[Digest]:
    return list(map(one, paths))


def _in_order(answers: deque[Future[list[Digest]]]) -> Iterator[Digest]:
    """All answers; unlike the pool's own `map` it cancels none, which its thread does not expect where a worker has died."""
    while answers:
        yield from answers.popleft().result()


def _kill_new(before: Set[BaseProcess]) -> None:
    """End the processes that were started since."""
    ended = set(active_children()) - before
    for worker in ended:
        worker.kill()
    for worker in ended:
        worker.join()


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """While the block runs, Ctrl-C waits, and processes that it starts never get one: it is this one's to handle, and one that
    is still importing would end in a traceback."""
    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers, and alone gets a Ctrl-C
        yield
        return
    resource_tracker.ensure_running()  # else it is started with the first worker, and lets Ctrl-C through from there on
    noted: list[int] = []  # by a handler too, as a library's threads do not block what this thread does
    handler = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if noted and callable(handler):
            handler(signal.SIGINT, None)


def _start_worker() -> None:
    """In a worker: end as soon as the process that asked for it does, which else would leave it waiting for ever. Runs are
    large and hold no cycles: they are searched for some seldom."""
    gc.set_threshold(200_000, 50, 50)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
