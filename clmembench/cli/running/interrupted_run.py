"""`run --resume FILE`: read an interrupted run, and check that it can be continued here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clmembench.cli import devices, exit_codes
from clmembench.cli.running import session
from clmembench.sanitize import input_problem, open_regular

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo, Header, Run
    from clmembench.plan.selection import Selection

KEPT_IN_THE_FILE = (  # parameters that --resume takes from the file
    "device", "suite", "bench", "axis", "matrix", "processes", "seed", "size", "output", "reference", "stored", "no_tuning",
    "overwrite", "label", "tag", "runtime",
)  # fmt: skip


def refuse_options(context: typer.Context) -> None:
    """Ends the command where options on the command line would contradict the file."""
    given = session.on_command_line(context, KEPT_IN_THE_FILE)
    if given:
        taken = "device, suite, axes, seed, size, tuning, label and tags"
        exit_codes.stop(f"--resume takes {taken} from FILE, and writes to it: leave out {', '.join(given)}", exit_codes.USAGE)


def read(path: Path) -> tuple[DeviceInfo, Selection, Run]:
    """The device as it is now, the selection of the interrupted run, and that run. Ends the command where the file is none, or
    the device is not here."""
    from clmembench.benchmarks import discovered
    from clmembench.model.device_identity import distinction
    from clmembench.plan.selection import Selection
    from clmembench.results import jsonl

    try:
        open_regular(path).close()  # a pipe could be read, but not be continued
        earlier = jsonl.read(path)
    except OSError as error:
        exit_codes.stop(f"cannot resume {path}: {input_problem(error)}", exit_codes.USAGE)
    except jsonl.ResultsError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    then = earlier.header
    listed = devices.listed(f"{then.runtime}:")
    info = _found_again(then.device, listed)
    if info is None:
        unlike = (distinction(then.device, one) for one in listed)
        there, here = next(filter(all, unlike), (then.device.id, ""))
        exit_codes.stop(
            f"{path} was measured on {then.device.name} ({there}), which is not here{f', but one of {here}' if here else ''}: "
            "see devices",
            exit_codes.NO_DEVICE,
        )
    lacking = [name for name in then.benchmarks if name not in discovered()]
    if lacking:
        exit_codes.stop(
            f"{path} has benchmarks that are not here ({', '.join(lacking)}): name their folder with --path, or install them",
            exit_codes.USAGE,
        )
    selection = Selection(
        suite=then.suite,
        globs=tuple(name for name, card in then.benchmarks.items() if not card.peer_of and not _is_adaptive(name)),
        axes=then.axes,
        processes=then.processes,
        seed=then.seed,
        budget_s=then.budget_s,
        timeout_s=then.timeout_s,
        benchmark_s=then.benchmark_s,
        isolated=then.isolated,
        tuning=then.tuning,
        reference=any(card.peer_of for card in then.benchmarks.values()),
    )
    for note in earlier.notes:
        exit_codes.say(note)
    return replace(info, array_bytes=then.device.array_bytes), selection, earlier


def _found_again(then: DeviceInfo, listed: Sequence[DeviceInfo]) -> DeviceInfo | None:
    """The device among those of this host, first by its id and its driver's version; where several may be it, the one at its
    place."""
    from clmembench.model.device_identity import is_same_device, is_same_platform

    same = [info for info in listed if is_same_device(then, info) and is_same_platform(then, info)]
    by_likeness = sorted(same, key=lambda d: (d.id != then.id, d.driver != then.driver, d.selector != then.selector))
    return next(iter(by_likeness), None)


def _is_adaptive(name: str) -> bool:
    """Whether a benchmark has a plan of its own, as those of the memory hierarchy: no selection names it."""
    from clmembench.benchmarks import discovered

    found = discovered().get(name)
    return found is not None and found.adaptive


def check_conditions(earlier: Run, now: Header) -> None:
    """Ends the command where the tool, device, driver, host or environment differs from the run that is resumed."""
    from clmembench.results import jsonl

    found = jsonl.mismatch(earlier.header, now)
    if found is not None:
        what, before, here = found
        exit_codes.stop(
            f"{earlier.path} was measured with another {what}, {before}, not {here}: start a new run", exit_codes.USAGE
        )
    left = jsonl.missing_identity(earlier.header)
    if left:
        exit_codes.say(f"warning: {earlier.path} does not record its {' and '.join(left)}: a change of it cannot be detected")
