"""`run`: measure a device, keep every record, and end in a summary."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from clmembench import __version__, units
from clmembench.cli import devices, exits

if TYPE_CHECKING:
    from clmembench.isolate import Found
    from clmembench.model import DeviceInfo, Header, Record, Run, Value
    from clmembench.selection import Selection

BAD = ("failed", "wrong", "timeout")
ARRAYS = 3  # the most of one size that a benchmark holds


def run(
    device: Annotated[
        str, typer.Option("-d", "--device", help="INDEX, P:D, name~TEXT, uuid:HEX or pci:ADDRESS; see `devices`.")
    ] = "0",
    suite: Annotated[
        str | None, typer.Option("-s", "--suite", help="quick, memory, sync, link, compute or all; see `suites`.")
    ] = None,
    bench: Annotated[list[str] | None, typer.Option("-b", "--bench", help="Only benchmarks matching this glob.")] = None,
    axis: Annotated[
        list[str] | None, typer.Option("-a", "--axis", help="Values of an axis: op=[triad,copy], array_bytes=64MiB.")
    ] = None,
    matrix: Annotated[
        list[Path] | None, typer.Option("--matrix", help="A Matrix Market file for spmv; adds to -a matrix=...")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Time for the whole run, such as 10m; later points are skipped.")] = None,
    timeout: Annotated[str, typer.Option(help="Time for one point before its process is ended.")] = "120s",
    processes: Annotated[int, typer.Option(min=1, max=100, help="Fresh processes for each point.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of the random inputs and orders.")] = 0,
    size: Annotated[str | None, typer.Option(help="Bytes of the largest array, such as 512MiB; else by device.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Results file; default in ./reports.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results file.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in -o, which was cut off; say the rest again.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End in JSON as of `show --json` instead of a summary.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured and end.")] = False,
) -> None:
    """Measure a device: every record is kept as it is made, and the end is a summary for people."""
    from clmembench import plan, specs, topology
    from clmembench.selection import Selection, check_axes, selected

    try:
        selection = Selection(
            suite=suite or ("all" if bench else "quick"),
            globs=tuple(bench or ()),
            axes=_axes(axis or [], matrix or []),
            processes=processes,
            seed=seed,
            budget_s=units.parse_seconds(budget) if budget else None,
            timeout_s=units.parse_seconds(timeout),
        )
        chosen = selected(selection)
        array_bytes = units.parse_bytes(size) if size else None
    except ValueError as error:
        exits.stop(str(error), exits.USAGE)
    info = devices.select(devices.listed(), device)
    if info.kind == "cpu":
        selection = replace(selection, topology=topology.read())
    try:
        info = _sized(info, array_bytes)
        check_axes(chosen, info, selection)
        specs.find(info)  # two sheets that match, or a damaged one, are better known before than after
        if not any(next(plan.explore(benchmark, info, selection), None) for benchmark in chosen):
            raise ValueError("nothing to measure: no benchmark has a point with all these values; see describe")
    except (ValueError, specs.SpecError) as error:
        exits.stop(str(error), exits.USAGE)
    earlier: Run | None = None
    if resume:
        earlier = _earlier(output, info, selection)
        info = earlier.header.device
    elif output is not None and output.is_file() and not overwrite:
        exits.stop(f"{output} exists: choose another -o, or say --overwrite", exits.USAGE)
    if dry_run:
        for benchmark in chosen:
            print(f"{benchmark.name}: {plan.outlook(benchmark, info, selection)}")
        return
    path, bad, interrupted = _kept(info, selection, output, overwrite, earlier)
    _finish(path, as_json)
    if interrupted:
        exits.stop(f"interrupted: {path} holds every record up to here", exits.INTERRUPTED)
    if bad:
        raise typer.Exit(exits.FAILED)


def _sized(info: DeviceInfo, array_bytes: int | None) -> DeviceInfo:
    """The device with the user's --size, if any. Raises ValueError where it cannot hold arrays of that size."""
    if array_bytes is None:
        return info
    size, largest = units.format_bytes(array_bytes), units.format_bytes(info.max_alloc_bytes)
    if array_bytes > info.max_alloc_bytes:
        raise ValueError(f"--size {size} is over this device's largest allocation, {largest}: lower it")
    memory = min(info.global_mem_bytes, info.host_mem_bytes if info.kind == "cpu" else info.global_mem_bytes)
    if ARRAYS * array_bytes > memory:
        raise ValueError(
            f"{ARRAYS} arrays of --size {size} are over this device's memory, {units.format_bytes(memory, 1)}: lower it"
        )
    return replace(info, array_bytes=array_bytes)


def _earlier(output: Path | None, info: DeviceInfo, selection: Selection) -> Run:
    """The run to go on with. Ends with a usage error where there is none, or where it is of something else."""
    from clmembench import results

    if output is None:
        exits.stop("--resume needs -o FILE, the run to go on with", exits.USAGE)
    try:
        earlier = results.read(output)
    except results.ResultsError as error:
        exits.stop(str(error), exits.USAGE)
    found = results.mismatch(earlier.header, _header(info, selection))
    if found is not None:
        what, then, now = found
        said = " ".join(earlier.header.argv)
        exits.stop(f"{output} is of another {what}, {then}, not {now}: it was made by `clmembench {said}`", exits.USAGE)
    return earlier


def _kept(
    info: DeviceInfo, selection: Selection, output: Path | None, overwrite: bool, earlier: Run | None
) -> tuple[Path, int, bool]:
    """Hold the device, probe it and measure it: the results file, the number of bad records, and whether Ctrl-C ended it early.
    Ends the command where the device cannot be had or the file cannot be written."""
    from clmembench import isolate, lock, plan, results

    try:
        with lock.held(info):
            found = plan.probe("opencl", info)
            info = replace(info, features=found.features)
            header = earlier.header if earlier else _header(info, selection)
            day, name = f"{datetime.now(UTC):%Y%m%d}", f"{_slug(info.name)}-{header.run_id[-8:].lower()}"
            path = output or Path("reports") / f"{day}-{name}.jsonl"
            writer = results.Writer.going_on(path) if earlier else results.Writer(path, header, overwrite)
            known = results.read(path).records if earlier else ()  # again: until the lock was ours another run may have gone on
            return path, *_measure(writer, info, found, selection, known)
    except lock.HeldError as error:
        exits.stop(str(error), exits.NO_DEVICE)
    except isolate.ChildError as error:
        said = f"; it last said: {error.log.strip().splitlines()[-1]}" if error.log.strip() else ""
        exits.stop(f"{info.name} cannot be used: {error}{said}", exits.NO_DEVICE)
    except results.ResultsError as error:
        exits.stop(str(error), exits.INTERNAL)
    except KeyboardInterrupt:
        exits.stop("interrupted before anything was measured", exits.INTERRUPTED)


def _measure(writer: object, info: DeviceInfo, found: Found, selection: Selection, known: Sequence[Record]) -> tuple[int, bool]:
    """Number of bad records, those known before among them, and whether Ctrl-C ended it early."""
    from clmembench import plan
    from clmembench.results import Writer

    assert isinstance(writer, Writer)
    bad = sum(_is_bad(record) for record in known)
    with writer, _progress() as progress:
        records = plan.drive("opencl", info, found, selection, known)
        try:
            for record in records:
                writer.write(record)
                progress.show(record)
                bad += _is_bad(record)
        except KeyboardInterrupt:
            return bad, True
        finally:
            records.close()  # type: ignore[attr-defined]
    return bad, False


def _is_bad(record: Record) -> bool:
    """A trial that fails costs nothing, but one that is wrong shows a device that computes wrongly."""
    return record.status in BAD and (record.role == "measure" or record.status == "wrong")


def _finish(path: Path, as_json: bool) -> None:
    """Read the file back, as anybody else would, and print what it says."""
    from clmembench import results
    from clmembench.report import rows, text

    try:
        stored = results.read(path)
    except results.ResultsError as error:
        exits.stop(f"{error}: it was there when the run began", exits.INTERNAL)
    sheet = rows.sheet_of(stored)
    table = rows.rows(stored, sheet)
    if as_json:
        print(rows.to_json(table))
    else:
        print(text.as_text(stored, table, sheet, bold=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
        print(f"Results: {path}\nMore: clmembench show {path} --md; clmembench report {path} -o report.html")


def _header(info: DeviceInfo, selection: Selection) -> Header:
    from ulid import ULID

    from clmembench import environment, plan, results
    from clmembench.model import Header
    from clmembench.selection import selected

    return Header(
        schema=results.SCHEMA,
        tool_version=__version__,
        run_id=str(ULID()),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        argv=tuple(sys.argv[1:]),
        suite=selection.suite,
        seed=selection.seed,
        runtime="opencl",
        device=info,
        features=tuple(sorted(info.features)),
        host=environment.host(),
        benchmarks={b.name: plan.card(b) for b in selected(selection)},
        packages=environment.packages(),
        environment=environment.variables(),
        sensors=environment.sensors(info),
        axes=selection.axes,
        processes=selection.processes,
    )


def _axes(given: list[str], matrices: list[Path]) -> Mapping[str, tuple[Value, ...]]:
    """name=value or name=[value,value], and files as values of axis matrix. Raises ValueError for anything else."""
    axes: dict[str, tuple[Value, ...]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        values = values.strip().removeprefix("[").removesuffix("]")
        if not equals or not name.strip() or not values.strip():
            raise ValueError(f"-a {text!r}: write name=value or name=[value,value]")
        axes[name.strip()] = tuple(_value(name.strip(), part.strip().strip("\"'")) for part in values.split(","))
    if matrices:
        axes["matrix"] = (*axes.get("matrix", ()), *map(str, matrices))
    return axes


def _value(name: str, text: str) -> Value:
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if name.endswith("_bytes") and text[:1].isdigit():
        return units.parse_bytes(text)
    return text


def _slug(name: str) -> str:
    kept = "".join(c.lower() if c.isalnum() and c.isascii() else "-" for c in name)
    return "-".join(part for part in kept.split("-") if part)[:40] or "device"


class _Progress(Protocol):
    def show(self, record: Record) -> None: ...


class _Lines:
    """One plain line a benchmark, when it is done."""

    def __init__(self) -> None:
        self._name, self._count, self._since = "", 0, time.monotonic()

    def show(self, record: Record) -> None:
        if record.benchmark != self._name:
            self.close()
            self._name, self._count, self._since = record.benchmark, 0, time.monotonic() - record.seconds
        self._count += 1

    def close(self) -> None:
        if self._name:
            points = "1 point" if self._count == 1 else f"{self._count} points"
            with suppress(OSError):  # nobody reads it any more: no reason to end the run
                print(f"{self._name}: {points}, {time.monotonic() - self._since:.1f} s", file=sys.stderr, flush=True)


class _Live:
    """A line that says what is being measured, and the same plain lines above it."""

    def __init__(self, status: object) -> None:
        self._status, self._lines = status, _Lines()

    def show(self, record: Record) -> None:
        self._lines.show(record)
        text = f"{record.benchmark} {units.format_params(dict(record.params))}: {record.status}"
        self._status.update(text)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._lines.close()


@contextmanager
def _progress() -> Iterator[_Progress]:
    """Progress on standard error: live on a terminal, plain lines elsewhere."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console

        with Console(stderr=True).status("probing the device") as status:
            live = _Live(status)
            yield live
            live.close()
    else:
        lines = _Lines()
        yield lines
        lines.close()
