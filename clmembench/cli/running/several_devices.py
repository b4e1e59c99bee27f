"""`run -d all`, `-d gpu` and `-d cpu`: one run and one results file for each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from clmembench.cli import devices, exit_codes, outputs
from clmembench.cli.running import run_request, session
from clmembench.sanitize import argument
from clmembench.units import count

if TYPE_CHECKING:
    from clmembench.cli.running.run_request import PlannedRun, Request
    from clmembench.model import DeviceInfo

KINDS = ("all", "gpu", "cpu", "accelerator")  # what names several devices


class Target(NamedTuple):
    """A device to measure, and the file for it, None for a new one in ./reports."""

    planned: PlannedRun
    output: Path | None


def select(found: Sequence[DeviceInfo], text: str) -> list[DeviceInfo]:
    """All devices, or those of a kind, or the one that is named. Ends the command where there is none."""
    kind = devices.without_runtime(text)
    if kind not in KINDS:
        return [devices.select(found, text)]
    hits = [info for info in found if kind in ("all", info.kind)]
    if not hits:
        known = "; ".join(f"{i} {info.name} ({info.kind})" for i, info in enumerate(found))
        exit_codes.stop(f"--device {text}: there is none here. Devices: {known}", exit_codes.NO_DEVICE)
    return hits


def plan(asked: Request, found: Sequence[DeviceInfo]) -> list[PlannedRun]:
    """The run of each device; a device that has nothing to measure is left out with a message. Ends the command where none
    has."""
    if len(found) == 1:
        with run_request.usage_errors():
            return [asked.plan(found[0])]
    planned: list[PlannedRun] = []
    for info in found:
        try:
            with run_request.usage_errors():
                planned.append(asked.plan(info))
        except typer.Exit:
            exit_codes.say(f"left out: {info.name}")
    if not planned:
        exit_codes.stop("none of these devices can be measured so", exit_codes.USAGE)
    return planned


def targets(planned: Sequence[PlannedRun], output: Path | None, overwrite: bool) -> list[Target]:
    """Each run with its file. Ends the command where a file cannot be made, or one is named for several devices."""
    if len(planned) == 1 or output is None:
        session.check_output(output, overwrite)
        return [Target(one, output) for one in planned]
    if output.suffix or output.is_file():
        from clmembench.results import run_files

        stem, _ = run_files.split_suffix(output)
        folder = stem if stem != output else output.with_suffix("")
        exit_codes.stop(
            f"{len(planned)} devices have a file each: name a folder for them with -o, such as -o {folder}", exit_codes.USAGE
        )
    names = Counter(session.slug(one.info.name) for one in planned)
    found = []
    for number, one in enumerate(planned):
        name = session.slug(one.info.name)
        path = output / f"{name}{f'-{number}' if names[name] > 1 else ''}.jsonl"
        if not number or output.is_dir():  # a folder that is not there yet is announced once
            outputs.check(path, overwrite)
        found.append(Target(one, path))
    return found


def run_each(wanted: Sequence[Target], run_one: Callable[[Target], Path]) -> list[Path]:
    """Measure one device after the other: their files. A device that cannot be used does not keep the others from being
    measured. Ends the command after Ctrl-C, saying what is there and how to go on; and after the last device with the code of
    the first that did not end well."""
    finished: list[Path] = []
    codes: list[int] = []
    for number, target in enumerate(wanted):
        exit_codes.say(f"device {number + 1} of {len(wanted)}: {target.planned.info.name}")
        try:
            finished.append(run_one(target))
        except typer.Exit as ended:
            codes.append(ended.exit_code)
        except KeyboardInterrupt:
            codes.append(exit_codes.INTERRUPTED)
        if codes and codes[-1] == exit_codes.INTERRUPTED:
            _say_what_is_left(finished, [one.planned.info for one in wanted[number + 1 :]])
            raise typer.Exit(exit_codes.INTERRUPTED)
    if finished:
        names = " ".join(map(argument, finished))
        print(f"Results of {count(len(finished), 'device')}: {names}\nMore: clmembench report {names} -o report.html")
    if codes:
        raise typer.Exit(codes[0])
    return finished


def _say_what_is_left(finished: Sequence[Path], left: Sequence[DeviceInfo]) -> None:
    if finished:
        exit_codes.say(f"complete: {', '.join(map(str, finished))}")
    for info in left:
        exit_codes.say(f"not begun: {info.name}: clmembench run -d {f'uuid:{info.uuid}' if info.uuid else info.selector}")
