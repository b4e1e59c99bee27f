"""The header of a results file: what is measured, on which device and host, with which tool; the user's label and tags."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clmembench import __version__
from clmembench.cli import exit_codes

if TYPE_CHECKING:
    from clmembench.model import BenchmarkInfo, DeviceInfo, Header, Value
    from clmembench.plan.selection import Selection

MAX_TAG_LETTERS = 200  # of a tag's name or value, and of a label: they are headings


class RunNames(NamedTuple):
    """What the user calls a run: a label for its device, and tags."""

    label: str = ""
    tags: Mapping[str, str] = {}


def parse(label: str | None, tags: Sequence[str] | None) -> RunNames:
    """The names of `--label` and `--tag`. Raises ValueError for what is no KEY=VALUE, one key twice, and long ones."""
    found: dict[str, str] = {}
    for text in tags or ():
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"--tag {text!r}: write key=value, such as cooling=water")
        if found.setdefault(key, value) != value:
            raise ValueError(f"--tag {key}: two values, {found[key]!r} and {value!r}: name one")
    for text in (label or "", *found, *found.values()):
        if len(text) > MAX_TAG_LETTERS:
            raise ValueError(f"--label and --tag have at most {MAX_TAG_LETTERS} letters, and {text[:20]!r}... has {len(text)}")
    return RunNames((label or "").strip(), found)


def header(
    info: DeviceInfo,
    selection: Selection,
    cards: Mapping[str, BenchmarkInfo],
    names: RunNames = RunNames(),  # noqa: B008 - immutable
) -> Header:
    """The header of a results file: what is measured, on which device and host, with which tool."""
    from ulid import ULID

    from clmembench.host import environment, sensors
    from clmembench.model import Header
    from clmembench.results import jsonl, whole_file

    return Header(
        schema=jsonl.SCHEMA,
        tool_version=__version__,
        run_id=str(ULID()),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        argv=tuple(sys.argv[1:]),
        suite=selection.suite,
        seed=selection.seed,
        runtime=info.runtime,
        device=info,
        features=tuple(sorted(info.features)),
        host=environment.host(),
        benchmarks=cards,
        packages=environment.packages(),
        environment=environment.variables(),
        sensors=sensors.read(info),
        axes=selection.axes,
        processes=selection.processes,
        isolated=selection.isolated,
        budget_s=selection.budget_s,
        timeout_s=selection.timeout_s,
        benchmark_s=selection.benchmark_s,
        tuning=selection.tuning,
        source_revision=whole_file.hash_sources(),
        inputs={**_inputs(selection.axes), **_own_files(cards)},
        label=names.label,
        tags=names.tags,
    )


def _inputs(axes: Mapping[str, Sequence[Value]]) -> Mapping[str, str]:
    """Hashes of the files among the values of axes, by name, since a file of that name may change. Ends the command where one
    cannot be read."""
    from clmembench.benchmarks.spmv import matrix_market
    from clmembench.results import whole_file

    try:
        files = [
            value for values in axes.values() for value in values if isinstance(value, str) and matrix_market.is_file(value)
        ]
        return {name: whole_file.hash_file(Path(name)) for name in files}
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    except OSError as error:
        exit_codes.stop(f"cannot read {error.filename}: {error.strerror}", exit_codes.USAGE)


def _own_files(names: Iterable[str]) -> Mapping[str, str]:
    """Hashes of the files of benchmarks that the user wrote, by name, since they may change."""
    from clmembench.benchmarks.plugins import external
    from clmembench.results import whole_file

    try:
        return {f"{path.parent.name}/{path.name}": whole_file.hash_file(path) for path in external.files_of(names)}
    except OSError as error:
        exit_codes.stop(f"cannot read {error.filename}: {error.strerror}", exit_codes.USAGE)
