"""Many runs in one report: what each says in short, how a device's runs are spread, and which of them stand apart."""

from __future__ import annotations

import math
import os
import signal
import statistics
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from clmembench.host import fresh_interpreter
from clmembench.model import Card, DeviceInfo
from clmembench.report import digest_cache
from clmembench.report.rows import judged_rows, labels, sheet_of
from clmembench.results import jsonl
from clmembench.sanitize import printable
from clmembench.specs import sheets
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_in, format_value

MANY = 12  # runs: so many still have a column each, and plots of their own
SHOWN = 9  # runs that speak for all in figures and summaries
TAIL = 20  # runs from which on the ends of a spread are its 5th and 95th percentile
LEAST, APART, FAR = 5, 0.10, 5.0  # runs that tell what is usual; by how much, and how many deviations, one is off
LISTED = 50  # runs that stand apart
SIGMA = 1.4826  # times the median absolute deviation, of normal numbers


class WorkerError(Exception):
    """A process that read runs is gone; the message says what to do."""


Key = tuple[str, str, str]  # benchmark, parameters, metric


@dataclass(frozen=True, slots=True)
class Digest:
    """What a report of many runs keeps of one: who it is, the versions of the benchmarks that it has values of, how many those
    are, and of every point and metric unit, status and median."""

    path: str
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

    @property
    def group(self) -> tuple[str, str, str, int]:
        """What runs have in common that may be spoken of together: device, its platform and driver, and its size."""
        return self.device.name, self.device.platform, self.device.driver, self.device.compute_units


@dataclass(slots=True)
class Group:
    """The runs of one device; `values` has for each point the good medians, each with the number of its run."""

    label: str
    runs: list[Digest] = field(default_factory=list)
    values: dict[Key, list[tuple[int, float]]] = field(default_factory=dict)
    units: dict[Key, str] = field(default_factory=dict)
    bad: dict[Key, Counter[str]] = field(default_factory=dict)

    def add(self, digest: Digest) -> None:
        """One run more."""
        for key, unit, status, median in digest.values:
            if status == "ok" and median is not None:
                self.values.setdefault(key, []).append((len(self.runs), median))
                self.units[key] = unit
            else:
                self.bad.setdefault(key, Counter())[status] += 1
        self.runs.append(replace(digest, values=()))


def digest(path: Path, strict: bool = False, sheets: Sequence[SpecSheet] | None = None) -> Digest:
    """One run, read, judged and derived, in short. Raises ResultsError and SpecError."""
    run = jsonl.read(path, strict)
    cards = {name: _in_its_unit(card) for name, card in run.header.benchmarks.items()}
    run, table = judged_rows(replace(run, header=replace(run.header, benchmarks=cards)), sheet_of(run, sheets))
    header = run.header
    names = labels(table)
    values = tuple(
        ((row.value.benchmark, name, row.value.metric), row.value.unit, row.status, row.value.median)
        for row, name in zip(table, names, strict=True)
    )
    measured = {row.value.benchmark for row in table}
    versions = {name: card.version for name, card in header.benchmarks.items() if name in measured}
    about = (str(path), header.run_id, header.started, header.suite, header.tool_version, str(header.host.get("cpu") or ""))
    return Digest(*about, header.device, versions, len(values), values, run.notes)


def _in_its_unit(card: Card) -> Card:
    """The card without values in cycles beside those in a metric's unit: a digest has none of them, and they cost as much."""
    return replace(card, metrics=tuple(replace(metric, cycles=False) for metric in card.metrics))


def kept_digest(path: Path, strict: bool, sheets: Sequence[SpecSheet], key: bytes | None) -> Digest:
    """As `digest`, from beside the run where it is kept there. One of a file with bad lines is not: it names them."""
    entry = digest_cache.entry(path, key)
    found: Digest | None = entry.read(Digest) if entry is not None else None
    if found is not None:
        return replace(found, path=str(path))
    made = digest(path, strict, sheets)
    if entry is not None and not made.notes:
        entry.write(made)
    return made


def digests(paths: Sequence[Path], strict: bool, workers: int) -> Iterator[Digest]:
    """Of all runs, in their order, by that many processes; none is held longer than its digest takes. Raises ResultsError and
    SpecError, and WorkerError where such a process was ended from outside."""
    one = partial(kept_digest, strict=strict, sheets=sheets.every(), key=digest_cache.user_key())
    if workers < 2:
        yield from map(one, paths)
        return
    before = set(active_children())
    with fresh_interpreter.inherited():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent)
    try:
        with fresh_interpreter.inherited(), _ctrl_c_held():
            found = pool.map(one, paths, chunksize=4)
        yield from found
    except BaseException as error:  # a worker died, Ctrl-C, or a file that is none: what the others are at is wanted no more
        for worker in set(active_children()) - before:
            worker.kill()
        if isinstance(error, BrokenProcessPool):
            why = "perhaps because the host ran out of memory: report fewer runs at once"
            raise WorkerError(f"a process that read the runs was ended from outside, {why}") from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """While the block runs, Ctrl-C waits, and processes that it starts never get one: it is this one's to handle, and one that
    is still importing would end in a traceback."""
    resource_tracker.ensure_running()  # else it is started with the first worker, and lets Ctrl-C through from there on
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In a worker: end as soon as the process that asked for it does, which else would leave it waiting for ever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def grouped(found: Iterable[Digest]) -> list[Group]:
    """Runs by device, the device with most runs first."""
    groups: dict[tuple[str, str, str, int], Group] = {}
    known: dict[Key, Key] = {}
    for one in found:
        values = tuple((known.setdefault(v[0], v[0]), *v[1:]) for v in one.values)  # what runs share is kept once
        groups.setdefault(one.group, Group(printable(one.device.name))).add(replace(one, values=values))
    ordered = sorted(groups.values(), key=lambda group: -len(group.runs))
    names = Counter(group.label for group in ordered)
    for group in ordered:
        if names[group.label] > 1:
            device = group.runs[0].device
            group.label += f" ({printable(device.driver)}, {count(device.compute_units, 'compute unit')})"
    return ordered


def speakers(groups: Sequence[Group]) -> list[Path]:
    """The runs that speak for all in figures: of each group the latest, and then the latest that has a benchmark which those do
    not have; groups in turn, SHOWN at most."""
    turns = [_covering(group) for group in groups]
    in_turn = chain.from_iterable(zip(*(turn + [None] * (SHOWN - len(turn)) for turn in turns), strict=True))
    return [Path(one.path) for one in in_turn if one is not None][:SHOWN]


def _covering(group: Group) -> list[Digest | None]:
    seen: set[str] = set()
    found: list[Digest | None] = []
    for one in sorted(group.runs, key=lambda run: (run.started, run.run_id), reverse=True):
        if not one.versions.keys() <= seen and len(found) < SHOWN:
            found.append(one)
            seen |= one.versions.keys()
    return found


def as_page(groups: Sequence[Group]) -> dict[str, Any]:
    """What the page's template has of all runs: devices, runs that stand apart, and a row a point of each benchmark."""
    return {
        "runs": sum(len(group.runs) for group in groups),
        "labels": [group.label for group in groups],
        "groups": [_about(group) for group in groups],
        "apart": apart(groups),
        "shown": SHOWN,
    }


def versions(groups: Sequence[Group]) -> dict[str, list[int]]:
    """The versions of each benchmark that runs used."""
    found: dict[str, set[int]] = {}
    for group in groups:
        for run in group.runs:
            for name, version in run.versions.items():
                found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in found.items()}


def _about(group: Group) -> dict[str, str]:
    device, runs = group.runs[0].device, group.runs
    started = sorted(run.started for run in runs)
    return {
        "label": group.label,
        "driver": printable(f"{device.platform} {device.driver}"),
        "units": str(device.compute_units),
        "runs": str(len(runs)),
        "hosts": printable(", ".join(sorted({run.host_cpu for run in runs}))),
        "when": f"{started[0][:10]} to {started[-1][:10]}",
        "suites": printable(", ".join(sorted({run.suite for run in runs}))),
        "versions": printable(", ".join(sorted({run.tool_version for run in runs}))),
    }


def points(groups: Sequence[Group], benchmark: str) -> list[dict[str, Any]]:
    """One line for each point and metric of a benchmark, one cell a group: the median run, and where most runs lie."""
    keys = dict.fromkeys(key for group in groups for key in (*group.values, *group.bad) if key[0] == benchmark)
    return [{"params": key[1], "metric": key[2], "cells": [_cell(group, key) for group in groups]} for key in keys]


def _cell(group: Group, key: Key) -> dict[str, Any]:
    good, bad = group.values.get(key, []), group.bad.get(key, Counter())
    left = ", ".join(f"{count} {status}" for status, count in sorted(bad.items()))
    if not good:
        return {"text": left, "title": "", "bad": any(status != "skipped" for status in bad)}
    values, unit = sorted(value for _, value in good), group.units[key]
    least, most = (min if end else max for end in (True, False))
    ends = [group.runs[end(good, key=lambda pair: pair[1])[0]].run_id for end in (least, most)]
    low, high = (values[0], values[-1]) if len(values) < TAIL else _tails(values)
    text = format_in(statistics.median(values), unit, 4)
    if len(values) > 1:
        text += f" ({format_value(low, 4)} to {format_value(high, 4)} in {len(values)})"
    title = printable(f"least: run {ends[0]}, most: run {ends[1]}" + (f"; {left}" if left else ""))
    return {"text": text + (f", {left}" if left else ""), "title": title, "bad": False}


def _tails(values: Sequence[float]) -> tuple[float, float]:
    cut = round(0.05 * (len(values) - 1))
    return values[cut], values[-1 - cut]


def apart(groups: Sequence[Group]) -> dict[str, Any]:
    """Runs with a value that is off what is usual for their device by over a tenth and five deviations, those with most such
    points first, LISTED of them; and how many more there are."""
    found: list[tuple[int, float, dict[str, str]]] = []
    for group in groups:
        off: dict[int, list[tuple[float, Key, float, float]]] = {}
        for key, good in group.values.items():
            logs = {number: math.log(value) for number, value in good if value > 0}
            if len(logs) < LEAST:
                continue
            middle = statistics.median(logs.values())
            spread = SIGMA * statistics.median(abs(v - middle) for v in logs.values())
            for number, value in logs.items():
                if abs(value - middle) > max(FAR * spread, math.log1p(APART)):
                    off.setdefault(number, []).append((abs(value - middle), key, math.exp(value), math.exp(middle)))
        for number, points_off in off.items():
            far, key, value, usual = max(points_off)
            unit, run = group.units[key], group.runs[number]
            told = f"{key[0]} {key[1]} {key[2]}: {format_in(value, unit)}, usual {format_in(usual, unit)}"
            row = {"run": run.run_id, "file": run.path, "device": group.label,
                   "points": f"{len(points_off)} of {run.count}", "farthest": told}  # fmt: skip
            found.append((len(points_off), far, {name: printable(text) for name, text in row.items()}))
    found.sort(key=lambda entry: entry[:2], reverse=True)
    return {"rows": [row for _, _, row in found[:LISTED]], "more": max(0, len(found) - LISTED)}
